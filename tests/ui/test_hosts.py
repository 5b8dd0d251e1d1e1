"""Which `Host` headers are answered; the browser tests ask the server itself."""

import pytest

from ui.hosts import allowed

NAMES = ["localhost", "::1", "192.168.1.5", "*.school.example"]


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8501", "LocalHost.:1", "[::1]:85", "192.168.1.5", "a.school.example"],
)
def test_names_that_were_given_are_answered(host: str) -> None:
    assert allowed(host, NAMES)


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "localhost.evil.example", "evil.example:localhost", "localhost@evil.org",
     "school.example", "evilschool.example", "[::2]", "localhost/", "localhost:99999999"],
)  # fmt: skip
def test_others_are_not(host: str) -> None:
    assert not allowed(host, NAMES)


def test_everybody_is_answered_where_that_was_asked_for() -> None:
    assert allowed("evil.example", ["*"]) and allowed("evil.example", [])
    assert not allowed("a b", ["*"]), "that is no name"

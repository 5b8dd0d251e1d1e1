"""The bounded store of files by digest."""

import hashlib
import os
from pathlib import Path

import pytest

from ui.store import Store


def test_content_is_found_again_under_its_digest(tmp_path: Path) -> None:
    store = Store(tmp_path / "s", 1000)
    digest = store.put(b"model")
    assert digest == hashlib.sha256(b"model").hexdigest()
    path = store.path(digest)
    assert path is not None and path.read_bytes() == b"model"
    assert store.put(b"model") == digest
    assert [p.name for p in (tmp_path / "s").iterdir()] == [digest]


@pytest.mark.parametrize("name", ["", "../secret", "a" * 63, "A" * 64, "a" * 64 + "\n"])
def test_a_name_that_is_no_digest_is_no_path(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    assert Store(tmp_path / "s", 1000).path(name) is None


def test_the_file_used_least_recently_goes_first(tmp_path: Path) -> None:
    store = Store(tmp_path / "s", 250)
    old, used = store.put(b"a" * 100), store.put(b"b" * 100)
    for digest, seconds in ((old, 1000), (used, 2000)):
        os.utime(store.folder / digest, (seconds, seconds))
    assert store.path(old) is not None, "looking at it makes it the most recently used one"
    new = store.put(b"c" * 100)
    assert store.path(used) is None
    assert store.path(old) is not None and store.path(new) is not None


def test_what_was_just_put_stays_even_above_the_limit(tmp_path: Path) -> None:
    store = Store(tmp_path / "s", 10)
    digest = store.put(b"x" * 100)
    assert store.path(digest) is not None

"""Every golden text: the pass turns the text before into the text after, and its events replay."""

import pytest

from tests.passes.goldens import Case, cases, run_case


@pytest.mark.parametrize("case", cases(), ids=lambda c: f"{c.file}: {c.title}")
def test_golden(case: Case) -> None:
    after, _, _ = run_case(case)
    assert after == case.after

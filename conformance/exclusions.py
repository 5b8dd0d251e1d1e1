"""Which tests are left out, by what error, and why: rows of data.

A row excuses one error of some tests. What it says is looked at in every run: a test that fails
otherwise has failed, and a row that excuses nothing any more is reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Exclusion:
    """`tests` and `error` are regular expressions: for the whole `kind/name`, and for the
    beginning of `Error: text`."""

    tests: str
    error: str
    reason: str

    def excuses(self, name: str, error: str) -> bool:
        matches = re.fullmatch(self.tests, name), re.match(self.error, error, re.DOTALL)
        return all(m is not None for m in matches)


EXCLUSIONS: tuple[Exclusion, ...] = ()

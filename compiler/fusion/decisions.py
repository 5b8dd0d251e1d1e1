"""Decisions: every attempt to merge two groups, with the rule that settled it."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.ir.dims import Dim
from compiler.ir.edits import Parameters

MERGED, REFUSED = "merged", "refused"
ASSUMED = 4
"""What the cost model takes for a dimension of which nobody says how long it is."""


@dataclass(frozen=True)
class Decision:
    """`a` and `b` name the groups by their last value; `tier` is how they would merge.

    `verdict` is `merged` or `refused`; `rule` the first that failed (`R1`…`R8`, `gain`, `forbid`)
    or, for a merge, what carried it (`gain`, `force`, `origin`). Bytes are floors before and
    after, as polynomials, None where an array's type is not known; `gain` in seconds at the sizes
    assumed by the cost model (an estimate).
    """

    a: str
    b: str
    tier: str
    verdict: str
    rule: str
    message: str
    parameters: Parameters
    bytes_before: Dim | None
    bytes_after: Dim | None
    gain: float

"""How far outputs are from the float64 reference.

    max_abs = max |a - r|        max_rel = max |a - r| / |r| over r != 0
    norm_rel = |a - r| / |r|  (Euclidean)       share_above = share of |a - r| > atol + rtol |r|

NaN equals NaN and an infinity equals itself; anything else against them is an infinite error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from compiler.ir.types import Array
from compiler.trace import Json

RTOL, ATOL = 1e-4, 1e-5


@dataclass(frozen=True)
class Accuracy:
    """The worst over all outputs."""

    max_abs: float
    max_rel: float
    norm_rel: float
    share_above: float
    allclose: bool

    def to_json(self) -> dict[str, Json]:
        def number(x: float) -> float | None:
            return x if math.isfinite(x) else None

        return {
            "max_abs": number(self.max_abs),
            "max_rel": number(self.max_rel),
            "norm_rel": number(self.norm_rel),
            "share_above": self.share_above,
            "allclose": self.allclose,
            "rtol": RTOL,
            "atol": ATOL,
        }


def compare(actual: Array, wanted: Array) -> Accuracy:
    """One output against its reference of the same shape. ValueError for another shape."""
    if actual.shape != wanted.shape:
        raise ValueError(f"shape {actual.shape} against {wanted.shape}")
    if actual.size == 0:
        return Accuracy(0.0, 0.0, 0.0, 0.0, True)
    a, r = np.asarray(actual).astype(np.float64), np.asarray(wanted).astype(np.float64)
    with np.errstate(all="ignore"):
        same = (a == r) | (np.isnan(a) & np.isnan(r))
        broken = ~same & ~(np.isfinite(a) & np.isfinite(r))
        error = np.where(same, 0.0, np.where(broken, math.inf, np.abs(a - r)))
        size = np.where(np.isfinite(r), np.abs(r), 0.0)
        relative = np.where(same, 0.0, error / np.where(size > 0, size, np.nan))
        norm = float(np.sqrt(np.sum(size * size)))
        distance = float(np.sqrt(np.sum(error * error)))
        above = error > ATOL + RTOL * size
    known = relative[~np.isnan(relative)]
    return Accuracy(
        max_abs=float(error.max()),
        max_rel=float(known.max()) if known.size else 0.0,
        norm_rel=distance / norm if norm else distance,
        share_above=float(above.mean()),
        allclose=not bool(above.any()),
    )


def compare_all(actual: Mapping[str, Array], wanted: Mapping[str, Array]) -> Accuracy:
    """The worst over outputs; KeyError for an output without a reference."""
    found = [compare(actual[name], wanted[name]) for name in actual]
    if not found:
        return Accuracy(0.0, 0.0, 0.0, 0.0, True)
    return Accuracy(
        max(f.max_abs for f in found),
        max(f.max_rel for f in found),
        max(f.norm_rel for f in found),
        max(f.share_above for f in found),
        all(f.allclose for f in found),
    )

"""The table of ONNX operators: every family, named here and nowhere else."""

from __future__ import annotations

from . import (
    activation,
    cast,
    comparison,
    convolution,
    elementwise,
    indexing,
    linear,
    movement,
    normalization,
    reduction,
    shape,
)
from .base import Operator

FAMILIES: tuple[tuple[Operator, ...], ...] = (
    elementwise.OPERATORS,
    activation.OPERATORS,
    comparison.OPERATORS,
    cast.OPERATORS,
    shape.OPERATORS,
    indexing.OPERATORS,
    movement.OPERATORS,
    reduction.OPERATORS,
    linear.OPERATORS,
    convolution.OPERATORS,
    normalization.OPERATORS,
)

OPERATORS: tuple[Operator, ...] = tuple(row for family in FAMILIES for row in family)

_BY_NAME = {(row.domain, row.name): row for row in OPERATORS}


def find(domain: str, op: str) -> Operator | None:
    """The row of an operator; `""` and `"ai.onnx"` are the same domain. None: unknown here."""
    return _BY_NAME.get(("" if domain == "ai.onnx" else domain, op))

"""Comparisons, logic and `Where`: library steps so far, known where shape arithmetic uses them.

    Where(c, x, y)[i] = x[i] if c[i] else y[i]
"""

from __future__ import annotations

from compiler.ir.dims import ONE, ZERO, Dim
from compiler.ir.shapes import broadcast
from compiler.ir.types import DType, TensorType

from .base import NodeView, Operator
from .rules import at_most, broadcast_flag, elementwise, equal, flag, same_type


def _equal(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    return flag(equal(xs[0], xs[1]))


def _less(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    return flag(at_most(xs[0] + 1, xs[1]))


def _less_or_equal(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    return flag(at_most(xs[0], xs[1]))


def _greater(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    return flag(at_most(xs[1] + 1, xs[0]))


def _greater_or_equal(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    return flag(at_most(xs[1], xs[0]))


def _not(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    return ONE - xs[0]


def _and(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    return xs[0] * xs[1]


def _or(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    return xs[0] + xs[1] - xs[0] * xs[1]


def where_type(v: NodeView) -> tuple[TensorType, ...]:
    """The dtype of the second input, the broadcast of all three."""
    shape, guards = broadcast([v.type(k).dims for k in range(3)], v.position)
    v.guards += guards
    return (TensorType(v.type(1).element, shape),)


def _where(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    condition, x, y = xs
    return x if condition == ONE or x == y else y if condition == ZERO else None


OPERATORS = (
    Operator("Equal", (1, 7, 11, 13, 19), broadcast_flag, None, elementwise(_equal, DType.bool)),
    Operator("Less", (1, 7, 9, 13), broadcast_flag, None, elementwise(_less, DType.bool)),
    Operator("Greater", (1, 7, 9, 13), broadcast_flag, None, elementwise(_greater, DType.bool)),
    Operator(
        "LessOrEqual", (12, 16), broadcast_flag, None, elementwise(_less_or_equal, DType.bool)
    ),
    Operator(
        "GreaterOrEqual", (12, 16), broadcast_flag, None,
        elementwise(_greater_or_equal, DType.bool),
    ),
    Operator("Not", (1,), same_type, None, elementwise(_not)),
    Operator("And", (1, 7), broadcast_flag, None, elementwise(_and, DType.bool)),
    Operator("Or", (1, 7), broadcast_flag, None, elementwise(_or, DType.bool)),
    Operator("Where", (9, 16), where_type, None, elementwise(_where, DType.bool)),
)

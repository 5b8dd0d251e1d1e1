"""Comparisons, logic and `Where`.

    Where(c, x, y)[i] = x[i] if c[i] else y[i]          a comparison with NaN is false

Teaches: a mask is a value like any other, and a branch at every element is a select.
"""

from __future__ import annotations

from compiler.ir.builder import Builder
from compiler.ir.dims import ONE, ZERO, Dim
from compiler.ir.graph import Value
from compiler.ir.shapes import broadcast
from compiler.ir.types import DType, TensorType

from .base import Decompose, NodeView, Operator, Unsupported
from .rules import (
    Inputs,
    aligned,
    at_most,
    broadcast_flag,
    elementwise,
    equal,
    flag,
    present,
    require_one_dtype,
    same_type,
)


def _compare(relation: str) -> Decompose:
    """`compare.relation` of two operands of one dtype."""

    def decompose(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
        x, y = aligned(b, v, xs)
        require_one_dtype(x, y)
        return (b.compare(relation, x, y),)

    return decompose


def _require_bool(x: Value) -> None:
    if x.type.element is not DType.bool:
        raise Unsupported("break.dtype", dtype=x.type.element.value)


def _logic(function: str) -> Decompose:
    """`map.function` of operands of bool."""

    def decompose(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
        operands = aligned(b, v, xs)
        for x in operands:
            _require_bool(x)
        return (b.map(function, *operands),)

    return decompose


def where(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """One select."""
    condition, x, y = present(xs, 0), present(xs, 1), present(xs, 2)
    _require_bool(condition)
    require_one_dtype(x, y)
    return (b.select(condition, x, y),)


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


def _xor(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    return xs[0] + xs[1] - 2 * xs[0] * xs[1]


def where_type(v: NodeView) -> tuple[TensorType, ...]:
    """The dtype of the second input, the broadcast of all three."""
    shape, guards = broadcast([v.type(k).dims for k in range(3)], v.position)
    v.guards += guards
    return (TensorType(v.type(1).element, shape),)


def _where(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    condition, x, y = xs
    return x if condition == ONE or x == y else y if condition == ZERO else None


OPERATORS = (
    Operator(
        "Equal", (1, 7, 11, 13, 19), broadcast_flag, _compare("eq"),
        elementwise(_equal, DType.bool),
    ),
    Operator(
        "Less", (1, 7, 9, 13), broadcast_flag, _compare("lt"), elementwise(_less, DType.bool)
    ),
    Operator(
        "Greater", (1, 7, 9, 13), broadcast_flag, _compare("gt"),
        elementwise(_greater, DType.bool),
    ),
    Operator(
        "LessOrEqual", (12, 16), broadcast_flag, _compare("le"),
        elementwise(_less_or_equal, DType.bool),
    ),
    Operator(
        "GreaterOrEqual", (12, 16), broadcast_flag, _compare("ge"),
        elementwise(_greater_or_equal, DType.bool),
    ),
    Operator("Not", (1,), same_type, _logic("not"), elementwise(_not)),
    Operator("And", (1, 7), broadcast_flag, _logic("and"), elementwise(_and, DType.bool)),
    Operator("Or", (1, 7), broadcast_flag, _logic("or"), elementwise(_or, DType.bool)),
    Operator("Xor", (1, 7), broadcast_flag, _logic("xor"), elementwise(_xor, DType.bool)),
    Operator("Where", (9, 16), where_type, where, elementwise(_where, DType.bool)),
)

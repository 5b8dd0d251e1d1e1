"""Reductions: one value for all elements along some axes.

    ReduceSum: Σ x      ReduceMean: (Σ x) / n      ReduceMax: max x, NaN wins
    over no element at all: 0, 0/0, -inf (integers: the least)

Teaches: a reduction is what pointwise fusion stops at, and what a row kernel is built around.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from compiler.ir.builder import Builder
from compiler.ir.dims import ONE, Dim, dim, product
from compiler.ir.graph import Value
from compiler.ir.types import DType, TensorType

from .base import NodeView, Operator, ShapeValue
from .rules import (
    Inputs,
    at_most,
    attribute_or_input,
    known_elements,
    normal_axis,
    present,
    settle,
)


def reduced_axes(v: NodeView, input_since: int) -> tuple[int, ...]:
    """The axes to reduce, sorted, counted from 0.

    None or an empty list means all of them, or none where `noop_with_empty_axes` is set.
    """
    rank = v.type(0).rank
    axes = attribute_or_input(v, "axes", 1, input_since)
    if not axes:
        return () if v.op.int("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted({normal_axis(a, rank) for a in axes}))


def _reduced(x: TensorType, axes: tuple[int, ...], keep: bool) -> tuple[Dim, ...]:
    if keep:
        return tuple(ONE if k in axes else d for k, d in enumerate(x.dims))
    return tuple(d for k, d in enumerate(x.dims) if k not in axes)


def _type(input_since: int) -> Callable[[NodeView], tuple[TensorType, ...]]:
    """The reduced axes become 1, or go where `keepdims` is 0."""

    def infer(v: NodeView) -> tuple[TensorType, ...]:
        x, axes = v.type(0), reduced_axes(v, input_since)
        keep = not axes or bool(v.op.int("keepdims", 1))
        return (replace(x, shape=_reduced(x, axes, keep)),)

    return infer


Reduce = Callable[[Builder, Value, tuple[int, ...]], Value]
"""Reduces over non-empty axes, keeping them with extent 1."""


def _decompose(
    function: Reduce, input_since: int
) -> Callable[[Builder, NodeView, Inputs], tuple[Value, ...]]:
    """`function` over the axes, then the reduced axes dropped where `keepdims` is 0."""

    def decompose(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
        x, axes = present(xs, 0), reduced_axes(v, input_since)
        if not axes:
            return (x,)
        kept = function(b, x, axes)
        if v.op.int("keepdims", 1):
            return (kept,)
        return (b.reshape(kept, _reduced(x.type, axes, keep=False)),)

    return decompose


def count(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """The number of elements along `axes`, as a scalar of x's dtype."""
    return b.cast(b.dim_scalar(b.extent(x, axes)), x.type.element)


def total(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """Σ x over `axes`."""
    return b.reduce("sum", x, axes)


def mean(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """(Σ x) / n over `axes`; int32 is summed as int64, integers truncate toward zero."""
    if x.type.element is DType.i32:
        return b.cast(mean(b, b.cast(x, DType.i64), axes), DType.i32)
    return b.div(b.reduce("sum", x, axes), count(b, x, axes))


def maximum(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """max x over `axes`; for bool whether any element is true."""
    if x.type.element is DType.bool:
        found = b.reduce("max", b.cast(x, DType.i32), axes)
        return b.compare("gt", found, b.like(0, found))
    return b.reduce("max", x, axes)


# ---- elements known as dimensions --------------------------------------------------------------


def _value(combine: Callable[[tuple[Dim, ...]], Dim | None], input_since: int) -> ShapeValue:
    """The one element that a known vector is reduced to."""

    def shape_value(v: NodeView) -> tuple[Dim, ...] | None:
        found = known_elements(v, 0)
        if found is None or v.known(0) is None:
            return None
        if not reduced_axes(v, input_since):
            return found
        result = combine(found)
        settled = None if result is None else settle(result, v.type(0).element, v)
        return None if settled is None else (settled,)

    return shape_value


def _sum(xs: tuple[Dim, ...]) -> Dim | None:
    return sum(xs, dim(0))


def _largest(xs: tuple[Dim, ...]) -> Dim | None:
    return next((x for x in xs if all(at_most(y, x) for y in xs)), None)


def _smallest(xs: tuple[Dim, ...]) -> Dim | None:
    return next((x for x in xs if all(at_most(x, y) for y in xs)), None)


OPERATORS = (
    Operator(
        "ReduceSum", (1, 11, 13), _type(13), _decompose(total, 13), _value(_sum, 13)
    ),
    Operator("ReduceMean", (1, 11, 13, 18), _type(18), _decompose(mean, 18)),
    Operator(
        "ReduceMax", (1, 11, 12, 13, 18, 20), _type(18), _decompose(maximum, 18),
        _value(_largest, 18),
    ),
    Operator("ReduceMin", (1, 11, 12, 13, 18, 20), _type(18), None, _value(_smallest, 18)),
    Operator("ReduceProd", (1, 11, 13, 18), _type(18), None, _value(product, 18)),
)

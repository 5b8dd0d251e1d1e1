"""Reductions: one value for all elements along some axes.

    ReduceSum: Σ x      ReduceMean: (Σ x) / n      ReduceMax: max x, NaN wins
    over no element at all: 0, 0/0, -inf (integers: the least)
    ReduceLogSumExp: m + log Σ e^(x - m), m = max x      ArgMax: the first index of the maximum

Teaches: a reduction is what pointwise fusion stops at, and what a row kernel is built around.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from compiler.ir.builder import Builder
from compiler.ir.dims import ONE, Dim, dim, product
from compiler.ir.graph import Value
from compiler.ir.types import DType, TensorType

from .base import Decompose, NodeView, Operator, ShapeValue, Unsupported
from .rules import (
    Inputs,
    at_most,
    attribute_or_input,
    known_elements,
    normal_axis,
    present,
    require_float,
    require_some,
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
    function: Reduce, input_since: int, always: bool = False
) -> Callable[[Builder, NodeView, Inputs], tuple[Value, ...]]:
    """`function` over the axes, then the reduced axes dropped where `keepdims` is 0.

    Over no axes at all the input stays, except where `function` does something `always`.
    """

    def decompose(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
        x, axes = present(xs, 0), reduced_axes(v, input_since)
        if not axes and not always:
            return (x,)
        kept = function(b, x, axes)
        if v.op.int("keepdims", 1) or not axes:
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


def minimum(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """min x over `axes`; for bool whether all elements are true."""
    if x.type.element is DType.bool:
        found = b.reduce("min", b.cast(x, DType.i32), axes)
        return b.compare("gt", found, b.like(0, found))
    return b.reduce("min", x, axes)


def times(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """Π x over `axes`."""
    return b.reduce("prod", x, axes)


def l1(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """Σ |x|."""
    return b.reduce("sum", b.map("abs", x), axes)


def sum_square(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """Σ x²."""
    return b.reduce("sum", b.mul(x, x), axes)


def l2(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """√ Σ x²."""
    require_float(x)
    return b.map("sqrt", sum_square(b, x, axes))


def log_sum(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """log Σ x."""
    require_float(x)
    return b.map("log", b.reduce("sum", x, axes))


def log_sum_exp(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """m + log Σ e^(x - m) with m = max x, or 0 where the maximum is infinite."""
    require_float(x)
    highest = b.reduce("max", x, axes)
    infinite = b.compare("eq", b.map("abs", highest), b.like(math.inf, x))
    m = b.select(infinite, b.like(0, x), highest)
    powers = b.map("exp", b.sub(x, m))
    return b.add(m, b.map("log", b.reduce("sum", powers, axes)))


# ---- the place of the extreme --------------------------------------------------------------------


def arg_type(v: NodeView) -> tuple[TensorType, ...]:
    """int64, the axis of extent 1, or gone where `keepdims` is 0."""
    x = v.type(0)
    axis = normal_axis(v.op.int("axis", 0), x.rank)
    shape = _reduced(x, (axis,), bool(v.op.int("keepdims", 1)))
    return (TensorType(DType.i64, shape),)


def _arg(function: str) -> Decompose:
    """The first index of the extreme, with `select_last_index` the last; NaN is the extreme."""

    def decompose(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
        x = present(xs, 0)
        axis = normal_axis(v.op.int("axis", 0), x.type.rank)
        require_some(v, x.type.dims[axis])
        if x.type.element is DType.bool:
            raise Unsupported("break.dtype", dtype="bool")
        found = b.argreduce(function, x, axis, bool(v.op.int("select_last_index", 0)))
        return (b.reshape(found, arg_type(v)[0].dims),)

    return decompose


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
    Operator(
        "ReduceMin", (1, 11, 12, 13, 18, 20), _type(18), _decompose(minimum, 18),
        _value(_smallest, 18),
    ),
    Operator(
        "ReduceProd", (1, 11, 13, 18), _type(18), _decompose(times, 18), _value(product, 18)
    ),
    Operator("ReduceL1", (1, 11, 13, 18), _type(18), _decompose(l1, 18, always=True)),
    Operator("ReduceL2", (1, 11, 13, 18), _type(18), _decompose(l2, 18, always=True)),
    Operator(
        "ReduceSumSquare", (1, 11, 13, 18), _type(18), _decompose(sum_square, 18, always=True)
    ),
    Operator(
        "ReduceLogSum", (1, 11, 13, 18, 28), _type(18), _decompose(log_sum, 18, always=True)
    ),
    Operator(
        "ReduceLogSumExp", (1, 11, 13, 18, 28), _type(18),
        _decompose(log_sum_exp, 18, always=True),
    ),
    Operator("ArgMax", (1, 11, 12, 13), arg_type, _arg("max")),
    Operator("ArgMin", (1, 11, 12, 13), arg_type, _arg("min")),
)

"""Elementwise operators: one scalar function at every position, after NumPy's broadcasting.

    y[i] = f(a[i], b[i], …)          a[i] reads index 0 along axes where a has extent 1

Teaches: most operators of a model are one of these, and they cost a trip through memory each
until a compiler fuses them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from compiler.ir.builder import Builder
from compiler.ir.dims import ONE, ZERO, Dim, Guard, dim
from compiler.ir.graph import Value
from compiler.ir.types import DType, TensorType

from .base import Decompose, NodeView, Operator, ShapeValue, Unsupported
from .rules import (
    Inputs,
    aligned,
    at_most,
    broadcast_type,
    elementwise,
    nonnegative,
    present,
    require_float,
    require_one_dtype,
    same_type,
)

LARGEST_FLOAT = float(np.finfo(np.float32).max)


def _unary(function: str, floats_only: bool = True) -> Decompose:
    """`map.function` of the one input."""

    def decompose(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
        x = present(xs, 0)
        if floats_only:
            require_float(x)
        return (b.map(function, x),)

    return decompose


def _variadic(function: str) -> Decompose:
    """`map.function` of the operands from left to right; one operand is the result itself."""

    def decompose(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
        first, *rest = aligned(b, v, xs)
        require_one_dtype(first, *rest)
        for x in rest:
            first = b.map(function, first, x)
        return (first,)

    return decompose


def relu(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """max(x, 0); NaN stays NaN."""
    x = present(xs, 0)
    return (b.maximum(x, b.like(0, x)),)


def clip(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """min(max(x, low), high); NaN stays NaN, and low > high gives high.

    Bounds are attributes before opset 11 (at opset 6 those left out are the largest finite
    numbers, so infinities are clipped), optional inputs of one element since.
    """
    x = present(xs, 0)
    bounds: list[Value | None] = []
    for index, name, default in ((1, "min", -LARGEST_FLOAT), (2, "max", LARGEST_FLOAT)):
        if v.opset >= 11:
            bound = xs[index] if index < len(xs) else None
            bounds.append(bound if bound is None else _number(b, bound, x))
        elif v.scalar(name) is not None or v.opset >= 6:
            bounds.append(b.like(v.op.float(name, default), x))
        else:
            bounds.append(None)
    low, high = bounds
    y = x if low is None else b.maximum(x, low)
    return (y if high is None else b.minimum(y, high),)


def _number(b: Builder, bound: Value, x: Value) -> Value:
    """A bound of one element as a rank-0 value."""
    require_one_dtype(x, bound)
    b.ensure_same(bound.type.numel, ONE, "guard.reshape")
    return b.reshape(bound, ())


def _one_element(v: NodeView, index: int) -> int | float | None:
    """The single element of a constant input, else None."""
    array = v.constant(index)
    if array is None or array.size != 1:
        return None
    number: int | float = array.reshape(()).item()
    return number


def power(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """x ** y in the dtype of x.

    x ** 2 is x * x, which is the correctly rounded square. Integers to a constant power are
    repeated products (wrapping); an exponent of another dtype is cast, except where the power
    would need float64.
    """
    x, y = aligned(b, v, xs)
    shape = b.broadcast(x, y)
    exponent = _one_element(v, 1)
    if exponent in (1, 2):
        return (b.reshape(x if exponent == 1 else b.mul(x, x), shape),)
    if x.type.element.is_float:
        return (b.map("pow", x, b.cast(y, x.type.element)),)
    if not isinstance(exponent, int) or not 3 <= exponent <= 64:
        raise Unsupported("break.integer-power", dtype=x.type.element.value)
    result: Value | None = None
    factor = x
    while exponent:
        if exponent & 1:
            result = factor if result is None else b.mul(result, factor)
        exponent >>= 1
        factor = b.mul(factor, factor) if exponent else factor
    assert result is not None
    return (b.reshape(result, shape),)


def reciprocal(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """1 / x."""
    x = present(xs, 0)
    require_float(x)
    return (b.div(b.like(1, x), x),)


def tangent(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """sin x / cos x."""
    x = present(xs, 0)
    require_float(x)
    return (b.div(b.map("sin", x), b.map("cos", x)),)


def modulo(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """The remainder with the sign of the divisor, with `fmod=1` of the dividend.

    Integers with fmod: x - y trunc(x / y). Floats without it: fmod, moved by y where the signs
    differ (the standard has it since opset 28).
    """
    x, y = aligned(b, v, xs)
    require_one_dtype(x, y)
    if x.type.element is DType.bool:
        raise Unsupported("break.dtype", dtype="bool")
    if bool(v.op.int("fmod", 0)) is x.type.element.is_float:
        return (b.map("mod", x, y),)
    if not x.type.element.is_float:
        return (b.sub(x, b.mul(b.div(x, y), y)),)
    rest, zero = b.map("mod", x, y), b.like(0, x)
    signs = b.map("xor", b.compare("lt", rest, zero), b.compare("lt", y, zero))
    moves = b.map("and", signs, b.compare("ne", rest, zero))
    return (b.select(moves, b.add(rest, y), rest),)


def mean(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """The sum of all operands over their number."""
    (total,) = _variadic("add")(b, v, xs)
    require_float(total)
    return (total if len(xs) == 1 else b.div(total, b.like(len(xs), total)),)


def is_nan(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """Whether x is no number."""
    x = present(xs, 0)
    require_float(x)
    return (b.op("map.isnan", (x,), replace(x.type, dtype=DType.bool)),)


def is_infinite(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """Whether x is an infinity, of the signs that are asked for (both by default)."""
    x = present(xs, 0)
    require_float(x)
    above, below = v.op.int("detect_positive", 1), v.op.int("detect_negative", 1)
    if above and below:
        return (b.compare("eq", b.map("abs", x), b.like(math.inf, x)),)
    if above or below:
        return (b.compare("eq", x, b.like(math.inf if above else -math.inf, x)),)
    return (b.expand(b.scalar(False, DType.bool), x.type.dims),)


def flag_type(v: NodeView) -> tuple[TensorType, ...]:
    """bool, of the shape of the first input."""
    return (replace(v.type(0), dtype=DType.bool),)


# ---- elements known as dimensions --------------------------------------------------------------


def _add(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    return xs[0] + xs[1]


def _sub(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    return xs[0] - xs[1]


def _mul(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    return xs[0] * xs[1]


def _neg(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    return -xs[0]


def _abs(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    x = xs[0]
    return x if nonnegative(x) else -x if nonnegative(-x) else None


def _div(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    """Integers truncate toward zero; floats are known only where the quotient is exact."""
    a, b = xs
    exact = None if b == ZERO else a.exact_div(b)
    if exact is not None or v.type(0).element.is_float:
        return exact
    divisor, constant = b.constant, a.constant
    if divisor is None or divisor == 0:
        return None
    if constant is not None:
        quotient = abs(constant) // abs(divisor)
        return dim(quotient if (constant < 0) == (divisor < 0) else -quotient)
    if divisor < 0:
        return None
    _require_nonnegative(v, a)
    return a // divisor


def _mod(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    """The remainder with the sign of the divisor (of the dividend where `fmod` is set)."""
    a, divisor = xs[0], xs[1].constant
    if divisor is None or divisor <= 0 or not v.type(0).element.is_integer:
        return None
    if v.op.int("fmod", 0):
        _require_nonnegative(v, a)
    return a - (a // divisor) * divisor


def _require_nonnegative(v: NodeView, value: Dim) -> None:
    if not nonnegative(value):
        v.guards.append(Guard(ZERO, "<=", value, v.position, "guard.nonnegative"))


def _minimum(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    return _extreme(v, xs, smaller=True)


def _maximum(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    return _extreme(v, xs, smaller=False)


def _extreme(v: NodeView, xs: tuple[Dim, ...], smaller: bool) -> Dim | None:
    """The smallest or largest. What the forms leave open is a guard, see `_clamped`."""
    best = xs[0]
    for x in xs[1:]:
        first = at_most(best, x)
        if first is None:
            first = _clamped(v, best, x, smaller)
        if first is None:
            return None
        best = best if first == smaller else x
    return best


def _clamped(v: NodeView, a: Dim, b: Dim, smaller: bool) -> bool | None:
    """Whether `a <= b`, assumed and guarded, where a size is clamped by a constant.

    A size that grows is taken to be within its clamp: `max(s // 256, 1)` is the size for s of at
    least 256. A size that shrinks is taken to have reached it: `max(256 - s, 0)` is 0.
    """
    if (a.constant is None) == (b.constant is None):
        return None
    size, bound = (a, b) if b.constant is not None else (b, a)
    grows, shrinks = nonnegative(size - _at_zero(size)), nonnegative(_at_zero(size) - size)
    if not grows and not shrinks:
        return None
    below = smaller if grows else not smaller
    left, right = (size, bound) if below else (bound, size)
    v.guards.append(Guard(left, "<=", right, v.position, "guard.clamp"))
    return left == a


def _at_zero(size: Dim) -> Dim:
    """The value where every symbol is 0."""
    return dim(size.evaluate(dict.fromkeys(size.symbols(), 0)))


def _itself(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    """Rounding leaves a whole number alone."""
    return xs[0]


def _square(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    exponent = xs[1].constant
    if exponent is None or not 0 <= exponent <= 8:
        return None
    result = ONE
    for _ in range(exponent):
        result = result * xs[0]
    return result


def _arithmetic(name: str, function: str, value: ShapeValue) -> Operator:
    return Operator(name, (1, 6, 7, 13, 14), broadcast_type, _variadic(function), value)


OPERATORS = (
    _arithmetic("Add", "add", elementwise(_add)),
    _arithmetic("Sub", "sub", elementwise(_sub)),
    _arithmetic("Mul", "mul", elementwise(_mul)),
    _arithmetic("Div", "div", elementwise(_div)),
    Operator("Neg", (1, 6, 13), same_type, _unary("neg", floats_only=False), elementwise(_neg)),
    Operator("Sqrt", (1, 6, 13), same_type, _unary("sqrt")),
    Operator("Exp", (1, 6, 13), same_type, _unary("exp")),
    Operator("Log", (1, 6, 13), same_type, _unary("log")),
    Operator("Erf", (9, 13), same_type, _unary("erf")),
    Operator("Tanh", (1, 6, 13), same_type, _unary("tanh")),
    Operator("Sigmoid", (1, 6, 13), same_type, _unary("sigmoid")),
    Operator("Relu", (1, 6, 13, 14), same_type, relu),
    Operator("Clip", (1, 6, 11, 12, 13), same_type, clip),
    Operator("Pow", (1, 7, 12, 13, 15), broadcast_type, power, elementwise(_square)),
    Operator("Min", (1, 6, 8, 12, 13), broadcast_type, _variadic("min"), elementwise(_minimum)),
    Operator("Max", (1, 6, 8, 12, 13), broadcast_type, _variadic("max"), elementwise(_maximum)),
    Operator("Sum", (1, 6, 8, 13), broadcast_type, _variadic("add")),
    Operator("Mean", (1, 6, 8, 13), broadcast_type, mean),
    Operator("Abs", (1, 6, 13), same_type, _unary("abs", floats_only=False), elementwise(_abs)),
    Operator("Sign", (9, 13), same_type, _unary("sign", floats_only=False)),
    Operator("Reciprocal", (1, 6, 13), same_type, reciprocal),
    Operator("Mod", (10, 13, 28), broadcast_type, modulo, elementwise(_mod)),
    Operator("Floor", (1, 6, 13), same_type, _unary("floor"), elementwise(_itself)),
    Operator("Ceil", (1, 6, 13), same_type, _unary("ceil"), elementwise(_itself)),
    Operator("Round", (11, 22), same_type, _unary("rint"), elementwise(_itself)),
    Operator("Sin", (7, 22), same_type, _unary("sin")),
    Operator("Cos", (7, 22), same_type, _unary("cos")),
    Operator("Tan", (7, 22), same_type, tangent),
    Operator("IsNaN", (9, 13, 20), flag_type, is_nan),
    Operator("IsInf", (10, 20), flag_type, is_infinite),
)

"""The scalar functions: what `map.F`, `compare.F`, `cast` and the expressions of a kernel mean.

    f(x), f(x, y) elementwise, in the element type of the operands, at every step

float32 stays float32: no wider intermediate hides a rounding (`erf`, which NumPy lacks, and which
is rounded once from float64, is one function, not a chain). Integer division truncates toward
zero, x / 0 = 0 and MIN / -1 = MIN; integers wrap. `max` and `min` give NaN when an operand is
NaN, and -0 is below 0 (NumPy gives either). Nothing here warns.

Teaches: the meaning of a compiler is a table of functions that are right at the edges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..types import Array, DType

Number = Array | np.generic
"""An array, or one NumPy scalar: the functions keep which of the two it was."""

Precision = Literal["declared", "float64"]
"""`float64`: every float type is computed and stored as float64; integers stay as they are."""


def storage(dtype: DType, precision: Precision = "declared") -> np.dtype[np.generic]:
    """The NumPy type in which values of `dtype` are kept. ValueError for one NumPy lacks."""
    if precision == "float64" and dtype.is_float:
        return np.dtype(np.float64)
    return dtype.numpy()


def compute(dtype: DType, precision: Precision = "declared") -> np.dtype[np.generic]:
    """The NumPy type that a load of stored `dtype` computes with: half types widen to float32."""
    if dtype in (DType.f16, DType.bf16):
        return storage(DType.f32, precision)
    return storage(dtype, precision)


def _on_floats(f: Callable[[Number], Number]) -> Callable[[Number], Number]:
    """Rounding functions do nothing to integers (NumPy would turn them into float64)."""
    return lambda x: f(x) if x.dtype.kind == "f" else x


def _floats_only(
    name: str, f: Callable[[Number], Number]
) -> Callable[[Number], Number]:
    def checked(x: Number) -> Number:
        if x.dtype.kind != "f":
            raise TypeError(f"{name} of {x.dtype}: it is defined on floating-point types")
        return f(x)

    return checked


def _bools_only(name: str, f: Callable[..., Number]) -> Callable[..., Number]:
    def checked(*xs: Number) -> Number:
        if any(x.dtype.kind != "b" for x in xs):
            raise TypeError(f"{name} of {xs[0].dtype}: it is defined on bool")
        return f(*xs)

    return checked


def _erf(x: Number) -> Number:
    flat: npt.NDArray[np.float64] = np.asarray(x, np.float64).reshape(-1)
    out: Array = np.empty(np.shape(x), x.dtype)
    out.reshape(-1)[:] = np.fromiter(map(math.erf, flat.tolist()), np.float64, flat.size)
    return out[()]


def _sigmoid(x: Number) -> Number:
    """1 / (1 + exp(-x)), on the negative side as exp(x) / (1 + exp(x)): the tail keeps its bits."""
    e = np.exp(-np.abs(x))
    return np.true_divide(np.where(np.less(x, 0), e, np.ones_like(e)), np.add(e, 1))


def _max(x: Number, y: Number) -> Number:
    if x.dtype.kind != "f":
        return np.maximum(x, y)
    return np.where(np.equal(x, 0) & np.equal(y, 0), np.add(x, y), np.maximum(x, y))[()]


def _min(x: Number, y: Number) -> Number:
    if x.dtype.kind != "f":
        return np.minimum(x, y)
    return np.negative(_max(np.negative(x), np.negative(y)))


def _div(x: Number, y: Number) -> Number:
    if x.dtype.kind == "f":
        return np.true_divide(x, y)
    quotient = np.floor_divide(x, y)
    if x.dtype.kind == "u":
        return quotient
    inexact = np.not_equal(quotient * y, x) & np.not_equal(y, 0)
    toward_zero = inexact & np.not_equal(np.less(x, 0), np.less(y, 0))
    return quotient + toward_zero.astype(x.dtype)


def _mod(x: Number, y: Number) -> Number:
    """Floats: C's fmod, the sign of x. Integers: the sign of y, x mod 0 = 0."""
    return np.fmod(x, y) if x.dtype.kind == "f" else np.remainder(x, y)


def _pow(x: Number, y: Number) -> Number:
    """Integers wrap; a negative exponent gives the truncated power: 0 except for x = 1 and -1."""
    if x.dtype.kind != "i":
        return np.power(x, y)
    negative = np.less(y, 0)
    power = np.power(x, np.where(negative, x.dtype.type(0), y))
    odd = np.not_equal(np.bitwise_and(y, 1), 0)
    sign = np.where(odd, x, np.multiply(x, x))
    unit = np.equal(x, 1) | np.equal(x, -1)
    reciprocal = np.where(unit, sign, x.dtype.type(0))
    return np.where(negative, reciprocal, power)[()]


UNARY: Mapping[str, Callable[[Number], Number]] = {
    "abs": np.abs,
    "ceil": _on_floats(np.ceil),
    "cos": _floats_only("cos", np.cos),
    "erf": _floats_only("erf", _erf),
    "exp": _floats_only("exp", np.exp),
    "floor": _on_floats(np.floor),
    "isnan": np.isnan,
    "log": _floats_only("log", np.log),
    "neg": np.negative,
    "not": _bools_only("not", np.logical_not),
    "rint": _on_floats(np.rint),
    "sigmoid": _floats_only("sigmoid", _sigmoid),
    "sign": np.sign,
    "sin": _floats_only("sin", np.sin),
    "sqrt": _floats_only("sqrt", np.sqrt),
    "tanh": _floats_only("tanh", np.tanh),
}
"""`loops.UNARY`: the dtype of the operand, bool for `isnan`. Callers silence NumPy's warnings."""

BINARY: Mapping[str, Callable[[Number, Number], Number]] = {
    "add": np.add,
    "and": _bools_only("and", np.logical_and),
    "div": _div,
    "max": _max,
    "min": _min,
    "mod": _mod,
    "mul": np.multiply,
    "or": _bools_only("or", np.logical_or),
    "pow": _pow,
    "sub": np.subtract,
    "xor": _bools_only("xor", np.logical_xor),
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
"""`loops.BINARY` and `loops.COMPARE`: the operands have one dtype, comparisons give bool."""

def unary(function: str, x: Number) -> Number:
    """`function` in `loops.UNARY`, elementwise. The dtype of x; bool for `isnan`.

    TypeError for an element type on which the function is not defined.
    """
    with np.errstate(all="ignore"):
        return UNARY[function](x)


def binary(function: str, x: Number, y: Number) -> Number:
    """`function` in `loops.BINARY` or `loops.COMPARE`, on NumPy's broadcast of x and y.

    The dtype of both, bool for a comparison. TypeError when the two differ.
    """
    if x.dtype != y.dtype:
        raise TypeError(f"{function} of {x.dtype} and {y.dtype}: operands share one element type")
    with np.errstate(all="ignore"):
        return BINARY[function](x, y)


def select(condition: Number, x: Number, y: Number) -> Number:
    """x where the condition holds, else y. TypeError unless bool and of one dtype."""
    if condition.dtype.kind != "b" or x.dtype != y.dtype:
        raise TypeError(f"select of {condition.dtype}, {x.dtype}, {y.dtype}")
    return np.where(condition, x, y)[()]


def cast(x: Number, dtype: np.dtype[np.generic]) -> Number:
    """Float to integer truncates toward zero, anything to bool is `!= 0` (NaN is true).

    A float that the integer type cannot hold (NaN, infinities too) gives what NumPy gives.
    """
    with np.errstate(all="ignore"):
        return x.astype(dtype)

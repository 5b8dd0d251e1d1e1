"""exp, log, tanh, erf and sigmoid of float32, by arithmetic alone.

    e**x    = 2**n * e**r              n = round(x / ln 2),  |r| <= ln 2 / 2
    log x   = n ln 2 + log(1 + f)      x = 2**n (1 + f),     2/3 <= 1 + f < 4/3
    tanh x  = 1 - 2 / (e**2x + 1)      or x + x**3 p(x**2) near 0
    erf x   = 1 - e**-q(x)             or x + x p(x**2) near 0
    sigmoid = 2**n / (2**n + e**-r)     the same n and r

A call into the C library keeps a loop from being vectorised. These functions have no call, no
branch and no table: both cases are computed, a select takes one, and LLVM does eight or sixteen
elements at once. The infinities, NaN and the signs of zeros come out right; everything else is
within 2 units in the last place, subnormal arguments and results included.

Each is plain Python over a `Real`, something that behaves like one float32. Given LLVM values it
writes a kernel's code on the spot, so there is nothing to inline and no flag to inherit. Given
NumPy arrays (`on_array`) it computes the very bits of a kernel in strict numerics.

A product that a sum follows is written `mul_add`: one rounding in default numerics, two in strict.
So no compiler chooses where to fuse here, and an element has the same bits in the middle of a
vector loop and in its tail.

Teaches: a transcendental function is a range reduction, a short polynomial, and exact steps around.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

__all__ = [
    "FUNCTIONS",
    "Condition",
    "Function",
    "Operand",
    "Real",
    "Word",
    "erf",
    "exp",
    "log",
    "on_array",
    "sigmoid",
    "tanh",
]


class Real(Protocol):
    """A float32, whatever carries it. A Python number beside it is rounded to float32."""

    def __add__(self, other: Operand, /) -> Real: ...
    def __sub__(self, other: Operand, /) -> Real: ...
    def __rsub__(self, other: float, /) -> Real: ...
    def __mul__(self, other: Operand, /) -> Real: ...
    def __truediv__(self, other: Operand, /) -> Real: ...
    def __rtruediv__(self, other: float, /) -> Real: ...
    def __neg__(self) -> Real: ...
    def __abs__(self) -> Real: ...

    def __lt__(self, other: Operand, /) -> Condition:
        """Like `>` false where either side is NaN."""
        ...

    def __gt__(self, other: Operand, /) -> Condition: ...

    def mul_add(self, factor: Operand, addend: Operand, /) -> Real:
        """self * factor + addend, rounded once (default numerics) or twice (strict)."""
        ...

    def copysign(self, sign: Real, /) -> Real:
        """The magnitude of this with the sign of `sign`."""
        ...

    def bits(self) -> Word:
        """The int32 with the same bits."""
        ...


class Word(Protocol):
    """An int32. Sums wrap; `>>` keeps the sign."""

    def __sub__(self, other: Word | int, /) -> Word: ...
    def __and__(self, mask: int, /) -> Word: ...
    def __lshift__(self, places: int, /) -> Word: ...
    def __rshift__(self, places: int, /) -> Word: ...

    def from_bits(self) -> Real:
        """The float32 with the same bits."""
        ...

    def to_float(self) -> Real:
        """The nearest float32."""
        ...


class Condition(Protocol):
    """A truth value."""

    def select(self, yes: Operand, no: Operand, /) -> Real:
        """`yes` where it holds, else `no`. Both are computed."""
        ...


Operand = Real | float
Function = Callable[[Real], Real]

LOG2_E: Final = 1.44269504
LN2_HIGH: Final = 0.693359375  # 355/512 has nine bits, so its products with |n| < 2**15 are exact
LN2_LOW: Final = -2.12194440e-4  # ln 2 - LN2_HIGH
MAGIC: Final = 12582912.0  # 1.5 * 2**23: a float32 of this size has no fraction
TWO_THIRDS_BITS: Final = 0x3F2AAAAB
SMALLEST_NORMAL: Final = 2.0**-126
INFINITY: Final = float("inf")
NAN: Final = float("nan")


def polynomial(x: Real, *coefficients: float) -> Real:
    """Horner's rule, the coefficient of the highest power first; at least two."""
    highest, following, *rest = coefficients
    value = x.mul_add(highest, following)
    for coefficient in rest:
        value = value.mul_add(x, coefficient)
    return value


def limit(x: Real, least: float, most: float) -> Real:
    """x within [least, most]; NaN stays NaN. One instruction each."""
    x = (x < least).select(least, x)
    return (x > most).select(most, x)


def reduce_by_ln2(x: Real, bias: int) -> tuple[Real, Word]:
    """(r, word): x = n ln 2 + r, and n + bias in the low nine bits of `word`, for |x| <= 104.

    Adding MAGIC rounds x / ln 2 to the nearest integer n and leaves it in the low bits; there is no
    conversion to an integer, which NaN would make undefined. n ln 2 is subtracted in two parts, of
    which the first product is exact: r is right to its last bit.
    """
    magic = MAGIC + bias
    shifted = x.mul_add(LOG2_E, magic)
    n = shifted - magic
    return n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x)), shifted.bits()


def small_expm1(r: Real) -> Real:
    """e**r - 1 = r + r**2 p(r), for |r| <= ln 2 / 2. p is the polynomial of degree 4 with the
    least error relative to e**r, 2**-27.9.
    """
    p = polynomial(r, 1.38142216e-3, 8.36889911e-3, 4.16684039e-2, 0.166665196, 0.499999940)
    return p.mul_add(r * r, r)


def two_powers(word: Word) -> tuple[Real, Real]:
    """Two powers of two whose product is 2**n, from n + 254 in the low nine bits of `word`.

    2**n is no float32 for all n from -150 to 128, its halves are.
    """
    half = (word >> 1) << 23
    return half.from_bits(), ((word << 23) - half).from_bits()


def moderate_exp(x: Real) -> Real:
    """e**x for -87 <= x <= 88, where 2**n is a float32 and one shift makes it."""
    r, word = reduce_by_ln2(x, bias=127)
    return (small_expm1(r) + 1.0) * (word << 23).from_bits()


def exp(x: Real) -> Real:
    """e**x = 2**n e**r. Beyond [-104, 89] it stays 0 or infinity.

    Of the last two products only the second rounds: to a subnormal, to 0 or to infinity. Range
    reduction after W. J. Cody and W. Waite, Software Manual for the Elementary Functions (1980),
    chapter 6.
    """
    r, word = reduce_by_ln2(limit(x, -104.0, 89.0), bias=254)
    first, second = two_powers(word)
    return (small_expm1(r) + 1.0) * first * second


def sigmoid(x: Real) -> Real:
    """1 / (1 + e**-x) = 2**n / (2**n + e**-r), with n and r those of e**x.

    So nothing overflows, and results down to the smallest subnormal are right; from 20 up the
    quotient is 1. The denominator is 2**n + 1 + (e**-r - 1), smaller summands first, because each
    rounding shows: 2**n + 1 is exact for n >= 0.
    """
    r, word = reduce_by_ln2(limit(x, -104.0, 20.0), bias=254)
    t = small_expm1(-r)
    first, second = two_powers(word)
    power = first * second
    below = power < 1.0
    denominator = power + below.select(t, 1.0) + below.select(1.0, t)
    return first / denominator * second


def tanh(x: Real) -> Real:
    """1 - 2 / (e**2|x| + 1) with the sign of x; up to |x| = 0.55, where this difference would
    cancel, x + x**3 p(x**2), p of degree 3 with relative error 2**-24.6. From 9.5 up it is 1.

    The division into two cases after N. Juffa's tanhf.
    """
    t = abs(x)
    far = 1.0 - 2.0 / (moderate_exp((t > 9.5).select(9.5, t) * 2.0) + 1.0)
    s = x * x
    p = polynomial(s, 1.64375808e-2, -5.26718125e-2, 0.133207247, -0.333329469)
    near = (p * s).mul_add(x, x)
    return (t > 0.55).select(far, near).copysign(x)


def erf(x: Real) -> Real:
    """1 - e**-q(|x|) with the sign of x; up to |x| = 0.921875 x + x p(x**2). From 4 up it is 1.

    Method and coefficients of N. Juffa's erff.
    """
    t = abs(x)
    u = (t > 4.0).select(4.0, t)
    q = polynomial(
        u,
        *(-1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2),
        *(-0.106777877, -0.634846687, -0.128717512),
    )
    far = 1.0 - moderate_exp(q.mul_add(u, -u))
    p = polynomial(
        x * x,
        *(-5.96761703e-4, 4.99119423e-3, -2.67681349e-2),
        *(0.112819925, -0.376125336, 0.128379166),
    )
    near = p.mul_add(x, x)
    return (t > 0.921875).select(far, near).copysign(x)


def log(x: Real) -> Real:
    """The natural logarithm: -infinity at 0 and -0, NaN below.

    x = 2**n (1 + f) with 1 + f in [2/3, 4/3): subtracting the bits of 2/3 carries into the exponent
    just where 1 + f would be too small. A subnormal x is multiplied by 2**23 before, its n is 23
    less. log(1 + f) = f - f**2 / 2 + f**3 p(f); p is the polynomial of degree 7 with the least
    relative error, 2**-27.4. The range after N. Juffa's logf, n ln 2 in two parts after Cody and
    Waite.
    """
    tiny = x < SMALLEST_NORMAL
    bits = tiny.select(x * 2.0**23, x).bits()
    exponent = (bits - TWO_THIRDS_BITS) & -0x800000
    n = exponent.to_float().mul_add(2.0**-23, tiny.select(-23.0, 0.0))
    f = (bits - exponent).from_bits() - 1.0
    p = polynomial(
        f,
        *(-0.128918201, 0.139845729, -0.121842332, 0.140058443),
        *(-0.166804895, 0.200104073, -0.249997973, 0.333332151, -0.5),
    )
    low = p.mul_add(f * f, n * LN2_LOW)
    value = n.mul_add(LN2_HIGH, low + f)
    not_positive = (x < 0.0).select(NAN, -INFINITY)
    return (x < INFINITY).select((x > 0.0).select(value, not_positive), x)


FUNCTIONS: Final[Mapping[str, Function]] = {
    "exp": exp,
    "log": log,
    "tanh": tanh,
    "erf": erf,
    "sigmoid": sigmoid,
}

# ---- on NumPy arrays ---------------------------------------------------------------------------


def on_array(function: Function, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """`function`, one of this module, of every element of `x`: the bits of strict numerics."""
    with np.errstate(all="ignore"):
        return _reals(function(_Reals(np.asarray(x, np.float32))))


def _reals(value: Operand) -> npt.NDArray[np.float32]:
    return value.array if isinstance(value, _Reals) else np.asarray(value, np.float32)


def _words(value: Word | int) -> npt.NDArray[np.int32]:
    if isinstance(value, _Words):
        return value.array
    assert isinstance(value, int), "a word of another carrier"
    return np.asarray(value, np.int32)


@dataclass(frozen=True, slots=True)
class _Reals:
    array: npt.NDArray[np.float32]

    def __add__(self, other: Operand) -> _Reals:
        return _Reals(self.array + _reals(other))

    def __sub__(self, other: Operand) -> _Reals:
        return _Reals(self.array - _reals(other))

    def __rsub__(self, other: float) -> _Reals:
        return _Reals(_reals(other) - self.array)

    def __mul__(self, other: Operand) -> _Reals:
        return _Reals(self.array * _reals(other))

    def __truediv__(self, other: Operand) -> _Reals:
        return _Reals(self.array / _reals(other))

    def __rtruediv__(self, other: float) -> _Reals:
        return _Reals(_reals(other) / self.array)

    def __neg__(self) -> _Reals:
        return _Reals(-self.array)

    def __abs__(self) -> _Reals:
        return _Reals(np.abs(self.array))

    def __lt__(self, other: Operand) -> _Conditions:
        return _Conditions(self.array < _reals(other))

    def __gt__(self, other: Operand) -> _Conditions:
        return _Conditions(self.array > _reals(other))

    def mul_add(self, factor: Operand, addend: Operand) -> _Reals:
        return self * factor + addend

    def copysign(self, sign: Real) -> _Reals:
        return _Reals(np.copysign(self.array, _reals(sign)))

    def bits(self) -> _Words:
        return _Words(self.array.view(np.int32))


@dataclass(frozen=True, slots=True)
class _Words:
    array: npt.NDArray[np.int32]

    def __sub__(self, other: Word | int) -> _Words:
        return _Words(self.array - _words(other))

    def __and__(self, mask: int) -> _Words:
        return _Words(self.array & np.int32(mask))

    def __lshift__(self, places: int) -> _Words:
        return _Words(self.array << np.int32(places))

    def __rshift__(self, places: int) -> _Words:
        return _Words(self.array >> np.int32(places))

    def from_bits(self) -> _Reals:
        return _Reals(self.array.view(np.float32))

    def to_float(self) -> _Reals:
        return _Reals(self.array.astype(np.float32))


@dataclass(frozen=True, slots=True)
class _Conditions:
    array: npt.NDArray[np.bool_]

    def select(self, yes: Operand, no: Operand) -> _Reals:
        return _Reals(np.where(self.array, _reals(yes), _reals(no)))

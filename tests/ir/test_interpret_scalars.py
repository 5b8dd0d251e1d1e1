"""The table of scalar functions, at the edges."""

import math
import warnings

import numpy as np
import pytest

from compiler.ir import loops
from compiler.ir.interpret.scalars import BINARY, UNARY, binary, cast, select, unary

INF, NAN = np.inf, np.nan
I32, I64 = np.iinfo(np.int32), np.iinfo(np.int64)


@pytest.fixture(autouse=True)
def silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def f32(*values):
    return np.array(values, np.float32)


def test_the_table_is_the_one_of_the_loop_level():
    assert set(UNARY) == loops.UNARY
    assert set(BINARY) == loops.BINARY | loops.COMPARE


SMOOTH = {
    "cos": math.cos, "erf": math.erf, "exp": math.exp, "sin": math.sin, "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "log": math.log, "sqrt": math.sqrt,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SMOOTH))
@pytest.mark.parametrize("dtype, ulps", [(np.float32, 4), (np.float64, 4)])
def test_smooth_functions_against_python(name, dtype, ulps):
    x = np.linspace(-8, 8, 201).astype(dtype)
    if name in ("log", "sqrt"):
        x = np.abs(x) + dtype(1e-3)
    y = unary(name, x)
    wanted = np.array([SMOOTH[name](float(v)) for v in x])
    assert y.dtype == x.dtype
    error = np.abs(y.astype(np.float64) - wanted)
    assert (error <= ulps * np.spacing(np.abs(wanted).astype(dtype)) + 1e-300).all()


@pytest.mark.parametrize("name, x, wanted", [
    ("exp", [-INF, 200, -200, NAN, 0.0], [0, INF, 0, NAN, 1]),
    ("log", [0.0, -1, INF, NAN, 1], [-INF, NAN, INF, NAN, 0]),
    ("sqrt", [-1, INF, 4, 0.0, NAN], [NAN, INF, 2, 0, NAN]),
    ("tanh", [-INF, INF, NAN, 100, 0.0], [-1, 1, NAN, 1, 0]),
    ("erf", [-INF, INF, NAN, 10, 0.0], [-1, 1, NAN, 1, 0]),
    ("sigmoid", [-INF, INF, NAN, 100, 0.0], [0, 1, NAN, 1, 0.5]),
    ("rint", [0.5, 1.5, 2.5, -0.5, -1.5], [0, 2, 2, 0, -2]),
    ("floor", [-0.5, 1.5, -INF, NAN, 3], [-1, 1, -INF, NAN, 3]),
    ("ceil", [-0.5, 1.5, -INF, NAN, 3], [0, 2, -INF, NAN, 3]),
    ("sign", [-3, 0.0, 5, NAN, -INF], [-1, 0, 1, NAN, -1]),
    ("abs", [-3, -0.0, 5, NAN, -INF], [3, 0, 5, NAN, INF]),
    ("neg", [-3, 0.0, 5, NAN, -INF], [3, -0.0, -5, NAN, INF]),
])  # fmt: skip
def test_unary_edges(name, x, wanted):
    y = unary(name, f32(*x))
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, f32(*wanted))


def test_signs_of_zero_are_kept():
    assert np.signbit(unary("neg", f32(0.0)))[0]
    assert np.signbit(unary("rint", f32(-0.5)))[0]
    assert np.signbit(binary("mul", f32(-1), f32(0)))[0]


def test_the_tail_of_sigmoid_keeps_its_bits():
    x = f32(-90, -100, -103)
    wanted = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(unary("sigmoid", x).astype(np.float64), wanted, rtol=0, atol=2e-45)


def test_isnan_gives_bool():
    assert unary("isnan", f32(NAN, 1, INF)).tolist() == [True, False, False]
    assert unary("isnan", np.array([1, 2])).tolist() == [False, False]


def test_rounding_functions_leave_integers_alone():
    x = np.array([I64.min, -3, I64.max])
    for name in ("floor", "ceil", "rint"):
        y = unary(name, x)
        assert y.dtype == np.int64 and (y == x).all()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integer_division_truncates(dtype):
    low = np.iinfo(dtype).min
    x = np.array([7, -7, 7, -7, 5, low, -6, 0], dtype)
    y = np.array([2, 2, -2, -2, 0, -1, 3, 0], dtype)
    q = binary("div", x, y)
    assert q.dtype == dtype
    assert q.tolist() == [3, -3, -3, 3, 0, low, -2, 0]
    for a, b, c in zip(x, y, q, strict=True):
        assert binary("div", a, b) == c


def test_mod_of_integers_has_the_sign_of_the_divisor_and_of_floats_of_the_dividend():
    x, y = np.array([7, -7, 7, -7, 5, I64.min]), np.array([3, 3, -3, -3, 0, -1])
    assert binary("mod", x, y).tolist() == [1, 2, -2, -1, 0, 0]
    a, b = f32(7, -7, 7, 5, INF), f32(3, 3, -3, 0, 1)
    np.testing.assert_array_equal(binary("mod", a, b), f32(1, -1, 1, NAN, NAN))


def test_integers_wrap():
    top = np.array([I32.max], np.int32)
    one = np.array([1], np.int32)
    assert binary("add", top, one).tolist() == [I32.min]
    assert binary("mul", top, top).tolist() == [1]
    assert unary("neg", np.array([I32.min], np.int32)).tolist() == [I32.min]
    assert unary("abs", np.array([I32.min], np.int32)).tolist() == [I32.min]


def test_integer_power():
    x = np.array([2, 3, -2, 1, -1, -1, 0, 2, 10])
    y = np.array([10, 0, 3, -5, -5, -4, -1, -1, 19])
    wanted = [1024, 1, -8, 1, -1, 1, 0, 0, 10**19 - 2**64]
    assert binary("pow", x, y).tolist() == wanted
    assert binary("pow", np.int64(-1), np.int64(-3)) == -1


def test_float_power_and_division():
    np.testing.assert_array_equal(
        binary("pow", f32(0, -1, -8, NAN, 0), f32(0, 0.5, 3, 0, -1)), f32(1, NAN, -512, 1, INF)
    )
    np.testing.assert_array_equal(
        binary("div", f32(1, -1, 0, INF), f32(0, 0, 0, INF)), f32(INF, -INF, NAN, NAN)
    )


@pytest.mark.parametrize("name", ["max", "min"])
def test_max_and_min_propagate_nan_from_both_sides(name):
    y = binary(name, f32(NAN, 1, NAN), f32(1, NAN, NAN))
    assert np.isnan(y).all()
    assert np.isnan(binary(name, np.float32(1), np.float32(NAN)))


def test_comparisons_with_nan_are_false_except_ne():
    x, y = f32(NAN, 1, 2), f32(NAN, 2, 2)
    wanted = {"eq": [0, 0, 1], "ne": [1, 1, 0], "lt": [0, 1, 0], "le": [0, 1, 1],
              "gt": [0, 0, 0], "ge": [0, 0, 1]}  # fmt: skip
    for name, expected in wanted.items():
        y_ = binary(name, x, y)
        assert y_.dtype == np.bool_ and y_.tolist() == [bool(e) for e in expected]


def test_logic_is_for_bool():
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    assert binary("and", x, y).tolist() == [False, False, False, True]
    assert binary("or", x, y).tolist() == [False, True, True, True]
    assert binary("xor", x, y).tolist() == [False, True, True, False]
    assert unary("not", x).tolist() == [True, True, False, False]
    with pytest.raises(TypeError, match="and of int64"):
        binary("and", np.array([1]), np.array([1]))


def test_types_are_strict():
    with pytest.raises(TypeError, match="float32 and float64"):
        binary("add", np.float32(1), np.float64(1))
    with pytest.raises(TypeError, match="exp of int64"):
        unary("exp", np.array([1]))
    with pytest.raises(TypeError, match="select"):
        select(np.int64(1), np.float32(1), np.float32(2))


def test_float32_stays_float32():
    """(2^24 + 1) - 2^24 is 0 in float32 and 1 in float64."""
    big, one = np.float32(2**24), np.float32(1)
    assert binary("sub", binary("add", big, one), big) == 0
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    y = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    for name in ("add", "sub", "mul", "div"):
        got = binary(name, x, y)
        wide = binary(name, x.astype(np.float64), y.astype(np.float64))
        assert (got == wide.astype(np.float32)).all(), name


def test_scalars_stay_scalars():
    for name in loops.UNARY:
        x = np.bool_(True) if name == "not" else np.float32(0.5)
        assert isinstance(unary(name, x), np.generic), name
    for name in loops.BINARY | loops.COMPARE:
        x = np.bool_(True) if name in ("and", "or", "xor") else np.float32(0.5)
        assert isinstance(binary(name, x, x), np.generic), name


def test_cast():
    x = f32(2.7, -2.7, 0.0, -0.0, 0.3)
    assert cast(x, np.dtype(np.int32)).tolist() == [2, -2, 0, 0, 0]
    assert cast(f32(NAN, 0, -0.0, 0.1), np.dtype(bool)).tolist() == [True, False, False, True]
    assert cast(np.array([True, False]), np.dtype(np.float32)).tolist() == [1, 0]
    assert cast(np.array([2**24 + 1]), np.dtype(np.float32)).tolist() == [2**24]
    assert cast(f32(NAN), np.dtype(np.int32)).dtype == np.int32

"""Activations, comparisons, logic and the newer scalar functions, against the reference.

Specials are among the elements; where the evaluator lacks the opset, NumPy spells the rule out.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.harness import Fixed, broadcastable, reference, seeds, shapes, values
from tests.ops.test_operators import check, few

UNARY = {
    "Abs": (1, 6, 13), "Sign": (9, 13), "Reciprocal": (1, 6, 13), "Floor": (1, 6, 13),
    "Ceil": (1, 6, 13), "Round": (11, 22), "Sin": (7, 22), "Cos": (7, 22), "Tan": (7, 22),
    "Softsign": (1, 22), "HardSwish": (14, 22), "Mish": (18, 22), "Softplus": (1, 22),
}  # fmt: skip
WITH_ATTRIBUTES = {
    "LeakyRelu": ((1, 6, 16), {"alpha": 0.25}),
    "Elu": ((1, 6, 22), {"alpha": 0.5}),
    "Celu": ((12,), {"alpha": 0.5}),
    "ThresholdedRelu": ((10, 22), {"alpha": 0.5}),
    "Shrink": ((9,), {"bias": 0.25, "lambd": 0.75}),
    "HardSigmoid": ((1, 6, 22), {"alpha": 0.25, "beta": 0.25}),
    "Selu": ((6, 22), {"alpha": 0.5, "gamma": 2.0}),
    "Swish": ((24,), {"alpha": 0.5}),
    "Gelu": ((20,), {"approximate": "tanh"}),
}


@pytest.mark.parametrize("op, opset", [(op, k) for op, versions in UNARY.items() for k in versions])
@few
@given(seed=seeds, shape=shapes())
def test_functions_of_one_number(op, opset, seed, shape):
    x = 3 * values(seed, shape, special=op not in ("Softplus", "Mish", "HardSwish", "Softsign"))
    if op == "Softsign" and not shape:  # which the evaluator cannot do
        return
    with np.errstate(all="ignore"):
        check(op, opset, [np.asarray(x)])


@pytest.mark.parametrize(
    "op, opset", [(op, k) for op, (versions, _) in WITH_ATTRIBUTES.items() for k in versions]
)
@few
@given(seed=seeds, shape=shapes(), default=st.booleans())
def test_functions_with_attributes(op, opset, seed, shape, default):
    x = np.asarray(3 * values(seed, shape))
    check(op, opset, [x], {} if default else WITH_ATTRIBUTES[op][1])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_abs_and_sign_of_integers(dtype):
    x = values(3, (4, 5), dtype)
    check("Abs", 13, [x], wanted=[np.abs(x)])
    check("Sign", 13, [x], wanted=[np.sign(x)])


def test_the_tails_of_the_bent_lines():
    x = np.array([-np.inf, -200.0, -0.0, 0.0, 200.0, np.inf, np.nan], np.float32)
    inf, nan = np.inf, np.nan
    f32 = np.float32
    check("Softplus", 22, [x], wanted=[
        np.array([0, 0, np.log(2), np.log(2), 200, inf, nan], f32)])  # fmt: skip
    check("LeakyRelu", 16, [x], wanted=[np.array([-inf, -2, -0.0, 0, 200, inf, nan], f32)])
    check("Elu", 22, [x], wanted=[np.array([-1, -1, -0.0, 0, 200, inf, nan], f32)])
    check("Round", 22, [np.array([0.5, 1.5, 2.5, -0.5, -1.5], f32)],
          wanted=[np.array([0, 2, 2, -0.0, -2], f32)])  # fmt: skip


def test_selu_of_opset_1_has_rounder_defaults():
    x = values(1, (5,))
    wanted = np.where(x > 0, 1.0507 * x, 1.0507 * 1.6732 * np.expm1(x)).astype(np.float32)
    check("Selu", 1, [x], wanted=[wanted])


@pytest.mark.parametrize("opset", [7, 9, 16])
@few
@given(seed=seeds, shape=shapes(), data=st.data())
def test_prelu(opset, seed, shape, data):
    slope = data.draw(st.composite(lambda draw: broadcastable(draw, shape))())
    x, s = values(seed, shape), values(seed + 1, slope)
    check("PRelu", opset, [x, s], wanted=[np.where(x < 0, x * s, x)])


def test_prelu_before_opset_7_has_a_slope_a_channel():
    x, s = values(1, (2, 3, 4)), values(2, (3,))
    check("PRelu", 6, [x, s], wanted=[np.where(x < 0, x * s[:, None], x)])
    check("PRelu", 1, [x, s[:1]], wanted=[np.where(x < 0, x * s[:1], x)])


@pytest.mark.parametrize("op", ["Sum", "Mean"])
@pytest.mark.parametrize("opset", [6, 8, 13])
def test_sum_and_mean_of_several(op, opset):
    xs = [values(k, (3, 4)) for k in range(3)]
    total = xs[0] + xs[1] + xs[2]
    check(op, opset, xs, wanted=[total if op == "Sum" else total / np.float32(3)])
    check(op, opset, xs[:1], wanted=xs[:1])
    if opset >= 8:
        check(op, opset, [xs[0], xs[1][:1]])


@pytest.mark.parametrize("opset", [10, 13])
@few
@given(seed=seeds, shape=shapes(), fmod=st.sampled_from([0, 1]))
def test_mod_of_integers(opset, seed, shape, fmod):
    for dtype in ("int32", "int64"):
        x, y = values(seed, shape, dtype), values(seed + 1, shape, dtype)
        y = np.asarray(np.where(y == 0, 4, y), dtype)
        wanted = np.fmod(x, y) if fmod else np.mod(x, y)
        check("Mod", opset, [x, y], {"fmod": fmod}, wanted=[np.asarray(wanted)])


def test_mod_of_floats():
    x = np.array([5.5, -5.5, 5.5, -5.5, 0.0, 4.0], np.float32)
    y = np.array([2.0, 2.0, -2.0, -2.0, 3.0, 2.0], np.float32)
    check("Mod", 13, [x, y], {"fmod": 1}, wanted=[np.fmod(x, y)])
    check("Mod", 28, [x, y], wanted=[np.mod(x, y)])


def test_nan_and_infinity():
    x = values(7, (6, 7), special=True)
    check("IsNaN", 13, [x], wanted=[np.isnan(x)])
    check("IsNaN", 9, [x], wanted=[np.isnan(x)])
    for above in (0, 1):
        for below in (0, 1):
            asked = {"detect_positive": above, "detect_negative": below}
            check("IsInf", 10, [x], asked)


COMPARISONS = {"Equal": (7, 11, 19), "Less": (7, 9, 13), "Greater": (7, 9, 13),
               "LessOrEqual": (12, 16), "GreaterOrEqual": (12, 16)}  # fmt: skip


@pytest.mark.parametrize("op, opset", [(op, k) for op, all in COMPARISONS.items() for k in all])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "bool"])
@few
@given(seed=seeds, shape=shapes(), data=st.data())
def test_comparisons(op, opset, dtype, seed, shape, data):
    if dtype == "bool" and op != "Equal":
        return
    other = data.draw(st.composite(lambda draw: broadcastable(draw, shape))())
    x, y = values(seed, shape, dtype, special=True), values(seed + 1, other, dtype, special=True)
    check(op, opset, [x, y])
    check(op, opset, [y, x])


@pytest.mark.parametrize("op", ["And", "Or", "Xor"])
@few
@given(seed=seeds, shape=shapes(), data=st.data())
def test_logic(op, seed, shape, data):
    other = data.draw(st.composite(lambda draw: broadcastable(draw, shape))())
    x, y = values(seed, shape, "bool"), values(seed + 1, other, "bool")
    check(op, 7, [x, y])
    check("Not", 1, [x], wanted=[~x])


def test_comparison_and_logic_before_opset_7_broadcast_by_attribute():
    x, y = values(1, (2, 3, 4), "bool"), values(2, (3,), "bool")
    check("And", 1, [x, y], {"broadcast": 1, "axis": 1}, wanted=[x & y[:, None]])
    a, b = values(3, (2, 3, 4)), values(4, (3,))
    check("Less", 1, [a, b], {"broadcast": 1, "axis": 1}, wanted=[a < b[:, None]])


@pytest.mark.parametrize("opset", [9, 16])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@few
@given(seed=seeds, shape=shapes(), data=st.data())
def test_where(opset, dtype, seed, shape, data):
    draw = st.composite(lambda draw: broadcastable(draw, shape))
    c, x, y = (data.draw(draw()) for _ in range(3))
    condition = values(seed, c, "bool")
    xs = [values(seed + k, s, dtype, special=True) for k, s in ((1, x), (2, y))]
    wanted = np.asarray(np.where(condition, *xs))
    check("Where", opset, [condition, *xs], wanted=[wanted])


def test_cast_like():
    x = values(1, (3, 4))
    for like in ("float32", "int64", "bool"):
        given_type = np.zeros((2,), like)
        check("CastLike", 15, [x, given_type], wanted=[x.astype(like)])
        check("CastLike", 19, [x, Fixed(given_type)], wanted=[x.astype(like)])


def test_gelu_is_the_one_that_was_asked_for():
    x = np.linspace(-4, 4, 9, dtype=np.float32)
    exact, bent = (reference("Gelu", 20, [x], {"approximate": a})[0] for a in ("none", "tanh"))
    assert np.abs(exact - bent).max() > 1e-4
    check("Gelu", 20, [x], wanted=[exact])
    check("Gelu", 20, [x], {"approximate": "tanh"}, wanted=[bent])


TESTED = {
    *UNARY, *WITH_ATTRIBUTES, *COMPARISONS, "PRelu", "Sum", "Mean", "Mod", "IsNaN", "IsInf", "And",
    "Or", "Xor", "Not", "Where", "CastLike",
}  # fmt: skip

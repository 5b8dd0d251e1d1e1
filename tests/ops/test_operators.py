"""Every decomposed operator, at every opset it changed: equal to the reference evaluator.

Each example runs twice, with constant and with symbolic dimensions. Where the evaluator is wrong
(Softmax before opset 13) or lacks the form (axis-aligned broadcasting before opset 7), the
specification is spelled out in NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.ops.table import OPERATORS
from tests.ops.harness import (
    Attribute,
    Fixed,
    Input,
    assert_same,
    broadcastable,
    compiled,
    reference,
    seeds,
    shapes,
    values,
)

few = settings(
    max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def check(
    op: str,
    opset: int,
    inputs: Sequence[Input],
    attributes: Mapping[str, Attribute] | None = None,
    outputs: int = 1,
    wanted: Sequence[np.ndarray] | None = None,
) -> None:
    expected = wanted or reference(op, opset, inputs, attributes, outputs)
    for symbolic in (False, True):
        found = compiled(op, opset, inputs, attributes, outputs, symbolic)
        assert_same(found, expected)


# ---- elementwise -------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("opset", [7, 13, 14])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@few
@given(seed=seeds, shape=shapes(), data=st.data())
def test_arithmetic(op, opset, dtype, seed, shape, data):
    other = data.draw(st.composite(lambda draw: broadcastable(draw, shape))())
    x, y = values(seed, shape, dtype, special=True), values(seed + 1, other, dtype, special=True)
    if op == "Div" and dtype != "float32":
        y = np.where(y == 0, np.asarray(3, dtype), y)
        quotient = np.trunc(x / y).astype(dtype)
        check(op, opset, [x, y], wanted=[quotient])
        return
    check(op, opset, [x, y])
    if op in ("Add", "Mul"):
        check(op, opset, [y, x])


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("axis", [None, 0, 1, -3])
def test_broadcast_attribute_before_opset_7(opset, axis):
    x, y = values(1, (2, 3, 4)), values(2, (3, 4) if axis in (None, 1) else (2, 3))
    attributes = {"broadcast": 1} if axis is None else {"broadcast": 1, "axis": axis}
    wide = y if axis in (None, 1) else y[:, :, None]
    check("Add", opset, [x, y], attributes, wanted=[x + wide])
    check("Sub", opset, [x, x], {"broadcast": 0}, wanted=[x - x])


UNARY = ("Neg", "Sqrt", "Exp", "Log", "Erf", "Tanh", "Sigmoid", "Relu")


@pytest.mark.parametrize(
    "op, opset", [(op, k) for op in UNARY for k in (6, 9, 13, 14) if op != "Erf" or k >= 9]
)
@few
@given(seed=seeds, shape=shapes())
def test_unary(op, opset, seed, shape):
    x = values(seed, shape, special=True)
    wanted = [np.maximum(x, np.float32(0))] if op == "Relu" else None
    check(op, opset, [x], wanted=wanted)


@pytest.mark.parametrize("op", ["Min", "Max"])
@pytest.mark.parametrize("opset", [8, 12, 13])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@few
@given(seed=seeds, shape=shapes(), count=st.integers(1, 4), data=st.data())
def test_variadic(op, opset, dtype, seed, shape, count, data):
    if opset < 12:
        dtype = "float32"
    draw = st.composite(lambda draw: broadcastable(draw, shape))
    xs = [values(seed, shape, dtype, special=True)]
    xs += [values(seed + k, data.draw(draw()), dtype, special=True) for k in range(1, count)]
    check(op, opset, xs)


CLIPS = [(None, None), (-0.5, None), (None, 0.5), (-0.5, 0.5), (0.5, -0.5)]


@pytest.mark.parametrize("low, high", CLIPS)
def test_clip_attributes(low, high):
    x = values(3, (5, 7), special=True)
    given_bounds = {"min": low, "max": high}
    attributes = {k: v for k, v in given_bounds.items() if v is not None}
    unbounded = np.array([-np.inf, np.inf], np.float32)
    at = [b if v is None else v for v, b in zip((low, high), unbounded, strict=True)]
    wanted = np.minimum(np.maximum(x, np.float32(at[0])), np.float32(at[1]))
    check("Clip", 1, [x], attributes, wanted=[wanted])
    largest = np.finfo(np.float32).max
    at = [b if v is None else v for v, b in zip((low, high), (-largest, largest), strict=True)]
    wanted = np.minimum(np.maximum(x, np.float32(at[0])), np.float32(at[1]))
    check("Clip", 6, [x], attributes, wanted=[wanted])
    if low is None or high is None or low <= high:
        assert_same([wanted], reference("Clip", 6, [x], attributes))


@pytest.mark.parametrize("opset", [11, 12, 13])
@pytest.mark.parametrize("low, high", CLIPS)
def test_clip_inputs(opset, low, high):
    for dtype in ("float32",) if opset < 12 else ("float32", "int32"):
        x = values(3, (5, 7), dtype, special=True)
        scale = 1 if dtype == "float32" else 6
        bounds = [None if b is None else np.array(b * scale, dtype) for b in (low, high)]
        check("Clip", opset, [x, *bounds])
        check("Clip", opset, [x, *(None if b is None else Fixed(b) for b in bounds)])


@pytest.mark.parametrize("opset", [7, 12, 13, 15])
@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0, 3.0, -1.0])
def test_power_of_a_constant(opset, exponent):
    x = np.abs(values(4, (3, 5))) if exponent == 0.5 else values(4, (3, 5))
    for shape in ((), (1,), (1, 1, 1)):
        y = np.full(shape, exponent, np.float32)
        check("Pow", opset, [x, Fixed(y)])
        check("Pow", opset, [x, y])


@pytest.mark.parametrize("opset", [12, 13, 15])
def test_power_of_another_dtype(opset):
    x = values(4, (3, 5))
    check("Pow", opset, [x, Fixed(np.array(3, np.int64))])
    check("Pow", opset, [x, np.array([1, 2, 3, 4, 5], np.int64)])
    whole = values(5, (3, 5), "int32")
    for exponent in (1, 2, 3, 5):
        check("Pow", opset, [whole, Fixed(np.array(exponent, np.int32))])


@pytest.mark.parametrize("opset", [6, 9, 13, 19, 21])
@pytest.mark.parametrize("source", ["float32", "int32", "int64", "bool"])
@pytest.mark.parametrize("to", ["float32", "int32", "int64", "bool"])
def test_cast(opset, source, to):
    numbers = {"float32": 1, "int32": 6, "int64": 7, "bool": 9}
    x = values(6, (4, 5), source) * 3 if source == "float32" else values(6, (4, 5), source)
    x = np.asarray(x, source)
    check("Cast", opset, [x], {"to": numbers[to]}, wanted=[x.astype(to)])


def test_cast_of_opset_1_and_of_specials():
    x = np.array([np.nan, -np.inf, 0.0, -0.0, 0.5, -2.7], np.float32)
    check("Cast", 1, [x], {"to": "BOOL"}, wanted=[x != 0])
    check("Cast", 1, [x[2:]], {"to": "INT32"}, wanted=[np.array([0, 0, 0, -2], np.int32)])


# ---- shapes ------------------------------------------------------------------------------------


@few
@given(seed=seeds, shape=shapes(), data=st.data())
def test_transpose(seed, shape, data):
    x = values(seed, shape)
    check("Transpose", 13, [x], wanted=[x.T])
    perm = data.draw(st.permutations(range(len(shape))))
    check("Transpose", 1, [x], {"perm": perm}, wanted=[x.transpose(perm)])


@few
@given(seed=seeds, shape=shapes(), data=st.data())
def test_flatten(seed, shape, data):
    x = values(seed, shape)
    for opset in (1, 9, 11, 13):
        low = 0 if opset < 11 else -len(shape)
        axis = data.draw(st.integers(low, len(shape)))
        at = axis + len(shape) if axis < 0 else axis
        rows = int(np.prod(shape[:at]))
        wanted = x.reshape(rows, int(np.prod(shape[at:])))
        check("Flatten", opset, [x], {"axis": axis}, wanted=[wanted])


@pytest.mark.parametrize("opset", [1, 5, 13, 14, 21])
@pytest.mark.parametrize(
    "shape, target, result",
    [
        ((2, 3, 4), (4, 6), (4, 6)),
        ((2, 3, 4), (0, -1), (2, 12)),
        ((2, 3, 4), (-1, 4), (6, 4)),
        ((2, 3, 4), (0, 0, 0), (2, 3, 4)),
        ((2, 3, 4), (-1,), (24,)),
        ((2, 3, 4), (0, 1, -1, 4), (2, 1, 3, 4)),
        ((1,), (), ()),
        ((), (1, 1), (1, 1)),
        ((0, 3), (0, -1), (0, 3)),
        ((0, 3), (-1, 3), (0, 3)),
        ((2, 0, 3), (0, 0, -1), (2, 0, 3)),
    ],
)
def test_reshape(opset, shape, target, result):
    x = values(7, shape)
    if opset < 5:
        check("Reshape", opset, [x], {"shape": target}, wanted=[x.reshape(result)])
    else:
        shape_input = Fixed(np.array(target, np.int64))
        check("Reshape", opset, [x, shape_input], wanted=[x.reshape(result)])


def test_reshape_allowzero():
    x = values(7, (2, 0, 3))
    target = Fixed(np.array([0, 5], np.int64))
    check("Reshape", 14, [x, target], {"allowzero": 1}, wanted=[x.reshape(0, 5)])


@few
@given(shape=shapes(), data=st.data())
def test_shape(shape, data):
    x = values(1, shape)
    check("Shape", 13, [x], wanted=[np.array(shape, np.int64)])
    bound = st.integers(-6, 6)
    start, end = data.draw(bound), data.draw(bound)
    wanted = [np.array(shape[start:end], np.int64)]
    check("Shape", 15, [x], {"start": start, "end": end}, wanted=wanted)


def test_shape_of_a_type_that_is_not_compiled():
    x = np.zeros((2, 3), np.float64)
    check("Shape", 13, [x], wanted=[np.array([2, 3], np.int64)])


def test_identity_and_dropout():
    x = values(1, (3, 4))
    check("Identity", 13, [x], wanted=[x])
    check("Dropout", 7, [x], {"ratio": 0.5}, wanted=[x])
    check("Dropout", 12, [x], wanted=[x])
    check("Dropout", 13, [x, Fixed(np.array(0.3, np.float32)), Fixed(np.array(False))], wanted=[x])
    check("Dropout", 13, [x], outputs=2, wanted=[x, np.ones((3, 4), bool)])


# ---- reductions --------------------------------------------------------------------------------

REDUCTIONS = {
    "ReduceSum": 13, "ReduceMean": 18, "ReduceMax": 18, "ReduceMin": 18, "ReduceProd": 18,
}  # fmt: skip
NUMPY = {
    "ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min,
    "ReduceProd": np.prod,
}  # fmt: skip


@pytest.mark.parametrize("op", list(REDUCTIONS))
@pytest.mark.parametrize("opset", [1, 11, 13, 18, 20])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@few
@given(seed=seeds, shape=shapes(smallest=1), data=st.data())
def test_reduce(op, opset, dtype, seed, shape, data):
    x = values(seed, shape, dtype)
    rank = len(shape)
    low = 0 if opset < 11 else -rank
    chosen = data.draw(
        st.lists(st.integers(low, rank - 1), max_size=rank, unique_by=lambda a: a % rank)
        if rank
        else st.just([])
    )
    keep = data.draw(st.sampled_from([0, 1]))
    axes = tuple(chosen) if chosen else None
    function = NUMPY[op]
    wanted = np.asarray(function(x, axis=axes, keepdims=bool(keep)))
    wanted = np.trunc(wanted).astype(dtype) if dtype != "float32" else wanted.astype(dtype)
    if opset < REDUCTIONS[op]:
        attributes: dict[str, Attribute] = {"keepdims": keep}
        if chosen:
            attributes["axes"] = chosen
        check(op, opset, [x], attributes, wanted=[wanted])
    else:
        inputs = [x, Fixed(np.array(chosen, np.int64))] if chosen else [x]
        check(op, opset, inputs, {"keepdims": keep}, wanted=[wanted])


@pytest.mark.parametrize("op", list(REDUCTIONS))
def test_reduce_over_an_empty_list_of_axes(op):
    x = values(8, (2, 3))
    opset = REDUCTIONS[op]
    none = Fixed(np.array([], np.int64))
    check(op, opset, [x, none], {"noop_with_empty_axes": 1}, wanted=[x])
    check(op, opset, [x], {"noop_with_empty_axes": 1}, wanted=[x])
    function = NUMPY[op]
    check(op, opset, [x, none], wanted=[np.asarray(function(x, keepdims=True), np.float32)])


def test_reduce_over_no_elements():
    x = np.zeros((2, 0, 3), np.float32)
    axes = Fixed(np.array([1], np.int64))
    full = np.full((2, 1, 3), 1, np.float32)
    check("ReduceSum", 13, [x, axes], wanted=[full * 0])
    check("ReduceMean", 18, [x, axes], wanted=[full * np.nan])
    check("ReduceMax", 18, [x, axes], wanted=[full * -np.inf])
    whole = x.astype(np.int32)
    lowest = np.full((2, 1, 3), np.iinfo(np.int32).min, np.int32)
    check("ReduceMax", 18, [whole, axes], wanted=[lowest])


def test_reduce_max_keeps_nan_and_takes_bool():
    x = np.array([[1, np.nan, 3], [4, 5, 6]], np.float32)
    axes = Fixed(np.array([1], np.int64))
    check("ReduceMax", 18, [x, axes], wanted=[np.array([[np.nan], [6]], np.float32)])
    flags = np.array([[True, False], [False, False]])
    check("ReduceMax", 20, [flags, axes], wanted=[np.array([[True], [False]])])
    none = np.zeros((2, 0), bool)
    check("ReduceMax", 20, [none, axes], wanted=[np.zeros((2, 1), bool)])


def test_reduce_min_and_prod_at_the_edges():
    x = np.array([[1, np.nan, 3], [4, 5, 6]], np.float32)
    axes = Fixed(np.array([1], np.int64))
    check("ReduceMin", 18, [x, axes], wanted=[np.array([[np.nan], [4]], np.float32)])
    flags = np.array([[True, False], [True, True]])
    check("ReduceMin", 20, [flags, axes], wanted=[np.array([[False], [True]])])
    none = np.zeros((2, 0), np.float32)
    check("ReduceMin", 18, [none, axes], wanted=[np.full((2, 1), np.inf, np.float32)])
    check("ReduceProd", 18, [none, axes], wanted=[np.ones((2, 1), np.float32)])
    check("ReduceMin", 20, [none.astype(bool), axes], wanted=[np.ones((2, 1), bool)])


COMPOSITE = {
    "ReduceL1": lambda x, **how: np.sum(np.abs(x), **how),
    "ReduceL2": lambda x, **how: np.sqrt(np.sum(x * x, **how)),
    "ReduceSumSquare": lambda x, **how: np.sum(x * x, **how),
    "ReduceLogSum": lambda x, **how: np.log(np.sum(x, **how)),
    "ReduceLogSumExp": lambda x, **how: np.log(np.sum(np.exp(x), **how)),
}


@pytest.mark.parametrize("op", list(COMPOSITE))
@pytest.mark.parametrize("opset", [1, 11, 13, 18])
@few
@given(seed=seeds, shape=shapes(low=1, smallest=1), keep=st.booleans(), data=st.data())
def test_reductions_of_something(op, opset, seed, shape, keep, data):
    x = np.abs(values(seed, shape)) + np.float32(0.1)
    rank = len(shape)
    axes = data.draw(st.lists(st.integers(0, rank - 1), min_size=1, max_size=rank, unique=True))
    how = {"axis": tuple(axes), "keepdims": keep}
    wanted = [np.asarray(COMPOSITE[op](x, **how))]
    attributes: dict[str, Attribute] = {"keepdims": int(keep)}
    if opset < 18:
        check(op, opset, [x], {**attributes, "axes": axes}, wanted=wanted)
    else:
        check(op, opset, [x, Fixed(np.array(axes, np.int64))], attributes, wanted=wanted)
        one_by_one = [np.asarray(COMPOSITE[op](x, axis=()))]
        nothing = {"noop_with_empty_axes": 1, "keepdims": int(keep)}
        check(op, opset, [x], nothing, wanted=one_by_one)


def test_log_sum_exp_of_large_and_infinite_elements():
    x = np.array([[1000, 1000], [-np.inf, -np.inf], [np.inf, 0], [-1000, -1000]], np.float32)
    ln2 = np.log(2)
    wanted = np.array([[1000 + ln2], [-np.inf], [np.inf], [-1000 + ln2]], np.float32)
    check("ReduceLogSumExp", 13, [x], {"axes": [1]}, wanted=[wanted])


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("opset", [1, 11, 12, 13])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@few
@given(seed=seeds, shape=shapes(low=1, smallest=1), keep=st.booleans(), data=st.data())
def test_arg(op, opset, dtype, seed, shape, keep, data):
    x = np.asarray(values(seed, shape, dtype)).round()
    rank = len(shape)
    axis = data.draw(st.integers(0 if opset < 11 else -rank, rank - 1))
    function = np.argmax if op == "ArgMax" else np.argmin
    attributes: dict[str, Attribute] = {"axis": axis, "keepdims": int(keep)}
    wanted = np.asarray(function(x, axis=axis, keepdims=keep))
    check(op, opset, [x], attributes, wanted=[wanted])
    if opset >= 12:
        back = np.asarray(function(np.flip(x, axis), axis=axis, keepdims=keep))
        last = np.asarray(x.shape[axis] - 1 - back)
        check(op, opset, [x], {**attributes, "select_last_index": 1}, wanted=[last])


# ---- products ----------------------------------------------------------------------------------


@pytest.mark.parametrize("opset, dtype", [(1, "float32"), (9, "int32"), (13, "float32")])
@few
@given(seed=seeds, sizes=st.tuples(*[st.integers(0, 4)] * 3), data=st.data())
def test_matmul(opset, dtype, seed, sizes, data):
    m, k, n = sizes
    batch = data.draw(shapes(high=2))
    draw = st.composite(lambda draw: broadcastable(draw, batch))
    left, right = data.draw(draw()), data.draw(draw())
    x, y = values(seed, (*left, m, k), dtype), values(seed + 1, (*right, k, n), dtype)
    check("MatMul", opset, [x, y], wanted=[np.matmul(x, y)])
    vector = values(seed + 2, (k,), dtype)
    check("MatMul", opset, [vector, y], wanted=[np.matmul(vector, y)])
    check("MatMul", opset, [x, vector], wanted=[np.matmul(x, vector)])
    check("MatMul", opset, [vector, vector], wanted=[np.asarray(np.matmul(vector, vector))])


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
@few
@given(
    seed=seeds,
    sizes=st.tuples(*[st.integers(0, 4)] * 3),
    transposed=st.tuples(st.booleans(), st.booleans()),
    factors=st.tuples(st.sampled_from([1.0, 0.5]), st.sampled_from([1.0, 0.0, 2.0])),
    data=st.data(),
)
def test_gemm(opset, seed, sizes, transposed, factors, data):
    m, k, n = sizes
    a = values(seed, (k, m) if transposed[0] else (m, k))
    b = values(seed + 1, (n, k) if transposed[1] else (k, n))
    bias = data.draw(st.sampled_from([(m, n), (n,), (1, n), (m, 1), (1,), (), None]))
    if bias is None and opset < 11:
        bias = (n,)
    c = None if bias is None else values(seed + 2, bias)
    attributes: dict[str, Attribute] = {"alpha": factors[0], "beta": factors[1]}
    attributes |= {"transA": int(transposed[0]), "transB": int(transposed[1])}
    product = (a.T if transposed[0] else a) @ (b.T if transposed[1] else b)
    wanted = np.float32(factors[0]) * product
    if c is not None:
        wanted = wanted + np.float32(factors[1]) * c
    check("Gemm", opset, [a, b] if c is None else [a, b, c], attributes, wanted=[wanted])


def test_gemm_of_opset_6_broadcasts_its_bias():
    a, b, c = values(1, (2, 3)), values(2, (3, 4)), values(3, (4,))
    check("Gemm", 6, [a, b, c], {"broadcast": 1})
    full = values(3, (2, 4))
    check("Gemm", 1, [a, b, full], wanted=[a @ b + full])


# ---- normalisation -----------------------------------------------------------------------------


def softmax(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    powers = np.exp(x - x.max(axis=axes, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis=axes, keepdims=True)


@pytest.mark.parametrize("opset", [1, 11, 13])
@few
@given(seed=seeds, shape=shapes(low=1), data=st.data())
def test_softmax(opset, seed, shape, data):
    x = values(seed, shape)
    rank = len(shape)
    axis = data.draw(st.integers(0 if opset == 1 else -rank, rank - 1))
    at = axis % rank
    axes = (at,) if opset >= 13 else tuple(range(at, rank))
    check("Softmax", opset, [x], {"axis": axis}, wanted=[softmax(x, axes)])
    default = (rank - 1,) if opset >= 13 else tuple(range(min(1, rank), rank))
    if default:
        check("Softmax", opset, [x], wanted=[softmax(x, default)])


@few
@given(seed=seeds, shape=shapes(low=1, smallest=1), data=st.data())
def test_layer_normalization(seed, shape, data):
    rank = len(shape)
    axis = data.draw(st.integers(-rank, rank - 1))
    inner = shape[axis:]
    draw = st.composite(lambda draw: broadcastable(draw, inner))
    x, scale = values(seed, shape), values(seed + 1, data.draw(draw()))
    bias = values(seed + 2, data.draw(draw())) if data.draw(st.booleans()) else None
    inputs = [x, scale] if bias is None else [x, scale, bias]
    attributes: dict[str, Attribute] = {"axis": axis, "epsilon": 1e-3}
    outputs = data.draw(st.integers(1, 3))
    check("LayerNormalization", 17, inputs, attributes, outputs)


def test_layer_normalization_of_no_rows():
    x = np.zeros((0, 4), np.float32)
    check("LayerNormalization", 17, [x, values(1, (4,))], wanted=[x])


@pytest.mark.parametrize("opset", [1, 11, 13])
@few
@given(seed=seeds, shape=shapes(low=1), data=st.data())
def test_log_softmax_and_hardmax(opset, seed, shape, data):
    x = np.asarray(values(seed, shape) * 30)
    rank = len(shape)
    axis = data.draw(st.integers(0 if opset == 1 else -rank, rank - 1))
    at = axis % rank
    axes = (at,) if opset >= 13 else tuple(range(at, rank))
    shifted = x - x.max(axis=axes, keepdims=True, initial=-np.inf)
    wanted = shifted - np.log(np.exp(shifted).sum(axis=axes, keepdims=True))
    check("LogSoftmax", opset, [x], {"axis": axis}, wanted=[wanted])
    if not x.size:
        return
    flat = x.reshape(*shape[:at], -1) if opset < 13 else x
    first = np.argmax(flat, axis=at, keepdims=True)
    hot = np.zeros_like(flat)
    np.put_along_axis(hot, first, np.float32(1), at)
    check("Hardmax", opset, [x], {"axis": axis}, wanted=[hot.reshape(shape)])


@pytest.mark.parametrize("opset", [1, 6, 7, 9, 14, 15])
@pytest.mark.parametrize("shape", [(4,), (2, 3), (0, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_batch_normalization(opset, shape):
    x = values(1, shape)
    channels = shape[1] if len(shape) > 1 else 1
    scale, bias, mean = (values(k, (channels,)) for k in (2, 3, 4))
    variance = np.abs(values(5, (channels,)))
    attributes: dict[str, Attribute] = {"epsilon": 1e-3}
    if opset < 7:
        attributes["is_test"] = 1
    check("BatchNormalization", opset, [x, scale, bias, mean, variance], attributes)


def test_batch_normalization_of_every_feature():
    x = values(1, (2, 3, 4))
    weights = [values(k, (3, 4)) for k in (2, 3, 4)] + [np.abs(values(5, (3, 4)))]
    check("BatchNormalization", 7, [x, *weights], {"spatial": 0})


@pytest.mark.parametrize("shape", [(2, 6, 4), (2, 6, 3, 5), (1, 6, 1, 1)])
def test_normalization_of_channels_and_groups(shape):
    x, scale, bias = values(1, shape), values(2, (6,)), values(3, (6,))
    near: dict[str, Attribute] = {"epsilon": 1e-2}
    for opset in (1, 6, 22):
        check("InstanceNormalization", opset, [x, scale, bias], near)
    for groups in (1, 2, 3, 6):
        split = x.reshape(shape[0], groups, -1)
        normal = split - split.mean(axis=2, keepdims=True)
        normal = normal / np.sqrt(split.var(axis=2, keepdims=True) + np.float32(1e-2))
        column = (6, *[1] * (len(shape) - 2))
        wanted = normal.reshape(shape) * scale.reshape(column) + bias.reshape(column)
        attributes = {**near, "num_groups": groups}
        check("GroupNormalization", 21, [x, scale, bias], attributes, wanted=[wanted])
        each = scale[:groups], bias[:groups]
        old = (normal * each[0][:, None] + each[1][:, None]).reshape(shape)
        check("GroupNormalization", 18, [x, *each], attributes, wanted=[old])


@few
@given(seed=seeds, shape=shapes(low=1, smallest=1), data=st.data())
def test_rms_normalization(seed, shape, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x, scale = values(seed, shape), values(seed + 1, shape[axis:])
    check("RMSNormalization", 23, [x, scale], {"axis": axis, "epsilon": 1e-3})


def test_other_normalizations():
    x = values(1, (2, 5, 3, 4))
    centred = x - x.mean(axis=(0, 2, 3), keepdims=True)
    wanted = centred / (np.sqrt((centred**2).mean(axis=(0, 2, 3), keepdims=True)) + 1e-9)
    for opset in (9, 13):
        check("MeanVarianceNormalization", opset, [x], wanted=[wanted.astype(np.float32)])
    x[0, :, 0, 0] = 0
    for p in (1, 2):
        norm = np.linalg.norm(x, p, axis=1, keepdims=True)
        wanted = np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm))
        check("LpNormalization", 22, [x], {"axis": 1, "p": p}, wanted=[wanted])
    for size in (1, 2, 3, 4):
        attributes: dict[str, Attribute] = {"size": size, "alpha": 0.5, "beta": 0.6, "bias": 2.0}
        total = np.zeros_like(x)
        for c in range(5):
            seen = x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1]
            total[:, c] = (seen * seen).sum(axis=1)
        wanted = x / (2 + np.float32(0.5 / size) * total) ** np.float32(0.6)
        check("LRN", 13, [x], attributes, wanted=[wanted])


TESTED = {
    "Add", "Sub", "Mul", "Div", "Neg", "Sqrt", "Exp", "Log", "Erf", "Tanh", "Sigmoid", "Relu",
    "Min", "Max", "Clip", "Pow", "Cast", "Transpose", "Flatten", "Reshape", "Shape",
    "Identity", "Dropout", *REDUCTIONS, *COMPOSITE, "ArgMax", "ArgMin", "MatMul", "Gemm",
    "Softmax", "LogSoftmax", "Hardmax", "LayerNormalization", "RMSNormalization",
    "BatchNormalization", "InstanceNormalization", "GroupNormalization",
    "MeanVarianceNormalization", "LpNormalization", "LRN",
}  # fmt: skip


def test_every_decomposed_operator_is_tested():
    from tests.ops import test_activation, test_convolution, test_moving

    tested = TESTED | test_activation.TESTED | test_convolution.TESTED | test_moving.TESTED
    rows = {row.name for row in OPERATORS}
    assert rows - tested == {"Constant"}  # import makes leaves of them; see test_shape_values
    assert tested <= rows

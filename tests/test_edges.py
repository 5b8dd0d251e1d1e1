"""Numbers at the edges, through machine code: zeros of both signs, infinities, NaN, subnormals.

What is right is NumPy's result in the declared type where a function is rounded correctly, and
float64's within two units in the last place where it is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import ModelProto, TensorProto

import compiler
from compiler.frontend.reference import reference
from compiler.ir.interpret.scalars import binary
from compiler.ir.interpret.tensor import reduce
from compiler.ir.types import Array
from compiler.runtime.engine import Engine
from sample_models import sample
from tests.frontend.models import data, info, model, node
from tests.whole import Whole

Floats = npt.NDArray[np.float32]

SPECIAL = np.array(
    [0.0, 1, 0.5, 2, 9, 20, 88.72, 88.73, 103.9, 104.1, np.inf, np.nan, 1e-45, 5.9e-39, 1e-8,
     1.1754942e-38, 1.1754944e-38, 3.4028235e38, 1 - 2**-24, 1 + 2**-23, math.pi],
    np.float32,
)  # fmt: skip
EDGES = np.concatenate([SPECIAL, -SPECIAL])
X, Z = np.repeat(EDGES, len(EDGES)), np.tile(EDGES, len(EDGES))
LOW, HIGH = np.float32(-1.5), np.float32(2.5)

WAYS = pytest.mark.parametrize(
    ("pipeline", "numerics"),
    [("default", "default"), ("op-by-op", "default"), ("default", "strict"),
     ("default,emit{math=libm}", "default")],
    ids=["default", "op by op", "strict", "libm"],
)  # fmt: skip


def wide(f: Callable[..., Array]) -> Callable[..., Array]:
    """f in float64, rounded once."""
    return lambda *xs: f(*(x.astype(np.float64) for x in xs)).astype(np.float32)


def sigmoid(x: npt.NDArray[np.float64]) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def extreme(name: str) -> Callable[..., Array]:
    """The maximum or minimum that puts -0 below 0."""
    return lambda x, z: np.asarray(binary(name, x, z))


FUNCTIONS: dict[str, tuple[int, Callable[..., Array]]] = {
    "Relu": (0, lambda x, z: np.asarray(binary("max", x, np.float32(0)))),
    "Neg": (0, lambda x, z: -x),
    "Sqrt": (0, lambda x, z: np.sqrt(x)),
    "Add": (0, np.add), "Sub": (0, np.subtract),
    "Mul": (0, np.multiply), "Div": (0, np.true_divide),
    "Min": (0, extreme("min")), "Max": (0, extreme("max")),
    "Clip": (0, lambda x, z: np.minimum(np.maximum(x, LOW), HIGH)),
    "Exp": (2, lambda x, z: wide(np.exp)(x)),
    "Log": (2, lambda x, z: wide(np.log)(x)),
    "Tanh": (2, lambda x, z: wide(np.tanh)(x)),
    "Sigmoid": (2, lambda x, z: wide(sigmoid)(x)),
    "Erf": (2, lambda x, z: wide(np.vectorize(math.erf))(x)),
    "Pow": (2, lambda x, z: wide(np.power)(x, z)),
}  # fmt: skip
"""Operator -> units in the last place that it may be off, and what is right."""


@cache
def elementwise(pipeline: str, numerics: str) -> Engine:
    """One engine for all of them, with an output for each."""
    second = {"Add", "Sub", "Mul", "Div", "Min", "Max", "Pow"}
    nodes = [
        node(op, ["x", "z"] if op in second else ["x", "low", "high"] if op == "Clip" else ["x"],
             [op])
        for op in FUNCTIONS
    ]  # fmt: skip
    source = model(
        nodes, [info("x", ["n"]), info("z", ["n"])], list(FUNCTIONS), {"low": LOW, "high": HIGH}
    )
    return compiler.compile(data(source), pipeline=pipeline, numerics=numerics).engine


@cache
def results(pipeline: str, numerics: str) -> dict[str, Array]:
    return elementwise(pipeline, numerics).run({"x": X, "z": Z})


def steps(a: Array, b: Array) -> Array:
    """How many float32 numbers lie between a and b; 0 for two NaN; signs of zero count as one."""

    def place(x: Array) -> Array:
        bits = x.view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(bits & 0x7FFFFFFF) - 1, bits)

    nan = np.isnan(a) & np.isnan(b)
    far = np.isnan(a) != np.isnan(b)
    return np.where(nan, 0, np.where(far, 1 << 40, np.abs(place(a) - place(b))))


@WAYS
@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_function_at_every_edge(op: str, pipeline: str, numerics: str) -> None:
    allowed, right = FUNCTIONS[op]
    found, wanted = results(pipeline, numerics)[op], np.asarray(right(X, Z), np.float32)
    off = steps(found, wanted)
    at = int(np.argmax(off))
    # libm's float32 functions have their own error, up to 4 units on some of them.
    assert off[at] <= (4 * bool(allowed) if "libm" in pipeline else allowed), (
        f"{op}({X[at]}, {Z[at]}) = {found[at]}, expected {wanted[at]}"
    )


def test_interpreters_put_negative_zero_below_zero() -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    x, y = np.repeat(zeros, 2), np.tile(zeros, 2)
    assert np.signbit(binary("max", x, y)).tolist() == [False, False, False, True]
    assert np.signbit(binary("min", x, y)).tolist() == [False, True, True, True]
    rows = np.array([[0, -0.0], [-0.0, 0], [-0.0, -0.0], [-1, -0.0]], np.float32)
    assert np.signbit(reduce("max", rows, (1,))).ravel().tolist() == [False, False, True, True]
    assert np.signbit(reduce("min", -rows, (1,))).ravel().tolist() == [True, True, False, False]
    assert np.isnan(reduce("max", np.array([np.nan, -0.0], np.float32), (0,))).all()


# ---- rows ----------------------------------------------------------------------------------------

INF, NAN = np.inf, np.nan
ROWS = np.array(
    [[1, 2, 3], [INF, 1, 2], [-INF, 1, 2], [-INF, -INF, -INF], [INF, INF, 1], [NAN, 1, 2],
     [1, NAN, INF], [1e38, -1e38, 3e38], [-3e38, 3e38, 0], [1e-45, 0, -1e-45], [-0.0, -0.0, -0.0],
     [1e-38, 2e-38, 1e-39], [88, 89, 100], [-100, -100, -100], [1e-41, 1, 0], [-88, -104, -90]],
    np.float32,
)  # fmt: skip


@WAYS
@pytest.mark.parametrize("repeat", [1, 7])
def test_rows_with_infinities_nan_and_subnormals(
    repeat: int, pipeline: str, numerics: str
) -> None:
    """Softmax along rows and columns, reductions, LayerNormalization: what the reference gives."""
    engine = rows_engine(pipeline, numerics)
    x = np.tile(ROWS, (1, repeat))
    found = engine.run({"x": x})
    wanted = reference(Whole(rows_model()).model, {"x": x}, "declared").outputs
    for name, right in wanted.items():
        np.testing.assert_allclose(
            found[name], right, rtol=2e-5, atol=1e-37, equal_nan=True, err_msg=name
        )


def rows_model() -> ModelProto:
    nodes = [
        node("Softmax", ["x"], ["softmax"], axis=-1),
        node("Softmax", ["x"], ["columns"], axis=0),
        node("ReduceMax", ["x"], ["max"], axes=[1]),
        node("ReduceSum", ["x", "axes"], ["sum"]),
        node("ReduceMean", ["x"], ["mean"], axes=[1]),
        node("LayerNormalization", ["x", "scale"], ["norm"], axis=-1),
    ]
    weights = {"axes": np.array([1], np.int64), "scale": np.full(1, 2, np.float32)}
    return model(nodes, [info("x", ["r", "c"])], [n.output[0] for n in nodes], weights)


@cache
def rows_engine(pipeline: str, numerics: str) -> Engine:
    return compiler.compile(data(rows_model()), pipeline=pipeline, numerics=numerics).engine


@WAYS
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_dividing_a_row_by_a_tiny_or_huge_number(pipeline: str, numerics: str) -> None:
    """Also where the reciprocal of the divisor is no normal number: 0 / 1e-41 is 0, not NaN."""
    nodes = [node("ReduceMax", ["x"], ["m"], axes=[1]), node("Div", ["x", "m"], ["y"])]
    engine = compiler.compile(
        data(model(nodes, [info("x", ["r", "c"])], ["y"])), pipeline=pipeline, numerics=numerics
    ).engine
    tops = [1e-45, 1e-41, 1e-38, 7.9e-31, 1, 3, 1.3e30, 1e38, 3.4028235e38, INF, 0, -1e-41, NAN]
    shares = np.array([0, -0.0, 1, 0.5, -3, 1e-30, -1e-10], np.float32)
    x = (np.array(tops, np.float32)[:, None] * shares).astype(np.float32)
    right = x / x.max(axis=1, keepdims=True)
    found = engine.run({"x": x})["y"]
    np.testing.assert_allclose(found, right, rtol=4e-7, atol=3e-45, equal_nan=True)
    zero = right == 0
    assert np.array_equal(np.signbit(found[zero]), np.signbit(right[zero]))


def test_reductions_over_nothing() -> None:
    nodes = [node("ReduceSum", ["x", "axes"], ["s"]), node("ReduceMax", ["x", "axes"], ["m"])]
    source = model(
        nodes, [info("x", ["r", "c"])], ["s", "m"], {"axes": np.array([1], np.int64)}, opset=18
    )
    engine = compiler.compile(data(source)).engine
    found = engine.run({"x": np.zeros((2, 0), np.float32)})
    assert found["s"].tolist() == [[0], [0]] and found["m"].tolist() == [[-INF], [-INF]]
    found = engine.run({"x": np.zeros((0, 3), np.float32)})
    assert found["s"].shape == found["m"].shape == (0, 1)


# ---- integers ------------------------------------------------------------------------------------

INTEGERS = ("int32", "int64")


def truncated(dtype: str, a: int, b: int) -> int:
    """a / b toward zero; x / 0 = 0, and what does not fit wraps."""
    if b == 0:
        return 0
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    limits = np.iinfo(dtype)
    return (quotient - int(limits.min)) % (1 << limits.bits) + int(limits.min)


@pytest.mark.parametrize("pipeline", ["default", "op-by-op"])
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_integers_wrap_and_divide_toward_zero(dtype: str, pipeline: str) -> None:
    limits, element = np.iinfo(dtype), getattr(TensorProto, dtype.upper())
    some = np.array(
        [0, 1, -1, 2, -2, 3, -3, 7, -7, limits.max, limits.min, limits.max - 1, limits.min + 1],
        dtype,
    )
    a, b = np.repeat(some, len(some)), np.tile(some, len(some))
    ops = ["Add", "Sub", "Mul", "Div", "Min", "Max"]
    nodes = [node(op, ["a", "b"], [op]) for op in ops]
    nodes += [node("Neg", ["a"], ["Neg"]), node("Relu", ["a"], ["Relu"]),
              node("Clip", ["a", "low", "high"], ["Clip"])]  # fmt: skip
    source = model(
        nodes, [info("a", ["n"], element), info("b", ["n"], element)],
        [n.output[0] for n in nodes], {"low": np.array(-2, dtype), "high": np.array(5, dtype)},
    )  # fmt: skip
    one = compiler.compile(data(source), pipeline=pipeline)
    assert not one.trace.breaks()
    wanted = {
        "Add": a + b, "Sub": a - b, "Mul": a * b, "Min": np.minimum(a, b), "Max": np.maximum(a, b),
        "Div": np.array(list(map(partial(truncated, dtype), a.tolist(), b.tolist())), dtype),
        "Neg": -a, "Relu": np.maximum(a, 0), "Clip": np.clip(a, -2, 5),
    }  # fmt: skip
    found = one.engine.run({"a": a, "b": b})
    for op, right in wanted.items():
        assert found[op].dtype == right.dtype
        np.testing.assert_array_equal(found[op], right, op)


CASTS: dict[str, Array] = {
    "float32": np.array(
        [0, -0.0, 0.5, -0.5, 1 - 2**-24, 1.5, -1.5, 2.5, 1e9, -1e9, 2147483520, -2147483648,
         9.2e18, -9.2e18, 1e-45, -1e-45, INF, -INF, NAN, 2147483648, 1e19, -1e19, 1e38],
        np.float32,
    ),
    "int32": np.array([0, 1, -1, 2**31 - 1, -(2**31), 16777217, -16777217, 2**31 - 65], np.int32),
    "int64": np.array(
        [0, 1, -1, 2**31, -(2**31) - 1, 2**32, 2**32 + 1, 2**63 - 1, -(2**63), 2**53 + 1, 16777217,
         2**62 + 2**38, 2**62 + 2**38 + 1],
        np.int64,
    ),
    "bool": np.array([True, False, True]),
}  # fmt: skip
ELEMENTS = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int64": TensorProto.INT64,
            "bool": TensorProto.BOOL}  # fmt: skip


@pytest.mark.parametrize("source", CASTS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_casts_cut_off_wrap_and_round(source: str) -> None:
    """Every pair of compiled types; a float that does not fit gives what NumPy gives here."""
    x = CASTS[source]
    nodes = [node("Cast", ["x"], [to], to=element) for to, element in ELEMENTS.items()]
    engine = compiler.compile(
        data(model(nodes, [info("x", ["n"], ELEMENTS[source])], list(ELEMENTS)))
    ).engine
    for to, found in engine.run({"x": x}).items():
        right = x.astype(to)
        assert found.dtype == right.dtype
        np.testing.assert_array_equal(found, right, f"{source} to {to}")


def test_any_byte_but_zero_is_true() -> None:
    """A bool array may hold other bytes, as views of bytes do; a result holds 0 and 1 only."""
    nodes = [node("Cast", ["x"], ["y"], to=TensorProto.INT64),
             node("Cast", ["y"], ["z"], to=TensorProto.BOOL)]  # fmt: skip
    source = model(nodes, [info("x", ["n"], TensorProto.BOOL)], ["y", "z"])
    engine = compiler.compile(data(source)).engine
    x = np.array([0, 1, 2, 255, 128], np.uint8).view(np.bool_)
    found = engine.run({"x": x})
    assert found["y"].tolist() == [0, 1, 1, 1, 1]
    assert found["z"].view(np.uint8).tolist() == [0, 1, 1, 1, 1]


def test_a_model_in_memory_is_compiled_as_it_is() -> None:
    """What `onnx.load` gives, as well as a path or bytes."""
    proto = onnx.load(sample("mlp").path)
    inputs = {"x": np.ones((2, 784), np.float32)}
    wanted = compiler.compile(sample("mlp").path).engine.run(inputs)
    found = compiler.compile(proto).engine.run(inputs)
    assert np.array_equal(found["y"], wanted["y"])

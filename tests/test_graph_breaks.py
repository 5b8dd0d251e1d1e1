"""Graph breaks: library steps between kernels, in every type and form that ONNX has.

Each model goes through both pipelines; the plan interpreter, the engine, the engine saved and
loaded, and a bound call agree with the reference evaluator in the declared types.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import compiler
from compiler.frontend.load import load
from compiler.frontend.reference import reference
from compiler.ir.types import Array
from compiler.runtime.engine import Engine, LibraryError
from tests.frontend.models import (
    BOOL,
    I64,
    Shape,
    data,
    graph,
    info,
    model,
    node,
    scalar_loop_model,
)
from tests.whole import PIPELINES, Whole, assert_records

Inputs = dict[str, Array]

integer = partial(info, element=I64)


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).uniform(-2, 2, shape).astype(np.float32)


def bits(x: Array) -> Array:
    """bfloat16 as its bits."""
    return x.view(np.uint16) if x.dtype.name == "bfloat16" else x


@pytest.fixture
def check(tmp_path: Path):
    """Right along every way, for several inputs one after the other."""

    def check(proto: ModelProto, *runs: Inputs) -> None:
        loaded = load(data(proto))
        for base in PIPELINES:
            whole = Whole(loaded, base)
            assert_records(whole.trace.records)
            engine = compiler.compile(loaded, pipeline=base).engine
            engine.save(tmp_path / base)
            again = Engine.load(tmp_path / base)
            for inputs in runs:
                wanted = reference(loaded, inputs, "declared").outputs
                bound = engine.bind(inputs)
                for found in (whole.run(inputs), engine.run(inputs), again.run(inputs), bound()):
                    assert list(found) == list(wanted)
                    for name, right in wanted.items():
                        assert_equal(bits(found[name]), bits(right), name)

    return check


def assert_equal(found: Array, right: Array, name: str) -> None:
    assert found.shape == right.shape, name
    if right.dtype.kind in "fc":
        assert found.dtype == right.dtype
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5, err_msg=name)
    else:
        assert found.dtype == right.dtype or right.dtype.kind in "OUS"
        assert np.array_equal(found, right), name


# ---- sizes that only data tell -------------------------------------------------------------------


def test_sizes_from_data_twice(check) -> None:
    """NonZero of NonZero's results, with kernels, reductions and products between."""
    nodes = [
        node("Abs", ["x"], ["a"]),
        node("NonZero", ["a"], ["i"]),
        node("Shape", ["i"], ["s"]),
        node("Transpose", ["i"], ["t"]),
        node("GatherND", ["x", "t"], ["g"]),
        node("Exp", ["g"], ["e"]),
        node("ReduceSum", ["e"], ["sum"], keepdims=0),
        node("Sub", ["e", "sum"], ["z"]),
        node("NonZero", ["z"], ["j"]),
        node("Cast", ["j"], ["jf"], to=TensorProto.FLOAT),
        node("Mul", ["jf", "jf"], ["y"]),
    ]
    source = model(nodes, [info("x", ["n", "m"])], ["z", "y", "s", "i"])
    zeros = np.zeros((2, 2), np.float32)
    check(source, {"x": floats(4, 3)}, {"x": np.eye(3, dtype=np.float32)}, {"x": zeros},
          {"x": zeros[:0]})  # fmt: skip


def test_shapes_given_at_run_time(check) -> None:
    nodes = [
        node("Reshape", ["x", "s"], ["y"]),
        node("Softmax", ["y"], ["p"]),
        node("Reshape", ["p", "flat"], ["z"]),
        node("Expand", ["z", "t"], ["e"]),
        node("Relu", ["e"], ["r"]),
    ]
    types = [info("x", ["n"]), integer("s", [2]), integer("t", [2])]
    source = model(nodes, types, ["r", "p"], {"flat": np.array([-1], np.int64)})
    x = floats(6)
    check(source, {"x": x, "s": np.array([2, 3]), "t": np.array([2, 6])},
          {"x": x, "s": np.array([-1, 1]), "t": np.array([1, 6])})  # fmt: skip


def test_ranges(check) -> None:
    nodes = [
        node("Range", ["a", "b", "c"], ["r"]),
        node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
        node("Mul", ["f", "f"], ["y"]),
    ]
    source = model(nodes, [integer(n, []) for n in "abc"], ["y"])
    one, two, five = (np.array(k) for k in (1, 2, 5))
    check(source, {"a": one, "b": five, "c": two}, {"a": one, "b": one, "c": two})


def test_an_output_of_a_size_from_data_goes_where_it_is_asked_to() -> None:
    nodes = [node("NonZero", ["x"], ["i"]), node("Neg", ["i"], ["y"])]
    engine = compiler.compile(data(model(nodes, [info("x", ["n"])], ["y"]))).engine
    out = np.zeros((1, 2), np.int64)
    found = engine.run({"x": np.array([0, 5, 0, 6], np.float32)}, {"y": out})
    assert found["y"] is out and out.tolist() == [[-1, -3]]
    with pytest.raises(ValueError, match="the result is"):
        engine.run({"x": np.ones(3, np.float32)}, {"y": out})


# ---- control flow --------------------------------------------------------------------------------


def branches(then_op: str, else_op: str, shape: Shape, axis: int | None = None) -> ModelProto:
    """w = tanh(y y), y = relu(x) then k or x else k, k = exp(x): x and k are read from outside."""
    more = {} if axis is None else {"axis": axis}
    then_branch = graph([node("Relu", ["x"], ["r"]), node(then_op, ["r", "k"], ["t"])], [],
                        [info("t", shape)])  # fmt: skip
    else_branch = graph([node(else_op, ["x", "k"], ["t"], **more)], [], [info("t", shape)])
    nodes = [
        node("Exp", ["x"], ["k"]),
        node("If", ["c"], ["y"], then_branch=then_branch, else_branch=else_branch),
        node("Mul", ["y", "y"], ["z"]),
        node("Tanh", ["z"], ["w"]),
    ]
    return model(nodes, [info("c", [], BOOL), info("x", ["n"])], ["w", "y"])


@pytest.mark.parametrize("shape", [["n"], None], ids=["typed", "untyped"])
def test_both_branches(check, shape: Shape) -> None:
    check(branches("Add", "Sub", shape), *(
        {"c": np.array(c), "x": floats(n)} for c in (True, False) for n in (3, 0)
    ))  # fmt: skip


def test_branches_of_different_sizes(check) -> None:
    check(branches("Add", "Concat", ["q"], axis=0),
          *({"c": np.array(c), "x": floats(3)} for c in (True, False)))  # fmt: skip


def test_loops(check) -> None:
    check(scalar_loop_model(), *({"n": np.array(n), "s0": np.float32(1.5)} for n in (3, 0)))
    body = graph(
        [node("Add", ["acc", "w"], ["next"]), node("Identity", ["going"], ["on"]),
         node("MatMul", ["next", "m"], ["each"])],
        [integer("i", []), info("going", [], BOOL), info("acc", ["n", 3])],
        [info("on", [], BOOL), info("next", ["n", 3]), info("each", ["n", 3])],
    )  # fmt: skip
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Tanh", ["x"], ["w"]),
        node("Loop", ["count", "", "r"], ["end", "all"], body=body),
        node("ReduceMean", ["all"], ["mean"], axes=[0]),
        node("Add", ["mean", "end"], ["y"]),
    ]
    source = model(
        nodes, [info("x", ["n", 3]), integer("count", [])], ["y", "all"], {"m": floats(3, 3)}
    )
    check(source, *({"x": floats(2, 3), "count": np.array(n)} for n in (3, 1)))


def test_scan(check) -> None:
    body = graph([node("Add", ["a", "b"], ["c"]), node("Identity", ["c"], ["d"])],
                 [info("a", [3]), info("b", [3])], [info("c", [3]), info("d", [3])])  # fmt: skip
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("Scan", ["z", "e"], ["end", "all"], num_scan_inputs=1, body=body),
        node("Mul", ["all", "all"], ["y"]),
    ]
    check(model(nodes, [info("x", ["n", 3]), info("z", [3])], ["y", "end"]),
          {"x": floats(4, 3), "z": floats(3)})  # fmt: skip


# ---- types that kernels lack ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float64", "uint8", "int8", "uint64", "int16"])
def test_other_numbers(check, dtype: str) -> None:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        node("Add", ["x", "x"], ["a"]),
        node("Cast", ["a"], ["b"], to=TensorProto.FLOAT),
        node("Mul", ["b", "b"], ["y"]),
        node("Cast", ["y"], ["z"], to=element),
    ]
    source = model(nodes, [info("x", ["n"], element)], ["a", "y", "z"])
    check(source, {"x": np.arange(5).astype(dtype)}, {"x": np.arange(0).astype(dtype)})


def test_bfloat16(check) -> None:
    nodes = [
        node("Cast", ["x"], ["b"], to=TensorProto.BFLOAT16),
        node("Add", ["b", "b"], ["c"]),
        node("Cast", ["c"], ["y"], to=TensorProto.FLOAT),
        node("Exp", ["y"], ["z"]),
    ]
    check(model(nodes, [info("x", ["n"])], ["z", "c"]), {"x": floats(5)})


def test_text(check) -> None:
    nodes = [
        node("Identity", ["s"], ["t"]),
        node("Equal", ["t", "s"], ["q"]),
        node("Cast", ["q"], ["f"], to=TensorProto.FLOAT),
        node("Add", ["f", "f"], ["y"]),
    ]
    source = model(nodes, [info("s", ["n"], TensorProto.STRING)], ["t", "y"], opset=19)
    check(source, {"s": np.array(["a", "bb", "ẩn"], object)}, {"s": np.array([], object)})


def test_sequences_of_unequal_and_equal_shapes(check) -> None:
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("SequenceConstruct", ["r", "x2"], ["s"]),
        node("ConcatFromSequence", ["s"], ["y"], axis=0),
        node("SequenceAt", ["s", "k"], ["e"]),
        node("Neg", ["y"], ["z"]),
        node("SequenceLength", ["s"], ["n"]),
    ]
    source = model(
        nodes, [info("x", ["n", 2]), info("x2", ["m", 2])], ["z", "e", "n"],
        {"k": np.array(1, np.int64)},
    )  # fmt: skip
    check(source, {"x": floats(2, 2), "x2": floats(3, 2)}, {"x": floats(2, 2), "x2": floats(2, 2)})


# ---- results and operands that are absent --------------------------------------------------------


def test_some_results_are_not_wanted(check) -> None:
    weights = {"k": np.array([2], np.int64), "w": floats(6)}
    x = [info("x", ["n", 6])]
    for names in (["v", "i"], ["v", ""], ["v"]):
        nodes = [node("TopK", ["x", "k"], names), node("Mul", ["v", "v"], ["y"])]
        outputs = ["y", "i"] if "i" in names else ["y"]
        check(model(nodes, x, outputs, weights), {"x": floats(3, 6)})
    nodes = [node("TopK", ["x", "k"], ["", "i"]), node("Cast", ["i"], ["y"], to=1)]
    check(model(nodes, x, ["y"], weights), {"x": floats(3, 6)})
    nodes = [node("LayerNormalization", ["x", "w"], ["y", "", "s"]), node("Mul", ["y", "s"], ["z"])]
    check(model(nodes, x, ["z"], weights), {"x": floats(3, 6)})


def test_several_results(check) -> None:
    nodes = [node("Split", ["x", "parts"], ["a", "b", "c"], axis=1), node("Add", ["a", "c"], ["y"])]
    source = model(nodes, [info("x", ["n", 6])], ["y", "b"], {"parts": np.array([2, 2, 2])})
    check(source, {"x": floats(3, 6)}, {"x": floats(0, 6)})
    nodes = [node("LayerNormalization", ["x", "w", "w"], ["y", "mean", "inverse"])]
    source = model(nodes, [info("x", ["n", 6])], ["y", "mean", "inverse"], {"w": floats(6)})
    check(source, {"x": floats(3, 6)})


# ---- the rest ------------------------------------------------------------------------------------


def test_functions_of_the_model(check) -> None:
    twice = helper.make_function(
        "my", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["t"]), node("Tanh", ["t"], ["b"])],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    nodes = [node("Relu", ["x"], ["r"]), node("Twice", ["r"], ["q"], domain="my"),
             node("Twice", ["q"], ["y"], domain="my")]  # fmt: skip
    source = model(nodes, [info("x", ["n"])], ["y"], domains={"my": 1})
    source.functions.append(twice)
    check(source, {"x": floats(3)})
    assert not Whole(source).trace.breaks()


def test_convolutions_between_kernels(check) -> None:
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Conv", ["r", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("Tanh", ["c"], ["e"]),
        node("ReduceMean", ["e"], ["y"], axes=[2, 3]),
        node("MaxPool", ["e"], ["p"], kernel_shape=[2, 2]),
    ]
    source = model(nodes, [info("x", ["n", 2, "h", "v"])], ["y", "p"], {"w": floats(3, 2, 3, 3)})
    check(source, {"x": floats(1, 2, 5, 6)}, {"x": floats(2, 2, 4, 4)})


def test_an_error_of_the_library_names_the_value_and_the_engine_lives_on() -> None:
    nodes = [node("GatherND", ["x", "i"], ["g"]), node("Exp", ["g"], ["y"])]
    engine = compiler.compile(
        data(model(nodes, [info("x", ["n"]), integer("i", ["m", 1])], ["y"]))
    ).engine
    x = np.zeros(3, np.float32)
    with pytest.raises(LibraryError, match="%g"):
        engine.run({"x": x, "i": np.array([[7]])})
    assert engine.run({"x": x, "i": np.array([[2], [0]])})["y"].tolist() == [1, 1]


def test_a_size_from_data_is_used_after_it_is_known(check) -> None:
    """z = 2 shape(nonzero(x)) - k, beside k alone: nothing of z may run before the NonZero, which
    itself waits for p = k + k."""
    nodes = [
        node("Add", ["k", "k"], ["p"]),
        node("Pad", ["x", "p"], ["w"]),
        node("NonZero", ["w"], ["i"]),
        node("Shape", ["i"], ["s"]),
        node("Add", ["s", "s"], ["d"]),
        node("Sub", ["d", "k"], ["z"]),
        node("ConstantOfShape", ["s"], ["c"]),
    ]
    source = model(nodes, [info("x", ["n"]), integer("k", [2])], ["z", "c"])
    k = np.array([1, 2])
    check(source, {"x": np.float32([0, 3, 1]), "k": k}, {"x": np.float32([]), "k": k})
    reasons = {b.op: b.message for b in Whole(load(data(source))).trace.breaks()}
    assert reasons["Shape"] == reasons["ConstantOfShape"] == "break.size-from-data"


def test_a_size_from_data_may_be_one_where_it_is_broadcast(check) -> None:
    """y = x + x[nonzero(c)]: as many as x has, or one."""
    nodes = [node("NonZero", ["c"], ["i"]), node("Squeeze", ["i", "zero"], ["j"]),
             node("Gather", ["x", "j"], ["g"]), node("Add", ["x", "g"], ["y"]),
             node("Exp", ["y"], ["z"])]  # fmt: skip
    weights = {"zero": np.zeros(1, np.int64)}
    source = model(nodes, [info("x", ["n"]), info("c", ["m"])], ["z"], weights)
    check(source, *({"x": floats(3), "c": np.float32(c)} for c in ([1, 1, 1], [0, 5], [1])))


@pytest.mark.parametrize("count", [2, 3])
def test_the_branch_of_an_if_that_is_taken_tells_the_shape(check, count: int) -> None:
    """The condition is known when compiling; the branches make vectors of two sizes."""
    branches = [graph([node("Concat", ["x"] * k, ["t"], axis=0)], [], ["t"]) for k in (2, 3)]
    nodes = [
        node("Equal", ["n", "two"], ["c"]),
        node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
        node("Add", ["y", "v"], ["z"]),
    ]
    weights = {"n": np.int64(count), "two": np.int64(2), "v": floats(count)}
    source = model(nodes, [info("x", [1])], ["z"], weights)
    check(source, {"x": floats(1)})
    trace = Whole(load(data(source))).trace
    assert [b.op for b in trace.breaks()] == ["If"]
    assert trace.final.dims == ()

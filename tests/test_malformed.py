"""Models that make no sense, and values of options that make none, are errors in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import compiler
from compiler.errors import ModelError
from compiler.ir.binding import BindingError, GuardError, InputError
from compiler.runtime.engine import Engine
from tests.frontend.models import info, model, node, relu_model


def test_names_of_any_length() -> None:
    """LLVM tells names apart by their first 1024 letters."""
    long = "a" * 3000
    made = model(
        [node("Relu", ["x"], [long]), node("Exp", [long], [long + "b"])],
        [info("x", ["n", long])], [long + "b"],
    )  # fmt: skip
    x = np.ones((2, 3), np.float32)
    built = compiler.compile(made, threads=1)
    assert np.allclose(built.engine.run({"x": x})[long + "b"], np.exp(x))
    assert all(len(line) < 500 for s in built.module.sources for line in s.text.splitlines())


WRONG = {
    "tile": (node("Tile", ["x", "s"], ["y"]), {"s": np.array([-1, 2])}, "model.size"),
    "split": (node("Split", ["x", "s"], ["y", "z"], axis=1), {"s": np.array([-1, 5])},
              "model.size"),
    "pad": (node("Pad", ["x", "s"], ["y"]), {"s": np.array([0, -5, 0, 0])}, "model.size"),
    "negative": (node("ConstantOfShape", ["s"], ["y"]), {"s": np.array([-1, 2])}, "model.size"),
    "huge": (node("ConstantOfShape", ["s"], ["y"]), {"s": np.array([2**62, 8])}, "model.size"),
    "text": (node("Softmax", ["x"], ["y"], axis="a"), {}, "model.attribute"),
    "float": (node("Concat", ["x"], ["y"], axis=1.0), {}, "model.attribute"),
    "floats": (node("Transpose", ["x"], ["y"], perm=[1.0, 0.0]), {}, "model.attribute"),
    "missing": (node("DepthToSpace", ["x"], ["y"]), {}, "model.attribute"),
    "no-node": (node("AveragePool", ["x"], ["y"], kernel_shape=[2], ceil_mode="a"), {},
                "model.attribute"),
    "lists": (node("Slice", ["x", "a", "s"], ["y"]), {"a": np.array([0, 1]), "s": np.array([2])},
              "model.node"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("pipeline", ["default", "op-by-op"])
def test_nodes_that_make_no_sense(name: str, pipeline: str) -> None:
    wrong, weights, message = WRONG[name]
    shape = [3, 4, 5] if wrong.op_type.endswith("Pool") else [3, 4]
    with pytest.raises(ModelError) as caught:
        compiler.compile(model([wrong], [info("x", shape)], ["y"], weights), pipeline=pipeline)
    assert caught.value.message == message
    assert caught.value.file and caught.value.node == f"#0 {wrong.op_type}"
    assert caught.value.remedy in str(caught.value)


def computed(op: str, by: int, *inputs: str) -> Engine:
    """`op` on the extent of x plus or times `by`."""
    shape = [
        node("Shape", ["x"], ["s"]), node("Sub" if by < 9 else "Mul", ["s", "by"], ["d"]),
        node(op, [*inputs, "d"], ["y"]),
    ]  # fmt: skip
    made = model(shape, [info("x", ["n"])], ["y"], {"by": np.array([by])})
    return compiler.compile(made, threads=1).engine


@pytest.mark.parametrize("op", ["ConstantOfShape", "Tile"])
def test_sizes_below_zero_are_refused_by_a_guard(op: str) -> None:
    engine = computed(op, 5, *(["x"] if op == "Tile" else []))
    assert engine.run({"x": np.ones(6, np.float32)})["y"].shape == (6 if op == "Tile" else 1,)
    with pytest.raises(GuardError, match=r"guard\.size"):
        engine.run({"x": np.ones(3, np.float32)})


@pytest.mark.parametrize("extent", [16, 64])
def test_sizes_beyond_64_bits(extent: int) -> None:
    with pytest.raises((BindingError, MemoryError)):
        computed("ConstantOfShape", 2**58).run({"x": np.ones(extent, np.float32)})


def test_functions_that_grow_without_bound() -> None:
    """25 functions, each of which calls the next one twice: 2^24 nodes."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    calls = [
        [node(f"f{k}", [a], [b], domain="f") for a, b in ("ab", "bc")] for k in range(1, 25)
    ]
    bodies = [*calls, [node("Relu", ["a"], ["c"])]]
    functions = [
        helper.make_function("f", f"f{k}", ["a"], ["c"], body, imports)
        for k, body in enumerate(bodies)
    ]
    made = model([node("f0", ["x"], ["y"], domain="f")], [info("x", [2])], ["y"], domains={"f": 1})
    made.functions.extend(functions)
    with pytest.raises(ModelError, match="16777216 nodes, at most 200000"):
        compiler.compile(made)


def test_a_weight_that_is_defined_twice() -> None:
    made = model([node("Add", ["x", "w"], ["y"])], [info("x", [2])], ["y"], {"w": np.ones(2)})
    made.graph.initializer.append(made.graph.initializer[0])
    with pytest.raises(ModelError, match="the weight 'w' is defined twice"):
        compiler.compile(made)


def test_inputs_and_threads_that_make_no_sense() -> None:
    engine = compiler.compile(relu_model(), threads=1).engine
    wrong: list[Any] = [None, [1], {"x": [[1, 2, 3], [4]]}]
    for inputs in wrong:
        with pytest.raises(InputError):
            engine.run(inputs)
    threads: list[Any] = [1.5, "a", 0]
    for count in threads:
        with pytest.raises(InputError, match="whole number"):
            engine.run({"x": np.ones((2, 3), np.float32)}, threads=count)

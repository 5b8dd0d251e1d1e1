"""Made-up inputs: the same from the same seed, and indices that are in range."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto

from compiler.errors import InputsError
from compiler.frontend.inputs import default_size, make_inputs
from compiler.frontend.load import load
from compiler.ir.dims import Symbol
from compiler.ir.module import EMPTY, Module
from compiler.passes.base import Context
from compiler.passes.bind_dims import BindDims
from compiler.passes.import_model import Import
from compiler.passes.infer_shapes import InferShapes
from compiler.passes.partition_fallback import PartitionFallback
from tests.frontend.models import BOOL, F32, I64, data, info, model, node


def module_of(proto: ModelProto, partition: bool = False) -> Module:
    context = Context(model=load(data(proto)))
    module = EMPTY
    passes = (Import(), BindDims(), InferShapes(), *((PartitionFallback(),) if partition else ()))
    for p in passes:
        module = p.run(module, context).module
    return module


EMBEDDING = model(
    [
        node("Cast", ["ids"], ["wide"], to=TensorProto.INT64),
        node("Gather", ["table", "wide"], ["rows"]),
        node("Gather", ["small", "ids"], ["few"]),
        node("Gather", ["x", "columns"], ["picked"], axis=1),
        node("Where", ["mask", "x", "x"], ["chosen"]),
    ],
    [
        info("ids", ["n"], TensorProto.INT32), info("columns", [64], I64), info("x", ["n", "m"]),
        info("mask", ["n", "m"], BOOL), info("free", [200], I64),
    ],
    ["rows", "few", "picked", "chosen"],
    {"table": np.zeros((1000, 2), np.float32), "small": np.zeros((3, 2), np.float32)},
)  # fmt: skip


@pytest.mark.parametrize("partition", [False, True])
def test_indices_are_bounded_by_the_axis_they_pick_from(partition: bool) -> None:
    made = make_inputs(module_of(EMBEDDING, partition), {"n": 500, "m": 7}, seed=1)
    assert {n: (a.shape, a.dtype.name) for n, a in made.items()} == {
        "ids": ((500,), "int32"), "columns": ((64,), "int64"), "x": ((500, 7), "float32"),
        "mask": ((500, 7), "bool"), "free": ((200,), "int64"),
    }  # fmt: skip
    assert set(made["ids"]) == {0, 1, 2}
    assert set(made["columns"]) == set(range(7))
    assert set(made["free"]) == set(range(8))
    assert 0.3 < made["mask"].mean() < 0.7
    assert abs(made["x"].mean()) < 0.1 and 0.9 < made["x"].std() < 1.1


def test_same_seed_same_arrays() -> None:
    module = module_of(EMBEDDING)
    first, again, other = (make_inputs(module, {}, seed) for seed in (1, 1, 2))
    assert first["x"].shape == (4, 4)
    for name, array in first.items():
        assert np.array_equal(array, again[name]) and array.flags.c_contiguous
    assert not np.array_equal(first["x"], other["x"])


def test_an_empty_axis_gives_an_index_all_the_same() -> None:
    made = make_inputs(module_of(EMBEDDING), {"n": 2, "m": 0}, seed=1)
    assert made["x"].shape == (2, 0) and set(made["columns"]) == {0}


@pytest.mark.parametrize(
    ("element", "name"),
    [
        (TensorProto.BFLOAT16, "bfloat16"), (TensorProto.FLOAT16, "float16"),
        (TensorProto.DOUBLE, "float64"), (TensorProto.UINT8, "uint8"),
        (TensorProto.COMPLEX64, "complex64"), (TensorProto.STRING, "object"),
    ],
)  # fmt: skip
def test_element_types(element: int, name: str) -> None:
    proto = model([node("Identity", ["x"], ["y"])], [info("x", [2, 3], element)], ["y"])
    made = make_inputs(module_of(proto), {}, seed=0)
    assert made["x"].shape == (2, 3) and made["x"].dtype.name == name


def test_unknown_rank_is_refused() -> None:
    module = module_of(model([node("Relu", ["x"], ["y"])], [info("x", None, F32)], ["y"]))
    with pytest.raises(InputsError, match="'x'"):
        make_inputs(module, {}, seed=0)


@pytest.mark.parametrize("nodes", [
    [node("Reshape", ["x", "s"], ["y"], name="fits")],
    [node("Identity", ["s"], ["t"]), node("Expand", ["x", "t"], ["y"], name="fits")],
    [node("Concat", ["s", "s"], ["t"], axis=0), node("Reshape", ["x", "t"], ["y"], name="fits")],
    [node("Mul", ["s", "s"], ["t"]), node("ReduceSum", ["x", "t"], ["y"], name="fits")],
])  # fmt: skip
def test_an_input_that_must_fit_is_not_made_up(nodes: list[NodeProto]) -> None:
    module = module_of(model(nodes, [info("x", ["n", 4]), info("s", [2], I64)], ["y"]))
    with pytest.raises(InputsError, match=r"'s' tells .* 'fits'") as caught:
        make_inputs(module, {}, seed=0)
    assert caught.value.message == "inputs.fitting" and "--inputs" in caught.value.remedy


def test_what_is_reshaped_and_counts_that_fit_anything_are_made_up() -> None:
    shape = {"s": np.array([4, -1], np.int64)}
    nodes = [node("Reshape", ["x", "s"], ["y"]), node("Tile", ["x", "times"], ["z"])]
    module = module_of(model(nodes, [info("x", ["n", 4]), info("times", [2], I64)], ["y", "z"],
                             shape))  # fmt: skip
    assert make_inputs(module, {}, seed=0).keys() == {"x", "times"}


def test_default_sizes() -> None:
    assert default_size(Symbol("s")) == 4
    assert default_size(Symbol("s", 0, 3)) == 3
    assert default_size(Symbol("s", 10, 100, 8)) == 16
    assert default_size(Symbol("s", 0, 100, 3)) == 6

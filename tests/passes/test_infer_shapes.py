"""infer-shapes beyond its golden texts: errors that name the node, onnx's inference, symbols."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto

from compiler.errors import ModelError
from compiler.frontend.load import load
from compiler.ir.edits import fold
from compiler.ir.module import EMPTY
from compiler.ir.printer import print_type
from compiler.ir.verify import verify
from compiler.passes.base import Context, Result
from compiler.passes.bind_dims import BindDims
from compiler.passes.import_model import Import
from compiler.passes.infer_shapes import InferShapes
from tests.frontend.models import F32, I64, data, info, model, node, scalar_loop_model


def inferred(proto: ModelProto, **pin: int) -> Result:
    context = Context(model=load(data(proto), "m.onnx"), pin=pin)
    module = EMPTY
    for p in (Import(), BindDims()):
        module = p.run(module, context).module
    result = InferShapes().run(module, context)
    verify(result.module)
    assert fold(module, result.events) == result.module
    return result


def types(result: Result) -> dict[str, str]:
    graph = result.module.graph
    return {
        v.name: print_type(v.type) for op in graph.ops if op.family == "onnx" for v in op.outputs
    }


def test_shapes_that_do_not_fit_name_the_node() -> None:
    proto = model(
        [node("Relu", ["x"], ["a"]), node("Add", ["a", "w"], ["y"], name="bias")],
        [info("x", ["n", 3])], ["y"], {"w": np.ones(4, np.float32)},
    )  # fmt: skip
    with pytest.raises(ModelError) as caught:
        inferred(proto)
    error = caught.value
    assert (error.message, error.file, error.node) == (
        "model.shape-mismatch", "m.onnx", '#1 Add "bias"',
    )  # fmt: skip
    assert {error.parameters["left"], error.parameters["right"]} == {"3", "4"}
    assert "a: f32[n,3], w: f32[4]" in str(error)


@pytest.mark.parametrize("declared", [["n", 5], ["n", 3, 1]])
def test_an_output_declared_otherwise_is_an_error(declared: list[int | str]) -> None:
    proto = model([node("Exp", ["x"], ["y"])], [info("x", ["n", 3])], [info("y", declared)])
    with pytest.raises(ModelError) as caught:
        inferred(proto)
    assert caught.value.message == "model.declared-type" and caught.value.node == "#0 Exp"
    assert "f32[n,3]" in str(caught.value)


def test_an_element_type_declared_otherwise_is_an_error() -> None:
    proto = model([node("Exp", ["x"], ["y"])], [info("x", ["n"])], [info("y", ["n"], I64)])
    with pytest.raises(ModelError, match="#0 Exp"):
        inferred(proto)


def test_a_pin_reaches_what_is_declared() -> None:
    proto = model([node("Exp", ["x"], ["y"])], [info("x", ["n", 3])], [info("y", ["n", 3])])
    result = inferred(proto, n=2)
    assert types(result) == {"y": "f32[2,3]"} and not result.module.guards


def test_stale_declarations_between_nodes_are_remarks() -> None:
    proto = model(
        [node("Exp", ["x"], ["t"]), node("Neg", ["t"], ["y"])], [info("x", ["n", 3])], ["y"],
        value_info=[info("t", [1, 3])],
    )  # fmt: skip
    result = inferred(proto)
    assert types(result) == {"t": "f32[n,3]", "y": "f32[n,3]"} and not result.module.guards
    (remark,) = [e for e in result.events if e.rule == "infer.declared"]
    assert remark.refused and dict(remark.parameters)["declared"] == "f32[1,3]"


def test_onnx_infers_what_has_no_row_and_keeps_symbols() -> None:
    proto = model(
        [
            node("LpPool", ["x"], ["a"], kernel_shape=[3, 3]),
            node("GlobalLpPool", ["a"], ["b"]),
            node("Tile", ["b", "twice"], ["c"]),
            node("Resize", ["x", "", "by"], ["d"]),
        ],
        [info("x", ["n", 3, 8, "width"])], ["c", "d"],
        {
            "twice": np.array([1, 2, 1, 1]),
            "by": np.array([1, 1, 2, 2], np.float32),
        },
    )  # fmt: skip
    result = inferred(proto)
    found = types(result)
    assert found["a"] == "f32[n,3,6,a.3]"
    assert found["b"] == "f32[n,3,1,1]" and found["c"] == "f32[n,6,1,1]"
    assert found["d"].startswith("f32[") and ",3,16," in found["d"]
    assert {"n", "width", "a.3"} <= {s.name for s in result.module.dims}


def test_what_is_declared_fills_what_inference_leaves_open() -> None:
    proto = model(
        [node("NonZero", ["x"], ["y"]), node("NonZero", ["z"], ["u"])],
        [info("x", ["n"]), info("z", ["n"])],
        [info("y", [1, "found"], I64), info("u", [1, "n"], I64)],
    )
    result = inferred(proto)
    assert types(result) == {"y": "i64[1,found]", "u": "i64[1,n]"}
    assert [s.name for s in result.module.dims] == ["n", "found"]


def test_a_name_found_to_be_a_dimension_stands_for_it() -> None:
    proto = model(
        [
            node("Concat", ["x", "x"], ["a"], axis=0),
            node("NonZero", ["x"], ["b"]),
        ],
        [info("x", ["n"])],
        [info("a", ["twice"]), info("b", [1, "twice"], I64)],
    )
    result = inferred(proto)
    assert types(result) == {"a": "f32[2*n]", "b": "i64[1,2*n]"}
    assert [s.name for s in result.module.dims] == ["n"]


def test_pooling_with_ceil_mode_is_left_to_the_data() -> None:
    pool = node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1)
    result = inferred(model([pool], [info("x", ["n", 1, "h", "w"])], ["y"]))
    assert types(result) == {"y": "f32[n,1,y.2,y.3]"}


def test_a_remark_about_a_rank_makes_no_second_symbol() -> None:
    proto = model(
        [node("NonZero", ["x"], ["t"]), node("Cast", ["t"], ["y"], to=F32)], [info("x", ["n"])],
        ["y"], value_info=[info("t", [3], I64)],
    )  # fmt: skip
    result = inferred(proto)
    assert types(result) == {"t": "i64[1,t.1]", "y": "f32[1,t.1]"}
    assert [s.name for s in result.module.dims] == ["n", "t.1"]


def test_loops_and_unknown_ranks() -> None:
    assert types(inferred(scalar_loop_model())) == {"s_end": "f32[*]", "all": "f32[*]"}
    proto = model([node("Relu", ["x"], ["y"])], [info("x", None, F32)], ["y"])
    result = inferred(proto)
    assert types(result) == {"y": "f32[*]"}
    assert [e.message for e in result.events if e.where == "y"] == ["infer.unknown"]


def test_what_a_shape_rests_on_comes_along_as_a_guard() -> None:
    proto = model(
        [
            node("Shape", ["x"], ["s"]),
            node("Cast", ["s"], ["narrow"], to=6),
            node("Cast", ["narrow"], ["back"], to=7),
            node("Reshape", ["z", "back"], ["y"]),
        ],
        [info("x", ["n"]), info("z", ["n"])], ["y"],
    )  # fmt: skip
    result = inferred(proto)
    assert types(result)["y"] == "f32[n]"
    assert [g.reason for g in result.module.guards] == ["guard.integer-range"]

"""partition-fallback beyond its golden texts: reasons, forcing, and what nothing can compute."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto

from compiler.errors import ForceError, ModelError, UnsupportedOperator
from compiler.frontend.load import load
from compiler.ir.edits import fold
from compiler.ir.module import EMPTY
from compiler.ir.verify import verify
from compiler.passes.base import Context, Result
from compiler.passes.bind_dims import BindDims
from compiler.passes.import_model import Import
from compiler.passes.infer_shapes import InferShapes
from compiler.passes.partition_fallback import PartitionFallback
from tests.frontend.models import BOOL, data, graph, info, model, node


def partitioned(proto: ModelProto, *force: str) -> Result:
    context = Context(model=load(data(proto), "m.onnx"))
    module = EMPTY
    for p in (Import(), BindDims(), InferShapes()):
        module = p.run(module, context).module
    result = PartitionFallback(force=force).run(module, context)
    verify(result.module)
    assert fold(module, result.events) == result.module
    assert result.events or result.module is module
    return result


MIXED = model(
    [
        node("Relu", ["x"], ["a"]),
        node("Sinh", ["a"], ["b"], name="the sine"),
        node("Exp", ["b"], ["y"]),
    ],
    [info("x", ["n"])], ["y"],
)  # fmt: skip


def test_a_break_tells_node_operator_and_reason() -> None:
    result = partitioned(MIXED)
    (event,) = result.events
    assert (event.rule, event.where, event.message) == ("break", "b", "break.operator")
    assert dict(event.parameters) == {"node": "the sine", "op": "Sinh", "reason": "break.operator"}
    assert [op.kind for op in result.module.graph.ops] == ["onnx.Relu", "extern", "onnx.Exp"]


@pytest.mark.parametrize("force", ["a", "#0"])
def test_forced_nodes(force: str) -> None:
    result = partitioned(MIXED, force)
    assert [e.message for e in result.events] == ["break.forced", "break.operator"]


@pytest.mark.parametrize("force", ["x", "nobody", "#3", "0"])
def test_forcing_what_is_not_there(force: str) -> None:
    with pytest.raises(ForceError, match="a, b, y"):
        partitioned(MIXED, force)


def test_shape_arithmetic_can_be_forced() -> None:
    proto = model([node("Shape", ["x"], ["s"])], [info("x", ["n"])], ["s"])
    assert not partitioned(proto).events
    assert [e.message for e in partitioned(proto, "s").events] == ["break.forced"]


def test_an_operator_of_another_domain() -> None:
    strange = node("Strange", ["x"], ["y"], domain="com.example", name="odd")
    with pytest.raises(UnsupportedOperator) as caught:
        partitioned(model([strange], [info("x", ["n"])], ["y"], domains={"com.example": 1}))
    error = caught.value
    assert isinstance(error, ModelError)
    assert error.node == '#0 com.example:Strange "odd"'
    assert (error.domain, error.file) == ("com.example", "m.onnx")


def test_an_operator_of_another_domain_inside_a_subgraph() -> None:
    body = graph([node("Strange", ["x"], ["t"], domain="com.example")], [], ["t"])
    proto = model(
        [node("If", ["c"], ["y"], then_branch=body, else_branch=body)],
        [info("c", [], BOOL), info("x", ["n"])], ["y"], domains={"com.example": 1},
    )  # fmt: skip
    with pytest.raises(UnsupportedOperator) as caught:
        partitioned(proto)
    assert caught.value.node == "#0.0.0 com.example:Strange"
    assert caught.value.domain == "com.example"


def test_an_operator_that_onnx_has_and_the_evaluator_lacks() -> None:
    proto = model([node("GlobalLpPool", ["x"], ["y"])], [info("x", [1, 2, 3, 3])], ["y"])
    with pytest.raises(UnsupportedOperator) as caught:
        partitioned(proto)
    assert (caught.value.op, caught.value.domain) == ("GlobalLpPool", "")


def test_constants_are_no_nodes() -> None:
    proto = model(
        [node("Constant", [], ["c"], value_floats=[1.0, 2.0]), node("Mul", ["x", "c"], ["y"])],
        [info("x", [2])], ["y"], {"unused": np.ones(3, np.float64)},
    )  # fmt: skip
    assert not partitioned(proto).events

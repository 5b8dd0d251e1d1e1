"""decompose: names, origins, guards, and what the table lacks. Values: tests/ops."""

from __future__ import annotations

import numpy as np

from compiler.ir.dims import Guard, dim
from compiler.passes.base import Context
from compiler.passes.decompose import Decompose
from tests.passes.texts import kinds, module, run, values


def test_results_keep_their_names_and_everything_has_the_origin():
    context = Context()
    before = module(
        """(%x: f32[4]) -> (%y) {
             %y.1 = onnx.Neg %x : f32[4] @[n0]
             %y = onnx.Softmax %y.1 : f32[4] @[n1]
           }""",
        context, nodes="n0 Neg, n1 Softmax",
    )  # fmt: skip
    after, events = run(Decompose(), before, context)
    assert [op.key for op in after.graph.ops] == ["y.1", "y.2", "y.3", "y.4", "y.5", "y"]
    assert {op.origins for op in after.graph.ops[1:]} == {frozenset({(1,)})}
    assert dict(events[1].parameters) == {"op": "onnx.Softmax", "ops": 5}


def test_what_cannot_be_proved_is_a_guard():
    context = Context()
    before = module(
        """(%x: f32[a], %z: f32[b]) -> (%y) {
             %y = onnx.Add %x, %z : f32[a] @[n0]
           }""",
        context, head="dims(a, b)", nodes="n0 Add",
    )  # fmt: skip
    after, _ = run(Decompose(), before, context)
    assert after.guards == (Guard(dim("a"), "==", dim("b"), (0,), "guard.broadcast"),)


def test_unknown_forms_become_library_steps_with_the_reason():
    context = Context()
    before = module(
        """(%x: f32[4], %h: f16[4], %axes: i64[1]) -> (%a, %b, %c) {
             %a = onnx.Sinh %x : f32[4]
             %b = onnx.Exp %h : f16[4]
             %c = onnx.ReduceSum %x, %axes : f32[1]
           }""",
        context,
    )
    after, events = run(Decompose(), before, context)
    assert kinds(after) == ["extern"] * 3
    assert [op.str("op") for op in after.graph.ops] == ["onnx.Sinh", "onnx.Exp", "onnx.ReduceSum"]
    assert {op.int("opset") for op in after.graph.ops} == {13}
    reasons = [dict(e.parameters)["reason"] for e in events]
    assert reasons == ["break.operator", "break.dtype", "break.from-data"]
    assert all(e.rule == "break" and e.edits for e in events)
    assert dict(events[1].parameters)["dtype"] == "f16"


def test_a_vanishing_node_that_is_two_outputs():
    context = Context()
    before = module(
        """(%x: f32[4]) -> (%y as p, %m as m, %y as q) {
             %y, %m = onnx.Dropout %x : f32[4], bool[4]
           }""",
        context,
    )
    after, _ = run(Decompose(), before, context)
    assert after.graph.outputs == ("x", "m", "x")
    x = np.zeros((4,), np.float32)
    assert values(after, context, x=x)["m"].all()


def test_shapes_that_were_not_folded_before_are_known_all_the_same():
    context = Context()
    before = module(
        """(%x: f32[s,2,3]) -> (%y) {
             %rest = const i64(-1) : i64[1]
             %zero = const i64(0) : i64[1]
             %one = const i64(1) : i64[1]
             %n = onnx.Shape %x : i64[3]
             %c = extern %n, %zero, %one {op="onnx.Slice", opset=13} : i64[1]
             %t = onnx.Concat %c, %rest {axis=0} : i64[2]
             %y = onnx.Reshape %x, %t : f32[s,6]
           }""",
        context, head="dims(s)",
    )  # fmt: skip
    after, _ = run(Decompose(), before, context)
    assert kinds(after)[-2:] == ["dims", "reshape"]
    externs = [op.key for op in after.graph.ops if op.kind == "extern"]
    assert externs == ["c"]
    assert after.graph.users()["c"] == []

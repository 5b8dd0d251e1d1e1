"""dce: dead ops and weights go, whatever is read stays."""

from __future__ import annotations

import numpy as np

from compiler.passes.base import Context
from compiler.passes.dce import Dce
from tests.passes.texts import kinds, module, run


def test_dead_chains_and_their_weights_go_from_the_end():
    context = Context()
    w = np.ones((4,), np.float32)
    before = module(
        """(%x: f32[4]) -> (%y) {
             %w = param @w : f32[4]
             %k = param @kept : f32[4]
             %a = map.add %x, %w : f32[4]
             %b = map.exp %a : f32[4]
             %y = map.mul %x, %k : f32[4]
           }""",
        context, {"w": w, "kept": w, "unused": w},
    )  # fmt: skip
    after, events = run(Dce(), before, context)
    assert kinds(after) == ["param", "map.mul"]
    assert [p.name for p in after.params] == ["kept"]
    assert [(e.where, e.message) for e in events] == [
        ("y", "dce.output"), ("b", "dce.done"), ("a", "dce.done"), ("w", "dce.done"),
        ("w", "dce.params"),
    ]  # fmt: skip
    assert dict(events[-1].parameters) == {"params": 2}


def test_what_a_region_reads_is_alive():
    context = Context()
    before = module(
        """(%c: bool[], %x: f32[4]) -> (%y) {
             %a = map.exp %x : f32[4]
             %b = map.neg %x : f32[4]
             %y = extern %c {else_branch_region=1, op="onnx.If", opset=13, then_branch_region=0}
               () -> (%t) { %t = onnx.Relu %a : f32[4] }
               () -> (%e) { %e = onnx.Relu %x : f32[4] } : f32[4]
           }""",
        context,
    )
    after, events = run(Dce(), before, context)
    assert kinds(after) == ["map.exp", "extern"]
    assert [e.where for e in events if e.edits] == ["b"]


def test_a_weight_in_an_attribute_is_alive():
    context = Context()
    before = module(
        """(%n: i64[1]) -> (%y) {
             %y = onnx.ConstantOfShape %n {value=@fill} : f32[?]
           }""".replace("f32[?]", "f32[4]"),
        context, {"fill": np.ones((1,), np.float32)},
    )  # fmt: skip
    after, events = run(Dce(), before, context)
    assert after is before and not any(e.edits for e in events)


def test_one_live_result_keeps_the_op():
    context = Context()
    before = module(
        "(%x: f32[4]) -> (%m) { %y, %m = onnx.Dropout %x : f32[4], bool[4] }", context
    )
    after, _ = run(Dce(), before, context)
    assert after is before

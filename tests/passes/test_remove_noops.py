"""remove-noops: what gives back its operand, and what only looks as if it did."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.passes.base import Context
from compiler.passes.remove_noops import RemoveNoops
from tests.passes.texts import module, run, values

NOTHING = [
    "onnx.Identity %x", "onnx.Dropout %x", "onnx.Dropout %x, _, %no", "onnx.Cast %x {to=1}",
    "onnx.Transpose %x {perm=[0, 1]}", "onnx.Reshape %x, %same", "onnx.Expand %x, %ones",
    "onnx.Flatten %x", "onnx.Max %x", "onnx.Concat %x {axis=0}", "onnx.Squeeze %x, %none",
    'extern %x {op="onnx.Identity", opset=13}', 'extern %x {op="onnx.Sum", opset=13}',
    "reshape %x", "expand %x", "cast %x {to=f32}", "permute %x {perm=[0, 1]}",
    "slice %x {starts=[0, 0], steps=[1, 1]}", "reduce.sum %x {axes=[]}",
]  # fmt: skip
SOMETHING = [
    "onnx.Relu %x", "onnx.Add %x, %zero", "map.add %x, %zero", "onnx.Dropout %x, _, %yes",
    "onnx.Max %x, %x", "onnx.Transpose %x", "copy %x", "permute %x {perm=[1, 0]}",
    'extern %x {op="onnx.custom:Identity", opset=1}',
]  # fmt: skip

BODY = """(%x: f32[n,n]) -> (%y) {{
    %no = const bool(0) : bool[]
    %yes = const bool(1) : bool[]
    %zero = const 0.0 : f32[]
    %same = dims {{values=[n, n]}} : i64[2]
    %ones = const i64(1) : i64[1]
    %none = dims {{values=[]}} : i64[0]
    %a = {op} : f32[n,n]
    %y = map.neg %a : f32[n,n]
}}"""


def neg_of(op: str) -> str | None:
    context = Context()
    before = module(BODY.format(op=op), context, head="dims(n)")
    after, _ = run(RemoveNoops(), before, context)
    return after.graph.ops[-1].inputs[0]


@pytest.mark.parametrize("op", NOTHING)
def test_it_gives_back_its_operand(op):
    assert neg_of(op) == "x"


@pytest.mark.parametrize("op", SOMETHING)
def test_it_does_something(op):
    assert neg_of(op) == "a"


def test_an_output_may_be_an_input_and_keeps_its_name():
    context = Context()
    before = module("(%x: f32[3]) -> (%y) { %y = onnx.Identity %x : f32[3] }", context)
    after, events = run(RemoveNoops(), before, context)
    assert after.graph.outputs == ("x",) and after.graph.names == ("y",)
    assert dict(events[0].parameters) == {"op": "onnx.Identity", "source": "x"}
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(values(after, context, x=x)["y"], x)


def test_reshapes_in_a_row_join():
    context = Context()
    before = module(
        """(%x: f32[2,6]) -> (%c) {
             %a = reshape %x : f32[12]
             %b = reshape %a : f32[3,4]
             %c = reshape %b : f32[4,3]
           }""",
        context,
    )
    after, events = run(RemoveNoops(), before, context)
    assert [op.inputs for op in after.graph.ops] == [("x",)] * 3
    assert [e.message for e in events] == ["remove-noops.joined"] * 2
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(values(after, context, x=x)["c"], x.reshape(4, 3))


def test_reshapes_join_where_two_guards_together_make_them_equal() -> None:
    context = Context()
    before = module(
        """(%x: f32[s,t]) -> (%y) {
             %a = reshape %x : f32[(s*t)//7,7]
             %y = reshape %a : f32[2,7]
           }""",
        context, head="dims(s, t) guards(s*t == 7*((s*t)//7), 7*((s*t)//7) == 14)",
    )  # fmt: skip
    after, events = run(RemoveNoops(), before, context)
    assert [op.inputs for op in after.graph.ops] == [("x",)] * 2
    assert [e.message for e in events] == ["remove-noops.joined"]


def test_a_slice_that_is_whole_at_some_sizes_stays() -> None:
    context = Context()
    before = module(
        """(%x: f32[8,4]) -> (%a, %b, %c) {
             %a = slice %x {starts=[0, 0], steps=[1, 1]} : f32[s,4]
             %b = slice %x {starts=[0, 0], steps=[1, 1]} : f32[7,4]
             %c = slice %x {starts=[0, 0], steps=[1, 1]} : f32[8,4]
           }""",
        context, head="dims(s)",
    )  # fmt: skip
    after, events = run(RemoveNoops(), before, context)
    assert after.graph.outputs == ("a", "b", "x")
    assert [(e.where, e.message) for e in events] == [
        ("a", "remove-noops.sizes"), ("c", "remove-noops.done"),
    ]  # fmt: skip


def test_readers_inside_a_group_are_renamed():
    context = Context()
    before = module(
        """(%x: f32[4]) -> (%y) {
             %a = reshape %x : f32[4]
             %y = fused %a {group="pointwise"} {
               %y = map.exp %a : f32[4]
             } : f32[4]
           }""",
        context,
    )
    after, _ = run(RemoveNoops(), before, context)
    assert after.graph.ops[0].inputs == ("x",)
    assert after.graph.ops[0].regions[0].ops[0].inputs == ("x",)

"""cse: equal ops are one; ops that differ in anything are not."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.passes.base import Context
from compiler.passes.cse import Cse
from tests.passes.texts import kinds, module, run, values


def test_whole_trees_fall_together_in_one_sweep():
    context = Context()
    branch = (
        "%a{k} = map.exp %x : f32[4] %b{k} = const 2.0 : f32[] "
        "%c{k} = map.mul %a{k}, %b{k} : f32[4] "
    )
    body = "".join(branch.format(k=k) for k in range(3))
    before = module(
        f"(%x: f32[4]) -> (%y, %c1) {{ {body} %s = map.add %c0, %c1 : f32[4] "
        "%y = map.sub %s, %c2 : f32[4] }",
        context,
    )
    after, events = run(Cse(), before, context)
    assert kinds(after) == ["map.exp", "const", "map.mul", "map.add", "map.sub"]
    assert after.graph.outputs == ("y", "c0") and after.graph.names == before.graph.names
    assert len(events) == 6
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    for name, array in values(before, context, x=x).items():
        np.testing.assert_array_equal(values(after, context, x=x)[name], array)


@pytest.mark.parametrize(
    "first, second",
    [
        ("map.exp %x : f32[2,6]", "map.neg %x : f32[2,6]"),
        ("map.sub %x, %z : f32[2,6]", "map.sub %z, %x : f32[2,6]"),
        ("reshape %x : f32[12]", "reshape %x : f32[3,4]"),
        ("reduce.sum %x {axes=[0]} : f32[1,6]", "reduce.sum %x {axes=[1]} : f32[2,1]"),
        ("const 0.0 : f32[]", "const -0.0 : f32[]"),
        ("const 0.0 : f32[]", "const 0.0 : f32[1]"),
        ("onnx.Clip %x, %c : f32[2,6]", "onnx.Clip %x, _, %c : f32[2,6]"),
        ('extern %x {op="onnx.Selu", opset=13} : f32[2,6]',
         'extern %x {op="onnx.Selu", opset=6} : f32[2,6]'),
    ],
)  # fmt: skip
def test_different_ops_stay(first, second):
    context = Context()
    before = module(
        f"(%x: f32[2,6], %z: f32[2,6], %c: f32[]) -> (%a, %b) {{ %a = {first} %b = {second} }}",
        context,
    )
    after, events = run(Cse(), before, context)
    assert after is before and not any(e.edits for e in events)


def test_ops_that_differ_in_attributes_alone_are_named() -> None:
    context = Context()
    before = module(
        """(%x: f32[2,6]) -> (%a, %b, %c) {
             %a = reduce.sum %x {axes=[0]} : f32[1,6]
             %b = reduce.sum %x {axes=[1]} : f32[2,1]
             %c = reduce.max %x {axes=[1]} : f32[2,1]
           }""",
        context,
    )
    after, (event,) = run(Cse(), before, context)
    assert after is before and (event.where, event.message) == ("b", "cse.attributes")
    told = dict(event.parameters)
    assert (told["other"], told["differing"]) == ("a", "axes")


@pytest.mark.parametrize(
    "op",
    [
        'extern %x {op="onnx.RandomUniformLike", opset=13}', "onnx.Dropout %x, _, %c",
        'extern %x {op="onnx.Bernoulli", opset=15}', 'extern %x {op="onnx.custom:Noise", opset=1}',
        "onnx.Multinomial %x",
    ],
)  # fmt: skip
def test_what_may_differ_each_time_is_never_merged(op):
    context = Context()
    before = module(
        f"(%x: f32[4], %c: bool[]) -> (%a, %b) {{ %a = {op} : f32[4] %b = {op} : f32[4] }}",
        context,
    )
    after, _ = run(Cse(), before, context)
    assert after is before


def test_groups_are_left_alone():
    context = Context()
    group = '%{y} = fused %x {{group="pointwise"}} {{ %{y} = map.exp %x : f32[4] }} : f32[4] '
    body = group.format(y="a") + group.format(y="b")
    before = module(f"(%x: f32[4]) -> (%a, %b) {{ {body} }}", context)
    after, _ = run(Cse(), before, context)
    assert after is before


def test_origins_unite():
    context = Context()
    before = module(
        """(%x: f32[4]) -> (%a, %b) {
             %a = map.exp %x : f32[4] @[n0]
             %b = map.exp %x : f32[4] @[n3]
           }""",
        context, nodes="n0 Exp, n3 Exp",
    )  # fmt: skip
    after, _ = run(Cse(), before, context)
    assert after.graph.ops[0].origins == {(0,), (3,)}

"""fold-constants: what is folded, to what, and what is left to run with which reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.passes.base import Context, constant_of
from compiler.passes.fold_constants import FoldConstants
from tests.passes.texts import kinds, module, run, values


def folded(body: str, context: Context, **weights: np.ndarray):
    return run(FoldConstants(), module(body, context, weights), context)


def test_a_weight_is_transposed_once():
    context = Context()
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    after, events = folded(
        """(%x: f32[2]) -> (%y) {
             %w = param @w : f32[2,3]
             %t = onnx.Transpose %w : f32[3,2]
             %y = onnx.Add %t, %x : f32[3,2]
           }""",
        context, w=w,
    )  # fmt: skip
    assert kinds(after) == ["param", "param", "onnx.Add"]
    assert [p.name for p in after.params] == ["w", "t"]
    made = constant_of(after.graph.ops[1], after, context.params)
    assert made is not None
    np.testing.assert_array_equal(made, w.T)
    assert not made.flags.writeable
    assert [e.message for e in events] == ["fold-constants.done"]


def test_a_weight_of_a_taken_name_gets_a_fresh_one():
    context = Context()
    after, _ = folded(
        """(%x: f32[2]) -> (%t) {
             %w = param @t : f32[2,3]
             %t = permute %w {perm=[1, 0]} : f32[3,2]
           }""",
        context, t=np.zeros((2, 3), np.float32),
    )  # fmt: skip
    assert [p.name for p in after.params] == ["t", "t.1"]


def test_large_results_are_refused_unless_no_larger_than_their_operands():
    context = Context()
    outer = """() -> (%y) {
        %a = param @a : f32[300,1]
        %b = param @b : f32[1,300]
        %y = map.mul %a, %b : f32[300,300]
    }"""
    a = np.ones((300, 1), np.float32)
    _, events = folded(outer, context, a=a, b=a.T)
    assert [(e.message, e.refused) for e in events] == [("fold-constants.large", True)]
    assert dict(events[0].parameters)["elements"] == 90_000
    big = np.ones((300, 300), np.float32)
    after, events = folded(
        "() -> (%y) { %a = param @a : f32[300,300] %y = map.neg %a : f32[300,300] }",
        context, a=big,
    )  # fmt: skip
    assert [e.message for e in events] == ["fold-constants.done"]
    assert kinds(after) == ["param", "param"]


def test_an_expansion_that_grows_is_no_constant_worth_keeping():
    context = Context()
    after, events = folded(
        "() -> (%y) { %a = const 1.0 : f32[] %y = expand %a : f32[8] }", context
    )
    assert kinds(after) == ["const", "expand"] and not events


INEXACT = [
    "map.exp %a", "map.log %a", "map.tanh %a", "map.erf %a", "map.sigmoid %a", "map.pow %a, %b",
]  # fmt: skip
EXACT = [
    "map.add %a, %b", "map.sub %a, %b", "map.mul %a, %b", "map.div %a, %b", "map.neg %a",
    "map.abs %a", "map.sqrt %a", "map.min %a, %b", "map.max %a, %b",
]  # fmt: skip


@pytest.mark.parametrize("op", INEXACT + EXACT)
def test_strict_numerics_fold_only_what_every_kernel_computes_alike(op):
    body = f"() -> (%y) {{ %a = param @a : f32[3] %b = const 0.3 : f32[] %y = {op} : f32[3] }}"
    a = np.array([0.1, 0.7, 2.5], np.float32)
    default, strict = Context(), Context(numerics="strict")
    before = module(body, default, {"a": a})
    after, _ = run(FoldConstants(), before, default)
    assert kinds(after)[-1] == "param"
    np.testing.assert_array_equal(values(after, default)["y"], values(before, default)["y"])
    after, events = folded(body, strict, a=a)
    if op in EXACT:
        assert kinds(after)[-1] == "param"
    else:
        assert [e.message for e in events] == ["fold-constants.inexact"]
        assert dict(events[0].parameters)["function"] == op.split()[0]


@pytest.mark.parametrize(
    "op, type, exact",
    [
        ("reduce.sum %a {axes=[1]}", "f32[2,1]", False),
        ("reduce.prod %a {axes=[1]}", "f32[2,1]", False),
        ("reduce.max %a {axes=[1]}", "f32[2,1]", True),
        ('contract %a, %a {spec="mk,nk->mn"}', "f32[2,2]", False),
        ("reshape %a", "f32[4]", True),
        ("permute %a {perm=[1, 0]}", "f32[2,2]", True),
        ("cast %a {to=i64}", "i64[2,2]", True),
        ("compare.lt %a, %a", "bool[2,2]", True),
        ("reduce.sum %i {axes=[0]}", "i32[1,2]", True),
        ("map.mul %i, %i", "i32[2,2]", True),
    ],
)
def test_strict_numerics_and_the_other_ops(op, type, exact):
    context = Context(numerics="strict")
    body = f"""() -> (%y) {{
        %a = param @a : f32[2,2]
        %i = param @i : i32[2,2]
        %y = {op} : {type}
    }}"""
    numbers = np.array([[1.5, -2.5], [3, 4]], np.float32)
    before = module(body, context, {"a": numbers, "i": numbers.astype(np.int32)})
    after, events = run(FoldConstants(), before, context)
    assert (kinds(after)[-1] == "param") == exact
    assert events[0].refused != exact
    if exact:
        np.testing.assert_array_equal(values(after, context)["y"], values(before, context)["y"])


def test_a_node_is_judged_by_all_ops_it_is_made_of():
    body = """() -> (%y) {
        %a = param @a : f32[3]
        %y = onnx.Softmax %a : f32[3]
    }"""
    a = np.array([0.1, 0.7, 2.5], np.float32)
    _, events = folded(body, Context(numerics="strict"), a=a)
    assert [e.message for e in events] == ["fold-constants.inexact"]
    context = Context()
    after, _ = folded(body, context, a=a)
    wanted = np.exp(a - a.max())
    np.testing.assert_allclose(values(after, context)["y"], wanted / wanted.sum(), rtol=1e-6)


def test_nan_and_signed_zeros_keep_their_bits():
    context = Context()
    after, _ = folded(
        """() -> (%y, %z) {
             %a = const 0.0 : f32[]
             %b = const -1.0 : f32[1]
             %y = map.div %a, %a : f32[]
             %z = onnx.Mul %a, %b : f32[1]
           }""",
        context,
    )
    found = values(after, context)
    assert kinds(after) == ["const"] * 4
    assert np.isnan(found["y"]) and np.signbit(found["z"]).all()


def test_symbols_data_and_library_steps_are_no_constants():
    context = Context()
    before = module(
        """(%x: f32[s]) -> (%y, %z) {
             %n = dims {values=[s]} : i64[]
             %f = cast %n {to=f32} : f32[]
             %c = const 2.0 : f32[]
             %y = map.mul %x, %c : f32[s]
             %z = extern %c {op="onnx.Selu", opset=13} : f32[]
           }""",
        context, head="dims(s)",
    )  # fmt: skip
    after, events = run(FoldConstants(), before, context)
    assert after is before and not events


def test_constant_nodes_become_leaves():
    context = Context()
    before = module(
        """() -> (%i, %v, %f) {
             %i = onnx.Constant {value_int=3} : i64[]
             %v = onnx.Constant {value_ints=[1, 2]} : i64[2]
             %f = onnx.Constant {value_float=0.5} : f32[]
           }""",
        context,
    )
    after, _ = run(FoldConstants(), replace(before), context)
    assert kinds(after) == ["const", "dims", "const"]

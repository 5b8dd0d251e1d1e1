"""Edits: each kind of the closed set, region paths, renaming, and folding events."""

from __future__ import annotations

from dataclasses import replace

from compiler.ir.dims import Guard, Symbol, dim
from compiler.ir.edits import (
    Dims,
    Event,
    Header,
    KernelEdit,
    Ops,
    Params,
    PlanEdit,
    SourceEdit,
    Types,
    apply,
    fold,
    parameters,
    rename_op,
)
from compiler.ir.graph import Node, Op, Param, Value
from compiler.ir.loops import Kernel
from compiler.ir.module import EMPTY, Module, Source
from compiler.ir.parser import parse_module
from compiler.ir.plan import Plan
from compiler.ir.types import DType, tensor

F = tensor(DType.f32, 8)

MODULE = parse_module("""
module @m dims(s) {
  graph (%x: f32[8], %w: f32[8]) -> (%z as out) {
    %a = map.exp %x : f32[8]
    %b = fused %a, %w {
      %b.1 = map.add %a, %w : f32[8]
      %b = map.neg %b.1 : f32[8]
    } : f32[8]
    %c = onnx.If %x {then_branch_region=0} () -> (%t) {
      %t = fused %a {
        %t.1 = map.abs %a : f32[8]
        %t = map.neg %t.1 : f32[8]
      } : f32[8]
    } : f32[8]
    %z = map.add %b, %c : f32[8]
  }
}
""")


def op(name: str, *inputs: str, kind: str = "map.neg") -> Op:
    return Op(kind, inputs, (Value(name, F),))


def keys(module: Module) -> list[str]:
    return [o.key for o in module.graph.ops]


def test_header_sets_names_and_the_interface_and_keeps_the_ops():
    edit = Header("n", (("", 17),), (Node((0,), "a", "Exp"),), (Value("x", F),), ("b",), ("res",))
    after = apply(MODULE, edit)
    assert (after.name, after.opsets, after.nodes) == ("n", edit.opsets, edit.nodes)
    assert (after.graph.inputs, after.graph.outputs, after.graph.names) == (
        (Value("x", F),), ("b",), ("res",),
    )  # fmt: skip
    assert after.graph.ops is MODULE.graph.ops


def test_dims_sets_symbols_and_guards():
    symbols = (Symbol("t", 1, 8),)
    guards = (Guard(dim("t"), "<=", dim(8), (0,), "why"),)
    after = apply(MODULE, Dims(symbols, guards))
    assert (after.dims, after.guards) == (symbols, guards)
    assert after.graph is MODULE.graph


def test_ops_are_removed_added_in_place_and_renamed():
    edit = Ops(
        removed=("a",), added=((0, op("a1", "x")), (1, op("a2", "a1"))), renamed=(("a", "a2"),)
    )
    after = apply(MODULE, edit)
    assert keys(after) == ["a1", "a2", "b", "c", "z"]
    assert after.graph.ops[2].inputs == ("a2", "w")
    region = after.graph.ops[2].regions[0]
    assert [v.name for v in region.inputs] == ["a2", "w"]
    assert region.ops[0].inputs == ("a2", "w")
    inner = after.graph.ops[3].regions[0].ops[0]
    assert inner.inputs == ("a2",)
    assert inner.regions[0].ops[0].inputs == ("a2",)
    assert after.graph.ops[4] is MODULE.graph.ops[3]


def test_renaming_reaches_outputs_but_not_their_outside_names():
    after = apply(MODULE, Ops(removed=("z",), renamed=(("z", "c"),)))
    assert after.graph.outputs == ("c",)
    assert after.graph.names == ("out",)


def test_added_positions_are_those_of_the_result():
    edit = Ops(added=((0, op("p", "x")), (2, op("q", "x")), (6, op("r", "x"))))
    assert keys(apply(MODULE, edit)) == ["p", "a", "q", "b", "c", "z", "r"]


def test_order_lists_all_keys():
    after = apply(MODULE, Ops(order=("c", "a", "b", "z")))
    assert keys(after) == ["c", "a", "b", "z"]


def test_a_path_leads_into_nested_regions():
    edit = Ops(
        path=(("c", 0), ("t", 0)),
        removed=("t.1",),
        added=((0, op("t.2", "a", kind="map.exp")),),
        renamed=(("t.1", "t.2"),),
    )
    after = apply(MODULE, edit)
    region = after.graph.ops[2].regions[0].ops[0].regions[0]
    assert [(o.key, o.inputs) for o in region.ops] == [("t.2", ("a",)), ("t", ("t.2",))]
    assert all(after.graph.ops[k] is MODULE.graph.ops[k] for k in (0, 1, 3))


def test_renaming_reaches_the_outputs_of_a_region():
    after = apply(MODULE, Ops(path=(("b", 0),), removed=("b",), renamed=(("b", "b.1"),)))
    assert after.graph.ops[1].regions[0].outputs == ("b.1",)
    assert after.graph.ops[3].inputs == ("b", "c")


def test_types_reach_inputs_results_and_regions():
    g = tensor(DType.f32, "s")
    after = apply(MODULE, Types((("x", g), ("b.1", g), ("t.1", g))))
    assert after.graph.inputs == (Value("x", g), Value("w", F))
    assert after.graph.ops[0] is MODULE.graph.ops[0]
    assert after.graph.ops[1].regions[0].ops[0].type == g
    assert after.graph.ops[2].regions[0].ops[0].regions[0].ops[0].type == g
    assert apply(MODULE, Types((("nobody", g),))).graph is MODULE.graph


def test_params_go_and_come():
    w, v = Param("w", F, "00"), Param("v", F, "11")
    with_w = apply(MODULE, Params((), (w,)))
    assert with_w.params == (w,)
    assert apply(with_w, Params(("w",), (v,))).params == (v,)


def test_kernels_are_appended_replaced_in_place_and_removed():
    k0, k1 = Kernel("k0", (), (), ()), Kernel("k1", (), (), ())
    both = apply(apply(MODULE, KernelEdit("k0", k0)), KernelEdit("k1", k1))
    assert both.kernels == (k0, k1)
    new = replace(k0, extents=("n",))
    assert apply(both, KernelEdit("k0", new)).kernels == (new, k1)
    assert apply(both, KernelEdit("k0", None)).kernels == (k1,)
    assert apply(MODULE, KernelEdit("k0", None)) is MODULE


def test_plan_is_set_and_cleared():
    plan = Plan((), (), ())
    with_plan = apply(MODULE, PlanEdit(plan))
    assert with_plan.plan is plan
    assert apply(with_plan, PlanEdit(None)) == MODULE


def test_sources_are_appended_replaced_in_place_and_removed():
    a, b = Source("k0", "s0", "", ()), Source("k1", "s1", "", ())
    both = apply(apply(MODULE, SourceEdit("k0", a)), SourceEdit("k1", b))
    assert both.sources == (a, b)
    new = replace(a, artifacts=(("object", "00"),))
    assert apply(both, SourceEdit("k0", new)).sources == (new, b)
    assert apply(both, SourceEdit("k0", None)).sources == (b,)
    assert apply(MODULE, SourceEdit("k0", None)) is MODULE


def test_folding_replays_the_edits_of_all_events_in_order():
    header = Header("n", (), (), (Value("x", F),), ("y",), ("y",))
    events = (
        Event("import", "", (header, Ops(added=((0, op("y", "x")),))), "import.done"),
        Event("look", "y", (), "look.nothing", parameters(count=0)),
        Event("swap", "y", (Ops((), ("y",), ((0, op("y", "x", kind="map.exp")),)),), "s"),
    )
    assert [e.refused for e in events] == [False, True, False]
    after = fold(EMPTY, events)
    assert [o.kind for o in after.graph.ops] == ["map.exp"]
    assert after == fold(fold(EMPTY, events[:1]), events[1:])


def test_an_op_that_reads_nothing_renamed_stays_the_same_object():
    assert rename_op(MODULE.graph.ops[0], {"q": "r"}) is MODULE.graph.ops[0]
    assert rename_op(MODULE.graph.ops[1], {"q": "r"}) is MODULE.graph.ops[1]

"""The pass: groups partition the graph, nothing changes in value, and the events replay."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler import messages as messages_of
from compiler.errors import ForceError
from compiler.fusion.decisions import REFUSED
from compiler.fusion.facts import Facts, Role
from compiler.ir.edits import fold
from compiler.ir.graph import Op
from compiler.ir.interpret.tensor import run_graph
from compiler.ir.module import Module
from compiler.ir.params import ParamStore
from compiler.ir.parser import parse_module
from compiler.ir.types import Array, TensorType
from compiler.ir.verify import verify
from compiler.passes.base import Cancelled, Context, Result
from compiler.passes.fuse import Fuse, split_pair
from compiler.passes.lower_loops import LowerLoops
from tests.fusion.graphs import modules

RULES = {"R1", "R2", "R3", "R4", "R5", "R6", "R7", "gain", "forbid"}


class Copies:
    """Stands for the library: every call copies its first input."""

    def run(
        self, op: Op, inputs: Sequence[Array | None], types: Sequence[TensorType | None]
    ) -> Sequence[Array]:
        return [np.array(inputs[0])]


def run(module: Module, params: ParamStore, sizes: dict[str, int]) -> dict[str, Array]:
    random = np.random.default_rng(7)
    inputs = {
        v.name: random.standard_normal([d.evaluate(sizes) for d in v.type.dims]).astype("f4")
        for v in module.graph.inputs
    }
    return run_graph(module, inputs, params, externs=Copies())


def fuse(module: Module, p: Fuse, context: Context | None = None) -> Result:
    """Run the pass; both modules verify, and the events lead from one to the other."""
    verify(module)
    result = p.run(module, context or Context())
    verify(result.module)
    state = module
    for event in result.events:
        state = fold(state, [event])
        verify(state)
    assert state == result.module
    return result


def compute_ops(module: Module) -> list[str]:
    facts = Facts(module.graph, lambda d: 4)
    return [op.key for op, r in zip(facts.ops, facts.role, strict=True) if r is Role.COMPUTE]


@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(modules(), st.sampled_from(["", "origin"]), st.integers(1, 9))
def test_any_graph(module: Module, by: str, max_ops: int) -> None:
    context = Context()
    result = fuse(module, Fuse(by=by, max_ops=max_ops), context)
    groups = [op for op in result.module.graph.ops if op.kind == "fused"]
    outside = [op for op in result.module.graph.ops if op.kind != "fused"]
    inside = [op for g in groups for op in g.regions[0].ops]
    assert compute_ops(result.module) == []
    wanted = compute_ops(module)
    assert sorted(op.key for op in inside if op.key in wanted) == sorted(wanted)
    made = [v.name for op in (*inside, *outside) for v in op.outputs]
    assert len(made) == len(set(made))
    for g in groups:
        assert sum(op.key in wanted for op in g.regions[0].ops) <= max_ops
        assert (g.get("group") == "row") is any(
            op.family == "reduce" for op in g.regions[0].ops
        )
        if by == "origin":
            assert len({op.origins for op in g.regions[0].ops if op.key in wanted}) == 1
    refusals = [d for d in result.decisions if d.verdict == REFUSED]
    assert all(d.rule in RULES and d.message.startswith("fuse.") for d in refusals)
    pairs = [(d.a, d.b) for d in refusals]
    assert len(pairs) == len(set(pairs))
    for sizes in ({"r": 3, "c": 4}, {"r": 1, "c": 1}):
        expected = run(module, context.params, sizes)
        found = run(result.module, context.params, sizes)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(modules(10), st.sampled_from(["", "origin"]))
def test_every_group_has_a_loop_nest_that_computes_the_same(module: Module, by: str) -> None:
    context = Context()
    lowered = LowerLoops().run(Fuse(by=by).run(module, context).module, context).module
    for sizes in ({"r": 2, "c": 3}, {"r": 3, "c": 3}):
        expected = run(module, context.params, sizes)
        found = run(lowered, context.params, sizes)
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)


def test_a_group_stands_after_its_operands_and_before_its_readers() -> None:
    """The call between the members reads the first one: the graph is put in order before."""
    module = parse_module("""module @m dims(n) {
      graph (%x: f32[n]) -> (%c, %b) {
        %a = map.exp %x : f32[n]
        %m = extern %a {op="onnx.Sin", opset=17} : f32[n]
        %b = map.neg %a : f32[n]
        %c = map.neg %m : f32[n]
      }
    }""")
    result = fuse(module, Fuse())
    assert [e.message for e in result.events] == [
        "fuse.order", "fuse.group.pointwise", "fuse.group.pointwise",
    ]  # fmt: skip
    assert [(op.kind, op.key) for op in result.module.graph.ops] == [
        ("fused", "a"), ("extern", "m"), ("fused", "c"),
    ]  # fmt: skip
    assert [v.name for v in result.module.graph.ops[0].outputs] == ["a", "b"]


LITERALS = """module @m dims(n) {
  graph (%x: f32[n], %w: f32[4]) -> (%a, %b, %two) {
    %one = const 1.0 : f32[]
    %two = const 2.0 : f32[]
    %own = const 3.0 : f32[]
    %size = dims {values=[n]} : i64[]
    %a1 = map.add %x, %one : f32[n]
    %a2 = map.add %a1, %own : f32[n]
    %a3 = map.mul %a2, %two : f32[n]
    %s = cast %size {to=f32} : f32[]
    %a = map.div %a3, %s : f32[n]
    %b = map.add %w, %one : f32[4]
  }
}"""


def test_literals_are_copied_into_the_groups_that_read_them() -> None:
    result = fuse(parse_module(LITERALS), Fuse())
    outer, a, b = result.module.graph.ops
    assert outer.key == "two", "the caller reads it too"
    kinds = {op.key: op.kind for op in a.regions[0].ops}
    assert kinds["own"] == "const", "one reader: it moves and keeps its name"
    assert kinds["size"] == "dims"
    assert kinds["one.1"] == "const" and kinds["two.1"] == "const"
    assert [op.key for op in b.regions[0].ops] == ["one.2", "b"]
    assert (a.inputs, b.inputs) == (("x",), ("w",))


def test_what_nobody_reads_is_still_computed_op_by_op() -> None:
    module = parse_module("""module @m dims(n) nodes(n0 Exp) {
      graph (%x: f32[n]) -> (%y) {
        %dead = map.exp %x : f32[n] @[n0]
        %y = map.neg %x : f32[n]
      }
    }""")
    result = fuse(module, Fuse(by="origin"))
    assert [op.key for op in result.module.graph.ops] == ["dead", "y"]


def test_nothing_to_do_is_the_same_module() -> None:
    module = parse_module("""module @m dims(n) {
      graph (%x: f32[n]) -> (%y) { %y = reshape %x : f32[1,n] }
    }""")
    assert Fuse().run(module, Context()).module is module
    fused = Fuse().run(parse_module(LITERALS), Context()).module
    assert Fuse().run(fused, Context()).module is fused


CHAIN = """module @chain dims(r, c) {
  graph (%x: f32[r,c], %w: f32[r,c]) -> (%T3, %k) {
    %T1 = map.exp %x : f32[r,c]
    %T2 = map.neg %T1 : f32[r,c]
    %m = extern %T2 {op="onnx.Sin", opset=17} : f32[r,c]
    %T3 = map.add %T2, %m : f32[r,c]
    %k = map.exp %w : f32[r,c]
  }
}"""


def messages(p: Fuse) -> list[tuple[str, str, dict[str, object]]]:
    events = fuse(parse_module(CHAIN), p).events
    return [(e.rule, e.message, dict(e.parameters)) for e in events if e.refused]


def test_forced_and_forbidden_pairs_say_what_became_of_them() -> None:
    assert messages(Fuse()) == []
    assert messages(Fuse(force=("T2+T3",))) == [
        ("force", "fuse.option.refused", {"a": "T2", "b": "T3", "rule": "R2"})
    ]
    assert messages(Fuse(forbid=("T1+T2",))) == [
        ("forbid", "fuse.option.forbid", {"a": "T1", "b": "T2"})
    ]
    assert messages(Fuse(force=("T2+m",))) == [
        ("force", "fuse.option.refused", {"a": "T2", "b": "m", "rule": "R1"})
    ]
    assert messages(Fuse(forbid=("T1+m",))) == [
        ("forbid", "fuse.option.forbid", {"a": "T1", "b": "m"})
    ]
    done = fuse(parse_module(CHAIN), Fuse(by="origin", force=("T1+k",))).events
    assert [e.rule for e in done] == ["order", "force", "group", "group"]


@pytest.mark.parametrize("option", ["force", "forbid"])
@pytest.mark.parametrize("pair", ["T1+nobody", "T1", "T1+x", "+"])
def test_a_pair_that_names_nothing_is_an_error(option: str, pair: str) -> None:
    """`x` is an input: no step computes it."""
    with pytest.raises(ForceError, match="T1, T2, T3, k, m") as caught:
        fuse(parse_module(CHAIN), Fuse(**{option: (pair,)}))
    assert caught.value.message == "fuse.unknown"
    assert dict(caught.value.parameters) == {
        "option": option, "pair": pair, "known": "T1, T2, T3, k, m"
    }  # fmt: skip
    for language in messages_of.LANGUAGES:
        said = messages_of.say("fuse.unknown", caught.value.parameters, language)
        assert f"{option}={pair}" in said and "{" not in said


TIERS = {
    "pointwise": ("a", "y", """%a = map.neg %x : f32[n,2,4,4] %y = map.abs %a : f32[n,2,4,4]"""),
    "row-internal": ("a", "y", """%a = map.neg %x : f32[n,2,4,4]
        %y = reduce.sum %a {axes=[3]} : f32[n,2,4,1]"""),
    "prologue": ("a", "y", """%a = map.neg %x : f32[n,2,4,4]
        %y = contract %a, %w {spec="ncyx,co->noyx"} : f32[n,3,4,4]"""),
    "epilogue": ("a", "y", """%a = contract %x, %w {spec="ncyx,co->noyx"} : f32[n,3,4,4]
        %y = map.neg %a : f32[n,3,4,4]"""),
    "siblings": ("a", "y", """%a = map.neg %x : f32[n,2,4,4] %y = map.abs %x : f32[n,2,4,4]"""),
}


@pytest.mark.parametrize("tier", TIERS)
def test_force_and_forbid_work_in_every_tier(tier: str) -> None:
    a, b, body = TIERS[tier]
    outputs = "%y, %a" if tier == "siblings" else "%y"
    module = parse_module(f"""module @m dims(n) {{
      graph (%x: f32[n,2,4,4], %w: f32[2,3]) -> ({outputs}) {{ {body} }}
    }}""")
    for options, rule, verdict in (
        ({}, "gain", "merged"),
        ({"by": "origin", "force": ("a+y",)}, "force", "merged"),
        ({"forbid": ("y+a",)}, "forbid", "refused"),
    ):
        result = fuse(module, Fuse(**options))
        (one,) = result.decisions
        assert (one.a, one.b, one.tier, one.verdict, one.rule) == (a, b, tier, verdict, rule)
        assert len(result.module.graph.ops) == (1 if verdict == "merged" else 2)


def test_pairs_of_names_that_hold_a_plus() -> None:
    known = {"a", "a+b", "c"}
    assert split_pair("a+b+c", known) == ("a+b", "c")
    assert split_pair("a+c", known) == ("a", "c")


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="by"):
        Fuse(by="size")
    with pytest.raises(ValueError, match="max_ops"):
        Fuse(max_ops=0)
    assert Fuse(by="origin", force=("a+b",)).options() == (("by", "origin"), ("force", ("a+b",)))


def test_it_can_be_stopped() -> None:
    context = Context()
    context.cancel.set()
    with pytest.raises(Cancelled):
        Fuse().run(parse_module(CHAIN), context)

"""The search: what merges, what does not and why, in which order."""

from collections.abc import Sequence

from compiler.fusion.decisions import MERGED, REFUSED, Decision
from compiler.fusion.search import Outcome, Pair, search
from compiler.ir.machine import TEST_MACHINE
from compiler.ir.parser import parse_module


def outcome(
    body: str, outputs: str, by_origin: bool = False, max_ops: int = 64,
    force: Sequence[Pair] = (), forbid: Sequence[Pair] = (),
) -> Outcome:  # fmt: skip
    text = f"""module @m dims(r, c) nodes(n0 A, n1 B, n2 C) {{
      graph (%x: f32[r,c], %b: f32[c], %w: f32[c,c]) -> ({outputs}) {{ {body} }}
    }}"""
    return search(
        parse_module(text).graph, TEST_MACHINE,
        lambda d: d.evaluate(dict.fromkeys(d.symbols(), 256)),
        by_origin=by_origin, max_ops=max_ops, force=force, forbid=forbid,
    )  # fmt: skip


def names(found: Outcome) -> list[str]:
    return [" ".join(found.facts.ops[i].key for i in g.members) for g in found.groups]


def brief(decisions: Sequence[Decision]) -> list[str]:
    return [f"{d.a}+{d.b} {d.tier} {d.verdict} {d.rule}" for d in decisions]


CHAIN = """%p = map.exp %x : f32[r,c] @[n0] %q = map.add %p, %b : f32[r,c] @[n0]
  %s = map.neg %q : f32[r,c] @[n1] %t = map.tanh %s : f32[r,c] @[n2]"""


def test_a_chain_becomes_one_group() -> None:
    found = outcome(CHAIN, "%t")
    assert names(found) == ["p q s t"]
    assert [d.verdict for d in found.decisions] == [MERGED] * 3
    for d in found.decisions:
        assert d.gain > 0 and d.bytes_after != d.bytes_before
        assert dict(d.parameters)["a"] == d.a


def test_rows_come_before_pointwise_pairs() -> None:
    body = """%p = map.exp %x : f32[r,c] %q = map.neg %p : f32[r,c]
      %s = reduce.sum %q {axes=[1]} : f32[r,1] %t = map.div %q, %s : f32[r,c]"""
    found = outcome(body, "%t")
    assert names(found) == ["p q s t"]
    assert {d.tier for d in found.decisions} == {"row-internal"}


DIAMOND = """%a = map.exp %x : f32[r,c]
  %m = extern %a {op="onnx.Sin", opset=17} : f32[r,c] %y = map.add %a, %m : f32[r,c]"""


def test_a_diamond_around_a_library_call_is_refused_by_r2() -> None:
    found = outcome(DIAMOND, "%y")
    assert names(found) == ["a", "y"]
    assert brief(found.decisions) == [
        "a+m prologue refused R1",
        "a+y pointwise refused R2",
        "m+y epilogue refused R1",
    ]
    refusal = found.decisions[1]
    assert refusal.message == "fuse.R2"
    assert dict(refusal.parameters) == {"a": "a", "b": "y", "path": "m"}


def test_force_never_overrides_a_rule() -> None:
    found = outcome(DIAMOND, "%y", force=[("a", "y")])
    assert names(found) == ["a", "y"]
    assert "a+y pointwise refused R2" in brief(found.decisions)


def test_merges_make_new_paths() -> None:
    """After p joins s, the way from p to q leads through the group of s and the call."""
    body = """%p = map.exp %x : f32[r,c] %s = map.neg %p : f32[r,c]
      %m = extern %s {op="onnx.Sin", opset=17} : f32[r,c] %q = map.add %p, %m : f32[r,c]"""
    found = outcome(body, "%q")
    assert names(found) == ["p s", "q"]
    last = [d for d in found.decisions if (d.a, d.b) == ("s", "q")]
    assert [d.rule for d in last] == ["R2"]


def test_library_calls_are_seen_through_views() -> None:
    body = """%p = map.exp %x : f32[r,c] %v = reshape %p : f32[c*r]
      %m = extern %v {op="onnx.Sin", opset=17} : f32[c*r] %q = map.neg %m : f32[c*r]"""
    found = outcome(body, "%q")
    assert brief(found.decisions) == ["p+m prologue refused R1", "m+q epilogue refused R1"]


def test_a_view_that_regroups_is_a_border() -> None:
    body = "%p = map.exp %x : f32[r,c] %v = reshape %p : f32[c*r] %q = map.neg %v : f32[c*r]"
    found = outcome(body, "%q")
    assert names(found) == ["p", "q"]
    (refusal,) = found.decisions
    assert (refusal.rule, dict(refusal.parameters)["path"]) == ("R2", "v")


def test_a_unit_view_goes_inside() -> None:
    body = """%s = reduce.sum %x {axes=[1]} : f32[r,1] %v = reshape %s : f32[r]
      %q = map.sqrt %v : f32[r] %k = reshape %q : f32[1,r]"""
    found = outcome(body, "%k")
    assert names(found) == ["s v q"]


def test_forbid_keeps_two_groups_apart() -> None:
    found = outcome(CHAIN, "%t", forbid=[("q", "s")])
    assert names(found) == ["p q", "s t"]
    (refusal,) = [d for d in found.decisions if d.verdict == REFUSED]
    assert (refusal.a, refusal.b, refusal.rule, refusal.message) == (
        "q", "t", "forbid", "fuse.forbid",
    )  # fmt: skip


def test_siblings_read_their_array_once() -> None:
    body = "%p = map.exp %x : f32[r,c] %q = map.neg %x : f32[r,c]"
    found = outcome(body, "%p, %q")
    assert names(found) == ["p q"]
    (decision,) = found.decisions
    assert (decision.tier, decision.verdict, decision.rule) == ("siblings", MERGED, "gain")
    saved = decision.bytes_before - decision.bytes_after
    assert saved.evaluate({"r": 3, "c": 5}) == 3 * 5 * 4
    assert names(outcome(body, "%p, %q", by_origin=True)) == ["p", "q"]


def test_siblings_over_other_domains_or_through_others_stay_apart() -> None:
    body = "%p = map.exp %x : f32[r,c] %q = map.neg %b : f32[c] %t = map.add %x, %b : f32[r,c]"
    found = outcome(body, "%p, %q, %t")
    assert names(found) == ["q", "p t"]
    refused = [d for d in found.decisions if d.verdict == REFUSED]
    assert [(d.tier, d.rule) for d in refused] == [("siblings", "R3")]
    through = """%p = map.exp %x : f32[r,c]
      %m = extern %p {op="onnx.Sin", opset=17} : f32[r,c] %t = map.add %m, %x : f32[r,c]"""
    assert names(outcome(through, "%t")) == ["p", "t"]


def test_siblings_can_be_forbidden() -> None:
    body = "%p = map.exp %x : f32[r,c] %q = map.neg %x : f32[r,c]"
    found = outcome(body, "%p, %q", forbid=[("p", "q")])
    assert names(found) == ["p", "q"]
    assert brief(found.decisions) == ["p+q siblings refused forbid"]


def test_two_reductions_of_one_array_are_siblings() -> None:
    body = "%p = reduce.sum %x {axes=[1]} : f32[r,1] %q = reduce.max %x {axes=[1]} : f32[r,1]"
    assert names(outcome(body, "%p, %q")) == ["p q"]


def test_force_comes_first_and_joins_what_nobody_connects() -> None:
    body = "%p = map.exp %w : f32[c,c] %q = iota {axis=1} : f32[c,c]"
    assert names(outcome(body, "%p, %q")) == ["p", "q"]
    found = outcome(body, "%p, %q", force=[("p", "q")])
    assert names(found) == ["p q"]


def test_the_cap_splits_a_long_chain() -> None:
    body = " ".join(
        f"%v{k} = map.neg %{f'v{k - 1}' if k else 'x'} : f32[r,c]" for k in range(100)
    )
    found = outcome(body, "%v99")
    sizes = [len(g.members) for g in found.groups]
    assert len(sizes) == 2 and sum(sizes) == 100 and max(sizes) <= 64
    assert found.decisions[-1].rule == "R6"
    assert len(outcome(body, "%v99", max_ops=10).groups) == 10


def test_more_arrays_than_a_kernel_takes() -> None:
    body = "%h = map.exp %x : f32[r,c] " + " ".join(
        f"%v{k} = map.neg %h : f32[r,c]" for k in range(20)
    )
    found = outcome(body, ", ".join(f"%v{k}" for k in range(20)))
    assert {d.rule for d in found.decisions if d.verdict == REFUSED} == {"R6"}
    assert max(len(g.form.operands) + len(g.form.results) for g in found.groups) == 16


def test_op_by_op_groups_the_ops_of_a_node() -> None:
    found = outcome(CHAIN, "%t", by_origin=True)
    assert names(found) == ["p q", "s", "t"]
    assert brief(found.decisions) == ["p+q pointwise merged origin"]


def test_op_by_op_a_library_call_splits_a_node() -> None:
    body = """%m = contract %x, %w {spec="mk,kn->mn", library="matmul"} : f32[r,c] @[n0]
      %p = map.add %m, %b : f32[r,c] @[n0] %q = map.exp %p : f32[r,c] @[n0]"""
    found = outcome(body, "%q", by_origin=True)
    assert names(found) == ["p q"]
    assert brief(found.decisions)[-1] == "m+q epilogue refused R1"


def test_op_by_op_siblings_of_a_node_and_ops_of_no_node() -> None:
    body = """%p = map.exp %x : f32[r,c] @[n0] %q = map.neg %x : f32[r,c] @[n0]
      %s = map.exp %x : f32[r,c] %t = map.neg %s : f32[r,c]"""
    assert names(outcome(body, "%p, %q, %t", by_origin=True)) == ["p q", "s", "t"]


def test_op_by_op_as_few_groups_as_the_rules_permit() -> None:
    body = """%s = reduce.sum %x {axes=[0]} : f32[1,c] @[n0] %m = map.sqrt %s : f32[1,c] @[n0]
      %d = map.sub %x, %m : f32[r,c] @[n0] %e = map.exp %d : f32[r,c] @[n0]"""
    found = outcome(body, "%e", by_origin=True)
    assert names(found) == ["s m", "d e"]
    assert [d.rule for d in found.decisions if d.verdict == REFUSED] == ["R5"]


def test_decisions_are_the_same_each_time() -> None:
    first, second = outcome(CHAIN, "%t"), outcome(CHAIN, "%t")
    assert first.decisions == second.decisions

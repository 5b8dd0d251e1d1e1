"""Each rule refuses what it is there for, and says which value it is about."""

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.fusion.facts import Facts, Role
from compiler.fusion.legality import Failure, Form, Reachability, analyse, bits, reduces_alone
from compiler.ir.dims import dims
from compiler.ir.graph import Graph, Op, Value
from compiler.ir.parser import parse_module
from compiler.ir.types import DType, tensor


def facts_of(body: str, outputs: str, guards: str = "") -> Facts:
    text = f"""module @m dims(r, c, n) {guards} {{
      graph (%x: f32[r,c], %b: f32[c], %p: f32[r,1], %y: f32[n,c]) -> ({outputs}) {{ {body} }}
    }}"""
    module = parse_module(text)
    return Facts(module.graph, lambda d: 4, module.guards)


def form(facts: Facts, max_ops: int = 64) -> Form | Failure:
    members = [i for i, r in enumerate(facts.role) if r in (Role.COMPUTE, Role.UNIT_VIEW)]
    return analyse(facts, members, max_ops)


def legal(body: str, outputs: str, guards: str = "") -> Form:
    found = form(facts_of(body, outputs, guards))
    assert isinstance(found, Form), found
    return found


def refused(body: str, outputs: str, max_ops: int = 64) -> tuple[str, str, dict[str, object]]:
    found = form(facts_of(body, outputs), max_ops)
    assert isinstance(found, Failure), found
    return found.rule, found.message, dict(found.parameters)


EXP = "%e = map.exp %x : f32[r,c] "


def test_pointwise_form() -> None:
    found = legal(EXP + "%z = map.add %e, %b : f32[r,c]", "%z")
    assert (found.kind, found.domain, found.inner) == ("pointwise", dims(("r", "c")), ())
    assert (found.operands, found.results) == (("x", "b"), ("z",))


def test_row_form_with_results_of_both_shapes() -> None:
    found = legal(
        EXP + "%s = reduce.sum %e {axes=[1]} : f32[r,1] %z = map.div %e, %s : f32[r,c]",
        "%s, %z",
    )
    assert (found.kind, found.inner, found.results) == ("row", (1,), ("s", "z"))


def test_r3_results_of_different_domains() -> None:
    rule, message, values = refused(EXP + "%z = map.exp %y : f32[n,c]", "%e, %z")
    assert (rule, message) == ("R3", "fuse.R3")
    assert values == {"value": "e", "shape": "[r,c]", "other": "z", "other_shape": "[n,c]"}


def test_r3_yields_to_a_guard() -> None:
    body = EXP + "%z = map.exp %y : f32[n,c]"
    guarded = 'guards(r == n @n0 "guard.broadcast")'
    assert legal(body, "%e, %z", guarded).results == ("e", "z")


def test_r3_reductions_of_different_domains() -> None:
    body = "%s = reduce.sum %x {axes=[1]} : f32[r,1] %t = reduce.sum %y {axes=[1]} : f32[n,1]"
    assert refused(body, "%s, %t")[0] == "R3"


def test_r4_a_vector_is_not_computed_again_for_each_row() -> None:
    rule, message, values = refused(
        "%e = map.exp %b : f32[c] %z = map.add %x, %e : f32[r,c]", "%z"
    )
    assert (rule, message) == ("R4", "fuse.R4.again")
    assert values == {"value": "e", "shape": "[c]", "domain": "[r,c]"}


def test_r4_a_row_scalar_is_computed_once_only_where_there_are_rows() -> None:
    body = "%e = map.exp %p : f32[r,1] %z = map.add %x, %e : f32[r,c]"
    assert refused(body, "%z")[0] == "R4"
    body += " %s = reduce.sum %z {axes=[1]} : f32[r,1]"
    assert legal(body, "%s").kind == "row"


def test_r4_cheap_ops_may_repeat() -> None:
    body = "%i = iota {axis=0} : i64[c] %f = cast %i {to=f32} : f32[c] "
    assert legal(body + "%z = map.add %x, %f : f32[r,c]", "%z").operands == ("x",)


def test_r4_one_place_for_each_computed_value() -> None:
    body = """%q = slice %x {starts=[0, 0], steps=[1, 1]} : f32[r,r] %e = map.exp %q : f32[r,r]
      %t = permute %e {perm=[1, 0]} : f32[r,r] %z = map.add %e, %t : f32[r,r]"""
    rule, message, values = refused(body, "%z")
    assert (rule, message, values) == ("R4", "fuse.R4.twice", {"value": "e", "times": 2})


@pytest.mark.parametrize(
    ("first", "second", "step", "part", "meet"),
    [
        ("0", "n", 1, "n", False),  # a split: side by side, whatever n is
        ("0", "1", 2, "n", False),  # even and odd places
        ("0", "n", 2, "n", True),  # odd n: they interlock, even n: they meet
        ("0", "n-1", 1, "n", True),  # one element in common
        ("0", "3", 1, "n", True),  # apart only for small n
        ("0", "3", 1, "3", False),
        ("2", "1", 1, "1", False),  # two columns
        ("1", "1", 1, "1", True),
    ],
)
def test_r4_parts_that_never_meet_may_both_be_read(
    first: str, second: str, step: int, part: str, meet: bool
) -> None:
    def half(start: str) -> str:
        return f"slice %e {{starts=[0, {start}], steps=[1, {step}]}} : f32[r,{part}]"

    body = f"""{EXP} %p = {half(first)} %q = {half(second)} %h = map.neg %q : f32[r,{part}]
      %z = map.add %p, %h : f32[r,{part}]"""
    facts = facts_of(body, "%z")
    found = form(facts)
    if meet and first != second:
        assert isinstance(found, Failure) and (found.rule, found.message) == ("R4", "fuse.R4.twice")
    else:
        assert isinstance(found, Form) and found.operands == ("x",)
        assert len(found.reads) == (1 if first == second else 2)


def test_movement_composes_in_a_pointwise_group() -> None:
    body = """%e = map.exp %x : f32[r,c] %t = permute %e {perm=[1, 0]} : f32[c,r]
      %h = slice %t {starts=[1, 0], steps=[2, 1]} : f32[c//2,r] %z = map.neg %h : f32[c//2,r]"""
    found = legal(body, "%z")
    (name, at), = found.reads
    assert name == "x"
    assert (at[0].axis, at[1].axis) == (1, 0)
    assert (str(at[1].step), str(at[1].start)) == ("2", "1")


def test_unit_views_inside() -> None:
    body = """%s = reduce.sum %x {axes=[1]} : f32[r,1] %u = reshape %s : f32[r]
      %q = map.sqrt %u : f32[r] %w = reshape %q : f32[r,1] %z = map.div %x, %w : f32[r,c]"""
    assert legal(body, "%z, %q").results == ("q", "z")


def test_r5_reductions_over_other_axes() -> None:
    body = "%s = reduce.sum %x {axes=[1]} : f32[r,1] %t = reduce.sum %x {axes=[0]} : f32[1,c]"
    rule, message, values = refused(body, "%s, %t")
    assert (rule, message, values) == ("R5", "fuse.R5.axes", {"value": "s", "other": "t"})


def test_r5_the_reduction_of_another_row() -> None:
    body = """%q = slice %x {starts=[0, 0], steps=[1, 1]} : f32[r,r]
      %s = reduce.sum %q {axes=[1]} : f32[r,1] %u = reshape %s : f32[1,r]
      %z = map.add %q, %u : f32[r,r]"""
    facts = facts_of(body, "%z")
    members = [i for i, op in enumerate(facts.ops) if op.key in ("s", "u", "z")]
    found = analyse(facts, members)
    assert isinstance(found, Failure)
    assert (found.rule, found.message) == ("R5", "fuse.R5.element")


def test_movement_before_the_reductions_of_a_row_group() -> None:
    """Each row reads where it likes, as long as what it reads is complete."""
    moved = "%t = permute %x {perm=[1, 0]} : f32[c,r] %s = reduce.sum %t {axes=[1]} : f32[c,1] "
    assert legal(moved, "%s").kind == "row"
    rule, message, values = refused(moved + "%z = reverse %s {axes=[0]} : f32[c,1]", "%z")
    assert (rule, message, values) == ("R5", "fuse.R5.movement", {"value": "z", "other": "s"})


def test_r4_a_dear_function_before_movement() -> None:
    body = """%e = map.exp %x : f32[r,c] %t = reverse %e {axes=[1]} : f32[r,c]
      %s = reduce.sum %t {axes=[1]} : f32[r,1]"""
    rule, message, values = refused(body, "%s")
    assert (rule, message, values) == ("R4", "fuse.R4.moved", {"value": "e", "other": "t"})
    body = "%e = map.exp %x : f32[r,c] %z = concat %e, %x {axis=1} : f32[r,2*c]"
    assert refused(body, "%z")[1] == "fuse.R4.moved"


def test_movement_tells_where_it_reads() -> None:
    """Shifts, mirrors and places that data tell, composed."""
    body = """%c = const {value=0.0} : f32[]
      %p = pad %x, %c {before=[0, 2], after=[0, 0]} : f32[r,c+2]
      %v = reverse %p {axes=[1]} : f32[r,c+2] %z = map.neg %v : f32[r,c+2]"""
    (name, at), = legal(body, "%z").reads
    assert name == "x" and (str(at[1].step), str(at[1].start)) == ("-1", "c-1")
    body = """%k = iota {axis=0} : i64[7] %g = gather %x, %k {axis=1} : f32[r,7]
      %z = map.neg %g : f32[r,7]"""
    (name, at), = legal(body, "%z").reads
    assert name == "x" and at[0].axis == 0 and (at[1].told, at[1].along) == ("g", (1,))


def test_r5_a_scatter_keeps_to_itself() -> None:
    body = """%k = iota {axis=0} : i64[r,c] %s = scatter_elements %x, %k, %x {axis=0} : f32[r,c]
      %z = map.neg %s : f32[r,c]"""
    rule, message, values = refused(body, "%z")
    assert (rule, message) == ("R5", "fuse.R5.scatter") and values["value"] == "s"


CONTRACT = "%w = reshape %b : f32[c,1] %m = contract %x, %w {spec=\"ij,jk->ik\"} : f32[r,1] "
POOL = """%o = const {value=0.0} : f32[]
  %i = window %x, %o {after=[0], axes=[1], before=[0], dilations=[1], sizes=[2], strides=[1]}
    : f32[r,c-1,2]
  %m = reduce.sum %i {axes=[2]} : f32[r,c-1,1] """


@pytest.mark.parametrize(
    ("before", "shape"), [(CONTRACT, "[r,1]"), (POOL, "[r,c-1,1]")], ids=["contract", "window"]
)
def test_r5_a_scatter_follows_no_contraction_and_no_window(before: str, shape: str) -> None:
    body = f"""{before} %k = iota {{axis=0}} : i64{shape}
      %s = scatter_elements %m, %k, %m {{axis=0}} : f32{shape}"""
    rule, message, values = refused(body, "%s")
    assert (rule, message) == ("R5", "fuse.R5.scatter") and values["value"] == "s"


@pytest.mark.parametrize("axes", ["0", "0, 1"])
def test_r5_a_reduction_over_leading_or_all_axes_keeps_to_itself(axes: str) -> None:
    row = "[1,c]" if axes == "0" else "[1,1]"
    reduce = f"%s = reduce.sum %e {{axes=[{axes}]}} : f32{row} "
    found = legal(EXP + reduce + f"%q = map.sqrt %s : f32{row}", "%q")
    assert (found.kind, found.results) == ("row", ("q",))
    for tail, outputs in (("%z = map.div %x, %s : f32[r,c]", "%z"), ("", "%s, %e")):
        rule, message, values = refused(EXP + reduce + tail, outputs)
        assert (rule, message, values["value"]) == ("R5", "fuse.R5.alone", "s")
    rule, message, values = refused(
        EXP + reduce + f"""%d = map.sub %e, %s : f32[r,c]
        %t = reduce.sum %d {{axes=[{axes}]}} : f32{row}""", "%t",
    )  # fmt: skip
    assert (rule, message) == ("R5", "fuse.R5.alone")


def test_which_reductions_keep_to_themselves() -> None:
    assert not reduces_alone(dims(("b", "r", "c")), (2,))
    assert not reduces_alone(dims(("b", "r", "c")), (1, 2))
    assert reduces_alone(dims(("b", "r", "c")), (1,))
    assert reduces_alone(dims(("c",)), (0,))
    assert not reduces_alone(dims((4096,)), (0,))
    assert reduces_alone(dims((4097,)), (0,))
    assert not reduces_alone(dims(("r",)), ())


def test_r6_ops_and_arrays() -> None:
    body = EXP + "%z = map.add %e, %b : f32[r,c]"
    assert refused(body, "%z", max_ops=1) == ("R6", "fuse.R6.ops", {"ops": 2, "limit": 1})
    many = " ".join(f"%e{k} = map.exp %x : f32[r,c]" for k in range(16))
    rule, message, values = refused(many, ", ".join(f"%e{k}" for k in range(16)))
    assert (rule, message, values) == ("R6", "fuse.R6.arrays", {"arrays": 17, "limit": 16})


def test_r8_a_cast_stays_an_op() -> None:
    body = "%h = cast %x {to=i32} : i32[r,c] %z = cast %h {to=f32} : f32[r,c]"
    assert legal(body, "%z").reads != ()


def test_roles() -> None:
    facts = facts_of(
        """%k = const 1.0 : f32[] %d = dims {values=[r]} : i64[] %v = dims {values=[r, c]} : i64[2]
        %u = reshape %x : f32[r,1,c] %f = reshape %x : f32[c*r] %i = iota {axis=0} : i64[c]
        %e = extern %x {op="onnx.Sin", opset=17} : f32[r,c] %z = map.exp %x : f32[r,c]""",
        "%z",
    )
    assert [role.name for role in facts.role] == [
        "LEAF", "LEAF", "SOURCE", "UNIT_VIEW", "VIEW", "COMPUTE", "LIBRARY", "COMPUTE",
    ]  # fmt: skip


@settings(max_examples=60)
@given(st.integers(2, 12), st.randoms(use_true_random=False))
def test_r2_reachability_against_networkx(count: int, random: object) -> None:
    """Bit sets agree with path search on the contracted graph, through a series of merges."""
    pick = random.randint  # type: ignore[attr-defined]
    type = tensor(DType.f32, 4)
    ops = [Op("map.neg", ("x",), (Value("v0", type),))]
    for k in range(1, count):
        reads = tuple(f"v{pick(0, k - 1)}" for _ in range(2))
        ops.append(Op("map.add", reads, (Value(f"v{k}", type),)))
    facts = Facts(Graph((Value("x", type),), (f"v{count - 1}",), tuple(ops)), lambda d: 4)
    reach = Reachability(facts)
    groups = {k: 1 << k for k in range(count)}
    graph = nx.DiGraph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(
        (facts.producer[n], k) for k, op in enumerate(ops) for n in op.operands if n != "x"
    )
    for _ in range(count):
        for a in groups:
            for b in groups:
                if a < b:
                    expected = any(
                        (nx.has_path(graph, a, x) and nx.has_path(graph, x, b))
                        or (nx.has_path(graph, b, x) and nx.has_path(graph, x, a))
                        for x in groups if x not in (a, b)
                    )  # fmt: skip
                    through = reach.between(a, b, groups[a] | groups[b])
                    assert (through is not None) is expected
        free = [
            (a, b) for a in groups for b in groups
            if a < b and reach.between(a, b, groups[a] | groups[b]) is None
        ]  # fmt: skip
        if not free:
            break
        a, b = free[pick(0, len(free) - 1)]
        inside = groups[a] | groups.pop(b)
        reach.merge((a, b), inside)
        groups[a] = inside
        graph = nx.contracted_nodes(graph, a, b, self_loops=False)
        assert nx.is_directed_acyclic_graph(graph)


def test_bits() -> None:
    assert list(bits(0b101001)) == [0, 3, 5]

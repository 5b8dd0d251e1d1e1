"""Prologues: what is computed where a contraction brings its operand, and what is not (R7, R4)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.fusion.decisions import Decision
from compiler.fusion.facts import Facts
from compiler.fusion.prologue import BORDERS, Operand, tiled_operand, times_brought
from compiler.fusion.search import Outcome, search
from compiler.ir.builder import Builder
from compiler.ir.dims import Dim, dims
from compiler.ir.graph import Graph, Value
from compiler.ir.interpret.plan import run_plan
from compiler.ir.interpret.tensor import run_graph
from compiler.ir.machine import TEST_MACHINE
from compiler.ir.module import Module
from compiler.ir.names import Names
from compiler.ir.params import ParamStore
from compiler.ir.parser import parse_module
from compiler.ir.types import Array, DType, TensorType
from tests.lower.test_contract import lowered

SEEN = """%seen = window %p, %zero {after=[1, 1], axes=[2, 3], before=[1, 1], dilations=[1, 1],
  sizes=[3, 3], strides=[1, 1]} : f32[n,2,6,6,3,3] """
FEW = SEEN + '%y = contract %seen, %f {spec="ncyxhw,ochw->noyx"} : f32[n,2,6,6] '
MANY = SEEN + '%y = contract %seen, %g {spec="ncyxhw,ochw->noyx"} : f32[n,40,6,6] '
POOL = """%seen = window %p, %zero {after=[0, 0], axes=[2, 3], before=[0, 0], dilations=[1, 1],
  sizes=[2, 2], strides=[2, 2]} : f32[n,2,3,3,2,2]
  %y = reduce.max %seen {axes=[4, 5]} : f32[n,2,3,3,1,1] """
PRODUCT = '%y = contract %p, %m {spec="ncyx,xz->ncyz"} : f32[n,2,6,5] '


def graph(body: str, outputs: str) -> Graph:
    return parse_module(f"""module @m dims(n) {{
      graph (%x: f32[n,2,6,6], %b: f32[2,1,1], %r: f32[n,2,6,6], %k: i64[6], %m: f32[6,5],
             %f: f32[2,2,3,3], %g: f32[40,2,3,3]) -> ({outputs}) {{
        %zero = const 0.0 : f32[] {body}
      }}
    }}""").graph


def size(d: Dim) -> int:
    return d.evaluate({"n": 8})


def searched(body: str, outputs: str = "%y") -> Outcome:
    return search(graph(body, outputs), TEST_MACHINE, size)


def prologue(body: str, outputs: str = "%y") -> Decision:
    """The one decision about what stands before y."""
    (found,) = [d for d in searched(body, outputs).decisions if d.b == "y" and d.a == "p"]
    return found


@pytest.mark.parametrize(
    "before",
    [
        "%q = map.add %x, %b : f32[n,2,6,6] %p = map.max %q, %zero : f32[n,2,6,6]",
        "%p = reverse %x {axes=[2]} : f32[n,2,6,6]",
        """%q = slice %x {starts=[0, 0, 1, 0], steps=[1, 1, 1, 1]} : f32[n,2,4,6]
           %p = pad %q, %zero {before=[0, 0, 1, 0], after=[0, 0, 1, 0]} : f32[n,2,6,6]""",
    ],
)
@pytest.mark.parametrize("after", [FEW, MANY, POOL])
def test_what_costs_little_is_a_prologue(before: str, after: str) -> None:
    outcome = searched(before + after)
    (group,) = outcome.groups
    assert group.form.kind == "contract" and "p" not in group.form.operands
    found = prologue(before + after)
    assert (found.tier, found.verdict, found.rule) == ("prologue", "merged", "gain")
    assert found.message == "fuse.merged.prologue" and found.gain > 0
    assert size(found.bytes_after) < size(found.bytes_before)


def test_reading_against_the_order_is_priced_as_often_as_it_is_brought() -> None:
    turned = "%q = permute %r {perm=[0, 1, 3, 2]} : f32[n,2,6,6] %p = map.neg %q : f32[n,2,6,6] "
    assert prologue(turned + FEW).verdict == prologue(turned + POOL).verdict == "merged"
    found = prologue(turned + MANY)
    assert (found.verdict, found.rule, found.tier) == ("refused", "gain", "prologue")


def test_a_dear_function_only_where_each_element_is_brought_once() -> None:
    exp = "%p = map.exp %x : f32[n,2,6,6] "
    assert prologue(exp + POOL).verdict == "merged"
    for body in (exp + FEW, exp + MANY):
        found = prologue(body)
        assert (found.verdict, found.rule, found.message) == ("refused", "R4", "fuse.R4.prologue")
        assert found.tier == "prologue" and dict(found.parameters)["value"] == "p"


@pytest.mark.parametrize(
    ("before", "after", "outputs", "rule", "message"),
    [
        ("%p = map.neg %x : f32[n,2,6,6]", FEW, "%y, %p", "R7", "shared"),
        ("%p = map.neg %x : f32[n,2,6,6]", FEW + "%z = map.add %y, %p : f32[n,2,6,6]", "%z", "R7",
         "shared"),
        ("%p = map.add %x, %r : f32[n,2,6,6]", FEW, "%y", "R7", "bytes"),
        ("%p = gather %x, %k {axis=3} : f32[n,2,6,6]", FEW, "%y", "R7", "injective"),
        ("%p = concat %e, %e {axis=2} : f32[n,2,6,6]", POOL, "%y", "R4", "moved"),
        ("%p = map.neg %x : f32[n,2,6,6]", PRODUCT, "%y", "R4", "prologue"),
    ],
)  # fmt: skip
def test_what_is_refused_says_why(
    before: str, after: str, outputs: str, rule: str, message: str
) -> None:
    if "%e" in before:
        part = "%h = slice %x {starts=[0, 0, 3, 0], steps=[1, 1, 1, 1]} : f32[n,2,3,6] "
        before = part + "%e = map.exp %h : f32[n,2,3,6] " + before
    found = [d for d in searched(before + after, outputs).decisions if d.verdict == "refused"]
    (one,) = [d for d in found if d.tier == "prologue"]
    assert (one.rule, one.message) == (rule, f"fuse.{rule}.{message}")


def test_an_index_map_may_stand_before_the_operand_of_the_innermost_loops() -> None:
    found = prologue("%p = permute %r {perm=[0, 1, 3, 2]} : f32[n,2,6,6] " + PRODUCT)
    assert (found.verdict, found.tier) == ("merged", "prologue")


def test_a_library_reads_its_operands_from_memory() -> None:
    library = PRODUCT.replace("{spec", '{library="matmul", spec')
    found = prologue("%p = map.neg %x : f32[n,2,6,6] " + library)
    assert (found.verdict, found.rule, found.tier) == ("refused", "R1", "prologue")
    assert found.message == "fuse.R1.prologue"
    tail = library + "%z = map.neg %y : f32[n,2,6,5]"
    (after,) = searched("%p = reverse %x {axes=[2]} : f32[n,2,6,6] " + tail, "%z").decisions[1:]
    assert (after.a, after.b, after.message) == ("y", "z", "fuse.R1.epilogue")


def test_how_often_an_element_is_brought() -> None:
    copy = "%p = copy %x : f32[n,2,6,6] "

    def times(after: str, source: str) -> float | None:
        facts = Facts(graph(copy + after, "%y"), size)
        return times_brought(facts, facts.ops[facts.producer["y"]], source)

    assert times(POOL, "p") == 1, "windows side by side"
    assert times(FEW, "p") == BORDERS, "two outputs are one task; windows overlap"
    assert times(MANY, "p") == 5 * BORDERS, "40 outputs are at most five tasks of eight"
    assert times(FEW, "f") is None, "weights are read in the innermost loops"
    assert times(PRODUCT, "p") is None and times(PRODUCT, "m") == 8 * 2 * 1


def test_which_operand_the_tiles_are_read_from() -> None:
    image = Operand("x", "ncyx", {"y": "h", "x": "w"})
    weights = Operand("w", "ochw")
    assert tiled_operand((image, weights), "noyx", "x") == 0
    assert tiled_operand((weights, image), "noyx", "x") == 1
    assert tiled_operand((image, weights), "noyx", "") is None, "one column"
    assert tiled_operand((Operand("a", "k"), Operand("b", "k")), "k", "k") is None
    assert tiled_operand((image, weights), "noxh", "x") is None, "a place in the window is kept"
    assert tiled_operand((Operand("a", "mk"), Operand("b", "kn")), "mn", "n") == 1


def test_the_price_counts_what_is_computed_again() -> None:
    body = "%q = map.add %x, %b : f32[n,2,6,6] %p = map.max %q, %zero : f32[n,2,6,6] "
    (group,) = searched(body + MANY).groups
    assert group.cost.again == round((5 * BORDERS - 1) * 2 * 8 * 2 * 6 * 6)
    (group,) = searched(body + POOL).groups
    assert group.cost.again == 0


# ---- what is computed ----------------------------------------------------------------------------


@st.composite
def modules(draw: st.DrawFn) -> Module:
    """A chain of cheap or dear steps and movements before a convolution or a pooling."""
    b = Builder("v", Names())
    n, c = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    high, wide = draw(st.integers(3, 8)), draw(st.integers(3, 9))
    formals = [
        Value("x", TensorType(DType.f32, dims((n, c, high, wide)))),
        Value("s", TensorType(DType.f32, dims((c, 1, 1)))),
    ]
    y = formals[0]
    for step in draw(st.lists(st.sampled_from("+>tms|p"), max_size=4)):
        rank = [d.constant or 0 for d in y.type.dims]
        match step:
            case "+" if rank[1] == c:
                y = b.add(y, formals[1])
            case ">":
                y = b.maximum(y, b.scalar(0.25, DType.f32))
            case "t":
                y = b.map("tanh", y)
            case "m":
                y = b.permute(y, [0, 1, 3, 2])
            case "s" if rank[2] > 3:
                whole = dims((rank[0], rank[1], rank[2] - 1, rank[3]))
                kept = TensorType(DType.f32, whole)
                y = b.op("slice", (y,), kept, starts=(0, 0, 1, 0), steps=(1, 1, 1, 1))
            case "|":
                y = b.op("reverse", (y,), y.type, axes=(3,))
            case "p":
                more = TensorType(DType.f32, dims((rank[0], rank[1], rank[2] + 2, rank[3])))
                rows, none = dims((0, 0, 1, 0)), b.scalar(0.5, DType.f32)
                y = b.op("pad", (y, none), more, before=rows, after=rows)
            case _:
                pass
    sizes = draw(st.sampled_from([(1, 1), (2, 3), (3, 2), (3, 3)]))
    strides = draw(st.sampled_from([(1, 1), (2, 2), (3, 1), (1, 3)]))
    pads = draw(st.sampled_from([(0, 0), (1, 1), (0, 1)]))
    pool = draw(st.booleans())
    outside = b.scalar(float("-inf") if pool else 0.0, DType.f32)
    seen = b.window(y, outside, (2, 3), sizes, strides, (1, 1), pads, pads)
    if pool:
        made = b.reduce("max", seen, (4, 5))
    else:
        outputs = draw(st.sampled_from([1, 3, 20]))
        weights = dims((outputs, y.type.dims[1].constant or 0, *sizes))
        formals.append(Value("w", TensorType(DType.f32, weights)))
        made = b.contract(seen, formals[-1], "ncyxhw,ochw->noyx")
    made = b.map("neg", made)
    return Module("before", graph=Graph(tuple(formals), (made.name,), tuple(b.ops)))


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(modules())
def test_any_prologue_computes_the_same(module: Module) -> None:
    plan = lowered(module)
    rng = np.random.default_rng(0)
    inputs: dict[str, Array] = {
        v.name: rng.standard_normal([d.constant or 0 for d in v.type.dims]).astype(np.float32)
        for v in module.graph.inputs
    }
    (wanted,) = run_graph(module, inputs, ParamStore()).values()
    (found,) = run_plan(plan, inputs, ParamStore()).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)

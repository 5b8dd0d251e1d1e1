"""The floor of the bytes and the gain, in closed form."""

from compiler.fusion.cost import STRIDE_PENALTY, border_cost, cost, joined, operations
from compiler.fusion.facts import Facts
from compiler.fusion.legality import Form, analyse
from compiler.fusion.search import search
from compiler.ir.dims import Dim, dim
from compiler.ir.machine import TEST_MACHINE
from compiler.ir.parser import parse_module

CHAIN = """module @chain dims(r, c) {
  graph (%X: f32[r,c], %R: f32[r,c], %b: f32[c], %s: f32[c]) -> (%Y) {
    %zero = const 0.0 : f32[] %one = const 1.0 : f32[]
    %T1 = map.add %X, %b : f32[r,c]
    %T2 = map.max %T1, %zero : f32[r,c]
    %T3 = map.mul %T2, %s : f32[r,c]
    %T4 = map.add %T3, %R : f32[r,c]
    %Y = map.min %T4, %one : f32[r,c]
  }
}"""
SIZES = {"r": 4096, "c": 4096, "n": 64}


def size(d: Dim) -> int:
    return d.evaluate(SIZES)


def price(text: str, *keys: str):
    facts = Facts(parse_module(text).graph, size)
    members = [facts.producer[k] for k in keys]
    form = analyse(facts, members)
    assert isinstance(form, Form)
    work = sum(operations(facts, i) for i in members)
    return cost(facts, form, work, TEST_MACHINE)


def test_the_floor_of_the_chain() -> None:
    """11 S + 32 KiB op by op, 3 S + 32 KiB as one kernel, with S = 64 MiB."""
    names = ("T1", "T2", "T3", "T4", "Y")
    alone = [price(CHAIN, k).bytes for k in names]
    fused = price(CHAIN, *names).bytes
    s = 64 << 20
    assert sum(size(b) for b in alone) == 11 * s + (32 << 10)
    assert size(fused) == 3 * s + (32 << 10)
    assert fused == dim("r") * dim("c") * 12 + dim("c") * 8


def test_time_is_the_slower_of_memory_and_arithmetic_plus_a_launch() -> None:
    add = price(CHAIN, "T1")
    assert add.time == float(size(add.bytes)) / TEST_MACHINE.bandwidth + TEST_MACHINE.launch
    deep = " ".join(f"%e{k} = map.exp %{'X' if k == 0 else f'e{k - 1}'} : f32[r,c]"
                    for k in range(20))  # fmt: skip
    text = f"module @m dims(r, c) {{ graph (%X: f32[r,c]) -> (%e19) {{ {deep} }} }}"
    busy = price(text, *(f"e{k}" for k in range(20)))
    assert busy.operations == 20 * 8 * 4096 * 4096
    assert busy.time == busy.operations / TEST_MACHINE.peak + TEST_MACHINE.launch


MOVED = """module @m dims(r, c, n) {
  graph (%x: f32[r,c], %u: f32[r,c], %w: f32[r,c]) -> (%t, %h, %q, %s) {
    %t = permute %x {perm=[1, 0]} : f32[c,r]
    %h = slice %x {starts=[0, 0], steps=[1, 1]} : f32[n,c]
    %q = slice %x {starts=[0, 0], steps=[1, 2]} : f32[r,n]
    %s = reduce.sum %x {axes=[0]} : f32[1,c]
  }
}"""


def test_a_slice_counts_what_it_reads() -> None:
    assert price(MOVED, "h").bytes == dim("n") * dim("c") * 8


def test_reads_that_are_not_in_order_are_charged_more_but_the_floor_is_not() -> None:
    r, c, n = SIZES["r"], SIZES["c"], SIZES["n"]
    assert price(MOVED, "t").bytes == dim("r") * dim("c") * 8
    assert price(MOVED, "t").moved == (STRIDE_PENALTY + 1) * 4 * r * c
    assert price(MOVED, "q").moved == (2 + 1) * 4 * r * n  # in steps of 2
    assert price(MOVED, "s").moved == STRIDE_PENALTY * 4 * r * c + 4 * c
    assert price(MOVED, "h").moved == 8 * n * c


def test_a_merge_must_gain() -> None:
    """Three arrays read across their rows cost more than one temporary array."""
    text = """module @m dims(r, c) {
      graph (%x: f32[r,c], %u: f32[r,c], %w: f32[r,c]) -> (%t) {
        %a = map.add %x, %u : f32[r,c]
        %b = map.add %a, %w : f32[r,c]
        %t = permute %b {perm=[1, 0]} : f32[c,r]
      }
    }"""
    outcome = search(parse_module(text).graph, TEST_MACHINE, size)
    merged, refused = outcome.decisions
    assert (merged.a, merged.b, merged.rule) == ("a", "b", "gain")
    assert (refused.a, refused.b, refused.rule) == ("b", "t", "gain")
    assert refused.gain < 0
    forced = search(parse_module(text).graph, TEST_MACHINE, size, force=[("a", "t")])
    assert [g.members for g in forced.groups] == [(0, 1, 2)]
    assert forced.decisions[-1].rule == "force"


def test_joined_estimates_what_a_merge_would_move() -> None:
    facts = Facts(parse_module(CHAIN).graph, size)
    a, b, both = price(CHAIN, "T3"), price(CHAIN, "T4"), price(CHAIN, "T3", "T4")
    inside = frozenset((facts.producer["T3"], facts.producer["T4"]))
    estimate = joined(facts, a, b, inside)
    assert (estimate.bytes, estimate.moved) == (both.bytes, both.moved)


def test_a_library_call_counts_inputs_and_outputs_and_unknown_types_nothing() -> None:
    text = """module @m dims(r, c) {
      graph (%x: f32[r,c]) -> (%e, %z) {
        %e = extern %x {op="onnx.Sin", opset=17} : f32[r,c]
        %z = extern %e, %e {op="onnx.Where", opset=17} : ?
      }
    }"""
    facts = Facts(parse_module(text).graph, size)
    assert border_cost(facts, 0, TEST_MACHINE).bytes == dim("r") * dim("c") * 8
    assert border_cost(facts, 1, TEST_MACHINE).bytes == dim("r") * dim("c") * 4

"""rematerialise-cheap: computed again where that moves fewer bytes, written where it does not."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.measure.bytes import step_bytes, total_floor
from compiler.passes.base import Context
from compiler.passes.fuse import Fuse
from compiler.passes.rematerialise_cheap import RematerialiseCheap
from sample_models import sample
from tests.passes.texts import kinds, module, run, values
from tests.whole import Whole, assert_same_bits, inputs_of

FORK = """(%x: f32[64,64]) -> (%y) {{
    {first}
    %s = reduce.sum %a {{axes=[1]}} : f32[64,1]
    %r = reshape %s : f32[1,64]
    %y = map.div %a, %r : f32[64,64]
}}"""


def test_a_cheap_value_is_computed_in_both_groups() -> None:
    context = Context()
    before = module(FORK.format(first="%a = map.abs %x : f32[64,64]"), context)
    after, events = run(RematerialiseCheap(), before, context)
    assert [(e.message, dict(e.parameters)) for e in events] == [
        ("rematerialise-cheap.done", {"value": "a", "groups": 1, "saved": 64 * 64 * 4})
    ]
    assert kinds(after) == ["map.abs", "reduce.sum", "reshape", "map.abs", "map.div"]
    fused, _ = run(Fuse(), after, context)
    groups = [op for op in fused.graph.ops if op.kind == "fused"]
    assert [[v.name for v in op.outputs] for op in groups] == [["s"], ["y"]]
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    assert_same_bits(values(after, context, x=x), values(before, context, x=x))


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("%a = map.exp %x : f32[64,64]", ""),
        ("%t = map.exp %x : f32[64,64] %a = map.abs %t : f32[64,64]", "rematerialise-cheap.gain"),
    ],
)
def test_what_costs_arithmetic_or_memory_stays(first: str, message: str) -> None:
    context = Context()
    before = module(FORK.format(first=first), context)
    after, events = run(RematerialiseCheap(), before, context)
    assert after is before
    assert [e.message for e in events] == ([message] if message else [])


def test_a_value_that_the_caller_or_a_library_reads_stays() -> None:
    for outputs, more in (
        ("%y, %a", ""),
        ("%y, %m", '%m = contract %a, %a {library="matmul", spec="mk,kn->mn"} : f32[64,64]'),
    ):
        body = FORK.format(first="%a = map.abs %x : f32[64,64]").replace("(%y)", f"({outputs})")
        before = module(body[:-1] + more + "}", Context())
        assert run(RematerialiseCheap(), before, Context())[0] is before


def test_a_cast_of_a_smaller_type_is_read_as_it_lies() -> None:
    """The bool is read by both groups; the float in between is never written."""
    context = Context()
    before = module(
        FORK.format(first="%a = cast %x {to=f32} : f32[64,64]").replace("%x: f32", "%x: bool"),
        context,
    )
    after, events = run(RematerialiseCheap(), before, context)
    assert dict(events[0].parameters)["saved"] == 64 * 64 * (4 + 4 - 1)
    assert kinds(after).count("cast") == 2


def test_the_sample_moves_a_quarter_less() -> None:
    each = sample("fork_reduce")
    with_, without = Whole(each.path), Whole(each.path, "default,-rematerialise-cheap")
    inputs = inputs_of(with_.trace, {"n": 5})
    assert_same_bits(with_.run(inputs), without.run(inputs))
    n = 512
    found = [total_floor(step_bytes(w.module), {"n": n}) for w in (with_, without)]
    rows = 2 * 4 * n
    assert found == [3 * 4 * n * n + rows, 4 * 4 * n * n + rows]

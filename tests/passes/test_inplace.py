"""inplace: a result lies over an operand only where every read comes first, in the plan too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.ir.access import reads_before_writes
from compiler.ir.interpret import run_plan
from compiler.ir.module import Module
from compiler.ir.parser import parse_kernel
from compiler.ir.plan import KernelStep
from compiler.ir.verify import VerifyError, verify
from compiler.passes.base import Context
from compiler.passes.cse import Cse
from compiler.passes.inplace import Inplace
from compiler.passes.order_steps import OrderSteps
from compiler.passes.plan_memory import PlanMemory
from sample_models import catalogue, sample
from tests.passes.texts import module, run
from tests.whole import Whole, assert_same_bits, inputs_of

HEAD = "kernel @k (x: in f32[r,c], z: in f32[c], y: out f32[r,c]) "

KERNELS = {
    "element by element":
        (True, "{ par i in r { vec j in c { store y[i,j] = load x[i,j] + load z[j] } } }"),
    "a row is summed, then written":
        (True, """{ par i in r { acc s: f32 = 0
                    red j in c { s += load x[i,j] }
                    vec j in c { store y[i,j] = load x[i,j] / s } } }"""),
    "a row is written, then summed":
        (False, """{ par i in r { acc s: f32 = 0
                     vec j in c { store y[i,j] = load z[j] }
                     red j in c { s += load x[i,j] }
                     vec j in c { store y[i,j] = load y[i,j] / s } } }"""),
    "another row is read":
        (False, "{ par i in r { vec j in c { store y[i,j] = load x[0,j] } } }"),
    "the neighbour is read":
        (False, "{ par i in r { seq j in c { store y[i,j] = load x[i,j] + load x[i,0] } } }"),
    "all rows are read in each row":
        (False, """{ par i in r { acc s: f32 = 0
                     red k in r { red j in c { s += load x[k,j] } }
                     vec j in c { store y[i,j] = s } } }"""),
    "it is read twice at the same place":
        (True, "{ par i in r { vec j in c { store y[i,j] = load x[i,j] * load x[i,j] } } }"),
    "it is read again after the write":
        (False, """{ par i in r { vec j in c {
                     store y[i,j] = load x[i,j]
                     store y[i,j] = load x[i,j] } } }"""),
    "an element is read once for each of many results":
        (False, """{ par i in r { seq k in c { vec j in c {
                     store y[i,j] = load x[i,j] } } } }"""),
    "data tell where to read":
        (False, """{ par i in r { vec j in c {
                     let g: i64 = cast(i64, load z[j])
                     store y[i,j] = load x[i,g] } } }"""),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_the_order_is_read_off_the_index_maps(name: str) -> None:
    legal, body = KERNELS[name]
    assert reads_before_writes(parse_kernel(HEAD + body), "x", "y") == legal


@pytest.mark.parametrize("name", [n for n, (legal, _) in KERNELS.items() if legal])
def test_what_is_legal_gives_the_same_bits(name: str) -> None:
    context = Context()
    kernel = HEAD + KERNELS[name][1]
    before = module(
        """(%u: f32[a,b], %z: f32[b]) -> (%y) {
            %x = launch @first (%u) {m=a, n=b} : f32[a,b]
            %y = launch @k (%x, %z) {r=a, c=b} : f32[a,b]
        } kernel @first (u: in f32[m,n], x: out f32[m,n]) {
            par i in m { vec j in n { store x[i,j] = exp(load u[i,j]) } }
        } """ + kernel,
        context, head="dims(a, b)",
    )  # fmt: skip
    after, events = run(Inplace(), before, context)
    assert [(e.message, e.where) for e in events] == [
        ("inplace.caller", "x"), ("inplace.done", "y"),
    ]  # fmt: skip
    u = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)
    inputs = {"u": u, "z": u[0].copy()}
    plans = [PlanMemory().run(m, context).module for m in (before, after)]
    assert_same_bits(*(run_plan(p, inputs, context.params) for p in reversed(plans)))
    assert [len(p.plan.buffers) for p in plans if p.plan is not None] == [4, 3]


def three(more: str, outputs: str = "%z") -> Module:
    """x is made, launched on, and perhaps read by others."""
    return module(
        f"""(%u: f32[4]) -> ({outputs}) {{
            %x = call.matmul %u, %u {{spec="m,m->m"}} : f32[4]
            {more}
        }} kernel @k0 (x: in f32[4], y: out f32[4]) {{
            par i in 4 {{ store y[i] = exp(load x[i]) }}
        }} kernel @k1 (x: in f32[4], v: in f32[4], y: out f32[4]) {{
            par i in 4 {{ store y[i] = load x[i] + load v[i] }}
        }}""".replace('spec="m,m->m"', 'spec="m,n->m"'),
        Context(),
    )


@pytest.mark.parametrize(
    ("more", "outputs", "messages"),
    [
        ("%y = launch @k0 (%x) : f32[4] %z = launch @k1 (%x, %y) : f32[4]", "%z",
         ["inplace.later", "inplace.done"]),
        ("%y = launch @k0 (%x) : f32[4]", "%y, %x", ["inplace.later"]),
        ("%v = reshape %x : f32[4] %y = launch @k1 (%x, %v) : f32[4]", "%y", ["inplace.later"]),
        ("%v = reshape %x : f32[2,2] %y = launch @k0 (%v) : f32[4]", "%y, %v", ["inplace.later"]),
        ("%v = reshape %x : f32[2,2] %y = launch @k0 (%v) : f32[4]", "%y", ["inplace.done"]),
        ("%y = launch @k0 (%u) : f32[4]", "%y", ["inplace.caller"]),
    ],
)  # fmt: skip
def test_only_what_dies_is_written_over(more: str, outputs: str, messages: list[str]) -> None:
    _, events = run(Inplace(), three(more, outputs), Context())
    assert [e.message for e in events] == messages


def test_the_verifier_finds_a_read_of_what_is_gone() -> None:
    before = three("%y = launch @k0 (%x) : f32[4] %w = launch @k1 (%y, %u) : f32[4]", "%w")
    after, _ = run(Inplace(), before, Context())
    graph = after.graph
    for outputs in (("x",), ("y",)):
        with pytest.raises(VerifyError, match="was written over"):
            verify(replace(after, graph=replace(graph, outputs=outputs, names=outputs)))


def test_later_passes_leave_the_order_alone() -> None:
    before = three("%y = launch @k0 (%x) : f32[4]", "%y")
    after, _ = run(Inplace(), before, Context())
    for p in (OrderSteps(), Cse()):
        assert p.run(after, Context()).module is after


FAST = [s.name for s in catalogue() if not {"conv", "resnet", "depthwise"} & set(s.name.split("_"))]


@pytest.mark.parametrize("name", FAST)
def test_samples_give_the_same_bits_with_fewer_buffers(name: str) -> None:
    """Over a poisoned arena, where a value that is read too late is no value."""
    with_, without = Whole(sample(name).path), Whole(sample(name).path, "default,-inplace")
    inputs = inputs_of(with_.trace, dict.fromkeys(sample(name).sizes, 3))
    assert_same_bits(with_.run(inputs), without.run(inputs))
    plans = [w.module.plan for w in (with_, without)]
    changed = next(r.changed for r in with_.trace.records if r.name == "inplace")
    sizes = [len(p.buffers) for p in plans if p is not None]
    assert (sizes[0] < sizes[1]) == changed
    steps = [s for p in plans[:1] if p for s in p.steps if isinstance(s, KernelStep)]
    assert changed == any(".inplace(" in s.kernel for s in steps)

"""inplace: a kernel writes its result over an operand that dies there.

    %y = launch @k (%x)    becomes    %y = launch @"k.inplace(x->y)" (%x)    x and y share bytes

Legal where every read of an element precedes its write:

    1. x is a value of the plan (no input, weight or output of the caller), of y's type, and nobody
       reads x, or a view of it, later;
    2. per iteration of the loops that a load x[f] and a store y[g] share, f and g reach the same
       elements, and the load comes first;
    3. f reaches no element twice, so no other iteration reads what this one wrote.

2 and 3 are read off the index maps (`ir/access.py`). A kernel with `stream` loops is refused,
because rows that are not streamed are written early. The result needs no memory of its own, and its
cache lines are there already, because x was read.

Teaches: whether memory can be written over is a question of order, and the index maps answer it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.access import reads_before_writes
from compiler.ir.edits import Event, KernelEdit, Ops, apply, parameters
from compiler.ir.graph import Graph, Op, reads
from compiler.ir.loops import (
    Arg,
    Expr,
    For,
    Kernel,
    Load,
    Stmt,
    map_statements,
    walk_statements,
)
from compiler.ir.module import Module
from compiler.ir.types import KernelRef

from .base import Context, Pass, Result
from .order_steps import roots

Pair = tuple[Arg, Arg]
"""An argument that is read, and the one that is written over it."""


@dataclass(frozen=True)
class Inplace(Pass):
    """`inplace`: after the steps have their order; before rows are streamed."""

    name: ClassVar[str] = "inplace"
    level: ClassVar[str] = "loops"
    unit: ClassVar[str] = "kernels"
    after: ClassVar[tuple[str, ...]] = ("lower-loops",)

    def run(self, module: Module, context: Context) -> Result:
        """One event a launch that changes, and one a result that could have and may not."""
        if module.plan is not None:
            return Result(module)
        lives = _Lives(module.graph)
        uses: dict[str, int] = {}
        for op in module.graph.ops:
            if op.kind == "launch":
                uses[kernel_name(op)] = uses.get(kernel_name(op), 0) + 1
        state = module
        events: list[Event] = []
        for at, op in enumerate(module.graph.ops):
            context.check()
            if op.kind != "launch" or uses[kernel_name(op)] > 1:
                continue
            kernel = module.kernel(kernel_name(op))
            pairs, refused = _pairs(op, kernel, lives, at)
            events += refused
            if not pairs:
                continue
            variant = write_over(kernel, pairs)
            launch = _launch(op, kernel, variant, pairs)
            edits = (
                KernelEdit(kernel.name, variant),
                Ops(removed=(op.key,), added=((at, launch),)),
            )
            for edit in edits:
                state = apply(state, edit)
            told = parameters(
                kernel=kernel.name, results=", ".join(y.name for _, y in pairs),
                operands=", ".join(x.name for x, _ in pairs),
            )  # fmt: skip
            events.append(Event(self.name, op.key, edits, "inplace.done", told))
        return Result(state, tuple(events))


def kernel_name(op: Op) -> str:
    ref = op.get("kernel")
    assert isinstance(ref, KernelRef)
    return ref.name


class _Lives:
    """Which values are memory of the plan, and who reads their memory last."""

    def __init__(self, graph: Graph) -> None:
        self.root = roots(graph)
        self.made: set[str] = set()
        self.last: dict[str, int] = {}
        for at, op in enumerate(graph.ops):
            if op.kind == "launch" or op.family == "call":
                self.made.update(v.name for v in op.outputs if v.type.sized)
            for name in reads(op):
                if op.kind != "reshape":
                    self.last[self.of(name)] = at
        for name in graph.outputs:
            self.last[self.of(name)] = len(graph.ops)

    def of(self, name: str) -> str:
        return self.root.get(name, name)


def _pairs(op: Op, kernel: Kernel, lives: _Lives, at: int) -> tuple[list[Pair], list[Event]]:
    """Results and the operands that they may be written over; refusals for the other results."""
    given = dict(zip(_read(kernel), op.operands, strict=True))
    results = dict(zip(_written(kernel), (v.name for v in op.outputs), strict=True))
    pairs: list[Pair] = []
    refused: list[Event] = []
    for y, result in results.items():
        if y.mode != "out":
            continue
        reasons: dict[str, str] = {}
        for x, name in given.items():
            if x.mode != "in" or x.type != y.type or any(x == taken for taken, _ in pairs):
                continue
            reason = _obstacle(kernel, x, y, name, given, lives, at)
            if not reason:
                pairs.append((x, y))
                break
            reasons.setdefault(reason, name)
        else:
            for reason in ("order", "stream", "later", "caller"):
                if reason in reasons:
                    told = parameters(
                        kernel=kernel.name, result=result, operand=reasons[reason]
                    )
                    message = f"inplace.{reason}"
                    refused.append(Event(Inplace.name, op.key, (), message, told))
                    break
    return pairs, refused


def _obstacle(
    kernel: Kernel, x: Arg, y: Arg, name: str, given: Mapping[Arg, str], lives: _Lives, at: int
) -> str:
    """Why y may not be written over x; empty where it may."""
    root = lives.of(name)
    if root not in lives.made:
        return "caller"
    twice = any(lives.of(other) == root for arg, other in given.items() if arg != x)
    if lives.last.get(root, at) > at or twice:
        return "later"
    if any(isinstance(s, For) and s.kind == "stream" for s in walk_statements(kernel.body)):
        return "stream"
    return "" if reads_before_writes(kernel, x.name, y.name) else "order"


def _read(kernel: Kernel) -> list[Arg]:
    return [a for a in kernel.args if a.mode in ("in", "inout")]


def _written(kernel: Kernel) -> list[Arg]:
    return [a for a in kernel.args if a.mode in ("out", "inout")]


def write_over(kernel: Kernel, pairs: list[Pair]) -> Kernel:
    """The variant of a kernel in which each y of a pair is x too: an `inout` in y's place."""
    over = {x.name: y.name for x, y in pairs}
    written = set(over.values())

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in over:
            return replace(e, buffer=over[e.buffer])
        return e

    body: tuple[Stmt, ...] = map_statements(kernel.body, on_expr)
    args = tuple(
        replace(a, mode="inout") if a.name in written else a
        for a in kernel.args
        if a.name not in over
    )
    shown = ",".join(f"{x}->{y}" for x, y in over.items())
    return replace(kernel, name=f"{kernel.name}.inplace({shown})", args=args, body=body)


def _launch(op: Op, kernel: Kernel, variant: Kernel, pairs: list[Pair]) -> Op:
    """The launch with its operands in the order of the variant's arguments."""
    given = {a.name: name for a, name in zip(_read(kernel), op.operands, strict=True)}
    over = {y.name: x.name for x, y in pairs}
    inputs = tuple(given[over.get(a.name, a.name)] for a in _read(variant))
    return replace(op, inputs=inputs).with_attrs(kernel=KernelRef(variant.name))

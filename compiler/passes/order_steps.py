"""Order the steps so that less memory is live at once.

    peak(order) = max over steps t of  Σ { bytes(v) : v live at t }

Every step right after its operands, and of these first the one that needs most above what it
leaves (R. Sethi and J. D. Ullman, "The Generation of Optimal Code for Arithmetic Expressions",
JACM 1970, with bytes for registers):

    need(step) = max over i of  Σ { left(a_j) : j < i } + need(a_i),  and  Σ left(a_i) + left(step)
    its operands a_1, a_2, … by need(a) - left(a), largest first

Where no value is read twice, no order of whole subtrees needs less; where some are, this is a
guess, and so the new order is kept only if its peak is lower at the assumed sizes.

Teaches: the order of independent steps decides how much memory a run needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from compiler.ir.edits import Event, Ops, apply, parameters
from compiler.ir.graph import Graph, Op, reads
from compiler.ir.module import Module
from compiler.ir.types import DType
from compiler.passes.base import Context, Pass, Result

FREE = ("const", "param", "dims", "reshape")
"""Kinds that take no memory of their own."""


@dataclass(frozen=True)
class OrderSteps(Pass):
    """`order-steps`: after `lower-loops`."""

    name: ClassVar[str] = "order-steps"
    level: ClassVar[str] = "loops"
    after: ClassVar[tuple[str, ...]] = ("lower-loops",)

    def run(self, module: Module, context: Context) -> Result:
        if module.writes_over:
            told = parameters()
            return Result(module, (Event("order", module.name, (), "order.inplace", told),))
        sizes = value_bytes(module.graph, context)
        before = peak(module.graph, module.graph.ops, sizes)
        order = schedule(module.graph, sizes)
        after = peak(module.graph, order, sizes)
        if after >= before and len(order) < 2:
            return Result(module)
        if after >= before:
            told = parameters(before=before, after=after)
            event = Event("order", module.name, (), "order.kept", told)
            return Result(module, (event,))
        edit = Ops(order=tuple(op.key for op in order))
        values = parameters(before=before, after=after)
        event = Event("order", module.name, (edit,), "order.done", values)
        return Result(apply(module, edit), (event,))


def roots(graph: Graph) -> dict[str, str]:
    """value -> the value whose memory it shares (reshapes share their operand's)."""
    found: dict[str, str] = {}
    for op in graph.ops:
        if op.kind == "reshape":
            found[op.key] = found.get(op.operands[0], op.operands[0])
    return found


def value_bytes(graph: Graph, context: Context) -> dict[str, int]:
    """Bytes of every value that a step writes, at the assumed sizes; 0 where unknown, and for
    text, which has no size."""
    found: dict[str, int] = {}
    for op in graph.ops:
        for v in op.outputs:
            known = v.type.known and v.type.dtype is not DType.string and op.kind not in FREE
            found[v.name] = context.size(v.type.nbytes) if known else 0
    return found


def readers(graph: Graph) -> dict[str, set[str]]:
    """root value -> keys of the ops that read it; the caller reads outputs to the end."""
    root = roots(graph)
    found: dict[str, set[str]] = {}
    for op in graph.ops:
        for name in reads(op):
            found.setdefault(root.get(name, name), set()).add(op.key)
    for name in graph.outputs:
        found.setdefault(root.get(name, name), set()).add("")
    return found


def peak(graph: Graph, order: Sequence[Op], sizes: dict[str, int]) -> int:
    """The largest number of bytes live at once."""
    waiting = {v: set(keys) for v, keys in readers(graph).items()}
    root = roots(graph)
    live = most = 0
    for op in order:
        live += sum(sizes[v.name] for v in op.outputs)
        most = max(most, live)
        for name in {root.get(n, n) for n in reads(op)}:
            waiting[name].discard(op.key)
            if not waiting[name]:
                live -= sizes.get(name, 0)
        live -= sum(sizes[v.name] for v in op.outputs if not waiting.get(v.name))
    return most


def schedule(graph: Graph, sizes: dict[str, int]) -> list[Op]:
    """All ops, depth first from those that nobody reads, the neediest operand first."""
    producer = graph.producer()
    operands: dict[str, list[Op]] = {}
    left: dict[str, int] = {}
    need: dict[str, int] = {}

    def neediest_first(ops: Iterable[Op]) -> list[Op]:
        return sorted(ops, key=lambda op: left[op.key] - need[op.key])

    for op in graph.ops:
        known = {producer[n].key: producer[n] for n in reads(op) if n in producer}
        operands[op.key] = neediest_first(known.values())
        own = sum(sizes[v.name] for v in op.outputs)
        live = most = 0
        for a in operands[op.key]:
            most = max(most, live + need[a.key])
            live += left[a.key]
        need[op.key] = max(most, live + own)
        left[op.key] = live if op.kind == "reshape" else own
    read = {a.key for found in operands.values() for a in found}
    ends = neediest_first(op for op in graph.ops if op.key not in read)
    order: dict[str, Op] = {}
    stack = [(op, False) for op in reversed(ends)]
    while stack:
        op, ready = stack.pop()
        if op.key in order:
            continue
        if ready:
            order[op.key] = op
        else:
            stack.append((op, True))
            stack += [(a, False) for a in reversed(operands[op.key])]
    return list(order.values())

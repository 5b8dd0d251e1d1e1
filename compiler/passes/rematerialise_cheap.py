"""rematerialise-cheap: what costs less to compute again than to read again is computed again.

    a = relu(x)                           a = relu(x);   s = row sums of a         (one kernel)
    s = row sums of a        becomes      a' = relu(x)
    y = a / sᵀ                            y = a' / sᵀ                              (another)

When no kernel can hold all readers of a value, it is written once and read by every other group. A
copy of its op in each of these groups reads the op's operands instead. Of a value v that group h
computes and groups g read, with operands o:

    saved = bytes(v) * (1 + number of g)      paid = Σ_g Σ_o bytes(o), where g does not read o yet
                                                   + bytes(o), where o is not in memory yet

Done where saved > paid, for one step without transcendental functions. The groups are those of a
trial run of the search of `fuse`; a second one, with the copies, must find fewer bytes in all, or
the module stays as it is.

Teaches: memory is slower than arithmetic. A value in between is a choice, not a fact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.fusion.access import BROADCASTING
from compiler.fusion.facts import NOTHING_TO_READ
from compiler.fusion.search import Outcome, search
from compiler.ir.edits import Event, Ops, apply, parameters, rename_op
from compiler.ir.graph import Op, Value
from compiler.ir.loops import TRANSCENDENTAL
from compiler.ir.module import Module

from .base import Context, Pass, Result


@dataclass(frozen=True)
class RematerialiseCheap(Pass):
    """`rematerialise-cheap`: on tensor ops that are not in groups yet."""

    name: ClassVar[str] = "rematerialise-cheap"
    after: ClassVar[tuple[str, ...]] = ("decompose",)

    def run(self, module: Module, context: Context) -> Result:
        """One event a value that is computed again, and one a candidate that is not."""
        if module.kernels or any(op.kind == "fused" for op in module.graph.ops):
            return Result(module)
        outcome = _search(module, context)
        chosen: list[_Candidate] = []
        events: list[Event] = []
        for candidate in _candidates(outcome):
            context.check()
            if candidate.saved > candidate.paid:
                chosen.append(candidate)
                continue
            told = parameters(value=candidate.op.key, groups=len(candidate.readers),
                              saved=candidate.saved, paid=candidate.paid)  # fmt: skip
            message = "rematerialise-cheap.gain"
            events.append(Event("rematerialise", candidate.op.key, (), message, told))
        if not chosen:
            return Result(module, tuple(events))
        context.names.reserve(module.graph.types())
        state = module
        made: list[Event] = []
        for candidate in chosen:
            edit = _copies(state, candidate, context)
            state = apply(state, edit)
            told = parameters(value=candidate.op.key, groups=len(candidate.readers),
                              saved=candidate.saved - candidate.paid)  # fmt: skip
            made.append(
                Event("rematerialise", candidate.op.key, (edit,), "rematerialise-cheap.done", told)
            )
        before, after = _bytes(outcome), _bytes(_search(state, context))
        if after >= before:
            told = parameters(values=len(chosen), before=before, after=after)
            message = "rematerialise-cheap.nothing"
            event = Event("rematerialise", chosen[0].op.key, (), message, told)
            return Result(module, (*events, event))
        return Result(state, (*events, *made))


@dataclass(frozen=True)
class _Candidate:
    """A value of one group that others read: its op, their ops that read it by group, and bytes at
    the assumed sizes."""

    op: Op
    readers: tuple[tuple[str, ...], ...]
    saved: int
    paid: int


def _search(module: Module, context: Context) -> Outcome:
    return search(
        module.graph, context.machine, context.size, guards=module.guards, check=context.check
    )


def _bytes(outcome: Outcome) -> int:
    """Floor of all groups at the assumed sizes."""
    return sum(outcome.facts.size(g.cost.bytes) for g in outcome.groups)


def _candidates(outcome: Outcome) -> Iterable[_Candidate]:
    """Cheap values that groups read which do not compute them, and nobody else."""
    facts = outcome.facts
    owner = {i: k for k, g in enumerate(outcome.groups) for i in g.members}
    for i, op in enumerate(facts.ops):
        if i not in owner or not _is_cheap(op) or op.key in facts.outputs:
            continue
        users = facts.users[op.key]
        others = [owner[u] for u in users if u in owner and owner[u] != owner[i]]
        if not others or any(u not in owner for u in users):
            continue
        readers = tuple(
            tuple(facts.ops[u].key for u in users if owner[u] == g) for g in dict.fromkeys(others)
        )
        paid = 0
        for name in dict.fromkeys(op.operands):
            if facts.is_leaf(name):
                continue
            size = facts.size(facts.nbytes(name))
            at = facts.producer.get(name, -1)
            home = frozenset(outcome.groups[owner[i]].members)
            if at in home and not facts.visible(name, home):
                paid += size
            paid += sum(
                size for g in dict.fromkeys(others)
                if name not in outcome.groups[g].form.operands and owner.get(at) != g
            )  # fmt: skip
        size = facts.size(facts.nbytes(op.key))
        yield _Candidate(op, readers, size * (1 + len(readers)), paid)


def _is_cheap(op: Op) -> bool:
    """One step without loops of its own: a scalar function, a cast, a broadcast, an index."""
    family = op.family in BROADCASTING or op.family in NOTHING_TO_READ
    return family and op.function not in TRANSCENDENTAL and not op.regions


def _copies(module: Module, candidate: _Candidate, context: Context) -> Ops:
    """The edit that puts a copy before the first reader of each group."""
    place = {op.key: k for k, op in enumerate(module.graph.ops)}
    copies: list[tuple[int, Op]] = []
    removed: list[str] = []
    added: list[tuple[int, Op]] = []
    for group in candidate.readers:
        name = context.names.fresh(candidate.op.key)
        copy = replace(candidate.op, outputs=(Value(name, candidate.op.type),))
        copies.append((min(place[key] for key in group), copy))
        for key in group:
            reader = module.graph.ops[place[key]]
            removed.append(key)
            added.append((place[key], rename_op(reader, {candidate.op.key: name})))
    shifted = [(at + sum(c <= at for c, _ in copies), op) for at, op in added]
    ordered = sorted(copies, key=lambda c: c[0])
    shifted += [(at + k, copy) for k, (at, copy) in enumerate(ordered)]
    return Ops(removed=tuple(removed), added=tuple(sorted(shifted, key=lambda a: a[0])))

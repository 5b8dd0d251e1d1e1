"""Fuse: ops that may share their loops become one `fused` op, later one kernel.

    T1 = x*s;  T2 = T1+b;  T3 = tanh(T2);  Y = T3+r      8 arrays moved
    Y  = fused { the four ops }                           3 arrays and two vectors

Every op that computes ends up in exactly one group, a single op too. `compiler/fusion` holds the
rules, the price and the search; this pass writes their outcome into the graph. Teaches: between
the ops of a group no array is written, so the memory traffic falls and nothing else changes.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.errors import ForceError
from compiler.fusion.decisions import MERGED
from compiler.fusion.facts import Facts, Role
from compiler.fusion.legality import MAX_OPS
from compiler.fusion.search import Group, Outcome, Pair, search
from compiler.ir.edits import Event, Ops, apply_ops, parameters, rename_op
from compiler.ir.graph import Graph, Op, Origins, Value, reads
from compiler.ir.module import Module
from compiler.ir.names import Names
from compiler.ir.types import attrs

from .base import Context, Pass, Result

LEAVES = frozenset({"const", "param", "dims", "reshape", "window"})
"""Kinds that no step computes: what is there, and views."""

SHOWN = 30
"""So many names an error lists."""


@dataclass(frozen=True)
class Fuse(Pass):
    """`fuse`: needs tensor ops with types.

    `by`: `""` searches for what pays, `origin` makes one group of the ops of one ONNX node (op by
    op). `max_ops`: the largest group (R6). `force`, `forbid`: pairs `A+B` of groups, each named
    by a value that it contains; `force` overrides the gain, never a rule. A library call may be
    named too: that it stays apart is R1.
    """

    name: ClassVar[str] = "fuse"
    after: ClassVar[tuple[str, ...]] = ("decompose",)

    by: str = ""
    max_ops: int = MAX_OPS
    force: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.by not in ("", "origin"):
            raise ValueError(f"fuse{{by={self.by}}}: `by` is `origin` or left out")
        if self.max_ops < 1:
            raise ValueError(f"fuse{{max_ops={self.max_ops}}}: a group has at least one op")

    def run(self, module: Module, context: Context) -> Result:
        """All groups of the graph, one event each; refused attempts are decisions. ForceError for
        a pair that does not name two values which kernels or the library compute."""
        graph = module.graph
        computed = {v.name for op in graph.ops if op.kind not in LEAVES for v in op.outputs}
        force, forbid = (
            [split_pair(text, computed, word) for text in texts]
            for word, texts in (("force", self.force), ("forbid", self.forbid))
        )
        outcome = search(
            graph,
            context.machine,
            context.size,
            guards=module.guards,
            by_origin=self.by == "origin",
            max_ops=self.max_ops,
            force=force,
            forbid=forbid,
            check=context.check,
        )
        told = (_option_event(w, p, outcome) for w, ps in (("force", force), ("forbid", forbid))
                for p in ps)  # fmt: skip
        events = [event for event in told if event is not None]
        if not outcome.groups:
            return Result(module, tuple(events), outcome.decisions)
        context.names.reserve(graph.types())
        after, made = write_groups(graph, outcome, context.names)
        return Result(
            replace(module, graph=after), (*events, *made), outcome.decisions
        )


def split_pair(text: str, computed: Collection[str], option: str = "force") -> Pair:
    """`A+B` as two values of the graph; names may hold a `+`. ForceError: no such values."""
    for at, sign in enumerate(text):
        if sign == "+" and text[:at] in computed and text[at + 1 :] in computed:
            return text[:at], text[at + 1 :]
    names = sorted(computed)
    known = ", ".join([*names[:SHOWN], "…"] if len(names) > SHOWN else names)
    raise ForceError("fuse.unknown", option=option, pair=text, known=known)


def _option_event(word: str, pair: Pair, outcome: Outcome) -> Event | None:
    """What became of a pair that the user named; None where a merge tells it."""
    owner = {outcome.facts.ops[i].key: g for g in outcome.groups for i in g.members}
    a, b = pair
    if a in owner and owner[a] is owner.get(b):
        return None
    if word == "forbid":
        return Event(word, b, (), "fuse.option.forbid", parameters(a=a, b=b))
    names = [{outcome.facts.ops[i].key for i in owner[v].members} if v in owner else {v}
             for v in pair]  # fmt: skip
    rule = "R1" if a not in owner or b not in owner else ""
    for d in outcome.decisions:
        if any(d.a in names[k] and d.b in names[1 - k] for k in (0, 1)):
            rule = d.rule
    return Event(word, b, (), "fuse.option.refused", parameters(a=a, b=b, rule=rule))


def write_groups(graph: Graph, outcome: Outcome, names: Names) -> tuple[Graph, list[Event]]:
    """The graph with every group as a `fused` op, and the events that lead there.

    A fused op stands where its last member stood. Where another op in between reads an earlier
    member, one event before reorders the graph.
    """
    events: list[Event] = []
    order = _contiguous_order(graph, outcome)
    if order is not None:
        edit = Ops(order=order)
        graph = apply_ops(graph, edit)
        first = next(k for k, op in enumerate(outcome.facts.ops) if op.key != order[k])
        events.append(Event("order", order[first], (edit,), "fuse.order"))
    facts = outcome.facts
    place = {op.key: k for k, op in enumerate(graph.ops)}
    groups = sorted(outcome.groups, key=lambda g: place[_members(facts, g)[-1].key])
    leaves = _leaves(facts, groups)
    forced = {d.b for d in outcome.decisions if d.verdict == MERGED and d.rule == "force"}
    slots = _Slots(graph.ops)
    for k, group in enumerate(groups):
        members = _members(facts, group)
        mine = [leaf for leaf in leaves if k in leaf.groups]
        renamed = {leaf.op.key: names.fresh(leaf.op.key) for leaf in mine if leaf.shared}
        fused = _fused(facts, group, [leaf.op for leaf in mine], renamed)
        gone = (leaf.op.key for leaf in mine if not leaf.stays and leaf.groups[-1] == k)
        removed = (*gone, *(op.key for op in members))
        edit = Ops(removed=removed, added=((slots.put(fused, removed, place), fused),))
        rule = "force" if any(op.key in forced for op in members) else "group"
        events.append(Event(rule, fused.key, (edit,), f"fuse.group.{group.form.kind}", parameters(
            value=fused.key, ops=sum(facts.role[i] is Role.COMPUTE for i in group.members),
            reads=len(fused.inputs), writes=len(fused.outputs),
        )))  # fmt: skip
    return replace(graph, ops=slots.ops()), events


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A literal or a window: the groups that read it (ascending), and whether another op does."""

    op: Op
    groups: tuple[int, ...]
    stays: bool

    @property
    def shared(self) -> bool:
        return self.stays or len(self.groups) > 1


def _members(facts: Facts, group: Group) -> list[Op]:
    return [facts.ops[i] for i in group.members]


def _leaves(facts: Facts, groups: Sequence[Group]) -> list[_Leaf]:
    owner = {i: k for k, g in enumerate(groups) for i in g.members}
    found: dict[int, _Leaf] = {}
    for i, op in reversed(tuple(enumerate(facts.ops))):
        if facts.role[i] in (Role.LEAF, Role.WINDOW):
            users = facts.users[op.key]
            inside = {owner[u] for u in users if u in owner}
            inside.update(k for u in users if u in found for k in found[u].groups)
            stays = op.key in facts.outputs or any(
                u not in owner and (u not in found or found[u].stays) for u in users
            )
            found[i] = _Leaf(op, tuple(sorted(inside)), stays)
    return [found[i] for i in sorted(found)]


def _fused(facts: Facts, group: Group, leaves: list[Op], renamed: dict[str, str]) -> Op:
    """The group as one op; a literal that others read too gets a name of its own inside."""
    body: list[Op] = []
    copied = [facts.producer[op.key] for op in leaves]
    for i in sorted((*copied, *group.members)):
        op = rename_op(facts.ops[i], renamed)
        if op.key in renamed:
            op = replace(op, outputs=(Value(renamed[op.key], op.type),))
        body.append(op)
    form = group.form
    inputs = tuple(Value(name, facts.types[name]) for name in form.operands)
    outputs = tuple(Value(name, facts.types[name]) for name in form.results)
    origins = Origins().union(*(facts.ops[i].origins for i in group.members))
    region = Graph(inputs, form.results, tuple(body))
    return Op("fused", form.operands, outputs, attrs(group=form.kind), (region,), origins)


class _Slots:
    """The ops of a graph while groups take the place of their last members.

    A Fenwick tree counts the ops that are left before a place, in logarithmic time.
    """

    def __init__(self, ops: tuple[Op, ...]) -> None:
        self._slots: list[Op | None] = list(ops)
        self._tree = [k & -k for k in range(len(ops) + 1)]

    def put(self, fused: Op, removed: Sequence[str], place: dict[str, int]) -> int:
        """Take `removed` out, put `fused` where the last of them was; its position now."""
        last = place[removed[-1]]
        for key in removed[:-1]:
            at = place[key]
            self._slots[at] = None
            k = at + 1
            while k < len(self._tree):
                self._tree[k] -= 1
                k += k & -k
        self._slots[last] = fused
        count, k = 0, last
        while k:
            count += self._tree[k]
            k -= k & -k
        return count

    def ops(self) -> tuple[Op, ...]:
        return tuple(op for op in self._slots if op is not None)


def _with_windows(facts: Facts, group: Group) -> tuple[int, ...]:
    """The members, and the windows over what a member makes for another one (a prologue)."""
    inside = frozenset(group.members)
    made = (facts.users[facts.ops[i].key] for i in group.members)
    windows = {u for users in made for u in users if facts.within(u, inside)}
    return tuple(sorted(inside | windows))


def _contiguous_order(graph: Graph, outcome: Outcome) -> tuple[str, ...] | None:
    """An order in which groups can stand where their last member stands; None: they can already.

    Topological over groups and other ops; among those that are ready, program order.
    """
    units = {g.members[-1]: _with_windows(outcome.facts, g) for g in outcome.groups}
    unit = {i: last for last, members in units.items() for i in members}
    producer = outcome.facts.producer
    after: dict[int, set[int]] = {}
    waiting: dict[int, int] = {}
    fits = True
    for i, op in enumerate(graph.ops):
        me = unit.setdefault(i, i)
        units.setdefault(me, (i,))
        waiting.setdefault(me, 0)
        for name in reads(op):
            at = producer.get(name)
            if at is None:
                continue
            other = unit.get(at, at)
            if other != me and me not in after.setdefault(other, set()):
                after[other].add(me)
                waiting[me] += 1
                fits = fits and other < me
    if fits:
        return None
    ready = [u for u, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    keys: list[str] = []
    while ready:
        u = heapq.heappop(ready)
        keys += [graph.ops[i].key for i in units[u]]
        for v in after.get(u, ()):
            waiting[v] -= 1
            if waiting[v] == 0:
                heapq.heappush(ready, v)
    return tuple(keys)

"""The search: from one group an op to as few and as cheap groups as the rules allow.

Greedy. All pairs of neighbouring groups (one reads what the other makes, perhaps through a view
that only adds or removes unit axes) lie in a heap: those that make row groups first, then by what
their arrays promise to gain. The best pair is tried, against the rules and for its exact gain. If
it merges, the pairs of the new group enter the heap, since its domain, its paths (R2) and its
arrays (R6) differ; a group carries a version, and an entry older than its groups is dropped. Then
come siblings: groups that read the same array and do not read each other. When the heap is empty,
every pair that still stands side by side is a refusal, with the first rule that failed.

Op by op (`by_origin`) is the same search over pairs with the same origins, and without a price.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler.ir.dims import Dim, Guard
from compiler.ir.edits import Parameters
from compiler.ir.graph import Graph, Op, Origins
from compiler.ir.machine import MachineProfile

from .cost import Cost, border_cost, cost, joined, operations, total
from .decisions import MERGED, REFUSED, Decision
from .facts import Facts, Role
from .legality import MAX_OPS, Failure, Form, Reachability, analyse, fail

ROW, POINTWISE, EPILOGUE, PROLOGUE = "row-internal", "pointwise", "epilogue", "prologue"
SIBLINGS = "siblings"
_TIERS = {ROW: 0, EPILOGUE: 1, POINTWISE: 2, PROLOGUE: 3}
CROWD = 16
"""Of an array that more groups read, only those next to each other in program order are tried."""

Pair = tuple[str, str]
"""Two groups, each named by a value it contains."""


@dataclass(frozen=True, slots=True)
class Group:
    """Ops that become one kernel: ascending positions, their form and their cost.

    `members` includes the unit views inside; `mask` is the same set as bits; `version` counts
    merges; `origins` is what all members share, None where they differ or have none.
    """

    id: int
    members: tuple[int, ...]
    mask: int
    form: Form
    cost: Cost
    version: int
    origins: Origins | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """What merging two groups would give: a failure, or the new group's members and price."""

    failure: Failure | None
    members: tuple[int, ...]
    form: Form | None
    cost: Cost
    gain: float
    views: tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """The final groups in program order of their last members, and the log."""

    facts: Facts
    groups: tuple[Group, ...]
    decisions: tuple[Decision, ...]


def search(
    graph: Graph,
    machine: MachineProfile,
    size: Callable[[Dim], int],
    *,
    guards: Sequence[Guard] = (),
    by_origin: bool = False,
    max_ops: int = MAX_OPS,
    force: Sequence[Pair] = (),
    forbid: Sequence[Pair] = (),
    check: Callable[[], None] = lambda: None,
) -> Outcome:
    """Partition the compute ops of a tensor-level graph. `check` may raise to stop."""
    state = _Search(graph, machine, size, guards, by_origin, max_ops, force, forbid)
    state.run(check)
    groups = sorted(state.groups.values(), key=lambda g: g.members[-1])
    return Outcome(state.facts, tuple(groups), (*state.decisions, *state.refusals()))


class _Search:
    def __init__(
        self,
        graph: Graph,
        machine: MachineProfile,
        size: Callable[[Dim], int],
        guards: Sequence[Guard],
        by_origin: bool,
        max_ops: int,
        force: Sequence[Pair],
        forbid: Sequence[Pair],
    ) -> None:
        self.facts = Facts(graph, size, guards)
        self.machine = machine
        self.by_origin = by_origin
        self.max_ops = max_ops
        self.reach = Reachability(self.facts)
        self.windows = _mask([i for i, r in enumerate(self.facts.role) if r is Role.WINDOW])
        self.groups: dict[int, Group] = {}
        self.owner: dict[int, int] = {}
        self.decisions: list[Decision] = []
        self.apart: dict[tuple[int, int, int, int], Attempt] = {}
        """Siblings that did not merge: ids and versions of both groups."""
        self.heap: list[tuple[int, float, int, int, int]] = []
        for i, op in enumerate(self.facts.ops):
            if self.facts.role[i] is Role.COMPUTE:
                self._add_single(i, op)
        self.force = self._positions(force)
        self.forbid = self._positions(forbid)

    def _add_single(self, i: int, op: Op) -> None:
        form = analyse(self.facts, (i,), max_ops=1)
        if isinstance(form, Failure):
            raise ValueError(f"%{op.key} alone is no legal group: {form.rule} {form.message}")
        price = cost(self.facts, form, operations(self.facts, i), self.machine)
        self.owner[i] = i
        self.groups[i] = Group(i, (i,), 1 << i, form, price, 0, op.origins or None)

    def _positions(self, pairs: Sequence[Pair]) -> tuple[tuple[int, int], ...]:
        at = self.facts.producer
        found = ((at.get(a, -1), at.get(b, -1)) for a, b in pairs)
        return tuple((a, b) for a, b in found if a in self.owner and b in self.owner)

    # ---- who stands beside whom

    def _before(self, g: Group) -> Iterator[int]:
        """Groups whose results `g` reads, directly or through unit views."""
        for name in g.form.operands:
            at = self._through_views(name)[0]
            if at in self.owner:
                yield self.owner[at]

    def _after(self, g: Group) -> Iterator[int]:
        """Groups that read results of `g`, directly or through unit views and absorbed windows."""
        names = list(g.form.results)
        while names:
            for u in self.facts.users[names.pop()]:
                if u in self.owner:
                    yield self.owner[u]
                elif self.facts.role[u] in (Role.UNIT_VIEW, Role.WINDOW):
                    names.append(self.facts.ops[u].key)

    def _through_views(self, name: str) -> tuple[int, tuple[int, ...]]:
        """The op that computes a value (-1: none does), and the unit views in between."""
        views: list[int] = []
        at = self.facts.producer.get(name, -1)
        while (
            at >= 0 and at not in self.owner and self.facts.role[at] is Role.UNIT_VIEW
        ):
            views.append(at)
            at = self.facts.producer.get(self.facts.ops[at].operands[0], -1)
        return at, tuple(views)

    def _views_between(self, a: Group, b: Group) -> tuple[int, ...]:
        found: set[int] = set()
        for here, there in ((a, b), (b, a)):
            for name in here.form.operands:
                at, views = self._through_views(name)
                if views and self.owner.get(at) == there.id:
                    found.update(views)
        return tuple(sorted(found))

    def _neighbours(self, g: Group) -> list[int]:
        found = dict.fromkeys((*self._before(g), *self._after(g)))
        for a, b in self.force:
            for mine, other in ((a, b), (b, a)):
                if self.owner[mine] == g.id:
                    found[self.owner[other]] = None
        found.pop(g.id, None)
        return list(found)

    def _sibling_pairs(self) -> Iterator[tuple[Group, Group]]:
        """Groups that read the same array and not each other, both without a contraction."""
        readers: dict[str, list[Group]] = {}
        for g in sorted(self.groups.values(), key=lambda g: g.members[-1]):
            if g.form.kind != "contract":
                for name in g.form.operands:
                    readers.setdefault(name, []).append(g)
        found: dict[tuple[int, int], tuple[Group, Group]] = {}
        for groups in readers.values():
            near = itertools.pairwise(groups) if len(groups) > CROWD else None
            for a, b in near or itertools.combinations(groups, 2):
                if not self._beside(a, b):
                    found[a.id, b.id] = a, b
        yield from found.values()

    def _beside(self, a: Group, b: Group) -> bool:
        """Whether one group reads what the other makes."""
        return b.id in {*self._before(a), *self._after(a)}

    # ---- one pair

    def _tier(self, a: Group, b: Group) -> str:
        """How two groups would merge; a prologue makes an operand of the other's contraction."""
        kinds = {a.form.kind, b.form.kind}
        if "row" in kinds or "contract" not in kinds:
            return ROW if "row" in kinds else POINTWISE
        for g, h in ((a, b), (b, a)):
            read = (*h.form.whole, *(name for part in h.form.brought for name, _ in part.reads))
            made = {self._through_views(name)[0] for name in read}
            if g.form.kind == "pointwise" and not made.isdisjoint(g.members):
                return PROLOGUE
        return EPILOGUE

    def _pairs(self, pairs: Sequence[tuple[int, int]], a: Group, b: Group) -> bool:
        """Whether one of `pairs` has one value in each group."""
        return any({self.owner[x], self.owner[y]} == {a.id, b.id} for x, y in pairs)

    def _may(self, a: Group, b: Group) -> bool:
        """Whether the mode looks at the pair at all."""
        if not self.by_origin or self._pairs(self.force, a, b):
            return True
        return a.origins is not None and a.origins == b.origins

    def _try(self, a: Group, b: Group) -> Attempt:
        views = self._views_between(a, b)
        members = tuple(sorted((*a.members, *b.members, *views)))
        failure: Failure | None = None
        path = self.reach.between(a.id, b.id, a.mask | b.mask | _mask(views) | self.windows)
        if self._pairs(self.forbid, a, b):
            failure = fail("forbid", "fuse.forbid")
        elif path is not None:
            failure = fail("R2", "fuse.R2", path=self.facts.ops[path].key)
        if failure is None:
            form = analyse(self.facts, members, self.max_ops)
            if not isinstance(form, Failure):
                work = a.cost.operations + b.cost.operations
                price = cost(self.facts, form, work, self.machine)
                gain = a.cost.time + b.cost.time - price.time
                free = self.by_origin or self._pairs(self.force, a, b)
                if gain <= 0 and not free:
                    failure = fail("gain", "fuse.gain")
                return Attempt(failure, members, form, price, gain, views)
            failure = form
        price = joined(self.facts, a.cost, b.cost, frozenset(members))
        gain = a.cost.time + b.cost.time - price.time
        return Attempt(failure, members, None, price, gain, views)

    def _push(self, a: Group, b: Group) -> None:
        if not self._may(a, b):
            return
        first, second = (a, b) if a.members[-1] < b.members[-1] else (b, a)
        tier = -1 if self._pairs(self.force, a, b) else _TIERS[self._tier(a, b)]
        heapq.heappush(self.heap, (
            tier, -self._promise(a, b), first.members[-1], second.members[-1],
            a.version + b.version,
        ))  # fmt: skip

    # ---- the loop

    def run(self, check: Callable[[], None]) -> None:
        """Merge until nothing is left to gain."""
        for g in list(self.groups.values()):
            for other in self._neighbours(g):
                if g.id < other:
                    self._push(g, self.groups[other])
        self._drain(check)
        if self.by_origin:
            self._merge_siblings(check)
        else:
            self._join_siblings(check)

    def _join_siblings(self, check: Callable[[], None]) -> None:
        """Merge siblings while one of them gains, the most promising first."""
        merged = True
        while merged:
            merged = False
            pairs = [(-self._promise(a, b), a.members[-1], b.members[-1], a, b)
                     for a, b in self._sibling_pairs()]  # fmt: skip
            for *_, a, b in sorted(pairs, key=lambda pair: pair[:3]):
                check()
                key = (a.id, a.version, b.id, b.version)
                if key in self.apart or self.groups.get(a.id) is not a:
                    continue
                if self.groups.get(b.id) is not b:
                    continue
                attempt = self._try(a, b)
                if attempt.failure is not None:
                    self.apart[key] = attempt
                    continue
                g = self._merge(a, b, attempt)
                for other in self._neighbours(g):
                    self._push(g, self.groups[other])
                self._drain(check)
                merged = True

    def _promise(self, a: Group, b: Group) -> float:
        """What merging two groups would gain, from their arrays alone."""
        inside = frozenset((*a.members, *b.members))
        as_one = joined(self.facts, a.cost, b.cost, inside)
        return round(a.cost.time + b.cost.time - as_one.time, 12)

    def _drain(self, check: Callable[[], None]) -> None:
        while self.heap:
            check()
            _, _, last_a, last_b, version = heapq.heappop(self.heap)
            a, b = self.groups[self.owner[last_a]], self.groups[self.owner[last_b]]
            if a.id == b.id or a.version + b.version != version:
                continue
            if a.members[-1] != last_a or b.members[-1] != last_b:
                continue
            attempt = self._try(a, b)
            if attempt.failure is not None:
                continue
            g = self._merge(a, b, attempt)
            for other in self._neighbours(g):
                self._push(g, self.groups[other])

    def _merge(self, a: Group, b: Group, attempt: Attempt) -> Group:
        form, parts = attempt.form, (a.id, b.id, *attempt.views)
        assert form is not None
        rule = "origin" if self.by_origin else "gain" if attempt.gain > 0 else "force"
        if self._pairs(self.force, a, b) and (self.by_origin or attempt.gain <= 0):
            rule = "force"
        tier = self._tier(a, b) if self._beside(a, b) else SIBLINGS
        told = PROLOGUE if tier == PROLOGUE and rule == "gain" else rule
        self._note(a, b, tier, MERGED, rule, f"fuse.merged.{told}", (), attempt)
        mask = _mask(attempt.members)
        self.reach.merge(parts, mask)
        into = min(a.id, b.id)
        for i in attempt.members:
            self.owner[i] = into
        del self.groups[a.id], self.groups[b.id]
        shared = a.origins if a.origins == b.origins else None
        merged = Group(
            into, attempt.members, mask, form, attempt.cost, a.version + b.version + 1, shared
        )
        self.groups[into] = merged
        return merged

    def _merge_siblings(self, check: Callable[[], None]) -> None:
        """Op by op: groups of one node that do not read each other."""
        for ids in self._classes().values():
            check()
            while pair := self._first_legal(ids):
                merged = self._merge(*pair)
                ids = [*(i for i in ids if i in self.groups and i != merged.id), merged.id]

    def _classes(self) -> dict[Origins, list[int]]:
        """Groups whose ops all have the same origins; only op by op asks."""
        found: dict[Origins, list[int]] = {}
        for g in self.groups.values():
            if g.origins is not None and self.by_origin:
                found.setdefault(g.origins, []).append(g.id)
        return found

    def _first_legal(self, ids: Sequence[int]) -> tuple[Group, Group, Attempt] | None:
        for i, j in itertools.combinations(ids, 2):
            a, b = self.groups[i], self.groups[j]
            attempt = self._try(a, b)
            if attempt.failure is None:
                return a, b, attempt
        return None

    # ---- the log

    def _note(
        self, a: Group, b: Group, tier: str, verdict: str, rule: str, message: str,
        parameters: Parameters, attempt: Attempt,
    ) -> None:  # fmt: skip
        first, second = (a, b) if a.members[-1] < b.members[-1] else (b, a)
        self.decisions.append(_decision(
            self.facts, self._name(first), self._name(second), tier, verdict, rule, message,
            parameters, (first.cost, second.cost), attempt.cost, attempt.gain,
        ))  # fmt: skip

    def _name(self, g: Group) -> str:
        return self.facts.ops[g.members[-1]].key

    def refusals(self) -> tuple[Decision, ...]:
        """Why the pairs that stand side by side at the end did not merge, in program order."""
        found: dict[tuple[int, int], Decision] = {}
        classes = self._classes()
        for g in self.groups.values():
            beside = self._neighbours(g)
            beside += [self.owner[u] for u in self._readers(g) if u in self.owner]
            beside += classes.get(g.origins, ()) if g.origins is not None else ()
            for other in dict.fromkeys(beside):
                h = self.groups[other]
                if g.members[-1] >= h.members[-1] or not self._may(g, h):
                    continue
                found[g.members[-1], h.members[-1]] = self._refused(
                    g, h, self._tier(g, h), self._try(g, h)
                )
            found.update(self._library(g))
        for (i, m, j, n), attempt in self.apart.items():
            a, b = self.groups.get(i), self.groups.get(j)
            if a is None or b is None or (a.version, b.version) != (m, n):
                continue
            if attempt.failure is not None and attempt.failure.rule != "R2":
                place = a.members[-1], b.members[-1]
                found.setdefault(place, self._refused(a, b, SIBLINGS, attempt))
        return tuple(found[key] for key in sorted(found))

    def _refused(self, a: Group, b: Group, tier: str, attempt: Attempt) -> Decision:
        failure = attempt.failure
        assert failure is not None
        return _decision(
            self.facts, self._name(a), self._name(b), tier, REFUSED, failure.rule, failure.message,
            failure.parameters, (a.cost, b.cost), attempt.cost, attempt.gain,
        )  # fmt: skip

    def _is_view(self, i: int) -> bool:
        """Whether an op is an alias outside the groups."""
        return self.facts.role[i] in (Role.VIEW, Role.UNIT_VIEW) and i not in self.owner

    def _past_views(self, name: str) -> int:
        """The op that makes a value or what it is a view of; -1 for a graph input."""
        at = self.facts.producer.get(name, -1)
        while at >= 0 and self._is_view(at):
            at = self.facts.producer.get(self.facts.ops[at].operands[0], -1)
        return at

    def _readers(self, g: Group) -> Iterator[int]:
        """Ops that read a group's results, directly or through views."""
        names = list(g.form.results)
        while names:
            for u in self.facts.users[names.pop()]:
                if self._is_view(u):
                    names.append(self.facts.ops[u].key)
                else:
                    yield u

    def _library(self, g: Group) -> Mapping[tuple[int, int], Decision]:
        """R1: library calls that feed the group or read it, directly or through views."""
        facts, found = self.facts, dict[tuple[int, int], Decision]()
        before = {self._past_views(name) for name in g.form.operands}
        for at in sorted(before | set(self._readers(g))):
            if at < 0 or facts.role[at] is not Role.LIBRARY:
                continue
            op = facts.ops[at]
            if self.by_origin and op.origins != g.origins:
                continue
            price = border_cost(facts, at, self.machine)
            as_one = joined(facts, g.cost, price, frozenset((*g.members, at)))
            gain = g.cost.time + price.time - as_one.time
            lower, upper = sorted((g.members[-1], at))
            tier = EPILOGUE if at in before else PROLOGUE
            found[lower, upper] = _decision(
                facts, facts.ops[lower].key, facts.ops[upper].key,
                tier, REFUSED, "R1", f"fuse.R1.{tier}" if op.kind == "contract" else "fuse.R1",
                (("library", op.key),), (g.cost, price), as_one, gain,
            )  # fmt: skip
        return found


def _mask(members: Sequence[int]) -> int:
    return sum(1 << i for i in members)


def _decision(
    facts: Facts, a: str, b: str, tier: str, verdict: str, rule: str, message: str,
    parameters: Parameters, before: tuple[Cost, Cost], after: Cost, gain: float,
) -> Decision:  # fmt: skip
    def floor(*costs: Cost) -> Dim | None:
        names = [name for each in costs for name, _ in each.arrays]
        known = all(facts.known_bytes(name) is not None for name in names)
        return total(each.bytes for each in costs) if known else None

    named = (("a", a), ("b", b), *parameters)
    return Decision(
        a, b, tier, verdict, rule, message, named, floor(*before), floor(after), gain
    )  # fmt: skip

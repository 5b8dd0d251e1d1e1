"""The rules that say whether a set of ops may be one kernel. The first that fails is the reason.

    R1  no library call inside                    R5  across elements only completed reductions
    R2  no path between members through others    R6  at most `max_ops` ops and 16 arrays
    R3  one domain: every result fills it         R7  a prologue reads little more than it makes
    R4  nothing is computed again across outer axes, unless it costs nothing
    R8  rounding points stay: casts are ops as any

R3 to R6 follow from one walk: every result is wanted at its own place in the domain D; going
backwards, each op hands on the places at which its operands are wanted (`access.operand_index`).
A value wanted at places that miss an axis of D would be computed again along it, and so it would
be at two places that may meet (R4); the parts that a split hands out never do.

A *pointwise* group evaluates its results at every element of D. A *row* group holds reductions:
D = outer x inner, the inner axes are reduced, and what misses all inner axes is computed once a
row. A *contract* group holds one contraction, or one reduction over windows, whose loops are its
own: the windows are index maps inside it. What else it holds comes after, element by element of its
result, or before, where its loops bring an operand (R7, `prologue`). Teaches: fusion is a question
about loops, and the answer is in the index maps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from compiler.ir.dims import ONE, product
from compiler.ir.edits import Parameters, parameters
from compiler.ir.graph import Op
from compiler.ir.loops import TRANSCENDENTAL
from compiler.ir.shapes import Shape

from .access import (
    MOVEMENT,
    Index,
    Place,
    axes_of,
    is_reduction,
    is_unit_reshape,
    place,
    places_apart,
    reduced_axes,
)
from .facts import Facts, Role
from .prologue import BYTES, PROLOGUE, before, only_index_maps, read_elsewhere, times_brought

MAX_OPS = 64
MAX_ARRAYS = 16
SERIAL = 4096
"""A reduction of a whole tensor may share its kernel when it has at most so many elements."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The first rule that failed, with the message that says why."""

    rule: str
    message: str
    parameters: Parameters


@dataclass(frozen=True, slots=True)
class Brought:
    """A prologue: the ops that make an operand of the shape `domain`, which the contraction brings
    so many `times`, and the arrays that they read over that domain."""

    members: tuple[int, ...]
    domain: Shape
    times: float
    reads: tuple[tuple[str, Index], ...]


@dataclass(frozen=True, slots=True)
class Form:
    """What a legal group looks like as a kernel.

    `kind` is `pointwise`, `row` or `contract`; `domain` the shape D without unit axes; `inner` its
    reduced axes; `operands` the arrays read, in order of first use; `reads` where they are read;
    `results` the values seen outside; `whole` the operands of a contraction, which reads them
    along axes of its own; `brought` what it computes where it brings one of them.
    """

    kind: str
    domain: Shape
    inner: tuple[int, ...]
    operands: tuple[str, ...]
    reads: tuple[tuple[str, Index], ...]
    results: tuple[str, ...]
    whole: tuple[str, ...] = ()
    brought: tuple[Brought, ...] = ()


def fail(rule: str, message: str, **values: str | int) -> Failure:
    return Failure(rule, message, parameters(**values))


def show(shape: Shape) -> str:
    """A shape as text: `[8,s]`."""
    return "[" + ",".join(str(d) for d in shape) + "]"


class Reachability:
    """R2: which ops come before and after a group, as bit sets over op positions.

    A group is known by any one of its members. Merging closes the sets again: whatever reached
    one part now reaches what follows from the other.
    """

    def __init__(self, facts: Facts) -> None:
        count = len(facts.ops)
        self._up = [0] * count
        self._down = [0] * count
        direct: list[set[int]] = [set() for _ in range(count)]
        for name, users in facts.users.items():
            at = facts.producer.get(name)
            if at is not None:
                direct[at].update(users)
        for i in range(count):
            for u in direct[i]:
                self._up[u] |= self._up[i] | 1 << i
        for i in reversed(range(count)):
            for u in direct[i]:
                self._down[i] |= self._down[u] | 1 << u

    def between(self, a: int, b: int, inside: int) -> int | None:
        """The first op outside the set `inside` on a path between groups `a` and `b`, or None."""
        through = (self._down[a] & self._up[b] | self._down[b] & self._up[a]) & ~inside
        return (through & -through).bit_length() - 1 if through else None

    def merge(self, parts: Sequence[int], inside: int) -> None:
        """Make one group of `parts`; the set `inside` holds all their members."""
        for sets, others in ((self._up, self._down), (self._down, self._up)):
            every, some = -1, 0
            for p in parts:
                every &= sets[p]
                some |= sets[p]
            some &= ~inside
            beyond = inside
            for p in parts:
                beyond |= others[p]
            for i in bits(some & ~every):
                others[i] |= beyond
        up = down = 0
        for p in parts:
            up |= self._up[p]
            down |= self._down[p]
        for p in parts:
            self._up[p], self._down[p] = up & ~inside, down & ~inside


def bits(value: int) -> Iterator[int]:
    """The positions of the set bits, ascending."""
    while value:
        low = value & -value
        yield low.bit_length() - 1
        value ^= low


def analyse(
    facts: Facts, members: Sequence[int], max_ops: int = MAX_OPS
) -> Form | Failure:
    """R3 to R6 for a set of ops (ascending positions of compute ops and absorbed unit views)."""
    inside = frozenset(members)
    ops = facts.ops
    for i in members:
        if ops[i].family == "scatter_elements" and len(members) > 1:
            other = next(j for j in members if j != i)
            return fail("R5", "fuse.R5.scatter", value=ops[i].key, other=ops[other].key)
    results = tuple(ops[i].key for i in members if facts.visible(ops[i].key, inside))
    reduces = [i for i in members if is_reduction(ops[i])]
    anchors = [i for i in members if facts.anchor[i]]
    if anchors:
        form = _contract(facts, members, anchors, results)
    else:
        form = _loops(facts, members, reduces, results)
    if isinstance(form, Failure):
        return form
    count = sum(facts.role[i] is Role.COMPUTE for i in members)
    if count > max_ops:
        return fail("R6", "fuse.R6.ops", ops=count, limit=max_ops)
    arrays = len(form.operands) + len(results)
    if arrays > MAX_ARRAYS and len(members) > 1:
        return fail("R6", "fuse.R6.arrays", arrays=arrays, limit=MAX_ARRAYS)
    return form


def _loops(
    facts: Facts, members: Sequence[int], reduces: list[int], results: tuple[str, ...]
) -> Form | Failure:
    """A pointwise or a row group."""
    frame = _frame(facts, members, reduces, results)
    if isinstance(frame, Failure):
        return frame
    found = _Walk(facts, members, frame).run(results)
    if isinstance(found, Failure):
        return found
    operands = tuple(dict.fromkeys(name for name, _ in found))
    kind = "row" if reduces else "pointwise"
    return Form(kind, frame.domain, frame.inner, operands, found, results)


def _contract(
    facts: Facts, members: Sequence[int], anchors: list[int], results: tuple[str, ...]
) -> Form | Failure:
    """A contraction or a reduction over windows, and what follows from it element by element."""
    ops, lead = facts.ops, facts.ops[anchors[0]]
    others = [i for i in members if i != anchors[0]]
    for i in others:
        if facts.anchor[i] or is_reduction(ops[i]) or lead.family == "window":
            first, second = sorted((i, anchors[0]))
            return fail("R5", "fuse.R5.loops", value=ops[first].key, other=ops[second].key)
    brought: list[Brought] = []
    sources = facts.sources(anchors[0])
    for name in sources:
        own = before(facts, others, anchors[0], name)
        if own:
            part = _prologue(facts, own, anchors[0], name)
            if isinstance(part, Failure):
                return part
            brought.append(part)
            others = [i for i in others if i not in own]
    made = lead.key
    for i in others:
        if ops[i].kind == "reshape" and ops[i].operands == (lead.key,):
            if not is_unit_reshape(ops[i], facts.types):
                made = ops[i].key
                others = [k for k in others if k != i]
    domain = facts.solid(made)
    for name in results:
        if facts.solid(name) != domain:
            return _differ(facts, made, name)
    frame = _Frame(domain, (), False)
    after = tuple(name for name in results if name != made)
    found = _Walk(facts, others, frame).run(after)
    if isinstance(found, Failure):
        return found
    own = place(facts.types[made].dims, range(len(domain)))
    if any(name == made and at != own for name, at in found):
        return fail("R5", "fuse.R5.place", value=made)
    reads = tuple((name, at) for name, at in found if name != made)
    inside = {facts.ops[i].key for part in brought for i in part.members}
    whole = tuple(name for name in sources if name not in inside)
    early = [name for part in brought for name, _ in part.reads]
    operands = tuple(dict.fromkeys((*early, *whole, *(name for name, _ in reads))))
    kind = "pointwise" if lead.family == "window" else "contract"
    return Form(kind, domain, (), operands, reads, results, whole, tuple(brought))


def _prologue(
    facts: Facts, members: Sequence[int], lead: int, source: str
) -> Brought | Failure:
    """R7, and R4 by how often the contraction brings what it reads."""
    ops, other = facts.ops, facts.ops[lead].key
    told = next((ops[i] for i in members if ops[i].family not in PROLOGUE), None)
    if told is not None:
        return fail("R7", "fuse.R7.injective", value=told.key, other=other)
    shared = read_elsewhere(facts, members, lead)
    if shared is not None:
        return fail("R7", "fuse.R7.shared", value=shared, other=other)
    times = times_brought(facts, ops[lead], source)
    if times is None and not only_index_maps(facts, members):
        return fail("R4", "fuse.R4.prologue", value=source, other=other)
    dear = next((ops[i] for i in members if ops[i].function in TRANSCENDENTAL), None)
    if dear is not None and times != 1:
        return fail("R4", "fuse.R4.prologue", value=dear.key, other=other)
    failure = _dear_before(facts, members, frozenset({"concat"}))
    if failure is not None:
        return failure
    domain = facts.solid(source)
    reads = _Walk(facts, members, _Frame(domain, (), False)).run((source,))
    if isinstance(reads, Failure):
        return reads
    size = facts.size(facts.nbytes(source))
    read = sum(facts.size(facts.footprint(name, at, domain)) for name, at in by_name(reads))
    if read > BYTES * size:
        ratio = f"{read / size:.1f}" if size else "∞"
        return fail("R7", "fuse.R7.bytes", value=source, other=other, ratio=ratio)
    return Brought(tuple(members), domain, times or 1.0, reads)


def by_name(reads: Sequence[tuple[str, Index]]) -> Iterator[tuple[str, list[Index]]]:
    """Every array that is read, with the places at which it is."""
    for name in dict.fromkeys(name for name, _ in reads):
        yield name, [at for n, at in reads if n == name]


@dataclass(frozen=True, slots=True)
class _Frame:
    """The domain of a group (without unit axes) and which of its axes are reduced.

    `alone`: the reduction is not over the last axes, or is over a whole tensor.
    """

    domain: Shape
    inner: tuple[int, ...]
    alone: bool

    @property
    def outer(self) -> tuple[int, ...]:
        return tuple(k for k in range(len(self.domain)) if k not in self.inner)

    @property
    def row(self) -> Shape:
        """The shape of what is computed once a row."""
        return tuple(self.domain[k] for k in self.outer)


def _frame(
    facts: Facts, members: Sequence[int], reduces: list[int], results: tuple[str, ...]
) -> _Frame | Failure:
    """R3, and of R5 that the reductions agree."""
    ops, solid = facts.ops, facts.solid
    if not reduces:
        failure = _dear_before(facts, members, frozenset({"concat"}))
        if failure is not None:
            return failure
        first, *others = results
        for name in others:
            if solid(name) != solid(first):
                return _differ(facts, first, name)
        return _Frame(solid(first), (), False)
    lead = ops[reduces[0]]
    frame = _Frame(solid(lead.operands[0]), _inner(facts, lead), False)
    for i in reduces[1:]:
        if solid(ops[i].operands[0]) != frame.domain:
            return _differ(facts, lead.operands[0], ops[i].operands[0])
        if _inner(facts, ops[i]) != frame.inner:
            return fail("R5", "fuse.R5.axes", value=lead.key, other=ops[i].key)
    for name in results:
        if solid(name) not in (frame.domain, frame.row):
            return _differ(facts, lead.operands[0], name)
    failure = _movement(facts, members)
    if failure is not None:
        return failure
    if reduces_alone(frame.domain, frame.inner):
        others = [name for name in results if solid(name) != frame.row]
        others += [ops[i].key for i in reduces[1:]]
        if others:
            return fail("R5", "fuse.R5.alone", value=lead.key, other=others[0])
        return replace(frame, alone=True)
    return frame


def _movement(facts: Facts, members: Sequence[int]) -> Failure | None:
    """Of R5 and R4 what lets a row group read elsewhere: only before its reductions, since every
    row is complete by itself then; and nothing dear, since each of its loops computes it again."""
    ops = facts.ops
    waits: dict[str, str] = {}
    for i in members:
        reduced = next((waits[n] for n in ops[i].operands if n in waits), "")
        if reduced and ops[i].family in MOVEMENT:
            return fail("R5", "fuse.R5.movement", value=ops[i].key, other=reduced)
        if reduced or is_reduction(ops[i]):
            waits[ops[i].key] = reduced or ops[i].key
    return _dear_before(facts, members, MOVEMENT)


def _dear_before(
    facts: Facts, members: Sequence[int], families: frozenset[str]
) -> Failure | None:
    """R4: a transcendental function whose result ops of `families` in the group read elsewhere."""
    ops = facts.ops
    readers: dict[str, str] = {}
    for i in reversed(members):
        op = ops[i]
        reader = readers.get(op.key, "")
        if reader and op.function in TRANSCENDENTAL:
            return fail("R4", "fuse.R4.moved", value=op.key, other=reader)
        reader = reader or (op.key if op.family in families else "")
        if reader:
            readers.update((name, reader) for name in op.operands)
    return None


def _inner(facts: Facts, reduce: Op) -> tuple[int, ...]:
    """The reduced axes longer than 1, counted among the axes longer than 1."""
    axes = reduced_axes(reduce)
    shape = facts.types[reduce.operands[0]].dims
    solid = [k for k, d in enumerate(shape) if d != ONE]
    return tuple(n for n, k in enumerate(solid) if k in axes)


def _differ(facts: Facts, a: str, b: str) -> Failure:
    return fail(
        "R3", "fuse.R3", value=a, shape=show(facts.types[a].dims), other=b,
        other_shape=show(facts.types[b].dims),
    )  # fmt: skip


def reduces_alone(domain: Shape, inner: Sequence[int]) -> bool:
    """Whether a reduction over axes `inner` of D (no unit axes) needs a schedule of its own.

    It does when these are not the last axes, or when nothing is kept and the tensor is not known
    to be small: then it keeps to itself, its producers, and what follows from its results alone.
    """
    if tuple(inner) != tuple(range(len(domain) - len(inner), len(domain))):
        return True
    if not inner or len(inner) < len(domain):
        return False
    count = product(domain).constant
    return count is None or count > SERIAL


class _Walk:
    """Hands the places where values are wanted backwards through a group: R4 and R5."""

    def __init__(self, facts: Facts, members: Sequence[int], frame: _Frame) -> None:
        self.facts, self.members, self.frame = facts, members, frame
        self.inner = frozenset(frame.inner)
        self.outer = frozenset(frame.outer)
        self.along = tuple(Place(a) for a in frame.inner)

    def run(self, results: tuple[str, ...]) -> tuple[tuple[str, Index], ...] | Failure:
        """The arrays read from outside with their places, by order of first use."""
        facts, frame = self.facts, self.frame
        inside = frozenset(facts.ops[i].key for i in self.members)
        wanted: dict[str, list[Index]] = {name: [] for name in inside}
        for name in results:
            full = facts.solid(name) == frame.domain
            axes = range(len(frame.domain)) if full else frame.outer
            wanted[name].append(place(facts.types[name].dims, axes))
        reads: list[list[tuple[str, Index]]] = []
        for i in reversed(self.members):
            places = wanted[facts.ops[i].key]
            failure = self._check(i, places)
            if failure is not None:
                return failure
            found: list[tuple[str, Index]] = []
            for at in places:
                for name, link in facts.reads[i]:
                    index = facts.index(i, link, at, self.along)
                    if name not in inside:
                        found.append((name, index))
                    elif index not in wanted[name]:
                        wanted[name].append(index)
            reads.append(found)
        if frame.alone:
            failure = self._check_alone(wanted)
            if failure is not None:
                return failure
        return tuple(dict.fromkeys(r for found in reversed(reads) for r in found))

    def _check(self, i: int, places: list[Index]) -> Failure | None:
        op = self.facts.ops[i]
        reduce = is_reduction(op)
        if not reduce and self.facts.cheap[i]:
            return None
        for at in places:
            if reduce and at != place(op.type.dims, self.frame.outer):
                return fail("R5", "fuse.R5.element", value=op.key)
            used = axes_of(at)
            missing = self.outer - used
            if self.inner & used:
                missing |= self.inner - used
            if missing:
                return fail(
                    "R4", "fuse.R4.again", value=op.key, shape=show(op.type.dims),
                    domain=show(self.frame.domain),
                )  # fmt: skip
        pairs = combinations(places, 2)
        if not all(places_apart(p, q, self.frame.domain) for p, q in pairs):
            return fail("R4", "fuse.R4.twice", value=op.key, times=len(places))
        return None

    def _check_alone(self, wanted: dict[str, list[Index]]) -> Failure | None:
        """A reduction by itself: no element of its domain may wait for its result."""
        after: set[str] = set()
        for i in self.members:
            op = self.facts.ops[i]
            reduce = is_reduction(op)
            if not reduce and not any(name in after for name in op.operands):
                continue
            after.add(op.key)
            if not reduce and any(axes_of(at) & self.inner for at in wanted[op.key]):
                lead = next(n for n in after if is_reduction(self.facts.ops[
                    self.facts.producer[n]]))  # fmt: skip
                return fail("R5", "fuse.R5.alone", value=lead, other=op.key)
        return None

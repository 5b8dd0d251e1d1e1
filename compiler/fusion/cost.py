"""What a group costs: bytes over bandwidth or operations over peak, plus a launch.

    bytes = sum over arrays read of min(footprint, size) + sum over results of size
    time  = max(bytes with penalty / bandwidth, operations / peak) + launch
    gain  = time(A) + time(B) - time(A and B in one kernel)

Each array counts once, literals not at all: that is the floor. For the time an array that is not
read along its last dimension counts `STRIDE_PENALTY` times (measured for a transposed read), one
that is read there in steps of k counts k times, for its lines are read whole. What a contraction
computes where it brings its operand counts as often as it does so.
Teaches: fusing pays because a value between two ops is neither written nor read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compiler.ir.dims import ONE, ZERO, Dim, product
from compiler.ir.graph import Op
from compiler.ir.loops import TRANSCENDENTAL
from compiler.ir.machine import MachineProfile
from compiler.ir.types import TensorType

from .access import MOVEMENT, Index, is_reduction
from .facts import Facts
from .legality import Form, by_name

STRIDE_PENALTY = 9.0
TRANSCENDENTAL_COST = 8


@dataclass(frozen=True, slots=True)
class Cost:
    """The floor of the bytes, array by array, and what the time rests on, at assumed sizes."""

    arrays: tuple[tuple[str, Dim], ...]
    moved: float
    operations: int
    machine: MachineProfile
    again: int = 0
    """Operations that a prologue does more than once."""

    @property
    def bytes(self) -> Dim:
        return total(size for _, size in self.arrays)

    @property
    def time(self) -> float:
        """Seconds, an estimate."""
        machine = self.machine
        work = self.operations + self.again
        return max(self.moved / machine.bandwidth, work / machine.peak) + machine.launch


def total(sizes: Iterable[Dim]) -> Dim:
    found = ZERO
    for size in sizes:
        found = found + size
    return found


def cost(facts: Facts, form: Form, work: int, machine: MachineProfile) -> Cost:
    """The cost of a legal group that does so many scalar operations."""
    sizes: dict[str, Dim] = {}
    moved, again = 0.0, 0.0
    parts = [(form.reads, form.domain, fastest_axis(form), 1.0)]
    for part in form.brought:
        last = len(part.domain) - 1 if part.domain else None
        parts.append((part.reads, part.domain, last, part.times))
        again += (part.times - 1) * sum(operations(facts, i) for i in part.members)
    for reads, domain, last, times in parts:
        for name, indexes in by_name(reads):
            size = facts.footprint(name, indexes, domain)
            seen = sizes.get(name, size)
            sizes[name] = size if facts.size(size) > facts.size(seen) else seen
            penalty = max(_penalty(facts, name, at, last) for at in indexes)
            moved += facts.size(size) * (penalty * times if penalty > 1 else 1.0)
    for name in form.whole:
        if name not in sizes:
            moved += facts.size(facts.nbytes(name))
        sizes[name] = facts.nbytes(name)
    for name in form.results:
        sizes[name] = facts.nbytes(name)
        moved += facts.size(sizes[name])
    order = (*form.operands, *form.results)
    return Cost(tuple((n, sizes[n]) for n in order), moved, work, machine, round(again))


def border_cost(facts: Facts, i: int, machine: MachineProfile) -> Cost:
    """A library call as the model sees it: its inputs and outputs once each."""
    op = facts.ops[i]
    names = dict.fromkeys((*op.operands, *(v.name for v in op.outputs)))
    arrays = tuple((name, facts.nbytes(name)) for name in names)
    return Cost(arrays, float(sum(facts.size(size) for _, size in arrays)), 0, machine)


def joined(facts: Facts, a: Cost, b: Cost, inside: frozenset[int]) -> Cost:
    """What two parts would cost as one, from their arrays alone.

    An estimate: the order in which the search tries pairs, and the price of a refusal.
    """
    first = dict(a.arrays)
    arrays = {**first, **dict(b.arrays)}
    kept: list[tuple[str, Dim]] = []
    saved = sum(facts.size(size) for name, size in b.arrays if name in first)
    for name, size in arrays.items():
        if facts.producer.get(name) not in inside or facts.visible(name, inside):
            kept.append((name, size))
        else:
            saved += facts.size(size)
    moved = max(0.0, a.moved + b.moved - saved)
    work, again = a.operations + b.operations, a.again + b.again
    return Cost(tuple(kept), moved, work, a.machine, again)


def fastest_axis(form: Form) -> int | None:
    """The axis that consecutive evaluations differ in: the last inner axis, or the last of D."""
    return form.inner[-1] if form.inner else len(form.domain) - 1 if form.domain else None


def _iterations(op: Op, types: Mapping[str, TensorType]) -> Dim:
    """Products that a contraction adds up: one for each value of all its letters."""
    letters = op.str("spec").split("->")[0].split(",")
    extents = {
        letter: d
        for word, name in zip(letters, op.operands, strict=True)
        for letter, d in zip(word, types[name].dims, strict=True)
    }
    return product(extents.values())


def _penalty(facts: Facts, name: str, at: Index, fastest: int | None) -> float:
    """How often a byte counts: 1 where neighbours in the loop are neighbours in memory."""
    shape = facts.types[name].dims
    solid = [p for p, d in zip(at, shape, strict=True) if d != ONE]
    for k, place in enumerate(solid):
        if fastest is not None and (place.axis == fastest or fastest in place.along):
            step = place.step.constant
            if k != len(solid) - 1 or place.along or step is None:
                return STRIDE_PENALTY
            return min(float(abs(step)), STRIDE_PENALTY)
    return 1.0


def operations(facts: Facts, i: int) -> int:
    """Scalar operations of one op; a transcendental function counts `TRANSCENDENTAL_COST`."""
    op = facts.ops[i]
    if op.family == "contract":
        return 2 * facts.size(_iterations(op, facts.types))
    if op.family in MOVEMENT or op.family in ("copy", "reshape", "iota"):
        return 0
    over = facts.types[op.operands[0]] if is_reduction(op) else op.type
    return facts.size(over.numel) * (
        TRANSCENDENTAL_COST if op.function in TRANSCENDENTAL else 1
    )

"""Prologues: what is computed where a contraction brings its operand (R7).

    y[n,o,p] = sum over c, k of  f(x[n, c, p + k]) * w[o, c, k]

    for every tile { rows[c, q] = f(x[n, c, q])  once;   sums over c, k of rows[c, p + k] * w }

A contraction whose innermost axis only one operand has is computed tile by tile (`lower/contract`):
the elements of that operand that a tile needs are brought into scratch once, whatever the number of
places in the window and of outputs that read them. So f is computed about once an element there,
and the array f(x) is never written. Its other operand is read once a tile: there only an index map
may come before.

    once      no window overlaps another, and all outputs belong to one task: exactly once
    a tile    at the borders of tiles, and for each task that shares the outputs: a few times
    again     in the innermost loops

Teaches: computing something again is a price, and where loops bring it decides how high it is.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from compiler.ir.dims import ONE
from compiler.ir.graph import Op

from .access import BROADCASTING, MOVEMENT
from .facts import Facts, Role

OUTPUTS = 4
"""Outputs that share each element of a line once it is in a register."""

TASKS = 16
"""A contraction with fewer tiles than this splits its outputs too, into tasks of at least two
times `OUTPUTS`, and each of them brings the operand for itself."""

BORDERS = 1.5
"""How often windows that overlap have an element brought, by estimate: what lies between two tiles
is brought for both."""

BYTES = 1.1
"""A prologue reads at most so many times the bytes that the array would have (R7)."""

INDEX_MAPS = frozenset({"permute", "slice", "reverse", "expand", "copy", "reshape"})
"""Families that only tell where to read, without a condition."""

PROLOGUE = (BROADCASTING | MOVEMENT | {"reshape", "iota"}) - {"gather", "gather_elements"}
"""Families that a prologue may hold: where they read follows from where they are wanted."""


@dataclass(frozen=True)
class Operand:
    """An operand of a contraction: a letter an axis, and for letters with a window the letter of
    the places in it."""

    name: str
    letters: str
    taps: Mapping[str, str] = field(default_factory=dict[str, str])


def innermost_axis(operands: Sequence[Operand], result: str, single: Container[str]) -> str:
    """The last letter of the result that counts more than one element (not in `single`): the axis
    that vectors run along. Empty where there is none, or where the operand that holds it does not
    hold the letters behind it, so that it is not innermost there."""
    last = next((c for c in reversed(result) if c not in single), "")
    behind = result[result.index(last) :] if last else ""
    return last if any(set(behind) <= set(o.letters) for o in operands) else ""


def tiled_operand(operands: Sequence[Operand], result: str, innermost: str) -> int | None:
    """Which operand a tile's rows are read from, and None where there are no tiles.

    `result`: its letters; `innermost`: the one of `innermost_axis`.
    """
    holds = [k for k, o in enumerate(operands) if innermost and innermost in o.letters]
    if len(holds) != 1:
        return None
    rows = operands[holds[0]]
    if any(o.taps for k, o in enumerate(operands) if k != holds[0]):
        return None
    if any(tap in result or tap in rows.letters for tap in rows.taps.values()):
        return None
    return holds[0] if set(rows.taps) <= set(result) else None


def times_brought(facts: Facts, lead: Op, source: str) -> float | None:
    """How often the loops of `lead` bring an element of `source`, by estimate; exactly 1 where it
    is once; None where it is read in the innermost loops."""
    operands, result = _operands(facts, lead)
    k = next((k for k, o in enumerate(operands) if o.name == source), None)
    extents = {
        c: facts.size(d)
        for o in operands
        for c, d in zip(o.letters, facts.types[o.name].dims, strict=True)
    }
    dims = lead.type.dims[: len(result)]
    single = [c for c, d in zip(result, dims, strict=True) if d == ONE]
    last = innermost_axis(operands, result, single)
    if k is None or tiled_operand(operands, result, last) != k:
        return None
    *outer, shared = ["", *(c for c in result if c not in operands[k].letters)]
    tasks = -(-extents[shared] // (2 * OUTPUTS)) if shared else 1
    times = math.prod(extents[c] for c in outer if c) * min(max(tasks, 1), TASKS)
    return times * (BORDERS if _overlaps(facts, lead, source) else 1.0)


def _operands(facts: Facts, lead: Op) -> tuple[list[Operand], str]:
    """The operands of a contraction or of a reduction over windows, and the result's letters."""
    if lead.kind == "contract":
        sources, result = lead.str("spec").split("->")
        words = sources.split(",")
    else:
        rank = facts.types[lead.operands[0]].rank
        words = ["".join(chr(0x61 + k) for k in range(rank))]
        result = words[0][: rank - len(lead.ints("axes") or ())]
    found: list[Operand] = []
    for name, word in zip(lead.operands, words, strict=True):
        if not facts.is_window(name):
            found.append(Operand(name, word))
            continue
        window = facts.ops[facts.producer[name]]
        axes = window.ints("axes") or ()
        own = len(word) - len(axes)
        taps = {word[a]: word[own + k] for k, a in enumerate(axes)}
        found.append(Operand(window.operands[0], word[:own], taps))
    return found, result


def _overlaps(facts: Facts, lead: Op, source: str) -> bool:
    """Whether two places of a window over `source` may be one element."""
    for name in lead.operands:
        if facts.is_window(name):
            window = facts.ops[facts.producer[name]]
            if window.operands[0] == source:
                sizes, strides, dilations = (
                    window.ints(n) or () for n in ("sizes", "strides", "dilations")
                )
                return any(
                    (size - 1) * dilation >= stride
                    for size, stride, dilation in zip(sizes, strides, dilations, strict=True)
                )
    return False


def before(facts: Facts, members: Sequence[int], lead: int, source: str) -> tuple[int, ...]:
    """The members that `source`, an operand of the op `lead`, is computed from."""
    inside, found = frozenset(members), set[int]()
    waiting = [source]
    while waiting:
        at = facts.producer.get(waiting.pop(), -1)
        if at in inside and at != lead and at not in found:
            found.add(at)
            waiting += facts.ops[at].operands
    return tuple(sorted(found))


def read_elsewhere(facts: Facts, members: Sequence[int], lead: int) -> str | None:
    """A value of a prologue that something else than it and its contraction reads, windows
    included; None: there is none."""
    inside = frozenset((*members, lead))
    names = (facts.ops[i].key for i in members)
    return next((name for name in names if facts.visible(name, inside)), None)


def only_index_maps(facts: Facts, members: Sequence[int]) -> bool:
    return all(
        facts.ops[i].family in INDEX_MAPS or facts.role[i] is Role.UNIT_VIEW for i in members
    )

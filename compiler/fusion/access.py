"""Where an op reads: index maps, and the access classes that follow from them.

    out[i0, i1] = f(x[i0, i1])     ELEMENTWISE    each element at its own place
    out[i0, i1] = f(x[i1])         BROADCAST      an element is read for several results
    out[i0, i1] = x[i1, 2*i0 + 3]  INJECTIVE      another place, but at most one result each
    out[i0, i1] = x[k[i0], i1]     BROADCAST      data tell the place: perhaps for several results
    out[i0]     = sum_j x[i0, j]   REDUCE         many elements for one result
    contract                       CONTRACT       two operands, each read along the other's axes
    anything else                  OPAQUE         a library decides

Nothing here asks what an op computes, only where: so the rules of fusion hold for operators that
nobody has thought of yet. Teaches: two loops may become one when their index maps compose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from compiler.ir.dims import ONE, ZERO, Dim, dim
from compiler.ir.graph import Op
from compiler.ir.shapes import Shape
from compiler.ir.types import Attr, TensorType


class Access(Enum):
    """How the elements of one operand are read."""

    ELEMENTWISE = "elementwise"
    BROADCAST = "broadcast"
    INJECTIVE = "injective"
    REDUCE = "reduce"
    CONTRACT = "contract"
    OPAQUE = "opaque"


class Place(NamedTuple):
    """An index along one dimension: `start + step * i[axis]`; `start` alone without an axis.

    With `told`, the value of that name tells the index; it hangs on the axes `along`.
    """

    axis: int | None
    step: Dim = ONE
    start: Dim = ZERO
    told: str = ""
    along: tuple[int, ...] = ()


Index = tuple[Place, ...]
"""Where an element is read, one place a dimension, over the axes of some domain."""

FIRST = Place(None, ZERO, ZERO)
"""The only place along a dimension of extent 1."""

BROADCASTING = frozenset({"map", "compare", "select", "cast", "copy", "expand"})
"""Families of kinds whose operands are aligned right and broadcast to the result."""

MOVEMENT = frozenset({
    "permute", "expand", "slice", "concat", "pad", "reverse", "gather", "gather_elements",
})  # fmt: skip
"""Families that compute nothing and only read elsewhere."""


def identity(shape: Shape) -> Index:
    """The index of an element over the axes of its own shape."""
    return tuple(FIRST if d == ONE else Place(k) for k, d in enumerate(shape))


def place(shape: Shape, axes: Iterable[int]) -> Index:
    """The index of a value whose dimensions longer than 1 run along `axes`, in order."""
    along = iter(axes)
    return tuple(FIRST if d == ONE else Place(next(along)) for d in shape)


def squeeze(shape: Shape) -> Shape:
    """The shape without its dimensions of extent 1."""
    return tuple(d for d in shape if d != ONE)


def axes_of(index: Index) -> frozenset[int]:
    """The axes of the domain along which an index moves, at most one element a step."""
    return frozenset(p.axis for p in index if p.axis is not None)


def hangs_on(index: Index) -> frozenset[int]:
    """The axes of the domain that an index depends on, those that data tell it along too."""
    return axes_of(index).union(*(p.along for p in index))


def places_apart(a: Index, b: Index, domain: Shape) -> bool:
    """Whether two indexes over one domain never reach the same element: along some dimension they
    run on the same axis in equal steps, and their ranges do not meet or interlock.

        start + step * i = other + step * j    for no i, j in [0, n)
    """
    for p, q in zip(a, b, strict=True):
        if p.told or q.told or (p.axis, p.step) != (q.axis, q.step):
            continue
        gap, step = (q.start - p.start), p.step.constant
        if p.axis is None:
            if gap.constant:
                return True
        elif step is not None and step != 0:
            reach = (domain[p.axis] - 1) * abs(step)
            beyond = ((gap - reach).constant or 0) > 0 or ((-gap - reach).constant or 0) > 0
            if beyond or (gap.constant or 0) % abs(step):
                return True
    return False


def is_reduction(op: Op) -> bool:
    """Whether many elements of the operand make one of the result, along `reduced_axes`."""
    return op.family in ("reduce", "argreduce")


def reduced_axes(op: Op) -> tuple[int, ...]:
    """The axes of its operand that a reduction reduces."""
    return (op.int("axis"),) if op.family == "argreduce" else op.ints("axes") or ()


def is_unit_reshape(op: Op, types: Mapping[str, TensorType]) -> bool:
    """Whether a reshape only inserts or removes dimensions of extent 1."""
    source = types[op.operands[0]] if op.operands else None
    return (
        op.kind == "reshape"
        and source is not None
        and source.known
        and op.type.known
        and squeeze(source.dims) == squeeze(op.type.dims)
    )


def merged_axes(source: Shape, target: Shape) -> tuple[tuple[int, ...], ...] | None:
    """For every dimension of `target` longer than 1, the neighbouring axes of `source` that it
    holds in row-major order; None: the reshape is of another kind."""
    waiting = [k for k, d in enumerate(source) if d != ONE]
    found: list[tuple[int, ...]] = []
    for wanted in squeeze(target):
        size, axes = ONE, list[int]()
        while size != wanted and waiting:
            axes.append(waiting.pop(0))
            size = size * source[axes[-1]]
        if size != wanted:
            return None
        found.append(tuple(axes))
    return None if waiting else tuple(found)


def operand_index(
    op: Op, k: int, types: Mapping[str, TensorType], at: Index, inner: Index | None = None
) -> Index | None:
    """Where operand `k` is read when the result is wanted at `at`.

    A reduction reads its reduced dimensions (those longer than 1) along `inner`, by default along
    axes of their own, numbered from the rank on. None: the kind has no such map (a library call,
    a reshape that regroups elements), or a type is not known.
    """
    name = op.inputs[k]
    if name is None or not types[name].known or not op.type.known:
        return None
    shape = types[name].dims
    family = op.family
    if family in BROADCASTING:
        shift = len(at) - len(shape)
        return tuple(FIRST if d == ONE else at[shift + n] for n, d in enumerate(shape))
    if family == "permute":
        perm = op.ints("perm") or ()
        return tuple(at[perm.index(n)] for n in range(len(shape)))
    if family == "slice":
        starts, steps = _dims(op.get("starts")), _dims(op.get("steps"))
        return tuple(
            p._replace(step=p.step * step, start=p.start * step + start)
            for p, start, step in zip(at, starts, steps, strict=True)
        )
    if family in ("concat", "pad", "reverse"):
        return _shifted(op, k, types, at)
    if family in ("gather", "gather_elements", "scatter_elements"):
        return _told(op, k, types, at)
    if is_reduction(op):
        reduced = [a for a in reduced_axes(op) if shape[a] != ONE]
        along = inner or tuple(Place(len(shape) + n) for n in range(len(reduced)))
        ways = dict(zip(reduced, along, strict=True))
        return tuple(FIRST if d == ONE else ways.get(n, at[n]) for n, d in enumerate(shape))
    if is_unit_reshape(op, types):
        solid = iter(p for p, d in zip(at, op.type.dims, strict=True) if d != ONE)
        return tuple(FIRST if d == ONE else next(solid) for d in shape)
    return None


def _shifted(op: Op, k: int, types: Mapping[str, TensorType], at: Index) -> Index:
    """Operand `k` of a concat, pad or reverse. Where no element of it stands, none is read."""
    shape = types[op.operands[k]].dims
    if op.family == "reverse":
        axes = op.ints("axes") or ()
        return tuple(
            FIRST if d == ONE
            else p._replace(step=-p.step, start=d - 1 - p.start) if n in axes else p
            for n, (p, d) in enumerate(zip(at, shape, strict=True))
        )  # fmt: skip
    before = [ZERO] * len(at)
    if op.family == "pad":
        before = list(_dims(op.get("before")))
    else:
        axis = op.int("axis")
        for name in op.operands[:k]:
            before[axis] = before[axis] + types[name].dims[axis]
    return tuple(
        FIRST if d == ONE else p._replace(start=p.start - b)
        for p, d, b in zip(at, shape, before, strict=bool(shape))
    )


def _told(op: Op, k: int, types: Mapping[str, TensorType], at: Index) -> Index:
    """Operand `k` of a gather or scatter, where indices tell one place of x (of the result)."""
    axis = op.int("axis")
    shape = types[op.operands[k]].dims
    count = types[op.operands[1]].rank if op.family == "gather" else 1
    if k == 0 and op.family != "scatter_elements":
        own = at[axis : axis + count] if op.family == "gather" else at
        place = Place(None, told=op.key, along=tuple(sorted(hangs_on(own))))
        found = (*at[:axis], place, *at[axis + count :])
    elif op.family == "gather":
        found = at[axis : axis + count]
    elif op.family == "scatter_elements" and k:
        place = Place(None, told=op.key, along=tuple(sorted(hangs_on(at))))
        found = (*at[:axis], place, *at[axis + 1 :])
    else:
        found = at
    return tuple(FIRST if d == ONE else p for p, d in zip(found, shape, strict=True))


def classify(op: Op, k: int, types: Mapping[str, TensorType]) -> Access:
    """The access class of operand `k`, read off its index map."""
    if op.family == "contract":
        return Access.CONTRACT
    if not op.type.known:
        return Access.OPAQUE
    own = identity(op.type.dims)
    index = operand_index(op, k, types, own)
    if index is None:
        return Access.INJECTIVE if op.kind == "reshape" else Access.OPAQUE
    used = axes_of(index)
    if any(axis >= len(own) for axis in used):
        return Access.REDUCE
    if axes_of(own) - used:
        return Access.BROADCAST
    name = op.inputs[k]
    whole = name is not None and squeeze(types[name].dims) == squeeze(op.type.dims)
    moved = [p for p in index if p != FIRST] != [p for p in own if p != FIRST]
    if moved or (op.family in ("slice", "concat", "pad") and not whole):
        return Access.INJECTIVE
    return Access.ELEMENTWISE


def _dims(value: Attr | None) -> tuple[Dim, ...]:
    assert isinstance(value, tuple)
    return tuple(dim(v) for v in value if isinstance(v, Dim | int))

"""Where an op reads: index maps, and the access classes that follow from them.

    out[i0, i1] = f(x[i0, i1])     ELEMENTWISE    each element at its own place
    out[i0, i1] = f(x[i1])         BROADCAST      an element is read for several results
    out[i0, i1] = x[i1, 2*i0 + 3]  INJECTIVE      another place, but at most one result each
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
    """An index along one dimension: `start + step * i[axis]`; `start` alone without an axis."""

    axis: int | None
    step: Dim = ONE
    start: Dim = ZERO


Index = tuple[Place, ...]
"""Where an element is read, one place a dimension, over the axes of some domain."""

FIRST = Place(None, ZERO, ZERO)
"""The only place along a dimension of extent 1."""

BROADCASTING = frozenset({"map", "compare", "select", "cast", "copy", "expand"})
"""Families of kinds whose operands are aligned right and broadcast to the result."""

MOVEMENT = frozenset({"permute", "expand", "slice"})
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
    """The axes of the domain that an index depends on."""
    return frozenset(p.axis for p in index if p.axis is not None)


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
            Place(p.axis, p.step * step, p.start * step + start)
            for p, start, step in zip(at, starts, steps, strict=True)
        )
    if family == "reduce":
        reduced = [a for a in op.ints("axes") or () if shape[a] != ONE]
        along = inner or tuple(Place(len(shape) + n) for n in range(len(reduced)))
        ways = dict(zip(reduced, along, strict=True))
        return tuple(FIRST if d == ONE else ways.get(n, at[n]) for n, d in enumerate(shape))
    if is_unit_reshape(op, types):
        solid = iter(p for p, d in zip(at, op.type.dims, strict=True) if d != ONE)
        return tuple(FIRST if d == ONE else next(solid) for d in shape)
    return None


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
    if moved or (op.family == "slice" and not whole):
        return Access.INJECTIVE
    return Access.ELEMENTWISE


def _dims(value: Attr | None) -> tuple[Dim, ...]:
    assert isinstance(value, tuple)
    return tuple(dim(v) for v in value if isinstance(v, Dim | int))

"""Gather, Concat, Slice, ConstantOfShape, Range: library steps so far.

Their types and, on shape vectors, their elements are known, so that the shape arithmetic of real
files (`Shape → Gather → Unsqueeze → Concat → Reshape`) disappears at compile time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from compiler.ir.dims import ONE, ZERO, Dim, Guard, ceil_div, dim
from compiler.ir.shapes import same
from compiler.ir.types import DType, TensorType

from .base import NodeView, Operator, Unsupported
from .rules import (
    KNOWN_CAP,
    attribute_or_input,
    from_constants,
    integers,
    integral,
    known_elements,
    nonnegative,
    normal_axis,
)

# ---- Gather ------------------------------------------------------------------------------------


def gather_type(v: NodeView) -> tuple[TensorType, ...]:
    """The axis of the data is replaced by the shape of the indices."""
    x, indices = v.type(0), v.type(1)
    axis = normal_axis(v.op.int("axis", 0), x.rank)
    return (replace(x, shape=(*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :])),)


def gather_value(v: NodeView) -> tuple[Dim, ...] | None:
    found, indices = v.known(0), integers(v, 1)
    if found is None or indices is None or v.type(0).rank != 1 or v.type(1).rank > 1:
        return None
    if any(not -len(found) <= k < len(found) for k in indices):
        return None
    return tuple(found[k] for k in indices)


# ---- Concat ------------------------------------------------------------------------------------


def concat_type(v: NodeView) -> tuple[TensorType, ...]:
    """Extents add up along the axis (default 1 before opset 4) and are equal elsewhere."""
    types = [v.type(k) for k in range(len(v.op.inputs))]
    first = types[0]
    if v.op.get("axis") is None and v.opset >= 4:
        raise Unsupported("break.attribute-missing", attribute="axis")
    axis = normal_axis(v.op.int("axis", 1), first.rank)
    total = first.dims[axis]
    for t in types[1:]:
        if t.rank != first.rank:
            raise Unsupported("break.concat-rank", left=first.rank, right=t.rank)
        total = total + t.dims[axis]
        for k, (a, b) in enumerate(zip(first.dims, t.dims, strict=True)):
            if k != axis:
                v.guards += same(a, b, v.position, "guard.concat")
    return (replace(first, shape=(*first.dims[:axis], total, *first.dims[axis + 1 :])),)


def concat_value(v: NodeView) -> tuple[Dim, ...] | None:
    parts = [known_elements(v, k) for k in range(len(v.op.inputs))]
    known = [p for p in parts if p is not None]
    if len(known) != len(parts) or all(v.known(k) is None for k in range(len(parts))):
        return None
    joined = tuple(d for p in known for d in p)
    return joined if len(joined) <= KNOWN_CAP else None


# ---- Slice -------------------------------------------------------------------------------------


def _ranges(v: NodeView) -> list[tuple[int, Dim, Dim, int]]:
    """`(axis, start, end, step)` of a Slice, as written; Unsupported when they come from data."""
    rank = v.type(0).rank
    axes = attribute_or_input(v, "axes", 3, input_since=10)
    if v.opset < 10:
        starts = tuple(dim(s) for s in v.op.ints("starts") or ())
        ends = tuple(dim(e) for e in v.op.ints("ends") or ())
        steps = None
    else:
        starts, ends = from_constants(v, 1, "starts"), from_constants(v, 2, "ends")
        steps = attribute_or_input(v, "steps", 4, input_since=10)
    at = axes if axes is not None else tuple(range(len(starts)))
    by = steps if steps is not None else (1,) * len(starts)
    return [
        (normal_axis(a, rank), s, e, k)
        for a, s, e, k in zip(at, starts, ends, by, strict=True)
    ]


def _within(v: NodeView, bound: Dim, extent: Dim) -> Dim:
    """A start or end of a forward slice as a position in `[0, extent]`; what is open: a guard."""
    number, size = bound.constant, extent.constant
    if number is not None and size is not None:
        return dim(min(max(number + size if number < 0 else number, 0), size))
    if number is not None and number >= 2**31 - 1:
        return extent
    at = extent + number if number is not None and number < 0 else bound
    if at == extent or at == ZERO:
        return at
    if not nonnegative(at):
        v.guards.append(Guard(ZERO, "<=", at, v.position, "guard.slice"))
    if number is None or number >= 0:
        v.guards.append(Guard(at, "<=", extent, v.position, "guard.slice"))
    return at


def slice_type(v: NodeView) -> tuple[TensorType, ...]:
    """`ceil((end - start) / step)` elements of every sliced axis.

    Steps backward are known for constant extents; a symbolic extent needs a forward step.
    """
    x = v.type(0)
    shape = list(x.dims)
    for axis, start, end, step in _ranges(v):
        extent = x.dims[axis]
        size, first, last = extent.constant, start.constant, end.constant
        if size is not None and first is not None and last is not None and step:
            shape[axis] = dim(len(range(*slice(first, last, step).indices(size))))
            continue
        if step < 1:
            raise Unsupported("break.slice", axis=axis, step=step)
        low, high = _within(v, start, extent), _within(v, end, extent)
        length = high - low
        if length.constant is None:
            v.guards.append(Guard(low, "<=", high, v.position, "guard.slice"))
        elif length.constant < 0:
            length = ZERO
        shape[axis] = length if step == 1 else ceil_div(length, step)
    return (replace(x, shape=tuple(shape)),)


def slice_value(v: NodeView) -> tuple[Dim, ...] | None:
    found = v.known(0)
    if found is None or v.type(0).rank != 1:
        return None
    for _, start, end, step in _ranges(v):
        first, last = start.constant, end.constant
        if first is None or last is None or step == 0:
            return None
        found = found[slice(*_python_bounds(first, last, step, len(found)))]
    return found


def _python_bounds(
    first: int, last: int, step: int, size: int
) -> tuple[int | None, int | None, int]:
    """Bounds for Python's slicing, where an end before the first element is None."""
    start, stop, step = slice(first, last, step).indices(size)
    return start, (None if stop < 0 else stop), step


# ---- ConstantOfShape and Range -----------------------------------------------------------------


def filled_type(v: NodeView) -> tuple[TensorType, ...]:
    """The shape is the input; the dtype is that of `value` (float32 zero by default)."""
    value = v.attribute_array("value")
    dtype = DType.f32 if value is None else DType.of(value.dtype)
    return (TensorType(dtype, from_constants(v, 0, "shape")),)


def filled_value(v: NodeView) -> tuple[Dim, ...] | None:
    value, shape = v.attribute_array("value"), integers(v, 0)
    if value is None or value.dtype.kind not in "biu" or shape is None or len(shape) > 1:
        return None
    count = shape[0] if shape else 1
    element = integral(np.asarray(value))
    return element * count if element is not None and count <= KNOWN_CAP else None


def range_type(v: NodeView) -> tuple[TensorType, ...]:
    """`max(0, ceil((limit - start) / delta))` elements; symbolic for integers with delta 1."""
    t = v.type(0)
    arrays = [v.constant(k) for k in range(3)]
    known = [a for a in arrays if a is not None]
    if len(known) == 3:
        start, limit, delta = (float(a.reshape(()).item()) for a in known)
        if delta == 0:
            raise Unsupported("break.range", delta=0)
        return (TensorType(t.element, (dim(max(0, int(np.ceil((limit - start) / delta)))),)),)
    first, last, step = (from_constants(v, k, "range")[0] for k in range(3))
    if step != ONE:
        raise Unsupported("break.range", delta=str(step))
    v.guards.append(Guard(first, "<=", last, v.position, "guard.range"))
    return (TensorType(t.element, (last - first,)),)


def range_value(v: NodeView) -> tuple[Dim, ...] | None:
    if not v.type(0).element.is_integer:
        return None
    bounds = [integers(v, k) for k in range(3)]
    numbers = [b[0] for b in bounds if b is not None and len(b) == 1]
    if len(numbers) != 3 or numbers[2] == 0:
        return None
    found = range(*numbers)
    return tuple(dim(n) for n in found) if len(found) <= KNOWN_CAP else None


OPERATORS = (
    Operator("Gather", (1, 11, 13), gather_type, None, gather_value),
    Operator("Concat", (1, 4, 11, 13), concat_type, None, concat_value),
    Operator("Slice", (1, 10, 11, 13), slice_type, None, slice_value),
    Operator("ConstantOfShape", (9, 20, 21, 23, 24, 25), filled_type, None, filled_value),
    Operator("Range", (11, 27), range_type, None, range_value),
)

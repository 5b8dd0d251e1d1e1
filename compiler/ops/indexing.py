"""Gather, Concat, Slice, Split, ConstantOfShape, Range: which element goes where.

    Gather: y[…, i…, …] = x[…, indices[i…], …]        Slice: y[k] = x[start + step k]
    Concat: y = [x0 | x1 | …]                         Range: y[k] = start + k delta

On shape vectors their elements are known, so that the shape arithmetic of real files
(`Shape → Gather → Unsqueeze → Concat → Reshape`) disappears at compile time. A slice backward is a
slice forward, reversed.

Teaches: moving data is an index map too; only an index that comes from data has to be looked up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from compiler.ir.builder import Builder
from compiler.ir.dims import ONE, ZERO, Dim, Guard, ceil_div, dim, dims
from compiler.ir.graph import Value
from compiler.ir.shapes import same
from compiler.ir.types import DType, TensorType

from .base import Malformed, NodeView, Operator, Unsupported, require_compiled
from .rules import (
    KNOWN_CAP,
    Inputs,
    at_most,
    attribute_or_input,
    from_constants,
    from_known,
    integers,
    integral,
    known_elements,
    nonnegative,
    normal_axis,
    present,
    require_one_dtype,
    require_some,
    same_type,
    sliced,
)

ENDLESS = 10**7
"""A bound of a slice from which on it is taken to lie beyond the end of a symbolic extent."""

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


def _index(dtype: DType) -> bool:
    return dtype in (DType.i32, DType.i64)


def _indices(xs: Inputs) -> Value:
    """The indices; Unsupported unless int32 or int64."""
    indices = present(xs, 1)
    if not _index(indices.type.element):
        raise Unsupported("break.dtype", dtype=indices.type.element.value)
    return indices


def gather(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """One index that is known and within is a slice; else `gather`, negative from the end."""
    x, indices = present(xs, 0), _indices(xs)
    axis = normal_axis(v.op.int("axis", 0), x.type.rank)
    (result,) = gather_type(v)
    extent, known = x.type.dims[axis], from_known(v, 1)
    if known is not None and indices.type.rank == 0:
        at = known[0] + extent if (known[0].constant or 0) < 0 else known[0]
        if at_most(at + 1, extent) and (at.constant is None or at.constant >= 0):
            if not nonnegative(at):
                v.guards.append(Guard(ZERO, "<=", at, v.position, "guard.gather"))
            return (b.reshape(sliced(b, x, {axis: (at, ONE, 1)}), result.dims),)
    require_some(v, extent, indices.type.numel)
    return (b.gather(x, indices, axis),)


def gather_elements_type(v: NodeView) -> tuple[TensorType, ...]:
    """The dtype of the data, the shape of the indices."""
    return (replace(v.type(0), shape=v.type(1).dims),)


def _same_rank(x: Value, indices: Value) -> None:
    if x.type.rank != indices.type.rank:
        raise Unsupported("break.concat-rank", left=x.type.rank, right=indices.type.rank)


def _within_extents(b: Builder, x: Value, indices: Value, axis: int) -> None:
    """Off the axis the indices reach no further than the data."""
    for k, (d, n) in enumerate(zip(indices.type.dims, x.type.dims, strict=True)):
        if k == axis or at_most(d, n):
            continue
        if d.constant is not None and n.constant is not None:
            raise Unsupported("break.shapes", left=str(d), right=str(n))
        b.guards.append(Guard(d, "<=", n, b.node, "guard.gather"))


def gather_elements(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """y[i, j] = x[indices[i, j], j] for axis 0."""
    x, indices = present(xs, 0), _indices(xs)
    axis = normal_axis(v.op.int("axis", 0), x.type.rank)
    _same_rank(x, indices)
    _within_extents(b, x, indices, axis)
    require_some(v, x.type.dims[axis], indices.type.numel)
    return (b.gather_elements(x, indices, axis),)


def scatter_elements(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """The data with y[indices[i, j], j] = updates[i, j] for axis 0; later updates win."""
    x, indices, updates = present(xs, 0), _indices(xs), present(xs, 2)
    axis = normal_axis(v.op.int("axis", 0), x.type.rank)
    reduction = v.op.str("reduction", "none")
    if reduction != "none":
        raise Unsupported("break.mode", mode=reduction)
    require_one_dtype(x, updates)
    _same_rank(x, indices)
    _same_rank(x, updates)
    for d, n in zip(indices.type.dims, updates.type.dims, strict=True):
        b.ensure_same(d, n, "guard.gather")
    _within_extents(b, x, indices, axis)
    require_some(v, x.type.dims[axis], indices.type.numel)
    return (b.scatter_elements(x, indices, updates, axis),)


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


def concat(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """The operands side by side; those without elements are left out."""
    operands = [present(xs, k) for k in range(len(xs))]
    require_one_dtype(*operands)
    (result,) = concat_type(v)
    axis = normal_axis(v.op.int("axis", 1), result.rank)
    kept = [x for x in operands if x.type.dims[axis] != ZERO] or operands[:1]
    return (kept[0] if len(kept) == 1 else b.concat(kept, axis),)


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
    lengths = [len(part) for part in (starts, ends, at, by)]
    if len(set(lengths)) > 1:
        counts = ", ".join(map(str, lengths))
        raise Malformed("model.node", reason=f"starts, ends, axes, steps hold {counts} numbers")
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
    if number is not None and abs(number) >= ENDLESS:
        far, what = (extent, number) if number > 0 else (ZERO, -number)
        v.guards.append(Guard(extent, "<=", dim(what), v.position, "guard.slice"))
        return far
    at = extent + number if number is not None and number < 0 else bound
    if at == extent or at == ZERO:
        return at
    if not nonnegative(at):
        v.guards.append(Guard(ZERO, "<=", at, v.position, "guard.slice"))
    if number is None or number >= 0:
        v.guards.append(Guard(at, "<=", extent, v.position, "guard.slice"))
    return at


def _backward(v: NodeView, bound: Dim, extent: Dim, end: bool) -> Dim:
    """A start or end of a backward slice as a position in `[-1, extent - 1]`; else a guard."""
    number = bound.constant
    last = extent - 1
    if number is not None and (number >= 2**31 - 1 or number == -1) and not end:
        return last
    if number is not None and number <= -(2**31 - 1):
        return dim(-1)
    if number is not None and abs(number) >= ENDLESS:
        far, most = (last, number + 1) if number > 0 else (dim(-1), -number - 1)
        v.guards.append(Guard(extent, "<=", dim(most), v.position, "guard.slice"))
        return far
    at = extent + number if number is not None and number < 0 else bound
    if not nonnegative(at + 1):
        v.guards.append(Guard(ZERO, "<=", at + 1, v.position, "guard.slice"))
    if number is None or number >= 0:
        v.guards.append(Guard(at, "<=", last, v.position, "guard.slice"))
    return at


@dataclass(frozen=True)
class _Part:
    """`count` elements of an axis from `start` on, forward in steps of `step`, then reversed?"""

    axis: int
    start: Dim
    count: Dim
    step: int
    reversed: bool


def _parts(v: NodeView) -> list[_Part]:
    """What a Slice takes of every axis it names. Guards for what symbols leave open."""
    x = v.type(0)
    found: list[_Part] = []
    for axis, start, end, step in _ranges(v):
        extent = x.dims[axis]
        size, first, last = extent.constant, start.constant, end.constant
        if not step:
            raise Unsupported("break.slice", axis=axis, step=step)
        if size is not None and first is not None and last is not None:
            at = range(*slice(first, last, step).indices(size))
            low = min(at[0], at[-1]) if at else 0
            found.append(_Part(axis, dim(low), dim(len(at)), abs(step), step < 0))
            continue
        if step > 0:
            low, high = _within(v, start, extent), _within(v, end, extent)
        else:
            low, high = _backward(v, end, extent, True), _backward(v, start, extent, False)
        length = high - low
        if length.constant is None and not nonnegative(length):
            v.guards.append(Guard(low, "<=", high, v.position, "guard.slice"))
        elif length.constant is not None and length.constant < 0:
            length = ZERO
        count = length if abs(step) == 1 else ceil_div(length, abs(step))
        if step < 0:
            low = high - (count - 1) * -step
        found.append(_Part(axis, low, count, abs(step), step < 0))
    return found


def slice_type(v: NodeView) -> tuple[TensorType, ...]:
    """`ceil((end - start) / step)` elements of every sliced axis."""
    x = v.type(0)
    shape = list(x.dims)
    for part in _parts(v):
        shape[part.axis] = part.count
    return (replace(x, shape=tuple(shape)),)


def slice_(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """A slice forward, then the axes of negative steps reversed. No elements: any place will do."""
    parts = _parts(v)
    if len({p.axis for p in parts}) != len(parts):
        raise Unsupported("break.slice-twice")
    y = sliced(
        b, present(xs, 0),
        {p.axis: (ZERO if p.count == ZERO else p.start, p.count, p.step) for p in parts},
    )  # fmt: skip
    backward = tuple(sorted(p.axis for p in parts if p.reversed and p.count not in (ZERO, ONE)))
    return (b.reverse(y, backward) if backward else y,)


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


# ---- Split -------------------------------------------------------------------------------------


def split_sizes(v: NodeView) -> tuple[int, tuple[Dim, ...]]:
    """The axis, and the extent of every part along it.

    Told by `split` (an attribute before opset 13, an input at opset 1 and since 13), else equal
    parts; with `num_outputs` (opset 18) the last one may be smaller.
    """
    x, n = v.type(0), len(v.op.outputs)
    axis = normal_axis(v.op.int("axis", 0), x.rank)
    extent = x.dims[axis]
    if v.opset >= 13 or (v.opset < 2 and v.has(1)):
        sizes = from_constants(v, 1, "split") if v.has(1) else None
    else:
        given = v.op.ints("split")
        sizes = None if given is None else dims(given)
    if sizes is not None:
        if len(sizes) != n:
            raise Unsupported("break.split", parts=len(sizes), outputs=n)
        v.guards += same(sum(sizes, ZERO), extent, v.position, "guard.split")
        return axis, sizes
    if v.opset >= 18:
        each = ceil_div(extent, n)
        last = extent - each * (n - 1)
        if last.constant is not None and last.constant < 0:
            raise Unsupported("break.split", parts=str(extent), outputs=n)
        if not nonnegative(last):
            v.guards.append(Guard(ZERO, "<=", last, v.position, "guard.split"))
        return axis, (*(each,) * (n - 1), last)
    each = extent // n
    v.guards += same(each * n, extent, v.position, "guard.split")
    return axis, (each,) * n


def split_type(v: NodeView) -> tuple[TensorType, ...]:
    x = v.type(0)
    axis, sizes = split_sizes(v)
    return tuple(replace(x, shape=(*x.dims[:axis], n, *x.dims[axis + 1 :])) for n in sizes)


def split(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """One slice a part."""
    x = present(xs, 0)
    axis, sizes = split_sizes(v)
    parts: list[Value] = []
    at = ZERO
    for n in sizes:
        parts.append(sliced(b, x, {axis: (ZERO if n == ZERO else at, n, 1)}))
        at = at + n
    return tuple(parts)


# ---- ConstantOfShape and Range -----------------------------------------------------------------


def filled_type(v: NodeView) -> tuple[TensorType, ...]:
    """The shape is the input; the dtype is that of `value` (float32 zero by default)."""
    value = v.attribute_array("value")
    dtype = DType.f32 if value is None else DType.of(value.dtype)
    return (TensorType(dtype, from_constants(v, 0, "shape")),)


def filled(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """One constant, read everywhere."""
    (result,) = filled_type(v)
    require_compiled(result)
    value = v.attribute_array("value")
    number = 0.0 if value is None else value.reshape(-1)[0].item()
    return (b.expand(b.scalar(number, result.element), result.dims),)


def filled_value(v: NodeView) -> tuple[Dim, ...] | None:
    value, shape = v.attribute_array("value"), integers(v, 0)
    if value is None or value.dtype.kind not in "biu" or shape is None or len(shape) > 1:
        return None
    count = shape[0] if shape else 1
    element = integral(np.asarray(value))
    return element * count if element is not None and count <= KNOWN_CAP else None


def range_type(v: NodeView) -> tuple[TensorType, ...]:
    """`max(0, ceil((limit - start) / delta))` elements; symbolic for integers, delta constant."""
    t = v.type(0)
    arrays = [v.constant(k) for k in range(3)]
    known = [a for a in arrays if a is not None]
    if len(known) == 3:
        start, limit, delta = (a.reshape(()).item() for a in known)
        if delta == 0:
            raise Unsupported("break.range", delta=0)
        if t.element.is_integer:
            count = len(range(int(start), int(limit), int(delta)))
        else:
            count = max(0, math.ceil((limit - start) / delta))
        return (TensorType(t.element, (dim(count),)),)
    first, last, step = (from_constants(v, k, "range")[0] for k in range(3))
    by = step.constant
    if not by:
        raise Unsupported("break.range", delta=str(step))
    low, high = (first, last) if by > 0 else (last, first)
    v.guards.append(Guard(low, "<=", high, v.position, "guard.range"))
    return (TensorType(t.element, (ceil_div(high - low, abs(by)),)),)


def range_(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """start + k delta."""
    (result,) = range_type(v)
    start, delta = (b.reshape(present(xs, k), ()) for k in (0, 2))
    line = b.iota(result.dims, 0, result.element)
    if from_known(v, 2) != (ONE,):
        line = b.mul(line, delta)
    return (line if from_known(v, 0) == (ZERO,) else b.add(line, start),)


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
    Operator("Gather", (1, 11, 13), gather_type, gather, gather_value),
    Operator("GatherElements", (11, 13), gather_elements_type, gather_elements),
    Operator("ScatterElements", (11, 13, 16, 18), same_type, scatter_elements),
    Operator("Scatter", (9, 11), same_type, scatter_elements),
    Operator("Concat", (1, 4, 11, 13), concat_type, concat, concat_value),
    Operator("Slice", (1, 10, 11, 13), slice_type, slice_, slice_value),
    Operator("Split", (1, 2, 11, 13, 18), split_type, split),
    Operator("ConstantOfShape", (9, 20, 21, 23, 24, 25), filled_type, filled, filled_value),
    Operator("Range", (11, 27), range_type, range_, range_value),
)

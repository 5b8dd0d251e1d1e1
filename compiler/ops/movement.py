"""Pad, Tile, DepthToSpace, SpaceToDepth, and matrices made of indices: Trilu, OneHot, EyeLike.

    Pad, constant: y[k] = x[k - before] inside, else c
    edge:    y[k] = x[min(max(k - before, 0), n - 1)]        wrap: y[k] = x[(k - before) mod n]
    reflect: y[k] = x[min(m, p - m)],   m = (k - before) mod p,   p = 2 (n - 1)
    Tile, DepthToSpace, SpaceToDepth: reshape, then expand or permute, then reshape
    Trilu: y[i, j] = x[i, j] if j ≥ i + k else 0

Teaches: these are index maps all of them; the elements never needed a kernel of their own.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir.builder import Builder
from compiler.ir.dims import ONE, ZERO, Dim, Guard, dim, dims
from compiler.ir.graph import Value
from compiler.ir.shapes import same
from compiler.ir.types import DType, TensorType

from .base import NodeView, Operator, Unsupported, require_compiled
from .cast import target
from .rules import (
    Inputs,
    attribute_or_input,
    from_constants,
    nonnegative,
    normal_axis,
    present,
    require_one_dtype,
    require_some,
    sliced,
)

# ---- Pad ---------------------------------------------------------------------------------------


def pads(v: NodeView) -> list[tuple[Dim, Dim]]:
    """How many elements come before and after every axis; negative where they are cut off.

    An attribute before opset 11 (`paddings` at opset 1), an input since, for `axes` since 18.
    """
    rank = v.type(0).rank
    if v.opset < 11:
        given = v.op.ints("paddings" if v.opset < 2 else "pads")
        if given is None:
            raise Unsupported("break.attribute-missing", attribute="pads")
        amounts = dims(given)
    else:
        amounts = from_constants(v, 1, "pads")
    axes = attribute_or_input(v, "axes", 3, input_since=18) if v.opset >= 18 else None
    at = [normal_axis(a, rank) for a in (range(rank) if axes is None else axes)]
    if len(amounts) != 2 * len(at):
        raise Unsupported("break.pads", pads=len(amounts), axes=len(at))
    found = [(ZERO, ZERO)] * rank
    for k, axis in enumerate(at):
        found[axis] = amounts[k], amounts[len(at) + k]
    return found


def pad_type(v: NodeView) -> tuple[TensorType, ...]:
    x = v.type(0)
    shape: list[Dim] = []
    for d, (before, after) in zip(x.dims, pads(v), strict=True):
        extent = d + before + after
        if extent.constant is not None and extent.constant < 0:
            raise Unsupported("break.pads", pads=f"{before},{after}", axes=str(d))
        if not nonnegative(extent):
            v.guards.append(Guard(ZERO, "<=", extent, v.position, "guard.pad"))
        shape.append(extent)
    return (replace(x, shape=tuple(shape)),)


def pad(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """Negative amounts are sliced off; the rest is `pad`, or, where it repeats x, `gather`."""
    x, mode, amounts = present(xs, 0), v.op.str("mode", "constant"), pads(v)
    pad_type(v)
    if mode == "constant":
        return (_constant(b, v, x, xs, amounts),)
    if mode not in ("edge", "reflect", "wrap"):
        raise Unsupported("break.mode", mode=mode)
    for axis, (before, after) in enumerate(amounts):
        if before != ZERO or after != ZERO:
            require_some(v, x.type.dims[axis])
            x = b.gather(x, _source(b, x.type.dims[axis], before, after, mode), axis)
    return (x,)


def _constant(
    b: Builder, v: NodeView, x: Value, xs: Inputs, amounts: list[tuple[Dim, Dim]]
) -> Value:
    fill = xs[2] if v.opset >= 11 and len(xs) > 2 else None
    if fill is not None:
        require_one_dtype(x, fill)
        b.ensure_same(fill.type.numel, ONE, "guard.reshape")
        fill = b.reshape(fill, ())
    elif x.type.element is DType.bool:
        fill = b.like(False, x)
    else:
        fill = b.like(v.op.float("value", 0.0) if v.opset < 11 else 0, x)
    cuts: dict[int, tuple[Dim, Dim, int]] = {}
    before: list[Dim] = []
    after: list[Dim] = []
    for axis, (low, high) in enumerate(amounts):
        for amount in (low, high):
            if amount.constant is None and not nonnegative(amount):
                v.guards.append(Guard(ZERO, "<=", amount, v.position, "guard.pad"))
        first, last = (-d if (d.constant or 0) < 0 else ZERO for d in (low, high))
        if first != ZERO or last != ZERO:
            left = x.type.dims[axis] - first - last
            if left.constant is not None and left.constant < 0:
                raise Unsupported("break.pads", pads=f"{low},{high}", axes=str(x.type.dims[axis]))
            if not nonnegative(left):
                v.guards.append(Guard(ZERO, "<=", left, v.position, "guard.pad"))
            cuts[axis] = first, left, 1
        before.append(ZERO if first != ZERO else low)
        after.append(ZERO if last != ZERO else high)
    x = sliced(b, x, cuts)
    if all(d == ZERO for d in (*before, *after)):
        return x
    return b.pad(x, fill, before, after)


def _source(b: Builder, extent: Dim, before: Dim, after: Dim, mode: str) -> Value:
    """Where along the axis every element of the result is read."""

    def number(d: Dim) -> Value:
        return b.dim_scalar(d)

    at = b.sub(b.iota((extent + before + after,), 0), number(before))
    if mode == "edge":
        return b.minimum(b.maximum(at, number(ZERO)), number(extent - 1))
    if mode == "wrap":
        return b.map("mod", at, number(extent))
    period = number(2 * (extent - 1))
    along = b.map("mod", at, period)
    return b.minimum(along, b.sub(period, along))


# ---- Tile --------------------------------------------------------------------------------------


def repeats(v: NodeView) -> tuple[Dim, ...]:
    """How often each axis is repeated; Unsupported in the form of opset 1."""
    if v.opset < 6:
        raise Unsupported("break.opset", opset=v.opset)
    found = from_constants(v, 1, "repeats")
    if len(found) != v.type(0).rank:
        raise Unsupported("break.rank", rank=len(found))
    return found


def tile_type(v: NodeView) -> tuple[TensorType, ...]:
    x = v.type(0)
    shape = tuple(d * n for d, n in zip(x.dims, repeats(v), strict=True))
    return (replace(x, shape=shape),)


def tile(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """[a, b] as [1, a, 1, b], expanded to [m, a, n, b], read as [m a, n b]."""
    x = present(xs, 0)
    apart: list[Dim] = []
    wide: list[Dim] = []
    for d, n in zip(x.type.dims, repeats(v), strict=True):
        if n != ONE:
            apart.append(ONE)
            wide.append(n)
        apart.append(d)
        wide.append(d)
    (result,) = tile_type(v)
    return (b.reshape(b.expand(b.reshape(x, apart), wide), result.dims),)


# ---- DepthToSpace and SpaceToDepth -------------------------------------------------------------


def _block(v: NodeView) -> tuple[tuple[Dim, Dim, Dim, Dim], int]:
    x, block = v.type(0), v.op.int("blocksize")
    if x.rank != 4:
        raise Unsupported("break.rank", rank=x.rank)
    n, c, h, w = x.dims
    return (n, c, h, w), block


def depth_to_space_type(v: NodeView) -> tuple[TensorType, ...]:
    """[n, c, h, w] to [n, c / k², h k, w k]."""
    (n, c, h, w), k = _block(v)
    v.guards += same(c // (k * k) * (k * k), c, v.position, "guard.groups")
    return (replace(v.type(0), shape=(n, c // (k * k), h * k, w * k)),)


def depth_to_space(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """Blocks of channels as blocks of pixels: block before channel (DCR) or after it (CRD)."""
    (n, c, h, w), k = _block(v)
    (result,) = depth_to_space_type(v)
    mode = v.op.str("mode", "DCR")
    if mode == "DCR":
        x = b.reshape(present(xs, 0), (n, k, k, c // (k * k), h, w))
        x = b.permute(x, (0, 3, 4, 1, 5, 2))
    elif mode == "CRD":
        x = b.reshape(present(xs, 0), (n, c // (k * k), k, k, h, w))
        x = b.permute(x, (0, 1, 4, 2, 5, 3))
    else:
        raise Unsupported("break.mode", mode=mode)
    return (b.reshape(x, result.dims),)


def space_to_depth_type(v: NodeView) -> tuple[TensorType, ...]:
    """[n, c, h, w] to [n, c k², h / k, w / k]."""
    (n, c, h, w), k = _block(v)
    v.guards += same((h // k) * (w // k) * (k * k), h * w, v.position, "guard.groups")
    return (replace(v.type(0), shape=(n, c * (k * k), h // k, w // k)),)


def space_to_depth(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """Blocks of pixels as blocks of channels: block before channel (DCR) or after it (CRD)."""
    (n, c, h, w), k = _block(v)
    (result,) = space_to_depth_type(v)
    mode = v.op.str("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise Unsupported("break.mode", mode=mode)
    x = b.reshape(present(xs, 0), (n, c, h // k, k, w // k, k))
    x = b.permute(x, (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return (b.reshape(x, result.dims),)


# ---- matrices of indices -----------------------------------------------------------------------


def trilu_type(v: NodeView) -> tuple[TensorType, ...]:
    if v.type(0).rank < 2:
        raise Unsupported("break.rank", rank=v.type(0).rank)
    return (v.type(0),)


def trilu(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """The part on and above the k-th diagonal (`upper`, the default), or on and below it."""
    x = present(xs, 0)
    matrix = x.type.dims[-2:]
    row, column = b.iota(matrix, 0), b.iota(matrix, 1)
    if v.has(1):
        k = present(xs, 1)
        b.ensure_same(k.type.numel, ONE, "guard.reshape")
        row = b.add(row, b.reshape(k, ()))
    kept = b.compare("ge" if v.op.int("upper", 1) else "le", column, row)
    zero = b.like(False if x.type.element is DType.bool else 0, x)
    return (b.select(kept, x, zero),)


def one_hot_type(v: NodeView) -> tuple[TensorType, ...]:
    """The shape of the indices with `depth` at `axis` (default the last), the dtype of values."""
    indices = v.type(0)
    axis = normal_axis(v.op.int("axis", -1), indices.rank + 1)
    depth = from_constants(v, 1, "depth")[0]
    shape = (*indices.dims[:axis], depth, *indices.dims[axis:])
    return (TensorType(v.type(2).element, shape),)


def one_hot(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """`values[1]` where the index along the axis is the one given (negative: from the end)."""
    indices, values = present(xs, 0), present(xs, 2)
    if not indices.type.element.is_integer:
        raise Unsupported("break.dtype", dtype=indices.type.element.value)
    (result,) = one_hot_type(v)
    axis = normal_axis(v.op.int("axis", -1), result.rank)
    at = b.reshape(
        b.cast(indices, DType.i64), (*indices.type.dims[:axis], ONE, *indices.type.dims[axis:])
    )
    wrapped = b.add(at, b.dim_scalar(result.dims[axis]))
    at = b.select(b.compare("lt", at, b.like(0, at)), wrapped, at)
    hit = b.compare("eq", b.iota(result.dims, axis), at)
    b.ensure_same(values.type.numel, 2, "guard.reshape")
    off, on = (
        b.reshape(sliced(b, values, {0: (dim(k), ONE, 1)}), ()) for k in (0, 1)
    )
    return (b.select(hit, on, off),)


def eye_type(v: NodeView) -> tuple[TensorType, ...]:
    x = v.type(0)
    if x.rank != 2:
        raise Unsupported("break.rank", rank=x.rank)
    return (x if v.op.get("dtype") is None else replace(x, dtype=target(v, "dtype")),)


def eye(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """1 on the k-th diagonal of a matrix of the shape of x."""
    (result,) = eye_type(v)
    require_compiled(result)
    row, column = b.iota(result.dims, 0), b.iota(result.dims, 1)
    hit = b.compare("eq", b.add(row, b.like(v.op.int("k", 0), row)), column)
    return (b.cast(hit, result.element),)


OPERATORS = (
    Operator("Pad", (1, 2, 11, 13, 18, 19, 21, 23, 24, 25), pad_type, pad),
    Operator("Tile", (1, 6, 13), tile_type, tile),
    Operator("DepthToSpace", (1, 11, 13, 28), depth_to_space_type, depth_to_space),
    Operator("SpaceToDepth", (1, 13, 28), space_to_depth_type, space_to_depth),
    Operator("Trilu", (14,), trilu_type, trilu),
    Operator("OneHot", (9, 11, 28), one_hot_type, one_hot),
    Operator("EyeLike", (9, 22), eye_type, eye),
)

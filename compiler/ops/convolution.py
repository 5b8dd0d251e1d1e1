"""Convolution and pooling: a window slides over the spatial axes.

    window: X[n, c, o, k] = x[n, c, o s + k d - p]        outside of x: 0, or -inf for a maximum
    Conv:        y[n, m, o] = Σ_c Σ_k X[n, c, o, k] w[m, c, k] + b[m]
    MaxPool:     y[n, c, o] = max_k X[n, c, o, k]
    AveragePool: y[n, c, o] = Σ_k X[n, c, o, k] / (how many k count)

with stride s, dilation d, padding p, for one, two or three spatial axes. There are
⌊(n + p + q - ((K - 1) d + 1)) / s⌋ + 1 windows along an axis, ⌈…⌉ + 1 with `ceil_mode`, less one
that would start in the padding at the end. The window is an index map: nothing is copied.

Teaches: a convolution is a matrix product over a view, and pooling a reduction over the same view.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from compiler.ir.builder import Builder
from compiler.ir.dims import ONE, ZERO, Dim, Guard, ceil_div, dim
from compiler.ir.graph import Value
from compiler.ir.shapes import same
from compiler.ir.types import DType, TensorType

from .base import NodeView, Operator, Unsupported
from .reduction import count
from .rules import Inputs, at_most, nonnegative, present, require_float, require_one_dtype

PLACES, OFFSETS = "zyx", "dhw"
"""Letters of the spatial axes and of the axes of the kernel, from the last one back."""


@dataclass(frozen=True)
class Axis:
    """The windows along one spatial axis of `extent` elements."""

    extent: Dim
    size: int
    stride: int
    dilation: int
    before: Dim
    after: Dim
    """As declared, or as SAME asks for: what counts as padding."""
    spare: Dim = ZERO
    """What the last window reaches beyond the padding (`ceil_mode`); may be negative."""

    @property
    def reach(self) -> int:
        """From the first element of a window to one past its last."""
        return (self.size - 1) * self.dilation + 1

    @property
    def windows(self) -> Dim:
        room = self.before + self.extent + self.after + self.spare - self.reach
        return room // self.stride + 1


def _numbers(v: NodeView, name: str, n: int, default: int) -> tuple[int, ...]:
    """An attribute of one positive integer a spatial axis."""
    given = v.op.ints(name) or (default,) * n
    if len(given) != n:
        raise Unsupported("break.rank", rank=len(given))
    if any(k < 1 for k in given):
        raise Unsupported("break.mode", mode=f"{name}={','.join(map(str, given))}")
    return given


def _same_padding(extent: Dim, stride: int, reach: int, lower: bool) -> tuple[Dim, Dim]:
    """What gives ⌈extent / stride⌉ windows; the odd element at the end, or at the start."""
    windows = ceil_div(extent, stride)
    total = (windows - 1) * stride + reach - extent
    if total.constant is not None:
        total = dim(max(0, total.constant))
    elif reach < stride:
        raise Unsupported("break.symbolic-padding", extent=str(extent))
    half = total // 2
    return (total - half, half) if lower else (half, total - half)


def _spare(axis: Axis) -> Dim:
    """With `ceil_mode`: how far the last window reaches over the padding that is declared."""
    room = axis.before + axis.extent + axis.after - axis.reach
    steps = ceil_div(room, axis.stride)
    begin = steps * axis.stride
    limit = axis.extent + axis.before
    if begin.constant is not None and limit.constant is not None:
        steps = steps if begin.constant < limit.constant else steps - 1
    elif not at_most(axis.after + axis.stride, dim(axis.reach)):
        raise Unsupported("break.symbolic-padding", extent=str(axis.extent))
    return steps * axis.stride - room


def axes_of(v: NodeView, sizes: tuple[int, ...]) -> tuple[Axis, ...]:
    """The windows along every spatial axis, from the attributes of a Conv or a pooling."""
    x, n = v.type(0), len(sizes)
    if x.rank != n + 2 or not 1 <= n <= 3:
        raise Unsupported("break.rank", rank=x.rank)
    strides, dilations = _numbers(v, "strides", n, 1), _numbers(v, "dilations", n, 1)
    auto = v.op.str("auto_pad", "NOTSET") or "NOTSET"
    pads = v.op.ints("pads") or (0,) * (2 * n)
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise Unsupported("break.mode", mode=auto)
    if len(pads) != 2 * n or any(p < 0 for p in pads):
        raise Unsupported("break.pads", pads=",".join(map(str, pads)), axes=n)
    found: list[Axis] = []
    for k, extent in enumerate(x.dims[2:]):
        before, after = dim(pads[k]), dim(pads[n + k])
        reach = (sizes[k] - 1) * dilations[k] + 1
        if auto == "VALID":
            before = after = ZERO
        elif auto != "NOTSET":
            before, after = _same_padding(extent, strides[k], reach, auto == "SAME_LOWER")
        room = before + extent + after - reach
        if room.constant is not None and room.constant < 0:
            raise Unsupported("break.window", size=reach, extent=str(before + extent + after))
        axis = Axis(extent, sizes[k], strides[k], dilations[k], before, after)
        if not nonnegative(room):
            v.guards.append(Guard(ZERO, "<=", room, v.position, "guard.window"))
        if v.op.int("ceil_mode", 0) and auto == "NOTSET":
            axis = replace(axis, spare=_spare(axis))
        found.append(axis)
    return tuple(found)


def windowed(b: Builder, x: Value, value: Value, axes: tuple[Axis, ...], first: int = 2) -> Value:
    """The `window` of x along its axes from `first` on."""
    return b.window(
        x, value, tuple(range(first, first + len(axes))),
        tuple(a.size for a in axes), tuple(a.stride for a in axes),
        tuple(a.dilation for a in axes),
        tuple(a.before for a in axes), tuple(a.after + a.spare for a in axes),
    )  # fmt: skip


# ---- Conv --------------------------------------------------------------------------------------


def _kernel(v: NodeView) -> tuple[int, ...]:
    """The extents of the kernel, which the weights have; Unsupported where they are symbols."""
    w = v.type(1)
    if w.rank < 3 or w.rank != v.type(0).rank:
        raise Unsupported("break.rank", rank=w.rank)
    sizes = tuple(d.constant for d in w.dims[2:])
    known = tuple(n for n in sizes if n is not None)
    if len(known) != len(sizes) or not all(known):
        raise Unsupported("break.symbolic-padding", extent=",".join(map(str, w.dims[2:])))
    given = v.op.ints("kernel_shape")
    if given is not None and given != known:
        raise Unsupported("break.shapes", left=",".join(map(str, given)), right=str(known))
    return known


def conv_type(v: NodeView) -> tuple[TensorType, ...]:
    """[n, c, …] and [m, c / group, …] give [n, m, …]."""
    x, w = v.type(0), v.type(1)
    axes, group = axes_of(v, _kernel(v)), v.op.int("group", 1)
    v.guards += same(x.dims[1], w.dims[1] * group, v.position, "guard.contract")
    v.guards += same(w.dims[0] // group * group, w.dims[0], v.position, "guard.groups")
    return (replace(x, shape=(x.dims[0], w.dims[0], *(a.windows for a in axes))),)


def conv(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """`window` and `contract`; groups are an axis of their own; one bias a channel."""
    x, w = present(xs, 0), present(xs, 1)
    require_float(x)
    require_one_dtype(x, w)
    (result,) = conv_type(v)
    axes, group = axes_of(v, _kernel(v)), v.op.int("group", 1)
    place, offset = PLACES[-len(axes) :], OFFSETS[-len(axes) :]
    zero, g = b.like(0, x), ""
    if group > 1:
        g = "g"
        x = b.reshape(x, (x.type.dims[0], dim(group), w.type.dims[1], *x.type.dims[2:]))
        w = b.reshape(w, (dim(group), w.type.dims[0] // group, *w.type.dims[1:]))
    seen = windowed(b, x, zero, axes, first=2 + len(g))
    y = b.contract(seen, w, f"n{g}c{place}{offset},{g}oc{offset}->n{g}o{place}")
    y = b.reshape(y, result.dims)
    bias = xs[2] if len(xs) > 2 else None
    if bias is None:
        return (y,)
    require_one_dtype(y, bias)
    b.ensure_same(bias.type.numel, result.dims[1], "guard.broadcast")
    return (b.add(y, b.reshape(bias, (bias.type.numel, *(ONE for _ in axes)))),)


# ---- pooling -----------------------------------------------------------------------------------


def _pool_axes(v: NodeView) -> tuple[Axis, ...]:
    sizes = v.op.ints("kernel_shape")
    if not sizes:
        raise Unsupported("break.attribute-missing", attribute="kernel_shape")
    return axes_of(v, _numbers(v, "kernel_shape", len(sizes), 1))


def pool_type(v: NodeView) -> tuple[TensorType, ...]:
    """[n, c, …] with the number of windows along every spatial axis; Indices of a MaxPool too."""
    x = v.type(0)
    y = replace(x, shape=(*x.dims[:2], *(a.windows for a in _pool_axes(v))))
    return (y, replace(y, dtype=DType.i64))[: len(v.op.outputs)]


def _over(b: Builder, function: str, seen: Value, n: int) -> Value:
    """The reduction of the last n axes, which go."""
    rank = seen.type.rank
    found = b.reduce(function, seen, range(rank - n, rank))
    return b.reshape(found, seen.type.dims[: rank - n])


def _lowest(x: Value) -> float | int:
    if x.type.element.is_float:
        return -math.inf
    return int(np.iinfo(x.type.element.numpy().name).min)


def max_pool(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """The maximum of the elements that a window covers; padding never wins, NaN does."""
    if len(v.op.outputs) > 1:
        raise Unsupported("break.indices")
    x, axes = present(xs, 0), _pool_axes(v)
    return (_over(b, "max", windowed(b, x, b.like(_lowest(x), x), axes), len(axes)),)


def _counts(b: Builder, axis: Axis, include: bool) -> Value | None:
    """How many elements of every window count, a vector; None where that is `size` everywhere.

    Those of x, with `include` those of the declared padding too.
    """
    low, extent = axis.before, axis.extent
    if include:
        low, extent = ZERO, axis.before + axis.extent + axis.after
    beyond = axis.before + axis.extent + axis.after + axis.spare - low - extent
    if low == ZERO and nonnegative(-beyond):
        return None
    start = b.mul(b.iota((axis.windows,), 0), b.dim_scalar(axis.stride))
    start = b.sub(start, b.dim_scalar(low))
    last = _steps(b, axis, b.sub(b.dim_scalar(extent), start))
    return b.sub(last, _steps(b, axis, b.map("neg", start)))


def _steps(b: Builder, axis: Axis, span: Value) -> Value:
    """How many of a window's offsets 0, d, 2 d, … are below `span`: between 0 and `size`."""
    span = b.maximum(span, b.dim_scalar(0))
    if axis.dilation > 1:
        span = b.div(b.add(span, b.dim_scalar(axis.dilation - 1)), b.dim_scalar(axis.dilation))
    return b.minimum(span, b.dim_scalar(axis.size))


def average_pool(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """The sum over a window divided by how many elements count.

    Those are the window's elements of x, with `count_include_pad` also those of the declared
    padding, never those beyond it. The count is a product of one number an axis.
    """
    x, axes = present(xs, 0), _pool_axes(v)
    require_float(x)
    total = _over(b, "sum", windowed(b, x, b.like(0, x), axes), len(axes))
    whole, counts = 1, None
    for k, axis in enumerate(axes):
        found = _counts(b, axis, bool(v.op.int("count_include_pad", 0)))
        if found is None:
            whole *= axis.size
            continue
        column = b.reshape(found, (found.type.numel, *(ONE for _ in axes[k + 1 :])))
        counts = column if counts is None else b.mul(counts, column)
    if counts is None:
        return (b.div(total, b.like(whole, x)),)
    if whole != 1:
        counts = b.mul(counts, b.like(whole, counts))
    return (b.div(total, b.cast(counts, x.type.element)),)


# ---- over the whole image ----------------------------------------------------------------------


def _spatial(x: TensorType) -> tuple[int, ...]:
    if x.rank < 2:
        raise Unsupported("break.rank", rank=x.rank)
    return tuple(range(2, x.rank))


def global_type(v: NodeView) -> tuple[TensorType, ...]:
    """All spatial axes become 1."""
    x = v.type(0)
    return (replace(x, shape=(*x.dims[:2], *(ONE for _ in _spatial(x)))),)


def global_average(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """The mean over all spatial axes."""
    x = present(xs, 0)
    require_float(x)
    axes = _spatial(x.type)
    return (b.div(b.reduce("sum", x, axes), count(b, x, axes)),)


def global_max(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """The maximum over all spatial axes."""
    x = present(xs, 0)
    return (b.reduce("max", x, _spatial(x.type)),)


OPERATORS = (
    Operator("Conv", (1, 11, 22), conv_type, conv),
    Operator("MaxPool", (1, 8, 10, 11, 12, 22), pool_type, max_pool),
    Operator("AveragePool", (1, 7, 10, 11, 19, 22), pool_type, average_pool),
    Operator("GlobalAveragePool", (1, 22), global_type, global_average),
    Operator("GlobalMaxPool", (1, 22), global_type, global_max),
)

"""Normalisations: elements scaled by what a whole row, group or channel says.

    softmax(x)[i] = exp(x[i] - max x) / Σ_j exp(x[j] - max x)

    logsoftmax(x)[i] = x[i] - max x - log Σ_j exp(x[j] - max x)

    layernorm(x)[i] = γ[i] (x[i] - μ) / √(σ² + ε) + β[i],   μ = (Σ x)/n,   σ² = (Σ (x - μ)²)/n

    batchnorm(x)[n, c, …] = γ[c] (x[n, c, …] - μ[c]) / √(σ²[c] + ε) + β[c],   μ and σ² are weights

Teaches: five or nine small operators, each a trip through memory, are one pass over a row that
stays in cache.
"""

from __future__ import annotations

from compiler.ir.builder import Builder
from compiler.ir.dims import ONE, dim, product
from compiler.ir.graph import Value
from compiler.ir.types import DType, TensorType

from .base import NodeView, Operator, Unsupported
from .reduction import count, l1, l2
from .rules import (
    Inputs,
    normal_axis,
    present,
    require_fits,
    require_float,
    require_one_dtype,
    require_some,
    same_type,
)


def softmax_axes(v: NodeView) -> tuple[int, ...]:
    """One axis (default the last). Before opset 13 every axis from `axis` (default 1) on.

    The old definition flattens the input to two dimensions and normalises the second, which is
    the joint sum over all axes it holds.
    """
    rank = v.type(0).rank
    if v.opset >= 13:
        return (normal_axis(v.op.int("axis", -1), rank),)
    return tuple(range(normal_axis(v.op.int("axis", 1), rank, one_past=True), rank))


def softmax(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """max, sub, exp, sum, div."""
    x, axes = present(xs, 0), softmax_axes(v)
    require_float(x)
    shifted = b.sub(x, b.reduce("max", x, axes))
    powers = b.map("exp", shifted)
    return (b.div(powers, b.reduce("sum", powers, axes)),)


def log_softmax(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """max, sub, exp, sum, log, sub: the logarithm never sees a quotient that underflowed."""
    x, axes = present(xs, 0), softmax_axes(v)
    require_float(x)
    shifted = b.sub(x, b.reduce("max", x, axes))
    total = b.reduce("sum", b.map("exp", shifted), axes)
    return (b.sub(shifted, b.map("log", total)),)


def hardmax(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """1 at the first maximum along the axes of `softmax_axes`, else 0."""
    x, axes = present(xs, 0), softmax_axes(v)
    require_float(x)
    shape = x.type.dims
    if len(axes) > 1:
        x = b.reshape(x, (*shape[: axes[0]], product(shape[axes[0] :])))
    if not axes:
        return (b.expand(b.like(1, x), shape),)
    require_some(v, x.type.dims[axes[0]])
    found = b.argreduce("max", x, axes[0])
    hit = b.compare("eq", b.iota(x.type.dims, axes[0]), found)
    return (b.reshape(b.cast(hit, x.type.element), shape),)


def layer_norm_axes(v: NodeView) -> tuple[int, ...]:
    rank = v.type(0).rank
    return tuple(range(normal_axis(v.op.int("axis", -1), rank), rank))


def layer_norm_type(v: NodeView) -> tuple[TensorType, ...]:
    """Y as X; Mean and InvStdDev with extent 1 along the normalised axes, in `stash_type`."""
    x, axes = v.type(0), layer_norm_axes(v)
    stash = DType.f32 if v.op.int("stash_type", 1) == 1 else x.element
    row = TensorType(stash, tuple(ONE if k in axes else d for k, d in enumerate(x.dims)))
    return (x, row, row)[: len(v.op.outputs)]


def layer_norm(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """Mean, deviation (once), variance, then divide, scale, shift.

    Scale and bias broadcast to X and never grow it. Unsupported unless statistics are float32.
    """
    if v.op.int("stash_type", 1) != 1:
        raise Unsupported("break.stash-type", stash_type=v.op.int("stash_type"))
    x, scale, axes = present(xs, 0), present(xs, 1), layer_norm_axes(v)
    bias = xs[2] if len(xs) > 2 else None
    require_float(x)
    require_one_dtype(x, scale, *([bias] if bias is not None else []))
    n = count(b, x, axes)
    mu = b.div(b.reduce("sum", x, axes), n)
    deviation = b.sub(x, mu)
    variance = b.div(b.reduce("sum", b.mul(deviation, deviation), axes), n)
    spread = b.map("sqrt", b.add(variance, b.like(v.op.float("epsilon", 1e-5), x)))
    require_fits(b, scale, x.type.dims)
    y = b.mul(b.div(deviation, spread), scale)
    if bias is not None:
        require_fits(b, bias, x.type.dims)
        y = b.add(y, bias)
    if len(v.op.outputs) < 3:
        return (y, mu)[: len(v.op.outputs)]
    return (y, mu, b.div(b.like(1, spread), spread))


# ---- BatchNormalization --------------------------------------------------------------------------


def in_training(v: NodeView) -> bool:
    """Whether a BatchNormalization takes its statistics from the batch.

    An attribute tells since opset 14; before, whether the statistics are results too; before
    opset 7 whether `is_test` is 0.
    """
    if v.opset >= 14:
        return bool(v.op.int("training_mode", 0))
    return len(v.op.outputs) > 1 if v.opset >= 7 else not v.op.int("is_test", 0)


def batch_norm_type(v: NodeView) -> tuple[TensorType, ...]:
    """The type of X; Unsupported in training."""
    if in_training(v):
        raise Unsupported("break.training")
    return (v.type(0),)


def batch_norm(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """Subtract, divide, scale, shift, with one number of each a channel (axis 1).

    Before opset 9 `spatial=0` gives one a feature: the parameters have all axes but the first.
    """
    batch_norm_type(v)
    x, *weights = (present(xs, k) for k in range(5))
    require_float(x)
    require_one_dtype(x, *weights)
    if v.op.int("spatial", 1) and x.type.rank > 2:
        rest = (ONE,) * (x.type.rank - 2)
        weights = [b.reshape(w, (w.type.numel, *rest)) for w in weights]
    for w in weights:
        require_fits(b, w, x.type.dims)
    scale, bias, mu, variance = weights
    spread = b.map("sqrt", b.add(variance, b.like(v.op.float("epsilon", 1e-5), x)))
    return (b.add(b.mul(b.div(b.sub(x, mu), spread), scale), bias),)


# ---- groups --------------------------------------------------------------------------------------


def _standardised(b: Builder, x: Value, axes: tuple[int, ...], epsilon: float) -> Value:
    """(x - μ) / √(σ² + ε) over `axes`."""
    n = count(b, x, axes)
    deviation = b.sub(x, b.div(b.reduce("sum", x, axes), n))
    variance = b.div(b.reduce("sum", b.mul(deviation, deviation), axes), n)
    return b.div(deviation, b.map("sqrt", b.add(variance, b.like(epsilon, x))))


def _scaled(b: Builder, y: Value, scale: Value, bias: Value) -> Value:
    """One scale and bias a channel (axis 1)."""
    rest = (ONE,) * (y.type.rank - 2)
    factor, offset = (b.reshape(w, (w.type.numel, *rest)) for w in (scale, bias))
    require_fits(b, factor, y.type.dims)
    require_fits(b, offset, y.type.dims)
    return b.add(b.mul(y, factor), offset)


def _image(xs: Inputs) -> tuple[Value, Value, Value]:
    """x, scale and bias of one float dtype, x of rank 2 or more."""
    x, scale, bias = (present(xs, k) for k in range(3))
    require_float(x)
    require_one_dtype(x, scale, bias)
    if x.type.rank < 2:
        raise Unsupported("break.rank", rank=x.type.rank)
    return x, scale, bias


def instance_norm(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """Standardise every channel of every example by itself, then scale and shift."""
    x, scale, bias = _image(xs)
    axes = tuple(range(2, x.type.rank))
    return (_scaled(b, _standardised(b, x, axes, v.op.float("epsilon", 1e-5)), scale, bias),)


def group_norm(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """Standardise groups of channels; scale and shift channels (before opset 21: groups)."""
    x, scale, bias = _image(xs)
    if v.op.int("stash_type", 1) != 1:
        raise Unsupported("break.stash-type", stash_type=v.op.int("stash_type"))
    groups = v.op.int("num_groups")
    batch, channels, *spatial = x.type.dims
    each = channels // groups
    b.ensure_same(each * groups, channels, "guard.groups")
    split = b.reshape(x, (batch, dim(groups), each, *spatial))
    axes = tuple(range(2, split.type.rank))
    y = _standardised(b, split, axes, v.op.float("epsilon", 1e-5))
    if v.opset < 21:
        return (b.reshape(_scaled(b, y, scale, bias), x.type.dims),)
    return (_scaled(b, b.reshape(y, x.type.dims), scale, bias),)


def rms_norm(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """x / √(mean x² + ε), scaled, over the axes from `axis` on."""
    x, scale, axes = present(xs, 0), present(xs, 1), layer_norm_axes(v)
    require_float(x)
    require_one_dtype(x, scale)
    if v.op.int("stash_type", 1) != 1:
        raise Unsupported("break.stash-type", stash_type=v.op.int("stash_type"))
    require_fits(b, scale, x.type.dims)
    power = b.div(b.reduce("sum", b.mul(x, x), axes), count(b, x, axes))
    spread = b.map("sqrt", b.add(power, b.like(v.op.float("epsilon", 1e-5), x)))
    return (b.mul(b.div(x, spread), scale),)


def mean_variance_norm(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """(x - μ) / (σ + 1e-9) over `axes` (default 0, 2, 3)."""
    x = present(xs, 0)
    require_float(x)
    given = v.op.ints("axes") or (0, 2, 3)
    axes = tuple(sorted({normal_axis(a, x.type.rank) for a in given}))
    n = count(b, x, axes)
    deviation = b.sub(x, b.div(b.reduce("sum", x, axes), n))
    variance = b.div(b.reduce("sum", b.mul(deviation, deviation), axes), n)
    return (b.div(deviation, b.add(b.map("sqrt", variance), b.like(1e-9, x))),)


def lp_norm(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """x over its norm along an axis, p 1 or 2; 0 where the norm is 0."""
    x = present(xs, 0)
    require_float(x)
    axes, p = (normal_axis(v.op.int("axis", -1), x.type.rank),), v.op.int("p", 2)
    if p not in (1, 2):
        raise Unsupported("break.mode", mode=f"p={p}")
    norm = (l1 if p == 1 else l2)(b, x, axes)
    zero = b.like(0, x)
    return (b.select(b.compare("eq", norm, zero), zero, b.div(x, norm)),)


def local_response(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """x / (bias + alpha/size Σ x²)^beta, the sum over `size` neighbouring channels."""
    x, size = present(xs, 0), v.op.int("size")
    require_float(x)
    if x.type.rank < 2:
        raise Unsupported("break.rank", rank=x.type.rank)
    before = (size - 1) // 2
    seen = b.window(
        b.mul(x, x), b.like(0, x), (1,), (size,), (1,), (1,), (before,), (size - 1 - before,)
    )
    total = b.reshape(b.reduce("sum", seen, (x.type.rank,)), x.type.dims)
    alpha = b.like(v.op.float("alpha", 1e-4) / size, x)
    base = b.add(b.mul(total, alpha), b.like(v.op.float("bias", 1.0), x))
    return (b.div(x, b.map("pow", base, b.like(v.op.float("beta", 0.75), x))),)


OPERATORS = (
    Operator("Softmax", (1, 11, 13), same_type, softmax),
    Operator("LogSoftmax", (1, 11, 13), same_type, log_softmax),
    Operator("Hardmax", (1, 11, 13), same_type, hardmax),
    Operator("LayerNormalization", (17,), layer_norm_type, layer_norm),
    Operator("RMSNormalization", (23,), same_type, rms_norm),
    Operator("BatchNormalization", (1, 6, 7, 9, 14, 15), batch_norm_type, batch_norm),
    Operator("InstanceNormalization", (1, 6, 22), same_type, instance_norm),
    Operator("GroupNormalization", (18, 21), same_type, group_norm),
    Operator("MeanVarianceNormalization", (9, 13), same_type, mean_variance_norm),
    Operator("LpNormalization", (1, 22), same_type, lp_norm),
    Operator("LRN", (1, 13), same_type, local_response),
)

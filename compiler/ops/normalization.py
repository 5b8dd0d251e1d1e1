"""Softmax and LayerNormalization: a row of elements, scaled by what the whole row says.

    softmax(x)[i] = exp(x[i] - max x) / Σ_j exp(x[j] - max x)

    layernorm(x)[i] = γ[i] (x[i] - μ) / √(σ² + ε) + β[i],   μ = (Σ x)/n,   σ² = (Σ (x - μ)²)/n

Teaches: five or nine small operators, each a trip through memory, are one pass over a row that
stays in cache.
"""

from __future__ import annotations

from compiler.ir.builder import Builder
from compiler.ir.dims import ONE
from compiler.ir.graph import Value
from compiler.ir.types import DType, TensorType

from .base import NodeView, Operator, Unsupported
from .reduction import count
from .rules import (
    Inputs,
    normal_axis,
    present,
    require_fits,
    require_float,
    require_one_dtype,
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


OPERATORS = (
    Operator("Softmax", (1, 11, 13), same_type, softmax),
    Operator("LayerNormalization", (17,), layer_norm_type, layer_norm),
)

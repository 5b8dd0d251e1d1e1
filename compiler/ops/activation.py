"""Activations: one bent line at every position.

    LeakyRelu: x < 0 ? a x : x          Elu: x < 0 ? a (eˣ - 1) : x
    Softplus: log(1 + eˣ)               Gelu: x Φ(x) = x (1 + erf(x / √2)) / 2

Each is spelled with the scalar functions that kernels have. Softplus is computed as
max(x, 0) + log(1 + e^-|x|), which neither overflows nor loses its tail to infinity.

Teaches: an operator with a name of its own is often three multiplications that want to be fused.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from compiler.ir.builder import Builder
from compiler.ir.dims import ONE
from compiler.ir.graph import Value

from .base import Decompose, NodeView, Operator, Unsupported
from .rules import Inputs, present, require_fits, require_float, require_one_dtype, same_type

Step = Callable[[Builder, NodeView, Value], Value]


def _on_floats(step: Step) -> Decompose:
    """`step` of the one floating-point input."""

    def decompose(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
        x = present(xs, 0)
        require_float(x)
        return (step(b, v, x),)

    return decompose


def _negative(b: Builder, x: Value) -> Value:
    return b.compare("lt", x, b.like(0, x))


def _expm1(b: Builder, x: Value) -> Value:
    return b.sub(b.map("exp", x), b.like(1, x))


def leaky_relu(b: Builder, v: NodeView, x: Value) -> Value:
    """alpha (default 0.01) times the negative part."""
    return b.select(_negative(b, x), b.mul(x, b.like(v.op.float("alpha", 0.01), x)), x)


def prelu(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """LeakyRelu with a slope that broadcasts to x; before opset 7 one number, or one a channel."""
    x, slope = present(xs, 0), present(xs, 1)
    require_one_dtype(x, slope)
    if v.opset < 7 and slope.type.numel != ONE:
        if slope.type.rank != 1 or x.type.rank < 2:
            raise Unsupported("break.rank", rank=slope.type.rank)
        slope = b.reshape(slope, (slope.type.dims[0], *(ONE for _ in x.type.dims[2:])))
    require_fits(b, slope, x.type.dims)
    return (b.select(_negative(b, x), b.mul(x, slope), x),)


def elu(b: Builder, v: NodeView, x: Value) -> Value:
    """alpha (default 1) times eˣ - 1 below zero."""
    below = b.mul(_expm1(b, x), b.like(v.op.float("alpha", 1.0), x))
    return b.select(_negative(b, x), below, x)


def selu(b: Builder, v: NodeView, x: Value) -> Value:
    """gamma times (alpha eˣ - alpha below zero, x above); opset 1 rounds its defaults."""
    old = v.opset < 6
    alpha = b.like(v.op.float("alpha", 1.6732 if old else 1.67326319217681884765625), x)
    gamma = b.like(v.op.float("gamma", 1.0507 if old else 1.05070102214813232421875), x)
    below = b.sub(b.mul(alpha, b.map("exp", x)), alpha)
    above = b.compare("gt", x, b.like(0, x))
    return b.mul(gamma, b.select(above, x, below))


def celu(b: Builder, v: NodeView, x: Value) -> Value:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1)), alpha 1 by default."""
    alpha, zero = b.like(v.op.float("alpha", 1.0), x), b.like(0, x)
    below = b.mul(alpha, _expm1(b, b.div(x, alpha)))
    return b.add(b.maximum(zero, x), b.minimum(zero, below))


def thresholded_relu(b: Builder, v: NodeView, x: Value) -> Value:
    """x where it is above alpha (default 1), else 0."""
    above = b.compare("gt", x, b.like(v.op.float("alpha", 1.0), x))
    return b.select(above, x, b.like(0, x))


def shrink(b: Builder, v: NodeView, x: Value) -> Value:
    """x moved toward 0 by `bias` where |x| > lambd (default 0.5), else 0."""
    bound, bias = v.op.float("lambd", 0.5), b.like(v.op.float("bias", 0.0), x)
    low, high = b.compare("lt", x, b.like(-bound, x)), b.compare("gt", x, b.like(bound, x))
    inner = b.select(high, b.sub(x, bias), b.like(0, x))
    return b.select(low, b.add(x, bias), inner)


def _hard_sigmoid(b: Builder, x: Value, alpha: float, beta: float) -> Value:
    line = b.add(b.mul(x, b.like(alpha, x)), b.like(beta, x))
    return b.maximum(b.like(0, x), b.minimum(b.like(1, x), line))


def hard_sigmoid(b: Builder, v: NodeView, x: Value) -> Value:
    """max(0, min(1, alpha x + beta)), by default x/5 + 1/2."""
    return _hard_sigmoid(b, x, v.op.float("alpha", 0.2), v.op.float("beta", 0.5))


def hard_swish(b: Builder, v: NodeView, x: Value) -> Value:
    """x max(0, min(1, x/6 + 1/2))."""
    return b.mul(x, _hard_sigmoid(b, x, 1 / 6, 0.5))


def _softplus(b: Builder, x: Value) -> Value:
    tail = b.map("exp", b.map("neg", b.map("abs", x)))
    return b.add(b.maximum(x, b.like(0, x)), b.map("log", b.add(b.like(1, x), tail)))


def softplus(b: Builder, v: NodeView, x: Value) -> Value:
    """log(1 + eˣ)."""
    return _softplus(b, x)


def softsign(b: Builder, v: NodeView, x: Value) -> Value:
    """x / (1 + |x|)."""
    return b.div(x, b.add(b.like(1, x), b.map("abs", x)))


def mish(b: Builder, v: NodeView, x: Value) -> Value:
    """x tanh(softplus(x))."""
    return b.mul(x, b.map("tanh", _softplus(b, x)))


def swish(b: Builder, v: NodeView, x: Value) -> Value:
    """x sigmoid(alpha x), alpha 1 by default."""
    alpha = v.op.float("alpha", 1.0)
    return b.mul(x, b.map("sigmoid", x if alpha == 1 else b.mul(x, b.like(alpha, x))))


def gelu(b: Builder, v: NodeView, x: Value) -> Value:
    """x (1 + erf(x / √2)) / 2, or with `approximate="tanh"`
    x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2."""
    approximate = v.op.str("approximate", "none")
    if approximate == "none":
        bend = b.map("erf", b.mul(x, b.like(math.sqrt(0.5), x)))
    elif approximate == "tanh":
        cube = b.mul(b.like(0.044715, x), b.mul(b.mul(x, x), x))
        bend = b.map("tanh", b.mul(b.like(math.sqrt(2 / math.pi), x), b.add(x, cube)))
    else:
        raise Unsupported("break.mode", mode=approximate)
    return b.mul(b.mul(b.like(0.5, x), x), b.add(b.like(1, x), bend))


OPERATORS = (
    Operator("LeakyRelu", (1, 6, 16), same_type, _on_floats(leaky_relu)),
    Operator("PRelu", (1, 6, 7, 9, 16), same_type, prelu),
    Operator("Elu", (1, 6, 22), same_type, _on_floats(elu)),
    Operator("Selu", (1, 6, 22), same_type, _on_floats(selu)),
    Operator("Celu", (12, 28), same_type, _on_floats(celu)),
    Operator("ThresholdedRelu", (10, 22), same_type, _on_floats(thresholded_relu)),
    Operator("Shrink", (9,), same_type, _on_floats(shrink)),
    Operator("HardSigmoid", (1, 6, 22), same_type, _on_floats(hard_sigmoid)),
    Operator("HardSwish", (14, 22), same_type, _on_floats(hard_swish)),
    Operator("Softplus", (1, 22), same_type, _on_floats(softplus)),
    Operator("Softsign", (1, 22), same_type, _on_floats(softsign)),
    Operator("Mish", (18, 22), same_type, _on_floats(mish)),
    Operator("Swish", (24,), same_type, _on_floats(swish)),
    Operator("Gelu", (20,), same_type, _on_floats(gelu)),
)

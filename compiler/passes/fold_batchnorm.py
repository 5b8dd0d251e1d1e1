"""fold-batchnorm: a batch normalisation goes into the weights of what it normalises.

    γ (W x + b - μ) / √(σ² + ε) + β  =  W' x + b'
    k = γ / √(σ² + ε)      W' = k W      b' = k (b - μ) + β        one k a channel of the result

For Conv (k scales the output channels of W), Gemm and MatMul (k scales the columns; MatMul becomes
a Gemm). Needs constants everywhere, and a product that only the normalisation reads. W' and b' are
computed in float64 and rounded once, so results differ in the last bits: off in strict numerics.

Teaches: an affine map of an affine map is an affine map; of four arrays that are read at run time,
none is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from compiler.ir.edits import parameters
from compiler.ir.graph import Op, Origins, Param
from compiler.ir.types import DType
from compiler.ops.base import Unsupported
from compiler.ops.normalization import in_training
from compiler.ops.views import node_view, nothing_known, operator_name, opset_of

from .base import Pass, Refusal, Rewrite, View
from .fold_constants import leaf

Doubles = npt.NDArray[np.float64]
FOLDABLE = frozenset({"Conv", "Gemm", "MatMul"})
GEMM_BROADCASTS = 7
"""The first opset whose Gemm adds a vector without being told to."""


@dataclass(frozen=True)
class FoldBatchnorm(Pass):
    """`fold-batchnorm`: on ONNX nodes; needs inferred shapes. What is left over is dead code."""

    name: ClassVar[str] = "fold-batchnorm"
    level: ClassVar[str] = "onnx"
    inexact: ClassVar[bool] = True
    after: ClassVar[tuple[str, ...]] = ("infer-shapes",)

    def rewrite(self, op: Op, view: View) -> Rewrite | Refusal | None:
        """Fold one BatchNormalization into the product that it reads; or why not."""
        if not _is(op, "BatchNormalization") or not op.operands:
            return None
        product = view.producer(op.operands[0])
        if product is None or not any(_is(product, name) for name in FOLDABLE):
            return None
        told = parameters(value=op.key, product=product.key)
        reason = _obstacle(op, product, view)
        if reason:
            return Refusal(self.name, f"fold-batchnorm.{reason}", told)
        factor, shift = _affine(op, view)
        made = _folded(op, product, factor, shift, view)
        if made is None:
            return Refusal(self.name, "fold-batchnorm.form", told)
        leaves, new = made
        return Rewrite(
            self.name, "fold-batchnorm.done", told, (*(o for o, _ in leaves), new),
            params=tuple(p for _, p in leaves if p is not None),
        )  # fmt: skip


def _is(op: Op, name: str) -> bool:
    return op.family == "onnx" and operator_name(op) == ("", name)


def _obstacle(op: Op, product: Op, view: View) -> str:
    """Which condition does not hold; empty where all do."""
    if view.context.strict:
        return "strict"
    node = node_view(
        op, view.module, view.context.params, view.type, nothing_known, view.constant
    )
    try:
        training = in_training(node) or len(op.outputs) > 1
    except Unsupported:
        training = True
    if training or not op.int("spatial", 1):
        return "form"
    constants = (*op.operands[1:], *product.operands[1:])
    if len(op.operands) != 5 or any(view.constant(n) is None for n in constants):
        return "constants"
    if not all(view.type(n).known for n in (*op.operands, *product.operands)):
        return "form"
    if any(view.type(n).element is not DType.f32 for n in (*op.operands, *product.operands)):
        return "form"
    if view.is_output(product.key) or view.users(product.key) != frozenset((op.key,)):
        return "shared"
    return ""


def _constant(name: str, view: View) -> Doubles:
    array = view.constant(name)
    assert array is not None
    return np.asarray(array, np.float64)


def _affine(op: Op, view: View) -> tuple[Doubles, Doubles]:
    """(k, β - k μ), one number a channel each."""
    gamma, beta, mean, variance = (_constant(n, view).reshape(-1) for n in op.operands[1:])
    factor = gamma / np.sqrt(variance + op.float("epsilon", 1e-5))
    return factor, beta - factor * mean


@dataclass(frozen=True)
class _Maker:
    """Makes the new weights, in float32, with all origins that went into them."""

    view: View
    origins: Origins

    def weight(self, like: str, array: Doubles) -> tuple[Op, Param | None]:
        name = self.view.context.names.fresh(like)
        return leaf(name, np.ascontiguousarray(array, np.float32), self.origins, self.view)


def _folded(
    op: Op, product: Op, factor: Doubles, shift: Doubles, view: View
) -> tuple[list[tuple[Op, Param | None]], Op] | None:
    """New weights, and the product that takes the place of both nodes; None for another form."""
    operands = (*op.operands[1:], *product.operands[1:])
    leaves = (view.producer(n) for n in operands)
    origins = op.origins.union(product.origins, *(p.origins for p in leaves if p is not None))
    make = _Maker(view, origins)
    name = product.operands[1]
    weight = _constant(name, view)
    bias = _constant(product.operands[2], view) if len(product.operands) > 2 else None
    channels = factor.size
    new = replace(product, outputs=op.outputs, origins=origins)
    if _is(product, "Conv"):
        if weight.shape[0] != channels or (bias is not None and bias.size != channels):
            return None
        scaled = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
        moved = shift if bias is None else factor * bias.reshape(-1) + shift
    else:
        gemm = _is(product, "Gemm")
        old = opset_of(product, view.module) < GEMM_BROADCASTS
        if weight.ndim != 2 or op.type.rank != 2 or old:
            return None
        turned = gemm and bool(product.int("transB", 0))
        if weight.shape[0 if turned else 1] != channels:
            return None
        scaled = weight * (factor[:, None] if turned else factor)
        moved = shift
        if bias is not None:
            if bias.ndim > 1 and bias.shape[0] != 1:
                return None
            moved = factor * product.float("beta", 1.0) * bias.reshape(-1) + shift
        kept = tuple((k, v) for k, v in product.attrs if k != "beta") if gemm else ()
        new = replace(new, kind="onnx.Gemm", attrs=kept)
    made = [make.weight(name, scaled), make.weight(op.operands[2], moved)]
    inputs = (product.inputs[0], *(o.key for o, _ in made))
    return made, replace(new, inputs=inputs)

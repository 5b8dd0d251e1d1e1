"""canonicalise: one spelling for what can be spelled in several ways.

    c + x = x + c      c < x = x > c      x / 2ᵏ = x * 2⁻ᵏ      -(-x) = x      not (x = y) = x ≠ y
    Reshape, Flatten, Squeeze, Unsqueeze  =  reshape            Dropout in inference  =  Identity
    permute that moves only axes of extent 1  =  reshape

Only what is the same bit for bit: a quotient by 2ᵏ and the product with 2⁻ᵏ round the same real
number, where 2⁻ᵏ is itself a normal number; by any other divisor they would not. The constant of a
max or min changes sides only where it is neither 0 nor NaN, because of max(-0, +0).

Teaches: rules that look for a pattern need to know one spelling of it; two equal values that are
spelled alike are found by `cse`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.ir.dims import ONE
from compiler.ir.edits import parameters
from compiler.ir.graph import Op
from compiler.ir.types import Array
from compiler.ops.base import Known, Malformed, NodeView, Unsupported
from compiler.ops.decomposition import decompose_node
from compiler.ops.shape import in_inference
from compiler.ops.views import node_view, operator_name

from .base import Pass, Refusal, Rewrite, View, adopt_names
from .fold_constants import leaf
from .nodes import holds_zero_or_one

RESHAPES = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
COMMUTATIVE = frozenset({"add", "and", "max", "min", "mul", "or", "xor"})
MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
"""Relation -> the one with its sides exchanged."""

OPPOSITE = {"eq": "ne", "ne": "eq"}
ORDERED_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
"""True where the relation is false; of the ordering relations only where there is no NaN."""


@dataclass(frozen=True)
class Canonicalise(Pass):
    """`canonicalise`: needs inferred shapes; works on ONNX nodes and on tensor ops."""

    name: ClassVar[str] = "canonicalise"
    level: ClassVar[str] = "onnx"
    after: ClassVar[tuple[str, ...]] = ("infer-shapes",)

    def rewrite(self, op: Op, view: View) -> Rewrite | Refusal | None:
        """The first rule that has something to say of an op."""
        match op.family:
            case "onnx":
                return _node(op, view)
            case "map":
                return _constant_right(op, view) or _division(op, view) or _twice(op, view)
            case "compare":
                return _constant_right(op, view)
            case "permute":
                return _unit_permute(op, view)
            case _:
                return None


def _done(rule: str, op: Op, *ops: Op, **told: str) -> Rewrite:
    return Rewrite(rule, f"canonicalise.{rule}", parameters(op=op.kind, **told), ops)


# ---- ONNX nodes ---------------------------------------------------------------------------------


def _node(op: Op, view: View) -> Rewrite | None:
    domain, name = operator_name(op)
    if domain or not all(view.type(n).known for n in op.operands):
        return None
    if name == "Dropout":
        return _dropout(op, view)
    if name not in RESHAPES or not op.type.known:
        return None
    try:
        made = decompose_node(_view_of(op, view), view.context.names)
    except (Unsupported, Malformed):
        return None
    if [o.kind for o in made.ops] not in ([], ["reshape"]):
        return None
    ops, renamed = adopt_names(op, list(made.ops), made.results)
    told = parameters(op=op.kind)
    return Rewrite("reshape", "canonicalise.reshape", told, ops, renamed, made.guards)


def _view_of(op: Op, view: View) -> NodeView:
    def known(name: str) -> Known | None:
        found = view.known_dims(name)
        return None if found is None else Known(found)

    return node_view(op, view.module, view.context.params, view.type, known, view.constant)


def _dropout(op: Op, view: View) -> Rewrite | None:
    if any(view.users(v.name) or view.is_output(v.name) for v in op.outputs[1:]):
        return None
    if not in_inference(_view_of(op, view)):
        return None
    same = Op("onnx.Identity", op.inputs[:1], op.outputs[:1], (), (), op.origins)
    return _done("identity", op, same)


# ---- tensor ops ---------------------------------------------------------------------------------


def _constant_right(op: Op, view: View) -> Rewrite | Refusal | None:
    """c + x -> x + c, c < x -> x > c."""
    comparison = op.family == "compare"
    if len(op.inputs) != 2 or not (comparison or op.function in COMMUTATIVE):
        return None
    left, right = op.operands
    constant = view.constant(left)
    if constant is None or view.constant(right) is not None:
        return None
    if op.function in ("max", "min") and _has_zero_or_nan(constant):
        told = parameters(op=op.kind, value=op.key)
        return Refusal("right", "canonicalise.right.zero", told)
    kind = f"compare.{MIRRORED[op.function]}" if comparison else op.kind
    return _done("right", op, replace(op, kind=kind, inputs=(right, left)), constant=left)


def _has_zero_or_nan(array: Array) -> bool:
    return array.dtype.kind == "f" and bool(np.any((array == 0) | (array != array)))


def _division(op: Op, view: View) -> Rewrite | Refusal | None:
    """x / c -> x * (1/c) for one number c of which both 1/c and the products are exact."""
    if op.function != "div" or not op.type.element.is_float:
        return None
    divisor = op.operands[1]
    constant = view.constant(divisor)
    if constant is None or constant.size != 1 or view.constant(op.operands[0]) is not None:
        return None
    factor = reciprocal(constant)
    if factor is None:
        told = parameters(op=op.kind, value=op.key, divisor=float(constant.reshape(())))
        return Refusal("division", "canonicalise.division.inexact", told)
    producer = view.producer(divisor)
    origins = op.origins if producer is None else op.origins | producer.origins
    made, _ = leaf(view.context.names.fresh(op.key), factor, origins, view)
    product = replace(op, kind="map.mul", inputs=(op.inputs[0], made.key))
    told = parameters(op=op.kind, divisor=float(constant.reshape(())))
    return Rewrite("division", "canonicalise.division", told, (made, product))


def reciprocal(number: Array) -> Array | None:
    """1 / number where number is a power of two and its reciprocal a normal number."""
    value = float(number.reshape(()))
    if not np.isfinite(value) or abs(np.frexp(value)[0]) != 0.5:
        return None
    single = number.dtype == np.float32
    least = float(np.finfo(np.float32).tiny if single else np.finfo(np.float64).tiny)
    factor = 1 / value
    if not least <= abs(factor) <= 1 / least:
        return None
    return np.full(number.shape, factor, number.dtype)


def _twice(op: Op, view: View) -> Rewrite | None:
    """-(-x) -> x, not (not x) -> x, not (x = y) -> x ≠ y."""
    if op.function not in ("neg", "not"):
        return None
    inner = view.producer(op.operands[0])
    if inner is None:
        return None
    if inner.kind == op.kind:
        source = inner.operands[0]
        if not holds_zero_or_one(source, view):
            return None
        told = parameters(op=op.kind, source=source)
        return Rewrite("twice", "canonicalise.twice", told, (), ((op.key, source),))
    if op.function == "not" and inner.family == "compare":
        whole = not view.type(inner.operands[0]).element.is_float
        relation = (OPPOSITE | (ORDERED_OPPOSITE if whole else {})).get(inner.function)
        if relation is not None:
            kind = f"compare.{relation}"
            new = replace(op, kind=kind, inputs=inner.inputs, origins=op.origins | inner.origins)
            return _done("relation", op, new, relation=kind)
    return None


def _unit_permute(op: Op, view: View) -> Rewrite | None:
    """A permutation that keeps the order of all axes longer than 1."""
    shape = view.type(op.operands[0]).dims
    kept = [p for p in op.ints("perm") or () if shape[p] != ONE]
    if kept != sorted(kept):
        return None
    return _done("permute", op, replace(op, kind="reshape", attrs=()))

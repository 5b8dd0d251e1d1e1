"""algebraic-simplify: identities of arithmetic that hold for every value, bit for bit.

    x * 1 = x    x / 1 = x    x - 0 = x    x + (-0) = x    x¹ = x    x + (-y) = x - y
    max(x, x) = x    max(max(x, c), c) = max(x, c)    |-x| = |x|    select(c, x, x) = x
    cast(cast(x, a), b) = cast(x, b)   where a holds every value of x's type
    permute(permute(x)) = permute(x)   expand(expand(x)) = expand(x)
    (x ∘ c₁) ∘ c₂ = x ∘ (c₁ ∘ c₂)      of integers always, of floats only with `reassoc=true`

x + 0 is not x: it turns -0 into +0. The last rule rounds once instead of twice, so for floats it is
off by default, and off in strict numerics.

Teaches: floating-point numbers obey fewer laws than numbers do; which ones, can be told exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.ir.edits import parameters
from compiler.ir.graph import Op
from compiler.ir.interpret.tensor import run_op
from compiler.ir.shapes import ShapeMismatch, broadcast
from compiler.ir.types import DType

from .base import Pass, Refusal, Rewrite, View
from .fold_constants import leaf
from .nodes import holds_zero_or_one

SMALL = 4096
"""Elements of the largest constant that is looked at for being all alike."""

IDEMPOTENT = frozenset({"and", "max", "min", "or"})
ASSOCIATIVE = frozenset({"add", "and", "max", "min", "mul", "or", "xor"})
ROUNDED = frozenset({"add", "mul"})
"""Associative functions that round when they are computed with floats."""

_WHOLE = {
    DType.i8: (-7, 7), DType.i16: (-15, 15), DType.i32: (-31, 31), DType.i64: (-63, 63),
    DType.u8: (0, 8), DType.u16: (0, 16), DType.u32: (0, 32), DType.u64: (0, 64),
}  # fmt: skip
"""Integer type -> powers of two that bound it."""

_FLOATS = {
    DType.f16: (11, 16), DType.bf16: (8, 128), DType.f32: (24, 128), DType.f64: (53, 1024)
}
"""Float type -> bits of its significand, and the power of two beyond its largest number."""


@dataclass(frozen=True)
class AlgebraicSimplify(Pass):
    """`algebraic-simplify`: on tensor ops.

    `reassoc`: also fold (x + c₁) + c₂ and (x * c₁) * c₂ of floats, which changes rounding; it has
    no effect in strict numerics.
    """

    name: ClassVar[str] = "algebraic-simplify"
    after: ClassVar[tuple[str, ...]] = ("decompose",)

    reassoc: bool = False

    def rewrite(self, op: Op, view: View) -> Rewrite | Refusal | None:
        """The first identity that applies."""
        for rule in RULES:
            found = rule(op, view)
            if found is not None:
                return found
        return self._reassociate(op, view)

    def _reassociate(self, op: Op, view: View) -> Rewrite | Refusal | None:
        """(x ∘ c₁) ∘ c₂ -> x ∘ (c₁ ∘ c₂), the constants on the right."""
        if op.family != "map" or op.function not in ASSOCIATIVE or len(op.operands) != 2:
            return None
        inner, outer = view.producer(op.operands[0]), view.constant(op.operands[1])
        if inner is None or inner.kind != op.kind or outer is None:
            return None
        source, name = inner.operands
        constant = view.constant(name)
        same = view.type(source) == inner.type
        if constant is None or view.constant(source) is not None or not same:
            return None
        if max(constant.size, outer.size) > SMALL:
            return None
        if op.type.element.is_float:
            if op.function not in ROUNDED:
                return None
            if not self.reassoc or view.context.strict:
                why = "strict" if self.reassoc else "off"
                told = parameters(op=op.kind, value=op.key, inner=inner.key)
                return Refusal("reassociate", f"algebraic-simplify.reassoc.{why}", told)
        try:
            shape, guards = broadcast([view.type(n).dims for n in (name, op.operands[1])], ())
        except ShapeMismatch:
            return None
        if guards:
            return None
        folded = replace(inner.type, shape=shape)
        (value,) = run_op(
            Op(op.kind, (name, op.operands[1]), (replace(op.outputs[0], type=folded),)),
            [constant, outer],
        )
        leaves = (view.producer(n) for n in (name, op.operands[1]))
        origins = op.origins.union(*(p.origins for p in leaves if p is not None))
        made, weight = leaf(view.context.names.fresh(op.key), value, origins, view)
        joined = replace(op, inputs=(source, made.key), origins=op.origins | inner.origins)
        told = parameters(op=op.kind, inner=inner.key)
        return Rewrite(
            "reassociate", "algebraic-simplify.reassociated", told, (made, joined),
            params=() if weight is None else (weight,),
        )  # fmt: skip


# ---- what a rule says ---------------------------------------------------------------------------


def _is(op: Op, source: str, formula: str, view: View) -> Rewrite | None:
    """The result is an existing value, if that has the result's type, and its very bytes."""
    if view.type(source) != op.type or not holds_zero_or_one(source, view):
        return None
    told = parameters(op=op.kind, rule=formula, source=source)
    return Rewrite("identity", "algebraic-simplify.same", told, (), ((op.key, source),))


def _becomes(op: Op, new: Op, formula: str) -> Rewrite:
    told = parameters(op=op.kind, rule=formula)
    return Rewrite("rewrite", "algebraic-simplify.rewritten", told, (new,))


def _is_all(name: str, wanted: float, view: View) -> bool:
    """Whether a constant holds one number alone, with its sign."""
    array = view.constant(name)
    if array is None or not 0 < array.size <= SMALL or array.dtype.kind not in "fiu":
        return False
    alike = array.dtype.kind != "f" or bool((np.signbit(array) == np.signbit(wanted)).all())
    return alike and bool((array == wanted).all())


# ---- the identities -----------------------------------------------------------------------------


def _neutral(op: Op, view: View) -> Rewrite | Refusal | None:
    """x*1, x/1, x-0, x+(-0), x¹."""
    if op.family != "map" or len(op.operands) != 2:
        return None
    sides = [op.operands]
    if op.function in ("add", "mul"):
        sides.append((op.operands[1], op.operands[0]))
    whole = not op.type.element.is_float
    for x, c in sides:
        match op.function:
            case "mul" | "div" | "pow" if _is_all(c, 1, view):
                formula = {"mul": "x*1 = x", "div": "x/1 = x", "pow": "x^1 = x"}[op.function]
            case "sub" if _is_all(c, 0.0, view):
                formula = "x-0 = x"
            case "add" if whole and _is_all(c, 0.0, view):
                formula = "x+0 = x"
            case "add" if not whole and _is_all(c, -0.0, view):
                formula = "x+(-0) = x"
            case "add" if not whole and _is_all(c, 0.0, view):
                told = parameters(op=op.kind, value=op.key)
                return Refusal("identity", "algebraic-simplify.zero", told)
            case _:
                continue
        return _is(op, x, formula, view)
    return None


def _alike(op: Op, view: View) -> Rewrite | None:
    """max(x, x), and max(max(x, c), c)."""
    if op.family != "map" or op.function not in IDEMPOTENT:
        return None
    x, y = op.operands
    name = op.function
    if x == y:
        return _is(op, x, f"{name}(x,x) = x", view)
    for a, b, side in ((x, y, 1), (y, x, 0)):
        inner = view.producer(a)
        if inner is not None and inner.kind == op.kind and inner.operands[side] == b:
            return _is(op, a, f"{name}({name}(x,c),c) = {name}(x,c)", view)
    return None


def _signs(op: Op, view: View) -> Rewrite | None:
    """x + (-y), x - (-y), |-x|, ||x||."""
    if op.family != "map":
        return None
    last = view.producer(op.operands[-1])
    if last is None or last.kind not in ("map.neg", "map.abs"):
        return None
    origins = op.origins | last.origins
    if op.function == "abs":
        if last.function == "abs":
            return _is(op, last.key, "||x|| = |x|", view)
        return _becomes(op, replace(op, inputs=last.inputs, origins=origins), "|-x| = |x|")
    other = {"add": "sub", "sub": "add"}.get(op.function)
    if other is None or last.function != "neg":
        return None
    formula = "x+(-y) = x-y" if other == "sub" else "x-(-y) = x+y"
    inputs = (op.inputs[0], last.inputs[0])
    return _becomes(op, replace(op, kind=f"map.{other}", inputs=inputs, origins=origins), formula)


def _choice(op: Op, view: View) -> Rewrite | None:
    """select(c, x, x), and select of a condition that is known."""
    if op.kind != "select":
        return None
    condition, x, y = op.operands
    if x == y:
        return _is(op, x, "select(c,x,x) = x", view)
    known = view.constant(condition)
    if known is None or not 0 < known.size <= SMALL or known.min() != known.max():
        return None
    taken = bool(known.reshape(-1)[0])
    return _is(op, x if taken else y, f"select({str(taken).lower()},x,y)", view)


def _casts(op: Op, view: View) -> Rewrite | None:
    """cast(cast(x, a), b) where a loses nothing."""
    if op.kind != "cast":
        return None
    inner = view.producer(op.operands[0])
    if inner is None or inner.kind != "cast":
        return None
    source = inner.operands[0]
    before = view.type(source).element
    if not holds(inner.type.element, before):
        return None
    if before is op.type.element:
        return _is(op, source, "cast(cast(x)) = x", view)
    new = replace(op, inputs=(source,), origins=op.origins | inner.origins)
    return _becomes(op, new, "cast(cast(x)) = cast(x)")


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is one of `wide`."""
    if wide is narrow or narrow is DType.bool:
        return wide is narrow or wide in _WHOLE or wide in _FLOATS
    if narrow in _WHOLE:
        low, high = _WHOLE[narrow]
        if wide in _WHOLE:
            return _WHOLE[wide][0] <= low and high <= _WHOLE[wide][1]
        return wide in _FLOATS and high <= _FLOATS[wide][0] and high < _FLOATS[wide][1]
    if narrow in _FLOATS and wide in _FLOATS:
        return all(a >= b for a, b in zip(_FLOATS[wide], _FLOATS[narrow], strict=True))
    return False


def _movements(op: Op, view: View) -> Rewrite | None:
    """permute of permute, expand of expand."""
    if op.kind not in ("permute", "expand"):
        return None
    inner = view.producer(op.operands[0])
    if inner is None or inner.kind != op.kind:
        return None
    source = inner.operands[0]
    new = replace(op, inputs=(source,), origins=op.origins | inner.origins)
    if op.kind == "expand":
        return _becomes(op, new, "expand(expand(x)) = expand(x)")
    first, second = inner.ints("perm") or (), op.ints("perm") or ()
    perm = tuple(first[p] for p in second)
    if perm == tuple(range(len(perm))):
        return _is(op, source, "permute(permute(x)) = x", view)
    return _becomes(op, new.with_attrs(perm=perm), "permute(permute(x)) = permute(x)")


RULES: tuple[Callable[[Op, View], Rewrite | Refusal | None], ...] = (
    _neutral, _alike, _signs, _choice, _casts, _movements,
)  # fmt: skip

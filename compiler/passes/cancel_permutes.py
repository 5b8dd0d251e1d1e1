"""cancel-permutes: a transposition around a matrix product becomes other letters of its spec.

    q' = permute(q) {perm=[0,2,1,3]}
    s  = contract(q', k')  "abmk,abkn->abmn"     =     contract(q, k')  "ambk,abkn->abmn"
    permute(contract(s, v)  "…->abmn")           =     contract(s, v)   "…->ambn"

A letter says which axes meet, not where they lie in memory: the library reads and writes strided
views. It takes a view as it is where the letters of its rows, and those that are summed, stand
side by side and one of both groups comes last; otherwise it would copy by itself, and the copy
that can be seen stays. The library may add up a view in another order than a copy, so in strict
numerics the pass refuses.

Teaches: transposing moves no element, it renames axes; only a machine that wants neighbours cares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.edits import Parameters, parameters
from compiler.ir.graph import Op

from .base import Pass, Refusal, Rewrite, View


@dataclass(frozen=True)
class CancelPermutes(Pass):
    """`cancel-permutes`: needs tensor ops; looks at products that the library computes."""

    name: ClassVar[str] = "cancel-permutes"
    inexact: ClassVar[bool] = True
    after: ClassVar[tuple[str, ...]] = ("decompose",)

    def rewrite(self, op: Op, view: View) -> Rewrite | Refusal | None:
        """A product that reads permuted operands, or the permutation of a product's result."""
        if op.kind == "permute":
            return self._result(op, view)
        return self._operands(op, view) if _is_product(op) else None

    def _operands(self, op: Op, view: View) -> Rewrite | Refusal | None:
        spec, inputs, origins = op.str("spec"), list(op.operands), op.origins
        left: Refusal | None = None
        for k, name in enumerate(op.operands):
            permute = view.producer(name)
            if permute is None or permute.kind != "permute":
                continue
            terms = _terms(spec)
            terms[k] = moved(terms[k], permute.ints("perm") or ())
            told = parameters(value=op.key, permute=permute.key)
            reason = _obstacle(terms, view)
            if reason:
                left = left or Refusal("operand", f"cancel-permutes.{reason}", told)
                continue
            spec, inputs[k] = _spec(terms), permute.operands[0]
            origins = origins | permute.origins
        if tuple(inputs) == op.operands:
            return left
        new = replace(op, inputs=tuple(inputs), origins=origins).with_attrs(spec=spec)
        return Rewrite("operand", "cancel-permutes.operand", _told(op, spec), (new,))

    def _result(self, op: Op, view: View) -> Rewrite | Refusal | None:
        product = view.producer(op.operands[0])
        if product is None or not _is_product(product):
            return None
        told = parameters(value=product.key, permute=op.key)
        if view.is_output(product.key) or view.users(product.key) != frozenset((op.key,)):
            return Refusal("result", "cancel-permutes.shared", told)
        terms = _terms(product.str("spec"))
        terms[2] = "".join(terms[2][p] for p in op.ints("perm") or ())
        reason = _obstacle(terms, view)
        if reason:
            return Refusal("result", f"cancel-permutes.{reason}", told)
        made = replace(op, kind=product.kind, inputs=product.inputs, attrs=product.attrs,
                       origins=op.origins | product.origins)  # fmt: skip
        new = made.with_attrs(spec=_spec(terms))
        return Rewrite("result", "cancel-permutes.result", _told(product, _spec(terms)), (new,))


def _is_product(op: Op) -> bool:
    return op.kind == "contract" and op.str("library", "") == "matmul"


def _told(op: Op, spec: str) -> Parameters:
    return parameters(value=op.key, before=op.str("spec"), after=spec)


def _terms(spec: str) -> list[str]:
    """Letters of the left, of the right and of the result."""
    operands, _, result = spec.partition("->")
    return [*operands.split(","), result]


def _spec(terms: Sequence[str]) -> str:
    return f"{terms[0]},{terms[1]}->{terms[2]}"


def moved(letters: str, perm: Sequence[int]) -> str:
    """The letters of x where those of permute(x) are given."""
    found = [""] * len(letters)
    for letter, p in zip(letters, perm, strict=True):
        found[p] = letter
    return "".join(found)


def _obstacle(terms: Sequence[str], view: View) -> str:
    """Why a product is not computed with these letters; empty where it is."""
    if view.context.strict:
        return "strict"
    return "" if reads_in_place(*terms) else "layout"


def reads_in_place(left: str, right: str, result: str) -> bool:
    """Whether the library multiplies arrays of these letters without copying one of them.

    In each array the letters of its matrix's rows stand side by side, in the order of the others'
    terms, those of its columns too, and one of both groups comes last.
    """
    rows = "".join(c for c in result if c in left and c not in right)
    columns = "".join(c for c in result if c in right and c not in left)
    summed = "".join(c for c in left if c not in result)
    groups = ((left, rows, summed), (right, summed, columns), (result, rows, columns))
    return all(
        a in term and b in term and term.endswith(tuple(g for g in (a, b) if g))
        for term, a, b in groups
    )

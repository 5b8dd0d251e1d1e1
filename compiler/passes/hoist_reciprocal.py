"""Divide once, multiply often.

    for j { … x / z … }   with z the same for all j   ->   s = scale(z);  w = 1 / (z * s)
                                                            for j { … x * s * w … }

The scale is 1 except where 1/z would leave the normal numbers: it is 2^100 for |z| < 2^-100 and
2^-100 for |z| > 2^100, so that a product with it is exact. Without it 0 / 1e-40 would be 0 * inf.
Inexact: x * (1/z) rounds twice where x / z rounds once, so the result may be off by one more unit
in the last place. Not applied to a constant z (whose reciprocal the compiler of the source may
know to be exact), and to float32 only. Off in strict numerics.

Teaches: a division costs as much as several multiplications, and a loop repeats what stands in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.edits import parameters
from compiler.ir.loops import (
    Acc,
    Binary,
    Const,
    Expr,
    For,
    Kernel,
    Let,
    Ref,
    Select,
    Stmt,
    Unary,
    expressions,
    map_statements,
    walk_expr,
    walk_statements,
)
from compiler.ir.types import DType, Scalar
from compiler.passes.base import Context, Refusal
from compiler.passes.kernel_pass import KernelPass, KernelRewrite


@dataclass(frozen=True)
class HoistReciprocal(KernelPass):
    """`hoist-reciprocal`: after `lower-loops`."""

    name: ClassVar[str] = "hoist-reciprocal"
    inexact: ClassVar[bool] = True

    def rewrite_kernel(
        self, kernel: Kernel, context: Context
    ) -> Iterator[KernelRewrite | Refusal]:
        new, divisors = hoist(kernel)
        values = parameters(kernel=kernel.name, divisors=", ".join(divisors))
        if divisors and context.strict:
            yield Refusal("hoist", "hoist.strict", values)
        elif divisors:
            yield KernelRewrite("hoist", "hoist.done", values, new)


def hoist(kernel: Kernel) -> tuple[Kernel, list[str]]:
    """The kernel with reciprocals hoisted, and the names of the divisors (none: unchanged)."""
    taken = names_of(kernel)
    found: list[str] = []

    def visit(body: tuple[Stmt, ...], outer: frozenset[str]) -> tuple[Stmt, ...]:
        """`outer`: float32 values defined around this body; those in it join as they come."""
        scope = set(outer)
        out: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, Let | Acc) and stmt.dtype is DType.f32:
                scope.add(stmt.name)
            if not isinstance(stmt, For):
                out.append(stmt)
                continue
            inner = stmt.body
            for name in divisors(inner, scope) if stmt.kind != "par" else ():
                scale, word = fresh(f"scale_{name}", taken), fresh(f"inv_{name}", taken)
                origins = origins_of(inner, name)
                out.append(Let(scale, DType.f32, scale_of(Ref(name)), origins))
                inverse = Binary("div", ONE, Binary("mul", Ref(name), Ref(scale)))
                out.append(Let(word, DType.f32, inverse, origins))
                inner = map_statements(inner, multiply_by(name, scale, word))
                found.append(name)
            out.append(replace(stmt, body=visit(inner, frozenset(scope))))
        return tuple(out)

    body = visit(kernel.body, frozenset())
    return (replace(kernel, body=body), found) if found else (kernel, [])


def number(value: float) -> Const:
    return Const(Scalar.of(DType.f32, value))


ONE, SMALL, LARGE = number(1), number(2.0**-100), number(2.0**100)


def scale_of(z: Expr) -> Expr:
    """A power of two that brings z where its reciprocal is a normal number."""
    size = Unary("abs", z)
    down = Select(Binary("gt", size, LARGE), SMALL, ONE)
    return Select(Binary("lt", size, SMALL), LARGE, down)


def divisors(body: tuple[Stmt, ...], scope: set[str]) -> list[str]:
    """Names from `scope` that expressions of the body divide by, in order."""
    names = [
        e.y.name
        for stmt in walk_statements(body)
        for root in expressions(stmt)
        for e in walk_expr(root)
        if isinstance(e, Binary) and e.function == "div" and isinstance(e.y, Ref)
    ]
    return [n for n in dict.fromkeys(names) if n in scope]


def origins_of(body: tuple[Stmt, ...], name: str) -> frozenset[tuple[int, ...]]:
    """Origins of the statements that divide by a name."""
    found: frozenset[tuple[int, ...]] = frozenset()
    for stmt in walk_statements(body):
        for root in expressions(stmt):
            if any(isinstance(e, Binary) and e.y == Ref(name) for e in walk_expr(root)):
                found |= stmt.origins
    return found


def multiply_by(name: str, scale: str, word: str) -> Callable[[Expr], Expr]:
    """A division by `name` becomes a multiplication by `scale`, then by `word`."""

    def change(e: Expr) -> Expr:
        if isinstance(e, Binary) and e.function == "div" and e.y == Ref(name):
            return Binary("mul", Binary("mul", e.x, Ref(scale)), Ref(word))
        return e

    return change


def names_of(kernel: Kernel) -> set[str]:
    """Every name that a kernel uses: arguments, extents, axes, variables."""
    taken = {s.name for s in walk_statements(kernel.body) if isinstance(s, Let | Acc)}
    taken |= {a.name for a in kernel.args} | set(kernel.extents)
    return taken | {s.axis for s in walk_statements(kernel.body) if isinstance(s, For)}


def fresh(word: str, taken: set[str]) -> str:
    """`word`, or `word_2`, …: a name not in `taken`, which it joins."""
    chosen, k = word, 1
    while chosen in taken:
        k += 1
        chosen = f"{word}_{k}"
    taken.add(chosen)
    return chosen

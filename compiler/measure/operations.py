"""Arithmetic operations of a step, read off its loop tree: what a roofline sets against its bytes.

    kernel       sum over statements of  operations in it * product(extents of the loops around)
    product      2 * product(extents of all letters of `ik,kj->ij`): multiply and add
    elsewhere    not known

Every arithmetic function of the float elements counts once, a transcendental one too; comparisons,
selections, conversions and index arithmetic count nothing. Both branches of an `if` count.
After Williams, Waterman and Patterson, Roofline: An Insightful Visual Performance Model, 2009.

Teaches: operations a byte decide whether the bytes or the arithmetic take the time.
"""

from __future__ import annotations

from compiler.ir.dims import ONE, ZERO, Dim, product
from compiler.ir.loops import (
    COMPARE,
    Binary,
    Expr,
    For,
    If,
    Kernel,
    Stmt,
    Unary,
    Update,
    expressions,
    walk_expr,
)
from compiler.ir.plan import CallStep

LOGIC = COMPARE | {"and", "or", "xor", "not", "isnan"}


def kernel_operations(kernel: Kernel) -> Dim:
    """Over the kernel's extents. ValueError for a loop whose extent depends on an axis."""
    return _body(kernel.body, ONE, frozenset())


def _body(body: tuple[Stmt, ...], times: Dim, axes: frozenset[str]) -> Dim:
    total = ZERO
    for stmt in body:
        found = sum(_arithmetic(e) for e in expressions(stmt)) + isinstance(stmt, Update)
        if found:
            total = total + times * found
        if isinstance(stmt, For):
            if stmt.extent.symbols() & axes:
                raise ValueError(f"the extent {stmt.extent} has an axis")
            total = total + _body(stmt.body, times * stmt.extent, axes | {stmt.axis})
        elif isinstance(stmt, If):
            total = total + _body(stmt.body, times, axes)
    return total


def _arithmetic(expr: Expr) -> int:
    return sum(
        isinstance(e, Unary | Binary) and e.function not in LOGIC for e in walk_expr(expr)
    )


def call_operations(step: CallStep) -> Dim | None:
    """Of a matrix product by its specification; None for what the reference evaluator computes."""
    spec = dict(step.attrs).get("spec")
    if not isinstance(spec, str):
        return None
    extents: dict[str, Dim] = {}
    terms = spec.partition("->")[0].split(",")
    for term, operand in zip(terms, step.inputs, strict=True):
        if operand is None or operand.type.shape is None:
            return None
        extents.update(zip(term, operand.type.dims, strict=True))
    return product(extents.values()) * 2

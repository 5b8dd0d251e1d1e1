"""Write finished rows past the cache.

    vec j { store y[i,j] = v }   ->   vec j { store row[j] = v };  stream j { y[i,j] = row[j] }

An ordinary store first reads the line it writes, so an output of S bytes moves 2S. A row that is
complete can be written in whole lines that are never read: S. That pays only for outputs that do
not fit in the cache, which the kernel decides when it runs; a small one is written in place at
once. Applies to float32 outputs whose rows a kernel writes and reads again before they are done:
such rows are in the cache anyway, and in scratch they cost no extra pass. A kernel that writes
each element once is refused: a second pass over its rows was measured to cost more than it saves.

Teaches: what a store costs depends on whether the line it hits will be used again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.dims import Dim, dim
from compiler.ir.edits import parameters
from compiler.ir.loops import (
    Arg,
    Expr,
    For,
    Kernel,
    Load,
    Stmt,
    Store,
    expressions,
    map_statements,
    names_of,
    walk_expr,
    walk_statements,
)
from compiler.ir.names import fresh_word
from compiler.ir.types import DType, TensorType
from compiler.passes.base import Context, Refusal
from compiler.passes.kernel_pass import KernelPass, KernelRewrite


@dataclass(frozen=True)
class StreamStores(KernelPass):
    """`stream-stores`: after `lower-loops` and the passes that change loops."""

    name: ClassVar[str] = "stream-stores"

    def rewrite_kernel(
        self, kernel: Kernel, context: Context
    ) -> Iterator[KernelRewrite | Refusal]:
        new = kernel
        rows: list[str] = []
        for arg in kernel.args:
            axis = row_axis(new, arg)
            if axis is not None and not reads_back(kernel, arg):
                values = parameters(kernel=kernel.name, buffer=arg.name)
                yield Refusal("stream", "stream.once", values)
            elif axis is not None:
                new = stream(new, arg, axis)
                rows.append(arg.name)
        if rows:
            values = parameters(kernel=kernel.name, buffers=", ".join(rows))
            yield KernelRewrite("stream", "stream.done", values, new)


def reads_back(kernel: Kernel, arg: Arg) -> bool:
    """Whether a kernel loads from one of its outputs."""
    return any(
        isinstance(e, Load) and e.buffer == arg.name
        for stmt in walk_statements(kernel.body)
        for root in expressions(stmt)
        for e in walk_expr(root)
    )


def row_axis(kernel: Kernel, arg: Arg) -> For | None:
    """The inner loop along whose axis an output is accessed, always at the same place; None where
    the rule does not apply."""
    loops, body = kernel.parallel()
    if arg.mode != "out" or arg.type.element is not DType.f32 or not loops or not arg.type.rank:
        return None
    outer = {loop.axis for loop in loops}
    places: set[tuple[Dim, ...]] = set()
    for stmt in walk_statements(body):
        if isinstance(stmt, Store) and stmt.buffer == arg.name:
            places.add(stmt.indices)
        for root in expressions(stmt):
            for e in walk_expr(root):
                if isinstance(e, Load) and e.buffer == arg.name:
                    places.add(e.indices)
    if len(places) != 1:
        return None
    (place,) = places
    if any(d.symbols() - outer for d in place[:-1]):
        return None
    for stmt in reversed(body):
        if isinstance(stmt, For) and stmt.kind == "vec" and place[-1] == dim(stmt.axis):
            complete = stmt.extent == arg.type.dims[-1]
            stores = any(isinstance(s, Store) and s.buffer == arg.name for s in stmt.body)
            return stmt if complete and stores else None
    return None


def stream(kernel: Kernel, arg: Arg, loop: For) -> Kernel:
    """The kernel that builds rows of `arg` in scratch and streams them when they are complete."""
    row = fresh_word(f"{arg.name}_row", names_of(kernel))
    place = next(
        s.indices
        for s in walk_statements(kernel.body)
        if isinstance(s, Store) and s.buffer == arg.name
    )
    at = place[-1:]

    def on_expr(e: Expr) -> Expr:
        if not isinstance(e, Load) or e.buffer != arg.name:
            return e
        return replace(e, buffer=row, indices=at)

    def on_body(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, Store) and stmt.buffer == arg.name:
                stmt = replace(stmt, buffer=row, indices=at)
            elif isinstance(stmt, For):
                stmt = replace(stmt, body=on_body(stmt.body))
            out.append(stmt)
        return tuple(out)

    copy = For(
        "stream", loop.axis, loop.extent,
        (Store(arg.name, place, Load(row, at), loop.origins),), loop.origins,
    )  # fmt: skip
    loops, body = kernel.parallel()
    inner: tuple[Stmt, ...] = (*on_body(map_statements(body, on_expr)), copy)
    for outer in reversed(loops):
        inner = (replace(outer, body=inner),)
    type = TensorType(DType.f32, (loop.extent,))
    return replace(kernel, args=(*kernel.args, Arg(row, "scratch", type)), body=inner)

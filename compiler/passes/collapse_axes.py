"""Collapse two nested loops into one where memory does not tell them apart.

    for i in r { for j in c { … x[i,j] … } }   ->   for n in r*c { … x[n] … }

allowed when every access that uses i or j indexes two neighbouring dimensions of extents r and c
with exactly (i, j): then element (i, j) stands at i*c + j = n. A vector b[j] bars the way, because
its element would have to be found by a division. So does an array of which the guards say that
its extents are r and c, but not, without a division, that their product is r*c.

Teaches: contiguous memory has one dimension; broadcasting is what needs two loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.dims import Dim, dim
from compiler.ir.edits import Edit, Event, KernelEdit, Ops, apply, parameters
from compiler.ir.graph import Op
from compiler.ir.loops import (
    Arg,
    Expr,
    For,
    If,
    Index,
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
from compiler.ir.module import Module
from compiler.ir.shapes import Shape
from compiler.ir.types import KernelRef, attrs
from compiler.ir.verify import Equalities, same_memory
from compiler.passes.base import Context, Pass, Result

KINDS = {("par", "par"): "par", ("par", "vec"): "par", ("red", "red"): "red",
         ("seq", "seq"): "seq", ("seq", "vec"): "vec"}  # fmt: skip
"""(outer, inner) -> the kind of the loop that both become; where other axes run in parallel
already, ("par", "vec") becomes "vec": neighbours stay in one loop."""


@dataclass(frozen=True)
class CollapseAxes(Pass):
    """`collapse-axes`: after `lower-loops`."""

    name: ClassVar[str] = "collapse-axes"
    unit: ClassVar[str] = "kernels"
    level: ClassVar[str] = "loops"
    after: ClassVar[tuple[str, ...]] = ("lower-loops",)

    def run(self, module: Module, context: Context) -> Result:
        state = module
        events: list[Event] = []
        types = module.graph.types()
        equalities = Equalities(module.guards)
        for at, launch in enumerate(module.graph.ops):
            ref = launch.get("kernel")
            if launch.kind != "launch" or not isinstance(ref, KernelRef):
                continue
            context.check()
            kernel, op = module.kernel(ref.name), launch
            merged: list[str] = []
            names = (*op.operands, *(v.name for v in op.outputs))
            given = tuple(types[name].dims for name in names)
            step = collapse_once(kernel, op, given, equalities)
            while isinstance(step, Merged):
                kernel, op = step.kernel, step.launch
                merged.append(step.axes)
                step = collapse_once(kernel, op, given, equalities)
            if kernel is not module.kernel(ref.name):
                edits: tuple[Edit, ...] = (
                    KernelEdit(kernel.name, kernel),
                    Ops((), (op.key,), ((at, op),)),
                )
                for edit in edits:
                    state = apply(state, edit)
                values = parameters(kernel=kernel.name, axes=", ".join(merged))
                events.append(Event("collapse", kernel.name, edits, "collapse.done", values))
            if step is not None:
                values = parameters(
                    kernel=kernel.name, outer=step.outer, inner=step.inner, buffer=step.buffer
                )
                events.append(Event("collapse", kernel.name, (), step.message, values))
        return Result(state, tuple(events))


@dataclass(frozen=True)
class Merged:
    kernel: Kernel
    launch: Op
    axes: str


@dataclass(frozen=True)
class Barred:
    """Two axes stay apart because of how `buffer` is indexed, or how large it is."""

    outer: str
    inner: str
    buffer: str
    message: str = "collapse.refused"


def collapse_once(
    kernel: Kernel, launch: Op, given: Sequence[Shape], equalities: Equalities
) -> Merged | Barred | None:
    """The kernel and its launch with one pair of axes merged; or what bars the outermost pair;
    or None where no loops are perfectly nested.

    `given`: the shapes of the launch's operands, then of its results.
    """
    refused: Barred | None = None
    for outer, inner in nested_pairs(kernel.body):
        loops = [s for s in walk_statements(kernel.body) if isinstance(s, For)]
        if not perfectly_nested(loops, outer, inner):
            continue
        buffer = bars(kernel, outer, inner)
        if buffer is None:
            merged = merge(kernel, launch, outer, inner)
            buffer = unlike(merged, given, equalities)
            if buffer is None:
                return merged
            unproved = Barred(outer.axis, inner.axis, buffer, "collapse.unproved")
            refused = refused or unproved
            continue
        refused = refused or Barred(outer.axis, inner.axis, buffer)
    return refused


def unlike(merged: Merged, given: Sequence[Shape], equalities: Equalities) -> str | None:
    """The first argument that is not provably as large as what the launch gives, or None."""
    kernel = merged.kernel
    numbers = {n: v for n, v in merged.launch.attrs if isinstance(v, Dim)}
    read = [a for a in kernel.args if a.mode in ("in", "inout")]
    written = [a for a in kernel.args if a.mode in ("out", "inout")]
    for arg, shape in zip((*read, *written), given, strict=True):
        if not same_memory([d.substitute(numbers) for d in arg.type.dims], shape, equalities):
            return arg.name
    return None


def nested_pairs(body: tuple[Stmt, ...]) -> Iterator[tuple[For, For]]:
    for stmt in walk_statements(body):
        if isinstance(stmt, For) and len(stmt.body) == 1 and isinstance(stmt.body[0], For):
            yield stmt, stmt.body[0]


def perfectly_nested(loops: list[For], outer: For, inner: For) -> bool:
    """Whether every loop over one axis holds or fills a loop over the other."""
    outers = [s for s in loops if s.axis == outer.axis]
    inners = [s for s in loops if s.axis == inner.axis]
    return len(outers) == len(inners) and all(
        len(s.body) == 1
        and isinstance(s.body[0], For)
        and s.body[0].axis == inner.axis
        and (s.kind, s.body[0].kind) in KINDS
        for s in outers
    )


def accesses(kernel: Kernel) -> Iterator[tuple[str, tuple[Dim, ...]]]:
    for stmt in walk_statements(kernel.body):
        if isinstance(stmt, Store):
            yield stmt.buffer, stmt.indices
        for e in expressions(stmt):
            for sub in walk_expr(e):
                if isinstance(sub, Load):
                    yield sub.buffer, sub.indices


def bars(kernel: Kernel, outer: For, inner: For) -> str | None:
    """The first buffer (or `index`) whose accesses tell the two axes apart, or None."""
    i, j = dim(outer.axis), dim(inner.axis)
    axes = {outer.axis, inner.axis}
    places: dict[str, int | None] = {}
    for buffer, indices in accesses(kernel):
        used = [k for k, d in enumerate(indices) if d.symbols() & axes]
        shape = kernel.arg(buffer).type.dims
        place: int | None = None
        if used:
            k = used[0]
            pair = used == [k, k + 1] and indices[k] == i and indices[k + 1] == j
            if not pair or shape[k : k + 2] != (outer.extent, inner.extent):
                return buffer
            place = k
        if places.setdefault(buffer, place) != place:
            return buffer
    for stmt in walk_statements(kernel.body):
        if isinstance(stmt, For) and stmt.extent.symbols() & axes:
            return stmt.axis
        for e in expressions(stmt):
            for sub in walk_expr(e):
                if isinstance(sub, Index) and sub.value.symbols() & axes:
                    return "index"
    return None


def merge(kernel: Kernel, launch: Op, outer: For, inner: For) -> Merged:
    """The kernel over one axis `outer.axis` of extent r*c, and the launch that says so."""
    i = dim(outer.axis)
    taken = names_of(kernel)
    name = next(n for n in ("n", *(f"n{k}" for k in range(2, 99))) if n not in taken)
    extent = dim(name)
    place = {
        buffer: indices.index(i) for buffer, indices in accesses(kernel) if i in indices
    }

    def on_indices(buffer: str, indices: tuple[Dim, ...]) -> tuple[Dim, ...]:
        k = place.get(buffer)
        return indices if k is None else (*indices[:k], i, *indices[k + 2 :])

    def on_expr(e: Expr) -> Expr:
        if not isinstance(e, Load):
            return e
        return replace(e, indices=on_indices(e.buffer, e.indices))

    loops, _ = kernel.parallel()
    within = inner.kind == "vec" and outer.axis in [loop.axis for loop in loops[1:]]

    def on_body(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, For) and stmt.axis == outer.axis:
                below = stmt.body[0]
                assert isinstance(below, For)
                kind = below.kind if within else KINDS[stmt.kind, below.kind]
                out.append(replace(stmt, kind=kind, extent=extent, body=on_body(below.body)))
            elif isinstance(stmt, For | If):
                out.append(replace(stmt, body=on_body(stmt.body)))
            elif isinstance(stmt, Store):
                out.append(replace(stmt, indices=on_indices(stmt.buffer, stmt.indices)))
            else:
                out.append(stmt)
        return tuple(out)

    def on_arg(arg: Arg) -> Arg:
        k = place.get(arg.name)
        if k is None:
            return arg
        shape = arg.type.dims
        return replace(arg, type=replace(arg.type, shape=(*shape[:k], extent, *shape[k + 2 :])))

    body = map_statements(on_body(kernel.body), on_expr)
    args = tuple(on_arg(a) for a in kernel.args)
    values = {n: v for n, v in launch.attrs if isinstance(v, Dim)}
    numbers = {n: values[n] for n in kernel.extents}
    numbers[name] = outer.extent.substitute(numbers) * inner.extent.substitute(numbers)
    still = used_extents(body, args)
    extents = tuple(n for n in (name, *kernel.extents) if n == name or n in still)
    new = replace(kernel, extents=extents, args=args, body=body)
    attributes = attrs(kernel=KernelRef(kernel.name), **{n: numbers[n] for n in extents})
    axes = f"{outer.axis}·{inner.axis}"
    return Merged(new, replace(launch, attrs=attributes), axes)


def used_extents(body: tuple[Stmt, ...], args: tuple[Arg, ...]) -> set[str]:
    """Symbols that loops, indices and argument shapes still use."""
    found: set[str] = set()
    for arg in args:
        found |= arg.type.symbols()
    for stmt in walk_statements(body):
        if isinstance(stmt, For):
            found |= stmt.extent.symbols()
        if isinstance(stmt, Store):
            found |= {s for d in stmt.indices for s in d.symbols()}
        for e in expressions(stmt):
            for sub in walk_expr(e):
                if isinstance(sub, Load):
                    found |= {s for d in sub.indices for s in d.symbols()}
                elif isinstance(sub, Index):
                    found |= sub.value.symbols()
    return found

"""From a fused group to a loop tree.

    pointwise over D:      par i… { vec j { let …; store y[i,j] = … } }
    row over Do x Di:      par i… { for each level s of reductions { acc…; red j { acc ∘= … } }
                                    vec j { store y[i,j] = … } }

The level of a value is the number of completed reductions it needs, one after the other:

    level(reduce f) = 1 + level(its operand),   level(v) = max level of v's operands.

One `red` loop serves all reductions of a level; one map loop comes last. Index maps are composed
from the results down to the buffers: a broadcast, permutation, slice or unit reshape costs no copy.

    concat, pad:   v = x[i - b] if 0 <= i - b < n else other       (a guarded load)
    reverse:       v = x[n - 1 - i]
    gather:        let at = k[i];  v = x[at]                       (clamped to [0, n))
    argreduce:     two reductions: the extreme m, then the least place j with x[j] = m
    scatter:       loops of its own: copy, then write one update after the other

A transcendental value that several loops need is computed once and kept in the result's own
buffer where the shape allows, else in a scratch row of the worker.

Teaches: fusing means that an intermediate becomes a local variable of a loop.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from compiler.fusion.access import MOVEMENT
from compiler.ir.dims import ONE, ZERO, Dim, dim, plain_word
from compiler.ir.graph import Graph, Op, Origins, Value
from compiler.ir.loops import (
    TRANSCENDENTAL,
    Acc,
    Arg,
    Binary,
    Cast,
    Const,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Ref,
    Select,
    Stmt,
    Store,
    Unary,
    Update,
    compute_dtype,
    walk_expr,
    within,
)
from compiler.ir.names import fresh_word
from compiler.ir.types import Attr, DType, Scalar, TensorType, attrs

UNIT = ONE
AXIS_NAMES = "ijklmnopqr"
EXTENT_NAMES = {1: "n", 2: "rc", 3: "brc", 4: "abrc"}


_Key = tuple[str, tuple[Dim, ...], Expr | None]
"""A value, the index at which it is wanted, and the guard under which it is read."""


@dataclass(frozen=True)
class Lowered:
    """A kernel and the dimensions that the launch gives to its extents, in their order."""

    kernel: Kernel
    extents: tuple[Dim, ...]


@dataclass(frozen=True)
class Axis:
    name: str
    extent: Dim
    """Over the kernel's extents."""
    reduced: bool


def identifier(name: str, taken: set[str], fallback: str) -> str:
    """A name for kernels: letters, digits, `_`; unique within `taken`, which it joins."""
    word = "".join(ch if ch.isascii() and (ch.isalnum() or ch == "_") else "_" for ch in name)
    if not word or not plain_word(word) or word[0] == "_":
        word = fallback + word.strip("_")
    return fresh_word(word, taken)


RESERVED = frozenset(
    """False None True and as assert break class continue def del elif else except finally for
    from global if import in is lambda nonlocal not or pass raise return try while with yield
    params worker lo hi range load load_if store pointer private extent flat
    stream staging stream_end
    par seq red vec block warp lane let acc kernel out inout scratch inf nan
    abs ceil cos erf exp floor isnan log neg not rint sigmoid sign sin sqrt tanh maximum minimum
    select truncdiv pow mod add sub mul div min max xor eq ne lt le gt ge
    f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 b1 bool string c64 c128 fused launch
    add_reassoc max_reduce min_reduce dim
    unroll wide alloc local shared shuffle barrier aligned thread block_x block_y blocks_y
    load4 store4 stream4 four part fold_add fold_mul fold_max fold_min shuffle_xor cuda
    float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64""".split()
)
"""Words that no variable of a kernel may take: Python's, the emitter's and the text form's."""


class Group:
    """The state of lowering one group."""

    def __init__(self, name: str, op: Op, region: Graph) -> None:
        self.name = name
        self.op = op
        self.region = region
        self.types = region.types()
        self.ops: Mapping[str, Op] = region.producer()
        self.taken: set[str] = set(RESERVED)
        self.extents: list[tuple[str, Dim]] = []
        self.levels: dict[str, int] = {}
        self.reduces = [o for o in region.ops if o.family == "reduce"]
        self.domain = self._domain()
        self.axes = self._make_axes()
        self.buffers: dict[str, str] = {}
        self.shapes: dict[str, tuple[Dim, ...]] = {}
        self.names: dict[str, str] = {}
        self.accumulators: dict[str, str] = {}
        self.stashed: dict[str, tuple[str, tuple[Dim, ...]]] = {}
        self.scratch: list[Arg] = []
        self.row: list[Stmt] = []
        self.row_memo: dict[_Key, Expr] = {}
        self.inner: list[Stmt] | None = None
        self.inner_memo: dict[_Key, Expr] = {}
        self.scattered: tuple[Axis, ...] = ()
        self.guard: Expr | None = None
        self.moved = False
        self.elsewhere = _read_elsewhere(region)
        for v in op.inputs:
            if v is not None:
                self.buffers[v] = identifier(v, self.taken, "x")
        for v in region.outputs:
            self.buffers[v] = identifier(v, self.taken, "y")

    # ---- the domain and its axes

    def _domain(self) -> tuple[tuple[Dim, bool], ...]:
        """(dimension, reduced?) of every axis, units left out."""
        if self.reduces:
            first = self.reduces[0]
            shape = self.types[first.operands[0]].dims
            axes = first.ints("axes") or ()
            return tuple((d, k in axes) for k, d in enumerate(shape) if d != UNIT)
        best: tuple[Dim, ...] = ()
        for name in self.region.outputs:
            shape = tuple(d for d in self.types[name].dims if d != UNIT)
            if len(shape) > len(best):
                best = shape
        return tuple((d, False) for d in best)

    def _make_axes(self) -> tuple[Axis, ...]:
        names = EXTENT_NAMES.get(len(self.domain), "")
        axes: list[Axis] = []
        for k, (size, reduced) in enumerate(self.domain):
            wanted = names[k] if names else f"d{k}"
            extent = identifier(wanted, self.taken, "d")
            self.extents.append((extent, size))
            letter = AXIS_NAMES[k] if k < len(AXIS_NAMES) else f"a{k}"
            axis = identifier(letter, self.taken, "a")
            axes.append(Axis(axis, dim(extent), reduced))
        return tuple(axes)

    @property
    def outer(self) -> tuple[Axis, ...]:
        """Axes that run in parallel: a row group's kept axes; all but the innermost of a
        pointwise group, all of one that has a single axis."""
        if self.reduces:
            return tuple(a for a in self.axes if not a.reduced)
        return self.axes[:-1] if len(self.axes) > 1 else self.axes

    @property
    def inner_axes(self) -> tuple[Axis, ...]:
        if self.scattered:
            return self.scattered
        if self.reduces:
            return tuple(a for a in self.axes if a.reduced)
        return self.axes[-1:] if len(self.axes) > 1 else ()

    def extent_of(self, size: Dim) -> Dim:
        """A dimension of the module as an expression over the kernel's extents."""
        if size.constant == 1:
            return ONE
        for name, known in self.extents:
            if known == size:
                return dim(name)
        name = identifier(f"d{len(self.extents)}", self.taken, "d")
        self.extents.append((name, size))
        return dim(name)

    def place(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """The index at which a value of this shape stands in the domain: full, or a row's."""
        solid = sum(d != UNIT for d in shape)
        wanted = self.axes if solid == len(self.axes) else self.outer if self.reduces else ()
        if solid and solid != len(wanted):
            raise ValueError(f"@{self.name}: a value of rank {solid} has no place in the domain")
        axes = iter(wanted)
        return tuple(ZERO if d == UNIT else dim(next(axes).name) for d in shape)

    # ---- levels

    def level(self, name: str) -> int:
        """How many reductions, one after the other, a value waits for."""
        op = self.ops.get(name)
        if op is None:
            return 0
        if name not in self.levels:
            below = max((self.level(n) for n in op.operands), default=0)
            self.levels[name] = below + (op.family == "reduce")
        return self.levels[name]

    # ---- expressions

    def load(self, name: str, index: tuple[Dim, ...]) -> Expr:
        """A load from a buffer; its shape is over the extents of the axes that index it."""
        by_axis = {} if self.moved else {dim(a.name): a.extent for a in self.axes}
        shape = tuple(
            by_axis[at] if at in by_axis and size != UNIT else self.extent_of(size)
            for at, size in zip(index, self.types[name].dims, strict=True)
        )
        self.shapes.setdefault(name, shape)
        if self.guard is None:
            return Load(self.buffers[name], index)
        other = Scalar.of(compute_dtype(self.types[name].element), 0)
        return Load(self.buffers[name], index, self.guard, other)

    @contextmanager
    def elsewhere_at(self, guard: Expr | None = None) -> Generator[None]:
        """What is emitted meanwhile is read at a place that is not that of the result: axes tell
        nothing about extents; and where the guard fails, it is read nowhere."""
        before = self.guard, self.moved
        if guard is not None:
            self.guard = guard if self.guard is None else Binary("and", self.guard, guard)
        self.moved = True
        yield
        self.guard, self.moved = before

    @property
    def _inner_names(self) -> set[str]:
        """Axes and lets of the inner loop."""
        names = {r.name for r in self.inner_memo.values() if isinstance(r, Ref)}
        return names | {a.name for a in self.inner_axes}

    def _is_inner(self, index: tuple[Dim, ...]) -> bool:
        inner = self._inner_names
        return any(d.symbols() & inner for d in index)

    def emit(self, name: str, index: tuple[Dim, ...]) -> Expr:
        """The value of one element, as an expression over what is in scope."""
        key = (name, index, self.guard)
        known = self.row_memo.get(key) or self.inner_memo.get(key)
        if known is not None:
            return known
        if name in self.stashed and self._is_inner(index):
            buffer, at = self.stashed[name]
            return self._named(name, index, Load(buffer, at), self.ops[name].origins)
        op = self.ops.get(name)
        if op is None:
            return self.load(name, index)
        expr = self._expression(op, index)
        if isinstance(expr, Const | Index | Ref | Load):
            return expr
        return self._named(name, index, expr, op.origins)

    def _named(
        self, name: str, index: tuple[Dim, ...], expr: Expr, origins: Origins
    ) -> Expr:
        """Bind an expression to a `let` at the outermost place where it can stand."""
        inner = self._is_inner(index) or self._uses_inner(expr)
        if inner and self.inner is None:
            raise ValueError(f"@{self.name}: %{name} is used outside the loop it belongs to")
        key = (name, index, self.guard)
        return self._bind(name, key, self.types[name].element, expr, inner, origins)

    def _bind(
        self, word: str, key: _Key, dtype: DType, expr: Expr, inner: bool, origins: Origins
    ) -> Ref:
        ref = Ref(identifier(word, self.taken, "v"))
        let = Let(ref.name, dtype, expr, origins)
        if inner and self.inner is not None:
            self.inner.append(let)
            self.inner_memo[key] = ref
        else:
            self.row.append(let)
            self.row_memo[key] = ref
        return ref

    def _uses_inner(self, expr: Expr) -> bool:
        inner = self._inner_names
        for e in walk_expr(expr):
            if isinstance(e, Ref) and e.name in inner:
                return True
            if isinstance(e, Load) and any(d.symbols() & inner for d in e.indices):
                return True
            if isinstance(e, Index) and e.value.symbols() & inner:
                return True
        return False

    def _operand(self, op: Op, k: int, index: tuple[Dim, ...]) -> Expr:
        """Operand k of a broadcasting op at the op's index."""
        name = op.operands[k]
        return self.emit(name, aligned(self.types[name].dims, index))

    def _expression(self, op: Op, index: tuple[Dim, ...]) -> Expr:
        match op.family:
            case "const":
                value = op.get("value")
                assert isinstance(value, Scalar)
                return Const(value)
            case "dims":
                values = op.get("values")
                assert isinstance(values, tuple) and len(values) == 1
                assert isinstance(values[0], Dim)
                return self.dimension(values[0])
            case "iota":
                at = Index(index[op.int("axis")])
                return at if op.type.element is DType.i64 else Cast(op.type.element, at)
            case "reduce":
                return Ref(self.accumulators[op.key])
            case "map":
                args = [self._operand(op, k, index) for k in range(len(op.operands))]
                if len(args) == 1:
                    return Unary(op.function, args[0])
                return Binary(op.function, args[0], args[1])
            case "compare":
                x, y = (self._operand(op, k, index) for k in range(2))
                return Binary(op.function, x, y)
            case "select":
                c, x, y = (self._operand(op, k, index) for k in range(3))
                return Select(c, x, y)
            case "cast":
                return Cast(op.type.element, self._operand(op, 0, index))
            case "copy" | "expand":
                return self._operand(op, 0, index)
            case "reshape":
                return self._unit_reshape(op, index)
            case "permute":
                perm = op.ints("perm") or ()
                at = [ZERO] * len(perm)
                for k, p in enumerate(perm):
                    at[p] = index[k]
                return self.emit(op.operands[0], tuple(at))
            case "slice":
                return self._slice(op, index)
            case "concat":
                return self._concat(op, index)
            case "pad":
                return self._pad(op, index)
            case "reverse":
                return self._reverse(op, index)
            case "gather":
                return self._gather(op, index)
            case "gather_elements":
                told = self._told(op, 1, index, op.int("axis"))
                axis = op.int("axis")
                return self._at_told(op, (*index[:axis], told, *index[axis + 1 :]))
            case "window":
                return self._window(op, index)
            case _:
                raise ValueError(f"@{self.name}: no loop nest for {op.kind}")

    def dimension(self, value: Dim) -> Expr:
        """A dimension as an i64 expression over the kernel's extents."""
        constant = value.constant
        if constant is not None:
            return Const(Scalar.of(DType.i64, constant))
        return Index(self.extent_of(value))

    def _unit_reshape(self, op: Op, index: tuple[Dim, ...]) -> Expr:
        source = op.operands[0]
        shape = self.types[source].dims
        solid = iter(at for at, d in zip(index, op.type.dims, strict=True) if d != UNIT)
        return self.emit(source, tuple(ZERO if d == UNIT else next(solid) for d in shape))

    def _window(self, op: Op, index: tuple[Dim, ...]) -> Expr:
        """A window that is an array of its own: what it reads stands in memory."""
        source, value = op.operands
        outside = self.ops[value].get("value") if value in self.ops else None
        if not isinstance(outside, Scalar) or source in self.ops:
            raise ValueError(f"@{self.name}: %{op.key} is a window over what is not in memory")
        shape = self.types[source].dims
        at = list(index[: len(shape)])
        guard: Expr | None = None
        taps = index[len(shape) :]
        axes, strides, dilations = (op.ints(n) or () for n in ("axes", "strides", "dilations"))
        before = op.get("before")
        assert isinstance(before, tuple)
        for axis, stride, dilation, low, tap in zip(
            axes, strides, dilations, before, taps, strict=True
        ):
            assert isinstance(low, int | Dim)
            shift = dim(low) if dim(low).constant is not None else self.extent_of(dim(low))
            at[axis] = at[axis] * stride + tap * dilation - shift
            inside = within(at[axis], self.extent_of(shape[axis]))
            guard = inside if guard is None else Binary("and", guard, inside)
        load = self.load(source, tuple(at))
        assert isinstance(load, Load)
        return load if guard is None else Load(load.buffer, load.indices, guard, outside)

    def _slice(self, op: Op, index: tuple[Dim, ...]) -> Expr:
        starts, steps = op.get("starts"), op.get("steps")
        assert isinstance(starts, tuple) and isinstance(steps, tuple)
        at: list[Dim] = []
        for k, i in enumerate(index):
            start, step = starts[k], steps[k]
            assert isinstance(start, int | Dim) and isinstance(step, int | Dim)
            at.append(self.number(dim(start)) + i * step)
        with self.elsewhere_at():
            return self.emit(op.operands[0], tuple(at))

    def number(self, size: Dim) -> Dim:
        """A dimension of the module in an index: a literal, or over the kernel's extents."""
        return size if size.constant is not None else self.extent_of(size)

    def _concat(self, op: Op, index: tuple[Dim, ...]) -> Expr:
        """One guarded part for each operand; the position selects among them."""
        axis, start = op.int("axis"), ZERO
        parts: list[tuple[Expr, Expr]] = []
        for name in op.operands:
            size = self.types[name].dims[axis]
            at = index[axis] - start
            guard = within(at, self.number(size))
            place = ZERO if size == UNIT else at
            with self.elsewhere_at(guard):
                value = self.emit(name, (*index[:axis], place, *index[axis + 1 :]))
            parts.append((guard, value))
            start = start + self.number(size)
        _, value = parts[-1]
        for guard, part in reversed(parts[:-1]):
            value = Select(guard, part, value)
        return value

    def _pad(self, op: Op, index: tuple[Dim, ...]) -> Expr:
        source, outside = op.operands
        before, after = op.get("before"), op.get("after")
        assert isinstance(before, tuple) and isinstance(after, tuple)
        guard: Expr | None = None
        place: list[Dim] = []
        shape = self.types[source].dims
        for at, size, low, high in zip(index, shape, before, after, strict=True):
            assert isinstance(low, Dim) and isinstance(high, Dim)
            own = at - self.number(low)
            place.append(ZERO if size == UNIT else own)
            if low.terms or high.terms:
                one = within(own, self.number(size))
                guard = one if guard is None else Binary("and", guard, one)
        other = self.emit(outside, ())
        with self.elsewhere_at(guard):
            value = self.emit(source, tuple(place))
        if guard is None:
            return value
        if isinstance(value, Load) and value.guard is not None and isinstance(other, Const):
            return replace(value, other=other.value)
        return Select(guard, value, other)

    def _reverse(self, op: Op, index: tuple[Dim, ...]) -> Expr:
        axes, shape = op.ints("axes") or (), op.type.dims
        place = tuple(
            self.number(d) - 1 - at if k in axes and d != UNIT else at
            for k, (at, d) in enumerate(zip(index, shape, strict=True))
        )
        with self.elsewhere_at():
            return self.emit(op.operands[0], place)

    def _gather(self, op: Op, index: tuple[Dim, ...]) -> Expr:
        axis = op.int("axis")
        end = axis + self.types[op.operands[1]].rank
        told = self._told(op, 1, index[axis:end], axis)
        return self._at_told(op, (*index[:axis], told, *index[end:]))

    def _at_told(self, op: Op, place: tuple[Dim, ...]) -> Expr:
        """The element of a gather's source at a place that its indices told."""
        size = self.types[op.operands[0]].dims[op.int("axis")]
        with self.elsewhere_at(some(self.number(size))):
            return self.emit(op.operands[0], place)

    def _told(self, op: Op, k: int, index: tuple[Dim, ...], axis: int) -> Dim:
        """The place along `axis` of operand 0 that operand k tells at `index`, in a `let`.

        Negative ones count from the end; what is out of range is clamped.
        """
        name, size = op.operands[k], self.types[op.operands[0]].dims[axis]
        if size == UNIT:
            return ZERO
        key = (f"{op.key} {name}", index, self.guard)
        known = self.row_memo.get(key) or self.inner_memo.get(key)
        if known is None:
            given = self.emit(name, index)
            if not isinstance(given, Ref | Const):
                given = self._named(name, index, given, op.origins)
            if self.types[name].element is not DType.i64:
                given = Cast(DType.i64, given)
            n, zero = self.number(size), Index(ZERO)
            at = Select(Binary("lt", given, zero), Binary("add", given, Index(n)), given)
            at = Binary("max", Binary("min", at, Index(n - 1)), zero)
            word = f"{self.buffers.get(name, name)}_at"
            inner = self._uses_inner(at)
            known = self._bind(word, key, DType.i64, at, inner, op.origins)
        assert isinstance(known, Ref)
        return dim(known.name)

    # ---- loops

    def _nest(self, kind: str, axes: Sequence[Axis], body: list[Stmt]) -> list[Stmt]:
        """Loops around a body; a map nest vectorises its innermost axis."""
        origins = self.op.origins
        for k, axis in enumerate(reversed(axes)):
            inner = "vec" if k == 0 else "seq"
            body = [
                For(kind if kind != "map" else inner, axis.name, axis.extent, tuple(body), origins)
            ]
        return body

    def _expensive(self, name: str) -> bool:
        """Whether computing a value again would repeat a transcendental function."""
        op = self.ops.get(name)
        if op is None or op.family == "reduce" or name in self.stashed:
            return False
        return (op.family == "map" and op.function in TRANSCENDENTAL) or any(
            self._expensive(n) for n in op.operands
        )

    def _loops_that_need(self, name: str, last: int) -> set[int]:
        """The loops (1…last, the map loop is `last`) whose bodies read a full value directly."""
        found: set[int] = set()

        def visit(value: str, loop: int, seen: set[str]) -> None:
            op = self.ops.get(value)
            if op is None or op.family == "reduce" or value in seen:
                return
            seen.add(value)
            if value == name:
                found.add(loop)
                return
            for n in op.operands:
                visit(n, loop, seen)

        for reduce in self.reduces:
            visit(reduce.operands[0], self.level(reduce.key), set())
        for output in self.region.outputs:
            visit(output, last, set())
        return found

    def _plan_stashes(self, last: int) -> dict[str, int]:
        """Full transcendental values needed by several loops -> the loop that computes them."""
        chosen: dict[str, int] = {}
        for op in self.region.ops:
            solid = sum(d != UNIT for d in op.type.dims)
            if op.family == "reduce" or solid != len(self.axes) or not self.inner_axes:
                continue
            if not (op.family == "map" and op.function in TRANSCENDENTAL):
                continue
            if op.key in self.elsewhere:
                continue
            loops = self._loops_that_need(op.key, last)
            if len(loops) > 1:
                chosen[op.key] = min(loops)
        return chosen

    def _stash_place(self, name: str, used: set[str]) -> tuple[str, tuple[Dim, ...]]:
        """A result's buffer of the same type, free until the map loop, else a scratch row."""
        type = self.types[name]
        for output in (name, *self.region.outputs):
            if output not in self.region.outputs or output in used:
                continue
            other = self.types[output]
            solid = sum(d != UNIT for d in other.dims)
            if other.element is type.element and solid == len(self.axes):
                used.add(output)
                at = self.place(other.dims)
                self.load(output, at)
                return self.buffers[output], at
        inner = self.inner_axes
        word = identifier("row", self.taken, "row")
        shape = tuple(a.extent for a in inner)
        self.scratch.append(Arg(word, "scratch", TensorType(type.element, shape)))
        return word, tuple(dim(a.name) for a in inner)

    def lower(self) -> Lowered:
        if self.region.ops[-1].family == "scatter_elements":
            return self._scatter(self.region.ops[-1])
        last = 1 + max((self.level(r.key) for r in self.reduces), default=0)
        stashes = self._plan_stashes(last)
        used: set[str] = set()
        for s in range(1, last):
            self._reduction_loop(s, {n for n, at in stashes.items() if at == s}, used)
        self._map_loop()
        body = tuple(self.row)
        for axis in reversed(self.outer):
            body = (For("par", axis.name, axis.extent, body, self.op.origins),)
        return Lowered(self._kernel(body), tuple(size for _, size in self.extents))

    def _scatter(self, op: Op) -> Lowered:
        """Copy the first operand; then, in their order along the axis, the updates.

        Axes before the scattered one run in parallel, all others inside.
        """
        x, told, updates = op.operands
        axis, shape, small = op.int("axis"), op.type.dims, self.types[told].dims
        at = self.place(shape)
        solid = [k for k, d in enumerate(shape) if d != UNIT]
        outer = [a for k, a in zip(solid, self.axes, strict=True) if k < axis]
        inner = [a for k, a in zip(solid, self.axes, strict=True) if k >= axis]
        after = [a for k, a in zip(solid, self.axes, strict=True) if k > axis]
        self.load(op.key, at)
        self.scattered = tuple(inner)
        self.inner, self.inner_memo = [], {}
        copied = Store(self.buffers[op.key], at, self.emit(x, at), op.origins)
        copy = self._nest("map", inner, [*self.inner, copied])
        self.inner, self.inner_memo, self.moved = [], {}, True
        steps = Axis(identifier("e", self.taken, "e"), self.number(small[axis]), False)
        # What the condition keeps from being read stands inside it, also where it hangs on outer
        # axes alone: the indices may be shorter than the data there.
        self.scattered = (steps, *after, *outer)
        place = list(at)
        place[axis] = ZERO if small[axis] == UNIT else dim(steps.name)
        condition = some(self.number(shape[axis]))
        for k, (many, few) in enumerate(zip(shape, small, strict=True)):
            if few == UNIT:
                place[k] = ZERO
            if k != axis and many != few:
                guard = within(at[k], self.number(few))
                condition = guard if condition is None else Binary("and", condition, guard)
        where = (*at[:axis], self._told(op, 1, tuple(place), axis), *at[axis + 1 :])
        value = self.emit(updates, tuple(place))
        written: list[Stmt] = [
            *self.inner, Store(self.buffers[op.key], where, value, op.origins)
        ]  # fmt: skip
        if condition is not None:
            written = [If(condition, tuple(written), op.origins)]
        write = self._nest("seq", [steps, *after], written)
        body: tuple[Stmt, ...] = (*self.row, *copy, *write)
        for loop in reversed(outer):
            body = (For("par", loop.name, loop.extent, body, op.origins),)
        return Lowered(self._kernel(body), tuple(size for _, size in self.extents))

    def _reduction_loop(self, s: int, stash: set[str], used: set[str]) -> None:
        reduces = [r for r in self.reduces if self.level(r.key) == s]
        self.inner, self.inner_memo = [], {}
        accs: list[Stmt] = []
        for r in reduces:
            word = identifier(r.key, self.taken, "a")
            self.accumulators[r.key] = word
            accs.append(Acc(word, r.type.element, identity(r), r.origins))
        updates: list[Stmt] = []
        for name in sorted(stash, key=lambda n: list(self.ops).index(n)):
            index = self.place(self.types[name].dims)
            value = self.emit(name, index)
            buffer, at = self._stash_place(name, used)
            self.inner.append(Store(buffer, at, value, self.ops[name].origins))
            self.stashed[name] = (buffer, at)
        for r in reduces:
            operand = r.operands[0]
            value = self.emit(operand, self.place(self.types[operand].dims))
            combine = {"sum": "add", "prod": "mul"}.get(r.function, r.function)
            updates.append(Update(self.accumulators[r.key], combine, value, r.origins))
        nest = self._nest("red", self.inner_axes, [*self.inner, *updates])
        self.row += [*accs, *nest]
        self.inner, self.inner_memo = None, {}

    def _map_loop(self) -> None:
        full: list[str] = []
        for name in self.region.outputs:
            shape = self.types[name].dims
            solid = sum(d != UNIT for d in shape)
            is_row = bool(self.reduces) and solid != len(self.axes)
            if is_row or not self.inner_axes:
                self.row += self._store(name)
            else:
                full.append(name)
        if full:
            self.inner, self.inner_memo = [], {}
            stores = [s for name in full for s in self._store(name)]
            self.row += self._nest("map", self.inner_axes, [*self.inner, *stores])
            self.inner, self.inner_memo = None, {}

    def _store(self, name: str) -> list[Stmt]:
        """The store of a result (none where it stands in its place already).

        All stores of a loop come after all its loads: a buffer may hold a kept value until then.
        """
        index = self.place(self.types[name].dims)
        self.load(name, index)
        op = self.ops[name]
        key = (name, index, self.guard)
        stashed = self.stashed.get(name)
        if stashed == (self.buffers[name], index):
            return []
        known = self.row_memo.get(key) or self.inner_memo.get(key)
        others = {n for o in self.region.ops for n in o.operands}
        if known is None and name not in others and stashed is None and op.family != "reduce":
            value = self._expression(op, index)
        else:
            value = self.emit(name, index)
        return [Store(self.buffers[name], index, value, op.origins)]

    def _kernel(self, body: tuple[Stmt, ...]) -> Kernel:
        args: list[Arg] = []
        for name in self.op.operands:
            args.append(self._arg(name, "in"))
        for name in self.region.outputs:
            args.append(self._arg(name, "out"))
        args += self.scratch
        extents = tuple(name for name, _ in self.extents)
        return Kernel(self.name, extents, tuple(args), body, self.op.origins)

    def _arg(self, name: str, mode: str) -> Arg:
        if name not in self.shapes:
            self.shapes[name] = tuple(self.extent_of(d) for d in self.types[name].dims)
        type = TensorType(self.types[name].element, self.shapes[name])
        return Arg(self.buffers[name], mode, type)


def some(extent: Dim) -> Expr | None:
    """The guard that an axis has elements at all; None where that is sure."""
    if (extent.constant or 0) > 0:
        return None
    return Binary("lt", Index(ZERO), Index(extent))


def _read_elsewhere(region: Graph) -> frozenset[str]:
    """Values that an op which moves elements reads, directly or through others."""
    found: set[str] = set()
    for op in reversed(region.ops):
        if op.family in MOVEMENT or op.key in found:
            found.update(op.operands)
    return frozenset(found)


def aligned(shape: Sequence[Dim], index: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The index of a broadcast operand: aligned right, 0 where its dimension is 1."""
    at = index[len(index) - len(shape) :] if shape else ()
    return tuple(ZERO if d == UNIT else i for d, i in zip(shape, at, strict=True))


def identity(op: Op) -> Scalar:
    """The first value of an accumulator: the result over nothing."""
    element = op.type.element
    if op.function in ("sum", "prod"):
        return Scalar.of(element, 0 if op.function == "sum" else 1)
    if element.is_float:
        return Scalar.of(element, float("-inf") if op.function == "max" else float("inf"))
    if element is DType.bool:
        return Scalar.of(element, op.function == "min")
    info = np.iinfo(element.numpy().name)
    return Scalar.of(element, int(info.min if op.function == "max" else info.max))


def lower_group(name: str, op: Op) -> Lowered:
    """The kernel of a `fused` op. ValueError for a group that the rules of fusion do not allow."""
    return Group(name, op, in_reductions(op.regions[0])).lower()


def in_reductions(region: Graph) -> Graph:
    """The region with every `argreduce` as two reductions.

        m = reduce.max x;  y = reduce.min (j if x[j] = m or x[j] is NaN, else the extent)
    """
    if all(op.family != "argreduce" for op in region.ops):
        return region
    types, ops = region.types(), list[Op]()
    taken = set(types)
    for op in region.ops:
        if op.family == "argreduce":
            ops += _argreduce(op, types[op.operands[0]], taken)
        else:
            ops.append(op)
    return replace(region, ops=tuple(ops))


def _argreduce(op: Op, x: TensorType, taken: set[str]) -> Iterator[Op]:
    source, axis, last = op.operands[0], op.int("axis"), op.int("last")

    def make(word: str, kind: str, inputs: Sequence[str], type: TensorType, **given: Attr) -> Op:
        name = identifier(word, taken, "v")
        return Op(kind, tuple(inputs), (Value(name, type),), attrs(**given), (), op.origins)

    one = replace(x, shape=op.type.dims)
    best = make("best", f"reduce.{op.function}", (source,), one, axes=(axis,))
    flags, places = replace(x, dtype=DType.bool), replace(x, dtype=DType.i64)
    here = make("here", "compare.eq", (source, best.key), flags)
    yield from (best, here)
    if x.element.is_float:
        nan = make("nan", "map.isnan", (source,), flags)
        here = make("found", "map.or", (here.key, nan.key), flags)
        yield from (nan, here)
    at = make("at", "iota", (), places, axis=axis)
    nowhere = dim(-1) if last else x.dims[axis]
    other = make("nowhere", "dims", (), TensorType(DType.i64, ()), values=(nowhere,))
    chosen = make("place", "select", (here.key, at.key, other.key), places)
    yield from (at, other, chosen)
    function = "max" if last else "min"
    yield replace(op, kind=f"reduce.{function}", inputs=(chosen.key,), attrs=attrs(axes=(axis,)))


def lower_dims(name: str, op: Op) -> Lowered:
    """A kernel that writes the dimensions of a `dims` op into its int64 result."""
    group = Group(name, op, Graph((), (op.key,), (op,)))
    values = op.get("values")
    assert isinstance(values, tuple)
    buffer = group.buffers[op.key]
    body: list[Stmt] = []
    for k, value in enumerate(values):
        assert isinstance(value, Dim)
        at = (dim(k),) if op.type.rank else ()
        body.append(Store(buffer, at, group.dimension(value), op.origins))
    shape = tuple(dim(n) if (n := d.constant) is not None else d for d in op.type.dims)
    used = [(n, d) for n, d in group.extents if d.constant is None]
    args = (Arg(buffer, "out", TensorType(DType.i64, shape)),)
    kernel = Kernel(name, tuple(n for n, _ in used), args, tuple(body), op.origins)
    return Lowered(kernel, tuple(d for _, d in used))

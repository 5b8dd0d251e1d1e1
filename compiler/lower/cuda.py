"""From a loop tree to one for a GPU: which thread does which elements.

    pointwise   par i in r { vec j in c { … } }
             -> block, block, lane t: 4 neighbours j of a few rows i; 16 bytes a load, a store
    row         par i in r { acc m; red j in c { m ∘= … }; … vec j in c { … } }
             -> block, warp, lane: a warp (or several) a row, which it holds in registers;
                lanes combine by shuffles, warps through shared memory
    thread      par i … { anything }
             -> block, lane: one thread an iteration, for what fits neither

The first two have two paths in one kernel, behind a branch that all threads take alike: four
elements an access where every buffer is aligned and a row is a multiple of four long (and, for
rows, fits the registers), else one element an access, threads of a warp side by side. So one
kernel serves every size.

How much a thread does follows one rule: a thread has about four wide loads (64 bytes) in flight.

    rows of a tile's thread     max(1, 4 // arrays)         arrays: those that differ by row
    accesses of a row's thread  max(1, 4 // arrays)         then as many warps as the row needs,
                                twice that                  where 16 warps do not hold it

On an H200 that was within 1 % of the fastest of three to eight choices for each of eight kernels
(benchmarks/recorded/).

The meaning stays that of the tree it came from, up to the order of a reduction: `interpret` runs
both.

Teaches: the same loops feed any machine; a schedule says who runs which iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler.ir.dims import ZERO, Dim, ceil_div, dim, product
from compiler.ir.loops import (
    LANES,
    WARP,
    Acc,
    Aligned,
    Alloc,
    Arg,
    Barrier,
    Binary,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Ref,
    Shuffle,
    Stmt,
    Store,
    Unary,
    Update,
    compute_dtype,
    expressions,
    map_expr,
    map_statements,
    names_of,
    walk_expr,
    walk_statements,
)
from compiler.ir.types import DType, Scalar, TensorType
from compiler.lower.kernels import RESERVED, identifier

__all__ = ["Options", "Scheduled", "schedule"]

SMALL_ROW = 16
"""Elements of a row below which one thread does it alone."""
ASSUMED_ROW = 1024
"""Elements of a row of which nothing is known."""
IN_FLIGHT = 4
"""Wide loads that a thread has in flight, over all arrays that differ from row to row."""
REGISTERS = 96
"""Registers of a thread that may hold inputs loaded ahead of their use."""


@dataclass(frozen=True, slots=True)
class Options:
    """What measuring decides; 0 leaves it to the rule above.

    `threads`: of a block of a pointwise kernel; `rows`: that each of its threads does; `chunks`:
    wide accesses to each array of a row that a thread of a row kernel holds; `warps`: that share a
    row (0: as many as `chunks` asks for); `block`: warps of a block where one warp does a row;
    `stream`: whether results go past the cache.
    """

    threads: int = 256
    rows: int = 0
    chunks: int = 0
    warps: int = 0
    block: int = 4
    stream: bool = True


@dataclass(frozen=True)
class Scheduled:
    """A kernel for a GPU, and which of the three ways it was made in, with the reason."""

    kernel: Kernel
    kind: str
    reason: str


class _Unfit(Exception):
    """The tree does not have the shape that a schedule is for; the text is a message id."""


def schedule(
    kernel: Kernel,
    exact: Mapping[str, int],
    assumed: Mapping[str, int],
    options: Options = Options(),
) -> Scheduled:
    """The kernel scheduled for a GPU: same name, same arguments without scratch.

    `exact` are the extents that every launch gives the same number, `assumed` guesses for all:
    they decide how a row is divided, never what is computed. ValueError for a `stream` loop, which
    only makes sense on a CPU.
    """
    if any(isinstance(s, For) and s.kind == "stream" for s in walk_statements(kernel.body)):
        raise ValueError(f"@{kernel.name} streams rows through scratch: that is for a CPU")
    work = _Schedule(kernel, exact, assumed, options)
    try:
        return Scheduled(work.pointwise(), "pointwise", "gpu.pointwise")
    except _Unfit:
        pass
    try:
        return Scheduled(work.row(), "row", "gpu.row")
    except _Unfit as unfit:
        return Scheduled(work.thread(), "thread", str(unfit))


@dataclass(frozen=True)
class _Nest:
    """Parallel axes around one loop (`axis`, `extent`) over neighbours, or several of them.

    `prefix` stands between the parallel loops and the innermost one.
    """

    outer: tuple[For, ...]
    axis: str
    extent: Dim
    prefix: tuple[Stmt, ...]
    body: tuple[Stmt, ...]


class _Schedule:
    """One kernel on its way to a GPU."""

    def __init__(
        self, kernel: Kernel, exact: Mapping[str, int], assumed: Mapping[str, int], o: Options
    ) -> None:
        self.kernel = kernel
        self.exact = exact
        self.assumed = assumed
        self.options = o
        self.origins = kernel.origins
        self.shapes = {a.name: a.type.dims for a in kernel.args}
        self.elements = {a.name: a.type.element for a in kernel.args}
        self.modes = {a.name: a.mode for a in kernel.args}
        self.taken = names_of(kernel) | RESERVED

    def name(self, word: str) -> str:
        return identifier(word, self.taken, "g")

    def loop(self, kind: str, axis: str, extent: Dim | int, *body: Stmt) -> For:
        return For(kind, axis, dim(extent), tuple(body), self.origins)

    def when(self, condition: Expr, *body: Stmt) -> If:
        return If(condition, tuple(body), self.origins)

    def known(self, extent: Dim) -> int | None:
        """The number an extent always is, or None."""
        return extent.evaluate(self.exact) if extent.symbols() <= self.exact.keys() else None

    def guess(self, extent: Dim, otherwise: int) -> int:
        sizes = {**self.assumed, **self.exact}
        return extent.evaluate(sizes) if extent.symbols() <= sizes.keys() else otherwise

    # ---- the shape of a tree

    def nest(self) -> _Nest:
        """The tree as parallel axes around one loop over neighbours. Raises _Unfit."""
        outer, body = self.kernel.parallel()
        prefix, inner = body[:-1], body[-1:]
        if len(inner) == 1 and isinstance(inner[0], For):
            last = inner[0]
            if last.kind not in ("vec", "seq"):
                raise _Unfit("gpu.shape")
        elif outer:
            last, outer, prefix = replace(outer[-1], body=body), outer[:-1], ()
        else:
            raise _Unfit("gpu.shape")
        if not all(isinstance(s, Let) for s in prefix):
            raise _Unfit("gpu.shape")
        if not all(isinstance(s, Let | Store) for s in last.body):
            raise _Unfit("gpu.shape")
        return _Nest(outer, last.axis, last.extent, prefix, last.body)

    def check_elements(self, body: Iterable[Stmt]) -> None:
        """Four elements at once: no index or guard may depend on what was computed of one.

        Nothing is loaded after it was stored. Raises _Unfit.
        """
        lets: set[str] = set()
        stored: set[str] = set()
        for stmt in body:
            for root in expressions(stmt):
                for e in walk_expr(root):
                    if isinstance(e, Load):
                        if e.buffer in stored:
                            raise _Unfit("gpu.reread")
                        if any(d.symbols() & lets for d in e.indices):
                            raise _Unfit("gpu.data")
                        if e.guard is not None:
                            raise _Unfit("gpu.guard")
                    elif isinstance(e, Index) and e.value.symbols() & lets:
                        raise _Unfit("gpu.data")
            if isinstance(stmt, Let):
                lets.add(stmt.name)
            elif isinstance(stmt, Store):
                stored.add(stmt.buffer)
                if any(d.symbols() & lets for d in stmt.indices):
                    raise _Unfit("gpu.data")

    def along(self, buffer: str, indices: tuple[Dim, ...], axis: str, extent: Dim) -> bool:
        """Whether an access goes to neighbours along the axis, from a multiple of a row on."""
        return (
            bool(indices)
            and indices[-1] == dim(axis)
            and self.shapes[buffer][-1] == extent
            and not any(axis in d.symbols() for d in indices[:-1])
            and buffer in self.modes
        )

    def in_flight(self, loads: Iterable[Load]) -> int:
        """How many times a thread may make these wide loads before it uses the first."""
        places = {(load.buffer, load.indices) for load in loads}
        return max(1, IN_FLIGHT // max(1, len(places)))

    def rows_of(self, outer: Sequence[For]) -> Dim:
        return product(loop.extent for loop in outer)

    def decode(self, outer: Sequence[For], flat: Dim) -> tuple[list[Stmt], dict[str, Dim]]:
        """The axes of parallel loops from the position in their product: statements and values.

        One axis is the position; several are found by division, once for all that follows.
        """
        if not outer:
            return [], {}
        if len(outer) == 1:
            return [], {outer[0].axis: flat}
        found: list[Stmt] = []
        at: dict[str, Dim] = {}
        rest = flat
        for loop in reversed(outer[1:]):
            word = self.name("rest")
            quotient = Binary("div", Index(rest), Index(loop.extent))
            found.append(Let(word, DType.i64, quotient, self.origins))
            at[loop.axis] = rest - dim(word) * loop.extent
            rest = dim(word)
        at[outer[0].axis] = rest
        return found, at

    def wide_condition(self, buffers: Iterable[str], *terms: Expr) -> Expr:
        names = tuple(dict.fromkeys(buffers))
        condition: Expr = Aligned(names)
        for term in terms:
            condition = Binary("and", condition, term)
        return condition

    # ---- pointwise

    def pointwise(self) -> Kernel:
        """Blocks of threads over tiles of rows and columns. Raises _Unfit."""
        nest = self.nest()
        if any(a.mode == "scratch" for a in self.kernel.args):
            raise _Unfit("gpu.shape")
        self.check_elements((*nest.prefix, *nest.body))
        o = self.options
        c = nest.extent
        rows = self.rows_of(nest.outer)
        columns = o.threads
        if nest.outer:
            wanted = -(-max(1, self.guess(c, LANES * o.threads)) // LANES)
            while columns > 1 and columns // 2 >= wanted:
                columns //= 2
        down = o.threads // columns
        outer = {loop.axis for loop in nest.outer}
        many = o.rows or self.in_flight(
            load
            for load in loads_of(nest.body)
            if self.along(load.buffer, load.indices, nest.axis, c) and varies(load, outer)
        )
        if nest.outer:
            many = min(many, max(1, self.guess(rows, many) // down))
        by, bx, t, u, e = (self.name(w) for w in ("by", "bx", "t", "u", "e"))
        tile, thread = dim(bx), dim(t)
        if columns != o.threads:
            thread = dim(t) - dim(columns) * (dim(t) // columns)
        if nest.outer:
            row = dim(by) * (many * down) + dim(u) * down
            row = row + dim(t) // columns if down > 1 else row
            first = tile * (LANES * columns) + thread * LANES
            single = tile * (LANES * columns) + dim(e) * columns + thread
            inside: Expr | None = less(row, rows)
            width = LANES * columns
        else:
            row = ZERO
            first = tile * (LANES * columns * many) + dim(u) * (LANES * columns) + thread * LANES
            single = (
                tile * (LANES * columns * many) + dim(u) * (LANES * columns)
                + dim(e) * columns + thread
            )  # fmt: skip
            inside = None
            width = LANES * columns * many
        lets, at = self.decode(nest.outer, row)
        tail = self._tail(nest, many, u, e, single, lets, at, inside)
        size = self.known(c)
        body: tuple[Stmt, ...] = tail
        if size is None or size % LANES == 0:
            wide = self._tiles(nest, many, u, e, first, lets, at, inside)
            if wide is not None:
                buffers, stmts = wide
                whole = Binary("eq", Index(c // LANES * LANES), Index(c))
                terms = (whole,) if size is None else ()
                body = self.two_paths(self.wide_condition(buffers, *terms), stmts, tail)
        body = (self.loop("lane", t, o.threads, *body),)
        body = (self.loop("block", bx, ceil_div(c, width), *body),)
        if nest.outer:
            body = (self.loop("block", by, ceil_div(rows, many * down), *body),)
        return replace(self.kernel, body=body)

    def two_paths(
        self, condition: Expr, yes: tuple[Stmt, ...], no: tuple[Stmt, ...]
    ) -> tuple[Stmt, ...]:
        word = self.name("whole")
        let = Let(word, DType.bool, condition, self.origins)
        return (let, self.when(Ref(word), *yes), self.when(Unary("not", Ref(word)), *no))

    def _tail(
        self,
        nest: _Nest,
        many: int,
        u: str,
        e: str,
        single: Dim,
        lets: Sequence[Stmt],
        at: Mapping[str, Dim],
        inside: Expr | None,
    ) -> tuple[Stmt, ...]:
        """One element an access."""
        places = {**at, nest.axis: single}
        element = self.when(less(single, nest.extent), *placed(nest.body, places))
        inner = (*lets, *placed(nest.prefix, places), self.loop("seq", e, LANES, element))
        if inside is not None:
            inner = (self.when(inside, *inner),)
        return (self.loop("unroll", u, many, *inner),)

    def _tiles(
        self,
        nest: _Nest,
        many: int,
        u: str,
        e: str,
        first: Dim,
        lets: Sequence[Stmt],
        at: Mapping[str, Dim],
        inside: Expr | None,
    ) -> tuple[list[str], tuple[Stmt, ...]] | None:
        """Four elements an access: what must be aligned, and the statements. None where nothing
        goes to neighbours."""
        places = {**at, nest.axis: first + dim(e)}
        outer = {loop.axis for loop in nest.outer}
        buffers: list[str] = []
        common: list[Stmt] = []
        ahead: list[Stmt] = []
        arrays: list[Stmt] = []
        regs: dict[tuple[str, tuple[Dim, ...]], Load] = {}
        for load in loads_of(nest.body):
            key = (load.buffer, load.indices)
            if key in regs or not self.along(*key, nest.axis, nest.extent):
                continue
            buffers.append(load.buffer)
            each_row = varies(load, outer)
            array = self.registers(load.buffer, many if each_row else 0)
            arrays.append(array)
            regs[key] = Load(array.name, (dim(u), dim(e)) if each_row else (dim(e),))
            source = Load(load.buffer, put(load.indices, places))
            copy = Store(array.name, regs[key].indices, source, self.origins)
            (ahead if each_row else common).append(self.loop("wide", e, LANES, copy))

        stores: list[Stmt] = []

        def on_store(stmt: Store) -> Store:
            if not self.along(stmt.buffer, stmt.indices, nest.axis, nest.extent):
                return replace(stmt, indices=put(stmt.indices, places))
            buffers.append(stmt.buffer)
            array = self.registers(stmt.buffer, 0)
            arrays.append(array)
            stores.append(self.write(stmt, array.name, (dim(e),), places, e))
            return replace(stmt, buffer=array.name, indices=(dim(e),))

        body = with_registers(nest.body, regs, places, on_store)
        if not buffers:
            return None
        compute = (
            *lets, *placed(nest.prefix, places), self.loop("vec", e, LANES, *body), *stores,
        )  # fmt: skip
        near = less(first, nest.extent)
        if inside is None:
            loads = (self.loop("unroll", u, many, self.when(near, *ahead)),) if ahead else ()
            return buffers, (
                *arrays, *loads, self.loop("unroll", u, many, self.when(near, *common, *compute))
            )
        loads = (
            (self.loop("unroll", u, many, self.when(inside, *lets, *ahead)),) if ahead else ()
        )
        rest = self.loop("unroll", u, many, self.when(inside, *compute))
        return buffers, (self.when(near, *arrays, *common, *loads, rest),)

    def registers(self, buffer: str, many: int) -> Alloc:
        """An array of four, or `many` times four, elements of a buffer's compute type."""
        shape = (dim(many), dim(LANES)) if many else (dim(LANES),)
        type = TensorType(compute_dtype(self.elements[buffer]), shape)
        return Alloc(self.name(f"{buffer}_4"), "local", type, self.origins)

    def write(
        self,
        stmt: Store,
        array: str,
        at: tuple[Dim, ...],
        places: Mapping[str, Dim],
        e: str,
    ) -> For:
        """Four elements from registers to where a store puts them."""
        target = Store(stmt.buffer, put(stmt.indices, places), Load(array, at), stmt.origins)
        kind = "stream" if self.options.stream else "wide"
        return For(kind, e, dim(LANES), (target,), stmt.origins)

    # ---- rows

    def row(self) -> Kernel:
        """A warp, or several, a row. Raises _Unfit."""
        outer, body = self.kernel.parallel()
        loops = [s for s in body if isinstance(s, For)]
        if not loops or any(s.extent != loops[0].extent for s in loops):
            raise _Unfit("gpu.shape")
        for stmt in body:
            allowed = Let | Acc | Store if not isinstance(stmt, For) else For
            if not isinstance(stmt, allowed):
                raise _Unfit("gpu.shape")
        for s in loops:
            if s.kind not in ("red", "vec", "seq"):
                raise _Unfit("gpu.shape")
            if not all(isinstance(x, Let | Store | Update) for x in s.body):
                raise _Unfit("gpu.shape")
        c = loops[0].extent
        if self.guess(c, SMALL_ROW) < SMALL_ROW:
            raise _Unfit("gpu.small")
        self._check_row(body, loops)
        return _Row(self, outer, body, loops, c).kernel()

    def _check_row(self, body: tuple[Stmt, ...], loops: Sequence[For]) -> None:
        """What makes a row a row. Raises _Unfit."""
        inits = {s.name: s.init for s in body if isinstance(s, Acc)}
        stored: dict[str, set[tuple[Dim, ...]]] = {}
        for loop in loops:
            lets: set[str] = set()
            for stmt in loop.body:
                if isinstance(stmt, Store):
                    if not self.along_row(stmt.buffer, stmt.indices, loop):
                        raise _Unfit("gpu.strided")
                    stored.setdefault(stmt.buffer, set()).add(stmt.indices)
                elif isinstance(stmt, Update):
                    init = inits.get(stmt.name)
                    if init is None or init != neutral(stmt.function, init.dtype):
                        raise _Unfit("gpu.shape")
                for root in expressions(stmt):
                    for x in walk_expr(root):
                        if isinstance(x, Load) and x.guard is not None:
                            raise _Unfit("gpu.guard")
                        used = (
                            {s for d in x.indices for s in d.symbols()}
                            if isinstance(x, Load)
                            else x.value.symbols()
                            if isinstance(x, Index)
                            else frozenset[str]()
                        )
                        if used & lets:
                            raise _Unfit("gpu.data")
                if isinstance(stmt, Let):
                    lets.add(stmt.name)
        moving = [x for s in loops for x in loads_of(s.body) if self.moves(x, s)]
        if moving and not any(self.along_row(x.buffer, x.indices, s)
                              for s in loops for x in loads_of(s.body)):  # fmt: skip
            raise _Unfit("gpu.strided")
        once = {s.buffer for s in body if isinstance(s, Store)}
        for loop_or_row in body:
            axis = loop_or_row.axis if isinstance(loop_or_row, For) else None
            stmts = loop_or_row.body if isinstance(loop_or_row, For) else (loop_or_row,)
            for load in loads_of(stmts):
                if load.buffer in once:
                    raise _Unfit("gpu.reread")
                places = stored.get(load.buffer)
                if places is None and self.modes[load.buffer] != "scratch":
                    continue
                if axis is None or places != {load.indices}:
                    raise _Unfit("gpu.reread")
                if self.elements[load.buffer] in (DType.f16, DType.bf16):
                    raise _Unfit("gpu.reread")
        if any(len(places) > 1 for places in stored.values()) or once & stored.keys():
            raise _Unfit("gpu.reread")

    def moves(self, load: Load, loop: For) -> bool:
        return any(loop.axis in d.symbols() for d in load.indices)

    def along_row(self, buffer: str, indices: tuple[Dim, ...], loop: For) -> bool:
        return self.along(buffer, indices, loop.axis, loop.extent)

    # ---- one thread an iteration

    def thread(self) -> Kernel:
        """One thread an iteration of the parallel loops, and of the map loop below them."""
        outer, body = self.kernel.parallel()
        if len(body) and isinstance(body[-1], For) and body[-1].kind == "vec":
            last = body[-1]
            if all(isinstance(s, Let) for s in body[:-1]):
                outer, body = (*outer, last), (*body[:-1], *last.body)
        b, t = self.name("b"), self.name("t")
        threads = self.options.threads if outer else 1
        flat = dim(b) * threads + dim(t) if outer else dim(b) + dim(t)
        total = self.rows_of(outer)
        lets, at = self.decode(outer, flat)
        names = tuple(loop.axis for loop in outer)
        own = {a.name for a in self.kernel.args if a.mode == "scratch"}
        shape = tuple(loop.extent for loop in outer)
        args = tuple(grown(a, shape) if a.name in own else a for a in self.kernel.args)
        prefix = tuple(dim(n) for n in names)
        inner = placed(serial(with_prefix(body, own, prefix)), at)
        body = (self.when(less(flat, total), *lets, *inner),) if outer else inner
        body = (self.loop("lane", t, threads, *body),)
        body = (self.loop("block", b, ceil_div(total, threads), *body),)
        return replace(self.kernel, args=args, body=body)


class _Row:
    """A row kernel: `W` warps a row, `R` rows a block, `U` wide accesses a thread."""

    def __init__(
        self,
        work: _Schedule,
        outer: tuple[For, ...],
        body: tuple[Stmt, ...],
        loops: Sequence[For],
        extent: Dim,
    ) -> None:
        self.work = work
        self.outer = outer
        self.body = body
        self.c = extent
        o = work.options
        few = o.chunks or work.in_flight(self.own_loads(loops))
        chunks = -(-max(1, work.guess(extent, ASSUMED_ROW)) // (LANES * WARP))
        shares = [(w, few) for w in (1, 2, 4, 8, WARP // 2)]
        shares += [(WARP, few)] if o.chunks else [(WARP // 2, 2 * few), (WARP, 2 * few)]
        warps, most = next((s for s in shares if s[0] * s[1] >= chunks), shares[-1])
        self.W = o.warps or warps
        most = few if o.warps else most
        self.U = min(most, -(-chunks // self.W))
        self.R = max(1, o.block) if self.W == 1 and outer else 1
        self.capacity = LANES * WARP * self.W * self.U
        size = work.known(extent)
        self.full = size == self.capacity
        """Every row fills the registers exactly: nothing to ask."""
        self.divisible = size is None or size % LANES == 0
        self.b, self.w, self.l, self.u, self.e = (
            work.name(x) for x in ("b", "w", "l", "u", "e")
        )
        self.lane = dim(self.l)
        if self.W > 1:
            self.lane = self.lane + dim(self.w) * WARP
        self.row = dim(self.b) * self.R + (dim(self.w) if self.R > 1 else ZERO)
        self.lets, self.at = work.decode(outer, self.row)
        self.scratch = {a.name for a in work.kernel.args if a.mode == "scratch"}
        self.parts: dict[str, str] = {}

    def own_loads(self, loops: Sequence[For]) -> list[Load]:
        """Loads along a row of what differs from row to row, the loops' axes made one; a row that
        an earlier loop stored stays in registers."""
        outer = {x.axis for x in self.outer}
        stored: set[str] = set()
        found: list[Load] = []
        for loop in loops:
            for load in loads_of(loop.body):
                along = self.work.along_row(load.buffer, load.indices, loop)
                if along and varies(load, outer) and load.buffer not in stored:
                    found.append(replace(load, indices=put(load.indices, {loop.axis: dim("j")})))
            stored |= {s.buffer for s in loop.body if isinstance(s, Store)}
        return found

    def kernel(self) -> Kernel:
        work = self.work
        slow = self.path(self.slow_loop)
        body: tuple[Stmt, ...] = slow
        fast = self.fast() if self.divisible else None
        if fast is not None:
            buffers, stmts = fast
            c = self.c
            if self.full:
                terms: tuple[Expr, ...] = (Binary("eq", Index(c), Index(dim(self.capacity))),)
            else:
                terms = (
                    Binary("eq", Index(c // LANES * LANES), Index(c)),
                    Binary("le", Index(c), Index(dim(self.capacity))),
                )
            body = work.two_paths(work.wide_condition(buffers, *terms), stmts, slow)
        body = (*self.lets, *body)
        rows = work.rows_of(self.outer)
        if self.R > 1:
            body = (work.when(less(self.row, rows), *body),)
        body = (work.loop("lane", self.l, WARP, *body),)
        if self.W * self.R > 1:
            body = (work.loop("warp", self.w, self.W * self.R, *body),)
        body = (work.loop("block", self.b, ceil_div(rows, self.R), *body),)
        shape = tuple(loop.extent for loop in self.outer)
        args = tuple(
            grown(a, shape) if a.name in self.scratch else a for a in work.kernel.args
        )
        return replace(work.kernel, args=args, body=body)

    # ---- what both paths share

    def path(self, on_loop: Callable[[For], list[Stmt]]) -> tuple[Stmt, ...]:
        """The statements of a row, its loops divided among the threads by `on_loop`."""
        out: list[Stmt] = []
        totals: dict[str, str] = {}

        def rename(e: Expr) -> Expr:
            return Ref(totals.get(e.name, e.name)) if isinstance(e, Ref) else e

        for stmt in self.body:
            if isinstance(stmt, For):
                loop = replace(stmt, body=map_statements(stmt.body, rename))
                out += on_loop(loop)
                updated = dict.fromkeys(
                    (s.name, s.function) for s in loop.body if isinstance(s, Update)
                )
                for name, function in updated:
                    out += self.combine(name, function, totals)
            elif isinstance(stmt, Store):
                (new,) = map_statements((stmt,), rename)
                first = Binary("eq", Index(self.lane), Index(ZERO))
                out.append(self.work.when(first, *placed((new,), self.at)))
            else:
                out += placed(map_statements((stmt,), rename), self.at)
        return tuple(out)

    def combine(self, name: str, function: str, totals: dict[str, str]) -> list[Stmt]:
        """Each thread has a part of a row's reduction: all get the whole."""
        work = self.work
        at = work.origins
        steps = [16, 8, 4, 2, 1]
        out: list[Stmt] = [Shuffle(name, function, k, at) for k in steps]
        if self.W == 1:
            return out
        acc = next(s for s in self.body if isinstance(s, Acc) and s.name == name)
        array = work.name(f"{name}_warps")
        type = TensorType(acc.dtype, (dim(self.W),))
        first = Binary("eq", Index(dim(self.l)), Index(ZERO))
        total, p = work.name(f"{name}_all"), work.name("p")
        totals[name] = total
        put_part = Store(array, (dim(self.w),), Ref(name), at)
        add_part = Update(total, function, Load(array, (dim(p),)), at)
        return [
            *out,
            Alloc(array, "shared", type, at),
            work.when(first, put_part),
            Barrier(at),
            Acc(total, acc.dtype, acc.init, at),
            work.loop("seq", p, self.W, add_part),
        ]

    # ---- one element an access

    def slow_loop(self, loop: For) -> list[Stmt]:
        work = self.work
        k = work.name("k")
        step = WARP * self.W
        j = self.lane + dim(k) * step
        prefix = tuple(dim(x.axis) for x in self.outer)
        body = with_prefix(loop.body, self.scratch, prefix)
        inner = placed(body, {**self.at, loop.axis: j})
        kind = "red" if any(isinstance(s, Update) for s in loop.body) else "seq"
        return [work.loop(kind, k, ceil_div(self.c, step), work.when(less(j, self.c), *inner))]

    # ---- four elements an access, the row in registers

    def fast(self) -> tuple[list[str], tuple[Stmt, ...]] | None:
        work = self.work
        buffers: list[str] = []
        regs: dict[tuple[str, tuple[Dim, ...]], Load] = {}
        loops = [s for s in self.body if isinstance(s, For)]
        stores = {
            s.buffer: (k, s)
            for k, loop in enumerate(loops)
            for s in loop.body
            if isinstance(s, Store)
        }
        outer = {x.axis for x in self.outer}
        axes = {loop.axis for loop in loops}
        head: list[Stmt] = []
        reread = {
            load.buffer for loop in loops for load in loads_of(loop.body) if load.buffer in stores
        }
        arrays: dict[str, Alloc] = {}
        for buffer in stores:
            array = work.registers(buffer, self.U if buffer in reread else 0)
            arrays[buffer] = array
            head.append(array)
            if self.work.modes[buffer] != "scratch":
                buffers.append(buffer)

        def key_of(load: Load) -> tuple[str, tuple[Dim, ...]]:
            """Loops over one row may call their axis differently."""
            same = {a: dim("j") for a in axes}
            return load.buffer, put(load.indices, same)

        first: set[tuple[str, tuple[Dim, ...]]] = set()
        ahead: dict[int, list[Stmt]] = {}
        for buffer in reread:
            if work.modes[buffer] == "inout":
                k, load = next(
                    (k, x)
                    for k, loop in enumerate(loops)
                    for x in loads_of(loop.body)
                    if x.buffer == buffer
                )
                at = (dim(self.u), dim(self.e))
                copy = self.copy_in(load, loops[k], arrays[buffer].name, at)
                ahead.setdefault(0, []).append(copy)
        room = REGISTERS
        chunk = dim(self.u)
        for k, loop in enumerate(loops):
            for load in loads_of(loop.body):
                if load.buffer in stores or not work.along_row(load.buffer, load.indices, loop):
                    continue
                key = key_of(load)
                if key in first:
                    continue
                first.add(key)
                buffers.append(load.buffer)
                if not varies(load, outer):
                    continue
                array = work.registers(load.buffer, self.U)
                head.append(array)
                regs[key] = Load(array.name, (chunk, dim(self.e)))
                copy = self.copy_in(load, loop, array.name, (chunk, dim(self.e)))
                taken = LANES * self.U
                early = 0 if room >= taken else k
                room -= taken
                ahead.setdefault(early, []).append(copy)
        if not buffers:
            return None
        counter = iter(range(len(loops)))

        def on_loop(loop: For) -> list[Stmt]:
            k = next(counter)
            out: list[Stmt] = []
            if k in ahead:
                out.append(self.chunks(*ahead[k]))
            local = dict(regs)
            inner: list[Stmt] = []
            for load in loads_of(loop.body):
                key = key_of(load)
                if load.buffer in stores:
                    local[key] = Load(arrays[load.buffer].name, (chunk, dim(self.e)))
                elif key not in local and work.along_row(load.buffer, load.indices, loop):
                    array = work.registers(load.buffer, 0)
                    local[key] = Load(array.name, (dim(self.e),))
                    inner.append(array)
                    inner.append(self.copy_in(load, loop, array.name, (dim(self.e),)))
            places = self.places(loop)
            writes: list[Stmt] = []

            def on_store(stmt: Store) -> Store:
                array = arrays[stmt.buffer]
                at = (chunk, dim(self.e)) if array.type.rank == 2 else (dim(self.e),)
                last, _ = stores[stmt.buffer]
                if last == k and stmt.buffer not in self.scratch:
                    writes.append(work.write(stmt, array.name, at, places, self.e))
                return replace(stmt, buffer=array.name, indices=at)

            keyed = {(load.buffer, load.indices): local[key_of(load)]
                     for load in loads_of(loop.body) if key_of(load) in local}  # fmt: skip
            body = with_registers(loop.body, keyed, places, on_store)
            vec = For("vec", self.e, dim(LANES), body, loop.origins)
            out.append(self.chunks(*inner, vec, *writes))
            return out

        return buffers, (*head, *self.path(on_loop))

    @property
    def start(self) -> Dim:
        """The first of the four elements of a thread's chunk u."""
        return self.lane * LANES + dim(self.u) * (LANES * WARP * self.W)

    def places(self, loop: For) -> dict[str, Dim]:
        return {**self.at, loop.axis: self.start + dim(self.e)}

    def copy_in(self, load: Load, loop: For, array: str, at: tuple[Dim, ...]) -> For:
        source = Load(load.buffer, put(load.indices, self.places(loop)))
        copy = Store(array, at, source, loop.origins)
        return For("wide", self.e, dim(LANES), (copy,), loop.origins)

    def chunks(self, *body: Stmt) -> For:
        inner = body if self.full else (self.work.when(less(self.start, self.c), *body),)
        return self.work.loop("unroll", self.u, self.U, *inner)


# ---- pieces ------------------------------------------------------------------------------------


def less(at: Dim, extent: Dim) -> Expr:
    return Binary("lt", Index(at), Index(extent))


def varies(load: Load, outer: Iterable[str]) -> bool:
    """Whether what is loaded differs from row to row; without outer axes there is one row."""
    axes = set(outer)
    return not axes or any(axes & d.symbols() for d in load.indices)


def put(indices: Iterable[Dim], places: Mapping[str, Dim]) -> tuple[Dim, ...]:
    return tuple(d.substitute(places) for d in indices)


def placed(body: tuple[Stmt, ...], places: Mapping[str, Dim]) -> tuple[Stmt, ...]:
    """The statements with axes replaced by where a thread stands."""
    return map_statements(body, lambda e: e, lambda d: d.substitute(places))


def loads_of(body: Iterable[Stmt]) -> list[Load]:
    return [
        e
        for stmt in walk_statements(tuple(body))
        for root in expressions(stmt)
        for e in walk_expr(root)
        if isinstance(e, Load)
    ]


def with_registers(
    body: tuple[Stmt, ...],
    regs: Mapping[tuple[str, tuple[Dim, ...]], Load],
    places: Mapping[str, Dim],
    on_store: Callable[[Store], Store],
) -> tuple[Stmt, ...]:
    """Loads from registers where the row lies there, everything else where a thread stands."""

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Load):
            return regs.get((e.buffer, e.indices)) or replace(e, indices=put(e.indices, places))
        return Index(e.value.substitute(places)) if isinstance(e, Index) else e

    out: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Store):
            stmt = replace(on_store(stmt), value=map_expr(stmt.value, on_expr))
        elif isinstance(stmt, Let | Update):
            stmt = replace(stmt, value=map_expr(stmt.value, on_expr))
        out.append(stmt)
    return tuple(out)


def with_prefix(
    body: tuple[Stmt, ...], buffers: set[str], prefix: tuple[Dim, ...]
) -> tuple[Stmt, ...]:
    """Scratch that was one a worker: one an iteration, at its place in a larger array."""

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in buffers:
            return replace(e, indices=(*prefix, *e.indices))
        return e

    def on_body(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for stmt in stmts:
            if isinstance(stmt, Store) and stmt.buffer in buffers:
                stmt = replace(stmt, indices=(*prefix, *stmt.indices))
            elif isinstance(stmt, For | If):
                stmt = replace(stmt, body=on_body(stmt.body))
            out.append(stmt)
        return tuple(out)

    return on_body(map_statements(body, on_expr)) if buffers else body


def grown(arg: Arg, shape: tuple[Dim, ...]) -> Arg:
    """Scratch for every iteration."""
    return replace(arg, type=TensorType(arg.type.element, (*shape, *arg.type.dims)))


def serial(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Loops that one thread runs by itself."""
    out: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, For):
            kind = "seq" if stmt.kind == "vec" else stmt.kind
            stmt = replace(stmt, kind=kind, body=serial(stmt.body))
        elif isinstance(stmt, If):
            stmt = replace(stmt, body=serial(stmt.body))
        out.append(stmt)
    return tuple(out)


def neutral(function: str, dtype: DType) -> Scalar | None:
    """What an accumulator starts with so that parts can be combined."""
    if function in ("add", "mul"):
        return Scalar.of(dtype, 0 if function == "add" else 1)
    if dtype.is_float:
        return Scalar.of(dtype, float("-inf") if function == "max" else float("inf"))
    if dtype is DType.bool:
        return Scalar.of(dtype, function == "min")
    low, high = integer_range(dtype)
    return Scalar.of(dtype, low if function == "max" else high)


def integer_range(dtype: DType) -> tuple[int, int]:
    bits = 8 * dtype.itemsize
    if dtype.value.startswith("u"):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

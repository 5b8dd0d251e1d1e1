"""A kernel for a GPU in plain NumPy: one array element a thread, all threads of a block in step.

    block b, thread t:   every expression is an array over t, every `if` a mask over t

Blocks run one after the other. What threads can get wrong is looked for, not assumed right:

* registers and shared memory start as poison, and so does every lane that a mask leaves out;
* an element of shared memory that another thread wrote, or will overwrite, since the last barrier
  is poison to the reader: what a GPU gives there depends on the day;
* a barrier that not all threads of a block reach, a wide access that is misaligned or not of four
  neighbours, and two threads that store to one element in one step are KernelErrors;
* so is an element of an argument that one thread of the grid stores and another one loads or
  stores: nothing orders the two. A kernel that writes over its operand shows there.

Floats are poisoned with NaN, everything else with bytes 0xA5, so a missing barrier shows in the
results of a run that is compared with anything.

Teaches: a thousand threads are one program on a thousand values, and what they share needs order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..dims import Dim
from ..loops import (
    LANES,
    Acc,
    Aligned,
    Alloc,
    Barrier,
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
    Shuffle,
    Stmt,
    Store,
    Unary,
    Update,
)
from ..types import Array, DType
from .loops import Counter, KernelError, address_of, poison
from .scalars import BINARY, UNARY, Precision, cast, compute, select, storage

if TYPE_CHECKING:
    from collections.abc import Iterator

Mask = npt.NDArray[np.bool_]
Lanes = npt.NDArray[np.int64]
NOBODY, SEVERAL = -1, -2


@dataclass
class _Shared:
    """Memory that threads share, with the last writer and reader of each element: since the last
    barrier where it is a block's."""

    values: Array
    writer: Lanes
    reader: Lanes

    def settle(self) -> None:
        """All threads have met: what was written is there for everyone."""
        self.writer[...] = NOBODY
        self.reader[...] = NOBODY


def run_threads(
    kernel: Kernel,
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
    counter: Counter | None,
    precision: Precision,
) -> None:
    """Run a kernel with a grid on checked arrays, in place. KernelError, IndexError as above."""
    loops, body = kernel.grid()
    blocks = [loop for loop in loops if loop.kind == "block"]
    inside = [loop for loop in loops if loop.kind != "block"]
    shape = tuple(loop.extent.evaluate(sizes) for loop in inside)
    written: dict[str, _Shared] = {}
    for arg in kernel.args:
        if arg.mode != "in":
            array = arrays[arg.name]
            nobody = np.full(array.shape, NOBODY, np.int64)
            written[arg.name] = _Shared(array, nobody, nobody.copy())
    with np.errstate(all="ignore"):
        grid = tuple(loop.extent.evaluate(sizes) for loop in blocks)
        for number, at in enumerate(np.ndindex(*grid)):
            axes: dict[str, int | Lanes] = dict(sizes)
            axes.update(zip((loop.axis for loop in blocks), at, strict=True))
            for k, loop in enumerate(inside):
                axes[loop.axis] = np.indices(shape)[k].reshape(-1).astype(np.int64)
            threads = int(np.prod(shape))
            first = number * threads
            _Block(kernel, arrays, written, axes, threads, first, counter, precision).run(body)


class _Block:
    """The threads of one block at one point of the program."""

    def __init__(
        self,
        kernel: Kernel,
        arrays: Mapping[str, Array],
        written: Mapping[str, _Shared],
        axes: dict[str, int | Lanes],
        threads: int,
        first: int,
        counter: Counter | None,
        precision: Precision,
    ) -> None:
        self.kernel = kernel
        self.arrays = arrays
        self.written = written
        self.first = first
        self.axes = axes
        self.threads = np.arange(threads)
        self.everyone: Mask = np.ones(threads, np.bool_)
        self.counter = counter
        self.precision: Precision = precision
        self.elements = {a.name: a.type.element for a in kernel.args}
        self.values: dict[str, Array] = {}
        self.local: dict[str, Array] = {}
        self.shared: dict[str, _Shared] = {}

    def error(self, message: str) -> KernelError:
        return KernelError(f"kernel @{self.kernel.name}: {message}")

    def run(self, body: tuple[Stmt, ...]) -> None:
        self.block(body, self.everyone)

    # ---- statements

    def block(self, body: tuple[Stmt, ...], mask: Mask) -> None:
        for stmt in body:
            self.statement(stmt, mask)

    def statement(self, stmt: Stmt, mask: Mask) -> None:
        match stmt:
            case For():
                self.loop(stmt, mask)
            case If():
                holds = self.both(mask, stmt.condition)
                if holds.any():
                    self.block(stmt.body, holds)
            case Let(name, dtype, value):
                self.values[name] = self.masked(self.expr(value, mask), mask)
                if dtype is DType.i64:
                    self.axes[name] = self.values[name].astype(np.int64)
            case Acc(name, dtype, init):
                first = cast(init.array(), compute(dtype, self.precision))
                self.values[name] = self.masked(first, mask)
            case Update(name, function, value):
                new = BINARY[function](self.values[name], self.expr(value, mask))
                self.values[name] = self.choose(mask, new, self.values[name])
            case Store(buffer, indices, value):
                self.store(buffer, indices, self.spread(self.expr(value, mask)), mask)
            case Alloc(name, space, type):
                shape = tuple(d.evaluate({}) for d in type.dims)
                dtype = storage(type.element, self.precision)
                self.elements[name] = type.element
                if space == "local":
                    self.local[name] = np.empty((*shape, len(self.threads)), dtype)
                    poison(self.local[name])
                else:
                    values = np.empty(shape, dtype)
                    poison(values)
                    nobody = np.full(shape, NOBODY, np.int64)
                    self.shared[name] = _Shared(values, nobody, nobody.copy())
            case Shuffle(name, function, xor):
                own = self.values[name]
                other = self.masked(own, mask)[self.threads ^ xor]
                self.values[name] = self.choose(mask, BINARY[function](own, other), own)
            case Barrier():
                if not mask.all():
                    raise self.error("a barrier that not all threads of the block reach")
                for shared in self.shared.values():
                    shared.settle()

    def loop(self, stmt: For, mask: Mask) -> None:
        if stmt.kind in ("par", "block", "warp", "lane"):
            raise self.error(f"a {stmt.kind} loop over {stmt.axis} inside the body")
        extent = self.index(stmt.extent)
        if isinstance(extent, np.ndarray):
            if extent.size and (extent != extent[0]).any():
                raise self.error(f"the extent of {stmt.axis} differs between threads")
            extent = int(extent[0])
        if stmt.kind == "wide" or (stmt.kind == "stream" and self.copies(stmt)):
            self.check_wide(stmt, mask)
        for i in range(extent):
            self.axes[stmt.axis] = i
            self.block(stmt.body, mask)

    def copies(self, stmt: For) -> bool:
        """Whether a `stream` loop writes registers to memory."""
        match stmt.body:
            case (Store(value=Load(source)),):
                return source in self.local
            case _:
                return False

    def check_wide(self, stmt: For, mask: Mask) -> None:
        """Four neighbours, aligned, on the side of the loop that is memory."""
        for buffer, indices in self.places(stmt):
            if buffer in self.local:
                continue
            array = self.arrays[buffer]
            places: list[Lanes] = []
            for e in range(LANES):
                self.axes[stmt.axis] = e
                places.append(self.flat(array, self.place(buffer, indices, mask))[mask])
            start = places[0]
            if any((p != start + e).any() for e, p in enumerate(places)):
                raise self.error(f"a wide access to {buffer} that is not of {LANES} neighbours")
            width = min(16, LANES * array.itemsize)
            if ((address_of(array) + start * array.itemsize) % width).any():
                raise self.error(f"a wide access to {buffer} that is misaligned")

    @staticmethod
    def places(stmt: For) -> Iterator[tuple[str, tuple[Dim, ...]]]:
        match stmt.body:
            case (Store(target, at, Load(source, indices)),):
                yield target, at
                yield source, indices
            case _:
                raise KernelError(f"{stmt.kind} {stmt.axis} does something else than copy")

    # ---- lanes

    def spread(self, value: Array | np.generic) -> Array:
        """One element a thread."""
        return np.broadcast_to(np.asarray(value), self.threads.shape)

    def both(self, mask: Mask, condition: Expr) -> Mask:
        """The threads of `mask` for which a condition holds."""
        return np.logical_and(mask, self.spread(self.expr(condition, mask)))

    def masked(self, value: Array | np.generic, mask: Mask) -> Array:
        """The value where the mask holds, poison elsewhere."""
        found = self.spread(value).copy()
        if not mask.all():
            outside = found[~mask]
            poison(outside)
            found[~mask] = outside
        return found

    def choose(self, mask: Mask, new: Array | np.generic, old: Array) -> Array:
        return np.where(mask, self.spread(new), old)

    # ---- places

    def index(self, value: Dim) -> int | Lanes:
        """A polynomial over axes, on all threads at once."""
        unknown = value.symbols() - self.axes.keys()
        if unknown:
            raise self.error(f"no axis or extent {', '.join(sorted(unknown))} here, in {value}")
        return value.evaluate(self.axes)  # pyright: ignore[reportArgumentType]

    def place(self, buffer: str, indices: tuple[Dim, ...], mask: Mask) -> tuple[Lanes, ...]:
        """The index of every thread; that of threads left out is 0. IndexError out of range."""
        shape = self.extent_of(buffer)
        if len(indices) != len(shape):
            raise self.error(f"{buffer} has rank {len(shape)}, indexed by {len(indices)}")
        found: list[Lanes] = []
        for d, n in zip(indices, shape, strict=True):
            at = np.broadcast_to(np.asarray(self.index(d), np.int64), self.threads.shape)
            wrong = mask & ((at < 0) | (at >= n))
            if wrong.any():
                raise IndexError(
                    f"kernel @{self.kernel.name}: {buffer}[{', '.join(map(str, indices))}] of "
                    f"shape {list(shape)}: {d} is {at[wrong][0]}"
                )
            found.append(np.where(mask, at, 0))
        return tuple(found)

    def extent_of(self, buffer: str) -> tuple[int, ...]:
        if buffer in self.local:
            return self.local[buffer].shape[:-1]
        if buffer in self.shared:
            return self.shared[buffer].values.shape
        if buffer not in self.arrays:
            raise self.error(f"no argument {buffer}")
        return self.arrays[buffer].shape

    @staticmethod
    def flat(array: Array, at: tuple[Lanes, ...]) -> Lanes:
        """Row-major positions."""
        position = np.zeros(at[0].shape if at else (1,), np.int64)
        for i, n in zip(at, array.shape, strict=True):
            position = position * n + i
        return position

    # ---- memory

    def store(self, buffer: str, indices: tuple[Dim, ...], value: Array, mask: Mask) -> None:
        at = self.place(buffer, indices, mask)
        chosen = tuple(i[mask] for i in at)
        if buffer in self.local:
            self.local[buffer][(*chosen, self.threads[mask])] = value[mask]
            return
        shared = self.shared.get(buffer)
        array = self.arrays[buffer] if shared is None else shared.values
        flat = self.flat(array, at)[mask] if at else np.zeros(int(mask.sum()), np.int64)
        if np.unique(flat).size != flat.size:
            raise self.error(f"two threads store to one element of {buffer} in one step")
        stored = value[mask].astype(array.dtype)
        if shared is not None:
            mine = self.threads[mask]
            writer, reader = shared.writer[chosen], shared.reader[chosen]
            clash = ((writer != NOBODY) & (writer != mine)) | (
                (reader != NOBODY) & (reader != mine)
            )
            spoiled = stored[clash]
            poison(spoiled)
            stored[clash] = spoiled
            shared.writer[chosen] = np.where(clash, SEVERAL, mine)
        elif buffer in self.written:
            self.own(buffer, chosen, mask, store=True)
        if shared is None and self.counter is not None:
            counts = self.counter.arguments[buffer]
            counts.writes += int(mask.sum())
            counts.written[chosen] = True
        array[chosen] = stored

    def own(self, buffer: str, chosen: tuple[Lanes, ...], mask: Mask, store: bool) -> None:
        """Note who loads or stores elements of an argument; KernelError where that is a race."""
        seen = self.written[buffer]
        mine = self.first + self.threads[mask]
        for known in (seen.writer, seen.reader) if store else (seen.writer,):
            there = known[chosen]
            if ((there != NOBODY) & (there != mine)).any():
                raise self.error(f"one thread stores an element of {buffer} that another uses")
        if store:
            seen.writer[chosen] = mine
            return
        there = seen.reader[chosen]
        reader = np.where((there != NOBODY) & (there != mine), SEVERAL, mine)
        seen.reader[chosen] = reader
        twice = seen.reader[chosen] != reader
        seen.reader[tuple(i[twice] for i in chosen)] = SEVERAL

    def load(self, buffer: str, indices: tuple[Dim, ...], mask: Mask) -> Array:
        at = self.place(buffer, indices, mask)
        target = compute(self.elements[buffer], self.precision)
        if buffer in self.local:
            return self.local[buffer][(*at, self.threads)].astype(target)
        shared = self.shared.get(buffer)
        array = self.arrays[buffer] if shared is None else shared.values
        value = self.masked(np.asarray(array[at]).astype(target), mask)
        chosen = tuple(i[mask] for i in at)
        if shared is not None:
            mine = self.threads[mask]
            writer = shared.writer[chosen]
            early = np.zeros(mask.shape, np.bool_)
            early[mask] = (writer != NOBODY) & (writer != mine)
            value = self.masked(value, mask & ~early)
            for place, thread in zip(zip(*chosen, strict=True), mine, strict=True):
                known = shared.reader[place]
                shared.reader[place] = thread if known in (NOBODY, thread) else SEVERAL
        elif buffer in self.written:
            self.own(buffer, chosen, mask, store=False)
        if shared is None and self.counter is not None:
            counts = self.counter.arguments[buffer]
            counts.reads += int(mask.sum())
            first = ~counts.written[chosen]
            counts.read_first[tuple(i[first] for i in chosen)] = True
        return value

    # ---- expressions

    def expr(self, e: Expr, mask: Mask) -> Array | np.generic:
        match e:
            case Const(value):
                return cast(value.array(), compute(value.dtype, self.precision))
            case Index(d):
                return np.asarray(self.index(d), np.int64)
            case Ref(name):
                if name not in self.values:
                    raise self.error(f"no value {name} here")
                return self.values[name]
            case Load(buffer, indices, None, _):
                return self.load(buffer, indices, mask)
            case Load(buffer, indices, guard, other):
                assert guard is not None and other is not None
                holds = self.both(mask, guard)
                inside = self.load(buffer, indices, holds)
                outside = cast(other.array(), compute(other.dtype, self.precision))
                return self.choose(holds, inside, self.spread(outside))
            case Unary(function, x):
                return UNARY[function](self.expr(x, mask))
            case Binary(function, x, y):
                return BINARY[function](self.expr(x, mask), self.expr(y, mask))
            case Select(c, x, y):
                return select(self.expr(c, mask), self.expr(x, mask), self.expr(y, mask))
            case Cast(dtype, x):
                stored = cast(self.expr(x, mask), storage(dtype, self.precision))
                return cast(stored, compute(dtype, self.precision))
            case Aligned(names):
                return np.asarray(all(address_of(self.arrays[n]) % 16 == 0 for n in names))


"""The loop tree in plain Python: every load, every store, every rounding as the kernel states it.

    for i in range(r): … y[i, j] = f(x[i, j], …)        one NumPy scalar at a time

The tree is checked (scopes, types, modes) and turned into closures once, then run. Buffers are
C-contiguous arrays that are modified in place. Scratch holds poison at the start of each parallel
iteration, so nothing can leak from one to the next. A `Counter` watches memory from outside:
*touched* counts every access, *floor* each element once.

Teaches: a slow program that is obviously right is the yardstick for a fast one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ..dims import Dim
from ..loops import (
    AXIS_KINDS,
    COMBINE,
    COMPARE,
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
from ..types import Array, DType, Scalar
from .scalars import BINARY, UNARY, Number, Precision, cast, compute, select, storage

Mask = npt.NDArray[np.bool_]


class KernelError(ValueError):
    """A kernel that means nothing: a name out of scope, types that differ, a store to an input."""


@dataclass
class Counts:
    """What happened to one argument, in elements.

    `reads` and `writes` count every load and store (touched). `read_first` marks elements whose
    first access was a load, `written` elements that were stored (floor).
    """

    read_first: Mask
    written: Mask
    reads: int = 0
    writes: int = 0

    @property
    def unique_reads(self) -> int:
        return int(np.count_nonzero(self.read_first))

    @property
    def unique_writes(self) -> int:
        return int(np.count_nonzero(self.written))

    def read(self, at: tuple[int, ...]) -> None:
        self.reads += 1
        if not self.written[at]:
            self.read_first[at] = True

    def write(self, at: tuple[int, ...]) -> None:
        self.writes += 1
        self.written[at] = True


@dataclass
class Counter:
    """Counts per argument of the last run that it was given to."""

    arguments: dict[str, Counts] = field(default_factory=dict[str, Counts])


def poison(array: Array) -> None:
    """Fill with what no result should hold: NaN for floats, bytes 0xA5 for everything else."""
    if array.dtype.kind in "fc":
        array[...] = np.nan
    elif array.size:
        array.reshape(-1).view(np.uint8)[...] = 0xA5


def run_kernel(
    kernel: Kernel,
    extents: Mapping[str, int],
    buffers: Mapping[str, Array],
    *,
    counter: Counter | None = None,
    poison_outputs: bool = False,
    precision: Precision = "declared",
) -> None:
    """Run `kernel` on `buffers` (argument name -> array of the argument's shape), in place.

    Scratch is made here. KernelError for a malformed kernel, ValueError for a buffer of another
    shape, dtype or memory order, IndexError for a load or store out of range, which names kernel,
    argument, index and shape.
    """
    sizes = {name: extents[name] for name in kernel.extents}
    arrays: dict[str, Array] = {}
    for arg in kernel.args:
        shape = tuple(d.evaluate(sizes) for d in arg.type.dims)
        dtype = storage(arg.type.element, precision)
        if arg.mode == "scratch":
            arrays[arg.name] = np.empty(shape, dtype)
            continue
        array = buffers[arg.name]
        if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
            raise ValueError(
                f"kernel @{kernel.name}: {arg.name} is {array.dtype}{list(array.shape)}, "
                f"expected contiguous {dtype}{list(shape)}"
            )
        arrays[arg.name] = array
        if arg.mode == "out" and poison_outputs:
            poison(array)
    if counter is not None:
        counter.arguments = {
            name: Counts(np.zeros(a.shape, np.bool_), np.zeros(a.shape, np.bool_))
            for name, a in arrays.items()
        }
    if kernel.grid()[0]:
        from .threads import run_threads

        run_threads(kernel, sizes, arrays, counter, precision)
        return
    run = _Tree(kernel, sizes, arrays, counter, precision).compile()
    with np.errstate(all="ignore"):
        run()


def address_of(array: Array) -> int:
    """Where an array starts in memory."""
    return int(array.ctypes.data)


Thunk = Callable[[], np.generic]
Action = Callable[[], None]


@dataclass(frozen=True)
class _Scope:
    """Names that a statement sees: what indices may use (axes, extents and lets of type i64); lets
    and accumulators with their types."""

    axes: frozenset[str]
    values: Mapping[str, DType]
    accumulators: frozenset[str] = frozenset()


class _Tree:
    """Turns a kernel into closures over one set of buffers."""

    def __init__(
        self,
        kernel: Kernel,
        sizes: Mapping[str, int],
        arrays: Mapping[str, Array],
        counter: Counter | None,
        precision: Precision,
    ) -> None:
        self.kernel = kernel
        self.arrays = arrays
        self.counter = counter
        self.precision: Precision = precision
        self.modes = {arg.name: arg.mode for arg in kernel.args}
        self.axes: dict[str, int] = dict(sizes)
        self.values: dict[str, np.generic] = {}

    def error(self, message: str) -> KernelError:
        return KernelError(f"kernel @{self.kernel.name}: {message}")

    def compile(self) -> Action:
        loops, body = self.kernel.parallel()
        scratch = [self.arrays[a.name] for a in self.kernel.args if a.mode == "scratch"]
        scope = _Scope(frozenset(self.axes), {})
        extents: list[tuple[str, Callable[[], int]]] = []
        for loop in loops:
            extents.append((loop.axis, self.index(loop.extent, scope)))
            scope = self.with_axis(scope, loop.axis)
        inside = self.block(body, scope)

        def iteration() -> None:
            for array in scratch:
                poison(array)
            inside()

        run: Action = iteration
        for axis, extent in reversed(extents):
            run = self.loop(axis, extent, run)
        return run

    # ---- statements

    def with_axis(self, scope: _Scope, axis: str) -> _Scope:
        if axis in scope.axes:
            raise self.error(f"axis {axis} stands for two loops at once")
        return _Scope(scope.axes | {axis}, scope.values, scope.accumulators)

    def loop(self, axis: str, extent: Callable[[], int], body: Action) -> Action:
        axes = self.axes

        def run() -> None:
            for i in range(extent()):
                axes[axis] = i
                body()

        return run

    def block(self, body: tuple[Stmt, ...], scope: _Scope) -> Action:
        actions: list[Action] = []
        for stmt in body:
            action, scope = self.statement(stmt, scope)
            actions.append(action)

        def run() -> None:
            for action in actions:
                action()

        return run

    def statement(self, stmt: Stmt, scope: _Scope) -> tuple[Action, _Scope]:
        values = self.values
        match stmt:
            case For():
                if stmt.kind == "par" or stmt.kind not in AXIS_KINDS:
                    raise self.error(f"a {stmt.kind} loop over {stmt.axis} inside the body")
                extent = self.index(stmt.extent, scope)
                inner = self.block(stmt.body, self.with_axis(scope, stmt.axis))
                return self.loop(stmt.axis, extent, inner), scope
            case If():
                condition = self.typed(stmt.condition, DType.bool, scope, "a condition")
                inner = self.block(stmt.body, scope)

                def branch() -> None:
                    if condition():
                        inner()

                return branch, scope
            case Let():
                value = self.typed(stmt.value, stmt.dtype, scope, f"let {stmt.name}")
                scope = self.declare(scope, stmt.name, stmt.dtype)
                name, axes = stmt.name, self.axes

                def let() -> None:
                    values[name] = value()

                def let_index() -> None:
                    values[name] = value()
                    axes[name] = int(values[name])  # pyright: ignore

                if stmt.dtype is not DType.i64:
                    return let, scope
                return let_index, replace(scope, axes=scope.axes | {name})
            case Acc():
                if stmt.init.dtype is not stmt.dtype:
                    raise self.error(f"acc {stmt.name} of {stmt.dtype.value} starts elsewhere")
                first = self.scalar(stmt.init)
                scope = self.declare(scope, stmt.name, stmt.dtype, accumulator=True)
                name = stmt.name

                def start() -> None:
                    values[name] = first

                return start, scope
            case Update():
                if stmt.name not in scope.accumulators or stmt.function not in COMBINE:
                    raise self.error(f"update {stmt.name} {stmt.function}=")
                dtype = scope.values[stmt.name]
                value = self.typed(stmt.value, dtype, scope, f"update of {stmt.name}")
                combine = BINARY[stmt.function]
                name = stmt.name

                def update() -> None:
                    values[name] = _element(combine(values[name], value()))

                return update, scope
            case Store():
                return self.store(stmt, scope), scope
            case Alloc() | Shuffle() | Barrier():
                raise self.error("threads exchange values, but there is no grid of them")

    def declare(
        self, scope: _Scope, name: str, dtype: DType, accumulator: bool = False
    ) -> _Scope:
        if name in scope.values or name in scope.axes:
            raise self.error(f"{name} is declared twice")
        accumulators = scope.accumulators | {name} if accumulator else scope.accumulators
        return _Scope(scope.axes, {**scope.values, name: dtype}, accumulators)

    def store(self, stmt: Store, scope: _Scope) -> Action:
        if self.modes.get(stmt.buffer) not in ("out", "inout", "scratch"):
            raise self.error(f"store to {stmt.buffer}, which is no written argument")
        dtype = self.compute_type(stmt.buffer)
        value = self.typed(stmt.value, dtype, scope, f"store to {stmt.buffer}")
        place = self.place(stmt.buffer, stmt.indices, scope)
        array = self.arrays[stmt.buffer]
        counts = self.counter.arguments[stmt.buffer] if self.counter else None

        def run() -> None:
            stored = value()
            at = place()
            if counts is not None:
                counts.write(at)
            array[at] = stored

        return run

    # ---- places

    def index(self, d: Dim, scope: _Scope) -> Callable[[], int]:
        unknown = d.symbols() - scope.axes
        if unknown:
            raise self.error(f"no axis or extent {', '.join(sorted(unknown))} here, in {d}")
        axes = self.axes
        constant, symbol = d.constant, d.symbol
        if constant is not None:
            return lambda: constant
        if symbol is not None:
            return lambda: axes[symbol]
        return lambda: d.evaluate(axes)

    def place(
        self, buffer: str, indices: tuple[Dim, ...], scope: _Scope
    ) -> Callable[[], tuple[int, ...]]:
        shape = self.arrays[buffer].shape
        if len(indices) != len(shape):
            raise self.error(f"{buffer} has rank {len(shape)}, indexed by {len(indices)}")
        getters = [self.index(d, scope) for d in indices]

        def run() -> tuple[int, ...]:
            at = tuple([get() for get in getters])
            for i, n in zip(at, shape, strict=True):
                if not 0 <= i < n:
                    raise IndexError(
                        f"kernel @{self.kernel.name}: {buffer}{list(at)} of shape {list(shape)}"
                    )
            return at

        return run

    def compute_type(self, buffer: str) -> DType:
        stored = self.kernel.arg(buffer).type.element
        return DType.f32 if stored in (DType.f16, DType.bf16) else stored

    # ---- expressions

    def typed(self, e: Expr, dtype: DType, scope: _Scope, what: str) -> Thunk:
        thunk, found = self.expr(e, scope)
        if found is not dtype:
            raise self.error(f"{what} is {found.value}, expected {dtype.value}")
        return thunk

    def scalar(self, value: Scalar) -> np.generic:
        return _element(cast(value.array(), compute(value.dtype, self.precision)))

    def expr(self, e: Expr, scope: _Scope) -> tuple[Thunk, DType]:
        values = self.values
        match e:
            case Const(value):
                constant = self.scalar(value)
                return lambda: constant, value.dtype
            case Index(d):
                index = self.index(d, scope)
                return lambda: np.int64(index()), DType.i64
            case Ref(name):
                if name not in scope.values:
                    raise self.error(f"no value {name} here")
                return lambda: values[name], scope.values[name]
            case Load(buffer, indices, guard, other):
                load, dtype = self.load(buffer, indices, scope)
                if guard is None or other is None:
                    return load, dtype
                condition = self.typed(guard, DType.bool, scope, "a guard")
                if other.dtype is not dtype:
                    raise self.error(f"a guarded load of {dtype.value} and {other.dtype.value}")
                outside = self.scalar(other)
                return lambda: load() if condition() else outside, dtype
            case Unary(function, x):
                if function not in UNARY:
                    raise self.error(f"no function {function} of one operand")
                a, dtype = self.expr(x, scope)
                f1 = UNARY[function]
                result = DType.bool if function == "isnan" else dtype
                return lambda: _element(f1(a())), result
            case Binary(function, x, y):
                if function not in BINARY:
                    raise self.error(f"no function {function} of two operands")
                a, dtype = self.expr(x, scope)
                b = self.typed(y, dtype, scope, f"the right side of {function}")
                f2 = BINARY[function]
                result = DType.bool if function in COMPARE else dtype
                return lambda: _element(f2(a(), b())), result
            case Select(c, x, y):
                condition = self.typed(c, DType.bool, scope, "a condition")
                a, dtype = self.expr(x, scope)
                b = self.typed(y, dtype, scope, "the other branch of select")
                return lambda: _element(select(condition(), a(), b())), dtype
            case Cast(dtype, x):
                a, _ = self.expr(x, scope)
                stored = storage(dtype, self.precision)
                target = compute(dtype, self.precision)
                return lambda: _element(cast(cast(a(), stored), target)), dtype
            case Aligned(names):
                addresses = [address_of(self.arrays[n]) for n in names]
                aligned = np.bool_(all(a % 16 == 0 for a in addresses))
                return lambda: aligned, DType.bool

    def load(
        self, buffer: str, indices: tuple[Dim, ...], scope: _Scope
    ) -> tuple[Thunk, DType]:
        if buffer not in self.arrays:
            raise self.error(f"no argument {buffer}")
        place = self.place(buffer, indices, scope)
        dtype = self.compute_type(buffer)
        array = self.arrays[buffer]
        counts = self.counter.arguments[buffer] if self.counter else None
        target = compute(dtype, self.precision)

        def run() -> np.generic:
            at = place()
            if counts is not None:
                counts.read(at)
            element: np.generic = array[at]
            return element if element.dtype == target else _element(element.astype(target))

        return run, dtype


def _element(x: Number) -> np.generic:
    """The scalar of a rank-0 array; a scalar stays."""
    if isinstance(x, np.generic):
        return x
    element: np.generic = x.reshape(-1)[0]
    return element

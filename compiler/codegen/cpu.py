"""From a loop tree to Numba source for the CPU.

    par i in r, par j in c   ->   for flat in range(lo, hi): i, j = flat // c, flat % c
    load x[i,j]              ->   load(x, i*c + j)
    load x[i,j], x[i+1,j]    ->   x_at = i*c + j;  load(x, x_at), load(x, x_at + c)

The text is what is compiled, and it is meant to be read: one line a statement, variables named
after the values of the model. Accesses of one body that lie a known distance apart count from one
variable: Numba's time grows with every operator. Arrays are C-contiguous; indices are unsigned, so
that loops vectorise. The vocabulary stands at the top of `numba_api.py`.

The parameter table: extents, then one address a buffer, then one stride (bytes a worker) a scratch
buffer.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.ir.dims import ONE, ZERO, Dim, FloorDiv, product
from compiler.ir.loops import (
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
    as_within,
    children,
    names_of,
)
from compiler.ir.module import SourceLine
from compiler.ir.names import fresh_word
from compiler.ir.printer import canonical_kernel
from compiler.ir.types import DType, Scalar

WORDS = {DType.bool: "b1"}
"""Element types whose name in source is not their name in text."""

RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
WIDE = 1 << 22
"""Elements of an output from which on its rows are written past the cache: 16 MiB of float32."""

LONGEST_ROW = 1 << 14
"""Elements of a row that is still worth keeping apart: it must stay in the second-level cache."""

PRIVATE = 1024
"""Elements of a scratch buffer of literal size that is still put on the stack."""

ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
LOGIC = {"and": "logical_and", "or": "logical_or", "xor": "logical_xor"}
EXTREMES = {"max": "maximum", "min": "minimum"}


@dataclass(frozen=True)
class Emitted:
    """Source text and where each line came from."""

    text: str
    lines: tuple[SourceLine, ...]


def kernel_symbol(kernel: Kernel, *environment: str) -> str:
    """The name of a kernel: a digest of its canonical text and of all its code depends on."""
    h = hashlib.sha256("\n".join((canonical_kernel(kernel), *environment)).encode())
    return f"k_{h.hexdigest()[:24]}"


def word(dtype: DType) -> str:
    return WORDS.get(dtype, dtype.value)


def literal(value: Scalar) -> str:
    """A constant of exactly this dtype and value."""
    number = value.value()
    if value.dtype is DType.bool:
        return f"b1({bool(number)})"
    if value.dtype.is_integer:
        return f"{word(value.dtype)}({int(number)})"
    x = float(number)
    if math.isinf(x):
        return f"{word(value.dtype)}({'-' if x < 0 else ''}inf)"
    if math.isnan(x):
        bits = int(np.uint32(value.bits).astype(np.int32))
        return f"from_bits(i32({bits}))" if value.dtype is DType.f32 else "f64(nan)"
    short = str(np.float32(x)) if value.dtype is DType.f32 else repr(x)
    exact = np.float32(float(short)) == np.float32(x) if value.dtype is DType.f32 else True
    return f"{word(value.dtype)}({short if exact else repr(x)})"


def index_text(value: Dim, signed: Container[str] = ()) -> str:
    """An integer polynomial in unsigned arithmetic; `signed` are the symbols of type i64 (lets)."""
    if not value.terms:
        return "u64(0)"
    parts: list[str] = []
    for monomial, coefficient in value.terms:
        factors = [
            f"({index_text(a.numerator, signed)}) // u64({a.divisor})"
            if isinstance(a, FloorDiv)
            else f"u64({a})"
            if a in signed
            else a
            for a in monomial
        ]
        factors = [f"({f})" if "//" in f else f for f in factors]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, f"u64({abs(coefficient)})")
        text = " * ".join(factors)
        if parts:
            parts.append(("- " if coefficient < 0 else "+ ") + text)
        else:
            parts.append(f"u64(0) - {text}" if coefficient < 0 else text)
    return " ".join(parts)


def address_text(
    indices: Sequence[Dim], shape: Sequence[Dim], signed: Container[str] = ()
) -> str:
    """The row-major position: ((i*c) + j)*d + k, zero terms left out."""
    text = ""
    for at, extent in zip(indices, shape, strict=True):
        term = index_text(at, signed) if at.terms else ""
        if not text:
            text = term
            continue
        base = f"({text})" if " " in text else text
        scaled = text if extent == ONE else f"{base} * {_factor(extent)}"
        text = f"{scaled} + {term}" if term else scaled
    return text or "u64(0)"


@dataclass(frozen=True)
class Place:
    """A position in a buffer: indices, and the extents of all axes but the first."""

    indices: tuple[Dim, ...]
    extents: tuple[Dim, ...]

    def split(self) -> tuple[Place, int]:
        """The place without the constant terms of its indices, and how far these lead; the place
        itself and 0 where an extent is not a number."""
        distance = 0
        bare: list[Dim] = []
        for k, index in enumerate(self.indices):
            extent = self.extents[k - 1].constant if k else 1
            if extent is None:
                return self, 0
            constant = dict(index.terms).get((), 0)
            distance = distance * extent + constant
            bare.append(index - constant)
        return Place(tuple(bare), self.extents), distance

    def symbols(self) -> frozenset[str]:
        return frozenset[str]().union(*(d.symbols() for d in (*self.indices, *self.extents)))


def _factor(extent: Dim) -> str:
    text = index_text(extent)
    return f"({text})" if " " in text else text


class Emitter:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.lines: list[str] = []
        self.map: list[SourceLine] = []
        self.dtypes: dict[str, DType] = {}
        self.shapes = {a.name: a.type.dims for a in kernel.args}
        self.elements = {a.name: a.type.element for a in kernel.args}
        self.streams = streams(kernel)
        self.taken = names_of(kernel)
        self.named: dict[Place, str] = {}
        """Places without constant terms whose positions stand in a variable at this point."""

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def statement(self, depth: int, text: str, stmt: Stmt, path: tuple[int, ...]) -> None:
        self.line(depth, text)
        self.map.append(SourceLine(len(self.lines), path, stmt.origins))

    # ---- positions

    def address(self, buffer: str, indices: tuple[Dim, ...]) -> str:
        """Where in a buffer: from a place that has a name, where there is one."""
        bare, distance = Place(indices, self.shapes[buffer][1:]).split()
        text = self.named.get(bare) or self.place_text(bare)
        if not distance:
            return text
        more = f"u64({abs(distance)})"
        if text == "u64(0)" and distance > 0:
            return more
        return f"{text} {'+' if distance > 0 else '-'} {more}"

    def place_text(self, place: Place) -> str:
        shape = (ONE, *place.extents) if place.indices else ()
        return address_text(place.indices, shape, self.dtypes)

    def name_places(self, body: Sequence[Stmt], depth: int) -> dict[Place, str]:
        """Names for the places that several accesses of a body share."""
        made = {stmt.name for stmt in body if isinstance(stmt, Let)}
        found: dict[Place, list[str]] = {}
        for buffer, indices in accesses(body):
            bare, _ = Place(indices, self.shapes[buffer][1:]).split()
            found.setdefault(bare, []).append(buffer)
        named: dict[Place, str] = {}
        for bare, buffers in found.items():
            text = self.place_text(bare)
            known = bare in self.named or bare.symbols() & made
            if len(buffers) > 1 and " " in text and not known:
                named[bare] = fresh_word(f"{buffers[0]}_at", self.taken)
                self.line(depth, f"{named[bare]} = {text}")
        return named

    # ---- expressions

    def dtype(self, e: Expr) -> DType:
        match e:
            case Const(value):
                return value.dtype
            case Index():
                return DType.i64
            case Ref(name):
                return self.dtypes[name]
            case Load(buffer, _):
                return self.elements[buffer]
            case Unary(function, x):
                return DType.bool if function in ("isnan", "not") else self.dtype(x)
            case Binary(function, x, _):
                return DType.bool if function in COMPARE else self.dtype(x)
            case Select(_, x, _):
                return self.dtype(x)
            case Cast(dtype, _):
                return dtype
            case Aligned():
                return DType.bool

    def expr(self, e: Expr) -> str:
        match e:
            case Const(value):
                return literal(value)
            case Index(value):
                return f"i64({index_text(value, self.dtypes)})"
            case Ref(name):
                return name
            case Load(buffer, indices, guard, other):
                place = self.address(buffer, indices)
                if guard is None or other is None:
                    return f"load({buffer}, {place})"
                return f"load_if({self.bare(guard)}, {buffer}, {place}, {literal(other)})"
            case Unary("not", x):
                return f"logical_not({self.bare(x)})"
            case Unary(function, x):
                return f"{function}({self.bare(x)})"
            case Binary("and") if (bounds := as_within(e)) is not None:
                at, extent = (index_text(d, self.dtypes) for d in bounds)
                return f"({at} < {extent})"
            case Binary(function, x, y):
                return self.binary(function, self.expr(x), self.expr(y), self.dtype(x))
            case Select(c, x, y):
                return f"select({self.bare(c)}, {self.bare(x)}, {self.bare(y)})"
            case Cast(dtype, x):
                return f"{word(dtype)}({self.bare(x)})"
            case Aligned():
                raise ValueError(f"@{self.kernel.name} is a kernel for a GPU")

    def bare(self, e: Expr) -> str:
        """An expression where no operator stands beside it."""
        return unwrap(self.expr(e))

    def binary(self, function: str, x: str, y: str, dtype: DType) -> str:
        if function in RELATIONS:
            return f"({x} {RELATIONS[function]} {y})"
        if function in LOGIC:
            return call(LOGIC[function], x, y)
        if function in EXTREMES:
            return call(EXTREMES[function], x, y)
        if function in ARITHMETIC:
            text = f"({x} {ARITHMETIC[function]} {y})"
            return text if dtype.is_float else f"{word(dtype)}{text}"
        if function == "div":
            return f"({x} / {y})" if dtype.is_float else call("truncdiv", x, y)
        if function == "mod":
            return call("fmod" if dtype.is_float else "mod", x, y)
        return call(function, x, y)

    def update(self, stmt: Update, in_reduction: bool) -> str:
        dtype, value = self.dtypes[stmt.name], self.expr(stmt.value)
        if in_reduction and dtype.is_float:
            return call(f"{stmt.function}_reassoc", stmt.name, value)
        return unwrap(self.binary(stmt.function, stmt.name, value, dtype))

    # ---- statements

    def body(
        self, body: tuple[Stmt, ...], depth: int, path: tuple[int, ...], reduction: bool
    ) -> None:
        if not body:
            self.line(depth, "pass")
        outside = self.named
        self.named = {**outside, **self.name_places(body, depth)}
        for k, stmt in enumerate(body):
            at = (*path, k)
            match stmt:
                case For(kind="stream"):
                    store, row = stream_of(stmt)
                    start = self.row_start(store)
                    count = index_text(stmt.extent)
                    text = f"stream({store.buffer}, {start}, {row}, {count}, wide_{store.buffer})"
                    self.statement(depth, text, stmt, at)
                case For():
                    head = f"for {stmt.axis} in range({index_text(stmt.extent)}):"
                    self.statement(depth, head, stmt, at)
                    self.body(stmt.body, depth + 1, at, reduction or stmt.kind == "red")
                case Let():
                    self.dtypes[stmt.name] = stmt.dtype
                    text = f"{stmt.name} = {unwrap(self.expr(stmt.value))}"
                    self.statement(depth, text, stmt, at)
                case Acc():
                    self.dtypes[stmt.name] = stmt.dtype
                    self.statement(depth, f"{stmt.name} = {literal(stmt.init)}", stmt, at)
                case Update():
                    text = f"{stmt.name} = {self.update(stmt, reduction)}"
                    self.statement(depth, text, stmt, at)
                case Store():
                    where = self.address(stmt.buffer, stmt.indices)
                    value = unwrap(self.expr(stmt.value))
                    text = f"store({stmt.buffer}, {where}, {value})"
                    self.statement(depth, text, stmt, at)
                case If():
                    self.statement(depth, f"if {unwrap(self.expr(stmt.condition))}:", stmt, at)
                    self.body(stmt.body, depth + 1, at, reduction)
                case Alloc() | Shuffle() | Barrier():
                    raise ValueError(f"@{self.kernel.name} is a kernel for a GPU")
        self.taken -= set(self.named.values()) - set(outside.values())
        self.named = outside

    def row_start(self, store: Store) -> str:
        """The position of a streamed row's first element."""
        return address_text((*store.indices[:-1], ZERO), self.shapes[store.buffer])

    def staging(self, depth: int) -> None:
        """Where each streamed row is written: apart in scratch, or at once in its place."""
        for row, store in self.streams.items():
            y = store.buffer
            text = f"{row} = staging({row}_own, {y}, {self.row_start(store)}, wide_{y})"
            self.line(depth, text)

    def header(self, name: str) -> None:
        kernel = self.kernel
        self.line(0, f"def {name}(params, worker, lo, hi):")
        for k, extent in enumerate(kernel.extents):
            self.line(1, f"{extent} = extent(params, {k})")
        slot = len(kernel.extents)
        stride = slot + len(kernel.args)
        for arg in kernel.args:
            where = f"params[{slot}]"
            if arg.mode == "scratch":
                where += f" + i64(worker) * params[{stride}]"
                stride += 1
            own = f"{arg.name}_own" if arg.name in self.streams else arg.name
            size = product(arg.type.dims).constant if arg.mode == "scratch" else None
            if size is not None and 0 < size <= PRIVATE and own == arg.name:
                text = f"private({where}, {word(arg.type.element)}, {size})"
            else:
                text = f"pointer({where}, {word(arg.type.element)})"
            self.line(1, f"{own} = {text}")
            slot += 1
        for store in self.streams.values():
            shape = self.shapes[store.buffer]
            size = index_text(product(shape))
            many = f"{size} >= u64({WIDE})"
            short = f"{index_text(shape[-1])} <= u64({LONGEST_ROW})"
            self.line(1, f"wide_{store.buffer} = logical_and({many}, {short})")

    def emit(self, name: str) -> Emitted:
        self.header(name)
        loops, body = self.kernel.parallel()
        path = (0,) * len(loops)
        if not loops:
            self.body(body, 1, (), False)
        elif len(loops) == 1:
            self.statement(1, f"for {loops[0].axis} in range(lo, hi):", loops[0], (0,))
            self.staging(2)
            self.body(body, 2, path, False)
        else:
            self.statement(1, "for flat in range(lo, hi):", loops[0], (0,))
            rest = "flat"
            for k in reversed(range(len(loops))):
                loop = loops[k]
                extent = _factor(loop.extent)
                if k == 0:
                    self.statement(2, f"{loop.axis} = {rest}", loop, path[: k + 1])
                    continue
                self.statement(2, f"{loop.axis} = {rest} % {extent}", loop, path[: k + 1])
                self.line(2, f"rest{k} = {rest} // {extent}")
                rest = f"rest{k}"
            self.staging(2)
            self.body(body, 2, path, False)
        for store in self.streams.values():
            self.line(1, f"stream_end(wide_{store.buffer})")
        return Emitted("\n".join(self.lines) + "\n", tuple(self.map))


def call(function: str, *arguments: str) -> str:
    return f"{function}({', '.join(unwrap(a) for a in arguments)})"


def accesses(body: Iterable[Stmt]) -> Iterator[tuple[str, tuple[Dim, ...]]]:
    """(buffer, indices) of the loads and stores of a body, without those of loops and branches."""

    def loads(e: Expr) -> Iterator[tuple[str, tuple[Dim, ...]]]:
        if isinstance(e, Load):
            yield e.buffer, e.indices
        for child in children(e):
            yield from loads(child)

    for stmt in body:
        match stmt:
            case Let() | Update():
                yield from loads(stmt.value)
            case Store():
                yield from loads(stmt.value)
                yield stmt.buffer, stmt.indices
            case _:
                pass


def stream_of(loop: For) -> tuple[Store, str]:
    """The store of a `stream` loop and the scratch row it reads. ValueError for another shape."""
    match loop.body:
        case (Store(value=Load(row, _)) as store,):
            return store, row
        case _:
            raise ValueError(f"a stream loop over {loop.axis} copies a row and does nothing else")


def streams(kernel: Kernel) -> dict[str, Store]:
    """scratch row -> the store that streams it to its output."""
    _, body = kernel.parallel()
    found = (stream_of(s) for s in body if isinstance(s, For) and s.kind == "stream")
    return {row: store for store, row in found}


def unwrap(text: str) -> str:
    """An expression without its outer brackets, where they only wrap it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for k, ch in enumerate(text):
        depth += (ch == "(") - (ch == ")")
        if depth == 0 and k < len(text) - 1:
            return text
    return text[1:-1]


def emit_kernel(kernel: Kernel, name: str) -> Emitted:
    """The source of a kernel as a function called `name`."""
    return Emitter(kernel).emit(name)

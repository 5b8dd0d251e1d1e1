"""The loop tree: a kernel as nested loops over indexed loads and stores.

    par i in r { acc m: f32 = -inf;  red j in c { m max= load x[i,j] };  vec j in c { … } }

One tree, scheduled differently, feeds every target. Index expressions are dimensions (integer
polynomials over the loop axes and the kernel's extents), so that access maps can be read off
them: the floor of the bytes moved, and whether two loops may become one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from .dims import ZERO, Dim
from .graph import NO_ORIGINS, Origins
from .types import DType, Scalar, TensorType

# ---- expressions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Const:
    """A literal."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Index:
    """An integer polynomial over axes and extents, as a value of type i64."""

    value: Dim


@dataclass(frozen=True, slots=True)
class Ref:
    """The current value of a `let` or an accumulator."""

    name: str


@dataclass(frozen=True, slots=True)
class Load:
    """One element of a buffer, converted to its dtype's compute type.

    With a guard: the element where the guard holds, else `other` (of the compute type), and then
    memory is not touched, so the indices may lie outside the buffer.
    """

    buffer: str
    indices: tuple[Dim, ...]
    guard: Expr | None = None
    other: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Unary:
    """`function` is one of `UNARY`."""

    function: str
    x: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """`function` is one of `BINARY` or `COMPARE`; a comparison gives bool."""

    function: str
    x: Expr
    y: Expr


@dataclass(frozen=True, slots=True)
class Select:
    condition: Expr
    x: Expr
    y: Expr


@dataclass(frozen=True, slots=True)
class Cast:
    """Float to integer truncates toward zero; anything to bool is `!= 0`."""

    dtype: DType
    x: Expr


@dataclass(frozen=True, slots=True)
class Aligned:
    """Whether every one of these buffers starts at a multiple of 16 bytes."""

    buffers: tuple[str, ...]


Expr = Const | Index | Ref | Load | Unary | Binary | Select | Cast | Aligned

UNARY = frozenset({
    "abs", "ceil", "cos", "erf", "exp", "floor", "isnan", "log", "neg", "not", "rint", "sigmoid",
    "sign", "sin", "sqrt", "tanh",
})  # fmt: skip
BINARY = frozenset({"add", "and", "div", "max", "min", "mod", "mul", "or", "pow", "sub", "xor"})
COMPARE = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
COMBINE = frozenset({"add", "mul", "max", "min"})
"""Functions that an accumulator may be updated with: associative and commutative."""

TRANSCENDENTAL = frozenset({"cos", "erf", "exp", "log", "pow", "sigmoid", "sin", "tanh"})
"""Functions worth storing rather than computing twice."""

# ---- statements --------------------------------------------------------------------------------

AXIS_KINDS = (
    "par", "seq", "red", "vec", "stream", "block", "warp", "lane", "unroll", "wide",
)  # fmt: skip
GRID = ("block", "warp", "lane")
"""Kinds of the axes that a GPU runs at once: blocks, warps of a block, threads of a warp."""

WARP = 32
"""Threads of a warp: they exchange values without memory."""

LANES = 4
"""Elements of one wide access."""


@dataclass(frozen=True, slots=True)
class For:
    """`kind` is one of `AXIS_KINDS`; the axis runs from 0 to `extent - 1`.

    A `stream` loop copies a finished row from scratch to its place in an output, past the cache
    where that pays.

    In a kernel for a GPU, `block`, `warp` and `lane` loops are outermost and perfectly nested, and
    all threads of a block run their iterations at once. An `unroll` loop of literal extent is
    written out. A `wide` loop of extent 4 copies four neighbours between memory and a register
    array (`Alloc` in `local`) in one access; a `stream` loop of extent 4 writes them past the
    cache; a `vec` loop of extent 4 computes on them.
    """

    kind: str
    axis: str
    extent: Dim
    body: tuple[Stmt, ...]
    origins: Origins = NO_ORIGINS


@dataclass(frozen=True, slots=True)
class Let:
    """A name for a value. One of type i64 may stand in index expressions, like an axis."""

    name: str
    dtype: DType
    value: Expr
    origins: Origins = NO_ORIGINS


@dataclass(frozen=True, slots=True)
class Acc:
    """Declares an accumulator with its first value."""

    name: str
    dtype: DType
    init: Scalar
    origins: Origins = NO_ORIGINS


@dataclass(frozen=True, slots=True)
class Update:
    """`name function= value`, with `function` in `COMBINE`.

    Inside a `red` loop the order of a floating-point sum is free in default numerics.
    """

    name: str
    function: str
    value: Expr
    origins: Origins = NO_ORIGINS


@dataclass(frozen=True, slots=True)
class Store:
    buffer: str
    indices: tuple[Dim, ...]
    value: Expr
    origins: Origins = NO_ORIGINS


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    body: tuple[Stmt, ...]
    origins: Origins = NO_ORIGINS


@dataclass(frozen=True, slots=True)
class Alloc:
    """An array of literal shape that holds nothing yet, for the rest of the block of statements.

    `space` is one of `SPACES`: `local` is a thread's own (registers), `shared` a block's.
    """

    name: str
    space: str
    type: TensorType
    origins: Origins = NO_ORIGINS


@dataclass(frozen=True, slots=True)
class Shuffle:
    """`name function= ` what the thread whose lane differs in the bits of `xor` has there.

    All lanes of the warp take part. Five of them, with 16, 8, 4, 2 and 1, combine a warp's
    accumulators, and every lane has the result: bit for bit the same, as each step commutes.
    """

    name: str
    function: str
    xor: int
    origins: Origins = NO_ORIGINS


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads of a block wait for each other; what they wrote to `shared` is there for all."""

    origins: Origins = NO_ORIGINS


Stmt = For | Let | Acc | Update | Store | If | Alloc | Shuffle | Barrier
SPACES = ("local", "shared")

ARG_MODES = ("in", "out", "inout", "scratch")


@dataclass(frozen=True, slots=True)
class Arg:
    """A buffer argument. The shape is over the kernel's extents; scratch is one a worker."""

    name: str
    mode: str
    type: TensorType


@dataclass(frozen=True)
class Kernel:
    """A loop nest over buffers: `extents` are the symbols that a launch gives numbers to.

    The outermost `par` loops are perfectly nested and hold everything else.
    """

    name: str
    extents: tuple[str, ...]
    args: tuple[Arg, ...]
    body: tuple[Stmt, ...]
    origins: Origins = NO_ORIGINS

    def arg(self, name: str) -> Arg:
        for arg in self.args:
            if arg.name == name:
                return arg
        raise KeyError(f"kernel @{self.name} has no argument {name!r}")

    def parallel(self) -> tuple[tuple[For, ...], tuple[Stmt, ...]]:
        """The outer `par` loops, outermost first, and the body below them."""
        loops: list[For] = []
        body = self.body
        while len(body) == 1 and isinstance(body[0], For) and body[0].kind == "par":
            loops.append(body[0])
            body = body[0].body
        return tuple(loops), body


    def grid(self) -> tuple[tuple[For, ...], tuple[Stmt, ...]]:
        """The outer `block`, `warp` and `lane` loops, and the body below them; none on a CPU."""
        loops: list[For] = []
        body = self.body
        while len(body) == 1 and isinstance(body[0], For) and body[0].kind in GRID:
            loops.append(body[0])
            body = body[0].body
        return tuple(loops), body


def within(at: Dim, extent: Dim) -> Expr:
    """The guard `0 <= at < extent`: one unsigned comparison where it is compiled."""
    above = Binary("ge", Index(at), Index(ZERO))
    return Binary("and", above, Binary("lt", Index(at), Index(extent)))


def as_within(expr: Expr) -> tuple[Dim, Dim] | None:
    """(at, extent) of a guard that `within` made."""
    match expr:
        case Binary("and", Binary("ge", Index(at), Index(low)), Binary("lt", Index(x), Index(n))):
            return (at, n) if x == at and low == ZERO else None
        case _:
            return None


def children(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Unary(_, x) | Cast(_, x):
            return (x,)
        case Binary(_, x, y):
            return (x, y)
        case Select(c, x, y):
            return (c, x, y)
        case Load(guard=guard) if guard is not None:
            return (guard,)
        case _:
            return ()


def walk_expr(expr: Expr) -> Iterator[Expr]:
    yield expr
    for child in children(expr):
        yield from walk_expr(child)


def compute_dtype(stored: DType) -> DType:
    """What a stored element is computed with: f32 for f16 and bf16, else itself."""
    return DType.f32 if stored in (DType.f16, DType.bf16) else stored


def infer_dtype(
    expr: Expr, buffers: Mapping[str, DType | None], names: Mapping[str, DType]
) -> DType:
    """The dtype of an expression: f16 and bf16 load as f32, comparisons give bool.

    `buffers` holds storage dtypes, `names` those of lets and accumulators. ValueError tells what
    does not fit: an unknown name, operands of different dtypes, a condition that is no bool.
    """

    def equal(what: str, x: DType, y: DType) -> DType:
        if x is not y:
            raise ValueError(f"{what} of {x.value} and {y.value}")
        return x

    match expr:
        case Const(value):
            return value.dtype
        case Index():
            return DType.i64
        case Aligned(names_):
            for name in names_:
                if name not in buffers:
                    raise ValueError(f"no buffer {name!r}")
            return DType.bool
        case Cast(dtype, x):
            infer_dtype(x, buffers, names)
            return dtype
        case Ref(name):
            if name not in names:
                raise ValueError(f"{name!r} is read before a let or acc defines it")
            return names[name]
        case Load(buffer, _, guard, other):
            stored = buffers.get(buffer)
            if stored is None:
                raise ValueError(f"no buffer {buffer!r} of a known dtype")
            dtype = compute_dtype(stored)
            if (guard is None) != (other is None):
                raise ValueError(f"the load of {buffer!r} has a guard or another value alone")
            if guard is not None and other is not None:
                equal("a guard", infer_dtype(guard, buffers, names), DType.bool)
                equal("a guarded load", dtype, other.dtype)
            return dtype
        case Unary(function, x):
            dtype = infer_dtype(x, buffers, names)
            if function == "not":
                return equal("not", dtype, DType.bool)
            return DType.bool if function == "isnan" else dtype
        case Binary(function, x, y):
            left = infer_dtype(x, buffers, names)
            dtype = equal(function, left, infer_dtype(y, buffers, names))
            return DType.bool if function in COMPARE else dtype
        case Select(c, x, y):
            equal("select on", infer_dtype(c, buffers, names), DType.bool)
            left = infer_dtype(x, buffers, names)
            return equal("select", left, infer_dtype(y, buffers, names))


def map_expr(expr: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Rebuild bottom-up, `f` applied to each node after its children."""
    match expr:
        case Unary(name, x):
            return f(Unary(name, map_expr(x, f)))
        case Cast(dtype, x):
            return f(Cast(dtype, map_expr(x, f)))
        case Binary(name, x, y):
            return f(Binary(name, map_expr(x, f), map_expr(y, f)))
        case Select(c, x, y):
            return f(Select(map_expr(c, f), map_expr(x, f), map_expr(y, f)))
        case Load(guard=guard) if guard is not None:
            return f(replace(expr, guard=map_expr(guard, f)))
        case _:
            return f(expr)


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions of a statement itself, not of its body."""
    match stmt:
        case Let(value=v) | Update(value=v) | Store(value=v):
            return (v,)
        case If(condition=c):
            return (c,)
        case _:
            return ()


def walk_statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    for stmt in body:
        yield stmt
        if isinstance(stmt, For | If):
            yield from walk_statements(stmt.body)


def names_of(kernel: Kernel) -> set[str]:
    """Every name that a kernel uses: arguments, extents, axes, variables, memory of its own."""
    found = {*(a.name for a in kernel.args), *kernel.extents}
    for stmt in walk_statements(kernel.body):
        if isinstance(stmt, For):
            found.add(stmt.axis)
        elif isinstance(stmt, Let | Acc | Alloc):
            found.add(stmt.name)
    return found


def map_statements(
    body: tuple[Stmt, ...],
    expr: Callable[[Expr], Expr],
    index: Callable[[Dim], Dim] = lambda d: d,
) -> tuple[Stmt, ...]:
    """Rebuild a body: `expr` on every expression node, `index` on indices and extents."""

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Load):
            return expr(replace(e, indices=tuple(index(d) for d in e.indices)))
        if isinstance(e, Index):
            return expr(Index(index(e.value)))
        return expr(e)

    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case For():
                inner = map_statements(stmt.body, expr, index)
                out.append(replace(stmt, extent=index(stmt.extent), body=inner))
            case If():
                inner = map_statements(stmt.body, expr, index)
                out.append(replace(stmt, condition=map_expr(stmt.condition, on_expr), body=inner))
            case Let():
                out.append(replace(stmt, value=map_expr(stmt.value, on_expr)))
            case Update():
                out.append(replace(stmt, value=map_expr(stmt.value, on_expr)))
            case Store():
                at = tuple(index(d) for d in stmt.indices)
                out.append(replace(stmt, indices=at, value=map_expr(stmt.value, on_expr)))
            case Acc() | Alloc() | Shuffle() | Barrier():
                out.append(stmt)
    return tuple(out)

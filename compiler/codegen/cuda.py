"""From a loop tree with a grid to Numba-CUDA source.

    block i in r, warp w in 4, lane l in 32   ->   i = block_x(); w = thread() // 32; …
    wide e in 4 { store xr[u,e] = load x[i,4*l+e] }   ->   xr0 = load4(x, i*c + 4*l)
    vec e in 4 { let v = load xr[u,e] * s }           ->   v = xr0 * s

A `vec` loop of four becomes one line that works on four values at once, an `unroll` loop is
written out, a register array becomes one variable for every four of its elements. Block loops
stand on the grid's x and y, innermost on x; y has at most 65535 blocks, so a second block loop
goes on where the grid ends.

The parameter table lies in device memory: extents, then one address a buffer.
"""

from __future__ import annotations

from compiler.codegen.cpu import (
    RELATIONS,
    Emitted,
    Emitter,
    address_text,
    call,
    index_text,
    literal,
    unwrap,
    word,
)
from compiler.ir.dims import ZERO, Dim, dim
from compiler.ir.loops import (
    LANES,
    WARP,
    Acc,
    Aligned,
    Alloc,
    Barrier,
    Binary,
    Cast,
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
    Update,
    children,
    map_expr,
    names_of,
)
from compiler.ir.names import fresh_word
from compiler.ir.types import DType

__all__ = ["MOST_BLOCKS_Y", "emit_cuda_kernel"]

MOST_BLOCKS_Y = 65535

NUMBA_NAMES = {
    DType.f32: "float32", DType.f64: "float64", DType.bool: "bool", DType.i8: "int8",
    DType.i16: "int16", DType.i32: "int32", DType.i64: "int64", DType.u8: "uint8",
    DType.u16: "uint16", DType.u32: "uint32", DType.u64: "uint64",
}  # fmt: skip
"""What Numba calls the elements of shared memory."""


class _CudaEmitter(Emitter):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.bound: dict[str, Dim] = {}
        """Axes that are written out, and where they stand."""
        self.vector: str | None = None
        """The axis of the `vec` loop at hand: what varies with it is four values."""
        self.fours: set[str] = set()
        """Lets that are four values."""
        self.local: dict[str, tuple[Dim, ...]] = {}
        self.shared: dict[str, tuple[Dim, ...]] = {}
        self.taken = names_of(kernel)
        self.registers: dict[tuple[str, *tuple[int | None, ...]], str] = {}

    # ---- places

    def at(self, value: Dim, element: int | None = None) -> Dim:
        """An index with written-out axes as numbers; `element` of the vector's four."""
        places = dict(self.bound)
        if element is not None and self.vector is not None:
            places[self.vector] = dim(element)
        return value.substitute(places)

    def place(self, buffer: str, indices: tuple[Dim, ...], element: int | None = None) -> str:
        at = tuple(self.at(d, element) for d in indices)
        return address_text(at, self.shapes[buffer], self.dtypes)

    def register(self, buffer: str, indices: tuple[Dim, ...]) -> str:
        """The variable of four elements of a register array. ValueError where it is not known."""
        fixed = [self.at(d).constant for d in indices[:-1]]
        if None in fixed or indices[-1].symbol is None:
            raise ValueError(f"{buffer}{list(map(str, indices))} names no register")
        if not fixed:
            return buffer
        found = self.registers.get((buffer, *fixed))
        if found is None:
            found = fresh_word("_".join([buffer, *(str(k) for k in fixed)]), self.taken)
            self.registers[buffer, *fixed] = found
        return found

    # ---- expressions

    def is_four(self, e: Expr) -> bool:
        """Whether an expression in a `vec` loop has four values."""
        axis = self.vector
        if axis is None:
            return False
        match e:
            case Ref(name):
                return name in self.fours
            case Load(buffer, indices):
                if buffer in self.local or any(axis in d.symbols() for d in indices):
                    return True
            case Index(value):
                return axis in value.symbols()
            case _:
                pass
        return any(self.is_four(child) for child in children(e))

    def expr(self, e: Expr) -> str:
        match e:
            case Load(buffer, indices) if buffer in self.local:
                return self.register(buffer, indices)
            case Load(buffer, indices) if buffer in self.shared:
                at = address_text(tuple(map(self.at, indices)), self.shared[buffer], self.dtypes)
                return f"{buffer}[{at}]"
            case Load() | Index() if self.is_four(e):
                return f"four({', '.join(self.single(e, k) for k in range(LANES))})"
            case Load() | Index():
                return self.single(e, None)
            case Aligned(buffers):
                text = f"aligned({buffers[0]})"
                for buffer in buffers[1:]:
                    text = call("logical_and", text, f"aligned({buffer})")
                return text
            case Binary(function, Index(x), Index(y)) if (
                function in RELATIONS and not self.is_four(e) and counts(x) and counts(y)
            ):
                left, right = (index_text(self.at(d), self.dtypes) for d in (x, y))
                return f"({left} {RELATIONS[function]} {right})"
            case Cast(DType.i64, x) if not self.is_four(x) and self.dtype(x) is DType.i64:
                return self.expr(x)
            case _:
                return super().expr(e)

    def single(self, e: Expr, element: int | None) -> str:
        """One of the four values of a load or an index, as the CPU's emitter writes it."""

        def on_expr(x: Expr) -> Expr:
            if isinstance(x, Load):
                return Load(x.buffer, tuple(self.at(d, element) for d in x.indices), x.guard,
                            x.other)  # fmt: skip
            return Index(self.at(x.value, element)) if isinstance(x, Index) else x

        return super().expr(map_expr(e, on_expr))

    def dtype(self, e: Expr) -> DType:
        if isinstance(e, Aligned):
            return DType.bool
        if isinstance(e, Load) and e.buffer not in self.local:
            stored = self.elements[e.buffer]
            return DType.f32 if stored in (DType.f16, DType.bf16) else stored
        return super().dtype(e)

    # ---- statements

    def body(
        self, body: tuple[Stmt, ...], depth: int, path: tuple[int, ...], reduction: bool
    ) -> None:
        if not body:
            self.line(depth, "pass")
        for k, stmt in enumerate(body):
            self.one(stmt, depth, (*path, k), reduction)

    def one(self, stmt: Stmt, depth: int, at: tuple[int, ...], reduction: bool) -> None:
        match stmt:
            case For(kind="unroll"):
                for k in range(stmt.extent.evaluate({})):
                    self.bound[stmt.axis] = dim(k)
                    self.body(stmt.body, depth, at, reduction)
                del self.bound[stmt.axis]
            case For(kind="vec") if stmt.extent == dim(LANES):
                self.vector = stmt.axis
                self.fours = set()
                self.body(stmt.body, depth, at, reduction=True)
                self.vector = None
            case For(kind="wide" | "stream"):
                self.statement(depth, self.copy(stmt), stmt, at)
            case For():
                head = f"for {stmt.axis} in range({index_text(self.at(stmt.extent))}):"
                self.statement(depth, head, stmt, at)
                self.body(stmt.body, depth + 1, at, reduction or stmt.kind == "red")
            case Let(name, dtype, value):
                self.dtypes[name] = dtype
                four = self.is_four(value)
                text = f"{name} = {unwrap(self.expr(value))}"
                self.statement(depth, text, stmt, at)
                if four:
                    self.fours.add(name)
            case Acc(name, dtype, init):
                self.dtypes[name] = dtype
                self.statement(depth, f"{name} = {literal(init)}", stmt, at)
            case Update(name):
                self.statement(depth, f"{name} = {self.new_value(stmt, reduction)}", stmt, at)
            case Store():
                for text in self.stores(stmt):
                    self.statement(depth, text, stmt, at)
            case If():
                head = f"if {unwrap(self.expr(stmt.condition))}:"
                self.statement(depth, head, stmt, at)
                self.body(stmt.body, depth + 1, at, reduction)
            case Alloc():
                self.alloc(stmt, depth, at)
            case Shuffle(name, function, xor):
                other = f"shuffle_xor({name}, {xor})"
                value = self.combined(name, function, other, reduction=True)
                self.statement(depth, f"{name} = {value}", stmt, at)
            case Barrier():
                self.statement(depth, "barrier()", stmt, at)

    def combined(self, name: str, function: str, value: str, reduction: bool) -> str:
        """`name function= value`, of one value."""
        dtype = self.dtypes[name]
        if reduction and dtype.is_float:
            return call(f"{function}_reassoc", name, value)
        return unwrap(self.binary(function, name, value, dtype))

    def new_value(self, stmt: Update, reduction: bool) -> str:
        value = self.expr(stmt.value)
        if self.vector is None:
            return self.combined(stmt.name, stmt.function, value, reduction)
        if not self.is_four(stmt.value):
            value = f"four({', '.join([unwrap(value)] * LANES)})"
        return call(f"fold_{stmt.function}", stmt.name, value)

    def stores(self, stmt: Store) -> list[str]:
        value = unwrap(self.expr(stmt.value))
        four = self.is_four(stmt.value)
        buffer = stmt.buffer
        if buffer in self.local:
            whole = value if four else f"four({', '.join([value] * LANES)})"
            return [f"{self.register(buffer, stmt.indices)} = {whole}"]
        if buffer in self.shared:
            at = address_text(tuple(map(self.at, stmt.indices)), self.shared[buffer], self.dtypes)
            return [f"{buffer}[{at}] = {value}"]
        if self.vector is None:
            return [f"store({buffer}, {self.place(buffer, stmt.indices)}, {value})"]
        found: list[str] = []
        for k in range(LANES):
            one = f"part({value}, {k})" if four else value
            found.append(f"store({buffer}, {self.place(buffer, stmt.indices, k)}, {one})")
        return found

    def copy(self, stmt: For) -> str:
        """One access of four elements."""
        match stmt.body:
            case (Store(target, at, Load(source, indices)),):
                pass
            case _:
                raise ValueError(f"{stmt.kind} {stmt.axis} does something else than copy")
        self.bound[stmt.axis] = ZERO
        try:
            if target in self.local:
                place = self.place(source, indices)
                self.bound.pop(stmt.axis)
                return f"{self.register(target, at)} = load4({source}, {place})"
            place = self.place(target, at)
            self.bound.pop(stmt.axis)
            function = "stream4" if stmt.kind == "stream" else "store4"
            return f"{function}({target}, {place}, {self.register(source, indices)})"
        finally:
            self.bound.pop(stmt.axis, None)

    def alloc(self, stmt: Alloc, depth: int, at: tuple[int, ...]) -> None:
        self.elements[stmt.name] = stmt.type.element
        shape = stmt.type.dims
        if stmt.space == "local":
            self.local[stmt.name] = shape
            zero = literal_zero(stmt.type.element)
            names = [self.register(stmt.name, (*i, dim("e"))) for i in positions(shape[:-1])]
            value = f"four({', '.join([zero] * LANES)})"
            self.statement(depth, f"{' = '.join(names)} = {value}", stmt, at)
            return
        self.shared[stmt.name] = shape
        count = 1
        for d in shape:
            count *= d.evaluate({})
        name = NUMBA_NAMES[stmt.type.element]
        text = f"{stmt.name} = cuda.shared.array({count}, {name})"
        self.statement(depth, text, stmt, at)

    # ---- the whole

    def emit(self, name: str) -> Emitted:
        kernel = self.kernel
        self.line(0, f"def {name}(params):")
        for k, extent in enumerate(kernel.extents):
            self.line(1, f"{extent} = extent(params, {k})")
        for slot, arg in enumerate(kernel.args, len(kernel.extents)):
            where = f"pointer(params[{slot}], {word(arg.type.element)})"
            self.line(1, f"{arg.name} = {where}")
        loops, body = kernel.grid()
        blocks = [loop for loop in loops if loop.kind == "block"]
        if not blocks or len(blocks) > 2:
            raise ValueError(f"@{kernel.name} has {len(blocks)} block loops: one or two")
        depth = 1
        path: tuple[int, ...] = ()
        warps = any(loop.kind == "warp" for loop in loops)
        for loop in loops:
            path = (*path, 0)
            if loop.kind == "block" and loop is blocks[-1]:
                text = f"{loop.axis} = block_x()"
            elif loop.kind == "block":
                self.line(depth, f"{loop.axis} = block_y()")
                text = f"while {loop.axis} < {index_text(loop.extent)}:"
            elif loop.kind == "warp":
                text = f"{loop.axis} = thread() // u64({WARP})"
            else:
                text = f"{loop.axis} = thread()" + (f" % u64({WARP})" if warps else "")
            self.statement(depth, text, loop, path)
            depth += text.startswith("while")
        self.body(body, depth, path, False)
        if len(blocks) == 2:
            axis = blocks[0].axis
            self.line(2, f"{axis} = {axis} + blocks_y()")
        return Emitted("\n".join(self.lines) + "\n", tuple(self.map))


def counts(value: Dim) -> bool:
    """Whether nothing is subtracted in an index, so that it can be compared unsigned."""
    return all(
        coefficient >= 0 and all(isinstance(a, str) or counts(a.numerator) for a in monomial)
        for monomial, coefficient in value.terms
    )


def positions(shape: tuple[Dim, ...]) -> list[tuple[Dim, ...]]:
    """All indices of an array of literal shape."""
    found: list[tuple[Dim, ...]] = [()]
    for d in shape:
        found = [(*i, dim(k)) for i in found for k in range(d.evaluate({}))]
    return found


def literal_zero(dtype: DType) -> str:
    return f"{word(dtype)}({'False' if dtype is DType.bool else 0})"


def emit_cuda_kernel(kernel: Kernel, name: str) -> Emitted:
    """The source of a scheduled kernel as a function called `name`. ValueError for a kernel
    without a grid, or of a form that no schedule makes."""
    return _CudaEmitter(kernel).emit(name)

"""From the text of a kernel to machine code: all that touches Numba, behind a typed face.

    source --compile_kernel--> object file, LLVM, assembly, the names it leaves open

`source` is Python that defines `def NAME(params, worker, lo, hi)`. It becomes a C function
`void NAME(int64 *params, uint64 worker, uint64 lo, uint64 hi)` that does [lo, hi) of its outermost
axis, serially. It neither allocates nor raises. Its vocabulary, beside Python's `for`, `if`, `=`,
comparisons, `+ - * /` and `//` of unsigned integers:

    f32 f64                 casts of a scalar: `f32(x)`. Float to integer truncates toward zero;
    i8 i16 i32 i64          NaN and what does not fit give the smallest i32 or i64, as x86 does,
    u8 u16 u32 u64          the narrower types take the low bits of that (u32 of i64's; u64 too,
    b1                      up to 2**63, and from there the number itself). Integer to integer
                            keeps the low bits. b1 is `!= 0`
    f16 bf16                storage types: a load gives f32, a store rounds to nearest even.
                            As a cast: f32 rounded to what the storage can hold
    pointer(params[k], f32)           the address in slot k, as a typed address
    private(address, f32, 64)         a buffer of so many elements that no other pointer reaches:
                                      on the stack, so that it may be kept in registers
    extent(params, k)                 the number in slot k, as u64
    load(x, index)                    element; one byte of b1 storage is true where it is not 0
    load_if(c, x, index, other)       load(x, index) where c, else `other`, and then memory is not
                                      touched: a branch, which becomes a masked load in a vector
    store(y, index, value)            value must have the type that a load gives; b1 as 0 or 1
    staging(row, y, index, wide)      where to write a row of y: `row` if wide, else y + index
    stream(y, index, row, n, wide)    if wide: copy row[0:n] to y[index:index+n] with stores that
                                      do not read the lines they write; else nothing (f32 only)
    stream_end(wide)                  makes such stores visible to other threads
    select(c, a, b)                   a where c, else b; both of one type, both computed
    maximum(a, b)  minimum(a, b)      NaN if either is NaN; -0 below 0
    add_reassoc(acc, v)               acc + v for an accumulator, mul_reassoc acc * v: in default
                                      numerics the order of the loop's sum (product) is free
    max_reassoc(acc, v)  min_reassoc  maximum and minimum for an accumulator: in default numerics
                                      either zero may win, at half the price
    exp log tanh erf sigmoid          f32 by `vector_math` (math="poly") or by the C library
    sin cos pow                       ("libm"); f64, and sin, cos and pow always by the C library
    sqrt floor ceil rint abs neg      rint: halves to even. neg and abs of integers wrap
    sign(x)                           -1, 0, 1, NaN of NaN
    truncdiv(a, b)                    of integers, toward zero; x/0 is 0, MIN/-1 is MIN
    mod(a, b)  fmod(a, b)             sign of b, sign of a; of integers x mod 0 is 0
    isnan(x)
    bits(x)  from_bits(i)             f32 as i32, f64 as i64, and back
    logical_and logical_or logical_xor logical_not        of b1
    inf nan                           f64 constants, as in f32(-inf)

Four traps of Numba. A float literal is f64 and so is `f32 + literal`: write `f32(0.5)`. An integer
literal is i64, and u64 mixed with it is signed (f64 in older releases): write `u64(1)`. Integer
arithmetic is done in 64 bits: write `i32(a + b)`. A loop over a signed index is not vectorised, for
it might wrap: `lo`, `hi` and extents are u64.

Numerics: "contract" is the only freedom of default numerics (a*b + c may round once), "strict" has
none. Fused multiply-add, reassociation and the functions above are written instruction by
instruction with the flags they may have, so none is inherited from a caller.

Teaches: Python text, typed and lowered, is the machine code of any other language.
"""

# Numba and llvmlite have no type hints; `compile_kernel` and `helper_digest` are their typed face.
# pyright: basic

from __future__ import annotations

import ast
import functools
import gc
import hashlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cfunc, types
from numba.core import cgutils, typed_passes, untyped_passes
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.errors import NumbaError, TypingError
from numba.extending import intrinsic

from compiler.codegen import vector_math
from compiler.runtime.native import ForbiddenSymbol, check_symbols, undefined_symbols
from compiler.runtime.symbols import ALLOWED_SYMBOLS, NEVER_TAKEN

__all__ = [
    "ALLOWED_SYMBOLS",
    "NEVER_TAKEN",
    "VOCABULARY",
    "CompiledKernel",
    "ForbiddenSymbol",
    "KernelSourceError",
    "compile_kernel",
    "helper_digest",
]

MATH = ("poly", "libm")


class KernelSourceError(ValueError):
    """The text of a kernel that Numba can't compile; `kernel` is its name."""

    def __init__(self, kernel: str, reason: str) -> None:
        self.kernel = kernel
        super().__init__(
            f"the source of kernel {kernel!r} does not compile: {reason}\n"
            "Its vocabulary stands at the top of compiler/codegen/numba_api.py."
        )


@dataclass(frozen=True)
class CompiledKernel:
    """The machine code of one kernel.

    `symbol` is the name of its C entry point in `object`, a relocatable ELF file; `llvm` is the
    optimised LLVM IR; `undefined` are the names that `object` leaves open, sorted.
    """

    symbol: str
    object: bytes
    llvm: str
    assembly: str
    undefined: tuple[str, ...]


def compile_kernel(name: str, source: str, *, strict: bool, math: str) -> CompiledKernel:
    """Compile the function `name` that `source` defines; some 0.1 s. Any thread may call it.

    `math` is "poly" or "libm". `name` should be a digest of all that the code depends on, including
    `helper_digest(strict, math)`: two kernels of one engine must not have the same symbol.
    Raises KernelSourceError, ForbiddenSymbol.
    """
    scope: dict[str, Any] = {**_vocabulary(strict, math), "__name__": "kernel"}
    try:
        literals = _Literals()
        tree = literals.visit(ast.parse(source))
        scope.update(literals.found)
        exec(compile(tree, f"<kernel {name}>", "exec"), scope)
    except SyntaxError as error:
        raise KernelSourceError(name, str(error)) from error
    function = scope.get(name)
    if not inspect.isfunction(function):
        raise KernelSourceError(name, f"it defines no function {name!r}")
    try:
        with _without_collection():
            kernel: Any = cfunc(
                _ABI, pipeline_class=_Pipeline, fastmath=_fastmath(strict), error_model="numpy"
            )(function)
    except NumbaError as error:
        raise KernelSourceError(name, str(error)) from error
    library = kernel._library
    code = bytes(library._get_compiled_object())
    check_symbols(name, code)
    return CompiledKernel(
        symbol=kernel.native_name,
        object=code,
        llvm=library.get_llvm_str(),
        assembly=library.get_asm_str(),
        undefined=undefined_symbols(code),
    )


@functools.cache
def helper_digest(strict: bool, math: str) -> str:
    """Changes with the texts of the functions that kernels call and with the flags; hexadecimal.

    A part of a kernel's name and of cache keys. Versions of libraries and the CPU are not in it.
    """
    if math not in MATH:
        raise ValueError(f"math is one of {', '.join(MATH)}, not {math!r}")
    texts = (Path(file).read_text(encoding="utf-8") for file in (__file__, vector_math.__file__))
    return hashlib.sha256("\0".join((*texts, str(strict), math)).encode()).hexdigest()


class _Pipeline(CompilerBase):
    """Numba's passes without those for what no kernel has: closures, `with` blocks, raised errors,
    functions to inline, array expressions, branches on constants. They would be a third of its
    time."""

    def define_pipelines(self) -> list[PassManager]:
        passes = PassManager("kernel")
        for each in (
            untyped_passes.TranslateByteCode,
            untyped_passes.FixupArgs,
            untyped_passes.IRProcessing,
            untyped_passes.ReconstructSSA,
            typed_passes.NopythonTypeInference,
            typed_passes.PreLowerStripPhis,
            typed_passes.IRLegalization,
            typed_passes.NativeLowering,
            typed_passes.NoPythonBackend,
        ):
            passes.add_pass(each, each.__name__)
        passes.finalize()
        return [passes]

    def _compile_bytecode(self) -> Any:
        """Numba numbers functions in the order in which a process meets them, and puts the number
        into the name: here all are the first, and the code does not depend on what came before."""
        self.state.func_id.unique_id = 1
        return super()._compile_bytecode()


class _Literals(ast.NodeTransformer):
    """Writes `u64(8)` as one constant, where Numba would type and lower a call, and the
    `range(u64(8))` of a loop that stores as `range(late(u64(8)))`: LLVM writes so short a loop out,
    turn by turn, before it looks for vectors, and finds none then. It learns a late number only
    when it looks for them.

    `found` are the constants by name; the name is the text, which no variable can have.
    """

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(ast.Name(cast), [ast.Constant(value)], []) if cast in _SCALARS:
                scalar = _SCALARS[cast]
                info = np.finfo(scalar) if cast in ("f32", "f64") else np.iinfo(scalar)
                kind = float if cast in ("f32", "f64") else int
                if type(value) is kind and info.min <= value <= info.max:
                    name = f"{cast}({value!r})"
                    self.found[name] = scalar(value)
                    return ast.copy_location(ast.Name(name, ast.Load()), node)
        return self.generic_visit(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        match node.iter:
            case ast.Call(_, [ast.Call(ast.Name("u64"), [ast.Constant()], []) as count], []):
                if any(isinstance(n, ast.Name) and n.id == "store" for n in ast.walk(node)):
                    late = ast.Call(ast.Name("late", ast.Load()), [count], [])
                    node.iter.args = [ast.copy_location(late, count)]
        return ast.fix_missing_locations(self.generic_visit(node))


_SCALARS = {
    "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
"""What NumPy calls the numbers that may be written as constants."""


@contextmanager
def _without_collection() -> Iterator[None]:
    """No search for garbage: Numba makes many objects, and each search would look at all of them
    and all of Numba's. A tenth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


_ABI = types.void(types.CPointer(types.int64), types.uint64, types.uint64, types.uint64)


def _fastmath(strict: bool) -> set[str] | bool:
    return False if strict else {"contract"}


# ---- types -------------------------------------------------------------------------------------

_HALF, _FLOAT, _DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()
_I1, _I8, _I16, _I32, _I64 = (ir.IntType(width) for width in (1, 8, 16, 32, 64))


@dataclass(frozen=True)
class _DType:
    """A name of the vocabulary: its Numba type, that of a loaded value, LLVM's in memory."""

    numba: Any
    value: Any
    storage: Any


_DTYPES = {
    "f32": _DType(types.float32, types.float32, _FLOAT),
    "f64": _DType(types.float64, types.float64, _DOUBLE),
    "i8": _DType(types.int8, types.int8, _I8),
    "i16": _DType(types.int16, types.int16, _I16),
    "i32": _DType(types.int32, types.int32, _I32),
    "i64": _DType(types.int64, types.int64, _I64),
    "u8": _DType(types.uint8, types.uint8, _I8),
    "u16": _DType(types.uint16, types.uint16, _I16),
    "u32": _DType(types.uint32, types.uint32, _I32),
    "u64": _DType(types.uint64, types.uint64, _I64),
    "b1": _DType(types.boolean, types.boolean, _I8),
    "f16": _DType(types.Opaque("f16"), types.float32, _HALF),
    "bf16": _DType(types.Opaque("bf16"), types.float32, _I16),
}
_BY_NUMBA = {dtype.numba: name for name, dtype in _DTYPES.items()}
_LLVM = {d.value: d.storage for d in _DTYPES.values() if d.value is d.numba} | {types.boolean: _I1}


def _is_float(t: Any) -> bool:
    return t in (types.float32, types.float64)


def _is_integer(t: Any) -> bool:
    return isinstance(t, types.Integer)


# ---- intrinsics: a rule gives the types and writes the instructions ------------------------------

# A rule maps the argument types to (result type, argument types, what writes the instructions), or
# to None where it does not take them.
_Emit = Callable[..., Any]
_Rule = Callable[..., "tuple[Any, tuple[Any, ...], _Emit] | None"]


def _operation(name: str, arity: int, rule: _Rule) -> Any:
    """A function of the vocabulary; `rule`'s third part is called with (builder, *values)."""

    def typing(*arguments: Any) -> Any:
        plain = tuple(types.unliteral(t) for t in arguments)
        found = rule(*plain)
        if found is None:
            raise TypingError(f"{name} does not take ({', '.join(map(str, plain))})")
        result, parameters, emit = found

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            value = emit(builder, *values)
            return context.get_dummy_value() if result is types.void else value

        return result(*parameters), codegen

    def typing_1(context: Any, a: Any) -> Any:
        return typing(a)

    def typing_2(context: Any, a: Any, b: Any) -> Any:
        return typing(a, b)

    def typing_3(context: Any, a: Any, b: Any, c: Any) -> Any:
        return typing(a, b, c)

    def typing_4(context: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        return typing(a, b, c, d)

    def typing_5(context: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
        return typing(a, b, c, d, e)

    chosen = (typing_1, typing_2, typing_3, typing_4, typing_5)[arity - 1]
    chosen.__name__ = chosen.__qualname__ = name
    return intrinsic(chosen)


def _same(emit: Callable[[Any], _Emit | None]) -> _Rule:
    """The rule of a function whose arguments and result have one type, by what emits it."""

    def rule(first: Any, *others: Any) -> Any:
        write = emit(first)
        if write is None or any(t != first for t in others):
            return None
        return first, (first, *others), write

    return rule


def _llvm_intrinsic(builder: Any, name: str, *values: Any) -> Any:
    """Call an intrinsic of LLVM that has one type throughout."""
    kind = ir.FunctionType(values[0].type, [v.type for v in values])
    return builder.call(builder.module.declare_intrinsic(name, [values[0].type], kind), values)


def _library_call(builder: Any, name: str, *values: Any) -> Any:
    """Call a function of the C library, of one type throughout, that has no side effects."""
    suffix = "f" if values[0].type == _FLOAT else ""
    kind = ir.FunctionType(values[0].type, [v.type for v in values])
    function = builder.module.globals.get(name + suffix)
    if function is None:
        function = ir.Function(builder.module, kind, name + suffix)
        function.attributes.add("nounwind")
        function.attributes.add("readnone")
    return builder.call(function, values)


# ---- the carrier of vector_math: one LLVM value --------------------------------------------------


class _Lane:
    """An LLVM value as `Real`, `Word` and `Condition`. Every operator writes one instruction."""

    def __init__(self, builder: Any, value: Any, fused: bool) -> None:
        self.builder, self.value, self.fused = builder, value, fused

    def _new(self, value: Any) -> _Lane:
        return _Lane(self.builder, value, self.fused)

    def _value(self, other: Any, kind: Any = None) -> Any:
        if isinstance(other, _Lane):
            return other.value
        return ir.Constant(kind or self.value.type, other)

    def _is_word(self) -> bool:
        return self.value.type == _I32

    def __add__(self, other: Any) -> _Lane:
        return self._new(self.builder.fadd(self.value, self._value(other)))

    def __sub__(self, other: Any) -> _Lane:
        subtract = self.builder.sub if self._is_word() else self.builder.fsub
        return self._new(subtract(self.value, self._value(other)))

    def __rsub__(self, other: Any) -> _Lane:
        return self._new(self._value(other)) - self

    def __mul__(self, other: Any) -> _Lane:
        return self._new(self.builder.fmul(self.value, self._value(other)))

    def __truediv__(self, other: Any) -> _Lane:
        return self._new(self.builder.fdiv(self.value, self._value(other)))

    def __rtruediv__(self, other: Any) -> _Lane:
        return self._new(self._value(other)) / self

    def __neg__(self) -> _Lane:
        return self._new(self.builder.fneg(self.value))

    def __abs__(self) -> _Lane:
        return self._new(_llvm_intrinsic(self.builder, "llvm.fabs", self.value))

    def __lt__(self, other: Any) -> _Lane:
        return self._new(self.builder.fcmp_ordered("<", self.value, self._value(other)))

    def __gt__(self, other: Any) -> _Lane:
        return self._new(self.builder.fcmp_ordered(">", self.value, self._value(other)))

    def __and__(self, mask: int) -> _Lane:
        return self._new(self.builder.and_(self.value, self._value(mask)))

    def __lshift__(self, places: int) -> _Lane:
        return self._new(self.builder.shl(self.value, self._value(places)))

    def __rshift__(self, places: int) -> _Lane:
        return self._new(self.builder.ashr(self.value, self._value(places)))

    def mul_add(self, factor: Any, addend: Any) -> _Lane:
        if not self.fused:
            return self * factor + addend
        operands = self.value, self._value(factor), self._value(addend)
        return self._new(_llvm_intrinsic(self.builder, "llvm.fmuladd", *operands))

    def copysign(self, sign: Any) -> _Lane:
        return self._new(_llvm_intrinsic(self.builder, "llvm.copysign", self.value, sign.value))

    def select(self, yes: Any, no: Any) -> _Lane:
        operands = self._value(yes, _FLOAT), self._value(no, _FLOAT)
        return self._new(self.builder.select(self.value, *operands))

    def bits(self) -> _Lane:
        return self._new(self.builder.bitcast(self.value, _I32))

    def from_bits(self) -> _Lane:
        return self._new(self.builder.bitcast(self.value, _FLOAT))

    def to_float(self) -> _Lane:
        return self._new(self.builder.sitofp(self.value, _FLOAT))


# ---- memory ------------------------------------------------------------------------------------


def _dtype_of(cast: Any, casts: dict[Any, str]) -> _DType | None:
    """The dtype that the name of a cast stands for, as the second argument of `pointer`."""
    name = casts.get(getattr(cast, "typing_key", None))
    return None if name is None else _DTYPES[name]


def _element(pointer: Any) -> _DType | None:
    name = _BY_NUMBA.get(pointer.dtype) if isinstance(pointer, types.CPointer) else None
    return None if name is None else _DTYPES[name]


def _place(builder: Any, base: Any, index: Any, storage: Any) -> Any:
    return builder.gep(builder.bitcast(base, storage.as_pointer()), [index], inbounds=True)


def _load(pointer: Any, index: Any) -> Any:
    dtype = _element(pointer)
    if dtype is None or not _is_integer(index):
        return None

    def emit(builder: Any, base: Any, at: Any) -> Any:
        stored = builder.load(_place(builder, base, at, dtype.storage))
        return _decode(builder, stored, dtype)

    return dtype.value, (pointer, types.uint64), emit


def _load_if(condition: Any, pointer: Any, index: Any, other: Any) -> Any:
    dtype = _element(pointer)
    if dtype is None or not _is_integer(index):
        return None
    if condition != types.boolean or other != dtype.value:
        return None

    def emit(builder: Any, holds: Any, base: Any, at: Any, outside: Any) -> Any:
        before = builder.block
        with builder.if_then(holds):
            stored = builder.load(_place(builder, base, at, dtype.storage))
            inside = _decode(builder, stored, dtype)
            after = builder.block
        value = builder.phi(inside.type)
        value.add_incoming(outside, before)
        value.add_incoming(inside, after)
        return value

    return dtype.value, (condition, pointer, types.uint64, other), emit


def _store(pointer: Any, index: Any, value: Any) -> Any:
    dtype = _element(pointer)
    if dtype is None or not _is_integer(index) or value != dtype.value:
        return None

    def emit(builder: Any, base: Any, at: Any, content: Any) -> None:
        stored = _encode(builder, content, dtype)
        builder.store(stored, _place(builder, base, at, dtype.storage))

    return types.void, (pointer, types.uint64, value), emit


_LANES, _LINE = 16, 64
"""Elements of one streaming store, and the bytes it is aligned to."""

_ROW = types.CPointer(types.float32)


def _staging(row: Any, y: Any, index: Any, wide: Any) -> Any:
    if row != _ROW or y != _ROW or not _is_integer(index) or wide != types.boolean:
        return None

    def emit(builder: Any, own: Any, base: Any, at: Any, apart: Any) -> Any:
        return builder.select(apart, own, _place(builder, base, at, _FLOAT))

    return _ROW, (row, y, types.uint64, wide), emit


def _stream(y: Any, index: Any, row: Any, count: Any, wide: Any) -> Any:
    if row != _ROW or y != _ROW or wide != types.boolean:
        return None

    def emit(builder: Any, base: Any, at: Any, own: Any, n: Any, apart: Any) -> None:
        with builder.if_then(apart):
            _write_past_cache(builder, _place(builder, base, at, _FLOAT), own, n)

    return types.void, (y, types.uint64, row, types.uint64, wide), emit


def _write_past_cache(builder: Any, target: Any, source: Any, n: Any) -> None:
    """n floats from `source` to `target`: single ones up to a line, whole lines, the rest."""

    def number(value: int) -> Any:
        return ir.Constant(_I64, value)

    def at(base: Any, offset: Any) -> Any:
        return builder.gep(base, [offset], inbounds=True)

    def copy(first: Any, last: Any) -> None:
        with cgutils.for_range_slice(builder, first, last, number(1)) as (k, _):
            builder.store(builder.load(at(source, k)), at(target, k))

    misfit = builder.and_(builder.neg(builder.ptrtoint(target, _I64)), number(_LINE - 1))
    gap = builder.lshr(misfit, number(2))
    head = builder.select(builder.icmp_unsigned("<", gap, n), gap, n)
    lines = builder.lshr(builder.sub(n, head), number(4))
    tail = builder.add(head, builder.mul(lines, number(_LANES)))
    copy(number(0), head)
    hint = builder.module.add_metadata([ir.Constant(_I32, 1)])
    vector = ir.VectorType(_FLOAT, _LANES).as_pointer()
    with cgutils.for_range_slice(builder, head, tail, number(_LANES)) as (k, _):
        line = builder.load(builder.bitcast(at(source, k), vector), align=4)
        store = builder.store(line, builder.bitcast(at(target, k), vector), align=_LINE)
        store.set_metadata("nontemporal", hint)
    copy(tail, n)


def _stream_end(wide: Any) -> Any:
    if wide != types.boolean:
        return None

    def emit(builder: Any, apart: Any) -> None:
        with builder.if_then(apart):
            builder.fence("seq_cst")

    return types.void, (wide,), emit


def _decode(builder: Any, stored: Any, dtype: _DType) -> Any:
    if dtype.numba is types.boolean:
        return builder.icmp_unsigned("!=", stored, ir.Constant(_I8, 0))
    if dtype.storage == _HALF:
        return builder.fpext(stored, _FLOAT)
    if dtype is _DTYPES["bf16"]:
        word = builder.shl(builder.zext(stored, _I32), ir.Constant(_I32, 16))
        return builder.bitcast(word, _FLOAT)
    return stored


def _encode(builder: Any, value: Any, dtype: _DType) -> Any:
    if dtype.numba is types.boolean:
        return builder.zext(value, _I8)
    if dtype.storage == _HALF:
        return builder.fptrunc(value, _HALF)
    if dtype is _DTYPES["bf16"]:
        return _round_to_bfloat16(builder, value)
    return value


def _round_to_bfloat16(builder: Any, value: Any) -> Any:
    """The upper half of a float32, to nearest even; a NaN keeps one bit of its fraction set."""
    word = builder.bitcast(value, _I32)
    upper = builder.lshr(word, ir.Constant(_I32, 16))
    odd = builder.and_(upper, ir.Constant(_I32, 1))
    carried = builder.add(word, builder.add(odd, ir.Constant(_I32, 0x7FFF)))
    rounded = builder.lshr(carried, ir.Constant(_I32, 16))
    quiet = builder.or_(upper, ir.Constant(_I32, 0x40))
    nan = builder.fcmp_unordered("uno", value, value)
    return builder.trunc(builder.select(nan, quiet, rounded), _I16)


def _extent(params: Any, slot: Any) -> Any:
    if not _is_integer(slot) or params != types.CPointer(types.int64):
        return None

    def emit(builder: Any, base: Any, at: Any) -> Any:
        return builder.load(_place(builder, base, at, _I64))

    return types.uint64, (params, types.uint64), emit


def _late(n: Any) -> Any:
    """Whether the address of a place on the stack is a constant is a question that LLVM answers,
    with no, just before it makes vectors; until then n is one of two numbers.
    https://llvm.org/docs/LangRef.html#llvm-is-constant-intrinsic"""
    if n != types.uint64:
        return None

    def emit(builder: Any, number: Any) -> Any:
        with builder.goto_entry_block():
            place = builder.ptrtoint(builder.alloca(_I64), _I64)
        kind = ir.FunctionType(_I1, [_I64])
        known = builder.module.declare_intrinsic("llvm.is.constant", [_I64], kind)
        return builder.select(builder.call(known, [place]), place, number)

    return types.uint64, (types.uint64,), emit


def _pointer_function(casts: dict[Any, str]) -> Any:
    @intrinsic
    def pointer(context: Any, address: Any, dtype: Any) -> Any:
        found = _dtype_of(dtype, casts)
        if found is None or address != types.int64:
            raise TypingError(f"pointer takes (params[k], dtype), not ({address}, {dtype})")

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], context.get_value_type(signature.return_type))

        return types.CPointer(found.numba)(types.int64, dtype), codegen

    return pointer


def _private_function(casts: dict[Any, str]) -> Any:
    @intrinsic(prefer_literal=True)
    def private(context: Any, address: Any, dtype: Any, count: Any) -> Any:
        found = _dtype_of(dtype, casts)
        if found is None or not isinstance(count, types.IntegerLiteral):
            raise TypingError(f"private takes (address, dtype, 64), not ({dtype}, {count})")
        elements = count.literal_value

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            with builder.goto_entry_block():
                place = builder.alloca(ir.ArrayType(found.storage, elements))
                place.align = _LINE
            return builder.bitcast(place, context.get_value_type(signature.return_type))

        return types.CPointer(found.numba)(types.int64, dtype, count), codegen

    return private


# ---- casts -------------------------------------------------------------------------------------


def _cast(name: str) -> _Rule:
    dtype = _DTYPES[name]

    def rule(source: Any) -> Any:
        if name in ("f16", "bf16"):
            if source != types.float32:
                return None

            def emit(builder: Any, value: Any) -> Any:
                return _decode(builder, _encode(builder, value, dtype), dtype)

            return types.float32, (source,), emit
        if source not in _LLVM:
            return None
        return dtype.value, (source,), lambda builder, x: _convert(builder, x, source, dtype.value)

    return rule


def _convert(builder: Any, x: Any, source: Any, target: Any) -> Any:
    """`x` of one scalar type as another, by the rules at the top of this file."""
    kind = _LLVM[target]
    if source == target:
        return x
    if target is types.boolean:
        zero = ir.Constant(x.type, 0)
        if _is_float(source):
            return builder.fcmp_unordered("!=", x, zero)
        return builder.icmp_unsigned("!=", x, zero)
    if _is_float(source) and _is_float(target):
        return builder.fptrunc(x, kind) if target is types.float32 else builder.fpext(x, kind)
    if _is_float(source):
        return _float_to_integer(builder, x, target)
    unsigned = source is types.boolean or not source.signed
    if _is_float(target):
        return builder.uitofp(x, kind) if unsigned else builder.sitofp(x, kind)
    if x.type.width == kind.width:
        return x
    if x.type.width > kind.width:
        return builder.trunc(x, kind)
    return builder.zext(x, kind) if unsigned else builder.sext(x, kind)


def _float_to_integer(builder: Any, x: Any, target: Any) -> Any:
    """Through i32 (narrow types) or i64; LLVM leaves undefined what does not fit, here it is MIN.

    The converted value is not used where it would be undefined: `select` picks the other operand.
    """
    small = target in (types.int8, types.int16, types.int32, types.uint8, types.uint16)
    wide = _I32 if small else _I64
    limit = 2.0 ** (wide.width - 1)
    fits = builder.and_(
        builder.fcmp_ordered(">=", x, ir.Constant(x.type, -limit)),
        builder.fcmp_ordered("<", x, ir.Constant(x.type, limit)),
    )
    least = ir.Constant(wide, -(1 << (wide.width - 1)))
    value = builder.select(fits, builder.fptosi(x, wide), least)
    if target is types.uint64:
        above = builder.and_(
            builder.fcmp_ordered(">=", x, ir.Constant(x.type, limit)),
            builder.fcmp_ordered("<", x, ir.Constant(x.type, 2 * limit)),
        )
        value = builder.select(above, builder.fptoui(x, wide), value)
    kind = _LLVM[target]
    return value if kind == wide else builder.trunc(value, kind)


# ---- arithmetic --------------------------------------------------------------------------------


def _float_only(name: str, call: Callable[..., Any] = _llvm_intrinsic) -> _Rule:
    def emit(t: Any) -> _Emit | None:
        return (lambda builder, *xs: call(builder, name, *xs)) if _is_float(t) else None

    return _same(emit)


# What computes each function without `vector_math`; LLVM turns llvm.exp into a call of exp or expf.
_LIBRARY: dict[str, _Emit] = {
    "exp": lambda builder, x: _llvm_intrinsic(builder, "llvm.exp", x),
    "log": lambda builder, x: _llvm_intrinsic(builder, "llvm.log", x),
    "tanh": lambda builder, x: _library_call(builder, "tanh", x),
    "erf": lambda builder, x: _library_call(builder, "erf", x),
    "sigmoid": lambda builder, x: _library_sigmoid(builder, x),
}


def _library_sigmoid(builder: Any, x: Any) -> Any:
    """e / (1 + e) with e = exp(x) below 0, 1 / (1 + e) with e = exp(-x) above: no overflow."""
    one = ir.Constant(x.type, 1.0)
    e = _llvm_intrinsic(builder, "llvm.exp", builder.fneg(_llvm_intrinsic(builder, "llvm.fabs", x)))
    below = builder.fcmp_ordered("<", x, ir.Constant(x.type, 0.0))
    return builder.fdiv(builder.select(below, e, one), builder.fadd(one, e))


def _transcendental(name: str, poly: bool, fused: bool) -> _Rule:
    function: Callable[[Any], Any] = vector_math.FUNCTIONS[name]

    def emit(t: Any) -> _Emit | None:
        if t is types.float32 and poly:
            return lambda builder, x: function(_Lane(builder, x, fused)).value
        return _LIBRARY[name] if _is_float(t) else None

    return _same(emit)


def _reassociable(float_name: str, integer_name: str, strict: bool) -> _Rule:
    """`acc + v` or `acc * v`, with the only licence to change the order that there is."""
    flags = () if strict else ("reassoc", "contract")

    def emit(t: Any) -> _Emit | None:
        if _is_float(t):
            return lambda builder, a, b: getattr(builder, float_name)(a, b, flags=flags)
        if _is_integer(t):
            return lambda builder, a, b: getattr(builder, integer_name)(a, b)
        return None

    return _same(emit)


def _extreme(llvm_name: str, comparison: str, any_zero: bool) -> _Rule:
    """x86 has no instruction that orders the zeros: telling them apart takes four more."""

    def emit(t: Any) -> _Emit | None:
        if _is_float(t):
            return write_float
        if not _is_integer(t) and t is not types.boolean:
            return None
        signed = _is_integer(t) and t.signed

        def write(builder: Any, a: Any, b: Any) -> Any:
            compare = builder.icmp_signed if signed else builder.icmp_unsigned
            return builder.select(compare(comparison, a, b), a, b)

        return write

    def write_float(builder: Any, a: Any, b: Any) -> Any:
        call = _llvm_intrinsic(builder, llvm_name, a, b)
        if any_zero:
            call.fastmath.add("nsz")
        return call

    return _same(emit)


def _select(condition: Any, a: Any, b: Any) -> Any:
    if condition != types.boolean or a != b or a not in _LLVM:
        return None
    return a, (condition, a, b), lambda builder, c, x, y: builder.select(c, x, y)


def _abs(t: Any) -> _Emit | None:
    if _is_float(t):
        return lambda builder, x: _llvm_intrinsic(builder, "llvm.fabs", x)
    if not _is_integer(t):
        return None
    if not t.signed:
        return lambda builder, x: x

    def write(builder: Any, x: Any) -> Any:
        zero = ir.Constant(x.type, 0)
        return builder.select(builder.icmp_signed("<", x, zero), builder.sub(zero, x), x)

    return write


def _neg(t: Any) -> _Emit | None:
    if _is_float(t):
        return lambda builder, x: builder.fneg(x)
    if _is_integer(t):
        return lambda builder, x: builder.sub(ir.Constant(x.type, 0), x)
    return None


def _sign(t: Any) -> _Emit | None:
    def write_float(builder: Any, x: Any) -> Any:
        zero, one, minus = (ir.Constant(x.type, v) for v in (0.0, 1.0, -1.0))
        rest = builder.select(builder.fcmp_ordered("==", x, zero), zero, x)
        rest = builder.select(builder.fcmp_ordered("<", x, zero), minus, rest)
        return builder.select(builder.fcmp_ordered(">", x, zero), one, rest)

    def write_integer(builder: Any, x: Any) -> Any:
        zero, one = (ir.Constant(x.type, v) for v in (0, 1))
        positive = builder.zext(builder.icmp_unsigned("!=", x, zero), x.type)
        if not t.signed:
            return positive
        return builder.select(builder.icmp_signed("<", x, zero), builder.sub(zero, one), positive)

    if _is_float(t):
        return write_float
    return write_integer if _is_integer(t) else None


def _divide(builder: Any, a: Any, b: Any, signed: bool) -> tuple[Any, Any, Any]:
    """(quotient toward zero, remainder, whether b is 0), where no operands trap.

    Division by 0 is made one by 1, and so is MIN / -1: its quotient is MIN, its remainder 0.
    """
    zero, one = (ir.Constant(a.type, v) for v in (0, 1))
    by_zero = builder.icmp_unsigned("==", b, zero)
    if not signed:
        safe = builder.select(by_zero, one, b)
        return builder.udiv(a, safe), builder.urem(a, safe), by_zero
    least = ir.Constant(a.type, -(1 << (a.type.width - 1)))
    overflows = builder.and_(
        builder.icmp_signed("==", a, least),
        builder.icmp_signed("==", b, ir.Constant(a.type, -1)),
    )
    safe = builder.select(builder.or_(by_zero, overflows), one, b)
    return builder.sdiv(a, safe), builder.srem(a, safe), by_zero


def _truncdiv(t: Any) -> _Emit | None:
    if not _is_integer(t):
        return None

    def write(builder: Any, a: Any, b: Any) -> Any:
        quotient, _, by_zero = _divide(builder, a, b, t.signed)
        return builder.select(by_zero, ir.Constant(a.type, 0), quotient)

    return write


def _remainder(sign_of_divisor: bool) -> Callable[[Any], _Emit | None]:
    """The remainder of division toward zero; for mod moved to the sign of the divisor."""

    def emit(t: Any) -> _Emit | None:
        def write_integer(builder: Any, a: Any, b: Any) -> Any:
            zero = ir.Constant(a.type, 0)
            _, value, by_zero = _divide(builder, a, b, t.signed)
            if sign_of_divisor and t.signed:
                opposite = builder.icmp_signed("<", builder.xor(value, b), zero)
                moves = builder.and_(builder.icmp_signed("!=", value, zero), opposite)
                value = builder.add(value, builder.select(moves, b, zero))
            return builder.select(by_zero, zero, value)

        def write_float(builder: Any, a: Any, b: Any) -> Any:
            zero = ir.Constant(a.type, 0.0)
            value = builder.frem(a, b)
            if not sign_of_divisor:
                return value
            negative = [builder.fcmp_ordered("<", x, zero) for x in (value, b)]
            moves = builder.and_(builder.fcmp_unordered("!=", value, zero), builder.xor(*negative))
            moved = builder.select(moves, builder.fadd(value, b), value)
            is_zero = builder.fcmp_ordered("==", value, zero)
            return builder.select(
                is_zero, _llvm_intrinsic(builder, "llvm.copysign", zero, b), moved
            )

        if _is_float(t):
            return write_float
        return write_integer if _is_integer(t) else None

    return emit


def _isnan(t: Any) -> Any:
    if not _is_float(t):
        return None
    return types.boolean, (t,), lambda builder, x: builder.fcmp_unordered("uno", x, x)


def _bits(t: Any) -> Any:
    result = {types.float32: types.int32, types.float64: types.int64}.get(t)
    if result is None:
        return None
    return result, (t,), lambda builder, x: builder.bitcast(x, _LLVM[result])


def _from_bits(t: Any) -> Any:
    result = {types.int32: types.float32, types.int64: types.float64}.get(t)
    if result is None:
        return None
    return result, (t,), lambda builder, x: builder.bitcast(x, _LLVM[result])


def _logical(instruction: str) -> _Rule:
    def emit(t: Any) -> _Emit | None:
        if t != types.boolean:
            return None
        return lambda builder, *xs: getattr(builder, instruction)(*xs)

    return _same(emit)


# ---- the vocabulary ----------------------------------------------------------------------------


def _rules(strict: bool, poly: bool) -> dict[str, tuple[int, _Rule]]:
    """Name -> (number of arguments, rule) of every function but `pointer` and the casts."""
    transcendental: dict[str, tuple[int, _Rule]] = {
        name: (1, _transcendental(name, poly, fused=not strict)) for name in vector_math.FUNCTIONS
    }
    return transcendental | {
        "extent": (2, _extent),
        "load": (2, _load),
        "load_if": (4, _load_if),
        "store": (3, _store),
        "staging": (4, _staging),
        "stream": (5, _stream),
        "stream_end": (1, _stream_end),
        "select": (3, _select),
        "maximum": (2, _extreme("llvm.maximum", ">", any_zero=False)),
        "minimum": (2, _extreme("llvm.minimum", "<", any_zero=False)),
        "max_reassoc": (2, _extreme("llvm.maximum", ">", any_zero=not strict)),
        "min_reassoc": (2, _extreme("llvm.minimum", "<", any_zero=not strict)),
        "add_reassoc": (2, _reassociable("fadd", "add", strict)),
        "mul_reassoc": (2, _reassociable("fmul", "mul", strict)),
        "sin": (1, _float_only("llvm.sin")),
        "cos": (1, _float_only("llvm.cos")),
        "pow": (2, _float_only("llvm.pow")),
        "sqrt": (1, _float_only("llvm.sqrt")),
        "floor": (1, _float_only("llvm.floor")),
        "ceil": (1, _float_only("llvm.ceil")),
        "rint": (1, _float_only("llvm.roundeven")),
        "abs": (1, _same(_abs)),
        "neg": (1, _same(_neg)),
        "sign": (1, _same(_sign)),
        "truncdiv": (2, _same(_truncdiv)),
        "mod": (2, _same(_remainder(sign_of_divisor=True))),
        "fmod": (2, _same(_remainder(sign_of_divisor=False))),
        "isnan": (1, _isnan),
        "bits": (1, _bits),
        "from_bits": (1, _from_bits),
        "logical_and": (2, _logical("and_")),
        "logical_or": (2, _logical("or_")),
        "logical_xor": (2, _logical("xor")),
        "logical_not": (1, _logical("not_")),
    }


_CONSTANTS = {"inf": float("inf"), "nan": float("nan")}


@functools.cache
def _vocabulary(strict: bool, math: str) -> dict[str, Any]:
    """The names that a kernel's source may use. ValueError for an unknown `math`."""
    if math not in MATH:
        raise ValueError(f"math is one of {', '.join(MATH)}, not {math!r}")
    rules = _rules(strict, poly=math == "poly")
    casts = {name: _operation(name, 1, _cast(name)) for name in _DTYPES}
    functions = {name: _operation(name, arity, rule) for name, (arity, rule) in rules.items()}
    names = {function: name for name, function in casts.items()}
    memory = {"pointer": _pointer_function(names), "private": _private_function(names)}
    return {**_CONSTANTS, **casts, **functions, **memory, "late": _operation("late", 1, _late)}


VOCABULARY = frozenset(
    {*_CONSTANTS, *_DTYPES, *_rules(strict=True, poly=True), "pointer", "private"}
)
"""All names that a kernel's source may use, Python's own aside."""

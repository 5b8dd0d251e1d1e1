"""From the text of a kernel to PTX: all that touches Numba-CUDA, behind a typed face.

    source --compile_ptx--> PTX and LLVM text, without a GPU or a toolkit
    PTX    --link_cubin---> machine code of one compute capability, without a GPU

`source` is Python that defines `def NAME(params)`; it becomes a kernel `NAME(int64 *params)` whose
table lies in device memory. Its vocabulary is that of `numba_api.py` without `worker`, `lo`, `hi`,
`staging` and `stream`, and

    thread() block_x() block_y()      where a thread stands, as u64
    blocks_y()                        how many blocks there are along y
    load4(x, index)                   four neighbours in one access, aligned to min(16, 4 sizes)
    store4(y, index, v)  stream4      the same for a store; `stream4` past the cache (evict first)
    four(a, b, c, d)  part(v, k)      four values as one, and one of them
    fold_add fold_mul fold_max fold_min (acc, v)   acc combined with the four parts of v
    shuffle_xor(a, k)                 what the thread whose lane differs in the bits of k has
    aligned(x)                        whether the address is a multiple of 16
    barrier()                         all threads of a block wait for each other
    cuda.shared.array(n, float32)     memory of a block; indexed `a[i]`

Every function of one element does four at once when it is given four, and so do the operators; a
plain value beside four stands for four equal ones.

Two differences from a CPU: f32 transcendentals of `math="libm"`, and all of f64, come from
NVIDIA's libdevice; LLVM inside NVVM is older, so a negation is `-0.0 - x` and a maximum that
propagates NaN is one instruction of PTX.

Teaches: one vocabulary, two machines; what differs is which thread runs which line.
"""

# Numba-CUDA has no type hints; the public functions of this module are its typed face.
# pyright: basic

from __future__ import annotations

import functools
import hashlib
import inspect
import operator
import re
import threading
import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import NumbaError, TypingError

from compiler.codegen import numba_api, vector_math
from compiler.codegen.numba_api import KernelSourceError

__all__ = ["CompiledPtx", "CudaMissing", "compile_ptx", "helper_digest", "link_cubin"]

Capability = tuple[int, int]


class CudaMissing(Exception):
    """Numba-CUDA, or a part of CUDA that it needs, is not installed; the text tells the way out."""


@dataclass(frozen=True)
class CompiledPtx:
    """The code of one kernel: `symbol` is its entry in `ptx`; `llvm` is what NVVM was given."""

    symbol: str
    ptx: str
    llvm: str


def compile_ptx(
    name: str, source: str, *, strict: bool, math: str, capability: Capability, lines: bool = False
) -> CompiledPtx:
    """Compile the function `name` that `source` defines; about half a second.

    `math` and `name` as in `numba_api.compile_kernel`. `lines`: the PTX says with `.loc` which line
    of the source an instruction came from. That is for reading: it may cost a few registers.
    Raises KernelSourceError, CudaMissing.
    """
    compiler = _numba_cuda()
    scope: dict[str, Any] = {**_vocabulary(strict, math), "__name__": "kernel"}
    try:
        exec(compile(source, f"<kernel {name}>", "exec"), scope)
    except SyntaxError as error:
        raise KernelSourceError(name, str(error)) from error
    function = scope.get(name)
    if not inspect.isfunction(function):
        raise KernelSourceError(name, f"it defines no function {name!r}")
    errors, drivers = _cuda("core.errors"), _cuda("cudadrv.error")
    options = {"opt": 3, "fma": 0 if strict else 1}
    try:
        with _LOCK, warnings.catch_warnings():
            # the source of a kernel is no file, which its line numbers do not need
            warnings.simplefilter("ignore", errors.NumbaDebugInfoWarning)
            made = compiler.compile_cuda(
                function, types.void, (_TABLE,), debug=False, lineinfo=lines, fastmath=False,
                nvvm_options=options, cc=capability, abi="numba", abi_info={},
            )  # fmt: skip
            library = made.library
            entry = made.fndesc.llvm_func_name
            compiler.kernel_fixup(library.get_function(entry), False)
            library._entry_name = entry
            llvm = library.get_llvm_str()
            if lines:
                parts = [re.sub(VARIABLES, "", part) for part in library.llvm_strs]
                arch = _cuda("cudadrv.nvrtc").get_arch_option(*capability)
                text = _cuda("cudadrv.nvvm").compile_ir(parts, arch=arch, **options)
                ptx = text.decode().strip("\0").strip()
            else:
                (ptx,) = library.get_asm_strs(cc=capability)
    except (errors.NumbaError, NumbaError) as error:
        raise KernelSourceError(name, str(error)) from error
    except drivers.NvvmSupportError as error:
        raise CudaMissing(f"NVVM can't be loaded ({error}): {INSTALL}") from error
    except (drivers.NvvmError, import_module("cuda.bindings.nvvm").nvvmError) as error:
        raise KernelSourceError(name, str(error)) from error
    found = re.search(r"\.entry\s+(\S+?)\(", ptx)
    if found is None:
        raise KernelSourceError(name, "its PTX has no entry")
    ptx = re.sub(r'(\.file\s+1 )".*"', rf'\1"{name}.py"', ptx.replace(found[1], name))
    return CompiledPtx(name, ptx, llvm)


def link_cubin(name: str, ptx: str, capability: Capability) -> bytes:
    """The machine code of one PTX text for GPUs of `capability`. Raises CudaMissing, and
    KernelSourceError with the linker's own words."""
    try:
        nvjitlink: Any = import_module("cuda.bindings.nvjitlink")
    except ImportError as error:
        raise CudaMissing(f"{error}: {INSTALL}") from error
    options = [f"-arch=sm_{capability[0]}{capability[1]}"]
    data = ptx.encode()
    handle = None
    try:
        handle = nvjitlink.create(len(options), options)
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, data, len(data), name)
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return bytes(cubin)
    except nvjitlink.nvJitLinkError as error:
        log = b""
        if handle is not None:
            log = bytearray(nvjitlink.get_error_log_size(handle))
            nvjitlink.get_error_log(handle, log)
        raise KernelSourceError(name, f"{error} {bytes(log).decode(errors='replace')}") from error
    finally:
        if handle is not None:
            nvjitlink.destroy(handle)


VARIABLES = r"\n[^\n]*call void @\"?llvm\.dbg\.(?:value|declare)\"?\([^\n]*"
"""What says where a variable lies: lines do not need it, and NVVM can't write all of them down
(13.5: "Symbol name with unsupported characters", in a kernel of two branches that both copy)."""

INSTALL = "pip install -r requirements-gpu.txt"
_LOCK = threading.Lock()
_TABLE = types.CPointer(types.int64)


def _cuda(name: str) -> Any:
    """A module of Numba-CUDA, which takes the place of Numba's own `numba.cuda`."""
    return import_module(f"numba.cuda.{name}")


def _numba_cuda() -> Any:
    try:
        import_module("numba_cuda")
        compiler = _cuda("compiler")
    except ImportError as error:
        raise CudaMissing(f"kernels for a GPU need Numba-CUDA ({error}): {INSTALL}") from error
    return compiler


@functools.cache
def helper_digest(strict: bool, math: str) -> str:
    """Changes with the texts of the functions that kernels call and with the flags; hexadecimal."""
    files = (__file__, numba_api.__file__, vector_math.__file__)
    texts = (Path(file).read_text(encoding="utf-8") for file in files)
    return hashlib.sha256("\0".join((*texts, str(strict), math)).encode()).hexdigest()


# ---- LLVM, as NVVM reads it ----------------------------------------------------------------------

_F32, _F64 = ir.FloatType(), ir.DoubleType()
_I1, _I8, _I16, _I32, _I64 = (ir.IntType(width) for width in (1, 8, 16, 32, 64))
_GLOBAL = 1
_ALL_LANES = ir.Constant(_I32, 0xFFFFFFFF)


def _device(builder: Any, name: str, *values: Any) -> Any:
    """Call a function of libdevice of one type: `__nv_expf` of f32, `__nv_exp` of f64."""
    kind = ir.FunctionType(values[0].type, [v.type for v in values])
    full = f"__nv_{name}" + ("f" if values[0].type == _F32 else "")
    function = builder.module.globals.get(full)
    if function is None:
        function = ir.Function(builder.module, kind, full)
    return builder.call(function, values)


def _intrinsic_call(builder: Any, name: str, result: Any, *values: Any) -> Any:
    function = builder.module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(result, [v.type for v in values])
        function = ir.Function(builder.module, kind, name)
    return builder.call(function, values)


def _assembly(
    builder: Any, text: str, constraint: str, result: Any, *values: Any, effect: bool = False
) -> Any:
    kind = ir.FunctionType(result, [v.type for v in values])
    return builder.call(ir.InlineAsm(kind, text, constraint, side_effect=effect), values)


def _negative(builder: Any, x: Any) -> Any:
    return builder.fsub(ir.Constant(x.type, -0.0), x)


class _Lane(numba_api._Lane):
    """The carrier of `vector_math`, in the instructions that NVVM knows."""

    def _new(self, value: Any) -> _Lane:
        return _Lane(self.builder, value, self.fused)

    def __neg__(self) -> _Lane:
        return self._new(_negative(self.builder, self.value))

    def __abs__(self) -> _Lane:
        return self._new(_device(self.builder, "fabs", self.value))

    def mul_add(self, factor: Any, addend: Any) -> _Lane:
        if not self.fused:
            return self * factor + addend
        operands = self.value, self._value(factor), self._value(addend)
        return self._new(_device(self.builder, "fma", *operands))

    def copysign(self, sign: Any) -> _Lane:
        return self._new(_device(self.builder, "copysign", self.value, sign.value))


# ---- memory --------------------------------------------------------------------------------------


def _global(builder: Any, base: Any, index: Any, storage: Any) -> Any:
    """The address of an element, known to lie in device memory."""
    space = ir.PointerType(storage, _GLOBAL)
    place = builder.addrspacecast(builder.bitcast(base, storage.as_pointer()), space)
    return builder.gep(place, [index], inbounds=True)


def _access(pointer: Any, index: Any) -> Any:
    """The dtype of what a pointer points to, where these are a pointer and an index."""
    return numba_api._element(pointer) if numba_api._is_integer(index) else None


def _load(pointer: Any, index: Any) -> Any:
    dtype = _access(pointer, index)
    if dtype is None:
        return None

    def emit(builder: Any, base: Any, at: Any) -> Any:
        return numba_api._decode(builder, builder.load(_global(builder, base, at, dtype.storage)),
                                 dtype)  # fmt: skip

    return dtype.value, (pointer, types.uint64), emit


def _load_if(condition: Any, pointer: Any, index: Any, other: Any) -> Any:
    dtype = _access(pointer, index)
    if dtype is None or condition != types.boolean or other != dtype.value:
        return None

    def emit(builder: Any, holds: Any, base: Any, at: Any, outside: Any) -> Any:
        before = builder.block
        with builder.if_then(holds):
            stored = builder.load(_global(builder, base, at, dtype.storage))
            inside = numba_api._decode(builder, stored, dtype)
            after = builder.block
        value = builder.phi(inside.type)
        value.add_incoming(outside, before)
        value.add_incoming(inside, after)
        return value

    return dtype.value, (condition, pointer, types.uint64, other), emit


def _store(pointer: Any, index: Any, value: Any) -> Any:
    dtype = _access(pointer, index)
    if dtype is None or value != dtype.value:
        return None

    def emit(builder: Any, base: Any, at: Any, content: Any) -> None:
        stored = numba_api._encode(builder, content, dtype)
        builder.store(stored, _global(builder, base, at, dtype.storage))

    return types.void, (pointer, types.uint64, value), emit


def _extent(params: Any, slot: Any) -> Any:
    if not numba_api._is_integer(slot) or params != _TABLE:
        return None

    def emit(builder: Any, base: Any, at: Any) -> Any:
        return builder.load(_global(builder, base, at, _I64))

    return types.uint64, (params, types.uint64), emit


def _aligned(pointer: Any) -> Any:
    if not isinstance(pointer, types.CPointer):
        return None

    def emit(builder: Any, base: Any) -> Any:
        low = builder.and_(builder.ptrtoint(base, _I64), ir.Constant(_I64, 15))
        return builder.icmp_unsigned("==", low, ir.Constant(_I64, 0))

    return types.boolean, (pointer,), emit


_SIZES = {_I8: 1, _I16: 2, ir.HalfType(): 2, _I32: 4, _F32: 4, _I64: 8, _F64: 8}


def _place4(builder: Any, base: Any, at: Any, storage: Any) -> tuple[Any, int]:
    vector = ir.VectorType(storage, 4)
    place = _global(builder, base, at, storage)
    align = min(16, 4 * _SIZES[storage])
    return builder.bitcast(place, ir.PointerType(vector, _GLOBAL)), align


def _load4(pointer: Any, index: Any) -> Any:
    dtype = _access(pointer, index)
    if dtype is None:
        return None
    result = _four_of(dtype.value)

    def emit(builder: Any, base: Any, at: Any) -> Any:
        place, align = _place4(builder, base, at, dtype.storage)
        vector = builder.load(place)
        vector.align = align
        parts = [
            numba_api._decode(builder, builder.extract_element(vector, ir.Constant(_I32, k)), dtype)
            for k in range(4)
        ]
        return _pack(builder, result, parts)

    return result, (pointer, types.uint64), emit


def _store4(past: bool) -> Any:
    def rule(pointer: Any, index: Any, value: Any) -> Any:
        dtype = _access(pointer, index)
        if dtype is None or not _is_four(value) or value.element != dtype.value:
            return None

        def emit(builder: Any, base: Any, at: Any, content: Any) -> None:
            parts = [
                numba_api._encode(builder, part, dtype) for part in _parts(builder, content)
            ]
            place, align = _place4(builder, base, at, dtype.storage)
            if past and dtype.storage == _F32:
                text = "st.global.cs.v4.f32 [$0], {$1, $2, $3, $4};"
                address = builder.ptrtoint(place, _I64)
                _assembly(
                    builder, text, "l,f,f,f,f,~{memory}", ir.VoidType(), address, *parts,
                    effect=True,
                )  # fmt: skip
                return
            vector = ir.Constant(ir.VectorType(dtype.storage, 4), ir.Undefined)
            for k, part in enumerate(parts):
                vector = builder.insert_element(vector, part, ir.Constant(_I32, k))
            builder.store(vector, place).align = align

        return types.void, (pointer, types.uint64, value), emit

    return rule


# ---- threads -------------------------------------------------------------------------------------


def _register(name: str) -> Any:
    def rule() -> Any:
        def emit(builder: Any) -> Any:
            value = _intrinsic_call(builder, f"llvm.nvvm.read.ptx.sreg.{name}", _I32)
            return builder.zext(value, _I64)

        return types.uint64, (), emit

    return rule


def _barrier() -> Any:
    def emit(builder: Any) -> None:
        _intrinsic_call(builder, "llvm.nvvm.barrier0", ir.VoidType())

    return types.void, (), emit


def _shuffle(value: Any, xor: Any) -> Any:
    kind = numba_api._LLVM.get(value)
    if kind is None or not numba_api._is_integer(xor):
        return None

    def move(builder: Any, word: Any, distance: Any) -> Any:
        name = "llvm.nvvm.shfl.sync.bfly.i32"
        return _intrinsic_call(
            builder, name, _I32, _ALL_LANES, word, distance, ir.Constant(_I32, 31)
        )

    def emit(builder: Any, x: Any, k: Any) -> Any:
        distance = builder.trunc(k, _I32)
        if kind == _F32:
            return builder.bitcast(move(builder, builder.bitcast(x, _I32), distance), _F32)
        if kind in (_F64, _I64):
            whole = builder.bitcast(x, _I64) if kind == _F64 else x
            low = builder.trunc(whole, _I32)
            high = builder.trunc(builder.lshr(whole, ir.Constant(_I64, 32)), _I32)
            low, high = (builder.zext(move(builder, w, distance), _I64) for w in (low, high))
            both = builder.or_(low, builder.shl(high, ir.Constant(_I64, 32)))
            return builder.bitcast(both, _F64) if kind == _F64 else both
        if kind == _I32:
            return move(builder, x, distance)
        return builder.trunc(move(builder, builder.zext(x, _I32), distance), kind)

    return value, (value, types.int64), emit


# ---- arithmetic ----------------------------------------------------------------------------------


def _library(name: str) -> Any:
    return numba_api._same(
        lambda t: (lambda builder, *xs: _device(builder, name, *xs))
        if numba_api._is_float(t)
        else None
    )


def _sqrt(t: Any) -> Any:
    if not numba_api._is_float(t):
        return None
    letter = "f" if t is types.float32 else "d"
    return lambda builder, x: _intrinsic_call(builder, f"llvm.nvvm.sqrt.rn.{letter}", x.type, x)


def _extreme(word: str, comparison: str) -> Any:
    """NaN if either is NaN."""

    def emit(t: Any) -> Any:
        if t is types.float32:
            text = f"{word}.NaN.f32 $0, $1, $2;"
            return lambda builder, a, b: _assembly(builder, text, "=f,f,f", _F32, a, b)
        if t is types.float64:

            def write(builder: Any, a: Any, b: Any) -> Any:
                both = _device(builder, f"f{word}", a, b)
                unordered = builder.fcmp_unordered("uno", a, b)
                return builder.select(unordered, builder.fadd(a, b), both)

            return write
        if not numba_api._is_integer(t) and t is not types.boolean:
            return None
        signed = numba_api._is_integer(t) and t.signed

        def write(builder: Any, a: Any, b: Any) -> Any:
            compare = builder.icmp_signed if signed else builder.icmp_unsigned
            return builder.select(compare(comparison, a, b), a, b)

        return write

    return numba_api._same(emit)


def _neg(t: Any) -> Any:
    return _negative if numba_api._is_float(t) else numba_api._neg(t)


def _abs(t: Any) -> Any:
    if numba_api._is_float(t):
        return lambda builder, x: _device(builder, "fabs", x)
    return numba_api._abs(t)


def _fmod(sign_of_divisor: bool) -> Any:
    integers = numba_api._remainder(sign_of_divisor)

    def emit(t: Any) -> Any:
        if not numba_api._is_float(t):
            return integers(t)

        def write(builder: Any, a: Any, b: Any) -> Any:
            value = _device(builder, "fmod", a, b)
            if not sign_of_divisor:
                return value
            zero = ir.Constant(a.type, 0.0)
            negative = [builder.fcmp_ordered("<", x, zero) for x in (value, b)]
            nonzero = builder.fcmp_unordered("!=", value, zero)
            moves = builder.and_(nonzero, builder.xor(*negative))
            moved = builder.select(moves, builder.fadd(value, b), value)
            is_zero = builder.fcmp_ordered("==", value, zero)
            return builder.select(is_zero, _device(builder, "copysign", zero, b), moved)

        return write

    return numba_api._same(emit)


def _sigmoid(builder: Any, x: Any) -> Any:
    one = ir.Constant(x.type, 1.0)
    e = _device(builder, "exp", _negative(builder, _device(builder, "fabs", x)))
    below = builder.fcmp_ordered("<", x, ir.Constant(x.type, 0.0))
    return builder.fdiv(builder.select(below, e, one), builder.fadd(one, e))


def _value(lane: Any) -> Any:
    return lane.value


def _transcendental(name: str, poly: bool, fused: bool) -> Any:
    function = vector_math.FUNCTIONS[name]

    def emit(t: Any) -> Any:
        if t is types.float32 and poly:
            return lambda builder, x: _value(function(_Lane(builder, x, fused)))
        if not numba_api._is_float(t):
            return None
        if name == "sigmoid":
            return _sigmoid
        return lambda builder, x: _device(builder, name, x)

    return numba_api._same(emit)


_ADD, _MUL = ("fadd", "add"), ("fmul", "mul")


def _fold(rule: Any, pairs: bool) -> Any:
    """acc combined with four parts: in pairs, or one after the other in strict numerics."""

    def folded(acc: Any, four: Any) -> Any:
        if not _is_four(four) or four.element != acc:
            return None
        found = rule(acc, acc)
        if found is None:
            return None
        write = found[2]

        def emit(builder: Any, first: Any, content: Any) -> Any:
            a, b, c, d = _parts(builder, content)
            if pairs:
                both = write(builder, write(builder, a, b), write(builder, c, d))
                return write(builder, first, both)
            for part in (a, b, c, d):
                first = write(builder, first, part)
            return first

        return acc, (acc, four), emit

    return folded


# ---- four at once --------------------------------------------------------------------------------


@functools.cache
def _four_type() -> Any:
    """The Numba type of four values, made once Numba-CUDA is there."""
    models, extending = _cuda("models"), _cuda("extending")

    class Four(types.Type):
        def __init__(self, element: Any) -> None:
            self.element = element
            super().__init__(name=f"Four({element})")

        @property
        def key(self) -> Any:
            return self.element

    @extending.register_model(Four)
    class FourModel(models.PrimitiveModel):
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, ir.ArrayType(numba_api._LLVM[kind.element], 4))

    return Four


def _four_of(element: Any) -> Any:
    return _four_type()(element)


def _is_four(t: Any) -> bool:
    return isinstance(t, _four_type())


def _parts(builder: Any, value: Any) -> list[Any]:
    return [builder.extract_value(value, k) for k in range(4)]


def _pack(builder: Any, kind: Any, parts: list[Any]) -> Any:
    value = ir.Constant(ir.ArrayType(numba_api._LLVM[kind.element], 4), ir.Undefined)
    for k, part in enumerate(parts):
        value = builder.insert_value(value, part, k)
    return value


def _lifted(rule: Any) -> Any:
    """The rule of a function of elements, for four elements too."""

    def lifted(*arguments: Any) -> Any:
        if not any(_is_four(t) for t in arguments):
            return rule(*arguments)
        fours = [_is_four(t) for t in arguments]
        elements = [t.element if four else t for t, four in zip(arguments, fours, strict=True)]
        found = rule(*elements)
        if found is None or found[0] is types.void:
            return None
        result, parameters, write = found
        taken = tuple(
            _four_of(p) if four else p for p, four in zip(parameters, fours, strict=True)
        )
        whole = _four_of(result)

        def emit(builder: Any, *values: Any) -> Any:
            split = [
                _parts(builder, v) if four else [v] * 4
                for v, four in zip(values, fours, strict=True)
            ]
            parts = [write(builder, *(s[k] for s in split)) for k in range(4)]
            return _pack(builder, whole, parts)

        return whole, taken, emit

    return lifted


def _four(a: Any, b: Any, c: Any, d: Any) -> Any:
    if any(t != a for t in (b, c, d)) or a not in numba_api._LLVM:
        return None
    kind = _four_of(a)
    return kind, (a,) * 4, lambda builder, *xs: _pack(builder, kind, list(xs))


def _part(four: Any, k: Any) -> Any:
    if not _is_four(four) or not numba_api._is_integer(k):
        return None

    def emit(builder: Any, value: Any, at: Any) -> Any:
        found, *others = _parts(builder, value)
        for k, other in enumerate(others, 1):
            here = builder.icmp_unsigned("==", at, ir.Constant(at.type, k))
            found = builder.select(here, other, found)
        return found

    return four.element, (four, types.int64), emit


def _arithmetic(float_name: str, integer_name: str) -> Any:
    def emit(t: Any) -> Any:
        name = float_name if numba_api._is_float(t) else integer_name
        if not name or not (numba_api._is_float(t) or numba_api._is_integer(t)):
            return None
        return lambda builder, a, b: getattr(builder, name)(a, b)

    return numba_api._same(emit)


def _comparison(sign: str) -> Any:
    def rule(a: Any, b: Any) -> Any:
        if a != b or a not in numba_api._LLVM:
            return None

        def emit(builder: Any, x: Any, y: Any) -> Any:
            if numba_api._is_float(a):
                ordered = builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered
                return ordered(sign, x, y)
            signed = numba_api._is_integer(a) and a.signed
            return (builder.icmp_signed if signed else builder.icmp_unsigned)(sign, x, y)

        return types.boolean, (a, b), emit

    return rule


_OPERATORS = {
    operator.add: _arithmetic("fadd", "add"),
    operator.sub: _arithmetic("fsub", "sub"),
    operator.mul: _arithmetic("fmul", "mul"),
    operator.truediv: _arithmetic("fdiv", ""),
    operator.eq: _comparison("=="),
    operator.ne: _comparison("!="),
    operator.lt: _comparison("<"),
    operator.le: _comparison("<="),
    operator.gt: _comparison(">"),
    operator.ge: _comparison(">="),
}


@functools.cache
def _install_operators() -> None:
    """Python's operators of four values. They are part of Numba-CUDA's tables, once a process."""
    registry, code = _cuda("cudadecl").registry, _cuda("cudaimpl").registry
    templates = _cuda("typing.templates")
    four = _four_type()
    for function, rule in _OPERATORS.items():
        lifted = _lifted(rule)

        def generic(self: Any, args: Any, kws: Any, lifted: Any = lifted) -> Any:
            if not any(isinstance(t, four) for t in args):
                return None
            found = lifted(*(types.unliteral(t) for t in args))
            return None if found is None else templates.signature(found[0], *found[1])

        name = f"Four_{function.__name__}"
        template = type(name, (templates.AbstractTemplate,), {"key": function, "generic": generic})
        registry.register_global(function)(template)

        def lower(
            context: Any, builder: Any, sig: Any, args: Any, lifted: Any = lifted
        ) -> Any:
            return lifted(*sig.args)[2](builder, *args)

        for pair in ((four, four), (four, types.Any), (types.Any, four)):
            code.lower(function, *pair)(lower)


# ---- the vocabulary ------------------------------------------------------------------------------


def _rules(strict: bool, poly: bool) -> dict[str, tuple[int, Any]]:
    """Name -> (number of arguments, rule) of every function but `pointer` and the casts."""
    names = ("staging", "stream", "stream_end")
    base = {k: v for k, v in numba_api._rules(strict, poly).items() if k not in names}
    maximum, minimum = _extreme("max", ">"), _extreme("min", "<")
    elements: dict[str, tuple[int, Any]] = base | {
        name: (1, _transcendental(name, poly, fused=not strict)) for name in vector_math.FUNCTIONS
    }
    elements |= {
        "load": (2, _load),
        "load_if": (4, _load_if),
        "store": (3, _store),
        "extent": (2, _extent),
        "maximum": (2, maximum),
        "minimum": (2, minimum),
        "max_reassoc": (2, maximum),
        "min_reassoc": (2, minimum),
        "sin": (1, _library("sin")),
        "cos": (1, _library("cos")),
        "pow": (2, _library("pow")),
        "sqrt": (1, numba_api._same(_sqrt)),
        "floor": (1, _library("floor")),
        "ceil": (1, _library("ceil")),
        "rint": (1, _library("rint")),
        "abs": (1, numba_api._same(_abs)),
        "neg": (1, numba_api._same(_neg)),
        "mod": (2, _fmod(True)),
        "fmod": (2, _fmod(False)),
    }
    lifted = {name: (arity, _lifted(rule)) for name, (arity, rule) in elements.items()}
    add, mul = elements["add_reassoc"][1], elements["mul_reassoc"][1]
    return lifted | {
        "load4": (2, _load4),
        "store4": (3, _store4(past=False)),
        "stream4": (3, _store4(past=True)),
        "four": (4, _four),
        "part": (2, _part),
        "aligned": (1, _aligned),
        "shuffle_xor": (2, _shuffle),
        "fold_add": (2, _fold(add, pairs=not strict)),
        "fold_mul": (2, _fold(mul, pairs=not strict)),
        "fold_max": (2, _fold(maximum, pairs=True)),
        "fold_min": (2, _fold(minimum, pairs=True)),
        "barrier": (0, _barrier),
        "thread": (0, _register("tid.x")),
        "block_x": (0, _register("ctaid.x")),
        "block_y": (0, _register("ctaid.y")),
        "blocks_y": (0, _register("nctaid.y")),
    }


def _operation(name: str, arity: int, rule: Any) -> Any:
    """A function of the vocabulary for the CUDA target; see `numba_api._operation`."""
    intrinsic = _cuda("extending").intrinsic

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

    names = "abcde"[:arity]
    text = f"def {name}({', '.join(('context', *names))}): return typing({', '.join(names)})"
    scope: dict[str, Any] = {"typing": typing, "__name__": __name__}
    exec(text, scope)
    return intrinsic(scope[name])


def _pointer_function(casts: dict[Any, str]) -> Any:
    intrinsic = _cuda("extending").intrinsic

    @intrinsic
    def pointer(context: Any, address: Any, dtype: Any) -> Any:
        found = numba_api._dtype_of(dtype, casts)
        if found is None or address != types.int64:
            raise TypingError(f"pointer takes (params[k], dtype), not ({address}, {dtype})")

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], context.get_value_type(signature.return_type))

        return types.CPointer(found.numba)(types.int64, dtype), codegen

    return pointer


@functools.cache
def _vocabulary(strict: bool, math: str) -> dict[str, Any]:
    """The names that a kernel's source may use. ValueError for an unknown `math`."""
    if math not in numba_api.MATH:
        raise ValueError(f"math is one of {', '.join(numba_api.MATH)}, not {math!r}")
    cuda = import_module("numba.cuda")
    _install_operators()
    casts = {
        name: _operation(name, 1, _lifted(numba_api._cast(name))) for name in numba_api._DTYPES
    }
    rules = _rules(strict, poly=math == "poly")
    functions = {name: _operation(name, arity, rule) for name, (arity, rule) in rules.items()}
    pointer = _pointer_function({function: name for name, function in casts.items()})
    elements = {str(t): t for t in numba_api._LLVM}
    return {
        **numba_api._CONSTANTS, **casts, **functions, **elements,
        "pointer": pointer, "cuda": cuda,
    }  # fmt: skip

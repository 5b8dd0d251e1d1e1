"""Machine code in memory: link the kernels of one engine, and walk a plan over them.

    run_plan(steps, count, threads):
        for (kernel, params, extent, parallel) in steps:
            split [0, extent) into n nearly equal ranges [lo, hi)       n = threads or 1
            worker w of n calls  kernel(params, w, lo, hi)

A kernel is `void k(int64* params, uint64 worker, uint64 lo, uint64 hi)`, and never called on an
empty range. A step is data, four int64: the kernel's address, that of its params, the extent, and
whether it may be split. So a plan compiles nothing, and the one runner below serves all of them.

All that touches llvmlite while an engine runs is here. Each engine has a linker (MCJIT) of its own
and registers nothing with the process: what Numba, or another engine, calls by the same name stays
theirs. Two objects of one engine that define the same name are refused.

Teaches: a program is code plus a table; threads are a property of a run, not of the code.
"""

# llvmlite has no type hints; the public functions of this module are its typed face.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import ctypes
import functools
import os
from collections.abc import Callable, Mapping
from typing import Final

import llvmlite.binding as llvm

from compiler.runtime.elf import BadObject, read_symbols
from compiler.runtime.symbols import ALLOWED_SYMBOLS, NEVER_TAKEN

__all__ = [
    "RUNNER_SYMBOL",
    "STEP_WORDS",
    "BadObject",
    "ForbiddenSymbol",
    "NativeCode",
    "NativeError",
    "assemble",
    "check_symbols",
    "cpu_features",
    "runner_object",
    "undefined_symbols",
]

RUNNER_SYMBOL: Final = "run_plan"
STEP_WORDS: Final = 4  # int64 words of one step: kernel address, params address, extent, parallel

# The three functions of OpenMP's run-time library that the runner calls, in the order of @openmp.
_OPENMP: Final = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")

_RUNNER: Final = r"""
%Step = type { ptr, ptr, i64, i64 }
@openmp = global [3 x ptr] zeroinitializer

define internal void @share(ptr %step) {
  %thread_num = load ptr, ptr getelementptr ([3 x ptr], ptr @openmp, i64 0, i64 1)
  %num_threads = load ptr, ptr getelementptr ([3 x ptr], ptr @openmp, i64 0, i64 2)
  %w32 = call i32 %thread_num()
  %n32 = call i32 %num_threads()
  %w = zext i32 %w32 to i64
  %n = zext i32 %n32 to i64
  %extent.at = getelementptr %Step, ptr %step, i32 0, i32 2
  %extent = load i64, ptr %extent.at
  %w1 = add i64 %w, 1
  %a = mul i64 %extent, %w
  %b = mul i64 %extent, %w1
  %lo = udiv i64 %a, %n
  %hi = udiv i64 %b, %n
  %some = icmp ult i64 %lo, %hi
  br i1 %some, label %work, label %done
work:
  %kernel = load ptr, ptr %step
  %params.at = getelementptr %Step, ptr %step, i32 0, i32 1
  %params = load ptr, ptr %params.at
  call void %kernel(ptr %params, i64 %w, i64 %lo, i64 %hi)
  br label %done
done:
  ret void
}

define void @run_plan(ptr %steps, i64 %count, i64 %threads) {
entry:
  %none = icmp eq i64 %count, 0
  br i1 %none, label %done, label %loop
loop:
  %i = phi i64 [0, %entry], [%i1, %next]
  %step = getelementptr %Step, ptr %steps, i64 %i
  %extent.at = getelementptr %Step, ptr %step, i32 0, i32 2
  %extent = load i64, ptr %extent.at
  %empty = icmp eq i64 %extent, 0
  br i1 %empty, label %next, label %look
look:
  %parallel.at = getelementptr %Step, ptr %step, i32 0, i32 3
  %parallel = load i64, ptr %parallel.at
  %may = icmp ne i64 %parallel, 0
  %fewer = icmp slt i64 %extent, %threads
  %n = select i1 %fewer, i64 %extent, i64 %threads
  %several = icmp sgt i64 %n, 1
  %split = and i1 %may, %several
  br i1 %split, label %wide, label %serial
wide:
  %team = load ptr, ptr @openmp
  %n32 = trunc i64 %n to i32
  call void %team(ptr @share, ptr %step, i32 %n32, i32 0)
  br label %next
serial:
  %kernel = load ptr, ptr %step
  %params.at = getelementptr %Step, ptr %step, i32 0, i32 1
  %params = load ptr, ptr %params.at
  call void %kernel(ptr %params, i64 0, i64 0, i64 %extent)
  br label %next
next:
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}

declare void @llvm.trap()
define internal void @never_taken() noreturn {
  call void @llvm.trap()
  unreachable
}
"""


class NativeError(Exception):
    """Kernels that can't be linked or run here; the text names the kernel and the way out."""


class ForbiddenSymbol(NativeError):
    """A kernel whose object file leaves names open that nobody may fill.

    `kernel` is its name, `symbols` the offending names, sorted.
    """

    def __init__(self, kernel: str, symbols: tuple[str, ...]) -> None:
        self.kernel = kernel
        self.symbols = symbols
        super().__init__(
            f"kernel {kernel!r} needs {', '.join(symbols)}, which a kernel may not call: it must "
            "not allocate, raise or call a helper that is not inlined; change its source, or add "
            "a pure C function to compiler/runtime/symbols.py"
        )


def undefined_symbols(object_file: bytes) -> tuple[str, ...]:
    """The names that a relocatable ELF object file leaves open, sorted. Raises BadObject."""
    return read_symbols(object_file).undefined


def check_symbols(name: str, object_file: bytes) -> None:
    """Raise ForbiddenSymbol unless every open name of kernel `name` is on the allowlist."""
    forbidden = tuple(s for s in undefined_symbols(object_file) if s not in ALLOWED_SYMBOLS)
    if forbidden:
        raise ForbiddenSymbol(name, forbidden)


@functools.cache
def cpu_features() -> tuple[str, str]:
    """Name and features of this CPU, as LLVM spells them: `("znver4", "+64bit,+adx,…,-xop")`.

    The features are sorted, so equal CPUs give equal text. Where LLVM can't tell, they are empty.
    """
    try:
        features: str = llvm.get_host_cpu_features().flatten()
    except RuntimeError:
        features = ""
    return str(llvm.get_host_cpu_name()), features


@functools.cache
def runner_object() -> bytes:
    """The object file of the plan runner: `run_plan`, and a trap for each name never taken.

    Plain code for any CPU of this architecture; it has no undefined symbol. Compiling takes a few
    milliseconds, so it is done at build and kept in the artifact as `native/runner.o`.
    """
    traps = "".join(f"@{name} = alias void (), ptr @never_taken\n" for name in sorted(NEVER_TAKEN))
    return assemble(_RUNNER + traps)


def assemble(text: str, host: bool = False) -> bytes:
    """The object file of LLVM IR text as it stands, unoptimised; with `host` for this very CPU."""
    module = llvm.parse_assembly(text)
    if not host:
        return bytes(_target_machine().emit_object(module))
    _initialise()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        codemodel="jitdefault",
        jit=True,
    )
    return bytes(machine.emit_object(module))


class NativeCode:
    """The linked kernels of one engine.

    `objects` maps each kernel's symbol to its object file; the runner's stands under
    RUNNER_SYMBOL. Everything is checked before it is linked, because MCJIT reports nothing.

    The memory is freed when the last reference to this value goes. A call in flight holds one;
    whoever keeps a bare address must hold one too. Any number of threads may call `run`; any
    number of engines may live in one process.

    Raises ForbiddenSymbol, BadObject, or NativeError: no runner, an object without its symbol, two
    objects with the same symbol, a name that this process lacks, no libgomp.
    """

    __slots__ = ("__weakref__", "_addresses", "_linker", "_run")

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        _check_objects(objects)
        openmp = _openmp_addresses()
        self._linker = _link(objects)
        self._addresses: dict[str, int] = {
            symbol: self._linker.get_function_address(symbol) for symbol in objects
        }
        for symbol, address in self._addresses.items():
            if not address:
                raise NativeError(f"kernel {symbol!r} could not be linked: build it again")
        table = self._linker.get_global_value_address("openmp")
        (ctypes.c_uint64 * len(openmp)).from_address(table)[:] = openmp
        # All three words travel as pointers: ctypes converts an int to those fastest.
        word = ctypes.c_void_p
        prototype = ctypes.CFUNCTYPE(None, word, word, word)
        self._run: Callable[[int, int, int], None] = prototype(self._addresses[RUNNER_SYMBOL])

    def address(self, symbol: str) -> int:
        """Where the code of `symbol` starts. Raises NativeError where the engine has none."""
        try:
            return self._addresses[symbol]
        except KeyError:
            raise NativeError(f"kernel {symbol!r} is not in this engine") from None

    def run(self, steps_address: int, count: int, threads: int) -> None:
        """Run `count` steps (int64[count, STEP_WORDS] at `steps_address`), one after the other.

        The steps, their params and all buffers must stay alive and in place until it returns. The
        GIL is released meanwhile. A step marked parallel is split over at most `threads` workers
        and at most its extent; a number below 2 runs serially, as does every run in a process
        forked from one that had engines: OpenMP's threads do not survive a fork.
        """
        self._run(steps_address, count, 1 if _forked else threads)


_forked = False  # set for good in a process forked from one that had engines


def _check_objects(objects: Mapping[str, bytes]) -> None:
    if RUNNER_SYMBOL not in objects:
        raise NativeError(f"no plan runner: add runner_object() as {RUNNER_SYMBOL!r}")
    owner: dict[str, str] = {}
    wanted: dict[str, str] = {}
    for symbol, data in objects.items():
        found = read_symbols(data)
        if symbol not in found.defined:
            raise NativeError(f"the object file of kernel {symbol!r} does not define it")
        if symbol != RUNNER_SYMBOL:
            check_symbols(symbol, data)
        for name in found.defined:
            if name in owner:
                raise NativeError(f"kernels {owner[name]!r} and {symbol!r} both define {name!r}")
            owner[name] = symbol
        wanted.update(dict.fromkeys(found.undefined, symbol))
    for name, symbol in wanted.items():
        if name not in owner and not llvm.address_of_symbol(name):
            raise NativeError(
                f"kernel {symbol!r} needs {name!r}, which neither its engine nor this process "
                "has: build the engine again on this machine"
            )


def _link(objects: Mapping[str, bytes]) -> llvm.ExecutionEngine:
    linker = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
    for data in objects.values():
        linker.add_object_file(llvm.object_file.ObjectFileRef.from_data(data))
    linker.finalize_object()
    return linker


def _target_machine() -> llvm.TargetMachine:
    """A new one each time: a linker takes over the one it is given."""
    _initialise()
    return llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)


@functools.cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def _openmp_addresses() -> tuple[int, ...]:
    try:
        library = ctypes.CDLL("libgomp.so.1")
    except OSError as error:
        raise NativeError(
            "libgomp.so.1, which runs kernels on several threads, is missing: "
            "apt-get install libgomp1"
        ) from error
    os.register_at_fork(after_in_child=_after_fork)
    functions = (getattr(library, name) for name in _OPENMP)
    return tuple(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)


def _after_fork() -> None:
    global _forked
    _forked = True

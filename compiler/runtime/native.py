"""Machine code in memory: link the kernels of one engine, and walk a plan over them.

    run_plan(steps, count, threads):
        for (kernel, params, extent, parallel) in steps:
            serial:    kernel(params, 0, 0, extent)
            parallel:  team = min(threads, extent)     members 0 (the caller) to team - 1 (workers)
                       n = min(extent, c team)         chunk k is [k extent / n, (k + 1) extent / n)
                       share m is the chunks           [m n / team, (m + 1) n / team)
                       member m, again and again:      claim a chunk, kernel(params, m, its range)

A kernel is `void k(int64* params, uint64 worker, uint64 lo, uint64 hi)`, and never called on an
empty range. A step is data, four int64: the kernel's address, that of its params, the extent, and
whether it may be split. So a plan compiles nothing, and the one runner below serves all of them.

*A share is an offer.* A member claims from the front of its own share, so that its cache has what
it wrote in the step before; then from the back of the others'. In the end the caller waits only for
chunks that were begun: a worker that comes late, because something else has its CPU, finds nothing
left, and nobody has waited for it.

The process has one pool of workers, whatever engines it has. It grows when a step first needs it
and lives as long as the process. This is all that its members share:

    share[m]  one word (team, front, back): chunks [front, back) of the present step are unclaimed
    step, n   the present step
    pending   how many of its chunks are not reported done
    asleep[m] whether member m sleeps, or is about to
    taken     whether a caller has the pool

    caller (member 0)                          worker m
      taken: 0 -> 1; if it was 1, do the         work: claim chunks and call the kernel, while there
        step serially                              are any; pending -= how many these were; where
      step, n, pending = …                         that makes 0, wake the caller
      for m = team - 1 … 0: share[m] = …         after microseconds without work:
      for m = team - 1 … 1: wake m if asleep       asleep[m] = 1; work; if there was none, sleep
      work, as a worker does
      wait for pending = 0; taken = 0

    claim: read a share; if m < team and front < back, compare-and-swap front + 1, or back - 1

*A claim proves what it needs.* Nothing but the word is read before. Step and n are written only
while all shares are empty, and nothing is published until all that was claimed is done: so who has
claimed reads the step of its chunk, however long it was away. Publishing releases what the caller
wrote, a claim acquires it; pending does the same for what the workers wrote.
*No wake-up is lost.* One side sets asleep, then reads shares; the other sets all shares, then reads
asleep; all in one total order, so one of them sees the other. Likewise the caller with pending.
(Were m woken right after share[m] is set, a caller that is stopped between two shares could leave
m asleep: another has taken share[m], and m found the shares after it still empty.)
*A caller never waits for the pool.* While another thread has it, a step runs serially.
*A forked child has no workers.* It forgets those of its parent and makes its own.

All that touches llvmlite while an engine runs is here. Each engine has a linker (MCJIT) of its own
and registers nothing with the process: what Numba, or another engine, calls by the same name stays
theirs. Two objects of one engine that define the same name are refused.

Teaches: a program is code plus a table; threads are a property of a run, not of the code; who deals
out work for good waits for the slowest.
Sources: R. Blumofe, C. Leiserson, "Scheduling Multithreaded Computations by Work Stealing", 1999;
U. Drepper, "Futexes Are Tricky", 2011.
"""

# llvmlite has no type hints; the public functions of this module are its typed face.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import ctypes
import functools
import os
import platform
import re
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

CHUNKS: Final = 8
"""Chunks a member: more even out better what the CPUs do beside this, fewer cost less."""
TEAM: Final = 256
"""At most so many members work on a step."""
SPIN: Final = 2000
"""Turns, of 10 to 40 ns, that a worker waits for a step, or the caller for the end, before it
sleeps. They last about as long as it takes to sleep and be woken, some 50 µs: so waiting costs at
most twice what knowing the future would."""

_LIBC: Final = ("pthread_create", "syscall")  # in the order of @libc

# By machine: the instruction that says "I am waiting in a loop", and Linux's number of `futex`.
_MACHINES: Final = {
    "x86_64": ("@llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()", 202),
    "aarch64": ("@llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)", 98),
}

_RUNNER: Final = r"""
%Step = type { ptr, ptr, i64, i64 }
@libc = global [2 x ptr] zeroinitializer

@pool_shares = internal global [TEAM x [8 x i64]] zeroinitializer, align 64  ; a cache line each
@pool_asleep = internal global [TEAM x i32] zeroinitializer, align 64
@pool_pending = internal global i64 0, align 64
@pool_step = internal global ptr null
@pool_chunks = internal global i64 0
@pool_taken = internal global i64 0
@pool_workers = internal global i64 0          ; members 1 to here have been started
@pool_largest = internal global i64 0          ; team so far

; The next chunk for this member: the first of its own share, else the last of another's; or -1.
define internal i64 @pool_claim(i64 %member) {
entry:
  br label %look
look:
  %owner = phi i64 [%member, %entry], [%next, %beyond]
  %share = getelementptr [TEAM x [8 x i64]], ptr @pool_shares, i64 0, i64 %owner
  %first = load atomic i64, ptr %share seq_cst, align 8
  br label %see
see:
  %word = phi i64 [%first, %look], [%seen, %try]
  %team = lshr i64 %word, 32
  %higher = lshr i64 %word, 16
  %front = and i64 %higher, 65535
  %back = and i64 %word, 65535
  %invited = icmp ult i64 %member, %team
  %some = icmp ult i64 %front, %back
  %may = and i1 %invited, %some
  br i1 %may, label %try, label %beyond
try:
  %own = icmp eq i64 %member, %owner
  %front1 = add i64 %word, 65536
  %back1 = sub i64 %word, 1
  %rest = select i1 %own, i64 %front1, i64 %back1
  %last = sub i64 %back, 1
  %chunk = select i1 %own, i64 %front, i64 %last
  %swap = cmpxchg ptr %share, i64 %word, i64 %rest acq_rel acquire
  %seen = extractvalue { i64, i1 } %swap, 0
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %done, label %see
done:
  ret i64 %chunk
beyond:
  %owner1 = add i64 %owner, 1
  %largest = load atomic i64, ptr @pool_largest monotonic, align 8
  %further = icmp ult i64 %owner1, %largest
  %next = select i1 %further, i64 %owner1, i64 0
  %round = icmp eq i64 %next, %member
  br i1 %round, label %none, label %look
none:
  ret i64 -1
}

; Do chunks while there are any, and report them; whether there were.
define internal i1 @pool_work(i64 %member) {
entry:
  br label %look
look:
  %count = phi i64 [0, %entry], [%count1, %do]
  %chunk = call i64 @pool_claim(i64 %member)
  %none = icmp slt i64 %chunk, 0
  br i1 %none, label %end, label %do
do:
  %step = load ptr, ptr @pool_step
  %n = load i64, ptr @pool_chunks
  %kernel = load ptr, ptr %step
  %params.at = getelementptr %Step, ptr %step, i32 0, i32 1
  %params = load ptr, ptr %params.at
  %extent.at = getelementptr %Step, ptr %step, i32 0, i32 2
  %extent = load i64, ptr %extent.at
  %lo = call i64 @pool_part(i64 %extent, i64 %chunk, i64 %n)
  %chunk1 = add i64 %chunk, 1
  %hi = call i64 @pool_part(i64 %extent, i64 %chunk1, i64 %n)
  call void %kernel(ptr %params, i64 %member, i64 %lo, i64 %hi)
  %count1 = add i64 %count, 1
  br label %look
end:
  %some = icmp ne i64 %count, 0
  br i1 %some, label %report, label %done
report:
  %before = atomicrmw sub ptr @pool_pending, i64 %count seq_cst
  %last = icmp eq i64 %before, %count
  br i1 %last, label %wake, label %done
wake:
  call void @pool_wake(i64 0)
  br label %done
done:
  ret i1 %some
}

; whole * k / n
define internal i64 @pool_part(i64 %whole, i64 %k, i64 %n) {
  %product = mul i64 %whole, %k
  %part = udiv i64 %product, %n
  ret i64 %part
}

define internal void @pool_wake(i64 %member) {
  %flag = getelementptr [TEAM x i32], ptr @pool_asleep, i64 0, i64 %member
  %value = load atomic i32, ptr %flag seq_cst, align 4
  %sleeps = icmp eq i32 %value, 1
  br i1 %sleeps, label %call, label %done
call:
  store atomic i32 0, ptr %flag seq_cst, align 4
  %syscall = load ptr, ptr getelementptr ([2 x ptr], ptr @libc, i64 0, i64 1)
  call i64 (i64, ...) %syscall(i64 FUTEX, ptr %flag, i32 129, i32 1)
  br label %done
done:
  ret void
}

; Wait until someone wakes this member, whose flag is 1; at once where that has happened.
define internal void @pool_sleep(ptr %flag) {
  %syscall = load ptr, ptr getelementptr ([2 x ptr], ptr @libc, i64 0, i64 1)
  call i64 (i64, ...) %syscall(i64 FUTEX, ptr %flag, i32 128, i32 1, ptr null)
  store atomic i32 0, ptr %flag monotonic, align 4
  ret void
}

; The life of a worker.
define internal ptr @pool_worker(ptr %self) {
entry:
  %member = ptrtoint ptr %self to i64
  %flag = getelementptr [TEAM x i32], ptr @pool_asleep, i64 0, i64 %member
  br label %look
look:
  %turn = phi i64 [0, %entry], [0, %look], [%turn1, %spin], [0, %awake]
  %found = call i1 @pool_work(i64 %member)
  br i1 %found, label %look, label %idle
idle:
  %patient = icmp ult i64 %turn, SPIN
  br i1 %patient, label %spin, label %tire
spin:
  call void PAUSE
  %turn1 = add i64 %turn, 1
  br label %look
tire:
  store atomic i32 1, ptr %flag seq_cst, align 4
  %late = call i1 @pool_work(i64 %member)
  br i1 %late, label %awake, label %sleep
sleep:
  call void @pool_sleep(ptr %flag)
  br label %awake
awake:
  store atomic i32 0, ptr %flag monotonic, align 4
  br label %look
}

; Start the workers that a team lacks. Where the system refuses one, the others do its share.
define internal void @pool_grow(i64 %team) {
entry:
  %thread = alloca i64
  %largest = load atomic i64, ptr @pool_largest monotonic, align 8
  %larger = icmp ugt i64 %team, %largest
  br i1 %larger, label %enlarge, label %look
enlarge:
  store atomic i64 %team, ptr @pool_largest monotonic, align 8
  br label %look
look:
  %workers = load i64, ptr @pool_workers
  %member = add i64 %workers, 1
  %lacks = icmp ult i64 %member, %team
  br i1 %lacks, label %start, label %done
start:
  %create = load ptr, ptr @libc
  %self = inttoptr i64 %member to ptr
  %error = call i32 %create(ptr %thread, ptr null, ptr @pool_worker, ptr %self)
  %started = icmp eq i32 %error, 0
  br i1 %started, label %count, label %done
count:
  store i64 %member, ptr @pool_workers
  br label %look
done:
  ret void
}

; Do a step with the pool, which the caller has taken; give the pool back.
define internal void @pool_share(ptr %step, i64 %team) {
entry:
  call void @pool_grow(i64 %team)
  %extent.at = getelementptr %Step, ptr %step, i32 0, i32 2
  %extent = load i64, ptr %extent.at
  %most = mul i64 %team, CHUNKS
  %few = icmp ult i64 %extent, %most
  %n = select i1 %few, i64 %extent, i64 %most
  store ptr %step, ptr @pool_step
  store i64 %n, ptr @pool_chunks
  store atomic i64 %n, ptr @pool_pending monotonic, align 8
  br label %open
open:
  %member1 = phi i64 [%team, %entry], [%member, %open]
  %member = sub i64 %member1, 1
  %front = call i64 @pool_part(i64 %n, i64 %member, i64 %team)
  %back = call i64 @pool_part(i64 %n, i64 %member1, i64 %team)
  %team.bits = shl i64 %team, 32
  %front.bits = shl i64 %front, 16
  %both = or i64 %front.bits, %back
  %word = or i64 %team.bits, %both
  %share = getelementptr [TEAM x [8 x i64]], ptr @pool_shares, i64 0, i64 %member
  store atomic i64 %word, ptr %share seq_cst, align 8
  %more = icmp ne i64 %member, 0
  br i1 %more, label %open, label %rouse
rouse:
  %sleeper1 = phi i64 [%team, %open], [%sleeper, %rouse]
  %sleeper = sub i64 %sleeper1, 1
  call void @pool_wake(i64 %sleeper)
  %others = icmp ugt i64 %sleeper, 1
  br i1 %others, label %rouse, label %do
do:
  call i1 @pool_work(i64 0)
  br label %wait
wait:
  %turn = phi i64 [0, %do], [%turn1, %spin], [0, %sleep]
  %pending = load atomic i64, ptr @pool_pending acquire, align 8
  %none = icmp eq i64 %pending, 0
  br i1 %none, label %end, label %idle
idle:
  %patient = icmp ult i64 %turn, SPIN
  br i1 %patient, label %spin, label %tire
spin:
  call void PAUSE
  %turn1 = add i64 %turn, 1
  br label %wait
tire:
  store atomic i32 1, ptr @pool_asleep seq_cst, align 4
  %still = load atomic i64, ptr @pool_pending seq_cst, align 8
  %over = icmp eq i64 %still, 0
  br i1 %over, label %awake, label %sleep
sleep:
  call void @pool_sleep(ptr @pool_asleep)
  br label %wait
awake:
  store atomic i32 0, ptr @pool_asleep monotonic, align 4
  br label %end
end:
  store atomic i64 0, ptr @pool_taken release, align 8
  ret void
}

; In a child just forked, where only the forking thread lives on.
define void @forget_pool() {
entry:
  store i64 0, ptr @pool_workers
  store i64 0, ptr @pool_taken
  br label %close
close:
  %member = phi i64 [0, %entry], [%member1, %close]
  %share = getelementptr [TEAM x [8 x i64]], ptr @pool_shares, i64 0, i64 %member
  store i64 0, ptr %share
  %member1 = add i64 %member, 1
  %more = icmp ult i64 %member1, TEAM
  br i1 %more, label %close, label %done
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
  %wanted = select i1 %fewer, i64 %extent, i64 %threads
  %many = icmp sgt i64 %wanted, TEAM
  %team = select i1 %many, i64 TEAM, i64 %wanted
  %several = icmp sgt i64 %team, 1
  %split = and i1 %may, %several
  br i1 %split, label %take, label %serial
take:
  %swap = cmpxchg ptr @pool_taken, i64 0, i64 1 acquire monotonic
  %free = extractvalue { i64, i1 } %swap, 1
  br i1 %free, label %wide, label %serial
wide:
  call void @pool_share(ptr %step, i64 %team)
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
    milliseconds, so it is done at build and kept in the artifact as `native/runner.o`. Raises
    NativeError on a machine that is neither x86-64 nor 64-bit ARM.
    """
    return assemble(_runner_text(platform.machine()))


def _runner_text(machine: str) -> str:
    try:
        pause, declaration, futex = _MACHINES[machine]
    except KeyError:
        known = " or ".join(_MACHINES)
        raise NativeError(f"kernels run on {known}, not on {machine}") from None
    words = {"PAUSE": pause, "FUTEX": futex, "TEAM": TEAM, "CHUNKS": CHUNKS, "SPIN": SPIN}
    text = re.sub(r"\b[A-Z]{4,}\b", lambda found: str(words[found[0]]), _RUNNER)
    traps = "".join(f"@{name} = alias void (), ptr @never_taken\n" for name in sorted(NEVER_TAKEN))
    return f"{text}{declaration}\n{traps}"


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
    objects with the same symbol, a name that this process lacks, a runner of another version.
    """

    __slots__ = ("__weakref__", "_addresses", "_linker", "_run")

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        _check_objects(objects)
        runner = _link_runner(objects[RUNNER_SYMBOL])
        self._linker = _link(objects)  # with a runner of its own, for its traps
        self._addresses: dict[str, int] = {
            symbol: self._linker.get_function_address(symbol) for symbol in objects
        }
        self._addresses[RUNNER_SYMBOL] = runner
        for symbol, address in self._addresses.items():
            if not address:
                raise NativeError(f"kernel {symbol!r} could not be linked: build it again")
        # All three words travel as pointers: ctypes converts an int to those fastest.
        word = ctypes.c_void_p
        prototype = ctypes.CFUNCTYPE(None, word, word, word)
        self._run: Callable[[int, int, int], None] = prototype(runner)

    def address(self, symbol: str) -> int:
        """Where the code of `symbol` starts. Raises NativeError where the engine has none."""
        try:
            return self._addresses[symbol]
        except KeyError:
            raise NativeError(f"kernel {symbol!r} is not in this engine") from None

    def run(self, steps_address: int, count: int, threads: int) -> None:
        """Run `count` steps (int64[count, STEP_WORDS] at `steps_address`), one after the other.

        The steps, their params and all buffers must stay alive and in place until it returns. The
        GIL is released meanwhile. A step marked parallel is shared by at most `threads` members
        and at most its extent; a number below 2 runs serially, as does a step that finds the pool
        at work for another thread.
        """
        self._run(steps_address, count, threads)


def _check_objects(objects: Mapping[str, bytes]) -> None:
    _initialise()
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


_runners: dict[bytes, int] = {}  # object file of a runner -> address of its `run_plan`


def _link_runner(data: bytes) -> int:
    """The runner of all engines that brought this one, so that they share its pool.

    It stays linked for good: its workers sleep in it until the process ends.
    """
    if data in _runners:
        return _runners[data]
    linker = _link({RUNNER_SYMBOL: data})
    address = linker.get_function_address(RUNNER_SYMBOL)
    libc = linker.get_global_value_address("libc")
    forget = linker.get_function_address("forget_pool")
    if not (libc and forget):
        raise NativeError("the plan runner is of another version: build the engine again")
    process = ctypes.CDLL(None)
    functions = (ctypes.cast(getattr(process, name), ctypes.c_void_p).value for name in _LIBC)
    (ctypes.c_void_p * len(_LIBC)).from_address(libc)[:] = tuple(functions)
    kept = _runners.setdefault(data, address)  # another thread may have been faster
    if kept == address:
        linker.detach()
        os.register_at_fork(after_in_child=ctypes.CFUNCTYPE(None)(forget))
    return kept


def _target_machine() -> llvm.TargetMachine:
    """A new one each time: a linker takes over the one it is given."""
    _initialise()
    return llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)


@functools.cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # LLVM knows the names of this process, libc's and libm's, only once there was a linker.
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)

"""Counted bytes of a plan: it runs once, step by step, with kernels that take notes.

    touched    = sum of all loads and stores times their size
    floor      = sum of first loads (of what the step has not stored) and first stores
    simulated  = 64 * (lines read on a miss + dirty lines written back, the last flush included)

One cache stands between all steps and memory, as it does in the machine: what a step leaves in it,
the next one finds. Library steps are streamed through it, inputs first, then outputs: what they
move inside is not seen. Memory is numbered in the order of its first use, so the counts do not
depend on where the system puts it.

Teaches: between what a program asks for and what memory delivers stands a cache; a model of it
makes the difference a number that can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from compiler.codegen import counting
from compiler.codegen.counting import CACHE_HEADER, CACHE_LINE, compile_counting, stream
from compiler.codegen.cpu import emit_kernel
from compiler.ir.binding import bind_symbols, evaluate_shape
from compiler.ir.interpret.plan import PlanRun
from compiler.ir.interpret.tensor import ExternRunner
from compiler.ir.loops import Kernel
from compiler.ir.module import Module
from compiler.ir.params import ParamStore
from compiler.ir.plan import BindStep, CallStep, CopyStep, KernelStep, Step
from compiler.ir.types import Array
from compiler.runtime.addresses import address_of

Words = npt.NDArray[np.int64]

PAGE = 4096
CACHE_BYTES = 32 << 20
CACHE_WAYS = 16


@dataclass(frozen=True)
class BufferCounts:
    """Elements of one argument of a kernel, loaded and stored; `first_…` count each once."""

    name: str
    itemsize: int
    loads: int
    stores: int
    first_loads: int
    first_stores: int
    scratch: bool = False

    @property
    def touched(self) -> int:
        """Bytes of every load and store."""
        return (self.loads + self.stores) * self.itemsize

    @property
    def floor(self) -> int:
        """Bytes that must move; scratch is no memory of the run."""
        return 0 if self.scratch else (self.first_loads + self.first_stores) * self.itemsize


@dataclass(frozen=True)
class StepCounts:
    """Bytes of one step; `buffers` only for kernels."""

    name: str
    kind: str
    touched: int
    floor: int
    simulated: int
    buffers: tuple[BufferCounts, ...] = ()


@dataclass(frozen=True)
class Counted:
    """Bytes of a run. `flushed`: dirty lines that were still in the cache at the end, in bytes;
    `sizes`: all symbols, those that data determine too."""

    steps: tuple[StepCounts, ...]
    flushed: int
    sizes: Mapping[str, int]
    outputs: Mapping[str, Array] = field(repr=False)

    @property
    def touched(self) -> int:
        return sum(s.touched for s in self.steps)

    @property
    def floor(self) -> int:
        return sum(s.floor for s in self.steps)

    @property
    def simulated(self) -> int:
        return sum(s.simulated for s in self.steps) + self.flushed


class Cache:
    """A set-associative cache with least recently used replacement and write-allocate."""

    def __init__(self, nbytes: int = CACHE_BYTES, ways: int = CACHE_WAYS) -> None:
        sets = nbytes // CACHE_LINE // ways
        if sets < 1:
            raise ValueError(f"a cache of {nbytes} bytes has no {ways} lines of {CACHE_LINE} bytes")
        self.words: Words = np.zeros(CACHE_HEADER + 2 * sets * ways, np.int64)
        self.words[counting.SETS], self.words[counting.WAYS] = sets, ways
        self.words[CACHE_HEADER::2] = -1

    @property
    def moved(self) -> int:
        """Bytes read on a miss and written back so far."""
        words = self.words
        return CACHE_LINE * int(words[counting.MISSES] + words[counting.WRITTEN_BACK])

    @property
    def dirty(self) -> int:
        """Bytes that a flush would write back."""
        lines = self.words[CACHE_HEADER::2]
        return CACHE_LINE * int(np.count_nonzero((lines >= 0) & (lines & 1 == 1)))

    def stream(self, base: int, nbytes: int, store: bool) -> None:
        """Every line of a stretch, once, in order."""
        stream(address_of(self.words), base, nbytes, store)


class Places:
    """Numbers for memory: each array that owns some gets pages of its own at its first use."""

    def __init__(self) -> None:
        self._next = PAGE
        self._owners: dict[int, tuple[Array, int]] = {}

    def __call__(self, array: Array) -> int:
        """Where the first element of an array lies."""
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if id(owner) not in self._owners:
            self._owners[id(owner)] = owner, self._next
            self._next += (owner.nbytes // PAGE + 2) * PAGE
        return self._owners[id(owner)][1] + address_of(array) - address_of(owner)


def count(
    module: Module,
    inputs: Mapping[str, Array],
    params: ParamStore,
    externs: ExternRunner | None = None,
    *,
    strict: bool = False,
    cache: Cache | None = None,
    check: Callable[[], None] = lambda: None,
) -> Counted:
    """Run the plan of a module once on `inputs` and count. `check` is called before every step.

    Kernels are the module's sources, or what `emit` would make of a module without them. Errors:
    those of `run_plan`.
    """
    plan = module.plan
    if plan is None:
        raise ValueError("the module has no plan: bytes are counted step by step")
    typed = [(v.name, v.type) for v in module.graph.inputs]
    sizes = bind_symbols(typed, inputs, symbols=module.dims, guards=plan.guards)
    made = cache or Cache()
    run = _CountingRun(module, sizes, inputs, params, externs, strict, made, check)
    outputs = run.run()
    return Counted(tuple(run.counts), made.dirty, run.sizes, outputs)


class _CountingRun(PlanRun):
    def __init__(
        self,
        module: Module,
        sizes: dict[str, int],
        inputs: Mapping[str, Array],
        params: ParamStore,
        externs: ExternRunner | None,
        strict: bool,
        cache: Cache,
        check: Callable[[], None],
    ) -> None:
        assert module.plan is not None
        super().__init__(module, module.plan, sizes, inputs, params, externs)
        self.strict = strict
        self.cache = cache
        self.check = check
        self.places = Places()
        self.scratch: Array = np.zeros(0, np.uint8)
        self.buffers: tuple[BufferCounts, ...] = ()
        self.counts: list[StepCounts] = []

    def step(self, step: Step) -> None:
        self.check()
        before = self.cache.moved
        self.buffers = ()
        super().step(step)
        match step:
            case KernelStep():
                name, kind = step.kernel, "kernel"
                touched = sum(b.touched for b in self.buffers)
                floor = sum(b.floor for b in self.buffers)
            case CallStep():
                name, kind = step.function, "call"
                read = [self.array(o) for o in step.inputs if o is not None]
                touched = floor = self.stream(read, [self.array(o) for o in step.outputs])
            case CopyStep():
                name, kind = step.source.value, "copy"
                touched = floor = self.stream([self.array(step.source)], [self.array(step.target)])
            case BindStep():
                return
        moved = self.cache.moved - before
        self.counts.append(StepCounts(name, kind, touched, floor, moved, self.buffers))

    def stream(self, read: list[Array], written: list[Array]) -> int:
        """Inputs, then outputs; their bytes."""
        for arrays, store in ((read, False), (written, True)):
            for array in arrays:
                self.cache.stream(self.places(array), array.nbytes, store)
        return sum(a.nbytes for a in (*read, *written))

    def launch(
        self, kernel: Kernel, extents: Mapping[str, int], buffers: Mapping[str, Array]
    ) -> None:
        arrays = {**buffers, **self.make_scratch(kernel, extents)}
        notes: Words = np.zeros((len(kernel.args), counting.NOTE_WORDS), np.int64)
        maps = [np.zeros(arrays[a.name].size, np.uint8) for a in kernel.args]
        for note, arg, seen in zip(notes, kernel.args, maps, strict=True):
            array = arrays[arg.name]
            note[counting.DATA] = address_of(array)
            note[counting.MAP] = address_of(seen)
            note[counting.BASE] = self.places(array)
            note[counting.CACHE] = address_of(self.cache.words)
            note[counting.ITEMSIZE] = array.itemsize
            note[counting.LAST] = -1
        scratch = sum(a.mode == "scratch" for a in kernel.args)
        addresses = [address_of(note) for note in notes]
        values = [extents[name] for name in kernel.extents]
        table: Words = np.array([*values, *addresses, *[0] * scratch], np.int64)
        loops, _ = kernel.parallel()
        domain = 1
        for loop in loops:
            domain *= loop.extent.evaluate(extents)
        self.code(kernel)(address_of(table), 0, 0, domain)
        self.buffers = tuple(
            BufferCounts(
                arg.name,
                int(note[counting.ITEMSIZE]),
                int(note[counting.LOADS]),
                int(note[counting.STORES]),
                int(note[counting.FIRST_READS]),
                int(note[counting.FIRST_STORES]),
                arg.mode == "scratch",
            )
            for arg, note in zip(kernel.args, notes, strict=True)
        )

    def make_scratch(self, kernel: Kernel, extents: Mapping[str, int]) -> dict[str, Array]:
        """Scratch arrays, one behind the other in memory that all steps share."""
        wanted = {
            a.name: (evaluate_shape(a.type, extents), a.type.element.numpy())
            for a in kernel.args
            if a.mode == "scratch"
        }
        places: dict[str, int] = {}
        total = 0
        for name, (shape, dtype) in wanted.items():
            places[name] = total
            nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            total += -(-nbytes // CACHE_LINE) * CACHE_LINE
        if total > self.scratch.nbytes:
            self.scratch = np.zeros(total, np.uint8)
        return {
            name: np.ndarray(shape, dtype, self.scratch, places[name])
            for name, (shape, dtype) in wanted.items()
        }

    def code(self, kernel: Kernel) -> counting.CountingKernel:
        for source in self.module.sources:
            if source.kernel == kernel.name:
                return compile_counting(
                    source.symbol, source.text, strict=self.strict, math=source.math
                )
        emitted = emit_kernel(kernel, "kernel")
        return compile_counting("kernel", emitted.text, strict=self.strict, math="poly")

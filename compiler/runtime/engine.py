"""The engine: a compiled model that runs.

    shapes of the inputs ──bind──► sizes, memory layout, tables  ──call──► results

The first run at new sizes makes a binding: numbers for all symbols, guards checked, offsets,
parameter tables. Bindings are kept for the sizes used last. After that a run costs the kernels and
filling in the addresses; a call made by `bind` costs the kernels and one step into C.

Kernels read the caller's inputs and write the caller's outputs where they are; nothing is copied
in or out. An engine never writes into an input or a weight.

Teaches: compile once for all sizes, bind once for one size, call many times.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from compiler.ir.binding import InputError, bind_shapes, check_inputs, format_shape
from compiler.ir.plan import CallStep, KernelStep, Layout, Plan, Signature
from compiler.ir.types import Array
from compiler.runtime.addresses import ALIGNMENT, address_range, aligned_empty, as_kernel_input
from compiler.runtime.artifact import Parts, WrongMachine, read_artifact, write_artifact
from compiler.runtime.binding import (
    Binding,
    Call,
    DynamicBinding,
    OutputError,
    Program,
    is_static,
    plan_layout,
    storage,
)
from compiler.runtime.library import Action, Library, LibraryError
from compiler.runtime.native import RUNNER_SYMBOL, NativeCode, cpu_features, runner_object
from compiler.runtime.store import ArtifactError

__all__ = [
    "ArtifactError", "Call", "Engine", "EngineError", "LibraryError", "OutputError", "Parts",
    "RunEvent", "WrongMachine",
]  # fmt: skip

BINDINGS: Final = 16
"""How many bindings an engine keeps: one for each set of input shapes and threads used last."""
EVENTS: Final = 256
"""How many events an engine remembers."""


class EngineError(Exception):
    """Parts that make no engine; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something a run did beyond its plan: `kind` is `copy`, `value` the input, with the reason:
    `non-contiguous`, `misaligned` or `byte-swapped`."""

    kind: str
    value: str
    reason: str


class Engine:
    """A compiled model. Made by `assemble` or `load`; any number of threads may use one at once.

    `threads` is how many a run uses unless told otherwise. `phases`: milliseconds of `read` (a
    loaded one: files checked and read) and `link`, and of `library` once a reference step ran.
    """

    def __init__(self, parts: Parts, threads: int | None, phases: Mapping[str, float]) -> None:
        start = time.perf_counter()
        _check_parts(parts)
        code = NativeCode(parts.objects)
        self.parts = parts
        self.threads = _check_threads(threads) or available_threads()
        self._library = Library(parts.library)
        self._program = Program(
            parts.signature,
            parts.plan,
            {b.name: b for b in parts.plan.buffers},
            code,
            {kernel: code.address(symbol) for kernel, symbol in parts.kernels.items()},
            {name: _aligned(array) for name, array in parts.params.items()},
            self._library,
            parts.labels,
        )
        self._static = is_static(parts.signature, parts.plan)
        self._inputs = [(name, storage(type.dtype)) for name, type in parts.signature.inputs]
        self._names = {name for name, _ in self._inputs}
        self._bindings: OrderedDict[object, Binding | DynamicBinding] = OrderedDict()
        self._lock = threading.Lock()
        self._arenas = _Arenas()
        self._events: deque[RunEvent] = deque(maxlen=EVENTS)
        self._phases = {**phases, "link": (time.perf_counter() - start) * 1e3}

    @staticmethod
    def assemble(parts: Parts, threads: int | None = None) -> Engine:
        """An engine from a fresh compile.

        Raises EngineError for parts that do not fit together, NativeError for objects that can't
        be linked here.
        """
        if RUNNER_SYMBOL not in parts.objects:
            objects = {**parts.objects, RUNNER_SYMBOL: runner_object()}
            parts = replace(parts, objects=objects)
        return Engine(parts, threads, {})

    @staticmethod
    def load(folder: str | Path, threads: int | None = None) -> Engine:
        """The engine in a folder that `save` wrote; compiles nothing, may be read-only.

        It is native code: load only from a store of your own. Raises ArtifactError that names a
        damaged, missing or extra file, WrongMachine for another CPU's engine.
        """
        start = time.perf_counter()
        parts = read_artifact(Path(folder))
        return Engine(parts, threads, {"read": (time.perf_counter() - start) * 1e3})

    def save(self, folder: str | Path) -> None:
        """Write the engine to `folder`, whole or not at all. Raises ArtifactError."""
        write_artifact(self.parts, Path(folder))

    # ---- what it is

    @property
    def name(self) -> str:
        return self.parts.name

    @property
    def signature(self) -> Signature:
        return self.parts.signature

    @property
    def plan(self) -> Plan:
        return self.parts.plan

    @property
    def key(self) -> str:
        """The digest under which a store keeps it; empty where none was given."""
        return str(self.parts.about.get("key", ""))

    @property
    def events(self) -> tuple[RunEvent, ...]:
        """The last events, oldest first."""
        return tuple(self._events)

    @property
    def phases(self) -> Mapping[str, float]:
        """Milliseconds by phase."""
        library = self._library.milliseconds
        return {**self._phases, "library": library} if library else dict(self._phases)

    @property
    def conditions(self) -> Mapping[str, str | int]:
        """What a measured time depends on beside the engine and the sizes."""
        return {"threads": self.threads, "cpu": cpu_features()[0]}

    def memory(self, sizes: Mapping[str, int]) -> Layout:
        """The arena's layout for sizes of the symbols, in bytes: naive, peak, lower bound.

        ValueError names the symbol whose size is not given.
        """
        try:
            return plan_layout(self.plan, sizes)
        except KeyError as error:
            raise ValueError(f"the size of {error} is needed to lay out memory") from error

    # ---- running

    def run(
        self,
        inputs: Mapping[str, Array],
        out: Mapping[str, Array] | None = None,
        threads: int | None = None,
    ) -> dict[str, Array]:
        """The results for these inputs, by name; those named in `out` are written there.

        Inputs have the signature's element types, nothing is cast. Those that a kernel can't read
        in place are copied, with an event. `out` arrays have the results' shapes and types, are
        C-contiguous, and overlap neither inputs nor each other. bfloat16 is given and returned as
        its bits in uint16.

        Raises InputError (names, types), ShapeError, GuardError, OutputError, LibraryError.
        """
        arrays, _ = self._take(inputs)
        binding = self._binding(arrays, threads)
        outputs = self._outputs(binding, inputs, out or {})
        with self._arenas.lend(binding.arena_bytes) as arena:
            return binding.call(arrays, outputs, arena)()

    def bind(
        self,
        inputs: Mapping[str, Array],
        out: Mapping[str, Array] | None = None,
        threads: int | None = None,
    ) -> Call:
        """Check everything once, and get what runs again and again on the same memory.

        Each `call()` reads the inputs' elements as they are then and writes `call.outputs`: the
        arrays of `out`, and new ones for other results. Arrays must not be resized meanwhile.
        Errors as `run`.
        """
        return self._call(inputs, out, threads, split=False)

    def per_step(
        self,
        inputs: Mapping[str, Array],
        repetitions: int = 1,
        threads: int | None = None,
    ) -> tuple[tuple[float, ...], ...]:
        """Seconds that each step of the plan takes by itself: one tuple of `repetitions` a step.

        Includes up to a microsecond of overhead a step that a run does not have.
        """
        call = self._call(inputs, None, threads, split=True)
        call()
        runs = [call.times() for _ in range(repetitions)]
        return tuple(zip(*runs, strict=True)) if runs else ()

    def _call(
        self,
        inputs: Mapping[str, Array],
        out: Mapping[str, Array] | None,
        threads: int | None,
        *,
        split: bool,
    ) -> Call:
        arrays, copies = self._take(inputs)
        binding = self._binding(arrays, threads)
        outputs = self._outputs(binding, inputs, out or {})
        arena = aligned_empty(binding.arena_bytes, np.uint8)
        return binding.call(arrays, outputs, arena, copies, split=split)

    def _take(self, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], list[Action]]:
        """The inputs as kernels can read them, and the actions that copy them again."""
        given = as_arrays(inputs)
        if given.keys() != self._names:
            check_inputs(self.signature.inputs, given)
        arrays: dict[str, Array] = {}
        copies: list[Action] = []
        for name, dtype in self._inputs:
            array = given[name]
            usable, reason = array, None
            if dtype is None:
                if not array.flags.c_contiguous:
                    usable, reason = array.copy(), "non-contiguous"
            else:
                if array.dtype.name == "bfloat16" and dtype == np.uint16:
                    array = array.view(np.uint16)
                try:
                    usable, reason = as_kernel_input(array, dtype, dtype.alignment)
                except TypeError as error:
                    raise InputError(f"input {name!r}: {error}") from error
            if reason is not None:
                self._events.append(RunEvent("copy", name, reason))
                copies.append(partial(np.copyto, usable, array))
            arrays[name] = usable
        return arrays, copies

    def _binding(
        self, arrays: Mapping[str, Array], threads: int | None
    ) -> Binding | DynamicBinding:
        workers = _check_threads(threads) or self.threads
        key = (workers, tuple(array.shape for array in arrays.values()))
        with self._lock:
            found = self._bindings.get(key)
            if found is not None:
                self._bindings.move_to_end(key)
                return found
        sizes = bind_shapes(
            self.signature.inputs,
            {name: array.shape for name, array in arrays.items()},
            symbols=self.signature.symbols,
            guards=self.plan.guards,
            labels=self.parts.labels,
        )
        made = (Binding if self._static else DynamicBinding)(self._program, sizes, workers)
        with self._lock:
            self._bindings[key] = made
            while len(self._bindings) > BINDINGS:
                self._bindings.popitem(last=False)
        return made

    def _outputs(
        self,
        binding: Binding | DynamicBinding,
        inputs: Mapping[str, Array],
        out: Mapping[str, Array],
    ) -> dict[str, Array]:
        """Where results go: arrays of `out`, checked, and new ones where their shape is known."""
        for name in out:
            if name not in binding.outputs:
                known = ", ".join(binding.outputs)
                raise OutputError(f"there is no output {name!r}; outputs: {known}")
        found: dict[str, Array] = {}
        for name, spec in binding.outputs.items():
            if name in out:
                _check_out(name, out[name], spec)
                found[name] = out[name]
            elif spec is not None:
                found[name] = aligned_empty(*spec)
        if out:
            _check_overlaps(out, inputs)
        return found


def available_threads() -> int:
    """How many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Arenas:
    """Memory for intermediate values: one array for each call in flight, used again by the next.

    An idle array that is too small for a call is dropped and a larger one made, so an engine holds
    as many arrays as it had calls at once, whatever sizes it ran at.
    """

    def __init__(self) -> None:
        self._idle: list[Array] = []

    @contextmanager
    def lend(self, size: int) -> Generator[Array, None, None]:
        """A 64-byte aligned array of at least `size` bytes, for this block alone."""
        try:
            arena = self._idle.pop()  # list operations are atomic
        except IndexError:
            arena = None
        if arena is None or arena.nbytes < size:
            arena = aligned_empty(size, np.uint8)
        try:
            yield arena
        finally:
            self._idle.append(arena)


def _check_parts(parts: Parts) -> None:
    params = {b.source for b in parts.plan.buffers if b.kind == "param"}
    for name in sorted(params - parts.params.keys()):
        raise EngineError(f"the plan of {parts.name!r} reads weight {name!r}, which is not there")
    for step in parts.plan.steps:
        if isinstance(step, KernelStep):
            symbol = parts.kernels.get(step.kernel)
            if symbol is None or symbol not in parts.objects:
                raise EngineError(f"kernel {step.kernel!r} of {parts.name!r} was not built")
        elif isinstance(step, CallStep) and step.function != "matmul":
            value = step.outputs[0].value
            if step.function != "reference" or value not in parts.library:
                raise EngineError(f"{parts.name!r} has no library step that makes %{value}")


def as_arrays(inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs as arrays. InputError for what is no mapping, or no array."""
    if not hasattr(inputs, "items"):
        raise InputError("inputs are a mapping from names to arrays: {'x': array}")
    given: dict[str, Array] = {}
    for name, array in inputs.items():
        try:
            given[name] = np.asarray(array)
        except ValueError as error:
            raise InputError(f"input {name!r} is no array: {error}") from error
    return given


def _check_threads(threads: object) -> int | None:
    if threads is None:
        return None
    if not isinstance(threads, int) or threads < 1:
        raise InputError(f"threads is {threads}: give at least 1, a whole number, or None for all")
    return threads


def _aligned(array: Array) -> Array:
    """A weight as kernels can read it: itself where it lies right."""
    if array.dtype.hasobject or array.dtype.kind in "SUT":
        return array
    usable, _ = as_kernel_input(array, array.dtype.newbyteorder("="), ALIGNMENT)
    return usable


def _check_out(
    name: str, given: Array, spec: tuple[tuple[int, ...], np.dtype[np.generic]] | None
) -> None:
    if np.asanyarray(given) is not given:
        raise OutputError(f"out {name!r} is a {type(given).__name__}, expected an array")
    if spec is not None and (given.shape, given.dtype) != spec:
        raise OutputError(
            f"out {name!r} is {given.dtype}{format_shape(given.shape)}, "
            f"the result is {spec[1]}{format_shape(spec[0])}"
        )
    fault = (
        "is read-only" if not given.flags.writeable
        else "is not C-contiguous" if not given.flags.c_contiguous
        else "is not in this machine's byte order" if not given.dtype.isnative
        else "is not aligned" if not given.flags.aligned
        else ""
    )  # fmt: skip
    if fault:
        raise OutputError(f"out {name!r} {fault}: give a new array, for example of np.empty")


def _check_overlaps(out: Mapping[str, Array], inputs: Mapping[str, Array]) -> None:
    others = [("input", n, address_range(np.asarray(a))) for n, a in inputs.items()]
    for name, array in out.items():
        low, high = address_range(array)
        for kind, other, (start, stop) in others:
            if max(low, start) < min(high, stop):
                raise OutputError(
                    f"out {name!r} shares memory with {kind} {other!r}: give an array of its own"
                )
        others.append(("out", name, (low, high)))

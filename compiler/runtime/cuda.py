"""The engine on a GPU: the same plan, with everything it works on in the GPU's memory.

    inputs ──upload──► kernels, one after the other in a queue ──download──► results

A launch has one parameter: the address, in device memory, of its part of a table of extents and
buffer addresses. A binding works the table out once for a set of sizes; a call queues launches.
`launch` neither copies nor waits, and times are read off events in the queue, so what is measured
is the GPU's work. A kernel's grid is numbers too: the extents of its block loops at these sizes.

Library steps run on the host, with copies to and fro, and an event that says so.

Teaches: keep data where the work is; copy at the edges, and measure with the clock of the machine
that works.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from compiler.ir.binding import InputError, bind_shapes, evaluate_shape
from compiler.ir.dims import Dim
from compiler.ir.plan import BindStep, CallStep, CopyStep, KernelStep, Operand, align_up
from compiler.ir.types import Array, DType
from compiler.runtime.artifact import Parts, WrongMachine, read_artifact
from compiler.runtime.binding import (
    Call,
    OutputError,
    Spec,
    int64_words,
    is_static,
    plan_layout,
    storage,
)
from compiler.runtime.cuda_driver import (
    MOST_BLOCKS,
    CudaError,
    Device,
    DeviceArray,
    Event,
    Function,
    NoDevice,
)
from compiler.runtime.engine import Engine, EngineError, RunEvent
from compiler.runtime.library import Library, matmul

__all__ = [
    "CudaCall", "CudaEngine", "CudaError", "Device", "DeviceArray", "Grid", "NoDevice",
    "as_capability", "grids_of",
]  # fmt: skip

BINDINGS: Final = 16
SCRATCH_ALIGNMENT: Final = 256
POISON: Final = 0xFF
Value = Array | DeviceArray


@dataclass(frozen=True)
class Grid:
    """The block loops of a kernel, the innermost (x) last, and the threads of a block."""

    blocks: tuple[Dim, ...]
    threads: int

    def at(self, sizes: Mapping[str, int]) -> tuple[int, int]:
        """Blocks along x and y. A kernel goes on by itself where y ends."""
        counts = [d.evaluate(sizes) for d in self.blocks]
        x, y = counts[-1], counts[-2] if len(counts) > 1 else 1
        if x > MOST_BLOCKS[0]:
            raise CudaError(f"{x} blocks are more than a grid holds: use a smaller input")
        return x, min(y, MOST_BLOCKS[1])


def grids_of(parts: Parts) -> dict[str, Grid]:
    """kernel -> its grid, as an artifact keeps it. EngineError where it does not."""
    from compiler.ir.parser import parse_dim

    found: dict[str, Grid] = {}
    grids = parts.about.get("grids")
    for kernel in parts.kernels:
        entry = grids.get(kernel) if isinstance(grids, dict) else None
        if not isinstance(entry, dict):
            raise EngineError(f"kernel {kernel!r} of {parts.name!r} has no grid: build it again")
        blocks, threads = entry.get("blocks"), entry.get("threads")
        assert isinstance(blocks, list) and isinstance(threads, int)
        found[kernel] = Grid(tuple(parse_dim(str(b)) for b in blocks), threads)
    return found


def as_capability(about: Mapping[str, object]) -> tuple[int, int]:
    """For which GPUs an artifact was made; (0, 0) where it does not say."""
    match about.get("capability"):
        case [int(major), int(minor)]:
            return major, minor
        case _:
            return 0, 0


class CudaEngine(Engine):
    """A compiled model that runs on a GPU. Made by `on_gpu` or `load_gpu`.

    The device is opened when something first runs: an engine compiled for `cuda:ptx` exists where
    there is no GPU, and says so when it is asked to run.
    """

    def __init__(  # pyright: ignore[reportMissingSuperCall]
        self, parts: Parts, device: Device | None = None, phases: Mapping[str, float] | None = None
    ) -> None:
        self.parts = parts
        self.threads = 1
        self._device = device
        self._functions: dict[str, Function] | None = None
        self._params: dict[str, DeviceArray] = {}
        self._library = Library(parts.library)
        self._grids = grids_of(parts)
        self._inputs = [(name, storage(type.dtype)) for name, type in parts.signature.inputs]
        self._names = {name for name, _ in self._inputs}
        self._made: OrderedDict[object, _Sizes] = OrderedDict()
        self._lock = threading.Lock()
        self._events: deque[RunEvent] = deque(maxlen=256)
        self._phases = dict(phases or {})
        if not is_static(parts.signature, parts.plan):
            raise EngineError(
                f"{parts.name!r} has sizes that come from data, which a GPU can't run yet: "
                "compile it for cpu"
            )

    @staticmethod
    def load_gpu(folder: str | Path, device: Device | None = None) -> CudaEngine:
        """The engine in a folder that `save` wrote; compiles nothing. Raises ArtifactError."""
        start = time.perf_counter()
        parts = read_artifact(Path(folder))
        return CudaEngine(parts, device, {"read": (time.perf_counter() - start) * 1e3})

    # ---- the machine

    @property
    def device(self) -> Device:
        """The GPU, with this engine's code and weights on it. Raises NoDevice, WrongMachine."""
        with self._lock:
            if self._device is None:
                try:
                    self._device = Device.open()
                except NoDevice as error:
                    raise NoDevice(
                        f"{self.name!r} was compiled for a GPU, and none answers: {error}. "
                        "Its PTX can be read, and it runs where a GPU and its driver are"
                    ) from error
            if self._functions is None:
                self._link(self._device)
            return self._device

    def _link(self, device: Device) -> None:
        start = time.perf_counter()
        wanted = as_capability(self.parts.about)
        if wanted[0] != device.capability[0] or wanted > device.capability:
            raise WrongMachine(
                f"{self.name!r} was made for compute capability {wanted[0]}.{wanted[1]}, "
                f"{device.name} has {device.capability[0]}.{device.capability[1]}: compile the "
                "model again on this machine"
            )
        functions: dict[str, Function] = {}
        for symbol, code in self.parts.objects.items():
            (functions[symbol],) = device.load(code, [symbol])
        self._params = {name: device.upload(array) for name, array in self.parts.params.items()}
        self._functions = {k: functions[s] for k, s in self.parts.kernels.items()}
        self._phases["link"] = (time.perf_counter() - start) * 1e3

    @property
    def conditions(self) -> Mapping[str, str | int]:
        device = self.device
        return {
            "gpu": device.name,
            "capability": f"{device.capability[0]}.{device.capability[1]}",
            "driver": device.driver,
            "processors": device.processors,
        }

    # ---- running

    def run(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        inputs: Mapping[str, Value],
        out: Mapping[str, Array] | None = None,
        threads: int | None = None,
    ) -> dict[str, Array]:
        """The results for these inputs, by name, on the host. Errors as on a CPU, and NoDevice."""
        call = self.bind(inputs)
        call.launch()
        found = call.fetch()
        for name, target in (out or {}).items():
            if name not in found:
                raise OutputError(f"there is no output {name!r}; outputs: {', '.join(found)}")
            result = found[name]
            if (target.shape, target.dtype) != (result.shape, result.dtype):
                raise OutputError(f"out {name!r} does not fit {result.dtype}{list(result.shape)}")
            target[...] = result
            found[name] = target
        return found

    def bind(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        inputs: Mapping[str, Value],
        out: Mapping[str, DeviceArray] | None = None,
        threads: int | None = None,
    ) -> CudaCall:
        """Upload what is not on the GPU yet, and get what runs again and again on this memory.

        `out`: arrays on the GPU that results go to. `call.launch()` queues a run, `call()` uploads
        the host's inputs again, runs and downloads.
        """
        device = self.device
        held, refresh = self._upload(device, inputs)
        sizes = bind_shapes(
            self.signature.inputs,
            {name: array.shape for name, array in held.items()},
            symbols=self.signature.symbols,
            guards=self.plan.guards,
            labels=self.parts.labels,
        )
        key = tuple(array.shape for array in held.values())
        with self._lock:
            made = self._made.get(key)
            if made is None:
                made = self._made[key] = _Sizes(self, sizes)
                while len(self._made) > BINDINGS:
                    self._made.popitem(last=False)
        results: dict[str, DeviceArray] = {}
        for name, (shape, dtype) in made.outputs.items():
            given = (out or {}).get(name)
            if given is not None and (given.shape, given.dtype) != (shape, dtype):
                raise OutputError(f"out {name!r} does not fit {dtype}{list(shape)}")
            results[name] = given or device.empty(shape, dtype)
        return made.call(device, held, results, refresh)

    def per_step(
        self,
        inputs: Mapping[str, Array],
        repetitions: int = 1,
        threads: int | None = None,
    ) -> tuple[tuple[float, ...], ...]:
        """Seconds of each step of the plan by the GPU's events: `repetitions` a step."""
        call = self.bind(inputs)
        call.launch()
        runs = [call.times() for _ in range(repetitions)]
        return tuple(zip(*runs, strict=True)) if runs else ()

    def _upload(
        self, device: Device, inputs: Mapping[str, Value]
    ) -> tuple[dict[str, DeviceArray], list[Callable[[], object]]]:
        wrong = sorted(self._names.symmetric_difference(inputs))
        if wrong:
            known = ", ".join(sorted(self._names))
            raise InputError(f"inputs {', '.join(wrong)} are missing or unknown; give: {known}")
        held: dict[str, DeviceArray] = {}
        refresh: list[Callable[[], object]] = []
        for name, dtype in self._inputs:
            given = inputs[name]
            if dtype is None:
                raise InputError(f"input {name!r} is text, which a GPU can't hold")
            if isinstance(given, DeviceArray):
                if given.dtype != dtype:
                    raise InputError(f"input {name!r}: expected {dtype}, got {given.dtype}")
                held[name] = given
                continue
            array = np.asarray(given)
            if array.dtype.name == "bfloat16" and dtype == np.uint16:
                array = array.view(np.uint16)
            if array.dtype != dtype:
                raise InputError(f"input {name!r}: expected {dtype}, got {array.dtype}")
            self._events.append(RunEvent("copy", name, "to the GPU"))
            held[name] = device.upload(array)
            refresh.append(partial(held[name].from_host, array))
        return held, refresh

    def function(self, kernel: str) -> Function:
        assert self._functions is not None
        return self._functions[kernel]

    def grid(self, kernel: str) -> Grid:
        return self._grids[kernel]

    def param(self, name: str) -> DeviceArray:
        return self._params[name]

    def note(self, step: CallStep) -> None:
        """Say that a step runs on the host."""
        self._events.append(RunEvent("host", step.outputs[0].value, step.function))

    def reference(self, step: CallStep, arrays: Sequence[Array | None]) -> list[Array]:
        feeds: dict[str, Array] = {}
        types: dict[str, DType | None] = {}
        for operand, array in zip(step.inputs, arrays, strict=True):
            if operand is not None and array is not None:
                feeds[operand.value] = array
                types[operand.value] = operand.type.dtype
        return self._library.run(step.outputs[0].value, feeds, types, len(step.outputs))


@dataclass(frozen=True)
class _Launch:
    """A kernel step in numbers: where its part of the table starts, in words."""

    kernel: str
    grid: tuple[int, int]
    threads: int
    table: int


class _Sizes:
    """A plan at one set of sizes: the table as a template, the launches, the memory it takes."""

    def __init__(self, engine: CudaEngine, sizes: Mapping[str, int]) -> None:
        self.engine = engine
        self.sizes = sizes
        plan = engine.plan
        self.layout = plan_layout(plan, sizes)
        self.outputs: dict[str, Spec] = {}
        for name, type in engine.signature.outputs:
            dtype = storage(type.dtype)
            assert dtype is not None
            self.outputs[name] = evaluate_shape(type, sizes), dtype
        self.buffers = {b.name: b for b in plan.buffers}
        self.launches: dict[int, _Launch] = {}
        self.places: list[tuple[int, str]] = []
        self.scratch: list[tuple[int, int]] = []
        self.table: list[int] = []
        most = align_up(self.layout.peak, SCRATCH_ALIGNMENT)
        self.arena_bytes = most
        for k, step in enumerate(plan.steps):
            if not isinstance(step, KernelStep):
                continue
            grid = engine.grid(step.kernel)
            extents = [d.evaluate(sizes) for d in step.extents]
            names = _extent_names(engine, step)
            self.launches[k] = _Launch(
                step.kernel, grid.at(dict(zip(names, extents, strict=True))), grid.threads,
                len(self.table),
            )  # fmt: skip
            self.table += extents
            for operand in step.operands:
                self.places.append((len(self.table), operand.buffer))
                self.table.append(0)
            at = most
            for size in step.scratch:
                self.scratch.append((len(self.table), at))
                self.table.append(0)
                at += align_up(size.evaluate(sizes), SCRATCH_ALIGNMENT)
            self.arena_bytes = max(self.arena_bytes, at)

    def call(
        self,
        device: Device,
        inputs: Mapping[str, DeviceArray],
        outputs: Mapping[str, DeviceArray],
        refresh: Sequence[Callable[[], object]],
    ) -> CudaCall:
        arena = device.empty((self.arena_bytes,), np.dtype(np.uint8))
        where: dict[str, int] = {}
        for buffer in self.engine.plan.buffers:
            match buffer.kind:
                case "input":
                    where[buffer.name] = inputs[buffer.source].address
                case "output":
                    where[buffer.name] = outputs[buffer.source].address
                case "param":
                    where[buffer.name] = self.engine.param(buffer.source).address
                case _:
                    where[buffer.name] = arena.address + self.layout.offsets[buffer.name]
        words = int64_words(self.table or [0])
        for slot, buffer in self.places:
            words[slot] = where[buffer]
        for slot, offset in self.scratch:
            words[slot] = arena.address + offset
        table = device.upload(words)
        steps: list[Callable[[], object]] = []
        for k, step in enumerate(self.engine.plan.steps):
            match step:
                case KernelStep():
                    launch = self.launches[k]
                    if 0 in launch.grid:
                        steps.append(_nothing)
                        continue
                    at = table.address + 8 * launch.table
                    function = self.engine.function(launch.kernel)
                    steps.append(
                        partial(device.launch, function, launch.grid, launch.threads, at)
                    )
                case CopyStep():
                    size = step.source.type.nbytes.evaluate(self.sizes)
                    source, target = where[step.source.buffer], where[step.target.buffer]
                    steps.append(partial(device.copy, target, source, size))
                case CallStep():
                    steps.append(partial(self._on_host, device, step, where))
                case BindStep():
                    raise AssertionError("a plan with bind steps is not static")
        keep = (arena, table, inputs, self.engine)
        return CudaCall(device, steps, dict(outputs), refresh, keep)

    def _on_host(self, device: Device, step: CallStep, where: Mapping[str, int]) -> None:
        """A library step: what it reads comes to the host, what it makes goes back."""
        self.engine.note(step)

        def view(operand: Operand) -> DeviceArray:
            dtype = storage(operand.type.dtype)
            assert dtype is not None
            shape = evaluate_shape(operand.type, self.sizes)
            return DeviceArray(device, where[operand.buffer], shape, dtype, None)

        device.synchronize()
        arrays = [None if o is None else view(o).to_host() for o in step.inputs]
        if step.function == "matmul":
            target = view(step.outputs[0])
            result: Array = np.empty(target.shape, target.dtype)
            left, right = (a for a in arrays if a is not None)
            matmul(_spec_of(step), left, right, result)()
            results = [result]
        else:
            results = self.engine.reference(step, arrays)
        for operand, result in zip(step.outputs, results, strict=True):
            view(operand).from_host(result)


def _nothing() -> None:
    """A launch without blocks."""


def _spec_of(step: CallStep) -> str:
    return next(v for name, v in step.attrs if name == "spec" and isinstance(v, str))


def _extent_names(engine: CudaEngine, step: KernelStep) -> list[str]:
    """The names of a kernel's extents: those its grid is written in, as the artifact keeps them."""
    grids = engine.parts.about.get("grids")
    entry = grids.get(step.kernel) if isinstance(grids, dict) else None
    names = entry.get("extents") if isinstance(entry, dict) else None
    assert isinstance(names, list)
    return [str(n) for n in names]


class CudaCall(Call):
    """One run with everything fixed, on the GPU.

    `on_gpu` are the results there. `launch()` queues a run; `fetch()` waits and downloads;
    `call()` does both, after uploading the host's inputs again.
    """

    __slots__ = ("_refresh", "_steps_on_gpu", "device", "on_gpu")

    def __init__(
        self,
        device: Device,
        steps: Sequence[Callable[[], object]],
        outputs: dict[str, DeviceArray],
        refresh: Sequence[Callable[[], object]],
        keep: tuple[object, ...],
    ) -> None:
        super().__init__([], {}, keep, slice(None))
        self.device = device
        self.on_gpu = outputs
        self._steps_on_gpu = tuple(steps)
        self._refresh = tuple(refresh)

    def launch(self) -> None:
        """Queue a run; it neither copies nor waits (library steps do both)."""
        for step in self._steps_on_gpu:
            step()

    def poison(self) -> None:
        """Fill the results with 0xFF, NaN in every float: what a run does not write shows."""
        for array in self.on_gpu.values():
            array.fill(POISON)

    def fetch(self) -> dict[str, Array]:
        """The results on the host, when all that was queued is done."""
        self.device.synchronize()
        for name, array in self.on_gpu.items():
            self.outputs[name] = array.to_host(self.outputs.get(name))
        return self.outputs

    def __call__(self) -> dict[str, Array]:
        for action in self._refresh:
            action()
        self.launch()
        return self.fetch()

    def times(self) -> tuple[float, ...]:
        """Run once; the seconds of each step by events in the queue."""
        marks = [Event(self.device) for _ in range(len(self._steps_on_gpu) + 1)]
        marks[0].record()
        for step, mark in zip(self._steps_on_gpu, marks[1:], strict=True):
            step()
            mark.record()
        self.device.synchronize()
        pairs = zip(marks[1:], marks, strict=False)
        return tuple(end.milliseconds_since(start) * 1e-3 for end, start in pairs)

    def milliseconds(self, repetitions: int) -> list[float]:
        """Times of whole runs, queued one behind the other, by events in the queue."""
        return self.device.times(self.launch, repetitions)

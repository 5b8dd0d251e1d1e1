"""A plan with numbers: what is worked out once for a set of sizes, and a call made from it.

    table = [extents…, addresses…, scratch strides…]  a kernel step after the other, int64
    steps = [kernel, its part of the table, extent, parallel?]                      int64[n, 4]

A binding holds both as templates in which only the places that differ from call to call are open:
where the arena lies, and where the caller's arrays lie. A call fills them in. Consecutive kernel
steps become one stretch, which the plan runner walks; library and copy steps stand between.

Where sizes come from data (`bind` steps) or a value has no type before it is there, nothing can be
worked out in advance: `DynamicBinding` walks the plan step by step and gives each value memory of
its own.

Teaches: what depends on the sizes is paid once for them; what is left for a call is addresses.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from compiler.ir.binding import (
    BindingError,
    check_guards,
    check_symbols,
    evaluate_shape,
    format_shape,
    solve_shape,
)
from compiler.ir.graph import Origin
from compiler.ir.plan import (
    BindStep,
    Buffer,
    CallStep,
    CopyStep,
    Interval,
    KernelStep,
    Layout,
    Operand,
    Plan,
    Signature,
    align_up,
    assign_offsets,
)
from compiler.ir.types import Array, DType, TensorType
from compiler.runtime.addresses import ALIGNMENT, address_of, aligned_empty
from compiler.runtime.library import Action, Library, LibraryError, matmul
from compiler.runtime.native import STEP_WORDS, NativeCode

PARALLEL_WORK: Final = 1 << 15
"""Iterations of innermost loops from which a step is split over threads: below, waking them costs
more than it saves."""

Spec = tuple[tuple[int, ...], np.dtype[np.generic]]
"""Shape and type of an array."""


class OutputError(BindingError):
    """An array given as `out` that results can't be written to."""


@dataclass(frozen=True)
class Program:
    """What all bindings of an engine share.

    `addresses`: kernel -> where its code starts; `params`: weight -> array; `labels`: node
    position -> what to call it in messages.
    """

    signature: Signature
    plan: Plan
    buffers: Mapping[str, Buffer]
    code: NativeCode
    addresses: Mapping[str, int]
    params: Mapping[str, Array]
    library: Library
    labels: Mapping[Origin, str]


class Call:
    """One run with everything fixed: calling it computes `outputs`, and gives them back.

    Every call reads the inputs' memory as it is then, and writes the same outputs. It keeps all
    arrays alive. Two threads must not call the same one at once: make one each.
    """

    __slots__ = ("_actions", "_keep", "_steps", "outputs")

    def __init__(
        self,
        actions: Sequence[Action],
        outputs: dict[str, Array],
        keep: tuple[object, ...],
        steps: slice,
    ) -> None:
        self._actions = tuple(actions)
        self._keep = keep
        self._steps = steps
        self.outputs = outputs

    def __call__(self) -> dict[str, Array]:
        for action in self._actions:
            action()
        return self.outputs

    def times(self) -> tuple[float, ...]:
        """Run once; the seconds that each action between start and end took, in their order."""
        seconds: list[float] = []
        for action in self._actions:
            start = time.perf_counter()
            action()
            seconds.append(time.perf_counter() - start)
        return tuple(seconds[self._steps])


def storage(dtype: DType | None) -> np.dtype[np.generic] | None:
    """How elements lie in memory: bfloat16 as its bits in uint16. None: text, or not known."""
    if dtype is None or dtype is DType.string:
        return None
    return np.dtype(np.uint16) if dtype is DType.bf16 else dtype.numpy()


def is_static(signature: Signature, plan: Plan) -> bool:
    """Whether the inputs' shapes tell every size: then all runs go through a `Binding`."""
    free: set[str] = set()
    for _, type in signature.inputs:
        free |= type.symbols()

    def told(type: TensorType) -> bool:
        return type.known and storage(type.dtype) is not None and type.symbols() <= free

    if any(b.kind == "object" or not b.size.symbols() <= free for b in plan.buffers):
        return False
    if not all(told(type) for _, type in signature.outputs):
        return False
    for step in plan.steps:
        if isinstance(step, BindStep) or not all(told(o.type) for o in operands_of(step)):
            return False
    return True


def operands_of(step: KernelStep | CallStep | CopyStep) -> tuple[Operand, ...]:
    """All values that a step reads and writes."""
    match step:
        case KernelStep():
            return step.operands
        case CallStep():
            return (*(o for o in step.inputs if o is not None), *step.outputs)
        case CopyStep():
            return (step.source, step.target)


def plan_layout(plan: Plan, sizes: Mapping[str, int]) -> Layout:
    """Where the arena's buffers lie for these sizes. KeyError names a symbol without a size."""
    return assign_offsets(
        [
            Interval(b.name, b.size.evaluate(sizes), b.start, b.stop)
            for b in plan.buffers
            if b.kind == "arena"
        ]
    )


@dataclass(frozen=True)
class _Launch:
    """A kernel step in numbers; `strides` are bytes of scratch a worker, `workers` how many."""

    extents: tuple[int, ...]
    extent: int
    parallel: bool
    strides: tuple[int, ...]
    workers: int


def _launch(step: KernelStep, sizes: Mapping[str, int], threads: int) -> _Launch:
    extent = step.parallel.evaluate(sizes)
    wide = extent > 1 and threads > 1 and step.work.evaluate(sizes) >= PARALLEL_WORK
    return _Launch(
        tuple(d.evaluate(sizes) for d in step.extents),
        extent,
        wide,
        tuple(align_up(d.evaluate(sizes), ALIGNMENT) for d in step.scratch),
        min(threads, extent) if wide else 1,
    )


def int64_words(numbers: Sequence[int]) -> npt.NDArray[np.int64]:
    """int64[n]. BindingError for sizes beyond that."""
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        raise BindingError("64 bits do not count these sizes: give smaller inputs") from None


def _spec_of(step: CallStep) -> str:
    for name, value in step.attrs:
        if name == "spec" and isinstance(value, str):
            return value
    raise BindingError(f"the product %{step.outputs[0].value} has no spec: build the engine again")


def _reference(
    library: Library, step: CallStep, arrays: Sequence[Array | None]
) -> list[Array]:
    """Results of a reference step from the arrays of its inputs, which it must not write."""
    feeds: dict[str, Array] = {}
    types: dict[str, DType | None] = {}
    for operand, array in zip(step.inputs, arrays, strict=True):
        if operand is not None and array is not None:
            feeds[operand.value] = array
            types[operand.value] = operand.type.dtype
    return library.run(step.outputs[0].value, feeds, types, len(step.outputs))


class Binding:
    """A plan for one set of sizes and threads.

    `outputs`: shape and type of every result; `arena_bytes`: planned memory plus scratch that one
    call needs, at a 64-byte aligned address.
    """

    def __init__(self, program: Program, sizes: Mapping[str, int], threads: int) -> None:
        self.program = program
        self.sizes = sizes
        self.threads = threads
        self.layout = plan_layout(program.plan, sizes)
        self.outputs: dict[str, Spec | None] = {
            name: (evaluate_shape(type, sizes), _stored(type))
            for name, type in program.signature.outputs
        }
        self._room = {b.name: self._bytes_of(b) for b in program.plan.buffers}
        table: list[int] = []
        steps: list[tuple[int, int, int, int]] = []
        in_arena: list[int] = []
        self._outside: dict[str, list[int]] = {}
        scratch = 0
        for step in program.plan.steps:
            assert not isinstance(step, BindStep)
            for operand in operands_of(step):
                self._check_room(operand)
            if not isinstance(step, KernelStep):
                continue
            launch = _launch(step, sizes, threads)
            steps.append(
                (
                    program.addresses[step.kernel],
                    8 * len(table),
                    launch.extent,
                    int(launch.parallel),
                )
            )
            table += launch.extents
            for operand in step.operands:
                buffer = program.buffers[operand.buffer]
                place = 0
                if buffer.kind == "arena":
                    in_arena.append(len(table))
                    place = self.layout.offsets[buffer.name]
                elif buffer.kind == "param":
                    place = address_of(program.params[buffer.source])
                else:
                    self._outside.setdefault(buffer.name, []).append(len(table))
                table.append(place)
            at = self.layout.peak
            for stride in launch.strides:
                in_arena.append(len(table))
                table.append(at)
                at += stride * launch.workers
            table += launch.strides
            scratch = max(scratch, at - self.layout.peak)
        self._table = int64_words(table)
        self._steps = int64_words([word for step in steps for word in step]).reshape(-1, STEP_WORDS)
        self._in_arena = np.array(in_arena, np.intp)
        self.arena_bytes = self.layout.peak + scratch

    def _bytes_of(self, buffer: Buffer) -> int:
        if buffer.kind == "param":
            return self.program.params[buffer.source].nbytes
        return buffer.size.evaluate(self.sizes)

    def _check_room(self, operand: Operand) -> None:
        needed = operand.type.nbytes.evaluate(self.sizes)
        if needed > self._room[operand.buffer]:
            raise BindingError(
                f"%{operand.value} takes {needed} bytes, its buffer {operand.buffer!r} has "
                f"{self._room[operand.buffer]}: build the engine again"
            )

    def call(
        self,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array],
        arena: Array,
        refresh: Sequence[Action] = (),
        *,
        split: bool = False,
    ) -> Call:
        """A call on these arrays, all usable as they lie; `refresh` is done before each run.

        With `split` every step of the plan is an action of its own, which `Call.times` measures.
        """
        memory: dict[str, tuple[Array, int]] = {}
        table, steps = self._table.copy(), self._steps.copy()
        table[self._in_arena] += address_of(arena)
        steps[:, 1] += address_of(table)
        for buffer in self.program.plan.buffers:
            match buffer.kind:
                case "input":
                    place = inputs[buffer.source], 0
                case "output":
                    place = outputs[buffer.source], 0
                case "param":
                    place = self.program.params[buffer.source], 0
                case _:
                    place = arena, self.layout.offsets[buffer.name]
            memory[buffer.name] = place
        for name, positions in self._outside.items():
            table[positions] = address_of(memory[name][0])
        actions = self._actions(memory, address_of(steps), split)
        keep = (table, steps, arena, inputs, outputs, self.program)
        wanted = slice(len(refresh), None)
        return Call([*refresh, *actions], dict(outputs), keep, wanted)

    def _actions(
        self, memory: Mapping[str, tuple[Array, int]], steps: int, split: bool
    ) -> list[Action]:
        def view(operand: Operand, *, written: bool = False) -> Array:
            array, offset = memory[operand.buffer]
            shape = evaluate_shape(operand.type, self.sizes)
            found = np.ndarray(shape, _stored(operand.type), array, offset)
            found.flags.writeable = written
            return found

        actions: list[Action] = []
        first = last = 0  # the stretch of kernel steps since the last other step

        def close() -> None:
            nonlocal first
            if last > first:
                at = steps + 8 * STEP_WORDS * first
                actions.append(partial(self.program.code.run, at, last - first, self.threads))
            first = last

        for step in self.program.plan.steps:
            match step:
                case KernelStep():
                    last += 1
                    if split:
                        close()
                    continue
                case CopyStep():
                    close()
                    source, target = view(step.source), view(step.target, written=True)
                    actions.append(partial(np.copyto, target, source))
                case CallStep(function="matmul"):
                    close()
                    left, right = (view(o) for o in step.inputs if o is not None)
                    out = view(step.outputs[0], written=True)
                    actions.append(matmul(_spec_of(step), left, right, out))
                case CallStep():
                    close()
                    arrays = [None if o is None else view(o) for o in step.inputs]
                    targets = [view(o, written=True) for o in step.outputs]
                    actions.append(partial(self._call_reference, step, arrays, targets))
                case BindStep():
                    raise AssertionError("a plan with bind steps is not static")
        close()
        return actions

    def _call_reference(
        self, step: CallStep, arrays: Sequence[Array | None], targets: Sequence[Array]
    ) -> None:
        results = _reference(self.program.library, step, arrays)
        for operand, result, target in zip(step.outputs, results, targets, strict=True):
            if result.dtype != target.dtype or result.shape != target.shape:
                raise _unlike(operand, result, target.dtype, target.shape)
            np.copyto(target, result)


def _stored(type: TensorType) -> np.dtype[np.generic]:
    found = storage(type.dtype)
    assert found is not None
    return found


def _unlike(
    operand: Operand, result: Array, dtype: np.dtype[np.generic], shape: Sequence[int]
) -> LibraryError:
    return LibraryError(
        f"the library gave %{operand.value} as {result.dtype}{format_shape(result.shape)}, the "
        f"model means {dtype}{format_shape(shape)}: correct the model's declared types"
    )


class DynamicBinding:
    """A plan whose sizes come partly from data: sizes are found, and memory made, as it runs.

    `outputs` tells shape and type of the results that the inputs' shapes determine.
    """

    arena_bytes: Final = 0

    def __init__(self, program: Program, sizes: Mapping[str, int], threads: int) -> None:
        self.program = program
        self.sizes = sizes
        self.threads = threads
        self.outputs: dict[str, Spec | None] = {}
        for name, type in program.signature.outputs:
            dtype = storage(type.dtype)
            told = type.known and dtype is not None and type.symbols() <= sizes.keys()
            self.outputs[name] = (evaluate_shape(type, sizes), dtype) if told and dtype else None
        self.leaving: list[list[str]] = [[] for _ in program.plan.steps]
        for b in program.plan.buffers:
            if b.kind in ("arena", "object") and b.stop < len(self.leaving):
                self.leaving[b.stop].append(b.name)

    def call(
        self,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array],
        arena: Array,
        refresh: Sequence[Action] = (),
        *,
        split: bool = False,
    ) -> Call:
        """As `Binding.call`; results that are not among `outputs` are new in each run."""
        run = _DynamicRun(self, inputs, outputs)
        steps = [partial(run.step, k) for k in range(len(self.program.plan.steps))]
        before = len(refresh) + 1
        wanted = slice(before, before + len(steps))
        return Call([*refresh, run.begin, *steps, run.end], run.results, (), wanted)


class _DynamicRun:
    """The memory of one call: buffer -> array; and the sizes known so far."""

    def __init__(
        self, binding: DynamicBinding, inputs: Mapping[str, Array], given: Mapping[str, Array]
    ) -> None:
        self.binding = binding
        self.program = binding.program
        self.inputs = inputs
        self.given = given
        self.results: dict[str, Array] = {}
        self.sizes: dict[str, int] = {}
        self.memory: dict[str, Array] = {}
        self.made: dict[str, tuple[TensorType, tuple[int, ...]]] = {}
        """Value of a library step -> its declared type and its shape."""

    def begin(self) -> None:
        self.sizes = dict(self.binding.sizes)
        self.made.clear()
        self.memory.clear()
        for b in self.program.plan.buffers:
            if b.kind == "input":
                self.memory[b.name] = self.inputs[b.source]
            elif b.kind == "param":
                self.memory[b.name] = self.program.params[b.source]

    def step(self, position: int) -> None:
        step = self.program.plan.steps[position]
        match step:
            case KernelStep():
                self.kernel(step)
            case CopyStep():
                self.store(step.target, self.view(step.source))
            case CallStep(function="matmul"):
                left, right = (self.view(o) for o in step.inputs if o is not None)
                matmul(_spec_of(step), left, right, self.place(step.outputs[0]))()
            case CallStep():
                arrays = [None if o is None else self.read_only(o) for o in step.inputs]
                results = _reference(self.program.library, step, arrays)
                for operand, result in zip(step.outputs, results, strict=True):
                    self.made[operand.value] = operand.type, result.shape
                    self.store(operand, result)
            case BindStep():
                self.bind(step)
        for name in self.binding.leaving[position]:
            self.memory.pop(name, None)

    def bind(self, step: BindStep) -> None:
        known = dict(self.sizes)
        type, shape = self.made[step.value]
        for axis, symbol in step.symbols:
            self.sizes[symbol] = shape[axis]
        solve_shape(f"%{step.value}", type, shape, self.sizes)
        signature, plan = self.program.signature, self.program.plan
        check_symbols(signature.symbols, self.sizes)
        check_guards(plan.guards, self.sizes, known=known, labels=self.program.labels)

    def kernel(self, step: KernelStep) -> None:
        launch = _launch(step, self.sizes, self.binding.threads)
        first_written = len(step.operands) - step.outputs
        arrays = [
            self.place(o) if k >= first_written else self.view(o)
            for k, o in enumerate(step.operands)
        ]
        arrays += [aligned_empty(s * launch.workers, np.uint8) for s in launch.strides]
        table = int64_words([*launch.extents, *(address_of(a) for a in arrays), *launch.strides])
        row = (
            self.program.addresses[step.kernel],
            address_of(table),
            launch.extent,
            int(launch.parallel),
        )
        steps = np.array(row, np.int64)
        self.program.code.run(address_of(steps), 1, self.binding.threads)

    def view(self, operand: Operand) -> Array:
        """The value in its buffer's memory; as it was made where its type is not known."""
        found = self.memory[operand.buffer]
        if not operand.type.known or not operand.type.symbols() <= self.sizes.keys():
            return found
        shape = evaluate_shape(operand.type, self.sizes)
        dtype = storage(operand.type.dtype)
        if dtype is None:
            return found.reshape(shape)
        needed = operand.type.nbytes.evaluate(self.sizes)
        if needed > found.nbytes:
            raise BindingError(
                f"%{operand.value} takes {needed} bytes, its buffer {operand.buffer!r} has "
                f"{found.nbytes}: build the engine again"
            )
        return np.ndarray(shape, dtype, found)

    def read_only(self, operand: Operand) -> Array:
        found = self.view(operand).view()
        found.flags.writeable = False
        return found

    def place(self, operand: Operand) -> Array:
        """Where a kernel or a product writes a value: memory of its own, or the caller's."""
        buffer = self.program.buffers[operand.buffer]
        if buffer.name not in self.memory:
            size = buffer.size.evaluate(self.sizes)
            given = self.given.get(buffer.source) if buffer.kind == "output" else None
            if given is not None and given.nbytes != size:
                raise _unfit(buffer.source, given, f"{size} bytes")
            self.memory[buffer.name] = aligned_empty(size, np.uint8) if given is None else given
        return self.view(operand)

    def store(self, operand: Operand, result: Array) -> None:
        """Keep a copy of what a library made; kernels can read it."""
        dtype = storage(operand.type.dtype)
        if dtype is not None and result.dtype != dtype:
            raise _unlike(operand, result, dtype, result.shape)
        solve_shape(
            f"the library's %{operand.value}", operand.type, result.shape, dict(self.sizes),
            partial=True,
        )  # fmt: skip
        buffer = self.program.buffers[operand.buffer]
        given = self.given.get(buffer.source) if buffer.kind == "output" else None
        if given is not None:
            if given.dtype != result.dtype or given.size != result.size:
                wanted = f"{result.dtype}{format_shape(result.shape)}"
                raise _unfit(buffer.source, given, wanted)
            given.reshape(result.shape)[...] = result
            self.memory[buffer.name] = given
        elif result.dtype.hasobject or result.dtype.kind in "SUT":
            self.memory[buffer.name] = result.copy()
        else:
            kept = aligned_empty(result.shape, result.dtype)
            kept[...] = result
            self.memory[buffer.name] = kept

    def end(self) -> None:
        """Collect the results, in the order of the signature."""
        sources = {b.source: b for b in self.program.plan.buffers if b.kind == "output"}
        self.results.clear()
        for name, type in self.program.signature.outputs:
            found = self.view(Operand(name, sources[name].name, type))
            given = self.given.get(name)
            if given is not None and given.shape != found.shape:
                raise _unfit(name, given, f"{found.dtype}{format_shape(found.shape)}")
            self.results[name] = found if given is None else given
        self.memory.clear()


def _unfit(name: str, given: Array, wanted: str) -> OutputError:
    return OutputError(
        f"out {name!r} is {given.dtype}{format_shape(given.shape)}, the result is {wanted}: "
        "leave it out, or give an array of that shape"
    )

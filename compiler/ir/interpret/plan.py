"""The plan, step by step, over a poisoned arena.

    a buffer is poison before the step that `start` names, and poison again after `stop`

Memory is laid out as the engine lays it out, from the same `assign_offsets`. A step that reads a
value before it is there or after it is gone, or two live buffers that share bytes, then give a
wrong result instead of an accidental right one. Callers' inputs and weights are read-only here.

Teaches: sharing memory is a proof about time; when the proof is wrong, the numbers are.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

import numpy as np
import numpy.typing as npt

from ..binding import bind_symbols, check_guards, evaluate_shape, solve_shape
from ..graph import Op, Value
from ..loops import Kernel
from ..module import Module
from ..params import ParamStore
from ..plan import (
    BindStep,
    Buffer,
    CallStep,
    CopyStep,
    Interval,
    KernelStep,
    Operand,
    Plan,
    Step,
    assign_offsets,
)
from ..types import Array, DType, TensorType
from .loops import run_kernel
from .tensor import ExternRunner, InterpretError, captured, contiguous, contract

Bytes = npt.NDArray[np.uint8]


def run_plan(
    module: Module,
    inputs: Mapping[str, Array],
    params: ParamStore,
    externs: ExternRunner | None = None,
) -> dict[str, Array]:
    """Run `module.plan` on `inputs`; results by the outputs' outside names.

    Errors: those of `bind_symbols`, InterpretError for a plan that cannot be run (it names step
    and values), and those of `run_kernel`.
    """
    plan = module.plan
    if plan is None:
        raise InterpretError("the module has no plan")
    typed = [(v.name, v.type) for v in module.graph.inputs]
    guards = tuple(dict.fromkeys((*module.guards, *plan.guards)))
    sizes = bind_symbols(typed, inputs, symbols=module.dims, guards=guards)
    return PlanRun(module, plan, sizes, inputs, params, externs).run()


class PlanRun:
    """One run: memory of every buffer, and the symbols known so far.

    A subclass may watch steps, and run kernels (`launch`) in another way.
    """

    def __init__(
        self,
        module: Module,
        plan: Plan,
        sizes: dict[str, int],
        inputs: Mapping[str, Array],
        params: ParamStore,
        externs: ExternRunner | None,
    ) -> None:
        self.module = module
        self.plan = plan
        self.sizes = sizes
        self.externs = externs
        self.types = module.graph.types()
        self.producers = module.graph.producer()
        self.memory: dict[str, Bytes] = {}
        self.objects: dict[str, Array] = {}
        """Buffer -> array, where a buffer has no planned bytes (yet)."""
        self.shapes: dict[str, tuple[int, ...]] = {}
        """Value -> the shape that a library step gave it."""
        self.floats = _float_buffers(plan)
        self.place_inputs(inputs, params)
        self.place_sized()

    # ---- memory

    def place_inputs(self, inputs: Mapping[str, Array], params: ParamStore) -> None:
        for buffer in self.plan.buffers:
            if buffer.kind == "input":
                array = inputs[buffer.source]
            elif buffer.kind == "param":
                array = params.get(self.module.param(buffer.source).digest)
            else:
                continue
            if array.dtype.kind in "OUST":
                self.objects[buffer.name] = array
                continue
            native = contiguous(array.astype(array.dtype.newbyteorder("=")))
            native.flags.writeable = False
            self.objects[buffer.name] = native  # as it is, for steps that know no type
            self.memory[buffer.name] = native.reshape(-1).view(np.uint8)

    def place_sized(self) -> None:
        """Memory for every buffer whose size has just become known: an arena, and outputs."""
        fresh = [
            b
            for b in self.plan.buffers
            if b.kind in ("arena", "output")
            and b.name not in self.memory
            and b.size.symbols() <= self.sizes.keys()
        ]
        arena = [b for b in fresh if b.kind == "arena"]
        intervals = [
            Interval(b.name, b.size.evaluate(self.sizes), b.start, b.stop) for b in arena
        ]
        layout = assign_offsets(intervals)
        memory = np.full(layout.peak, 0xA5, np.uint8)
        for interval in intervals:
            at = layout.offsets[interval.name]
            self.memory[interval.name] = memory[at : at + interval.size]
        for b in fresh:
            if b.kind == "output":
                self.memory[b.name] = np.empty(b.size.evaluate(self.sizes), np.uint8)
            self.poison(b)
            if b.name in self.objects:  # made before its size was known
                made = contiguous(self.objects.pop(b.name)).reshape(-1).view(np.uint8)
                self.memory[b.name][: made.size] = made

    def poison(self, buffer: Buffer) -> None:
        """NaN in every float type, 0xA5 bytes for the rest."""
        if buffer.name in self.memory:
            self.memory[buffer.name][...] = 0xFF if buffer.name in self.floats else 0xA5

    def known(self, type: TensorType) -> bool:
        """Whether a value of this type lies in planned memory: it has a size, now."""
        sized = type.known and type.dtype is not DType.string
        return sized and type.symbols() <= self.sizes.keys()

    def array(self, operand: Operand, written: bool = False) -> Array:
        """The operand's array over its buffer's memory (bfloat16 as its bits in uint16); read-only
        unless `written`."""
        known = self.known(operand.type)
        if operand.buffer not in self.memory or not known:
            if operand.buffer not in self.objects:
                raise InterpretError(f"%{operand.value} is read, buffer {operand.buffer} is empty")
            made = self.objects[operand.buffer]
            return made.reshape(evaluate_shape(operand.type, self.sizes)) if known else made
        memory = self.memory[operand.buffer]
        shape = evaluate_shape(operand.type, self.sizes)
        bits = operand.type.dtype is DType.bf16
        dtype: np.dtype[np.generic] = np.dtype(np.uint16) if bits else operand.type.element.numpy()
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if count > memory.size:
            raise InterpretError(
                f"%{operand.value} takes {count} bytes, buffer {operand.buffer} has {memory.size}"
            )
        view = memory[:count].view(dtype).reshape(shape)
        if not written:
            view.flags.writeable = False
        return view

    # ---- steps

    def run(self) -> dict[str, Array]:
        arena = [b for b in self.plan.buffers if b.kind == "arena"]
        for position, step in enumerate(self.plan.steps):
            for b in arena:
                if b.start == position:
                    self.poison(b)
            try:
                self.step(step)
            except InterpretError as error:
                raise InterpretError(f"step {position}: {error}") from error
            for b in arena:
                if b.stop == position:
                    self.poison(b)
        return self.results()

    def step(self, step: Step) -> None:
        match step:
            case KernelStep():
                self.kernel(step)
            case CallStep():
                self.call(step)
            case CopyStep():
                self.write(step.target, self.array(step.source))
            case BindStep():
                known = dict(self.sizes)
                shape = self.shapes[step.value]
                self.sizes.update((symbol, shape[axis]) for axis, symbol in step.symbols)
                value_type = self.types.get(step.value)
                if value_type is not None:
                    solve_shape(f"%{step.value}", value_type, shape, self.sizes)
                guards = (*self.module.guards, *self.plan.guards)
                check_guards(guards, self.sizes, known=known)
                self.place_sized()

    def kernel(self, step: KernelStep) -> None:
        kernel = self.module.kernel(step.kernel)
        args = [a for a in kernel.args if a.mode != "scratch"]
        if len(args) != len(step.operands):
            raise InterpretError(f"@{kernel.name} takes {len(args)} buffers")
        values = [d.evaluate(self.sizes) for d in step.extents]
        extents = dict(zip(kernel.extents, values, strict=True))
        first_written = len(args) - step.outputs
        buffers = {
            arg.name: self.array(operand, position >= first_written).reshape(
                evaluate_shape(arg.type, extents)
            )
            for position, (arg, operand) in enumerate(zip(args, step.operands, strict=True))
        }
        if step.parallel.evaluate(self.sizes):
            self.launch(kernel, extents, buffers)

    def launch(
        self, kernel: Kernel, extents: Mapping[str, int], buffers: Mapping[str, Array]
    ) -> None:
        """Run a kernel whose domain is not empty on its buffers, scratch left out."""
        run_kernel(kernel, extents, buffers)

    def call(self, step: CallStep) -> None:
        if step.function == "matmul":
            spec = dict(step.attrs)["spec"]
            present = [self.array(o) for o in step.inputs if o is not None]
            if not isinstance(spec, str) or len(present) != 2:
                raise InterpretError(f"matmul of {len(present)} operands, spec {spec}")
            self.write(step.outputs[0], contract(spec, *present))
            return
        if self.externs is None:
            raise InterpretError("a library step, and no library was given to run it")
        op = self.library_op(step)
        given = {o.value: o for o in step.inputs if o is not None}
        operands = [given.get(name) if name else None for name in (*op.inputs, *captured(op))]
        arrays = [None if o is None else self.array(o) for o in operands]
        types = [None if o is None else self.types.get(o.value, o.type) for o in operands]
        results = self.externs.run(op, arrays, types)
        for operand, result in zip(step.outputs, results, strict=True):
            self.write(operand, np.asarray(result))

    def library_op(self, step: CallStep) -> Op:
        """The graph's op behind a library step; made from the step when the graph lacks it."""
        op = self.producers.get(step.outputs[0].value)
        if op is not None:
            return op
        names = tuple(None if o is None else o.value for o in step.inputs)
        outputs = tuple(Value(o.value, o.type) for o in step.outputs)
        return Op(f"call.{step.function}", names, outputs, step.attrs, (), step.origins)

    def write(self, target: Operand, result: Array) -> None:
        """Into planned memory, or, for a value without a known size, an object of its own."""
        self.shapes[target.value] = result.shape
        if target.type.dtype is DType.bf16:
            result = result.view(np.uint16)
        if target.buffer not in self.memory or not self.known(target.type):
            self.objects[target.buffer] = deepcopy(result)  # a sequence holds views of memory
            return
        place = self.array(target, written=True)
        if result.dtype != place.dtype or result.size != place.size:
            raise InterpretError(
                f"%{target.value} is {result.dtype}{list(result.shape)}, "
                f"planned {place.dtype}{list(place.shape)}"
            )
        place[...] = result.reshape(place.shape)

    def results(self) -> dict[str, Array]:
        found: dict[str, Array] = {}
        names = self.module.graph.names or self.module.graph.outputs
        for name, value in zip(names, self.module.graph.outputs, strict=True):
            buffer = self.output_buffer(name, value)
            type = self.types.get(value, TensorType(None, None))
            found[name] = self.array(Operand(value, buffer, type)).copy()
        return found

    def output_buffer(self, name: str, value: str) -> str:
        for b in self.plan.buffers:
            if b.kind == "output" and b.source == name:
                return b.name
        for b in self.plan.buffers:
            if b.kind == "object" and value in b.members:
                return b.name
        raise InterpretError(f"output {name!r} (%{value}) has no buffer")


def _float_buffers(plan: Plan) -> frozenset[str]:
    """Buffers that some step sees as floating point."""
    found: set[str] = set()
    for step in plan.steps:
        match step:
            case KernelStep():
                operands: tuple[Operand | None, ...] = step.operands
            case CallStep():
                operands = (*step.inputs, *step.outputs)
            case CopyStep():
                operands = (step.source, step.target)
            case BindStep():
                operands = ()
        for o in operands:
            if o is not None and o.type.dtype in (DType.f16, DType.bf16, DType.f32, DType.f64):
                found.add(o.buffer)
    return frozenset(found)

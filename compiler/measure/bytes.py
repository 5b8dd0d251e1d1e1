"""Bytes of a plan as closed forms over the model's symbols, read off its access maps.

    floor(plan) = sum over steps of   elements read before they are written, times their size
                                    + elements written, times their size

    kernel   its access maps over the extents of the launch; 0 where its domain is empty
    call     inputs plus outputs, once each: the word for it is "logical"
    copy     what is read plus what is written

Scalar constants are literals of the code and count nothing. *Touched* counts every load and store.

Teaches: what fusion saves can be written down before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compiler.ir.access import floor, touched
from compiler.ir.dims import ONE, ZERO, Dim
from compiler.ir.graph import Origins
from compiler.ir.loops import Kernel
from compiler.ir.module import Module
from compiler.ir.plan import BindStep, CallStep, CopyStep, KernelStep, Operand, Step
from compiler.ir.printer import canonical_kernel
from compiler.measure.operations import call_operations, kernel_operations
from compiler.trace import Json


@dataclass(frozen=True)
class StepBytes:
    """One step. Bytes hold where `domain` is not 0; there they are 0. `floor` is what must be read
    and written, `touched` every load and store; `operations` counts arithmetic (`operations.py`).

    None: the type of a value is known only when it is there, or an extent depends on an axis.
    `exact`: the floor is the number itself, not only an upper bound. `kind` is `kernel`, `call`
    or `copy`; `name` the kernel's, the library function's or the copied value's.
    """

    name: str
    kind: str
    reads: Dim | None
    writes: Dim | None
    touched: Dim | None
    operations: Dim | None
    exact: bool
    domain: Dim
    origins: Origins

    @property
    def floor(self) -> Dim | None:
        return None if self.reads is None or self.writes is None else self.reads + self.writes

    def floor_at(self, sizes: Mapping[str, int]) -> int | None:
        """The floor in bytes. No more than what is touched: an empty loop reads no row vector."""
        least, every = _at(self.floor, self.domain, sizes), self.touched_at(sizes)
        return least if least is None or every is None else min(least, every)

    def touched_at(self, sizes: Mapping[str, int]) -> int | None:
        return _at(self.touched, self.domain, sizes)

    def operations_at(self, sizes: Mapping[str, int]) -> int | None:
        return _at(self.operations, self.domain, sizes)

    @property
    def formula(self) -> str | None:
        """The floor as text: `12*cols*rows+8*cols`."""
        return None if self.floor is None else str(self.floor)

    def to_json(self) -> dict[str, Json]:
        """What `floor_at` needs, as text: `{floor, touched, domain, exact}`."""
        return {
            "floor": self.formula,
            "touched": None if self.touched is None else str(self.touched),
            "domain": str(self.domain),
            "exact": self.exact,
        }


def _at(value: Dim | None, domain: Dim, sizes: Mapping[str, int]) -> int | None:
    if value is None or not (value.symbols() | domain.symbols()) <= sizes.keys():
        return None
    return value.evaluate(sizes) if domain.evaluate(sizes) else 0


def step_bytes(module: Module) -> tuple[StepBytes, ...]:
    """One entry for each launch of the plan (binding steps move nothing). ValueError without a
    plan."""
    if module.plan is None:
        raise ValueError("the module has no plan: bytes are counted step by step")
    return tuple(
        _step(step, module) for step in module.plan.steps if not isinstance(step, BindStep)
    )


def _step(step: Step, module: Module) -> StepBytes:
    match step:
        case KernelStep():
            return _kernel(step, module.kernel(step.kernel))
        case CallStep():
            name = step.function if step.function != "reference" else _operator(step)
            work = call_operations(step)
            return _moved(name, "call", step.inputs, step.outputs, step.origins, work)
        case CopyStep():
            source, target = step.source, step.target
            return _moved(source.value, "copy", (source,), (target,), step.origins)
        case BindStep():
            raise ValueError("a binding step moves nothing")


def _moved(
    name: str,
    kind: str,
    read: Iterable[Operand | None],
    written: Iterable[Operand | None],
    origins: Origins,
    operations: Dim | None = ZERO,
) -> StepBytes:
    """A step that reads each of its inputs and writes each of its outputs once."""
    reads, writes = _operands(read), _operands(written)
    both = None if reads is None or writes is None else reads + writes
    return StepBytes(name, kind, reads, writes, both, operations, True, ONE, origins)


def _operator(step: CallStep) -> str:
    """`NonZero` of a step that the reference evaluator computes."""
    found = dict(step.attrs).get("op")
    return found.removeprefix("onnx.") if isinstance(found, str) else step.function


def _operands(operands: Iterable[Operand | None]) -> Dim | None:
    total = ZERO
    for operand in operands:
        if operand is None:
            continue
        try:
            total = total + operand.type.nbytes
        except ValueError:  # no rank, no element type, or text
            return None
    return total


def _kernel(step: KernelStep, kernel: Kernel) -> StepBytes:
    extents = dict(zip(kernel.extents, step.extents, strict=True))
    try:
        least, every = floor(kernel), touched(kernel)
    except ValueError:  # an extent over an axis
        return StepBytes(
            kernel.name, "kernel", None, None, None, None, False, step.parallel, step.origins
        )
    placed = least.substitute(extents)
    return StepBytes(
        kernel.name,
        "kernel",
        sum((t.reads * t.arg.type.element.itemsize for t in placed.arguments), ZERO),
        sum((t.writes * t.arg.type.element.itemsize for t in placed.arguments), ZERO),
        every.substitute(extents).nbytes,
        kernel_operations(kernel).substitute(extents),
        least.exact,
        step.parallel,
        step.origins,
    )


def total_floor(steps: Iterable[StepBytes], sizes: Mapping[str, int]) -> int | None:
    """The floor of a run: the sum over its steps; None where one is not known."""
    return _total(s.floor_at(sizes) for s in steps)


def total_touched(steps: Iterable[StepBytes], sizes: Mapping[str, int]) -> int | None:
    """Every load and store of a run, in bytes; library steps logically."""
    return _total(s.touched_at(sizes) for s in steps)


def _total(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def floor_formula(steps: Iterable[StepBytes]) -> str | None:
    """The floor of a run as a polynomial over the symbols, where no step's domain is 0; None where
    a step is not known."""
    total = ZERO
    for step in steps:
        if step.floor is None:
            return None
        total = total + step.floor
    return str(total)


def distinct_kernels(module: Module) -> int:
    """Kernels that differ in more than the names of their values: what is compiled."""
    return len({canonical_kernel(k) for k in module.kernels})

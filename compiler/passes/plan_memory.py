"""Plan memory: which values share which bytes, from when to when, with sizes still symbolic.

A value is live from the step that writes it to the last step that reads it; a view lives in its
operand's class, and so does a result that a kernel writes over an operand (`inplace`). Two classes
may share bytes when their live ranges do not meet. The offsets are numbers, so each binding of the
sizes computes its own.

Teaches: memory follows from live ranges, not from the number of values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from compiler.ir.dims import ONE, ZERO, Dim, product
from compiler.ir.edits import Event, PlanEdit, apply, parameters
from compiler.ir.graph import Op
from compiler.ir.loops import For, Kernel
from compiler.ir.module import Module
from compiler.ir.plan import (
    BindStep,
    Buffer,
    CallStep,
    CopyStep,
    KernelStep,
    Operand,
    Plan,
    Step,
)
from compiler.ir.types import KernelRef, ParamRef, TensorType
from compiler.passes.base import Context, Pass, PassError, Result

LEAVES = ("const", "dims")


@dataclass(frozen=True)
class PlanMemory(Pass):
    """`plan-memory{share=false}` keeps every buffer to itself, from the first step to the last."""

    share: bool = True

    name: ClassVar[str] = "plan-memory"
    required: ClassVar[bool] = True
    unit: ClassVar[str] = "steps"
    level: ClassVar[str] = "loops"
    after: ClassVar[tuple[str, ...]] = ("lower-loops",)

    def run(self, module: Module, context: Context) -> Result:
        plan = _Planner(module, self.share).plan()
        edit = PlanEdit(plan)
        values = parameters(steps=plan.launches(), buffers=len(plan.buffers))
        event = Event("plan", "", (edit,), "plan.done", values)
        return Result(apply(module, edit), (event,))


class _Planner:
    def __init__(self, module: Module, share: bool) -> None:
        self.module = module
        self.share = share
        self.types = module.graph.types()
        self.root: dict[str, str] = {}
        self.kind: dict[str, tuple[str, str]] = {}
        self.members: dict[str, list[str]] = {}
        self.steps: list[Step] = []
        self.start: dict[str, int] = {}
        self.stop: dict[str, int] = {}

    def plan(self) -> Plan:
        graph = self.module.graph
        for v in graph.inputs:
            self._own(v.name, "input", v.name)
        for op in graph.ops:
            self._classify(op)
        copies = self._assign_outputs()
        free = self._input_symbols()
        for op in graph.ops:
            self._step(op, free)
        for source, target in copies:
            self._copy(source, target)
        return Plan(tuple(self.steps), self._buffers(), self.module.guards)

    # ---- alias classes

    def _own(self, name: str, kind: str, source: str = "") -> None:
        self.root[name] = name
        self.kind[name] = (kind, source)
        self.members[name] = [name]

    def _join(self, name: str, other: str) -> None:
        """A value that lives in the memory of another."""
        root = self.root[other]
        self.root[name] = root
        self.members[root].append(name)

    def _classify(self, op: Op) -> None:
        if op.kind == "param":
            ref = op.get("param")
            assert isinstance(ref, ParamRef)
            self._own(op.key, "param", ref.name)
        elif op.kind == "reshape":
            self._join(op.key, op.operands[0])
        elif op.kind == "launch" or op.family == "call":
            over = self.module.written_over(op) if op.kind == "launch" else {}
            for v in op.outputs:
                if v.name in over:
                    self._join(v.name, over[v.name])
                else:
                    self._own(v.name, "arena" if v.type.sized else "object")
        elif op.kind not in LEAVES:
            raise PassError("plan-memory", f"{op.kind} is no step", op.key, op.origins)

    def _assign_outputs(self) -> list[tuple[str, str]]:
        """Classes that the caller reads become output buffers; the rest are copied at the end:
        (value, output name)."""
        copies: list[tuple[str, str]] = []
        for name, value in dict(self.module.graph.results).items():
            root = self.root[value]
            if self.kind[root][0] == "arena":
                self.kind[root] = ("output", name)
            else:
                copies.append((value, name))
        return copies

    def _input_symbols(self) -> set[str]:
        known: set[str] = set()
        for v in self.module.graph.inputs:
            known |= v.type.symbols()
        return known

    # ---- steps

    def _operand(self, name: str, type: TensorType | None = None) -> Operand:
        root = self.root[name]
        self.stop[root] = len(self.steps)
        return Operand(name, root, type or self.types[name])

    def _born(self, name: str) -> Operand:
        root = self.root[name]
        self.start.setdefault(root, len(self.steps))
        self.stop[root] = len(self.steps)
        return Operand(name, root, self.types[name])

    def _step(self, op: Op, free: set[str]) -> None:
        if op.kind == "launch":
            self.steps.append(self._launch(op))
        elif op.family == "call":
            inputs = tuple(self._operand(n) if n is not None else None for n in op.inputs)
            outputs = tuple(self._born(v.name) for v in op.outputs)
            self.steps.append(CallStep(op.function, inputs, outputs, op.attrs, op.origins))
            for v in op.outputs:
                fresh: list[tuple[int, str]] = []
                for axis, d in enumerate(v.type.shape or ()):
                    symbol = d.symbol
                    if symbol is not None and symbol not in free:
                        fresh.append((axis, symbol))
                        free.add(symbol)
                if fresh:
                    self.steps.append(BindStep(v.name, tuple(fresh), op.origins))

    def _launch(self, op: Op) -> KernelStep:
        ref = op.get("kernel")
        assert isinstance(ref, KernelRef)
        kernel = self.module.kernel(ref.name)
        over = self.module.written_over(op).values()
        values = {n: v for n, v in op.attrs if isinstance(v, Dim)}
        extents = {n: values[n] for n in kernel.extents}
        operands = tuple(self._operand(n) for n in op.operands if n not in over)
        results = tuple(self._born(v.name) for v in op.outputs)
        scratch = tuple(
            a.type.nbytes.substitute(extents) for a in kernel.args if a.mode == "scratch"
        )
        loops, _ = kernel.parallel()
        parallel = product(loop.extent for loop in loops).substitute(extents)
        return KernelStep(
            kernel.name,
            tuple(extents[n] for n in kernel.extents),
            (*operands, *results),
            scratch,
            parallel,
            work_of(kernel).substitute(extents),
            len(results),
            op.origins,
        )

    def _copy(self, source: str, target: str) -> None:
        operand = self._operand(source)
        name = f"{target}:out"
        self.root[name] = name
        self.kind[name] = ("output", target)
        self.members[name] = [name]
        self.start[name] = self.stop[name] = len(self.steps)
        self.steps.append(CopyStep(operand, Operand(name, name, operand.type)))

    # ---- buffers

    def _buffers(self) -> tuple[Buffer, ...]:
        last = max(0, len(self.steps) - 1)
        found: list[Buffer] = []
        for name, (kind, source) in self.kind.items():
            type = self.types.get(name)
            if type is None:
                type = next(
                    s.target.type
                    for s in self.steps
                    if isinstance(s, CopyStep) and s.target.value == name
                )
            held = kind in ("input", "param") or not self.share
            start = 0 if held else self.start[name]
            stop = last if held or kind == "output" else self.stop.get(name, start)
            size = type.nbytes if kind != "object" and type.sized else ZERO
            found.append(Buffer(name, kind, source, tuple(self.members[name]), size, start, stop))
        return tuple(found)


def work_of(kernel: Kernel) -> Dim:
    """Iterations of all innermost loops: a measure of how much a launch has to do."""
    total = ZERO

    def visit(body: tuple[object, ...], times: Dim) -> None:
        nonlocal total
        inner = [s for s in body if isinstance(s, For)]
        if not inner:
            total = total + times
        for loop in inner:
            visit(loop.body, times * loop.extent)

    visit(kernel.body, ONE)
    return total

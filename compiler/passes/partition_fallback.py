"""partition-fallback: what the compiler lacks becomes a library step, with its reason.

    %y = onnx.Conv %x, %w     ─►     %y = extern %x, %w {op="onnx.Conv", opset=17}

Every node is decomposed on trial; where that fails the node goes to the reference evaluator and
the graph breaks there. Integers that follow from shapes alone stay: they are folded next. `force`
sends nodes to the library that could be compiled, by the name of a result or by `#position`.

Teaches: a graph break should have a reason, and be no refusal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.errors import ForceError, UnsupportedOperator
from compiler.ir.edits import Event, Ops
from compiler.ir.graph import Op, reads
from compiler.ir.module import Module
from compiler.ops.base import Malformed, Unsupported
from compiler.ops.decomposition import known_is_better, why_not
from compiler.ops.shape_values import Walk
from compiler.ops.views import as_extern, operator_name, opset_of

from .base import Context, Pass, Result
from .nodes import break_parameters, file_of, malformed, node_label, place


@dataclass(frozen=True)
class PartitionFallback(Pass):
    """`partition-fallback`: needs inferred shapes. `force`: names of results, or `#positions`."""

    force: tuple[str, ...] = ()

    name: ClassVar[str] = "partition-fallback"
    required: ClassVar[bool] = True
    level: ClassVar[str] = "onnx"
    after: ClassVar[tuple[str, ...]] = ("infer-shapes",)

    def run(self, module: Module, context: Context) -> Result:
        """One sweep; an event with rule `break` for each library step.

        ForceError when `force` names nothing; UnsupportedOperator for a node that the reference
        evaluator lacks too; ModelError for one that makes no sense.
        """
        self._check_force(module)
        walk = Walk(module, context.params, {v.name: v.type for v in module.graph.inputs})
        data = module.data_symbols
        events: list[Event] = []
        ops: list[Op] = []
        for at, op in enumerate(module.graph.ops):
            context.check()
            elements = walk.visit(op)
            known = elements is not None and known_is_better(op, elements, data)
            reason: Unsupported | None = None
            if op.family == "onnx":
                if self._forced(op):
                    reason = Unsupported("break.forced")
                elif not known:
                    try:
                        reason = self._why_not(op, walk)
                    except Malformed as error:
                        raise malformed(op, module, context, error) from error
            if reason is None:
                ops.append(op)
                continue
            step = library_step(op, opset_of(op, module))
            _require_library(op, module, context)
            ops.append(step)
            events.append(
                Event(
                    "break", op.key, (Ops(removed=(op.key,), added=((at, step),)),),
                    reason.message, break_parameters(op, module, reason),
                )
            )  # fmt: skip
        if not events:
            return Result(module)
        graph = replace(module.graph, ops=tuple(ops))
        return Result(replace(module, graph=graph), tuple(events))

    def _why_not(self, op: Op, walk: Walk) -> Unsupported | None:
        reason = why_not(walk.view(op))
        if reason is None and not all(v.type.known for v in op.outputs):
            return Unsupported("break.type-unknown", input=op.key)
        return reason

    def _forced(self, op: Op) -> bool:
        names = {place(op), *(v.name for v in op.outputs)}
        return any(f in names for f in self.force)

    def _check_force(self, module: Module) -> None:
        nodes = [op for op in module.graph.ops if op.family == "onnx"]
        names = [v.name for op in nodes for v in op.outputs]
        known = {*names, *map(place, nodes)}
        for f in self.force:
            if f not in known:
                raise ForceError("force.unknown", name=f, known=", ".join(names))


def library_step(op: Op, opset: int) -> Op:
    """The `extern` that runs an ONNX node; what its regions capture becomes explicit inputs."""
    step = as_extern(op, opset)
    captured = tuple(dict.fromkeys(name for name in reads(op)[len(op.operands) :]))
    if not captured:
        return step
    inputs = (*step.inputs, *captured)
    return replace(step, inputs=inputs).with_attrs(captured=len(captured))


def _require_library(op: Op, module: Module, context: Context) -> None:
    """UnsupportedOperator when the reference evaluator cannot run the node, or one inside it."""
    from compiler.frontend.reference import lacking  # onnx takes a second to import

    reason = lacking(op, module, context.params)
    if not reason:
        return
    for region in op.regions:
        for inner in region.ops:
            if inner.family == "onnx":
                _require_library(inner, module, context)
    domain, name = operator_name(op)
    raise UnsupportedOperator(
        node_label(op, module), domain, op=name, reason=reason, file=file_of(module, context)
    )

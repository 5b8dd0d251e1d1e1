"""Lower groups to loop nests, library contractions and graph breaks to calls.

    fused { … }            ->  launch @k        with  kernel @k = loop nest of the group
    contract{library=f}    ->  call.f
    extern                 ->  call.reference

Constants that a call or the caller needs become weights, dimensions that they need become a small
kernel that writes them. What nobody reads any more goes.

Teaches: below the graph there are only loops over memory, and calls into libraries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.ir.dims import Dim
from compiler.ir.edits import Edit, Event, KernelEdit, Ops, Params, apply, parameters
from compiler.ir.graph import Op, Param, reads
from compiler.ir.loops import Kernel
from compiler.ir.module import Module
from compiler.ir.types import KernelRef, ParamRef, attrs
from compiler.lower.contract import lower_contract
from compiler.lower.kernels import Lowered, lower_dims, lower_group
from compiler.passes.base import Context, Pass, PassError, Result, constant_of

LEAVES = ("const", "param", "dims")
VIEWS = ("reshape",)


@dataclass(frozen=True)
class LowerLoops(Pass):
    """`lower-loops`: after `fuse`; leaves leaves, views, launches and calls."""

    name: ClassVar[str] = "lower-loops"
    required: ClassVar[bool] = True
    unit: ClassVar[str] = "kernels"
    level: ClassVar[str] = "loops"
    after: ClassVar[tuple[str, ...]] = ("decompose", "fuse")

    def run(self, module: Module, context: Context) -> Result:
        wanted = self._read_by_calls_or_caller(module)
        events: list[Event] = []
        state = module
        done: list[str] = []
        index = 0
        for op in module.graph.ops:
            context.check()
            at = len(done)
            edits, rule, message, values = self._lower(op, module, context, wanted, at, index)
            if edits:
                events.append(Event(rule, op.key, edits, message, parameters(**values)))
                for edit in edits:
                    state = apply(state, edit)
                if rule == "drop-leaf":
                    continue
                index += any(isinstance(e, KernelEdit) for e in edits)
            done.append(op.key)
        if not events:
            return Result(module)
        return Result(state, tuple(events))

    def _read_by_calls_or_caller(self, module: Module) -> dict[str, bool]:
        """value -> whether a call or the caller reads it, for every value that is read outside
        launches."""
        found: dict[str, bool] = {}
        for op in module.graph.ops:
            for name in reads(op) if op.kind != "fused" else op.operands:
                found[name] = found.get(name, False) or op.kind != "fused"
        for name in module.graph.outputs:
            found[name] = True
        return found

    def _lower(
        self,
        op: Op,
        module: Module,
        context: Context,
        wanted: dict[str, bool],
        position: int,
        index: int,
    ) -> tuple[tuple[Edit, ...], str, str, dict[str, str | int]]:
        def swap(*new: Op) -> Ops:
            return Ops((), (op.key,), tuple((position + k, o) for k, o in enumerate(new)))

        if op.kind == "fused":
            name = f"k{index}"
            try:
                contract = op.str("group", "") == "contract"
                lowered = lower_contract(name, op) if contract else lower_group(name, op)
            except (ValueError, KeyError) as error:
                raise PassError(self.name, str(error), op.key, op.origins) from error
            launch = make_launch(op, lowered)
            edits: tuple[Edit, ...] = (KernelEdit(name, lowered.kernel), swap(launch))
            ops = len(op.regions[0].ops)
            return edits, "lower-group", "lower.group", {"kernel": name, "ops": ops}
        if op.kind == "contract":
            library = op.str("library", "")
            if not library:
                raise PassError(self.name, "no loop nest for a contraction", op.key, op.origins)
            call = replace(op, kind=f"call.{library}", attrs=attrs(spec=op.str("spec")))
            return (swap(call),), "lower-call", "lower.call", {"function": library}
        if op.kind == "extern":
            call = replace(op, kind="call.reference")
            return (swap(call),), "lower-call", "lower.call", {"function": "reference"}
        if op.kind in ("const", "dims"):
            return self._leaf(op, module, context, wanted, swap, index)
        if op.kind == "param":
            if op.key not in wanted:
                return (swap(),), "drop-leaf", "lower.drop", {"value": op.key}
            return (), "", "", {}
        if op.kind in VIEWS or op.kind == "launch" or op.family == "call":
            return (), "", "", {}
        raise PassError(self.name, f"{op.kind} is in no group", op.key, op.origins)

    def _leaf(
        self,
        op: Op,
        module: Module,
        context: Context,
        wanted: dict[str, bool],
        swap: Callable[..., Ops],
        index: int,
    ) -> tuple[tuple[Edit, ...], str, str, dict[str, str | int]]:
        if op.key not in wanted:
            return (swap(),), "drop-leaf", "lower.drop", {"value": op.key}
        array = constant_of(op, module, context.params)
        if array is not None:
            shape = [d.constant or 0 for d in op.type.dims]
            digest = context.params.add(np.array(array).reshape(shape))
            param = Param(op.key, op.type, digest)
            new = replace(op, kind="param", attrs=attrs(param=ParamRef(op.key)))
            edits: tuple[Edit, ...] = (Params((), (param,)), swap(new))
            return edits, "lower-constant", "lower.constant", {"value": op.key}
        name = f"k{index}"
        lowered = lower_dims(name, op)
        launch = make_launch(op, lowered)
        edits = (KernelEdit(name, lowered.kernel), swap(launch))
        return edits, "lower-dims", "lower.dims", {"kernel": name, "value": op.key}


def make_launch(op: Op, lowered: Lowered) -> Op:
    """The launch of a kernel in the place of the op that it came from."""
    kernel: Kernel = lowered.kernel
    extents: dict[str, Dim] = dict(zip(kernel.extents, lowered.extents, strict=True))
    attributes = attrs(kernel=KernelRef(kernel.name), **extents)
    return replace(op, kind="launch", attrs=attributes, regions=())

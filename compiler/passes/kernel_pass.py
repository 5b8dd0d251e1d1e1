"""A pass that looks at one kernel after the other and changes nothing else.

    for k in kernels: k -> k'  (or a refusal with its reason)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from compiler.ir.edits import Event, KernelEdit, Parameters, apply
from compiler.ir.loops import Kernel
from compiler.ir.module import Module
from compiler.passes.base import Context, Pass, Refusal, Result


@dataclass(frozen=True)
class KernelRewrite:
    """The kernel that takes the place of the one at hand; it keeps name and operands."""

    rule: str
    message: str
    parameters: Parameters
    kernel: Kernel


@dataclass(frozen=True)
class KernelPass(Pass):
    """Base of the passes on loop trees."""

    unit: ClassVar[str] = "kernels"
    level: ClassVar[str] = "loops"
    after: ClassVar[tuple[str, ...]] = ("lower-loops",)

    def run(self, module: Module, context: Context) -> Result:
        state = module
        events: list[Event] = []
        for kernel in module.kernels:
            context.check()
            for outcome in self.rewrite_kernel(kernel, context):
                edits = ()
                if isinstance(outcome, KernelRewrite):
                    edits = (KernelEdit(kernel.name, outcome.kernel),)
                    state = apply(state, edits[0])
                events.append(
                    Event(outcome.rule, kernel.name, edits, outcome.message, outcome.parameters)
                )
        return Result(state, tuple(events))

    def rewrite_kernel(
        self, kernel: Kernel, context: Context
    ) -> Iterable[KernelRewrite | Refusal]:
        """What to do with one kernel: at most one rewrite, and refusals worth telling."""
        raise NotImplementedError(self.name)

"""Emit Numba source for every kernel.

    symbol(kernel) = digest(canonical loop tree with argument modes, helper texts, flags, machine)

Kernels with equal trees get one symbol, whatever their values are called, and compile once.

Teaches: the code of a kernel is text that a person can read, and its name says what is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from compiler.codegen.cpu import Emitted, emit_kernel, kernel_symbol
from compiler.ir.edits import Event, SourceEdit, apply, parameters
from compiler.ir.loops import Kernel
from compiler.ir.module import Module, Source
from compiler.passes.base import Context, Pass, Result

MATH = ("poly", "libm")


@dataclass(frozen=True)
class Emit(Pass):
    """`emit{math=libm}` calls the C library where the default `poly` uses vector polynomials."""

    math: str = "poly"

    name: ClassVar[str] = "emit"
    required: ClassVar[bool] = True
    unit: ClassVar[str] = "sources"
    level: ClassVar[str] = "source"
    after: ClassVar[tuple[str, ...]] = ("lower-loops", "plan-memory")

    def __post_init__(self) -> None:
        if self.math not in MATH:
            raise ValueError(f"math is one of {', '.join(MATH)}, not {self.math!r}")

    def run(self, module: Module, context: Context) -> Result:
        if not module.kernels:
            return Result(module)
        environment, write = _target(context, self.math)
        mode = f"{context.numerics} {self.math}"
        state = module
        events: list[Event] = []
        first: dict[str, str] = {}
        for kernel in module.kernels:
            context.check()
            symbol = kernel_symbol(kernel, *environment, mode)
            emitted = write(kernel, symbol)
            source = Source(kernel.name, symbol, emitted.text, emitted.lines, math=self.math)
            edit = SourceEdit(kernel.name, source)
            state = apply(state, edit)
            same = first.setdefault(symbol, kernel.name)
            message = "emit.done" if same == kernel.name else "emit.same"
            lines = emitted.text.count("\n")
            values = parameters(kernel=kernel.name, lines=lines, same=same, symbol=symbol)
            events.append(Event("emit", kernel.name, (edit,), message, values))
        return Result(state, tuple(events))


Writer = Callable[[Kernel, str], Emitted]


def _target(context: Context, math: str) -> tuple[tuple[str, ...], Writer]:
    """What code depends on beside the kernel, and what writes its source."""
    if context.gpu:
        from compiler.codegen import numba_cuda_api
        from compiler.codegen.cuda import emit_cuda_kernel

        digest = numba_cuda_api.helper_digest(context.strict, math)
        return (digest, f"sm_{context.capability}"), emit_cuda_kernel
    from compiler.codegen.numba_api import helper_digest
    from compiler.runtime.native import cpu_features

    return (helper_digest(context.strict, math), *cpu_features()), emit_kernel

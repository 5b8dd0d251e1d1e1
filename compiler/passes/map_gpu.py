"""Divide every kernel among the threads of a GPU.

    par i in r { vec j in c { … } }   ->   block by, block bx, lane t { … four elements … }

`lower/cuda.py` has the three ways and when each applies; the event of a kernel says which it was,
and why where it is one thread an iteration. Extents that a launch always gives the same number,
and the sizes assumed for symbols, decide how many warps do a row; every size is right.

Stands where `stream-stores` stands for a CPU.

Teaches: parallelism is a choice made after fusion, by a rewrite that can be read and checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from compiler.ir.dims import Dim
from compiler.ir.edits import Event, KernelEdit, apply, parameters
from compiler.ir.module import Module
from compiler.ir.types import KernelRef
from compiler.lower.cuda import Options, schedule
from compiler.passes.base import Context, Pass, PassError, Result

_DEFAULT = Options()


@dataclass(frozen=True)
class MapGpu(Pass):
    """`map-gpu{threads=256,rows=0,chunks=0,warps=0,block=4,stream=true}`: `lower.cuda.Options`.

    Does nothing for a CPU.
    """

    threads: int = _DEFAULT.threads
    rows: int = _DEFAULT.rows
    chunks: int = _DEFAULT.chunks
    warps: int = _DEFAULT.warps
    block: int = _DEFAULT.block
    stream: bool = _DEFAULT.stream

    name: ClassVar[str] = "map-gpu"
    unit: ClassVar[str] = "kernels"
    level: ClassVar[str] = "loops"
    after: ClassVar[tuple[str, ...]] = ("lower-loops",)

    def __post_init__(self) -> None:
        for value, least, most, word in (
            (self.threads, 1, 1024, "threads"), (self.rows, 0, 16, "rows"),
            (self.chunks, 0, 32, "chunks"), (self.warps, 0, 32, "warps"),
            (self.block, 1, 32, "block"),
        ):  # fmt: skip
            if not least <= value <= most:
                raise ValueError(f"{word} is from {least} to {most}, not {value}")
        for value, word in ((self.threads, "threads"), (self.warps, "warps")):
            if value & (value - 1):
                raise ValueError(f"{word} is a power of two, not {value}")

    def run(self, module: Module, context: Context) -> Result:
        if not context.gpu:
            events = tuple(
                Event("map", k.name, (), "gpu.target", parameters(kernel=k.name))
                for k in module.kernels
            )
            return Result(module, events)
        options = Options(
            self.threads, self.rows, self.chunks, self.warps, self.block, self.stream
        )
        state = module
        events: tuple[Event, ...] = ()
        for launch in module.graph.ops:
            ref = launch.get("kernel")
            if launch.kind != "launch" or not isinstance(ref, KernelRef):
                continue
            context.check()
            kernel = state.kernel(ref.name)
            given = {name: d for name, d in launch.attrs if isinstance(d, Dim)}
            exact = {n: v for n, d in given.items() if (v := d.constant) is not None}
            assumed = {
                n: d.evaluate(context.sizes)
                for n, d in given.items()
                if d.symbols() <= context.sizes.keys()
            }
            try:
                made = schedule(kernel, exact, assumed, options)
            except ValueError as error:
                raise PassError(self.name, str(error), launch.key, launch.origins) from error
            edit = KernelEdit(kernel.name, made.kernel)
            state = apply(state, edit)
            values = parameters(kernel=kernel.name)
            events = (*events, Event("map", kernel.name, (edit,), made.reason, values))
        return Result(state, events)

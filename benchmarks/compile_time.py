"""Compile time by pass, of models of 125, 250 and 500 nodes: is every pass about linear?

    exponent = log2( time at 2n nodes / time at n nodes )        1: linear, 2: quadratic

The models are 5, 10 and 20 equal blocks with weights of their own, so they have equally many
different kernels, and `build` should compile equally many.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import compiler
from benchmarks.models import BLOCK_NODES, blocks

BLOCKS = (5, 10, 20)


@dataclass(frozen=True)
class Compiled:
    """One model: milliseconds by pass (in their order), the kernels of its plan and how many of
    them were compiled."""

    nodes: int
    milliseconds: Mapping[str, float]
    kernels: int
    compiled: int

    @property
    def passes(self) -> float:
        """Milliseconds of all passes but `build`, which is LLVM's time."""
        return sum(ms for name, ms in self.milliseconds.items() if not name.endswith(" build"))

    def to_json(self) -> dict[str, object]:
        return {
            "nodes": self.nodes, "ms": dict(self.milliseconds), "passes ms": self.passes,
            "kernels": self.kernels, "compiled": self.compiled,
        }  # fmt: skip


def compile_times(repetitions: int, counts: Sequence[int] = BLOCKS) -> list[Compiled]:
    """Each model compiled `repetitions` times; of every pass the shortest time counts."""
    return [_compiled(count, repetitions) for count in counts]


def _compiled(count: int, repetitions: int) -> Compiled:
    model = blocks(count)
    best: dict[str, float] = {}
    for _ in range(repetitions):
        gc.collect()
        built = compiler.compile(model)
        for k, record in enumerate(built.trace.records):
            name = f"{k:02d} {record.name}"
            best[name] = min(best.get(name, math.inf), record.milliseconds)
    events = built.trace.records[-1].events  # pyright: ignore[reportPossiblyUnboundVariable]
    made = sum(event.message == "build.done" for event in events)
    return Compiled(count * BLOCK_NODES, best, len(events), made)


def exponent(smaller: float, larger: float) -> float:
    return math.log2(larger / smaller) if smaller > 0 and larger > 0 else math.nan

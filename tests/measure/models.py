"""Compiled and traced samples that several tests of this folder share, made once a process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import compiler
from compiler.driver import Built, trace_model
from compiler.frontend.inputs import make_inputs
from compiler.frontend.reference import ReferenceRunner
from compiler.ir.module import Module
from compiler.ir.types import Array
from compiler.measure.counting import Cache, Counted, count
from compiler.passes.base import Context
from compiler.trace import Trace
from sample_models import catalogue, sample

NAMES = tuple(each.name for each in catalogue())
FORCED = "default,partition-fallback{force=[b]}"


@cache
def traced(name: str, pipeline: str = "default") -> tuple[Trace, Context]:
    """A sample up to and without `emit`."""
    return trace_model(sample(name).path, pipeline, until="emit")


@cache
def built(name: str, pipeline: str = "default") -> Built:
    return compiler.compile(sample(name).path, pipeline=pipeline)


def inputs(trace: Trace, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Array]:
    return make_inputs(trace.module_after("infer-shapes"), sizes, seed)


def sizes_of(module: Module, *values: int) -> dict[str, int]:
    """The values for the symbols in their order, again and again."""
    return {s.name: values[k % len(values)] for k, s in enumerate(module.dims)}


def counted(
    name: str, pipeline: str, sizes: Mapping[str, int], cache: Cache | None = None
) -> Counted:
    trace, context = traced(name, pipeline)
    module = trace.final
    externs = ReferenceRunner(module, context.params)
    return count(module, inputs(trace, sizes), context.params, externs, cache=cache)

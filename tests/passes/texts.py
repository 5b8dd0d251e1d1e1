"""Modules from short texts, with weights that exist; passes run with all they promise checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.ir.dims import dim
from compiler.ir.edits import Event, fold
from compiler.ir.graph import Param
from compiler.ir.interpret.tensor import run_graph
from compiler.ir.module import Module
from compiler.ir.parser import parse_module
from compiler.ir.types import Array, DType, TensorType
from compiler.ir.verify import verify
from compiler.passes.base import Context, Pass


def module(
    body: str,
    context: Context,
    weights: Mapping[str, Array] | None = None,
    head: str = "",
    nodes: str = "",
) -> Module:
    """The module whose graph is `body`, with `weights` as its params, in the context's store."""
    listed = f"nodes({nodes})" if nodes else ""
    found = parse_module(f'module @m {head} opsets("" 13) {listed} {{ graph {body} }}')
    params = tuple(
        Param(n, TensorType(DType.of(a.dtype), tuple(map(dim, a.shape))), context.params.add(a))
        for n, a in (weights or {}).items()
    )
    found = replace(found, params=params)
    verify(found)
    return found


def run(p: Pass, before: Module, context: Context) -> tuple[Module, tuple[Event, ...]]:
    """The result and its events.

    Checked: every single rewrite leaves a module that verifies, folding gives the result, a pass
    without an edit gives back its module, and a second run finds nothing more to do.
    """
    result = p.run(before, context)
    step = before
    for event in result.events:
        step = fold(step, (event,))
        verify(step)
    assert step == result.module
    edited = any(e.edits for e in result.events)
    assert edited or result.module is before
    assert not edited or result.module != before
    again = p.run(result.module, context)
    assert again.module is result.module
    return result.module, result.events


def kinds(module: Module) -> list[str]:
    return [op.kind for op in module.graph.ops]


def values(module: Module, context: Context, **inputs: Array) -> dict[str, Array]:
    """The results of the tensor interpreter."""
    return run_graph(module, inputs, context.params)

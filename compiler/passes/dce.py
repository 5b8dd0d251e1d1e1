"""dce: what no output needs is not computed.

    live = outputs ∪ {operands of live ops}        everything else goes, weights too

Walks backward, so a chain that leads nowhere goes from its end to its beginning. Ops have no side
effects, so an op is dead when none of its results is read. What only the caller reads is refused:
there liveness begins.

Teaches: dead code is what the other clean-ups leave behind; they need not tidy up themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.edits import Event, Ops, Params, parameters
from compiler.ir.graph import Graph, Op, reads
from compiler.ir.module import Module
from compiler.ir.types import Attr, ParamRef

from .base import Context, Pass, Result


@dataclass(frozen=True)
class Dce(Pass):
    """`dce`: at any level before the plan is made."""

    name: ClassVar[str] = "dce"
    level: ClassVar[str] = "onnx"

    def run(self, module: Module, context: Context) -> Result:
        """Remove dead ops, last first, then weights that no op refers to. One event each, and one a
        result that only the caller reads."""
        if module.plan is not None:
            return Result(module)
        live = set(module.graph.outputs)
        read: set[str] = set()
        kept: list[Op] = []
        events: list[Event] = []
        for op in reversed(module.graph.ops):
            context.check()
            if any(v.name in live for v in op.outputs):
                live.update(reads(op))
                kept.append(op)
                if not any(v.name in read for v in op.outputs):
                    told = parameters(op=op.kind, value=op.key)
                    events.append(Event(self.name, op.key, (), "dce.output", told))
                read.update(reads(op))
                continue
            edit = Ops(removed=(op.key,))
            told = parameters(op=op.kind)
            events.append(Event(self.name, op.key, (edit,), "dce.done", told))
        dead = len(kept) < len(module.graph.ops)
        graph = replace(module.graph, ops=tuple(reversed(kept))) if dead else module.graph
        used = set(referred_params(graph))
        unused = tuple(p for p in module.params if p.name not in used)
        if unused:
            edit = Params(tuple(p.name for p in unused), ())
            told = parameters(params=len(unused))
            events.append(Event(self.name, unused[0].name, (edit,), "dce.params", told))
        if not dead and not unused:
            return Result(module, tuple(events))
        params = tuple(p for p in module.params if p.name in used) if unused else module.params
        return Result(replace(module, graph=graph, params=params), tuple(events))


def referred_params(graph: Graph) -> Iterator[str]:
    """Names of the weights that ops refer to in an attribute, also inside regions."""
    for op in graph.walk():
        for _, value in op.attrs:
            yield from _references(value)


def _references(value: Attr) -> Iterator[str]:
    if isinstance(value, ParamRef):
        yield value.name
    elif isinstance(value, tuple):
        for item in value:
            yield from _references(item)

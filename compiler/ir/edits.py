"""Edits and events: what a pass did, as data that can be replayed.

    fold(apply, before, edits of all events) == after        (tested for every pass)

An edit is one of a closed set; an event is one decision of a pass: the rule, where it looked, the
edits it made (none: it looked and refused), and a message id with parameters that the catalogues
turn into a sentence. Stepping through single rewrites stores nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from .dims import Guard, Symbol
from .graph import Graph, Node, Op, Param, Value
from .loops import Kernel
from .module import Module, Source
from .plan import Plan
from .types import TensorType


@dataclass(frozen=True)
class Header:
    """Set the name, opsets, nodes, and the graph's inputs and outputs."""

    name: str
    opsets: tuple[tuple[str, int], ...]
    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Dims:
    """Set the symbols and the guards."""

    symbols: tuple[Symbol, ...]
    guards: tuple[Guard, ...]


@dataclass(frozen=True)
class Ops:
    """Change one graph: `path` leads to a region: (op key, region index) pairs; () is the top.

    In this order: ops whose key is in `removed` go; `renamed` values are renamed in operands and
    in the graph's outputs; `added` ops are inserted, each at its position in the resulting tuple
    (ascending); `order`, if not None, lists all keys in their new order.
    """

    path: tuple[tuple[str, int], ...] = ()
    removed: tuple[str, ...] = ()
    added: tuple[tuple[int, Op], ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    order: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Types:
    """Set the types of values (graph inputs or results of ops at the top or in regions)."""

    types: tuple[tuple[str, TensorType], ...]


@dataclass(frozen=True)
class Params:
    """Remove params by name, then add."""

    removed: tuple[str, ...]
    added: tuple[Param, ...]


@dataclass(frozen=True)
class KernelEdit:
    """Replace the kernel called `name` by `new` in place; append if absent; None removes."""

    name: str
    new: Kernel | None


@dataclass(frozen=True)
class PlanEdit:
    new: Plan | None


@dataclass(frozen=True)
class SourceEdit:
    """Replace the source of the kernel called `name`; append if absent; None removes."""

    name: str
    new: Source | None


Edit = Header | Dims | Ops | Types | Params | KernelEdit | PlanEdit | SourceEdit

Parameter = str | int | float
Parameters = tuple[tuple[str, Parameter], ...]


@dataclass(frozen=True)
class Event:
    """One decision of a pass. `where` names a value or kernel; no edits: refused."""

    rule: str
    where: str
    edits: tuple[Edit, ...]
    message: str
    parameters: Parameters = ()

    @property
    def refused(self) -> bool:
        return not self.edits


def parameters(**values: Parameter) -> Parameters:
    return tuple(values.items())


def rename_op(op: Op, renamed: Mapping[str, str]) -> Op:
    """The op with its reads renamed, also inside regions; its own results keep their names."""
    if not any(name in renamed for name in op.operands) and not op.regions:
        return op
    inputs = tuple(renamed.get(n, n) if n is not None else None for n in op.inputs)
    regions = tuple(rename_region(r, renamed) for r in op.regions)
    if inputs == op.inputs and regions == op.regions:
        return op
    return replace(op, inputs=inputs, regions=regions)


def rename_region(region: Graph, renamed: Mapping[str, str]) -> Graph:
    inputs = tuple(Value(renamed.get(v.name, v.name), v.type) for v in region.inputs)
    return replace(
        region,
        inputs=inputs if inputs != region.inputs else region.inputs,
        outputs=tuple(renamed.get(n, n) for n in region.outputs),
        ops=tuple(rename_op(op, renamed) for op in region.ops),
    )


def apply_ops(graph: Graph, edit: Ops) -> Graph:
    if edit.path:
        (key, index), *rest = edit.path
        ops: list[Op] = []
        for op in graph.ops:
            if op.key == key:
                inner = apply_ops(op.regions[index], replace(edit, path=tuple(rest)))
                regions = (*op.regions[:index], inner, *op.regions[index + 1 :])
                op = replace(op, regions=regions)
            ops.append(op)
        return replace(graph, ops=tuple(ops))
    removed = frozenset(edit.removed)
    kept = list(graph.ops)
    if removed:
        kept = [op for op in kept if op.outputs[0].name not in removed]
    outputs = graph.outputs
    if edit.renamed:
        renamed = dict(edit.renamed)
        kept = [rename_op(op, renamed) for op in kept]
        outputs = tuple(renamed.get(n, n) for n in outputs)
    for position, op in edit.added:
        kept.insert(position, op)
    if edit.order is not None:
        by_key = {op.key: op for op in kept}
        kept = [by_key[key] for key in edit.order]
    return replace(graph, ops=tuple(kept), outputs=outputs)


def retype(graph: Graph, types: Mapping[str, TensorType]) -> Graph:
    def on_values(values: tuple[Value, ...]) -> tuple[Value, ...]:
        if not any(v.name in types for v in values):
            return values
        return tuple(Value(v.name, types.get(v.name, v.type)) for v in values)

    def on_op(op: Op) -> Op:
        outputs = on_values(op.outputs)
        regions = tuple(retype(r, types) for r in op.regions)
        if outputs is op.outputs and all(a is b for a, b in zip(regions, op.regions, strict=True)):
            return op
        return replace(op, outputs=outputs, regions=regions)

    inputs = on_values(graph.inputs)
    ops = list(graph.ops)
    reached = [k for k, op in enumerate(ops) for v in op.outputs if v.name in types or op.regions]
    for k in reached:
        ops[k] = on_op(ops[k])
    if inputs is graph.inputs and all(ops[k] is graph.ops[k] for k in reached):
        return graph
    return replace(graph, inputs=inputs, ops=tuple(ops))


def apply(module: Module, edit: Edit) -> Module:
    """The module after one edit."""
    match edit:
        case Header():
            graph = replace(
                module.graph, inputs=edit.inputs, outputs=edit.outputs, names=edit.names
            )
            return replace(
                module, name=edit.name, opsets=edit.opsets, nodes=edit.nodes, graph=graph
            )
        case Dims():
            return replace(module, dims=edit.symbols, guards=edit.guards)
        case Ops():
            return replace(module, graph=apply_ops(module.graph, edit))
        case Types():
            return replace(module, graph=retype(module.graph, dict(edit.types)))
        case Params():
            gone = frozenset(edit.removed)
            kept = tuple(p for p in module.params if p.name not in gone)
            return replace(module, params=(*kept, *edit.added))
        case KernelEdit():
            at = [k.name for k in module.kernels]
            if edit.name in at:
                new = tuple(
                    k if k.name != edit.name else edit.new
                    for k in module.kernels
                    if k.name != edit.name or edit.new is not None
                )
                return replace(module, kernels=tuple(k for k in new if k is not None))
            return module if edit.new is None else replace(
                module, kernels=(*module.kernels, edit.new)
            )
        case PlanEdit():
            return replace(module, plan=edit.new)
        case SourceEdit():
            if edit.name in [s.kernel for s in module.sources]:
                kept = tuple(
                    (edit.new if s.kernel == edit.name else s) for s in module.sources
                )
                return replace(module, sources=tuple(s for s in kept if s is not None))
            return module if edit.new is None else replace(
                module, sources=(*module.sources, edit.new)
            )


def fold(module: Module, events: Iterable[Event]) -> Module:
    """Replay the edits of all events."""
    return reduce(apply, (edit for event in events for edit in event.edits), module)

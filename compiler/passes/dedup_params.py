"""dedup-params: weights with the same elements are one weight.

    type(w) = type(v), digest(w) = digest(v)      becomes      who refers to w refers to v

The store keeps one array for equal digests already; this pass makes it one name too, so that `cse`
sees that what is computed from them is the same. The same elements in another shape are refused:
they are broadcast along other axes.

Teaches: content addressing. Equality of arrays is equality of their digests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.dims import ONE, Dim
from compiler.ir.edits import Event, Ops, Params, apply, parameters
from compiler.ir.graph import Graph, Op, Param
from compiler.ir.module import Module
from compiler.ir.params import ParamStore, digest_of
from compiler.ir.types import Attr, DType, ParamRef, TensorType

from .base import Context, Pass, Result
from .dce import referred_params


@dataclass(frozen=True)
class DedupParams(Pass):
    """`dedup-params`: at any level before the plan is made."""

    name: ClassVar[str] = "dedup-params"
    level: ClassVar[str] = "onnx"

    def run(self, module: Module, context: Context) -> Result:
        """One event a weight that goes (the first of equal ones stays), and one a weight that
        differs from an earlier one in axes of extent 1 alone."""
        if module.plan is not None:
            return Result(module)
        first: dict[tuple[TensorType, str], str] = {}
        shapes = _Shapes(context.params)
        users: dict[str, list[str]] = {}
        for op in module.graph.ops:
            for name in referred_params(Graph(ops=(op,))):
                users.setdefault(name, []).append(op.key)
        state = module
        events: list[Event] = []
        for p in module.params:
            context.check()
            kept = first.setdefault((p.type, p.digest), p.name)
            if kept == p.name:
                other = shapes.other(p)
                if other is not None:
                    told = parameters(weight=p.name, kept=other.name, shape=shape_of(p),
                                      other=shape_of(other))  # fmt: skip
                    events.append(Event(self.name, p.name, (), "dedup-params.shape", told))
                continue
            edits = (*_redirect(state, users.get(p.name, []), p.name, kept), Params((p.name,), ()))
            for edit in edits:
                state = apply(state, edit)
            users.setdefault(kept, []).extend(users.pop(p.name, []))
            told = parameters(weight=p.name, kept=kept, elements=str(p.type.numel))
            events.append(Event(self.name, kept, edits, "dedup-params.done", told))
        return Result(state, tuple(events))


@dataclass(frozen=True)
class _Alike:
    """Weights of one element type with the same extents other than 1: their types, those whose
    elements were not looked at so far, and the others by the digest of their elements."""

    types: set[TensorType]
    waiting: list[Param]
    known: dict[str, list[Param]]


class _Shapes:
    """The weights seen so far. Elements are looked at where shapes differ, once a weight."""

    def __init__(self, store: ParamStore) -> None:
        self._store = store
        self._seen: dict[tuple[DType | None, tuple[Dim, ...]], _Alike] = {}

    def other(self, p: Param) -> Param | None:
        """The first weight that differs from `p` in axes of extent 1 alone; takes note of `p`."""
        long = tuple(d for d in p.type.dims if d != ONE)
        alike = self._seen.setdefault((p.type.dtype, long), _Alike(set(), [], {}))
        alike.types.add(p.type)
        alike.waiting.append(p)
        if len(alike.types) == 1:
            return None
        found = ""
        for q in alike.waiting:
            found = digest_of(self._store.get(q.digest).reshape(-1))
            alike.known.setdefault(found, []).append(q)
        alike.waiting.clear()
        return next((q for q in alike.known[found] if q.type != p.type), None)


def shape_of(p: Param) -> str:
    return "[" + ",".join(map(str, p.type.dims)) + "]"


def _redirect(module: Module, keys: list[str], old: str, new: str) -> tuple[Ops, ...]:
    """The edit that lets ops refer to another weight."""
    wanted = set(keys)
    changed = [(k, op) for k, op in enumerate(module.graph.ops) if op.key in wanted]
    if not changed:
        return ()
    added = tuple((k, _refer(op, old, new)) for k, op in changed)
    return (Ops(removed=tuple(op.key for _, op in changed), added=added),)


def _refer(op: Op, old: str, new: str) -> Op:
    """The op with one weight in place of another in its attributes, also inside regions."""

    def on(value: Attr) -> Attr:
        if isinstance(value, tuple):
            return tuple(on(v) for v in value)
        return ParamRef(new) if value == ParamRef(old) else value

    regions = tuple(
        replace(r, ops=tuple(_refer(inner, old, new) for inner in r.ops)) for r in op.regions
    )
    return replace(op, attrs=tuple((k, on(v)) for k, v in op.attrs), regions=regions)

"""The records that everything else reads: one `PassRecord` a pass, all of them a `Trace`.

Nothing is stored for stepping but snapshots (which share their parts) and events: the state after
the k-th rewrite of a pass is `fold(before, events[:k])`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compiler.fusion.decisions import ASSUMED, Decision
from compiler.ir.edits import Event, Parameters
from compiler.ir.graph import Op, format_origin
from compiler.ir.module import EMPTY, Module

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


@dataclass(frozen=True)
class PassRecord:
    """What one pass did. `count_before` and `count_after` are in the pass's `unit`."""

    name: str
    text: str
    level: str
    unit: str
    required: bool
    before: Module
    after: Module
    events: tuple[Event, ...]
    decisions: tuple[Decision, ...]
    milliseconds: float
    drift: Drift | None = None

    @property
    def changed(self) -> bool:
        return self.before is not self.after


@dataclass(frozen=True)
class Drift:
    """How far a pass moved the results, at a small stated size.

    `max_abs`, `norm_rel` (largest over outputs of |a - b| / |b|) and `max_ulp`; `first` is the
    first value that differs and `where` its origins. `sizes` are the sizes it was computed at.
    """

    max_abs: float
    norm_rel: float
    max_ulp: float
    first: str
    where: tuple[str, ...]
    sizes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Break:
    """A graph break: a node that a library computes, and why."""

    node: str
    op: str
    message: str
    parameters: Parameters


def count(module: Module, unit: str) -> int:
    """How many ops, kernels, steps or sources a module has."""
    if unit == "kernels":
        return len(module.kernels)
    if unit == "steps":
        return 0 if module.plan is None else module.plan.launches()
    if unit == "sources":
        return len(module.sources)
    return sum(op.kind not in ("const", "param", "dims") for op in module.graph.ops)


def _parameters(parameters: Parameters) -> Json:
    return dict(parameters)


@dataclass(frozen=True)
class Trace:
    """All records of one compile. `final` is the module at the end; `sizes` are those that the
    cost model was told of."""

    name: str
    pipeline: str
    target: str
    numerics: str
    records: tuple[PassRecord, ...]
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def final(self) -> Module:
        return self.records[-1].after if self.records else EMPTY

    def record(self, name: str) -> PassRecord:
        """The last record of the pass called `name`. KeyError when it did not run."""
        for r in reversed(self.records):
            if r.name == name:
                return r
        raise KeyError(name)

    def module_after(self, name: str) -> Module:
        return self.record(name).after

    @property
    def assumed(self) -> dict[str, int]:
        """The size that the cost model assumed of every symbol: gains are estimates for these."""
        return {s.name: self.sizes.get(s.name, ASSUMED) for s in self.final.dims}

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return tuple(d for r in self.records for d in r.decisions)

    def snapshots(self) -> tuple[Module, ...]:
        """The distinct modules in order: before the first pass, then after each that changed."""
        found: list[Module] = []
        for r in self.records:
            for module in (r.before, r.after):
                if not any(module is m for m in found):
                    found.append(module)
        return tuple(found)

    def breaks(self) -> tuple[Break, ...]:
        """Every node that only the reference evaluator computes, with its reason."""
        reasons = {
            e.where: e for r in self.records for e in r.events if e.rule == "break" and e.edits
        }
        found: list[Break] = []
        for op in self.final.graph.ops:
            if op.kind in ("extern", "call.reference"):
                found.append(self._break(op, reasons))
        return tuple(found)

    def _break(self, op: Op, reasons: Mapping[str, Event]) -> Break:
        node = next((n for n in self.final.nodes if n.position in op.origins), None)
        label = (node.name if node else "") or op.key
        event = reasons.get(op.key)
        name = op.str("op", "onnx.?").removeprefix("onnx.")
        if event is None:
            return Break(label, name, "break.unknown", ())
        return Break(label, name, event.message, event.parameters)

    def to_json(self) -> dict[str, Json]:
        """The documented schema: see docs/json.md."""
        snapshots = self.snapshots()
        at = {id(m): k for k, m in enumerate(snapshots)}
        return {
            "schema": 1,
            "model": self.name,
            "target": self.target,
            "numerics": self.numerics,
            "pipeline": self.pipeline,
            "nodes": [
                {"position": format_origin(n.position), "name": n.name, "op": n.op}
                for n in self.final.nodes
            ],
            "symbols": [
                {"name": s.name, "low": s.low, "high": s.high, "divisor": s.divisor}
                for s in self.final.dims
            ],
            "assumed": dict(self.assumed),
            "passes": [
                {
                    "name": r.name,
                    "text": r.text,
                    "level": r.level,
                    "required": r.required,
                    "changed": r.changed,
                    "unit": r.unit,
                    "before": count(r.before, r.unit),
                    "after": count(r.after, r.unit),
                    "milliseconds": r.milliseconds,
                    "drift": None if r.drift is None else drift_json(r.drift),
                    "snapshot_before": at[id(r.before)],
                    "snapshot_after": at[id(r.after)],
                    "events": [
                        {
                            "rule": e.rule,
                            "where": e.where,
                            "edits": len(e.edits),
                            "message": e.message,
                            "parameters": _parameters(e.parameters),
                        }
                        for e in r.events
                    ],
                }
                for r in self.records
            ],
            "decisions": [
                {
                    "a": d.a,
                    "b": d.b,
                    "tier": d.tier,
                    "verdict": d.verdict,
                    "rule": d.rule,
                    "message": d.message,
                    "parameters": _parameters(d.parameters),
                    "bytes_before": None if d.bytes_before is None else str(d.bytes_before),
                    "bytes_after": None if d.bytes_after is None else str(d.bytes_after),
                    "gain": d.gain,
                }
                for d in self.decisions
            ],
            "breaks": [
                {
                    "node": b.node,
                    "op": b.op,
                    "reason": b.message,
                    "parameters": _parameters(b.parameters),
                }
                for b in self.breaks()
            ],
        }


def drift_json(drift: Drift) -> dict[str, Json]:
    """JSON has no infinities: null stands for one (a value that is finite on one side only)."""

    def number(x: float) -> float | None:
        return x if math.isfinite(x) else None

    return {
        "max_abs": number(drift.max_abs),
        "norm_rel": number(drift.norm_rel),
        "max_ulp": number(drift.max_ulp),
        "first": drift.first,
        "where": list(drift.where),
        "sizes": dict(drift.sizes),
    }

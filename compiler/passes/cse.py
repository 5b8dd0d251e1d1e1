"""cse: two ops that compute the same from the same are one.

    a = f(x);  b = f(x)   becomes   a = f(x), and who read b reads a

Equal means: kind, operands, attributes and result types; because operands have been merged before,
whole equal trees fall together in one sweep. What draws random numbers is never merged. The one
that stays carries the origins of both. Two ops that differ in their attributes alone are refused.

Teaches: common subexpressions; in static single assignment form it is a look-up in a dictionary.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.edits import Event, Ops, parameters, rename_op
from compiler.ir.graph import Op
from compiler.ir.module import Module
from compiler.ops.views import onnx_form, operator_name

from .base import Context, Pass, Result

RANDOM = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
     "RandomUniformLike"}
)  # fmt: skip
"""ONNX operators that may give another result each time."""


@dataclass(frozen=True)
class Cse(Pass):
    """`cse`: on ONNX nodes and tensor ops; never touches ops with regions or other domains."""

    name: ClassVar[str] = "cse"
    level: ClassVar[str] = "onnx"

    def run(self, module: Module, context: Context) -> Result:
        """One sweep in program order; the first of equal ops stays in its place. One event an op
        that goes, and one an op that differs from an earlier one in attributes alone.

        Does nothing once values are written over, because the first may be gone then.
        """
        if module.writes_over:
            return Result(module)
        done: list[Op] = []
        place: dict[Hashable, int] = {}
        alike: dict[Hashable, Op] = {}
        renamed: dict[str, str] = {}
        events: list[Event] = []
        outputs = module.graph.outputs
        for original in module.graph.ops:
            context.check()
            op = rename_op(original, renamed) if renamed else original
            if op.regions or not _repeatable(op):
                done.append(op)
                continue
            identity = (op.kind, op.inputs, op.attrs, tuple(v.type for v in op.outputs))
            at = place.setdefault(identity, len(done))
            if at == len(done):
                done.append(op)
                other = alike.setdefault((op.kind, op.inputs), op)
                differing = differences(op, other)
                if op.inputs and differing:
                    told = parameters(
                        op=op.kind, value=op.key, other=other.key, differing=differing
                    )
                    events.append(Event(self.name, op.key, (), "cse.attributes", told))
                continue
            first = done[at]
            merged = replace(first, origins=first.origins | op.origins)
            pairs = tuple(
                (b.name, a.name) for a, b in zip(first.outputs, op.outputs, strict=True)
            )
            done[at] = merged
            renamed.update(pairs)
            edit = Ops(removed=(first.key, op.key), added=((at, merged),), renamed=pairs)
            told = parameters(op=op.kind, kept=first.key)
            events.append(Event(self.name, op.key, (edit,), "cse.done", told))
        if not renamed:
            return Result(module, tuple(events))
        outputs = tuple(renamed.get(n, n) for n in outputs)
        graph = replace(module.graph, ops=tuple(done), outputs=outputs)
        return Result(replace(module, graph=graph), tuple(events))


def differences(a: Op, b: Op) -> str:
    """The names of the attributes in which two ops differ, with commas between them."""
    ours, theirs = dict(a.attrs), dict(b.attrs)
    return ", ".join(n for n in sorted(ours | theirs) if ours.get(n) != theirs.get(n))


def _repeatable(op: Op) -> bool:
    """Whether running the op twice gives the same twice, as far as is known."""
    node = onnx_form(op)
    if node is None:
        return True
    domain, name = operator_name(node)
    return not domain and name not in RANDOM

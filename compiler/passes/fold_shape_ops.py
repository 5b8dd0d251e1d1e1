"""fold-shape-ops: integers that follow from shapes alone become `dims`, without looking at data.

    Reshape(x, Concat(Shape(x)[0:1], [-1]))        x: f32[s, 3, 4]
    Shape → Slice → Concat                          becomes   dims [s, -1]

The forward analysis (`ops/shape_values.py`) knows each element as a polynomial over the symbols.
Where not even their number is known (`Range` up to s), they cannot be written down: refused.
Library steps are read like nodes: a `Gather` on a shape vector is no graph break.

Teaches: the shape arithmetic that exporters write runs once, at compile time, for all sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from compiler.ir.dims import format_dim
from compiler.ir.edits import parameters
from compiler.ir.graph import Op
from compiler.ir.module import Module
from compiler.ops.base import Known
from compiler.ops.decomposition import known_as_dims, known_is_better
from compiler.ops.shape_values import analyse

from .base import Context, Pass, Refusal, Result, Rewrite, View, adopt_names

LEAVES = frozenset({"const", "dims", "param"})


@dataclass(frozen=True)
class FoldShapeOps(Pass):
    """`fold-shape-ops`: needs inferred shapes. Producers that nobody reads any more are left to
    `dce`."""

    name: ClassVar[str] = "fold-shape-ops"
    level: ClassVar[str] = "onnx"
    after: ClassVar[tuple[str, ...]] = ("infer-shapes",)

    def run(self, module: Module, context: Context) -> Result:
        """One sweep; what is known of shapes is found first."""
        return _Sweep(analyse(module, context.params)).run(module, context)


@dataclass(frozen=True)
class _Sweep(Pass):
    known: Mapping[str, Known]

    name: ClassVar[str] = FoldShapeOps.name

    def rewrite(self, op: Op, view: View) -> Rewrite | Refusal | None:
        known = self.known.get(op.key)
        if known is None and self._is_endless(op):
            told = parameters(op=op.kind, value=op.key, count=format_dim(op.type.numel))
            return Refusal(self.name, "fold-shape-ops.length", told)
        if known is None or op.kind in LEAVES:
            return None
        if not known_is_better(op, known, view.module.data_symbols):
            return None
        origins = op.origins.union(
            *(p.origins for n in op.operands if n in self.known if (p := view.producer(n)))
        )
        made = known_as_dims(op.key, known, op.type, view.context.names, origins)
        ops, renamed = adopt_names(op, list(made.ops), made.results)
        values = ", ".join(format_dim(d) for d in known.elements)
        return Rewrite(
            self.name, "fold-shape-ops.done", parameters(op=op.kind, values=values),
            ops, renamed, made.guards,
        )  # fmt: skip

    def _is_endless(self, op: Op) -> bool:
        """Whether operands that follow from shapes make integers whose number is symbolic."""
        return (
            bool(op.operands)
            and all(n in self.known for n in op.operands)
            and len(op.outputs) == 1
            and op.type.known
            and op.type.element.is_integer
            and op.type.numel.constant is None
        )

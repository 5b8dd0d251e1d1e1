"""decompose: every ONNX node becomes the tensor ops of its row in the table of operators.

    Softmax(x)  =  e / Σ e,   e = exp(x - max x)          one node, five ops

Results keep the node's names, the values between are `%y.1, %y.2, …`, and all of them carry the
node's origin. After this pass the graph holds no ONNX node: what the table lacks is a library step.

Teaches: hundreds of operators are a dozen primitives; every later pass has to know only those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from compiler.ir.edits import parameters
from compiler.ir.graph import Op
from compiler.ir.module import Module
from compiler.ops.base import Known, Malformed, NodeView, Unsupported
from compiler.ops.decomposition import (
    Decomposition,
    decompose_node,
    known_as_dims,
    known_is_better,
)
from compiler.ops.shape_values import analyse
from compiler.ops.views import node_view, opset_of

from .base import Context, Pass, Refusal, Result, Rewrite, View, adopt_names
from .nodes import break_parameters, malformed
from .partition_fallback import library_step


@dataclass(frozen=True)
class Decompose(Pass):
    """`decompose`: needs inferred shapes, and the library steps marked."""

    name: ClassVar[str] = "decompose"
    required: ClassVar[bool] = True
    after: ClassVar[tuple[str, ...]] = ("infer-shapes", "partition-fallback")

    def run(self, module: Module, context: Context) -> Result:
        """One sweep; what is known of shapes is found first."""
        return _Sweep(analyse(module, context.params)).run(module, context)


@dataclass(frozen=True)
class _Sweep(Pass):
    known: Mapping[str, Known]

    name: ClassVar[str] = Decompose.name

    def rewrite(self, op: Op, view: View) -> Rewrite | Refusal | None:
        if op.family != "onnx":
            return None
        try:
            made = self._decompose(op, view)
        except Unsupported as reason:
            return Rewrite(
                "break", reason.message, break_parameters(op, view.module, reason),
                (library_step(op, opset_of(op, view.module)),),
            )  # fmt: skip
        except Malformed as error:
            raise malformed(op, view.module, view.context, error) from error
        ops, renamed = adopt_names(op, list(made.ops), made.results)
        return Rewrite(
            "decompose", "decompose.done" if ops else "decompose.vanished",
            parameters(op=op.kind, ops=len(ops)), ops, renamed, made.guards,
        )  # fmt: skip

    def _decompose(self, op: Op, view: View) -> Decomposition:
        known = self.known.get(op.key)
        names = view.context.names
        if known is not None and known_is_better(op, known, view.module.data_symbols):
            return known_as_dims(op.key, known, op.type, names, op.origins)
        return decompose_node(self._view(op, view), names)

    def _view(self, op: Op, view: View) -> NodeView:
        params = view.context.params
        return node_view(op, view.module, params, view.type, self.known.get, view.constant)

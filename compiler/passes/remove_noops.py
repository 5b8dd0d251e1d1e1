"""remove-noops: ops that give back their operand go, and a view of a view is one view.

    Identity(x) = x      reshape(x) = x where the shape stays      permute by 0,1,…,n-1 = x
    reshape(reshape(x)) = reshape(x)

Readers of the result read the operand instead. x + 0 stays: it turns -0 into +0. A slice that
leaves nothing out at some sizes only is refused, and so are two reshapes whose numbers of elements
are not known to be equal.

Teaches: exporters leave a lot of nothing behind; an op is a no-op only when it is one for every
value, signed zeros and NaN included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.dims import ONE, ZERO
from compiler.ir.edits import parameters
from compiler.ir.graph import Op
from compiler.ir.module import Module
from compiler.ir.types import TensorType
from compiler.ir.verify import Equalities
from compiler.ops.shape import in_inference
from compiler.ops.views import node_view, nothing_known, onnx_form, operator_name

from .base import Pass, Refusal, Rewrite, View

SAME_WHERE_TYPE_STAYS = frozenset(
    {"Cast", "CastLike", "Expand", "Flatten", "Reshape", "Squeeze", "Unsqueeze"}
)
"""ONNX operators that give back their first operand where its type stays."""

SAME_WHERE_ALONE = frozenset({"Concat", "Max", "Mean", "Min", "Sum"})
"""Variadic ONNX operators, which give back a single operand."""


@dataclass(frozen=True)
class RemoveNoops(Pass):
    """`remove-noops`: on ONNX nodes (library steps too) and on tensor ops."""

    name: ClassVar[str] = "remove-noops"
    level: ClassVar[str] = "onnx"

    def rewrite(self, op: Op, view: View) -> Rewrite | Refusal | None:
        """Let the readers of a no-op read its operand; join a reshape to the one before it."""
        source = op.inputs[0] if op.inputs else None
        if source is None:
            return None
        if gives_back_operand(op, view):
            return Rewrite(
                self.name, "remove-noops.done", parameters(op=op.kind, source=source), (),
                ((op.key, source),),
            )  # fmt: skip
        before = view.producer(source)
        if op.kind == "reshape" and before is not None and before.kind == "reshape":
            (origin,) = before.operands
            if view.type(origin) == op.type:
                return Rewrite(
                    self.name, "remove-noops.undone", parameters(op=op.kind, source=origin), (),
                    ((op.key, origin),),
                )  # fmt: skip
            if not _as_many(view.type(origin), op.type, view.module):
                told = parameters(op=op.kind, value=op.key, source=origin)
                return Refusal(self.name, "remove-noops.elements", told)
            joined = replace(op, inputs=(origin,), origins=op.origins | before.origins)
            return Rewrite(
                self.name, "remove-noops.joined", parameters(op=op.kind, source=origin), (joined,)
            )
        if op.kind == "slice" and _whole(op) and _may_be_equal(view.type(source), op.type):
            told = parameters(op=op.kind, value=op.key, source=source)
            return Refusal(self.name, "remove-noops.sizes", told)
        return None


def gives_back_operand(op: Op, view: View) -> bool:
    """Whether the first result is the first operand for every value, and no other is used."""
    if any(view.users(v.name) or view.is_output(v.name) for v in op.outputs[1:]):
        return False
    node = onnx_form(op)
    if node is not None:
        return _node_gives_back(op, node, view)
    source = view.type(op.operands[0])
    stays = source.known and source == op.type
    match op.kind:
        case "reshape" | "expand" | "cast":
            return stays
        case "permute":
            return op.ints("perm") == tuple(range(source.rank))
        case "slice":
            return stays and _whole(op)
        case _:
            return op.family == "reduce" and op.ints("axes") == ()


def _node_gives_back(op: Op, node: Op, view: View) -> bool:
    domain, name = operator_name(node)
    source = view.type(op.operands[0])
    if domain:
        return False
    if name == "Identity" or (name in SAME_WHERE_ALONE and len(op.inputs) == 1):
        return True
    if name in SAME_WHERE_TYPE_STAYS:
        return source.known and source == op.type
    if name == "Transpose" and source.known:
        perm = node.ints("perm")
        return source.rank <= 1 if perm is None else perm == tuple(range(source.rank))
    if name == "Dropout":
        context = view.context
        return in_inference(
            node_view(op, view.module, context.params, view.type, nothing_known, view.constant)
        )
    return False


def _as_many(a: TensorType, b: TensorType, module: Module) -> bool:
    """Whether two types have as many elements, which may follow from the guards."""
    return a.numel == b.numel or Equalities(module.guards).equal(a.numel, b.numel)


def _may_be_equal(a: TensorType, b: TensorType) -> bool:
    """Whether some sizes make the two shapes one."""
    pairs = zip(a.dims, b.dims, strict=True)
    return all((x - y).constant in (0, None) for x, y in pairs)


def _whole(op: Op) -> bool:
    """Whether a slice starts at 0 and leaves nothing out."""
    starts, steps = op.get("starts"), op.get("steps")
    return (
        isinstance(starts, tuple)
        and isinstance(steps, tuple)
        and all(s in (0, ZERO) for s in starts)
        and all(s in (1, ONE) for s in steps)
    )

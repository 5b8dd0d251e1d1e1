"""One ONNX node as tensor ops: where the rows of the table are applied.

A node whose result is known from shapes becomes `dims` (cast where its dtype is another); every
other one is what its row's `decompose` builds. Only compiled dtypes go down.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compiler.ir.builder import Builder
from compiler.ir.dims import Guard
from compiler.ir.graph import Op, Origins, Value
from compiler.ir.names import Names
from compiler.ir.shapes import ShapeMismatch
from compiler.ir.types import COMPILED, TensorType

from .base import Known, NodeView, Unsupported, require_compiled
from .table import find
from .views import operator_name


@dataclass(frozen=True)
class Decomposition:
    """The ops, the value that each output of the node is, and the guards they rest on."""

    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    guards: tuple[Guard, ...]


def known_as_dims(
    base: str, known: Known, type: TensorType, names: Names, origins: Origins
) -> Decomposition:
    """A `dims` op of what is known, cast to the dtype of `type`, which is of rank 0 or 1.

    Unsupported for a dtype that kernels do not compute with.
    """
    require_compiled(type)
    b = Builder(base, names, origins)
    elements = known.elements
    vector = b.dim_values(elements) if type.rank else b.dim_scalar(elements[0])
    return _of(b, (b.cast(vector, type.element),), known.guards)


def known_is_better(op: Op) -> bool:
    """Whether a node or tensor op whose elements are known should become `dims`.

    Not for a dtype that kernels lack, nor for floats, which are known only within a range.
    """
    if len(op.outputs) != 1 or not op.type.known or op.type.dtype not in COMPILED:
        return False
    return not op.type.element.is_float


def decompose_node(view: NodeView, names: Names) -> Decomposition:
    """What the node of `view` is at tensor level. Fresh names derive from its first output.

    Raises Unsupported, with the reason, for an operator, a form or a dtype that the compiler
    lacks, and for shapes that do not fit.
    """
    op = view.op
    domain, name = operator_name(op)
    row = find(domain, name)
    if row is None:
        raise Unsupported("break.operator", op=f"{domain}::{name}" if domain else name)
    values = tuple(
        None if n is None else Value(n, view.type(k)) for k, n in enumerate(op.inputs)
    )
    if name not in ("Shape", "Constant"):
        require_compiled(*(v.type for v in values if v is not None))
    b = Builder(op.key, names, op.origins)
    try:
        results = row.decompose(b, view, values)
    except ShapeMismatch as clash:
        raise Unsupported(
            "break.shapes", left=str(clash.left), right=str(clash.right)
        ) from clash
    require_compiled(*(r.type for r in results))
    return _of(b, results, view.guards)


def why_not(view: NodeView) -> Unsupported | None:
    """Why the compiler lacks the node of `view`; None where `decompose_node` gives its ops."""
    try:
        decompose_node(view, Names())
    except Unsupported as reason:
        return reason
    return None


def _of(b: Builder, results: tuple[Value, ...], more: Iterable[Guard]) -> Decomposition:
    guards = dict.fromkeys((*b.guards, *more))
    return Decomposition(tuple(b.ops), results, tuple(guards))


"""One ONNX node as tensor ops: where the rows of the table are applied.

A node whose result is known from shapes becomes `dims` (cast where its dtype is another); every
other one is what its row's `decompose` builds. Only compiled dtypes go down.

A size that only data tell is a symbol `y.0`, known once `y` is there. Ops may change places, and
only their operands tell what must come before them: so an op may use `y.0` only where it reads `y`
or what was made from it. A node that would be decomposed otherwise (`Shape(y)` into `dims [y.0]`)
is a library step, which reads its inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compiler.ir.builder import Builder
from compiler.ir.dims import Dim, Guard
from compiler.ir.graph import Op, Origins, Value
from compiler.ir.names import Names
from compiler.ir.shapes import ShapeMismatch
from compiler.ir.types import COMPILED, TensorType

from .base import Known, NodeView, Unsupported, reading, require_compiled
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


def known_is_better(op: Op, known: Known, data: frozenset[str]) -> bool:
    """Whether a node or tensor op whose elements are known should become `dims`.

    Not for a dtype that kernels lack, nor for floats, which are known only within a range, nor
    for elements with symbols of `data`, which have no value before the data are there.
    """
    if len(op.outputs) != 1 or not op.type.known or op.type.dtype not in COMPILED:
        return False
    return not op.type.element.is_float and not any(d.symbols() & data for d in known.elements)


def decompose_node(view: NodeView, names: Names) -> Decomposition:
    """What the node of `view` is at tensor level. Fresh names derive from its first output.

    Raises Unsupported, with the reason, for an operator, a form or a dtype that the compiler
    lacks, and for shapes that do not fit; Malformed for a node that makes no sense.
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
        with reading():
            results = row.decompose(b, view, values)
    except ShapeMismatch as clash:
        raise Unsupported(
            "break.shapes", left=str(clash.left), right=str(clash.right)
        ) from clash
    require_compiled(*(r.type for r in results))
    made = _of(b, results, view.guards)
    if view.data:
        _require_read(made, [v for v in values if v is not None], view.data)
    return made


NARROWING = frozenset({"guard.broadcast", "guard.range", "guard.slice"})
"""Guards that hold for the form that is compiled; the operator has others for other sizes."""


def narrowed(guards: Iterable[Guard], data: frozenset[str]) -> str:
    """A size from `data` that a form of the operator asks something of, or nothing.

    Whoever calls the model can't choose it, and the right form is known only at run time.
    """
    asked = (name for g in guards if g.reason in NARROWING for name in g.symbols() & data)
    return min(asked, default="")


def _require_read(made: Decomposition, inputs: Sequence[Value], data: frozenset[str]) -> None:
    """Unsupported where an op uses a size from `data` of which it reads no value."""
    asked = narrowed(made.guards, data)
    if asked:
        raise Unsupported("break.size-from-data", size=asked)
    carried = {v.name: v.type.symbols() & data for v in inputs}
    for op in made.ops:
        read = frozenset[str]().union(*(carried[n] for n in op.operands if n in carried))
        unread = _symbols(op) & data - read
        if unread:
            raise Unsupported("break.size-from-data", size=min(unread))
        carried |= {v.name: read for v in op.outputs}


def _symbols(op: Op) -> frozenset[str]:
    """All symbols of an op's results and attributes."""
    found = frozenset[str]().union(*(v.type.symbols() for v in op.outputs))
    for _, value in op.attrs:
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Dim):
                found |= part.symbols()
    return found


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


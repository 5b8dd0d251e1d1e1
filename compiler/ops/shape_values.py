"""Which integers a graph computes from shapes alone: one forward walk.

    known(op) = rule(known(operands), types(operands))        leaves: const, dims, small params

A value is known when every element of it is a dimension (`rules.py`). The rules are those of the
operators' rows, so a node that was given to the library is read like any other; tensor-level casts
and reshapes are read too. What a rule rests on beyond the types comes along as guards.

Teaches: shape arithmetic is a program inside the program, and it runs at compile time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.ir.constants import constant_of
from compiler.ir.dims import Dim
from compiler.ir.graph import Op
from compiler.ir.module import Module
from compiler.ir.params import ParamStore
from compiler.ir.shapes import ShapeMismatch
from compiler.ir.types import COMPILED, Array, DType, TensorType

from .base import Known, Malformed, NodeView, Unsupported, reading
from .rules import KNOWN_CAP, integral
from .table import find
from .views import node_view, onnx_form, operator_name


def shape_values(module: Module, params: ParamStore) -> Mapping[str, tuple[Dim, ...]]:
    """Value name -> elements, for every value that can be known and is of a compiled dtype."""
    graph = module.graph
    types = graph.types()
    return {
        name: known.elements
        for name, known in analyse(module, params).items()
        if types[name].dtype in COMPILED
    }


def analyse(module: Module, params: ParamStore) -> Mapping[str, Known]:
    """As `shape_values`, of every dtype, with guards. Values without known types are left out."""
    walk = Walk(module, params, {})
    for v in module.graph.inputs:
        walk.types[v.name] = v.type
    for op in module.graph.ops:
        walk.visit(op)
    return walk.known


@dataclass
class Walk:
    """The state of a forward walk; a pass that infers types as it goes feeds it op by op.

    `types` holds the types of all values so far; `visit` adds those of an op's outputs.
    """

    module: Module
    params: ParamStore
    types: dict[str, TensorType]
    known: dict[str, Known] = field(default_factory=dict[str, Known])
    leaves: dict[str, Op] = field(default_factory=dict[str, Op])

    def visit(self, op: Op) -> Known | None:
        """Take note of an op with its output types as they are now; what is known of its result."""
        for v in op.outputs:
            self.types[v.name] = v.type
        if op.kind in ("const", "dims", "param"):
            self.leaves[op.key] = op
        found = self._evaluate(op) if len(op.outputs) == 1 and not op.regions else None
        if found is not None and len(found.elements) <= KNOWN_CAP:
            self.known[op.key] = found
            return found
        return None

    def view(self, op: Op) -> NodeView:
        """The view of an `onnx.…` or `extern` op whose operands have been visited."""
        return node_view(
            op, self.module, self.params, self.types.__getitem__, self.known.get, self.constant
        )

    def constant(self, name: str) -> Array | None:
        leaf = self.leaves.get(name)
        return None if leaf is None else constant_of(leaf, self.module, self.params)

    def _evaluate(self, op: Op) -> Known | None:
        if op.key in self.leaves:
            return self._leaf(op)
        if op.kind in ("reshape", "cast"):
            return self._view(op)
        node = onnx_form(op)
        row = find(*operator_name(node)) if node is not None else None
        if row is None or row.shape_value is None:
            return None
        view = self.view(op)
        try:
            with reading():
                elements = row.shape_value(view)
        except (Unsupported, ShapeMismatch, Malformed):
            return None
        if elements is None:
            return None
        return Known(elements, tuple(dict.fromkeys(view.guards)))

    def _leaf(self, op: Op) -> Known | None:
        if op.kind == "dims":
            values = op.get("values")
            assert isinstance(values, tuple)
            return Known(tuple(d for d in values if isinstance(d, Dim)))
        t = op.type
        if not t.known or t.rank > 1 or not (t.element.is_integer or t.element is DType.bool):
            return None
        if (t.numel.constant or 0) > KNOWN_CAP:
            return None
        array = self.constant(op.key)
        elements = None if array is None else integral(array)
        return None if elements is None else Known(elements)

    def _view(self, op: Op) -> Known | None:
        """A reshape within rank 1, or a cast to int64, which holds every element."""
        source = self.known.get(op.operands[0])
        if source is None or not op.type.known or op.type.rank > 1:
            return None
        if op.kind == "cast" and op.type.element is not DType.i64:
            return None
        return source


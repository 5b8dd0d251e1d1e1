"""Type inference of one node by onnx itself, for operators that the compiler has no row for.

    Dims travel as names d0, d1, … and come back as the same dims; a name that is new is unknown.

Pooling with `ceil_mode` is not believed: onnx counts windows that start in the padding, the
evaluator leaves them out, so those extents are left to the data.

Teaches: a symbol is only a name, so any tool that keeps names can carry it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from onnx import ValueInfoProto, shape_inference

from compiler.ir.dims import Dim, dim
from compiler.ir.graph import Op
from compiler.ir.module import Module
from compiler.ir.params import ParamStore
from compiler.ir.types import UNKNOWN, Array, DType, TensorType

from .node_model import node_model
from .protos import ELEMENT

CONSTANT_CAP = 4096
"""Constants with more elements are not shown to the inference."""


@dataclass(frozen=True)
class PartialType:
    """What is known of a type: an element type or None; a shape, of dims or None, or None."""

    dtype: DType | None = None
    shape: tuple[Dim | None, ...] | None = None


@dataclass
class _Tokens:
    """Dims as names, and back."""

    names: dict[Dim, str] = field(default_factory=dict[Dim, str])

    def write(self, d: Dim) -> int | str:
        if d.constant is not None:
            return d.constant
        return self.names.setdefault(d, f"d{len(self.names)}")


def infer_node(
    op: Op,
    module: Module,
    params: ParamStore,
    types: Mapping[str, TensorType],
    constants: Mapping[str, Array],
) -> tuple[PartialType, ...]:
    """What onnx tells of the results of an `onnx.X` op, one each.

    `types` of the values it reads, `constants` those of them that are known arrays. A node that
    onnx finds wrong, or does not know, tells nothing: what is wrong shows when it runs.
    """
    tokens = _Tokens()
    bare = replace(op, outputs=tuple(replace(v, type=UNKNOWN) for v in op.outputs))
    small = {name: a for name, a in constants.items() if a.size <= CONSTANT_CAP}
    proto = node_model(bare, module, params, types, tokens.write, small)
    try:
        inferred = shape_inference.infer_shapes(proto, data_prop=True)
    except (shape_inference.InferenceError, RuntimeError, ValueError):
        return tuple(PartialType() for _ in op.outputs)
    dims = {name: d for d, name in tokens.names.items()}
    found = tuple(_read(value, dims) for value in inferred.graph.output)
    return tuple(map(_without_windows, found)) if op.int("ceil_mode", 0) else found


def _without_windows(type: PartialType) -> PartialType:
    """The type of a pooling's result with its spatial extents left open."""
    if type.shape is None:
        return type
    return replace(type, shape=(*type.shape[:2], *(None for _ in type.shape[2:])))


def _read(value: ValueInfoProto, dims: Mapping[str, Dim]) -> PartialType:
    if value.type.WhichOneof("value") != "tensor_type":
        return PartialType()
    tensor = value.type.tensor_type
    element = ELEMENT.get(tensor.elem_type)
    if not tensor.HasField("shape"):
        return PartialType(element)
    shape = tuple(
        dim(d.dim_value) if d.HasField("dim_value") else dims.get(d.dim_param)
        for d in tensor.shape.dim
    )
    return PartialType(element, shape)

"""The reference: onnx's own evaluator, put right where it is wrong, on a model or on one node.

    reference(model, inputs)            every float in float64: what results are compared with
    ReferenceRunner(module, params)     one op of a module at a time, in the declared types
    NodeRunner(bytes)                   a node that an artifact keeps as `library/<digest>.onnx`

With precision `float64` the float types of inputs, weights, constants and Cast targets become
float64. Where the evaluator cannot do that, the result is the declared one and says so.

Teaches: an error is a distance, so there must be something to measure it from.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    helper,
    numpy_helper,
)

from compiler.ir.graph import Op
from compiler.ir.interpret.onnx_ops import Evaluator, evaluator
from compiler.ir.interpret.tensor import captured
from compiler.ir.module import Module
from compiler.ir.params import ParamStore
from compiler.ir.types import Array, DType, TensorType

from .load import OnnxModel
from .node_model import arguments, node_model
from .protos import ELEMENT_ID, FLOATS, array_of, subgraphs

FLOAT64 = ELEMENT_ID[DType.f64]
BFLOAT16 = ELEMENT_ID[DType.bf16]


@dataclass(frozen=True)
class Reference:
    """Outputs by name. `precision` is `float64` or `declared`; `reason` says why not float64."""

    outputs: dict[str, Array]
    precision: str
    reason: str = ""


def reference(
    model: OnnxModel, inputs: Mapping[str, Array], precision: str = "float64"
) -> Reference:
    """Run the model on `inputs` (by name, in their declared types).

    `precision` is `float64` or `declared`. Any error of the evaluator in the declared types is
    raised as it is.
    """
    reason = ""
    if precision == "float64":
        try:
            wide = {
                name: x.astype(np.float64) if _is_float(x) else x for name, x in inputs.items()
            }
            return Reference(_run(widened(model.proto), wide), "float64")
        except Exception as error:  # whatever an operator raises in types it was not made for
            reason = f"{type(error).__name__}: {error}"
    return Reference(_run(model.proto, inputs), "declared", reason)


def _run(proto: ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    weights = {tensor.name for tensor in proto.graph.initializer}
    feeds = {name: x for name, x in inputs.items() if name not in weights}
    results = evaluate(evaluator(proto), feeds)
    names = [value.name for value in proto.graph.output]
    return dict(zip(names, results, strict=True))


def evaluate(made: Evaluator, feeds: Mapping[str, Array]) -> list[Array]:
    """All outputs, in order; NumPy's warnings about NaN and overflow are no news here."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = made.run(None, dict(feeds))
    return [boxed(x) for x in results]


def boxed(x: object) -> Array:
    """The array itself; a sequence or another value that is no array, in an array of rank 0."""
    if isinstance(x, np.ndarray | np.generic):
        array: Array = np.asarray(cast(Array, x))
        return array
    box = np.empty((), object)
    box[()] = x
    return box


def _unboxed(x: Array, element: int) -> Array:
    """What the evaluator takes: the value in a box; bfloat16 where its bits were given."""
    if x.dtype == object and x.ndim == 0 and isinstance(x[()], list | dict):
        return x[()]
    if element == BFLOAT16 and x.dtype == np.uint16:
        return x.view(helper.tensor_dtype_to_np_dtype(BFLOAT16))
    return x


def _is_float(x: Array) -> bool:
    return x.dtype.kind == "f" or x.dtype.name == "bfloat16"


# ---- one node ------------------------------------------------------------------------------------


class NodeRunner:
    """Runs the node in a `node_model`; thread-safe."""

    def __init__(self, data: bytes | ModelProto) -> None:
        if isinstance(data, bytes):
            proto = ModelProto()
            proto.ParseFromString(data)
        else:
            proto = data
        self.names = [value.name for value in proto.graph.input]
        self._elements = [value.type.tensor_type.elem_type for value in proto.graph.input]
        self._evaluator = evaluator(proto)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The results, in order. `inputs` as `arguments(op)`: present ones, once each.

        bfloat16 comes as ml_dtypes' type, or as its bits in uint16.
        """
        given = zip(self.names, inputs, self._elements, strict=True)
        return evaluate(self._evaluator, {name: _unboxed(x, kind) for name, x, kind in given})


@dataclass
class ReferenceRunner:
    """Runs `onnx.X`, `extern` and `call.reference` ops of a module (an `ExternRunner`)."""

    module: Module
    params: ParamStore
    _made: dict[int, tuple[Op, NodeRunner]] = field(
        default_factory=dict[int, tuple[Op, NodeRunner]], repr=False
    )

    def run(
        self, op: Op, inputs: Sequence[Array | None], types: Sequence[TensorType | None] = ()
    ) -> list[Array]:
        """The results of `op`. `inputs`: its operands, then what its regions capture."""
        names = (*op.inputs, *captured(op))
        known = dict(zip(names, types, strict=False))
        values = {
            name: x
            for name, x in zip(names, inputs, strict=True)
            if name is not None and x is not None
        }
        kept = self._made.get(id(op))
        if kept is None or kept[0] is not op:
            declared = {n: t for n, t in known.items() if n is not None and t is not None}
            kept = op, NodeRunner(node_model(op, self.module, self.params, declared))
            self._made[id(op)] = kept
        return kept[1].run([values[name] for name in arguments(op)])


def lacking(op: Op, module: Module, params: ParamStore) -> str:
    """Why the reference evaluator cannot run an ONNX op, or nothing when it can."""
    try:
        NodeRunner(node_model(op, module, params))
    except Exception as error:  # the evaluator's errors have no common type
        first = (str(error).splitlines() or [""])[0].partition(" Did you recompile")[0]
        return first.rstrip(".") or type(error).__name__
    return ""


# ---- float64 -------------------------------------------------------------------------------------

TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_datatype"})
"""Attributes that name the element type of a result."""


def widened(proto: ModelProto) -> ModelProto:
    """A copy in which every float type is float64."""
    made = ModelProto()
    made.CopyFrom(proto)
    _widen(made.graph)
    return made


def _widen(graph: GraphProto) -> None:
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type in FLOATS:
            value.type.tensor_type.elem_type = FLOAT64
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and not node.attribute:
            zero = numpy_helper.from_array(np.zeros(1, np.float64))
            node.attribute.append(helper.make_attribute("value", zero))
        for attribute in node.attribute:
            _widen_attribute(node, attribute)
        for inner in subgraphs(node):
            _widen(inner)


def _widen_attribute(node: NodeProto, attribute: AttributeProto) -> None:
    if attribute.type == AttributeProto.TENSOR:
        _widen_tensor(attribute.t)
    elif attribute.name in TYPE_ATTRIBUTES and attribute.i in FLOATS:
        attribute.i = FLOAT64
    elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
        scalar = attribute.name == "value_float"
        array = np.array(attribute.f if scalar else list(attribute.floats), np.float64)
        tensor = numpy_helper.from_array(array)
        attribute.Clear()
        attribute.name, attribute.type = "value", AttributeProto.TENSOR
        attribute.t.CopyFrom(tensor)


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in FLOATS:
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(array_of(tensor).astype(np.float64), name))

"""From one op back to ONNX: a model of a single node, which the reference evaluator can run.

    %y = extern %a, %b {op="onnx.Gemm", …}   ─►   model (i0, i1) -> (o0) { o0 = Gemm(i0, i1) }

Inputs and outputs are positional and named by their place, so equal steps give equal bytes, and
one file in an artifact serves them all. What the regions capture follows the operands, unless it
stands among them already (`captured` tells how many of the last operands are such).

Teaches: an intermediate representation should be able to say again what it was told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    defs,
    helper,
    numpy_helper,
)

from compiler.ir.dims import Dim
from compiler.ir.graph import Graph, Op, reads
from compiler.ir.module import Module
from compiler.ir.params import ParamStore
from compiler.ir.types import Array, Attr, ParamRef, Scalar, TensorType
from compiler.ops.views import onnx_form, operator_name, opset_of

from .importer import CAPTURED, PROTO
from .protos import ELEMENT_ID

IR_VERSION = 10
REGION = "_region"

DimName = Callable[[Dim], int | str]
"""How a dimension stands in a declared shape: a number, or a name."""


def arguments(op: Op) -> tuple[str, ...]:
    """The values that a node model takes, once each, in order: operands, then captured ones."""
    return tuple(dict.fromkeys(reads(op)))


def node_model(
    op: Op,
    module: Module,
    params: ParamStore,
    types: Mapping[str, TensorType] | None = None,
    dim_name: DimName | None = None,
    constants: Mapping[str, Array] | None = None,
) -> ModelProto:
    """A model of the `onnx.X`, `extern` or `call.reference` op alone.

    Its inputs are `arguments(op)`, named `i0, i1, …`, its outputs `o0, o1, …`. `types` declares
    the element types of inputs and results, with `dim_name` their shapes too; `constants` become
    weights of the model beside being inputs. ValueError for an op of another kind, KeyError for
    a tensor attribute whose array is gone.
    """
    if op.kind == "call.reference":
        op = replace(op, kind="extern")
    return _Writer(module, params).model(op, types or {}, dim_name, constants or {})


class _Writer:
    def __init__(self, module: Module, params: ParamStore) -> None:
        self.module = module
        self.params = params
        self.count = 0

    def model(
        self,
        op: Op,
        types: Mapping[str, TensorType],
        dim_name: DimName | None,
        constants: Mapping[str, Array],
    ) -> ModelProto:
        names = {name: f"i{k}" for k, name in enumerate(arguments(op))}
        inputs = [declare(new, types.get(old), dim_name) for old, new in names.items()]
        results = [f"o{k}" for k in range(len(op.outputs))]
        outputs = [
            declare(new, v.type, dim_name)
            for new, v in zip(results, op.outputs, strict=True)
        ]
        node = self.node(op, names, results)
        weights = [
            numpy_helper.from_array(array, names[name])
            for name, array in constants.items()
            if name in names
        ]
        graph = helper.make_graph([node], "node", inputs, outputs, weights)
        opsets = dict(self.module.opsets)
        opsets[node.domain] = opset_of(op, self.module)
        used = {node.domain}
        for region in op.regions:
            used |= {operator_name(o)[0] for o in region.walk() if o.family == "onnx"}
        return helper.make_model(
            graph,
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid(d, opsets.get(d, 1)) for d in sorted(used)],
        )

    def node(self, op: Op, names: Mapping[str, str], results: Sequence[str]) -> NodeProto:
        form = onnx_form(op)
        if form is None:
            raise ValueError(f"%{op.key} = {op.kind} is no ONNX node")
        opset = opset_of(op, self.module)
        domain, kind = operator_name(form)
        own = form.inputs[: len(form.inputs) - form.int(CAPTURED, 0)]
        made = NodeProto(op_type=kind, domain=domain)
        made.input.extend("" if name is None else names[name] for name in own)
        made.output.extend(results)
        for name, value in form.attrs:
            if name == CAPTURED:
                continue
            if name.endswith(REGION) and isinstance(value, int) and value < len(form.regions):
                inner = self.region(form.regions[value], names)
                made.attribute.append(
                    AttributeProto(
                        name=name.removesuffix(REGION), type=AttributeProto.GRAPH, g=inner
                    )
                )
            elif name.endswith(PROTO) and isinstance(value, ParamRef):
                stored = AttributeProto()
                stored.ParseFromString(self.array(value).tobytes())
                made.attribute.append(stored)
            else:
                made.attribute.append(self.attribute(name, value, domain, kind, opset))
        return made

    def array(self, reference: ParamRef) -> Array:
        return self.params.get(self.module.param(reference.name).digest)

    def attribute(
        self, name: str, value: Attr, domain: str, kind: str, opset: int
    ) -> AttributeProto:
        made = AttributeProto(name=name)
        match value:
            case int():
                made.type, made.i = AttributeProto.INT, value
            case str():
                made.type, made.s = AttributeProto.STRING, value.encode()
            case Scalar():
                made.type, made.f = AttributeProto.FLOAT, float(value.value())
            case ParamRef():
                made.type = AttributeProto.TENSOR
                made.t.CopyFrom(numpy_helper.from_array(self.array(value)))
            case tuple():
                made.type = _list_type(name, value, domain, kind, opset)
                made.ints.extend(v for v in value if isinstance(v, int))
                made.floats.extend(float(v.value()) for v in value if isinstance(v, Scalar))
                made.strings.extend(v.encode() for v in value if isinstance(v, str))
            case _:
                raise ValueError(f"{kind} has an attribute {name!r} that ONNX does not know")
        return made

    def region(self, region: Graph, around: Mapping[str, str]) -> GraphProto:
        """A region as a subgraph; its names are numbered, so that they are free everywhere."""
        names = dict(around)
        made = GraphProto(name="body")
        for value in region.inputs:
            names[value.name] = self.fresh()
            made.input.append(declare(names[value.name], value.type, None))
        for op in region.ops:
            results: list[str] = []
            for value in op.outputs:
                names[value.name] = self.fresh()
                results.append(names[value.name])
            if op.family == "onnx" or op.kind == "extern":
                made.node.append(self.node(op, names, results))
            else:
                made.initializer.append(self.weight(op, results[0]))
        types = {v.name: v.type for op in region.ops for v in op.outputs}
        for name in region.outputs:
            made.output.append(declare(names[name], types.get(name), None))
        return made

    def weight(self, op: Op, name: str) -> TensorProto:
        """A `const`, `dims` or `param` op inside a region."""
        if op.kind == "param":
            reference = op.get("param")
            assert isinstance(reference, ParamRef)
            return numpy_helper.from_array(self.array(reference), name)
        if op.kind == "const":
            value = op.get("value")
            assert isinstance(value, Scalar)
            array = np.asarray(value.array()).reshape([1] * op.type.rank)
            return numpy_helper.from_array(array, name)
        if op.kind == "dims":
            values = op.get("values")
            assert isinstance(values, tuple)
            numbers = [v.constant for v in values if isinstance(v, Dim)]
            array = np.array(numbers, np.int64).reshape(() if op.type.rank == 0 else (-1,))
            return numpy_helper.from_array(array, name)
        raise ValueError(f"%{op.key} = {op.kind} inside a region of a library step")

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"


def declare(
    name: str, type: TensorType | None, dim_name: DimName | None
) -> ValueInfoProto:
    """A declaration: the element type where known, the shape where `dim_name` can write it."""
    made = ValueInfoProto(name=name)
    if type is None or type.dtype is None:
        return made
    tensor = made.type.tensor_type
    tensor.elem_type = ELEMENT_ID[type.dtype]
    if dim_name is not None and type.shape is not None:
        tensor.shape.SetInParent()
        for d in type.shape:
            written = dim_name(d)
            if isinstance(written, int):
                tensor.shape.dim.add(dim_value=written)
            else:
                tensor.shape.dim.add(dim_param=written)
    return made


def _list_type(
    name: str, value: tuple[Attr, ...], domain: str, kind: str, opset: int
) -> AttributeProto.AttributeType:
    """The type of a list attribute; that of an empty list is looked up in the schema."""
    if value:
        if isinstance(value[0], Scalar):
            return AttributeProto.FLOATS
        return AttributeProto.STRINGS if isinstance(value[0], str) else AttributeProto.INTS
    if defs.has(kind, domain):
        schema = defs.get_schema(kind, opset, domain)
        kind_of = defs.OpSchema.AttrType
        if name in schema.attributes:
            if schema.attributes[name].type == kind_of.FLOATS:
                return AttributeProto.FLOATS
            if schema.attributes[name].type == kind_of.STRINGS:
                return AttributeProto.STRINGS
    return AttributeProto.INTS

"""From an ONNX model to the first module: every node an op `onnx.X`, every weight a leaf.

    weight of one element ─► const     int64 vector of at most 64 ─► dims     any other ─► param
    Constant node         ─► the same, in its place, with the node as its origin
    dim_param "batch"     ─► the symbol batch      a dimension without a name ─► `input.axis`

A weight that is also listed as an input is an overridable default (from IR version 4 on; before
that every weight had to be listed): it is compiled as a constant and is no input. Types that the
file declares stand on the values until inference replaces them. Subgraphs become regions; names
that are taken are made fresh inside them. What an attribute of the module cannot hold (bfloat16
and text tensors, types, bytes) stays as it is in the file, serialised, in `<name>_proto`.

Teaches: names, not positions, hold a graph together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto, numpy_helper

from compiler.errors import ModelError
from compiler.ir.dims import Dim, Symbol, dim, dims
from compiler.ir.edits import Dims, Edit, Event, Header, Ops, Params, parameters
from compiler.ir.graph import NO_ORIGINS, Graph, Node, Op, Origin, Origins, Param, Value
from compiler.ir.names import Names
from compiler.ir.params import ParamStore
from compiler.ir.types import UNKNOWN, Array, Attr, DType, ParamRef, Scalar, TensorType

from .load import OnnxModel
from .protos import ELEMENT, STORED, TensorError, array_of

SHORT_VECTOR = 64
"""Int64 vectors up to this length print whole, as `dims`: shapes, axes, permutations."""

PROTO = "_proto"
"""Ending of an attribute that holds a serialised `AttributeProto` (a u8 vector)."""

CAPTURED = "captured"
"""Attribute of an op with regions: how many of its last inputs are read only inside them."""


def import_events(model: OnnxModel, params: ParamStore, names: Names) -> tuple[Event, ...]:
    """The edits that make the module of `model` from the empty one.

    Arrays go to `params`, every value's name to `names`. ModelError for a damaged tensor.
    """
    try:
        return tuple(_Importer(model, params, names).events())
    except TensorError as error:
        raise ModelError(
            "model.tensor", file=model.file, tensor=error.name, reason=error.reason
        ) from error


Scope = Mapping[str, str]
"""Names in the file -> names of values."""


@dataclass
class _Importer:
    model: OnnxModel
    params: ParamStore
    names: Names
    nodes: list[Node] = field(default_factory=list[Node])
    weights: list[Param] = field(default_factory=list[Param])
    weight_names: set[str] = field(default_factory=set[str])
    symbols: dict[str, Symbol] = field(default_factory=dict[str, Symbol])
    taken: set[str] = field(default_factory=set[str])
    input_symbols: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()

    def events(self) -> Iterator[Event]:
        graph = self.model.proto.graph
        defaults = {tensor.name for tensor in graph.initializer}
        self.words = frozenset(
            d.dim_param
            for value in (*graph.input, *graph.output, *graph.value_info)
            for d in value.type.tensor_type.shape.dim
        )
        self.taken.update(name for name in _all_names(graph) if name)
        self.names.reserve(self.taken)
        inputs = tuple(
            Value(value.name, self.type(value.type, value.name))
            for value in graph.input
            if value.name not in defaults
        )
        self.input_symbols = frozenset(self.symbols)
        declared = {
            value.name: self.type(value.type, value.name)
            for value in (*graph.value_info, *graph.output)
            if value.name not in defaults and value.HasField("type")
        }
        scope = {name: name for name in self.taken}
        leaves = [self.weight(tensor, tensor.name) for tensor in graph.initializer]
        weights = tuple(self.weights)
        placed = zip(graph.node, self.model.positions, strict=True)
        ops = [self.node(node, at, scope, declared) for node, at in placed]
        outputs = tuple(value.name for value in graph.output)
        header = Header(
            self.model.name, self.model.opsets, tuple(self.nodes), inputs, outputs, outputs
        )
        yield Event(
            "import.header", self.model.name, (header,), "import.header",
            parameters(inputs=len(inputs), outputs=len(outputs), nodes=len(self.nodes)),
        )  # fmt: skip
        for message, what in self.model.notes:
            yield Event(message, self.model.name, (), message, parameters(graph=what))
        for value in graph.input:
            if value.name in defaults and self.model.proto.ir_version >= 4:
                yield Event(
                    "import.default", value.name, (), "import.default",
                    parameters(input=value.name),
                )  # fmt: skip
        if self.symbols:
            yield Event(
                "import.dims", self.model.name, (Dims(tuple(self.symbols.values()), ()),),
                "import.dims", parameters(symbols=", ".join(self.symbols)),
            )  # fmt: skip
        if leaves:
            edits: list[Edit] = [Params((), weights)] if weights else []
            edits.append(Ops(added=tuple(enumerate(leaves))))
            elements = sum(leaf.type.numel.constant or 0 for leaf in leaves if leaf.type.known)
            yield Event(
                "import.weights", self.model.name, tuple(edits), "import.weights",
                parameters(weights=len(leaves), elements=elements),
            )  # fmt: skip
        if ops:
            inside = tuple(self.weights[len(weights) :])
            edits = [Params((), inside)] if inside else []
            edits.append(Ops(added=tuple(enumerate(ops, len(leaves)))))
            yield Event(
                "import.nodes", self.model.name, tuple(edits), "import.nodes",
                parameters(nodes=len(ops)),
            )  # fmt: skip

    # ---- types

    def type(self, proto: TypeProto, value: str) -> TensorType:
        """A declared type; a dimension without a number is a symbol, at need `value.axis`."""
        if proto.WhichOneof("value") != "tensor_type":
            return UNKNOWN
        tensor = proto.tensor_type
        element = ELEMENT.get(tensor.elem_type)
        if not tensor.HasField("shape"):
            return TensorType(element, None)
        shape: list[Dim] = []
        for axis, d in enumerate(tensor.shape.dim):
            if d.HasField("dim_value") and d.dim_value >= 0:
                shape.append(dim(d.dim_value))
            else:
                shape.append(dim(self.symbol(d.dim_param or self.unnamed(value, axis))))
        return TensorType(element, tuple(shape))

    def symbol(self, name: str) -> str:
        self.symbols.setdefault(name, Symbol(name))
        return name

    def unnamed(self, value: str, axis: int) -> str:
        """The symbol of a dimension that the file gives no name: none that the file uses."""
        name = f"{value}.{axis}"
        while name in self.words:
            name += "'"
        return name

    def inner_type(self, proto: TypeProto) -> TensorType:
        """A type inside a subgraph: its rank is kept only where every dimension is known outside.

        A library step runs the subgraph whole, so nothing is bound to its dimensions.
        """
        if proto.WhichOneof("value") != "tensor_type":
            return UNKNOWN
        tensor = proto.tensor_type
        known = tensor.HasField("shape") and all(
            (d.HasField("dim_value") and d.dim_value >= 0) or d.dim_param in self.input_symbols
            for d in tensor.shape.dim
        )
        if known:
            return self.type(proto, "")
        return TensorType(ELEMENT.get(tensor.elem_type), None)

    # ---- leaves

    def weight(self, tensor: TensorProto, name: str, origins: Origins = NO_ORIGINS) -> Op:
        """A tensor as the op that stands for it: `const`, `dims`, `param`, else a library step."""
        if tensor.data_type not in STORED:
            attribute = AttributeProto(name="value", type=AttributeProto.TENSOR, t=tensor)
            attribute.t.ClearField("name")
            attribute.t.ClearField("doc_string")
            shape = dims(tensor.dims)
            value = Value(name, TensorType(ELEMENT.get(tensor.data_type), shape))
            reference = self.proto_param(attribute, name)
            return Op("onnx.Constant", (), (value,), (("value" + PROTO, reference),), (), origins)
        return self.leaf(array_of(tensor), name, origins)

    def leaf(self, array: Array, name: str, origins: Origins) -> Op:
        dtype = DType.of(array.dtype)
        value = Value(name, TensorType(dtype, dims(array.shape)))
        if array.size == 1:
            scalar = Scalar(dtype, int.from_bytes(array.tobytes(), "little"))
            return Op("const", (), (value,), (("value", scalar),), (), origins)
        if dtype is DType.i64 and array.ndim == 1 and array.size <= SHORT_VECTOR:
            values = dims(int(n) for n in array)
            return Op("dims", (), (value,), (("values", values),), (), origins)
        return Op("param", (), (value,), (("param", self.param(array, name)),), (), origins)

    def param(self, array: Array, name: str) -> ParamRef:
        """Keep an array under `name`, or a fresh name where a weight has it."""
        if name in self.weight_names:
            name = self.names.fresh(name)
        self.weight_names.add(name)
        type = TensorType(DType.of(array.dtype), dims(array.shape))
        self.weights.append(Param(name, type, self.params.add(array)))
        return ParamRef(name)

    def proto_param(self, attribute: AttributeProto, name: str) -> ParamRef:
        data = attribute.SerializeToString(deterministic=True)
        return self.param(np.frombuffer(data, np.uint8), name)

    # ---- nodes

    def node(
        self, node: NodeProto, position: Origin, scope: Scope, declared: Mapping[str, TensorType]
    ) -> Op:
        domain = f"{node.domain}." if node.domain else ""
        self.nodes.append(Node(position, node.name, f"{domain}{node.op_type}"))
        origins = frozenset({position})
        results = self.results(node, scope, declared)
        if node.op_type == "Constant" and not node.domain:
            leaf = self.constant(node, results[0].name, origins)
            if leaf is not None:
                return leaf
        key = results[0].name
        attributes: dict[str, Attr] = {}
        regions: list[Graph] = []
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                attributes[f"{attribute.name}_region"] = len(regions)
                regions.append(self.region(attribute.g, scope, (*position, len(regions))))
            else:
                name, value = self.attribute(attribute, key)
                attributes[name] = value
        inputs = [scope[name] if name else None for name in node.input]
        while inputs and inputs[-1] is None:
            inputs.pop()
        kind = f"onnx.{node.domain}:{node.op_type}" if node.domain else f"onnx.{node.op_type}"
        return Op(
            kind, tuple(inputs), results, tuple(sorted(attributes.items())), tuple(regions), origins
        )

    def results(
        self, node: NodeProto, scope: Scope, declared: Mapping[str, TensorType]
    ) -> tuple[Value, ...]:
        """The results with their declared types; one without a name gets a fresh one."""
        found = list(node.output)
        while len(found) > 1 and not found[-1]:
            found.pop()
        base = next((scope[name] for name in found if name), node.op_type)
        return tuple(
            Value(scope[name], declared.get(name, UNKNOWN))
            if name
            else Value(self.fresh(base), UNKNOWN)
            for name in found
        )

    def fresh(self, base: str) -> str:
        name = self.names.fresh(base)
        self.taken.add(name)
        return name

    def constant(self, node: NodeProto, name: str, origins: Origins) -> Op | None:
        """The leaf that a Constant node stands for; None where only a library can tell it."""
        for a in node.attribute:
            match a.name:
                case "value":
                    return self.weight(a.t, name, origins)
                case "value_float":
                    return self.leaf(np.array(a.f, np.float32), name, origins)
                case "value_floats":
                    return self.leaf(np.array(a.floats, np.float32), name, origins)
                case "value_int":
                    return self.leaf(np.array(a.i, np.int64), name, origins)
                case "value_ints":
                    return self.leaf(np.array(a.ints, np.int64), name, origins)
                case "value_string" | "value_strings":
                    texts = np.array(a.s if a.name == "value_string" else list(a.strings), object)
                    return self.weight(numpy_helper.from_array(texts), name, origins)
                case _:
                    pass
        return None

    def attribute(self, a: AttributeProto, key: str) -> tuple[str, Attr]:
        """Name and value in the module's closed vocabulary, else the serialised proto."""
        kind = AttributeProto
        if a.type == kind.INT:
            return a.name, a.i
        if a.type == kind.FLOAT:
            return a.name, Scalar.of(DType.f32, a.f)
        if a.type == kind.INTS:
            return a.name, tuple(a.ints)
        if a.type == kind.FLOATS:
            return a.name, tuple(Scalar.of(DType.f32, v) for v in a.floats)
        try:
            if a.type == kind.STRING:
                return a.name, a.s.decode()
            if a.type == kind.STRINGS:
                return a.name, tuple(s.decode() for s in a.strings)
        except UnicodeDecodeError:
            pass
        if a.type == kind.TENSOR and a.t.data_type in STORED:
            return a.name, self.param(array_of(a.t), f"{key}.{a.name}")
        return a.name + PROTO, self.proto_param(a, f"{key}.{a.name}")

    # ---- subgraphs

    def region(self, graph: GraphProto, around: Scope, path: Origin) -> Graph:
        """A subgraph; names it defines that are taken are made fresh."""
        scope = dict(around)
        own = [value.name for value in graph.input]
        formals = frozenset(own)
        own += [tensor.name for tensor in graph.initializer if tensor.name not in formals]
        own += [name for node in graph.node for name in node.output if name]
        for name in own:
            scope[name] = self.fresh(name) if name in self.taken else name
            self.taken.add(name)
            self.names.reserve((name,))
        inputs = tuple(Value(scope[v.name], self.inner_type(v.type)) for v in graph.input)
        declared = {
            v.name: self.inner_type(v.type)
            for v in (*graph.value_info, *graph.output)
            if v.HasField("type")
        }
        ops = [
            self.weight(tensor, scope[tensor.name])
            for tensor in graph.initializer
            if tensor.name not in formals
        ]
        for k, node in enumerate(graph.node):
            ops.append(self.node(node, (*path, k), scope, declared))
        return Graph(inputs, tuple(scope[v.name] for v in graph.output), tuple(ops))


def _all_names(graph: GraphProto) -> Iterator[str]:
    """Names that the top graph defines, subgraphs left out."""
    for value in graph.input:
        yield value.name
    for tensor in graph.initializer:
        yield tensor.name
    for node in graph.node:
        yield from node.output

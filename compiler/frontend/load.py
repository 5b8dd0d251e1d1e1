"""Read an ONNX file and put it in order, or say what is wrong with it and what to do.

    bytes ──parse──► ModelProto ──weights beside it, one domain name, dense tensors,
                                  functions inlined, nodes in order of use──► OnnxModel

Every check that a graph needs to make sense is here: each name is defined once and before use, each
node has as many inputs and outputs as its operator takes, and the nodes can be ordered. What an
operator does is not looked at.

Teaches: a model file is a list of equations, not a program; their order follows from the names.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    defs,
    inliner,
)

from compiler.errors import ModelError
from compiler.ir.graph import Origin

from .protos import ELEMENT, TensorError, defined, dense, label, node_reads, subgraphs, tensors


@dataclass(frozen=True)
class OnnxModel:
    """A model that was read and put in order.

    `name` is the file's stem; `file` what messages call it; `digest` the SHA-256 of the file and
    of the weights beside it; `positions` the place of each node of `proto.graph` in the file (a
    path `(call, k)` for the k-th node of an inlined function); `notes` what was put right, as
    `(message id, what)`.
    """

    name: str
    file: str
    digest: str
    proto: ModelProto = field(compare=False, repr=False)
    positions: tuple[Origin, ...] = field(compare=False, repr=False)
    notes: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @property
    def opsets(self) -> tuple[tuple[str, int], ...]:
        """(domain, version) as the file imports them; the default domain is the empty text."""
        return tuple((entry.domain, entry.version) for entry in self.proto.opset_import)


Source = str | os.PathLike[str] | bytes | ModelProto
"""Where a model comes from."""


def load(source: Source, name: str | None = None) -> OnnxModel:
    """The model in a file, in bytes or in memory, checked and put in order.

    `name` is what messages and the module call it (default: the file's name, else the graph's).
    Weights beside the model are read from its own folder only, so only for a file. ModelError
    names the file, the node and the way out.
    """
    if isinstance(source, ModelProto):
        source = source.SerializeToString()
    if isinstance(source, bytes):
        data, folder = source, None
        file, stem = name or "", name or ""
    else:
        path = Path(source)
        file, stem = name or path.name, name or path.stem
        data, folder = _read(path, file), path.parent
    proto = _parse(data, file)
    digest = hashlib.sha256(data)
    for tensor in tensors(proto.graph):
        if tensor.data_location == TensorProto.EXTERNAL:
            digest.update(_load_external(tensor, folder, file))
    try:
        return _in_order(proto, file, stem, digest.hexdigest())
    except TensorError as error:
        raise ModelError(
            "model.tensor", file=file, tensor=error.name, reason=error.reason
        ) from error


# ---- bytes -------------------------------------------------------------------------------------


def _read(path: Path, file: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelError("model.missing", file=str(path)) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError("model.unreadable", file=file, reason=reason) from error


_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"PK\x03\x04", "a ZIP archive (PyTorch's .pt and .pth, NumPy's .npz, Keras's .keras)"),
    (0, b"\x80\x02", "a Python pickle (PyTorch's old .pt)"),
    (0, b"\x80\x03", "a Python pickle"),
    (0, b"\x80\x04", "a Python pickle"),
    (0, b"\x80\x05", "a Python pickle"),
    (0, b"\x89HDF", "an HDF5 file (Keras's .h5)"),
    (4, b"TFL3", "a TensorFlow Lite model"),
    (4, b"ORTM", "a model in ONNX Runtime's own format"),
    (0, b"GGUF", "a GGUF file"),
    (0, b"\x93NUMPY", "a NumPy array (.npy)"),
    (8, b'{"', "a safetensors file"),
)


def _parse(data: bytes, file: str) -> ModelProto:
    if not data:
        raise ModelError("model.empty-file", file=file)
    if data.startswith(b"version https://git-lfs"):
        raise ModelError("model.lfs-pointer", file=file)
    for offset, magic, format in _MAGIC:
        if data[offset : offset + len(magic)] == magic:
            raise ModelError("model.other-format", file=file, format=format)
    starts_right = data[0] == 0x08 and len(data) > 1 and 1 <= data[1] < 64
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        problem = "model.truncated" if starts_right else "model.not-onnx"
        raise ModelError(problem, file=file) from error
    if not proto.HasField("graph"):
        raise ModelError("model.no-graph" if starts_right else "model.not-onnx", file=file)
    return proto


def _load_external(tensor: TensorProto, folder: Path | None, file: str) -> bytes:
    """Bring a tensor's data into the tensor; returns them."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ModelError(
            "model.external-bytes", file=file, tensor=tensor.name, location=location
        )
    home = folder.resolve()
    path = (home / location).resolve()
    if not path.is_relative_to(home):
        raise ModelError(
            "model.external-outside", file=file, tensor=tensor.name, location=location
        )
    if not path.is_file():
        raise ModelError(
            "model.external-missing", file=file, tensor=tensor.name, location=location
        )
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
        with path.open("rb") as stream:
            stream.seek(offset)
            data = stream.read(length)
    except (OSError, ValueError) as error:
        raise ModelError(
            "model.tensor", file=file, tensor=tensor.name, reason=str(error)
        ) from error
    if len(data) < length:
        raise ModelError(
            "model.external-short", file=file, tensor=tensor.name, location=location,
            wanted=length, found=len(data),
        )  # fmt: skip
    tensor.raw_data = data
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]
    return data


# ---- order -------------------------------------------------------------------------------------


def _in_order(proto: ModelProto, file: str, stem: str, digest: str) -> OnnxModel:
    notes: list[tuple[str, str]] = []
    _one_domain_name(proto)
    _make_dense(proto.graph)
    if proto.ir_version < 3 and not proto.opset_import:
        proto.opset_import.add(domain="", version=1)
    _check_ends(proto.graph, file)
    proto, positions = _inline(proto, file)
    imported = {entry.domain for entry in proto.opset_import}
    for node in _all_nodes(proto.graph):
        if node.domain not in imported:
            if not node.domain:
                raise ModelError("model.no-opset", file=file, domain="ai.onnx")
            proto.opset_import.add(domain=node.domain, version=1)
            imported.add(node.domain)
    if any(len(position) > 1 for position in positions):
        notes.append(("import.inlined", proto.graph.name))
    opsets = {entry.domain: entry.version for entry in proto.opset_import}
    ordered = _sort(proto.graph, positions, frozenset(), file, opsets)
    if ordered != positions:
        notes.append(("import.reordered", proto.graph.name))
    stem = stem or proto.graph.name or "model"
    return OnnxModel(stem, file or stem, digest, proto, tuple(ordered), tuple(notes))


def _all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from _all_nodes(inner)


def _one_domain_name(proto: ModelProto) -> None:
    """`ai.onnx` is another spelling of the default domain, the empty text."""
    spelled = [entry for entry in proto.opset_import if entry.domain == "ai.onnx"]
    plain = any(entry.domain == "" for entry in proto.opset_import)
    for entry in spelled:
        if plain:
            proto.opset_import.remove(entry)
        entry.domain, plain = "", True
    bodies: list[Iterable[NodeProto]] = [_all_nodes(proto.graph)]
    bodies += [function.node for function in proto.functions]
    for body in bodies:
        for node in body:
            if node.domain == "ai.onnx":
                node.domain = ""


def _make_dense(graph: GraphProto) -> None:
    """Replace sparse weights and constants by dense ones; give untyped attributes their type."""
    graph.initializer.extend(dense(sparse) for sparse in graph.sparse_initializer)
    del graph.sparse_initializer[:]
    for node in _all_nodes(graph):
        for attribute in node.attribute:
            if not attribute.type:
                attribute.type = _type_of(attribute)
            if node.op_type == "Constant" and attribute.HasField("sparse_tensor"):
                tensor = dense(attribute.sparse_tensor)
                attribute.ClearField("sparse_tensor")
                attribute.name, attribute.type = "value", AttributeProto.TENSOR
                attribute.t.CopyFrom(tensor)
        for inner in subgraphs(node):
            inner.initializer.extend(dense(sparse) for sparse in inner.sparse_initializer)
            del inner.sparse_initializer[:]


def _type_of(attribute: AttributeProto) -> AttributeProto.AttributeType:
    """The type of an attribute in files older than the field that tells it (IR version 1)."""
    for name, kind in (
        ("i", AttributeProto.INT), ("f", AttributeProto.FLOAT), ("s", AttributeProto.STRING),
        ("t", AttributeProto.TENSOR), ("g", AttributeProto.GRAPH),
    ):  # fmt: skip
        if attribute.HasField(name):
            return kind
    if attribute.floats:
        return AttributeProto.FLOATS
    return AttributeProto.STRINGS if attribute.strings else AttributeProto.INTS


def _check_ends(graph: GraphProto, file: str) -> None:
    """Inputs have usable types and names of their own; there are outputs, each listed once."""
    if not graph.output:
        raise ModelError("model.empty-graph", file=file)
    weights: set[str] = set()
    for tensor in graph.initializer:
        if tensor.name in weights:
            raise ModelError("model.duplicate-weight", file=file, value=tensor.name)
        weights.add(tensor.name)
    names = [value.name for value in graph.input]
    for name in names:
        if names.count(name) > 1:
            raise ModelError("model.duplicate-input", file=file, value=name)
    for value in graph.input:
        problem = _input_problem(value)
        if problem and value.name not in weights:
            raise ModelError("model.input-type", file=file, input=value.name, type=problem)
    outputs = [value.name for value in graph.output]
    for name in outputs:
        if outputs.count(name) > 1:
            raise ModelError("model.duplicate-output", file=file, value=name)


_KINDS: Mapping[str, str] = {
    "sequence_type": "a sequence",
    "map_type": "a map",
    "optional_type": "an optional value",
    "sparse_tensor_type": "a sparse tensor",
}


def _input_problem(value: ValueInfoProto) -> str:
    """Why a graph input cannot be one, or nothing."""
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return _KINDS.get(kind or "", "without a type")
    number = value.type.tensor_type.elem_type
    if number in ELEMENT:
        return ""
    if number == TensorProto.UNDEFINED:
        return "a tensor without an element type"
    return f"a tensor of {element_name(value.type)}"


def element_name(type: TypeProto) -> str:
    """ONNX's name of a tensor type's element type, for messages."""
    number = type.tensor_type.elem_type
    known = {int(value): name for name, value in TensorProto.DataType.items()}
    return known.get(number, str(number))


def _inline(proto: ModelProto, file: str) -> tuple[ModelProto, list[Origin]]:
    """The model with calls of its own functions replaced by their nodes, and their positions.

    A function under another opset is converted; one that cannot be inlined stays a call.
    ModelError for more than `MOST_NODES` nodes.
    """
    flat: list[Origin] = [(k,) for k in range(len(proto.graph.node))]
    if not proto.functions:
        return proto, flat
    sizes = _function_sizes(proto)
    calls = [sizes.get(_key(node)) for node in proto.graph.node]
    nodes = sum(1 if size is None else size for size in calls)
    if nodes > MOST_NODES:
        raise ModelError("model.too-many-nodes", file=file, nodes=nodes, limit=MOST_NODES)
    made = proto
    for convert in (False, True):
        try:
            made = inliner.inline_local_functions(made, convert)
        except Exception:  # the inliner's errors have no common type; an inlined call is optional
            break
        if not any(_key(node) in sizes for node in made.graph.node):
            break
    expanded: list[Origin] = []
    for k, size in enumerate(calls):
        expanded += [(k,)] if size is None else [(k, j) for j in range(size)]
    if len(expanded) != len(made.graph.node):
        expanded = [(k,) for k in range(len(made.graph.node))]
    return made, expanded


MOST_NODES = 200_000
"""Functions that call functions grow without bound: more nodes than this are not inlined."""

FunctionKey = tuple[str, str, str]


def _key(node: NodeProto) -> FunctionKey:
    return node.domain, node.op_type, node.overload


def _function_sizes(proto: ModelProto) -> dict[FunctionKey, int]:
    """How many nodes a call of each function becomes, calls inside it inlined too."""
    bodies = {(f.domain, f.name, f.overload): f for f in proto.functions}
    sizes: dict[FunctionKey, int] = {}

    def size(key: FunctionKey, open_calls: frozenset[FunctionKey]) -> int:
        if key not in bodies or key in open_calls:
            return 1
        if key not in sizes:
            inside = open_calls | {key}
            sizes[key] = sum(size(_key(node), inside) for node in bodies[key].node)
        return sizes[key]

    for key in bodies:
        size(key, frozenset())
    return sizes


MANY = 2**31 - 1
"""What a schema gives as the most inputs of an operator that takes any number."""


def _check_node(
    node: NodeProto, position: Origin, opsets: Mapping[str, int], file: str
) -> None:
    """ModelError where a node has not as many inputs or outputs as its operator takes, or an
    attribute that it does not know: with a letter wrong, an attribute would be its default.

    Empty names at the end are left out, as the specification has it; operators that nobody has
    defined for the opset are not looked at.
    """
    try:
        schema = defs.get_schema(node.op_type, opsets.get(node.domain, 1), node.domain)
    except defs.SchemaError:
        return
    for names, what, least, most in (
        (node.input, "inputs", schema.min_input, schema.max_input),
        (node.output, "outputs", schema.min_output, schema.max_output),
    ):
        count = len(names)
        while count and not names[count - 1]:
            count -= 1
        if (count < least and what == "inputs") or len(names) > most:
            raise ModelError(
                f"model.{what}", file=file, node=label(node, position), op=node.op_type,
                count=count if count < least else len(names), least=least,
                most=most if most < MANY else "∞",
            )  # fmt: skip
    for attribute in node.attribute:
        if attribute.name not in schema.attributes:
            raise ModelError(
                "model.unknown-attribute", file=file, node=label(node, position), op=node.op_type,
                attribute=attribute.name, opset=opsets.get(node.domain, 1),
                known=", ".join(sorted(schema.attributes)) or "∅",
            )  # fmt: skip


def _sort(
    graph: GraphProto,
    positions: list[Origin],
    around: frozenset[str],
    file: str,
    opsets: Mapping[str, int],
) -> list[Origin]:
    """Put the nodes in order of use, as near to the file's order as can be; their positions.

    `around` holds the names of the graphs around a subgraph. ModelError names the node that lacks
    an input, whose value is undefined or defined twice, or the nodes of a cycle.
    """
    nodes = list(graph.node)
    maker: dict[str, int] = {}
    given = {value.name for value in graph.input} | {t.name for t in graph.initializer}
    for k, node in enumerate(nodes):
        if not node.output:
            raise ModelError("model.no-results", file=file, node=label(node, positions[k]))
        _check_node(node, positions[k], opsets, file)
        for name in node.output:
            if not name:
                continue
            if name in maker or name in given:
                where = label(node, positions[k])
                raise ModelError("model.duplicate-value", file=file, node=where, value=name)
            maker[name] = k
    known = given | maker.keys() | around
    users: dict[int, list[int]] = {}
    waits = [0] * len(nodes)
    for k, node in enumerate(nodes):
        needed: set[int] = set()
        for name in node_reads(node):
            if name not in known:
                where = label(node, positions[k])
                raise ModelError("model.undefined-value", file=file, node=where, value=name)
            if name in maker:
                needed.add(maker[name])
        waits[k] = len(needed)
        for j in needed:
            users.setdefault(j, []).append(k)
    for value in graph.output:
        if value.name not in known:
            raise ModelError("model.undefined-output", file=file, value=value.name)
    ready = [k for k, count in enumerate(waits) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        k = heappop(ready)
        order.append(k)
        for j in users.get(k, ()):
            waits[j] -= 1
            if not waits[j]:
                heappush(ready, j)
    if len(order) < len(nodes):
        stuck = [label(nodes[k], positions[k]) for k in _cycle(waits, users)]
        raise ModelError("model.cycle", file=file, node=stuck[0], nodes=", ".join(stuck))
    inside = around | defined(graph)
    for k in order:
        for index, inner in enumerate(subgraphs(nodes[k])):
            inner_positions = [(*positions[k], index, j) for j in range(len(inner.node))]
            _sort(inner, inner_positions, inside, file, opsets)
    if order != sorted(order):
        copies = [onnx.NodeProto() for _ in order]
        for copy, k in zip(copies, order, strict=True):
            copy.CopyFrom(nodes[k])
        del graph.node[:]
        graph.node.extend(copies)
    return [positions[k] for k in order]


def _cycle(waits: list[int], users: Mapping[int, list[int]]) -> list[int]:
    """Nodes of one cycle among those that still wait."""
    needs: dict[int, int] = {}
    for j, found in users.items():
        if waits[j]:
            for k in found:
                if waits[k]:
                    needs[k] = j
    at = min(needs)
    seen: list[int] = []
    while at not in seen:
        seen.append(at)
        at = needs[at]
    return sorted(seen[seen.index(at) :])

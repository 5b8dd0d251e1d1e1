"""ONNX protobufs as the frontend reads them: element types, tensors, names that a node reads.

A subgraph (of If, Loop, Scan) sees the values around it; what it reads of them it *captures*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto, numpy_helper

from compiler.ir.types import Array, DType

ELEMENT: Mapping[int, DType] = {
    1: DType.f32, 2: DType.u8, 3: DType.i8, 4: DType.u16, 5: DType.i16, 6: DType.i32,
    7: DType.i64, 8: DType.string, 9: DType.bool, 10: DType.f16, 11: DType.f64, 12: DType.u32,
    13: DType.u64, 14: DType.c64, 15: DType.c128, 16: DType.bf16,
}  # fmt: skip
"""`TensorProto.DataType` -> element type. The others (float8, int4, …) have none here."""

ELEMENT_ID: Mapping[DType, int] = {dtype: number for number, dtype in ELEMENT.items()}

FLOATS: frozenset[int] = frozenset(ELEMENT_ID[d] for d in DType if d.is_float)
"""The numbers of float16, bfloat16, float32, float64."""

STORED = frozenset(ELEMENT_ID[d] for d in DType if d not in (DType.bf16, DType.string))
"""Element types whose arrays the parameter store keeps."""


class TensorError(ValueError):
    """A tensor whose data do not fit its shape and type; names it."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"tensor {name!r}: {reason}")
        self.name, self.reason = name, reason


def array_of(tensor: TensorProto) -> Array:
    """The array of a tensor in native byte order. TensorError for damaged data."""
    try:
        array: Array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise TensorError(tensor.name, str(error)) from error
    return array


def dense(sparse: SparseTensorProto) -> TensorProto:
    """The dense tensor of a sparse one (COO): zero where no element is listed.

    Indices are linear, shape [n], or coordinates, shape [n, rank]. TensorError when out of range.
    """
    values = array_of(sparse.values)
    indices = array_of(sparse.indices).astype(np.int64)
    shape = tuple(sparse.dims)
    whole = np.zeros(shape, values.dtype)
    try:
        at = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
        whole.reshape(-1)[at] = values
    except (IndexError, ValueError) as error:
        raise TensorError(sparse.values.name, str(error)) from error
    made = numpy_helper.from_array(whole, sparse.values.name)
    return made


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs in a node's attributes, in order."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def node_reads(node: NodeProto) -> tuple[str, ...]:
    """Names a node needs, once each: its inputs, then what its subgraphs capture."""
    names = [name for name in node.input if name]
    for graph in subgraphs(node):
        names += captured(graph)
    return tuple(dict.fromkeys(names))


def captured(graph: GraphProto) -> tuple[str, ...]:
    """Names a subgraph reads from around it, once each, in order of reading."""
    inside = defined(graph)
    names = [name for node in graph.node for name in node_reads(node)]
    names += [value.name for value in graph.output]
    return tuple(dict.fromkeys(name for name in names if name not in inside))


def defined(graph: GraphProto) -> set[str]:
    """Every name a graph defines: inputs, weights, results of its nodes."""
    names = {value.name for value in graph.input}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(sparse.values.name for sparse in graph.sparse_initializer)
    names.update(name for node in graph.node for name in node.output if name)
    return names


def tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """Every tensor of a graph: weights and attributes, those of subgraphs too."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from node_tensors(node)


def node_tensors(node: NodeProto) -> Iterator[TensorProto]:
    """Every tensor in a node's attributes, those of subgraphs too."""
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        if attribute.HasField("sparse_tensor"):
            yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
    for inner in subgraphs(node):
        yield from tensors(inner)


def label(node: NodeProto, position: tuple[int, ...]) -> str:
    """A node as messages name it: `#3 Add "residual"`."""
    name = f' "{node.name}"' if node.name else ""
    return f"#{'.'.join(map(str, position))} {node.op_type}{name}"

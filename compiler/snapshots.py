"""The blobs of a trace: what a viewer draws of a module and of a kernel, as JSON (docs/json.md).

    snapshot(module) = text by lines, nodes and edges of the graph
    kernels(module)  = loop tree, source and machine code of each kernel

A group's ops are nodes of their own that name the group; constants are no nodes but part of the
label of the op that reads them; each output of the graph is a node, so that it has an edge.

Teaches: a drawing is a function of the values that the compiler has anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compiler.ir.dims import format_dim
from compiler.ir.graph import Graph, Op, Origins, format_origin
from compiler.ir.module import Module, Source
from compiler.ir.printer import module_lines, print_attr, print_kernel, print_type
from compiler.ir.types import KernelRef, Scalar, TensorType
from compiler.trace import Json

HIDDEN = ("const", "dims")
"""Kinds that are shown in the label of the ops that read them."""


def snapshot(module: Module) -> dict[str, Json]:
    """`{text, lines[], nodes[], edges[]}` of a module; keys of nodes are names of values."""
    lines = module_lines(module)
    nodes, edges = _graph(module.graph)
    return {
        "text": "".join(f"{line.text}\n" for line in lines),
        "lines": [
            {
                "text": line.text,
                "key": line.key,
                "origins": _origins(line.origins),
                "section": line.section,
            }
            for line in lines
        ],
        "nodes": nodes,
        "edges": edges,
    }


def kernels(module: Module, blobs: Mapping[str, bytes]) -> Iterator[dict[str, Json]]:
    """`{name, symbol, tree, source, lines[], llvm, assembly, origins[]}` of each kernel.

    `blobs` holds what `build` made, by digest. A kernel that is not emitted yet has a tree only.
    """
    sources = {s.kernel: s for s in module.sources}
    for kernel in module.kernels:
        source = sources.get(kernel.name)
        yield {
            "name": kernel.name,
            "symbol": "" if source is None else source.symbol,
            "tree": print_kernel(kernel),
            "source": "" if source is None else source.text,
            "lines": [] if source is None else [
                {"line": at.line, "path": list(at.path), "origins": _origins(at.origins)}
                for at in source.lines
            ],
            "llvm": _artifact(source, "llvm", blobs),
            "assembly": _artifact(source, "assembly", blobs),
            "origins": _origins(kernel.origins),
        }  # fmt: skip


def _artifact(source: Source | None, kind: str, blobs: Mapping[str, bytes]) -> str:
    for found, digest in () if source is None else source.artifacts:
        if found == kind and digest in blobs:
            return blobs[digest].decode()
    return ""


def _origins(origins: Origins) -> list[Json]:
    return [format_origin(o) for o in sorted(origins)]


# ---- the graph -----------------------------------------------------------------------------------


def _graph(graph: Graph) -> tuple[list[Json], list[Json]]:
    nodes: list[Json] = []
    edges: list[Json] = []
    made: dict[str, tuple[str, TensorType]] = {}
    """value -> the node that makes it, and its type"""
    hidden: dict[str, str] = {}
    """constant -> how it reads in a label"""

    def node(key: str, kind: str, label: str, type: TensorType, group: str, at: Origins) -> None:
        nodes.append({
            "key": key, "kind": kind, "label": label, "shape": print_type(type), "group": group,
            "origins": _origins(at),
        })  # fmt: skip

    def edge(value: str, to: str) -> None:
        if value in made:
            source, type = made[value]
            size = format_dim(type.nbytes) if _sized(type) else None
            edges.append({"from": source, "to": to, "value": value, "bytes": size})

    def visit(op: Op, group: str) -> None:
        if op.kind in HIDDEN:
            hidden.update({v.name: _constant(op) for v in op.outputs})
            return
        if op.kind == "fused":
            for inner in op.regions[0].ops:
                visit(inner, op.key)
            return
        constants = [hidden[n] for n in op.operands if n in hidden]
        label = " ".join((_label(op), *constants))
        node(op.key, op.kind, label, op.type, group, op.origins)
        made.update({v.name: (op.key, v.type) for v in op.outputs})
        for name in dict.fromkeys(op.operands):
            edge(name, op.key)

    for v in graph.inputs:
        node(v.name, "input", "input", v.type, "", frozenset())
        made[v.name] = (v.name, v.type)
    for op in graph.ops:
        visit(op, "")
    for value, name in zip(graph.outputs, graph.names or graph.outputs, strict=True):
        type = made[value][1] if value in made else TensorType(None, None)
        key = f"output {name}"
        node(key, "output", f"output {name}", type, "", frozenset())
        edge(value, key)
    return nodes, edges


def _sized(type: TensorType) -> bool:
    """Whether the bytes of a value are known, if need be over symbols."""
    return type.known and type.element.value != "string"


def _label(op: Op) -> str:
    """The kind, for a launch with its kernel, for an ONNX operator without its prefix."""
    kernel = op.get("kernel")
    if isinstance(kernel, KernelRef):
        return f"{op.kind} @{kernel.name}"
    return op.kind.removeprefix("onnx.")


def _constant(op: Op) -> str:
    value = op.get("value")
    if isinstance(value, Scalar):
        return print_attr(value)
    values = op.get("values")
    return "[…]" if values is None else print_attr(values, dimension=True)

"""How passes speak of ONNX nodes and of the file they came from."""

from __future__ import annotations

from compiler.ir.graph import Graph, Op, Value, format_origin
from compiler.ir.module import Module

from .base import Context


def place(op: Op) -> str:
    """Where the node of an op stands in the file: `#3`, `#3.0.2`."""
    return f"#{format_origin(min(op.origins, default=()))[1:]}"


def node_label(op: Op, module: Module) -> str:
    """The node of an op as messages name it: `#3 Add "residual"`."""
    node = module.node(min(op.origins, default=()))
    name = f' "{node.name}"' if node is not None and node.name else ""
    return f"{place(op)} {op.kind.removeprefix('onnx.')}{name}"


def file_of(module: Module, context: Context) -> str:
    """What messages call the model."""
    return context.model.file if context.model is not None else module.name


def all_values(graph: Graph) -> list[Value]:
    """Inputs and results of a graph, those of its regions too."""
    found = list(graph.inputs)
    for op in graph.ops:
        found += op.outputs
        for region in op.regions:
            found += all_values(region)
    return found

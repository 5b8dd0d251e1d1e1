"""How passes speak of ONNX nodes and of the file they came from."""

from __future__ import annotations

from compiler.ir.edits import Parameters, parameters
from compiler.ir.graph import Graph, Op, Value, format_origin
from compiler.ir.module import Module
from compiler.ops.base import Unsupported

from .base import Context


def place(op: Op) -> str:
    """Where the node of an op stands in the file: `#3`, `#3.0.2`."""
    return f"#{format_origin(min(op.origins, default=()))[1:]}"


def node_label(op: Op, module: Module) -> str:
    """The node of an op as messages name it: `#3 Add "residual"`."""
    node = module.node(min(op.origins, default=()))
    name = f' "{node.name}"' if node is not None and node.name else ""
    return f"{place(op)} {op.kind.removeprefix('onnx.')}{name}"


def break_parameters(op: Op, module: Module, reason: Unsupported) -> Parameters:
    """What the event of a library step tells: node, operator, reason, and the reason's details."""
    node = module.node(min(op.origins, default=()))
    told = {k: v for k, v in reason.parameters if k not in ("node", "op", "reason")}
    return parameters(
        node=(node.name if node is not None else "") or op.key,
        op=op.kind.removeprefix("onnx."), reason=reason.message, **told,
    )  # fmt: skip


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

"""How passes speak of ONNX nodes and of the file they came from."""

from __future__ import annotations

from compiler.errors import ModelError
from compiler.ir.edits import Parameters, parameters
from compiler.ir.graph import Graph, Op, Value, format_origin
from compiler.ir.module import Module
from compiler.ir.types import DType
from compiler.ops.base import Malformed, Unsupported

from .base import Context, View


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


def malformed(op: Op, module: Module, context: Context, error: Malformed) -> ModelError:
    """The error that says which node of which file makes no sense."""
    return ModelError(
        error.message, file=file_of(module, context), node=node_label(op, module), **error.values
    )


def holds_zero_or_one(name: str, view: View) -> bool:
    """Whether a value, if it is bool, was made by a kernel.

    A true element of an input, a weight or a library's result may be any byte but 0; what a kernel
    makes of it is 1. So a rule may not put the one in the place of the other.
    """
    if view.type(name).dtype is not DType.bool:
        return True
    op = view.producer(name)
    while op is not None and op.kind == "reshape":
        op = view.producer(op.operands[0])
    return op is not None and op.family not in ("const", "extern", "onnx", "param")


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

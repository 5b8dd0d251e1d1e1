"""From an op of a module to the `NodeView` that the operator rows read.

An ONNX node stands in a graph as `onnx.<Op>` (`onnx.<domain>:<Op>` for other domains) or, once it
has been given to the library, as `extern` with the same words in its attribute `op`. Both read
alike here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from compiler.ir.dims import Dim, Guard
from compiler.ir.graph import Op
from compiler.ir.module import Module
from compiler.ir.params import ParamStore
from compiler.ir.types import Array, ParamRef, Scalar, TensorType

from .base import Known, NodeView


def onnx_form(op: Op) -> Op | None:
    """The op as an ONNX node: itself, or what an `extern` stands for; None for other kinds."""
    if op.family == "onnx":
        return op
    if op.kind == "extern":
        kept = tuple((k, v) for k, v in op.attrs if k not in ("op", "opset", "library"))
        return replace(op, kind=op.str("op"), attrs=kept)
    return None


def as_extern(op: Op, opset: int) -> Op:
    """The library step that an ONNX node becomes: `extern` with its kind and its opset."""
    return replace(op, kind="extern").with_attrs(op=op.kind, opset=opset)


def operator_name(op: Op) -> tuple[str, str]:
    """`(domain, name)` of an `onnx.…` kind; the default domain is the empty text."""
    domain, _, name = op.kind.removeprefix("onnx.").rpartition(":")
    return ("" if domain == "ai.onnx" else domain), name


def opset_of(op: Op, module: Module) -> int:
    """The opset a node is read under: its own (`extern`), else the module's; 1 if none is told."""
    if op.kind == "extern":
        return op.int("opset", 1)
    domain, _ = operator_name(op)
    for name, version in module.opsets:
        if ("" if name == "ai.onnx" else name) == domain:
            return version
    return 1


def node_view(
    op: Op,
    module: Module,
    params: ParamStore,
    type_of: Callable[[str], TensorType],
    known: Callable[[str], Known | None],
    constant: Callable[[str], Array | None],
) -> NodeView:
    """The view of an `onnx.…` or `extern` op; ValueError for another kind.

    `known(name)` and `constant(name)` tell the integer elements and the array of a value, if any.
    Guards of what is asked for go to the view's.
    """
    node = onnx_form(op)
    if node is None:
        raise ValueError(f"%{op.key} is {op.kind}, not an ONNX node")

    def name_at(index: int) -> str | None:
        return op.inputs[index] if index < len(op.inputs) else None

    guards: list[Guard] = []

    def known_at(index: int) -> tuple[Dim, ...] | None:
        name = name_at(index)
        found = None if name is None else known(name)
        if found is None:
            return None
        guards.extend(g for g in found.guards if g not in guards)
        return found.elements

    def constant_at(index: int) -> Array | None:
        name = name_at(index)
        return None if name is None else constant(name)

    def attribute_array(name: str) -> Array | None:
        value = op.get(name)
        if isinstance(value, ParamRef):
            return params.get(module.param(value.name).digest)
        return value.array() if isinstance(value, Scalar) else None

    types = tuple(type_of(name) if name is not None else None for name in op.inputs)
    return NodeView(
        node, opset_of(op, module), types, known_at, constant_at, attribute_array, guards,
        module.data_symbols,
    )  # fmt: skip


def nothing_known(name: str) -> Known | None:
    """For a view whose integer inputs are constants or of no interest."""
    del name

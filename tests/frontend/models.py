"""Small models, written the way the tests read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper
from onnx.numpy_helper import from_array

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Shape = Sequence[int | str | None] | None


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> NodeProto:
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def info(name: str, shape: Shape = None, element: int = F32) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def untyped(name: str) -> ValueInfoProto:
    return ValueInfoProto(name=name)


def graph(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto | str],
    weights: Mapping[str, Any] | None = None,
    **more: Any,
) -> GraphProto:
    ends = [untyped(o) if isinstance(o, str) else o for o in outputs]
    tensors = [
        w if isinstance(w, TensorProto) else from_array(np.asarray(w), name)
        for name, w in (weights or {}).items()
    ]
    return helper.make_graph(list(nodes), "g", list(inputs), ends, tensors, **more)


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto | str],
    weights: Mapping[str, Any] | None = None,
    opset: int = 17,
    ir_version: int = 8,
    domains: Mapping[str, int] | None = None,
    **more: Any,
) -> ModelProto:
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(d, v) for d, v in (domains or {}).items()]
    return helper.make_model(
        graph(nodes, inputs, outputs, weights, **more),
        opset_imports=imports,
        ir_version=ir_version,
    )


def data(proto: ModelProto) -> bytes:
    return proto.SerializeToString()


def relu_model() -> ModelProto:
    return model([node("Relu", ["x"], ["y"], name="r")], [info("x", ["n", 3])], ["y"])


def if_model() -> ModelProto:
    """y = x + k if c else x - k, where k is computed outside and read inside only."""
    then_branch = graph([node("Add", ["x", "k"], ["t"])], [], [info("t", ["n"])])
    else_branch = graph([node("Sub", ["x", "k"], ["t"])], [], [info("t", ["n"])])
    return model(
        [
            node("Exp", ["x"], ["k"]),
            node("If", ["c"], ["y"], then_branch=then_branch, else_branch=else_branch),
        ],
        [info("c", [], BOOL), info("x", ["n"])],
        ["y"],
    )


def scalar_loop_model() -> ModelProto:
    """s doubles while i < n; the values of s are collected."""
    body = graph(
        [
            node("Add", ["s", "s"], ["s_out"]),
            node("Identity", ["going"], ["going_out"]),
            node("Identity", ["s_out"], ["each"]),
        ],
        [info("i", [], I64), info("going", [], BOOL), info("s", [])],
        [info("going_out", [], BOOL), info("s_out", []), info("each", [])],
    )
    return model(
        [node("Loop", ["n", "", "s0"], ["s_end", "all"], body=body)],
        [info("n", [], I64), info("s0", [])],
        ["s_end", "all"],
    )



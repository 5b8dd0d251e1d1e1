"""The models that only benchmarks use, built with onnx.helper."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def _model(name: str, nodes: list[onnx.NodeProto], inputs: dict[str, list[str | int]],
           outputs: dict[str, list[str | int]], weights: dict[str, np.ndarray]) -> bytes:
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


def bias_gelu_residual() -> bytes:
    """y = gelu(x + b) + r, spelled out in the seven nodes of opset 17. b is an input."""
    n = helper.make_node
    nodes = [
        n("Add", ["x", "b"], ["v"]),
        n("Mul", ["v", "rsqrt2"], ["w"]),
        n("Erf", ["w"], ["e"]),
        n("Add", ["e", "one"], ["f"]),
        n("Mul", ["v", "f"], ["g"]),
        n("Mul", ["g", "half"], ["h"]),
        n("Add", ["h", "r"], ["y"]),
    ]
    scalar = {"rsqrt2": 0.7071067811865476, "one": 1.0, "half": 0.5}
    weights = {k: np.array(v, np.float32) for k, v in scalar.items()}
    return _model(
        "bias_gelu_residual", nodes,
        {"x": ["rows", "cols"], "b": ["cols"], "r": ["rows", "cols"]},
        {"y": ["rows", "cols"]}, weights,
    )  # fmt: skip


def softmax() -> bytes:
    """y = Softmax(x), the one operator."""
    node = helper.make_node("Softmax", ["x"], ["y"], axis=-1)
    shape: list[str | int] = ["rows", "cols"]
    return _model("softmax", [node], {"x": shape}, {"y": shape}, {})


def chain_of(steps: int) -> bytes:
    """`steps` Sigmoid nodes one after the other."""
    nodes = [
        helper.make_node("Sigmoid", [f"v{k}"], [f"v{k + 1}"], name=f"s{k}") for k in range(steps)
    ]
    shape: list[str | int] = ["rows", "cols"]
    return _model(f"chain_of_{steps}", nodes, {"v0": shape}, {f"v{steps}": shape}, {})


def one_add() -> bytes:
    """y = x + x: one kernel with next to nothing to do."""
    node = helper.make_node("Add", ["x", "x"], ["y"])
    return _model("one_add", [node], {"x": ["n"]}, {"y": ["n"]}, {})


BLOCK_NODES = 25


def blocks(count: int) -> bytes:
    """`count` equal blocks of 25 nodes, each with weights of its own, 64 wide:

        y = x + gelu(layernorm(x) W1 + b1) W2 + b2;  x' = tanh(y) * s + relu(y - t) / d
    """
    random = np.random.default_rng(500)
    nodes: list[onnx.NodeProto] = []
    weights = {
        "eps": np.array(1e-5, np.float32), "root2": np.array(np.sqrt(2), np.float32),
        "one": np.array(1, np.float32), "half": np.array(0.5, np.float32),
    }  # fmt: skip

    def op(kind: str, *inputs: str, out: str = "", **more: Any) -> str:
        name = out or f"{kind.lower()}_{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [name], name=f"n{len(nodes)}", **more))
        return name

    def weight(*shape: int) -> str:
        name = f"w{len(weights)}"
        scale = 1 / np.sqrt(shape[0]) if len(shape) == 2 else 0.5
        weights[name] = (scale * random.standard_normal(shape)).astype(np.float32)
        return name

    x, size = "x", 64
    for k in range(count):
        centred = op("Sub", x, op("ReduceMean", x, axes=[-1]))
        variance = op("ReduceMean", op("Mul", centred, centred), axes=[-1])
        normal = op("Div", centred, op("Sqrt", op("Add", variance, "eps")))
        normal = op("Add", op("Mul", normal, weight(size)), weight(size))
        v = op("Add", op("MatMul", normal, weight(size, size)), weight(size))
        e = op("Add", op("Erf", op("Div", v, "root2")), "one")
        gelu = op("Mul", op("Mul", v, e), "half")
        y = op("Add", x, op("Add", op("MatMul", gelu, weight(size, size)), weight(size)))
        kept = op("Mul", op("Tanh", y), weight(size))
        more = op("Div", op("Relu", op("Sub", y, weight(size))), "root2")
        x = op("Add", kept, more, out="y" if k == count - 1 else "")
    shape: list[str | int] = ["rows", size]
    return _model(f"blocks_of_{len(nodes)}", nodes, {"x": shape}, {"y": shape}, weights)

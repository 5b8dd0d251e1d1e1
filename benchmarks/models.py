"""The models that only benchmarks use, built with onnx.helper."""

from __future__ import annotations

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

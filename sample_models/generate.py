"""Write the sample models: `python -m sample_models.generate [FOLDER]`, else beside this file.

Untrained weights are drawn from one seed a model, so the files come out byte for byte the same.
`digits` is trained on scikit-learn's digits (8 x 8 images, 0 to 16; E. Alpaydin and C. Kaynak,
"Optical Recognition of Handwritten Digits", UCI, CC BY 4.0), and written only where scikit-learn is
installed, together with the fifth of the images that training never sees (`digits_test.npz`).

Teaches: a model file is a list of named equations, inputs with symbolic dimensions, and weights.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Shape = Sequence[str | int]

OPSET = 17
IR_VERSION = 8


def node(op: str, inputs: str, output: str, name: str, **attributes: Any) -> NodeProto:
    """`output = op(inputs)`, `inputs` separated by blanks, as a node called `name`."""
    return helper.make_node(op, inputs.split(), [output], name=name, **attributes)


def model(
    name: str,
    inputs: Mapping[str, Shape],
    outputs: Mapping[str, Shape],
    nodes: Sequence[NodeProto],
    weights: Mapping[str, npt.NDArray[Any]] | None = None,
) -> onnx.ModelProto:
    """A checked model whose inputs and outputs are float32; a dimension given by name is symbolic.

    Raises onnx.checker.ValidationError or onnx.shape_inference.InferenceError for a wrong model.
    """
    graph = helper.make_graph(
        list(nodes),
        name,
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()],
        [numpy_helper.from_array(array, n) for n, array in (weights or {}).items()],
    )
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="sample_models",
    )
    onnx.checker.check_model(made, full_check=True)
    return made


def matrix(random: np.random.Generator, rows: int, cols: int) -> Floats:
    """Random weights [rows, cols] that keep the variance of what they multiply."""
    return (random.standard_normal((rows, cols)) / np.sqrt(rows)).astype(np.float32)


def vector(random: np.random.Generator, size: int, around: float = 0.0) -> Floats:
    """A random bias or scale [size] near `around`."""
    return (around + 0.1 * random.standard_normal(size)).astype(np.float32)


def five_op_chain() -> onnx.ModelProto:
    """Y = clip(relu(X + b) * s + R, -2, 2)."""
    return model(
        "five_op_chain",
        {"X": ["rows", "cols"], "R": ["rows", "cols"], "b": ["cols"], "s": ["cols"]},
        {"Y": ["rows", "cols"]},
        [
            node("Add", "X b", "T1", "bias"),
            node("Relu", "T1", "T2", "relu"),
            node("Mul", "T2 s", "T3", "scale"),
            node("Add", "T3 R", "T4", "residual"),
            node("Clip", "T4 low high", "Y", "clip"),
        ],
        {"low": np.array(-2, np.float32), "high": np.array(2, np.float32)},
    )


def softmax_spelled_out() -> onnx.ModelProto:
    """y = e / sum(e) along a row, where e = exp(x - max(x))."""
    return model(
        "softmax_spelled_out",
        {"x": ["rows", "cols"]},
        {"y": ["rows", "cols"]},
        [
            node("ReduceMax", "x", "m", "max", axes=[-1], keepdims=1),
            node("Sub", "x m", "d", "shift"),
            node("Exp", "d", "e", "exp"),
            node("ReduceSum", "e axes", "z", "sum", keepdims=1),
            node("Div", "e z", "y", "divide"),
        ],
        {"axes": np.array([-1], np.int64)},
    )


def mlp() -> onnx.ModelProto:
    """y = softmax(relu(x W1 + b1) W2 + b2), 784 -> 256 -> 10."""
    random = np.random.default_rng(784)
    return model(
        "mlp",
        {"x": ["batch", 784]},
        {"y": ["batch", 10]},
        [
            node("MatMul", "x W1", "p1", "matmul1"),
            node("Add", "p1 b1", "h1", "bias1"),
            node("Relu", "h1", "a1", "relu1"),
            node("MatMul", "a1 W2", "p2", "matmul2"),
            node("Add", "p2 b2", "logits", "bias2"),
            node("Softmax", "logits", "y", "softmax", axis=-1),
        ],
        {
            "W1": matrix(random, 784, 256),
            "b1": vector(random, 256),
            "W2": matrix(random, 256, 10),
            "b2": vector(random, 10),
        },
    )


def layernorm_residual() -> onnx.ModelProto:
    """y = x + (layernorm(x) W + b), over the last 64 elements."""
    random = np.random.default_rng(64)
    return model(
        "layernorm_residual",
        {"x": ["batch", "seq", 64]},
        {"y": ["batch", "seq", 64]},
        [
            node("LayerNormalization", "x gamma beta", "n", "layernorm", axis=-1, epsilon=1e-5),
            node("MatMul", "n W", "p", "matmul"),
            node("Add", "p b", "h", "bias"),
            node("Add", "x h", "y", "residual"),
        ],
        {
            "gamma": vector(random, 64, around=1.0),
            "beta": vector(random, 64),
            "W": matrix(random, 64, 64),
            "b": vector(random, 64),
        },
    )


def diamond() -> onnx.ModelProto:
    """y = a + exp(a), where a = tanh(x): the way from a to y that avoids b is the trap."""
    return model(
        "diamond",
        {"x": ["rows", "cols"]},
        {"y": ["rows", "cols"]},
        [
            node("Tanh", "x", "a", "tanh"),
            node("Exp", "a", "b", "exp"),
            node("Add", "a b", "y", "join"),
        ],
    )


def digits(weights: Mapping[str, Floats]) -> onnx.ModelProto:
    """prob = softmax(relu(flatten(image / 16) W1 + b1) W2 + b2), 64 -> 32 -> 10."""
    return model(
        "digits",
        {"image": ["batch", 1, 8, 8]},
        {"prob": ["batch", 10]},
        [
            node("Div", "image sixteen", "scaled", "scale"),
            node("Flatten", "scaled", "pixels", "flatten", axis=1),
            node("Gemm", "pixels W1 b1", "h1", "gemm1"),
            node("Relu", "h1", "a1", "relu1"),
            node("Gemm", "a1 W2 b2", "logits", "gemm2"),
            node("Softmax", "logits", "prob", "softmax", axis=-1),
        ],
        {"sixteen": np.array(16, np.float32), **weights},
    )


def train_digits() -> tuple[dict[str, Floats], Bytes, Bytes]:
    """The trained weights of `digits`, and the held-out images [n, 1, 8, 8] and labels [n]."""
    # scikit-learn is untyped and optional: it is imported by name, here alone.
    data: Any = import_module("sklearn.datasets").load_digits()
    network: Any = import_module("sklearn.neural_network")
    order = np.random.default_rng(0).permutation(len(data.target))
    train, test = order[: len(order) * 4 // 5], order[len(order) * 4 // 5 :]
    classifier = network.MLPClassifier(hidden_layer_sizes=(32,), max_iter=1000, random_state=0)
    classifier.fit(data.data[train] / 16, data.target[train])
    layers = zip(classifier.coefs_, classifier.intercepts_, strict=True)
    weights: dict[str, Floats] = {}
    for number, (weight, bias) in enumerate(layers, start=1):
        weights[f"W{number}"] = weight.astype(np.float32)
        weights[f"b{number}"] = bias.astype(np.float32)
    images, labels = data.images[test, None], data.target[test]
    return weights, images.astype(np.uint8), labels.astype(np.uint8)


UNTRAINED: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "five_op_chain": five_op_chain,
    "softmax_spelled_out": softmax_spelled_out,
    "mlp": mlp,
    "layernorm_residual": layernorm_residual,
    "diamond": diamond,
}


def encode(made: onnx.ModelProto) -> bytes:
    """The bytes of a model's file, the same for the same model."""
    return made.SerializeToString(deterministic=True)


def main(folder: Path, train: bool) -> None:
    """Write every model into `folder`; `digits` only to `train`, which needs scikit-learn."""
    for name, build in UNTRAINED.items():
        (folder / f"{name}.onnx").write_bytes(encode(build()))
    if train:
        weights, images, labels = train_digits()
        (folder / "digits.onnx").write_bytes(encode(digits(weights)))
        np.savez_compressed(folder / "digits_test.npz", image=images, label=labels)
    else:
        print("digits: left as it is, since scikit-learn is not installed")


if __name__ == "__main__":
    main(
        Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent,
        train=find_spec("sklearn") is not None,
    )

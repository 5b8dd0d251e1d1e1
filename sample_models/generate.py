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
    opset: int = OPSET,
    integers: Sequence[str] = (),
) -> onnx.ModelProto:
    """A checked model of float32 inputs and outputs; a dimension given by name is symbolic.

    `integers` names the inputs that are int64 instead. Raises onnx.checker.ValidationError or
    onnx.shape_inference.InferenceError for a wrong model.
    """
    kinds = {n: TensorProto.INT64 if n in integers else TensorProto.FLOAT for n in inputs}
    graph = helper.make_graph(
        list(nodes),
        name,
        [helper.make_tensor_value_info(n, kinds[n], s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()],
        [numpy_helper.from_array(array, n) for n, array in (weights or {}).items()],
    )
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=IR_VERSION if opset == OPSET else IR_VERSION + 1,
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
        {"X": ["r", "c"], "R": ["r", "c"], "b": ["c"], "s": ["c"]},
        {"Y": ["r", "c"]},
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


class Writer:
    """Writes a model down operator by operator; results and nodes are called `kind_1`, `kind_2`, …

    `random` draws the weights.
    """

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[NodeProto] = []
        self.weights: dict[str, npt.NDArray[Any]] = {}
        self._used: dict[str, int] = {}

    def _name(self, kind: str) -> str:
        self._used[kind] = self._used.get(kind, 0) + 1
        return f"{kind}_{self._used[kind]}"

    def op(self, kind: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        """Append `out = kind(inputs)`; the name of its result."""
        name = self._name(kind.lower())
        self.nodes.append(helper.make_node(kind, inputs, [out or name], name=name, **attributes))
        return out or name

    def split(self, x: str, parts: int, size: int) -> list[str]:
        """`parts` pieces of `size` along axis 1."""
        name = self._name("split")
        results = [f"{name}_{k}" for k in range(parts)]
        sizes = self.weight([size] * parts, np.int64)
        self.nodes.append(helper.make_node("Split", [x, sizes], results, name=name, axis=1))
        return results

    def weight(self, array: npt.ArrayLike, kind: type = np.float32) -> str:
        """The name of a new weight."""
        name = self._name("w")
        self.weights[name] = np.asarray(array, kind)
        return name

    def linear(self, x: str, rows: int, cols: int) -> str:
        """x W + b."""
        product = self.op("MatMul", x, self.weight(matrix(self.random, rows, cols)))
        return self.op("Add", product, self.weight(vector(self.random, cols)))

    def gelu(self, x: str) -> str:
        """x * (1 + erf(x / sqrt 2)) * 0.5, as exporters spell it."""
        e = self.op("Erf", self.op("Div", x, self.weight(np.sqrt(2))))
        twice = self.op("Mul", x, self.op("Add", e, self.weight(1)))
        return self.op("Mul", twice, self.weight(0.5))

    def layernorm(self, x: str, size: int) -> str:
        """(x - mean) / sqrt(variance + 1e-5) * gamma + beta over the last axis, spelled out."""
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        variance = self.op("ReduceMean", self.op("Mul", centred, centred), axes=[-1])
        spread = self.op("Sqrt", self.op("Add", variance, self.weight(1e-5)))
        scaled = self.op(
            "Mul", self.op("Div", centred, spread), self.weight(vector(self.random, size, 1.0))
        )
        return self.op("Add", scaled, self.weight(vector(self.random, size)))

    def attention(self, x: str, size: int, heads: int, mask: str = "") -> str:
        """Self-attention over [batch, seq, size]: softmax(q k' / sqrt d + mask) v, linear."""
        d = size // heads

        def head() -> str:
            shape = self.weight([0, 0, heads, d], np.int64)
            t = self.op("Reshape", self.linear(x, size, size), shape)
            return self.op("Transpose", t, perm=[0, 2, 1, 3])

        q, k, v = head(), head(), head()
        score = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        score = self.op("Mul", score, self.weight(d**-0.5))
        if mask:
            score = self.op("Add", score, mask)
        mixed = self.op("MatMul", self.op("Softmax", score, axis=-1), v)
        joined = self.op("Transpose", mixed, perm=[0, 2, 1, 3])
        flat = self.op("Reshape", joined, self.weight([0, 0, size], np.int64))
        return self.linear(flat, size, size)

    def conv(
        self, x: str, into: int, out: int, kernel: int = 3, stride: int = 1, groups: int = 1
    ) -> str:
        """A convolution that keeps the size (divided by `stride`), then batch normalisation."""
        shape = (out, into // groups, kernel, kernel)
        random = self.random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        y = self.op(
            "Conv", x, self.weight(random), kernel_shape=[kernel, kernel],
            strides=[stride, stride], pads=[kernel // 2] * 4, group=groups,
        )  # fmt: skip
        return self.batchnorm(y, out)

    def batchnorm(self, x: str, channels: int) -> str:
        gamma, beta, mean = (vector(self.random, channels, a) for a in (1.0, 0.0, 0.0))
        variance = 0.5 + self.random.random(channels)
        statistics = [self.weight(a) for a in (gamma, beta, mean, variance)]
        return self.op("BatchNormalization", x, *statistics, epsilon=1e-5)

    def classifier(self, x: str, channels: int, classes: int) -> str:
        """Global average, then a linear layer, into `y`."""
        pooled = self.op("Flatten", self.op("GlobalAveragePool", x), axis=1)
        w = self.weight(matrix(self.random, channels, classes))
        return self.op("Gemm", pooled, w, self.weight(vector(self.random, classes)), out="y")

    def model(
        self, name: str, inputs: Mapping[str, Shape], outputs: Mapping[str, Shape], **more: Any
    ) -> onnx.ModelProto:
        return model(name, inputs, outputs, self.nodes, self.weights, **more)


def bias_relu() -> onnx.ModelProto:
    """y = relu(x + b)."""
    return model(
        "bias_relu",
        {"x": ["rows", "cols"], "b": ["cols"]},
        {"y": ["rows", "cols"]},
        [node("Add", "x b", "t", "bias"), node("Relu", "t", "y", "relu")],
    )


def bias_gelu() -> onnx.ModelProto:
    """y = gelu(x + b), with the operator that opset 20 brought."""
    return model(
        "bias_gelu",
        {"x": ["rows", "cols"], "b": ["cols"]},
        {"y": ["rows", "cols"]},
        [node("Add", "x b", "t", "bias"), node("Gelu", "t", "y", "gelu")],
        opset=20,
    )


def square_matmul() -> onnx.ModelProto:
    """C = A B, square matrices of a symbolic size."""
    square = ["n", "n"]
    return model(
        "matmul", {"A": square, "B": square}, {"C": square}, [node("MatMul", "A B", "C", "matmul")]
    )


def fork_reduce() -> onnx.ModelProto:
    """y[i,j] = a[i,j] / (1 + sum of row j of a), where a = relu(x): a is needed twice."""
    return model(
        "fork_reduce",
        {"x": ["n", "n"]},
        {"y": ["n", "n"]},
        [
            node("Relu", "x", "a", "relu"),
            node("ReduceSum", "a axes", "s", "rowsum", keepdims=1),
            node("Add", "s one", "d", "smooth"),
            node("Transpose", "d", "r", "turn", perm=[1, 0]),
            node("Div", "a r", "y", "divide"),
        ],
        {"axes": np.array([1], np.int64), "one": np.array(1, np.float32)},
    )


def dirty() -> onnx.ModelProto:
    """y = batchnorm((2 sigmoid(x + b) + 0) / 4 W + b), with bait for every clean-up pass.

    Some of the bait must stay: x + 0 is not x, [1, 8] is not [8], and in strict numerics exp(0) is
    not run ahead.
    """
    w = Writer(8)
    two = w.weight(2)
    bias = vector(w.random, 8)
    once = w.op("Mul", w.op("Exp", w.op("Sub", two, two)), "x")
    turned = w.op("Transpose", w.op("Transpose", once, perm=[1, 0]), perm=[1, 0])
    left = w.op("Sigmoid", w.op("Add", w.weight(bias), turned))
    right = w.op("Sigmoid", w.op("Add", turned, w.weight(bias)))
    both = w.op("Add", left, right)
    w.op("Exp", both)
    rows = w.op("Gather", w.op("Shape", "x"), w.weight(0, np.int64), axis=0)
    shape = w.op(
        "Concat", w.op("Unsqueeze", rows, w.weight([0], np.int64)), w.weight([8], np.int64), axis=0
    )
    flat = w.op("Reshape", w.op("Reshape", both, w.weight([-1, 4], np.int64)), shape)
    same = w.op("Dropout", w.op("Identity", w.op("Flatten", flat, axis=1)))
    same = w.op("Neg", w.op("Neg", w.op("Sub", same, w.weight(0))))
    quarter = w.op("Div", w.op("Add", same, w.weight(0)), w.weight(4))
    product = w.op("Gemm", quarter, w.weight(matrix(w.random, 8, 8)), w.weight(bias[None]))
    normal = w.batchnorm(product, 8)
    w.op("Pow", w.op("Max", normal, normal), w.weight(1), out="y")
    return w.model("dirty", {"x": ["rows", 8]}, {"y": ["rows", 8]})


def mlp_gelu() -> onnx.ModelProto:
    """y = softmax(gelu(x W1 + b1) W2 + b2), 16 -> 32 -> 8."""
    w = Writer(16)
    hidden = w.gelu(w.linear("x", 16, 32))
    w.op("Softmax", w.linear(hidden, 32, 8), axis=-1, out="y")
    return w.model("mlp_gelu", {"x": ["batch", 16]}, {"y": ["batch", 8]})


def ffn_dynamic() -> onnx.ModelProto:
    """y = x + gelu(layernorm(x) W1 + b1) W2 + b2, 64 -> 256 -> 64, any length."""
    w = Writer(256)
    hidden = w.gelu(w.linear(w.layernorm("x", 64), 64, 256))
    w.op("Add", "x", w.linear(hidden, 256, 64), out="y")
    return w.model("ffn_dynamic", {"x": ["batch", "seq", 64]}, {"y": ["batch", "seq", 64]})


def lstm_cell() -> onnx.ModelProto:
    """i, f, g, o = x W + h R + b;  c' = s(f) c + s(i) tanh(g);  h' = s(o) tanh(c'),  8 -> 16."""
    size = 16
    w = Writer(4)
    x = w.op("MatMul", "x", w.weight(matrix(w.random, 8, 4 * size)))
    h = w.op("MatMul", "h", w.weight(matrix(w.random, size, 4 * size)))
    gates = w.op("Add", w.op("Add", x, h), w.weight(vector(w.random, 4 * size)))
    i, f, g, o = w.split(gates, 4, size)
    kept = w.op("Mul", w.op("Sigmoid", f), "c")
    added = w.op("Mul", w.op("Sigmoid", i), w.op("Tanh", g))
    w.op("Add", kept, added, out="c_next")
    w.op("Mul", w.op("Sigmoid", o), w.op("Tanh", "c_next"), out="h_next")
    state: Shape = ["batch", size]
    inputs: dict[str, Shape] = {"x": ["batch", 8], "h": state, "c": state}
    return w.model("lstm_cell", inputs, {"h_next": state, "c_next": state})


def attention_block() -> onnx.ModelProto:
    """y = self-attention of x over four heads, 32 wide."""
    w = Writer(32)
    w.op("Identity", w.attention("x", 32, 4), out="y")
    return w.model("attention_block", {"x": ["batch", "seq", 32]}, {"y": ["batch", "seq", 32]})


def tiny_gpt() -> onnx.ModelProto:
    """Two decoder layers, 32 wide, over a vocabulary of 64 and at most 128 tokens."""
    size, words, longest = 32, 64, 128
    w = Writer(2)
    embedded = w.op("Gather", w.weight(4 * matrix(w.random, words, size)), "tokens")
    length = w.op("Gather", w.op("Shape", "tokens"), w.weight(1, np.int64), axis=0)
    start, axis = w.weight([0], np.int64), w.weight([1], np.int64)
    positions = w.weight(matrix(w.random, longest, size))
    end = w.op("Unsqueeze", length, start)
    x = w.op("Add", embedded, w.op("Slice", positions, start, end, start))
    count = w.op("Range", w.weight(0, np.int64), length, w.weight(1, np.int64))
    later = w.op("Greater", w.op("Unsqueeze", count, start), w.op("Unsqueeze", count, axis))
    mask = w.op("Where", later, w.weight(-1e9), w.weight(0))
    for _ in range(2):
        x = w.op("Add", x, w.attention(w.layernorm(x, size), size, 2, mask))
        hidden = w.gelu(w.linear(w.layernorm(x, size), size, 2 * size))
        x = w.op("Add", x, w.linear(hidden, 2 * size, size))
    head = w.weight(matrix(w.random, size, words))
    w.op("MatMul", w.layernorm(x, size), head, out="logits")
    return w.model(
        "tiny_gpt", {"tokens": ["batch", "seq"]}, {"logits": ["batch", "seq", words]},
        integers=["tokens"],
    )  # fmt: skip


def conv_bn_relu() -> onnx.ModelProto:
    """Ten classes from 3 x 32 x 32: relu(batchnorm(conv x)), a maximum over 2 x 2, a head."""
    w = Writer(3)
    x = w.op("Relu", w.conv("x", 3, 8))
    x = w.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    w.classifier(x, 8, 10)
    return w.model("conv_bn_relu", {"x": ["batch", 3, 32, 32]}, {"y": ["batch", 10]})


def depthwise_separable() -> onnx.ModelProto:
    """y = x + project(depthwise(widen x)), 8 -> 24 -> 24 -> 8 channels of 14 x 14."""
    w = Writer(24)
    low, high = w.weight(0), w.weight(6)
    x = w.op("Clip", w.conv("x", 8, 24, kernel=1), low, high)
    x = w.op("Clip", w.conv(x, 24, 24, groups=24), low, high)
    w.op("Add", "x", w.conv(x, 24, 8, kernel=1), out="y")
    image: Shape = ["batch", 8, 14, 14]
    return w.model("depthwise_separable", {"x": image}, {"y": image})


def resnet_tiny() -> onnx.ModelProto:
    """Ten classes from 3 x 16 x 16 through three residual blocks of 8, 16 and 16 channels."""
    w = Writer(10)
    x = w.op("Relu", w.conv("x", 3, 8))
    for into, out, stride in ((8, 8, 1), (8, 16, 2), (16, 16, 1)):
        y = w.op("Relu", w.conv(x, into, out, stride=stride))
        y = w.conv(y, out, out)
        skip = x if into == out else w.conv(x, into, out, kernel=1, stride=stride)
        x = w.op("Relu", w.op("Add", y, skip))
    w.classifier(x, 16, 10)
    return w.model("resnet_tiny", {"x": ["batch", 3, 16, 16]}, {"y": ["batch", 10]})


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
    "bias_relu": bias_relu,
    "bias_gelu": bias_gelu,
    "matmul": square_matmul,
    "fork_reduce": fork_reduce,
    "dirty": dirty,
    "mlp_gelu": mlp_gelu,
    "ffn_dynamic": ffn_dynamic,
    "lstm_cell": lstm_cell,
    "attention_block": attention_block,
    "tiny_gpt": tiny_gpt,
    "conv_bn_relu": conv_bn_relu,
    "depthwise_separable": depthwise_separable,
    "resnet_tiny": resnet_tiny,
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

"""The reference evaluator with its corrections, on models and on single nodes of a module."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from compiler.frontend.load import OnnxModel, load
from compiler.frontend.node_model import arguments, node_model
from compiler.frontend.reference import NodeRunner, ReferenceRunner, lacking, reference
from compiler.ir.interpret.tensor import run_graph
from compiler.ir.module import EMPTY, Module
from compiler.ir.types import Array
from compiler.passes.base import Context
from compiler.passes.bind_dims import BindDims
from compiler.passes.import_model import Import
from compiler.passes.infer_shapes import InferShapes
from compiler.passes.partition_fallback import PartitionFallback
from tests.frontend.models import (
    I64,
    data,
    graph,
    if_model,
    info,
    model,
    node,
    scalar_loop_model,
)


def loaded(proto: ModelProto) -> OnnxModel:
    return load(data(proto), "m")


def run(proto: ModelProto, inputs: dict[str, Array], precision: str = "declared") -> list[Array]:
    return list(reference(loaded(proto), inputs, precision).outputs.values())


def random(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(7).standard_normal(shape).astype(dtype)


def softmax(x: Array, axes: tuple[int, ...]) -> Array:
    e = np.exp(x - x.max(axis=axes, keepdims=True))
    return e / e.sum(axis=axes, keepdims=True)


@pytest.mark.parametrize(("opset", "axes"), [(11, (1, 2)), (12, (1, 2)), (13, (2,)), (17, (2,))])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_softmax_by_opset(op: str, opset: int, axes: tuple[int, ...]) -> None:
    x = random(2, 3, 4)
    proto = model([node(op, ["x"], ["y"])], [info("x", [2, 3, 4])], ["y"], opset=opset)
    (y,) = run(proto, {"x": x})
    right = softmax(x.astype(np.float64), axes)
    np.testing.assert_allclose(y, np.log(right) if op == "LogSoftmax" else right, rtol=1e-5)
    assert y.dtype == np.float32


def test_softmax_with_an_axis_before_13() -> None:
    x = random(2, 3, 4)
    for axis, axes in ((0, (0, 1, 2)), (2, (2,)), (-1, (2,))):
        proto = model(
            [node("Softmax", ["x"], ["y"], axis=axis)], [info("x", [2, 3, 4])], ["y"], opset=11
        )
        np.testing.assert_allclose(run(proto, {"x": x})[0], softmax(x, axes), rtol=1e-5)


def test_log_softmax_does_not_underflow() -> None:
    x = np.array([[0, 1000, -1000]], np.float32)
    (y,) = run(model([node("LogSoftmax", ["x"], ["y"])], [info("x", [1, 3])], ["y"]), {"x": x})
    assert y.tolist() == [[-1000, 0, -2000]]


def batch_norm(opset: int, outputs: list[str], **attributes: int) -> ModelProto:
    names = ["x", "scale", "bias", "mean", "var"]
    inputs = [info("x", [2, 3, 4]), *(info(n, [3]) for n in names[1:])]
    nodes = [node("BatchNormalization", names, outputs, **attributes)]
    return model(nodes, inputs, [outputs[0]], opset=opset)


@pytest.mark.parametrize("opset", [7, 9, 13, 14, 15])
def test_batch_normalization_is_inference(opset: int) -> None:
    feeds = {
        "x": random(2, 3, 4), "scale": random(3), "bias": random(3), "mean": random(3),
        "var": np.abs(random(3)),
    }  # fmt: skip
    (y,) = run(batch_norm(opset, ["y"]), feeds)
    x, s, b, m, v = (feeds[k].astype(np.float64) for k in feeds)
    right = (x - m[:, None]) / np.sqrt(v[:, None] + 1e-5) * s[:, None] + b[:, None]
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)


def test_batch_normalization_training() -> None:
    feeds = {"x": random(2, 3, 4), **{n: np.ones(3, np.float32) for n in ("scale", "var")},
             **{n: np.zeros(3, np.float32) for n in ("bias", "mean")}}  # fmt: skip
    feeds = {n: feeds[n] for n in ("x", "scale", "bias", "mean", "var")}
    for proto in (
        batch_norm(15, ["y", "rm", "rv"], training_mode=1),
        batch_norm(9, ["y", "rm", "rv", "sm", "sv"]),
    ):
        (y,) = run(proto, feeds)
        np.testing.assert_allclose(y.mean(axis=(0, 2)), 0, atol=1e-6)


def test_half_precision_accumulates_wider() -> None:
    x = np.full((1, 4096), 100, np.float16)
    half = TensorProto.FLOAT16
    mean = model([node("ReduceMean", ["x"], ["y"], axes=[1])], [info("x", [1, 4096], half)], ["y"])
    (y,) = run(mean, {"x": x})
    assert y.dtype == np.float16 and y.tolist() == [[100]]
    norm = model(
        [node("LayerNormalization", ["x", "s"], ["y", "m"])],
        [info("x", [1, 4096], half), info("s", [4096], half)], ["y", "m"],
    )  # fmt: skip
    x = np.where(np.arange(4096) % 2, 300, -300).astype(np.float16)[None]
    y, m = run(norm, {"x": x, "s": np.ones(4096, np.float16)})
    assert y.dtype == np.float16 and np.array_equal(np.abs(y), np.ones_like(y))
    assert m.dtype == np.float32


def test_reduce_mean_forms() -> None:
    x = random(2, 3)
    for opset, nodes, weights in (
        (13, [node("ReduceMean", ["x"], ["y"], keepdims=0)], {}),
        (18, [node("ReduceMean", ["x", "a"], ["y"], keepdims=0)], {"a": np.zeros(0, np.int64)}),
        (18, [node("ReduceMean", ["x"], ["y"], keepdims=0)], {}),
    ):
        (y,) = run(model(nodes, [info("x", [2, 3])], ["y"], weights, opset=opset), {"x": x})
        np.testing.assert_allclose(y, x.mean(), rtol=1e-6)
    same = node("ReduceMean", ["x"], ["y"], noop_with_empty_axes=1)
    assert np.array_equal(run(model([same], [info("x", [2, 3])], ["y"], opset=18), {"x": x})[0], x)


def test_loop_collects_scalars() -> None:
    proto = scalar_loop_model()
    feeds = {"n": np.array(3), "s0": np.array(1, np.float32)}
    end, each = run(proto, feeds)
    assert end == 8 and each.tolist() == [2, 4, 8] and each.dtype == np.float32
    end, each = run(proto, {**feeds, "n": np.array(0)})
    assert end == 1 and each.shape == (0,) and each.dtype == np.float32


def test_float64() -> None:
    third = np.float32(1) / np.float32(3)
    proto = model(
        [
            node("Constant", [], ["c"], value_float=float(third)),
            node("Cast", ["i"], ["f"], to=1),
            node("Mul", ["f", "c"], ["t"]),
            node("Add", ["t", "w"], ["u"]),
            node("Exp", ["u"], ["y"]),
        ],
        [info("i", [2], I64)], [info("y", [2])], {"w": np.full(2, third)},
    )  # fmt: skip
    found = reference(loaded(proto), {"i": np.array([1, 2])})
    assert (found.precision, found.reason) == ("float64", "")
    right = np.exp(np.array([1.0, 2.0]) * float(third) + float(third))
    assert found.outputs["y"].dtype == np.float64
    np.testing.assert_allclose(found.outputs["y"], right, rtol=1e-15)


def test_a_constant_of_shape_without_a_value_is_float64_too() -> None:
    proto = model(
        [node("ConstantOfShape", ["n"], ["z"]), node("Add", ["z", "x"], ["y"])],
        [info("x", [2])], [info("y", [2])], {"n": np.array([2])},
    )  # fmt: skip
    assert run(proto, {"x": np.ones(2, np.float32)}, "float64")[0].dtype == np.float64


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_global_max_pool_keeps_batch_and_channels(rank: int) -> None:
    x = random(2, 3, *(4, 5, 6)[: rank - 2])
    proto = model([node("GlobalMaxPool", ["x"], ["y"])], [info("x", x.shape)], ["y"])
    (y,) = run(proto, {"x": x})
    assert np.array_equal(y, x.reshape(2, 3, -1).max(axis=2).reshape(2, 3, *[1] * (rank - 2)))


def test_the_average_of_an_empty_batch_is_empty() -> None:
    proto = model([node("GlobalAveragePool", ["x"], ["y"])], [info("x", ["n", 3, 4, 5])], ["y"])
    assert run(proto, {"x": random(0, 3, 4, 5)})[0].shape == (0, 3, 1, 1)
    x = random(2, 3, 4, 5)
    mean = x.astype(np.float64).mean(axis=(2, 3), keepdims=True)
    np.testing.assert_allclose(run(proto, {"x": x})[0], mean, rtol=1e-5, atol=1e-6)


def test_float64_falls_back_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(proto: ModelProto) -> ModelProto:
        raise TypeError("not in float64")

    monkeypatch.setattr("compiler.frontend.reference.widened", refuse)
    proto = model([node("Neg", ["x"], ["y"])], [info("x", [2])], ["y"])
    found = reference(loaded(proto), {"x": np.ones(2, np.float32)})
    assert (found.precision, found.reason) == ("declared", "TypeError: not in float64")
    assert found.outputs["y"].dtype == np.float32


@pytest.mark.parametrize("opset", [10, 13, 17, 19])
def test_dequantize_by_opset(opset: int) -> None:
    x = np.array([[0, 128], [255, 3]], np.uint8)
    scale, zero = np.array([0.5, 2], np.float32), np.array([128, 1], np.uint8)
    weights = {"s": scale[:1].reshape(()), "z": zero[:1].reshape(())}
    right = (x.astype(np.float32) - 128) * 0.5
    if opset >= 13:
        weights = {"s": scale, "z": zero}
        right = (x.astype(np.float32) - zero) * scale
    proto = model(
        [node("DequantizeLinear", ["x", "s", "z"], ["y"])], [info("x", [2, 2], TensorProto.UINT8)],
        ["y"], weights, opset=opset,
    )  # fmt: skip
    (y,) = run(proto, {"x": x})
    assert y.dtype == np.float32 and np.array_equal(y, right)


def partitioned(proto: ModelProto, *force: str) -> tuple[Module, Context]:
    context = Context(model=loaded(proto))
    module = EMPTY
    for p in (Import(), BindDims(), InferShapes(), PartitionFallback(force=force)):
        module = p.run(module, context).module
    return module, context


@pytest.mark.parametrize("condition", [True, False])
def test_captured_values_reach_a_region(condition: bool) -> None:
    module, context = partitioned(if_model())
    x = np.array([1, 2], np.float32)
    out = run_graph(
        module, {"c": np.array(condition), "x": x}, context.params,
        externs=ReferenceRunner(module, context.params),
    )  # fmt: skip
    k = np.exp(x)
    np.testing.assert_allclose(out["y"], x + k if condition else x - k, rtol=1e-6)


def test_equal_steps_give_equal_models() -> None:
    proto = model(
        [node("Sign", ["x"], ["a"], name="one"), node("Sign", ["a"], ["b"], name="two")],
        [info("x", [2])], ["b"],
    )  # fmt: skip
    module, context = partitioned(proto)
    first, second = module.graph.ops
    made = [
        node_model(op, module, context.params).SerializeToString(deterministic=True)
        for op in (first, second)
    ]
    assert made[0] == made[1]
    (y,) = NodeRunner(made[0]).run([np.array([-2, 3], np.float32)])
    assert y.tolist() == [-1, 1]


def test_a_value_used_twice_is_one_argument() -> None:
    module, context = partitioned(
        model([node("Mod", ["x", "x"], ["y"], fmod=1)], [info("x", [2])], ["y"])
    )
    (op,) = module.graph.ops
    assert arguments(op) == ("x",)
    (y,) = ReferenceRunner(module, context.params).run(op, [random(2), random(2)])
    assert y.tolist() == [0, 0]


def test_attributes_come_back() -> None:
    tensor = helper.make_tensor("v", TensorProto.FLOAT, [1], [7.0])
    nodes = [
        node("ConstantOfShape", ["s"], ["a"], value=tensor),
        node("LRN", ["x"], ["b"], size=3, alpha=0.5),
        node("Einsum", ["x", "x"], ["c"], equation="abcd,abcd->a"),
        node("Squeeze", ["q"], ["d"]),
        node("StringConcat", ["t", "t"], ["e"]),
    ]
    text = helper.make_tensor("t", TensorProto.STRING, [1], [b"u"])
    proto = model(
        nodes, [info("x", [1, 3, 2, 2]), info("q", [1, 2])], ["a", "b", "c", "d", "e"],
        {"s": np.array([2], np.int64), "t": text},
        opset=20,
    )  # fmt: skip
    feeds = {"x": random(1, 3, 2, 2), "q": random(1, 2)}
    module, context = partitioned(proto)
    out = run_graph(
        module, feeds, context.params,
        externs=ReferenceRunner(module, context.params),
    )  # fmt: skip
    right = reference(loaded(proto), feeds, "declared").outputs
    assert out["e"].tolist() == ["uu"]
    for name in "abcd":
        assert np.array_equal(out[name], right[name])


def test_sequences_pass_between_library_steps() -> None:
    proto = model(
        [
            node("SequenceConstruct", ["x", "z"], ["s"]),
            node("SequenceAt", ["s", "at"], ["y"]),
        ],
        [info("x", [2]), info("z", [3])], ["y"], {"at": np.array(1)},
    )  # fmt: skip
    module, context = partitioned(proto)
    feeds = {"x": random(2), "z": random(3)}
    out = run_graph(
        module, feeds, context.params,
        externs=ReferenceRunner(module, context.params),
    )  # fmt: skip
    assert np.array_equal(out["y"], feeds["z"])


def test_bfloat16_bits_are_taken() -> None:
    proto = model(
        [node("Cast", ["x"], ["y"], to=1)], [info("x", [2], TensorProto.BFLOAT16)], ["y"]
    )
    module, context = partitioned(proto)
    (op,) = module.graph.ops
    bits = np.array([0x3F80, 0xC000], np.uint16)
    types = [module.graph.inputs[0].type]
    (y,) = ReferenceRunner(module, context.params).run(op, [bits], types)
    assert y.tolist() == [1, -2]


def test_lacking() -> None:
    body = graph([node("Strange", ["x"], ["t"], domain="far")], [], ["t"])
    proto = model(
        [node("If", ["c"], ["y"], then_branch=body, else_branch=body)],
        [info("c", [], TensorProto.BOOL), info("x", [1])], ["y"], domains={"far": 1},
    )  # fmt: skip
    context = Context(model=loaded(proto))
    module = Import().run(EMPTY, context).module
    assert "far" in lacking(module.graph.ops[0], module, context.params)


def test_scan_along_any_axis_backward_and_at_opset_8() -> None:
    """Running sums of x: [n, 3] along its second axis, from the end; the sum comes along."""
    add = [node("Add", ["s", "e"], ["t"]), node("Identity", ["t"], ["u"])]
    body = graph(add, [info("s", ["n"]), info("e", ["n"])], [info("t", ["n"]), info("u", ["n"])])
    x, s = random(2, 3), random(2)
    scan = node(
        "Scan", ["s0", "x"], ["last", "y"], body=body, num_scan_inputs=1, scan_input_axes=[1],
        scan_input_directions=[1], scan_output_axes=[-1], scan_output_directions=[1],
    )  # fmt: skip
    inputs = [info("s0", [2]), info("x", [2, 3])]
    last, y = run(model([scan], inputs, ["last", "y"]), {"s0": s, "x": x})
    sums = s[:, None] + np.cumsum(x[:, ::-1], axis=1)
    np.testing.assert_allclose(y, sums[:, ::-1], rtol=1e-5)
    np.testing.assert_allclose(last, s + x.sum(1), rtol=1e-5)

    lengths, x, s = np.array([1, 3]), random(2, 3, 4), random(2, 4)
    old = node("Scan", ["k", "s0", "x"], ["last", "y"], body=body, num_scan_inputs=1)
    inputs = [info("k", [2], I64), info("s0", [2, 4]), info("x", [2, 3, 4])]
    proto = model([old], inputs, ["last", "y"], opset=8)
    last, y = run(proto, {"k": lengths, "s0": s, "x": x})
    for b, n in enumerate(lengths):
        sums = s[b] + np.cumsum(x[b, :n], axis=0)
        np.testing.assert_allclose(y[b], np.pad(sums, [(0, 3 - n), (0, 0)]), rtol=1e-5)
        np.testing.assert_allclose(last[b], sums[-1], rtol=1e-5)

"""Convolutions through the real engine: right, one kernel each, the same for any number of threads,
and in strict numerics the same bits whether fused or op by op."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from onnx import ModelProto

import compiler
from compiler.codegen.cpu import emit_kernel
from compiler.driver import Built
from compiler.ir.types import Array
from tests.frontend.models import info, model, node
from tests.whole import Whole, assert_near, assert_same_bits, float64


def data(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def tail_and_residual() -> ModelProto:
    """y = relu(bn(conv(x)) + x): the input is read around every place and once more at it."""
    weights = {
        "w": data(6, 6, 3, 3) / 8, "b": data(6), "scale": data(6), "shift": data(6),
        "mean": data(6), "var": np.abs(data(6)) + 1,
    }  # fmt: skip
    nodes = [
        node("Conv", ["x", "w", "b"], ["t"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["t", "scale", "shift", "mean", "var"], ["u"]),
        node("Add", ["u", "x"], ["v"]),
        node("Relu", ["v"], ["y"]),
    ]
    return model(nodes, [info("x", ["n", 6, 14, 14])], [info("y", ["n", 6, 14, 14])], weights)


def groups_and_strides() -> ModelProto:
    nodes = [
        node("Conv", ["x", "w"], ["t"], group=2, strides=[2, 1], dilations=[1, 2],
             pads=[1, 0, 0, 2]),
        node("LeakyRelu", ["t"], ["y"], alpha=0.25),
    ]  # fmt: skip
    weights = {"w": data(10, 3, 3, 2)}
    return model(nodes, [info("x", [1, 6, 11, 20])], [info("y")], weights)


def line_of_unknown_length() -> ModelProto:
    nodes = [
        node("Conv", ["x", "w", "b"], ["t"], pads=[2, 2], kernel_shape=[5]),
        node("Sigmoid", ["t"], ["y"]),
    ]
    weights = {"w": data(5, 3, 5), "b": data(5)}
    return model(nodes, [info("x", [1, 3, "n"])], [info("y")], weights)


def pooling() -> ModelProto:
    nodes = [
        node("MaxPool", ["x"], ["t"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Tanh", ["t"], ["y"]),
    ]
    return model(nodes, [info("x", ["n", 3, 15, 30])], [info("y")])


def before_and_after() -> ModelProto:
    """y = leaky(conv(relu(s x + b))): what comes before is computed where the rows are brought."""
    weights = {"s": data(6, 1, 1), "b": data(6, 1, 1), "w": data(20, 6, 3, 3)}
    nodes = [
        node("Mul", ["x", "s"], ["t"]), node("Add", ["t", "b"], ["u"]), node("Relu", ["u"], ["v"]),
        node("Conv", ["v", "w"], ["z"], pads=[1, 0, 1, 2], strides=[1, 2]),
        node("LeakyRelu", ["z"], ["y"], alpha=0.5),
    ]  # fmt: skip
    return model(nodes, [info("x", ["n", 6, 9, 17])], [info("y")], weights)


def moved_before() -> ModelProto:
    """Channels last, a part of the rows, padded: only places differ."""
    weights = {
        "w": data(5, 3, 3, 3), "pads": np.array([0, 0, 1, 2, 0, 0, 2, 1], np.int64),
        "from": np.array([1], np.int64), "to": np.array([12], np.int64),
        "axis": np.array([2], np.int64),
    }  # fmt: skip
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        node("Slice", ["t", "from", "to", "axis"], ["u"]),
        node("Pad", ["u", "pads"], ["v"]),
        node("Conv", ["v", "w"], ["y"], pads=[1, 1, 1, 1]),
    ]
    return model(nodes, [info("x", ["n", 13, 20, 3])], [info("y")], weights)


def dear_before() -> ModelProto:
    """Windows that do not overlap bring each element once: even tanh may be computed there."""
    nodes = [
        node("Tanh", ["x"], ["t"]),
        node("MaxPool", ["t"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    return model(nodes, [info("x", ["n", 3, 12, 18])], [info("y")])


def upright() -> ModelProto:
    """A line that stands: the last axis is one element long."""
    nodes = [node("Conv", ["x", "w"], ["t"]), node("Relu", ["t"], ["y"])]
    weights = {"w": data(6, 3, 5, 1)}
    return model(nodes, [info("x", ["n", 3, 44, 1])], [info("y")], weights)


def upright_in_wide_windows() -> ModelProto:
    nodes = [
        node("Conv", ["x", "w"], ["t"], pads=[1, 1, 1, 1]),
        node("Relu", ["t"], ["y"]),
    ]
    return model(nodes, [info("x", ["n", 3, 44, 1])], [info("y")], {"w": data(7, 3, 3, 3)})


MODELS = {
    "upright": (upright, (2, 3, 44, 1)),
    "upright in wide windows": (upright_in_wide_windows, (2, 3, 44, 1)),
    "before and after": (before_and_after, (2, 6, 9, 17)),
    "moved before": (moved_before, (2, 13, 20, 3)),
    "dear before": (dear_before, (2, 3, 12, 18)),
    "tail and residual": (tail_and_residual, (2, 6, 14, 14)),
    "groups and strides": (groups_and_strides, (1, 6, 11, 20)),
    "line of unknown length": (line_of_unknown_length, (1, 3, 150)),
    "pooling": (pooling, (2, 3, 15, 30)),
}


@cache
def built(name: str, pipeline: str) -> Built:
    """In strict numerics; what the default ones compute, the samples show."""
    source = MODELS[name][0]().SerializeToString()
    return compiler.compile(source, pipeline=pipeline, numerics="strict")


@pytest.mark.parametrize("name", MODELS)
def test_a_convolution_with_what_stands_around_it_is_one_kernel(name: str) -> None:
    """Right, the same for any number of threads, and bit for bit what it is op by op."""
    fused, apart = built(name, "default"), built(name, "default,fuse{by=origin}")
    assert fused.engine.plan.launches() == 1 < apart.engine.plan.launches()
    inputs = {"x": np.random.default_rng(2).standard_normal(MODELS[name][1]).astype(np.float32)}
    found = fused.engine.run(inputs, threads=1)
    assert_near(found, float64(fused.model, inputs))
    assert_same_bits(fused.engine.run(inputs, threads=2), found)
    assert_same_bits(apart.engine.run(inputs), found)


def test_an_input_that_is_read_around_is_not_written_over() -> None:
    """In `x + conv(x)` with x a value of the graph, the result takes no place of x."""
    weights = {"w": data(3, 3, 3, 3)}
    nodes = [
        node("Tanh", ["a"], ["x"]),
        node("Conv", ["x", "w"], ["t"], pads=[1, 1, 1, 1]),
        node("Add", ["t", "x"], ["y"]),
    ]
    m = model(nodes, [info("a", [1, 3, 20, 20])], [info("y")], weights)
    whole = Whole(m)
    inputs = {"a": np.random.default_rng(0).standard_normal((1, 3, 20, 20)).astype(np.float32)}
    assert_near(whole.run(inputs), float64(whole.model, inputs))


@pytest.mark.parametrize("name", ["upright", "upright in wide windows"])
def test_an_axis_of_one_element_is_not_the_innermost(name):
    (kernel,) = built(name, "default").trace.final.kernels
    assert "rows" in {a.name for a in kernel.args if a.mode == "scratch"}


def test_the_loops_over_sums_hold_neither_condition_nor_copy() -> None:
    each = built("tail and residual", "default")
    (kernel,) = each.trace.final.kernels
    assert {a.name for a in kernel.args if a.mode == "scratch"} == {"rows", "sums", "done"}
    text = emit_kernel(kernel, "k").text
    assert "private(" in text
    assert "load_if" not in text[text.index("load(sums") :]

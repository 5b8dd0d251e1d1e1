"""The interface `onnx.backend.base`: models and nodes by the hand of a tool that knows ONNX."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from compiler import backend
from compiler.errors import ModelError, OptionError
from compiler.ir.binding import InputError
from tests.frontend.models import info, model, node

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4), np.float32)


def test_prepare_once_and_run_many_times() -> None:
    weights = {"w": RNG.standard_normal((4, 2), np.float32)}
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["y"])]
    source = model(nodes, [info("x", ["n", 4])], ["y", "m"], weights)
    rep = backend.prepare(source)
    for x in (X, X[:1], np.tile(X, (2, 1))):
        for inputs in ([x], {"x": x}, x):
            y, m = rep.run(inputs)
            np.testing.assert_allclose(m, x @ weights["w"], rtol=1e-5, atol=1e-6)
            assert isinstance(m, np.ndarray) and np.array_equal(y, np.maximum(m, 0))
    assert rep.built.trace.breaks() == ()
    (y, _) = backend.run_model(source, [X], numerics="strict", pipeline="op-by-op")
    np.testing.assert_allclose(y, np.maximum(X @ weights["w"], 0), rtol=1e-5, atol=1e-6)


def test_run_node() -> None:
    (y,) = backend.run_node(node("Softmax", ["x"], ["y"], axis=0), [X])
    exp = np.exp(X - X.max(0))
    np.testing.assert_allclose(y, exp / exp.sum(0), rtol=1e-5)
    old = backend.run_node(node("Softmax", ["x"], ["y"], axis=0), [X], opset_version=11)
    flat = np.exp(X - X.max())
    np.testing.assert_allclose(old[0], flat / flat.sum(), rtol=1e-5)
    low = np.float32(-0.5)
    clip = node("Clip", ["x", "", "high"], ["y"])
    info_of_y = [(np.dtype(np.float32), (3, 4))]
    (y,) = backend.run_node(clip, {"x": X, "high": low}, outputs_info=info_of_y)
    assert np.array_equal(y, np.minimum(X, low))
    (y,) = backend.run_node(node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml"), [X])
    assert np.array_equal(y, (X > 0).astype(np.float32))


def test_half_precision_sequences_and_absent_values() -> None:
    bfloat16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
    (y,) = backend.run_node(node("Neg", ["x"], ["y"]), [X.astype(bfloat16)])
    assert isinstance(y, np.ndarray) and y.dtype == bfloat16
    assert np.array_equal(y.astype(np.float32), -X.astype(bfloat16).astype(np.float32))
    (parts,) = backend.run_node(node("SplitToSequence", ["x"], ["y"], axis=1, keepdims=0), [X])
    assert isinstance(parts, list) and np.array_equal(np.stack(parts, 1), X)
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    absent = helper.make_node("Optional", [], ["o"], type=kind)
    assert backend.run_node(absent, []) == (None,)
    nodes = [absent, node("OptionalHasElement", ["o"], ["y"])]
    nodes += [node("Optional", ["x"], ["p"]), node("OptionalGetElement", ["p"], ["z"])]
    y, z = backend.run_model(model(nodes, [info("x", ["n"])], ["y", "z"], opset=18), [X[0]])
    assert not y and np.array_equal(z, X[0])


def test_what_it_takes_is_checked() -> None:
    assert backend.supports_device("CPU") and not backend.supports_device("TPU")
    relu = model([node("Relu", ["x"], ["y"])], [info("x", ["n"])], ["y"])
    own = model([node("Own", ["x"], ["y"], domain="own")], [info("x", ["n"])], ["y"])
    assert backend.is_compatible(relu) and not backend.is_compatible(own)
    assert not backend.is_compatible(relu, "TPU")
    with pytest.raises(ModelError, match="nothing here computes Own"):
        backend.prepare(own)
    with pytest.raises(OptionError, match="a device is one of CPU"):
        backend.prepare(relu, "TPU")
    with pytest.raises(OptionError, match="there is no option 'speed'"):
        backend.prepare(relu, speed="high")
    with pytest.raises(OptionError, match="numerics is a text"):
        backend.prepare(relu, numerics=1)
    rep = backend.prepare(relu)
    with pytest.raises(InputError, match="2 inputs are given, expected: x"):
        rep.run([X[0], X[1]])
    with pytest.raises(OptionError, match="options: none"):
        rep.run([X[0]], threads="1")

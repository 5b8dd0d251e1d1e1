"""Convolution and pooling, against ONNX Runtime and against the specification in NumPy.

onnx's evaluator centres the padding that `ceil_mode` adds, which the specification does not, so
pooling is spelled out here window by window.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.ops.base import Unsupported
from tests.ops.harness import assert_same, compiled, onnxruntime, reference, seeds, values
from tests.ops.test_operators import check, few


def images(draw, n, channels):
    return (draw(st.integers(0, 2)), channels, *(draw(st.integers(3, 7)) for _ in range(n)))


def windows(draw, n, dilated=True):
    """Attributes of `n` spatial axes whose windows fit extents of 3 or more."""
    sizes = [draw(st.integers(1, 3)) for _ in range(n)]
    attributes = {"kernel_shape": sizes, "strides": [draw(st.integers(1, 3)) for _ in range(n)]}
    pads = [draw(st.integers(0, k - 1)) for k in sizes * 2]
    if draw(st.booleans()):
        attributes["pads"] = pads
    if dilated and draw(st.booleans()):
        attributes["dilations"] = [1 if k == 3 else draw(st.integers(1, 2)) for k in sizes]
    return attributes


@few
@given(seed=seeds, n=st.integers(1, 3), group=st.integers(1, 3), data=st.data())
def test_conv(seed, n, group, data):
    draw = data.draw
    each, out = draw(st.integers(1, 2)), group * draw(st.integers(1, 2))
    x = values(seed, images(draw, n, group * each))
    attributes = windows(draw, n)
    w = values(seed + 1, (out, each, *attributes["kernel_shape"]))
    attributes["group"] = group
    if draw(st.booleans()):
        del attributes["kernel_shape"]
    inputs = [x, w, values(seed + 2, (out,))] if draw(st.booleans()) else [x, w]
    wanted = onnxruntime("Conv", 11, inputs, attributes)
    for opset in (1, 11, 22):
        assert_same(compiled("Conv", opset, inputs, attributes), wanted, 1e-4)
    fixed = [x, *(v for v in inputs[1:])]
    assert_same(reference("Conv", 22, fixed, attributes), wanted, 1e-4)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("size, dilation", [(1, 1), (2, 1), (3, 1), (3, 2)])
def test_automatic_padding(auto_pad, stride, size, dilation):
    x, w = values(1, (2, 3, 7, 6)), values(2, (4, 3, size, size))
    attributes = {"auto_pad": auto_pad, "strides": [stride] * 2, "dilations": [dilation] * 2}
    wanted = reference("Conv", 11, [x, w], attributes)
    assert_same(compiled("Conv", 11, [x, w], attributes), wanted, 1e-4)
    pool = {"auto_pad": auto_pad, "strides": [stride] * 2, "kernel_shape": [size] * 2}
    for op in ("MaxPool", "AveragePool"):
        found = compiled(op, 11, [x], pool)
        if stride <= size or "SAME" not in auto_pad:  # else ONNX Runtime refuses
            assert_same(found, onnxruntime(op, 11, [x], pool))
        else:
            assert found[0].shape == wanted[0].shape[:1] + x.shape[1:2] + tuple(
                -(-n // stride) for n in x.shape[2:]
            )


def symbolic(op, opset, shape, attributes, weights=()):
    """The results with every extent but the channels a symbol, through `compiled`."""
    x = values(1, shape)
    return x, compiled(op, opset, [x, *weights], attributes, symbolic=True)


@pytest.mark.parametrize("extent", [(5, 6), (6, 9)])
@pytest.mark.parametrize("auto_pad", ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [2, 3])
def test_symbolic_extents(extent, auto_pad, stride, size):
    attributes = {"auto_pad": auto_pad, "strides": [stride] * 2, "kernel_shape": [size] * 2}
    for op in ("MaxPool", "AveragePool"):
        x, found = symbolic(op, 11, (1, 1, *extent), attributes)
        assert_same(found, onnxruntime(op, 11, [x], attributes))


def test_what_symbols_cannot_tell():
    with pytest.raises(Unsupported) as error:
        symbolic("MaxPool", 11, (1, 1, 5), {
            "auto_pad": "SAME_UPPER", "strides": [3], "kernel_shape": [2]})  # fmt: skip
    assert error.value.message == "break.symbolic-padding"
    with pytest.raises(Unsupported) as error:
        symbolic("MaxPool", 11, (1, 1, 5), {"ceil_mode": 1, "strides": [3], "kernel_shape": [2]})
    assert error.value.message == "break.symbolic-padding"


# ---- pooling as the specification has it -------------------------------------------------------


def pooled(x, sizes, strides, dilations, pads, ceil, function, include=False):
    """Window by window: `function(elements, how many count)`."""
    n = len(sizes)
    counts = []
    for k in range(n):
        reach = (sizes[k] - 1) * dilations[k] + 1
        steps = (x.shape[2 + k] + pads[k] + pads[n + k] - reach) / strides[k]
        windows = (math.ceil if ceil else math.floor)(steps) + 1
        if ceil and (windows - 1) * strides[k] >= x.shape[2 + k] + pads[k]:
            windows -= 1
        counts.append(windows)
    y = np.empty((*x.shape[:2], *counts), x.dtype)
    for at in itertools.product(*map(range, counts)):
        inside, padded = [], []
        for k in range(n):
            first = at[k] * strides[k] - pads[k]
            places = [first + j * dilations[k] for j in range(sizes[k])]
            inside.append([p for p in places if 0 <= p < x.shape[2 + k]])
            padded.append([p for p in places if p < x.shape[2 + k] + pads[n + k]])
        elements = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *inside)]
        number = math.prod(map(len, padded if include else inside))
        y[(slice(None), slice(None), *at)] = function(elements, number)
    return y


def whole(attributes, n):
    sizes = attributes["kernel_shape"]
    return (sizes, attributes.get("strides", [1] * n), attributes.get("dilations", [1] * n),
            attributes.get("pads", [0] * 2 * n))  # fmt: skip


@few
@given(seed=seeds, n=st.integers(1, 3), ceil=st.booleans(), data=st.data())
def test_max_pool(seed, n, ceil, data):
    x = values(seed, images(data.draw, n, 2)) - 3
    attributes = windows(data.draw, n)
    sizes, strides, dilations, pads = whole(attributes, n)

    def largest(e, count):
        return e.max(axis=tuple(range(2, 2 + n)), initial=-np.inf)

    wanted = [pooled(x, sizes, strides, dilations, pads, ceil, largest)]
    for opset in (10, 11, 12, 22):
        found = compiled("MaxPool", opset, [x], {**attributes, "ceil_mode": int(ceil)})
        assert_same(found, wanted)
    if not ceil and "dilations" not in attributes:
        assert_same(compiled("MaxPool", 1, [x], attributes), wanted)
    if x.size:
        assert_same(onnxruntime("MaxPool", 12, [x], {**attributes, "ceil_mode": int(ceil)}), wanted)


def test_max_pool_lets_nan_win_and_takes_integers():
    x = np.array([[[1, np.nan, 2, 3]]], np.float32)
    found = compiled("MaxPool", 12, [x], {"kernel_shape": [2]})
    assert_same(found, [np.array([[[np.nan, np.nan, 3]]], np.float32)])
    whole_numbers = -values(1, (1, 2, 5), "int32") ** 2 - 1
    found = compiled("MaxPool", 12, [whole_numbers], {"kernel_shape": [3], "pads": [1, 1]})
    assert found[0].max() < 0 and found[0].shape == (1, 2, 5)


@few
@given(
    seed=seeds, n=st.integers(1, 3), ceil=st.booleans(), include=st.booleans(), data=st.data()
)
def test_average_pool(seed, n, ceil, include, data):
    x = values(seed, images(data.draw, n, 2))
    attributes = windows(data.draw, n)
    sizes, strides, dilations, pads = whole(attributes, n)

    def average(e, count):
        with np.errstate(all="ignore"):
            return e.sum(axis=tuple(range(2, 2 + n))) / np.float32(count)

    wanted = [pooled(x, sizes, strides, dilations, pads, ceil, average, include)]
    more = {"ceil_mode": int(ceil), "count_include_pad": int(include)}
    for opset in (19, 22) if "dilations" in attributes else (10, 11, 19, 22):
        assert_same(compiled("AveragePool", opset, [x], {**attributes, **more}), wanted)
    if "dilations" not in attributes and not ceil:
        old = {"count_include_pad": int(include)}
        assert_same(compiled("AveragePool", 7, [x], {**attributes, **old}), wanted)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5), (0, 3, 4), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("opset", [1, 22])
def test_over_the_whole_image(shape, opset):
    x = values(1, shape)
    axes = tuple(range(2, len(shape)))
    average = x.mean(axis=axes, keepdims=True) if axes else x
    largest = x.max(axis=axes, keepdims=True) if axes else x
    check("GlobalAveragePool", opset, [x], wanted=[average])
    check("GlobalMaxPool", opset, [x], wanted=[largest])


TESTED = {"Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"}

"""Operators that move elements: views, slices, gathers, concatenations, padding, index matrices.

What a Slice or a Gather takes is NumPy's; ONNX Runtime is asked where the evaluator is silent.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.harness import (
    Fixed,
    assert_same,
    compiled,
    onnxruntime,
    reference,
    seeds,
    shapes,
    values,
)
from tests.ops.test_operators import check, few

DTYPES = ("float32", "int32", "int64", "bool")


def i64(*numbers: int) -> Fixed:
    return Fixed(np.array(numbers, np.int64))


# ---- views -------------------------------------------------------------------------------------


@few
@given(seed=seeds, shape=shapes(high=3), data=st.data())
def test_unsqueeze_and_squeeze(seed, shape, data):
    x = values(seed, shape)
    count = data.draw(st.integers(1, 2))
    rank = len(shape) + count
    axes = data.draw(
        st.lists(st.integers(-rank, rank - 1), min_size=count, max_size=count,
                 unique_by=lambda a: a % rank)
    )  # fmt: skip
    wide = np.expand_dims(x, tuple(axes))
    check("Unsqueeze", 13, [x, i64(*axes)], wanted=[wide])
    check("Squeeze", 13, [wide, i64(*axes)], wanted=[x])
    low = [a % rank for a in axes]
    for opset, given_axes in ((1, low), (11, axes)):
        check("Unsqueeze", opset, [x], {"axes": given_axes}, wanted=[wide])
        check("Squeeze", opset, [wide], {"axes": given_axes}, wanted=[x])


def test_squeeze_of_every_extent_of_one():
    x = np.ones((1, 1), np.float32)
    check("Squeeze", 13, [x], wanted=[x[0, 0]])


@pytest.mark.parametrize("opset", [8, 13])
@pytest.mark.parametrize(
    "shape, target",
    [((3, 1), (2, 1, 6)), ((3, 1), (3, 4)), ((2, 3), (1, 1)), ((), (2, 3)), ((1,), (0,)),
     ((0, 1), (1, 3))],
)  # fmt: skip
def test_expand_goes_both_ways(opset, shape, target):
    x = values(1, shape)
    check("Expand", opset, [x, i64(*target)], wanted=[x * np.ones(target, np.float32)])


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3, 4)])
def test_size(shape):
    x = values(1, shape)
    check("Size", 13, [x], wanted=[np.array(x.size, np.int64)])


@few
@given(seed=seeds, shape=shapes(), data=st.data())
def test_tile(seed, shape, data):
    x = values(seed, shape)
    repeats = data.draw(st.lists(st.integers(0, 3), min_size=len(shape), max_size=len(shape)))
    check("Tile", 13, [x, i64(*repeats)], wanted=[np.tile(x, repeats)])
    check("Tile", 6, [x, i64(*repeats)], wanted=[np.tile(x, repeats)])


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_and_space(mode):
    x = values(1, (2, 12, 3, 2))
    check("DepthToSpace", 13, [x], {"blocksize": 2, "mode": mode})
    check("DepthToSpace", 1, [x], {"blocksize": 2})
    y = values(2, (2, 3, 4, 6))
    check("SpaceToDepth", 13, [y], {"blocksize": 2})


# ---- gather and scatter ------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [1, 11, 13])
@pytest.mark.parametrize("dtype", DTYPES)
@few
@given(seed=seeds, shape=shapes(low=1, smallest=1), data=st.data())
def test_gather(opset, dtype, seed, shape, data):
    x = values(seed, shape, dtype)
    axis = data.draw(st.integers(0 if opset == 1 else -len(shape), len(shape) - 1))
    n = shape[axis]
    indices = np.random.default_rng(seed).integers(
        0 if opset == 1 else -n, n, data.draw(shapes(high=2))
    )
    wanted = np.take(x, indices, axis=axis)
    for kind in ("int32", "int64"):
        check("Gather", opset, [x, indices.astype(kind)], {"axis": axis}, wanted=[wanted])
    check("Gather", opset, [x, Fixed(indices)], {"axis": axis}, wanted=[wanted])


@pytest.mark.parametrize("at", [0, 2, -1, -3])
def test_one_index_that_is_known_drops_the_axis(at):
    x = values(1, (2, 3, 4))
    for axis in (1, -2):
        index = Fixed(np.array(at, np.int64))
        check("Gather", 13, [x, index], {"axis": axis}, wanted=[x[:, at]])


@few
@given(seed=seeds, shape=shapes(low=1, high=3, smallest=1), data=st.data())
def test_gather_and_scatter_elements(seed, shape, data):
    x = values(seed, shape)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    n = shape[axis]
    rng = np.random.default_rng(seed)
    size = data.draw(st.integers(1, n))
    index_shape = [size if k == axis % len(shape) else d for k, d in enumerate(shape)]
    indices = np.argsort(rng.random(index_shape), axis=axis)
    indices = np.where(rng.random(index_shape) < 0.5, indices, indices - n)
    wanted = np.take_along_axis(x, indices, axis)
    for opset in (11, 13):
        check("GatherElements", opset, [x, indices], {"axis": axis}, wanted=[wanted])
    updates = values(seed + 1, index_shape)
    changed = x.copy()
    np.put_along_axis(changed, indices, updates, axis)
    for op, opset in (("Scatter", 9), ("ScatterElements", 11), ("ScatterElements", 18)):
        check(op, opset, [x, indices, updates], {"axis": axis}, wanted=[changed])


def test_elements_of_a_corner():
    """Indices that reach less far than the data along the other axes."""
    x = values(1, (4, 5))
    indices = np.array([[0, 3], [2, -1]], np.int64)
    wanted = np.stack([x[indices[:, j], j] for j in range(2)], axis=1)
    assert_same(reference("GatherElements", 13, [x, indices], {"axis": 0}), [wanted])
    found = compiled("GatherElements", 13, [x, indices], {"axis": 0})
    assert_same(found, [wanted])
    updates = values(2, (2, 2))
    changed = x.copy()
    for i in range(2):
        for j in range(2):
            changed[indices[i, j], j] = updates[i, j]
    assert_same(compiled("ScatterElements", 13, [x, indices, updates], {"axis": 0}), [changed])


def test_later_updates_win():
    x = np.zeros((1, 4), np.float32)
    indices = np.array([[1, 1, -3]], np.int64)
    updates = np.array([[5, 6, 7]], np.float32)
    found = compiled("ScatterElements", 11, [x, indices, updates], {"axis": 1})
    assert_same(found, [np.array([[0, 7, 0, 0]], np.float32)])


# ---- concat, split, slice ----------------------------------------------------------------------


@pytest.mark.parametrize("opset", [4, 11, 13])
@pytest.mark.parametrize("dtype", DTYPES)
@few
@given(seed=seeds, shape=shapes(low=1), data=st.data())
def test_concat(opset, dtype, seed, shape, data):
    axis = data.draw(st.integers(0 if opset < 11 else -len(shape), len(shape) - 1))
    parts = []
    for k in range(data.draw(st.integers(1, 4))):
        size = [data.draw(st.integers(0, 3)) if a == axis % len(shape) else n
                for a, n in enumerate(shape)]  # fmt: skip
        parts.append(values(seed + k, size, dtype))
    check("Concat", opset, parts, {"axis": axis}, wanted=[np.concatenate(parts, axis)])


def test_concat_of_opset_1_has_a_default():
    x, y = values(1, (2, 3)), values(2, (2, 1))
    check("Concat", 1, [x, y], wanted=[np.concatenate([x, y], 1)])


@few
@given(seed=seeds, sizes=st.lists(st.integers(0, 4), min_size=1, max_size=4), data=st.data())
def test_split_by_sizes(seed, sizes, data):
    rank = data.draw(st.integers(1, 3))
    axis = data.draw(st.integers(-rank, rank - 1))
    shape = [sum(sizes) if k == axis % rank else 2 for k in range(rank)]
    x, n = values(seed, shape), len(sizes)
    wanted = np.split(x, np.cumsum(sizes)[:-1], axis)
    check("Split", 13, [x, i64(*sizes)], {"axis": axis}, n, wanted)
    check("Split", 18, [x, i64(*sizes)], {"axis": axis}, n, wanted)
    check("Split", 11, [x], {"axis": axis, "split": sizes}, n, wanted)
    check("Split", 2, [x], {"axis": axis % rank, "split": sizes}, n, wanted)
    check("Split", 1, [x, i64(*sizes)], {"axis": axis % rank}, n, wanted)


@pytest.mark.parametrize("extent, parts, sizes", [(6, 3, [2, 2, 2]), (7, 3, [3, 3, 1])])
def test_split_into_equal_parts(extent, parts, sizes):
    x = values(1, (2, extent))
    wanted = np.split(x, np.cumsum(sizes)[:-1], 1)
    check("Split", 18, [x], {"axis": 1, "num_outputs": parts}, parts, wanted)
    if extent % parts == 0:
        check("Split", 13, [x], {"axis": 1}, parts, wanted)
        check("Split", 2, [x], {"axis": 1}, parts, wanted)


BIG = 2**63 - 1
BOUNDS = [0, 1, 2, 3, -1, -2, 5, 9, -9, BIG, -BIG, 2**31 - 1, -(2**31)]


@few
@given(
    seed=seeds, extent=st.integers(0, 5), start=st.sampled_from(BOUNDS),
    end=st.sampled_from(BOUNDS), step=st.sampled_from([1, 2, 3, -1, -2, -3, -9]),
)  # fmt: skip
def test_slice_of_constant_extents_is_numpys(seed, extent, start, end, step):
    x = values(seed, (2, extent))
    given_range = [i64(start), i64(end), i64(1), i64(step)]
    wanted = np.ascontiguousarray(x[:, start:end:step])
    assert_same(compiled("Slice", 13, [x, *given_range]), [wanted])
    assert_same(compiled("Slice", 10, [x, *given_range]), [wanted])


@pytest.mark.parametrize(
    "at",
    [np.s_[:, 1:3], np.s_[:, ::2], np.s_[:, 1::3], np.s_[:, :-1], np.s_[:, -3:], np.s_[:, ::-1],
     np.s_[:, ::-2], np.s_[:, -2::-2], np.s_[:, 3::-1], np.s_[:, -1:0:-1], np.s_[:, -1:-4:-1],
     np.s_[:, 4:1:-2], np.s_[::-1, ::-3], np.s_[-2::-1, 1:-1]],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("extent", [5, 6])
def test_slice_of_symbolic_extents(at, extent):
    x = values(1, (3, extent))
    axes = [k for k, s in enumerate(at) if s != slice(None)]
    steps = [at[k].step or 1 for k in axes]
    starts, ends = [], []
    for k, step in zip(axes, steps, strict=True):
        first, last = (0, BIG) if step > 0 else (BIG, -BIG)
        starts.append(first if at[k].start is None else at[k].start)
        ends.append(last if at[k].stop is None else at[k].stop)
    wanted = [np.ascontiguousarray(x[at])]
    check("Slice", 13, [x, i64(*starts), i64(*ends), i64(*axes), i64(*steps)], wanted=wanted)
    if all(step == 1 for step in steps):
        attributes = {"starts": starts, "ends": ends, "axes": axes}
        check("Slice", 1, [x], attributes, wanted=wanted)


# ---- pad ---------------------------------------------------------------------------------------


@few
@given(
    seed=seeds, shape=shapes(low=1, high=3, smallest=1),
    mode=st.sampled_from(["constant", "edge", "reflect", "wrap"]), data=st.data(),
)  # fmt: skip
def test_pad(seed, shape, mode, data):
    x = values(seed, shape)
    amount = st.integers(0, 3)
    widths = [
        (0, 0) if mode == "reflect" and n == 1 else (data.draw(amount), data.draw(amount))
        for n in shape
    ]
    pads = [w[0] for w in widths] + [w[1] for w in widths]
    wanted = [np.pad(x, widths, mode)]
    check("Pad", 19, [x, i64(*pads)], {"mode": mode}, wanted=wanted)
    if mode != "wrap":
        check("Pad", 11, [x, i64(*pads)], {"mode": mode}, wanted=wanted)
        check("Pad", 2, [x], {"mode": mode, "pads": pads}, wanted=wanted)
        check("Pad", 1, [x], {"mode": mode, "paddings": pads}, wanted=wanted)
    if mode == "constant":
        filled = [np.pad(x, widths, constant_values=np.float32(0.5))]
        number = np.array(0.5, np.float32)
        check("Pad", 13, [x, i64(*pads), Fixed(number)], wanted=filled)
        check("Pad", 13, [x, i64(*pads), number], wanted=filled)
        check("Pad", 2, [x], {"pads": pads, "value": 0.5}, wanted=filled)


def test_pad_of_some_axes_and_of_other_types():
    x = values(1, (2, 3, 4))
    wanted = np.pad(x, [(0, 0), (1, 0), (2, 3)])
    check("Pad", 18, [x, i64(2, 1, 3, 0), None, i64(-1, 1)], wanted=[wanted])
    for dtype in ("int32", "int64", "bool"):
        y = values(1, (2, 3), dtype)
        check("Pad", 13, [y, i64(0, 1, 1, 0)], wanted=[np.pad(y, [(0, 1), (1, 0)])])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_negative_padding_cuts_off(mode):
    x = values(1, (4, 5))
    pads = i64(0, -1, 1, 2) if mode == "constant" else i64(0, -1, 0, -2)
    check("Pad", 18, [x, pads], {"mode": mode},
          wanted=onnxruntime("Pad", 18, [x, pads], {"mode": mode}))  # fmt: skip


# ---- made of indices ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [None, 0, 1, -2, 7])
def test_trilu(dtype, k):
    x = values(1, (2, 3, 4), dtype)
    for upper in (0, 1):
        wanted = (np.triu if upper else np.tril)(x, k or 0)
        inputs = [x] if k is None else [x, np.array(k, np.int64)]
        check("Trilu", 14, inputs, {"upper": upper}, wanted=[wanted])
    check("Trilu", 14, [x], wanted=[np.triu(x)])


@pytest.mark.parametrize("opset", [9, 11])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(opset, axis):
    indices = np.array([[0, 2, 5], [1, -1, 4]], np.int64)
    off_on = np.array([0.5, 2.0], np.float32)
    hot = np.where(indices[..., None] % 5 == np.arange(5), off_on[1], off_on[0])
    hot = np.where((indices == 5)[..., None], off_on[0], hot)
    wanted = [np.ascontiguousarray(np.moveaxis(hot, -1, axis))]
    depth = Fixed(np.array(5, np.int64))
    check("OneHot", opset, [indices, depth, off_on], {"axis": axis}, wanted=wanted)
    narrow = indices.astype(np.int32)
    check("OneHot", opset, [narrow, depth, Fixed(off_on)], {"axis": axis}, wanted=wanted)


def test_eye_like():
    x = values(1, (3, 4), "int64")
    check("EyeLike", 9, [x], wanted=[np.eye(3, 4, dtype=np.int64)])
    check("EyeLike", 22, [x], {"dtype": 1, "k": -1}, wanted=[np.eye(3, 4, -1, np.float32)])


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (2, 0, 3)])
def test_constant_of_shape(shape):
    target = Fixed(np.array(shape, np.int64))
    check("ConstantOfShape", 9, [target], wanted=[np.zeros(shape, np.float32)])
    for number in (np.array([7], np.int64), np.array([True]), np.array([0.5], np.float32)):
        wanted = [np.full(shape, number[0])]
        check("ConstantOfShape", 20, [target], {"value": number}, wanted=wanted)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@pytest.mark.parametrize("bounds", [(0, 5, 1), (2, 9, 3), (5, 0, -2), (3, 3, 1), (5, 2, 1)])
def test_range(dtype, bounds):
    inputs = [Fixed(np.array(n, dtype)) for n in bounds]
    check("Range", 11, inputs, wanted=[np.arange(*bounds).astype(dtype)])


TESTED = {
    "Unsqueeze", "Squeeze", "Expand", "Size", "Tile", "DepthToSpace", "SpaceToDepth", "Gather",
    "GatherElements", "Scatter", "ScatterElements", "Concat", "Split", "Slice", "Pad", "Trilu",
    "OneHot", "EyeLike", "ConstantOfShape", "Range",
}  # fmt: skip

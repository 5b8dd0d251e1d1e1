"""Addresses against what NumPy itself says."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.runtime.addresses import (
    address_of,
    address_range,
    aligned_empty,
    as_kernel_input,
    overlaps,
)

DTYPES = ["float32", "float64", "int8", "int64", "bool", "complex128"]

slices = st.builds(
    slice, *[st.none() | st.integers(-7, 7)] * 2, st.sampled_from([None, 1, 2, 3, -1, -2])
)


@st.composite
def views(draw: st.DrawFn, base: np.ndarray) -> np.ndarray:
    """A view of `base` through any slicing and transposition."""
    view = base[tuple(draw(slices) for _ in range(base.ndim))]
    return view.transpose(draw(st.permutations(range(base.ndim))))


@given(st.data(), st.sampled_from(DTYPES))
def test_address_and_range(data: st.DataObject, dtype: str) -> None:
    view = data.draw(views(np.zeros((5, 4, 6), dtype)))
    assert address_of(view) == view.ctypes.data
    low, high = address_range(view)
    if view.size:
        assert (low, high) == np.lib.array_utils.byte_bounds(view)
    else:
        assert low == high


@given(st.data())
def test_overlaps(data: st.DataObject) -> None:
    base = np.zeros((5, 4, 6), np.float32)
    a, b = data.draw(views(base)), data.draw(views(base))
    assert overlaps(a, b) == overlaps(b, a) == np.may_share_memory(a, b)


def test_overlaps_by_hand() -> None:
    x = np.zeros(10, np.float32)
    assert overlaps(x, x)
    assert overlaps(x[:6], x[5:])
    assert not overlaps(x[:5], x[5:])
    assert overlaps(x[::2], x[1::2])
    assert not overlaps(x[5:5], x)
    assert not overlaps(x, x.copy())
    assert overlaps(x, x.view(np.uint8)[3:5])


def test_address_of_unusual_arrays(tmp_path) -> None:
    scalar = np.array(3.0)
    assert address_of(scalar) == scalar.ctypes.data
    assert address_range(scalar) == (scalar.ctypes.data, scalar.ctypes.data + 8)
    frozen = np.arange(5)
    frozen.flags.writeable = False
    assert address_of(frozen) == frozen.ctypes.data
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=(3,))
    assert address_of(mapped) == mapped.ctypes.data
    spread = np.broadcast_to(np.float32(1), (4, 5))
    assert address_range(spread) == (spread.ctypes.data, spread.ctypes.data + 4)


@settings(max_examples=50)
@given(
    st.lists(st.integers(0, 5), max_size=4),
    st.sampled_from(DTYPES),
    st.sampled_from([1, 8, 64, 256, 4096]),
)
def test_aligned_empty(shape: list[int], dtype: str, alignment: int) -> None:
    array = aligned_empty(shape, dtype, alignment)
    assert array.shape == tuple(shape)
    assert array.dtype == dtype
    assert address_of(array) % alignment == 0
    assert array.flags.c_contiguous
    assert array.flags.writeable
    array[...] = 1
    gc.collect(0)
    assert np.all(array == 1)


def test_aligned_empty_of_one_size() -> None:
    assert aligned_empty(7, np.int64).shape == (7,)


def misaligned() -> np.ndarray:
    return np.arange(41, dtype=np.uint8)[1:].view(np.float32).reshape(2, 5)


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.arange(6, dtype=np.float32), None),
        (np.float32(2) * np.ones(()), "dtype"),
        (np.array(2, np.float32), None),
        (np.zeros((0, 3), np.float32), None),
        (np.zeros((3, 0), np.float32).T, None),
        (np.ones((4, 3), np.float32).T, "non-contiguous"),
        (np.arange(9, dtype=np.float32)[::-1], "non-contiguous"),
        (np.arange(9, dtype=np.float32)[::2], "non-contiguous"),
        (np.broadcast_to(np.float32(3), (2, 3)), "non-contiguous"),
        (misaligned(), "misaligned"),
        (np.arange(6, dtype=">f4"), "byte-swapped"),
        (np.arange(12, dtype=">f4").reshape(3, 4).T, "byte-swapped"),
        (np.arange(6, dtype=np.float64), "dtype"),
        (np.arange(6, dtype=np.int32), "dtype"),
    ],
)
def test_as_kernel_input(array: np.ndarray, reason: str | None) -> None:
    if reason == "dtype":
        with pytest.raises(TypeError, match=rf"float32, got {array.dtype.name}.*astype"):
            as_kernel_input(array, np.float32, 4)
        return
    before = array.copy()
    got, why = as_kernel_input(array, np.float32, 4)
    assert why == reason
    assert (got is array) == (reason is None)
    assert got.dtype == np.dtype(np.float32)
    assert got.dtype.isnative
    assert got.flags.c_contiguous
    assert got.shape == array.shape
    assert address_of(got) % (4 if reason is None and got.size else 1) == 0
    assert np.array_equal(got, before)
    assert np.array_equal(array, before)
    if reason:
        assert address_of(got) % 64 == 0


def test_as_kernel_input_takes_read_only_arrays_in_place() -> None:
    array = np.arange(5, dtype=np.int64)
    array.flags.writeable = False
    assert as_kernel_input(array, np.int64, 8)[0] is array


def test_as_kernel_input_keeps_nan_bits() -> None:
    bits = np.array([0x7FC00001, 0xFF800001, 0x80000000], np.uint32)
    got, why = as_kernel_input(bits.view(np.float32).astype(">f4"), np.float32, 4)
    assert why == "byte-swapped"
    assert got.view(np.uint32)[0] == bits[0]
    assert got.view(np.uint32)[2] == bits[2]
    strided = np.repeat(bits, 2)[::2].view(np.float32)
    assert as_kernel_input(strided, np.float32, 4)[0].view(np.uint32).tolist() == bits.tolist()

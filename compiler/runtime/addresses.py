"""Where an array lies in memory, and whether a kernel may read it there.

    address of x[i, j, …] = base + i·stride₀ + j·stride₁ + …        (strides in bytes, any sign)

A kernel gets bare addresses, so whatever NumPy knows beyond them (strides, byte order, alignment,
who else holds the memory) is settled here, before the call.

Teaches: an array is an address and a rule for indices; everything else is the reader's promise.
"""

import ctypes
import math
import sys
from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

CopyReason = Literal["byte-swapped", "non-contiguous", "misaligned"]

ALIGNMENT: Final = 64  # bytes of a cache line, and of the widest vector register


class _ArrayInterface(ctypes.Structure):
    """NumPy's PyArrayInterface, which `array.__array_struct__` wraps in a capsule.

    Reading it costs half of `array.ctypes.data` or `array.__array_interface__`, which build
    Python objects for shape and strides first. Source: NumPy, "The array interface protocol".
    """

    _fields_ = [
        ("two", ctypes.c_int),
        ("nd", ctypes.c_int),
        ("typekind", ctypes.c_char),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_int),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("data", ctypes.c_size_t),
    ]


_interface = _ArrayInterface.from_address
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_size_t, ctypes.py_object, ctypes.c_void_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def address_of(array: NDArray[Any]) -> int:
    """The address of the array's first element, x[0, 0, …]; of an empty array, some address.

    It holds while the array lives and is not resized.
    """
    capsule = array.__array_struct__  # owns what the pointer points to: keep it until read
    return _interface(_capsule_pointer(capsule, None)).data


def address_range(array: NDArray[Any]) -> tuple[int, int]:
    """First and past-the-last byte that the array's elements occupy; (a, a) for an empty one."""
    address = address_of(array)
    if array.size == 0:
        return address, address
    if array.flags.c_contiguous:
        return address, address + array.nbytes
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    low = sum(r for r in reach if r < 0)
    high = sum(r for r in reach if r > 0)
    return address + low, address + high + array.itemsize


def overlaps(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether the address ranges of two arrays meet; never for an empty one.

    Two views that interleave without sharing an element count as overlapping.
    """
    a_low, a_high = address_range(a)
    b_low, b_high = address_range(b)
    return max(a_low, b_low) < min(a_high, b_high)


def aligned_empty(
    shape: int | Sequence[int], dtype: DTypeLike, alignment: int = ALIGNMENT
) -> NDArray[Any]:
    """A new C-contiguous array of undefined content whose address is a multiple of `alignment`."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    element = np.dtype(dtype)
    count = math.prod(sizes) * element.itemsize + alignment
    if count > sys.maxsize:
        raise MemoryError(f"an array of {count} bytes")
    memory = np.empty(count, np.uint8)
    return np.ndarray(sizes, element, memory, -address_of(memory) % alignment)


def as_kernel_input(
    array: NDArray[Any], dtype: DTypeLike, alignment: int
) -> tuple[NDArray[Any], CopyReason | None]:
    """The array itself where a kernel can read it in place, else an aligned copy and why.

    A kernel reads C-contiguous elements in the machine's byte order at a multiple of `alignment`
    bytes (at least that of one element). It never writes its inputs, so read-only arrays are fine.
    `dtype` is what it expects: another byte order is copied, another type raises TypeError.
    """
    expected = np.dtype(dtype)
    reason: CopyReason
    if array.dtype != expected:
        if array.dtype.newbyteorder("=") != expected:
            raise TypeError(
                f"expected an array of {expected.name}, got {array.dtype.name}: "
                f"convert it with array.astype({expected.name!r})"
            )
        reason = "byte-swapped"
    elif not array.flags.c_contiguous:
        reason = "non-contiguous"
    elif array.size and address_of(array) % alignment:
        reason = "misaligned"
    else:
        return array, None
    copy = aligned_empty(array.shape, expected, max(alignment, ALIGNMENT))
    copy[...] = array
    return copy, reason

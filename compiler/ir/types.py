"""Element types, tensor types, scalars and attributes: the closed vocabulary of every level."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from .dims import Dim, DimLike, dims, product

Array = npt.NDArray[np.generic]


class DType(Enum):
    """An element type; the value is its name in text."""

    f16 = "f16"
    bf16 = "bf16"
    f32 = "f32"
    f64 = "f64"
    i8 = "i8"
    i16 = "i16"
    i32 = "i32"
    i64 = "i64"
    u8 = "u8"
    u16 = "u16"
    u32 = "u32"
    u64 = "u64"
    bool = "bool"
    string = "string"
    c64 = "c64"
    c128 = "c128"

    @property
    def is_float(self) -> bool:
        return self in _FLOATS

    @property
    def is_integer(self) -> bool:
        return self in _INTEGERS

    @property
    def itemsize(self) -> int:
        """Bytes of one stored element. Strings have none: ValueError."""
        size = _ITEMSIZE.get(self)
        if size is None:
            raise ValueError(f"{self.value} has no fixed size in memory")
        return size

    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy type of the same storage; bfloat16 and strings have none: ValueError."""
        name = _NUMPY.get(self)
        if name is None:
            raise ValueError(f"NumPy has no {self.value}")
        return np.dtype(name)

    @staticmethod
    def of(dtype: npt.DTypeLike) -> DType:
        """The element type of a NumPy type. ValueError for one that has none here."""
        wanted = np.dtype(dtype).newbyteorder("=").name
        for mine, name in _NUMPY.items():
            if name == wanted:
                return mine
        if np.dtype(dtype).kind in "OUST":
            return DType.string
        raise ValueError(f"no element type for NumPy's {wanted}")


_FLOATS = frozenset({DType.f16, DType.bf16, DType.f32, DType.f64})
_INTEGERS = frozenset(
    {DType.i8, DType.i16, DType.i32, DType.i64, DType.u8, DType.u16, DType.u32, DType.u64}
)
_NUMPY = {
    DType.f16: "float16", DType.f32: "float32", DType.f64: "float64",
    DType.i8: "int8", DType.i16: "int16", DType.i32: "int32", DType.i64: "int64",
    DType.u8: "uint8", DType.u16: "uint16", DType.u32: "uint32", DType.u64: "uint64",
    DType.bool: "bool", DType.c64: "complex64", DType.c128: "complex128",
}  # fmt: skip
_ITEMSIZE = {
    DType.f16: 2, DType.bf16: 2, DType.f32: 4, DType.f64: 8, DType.i8: 1, DType.i16: 2,
    DType.i32: 4, DType.i64: 8, DType.u8: 1, DType.u16: 2, DType.u32: 4, DType.u64: 8,
    DType.bool: 1, DType.c64: 8, DType.c128: 16,
}  # fmt: skip

COMPILED = frozenset({DType.f32, DType.i32, DType.i64, DType.bool})
"""The element types that kernels compute with; every other one is a library step."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """dtype and shape. `shape is None`: rank unknown; `dtype is None`: prints `?`."""

    dtype: DType | None
    shape: tuple[Dim, ...] | None

    @property
    def known(self) -> bool:
        return self.dtype is not None and self.shape is not None

    @property
    def sized(self) -> bool:
        """Whether its bytes can be counted beforehand: a type that is known, and not text."""
        return self.known and self.dtype is not DType.string

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The shape; ValueError when the rank is unknown."""
        if self.shape is None:
            raise ValueError("the rank of this value is unknown")
        return self.shape

    @property
    def element(self) -> DType:
        """The dtype; ValueError when unknown."""
        if self.dtype is None:
            raise ValueError("the element type of this value is unknown")
        return self.dtype

    @property
    def numel(self) -> Dim:
        return product(self.dims)

    @property
    def nbytes(self) -> Dim:
        return self.numel * self.element.itemsize

    def symbols(self) -> frozenset[str]:
        return frozenset[str]().union(*(d.symbols() for d in self.shape or ()))


UNKNOWN = TensorType(None, None)


def tensor(dtype: DType, *shape: DimLike) -> TensorType:
    return TensorType(dtype, dims(shape))


@dataclass(frozen=True, slots=True)
class Scalar:
    """One element by its bits, so that NaN equals itself and 0.0 differs from -0.0."""

    dtype: DType
    bits: int

    @staticmethod
    def of(dtype: DType, value: float | int | bool) -> Scalar:
        """From a Python number, rounded to the dtype. bfloat16 rounds half to even."""
        if dtype is DType.bf16:
            word = int(np.asarray(value, np.float32).view(np.uint32))
            rounded = word if value != value else word + 0x7FFF + ((word >> 16) & 1)
            return Scalar(dtype, (rounded >> 16) & 0xFFFF)
        stored = np.asarray(value).astype(dtype.numpy())
        return Scalar(dtype, int.from_bytes(stored.tobytes(), "little"))

    def array(self) -> Array:
        """The value as a rank-0 array; bfloat16 as float32."""
        if self.dtype is DType.bf16:
            return np.array(self.bits << 16, np.uint32).view(np.float32)
        raw = self.bits.to_bytes(self.dtype.itemsize, "little")
        return np.frombuffer(raw, self.dtype.numpy())[0]  # pyright: ignore

    def value(self) -> float | int | bool:
        number: float | int | bool = self.array().item()
        return number


@dataclass(frozen=True, slots=True)
class ParamRef:
    """A reference from an attribute to an array in the module's `params`."""

    name: str


@dataclass(frozen=True, slots=True)
class KernelRef:
    """A reference from a `launch` to a kernel of the module."""

    name: str


Attr = int | str | DType | Dim | Scalar | ParamRef | KernelRef | tuple["Attr", ...]
"""What an attribute may hold: a closed union. A flag is 0 or 1, a float is a `Scalar`."""

Attrs = tuple[tuple[str, Attr], ...]
"""Attributes sorted by name."""


def attrs(**values: Attr) -> Attrs:
    return tuple(sorted(values.items()))

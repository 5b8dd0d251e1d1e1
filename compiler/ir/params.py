"""The store of weight arrays: content-addressed, 64-byte aligned, read-only.

A module holds digests only; an array lives as long as somebody holds the store or the array.
"""

from __future__ import annotations

import hashlib
import threading

import numpy as np

from .types import Array, DType

ALIGNMENT = 64


def digest_of(array: Array) -> str:
    """SHA-256 over dtype, shape and bytes, as 64 hexadecimal digits."""
    h = hashlib.sha256()
    h.update(f"{DType.of(array.dtype).value}{list(array.shape)}".encode())
    if array.dtype.kind in "OUST":
        h.update(repr(array.tolist()).encode())
    else:
        h.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return h.hexdigest()


def aligned_copy(array: Array) -> Array:
    """A read-only C-contiguous copy that starts at a multiple of 64 bytes."""
    raw = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -raw.__array_interface__["data"][0] % ALIGNMENT
    view = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    view.flags.writeable = False
    return view


class ParamStore:
    """digest -> array. Thread-safe; `add` keeps one copy of equal arrays."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self._lock = threading.Lock()

    def add(self, array: Array) -> str:
        """Store an array (copied unless aligned, contiguous and read-only); its digest."""
        digest = digest_of(array)
        with self._lock:
            if digest not in self._arrays:
                if array.dtype.kind in "OUST":
                    kept = np.array(array)
                    kept.flags.writeable = False
                else:
                    native = array.astype(array.dtype.newbyteorder("="), copy=False)
                    kept = aligned_copy(native)
                self._arrays[digest] = kept
        return digest

    def adopt(self, digest: str, array: Array) -> None:
        """Take an array that is already aligned and read-only (a memory map) under its digest."""
        with self._lock:
            self._arrays.setdefault(digest, array)

    def get(self, digest: str) -> Array:
        """The array; KeyError for a digest that was never added."""
        with self._lock:
            return self._arrays[digest]

    def __contains__(self, digest: str) -> bool:
        with self._lock:
            return digest in self._arrays

    def keep_only(self, digests: frozenset[str]) -> None:
        """Forget every array that no snapshot in use refers to."""
        with self._lock:
            self._arrays = {d: a for d, a in self._arrays.items() if d in digests}

"""A GPU through its driver: memory, code, launches and events, by ctypes alone.

    Device.open() -> upload, empty -> load(cubin) -> launch(function, grid, threads, table)

The driver's library comes with the driver, so running on a GPU needs no package. What a call
returns is always looked at; an error names the call, and what the driver says of it.

Teaches: a GPU is another machine: memory of its own, a queue of work, and a clock on that queue.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from compiler.ir.types import Array
from compiler.runtime.native import NativeError

__all__ = [
    "CudaError", "Device", "DeviceArray", "Driver", "Event", "Function", "NoDevice", "NoDriver",
]  # fmt: skip

_MAJOR, _MINOR, _PROCESSORS, _L2 = 75, 76, 16, 38
_WORD, _HANDLE, _SIZE = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t


class CudaError(NativeError):
    """The driver refused something; the text names the call and the driver's reason."""


class NoDevice(CudaError):
    """There is no driver, or no GPU answers it; the text says which."""


class NoDriver(NoDevice):
    """The driver's library is not on this machine."""

    def __init__(self) -> None:
        super().__init__("the driver's library libcuda.so.1 is not there")


class Driver(Protocol):
    """What a device asks of its driver: calls by name. A test brings one of its own."""

    def call(self, name: str, *arguments: object) -> None:
        """Raises CudaError where the driver refuses."""
        ...

    def quiet(self, name: str, *arguments: object) -> None:
        """A call whose failure nobody can help."""
        ...


class _Driver:
    """The functions of libcuda.so.1. Raises NoDriver where it is not there."""

    def __init__(self) -> None:
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise NoDriver from error
        self.library.cuGetErrorString.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
        status = self.library.cuInit(0)
        if status:
            raise NoDevice(f"cuInit: {self.reason(status)}")

    def reason(self, status: int) -> str:
        text = ctypes.c_char_p()
        self.library.cuGetErrorString(status, ctypes.byref(text))
        return f"{(text.value or b'unknown').decode()} ({status})"

    def call(self, name: str, *arguments: object) -> None:
        status: int = getattr(self.library, name)(*arguments)
        if status:
            raise CudaError(f"{name}: {self.reason(status)}")

    def quiet(self, name: str, *arguments: object) -> None:
        getattr(self.library, name)(*arguments)


_driver: _Driver | None = None


def _open_driver() -> _Driver:
    global _driver
    if _driver is None:
        _driver = _Driver()
    return _driver


@dataclass(frozen=True)
class Function:
    """A kernel in a loaded module, which it keeps alive."""

    name: str
    handle: int
    module: object


@dataclass(frozen=True)
class DeviceArray:
    """A C-contiguous array in a GPU's memory, which it keeps alive."""

    device: Device
    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    memory: object

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def to_host(self, out: Array | None = None) -> Array:
        """The elements, when all work queued so far is done."""
        found: Array = np.empty(self.shape, self.dtype) if out is None else out
        if (found.shape, found.dtype) != (self.shape, self.dtype) or not found.flags.c_contiguous:
            raise ValueError(f"out is no contiguous {self.dtype}{list(self.shape)}")
        if self.nbytes:
            self.device.call(
                "cuMemcpyDtoH_v2", _HANDLE(found.ctypes.data), _WORD(self.address),
                _SIZE(self.nbytes),
            )  # fmt: skip
        return found

    def from_host(self, array: Array) -> None:
        """Overwrite the elements by those of an array of the same shape and dtype."""
        source = np.ascontiguousarray(array)
        if (source.shape, source.dtype) != (self.shape, self.dtype):
            raise ValueError(f"{source.dtype}{list(source.shape)} does not fit")
        if self.nbytes:
            self.device.call(
                "cuMemcpyHtoD_v2", _WORD(self.address), _HANDLE(source.ctypes.data),
                _SIZE(self.nbytes),
            )  # fmt: skip

    def fill(self, byte: int) -> None:
        """Set every byte. 0xFF makes every float NaN."""
        if self.nbytes:
            self.device.call(
                "cuMemsetD8Async", _WORD(self.address), ctypes.c_ubyte(byte), _SIZE(self.nbytes),
                self.device.stream,
            )  # fmt: skip


class Event:
    """A mark in the queue; two of them measure the time between."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.handle = _HANDLE()
        device.call("cuEventCreate", ctypes.byref(self.handle), ctypes.c_uint(0))
        weakref.finalize(self, device.quiet, "cuEventDestroy_v2", _HANDLE(self.handle.value))

    def record(self) -> None:
        self.device.call("cuEventRecord", self.handle, self.device.stream)

    def milliseconds_since(self, start: Event) -> float:
        """Waits for this event. Resolution about half a microsecond."""
        self.device.call("cuEventSynchronize", self.handle)
        found = ctypes.c_float()
        self.device.call("cuEventElapsedTime", ctypes.byref(found), start.handle, self.handle)
        return found.value


class Device:
    """One GPU: its context and one queue. Any number of threads may use it.

    `name`, `capability` (major, minor), `processors`, `cache` bytes of L2, `driver` version.
    """

    _open: dict[int, Device] = {}  # noqa: RUF012

    def __init__(self, driver: Driver, index: int) -> None:
        self._driver = driver
        self.index = index
        handle = ctypes.c_int()
        driver.call("cuDeviceGet", ctypes.byref(handle), index)
        text = ctypes.create_string_buffer(128)
        driver.call("cuDeviceGetName", text, 128, handle)
        self.name = text.value.decode()

        def attribute(which: int) -> int:
            value = ctypes.c_int()
            driver.call("cuDeviceGetAttribute", ctypes.byref(value), which, handle)
            return value.value

        self.capability = attribute(_MAJOR), attribute(_MINOR)
        self.processors = attribute(_PROCESSORS)
        self.cache = attribute(_L2)
        version = ctypes.c_int()
        driver.call("cuDriverGetVersion", ctypes.byref(version))
        self.driver = f"{version.value // 1000}.{version.value % 1000 // 10}"
        self._context = _HANDLE()
        driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), handle)
        self.stream = _HANDLE()
        self.call("cuStreamCreate", ctypes.byref(self.stream), ctypes.c_uint(0))

    @staticmethod
    def open(index: int = 0) -> Device:
        """The GPU of this index, opened once a process. Raises NoDevice."""
        found = Device._open.get(index)
        if found is None:
            driver = _open_driver()
            count = ctypes.c_int()
            driver.call("cuDeviceGetCount", ctypes.byref(count))
            if count.value <= index:
                raise NoDevice(f"the driver knows {count.value} GPUs, asked for number {index}")
            found = Device._open.setdefault(index, Device(driver, index))
        return found

    # ---- calls

    def call(self, name: str, *arguments: object) -> None:
        """A call of the driver in this device's context. Raises CudaError."""
        self._driver.call("cuCtxSetCurrent", self._context)
        self._driver.call(name, *arguments)

    def quiet(self, name: str, *arguments: object) -> None:
        """A call at the end of something's life, which the driver may have survived."""
        self._driver.quiet("cuCtxSetCurrent", self._context)
        self._driver.quiet(name, *arguments)

    # ---- memory

    def empty(self, shape: Sequence[int], dtype: np.dtype[np.generic]) -> DeviceArray:
        """New memory of undefined content, aligned to 256 bytes. CudaError when there is none."""
        sizes = tuple(shape)
        nbytes = int(np.prod(sizes, dtype=np.int64)) * dtype.itemsize
        address = _WORD()
        self.call("cuMemAlloc_v2", ctypes.byref(address), _SIZE(max(1, nbytes)))
        memory = _Memory(self, address.value)
        return DeviceArray(self, address.value, sizes, dtype, memory)

    def upload(self, array: Array) -> DeviceArray:
        """A copy of an array in the GPU's memory."""
        made = self.empty(array.shape, array.dtype)
        made.from_host(array)
        return made

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Queue a copy within the GPU's memory."""
        if nbytes:
            self.call(
                "cuMemcpyDtoDAsync_v2", _WORD(target), _WORD(source), _SIZE(nbytes), self.stream
            )

    # ---- code

    def load(self, cubin: bytes, names: Sequence[str]) -> list[Function]:
        """The kernels `names` of a cubin (or of PTX, ending in 0). Raises CudaError."""
        handle = _HANDLE()
        self.call("cuModuleLoadData", ctypes.byref(handle), ctypes.c_char_p(cubin))
        module = _Module(self, handle.value or 0)
        found: list[Function] = []
        for name in names:
            function = _HANDLE()
            self.call("cuModuleGetFunction", ctypes.byref(function), handle, name.encode())
            found.append(Function(name, function.value or 0, module))
        return found

    def launch(
        self, function: Function, grid: tuple[int, int], threads: int, table: int
    ) -> None:
        """Queue a kernel whose one parameter is the address of its table."""
        parameter = _WORD(table)
        parameters = (_HANDLE * 1)(ctypes.addressof(parameter))
        one = ctypes.c_uint(1)
        self.call(
            "cuLaunchKernel", _HANDLE(function.handle), ctypes.c_uint(grid[0]),
            ctypes.c_uint(grid[1]), one, ctypes.c_uint(threads), one, one, ctypes.c_uint(0),
            self.stream, parameters, None,
        )  # fmt: skip

    def synchronize(self) -> None:
        """Wait until all queued work is done. CudaError for what went wrong in it."""
        self.call("cuStreamSynchronize", self.stream)

    def times(self, work: Callable[[], object], count: int) -> list[float]:
        """Milliseconds of `count` runs of work that is queued, by events between them. The runs
        are queued one behind the other, so what the host takes to queue them does not count."""
        marks = [Event(self) for _ in range(2 * count)]
        for start, end in zip(marks[::2], marks[1::2], strict=True):
            start.record()
            work()
            end.record()
        self.synchronize()
        pairs = zip(marks[::2], marks[1::2], strict=True)
        return [end.milliseconds_since(start) for start, end in pairs]


class _Memory:
    def __init__(self, device: Device, address: int) -> None:
        weakref.finalize(self, device.quiet, "cuMemFree_v2", _WORD(address))


class _Module:
    def __init__(self, device: Device, handle: int) -> None:
        weakref.finalize(self, device.quiet, "cuModuleUnload", _HANDLE(handle))


MOST_BLOCKS: Final = (2**31 - 1, 65535)
"""Blocks of a grid along x and y."""

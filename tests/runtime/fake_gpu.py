"""A driver that is not there: memory of the host, kernels run by the interpreter of loop trees.

It takes the calls of `libcuda.so.1` as `cuda_driver` makes them, checks what a driver would check
(addresses within allocations, sizes of a grid), and reads extents and buffers of a launch from the
table in memory as a kernel does. So everything of the engine but the GPU itself is exercised.
"""

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.driver import make_parts
from compiler.frontend.load import load
from compiler.ir.interpret.loops import run_kernel
from compiler.ir.loops import Kernel
from compiler.key import Key
from compiler.passes.base import Built, Context
from compiler.pipeline import for_target, parse_pipeline, run_pipeline
from compiler.runtime.artifact import Parts
from compiler.runtime.cuda_driver import CudaError, Device
from compiler.trace import Trace

Bytes = npt.NDArray[np.uint8]


def number(value: Any) -> int:
    return int(getattr(value, "value", value) or 0)


class FakeLibrary:
    """`kernels`: the name of an entry -> the scheduled loop tree that it runs."""

    def __init__(self, kernels: Mapping[str, Kernel], capability: tuple[int, int] = (9, 0)) -> None:
        self.kernels = dict(kernels)
        self.names = list(kernels)
        self.capability = capability
        self.memory: dict[int, Bytes] = {}
        self.launches: list[tuple[str, tuple[int, int], int]] = []
        self.clock = 0.0
        self.freed = 0

    def add(self, name: str, kernel: Kernel) -> None:
        if name not in self.kernels:
            self.kernels[name] = kernel
            self.names.append(name)

    # ---- the device

    def cuDeviceGet(self, out: Any, index: int) -> int:
        out._obj.value = index
        return 0

    def cuDeviceGetCount(self, out: Any) -> int:
        out._obj.value = 1
        return 0

    def cuDeviceGetName(self, out: Any, size: int, handle: Any) -> int:
        out.value = b"Fake GPU"
        return 0

    def cuDeviceGetAttribute(self, out: Any, which: int, handle: Any) -> int:
        out._obj.value = {75: self.capability[0], 76: self.capability[1], 16: 2, 38: 1 << 20}[which]
        return 0

    def cuDriverGetVersion(self, out: Any) -> int:
        out._obj.value = 13000
        return 0

    def cuDevicePrimaryCtxRetain(self, out: Any, handle: Any) -> int:
        out._obj.value = 1
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        return 0

    def cuStreamCreate(self, out: Any, flags: Any) -> int:
        out._obj.value = 1
        return 0

    def cuStreamSynchronize(self, stream: Any) -> int:
        return 0

    # ---- memory

    def cuMemAlloc_v2(self, out: Any, size: Any) -> int:
        room: Bytes = np.full(number(size) + 256, 0xFF, np.uint8)
        address = -(-room.ctypes.data // 256) * 256
        self.memory[address] = room[address - room.ctypes.data :][: number(size)]
        out._obj.value = address
        return 0

    def cuMemFree_v2(self, address: Any) -> int:
        self.memory.pop(number(address), None)
        self.freed += 1
        return 0

    def view(self, address: int, nbytes: int) -> Bytes:
        """Bytes within one allocation."""
        for start, room in self.memory.items():
            if start <= address and address + nbytes <= start + room.nbytes:
                return room[address - start : address - start + nbytes]
        raise AssertionError(f"{nbytes} bytes at {address:#x} are in no allocation")

    def cuMemcpyHtoD_v2(self, target: Any, source: Any, size: Any) -> int:
        data = ctypes.string_at(number(source), number(size))
        self.view(number(target), number(size))[:] = np.frombuffer(data, np.uint8)
        return 0

    def cuMemcpyDtoH_v2(self, target: Any, source: Any, size: Any) -> int:
        data = self.view(number(source), number(size)).tobytes()
        ctypes.memmove(number(target), data, len(data))
        return 0

    def cuMemcpyDtoDAsync_v2(self, target: Any, source: Any, size: Any, stream: Any) -> int:
        data = self.view(number(source), number(size)).copy()
        self.view(number(target), number(size))[:] = data
        return 0

    def cuMemsetD8Async(self, address: Any, byte: Any, size: Any, stream: Any) -> int:
        self.view(number(address), number(size))[:] = byte.value
        return 0

    # ---- code

    def cuModuleLoadData(self, out: Any, image: Any) -> int:
        out._obj.value = 1
        return 0

    def cuModuleUnload(self, module: Any) -> int:
        return 0

    def cuModuleGetFunction(self, out: Any, module: Any, name: bytes) -> int:
        if name.decode() not in self.kernels:
            return 500
        out._obj.value = 1 + self.names.index(name.decode())
        return 0

    def cuLaunchKernel(
        self, function: Any, x: Any, y: Any, z: Any, tx: Any, ty: Any, tz: Any, shared: Any,
        stream: Any, parameters: Any, extra: Any,
    ) -> int:  # fmt: skip
        if 0 in (x.value, y.value) or y.value > 65535 or tx.value > 1024:
            return 1
        name = self.names[number(function) - 1]
        kernel = self.kernels[name]
        self.launches.append((name, (x.value, y.value), tx.value))
        table = ctypes.c_uint64.from_address(parameters[0]).value
        words = self.view(table, 8 * (len(kernel.extents) + len(kernel.args))).view(np.int64)
        sizes = {e: int(n) for e, n in zip(kernel.extents, words, strict=False)}
        buffers: dict[str, npt.NDArray[Any]] = {}
        for arg, address in zip(kernel.args, words[len(kernel.extents) :], strict=True):
            shape = tuple(d.evaluate(sizes) for d in arg.type.dims)
            dtype = arg.type.element.numpy()
            nbytes = int(np.prod(shape)) * dtype.itemsize
            buffers[arg.name] = self.view(int(address), nbytes).view(dtype).reshape(shape)
        run_kernel(kernel, sizes, buffers)
        return 0

    # ---- time

    def cuEventCreate(self, out: Any, flags: Any) -> int:
        out._obj.value = 1
        return 0

    def cuEventDestroy_v2(self, event: Any) -> int:
        return 0

    def cuEventRecord(self, event: Any, stream: Any) -> int:
        return 0

    def cuEventSynchronize(self, event: Any) -> int:
        return 0

    def cuEventElapsedTime(self, out: Any, start: Any, end: Any) -> int:
        out._obj.value = 0.25
        return 0


class FakeDriver:
    """What `cuda_driver` asks of its driver."""

    def __init__(self, library: FakeLibrary) -> None:
        self.library = library

    def call(self, name: str, *arguments: object) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            raise CudaError(f"{name}: status {status}")

    def quiet(self, name: str, *arguments: object) -> None:
        getattr(self.library, name)(*arguments)


def fake_device(library: FakeLibrary) -> Device:
    return Device(FakeDriver(library), 0)


def parts_of(
    model: Path | bytes, pipeline: str = "default", sizes: Mapping[str, int] | None = None
) -> tuple[Parts, FakeLibrary]:
    """An engine's parts for a GPU, with loop trees in the place of machine code; and the library
    that runs them."""
    passes = for_target(parse_pipeline(pipeline), "cuda:ptx")
    context = Context(target="cuda:ptx", model=load(model), sizes=dict(sizes or {}))
    records = run_pipeline(passes[:-1], context)
    module = records[-1].after
    trees = {s.symbol: module.kernel(s.kernel) for s in module.sources}
    context.built.update({s: Built(s, s.encode(), "", "") for s in trees})
    trace = Trace("model", "", "cuda:ptx", "default", records)
    return make_parts(trace, context, Key(())), FakeLibrary(trees)

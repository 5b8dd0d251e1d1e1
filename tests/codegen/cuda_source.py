"""The source of a CUDA kernel, run as the Python that it is: one Python thread a GPU thread.

Every word of the vocabulary (`compiler/codegen/numba_cuda_api.py`) means here what it means on a
GPU, in NumPy scalars; a barrier or a shuffle is a barrier of threads. Slow, for grids of a few
blocks. It sees what the interpreter of loop trees cannot: the names in the text.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from compiler.codegen.cuda import emit_cuda_kernel
from compiler.ir.loops import WARP, Kernel
from compiler.ir.types import Array

F32 = np.float32



FOLD = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
PLAIN: dict[str, Any] = {
    "f32": F32, "f64": np.float64, "i64": int, "i32": np.int32, "u64": int, "b1": bool,
    "inf": np.inf, "nan": np.nan, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
    "maximum": np.maximum, "minimum": np.minimum, "fma": lambda a, b, c: a * b + c,
    "logical_and": lambda a, b: a and b, "logical_not": lambda a: not a,
    "four": lambda *parts: np.array(parts, F32), "part": lambda value, k: value[k],
    "pointer": lambda array, dtype: array, "load": lambda x, at: x[at],
    "load4": lambda x, at: x[at : at + 4].copy(),
    **{f"{name}_reassoc": f for name, f in FOLD.items()},
    **{f"fold_{name}": lambda acc, v, f=f: f.reduce(v, initial=acc) for name, f in FOLD.items()},
    "float32": F32,
}  # fmt: skip


def put(array: Array, at: int, value: Any) -> None:
    array[at] = value


def put_four(array: Array, at: int, value: Any) -> None:
    array[at : at + 4] = value


def run_source(
    kernel: Kernel, grid: tuple[int, int], threads: int, extents: Mapping[str, int],
    arrays: Mapping[str, Array],
) -> None:  # fmt: skip
    """Run a scheduled kernel's source, block after block; writes into `arrays`."""
    text = emit_cuda_kernel(kernel, "k").text
    for x in range(grid[0]):
        for y in range(grid[1]):
            Block(kernel, text, threads, extents, arrays).run(x, y, grid[1])


class Block:
    def __init__(
        self, kernel: Kernel, text: str, threads: int, extents: Mapping[str, int],
        arrays: Mapping[str, Array],
    ) -> None:  # fmt: skip
        self.text, self.threads = text, threads
        self.params = [extents[e] for e in kernel.extents]
        self.params += [arrays[a.name].reshape(-1) for a in kernel.args if a.name in arrays]
        self.all = threading.Barrier(threads)
        self.warps = [threading.Barrier(WARP) for _ in range(threads // WARP)]
        self.lanes: list[Any] = [None] * threads
        self.shared: dict[int, Array] = {}
        self.errors: list[BaseException] = []

    def run(self, x: int, y: int, rows: int) -> None:
        team = [
            threading.Thread(target=self.thread, args=(t, x, y, rows))
            for t in range(self.threads)
        ]
        for one in team:
            one.start()
        for one in team:
            one.join(60)
        if self.errors:
            raise self.errors[0]

    def thread(self, t: int, x: int, y: int, rows: int) -> None:
        allocated = iter(range(1 << 30))

        def shuffle(value: Any, bits: int) -> Any:
            self.lanes[t] = value
            self.warps[t // WARP].wait(60)
            other = self.lanes[t ^ bits]
            self.warps[t // WARP].wait(60)
            return other

        def array(count: int, dtype: type[np.generic]) -> Array:
            return self.shared.setdefault(next(allocated), np.empty(count, dtype))

        names = {
            **PLAIN, "thread": lambda: t, "block_x": lambda: x, "block_y": lambda: y,
            "blocks_y": lambda: rows, "shuffle_xor": shuffle, "barrier": lambda: self.all.wait(60),
            "cuda": SimpleNamespace(shared=SimpleNamespace(array=array)),
            "extent": lambda params, k: params[k], "store": put, "store4": put_four,
            "stream4": put_four, "aligned": lambda a: a.ctypes.data % 16 == 0,
        }  # fmt: skip
        try:
            exec(self.text, names)
            with np.errstate(all="ignore"):
                names["k"](self.params)
        except BaseException as error:
            self.errors.append(error)
            self.all.abort()
            for warp in self.warps:
                warp.abort()

"""Compile the text of a kernel, link it and call it on NumPy arrays."""

import ctypes
from collections.abc import Callable

import numpy as np

from compiler.codegen.numba_api import CompiledKernel, compile_kernel
from compiler.runtime.native import RUNNER_SYMBOL, NativeCode, runner_object

Call = Callable[..., None]


def link(kernel: CompiledKernel) -> Call:
    """`call(extents, *arrays, lo=0, hi=extents[0])`: extents, then the addresses of the arrays."""
    code = NativeCode({kernel.symbol: kernel.object, RUNNER_SYMBOL: runner_object()})
    entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(code.address(kernel.symbol))

    def call(extents: tuple[int, ...], *arrays: np.ndarray, lo: int = 0, hi: int | None = None):
        assert all(a.flags.c_contiguous for a in arrays)
        params = np.array([*extents, *(a.ctypes.data for a in arrays)], np.int64)
        entry(params.ctypes.data, 0, lo, extents[0] if hi is None else hi)
        assert code  # the machine code lives as long as this value

    return call


def source(name: str, types: str, value: str) -> str:
    """An elementwise kernel over rows x columns: `types` of its inputs and, last, its output.

    `value` is an expression over the inputs' elements a, b and c.
    """
    *inputs, output = types.split()
    lines = [f"def {name}(params, worker, lo, hi):", "    columns = extent(params, 1)"]
    for k, t in enumerate(inputs):
        lines.append(f"    p{k} = pointer(params[{2 + k}], {t})")
    lines.append(f"    y = pointer(params[{2 + len(inputs)}], {output})")
    lines += ["    for i in range(lo, hi):", "        for j in range(columns):"]
    for k, _ in enumerate(inputs):
        lines.append(f"            {'abc'[k]} = load(p{k}, i * columns + j)")
    lines.append(f"            store(y, i * columns + j, {value})")
    return "\n".join(lines) + "\n"


def evaluate(
    value: str, types: str, *inputs: np.ndarray, strict: bool = False, math: str = "poly"
) -> np.ndarray:
    """`value` of every element of equally shaped flat inputs; `types` as for `source`."""
    kernel = compile_kernel("k", source("k", types, value), strict=strict, math=math)
    name = types.split()[-1]
    numpy_names = {"b1": "bool", "f": "float", "i": "int", "u": "uint"}
    dtype = "uint16" if name == "bf16" else numpy_names.get(name) or numpy_names[name[0]] + name[1:]
    output = np.empty(inputs[0].shape, dtype)
    link(kernel)((1, inputs[0].size), *inputs, output)
    return output

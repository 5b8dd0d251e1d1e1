"""What one would write in NumPy by hand, where that is sensible: every result in memory of its own
that is made once, and `out=` everywhere.

Erf, GELU, convolutions and attention are not here: NumPy has no erf, and loops over windows in
Python are no rival.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

Arrays = Mapping[str, np.ndarray]
Call = Callable[[], object]


def chain(x: Arrays, y: Arrays) -> Call:
    """Y = clip(relu(X + b) * s + R, -2, 2)"""
    out = y["Y"]

    def call() -> None:
        np.add(x["X"], x["b"], out=out)
        np.maximum(out, 0, out=out)
        np.multiply(out, x["s"], out=out)
        np.add(out, x["R"], out=out)
        np.clip(out, -2, 2, out=out)

    return call


def softmax(x: Arrays, y: Arrays) -> Call:
    given, out = x["x"], y["y"]
    row = np.empty((*given.shape[:-1], 1), np.float32)

    def call() -> None:
        np.max(given, axis=-1, keepdims=True, out=row)
        np.subtract(given, row, out=out)
        np.exp(out, out=out)
        np.sum(out, axis=-1, keepdims=True, out=row)
        np.divide(out, row, out=out)

    return call


def bias_relu(x: Arrays, y: Arrays) -> Call:
    def call() -> None:
        np.add(x["x"], x["b"], out=y["y"])
        np.maximum(y["y"], 0, out=y["y"])

    return call


def diamond(x: Arrays, y: Arrays) -> Call:
    a = np.empty_like(x["x"])

    def call() -> None:
        np.tanh(x["x"], out=a)
        np.exp(a, out=y["y"])
        np.add(a, y["y"], out=y["y"])

    return call


def fork_reduce(x: Arrays, y: Arrays) -> Call:
    total = np.empty(len(x["x"]), np.float32)

    def call() -> None:
        np.maximum(x["x"], 0, out=y["y"])
        np.sum(y["y"], axis=1, out=total)
        np.add(total, 1, out=total)
        np.divide(y["y"], total, out=y["y"])

    return call


def matmul(x: Arrays, y: Arrays) -> Call:
    return lambda: np.matmul(x["A"], x["B"], out=y["C"])


NUMPY: Mapping[str, Callable[[Arrays, Arrays], Call]] = {
    "five_op_chain": chain,
    "softmax": softmax,
    "softmax_spelled_out": softmax,
    "bias_relu": bias_relu,
    "diamond": diamond,
    "fork_reduce": fork_reduce,
    "matmul": matmul,
}

"""Library steps: what NumPy's BLAS or the ONNX reference evaluator computes instead of a kernel.

    c[m,n] = Σ_k a[m,k] b[k,n]

Every contraction of two tensors is that one product once its letters stand in four groups: those
of the batch (in both operands and the result), rows (left and result), columns (right and result)
and summed ones (both operands, not the result). Grouping is a transposition and a reshape, mostly
a view; so is the result, wherever its columns (or rows) are neighbours in memory.

Teaches: einsum is a matrix product in disguise; a view costs nothing, a copy does.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from compiler.ir.types import Array, DType

Action = Callable[[], object]
"""One thing to do in a run; everything it works on is fixed."""


class _Evaluator(Protocol):
    """What is used of onnx's ReferenceEvaluator, which is not fully typed."""

    @property
    def input_names(self) -> Sequence[object]: ...

    def run(self, output_names: None, feed_inputs: dict[str, Any]) -> Sequence[Any]: ...


class LibraryError(Exception):
    """A library step that failed; the text names the value it was to make, and the way out."""


def matmul(spec: str, left: Array, right: Array, out: Array) -> Action:
    """The action `out = einsum(spec, left, right)`, for example `"bmk,kn->bmn"`.

    The arrays' memory is read and written at each call. `out` is C-contiguous, of the operands'
    dtype, and overlaps neither. A left operand with more row letters than one is a single tall
    matrix; an empty sum is 0. ValueError for a spec that is no product of two matrices, or that
    does not fit the shapes.
    """
    operands, _, to = spec.partition("->")
    at, _, by = operands.partition(",")  # the letters of left and right
    size = _sizes(spec, (at, by, to), (left.shape, right.shape, out.shape))
    shared = [c for c in to if c in at and c in by]
    rows = [c for c in to if c in at and c not in by]
    columns = [c for c in to if c in by and c not in at]
    summed = [c for c in at if c in by and c not in to]
    if (
        sorted(at) != sorted([*shared, *rows, *summed])
        or sorted(by) != sorted([*shared, *columns, *summed])
        or sorted(to) != sorted([*shared, *rows, *columns])
    ):
        raise ValueError(f"{spec!r} is no product of two matrices")
    if rows and columns and to[-1] in rows:
        return matmul(f"{by},{at}->{to}", right, left, out)
    # The left is repeated for letters of the right alone that come before the rows.
    leading = [c for c in columns if rows and to.index(c) < to.index(rows[0])]
    columns = [c for c in columns if c not in leading]
    batch = [c for c in to if c in shared or c in leading]

    def shape(letters: str) -> tuple[int, ...]:
        return tuple(size[c] if c in letters else 1 for c in batch)

    m, n, k = (math.prod(size[c] for c in group) for group in (rows, columns, summed))
    a = left.transpose([at.index(c) for c in [*shared, *rows, *summed]])
    b = right.transpose([by.index(c) for c in [*batch, *summed, *columns]])
    a_shape, b_shape = (*shape(at), m, k), (*shape(by), k, n)
    order = [*batch, *rows, *columns]
    target = out.transpose([to.index(letter) for letter in order])
    c = _as_view(target, (*shape(to), m, n))
    if c is not None and (list(to) == order or c.strides[-1 if n > 1 else -2] == out.itemsize):
        return lambda: np.matmul(a.reshape(a_shape), b.reshape(b_shape), out=c)

    def scatter() -> None:
        product = np.matmul(a.reshape(a_shape), b.reshape(b_shape))
        target[...] = product.reshape(target.shape)

    return scatter


def _as_view(array: Array, shape: tuple[int, ...]) -> Array | None:
    """The same memory in another shape; None where that takes a copy."""
    try:
        return np.reshape(array, shape, copy=False)
    except ValueError:
        return None


def _sizes(
    spec: str, terms: Sequence[str], shapes: Sequence[tuple[int, ...]]
) -> dict[str, int]:
    size: dict[str, int] = {}
    for letters, shape in zip(terms, shapes, strict=True):
        if len(set(letters)) != len(letters) or len(letters) != len(shape):
            raise ValueError(f"{spec!r} does not fit the shapes {', '.join(map(str, shapes))}")
        for letter, n in zip(letters, shape, strict=True):
            if size.setdefault(letter, n) != n:
                raise ValueError(f"{letter!r} of {spec!r} is both {size[letter]} and {n}")
    return size


class Library:
    """The reference steps of one engine: first result -> ONNX model of one node, as bytes.

    onnx is imported, and an evaluator made, when a step first runs; `milliseconds` tells how long
    that took in all. Equal models share an evaluator. Thread-safe: one evaluator runs once at a
    time.
    """

    def __init__(self, models: Mapping[str, bytes]) -> None:
        self._models = models
        self._nodes: dict[bytes, _Node] = {}
        self._lock = threading.Lock()
        self.milliseconds = 0.0

    def run(
        self,
        value: str,
        inputs: Mapping[str, Array],
        types: Mapping[str, DType | None],
        outputs: int,
    ) -> list[Array]:
        """The results of the node whose first result is `value`.

        `inputs` are the values that it reads, in order and each once, bfloat16 as its bits in
        uint16; so are results. LibraryError when the evaluator fails or gives another number
        of results.
        """
        node = self._node(value)
        if len(node.inputs) != len(inputs):
            raise LibraryError(
                f"%{value}: its node takes {len(node.inputs)} values, the plan gives "
                f"{len(inputs)}: build the engine again"
            )
        feeds = {
            name: _to_onnx(array, types.get(key))
            for name, (key, array) in zip(node.inputs, inputs.items(), strict=True)
        }
        try:
            with node.lock:
                raw = node.evaluator.run(None, feeds)
        except Exception as error:
            shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in inputs.values())
            raise LibraryError(
                f"the reference evaluator failed at the node that makes %{value} from "
                f"({shapes}): {error}; run it by itself to see why"
            ) from error
        results = [_from_onnx(r) for r in raw]
        if len(results) < outputs:
            raise LibraryError(
                f"%{value}: its node gives {len(results)} results, expected {outputs}: "
                "build the engine again"
            )
        return results[:outputs]

    def _node(self, value: str) -> "_Node":
        with self._lock:
            model = self._models[value]
            if model not in self._nodes:
                start = time.perf_counter()
                self._nodes[model] = _load(value, model)
                self.milliseconds += (time.perf_counter() - start) * 1e3
            return self._nodes[model]


@dataclass(frozen=True)
class _Node:
    """A one-node model, ready to run, by one thread at a time."""

    evaluator: _Evaluator
    inputs: tuple[str, ...]
    lock: threading.Lock


def _load(value: str, model: bytes) -> _Node:
    try:
        from onnx import load_model_from_string

        from compiler.ir.interpret.onnx_ops import evaluator
    except ImportError as error:
        raise LibraryError(
            f"%{value} needs the ONNX reference evaluator, but onnx is not installed: "
            "pip install onnx"
        ) from error
    try:
        made = evaluator(load_model_from_string(model))
    except Exception as error:
        raise LibraryError(
            f"the reference evaluator refuses the node that makes %{value}: {error}"
        ) from error
    names = tuple(str(name) for name in made.input_names)
    return _Node(made, names, threading.Lock())


def _to_onnx(array: Array, dtype: DType | None) -> Any:
    """What the evaluator takes: bfloat16 as such, a sequence or an absent optional unboxed."""
    if array.dtype.hasobject and array.ndim == 0 and isinstance(array[()], _BOXED):
        return array[()]
    if dtype is not DType.bf16 or array.dtype != np.uint16:
        return array
    from onnx import TensorProto, helper

    return array.view(helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16))


def _from_onnx(result: Any) -> Array:
    """An array for any result: bfloat16 as its bits; a sequence or an absent optional boxed at
    rank 0."""
    if isinstance(result, _BOXED):
        box = np.empty((), object)
        box[()] = result
        return box
    array: Array = np.asarray(result)
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


_BOXED = (list, dict, type(None))
"""Results that are no arrays."""

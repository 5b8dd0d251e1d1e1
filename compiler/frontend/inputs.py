"""Inputs made up from a seed, for runs that bring none.

    float: normal(0, 1)     bool: a coin     integer: 0 … n - 1, n the extent of the axis that the
    Gathers which use it pick from (the smallest of several), else 8

Nothing is made up for an input that must fit other data by its values: the shape of a Reshape, the
axes of a ReduceSum.

Teaches: random integers are no inputs; an index has a range, and the graph tells it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import numpy as np
from onnx import helper

from compiler.errors import InputsError
from compiler.ir.dims import Symbol
from compiler.ir.graph import Op, Value
from compiler.ir.module import Module
from compiler.ir.types import Array, DType, TensorType
from compiler.ops.views import onnx_form, operator_name

from .protos import ELEMENT_ID

DEFAULT_SIZE = 4
DEFAULT_BOUND = 8
LARGEST = 2**48
"""Elements of an input: more than any memory holds, less than NumPy's own limit."""

INDEXED: Mapping[str, int] = {"Gather": 1, "GatherElements": 1, "GatherND": 1}
"""Operators whose input 0 is picked from by the indices in the given input."""

CARRIERS = frozenset({
    "Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand",
    "Concat", "Slice", "Split", "Tile", "Clip",
})  # fmt: skip
"""Operators that pass the integers of input 0 on: what indexes behind them bounds them too."""


FITTING: Mapping[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "Split": (1,), "Squeeze": (1,), "Unsqueeze": (1,),
    "Slice": (3, 4), "Resize": (2, 3), "Upsample": (1,), "CenterCropPad": (1,), "TopK": (1,),
    "CumSum": (1,), "SequenceAt": (1,), "SequenceErase": (1,), "SequenceInsert": (2,),
    **{f"Reduce{name}": (1,) for name in (
        "L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare",
    )},
}  # fmt: skip
"""Operands that tell shapes, axes, counts or places: numbers at random there fit nothing."""

ARITHMETIC = frozenset({"Add", "Sub", "Mul", "Div"})


def make_inputs(module: Module, sizes: Mapping[str, int], seed: int) -> dict[str, Array]:
    """One array an input, C-contiguous, the same for the same module, sizes and seed.

    Best called on the module after `infer-shapes`. A symbol without a size gets 4, brought within
    its bounds. InputsError for an input of unknown rank and for one that can't be made up,
    MemoryError for one that is too large.
    """
    fitting = fitting_inputs(module)
    for v in module.graph.inputs:
        if v.name in fitting:
            node, operator = fitting[v.name]
            raise InputsError("inputs.fitting", input=v.name, node=node, op=operator)
    full = {s.name: sizes.get(s.name, default_size(s)) for s in module.dims}
    full.update(sizes)
    bounds = index_bounds(module, full)
    return {v.name: _make(v, full, bounds.get(v.name), seed) for v in module.graph.inputs}


def default_size(symbol: Symbol) -> int:
    """4, or the nearest size that the symbol admits."""
    size = -(-max(DEFAULT_SIZE, symbol.low) // symbol.divisor) * symbol.divisor
    if size > symbol.high:
        size = symbol.high // symbol.divisor * symbol.divisor
    return size


def index_bounds(module: Module, sizes: Mapping[str, int]) -> dict[str, int]:
    """Value name -> the smallest extent that its elements index, seen backwards from Gathers."""
    types = module.graph.types()
    bounds: dict[str, int] = {}

    def bound(name: str | None, limit: int | None) -> None:
        if name is not None and limit is not None:
            bounds[name] = min(limit, bounds.get(name, limit))

    for op in reversed(module.graph.ops):
        node = onnx_form(op)
        if node is None:
            continue
        _, kind = operator_name(node)
        if kind in INDEXED and len(node.inputs) > INDEXED[kind]:
            source = node.inputs[0]
            if source is not None:
                bound(node.inputs[INDEXED[kind]], _extent(node, types[source], sizes))
        if kind in CARRIERS:
            found = [bounds[v.name] for v in node.outputs if v.name in bounds]
            for name in node.inputs if kind == "Concat" else node.inputs[:1]:
                bound(name, min(found, default=None))
    return bounds


def fitting_inputs(module: Module) -> dict[str, tuple[str, str]]:
    """Value name -> (node, operator) that it must fit, seen backwards from the operands in
    `FITTING`."""
    names = {n.position: n.name for n in module.nodes}
    found: dict[str, tuple[str, str]] = {}
    for op in reversed(module.graph.ops):
        node = onnx_form(op)
        if node is None:
            continue
        _, kind = operator_name(node)
        for k in FITTING.get(kind, ()):
            name = node.inputs[k] if k < len(node.inputs) else None
            if name is not None:
                label = next((names[o] for o in sorted(op.origins) if names.get(o)), op.key)
                found.setdefault(name, (label, kind))
        if kind in CARRIERS | ARITHMETIC | INDEXED.keys():
            after = next((found[v.name] for v in node.outputs if v.name in found), None)
            inputs = node.inputs if kind in {"Concat", *ARITHMETIC} else node.inputs[:1]
            found |= {n: after for n in inputs if n is not None and after is not None}
    return found


def _extent(node: Op, source: TensorType, sizes: Mapping[str, int]) -> int | None:
    """The extent of the axis that a Gather picks from, where it is known."""
    if source.shape is None or not source.shape:
        return None
    axis = node.int("axis", 0)
    if node.kind == "onnx.GatherND":
        axis = node.int("batch_dims", 0)
    if not -len(source.shape) <= axis < len(source.shape):
        return None
    extent = source.shape[axis]
    return extent.evaluate(sizes) if extent.symbols() <= sizes.keys() else None


def _make(value: Value, sizes: Mapping[str, int], bound: int | None, seed: int) -> Array:
    type = value.type
    if type.shape is None or type.dtype is None:
        raise InputsError("inputs.unknown-shape", input=value.name)
    shape = tuple(d.evaluate(sizes) for d in type.shape)
    if math.prod(shape) > LARGEST:
        raise MemoryError(f"input {value.name!r} would have {math.prod(shape)} elements")
    word = hashlib.sha256(f"{seed}:{value.name}".encode()).digest()
    random = np.random.default_rng(int.from_bytes(word[:8], "little"))
    dtype = type.dtype
    if dtype.is_float:
        return random.standard_normal(shape).astype(_numpy(dtype))
    if dtype in (DType.c64, DType.c128):
        both = random.standard_normal((2, *shape))
        return (both[0] + 1j * both[1]).astype(dtype.numpy())
    if dtype is DType.bool:
        return random.integers(0, 2, shape).astype(np.bool_)
    numbers = random.integers(0, max(1, DEFAULT_BOUND if bound is None else bound), shape)
    if dtype is DType.string:
        return numbers.astype(str).astype(object)
    return numbers.astype(dtype.numpy())


def _numpy(dtype: DType) -> np.dtype[np.generic]:
    if dtype is DType.bf16:
        return np.dtype(helper.tensor_dtype_to_np_dtype(ELEMENT_ID[dtype]))
    return dtype.numpy()

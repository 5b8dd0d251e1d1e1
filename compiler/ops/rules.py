"""What several families share: axes, type rules, and arithmetic on elements known as dimensions.

Shape arithmetic of a model computes with integers that come from shapes. Such a value is *known*
when every element of it is a polynomial over the symbols. Known values have rank 0 or 1 and at
most 64 elements; flags are 0 and 1. Where a step holds only within a range (32-bit integers,
floats that count exactly up to 2^24), the range becomes a guard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from compiler.ir.builder import Builder
from compiler.ir.dims import ONE, ZERO, Dim, Guard, dim, dims
from compiler.ir.graph import Value
from compiler.ir.shapes import Shape, ShapeMismatch, broadcast, same
from compiler.ir.types import Array, DType, TensorType

from .base import NodeView, Unsupported

KNOWN_CAP = 64
"""The longest vector whose elements are tracked as dimensions."""


Inputs = tuple[Value | None, ...]
"""The operands of a node as the builder's values; None where an optional one is absent."""


def present(xs: Inputs, index: int) -> Value:
    """An input that the operator requires; Unsupported when it is absent."""
    found = xs[index] if index < len(xs) else None
    if found is None:
        raise Unsupported("break.input-missing", input=index)
    return found


def require_float(x: Value) -> None:
    """Unsupported for an operator that is computed on floating-point elements only."""
    if not x.type.element.is_float:
        raise Unsupported("break.dtype", dtype=x.type.element.value)


def require_one_dtype(first: Value, *rest: Value) -> None:
    """Unsupported unless all operands have the same element type."""
    for x in rest:
        if x.type.element is not first.type.element:
            raise Unsupported(
                "break.mixed-dtypes", left=first.type.element.value, right=x.type.element.value
            )


def require_some(v: NodeView, extent: Dim, looks: Dim = ONE) -> None:
    """Require that an axis that is looked up `looks` times is not empty, unless nobody looks.

    `looks <= looks * extent`. Unsupported where that is wrong, a guard where it may be.
    """
    if looks == ZERO:
        return
    if extent == ZERO:
        raise Unsupported("break.empty")
    if extent.constant is None:
        v.guards.append(Guard(looks, "<=", looks * extent, v.position, "guard.empty"))


# ---- axes --------------------------------------------------------------------------------------


def normal_axis(axis: int, rank: int, one_past: bool = False) -> int:
    """The axis counted from 0; Unsupported when outside `[-rank, rank)` (or `rank` itself)."""
    at = axis + rank if axis < 0 else axis
    if not 0 <= at < rank + one_past:
        raise Unsupported("break.axis", axis=axis, rank=rank)
    return at


def integers(v: NodeView, index: int) -> tuple[int, ...] | None:
    """The elements of an integer input that are constants; None when any is not."""
    found = v.known(index)
    if found is None:
        array = v.constant(index)
        if array is None or array.dtype.kind not in "iu":
            return None
        return tuple(int(n) for n in array.reshape(-1))
    numbers = [d.constant for d in found]
    known = tuple(n for n in numbers if n is not None)
    return known if len(known) == len(numbers) else None


def attribute_or_input(
    v: NodeView, name: str, index: int, input_since: int
) -> tuple[int, ...] | None:
    """Integers that were an attribute before opset `input_since` and are an input from it on.

    None when absent; Unsupported when they come from data.
    """
    if v.opset < input_since:
        return v.op.ints(name)
    if not v.has(index):
        return None
    found = integers(v, index)
    if found is None:
        raise Unsupported("break.from-data", what=name)
    return found


def from_constants(v: NodeView, index: int, name: str) -> tuple[Dim, ...]:
    """The known elements of an integer input; Unsupported when they come from data."""
    found = v.known(index)
    if found is not None:
        return found
    numbers = integers(v, index)
    if numbers is None:
        raise Unsupported("break.from-data", what=name)
    return dims(numbers)


def from_known(v: NodeView, index: int) -> tuple[Dim, ...] | None:
    """The elements of an integer input where they are known or constant."""
    found = v.known(index)
    if found is not None:
        return found
    numbers = integers(v, index)
    return None if numbers is None else dims(numbers)


# ---- slices ------------------------------------------------------------------------------------


def sliced(b: Builder, x: Value, parts: Mapping[int, tuple[Dim, Dim, int]]) -> Value:
    """`axis -> (start, count, step)`; x itself where that is all of it."""
    shape, starts, steps = list(x.type.dims), [ZERO] * x.type.rank, [1] * x.type.rank
    for axis, (start, count, step) in parts.items():
        starts[axis], shape[axis], steps[axis] = start, count, step
    if tuple(shape) == x.type.dims:
        return x
    return b.op(
        "slice", (x,), replace(x.type, shape=tuple(shape)),
        starts=tuple(starts), steps=tuple(steps),
    )  # fmt: skip


# ---- types -------------------------------------------------------------------------------------


def same_type(v: NodeView) -> tuple[TensorType, ...]:
    """One output of the type of the first input."""
    return (v.type(0),)


def aligned_shapes(v: NodeView) -> list[Shape]:
    """The shapes of all inputs, ready for NumPy's broadcasting.

    Before opset 7 `broadcast=1, axis=k` lays the second operand at axis k of the first: the
    axes after it become 1.
    """
    shapes = [v.type(k).dims for k in range(len(v.op.inputs))]
    axis = v.op.get("axis")
    if v.opset < 7 and isinstance(axis, int) and v.op.int("broadcast", 0) and len(shapes) == 2:
        rank = len(shapes[0])
        after = rank - normal_axis(axis, rank, one_past=True) - len(shapes[1])
        shapes[1] = (*shapes[1], *(ONE for _ in range(after)))
    return shapes


def aligned(b: Builder, v: NodeView, values: Iterable[Value | None]) -> list[Value]:
    """The operands as `aligned_shapes` tells."""
    found = [x for x in values if x is not None]
    return [b.reshape(x, s) for x, s in zip(found, aligned_shapes(v), strict=True)]


def broadcast_shape(v: NodeView) -> Shape:
    """The broadcast of all inputs; guards are noted in the view."""
    shape, guards = broadcast(aligned_shapes(v), v.position)
    v.guards += guards
    return shape


def broadcast_type(v: NodeView) -> tuple[TensorType, ...]:
    """One output: the dtype of the first input, the broadcast of all shapes."""
    shape = broadcast_shape(v)
    return (TensorType(v.type(0).element, shape),)


def broadcast_flag(v: NodeView) -> tuple[TensorType, ...]:
    """One bool output over the broadcast of all shapes."""
    return (TensorType(DType.bool, broadcast_shape(v)),)


def require_fits(b: Builder, value: Value, target: Shape) -> None:
    """Require that `value` broadcasts to `target` without growing it.

    ShapeMismatch for constants that do not; guards for what cannot be proved.
    """
    dims = value.type.dims
    if len(dims) > len(target):
        raise ShapeMismatch(dim(len(dims)), dim(len(target)))
    for d, wanted in zip(dims, target[len(target) - len(dims) :], strict=True):
        if d != ONE:
            b.guards += same(wanted, d, b.node, "guard.broadcast")


# ---- known elements ----------------------------------------------------------------------------


def nonnegative(value: Dim) -> bool:
    """Whether a dimension is at least 0 for all sizes, as far as its form tells."""
    return all(
        coefficient >= 0
        and all(isinstance(a, str) or nonnegative(a.numerator) for a in monomial)
        for monomial, coefficient in value.terms
    )


def settle(value: Dim, dtype: DType, v: NodeView) -> Dim | None:
    """The value as `dtype` holds it.

    A constant integer wraps; a float is known up to the integers that the dtype counts exactly;
    what symbols leave open becomes a guard.
    """
    if dtype is DType.bool:
        return value
    constant = value.constant
    if dtype.is_integer:
        bits = dtype.itemsize * 8
        low = 0 if dtype.value.startswith("u") else -(2 ** (bits - 1))
        high = low + 2**bits - 1
        if constant is not None:
            return dim((constant - low) % 2**bits + low)
        if bits == 64:
            return value
        reason = "guard.integer-range"
    elif dtype in (DType.f32, DType.f64):
        high = 2**24 if dtype is DType.f32 else 2**53
        low = -high
        if constant is not None:
            return value if low <= constant <= high else None
        reason = "guard.exact-float"
    else:
        return None
    v.guards.append(Guard(value, "<=", dim(high), v.position, reason))
    if not nonnegative(value):
        v.guards.append(Guard(dim(low), "<=", value, v.position, reason))
    return value


def known_elements(v: NodeView, index: int) -> tuple[Dim, ...] | None:
    """The elements of an input of rank 0 or 1; for floats also of an integral constant."""
    t = v.types[index] if index < len(v.types) else None
    if t is None or not t.known or t.rank > 1:
        return None
    found = v.known(index)
    if found is None and t.element.is_float:
        array = v.constant(index)
        return None if array is None else integral(array)
    return found


def integral(array: Array) -> tuple[Dim, ...] | None:
    """The elements of a small array that are all integers (not -0.0), else None."""
    if array.size > KNOWN_CAP or array.dtype.kind not in "biuf":
        return None
    numbers: list[float | int] = array.reshape(-1).tolist()
    if array.dtype.kind == "f" and not all(
        np.isfinite(n) and n == int(n) and not (n == 0 and np.signbit(n)) for n in numbers
    ):
        return None
    return dims(int(n) for n in numbers)


Step = Callable[[NodeView, tuple[Dim, ...]], Dim | None]
"""One element of a result from one element of every operand; None when it cannot be told."""


def elementwise(
    step: Step, result: DType | None = None
) -> Callable[[NodeView], tuple[Dim, ...] | None]:
    """The shape value of an elementwise operator: `step` on each element, broadcast.

    `result` is the dtype of the output where it is not that of the first input.
    """

    def shape_value(v: NodeView) -> tuple[Dim, ...] | None:
        count = len(v.op.inputs)
        if not any(v.known(k) is not None for k in range(count)):
            return None
        operands = [known_elements(v, k) for k in range(count)]
        columns = [c for c in operands if c is not None]
        lengths = {len(c) for c in columns} - {1}
        if len(columns) != count or len(lengths) > 1:
            return None
        dtype = result if result is not None else v.type(0).element
        elements: list[Dim] = []
        for k in range(max(lengths, default=1)):
            value = step(v, tuple(c[k if len(c) > 1 else 0] for c in columns))
            settled = None if value is None else settle(value, dtype, v)
            if settled is None:
                return None
            elements.append(settled)
        return tuple(elements)

    return shape_value


def at_most(a: Dim, b: Dim) -> bool | None:
    """Whether `a <= b`, where the forms tell."""
    if nonnegative(b - a):
        return True
    return False if nonnegative(a - b - 1) else None


def equal(a: Dim, b: Dim) -> bool | None:
    """Whether `a == b`, where the forms tell."""
    if a == b:
        return True
    return False if nonnegative(a - b - 1) or nonnegative(b - a - 1) else None


def flag(value: bool | None) -> Dim | None:
    """A truth value as a dimension."""
    return None if value is None else ONE if value else ZERO

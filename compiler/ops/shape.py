"""Operators that move no element: other shapes, other axis orders, and the shapes themselves.

    Reshape keeps the row-major order of elements; Transpose: y.shape[i] = x.shape[perm[i]];
    Shape(x)[k] = x.shape[k], an int64 vector of dimensions

Teaches: a view is an index map, not a copy, and the shape of a value is known without its data.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from compiler.ir.builder import Builder
from compiler.ir.dims import ONE, ZERO, Dim, dim, dims, product
from compiler.ir.graph import Value
from compiler.ir.shapes import Shape, broadcast, same
from compiler.ir.types import DType, ParamRef, Scalar, TensorType

from .base import NodeView, Operator, Unsupported, require_compiled
from .rules import (
    Inputs,
    attribute_or_input,
    from_constants,
    integral,
    known_elements,
    normal_axis,
    present,
    same_type,
)


def first_known(v: NodeView) -> tuple[Dim, ...] | None:
    """The elements of the first input, where they are known and the rank stays at most 1."""
    return known_elements(v, 0) if v.known(0) is not None else None


def identity(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """The input itself."""
    return (present(xs, 0),)


# ---- Constant ----------------------------------------------------------------------------------


def constant_type(v: NodeView) -> tuple[TensorType, ...]:
    array = v.attribute_array("value")
    if array is not None:
        return (TensorType(DType.of(array.dtype), dims(array.shape)),)
    for name, dtype in (("value_int", DType.i64), ("value_float", DType.f32)):
        if v.op.get(name) is not None:
            return (TensorType(dtype, ()),)
        several = v.op.get(name + "s")
        if isinstance(several, tuple):
            return (TensorType(dtype, (dim(len(several)),)),)
    raise Unsupported("break.constant-form")


def constant(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """A `param` for a tensor, `const` for a number, `dims` for integers."""
    value = v.op.get("value")
    (result,) = constant_type(v)
    if isinstance(value, ParamRef):
        require_compiled(result)
        return (b.param(value.name, result),)
    number = next((x for _, x in v.op.attrs if isinstance(x, Scalar)), None)
    if number is not None:
        return (b.scalar(number.value(), result.element),)
    if v.op.get("value_int") is not None:
        return (b.scalar(v.op.int("value_int"), DType.i64),)
    several = v.op.ints("value_ints")
    if several is None:
        raise Unsupported("break.constant-form")
    return (b.dim_values(several),)


def constant_value(v: NodeView) -> tuple[Dim, ...] | None:
    array = v.attribute_array("value")
    if array is not None:
        whole = array.ndim <= 1 and array.dtype.kind in "biu"
        return integral(array) if whole else None
    if v.op.get("value_int") is not None:
        return (dim(v.op.int("value_int")),)
    several = v.op.ints("value_ints")
    return None if several is None else dims(several)


# ---- Shape and Size ----------------------------------------------------------------------------


def shape_elements(v: NodeView) -> tuple[Dim, ...]:
    """The dimensions `start` to `end` (both clipped to the rank, negative from the end)."""
    shape = v.type(0).dims
    return shape[v.op.int("start", 0) : v.op.int("end", len(shape))]


def shape_type(v: NodeView) -> tuple[TensorType, ...]:
    return (TensorType(DType.i64, (dim(len(shape_elements(v))),)),)


def shape(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """An int64 vector of dimensions."""
    return (b.dim_values(shape_elements(v)),)


def size_type(v: NodeView) -> tuple[TensorType, ...]:
    v.type(0)
    return (TensorType(DType.i64, ()),)


def size(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """The number of elements, from the shape alone."""
    return (b.dim_scalar(v.type(0).numel),)


def size_value(v: NodeView) -> tuple[Dim, ...] | None:
    return (v.type(0).numel,)


# ---- Reshape and Flatten -----------------------------------------------------------------------


def target_shape(v: NodeView) -> Shape:
    """What a Reshape makes of the shape of its input.

    0 copies the input's dimension (unless `allowzero`), -1 is what is left: the quotient of the
    element counts after common dimensions are cancelled. Where the counts cannot be proved equal
    they become a guard; ShapeMismatch where they differ.
    """
    source = v.type(0).dims
    wanted = (
        dims(v.op.ints("shape") or ()) if v.opset < 5 else from_constants(v, 1, "shape")
    )
    result: list[Dim] = []
    inferred: int | None = None
    for k, d in enumerate(wanted):
        number = d.constant
        if number == 0 and not v.op.int("allowzero", 0):
            if k >= len(source):
                raise Unsupported("break.reshape", shape=_text(wanted), source=_text(source))
            d = source[k]
        elif number is not None and number < 0:
            if number != -1 or inferred is not None:
                raise Unsupported("break.reshape", shape=_text(wanted), source=_text(source))
            inferred, d = k, ONE
        result.append(d)
    if inferred is None:
        v.guards += same(product(source), product(result), v.position, "guard.reshape")
        return tuple(result)
    left, right = Counter(source), Counter(result)
    rest, given = product((left - right).elements()), product((right - left).elements())
    quotient = rest if given == ONE else rest.exact_div(given) if given != ZERO else None
    if quotient is None:
        divisor = given.constant
        if divisor is None or divisor <= 0:
            raise Unsupported("break.reshape", shape=_text(wanted), source=_text(source))
        quotient = rest // divisor
        v.guards += same(rest, quotient * divisor, v.position, "guard.reshape")
    result[inferred] = quotient
    return tuple(result)


def _text(shape: Shape) -> str:
    return ",".join(str(d) for d in shape)


def reshape_type(v: NodeView) -> tuple[TensorType, ...]:
    return (replace(v.type(0), shape=target_shape(v)),)


def reshape(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """A view in the target shape."""
    return (b.reshape(present(xs, 0), target_shape(v)),)


def reshape_value(v: NodeView) -> tuple[Dim, ...] | None:
    return first_known(v) if len(target_shape(v)) <= 1 else None


def flat_shape(v: NodeView) -> Shape:
    """`[d0 … d(axis-1), d(axis) … ]` as two products."""
    source = v.type(0).dims
    axis = normal_axis(v.op.int("axis", 1), len(source), one_past=True)
    return (product(source[:axis]), product(source[axis:]))


def flatten_type(v: NodeView) -> tuple[TensorType, ...]:
    return (replace(v.type(0), shape=flat_shape(v)),)


def flatten(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """A two-dimensional view."""
    return (b.reshape(present(xs, 0), flat_shape(v)),)


# ---- Transpose ---------------------------------------------------------------------------------


def permutation(v: NodeView) -> tuple[int, ...]:
    """`perm`, by default the reversal of all axes; Unsupported when it is no permutation."""
    rank = v.type(0).rank
    perm = v.op.ints("perm")
    if perm is None:
        return tuple(reversed(range(rank)))
    found = tuple(normal_axis(p, rank) for p in perm)
    if sorted(found) != list(range(rank)):
        raise Unsupported("break.perm", perm=",".join(map(str, perm)), rank=rank)
    return found


def transpose_type(v: NodeView) -> tuple[TensorType, ...]:
    x = v.type(0)
    return (replace(x, shape=tuple(x.dims[p] for p in permutation(v))),)


def transpose(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """Another order of the axes."""
    return (b.permute(present(xs, 0), permutation(v)),)


# ---- Unsqueeze, Squeeze, Expand ----------------------------------------------------------------


def unsqueeze_type(v: NodeView) -> tuple[TensorType, ...]:
    """Extents of 1 at `axes`, counted in the result (an attribute before opset 13)."""
    x = v.type(0)
    axes = attribute_or_input(v, "axes", 1, input_since=13) or ()
    rank = x.rank + len(axes)
    at = {normal_axis(a, rank) for a in axes}
    if len(at) != len(axes):
        raise Unsupported("break.axis", axis=",".join(map(str, axes)), rank=rank)
    rest = iter(x.dims)
    return (replace(x, shape=tuple(ONE if k in at else next(rest) for k in range(rank))),)


def unsqueeze(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """A view with more axes of extent 1."""
    (result,) = unsqueeze_type(v)
    return (b.reshape(present(xs, 0), result.dims),)


def unsqueeze_value(v: NodeView) -> tuple[Dim, ...] | None:
    return first_known(v) if unsqueeze_type(v)[0].rank <= 1 else None


def squeeze_type(v: NodeView) -> tuple[TensorType, ...]:
    """Without the extents of 1 at `axes`; without `axes` all that are 1.

    Unsupported when a symbolic extent would have to be known for that.
    """
    x = v.type(0)
    axes = attribute_or_input(v, "axes", 1, input_since=13)
    if axes is None:
        if any(d.constant is None for d in x.dims):
            raise Unsupported("break.squeeze", shape=_text(x.dims))
        return (replace(x, shape=tuple(d for d in x.dims if d != ONE)),)
    at = {normal_axis(a, x.rank) for a in axes}
    for k in sorted(at):
        v.guards += same(x.dims[k], ONE, v.position, "guard.squeeze")
    return (replace(x, shape=tuple(d for k, d in enumerate(x.dims) if k not in at)),)


def squeeze(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """A view with fewer axes of extent 1."""
    (result,) = squeeze_type(v)
    return (b.reshape(present(xs, 0), result.dims),)


def expand_type(v: NodeView) -> tuple[TensorType, ...]:
    """Two-way broadcast of the input against the target."""
    x = v.type(0)
    shape, guards = broadcast([x.dims, from_constants(v, 1, "shape")], v.position)
    v.guards += guards
    return (replace(x, shape=shape),)


def expand(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """The input read again along the axes where it has extent 1."""
    (result,) = expand_type(v)
    return (b.expand(present(xs, 0), result.dims),)


def expand_value(v: NodeView) -> tuple[Dim, ...] | None:
    found = first_known(v)
    (result,) = expand_type(v)
    count = result.numel.constant
    if found is None or result.rank > 1 or count is None or count > 64:
        return None
    return found * count if len(found) == 1 else found


# ---- Dropout -----------------------------------------------------------------------------------


def in_inference(v: NodeView) -> bool:
    """Whether a Dropout lets everything through: no training mode is asked for."""
    if v.opset < 7:
        return bool(v.op.int("is_test", 0))
    if v.opset < 12 or not v.has(2):
        return True
    mode = v.constant(2)
    return mode is not None and not bool(mode.any())


def dropout_type(v: NodeView) -> tuple[TensorType, ...]:
    """The data, and the mask: bool from opset 10 on."""
    x = v.type(0)
    mask = replace(x, dtype=DType.bool) if v.opset >= 10 else x
    return (x, mask)[: len(v.op.outputs)]


def dropout(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """The input itself and a mask of ones; Unsupported in training."""
    if not in_inference(v):
        raise Unsupported("break.dropout-training")
    x = present(xs, 0)
    if len(v.op.outputs) == 1:
        return (x,)
    one = b.scalar(1, DType.bool if v.opset >= 10 else x.type.element)
    return (x, b.expand(one, x.type.dims))


OPERATORS = (
    Operator("Identity", (1, 13, 14, 16, 19, 21, 23, 24, 25), same_type, identity, first_known),
    Operator(
        "Constant", (1, 9, 11, 12, 13, 19, 21, 23, 24, 25), constant_type, constant,
        constant_value,
    ),
    Operator("Shape", (1, 13, 15, 19, 21, 23, 24, 25), shape_type, shape, shape_elements),
    Operator("Size", (1, 13, 19, 21, 23, 24, 25), size_type, size, size_value),
    Operator("Reshape", (1, 5, 13, 14, 19, 21, 23, 24, 25), reshape_type, reshape, reshape_value),
    Operator("Flatten", (1, 9, 11, 13, 21, 23, 24, 25), flatten_type, flatten),
    Operator("Transpose", (1, 13, 21, 23, 24, 25), transpose_type, transpose, first_known),
    Operator(
        "Unsqueeze", (1, 11, 13, 21, 23, 24, 25), unsqueeze_type, unsqueeze, unsqueeze_value
    ),
    Operator("Squeeze", (1, 11, 13, 21, 23, 24, 25), squeeze_type, squeeze, first_known),
    Operator("Expand", (8, 13), expand_type, expand, expand_value),
    Operator("Dropout", (1, 6, 7, 10, 12, 13, 22), dropout_type, dropout),
)

"""Cast: the same elements in another dtype.

    float -> integer truncates toward zero;  anything -> bool is `x != 0`;  bool -> number is 0, 1
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir.builder import Builder
from compiler.ir.dims import ZERO, Dim
from compiler.ir.graph import Value
from compiler.ir.types import DType, TensorType

from .base import NodeView, Operator, Unsupported, require_compiled
from .rules import Inputs, elementwise, equal, flag, present, settle

ELEMENT_TYPES = {
    1: DType.f32, 2: DType.u8, 3: DType.i8, 4: DType.u16, 5: DType.i16, 6: DType.i32,
    7: DType.i64, 8: DType.string, 9: DType.bool, 10: DType.f16, 11: DType.f64, 12: DType.u32,
    13: DType.u64, 14: DType.c64, 15: DType.c128, 16: DType.bf16,
}  # fmt: skip
"""ONNX's numbers of element types (`TensorProto.DataType`); float8 and int4 have none here."""

_BY_NAME = {
    "FLOAT": DType.f32, "INT32": DType.i32, "INT64": DType.i64, "BOOL": DType.bool,
    "DOUBLE": DType.f64, "FLOAT16": DType.f16, "UINT8": DType.u8, "INT8": DType.i8,
    "UINT16": DType.u16, "INT16": DType.i16, "UINT32": DType.u32, "UINT64": DType.u64,
    "STRING": DType.string,
}  # fmt: skip


def target(v: NodeView, name: str = "to") -> DType:
    """The type an attribute names: a number, or at opset 1 a text. Unsupported for one unknown."""
    to = v.op.get(name)
    if isinstance(to, DType):
        return to
    found = ELEMENT_TYPES.get(to) if isinstance(to, int) else _BY_NAME.get(str(to).upper())
    if found is None:
        raise Unsupported("break.dtype", dtype=str(to))
    return found


def cast_type(v: NodeView) -> tuple[TensorType, ...]:
    return (replace(v.type(0), dtype=target(v)),)


def cast(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """The tensor-level cast; the input itself where the dtype stays."""
    x, to = present(xs, 0), target(v)
    require_compiled(x.type, replace(x.type, dtype=to))
    return (b.cast(x, to),)


def cast_like_type(v: NodeView) -> tuple[TensorType, ...]:
    return (replace(v.type(0), dtype=v.type(1).element),)


def cast_like(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """The cast to the dtype of the second input, whose elements are not read."""
    return (b.cast(present(xs, 0), present(xs, 1).type.element),)


def _cast(v: NodeView, xs: tuple[Dim, ...]) -> Dim | None:
    to = target(v)
    if to is DType.bool:
        is_zero = equal(xs[0], ZERO)
        return None if is_zero is None else flag(not is_zero)
    return settle(xs[0], to, v)


OPERATORS = (
    Operator(
        "Cast", (1, 6, 9, 13, 19, 21, 23, 24, 25, 28), cast_type, cast,
        elementwise(_cast, DType.bool),
    ),
    Operator("CastLike", (15, 19, 21, 23, 24, 25), cast_like_type, cast_like),
)

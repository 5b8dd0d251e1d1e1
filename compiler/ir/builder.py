"""Builder: makes typed tensor ops with fresh names and the origins of the node at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from .dims import ONE, Dim, DimLike, Guard, dim, dims
from .graph import NO_ORIGINS, Op, Origin, Origins, Value
from .names import Names
from .shapes import broadcast, same, window_shape
from .types import Attr, DType, ParamRef, Scalar, TensorType, attrs


class Builder:
    """Collects ops in `ops` and the guards their shapes rest on in `guards`.

    `base` is the value being decomposed (fresh names derive from it), `node` the position of the
    ONNX node that guards name.
    """

    def __init__(
        self, base: str, names: Names, origins: Origins = NO_ORIGINS, node: Origin | None = None
    ) -> None:
        self.base = base
        self.names = names
        self.origins = origins
        self.node: Origin = node if node is not None else min(origins, default=())
        self.ops: list[Op] = []
        self.guards: list[Guard] = []

    def op(
        self, kind: str, inputs: Iterable[Value | None], type: TensorType, **attributes: Attr
    ) -> Value:
        """Append one op with one result of the given type."""
        value = Value(self.names.fresh(self.base), type)
        names = tuple(v.name if v is not None else None for v in inputs)
        self.ops.append(Op(kind, names, (value,), attrs(**attributes), (), self.origins))
        return value

    def ensure_same(self, a: DimLike, b: DimLike, reason: str) -> None:
        """Require `a == b`: proved, or a guard; ShapeMismatch for different constants."""
        self.guards += same(dim(a), dim(b), self.node, reason)

    def broadcast(self, *values: Value) -> tuple[Dim, ...]:
        shape, guards = broadcast([v.type.dims for v in values], self.node)
        self.guards += guards
        return shape

    # ---- leaves

    def scalar(self, value: float | int | bool, dtype: DType) -> Value:
        """A rank-0 constant."""
        return self.op("const", (), TensorType(dtype, ()), value=Scalar.of(dtype, value))

    def like(self, value: float | int | bool, x: Value) -> Value:
        """A rank-0 constant of x's dtype."""
        return self.scalar(value, x.type.element)

    def dim_values(self, values: Iterable[DimLike]) -> Value:
        """An int64 vector of dimensions."""
        found = dims(values)
        return self.op("dims", (), TensorType(DType.i64, (dim(len(found)),)), values=found)

    def dim_scalar(self, value: DimLike) -> Value:
        return self.op("dims", (), TensorType(DType.i64, ()), values=(dim(value),))

    def param(self, name: str, type: TensorType) -> Value:
        return self.op("param", (), type, param=ParamRef(name))

    def iota(self, shape: Sequence[DimLike], axis: int, dtype: DType = DType.i64) -> Value:
        return self.op("iota", (), TensorType(dtype, dims(shape)), axis=axis)

    # ---- elementwise

    def map(self, function: str, *xs: Value) -> Value:
        """`map.function` over the NumPy broadcast of the operands, which share one dtype."""
        elements = {x.type.element for x in xs}
        if len(elements) != 1:
            raise TypeError(f"map.{function} over {sorted(e.value for e in elements)}")
        return self.op(f"map.{function}", xs, TensorType(xs[0].type.element, self.broadcast(*xs)))

    def add(self, x: Value, y: Value) -> Value:
        return self.map("add", x, y)

    def sub(self, x: Value, y: Value) -> Value:
        return self.map("sub", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self.map("mul", x, y)

    def div(self, x: Value, y: Value) -> Value:
        return self.map("div", x, y)

    def maximum(self, x: Value, y: Value) -> Value:
        return self.map("max", x, y)

    def minimum(self, x: Value, y: Value) -> Value:
        return self.map("min", x, y)

    def compare(self, relation: str, x: Value, y: Value) -> Value:
        """`relation` is one of eq ne lt le gt ge."""
        return self.op(
            f"compare.{relation}", (x, y), TensorType(DType.bool, self.broadcast(x, y))
        )

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        shape = self.broadcast(condition, x, y)
        return self.op("select", (condition, x, y), TensorType(x.type.element, shape))

    def cast(self, x: Value, to: DType) -> Value:
        if x.type.element is to:
            return x
        return self.op("cast", (x,), replace(x.type, dtype=to), to=to)

    # ---- reductions, views, contractions

    def reduce(self, function: str, x: Value, axes: Iterable[int]) -> Value:
        """Reduce over `axes`, which stay with extent 1. `function` in sum prod max min."""
        at = tuple(sorted({a % max(1, x.type.rank) for a in axes}))
        if not at:
            return x
        shape = tuple(ONE if k in at else d for k, d in enumerate(x.type.dims))
        return self.op(f"reduce.{function}", (x,), replace(x.type, shape=shape), axes=at)

    def reshape(self, x: Value, shape: Iterable[DimLike]) -> Value:
        """The same elements in another shape; the caller proves or guards the element count."""
        wanted = dims(shape)
        if wanted == x.type.dims:
            return x
        return self.op("reshape", (x,), replace(x.type, shape=wanted))

    def permute(self, x: Value, perm: Sequence[int]) -> Value:
        """Axis i of the result is axis perm[i] of x."""
        if tuple(perm) == tuple(range(len(perm))):
            return x
        shape = tuple(x.type.dims[p] for p in perm)
        return self.op("permute", (x,), replace(x.type, shape=shape), perm=tuple(perm))

    def expand(self, x: Value, shape: Iterable[DimLike]) -> Value:
        wanted = dims(shape)
        if wanted == x.type.dims:
            return x
        return self.op("expand", (x,), replace(x.type, shape=wanted))

    def contract(self, x: Value, y: Value, spec: str) -> Value:
        """Einstein sum `"mk,kn->mn"` of two operands; a letter has one extent everywhere."""
        left, right = spec.split("->")[0].split(",")
        extents: dict[str, Dim] = {}
        for letters, value in ((left, x), (right, y)):
            for letter, d in zip(letters, value.type.dims, strict=True):
                if letter in extents:
                    self.ensure_same(extents[letter], d, "guard.contract")
                else:
                    extents[letter] = d
        shape = tuple(extents[letter] for letter in spec.split("->")[1])
        return self.op("contract", (x, y), replace(x.type, shape=shape), spec=spec)

    def window(
        self,
        x: Value,
        value: Value,
        axes: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        before: Sequence[DimLike],
        after: Sequence[DimLike],
    ) -> Value:
        """Windows along `axes` (ascending) of x: the axis says which window, and an axis for each,
        at the end, the place in it. Outside of x they read `value`, of rank 0."""
        shape = window_shape(
            x.type.dims, axes, dims(sizes), dims(strides), dims(dilations), dims(before),
            dims(after),
        )  # fmt: skip
        return self.op(
            "window", (x, value), replace(x.type, shape=shape),
            axes=tuple(axes), sizes=tuple(sizes), strides=tuple(strides),
            dilations=tuple(dilations), before=_plain(before), after=_plain(after),
        )  # fmt: skip

    def extent(self, x: Value, axes: Iterable[int]) -> Dim:
        """The number of elements along `axes`."""
        total = ONE
        for a in axes:
            total = total * x.type.dims[a]
        return total


def _plain(values: Iterable[DimLike]) -> tuple[int | Dim, ...]:
    """Constants as integers, other dimensions as they are."""
    return tuple(d if (n := d.constant) is None else n for d in dims(values))

"""Builder: makes typed tensor ops with fresh names and the origins of the node at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from .dims import ONE, Dim, DimLike, Guard, at_most, dim, dims
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

    # ---- movement

    def concat(self, xs: Sequence[Value], axis: int) -> Value:
        """One behind the other along `axis`; the other dimensions are made equal by guards."""
        if len(xs) == 1:
            return xs[0]
        first = xs[0].type
        total = xs[0].type.dims[axis]
        for x in xs[1:]:
            for k, (a, b) in enumerate(zip(first.dims, x.type.dims, strict=True)):
                if k != axis:
                    self.ensure_same(a, b, "guard.concat")
            total = total + x.type.dims[axis]
        shape = (*first.dims[:axis], total, *first.dims[axis + 1 :])
        return self.op("concat", xs, replace(first, shape=shape), axis=axis)

    def pad(
        self, x: Value, value: Value, before: Sequence[DimLike], after: Sequence[DimLike]
    ) -> Value:
        """`value` (rank 0) around x: so many elements before and after it along each axis."""
        low, high = dims(before), dims(after)
        shape = tuple(d + b + a for d, b, a in zip(x.type.dims, low, high, strict=True))
        if shape == x.type.dims and not any(d.terms for d in (*low, *high)):
            return x
        return self.op("pad", (x, value), replace(x.type, shape=shape), before=low, after=high)

    def reverse(self, x: Value, axes: Iterable[int]) -> Value:
        at = tuple(sorted(set(axes)))
        return self.op("reverse", (x,), x.type, axes=at) if at else x

    def gather(self, x: Value, indices: Value, axis: int) -> Value:
        """x[…, indices, …] along `axis`: negative indices count from the end; clamped."""
        shape = (*x.type.dims[:axis], *indices.type.dims, *x.type.dims[axis + 1 :])
        return self.op("gather", (x, indices), replace(x.type, shape=shape), axis=axis)

    def gather_elements(self, x: Value, indices: Value, axis: int) -> Value:
        """out[i, j] = x[indices[i, j], j] for axis 0: the other dimensions must be equal."""
        self._beside(x, indices, axis)
        type = replace(x.type, shape=indices.type.dims)
        return self.op("gather_elements", (x, indices), type, axis=axis)

    def scatter_elements(self, x: Value, indices: Value, updates: Value, axis: int) -> Value:
        """x with out[indices[i, j], j] = updates[i, j] for axis 0; the last update stays."""
        self._beside(x, indices, axis)
        for a, b in zip(indices.type.dims, updates.type.dims, strict=True):
            self.ensure_same(a, b, "guard.gather")
        return self.op("scatter_elements", (x, indices, updates), x.type, axis=axis)

    def _beside(self, x: Value, indices: Value, axis: int) -> None:
        """Along every axis but one there are no more indices than elements: proved, or guarded."""
        for k, (d, i) in enumerate(zip(x.type.dims, indices.type.dims, strict=True)):
            if k != axis and not at_most(i, d):
                guard = Guard(i, "<=", d, self.node, "guard.gather")
                self.guards += [guard] if guard not in self.guards else []

    def argreduce(self, function: str, x: Value, axis: int, last: bool = False) -> Value:
        """Where the largest (`max`) or smallest (`min`) element along `axis` stands, as i64; the
        axis stays with extent 1. Of several the first, or the last; NaN counts most."""
        shape = tuple(ONE if k == axis else d for k, d in enumerate(x.type.dims))
        type = TensorType(DType.i64, shape)
        return self.op(f"argreduce.{function}", (x,), type, axis=axis, last=int(last))

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

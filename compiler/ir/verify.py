"""What a well-formed module is: one row a kind of op, and one walk over the rest.

    verify(m)   raises VerifyError, or m is in single static assignment form, every type follows
                from its operands, and kernels, plan and sources fit the graph and each other

Two dimensions count as equal when their canonical forms are equal, or when the module's guards
say so: `s == t` makes s and t one, and `a == b` makes every multiple of a - b zero, and every sum
of such multiples.

Teaches: a pass may assume what the verifier checked before it, and must leave it true.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from .dims import ONE, ZERO, Dim, Guard, at_most, dim, product
from .graph import NO_ORIGINS, Graph, Op, Origins, Param, Value, format_origin, reads
from .loops import (
    ARG_MODES,
    AXIS_KINDS,
    BINARY,
    COMBINE,
    COMPARE,
    GRID,
    LANES,
    SPACES,
    UNARY,
    WARP,
    Acc,
    Aligned,
    Alloc,
    Arg,
    Barrier,
    Binary,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Shuffle,
    Stmt,
    Store,
    Unary,
    Update,
    compute_dtype,
    infer_dtype,
    walk_expr,
)
from .module import Module, Source
from .plan import BUFFER_KINDS, BindStep, CallStep, CopyStep, KernelStep, Operand, Plan
from .shapes import window_shape
from .types import Attr, DType, KernelRef, ParamRef, Scalar, TensorType

__all__ = ["ROWS", "Equalities", "VerifyError", "infer_dtype", "verify"]


class VerifyError(Exception):
    """A broken module. `key` names the op (`%y`), kernel (`@k0`), step, buffer or source."""

    def __init__(self, message: str, key: str = "", origins: Origins = NO_ORIGINS) -> None:
        at = f" [{', '.join(map(format_origin, sorted(origins)))}]" if origins else ""
        super().__init__(f"{key}{at}: {message}" if key or at else message)
        self.message, self.key, self.origins = message, key, origins


class Broken(Exception):
    """What is wrong with the thing at hand; whoever walks there adds its name."""


# ---- equality of dimensions --------------------------------------------------------------------


class Equalities:
    """What the guards of a module say about equality of dimensions."""

    def __init__(self, guards: Iterable[Guard]) -> None:
        self._solved: dict[str, Dim] = {}
        self._zeros: list[Dim] = []
        guards = tuple(guards)
        self._rooms = [g.right - g.left for g in guards if g.relation == "<="]
        for guard in guards:
            if guard.relation != "==":
                continue
            left, right = self.normal(guard.left), self.normal(guard.right)
            for a, b in ((left, right), (right, left)):
                if a.symbol is not None and a.symbol not in b.symbols():
                    found = {a.symbol: b}
                    self._solved = {s: d.substitute(found) for s, d in self._solved.items()}
                    self._zeros = [z.substitute(found) for z in self._zeros]
                    self._solved[a.symbol] = b
                    break
            else:
                self._zeros.append(left - right)

    def normal(self, value: Dim) -> Dim:
        """The dimension with every symbol replaced that a guard expresses through others."""
        if self._solved and not value.symbols().isdisjoint(self._solved):
            return value.substitute(self._solved)
        return value

    def equal(self, a: Dim, b: Dim) -> bool:
        """Whether `a == b` is provable, or follows from the guards (sound, not complete)."""
        if a is b or a == b:
            return True
        rest = self.normal(a) - self.normal(b)
        return any(_vanishes(rest, [z]) for z in self._zeros) or _vanishes(rest, self._zeros)

    def at_most(self, a: Dim, b: Dim) -> bool:
        """Whether `a <= b` is provable, or follows from the guards (sound, not complete)."""
        room = self.normal(b) - self.normal(a)
        least = (ZERO, *map(self.normal, self._rooms))
        return self.equal(a, b) or any(at_most(known, room) for known in least)

    def shapes(self, a: Sequence[Dim], b: Sequence[Dim]) -> bool:
        """Whether two shapes are equal axis by axis."""
        return len(a) == len(b) and all(self.equal(x, y) for x, y in zip(a, b, strict=True))


def _vanishes(value: Dim, zeros: Sequence[Dim]) -> bool:
    """Whether `value` is a sum of multiples of `zeros`, found by division with remainder:

        v = q1*z1 + q2*z2 + ...

    The leading term of what is left is taken away with a multiple of the first z whose leading term
    divides it. Terms are sorted by a monomial order, so the next leading term is a smaller one.
    """
    while value.terms:
        lead = Dim(value.terms[:1])
        for zero in zeros:
            factor = lead.exact_div(Dim(zero.terms[:1]))
            if factor is not None:
                value = value - factor * zero
                break
        else:
            return False
    return True


# ---- the rows ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Context:
    """What a rule may look at besides the op and the types of its operands."""

    equalities: Equalities
    params: Mapping[str, Param]
    kernels: Mapping[str, Kernel]
    symbols: frozenset[str]


Types = tuple[TensorType, ...]
Rule = Callable[[Op, Types, Context], None]
"""Raises `Broken`. The types are those of the operands that are present."""


@dataclass(frozen=True)
class Row:
    """One kind or family: how many operands and results, which attributes, and its own rule.

    `open`: any further attributes; `library`: types may be unknown and inputs absent;
    `regions`: how many (None: any number).
    """

    operands: tuple[int, int]
    required: tuple[str, ...]
    optional: tuple[str, ...]
    rule: Rule
    open: bool = False
    library: bool = False
    results: tuple[int, int] = (1, 1)
    regions: int | None = 0


MANY = 1 << 30
_FLOAT_ONLY = frozenset({
    "ceil", "cos", "erf", "exp", "floor", "isnan", "log", "rint", "sigmoid", "sin", "sqrt", "tanh",
})  # fmt: skip
_LOGICAL = frozenset({"and", "or", "xor", "not"})
_ANY_ELEMENT = frozenset({"max", "min"})
REDUCE = frozenset({"sum", "prod", "max", "min"})
IN_GROUP = frozenset({
    "const", "dims", "map", "compare", "select", "cast", "iota", "reduce", "reshape", "permute",
    "expand", "slice", "copy", "contract", "window", "concat", "pad", "reverse", "gather",
    "gather_elements", "scatter_elements", "argreduce",
})  # fmt: skip
"""Families that may stand in a `fused` region."""


def _shape(shape: Iterable[Dim]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _same_element(types: Types) -> DType:
    element = types[0].element
    for t in types[1:]:
        if t.element is not element:
            raise Broken(f"operands of {element.value} and {t.element.value}")
    return element


def _want_element(op: Op, element: DType) -> None:
    if op.type.element is not element:
        raise Broken(f"the result is {op.type.element.value}, the rule gives {element.value}")


def _want_shape(op: Op, shape: Sequence[Dim], context: Context) -> None:
    if not context.equalities.shapes(op.type.dims, shape):
        raise Broken(f"the result is {_shape(op.type.dims)}, the rule gives {_shape(shape)}")


def _want_broadcast(op: Op, types: Types, context: Context) -> None:
    """The result's shape is the NumPy broadcast of the operands'."""
    out = op.type.dims
    if any(t.shape != out for t in types):
        rank = max(len(t.dims) for t in types)
        if rank != len(out):
            raise Broken(f"the result has rank {len(out)}, its operands' broadcast {rank}")
        for axis, wanted in enumerate(out):
            found = [t.dims[k] for t in types if (k := axis - rank + len(t.dims)) >= 0]
            solid = [d for d in found if d != ONE]
            for d in solid or [ONE]:
                if not context.equalities.equal(d, wanted):
                    raise Broken(f"axis {axis} is {wanted}, an operand's is {d} and no guard helps")


def _list(op: Op, name: str) -> tuple[Attr, ...]:
    value = op.get(name)
    if not isinstance(value, tuple):
        raise Broken(f"attribute {name!r} is no list")
    return value


def _integers(op: Op, name: str) -> tuple[int, ...]:
    values = _list(op, name)
    numbers = tuple(v for v in values if isinstance(v, int))
    if len(numbers) != len(values):
        raise Broken(f"attribute {name!r} holds something else than integers")
    return numbers


def _const(op: Op, types: Types, context: Context) -> None:
    value = op.get("value")
    if not isinstance(value, Scalar):
        raise Broken("attribute 'value' is no scalar")
    _want_element(op, value.dtype)
    if any(d != ONE for d in op.type.dims):
        raise Broken(f"a constant of shape {_shape(op.type.dims)} has more than one element")


def _param(op: Op, types: Types, context: Context) -> None:
    ref = op.get("param")
    if not isinstance(ref, ParamRef) or ref.name not in context.params:
        raise Broken(f"no param {ref.name if isinstance(ref, ParamRef) else ref!r} in the module")
    if context.params[ref.name].type != op.type:
        raise Broken(f"the type differs from that of param {ref.name!r}")


def _dims(op: Op, types: Types, context: Context) -> None:
    values = _list(op, "values")
    if not all(isinstance(v, Dim) for v in values):
        raise Broken("attribute 'values' holds something else than dimensions")
    _want_element(op, DType.i64)
    if op.type.rank or len(values) != 1:
        _want_shape(op, (dim(len(values)),), context)


def _map(op: Op, types: Types, context: Context) -> None:
    function = op.function
    if function not in (UNARY if len(types) == 1 else BINARY):
        raise Broken(f"no scalar function {function!r} of {len(types)} operands")
    element = _same_element(types)
    if (
        (function in _LOGICAL and element is not DType.bool)
        or (function in _FLOAT_ONLY and not element.is_float)
        or (element is DType.bool and function not in _LOGICAL | _ANY_ELEMENT)
    ):
        raise Broken(f"{function} is not defined on {element.value}")
    _want_element(op, DType.bool if function == "isnan" else element)
    _want_broadcast(op, types, context)


def _compare(op: Op, types: Types, context: Context) -> None:
    if op.function not in COMPARE:
        raise Broken(f"no comparison {op.function!r}")
    _same_element(types)
    _want_element(op, DType.bool)
    _want_broadcast(op, types, context)


def _select(op: Op, types: Types, context: Context) -> None:
    if types[0].element is not DType.bool:
        raise Broken(f"the condition is {types[0].element.value}, not bool")
    _want_element(op, _same_element(types[1:]))
    _want_broadcast(op, types, context)


def _cast(op: Op, types: Types, context: Context) -> None:
    to = op.get("to")
    if not isinstance(to, DType):
        raise Broken("attribute 'to' is no element type")
    _want_element(op, to)
    _want_shape(op, types[0].dims, context)


def _iota(op: Op, types: Types, context: Context) -> None:
    axis = op.get("axis")
    if not isinstance(axis, int) or not 0 <= axis < op.type.rank:
        raise Broken(f"axis {axis} of a result of rank {op.type.rank}")
    if not (op.type.element.is_integer or op.type.element.is_float):
        raise Broken(f"no numbers of {op.type.element.value} to count with")


def _sorted_axes(op: Op, rank: int) -> tuple[int, ...]:
    axes = _integers(op, "axes")
    if list(axes) != sorted({a for a in axes if 0 <= a < rank}):
        raise Broken(f"axes {list(axes)} are not sorted axes of rank {rank}")
    return axes


def _reduce(op: Op, types: Types, context: Context) -> None:
    if op.function not in REDUCE:
        raise Broken(f"no reduction {op.function!r}")
    element = types[0].element
    if element is DType.bool and op.function not in _ANY_ELEMENT:
        raise Broken(f"{op.function} is not defined on bool")
    _want_element(op, element)
    axes = _sorted_axes(op, types[0].rank)
    wanted = [ONE if k in axes else d for k, d in enumerate(types[0].dims)]
    _want_shape(op, wanted, context)


def _reshape(op: Op, types: Types, context: Context) -> None:
    _want_element(op, types[0].element)
    a, b = op.type.numel, types[0].numel
    if not context.equalities.equal(a, b):
        raise Broken(f"the result has {a} elements, its operand {b} and no guard helps")


def _permute(op: Op, types: Types, context: Context) -> None:
    _want_element(op, types[0].element)
    perm = _integers(op, "perm")
    if sorted(perm) != list(range(types[0].rank)):
        raise Broken(f"{list(perm)} is no permutation of {types[0].rank} axes")
    _want_shape(op, [types[0].dims[p] for p in perm], context)


def _expand(op: Op, types: Types, context: Context) -> None:
    _want_element(op, types[0].element)
    missing = op.type.rank - types[0].rank
    if missing < 0:
        raise Broken(f"rank {types[0].rank} is not expanded to rank {op.type.rank}")
    for axis, (d, wanted) in enumerate(zip(types[0].dims, op.type.dims[missing:], strict=True)):
        if d != ONE and not context.equalities.equal(d, wanted):
            raise Broken(f"axis {axis} of {d} is not expanded to {wanted}, and no guard helps")


def _slice(op: Op, types: Types, context: Context) -> None:
    _want_element(op, types[0].element)
    if op.type.rank != types[0].rank:
        raise Broken(f"the result has rank {op.type.rank}, its operand {types[0].rank}")
    for name in ("starts", "steps"):
        values = _list(op, name)
        if len(values) != types[0].rank or not all(isinstance(v, int | Dim) for v in values):
            raise Broken(f"attribute {name!r} has not one dimension an axis")
    for step in _list(op, "steps"):
        constant = step if isinstance(step, int) else step.constant if isinstance(step, Dim) else 0
        if constant is not None and constant < 1:
            raise Broken(f"a step of {constant}")


def _axis(op: Op, rank: int) -> int:
    axis = op.get("axis")
    if not isinstance(axis, int) or not 0 <= axis < rank:
        raise Broken(f"axis {axis} of an operand of rank {rank}")
    return axis


def _concat(op: Op, types: Types, context: Context) -> None:
    _want_element(op, _same_element(types))
    axis = _axis(op, types[0].rank)
    total = ZERO
    for t in types:
        if t.rank != types[0].rank:
            raise Broken(f"operands of rank {types[0].rank} and {t.rank}")
        total = total + t.dims[axis]
    for t in types:
        _want_shape(op, [*t.dims[:axis], total, *t.dims[axis + 1 :]], context)


def _pad(op: Op, types: Types, context: Context) -> None:
    _want_element(op, _same_element(types))
    if types[1].rank:
        raise Broken("the padding value is no scalar")
    shape = list(types[0].dims)
    for name in ("before", "after"):
        values = _list(op, name)
        if len(values) != types[0].rank:
            raise Broken(f"attribute {name!r} has not one dimension an axis")
        for k, width in enumerate(values):
            if not isinstance(width, Dim):
                raise Broken(f"attribute {name!r} holds something else than dimensions")
            if (width.constant or 0) < 0:
                raise Broken(f"a padding of {width}")
            shape[k] = shape[k] + width
    _want_shape(op, shape, context)


def _reverse(op: Op, types: Types, context: Context) -> None:
    _want_element(op, types[0].element)
    _sorted_axes(op, types[0].rank)
    _want_shape(op, types[0].dims, context)


def _want_indices(type: TensorType) -> None:
    if type.element not in (DType.i32, DType.i64):
        raise Broken(f"indices of {type.element.value}, not i32 or i64")


def _gather(op: Op, types: Types, context: Context) -> None:
    x, indices = types
    _want_element(op, x.element)
    _want_indices(indices)
    axis = _axis(op, x.rank)
    _want_shape(op, [*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :]], context)


def _want_beside(x: TensorType, indices: TensorType, axis: int, context: Context) -> None:
    """Indices along `axis` lie inside x along every other axis, proved."""
    _want_indices(indices)
    if x.rank != indices.rank:
        raise Broken(f"operands of rank {x.rank} and indices of rank {indices.rank}")
    for k, (d, i) in enumerate(zip(x.dims, indices.dims, strict=True)):
        if k == axis or context.equalities.at_most(i, d):
            continue
        raise Broken(f"axis {k} has {i} indices for {d} elements, and no guard helps")


def _gather_elements(op: Op, types: Types, context: Context) -> None:
    x, indices = types
    _want_element(op, x.element)
    _want_beside(x, indices, _axis(op, x.rank), context)
    _want_shape(op, indices.dims, context)


def _scatter_elements(op: Op, types: Types, context: Context) -> None:
    x, indices, updates = types
    _want_element(op, _same_element((x, updates)))
    _want_beside(x, indices, _axis(op, x.rank), context)
    if not context.equalities.shapes(indices.dims, updates.dims):
        raise Broken(f"indices {_shape(indices.dims)} and updates {_shape(updates.dims)}")
    _want_shape(op, x.dims, context)


def _argreduce(op: Op, types: Types, context: Context) -> None:
    if op.function not in ("max", "min"):
        raise Broken(f"no place of a {op.function!r}")
    if op.get("last") not in (0, 1):
        raise Broken("attribute 'last' is not 0 or 1")
    _want_element(op, DType.i64)
    axis = _axis(op, types[0].rank)
    _want_shape(op, [ONE if k == axis else d for k, d in enumerate(types[0].dims)], context)


def _contract(op: Op, types: Types, context: Context) -> None:
    spec = op.get("spec")
    if not isinstance(spec, str) or spec.count("->") != 1 or spec.count(",") != 1:
        raise Broken(f"{spec!r} is no contraction of two operands such as 'mk,kn->mn'")
    _want_element(op, _same_element(types))
    if types[0].element is DType.bool:
        raise Broken("no contraction of bool")
    sources, result = spec.split("->")
    extents: dict[str, Dim] = {}
    for letters, type in zip(sources.split(","), types, strict=True):
        if len(letters) != type.rank or len(set(letters)) != len(letters):
            raise Broken(f"{letters!r} does not name the axes of {_shape(type.dims)} once each")
        for letter, d in zip(letters, type.dims, strict=True):
            if not context.equalities.equal(extents.setdefault(letter, d), d):
                raise Broken(f"{letter!r} is {extents[letter]} and {d}, and no guard helps")
    if len(set(result)) != len(result) or not set(result) <= set(extents):
        raise Broken(f"{result!r} names other axes than the operands")
    _want_shape(op, [extents[letter] for letter in result], context)


def _window(op: Op, types: Types, context: Context) -> None:
    x, value = types
    _want_element(op, _same_element(types))
    if value.rank:
        raise Broken(f"the value outside is {_shape(value.dims)}, not one element of rank 0")
    axes = _integers(op, "axes")
    if list(axes) != sorted({a for a in axes if 0 <= a < x.rank}):
        raise Broken(f"axes {list(axes)} are not sorted axes of rank {x.rank}")
    lists = {name: _list(op, name) for name in ("sizes", "strides", "dilations", "before", "after")}
    for name, values in lists.items():
        if len(values) != len(axes):
            raise Broken(f"attribute {name!r} has not one number an axis")
        kinds = int if name in ("sizes", "strides", "dilations") else int | Dim
        if not all(isinstance(v, kinds) for v in values):
            raise Broken(f"attribute {name!r} holds something else than numbers")
    for name in ("sizes", "strides", "dilations"):
        if any(isinstance(v, int) and v < 1 for v in lists[name]):
            raise Broken(f"attribute {name!r} holds a number below 1")
    _want_shape(op, window_shape(x.dims, axes, *(_numbers(v) for v in lists.values())), context)


def _numbers(values: tuple[Attr, ...]) -> tuple[Dim, ...]:
    return tuple(dim(v) for v in values if isinstance(v, int | Dim))


def _copy(op: Op, types: Types, context: Context) -> None:
    _want_element(op, types[0].element)
    _want_shape(op, types[0].dims, context)


def _library(op: Op, types: Types, context: Context) -> None:
    if not isinstance(op.get("op"), str) or not isinstance(op.get("opset"), int):
        raise Broken("attributes 'op' (text) and 'opset' (a number) say what to call")


def _onnx(op: Op, types: Types, context: Context) -> None:
    for name, value in op.attrs:
        if name.endswith("_region") and not (
            isinstance(value, int) and 0 <= value < len(op.regions)
        ):
            raise Broken(f"attribute {name!r} names no region")


def _fused(op: Op, types: Types, context: Context) -> None:
    region = op.regions[0]
    if op.get("group") not in (None, "pointwise", "row", "contract"):
        raise Broken(f"no group {op.get('group')!r}: pointwise, row or contract")
    formals = tuple(v.name for v in region.inputs)
    if formals != op.inputs:
        raise Broken(f"formals ({', '.join(formals)}) differ from the operands")
    for formal, type in zip(region.inputs, types, strict=True):
        if formal.type != type:
            raise Broken(f"formal %{formal.name} has another type than the operand")
    if region.outputs != tuple(v.name for v in op.outputs):
        raise Broken(f"results ({', '.join(region.outputs)}) differ from the outputs")
    inner = {v.name: v.type for o in region.ops for v in o.outputs}
    for v in op.outputs:
        if inner.get(v.name) != v.type:
            raise Broken(f"%{v.name} has another type inside the region, or no op there gives it")
    for sub in region.ops:
        if sub.family not in IN_GROUP:
            raise Broken(f"%{sub.key} = {sub.kind} can't stand in a group")


def same_memory(a: Sequence[Dim], b: Sequence[Dim], equalities: Equalities) -> bool:
    """Whether two shapes are provably equal, or provably of equally many elements."""
    return equalities.shapes(a, b) or equalities.equal(product(a), product(b))


def _launch(op: Op, types: Types, context: Context) -> None:
    ref = op.get("kernel")
    if not isinstance(ref, KernelRef) or ref.name not in context.kernels:
        raise Broken(f"no kernel {ref.name if isinstance(ref, KernelRef) else ref!r} in the module")
    kernel = context.kernels[ref.name]
    extents: dict[str, Dim] = {}
    for name, value in op.attrs:
        if isinstance(value, Dim):
            extents[name] = value
        elif name != "kernel":
            raise Broken(f"extent {name!r} is no dimension")
    if set(extents) != set(kernel.extents):
        wanted = ", ".join(kernel.extents)
        raise Broken(f"@{kernel.name} has the extents ({wanted}), given ({', '.join(extents)})")
    read = [a for a in kernel.args if a.mode in ("in", "inout")]
    written = [a for a in kernel.args if a.mode in ("out", "inout")]
    results = tuple(v.type for v in op.outputs)
    for what, args, found in (("operands", read, types), ("results", written, results)):
        if len(args) != len(found):
            raise Broken(f"@{kernel.name} takes {len(args)} {what}, given {len(found)}")
        for arg, type in zip(args, found, strict=True):
            if arg.type.element is not type.element:
                raise Broken(
                    f"argument {arg.name!r} of @{kernel.name} is {arg.type.element.value}, "
                    f"given {type.element.value}"
                )
            shape = [d.substitute(extents) for d in arg.type.dims]
            if not same_memory(shape, type.dims, context.equalities):
                raise Broken(
                    f"argument {arg.name!r} of @{kernel.name} is {_shape(shape)}, "
                    f"given {_shape(type.dims)}"
                )


ROWS: Mapping[str, Row] = {
    "const": Row((0, 0), ("value",), (), _const),
    "param": Row((0, 0), ("param",), (), _param),
    "dims": Row((0, 0), ("values",), (), _dims),
    "map": Row((1, 2), (), (), _map),
    "compare": Row((2, 2), (), (), _compare),
    "select": Row((3, 3), (), (), _select),
    "cast": Row((1, 1), ("to",), (), _cast),
    "iota": Row((0, 0), ("axis",), (), _iota),
    "reduce": Row((1, 1), ("axes",), (), _reduce),
    "reshape": Row((1, 1), (), (), _reshape),
    "permute": Row((1, 1), ("perm",), (), _permute),
    "expand": Row((1, 1), (), (), _expand),
    "slice": Row((1, 1), ("starts", "steps"), (), _slice),
    "concat": Row((1, MANY), ("axis",), (), _concat),
    "pad": Row((2, 2), ("before", "after"), (), _pad),
    "reverse": Row((1, 1), ("axes",), (), _reverse),
    "gather": Row((2, 2), ("axis",), (), _gather),
    "gather_elements": Row((2, 2), ("axis",), (), _gather_elements),
    "scatter_elements": Row((3, 3), ("axis",), (), _scatter_elements),
    "argreduce": Row((1, 1), ("axis", "last"), (), _argreduce),
    "contract": Row((2, 2), ("spec",), ("library",), _contract),
    "window": Row(
        (2, 2), ("after", "axes", "before", "dilations", "sizes", "strides"), (), _window
    ),
    "copy": Row((1, 1), (), (), _copy),
    "call.matmul": Row((2, 2), ("spec",), (), _contract),
    "extern": Row(
        (0, MANY), ("op", "opset"), (), _library, open=True, library=True, results=(1, MANY),
        regions=None,
    ),
    "call.reference": Row(
        (0, MANY), ("op", "opset"), (), _library, open=True, library=True, results=(1, MANY),
        regions=None,
    ),
    "onnx": Row(
        (0, MANY), (), (), _onnx, open=True, library=True, results=(1, MANY), regions=None
    ),
    "fused": Row((0, MANY), (), ("group",), _fused, results=(1, MANY), regions=1),
    "launch": Row((0, MANY), ("kernel",), (), _launch, open=True, results=(1, MANY)),
}  # fmt: skip
"""Kind, or else family, -> its row."""


# ---- graph -------------------------------------------------------------------------------------

Scope = MutableMapping[str, TensorType]


def _closed(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_closed, cast("tuple[object, ...]", value)))
    return isinstance(value, int | str | DType | Dim | Scalar | ParamRef | KernelRef)


def _check_attrs(op: Op, row: Row) -> None:
    names = [name for name, _ in op.attrs]
    for before, after in pairwise(names):
        if before >= after:
            raise Broken(f"attributes {before!r}, {after!r} are not sorted, or there twice")
    for name, value in op.attrs:
        if not _closed(value):
            raise Broken(f"attribute {name!r} holds a {type(value).__name__}")
        if not row.open and name not in row.required and name not in row.optional:
            raise Broken(f"no attribute {name!r} belongs here")
    for name in row.required:
        if name not in names:
            raise Broken(f"attribute {name!r} is missing")


def _count(what: str, found: int, bounds: tuple[int, int]) -> None:
    low, high = bounds
    if not low <= found <= high:
        wanted = str(low) if low == high else f"{low} or more" if high == MANY else f"{low}…{high}"
        raise Broken(f"{found} {what}, expected {wanted}")


def _operand_types(op: Op, row: Row, scope: Scope) -> Types:
    found: list[TensorType] = []
    for name in op.inputs:
        if name is None:
            if not row.library:
                raise Broken("an operand is absent")
            continue
        type = scope.get(name)
        if type is None:
            raise Broken(f"operand %{name} is not defined before it")
        if not (row.library or type.known):
            raise Broken(f"the type of operand %{name} is unknown")
        found.append(type)
    return tuple(found)


def _check_op(op: Op, scope: Scope, context: Context) -> None:
    if not op.outputs:
        raise Broken(f"{op.kind} without results")
    row = ROWS.get(op.kind) or ROWS.get(op.family)
    if row is None or (op.function and op.kind not in ROWS and op.family not in _DOTTED):
        raise Broken(f"no kind of op is called {op.kind!r}")
    types = _operand_types(op, row, scope)
    _count("operands", len(op.inputs), row.operands)
    _count("results", len(op.outputs), row.results)
    if row.regions is not None:
        _count("regions", len(op.regions), (row.regions, row.regions))
    _check_attrs(op, row)
    if not row.library:
        for v in op.outputs:
            if not v.type.known:
                raise Broken(f"the type of %{v.name} is unknown")
    for region in op.regions:
        inner: Scope = {} if op.kind == "fused" else ChainMap({}, scope)
        _check_graph(region, inner, context)
    row.rule(op, types, context)


_DOTTED = frozenset({"map", "compare", "reduce", "argreduce", "onnx"})
"""Families whose kinds have a function behind the dot."""


def _define(values: Iterable[Value], scope: Scope, seen: set[str], context: Context) -> None:
    for v in values:
        if v.name in seen:
            raise Broken(f"%{v.name} is defined twice")
        unknown = v.type.symbols() - context.symbols
        if unknown:
            raise Broken(f"%{v.name} has undeclared dimensions: {', '.join(sorted(unknown))}")
        seen.add(v.name)
        scope[v.name] = v.type


def _check_graph(graph: Graph, scope: Scope, context: Context) -> None:
    seen: set[str] = set()
    _define(graph.inputs, scope, seen, context)
    for op in graph.ops:
        try:
            _check_op(op, scope, context)
            _define(op.outputs, scope, seen, context)
        except Broken as error:
            key = f"%{op.key} = {op.kind}" if op.outputs else op.kind
            raise VerifyError(str(error), key, op.origins) from None
        except ValueError as error:
            raise VerifyError(str(error), f"%{op.key} = {op.kind}", op.origins) from None
    for name in graph.outputs:
        if name not in scope:
            raise Broken(f"output %{name} is not defined")
    if graph.names and len(graph.names) != len(graph.outputs):
        raise Broken(f"{len(graph.outputs)} outputs have {len(graph.names)} outside names")
    _unique("output", graph.names)


def _unique(what: str, names: Iterable[str]) -> frozenset[str]:
    found: set[str] = set()
    for name in names:
        if name in found:
            raise Broken(f"two of the name {name!r} ({what})")
        found.add(name)
    return frozenset(found)


# ---- kernels -----------------------------------------------------------------------------------


class _KernelCheck:
    """One walk over the statements of a kernel in the order of the text."""

    def __init__(self, kernel: Kernel) -> None:
        _unique("extent", kernel.extents)
        _unique("argument", (a.name for a in kernel.args))
        extents = frozenset(kernel.extents)
        stage = 0
        for arg in kernel.args:
            if arg.mode not in ARG_MODES:
                raise Broken(f"argument {arg.name!r} has no mode {arg.mode!r}")
            if not arg.type.known:
                raise Broken(f"the type of argument {arg.name!r} is unknown")
            if not arg.type.symbols() <= extents:
                raise Broken(f"the shape of argument {arg.name!r} has symbols that are no extents")
            place = {"in": 0, "scratch": 2}.get(arg.mode, 1)
            if place < stage:
                raise Broken(f"argument {arg.name!r}: inputs, then outputs, then scratch")
            stage = place
        self.args = {a.name: a for a in kernel.args}
        self.buffers = {a.name: a.type.dtype for a in kernel.args}
        self.stored: set[str] = {a.name for a in kernel.args if a.mode in ("in", "inout")}
        self.accumulators: set[str] = set()
        self.symbols: set[str] = set()
        self.grid: list[For] = []
        self.local: set[str] = set()
        self.body(kernel.body, extents, {}, outside=True)

    def body(
        self, stmts: Sequence[Stmt], axes: frozenset[str], names: dict[str, DType], outside: bool
    ) -> None:
        """`axes` in scope (with the extents and the lets of type i64: what indices may use),
        `names` of lets and accumulators in scope; `outside`: only `par` loops, or those of a grid,
        stand around."""
        names = dict(names)
        alone = outside and len(stmts) == 1
        for stmt in stmts:
            match stmt:
                case For():
                    self.loop(stmt, axes, names, alone)
                case Let(name, dtype, value):
                    self.typed(f"let {name!r}", value, dtype, axes, names)
                    self.fresh(name, names, axes)
                    names[name] = dtype
                    if dtype is DType.i64:
                        axes = axes | {name}
                        self.symbols.add(name)
                case Acc(name, dtype, init):
                    if init.dtype is not dtype:
                        raise Broken(f"acc {name!r} of {dtype.value} starts as {init.dtype.value}")
                    self.fresh(name, names, axes)
                    names[name] = dtype
                    self.accumulators.add(name)
                case Update(name, function, value):
                    if name not in names or name not in self.accumulators:
                        raise Broken(f"{name!r} is updated and no accumulator in scope")
                    if function not in COMBINE:
                        raise Broken(f"{name!r} is updated with {function!r}")
                    self.typed(f"the update of {name!r}", value, names[name], axes, names)
                case Store(buffer, indices, value):
                    arg = self.args.get(buffer)
                    if arg is None or arg.mode == "in":
                        raise Broken(f"store to {buffer!r}, which is no output and no scratch")
                    self.place(buffer, indices, axes)
                    wanted = compute_dtype(arg.type.element)
                    self.typed(f"the store to {buffer!r}", value, wanted, axes, names)
                    self.stored.add(buffer)
                case If():
                    self.typed("the condition", stmt.condition, DType.bool, axes, names)
                    self.body(stmt.body, axes, names, outside=False)
                case Alloc():
                    self.alloc(stmt, axes, names)
                case Shuffle(name, function, xor):
                    if name not in names or name not in self.accumulators:
                        raise Broken(f"{name!r} is shuffled and no accumulator in scope")
                    if function not in COMBINE:
                        raise Broken(f"{name!r} is combined with {function!r}")
                    lanes = self.grid[-1] if self.grid else None
                    if lanes is None or lanes.kind != "lane" or lanes.extent != dim(WARP):
                        raise Broken(f"{name!r} is shuffled where there is no warp of {WARP} lanes")
                    if not 0 < xor < WARP:
                        raise Broken(f"no lane of a warp is {xor} away")
                case Barrier():
                    if not self.grid:
                        raise Broken("a barrier where there are no blocks of threads")

    def alloc(self, stmt: Alloc, axes: frozenset[str], names: Mapping[str, DType]) -> None:
        name = stmt.name
        if stmt.space not in SPACES:
            raise Broken(f"array {name!r} in the space {stmt.space!r}")
        if not self.grid:
            raise Broken(f"array {name!r} where there are no blocks of threads")
        if not stmt.type.known or any(d.constant is None for d in stmt.type.dims):
            raise Broken(f"the shape of array {name!r} is not literal")
        if name in self.args or name in names or name in axes:
            raise Broken(f"{name!r} is defined twice")
        self.args[name] = Arg(name, "scratch", stmt.type)
        self.buffers[name] = stmt.type.dtype
        if stmt.space == "local":
            self.local.add(name)

    def copy(self, stmt: For) -> None:
        """A `wide` loop is one access of four neighbours, memory on one side of it."""
        match stmt.body:
            case (Store(target, _, Load(source, _, None, _)),):
                pass
            case _:
                raise Broken(f"wide {stmt.axis!r} does something else than copy")
        if stmt.extent != dim(LANES) or (target in self.local) == (source in self.local):
            raise Broken(f"wide {stmt.axis!r} is no copy of {LANES} between memory and registers")

    def loop(self, stmt: For, axes: frozenset[str], names: dict[str, DType], alone: bool) -> None:
        if stmt.kind not in AXIS_KINDS:
            raise Broken(f"no kind of axis is called {stmt.kind!r}")
        outer = stmt.kind == "par" or stmt.kind in GRID
        if outer and not alone:
            raise Broken(f"{stmt.kind} {stmt.axis!r} is not outermost and perfectly nested")
        if stmt.kind in GRID:
            once = stmt.kind in ("warp", "lane")
            before = [GRID.index(g.kind) for g in self.grid]
            if any(k > GRID.index(stmt.kind) - once for k in before):
                raise Broken(f"{stmt.kind} {stmt.axis!r} is out of the order {', '.join(GRID)}")
            if once and stmt.extent.constant is None:
                raise Broken(f"the extent of {stmt.kind} {stmt.axis!r} is not literal")
            self.grid.append(stmt)
        if stmt.kind == "unroll" and stmt.extent.constant is None:
            raise Broken(f"the extent of unroll {stmt.axis!r} is not literal")
        if stmt.kind == "wide":
            self.copy(stmt)
        if stmt.axis in axes or stmt.axis in names:
            raise Broken(f"axis {stmt.axis!r} is defined twice")
        self.known(stmt.extent, axes, f"the extent of {stmt.axis!r}")
        data = stmt.extent.symbols() & self.symbols
        if data:
            raise Broken(f"the extent of {stmt.axis!r} depends on data: {', '.join(sorted(data))}")
        self.body(stmt.body, axes | {stmt.axis}, names, alone and outer)

    def fresh(self, name: str, names: Mapping[str, DType], axes: frozenset[str]) -> None:
        if name in names or name in axes:
            raise Broken(f"{name!r} is defined twice")
        self.accumulators.discard(name)

    def known(self, value: Dim, axes: frozenset[str], what: str) -> None:
        unknown = value.symbols() - axes
        if unknown:
            raise Broken(f"{what} uses {', '.join(sorted(unknown))}, no axis or extent in scope")

    def place(self, buffer: str, indices: Sequence[Dim], axes: frozenset[str]) -> None:
        arg = self.args.get(buffer)
        if arg is None:
            raise Broken(f"no argument {buffer!r}")
        if arg.type.rank != len(indices):
            raise Broken(f"{buffer!r} has rank {arg.type.rank} and {len(indices)} indices")
        for index in indices:
            self.known(index, axes, f"an index of {buffer!r}")

    def typed(
        self,
        what: str,
        value: Expr,
        dtype: DType,
        axes: frozenset[str],
        names: Mapping[str, DType],
    ) -> None:
        """Everything an expression names is in scope, and its dtype is `dtype`."""
        for e in walk_expr(value):
            match e:
                case Load(buffer, indices):
                    self.place(buffer, indices, axes)
                    if buffer not in self.stored:
                        raise Broken(f"{buffer!r} is loaded before a store to it")
                case Index(index):
                    self.known(index, axes, "an index")
                case Aligned(buffers):
                    for buffer in buffers:
                        if buffer not in self.args:
                            raise Broken(f"no argument {buffer!r}")
                case Unary(function, _) if function not in UNARY:
                    raise Broken(f"no scalar function {function!r} of one operand")
                case Binary(function, _, _) if function not in BINARY | COMPARE:
                    raise Broken(f"no scalar function {function!r} of two operands")
                case _:
                    pass
        try:
            found = infer_dtype(value, self.buffers, names)
        except ValueError as error:
            raise Broken(f"{what}: {error}") from None
        if found is not dtype:
            raise Broken(f"{what} is {dtype.value}, its expression {found.value}")


# ---- plan and sources --------------------------------------------------------------------------


def _check_plan(plan: Plan, context: Context) -> None:
    _unique("buffer", (b.name for b in plan.buffers))
    buffers = {b.name: b for b in plan.buffers}
    for b in plan.buffers:
        key = f"buffer {b.name!r}"
        if b.kind not in BUFFER_KINDS:
            raise VerifyError(f"no kind of buffer is called {b.kind!r}", key)
        if b.kind == "param" and b.source not in context.params:
            raise VerifyError(f"no param {b.source!r} in the module", key)

    def use(operand: Operand, k: int, written: bool) -> None:
        buffer = buffers.get(operand.buffer)
        if buffer is None:
            raise Broken(f"no buffer {operand.buffer!r}")
        if operand.value not in buffer.members:
            raise Broken(f"%{operand.value} is no member of buffer {buffer.name!r}")
        if not buffer.start <= k <= buffer.stop:
            raise Broken(
                f"buffer {buffer.name!r} lives from {buffer.start} to {buffer.stop}, not here"
            )
        if written and buffer.kind in ("input", "param"):
            raise Broken(f"writes buffer {buffer.name!r}, which is the caller's or a weight")

    for k, step in enumerate(plan.steps):
        try:
            match step:
                case KernelStep():
                    _check_kernel_step(step, context)
                    first = len(step.operands) - step.outputs
                    for n, operand in enumerate(step.operands):
                        use(operand, k, written=n >= first)
                case CallStep():
                    for operand in step.inputs:
                        if operand is not None:
                            use(operand, k, written=False)
                    for operand in step.outputs:
                        use(operand, k, written=True)
                case CopyStep():
                    use(step.source, k, written=False)
                    use(step.target, k, written=True)
                case BindStep():
                    if not any(step.value in b.members for b in plan.buffers):
                        raise Broken(f"%{step.value} is in no buffer")
        except Broken as error:
            raise VerifyError(str(error), f"step {k}", step.origins) from None


def _check_kernel_step(step: KernelStep, context: Context) -> None:
    kernel = context.kernels.get(step.kernel)
    if kernel is None:
        raise Broken(f"no kernel @{step.kernel} in the module")
    held = [a for a in kernel.args if a.mode != "scratch"]
    for what, found, wanted in (
        ("extents", len(step.extents), len(kernel.extents)),
        ("operands", len(step.operands), len(held)),
        ("scratch sizes", len(step.scratch), len(kernel.args) - len(held)),
        ("written operands", step.outputs, sum(a.mode != "in" for a in held)),
    ):
        _count(what, found, (wanted, wanted))
    for arg, operand in zip(held, step.operands, strict=True):
        if operand.type.dtype is not arg.type.dtype:
            raise Broken(f"argument {arg.name!r} of @{kernel.name} has another element type")


def _check_source(source: Source, context: Context) -> None:
    if source.kernel not in context.kernels:
        raise Broken(f"no kernel @{source.kernel} in the module")
    last = source.text.count("\n") + 1
    for mark in source.lines:
        if not 1 <= mark.line <= last:
            raise Broken(f"line {mark.line} of a text of {last} lines")


# ---- module ------------------------------------------------------------------------------------


def _check_header(module: Module) -> None:
    _unique("symbol", (s.name for s in module.dims))
    _unique("param", (p.name for p in module.params))
    _unique("kernel", (k.name for k in module.kernels))
    _unique("source", (s.kernel for s in module.sources))
    for s in module.dims:
        if s.low > s.high or s.divisor < 1:
            raise Broken(f"symbol {s.name!r} admits no value")
    plan_guards = module.plan.guards if module.plan is not None else ()
    for guard in (*module.guards, *plan_guards):
        if guard.relation not in ("==", "<=", "!="):
            raise Broken(f"a guard with the relation {guard.relation!r}")
    for param in module.params:
        if not param.type.known:
            raise Broken(f"the type of param {param.name!r} is unknown")


def _check_written_over(module: Module) -> None:
    """What a launch writes over is memory of the run, and nobody reads it afterwards."""
    root: dict[str, str] = {}
    alive: dict[str, set[str]] = {}
    gone: dict[str, str] = {}

    def check(name: str, reader: str) -> None:
        if name in gone:
            raise Broken(f"{reader} reads %{name}, which %{gone[name]} was written over")

    for op in module.graph.ops:
        for name in reads(op):
            check(name, f"%{op.key}")
        if op.kind == "reshape" and op.operands[0] in root:
            root[op.key] = root[op.operands[0]]
            alive[root[op.key]].add(op.key)
        if op.kind != "launch" and op.family != "call":
            continue
        over = module.written_over(op) if op.kind == "launch" else {}
        for v in op.outputs:
            operand = over.get(v.name)
            if operand is None:
                root[v.name], alive[v.name] = v.name, {v.name}
                continue
            if operand not in root:
                raise Broken(f"%{v.name} is written over %{operand}, which is no memory of the run")
            root[v.name] = root[operand]
            gone.update((name, v.name) for name in alive[root[operand]])
            alive[root[operand]] = {v.name}
    for name in module.graph.outputs:
        check(name, "the caller")


def verify(module: Module) -> None:
    """Check a whole module; linear in its size. VerifyError names what is broken and where."""
    try:
        _check_header(module)
        context = Context(
            Equalities(module.guards),
            {p.name: p for p in module.params},
            {k.name: k for k in module.kernels},
            frozenset(s.name for s in module.dims),
        )
        for kernel in module.kernels:
            try:
                _KernelCheck(kernel)
            except Broken as error:
                raise VerifyError(str(error), f"@{kernel.name}", kernel.origins) from None
        _check_graph(module.graph, {}, context)
        if module.writes_over:
            _check_written_over(module)
        if module.plan is not None:
            _check_plan(module.plan, context)
        for source in module.sources:
            try:
                _check_source(source, context)
            except Broken as error:
                raise VerifyError(str(error), f"source @{source.kernel}") from None
    except Broken as error:
        raise VerifyError(str(error), f"module @{module.name}") from None

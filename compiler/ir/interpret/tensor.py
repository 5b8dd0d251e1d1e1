"""The graph in NumPy: one meaning per kind of op, looked up op by op.

    for op in graph:  env[outputs] = meaning[op.kind](env[inputs])

Because dispatch is per op, a module anywhere on its way down runs: `onnx.*` and library steps go
to an `ExternRunner`, `fused` runs its region, `launch` runs its kernel in the loop interpreter.
Every result is checked against its declared type, so a wrong type rule is seen here.

Teaches: the levels of a compiler are different spellings of one function.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..binding import GuardError, bind_symbols, check_guards, evaluate_shape, solve_shape
from ..dims import Dim
from ..graph import Graph, Op, Value, format_origin, reads
from ..loops import BINARY, COMPARE, UNARY
from ..module import EMPTY, Module
from ..params import ParamStore
from ..types import Array, Attr, DType, KernelRef, ParamRef, Scalar, TensorType
from .loops import run_kernel
from .scalars import Number, Precision, binary, cast, select, storage, unary

Numbers = npt.NDArray[np.float64]


class InterpretError(Exception):
    """An op that cannot be run, or whose result is not of its declared type; names the op."""


class ExternRunner(typing.Protocol):
    """Runs what the tensor level does not know: `onnx.*`, `extern`, `call.reference`."""

    def run(
        self, op: Op, inputs: Sequence[Array | None], types: Sequence[TensorType | None]
    ) -> Sequence[Array]:
        """The outputs of `op`, in order.

        `inputs` are its operands, None where absent, then the values that its regions capture, in
        the order of `captured(op)`; `types` are the declared types of the same values.
        """
        ...


def captured(op: Op) -> tuple[str, ...]:
    """Names that the regions of an op read from around it, once each, in order."""
    return tuple(dict.fromkeys(reads(op)[len(op.operands) :]))


def run_graph(
    module: Module,
    inputs: Mapping[str, Array],
    params: ParamStore,
    *,
    externs: ExternRunner | None = None,
    observe: Callable[[str, Array], None] | None = None,
    precision: Precision = "declared",
) -> dict[str, Array]:
    """Run the graph on `inputs`; results by the outputs' outside names.

    `observe(name, array)` sees every value as it is made, those of regions too. With precision
    `float64` every float type (inputs, weights, constants, casts, kernels) is float64. Errors:
    those of `bind_symbols`, and InterpretError, which names op and origins.
    """
    graph = module.graph
    typed = [(v.name, v.type) for v in graph.inputs]
    sizes = bind_symbols(typed, inputs, symbols=module.dims, guards=module.guards)
    interpreter = Interpreter(module, params, sizes, externs, observe, precision)
    env = {v.name: interpreter.widened(inputs[v.name]) for v in graph.inputs}
    interpreter.run(graph, env)
    names = graph.names or graph.outputs
    return {name: env[value] for name, value in zip(names, graph.outputs, strict=True)}


def run_op(
    op: Op,
    inputs: Sequence[Array | None],
    sizes: Mapping[str, int] | None = None,
    *,
    externs: ExternRunner | None = None,
) -> tuple[Array, ...]:
    """Run one op alone, for example to fold a constant. `inputs` as in `op.inputs`.

    Ops that need a module (`param`, `launch`) raise InterpretError.
    """
    interpreter = Interpreter(EMPTY, ParamStore(), dict(sizes or {}), externs)
    env = {n: x for n, x in zip(op.inputs, inputs, strict=True) if n is not None and x is not None}
    interpreter.run(Graph(ops=(op,)), env)
    return tuple(env[v.name] for v in op.outputs)


@dataclass
class Interpreter:
    """Runs graphs of one module for one binding; symbols that data determine join `sizes`."""

    module: Module
    params: ParamStore
    sizes: dict[str, int]
    externs: ExternRunner | None = None
    observe: Callable[[str, Array], None] | None = None
    precision: Precision = "declared"
    types: dict[str, TensorType] = field(default_factory=dict[str, TensorType])

    def dtype(self, type: TensorType) -> np.dtype[np.generic]:
        return storage(type.element, self.precision)

    def widened(self, x: Array) -> Array:
        """x in native byte order, floats as float64 where that is the precision."""
        if self.precision == "float64" and x.dtype.kind == "f":
            return x.astype(np.float64, copy=False)
        return x.astype(x.dtype.newbyteorder("="), copy=False)

    def shape(self, op: Op) -> tuple[int, ...]:
        return evaluate_shape(op.type, self.sizes)

    def run(self, graph: Graph, env: dict[str, Array]) -> None:
        """Add to `env` the results of every op of the graph."""
        self.types.update((v.name, v.type) for v in graph.inputs)
        for op in graph.ops:
            try:
                results = self.evaluate(op, env)
                if len(results) != len(op.outputs):
                    raise ValueError(f"{len(results)} results, expected {len(op.outputs)}")
                for value, result in zip(op.outputs, results, strict=True):
                    env[value.name] = self.check(value, result)
            except GuardError:
                raise
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                origins = ", ".join(map(format_origin, sorted(op.origins)))
                where = f"%{op.key} = {op.kind}" + (f" @[{origins}]" if origins else "")
                raise InterpretError(f"{where}: {error}") from error
            if self.observe is not None:
                for value in op.outputs:
                    self.observe(value.name, env[value.name])

    def check(self, value: Value, result: Array) -> Array:
        """The result, after its dtype and shape proved to be the declared ones."""
        type = value.type
        self.types[value.name] = type
        result = self.widened(result)
        checked = type.dtype not in (None, DType.string, DType.bf16)
        if checked and result.dtype != self.dtype(type):
            raise ValueError(
                f"%{value.name} holds {result.dtype}, declared {type.element.value}"
            )
        known = dict(self.sizes)
        solve_shape(f"%{value.name}", type, result.shape, self.sizes)
        if len(self.sizes) > len(known):
            check_guards(self.module.guards, self.sizes, known=known)
        return result

    # ---- one op

    def evaluate(self, op: Op, env: dict[str, Array]) -> Sequence[Array]:
        if op.kind in ("extern", "call.reference") or op.family == "onnx":
            return self.extern(op, env)
        inputs = [env[name] for name in op.operands]
        match op.kind:
            case "param":
                return (self.param(op),)
            case "fused":
                (region,) = op.regions
                inner = dict(env)
                self.run(region, inner)
                return [inner[name] for name in region.outputs]
            case "launch":
                return self.launch(op, inputs)
            case _:
                return (np.asarray(self.primitive(op, inputs)),)

    def primitive(self, op: Op, inputs: list[Array]) -> Number:
        """The tensor ops proper."""
        if op.family in ("map", "compare"):
            return _apply(op, inputs)
        if op.family == "reduce":
            return reduce(op.function, inputs[0], _ints(op, "axes"))
        if op.family == "argreduce":
            return argreduce(op.function, inputs[0], op.int("axis"), bool(op.int("last")))
        match op.kind:
            case "const":
                value = _attribute(op, "value")
                if not isinstance(value, Scalar):
                    raise ValueError("value is no scalar")
                return np.full(self.shape(op), value.array(), self.dtype(op.type))
            case "dims":
                values = [self.number(d) for d in _tuple(op, "values")]
                return np.array(values, np.int64).reshape(self.shape(op))
            case "select":
                return select(*inputs)
            case "cast":
                to = _attribute(op, "to")
                if not isinstance(to, DType):
                    raise ValueError("to is no element type")
                return cast(inputs[0], storage(to, self.precision))
            case "iota":
                return iota(self.shape(op), op.int("axis"), self.dtype(op.type))
            case "reshape":
                return inputs[0].reshape(self.shape(op))
            case "permute":
                return contiguous(inputs[0].transpose(_ints(op, "perm")))
            case "expand":
                return contiguous(np.broadcast_to(inputs[0], self.shape(op)))
            case "slice":
                starts = [self.number(d) for d in _tuple(op, "starts")]
                steps = [self.number(d) for d in _tuple(op, "steps")]
                return slice_from(inputs[0], starts, steps, self.shape(op))
            case "window":
                before = [self.number(d) for d in _tuple(op, "before")]
                return window(
                    inputs[0], inputs[1], _ints(op, "axes"), _ints(op, "sizes"),
                    _ints(op, "strides"), _ints(op, "dilations"), before, self.shape(op),
                )  # fmt: skip
            case "concat":
                return contiguous(np.concatenate(inputs, axis=op.int("axis")))
            case "pad":
                before = [self.number(d) for d in _tuple(op, "before")]
                return pad(inputs[0], inputs[1], before, self.shape(op))
            case "reverse":
                return contiguous(np.flip(inputs[0], _ints(op, "axes")))
            case "gather":
                return gather(inputs[0], inputs[1], op.int("axis"))
            case "gather_elements":
                return gather_elements(inputs[0], inputs[1], op.int("axis"))
            case "scatter_elements":
                return scatter_elements(inputs[0], inputs[1], inputs[2], op.int("axis"))
            case "contract" | "call.matmul":
                return contract(op.str("spec"), *inputs)
            case "copy":
                return inputs[0].copy()
            case _:
                raise ValueError("the tensor level has no such op")

    def number(self, value: Attr) -> int:
        """A dimension as it stands in an attribute, for this binding."""
        if isinstance(value, Dim):
            return value.evaluate(self.sizes)
        if isinstance(value, int):
            return value
        raise ValueError(f"{value} is no dimension")

    def param(self, op: Op) -> Array:
        reference = _attribute(op, "param")
        if not isinstance(reference, ParamRef):
            raise ValueError("param is no reference to a weight")
        return self.widened(self.params.get(self.module.param(reference.name).digest))

    def extern(self, op: Op, env: Mapping[str, Array]) -> Sequence[Array]:
        if self.externs is None:
            raise ValueError("a library step, and no library was given to run it")
        names = (*op.inputs, *captured(op))
        arrays = [None if name is None else env[name] for name in names]
        types = [None if name is None else self.types.get(name) for name in names]
        return [np.asarray(x) for x in self.externs.run(op, arrays, types)]

    def launch(self, op: Op, inputs: list[Array]) -> list[Array]:
        """Arguments in order: inputs, then outputs; an `inout` takes an input and is a result."""
        reference = _attribute(op, "kernel")
        if not isinstance(reference, KernelRef):
            raise ValueError("kernel is no reference to a kernel")
        kernel = self.module.kernel(reference.name)
        extents = {name: self.number(_attribute(op, name)) for name in kernel.extents}
        given = iter(inputs)
        buffers: dict[str, Array] = {}
        written: list[Array] = []
        for arg in kernel.args:
            if arg.mode == "scratch":
                continue
            shape = evaluate_shape(arg.type, extents)
            if arg.mode == "out":
                buffers[arg.name] = np.empty(shape, self.dtype(arg.type))
            else:
                source = next(given)
                view = contiguous(source).reshape(shape)
                buffers[arg.name] = view.copy() if arg.mode == "inout" else view
            if arg.mode != "in":
                written.append(buffers[arg.name])
        run_kernel(kernel, extents, buffers, poison_outputs=True, precision=self.precision)
        return [
            array.reshape(evaluate_shape(v.type, self.sizes))
            for v, array in zip(op.outputs, written, strict=True)
        ]


# ---- the meanings -------------------------------------------------------------------------------


def _apply(op: Op, inputs: list[Array]) -> Number:
    function = op.function
    table = COMPARE if op.family == "compare" else UNARY if len(inputs) == 1 else BINARY
    if function not in table:
        raise ValueError("no such function")
    return unary(function, *inputs) if len(inputs) == 1 else binary(function, *inputs)


def reduce(function: str, x: Array, axes: tuple[int, ...]) -> Array:
    """Reduce over `axes`, which stay with extent 1; in the dtype of x.

    Empty: 0, 1, the lowest and the highest value (infinities for floats). NaN wins in max, min.
    """
    with np.errstate(all="ignore"):
        match function:
            case "sum":
                return np.add.reduce(x, axis=axes, keepdims=True, dtype=x.dtype)
            case "prod":
                return np.multiply.reduce(x, axis=axes, keepdims=True, dtype=x.dtype)
            case "max":
                return _largest(x, axes)
            case "min" if x.dtype.kind == "f":
                return np.negative(_largest(np.negative(x), axes))
            case "min":
                return np.minimum.reduce(x, axis=axes, keepdims=True, initial=highest(x.dtype))
            case _:
                raise ValueError("no such reduction")


def _largest(x: Array, axes: tuple[int, ...]) -> Array:
    """The maximum over `axes`; NaN wins, and -0 is below 0."""
    found = np.maximum.reduce(x, axis=axes, keepdims=True, initial=lowest(x.dtype))
    if x.dtype.kind != "f":
        return found
    positive = np.logical_or.reduce(
        np.equal(x, 0) & ~np.signbit(x), axis=axes, keepdims=True
    )
    return np.where(np.equal(found, 0) & positive, np.abs(found), found)


def lowest(dtype: np.dtype[np.generic]) -> float | int | bool:
    """What `reduce.max` over nothing gives."""
    if dtype.kind == "f":
        return -np.inf
    return False if dtype.kind == "b" else int(np.iinfo(dtype.name).min)


def highest(dtype: np.dtype[np.generic]) -> float | int | bool:
    """What `reduce.min` over nothing gives."""
    if dtype.kind == "f":
        return np.inf
    return True if dtype.kind == "b" else int(np.iinfo(dtype.name).max)


def iota(shape: tuple[int, ...], axis: int, dtype: np.dtype[np.generic]) -> Array:
    """The index along `axis`, everywhere."""
    along = [1] * len(shape)
    along[axis] = shape[axis]
    line = np.arange(shape[axis]).astype(dtype).reshape(along)
    return contiguous(np.broadcast_to(line, shape))


def slice_from(
    x: Array, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]
) -> Array:
    """`x[start + step*k]` per axis, k below the extent in `shape`. IndexError out of range."""
    at: list[slice] = []
    for axis, (start, step, n) in enumerate(zip(starts, steps, shape, strict=True)):
        last = start + step * (n - 1)
        if step < 1 or (n and not 0 <= start <= last < x.shape[axis]):
            raise IndexError(
                f"axis {axis}: {n} elements from {start} in steps of {step}, of {x.shape[axis]}"
            )
        at.append(slice(start, last + 1, step) if n else slice(0, 0))
    return contiguous(x[tuple(at)])


def window(
    x: Array,
    value: Array,
    axes: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    before: Sequence[int],
    shape: Sequence[int],
) -> Array:
    """`y[..., o, ..., k] = x[..., o*stride + k*dilation - before, ...]`, `value` outside of x."""
    result = x
    inside = np.ones((1,) * len(shape), np.bool_)
    for k, a in enumerate(axes):
        at = (
            np.arange(shape[a])[:, None] * strides[k]
            + np.arange(sizes[k]) * dilations[k]
            - before[k]
        )
        fits = (0 <= at) & (at < x.shape[a])
        place = [1] * len(shape)
        place[a], place[x.ndim + k] = fits.shape
        inside = inside & fits.reshape(place)
        if x.shape[a]:
            result = np.moveaxis(result.take(np.where(fits, at, 0), axis=a), a + 1, -1)
        else:
            place = [*result.shape[:a], at.shape[0], *result.shape[a + 1 :], at.shape[1]]
            result = np.zeros(place, x.dtype)
    return contiguous(np.where(inside, result, value).astype(x.dtype, copy=False))


def argreduce(function: str, x: Array, axis: int, last: bool) -> Array:
    """Where along `axis` the largest (smallest) element stands, the first or the last of several.

    NaN beats every number. Over nothing: the greatest int64, with `last` the least.
    """
    n = x.shape[axis]
    best = reduce(function, x, (axis,))
    here = np.equal(x, best)
    if x.dtype.kind == "f":
        here = here | np.isnan(x)
    place = iota(x.shape, axis, np.dtype(np.int64))
    outside = np.int64(-1 if last else n)
    return reduce("max" if last else "min", np.where(here, place, outside), (axis,))


def pad(x: Array, value: Array, before: Sequence[int], shape: tuple[int, ...]) -> Array:
    """`value` everywhere but in the box of x's shape that starts at `before`."""
    out = np.full(shape, value, x.dtype)
    out[tuple(slice(b, b + n) for b, n in zip(before, x.shape, strict=True))] = x
    return out


def places(indices: Array, extent: int) -> npt.NDArray[np.int64]:
    """Indices as places in [0, extent): negative ones count from the end, the rest is clamped."""
    at = indices.astype(np.int64)
    return np.maximum(np.minimum(np.where(at < 0, at + extent, at), extent - 1), 0)


def gather(x: Array, indices: Array, axis: int) -> Array:
    """`x[…, indices, …]` along `axis`. From an empty axis: zeros."""
    if not x.shape[axis]:
        return np.zeros((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
    return contiguous(np.take(x, places(indices, x.shape[axis]), axis))


def gather_elements(x: Array, indices: Array, axis: int) -> Array:
    """`out[i, j] = x[indices[i, j], j]` for axis 0. From an empty axis: zeros."""
    if not x.shape[axis]:
        return np.zeros(indices.shape, x.dtype)
    return contiguous(x[_grid(indices, x.shape[axis], axis)])


def scatter_elements(x: Array, indices: Array, updates: Array, axis: int) -> Array:
    """A copy of x with `out[indices[i, j], j] = updates[i, j]` for axis 0; of several updates of
    one element the last along `axis` stays. An empty x stays empty."""
    out = x.copy()
    if x.shape[axis]:
        for k in range(indices.shape[axis]):
            one = (*[slice(None)] * axis, slice(k, k + 1))
            out[_grid(indices[one], x.shape[axis], axis)] = updates[one]
    return out


def _grid(indices: Array, extent: int, axis: int) -> tuple[npt.NDArray[np.int64], ...]:
    """The own index along every axis but `axis`, there the given ones."""
    rank = len(indices.shape)
    at: list[npt.NDArray[np.int64]] = []
    for k, n in enumerate(indices.shape):
        own = np.arange(n, dtype=np.int64).reshape([n if j == k else 1 for j in range(rank)])
        at.append(places(indices, extent) if k == axis else own)
    return tuple(at)


def contract(spec: str, x: Array, y: Array) -> Array:
    """The Einstein sum in the dtype of the operands, which share it."""
    if x.dtype != y.dtype:
        raise TypeError(f"contract of {x.dtype} and {y.dtype}")
    a, b = typing.cast(Numbers, x), typing.cast(Numbers, y)  # einsum's stubs want one number type
    with np.errstate(all="ignore"):
        result = np.einsum(spec, a, b, optimize=x.dtype.kind == "f")
    return contiguous(np.asarray(result))


def contiguous(x: Array) -> Array:
    """x itself when C-contiguous, else a copy; keeps rank 0, which `ascontiguousarray` does not."""
    return np.asarray(x, order="C")


def _attribute(op: Op, name: str) -> Attr:
    value = op.get(name)
    if value is None:
        raise ValueError(f"no attribute {name}")
    return value


def _tuple(op: Op, name: str) -> tuple[Attr, ...]:
    value = _attribute(op, name)
    if not isinstance(value, tuple):
        raise ValueError(f"{name} is no list")
    return value


def _ints(op: Op, name: str) -> tuple[int, ...]:
    return tuple(v for v in _tuple(op, name) if isinstance(v, int))

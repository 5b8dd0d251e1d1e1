"""Random modules of movement: concat, pad, slice, reverse, permute, gathers, scatter, argmax."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import strategies as st

from compiler.ir.builder import Builder
from compiler.ir.dims import Dim, Symbol, dim
from compiler.ir.graph import Graph, Value
from compiler.ir.module import Module
from compiler.ir.names import Names
from compiler.ir.types import Array, DType, TensorType, tensor

R, C = dim("r"), dim("c")
SYMBOLS = (Symbol("r"), Symbol("c"), Symbol("n"))
INPUTS = (
    Value("x", tensor(DType.f32, R, C)),
    Value("y", tensor(DType.f32, R, C)),
    Value("v", tensor(DType.f32, 3, C)),
    Value("u", tensor(DType.f32, R, 1)),
    Value("b", tensor(DType.f32, 2, R, 3)),
    Value("k", tensor(DType.i64, "n")),
    Value("l", tensor(DType.i32, R, C)),
    Value("one", tensor(DType.i64)),
)
LARGEST = 400
"""Elements of the largest value at the sizes below: the interpreters are slow."""

SIZES = {"r": 3, "c": 4, "n": 2}


@st.composite
def modules(draw: st.DrawFn, most: int = 8) -> Module:
    """A module of up to `most` steps over the symbols r, c and n."""
    b = Builder("v", Names())
    b.names.reserve(v.name for v in INPUTS)
    values = list(INPUTS)
    for _ in range(draw(st.integers(1, most))):
        floats = [v for v in values if v.type.element is DType.f32]
        x = draw(st.sampled_from(floats[-5:]))
        made = _step(draw, b, x, floats)
        if made.type.numel.evaluate(SIZES) <= LARGEST:
            values.append(made)
    made = [v for v in values if v not in INPUTS]
    kept = {v.name for v in made}
    while True:  # what grew too large goes, with what nobody reads
        ops = [op for op in b.ops if op.key in kept]
        needed = kept | {name for op in ops for name in op.operands} - {v.name for v in INPUTS}
        if needed == kept:
            break
        kept = needed
    read = {name for op in ops for name in op.operands}
    outputs = [v.name for v in made if v.name not in read or draw(st.integers(0, 5)) == 0]
    return Module("random", SYMBOLS, guards=(), graph=Graph(INPUTS, tuple(outputs), tuple(ops)))


def _indices(draw: st.DrawFn, b: Builder) -> Value:
    match draw(st.integers(0, 2)):
        case 0:
            return b.dim_values([draw(st.integers(-4, 4)) for _ in range(draw(st.integers(1, 3)))])
        case 1:
            return INPUTS[-1]
        case _:
            k = INPUTS[-3]
            return k if draw(st.booleans()) else b.map("add", k, b.scalar(1, DType.i64))


def _step(draw: st.DrawFn, b: Builder, x: Value, floats: list[Value]) -> Value:
    shape, rank = x.type.dims, x.type.rank
    kinds = ["unary", "binary", "binary", "literal"]
    if rank:
        kinds += ["concat", "pad", "reverse", "gather", "slice", "permute", "concat", "pad"]
        kinds += ["argreduce", "reduce", "softmax", "elements", "scatter"]
    axis = draw(st.integers(0, max(0, rank - 1)))
    match draw(st.sampled_from(kinds)):
        case "unary":
            return b.map(draw(st.sampled_from(["tanh", "neg", "abs"])), x)
        case "literal":
            return b.maximum(x, b.scalar(0.5, DType.f32))
        case "concat":
            fits = [
                v for v in floats
                if v.type.rank == rank
                and v.type.dims[:axis] == shape[:axis]
                and v.type.dims[axis + 1 :] == shape[axis + 1 :]
            ]  # fmt: skip
            parts = [x, *draw(st.lists(st.sampled_from(fits), min_size=1, max_size=2))]
            return b.concat(parts, axis)
        case "pad":
            before, after = ([draw(st.integers(0, 2)) for _ in shape] for _ in range(2))
            outside = b.scalar(draw(st.sampled_from([0.0, -1.5])), DType.f32)
            if draw(st.booleans()):
                outside = b.map("neg", outside)
            return b.pad(x, outside, before, after)
        case "reverse":
            return b.reverse(x, draw(st.sets(st.integers(0, rank - 1), min_size=1)))
        case "gather":
            return b.gather(x, _indices(draw, b), axis)
        case "slice":
            return _half(draw, b, x, axis)
        case "permute":
            return b.permute(x, draw(st.permutations(range(rank))))
        case "argreduce":
            function = draw(st.sampled_from(["max", "min"]))
            return b.cast(b.argreduce(function, x, axis, draw(st.booleans())), DType.f32)
        case "reduce":
            return b.reduce(draw(st.sampled_from(["sum", "max"])), x, [axis])
        case "softmax":
            e = b.map("exp", b.sub(x, b.reduce("max", x, [rank - 1])))
            return b.div(e, b.reduce("sum", e, [rank - 1]))
        case "elements":
            return b.gather_elements(x, _beside(draw, b, shape, axis), axis)
        case "scatter":
            at = _beside(draw, b, shape, axis)
            return b.scatter_elements(x, at, b.cast(at, DType.f32), axis)
        case _:
            y = draw(st.sampled_from(floats))
            fits = [v for v in (y, *floats, x) if _compatible(x, v)]
            return b.map(draw(st.sampled_from(["add", "mul", "sub"])), x, fits[0])


def _half(draw: st.DrawFn, b: Builder, x: Value, axis: int) -> Value:
    """Every second element along an axis, from the first or the second on."""
    shape = list(x.type.dims)
    start = draw(st.integers(0, 1))
    shape[axis] = (shape[axis] + (1 - start)) // 2
    starts = tuple(dim(start if k == axis else 0) for k in range(len(shape)))
    steps = tuple(2 if k == axis else 1 for k in range(len(shape)))
    type = TensorType(DType.f32, tuple(shape))
    return b.op("slice", (x,), type, starts=starts, steps=steps)


def _beside(draw: st.DrawFn, b: Builder, shape: tuple[Dim, ...], axis: int) -> Value:
    """Indices, some out of range, of a shape like x's but another extent along `axis`."""
    wanted = list(shape)
    wanted[axis] = draw(st.sampled_from([shape[axis], dim(2)]))
    others = [k for k, d in enumerate(shape) if k != axis and (d.constant or 0) > 1]
    if others and draw(st.booleans()):
        wanted[others[0]] = wanted[others[0]] - 1
    along = b.iota(wanted, draw(st.integers(0, len(shape) - 1)), DType.i64)
    scaled = b.map("mul", along, b.scalar(draw(st.integers(-2, 2)), DType.i64))
    return b.map("add", scaled, b.scalar(draw(st.integers(-2, 2)), DType.i64))


def _compatible(x: Value, y: Value) -> bool:
    a, b = x.type.dims[::-1], y.type.dims[::-1]
    return all(p == q or dim(1) in (p, q) for p, q in zip(a, b, strict=False))


def inputs_for(sizes: Mapping[str, int], seed: int = 7) -> dict[str, Array]:
    """Floats with a NaN here and there, indices on both sides of every range."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for v in INPUTS:
        shape = [d.evaluate(sizes) for d in v.type.dims]
        if v.type.element is DType.f32:
            array = np.asarray(rng.integers(-4, 5, shape), np.float32)
            array[rng.random(shape) < 0.05] = np.nan
        else:
            array = np.asarray(rng.integers(-6, 7, shape), v.type.element.numpy())
        found[v.name] = array
    return found

"""Random tensor-level modules for the tests of fusion: pointwise, rows, movement, borders."""

from __future__ import annotations

from hypothesis import strategies as st

from compiler.ir.builder import Builder
from compiler.ir.dims import ONE, Dim, Symbol, dim
from compiler.ir.graph import Graph, Node, Op, Value
from compiler.ir.module import Module
from compiler.ir.names import Names
from compiler.ir.types import DType, TensorType, tensor

R, C = dim("r"), dim("c")
SHAPES: tuple[tuple[Dim, ...], ...] = ((R, C), (R, ONE), (C,), (ONE, C), (), (C, R), (R,))


def module_of(ops: list[Op], inputs: list[Value], outputs: list[Value], nodes: int = 0) -> Module:
    """A module over the symbols r and c, with nodes n0 to n(nodes - 1)."""
    graph = Graph(tuple(inputs), tuple(v.name for v in outputs), tuple(ops))
    listed = tuple(Node((k,), "", "Any") for k in range(nodes))
    return Module("random", (Symbol("r"), Symbol("c")), nodes=listed, graph=graph)


@st.composite
def modules(draw: st.DrawFn, most: int = 14) -> Module:
    """A module of up to `most` ops over f32 values, each op from one of a few ONNX nodes."""
    b = Builder("v", Names())
    inputs = [Value(f"x{k}", TensorType(DType.f32, s)) for k, s in enumerate(SHAPES[:5])]
    values = list(inputs)
    count = draw(st.integers(2, most))
    node = 0
    for _ in range(count):
        node += draw(st.booleans())
        b.origins = frozenset({(node,)})
        x = draw(st.sampled_from(values[-6:]))
        values.append(_step(draw, b, x, values))
    read = {name for op in b.ops for name in op.operands}
    made = [v for v in values if v not in inputs]
    outputs = [v for v in made if v.name not in read or draw(st.integers(0, 7)) == 0]
    return module_of(b.ops, inputs, outputs, node + 1)


def _step(draw: st.DrawFn, b: Builder, x: Value, values: list[Value]) -> Value:
    rank = x.type.rank
    kinds = ["unary", "binary", "binary", "literal", "select", "unit", "library", "expand"]
    kinds += ["reduce", "reduce", "permute", "slice"] if rank == 2 else []
    match draw(st.sampled_from(kinds)):
        case "unary":
            return b.map(draw(st.sampled_from(["tanh", "neg", "abs"])), x)
        case "literal":
            return b.maximum(x, b.scalar(0.5, DType.f32))
        case "select":
            return b.select(b.compare("lt", x, b.scalar(0.25, DType.f32)), x, b.map("neg", x))
        case "reduce":
            axes = draw(st.sampled_from([[1], [1], [1], [0], [0, 1]]))
            return b.reduce(draw(st.sampled_from(["sum", "max"])), x, axes)
        case "permute":
            return b.permute(x, [1, 0])
        case "slice":
            rows, cols = x.type.dims
            half = (rows + 1) // 2
            return b.op("slice", (x,), tensor(DType.f32, half, cols), starts=(0, 0), steps=(2, 1))
        case "unit":
            flat = [d for d in x.type.dims if d != ONE]
            return b.reshape(x, [ONE, *flat] if draw(st.booleans()) else [*flat, ONE])
        case "library":
            return b.op("extern", (x,), x.type, op="onnx.Identity", opset=17)
        case "expand":
            return b.expand(x, (R, C)) if x.type.dims in ((C,), (), (R, ONE)) else x
        case _:
            y = draw(st.sampled_from(values))
            fits = [v for v in (y, *values) if compatible(x, v)]
            return b.map(draw(st.sampled_from(["add", "mul", "sub"])), x, fits[0])


def compatible(x: Value, y: Value) -> bool:
    """Whether two shapes broadcast without a guard."""
    a, b = x.type.dims[::-1], y.type.dims[::-1]
    return all(p == q or ONE in (p, q) for p, q in zip(a, b, strict=False))

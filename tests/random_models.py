"""Random ONNX models that a reference can judge: every value is bounded, nothing is chaotic.

Floats keep |x| <= 8, and only ops whose error stays small are drawn (no division by what may be
near zero, no logarithm of it). Casts that cut off, and comparisons, are applied to exact values
only: integers, flags, and floats that hold whole numbers. So a right compiler is within rounding of
the float64 reference, and equal to it on integers and flags.

Different symbols have the same size where they meet, which makes guards that hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnx.numpy_helper import from_array

from compiler.ir.types import Array

F32, I64, I32, BOOL = "float32", "int64", "int32", "bool"
ELEMENT = {
    F32: TensorProto.FLOAT, I64: TensorProto.INT64, I32: TensorProto.INT32, BOOL: TensorProto.BOOL,
}  # fmt: skip
LIMIT = 8.0
Extent = int | str


@dataclass(frozen=True)
class Random:
    """A model, sizes of its symbols, and inputs at these sizes."""

    proto: ModelProto
    sizes: dict[str, int]
    inputs: dict[str, Array]

    def __repr__(self) -> str:
        from onnx.printer import to_text

        return f"Random({self.sizes},\n{to_text(self.proto)})"


@dataclass(frozen=True)
class Value:
    """`shape` with symbols; |elements| <= `bound`; `exact`: whole numbers, computed exactly."""

    name: str
    dtype: str
    shape: tuple[Extent, ...]
    bound: float
    exact: bool


@dataclass
class Maker:
    """Collects nodes, inputs and weights while values are drawn."""

    draw: st.DrawFn
    sizes: dict[str, int]
    opset: int
    library: bool
    nodes: list[NodeProto] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    inputs: dict[str, tuple[Value, Array]] = field(default_factory=dict)
    weights: dict[str, Array] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    # ---- leaves

    def one_of(self, *choices: object) -> object:
        return self.draw(st.sampled_from(choices))

    def chance(self, n: int) -> bool:
        """True once in n."""
        return self.draw(st.integers(0, n - 1)) == n - 1

    def extents(self, shape: tuple[Extent, ...]) -> tuple[int, ...]:
        return tuple(self.sizes[d] if isinstance(d, str) else d for d in shape)

    def array(self, dtype: str, shape: tuple[Extent, ...], exact: bool) -> Array:
        at = self.extents(shape)
        if dtype == BOOL:
            return self.rng.integers(0, 2, at).astype(np.bool_)
        if dtype != F32 or exact:
            return self.rng.integers(-3, 4, at).astype(dtype)
        return np.asarray(self.rng.uniform(-2, 2, at), np.float32)

    def new_input(self, dtype: str, shape: tuple[Extent, ...], exact: bool = False) -> Value:
        name = f"in{len(self.inputs)}"
        exact = exact or dtype != F32
        value = Value(name, dtype, shape, 3.0, exact)
        self.inputs[name] = value, self.array(dtype, shape, exact)
        self.values.append(value)
        return value

    def weight(self, dtype: str, shape: tuple[int, ...], exact: bool = False) -> Value:
        """A constant: an initializer, or the result of a Constant node."""
        array = self.array(dtype, shape, exact or dtype != F32)
        return self.constant(array, 3.0, exact or dtype != F32)

    def constant(self, array: Array, bound: float = 0.0, exact: bool = True) -> Value:
        name = f"c{len(self.weights)}_{len(self.nodes)}"
        if self.chance(4):
            self.nodes.append(helper.make_node("Constant", [], [name], value=from_array(array)))
        else:
            self.weights[name] = array
        return Value(name, str(array.dtype), tuple(array.shape), bound, exact)

    # ---- nodes

    def node(
        self, op: str, inputs: list[Value | None], value: Value, **attributes: object
    ) -> Value:
        """Add a node whose result is like `value`, brought back within the limit."""
        name = f"v{len(self.nodes)}"
        names = [x.name if x is not None else "" for x in inputs]
        self.nodes.append(helper.make_node(op, names, [name], **attributes))
        made = replace(value, name=name)
        if made.bound > LIMIT and made.dtype == F32 and not made.exact:
            return self.node("Tanh", [made], replace(made, bound=1.0))
        if made.bound > 1000:
            return self.node(
                "Min", [self.node("Max", [made, self.number(made, -5)], replace(made, bound=5)),
                        self.number(made, 5)], replace(made, bound=5),
            )  # fmt: skip
        self.values.append(made)
        return made

    def number(self, like: Value, n: int) -> Value:
        return self.constant(np.array(n, like.dtype), abs(n))

    def pick(self, dtype: str | None = None, rank: int | None = None) -> Value:
        found = [
            v for v in self.values
            if (dtype is None or v.dtype == dtype) and (rank is None or len(v.shape) >= rank)
        ]  # fmt: skip
        if found:
            return found[self.draw(st.integers(0, len(found) - 1))]
        extent = self.draw(st.sampled_from([*self.sizes, 1, 2, 3]))
        return self.new_input(dtype or F32, (extent,) * max(rank or 0, 1))

    def partner(self, x: Value) -> Value:
        """A value that broadcasts with x to some shape: one there is, or a new one."""
        fitting = [
            v for v in self.values
            if v.dtype == x.dtype and self.joined(v.shape, x.shape) is not None
        ]  # fmt: skip
        if fitting and not self.chance(3):
            return fitting[self.draw(st.integers(0, len(fitting) - 1))]
        drop = self.draw(st.integers(0, len(x.shape)))
        shape = tuple(1 if self.chance(3) else d for d in x.shape[drop:])
        if all(isinstance(d, int) for d in shape) and self.chance(2):
            return self.weight(x.dtype, tuple(d for d in shape if isinstance(d, int)), x.exact)
        return self.new_input(x.dtype, shape, x.exact)

    def joined(self, a: tuple[Extent, ...], b: tuple[Extent, ...]) -> tuple[Extent, ...] | None:
        """The broadcast; None where sizes differ, or a symbol may be 1 and meets another size."""
        rank = max(len(a), len(b))
        a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
        out: list[Extent] = []
        for x, y in zip(a, b, strict=True):
            if x == y or y == 1:
                out.append(x)
            elif x == 1:
                out.append(y)
            elif self.extents((x,)) == self.extents((y,)):
                out.append(x)
            else:
                return None
        return tuple(out) if len(out) <= 5 else None

    # ---- what can be drawn

    def unary(self) -> None:
        x = self.pick(F32)
        op = self.one_of("Neg", "Tanh", "Sigmoid", "Erf", "Relu", "Exp", "Identity", "Sqrt", "Log",
                         "Abs" if self.library else "Neg")  # fmt: skip
        inexact = replace(x, exact=False)
        if op in ("Sqrt", "Log"):
            x = self.node("Sigmoid", [x], replace(inexact, bound=1.0))
            x = self.node("Add", [x, self.number(x, 1)], replace(x, bound=2.0))
            self.node(op, [x], replace(x, bound=2.0))
        elif op == "Exp":
            x = self.node("Tanh", [x], replace(inexact, bound=1.0))
            self.node(op, [x], replace(x, bound=3.0))
        elif op in ("Tanh", "Sigmoid", "Erf"):
            self.node(op, [x], replace(inexact, bound=1.0))
        else:
            self.node(op, [x], x)

    def integer_unary(self) -> None:
        x = self.pick(self.draw(st.sampled_from([I64, I32])))
        op = self.one_of("Neg", "Relu", "Identity") if self.opset >= 14 else "Neg"
        self.node(op, [x], x)

    def binary(self) -> None:
        x = self.pick(self.draw(st.sampled_from([F32, F32, F32, I64, I32])))
        y = self.partner(x)
        if self.chance(2):
            x, y = y, x
        shape = self.joined(x.shape, y.shape)
        assert shape is not None
        exact = x.exact and y.exact
        both = Value("", x.dtype, shape, 0.0, exact)
        op = self.one_of("Add", "Sub", "Mul", "Min", "Max", "Div", "Pow")
        if op == "Div" and x.dtype == F32:
            y = self.node("Exp", [self.node("Tanh", [y], replace(y, bound=1.0, exact=False))],
                          replace(y, bound=3.0, exact=False))  # fmt: skip
            self.node(op, [x, y], replace(both, bound=3 * x.bound, exact=False))
        elif op == "Div":
            self.node(op, [x, y], replace(both, bound=x.bound))
        elif op == "Pow":
            square = self.constant(np.array(self.one_of(1, 2, 3), x.dtype))
            if x.bound <= LIMIT and (x.dtype == F32 or self.opset >= 12):
                self.node(op, [x, square], replace(x, bound=x.bound**3))
        elif op == "Mul":
            self.node(op, [x, y], replace(both, bound=x.bound * y.bound))
        else:
            bound = x.bound + y.bound if op in ("Add", "Sub") else max(x.bound, y.bound)
            if x.dtype == F32 or op in ("Add", "Sub") or self.opset >= 12:
                self.node(op, [x, y], replace(both, bound=bound))

    def clip(self) -> None:
        x = self.pick(F32)
        low, high = self.number(x, -1), self.number(x, 2)
        match self.one_of("both", "low", "high", "none"):
            case "both":
                self.node("Clip", [x, low, high], replace(x, bound=2.0))
            case "low":
                self.node("Clip", [x, low], x)
            case "high":
                self.node("Clip", [x, None, high], x)
            case _:
                self.node("Clip", [x], x)

    def cast(self) -> None:
        x = self.pick()
        to = self.draw(st.sampled_from([F32, I64, I32, BOOL]))
        if x.dtype == F32 and to != F32 and not x.exact:
            return
        bound = 1.0 if BOOL in (to, x.dtype) else x.bound
        self.node("Cast", [x], Value("", to, x.shape, bound, True if x.dtype != F32 else x.exact),
                  to=ELEMENT[to])  # fmt: skip

    def reduce(self) -> None:
        x = self.pick(self.draw(st.sampled_from([F32, F32, F32, I64])), rank=1)
        rank = len(x.shape)
        op = self.draw(st.sampled_from(["ReduceSum", "ReduceMean", "ReduceMax"]))
        axes = sorted(self.draw(st.sets(st.integers(0, rank - 1), min_size=1)))
        count = int(np.prod([self.extents(x.shape)[a] for a in axes]))
        if (count == 0 and op != "ReduceSum") or (x.dtype == I64 and op == "ReduceMean"):
            op = "ReduceSum"
        keep = self.draw(st.booleans())
        shape = tuple(
            1 if k in axes else d for k, d in enumerate(x.shape) if keep or k not in axes
        )
        bound = x.bound * max(count, 1) if op == "ReduceSum" else x.bound
        exact = x.exact and op != "ReduceMean"
        written = [a - rank if self.chance(2) else a for a in axes]
        whole = len(axes) == rank and self.chance(2)
        made = Value("", x.dtype, shape, bound, exact)
        if op == "ReduceSum":
            given = [] if whole else [self.constant(np.array(written, np.int64))]
            self.node(op, [x, *given], made, keepdims=int(keep))
        else:
            given = {} if whole else {"axes": written}
            self.node(op, [x], made, keepdims=int(keep), **given)

    def softmax(self) -> None:
        x = self.pick(F32, rank=1)
        axis = self.draw(st.integers(-len(x.shape), len(x.shape) - 1))
        self.node("Softmax", [x], replace(x, bound=1.0, exact=False), axis=axis)

    def rows(self) -> None:
        """Reductions one after the other along a row, and values that several of them need."""
        x = self.pick(F32, rank=1)
        if 0 in self.extents(x.shape):
            return
        axis = len(x.shape) - 1 if not self.chance(3) else 0
        line = self.constant(np.array([axis], np.int64))
        row = tuple(1 if k == axis else d for k, d in enumerate(x.shape))
        e = self.node("Tanh", [x], replace(x, bound=1.0, exact=False))
        for _ in range(self.draw(st.integers(1, 3))):
            e = self.node("Exp", [e], replace(e, bound=3.0))
            total = self.node("ReduceSum", [e, line], replace(e, shape=row, bound=LIMIT))
            e = self.node("Div", [e, total], replace(e, bound=1.0))
        if self.chance(2):
            e = self.node("Mul", [e, x], replace(e, bound=x.bound))
        if self.chance(2):
            self.node("ReduceMax", [e], replace(e, shape=row), axes=[axis])

    def layernorm(self) -> None:
        x = self.pick(F32, rank=1)
        if self.opset < 17 or not isinstance(x.shape[-1], int) or 0 in self.extents(x.shape):
            return
        spread = self.constant(np.arange(x.shape[-1], dtype=np.float32), 0.0, False)
        # A row of nearly equal elements has no stable normal form: its spread is made 1 and more.
        x = self.node("Add", [self.node("Tanh", [x], replace(x, bound=0.1, exact=False)),
                              self.node("Mul", [spread, self.number(x, 4)], spread)],
                      replace(x, bound=LIMIT, exact=False))  # fmt: skip
        scale = self.weight(F32, (x.shape[-1],))
        bias = [self.weight(F32, (x.shape[-1],))] if self.chance(2) else []
        self.node("LayerNormalization", [x, scale, *bias], replace(x, bound=3 * LIMIT), axis=-1)

    def matmul(self) -> None:
        x = self.pick(F32, rank=1)
        x = self.node("Tanh", [x], replace(x, bound=1.0, exact=False))
        k = x.shape[-1]
        n = self.draw(st.sampled_from([1, 2, 3]))
        bound = float(max(1, self.extents((k,))[0])) * 3
        lead = x.shape[:-1]
        made = Value("", F32, (*lead, n), bound, False)
        if isinstance(k, int) and self.chance(2):
            w = self.weight(F32, (k, n))
            if len(x.shape) == 2 and self.chance(2):
                extra = [self.weight(F32, (n,))] if self.chance(2) else []
                self.node("Gemm", [x, w, *extra], replace(made, bound=bound + 3), alpha=0.5)
                return
        else:
            w = self.new_input(F32, (k, n))
        if len(x.shape) == 1:
            made = replace(made, shape=(n,))
        self.node("MatMul", [x, w], made)

    def transpose(self) -> None:
        x = self.pick(rank=2)
        perm = self.draw(st.permutations(range(len(x.shape))))
        self.node("Transpose", [x], replace(x, shape=tuple(x.shape[p] for p in perm)), perm=perm)

    def reshape(self) -> None:
        x = self.pick(rank=1)
        way = self.one_of("flat", "split", "dynamic", "flatten", "unit")
        fixed = int(np.prod([d for d in x.shape if isinstance(d, int)]))
        symbols = [d for d in x.shape if isinstance(d, str)]
        if way == "flat" and len(symbols) <= 1 and fixed:
            shape = (fixed,) if not symbols else symbols[0] if fixed == 1 else None
            if shape is not None:
                target = self.constant(np.array([-1], np.int64))
                shape = shape if isinstance(shape, tuple) else (shape,)
                self.node("Reshape", [x, target], replace(x, shape=shape))
        elif way == "split" and x.shape and isinstance(x.shape[-1], int) and x.shape[-1] % 2 == 0:
            lead = [0] * (len(x.shape) - 1)
            half = x.shape[-1] // 2
            target = self.constant(np.array([*lead, 2, half or -1], np.int64))
            if half and len(x.shape) < 5:
                self.node("Reshape", [x, target], replace(x, shape=(*x.shape[:-1], 2, half)))
        elif way == "dynamic":
            shape = self.node("Shape", [x], Value("", I64, (len(x.shape),), 9.0, True))
            self.values.remove(shape)
            self.node("Reshape", [x, shape], x)
        elif way == "flatten" and len(x.shape) == 2:
            self.node("Flatten", [x], x, axis=1)
        elif way == "unit" and len(x.shape) < 5:
            at = self.draw(st.integers(0, len(x.shape)))
            target = [0 if k < at else 1 if k == at else -1 for k in range(len(x.shape) + 1)]
            if len(x.shape) - at <= 1 and 0 not in self.extents(x.shape):
                shape = (*x.shape[:at], 1, *x.shape[at:])
                self.node("Reshape", [x, self.constant(np.array(target, np.int64))],
                          replace(x, shape=shape))  # fmt: skip

    def compare(self) -> None:
        """Library steps, on exact values only."""
        exact = [v for v in self.values if v.exact and v.dtype != BOOL]
        if not self.library or not exact:
            return
        x = exact[self.draw(st.integers(0, len(exact) - 1))]
        y = self.number(x, 1)
        c = self.node(str(self.one_of("Less", "Greater")), [x, y], replace(x, dtype=BOOL, bound=1))
        self.node("Where", [c, x, y], x)

    def gather(self) -> None:
        x = self.pick(F32, rank=1)
        if not self.library or 0 in self.extents(x.shape[:1]):
            return
        index = self.constant(np.array([0, -1], np.int64))
        self.node("Gather", [x, index], replace(x, shape=(2, *x.shape[1:])), axis=0)

    def concat(self) -> None:
        x = self.pick(F32, rank=1)
        if self.library and isinstance(x.shape[0], int) and x.shape[0] < 4:
            self.node("Concat", [x, x], replace(x, shape=(2 * x.shape[0], *x.shape[1:])), axis=0)

    STEPS = (
        unary, unary, unary, integer_unary, binary, binary, binary, binary, clip, cast, cast,
        reduce, reduce, softmax, rows, layernorm, matmul, transpose, reshape, reshape, compare,
        gather, concat,
    )  # fmt: skip


@st.composite
def models(draw: st.DrawFn, steps: int = 10, library: bool = True) -> Random:
    """A random model; `library`: with operators that only the library computes."""
    n = draw(st.sampled_from([0, 1, 2, 3, 5]))
    sizes = {"s": n, "t": draw(st.sampled_from([1, 2, 4])), "u": n}
    maker = Maker(
        draw, sizes, draw(st.sampled_from([13, 14, 17])), library,
        rng=np.random.default_rng(draw(st.integers(0, 2**16))),
    )  # fmt: skip
    extent = st.sampled_from(["s", "s", "t", "u", 1, 2, 3])
    for _ in range(draw(st.integers(1, 2))):
        shape = tuple(draw(st.lists(extent, max_size=4)))
        maker.new_input(draw(st.sampled_from([F32, F32, F32, I64, I32, BOOL])), shape)
    for _ in range(draw(st.integers(steps // 2, steps))):
        draw(st.sampled_from(Maker.STEPS))(maker)
    made = {name for node in maker.nodes for name in node.output}
    read = {name for node in maker.nodes for name in node.input}
    known = {v.name: v for v in maker.values}
    ends = [v for v in maker.values if v.name in made and v.name not in read]
    others = [v for v in maker.values if v not in ends]
    if others and (not ends or draw(st.booleans())):  # an inner value, or an input, too
        ends.append(others[draw(st.integers(0, len(others) - 1))])
    if not ends:
        ends = [next(iter(known.values()))]
    graph = helper.make_graph(
        maker.nodes, "random",
        [
            helper.make_tensor_value_info(name, ELEMENT[v.dtype], list(v.shape))
            for name, (v, _) in maker.inputs.items()
        ],
        [helper.make_tensor_value_info(v.name, ELEMENT[v.dtype], None) for v in ends],
        [from_array(np.asarray(array), name) for name, array in maker.weights.items()],
    )  # fmt: skip
    proto = helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", maker.opset)]
    )
    return Random(proto, sizes, {name: array for name, (_, array) in maker.inputs.items()})


# ---- pipelines -----------------------------------------------------------------------------------

TENSOR = (
    "remove-noops", "cse", "dce", "fold-constants", "fold-shape-ops", "fold-batchnorm",
    "dedup-params", "canonicalise",
)  # fmt: skip
"""Optional passes that may stand anywhere after infer-shapes and before fuse, again and again."""
DECOMPOSED = (
    *TENSOR, "algebraic-simplify", "algebraic-simplify{reassoc=true}", "cancel-permutes",
    "rematerialise-cheap",
)
"""Those that may stand between decompose and fuse."""
LOOPS = ("collapse-axes", "stream-stores", "order-steps", "inplace")
FUSE = ("fuse", "fuse{by=origin}", "fuse{max_ops=1}", "fuse{max_ops=2}", "fuse{max_ops=5}")


@st.composite
def pipelines(draw: st.DrawFn) -> str:
    """The text of a pipeline: required passes, and optional ones drawn, repeated and moved."""

    def some(names: tuple[str, ...], most: int) -> list[str]:
        return draw(st.lists(st.sampled_from(names), max_size=most))

    fuse = [draw(st.sampled_from(FUSE))] if draw(st.integers(0, 4)) else []
    memory = draw(st.sampled_from(["plan-memory", "plan-memory{share=false}"]))
    return ",".join([
        "import", "bind-dims", "infer-shapes", *some(TENSOR, 3), "partition-fallback",
        *some(TENSOR, 4), "decompose", *some(DECOMPOSED, 6), *fuse, "lower-loops", *some(LOOPS, 4),
        memory, "emit", "build",
    ])  # fmt: skip

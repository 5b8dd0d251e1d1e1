"""Random values of every class of `compiler.ir`: well-formed as values, not as programs.

They serve the text form and the algebra of dimensions; what the verifier would refuse (an unknown
operand, a type that does not fit) is welcome here, because a broken module must print as well.
"""

from __future__ import annotations

from hypothesis import strategies as st

from compiler.ir.dims import INFINITY, Guard, Symbol, dim
from compiler.ir.graph import Graph, Node, Op, Param, Value
from compiler.ir.loops import (
    ARG_MODES,
    AXIS_KINDS,
    BINARY,
    COMBINE,
    COMPARE,
    UNARY,
    Acc,
    Arg,
    Binary,
    Cast,
    Const,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Ref,
    Select,
    Store,
    Unary,
    Update,
)
from compiler.ir.module import Module, Source, SourceLine
from compiler.ir.plan import (
    BUFFER_KINDS,
    BindStep,
    Buffer,
    CallStep,
    CopyStep,
    Interval,
    KernelStep,
    Operand,
    Plan,
)
from compiler.ir.printer import default_extents
from compiler.ir.types import UNKNOWN, DType, KernelRef, ParamRef, Scalar, TensorType

AWKWARD = (
    "", "_", "0", "a b", 'say "no"', "back\\slash", "line\nbreak", "tab\t", "café", "数", "😀",
    "\x00", "\u2028", "%x", "inf", "nan", "true", "f32", "load", "index", "let", "if", "par",
    "as", "in", "dim", "int", "kernel", "n0", "x.1", "a,b", "x]", "//", "|", "@", "exp", "max",
)  # fmt: skip
"""Names that a text form without care gets wrong."""

words = st.sampled_from(("x", "y", "z", "w", "y.1", "T_2", "s"))
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
names = st.one_of(words, st.sampled_from(AWKWARD), texts)
symbols = st.sampled_from(("s", "t", "batch", "a b", "", "f32", "inf"))


def few(items: st.SearchStrategy, low: int = 0, high: int = 3) -> st.SearchStrategy:
    """Tuples of a few items."""
    return st.lists(items, min_size=low, max_size=high).map(tuple)


# ---- dimensions, types, attributes

dimensions = st.recursive(
    st.one_of(st.integers(-9, 99).map(dim), symbols.map(dim)),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] * p[1]),
        st.tuples(inner, st.integers(1, 9)).map(lambda p: p[0] // p[1]),
    ),
    max_leaves=6,
)
dtypes = st.sampled_from(tuple(DType))
types = st.one_of(
    st.just(UNKNOWN),
    st.builds(
        TensorType, st.none() | dtypes, st.none() | few(dimensions)
    ),
)
known_types = st.builds(TensorType, dtypes, few(dimensions))


@st.composite
def scalars(draw: st.DrawFn, kinds: st.SearchStrategy = dtypes) -> Scalar:
    """Any bits: NaN with payloads, -0.0, subnormals, and plain numbers."""
    dtype = draw(kinds)
    if dtype is DType.string:
        return Scalar(dtype, 0)
    if dtype.is_float and draw(st.booleans()):
        numbers = (0.0, -0.0, 1.0, -1.5, 0.1, 1e-30, 3e38, float("inf"), -float("inf"))
        value = draw(st.sampled_from(numbers))
        return Scalar.of(dtype, value if abs(value) < 6e4 or dtype is not DType.f16 else 2.0)
    if dtype.is_float and draw(st.booleans()):
        return Scalar.of(dtype, float("nan"))
    return Scalar(dtype, draw(st.integers(0, 2 ** (8 * dtype.itemsize) - 1)))


origins = st.frozensets(few(st.integers(0, 12), 1), max_size=3)
attributes = st.recursive(
    st.one_of(
        st.integers(-(2**70), 2**70),
        names,
        dtypes,
        dimensions,
        scalars(),
        names.map(ParamRef),
        names.map(KernelRef),
    ),
    few,
    max_leaves=4,
)


def attribute_lists(reserved: str = "") -> st.SearchStrategy:
    return st.dictionaries(names.filter(lambda n: n != reserved), attributes, max_size=3).map(
        lambda d: tuple(sorted(d.items(), key=lambda a: a[0]))
    )


# ---- graph


@st.composite
def operations(draw: st.DrawFn, depth: int = 2) -> Op:
    kind = draw(
        st.sampled_from((
            "map.add", "onnx.If", "onnx.com.microsoft:Gelu", "slice", "dims", "const", "param",
            "launch", "call.matmul", "fused", "",
        ))
    )
    inputs = draw(few(st.none() | names))
    outputs = draw(few(st.builds(Value, names, types), 1))
    head = {"const": scalars(), "param": names.map(ParamRef), "launch": names.map(KernelRef)}
    main = {"const": "value", "param": "param", "launch": "kernel"}.get(kind, "")
    attrs = draw(attribute_lists(main))
    if main and draw(st.booleans()):
        attrs = tuple(sorted((*attrs, (main, draw(head[kind]))), key=lambda a: a[0]))
    regions: tuple[Graph, ...] = ()
    if depth and kind in ("fused", "onnx.If"):
        regions = draw(few(graphs(depth - 1), 0, 2))
        if regions and draw(st.booleans()):
            present = tuple(n for n in inputs if n is not None)
            formals = tuple(Value(n, draw(types)) for n in present)
            inputs = present
            results = tuple(v.name for v in outputs)
            regions = (Graph(formals, results, regions[0].ops),)
    return Op(kind, inputs, outputs, attrs, regions, draw(origins))


@st.composite
def graphs(draw: st.DrawFn, depth: int = 2) -> Graph:
    outputs = draw(few(names))
    outward = draw(
        st.one_of(st.just(()), st.just(outputs), few(names, len(outputs), len(outputs)))
    )
    return Graph(
        draw(few(st.builds(Value, names, types))), outputs, draw(few(operations(depth))), outward
    )


# ---- kernels

expressions = st.recursive(
    st.one_of(
        scalars().map(Const),
        dimensions.map(Index),
        names.map(Ref),
        st.builds(Load, names, few(dimensions)),
    ),
    lambda inner: st.one_of(
        st.builds(Load, names, few(dimensions), inner, scalars()),
        st.builds(Unary, st.sampled_from(sorted(UNARY)), inner),
        st.builds(Binary, st.sampled_from(sorted(BINARY | COMPARE)), inner, inner),
        st.builds(Select, inner, inner, inner),
        st.builds(Cast, dtypes, inner),
    ),
    max_leaves=6,
)


def _simple(around: st.SearchStrategy) -> st.SearchStrategy:
    return st.one_of(
        st.builds(Let, names, dtypes, expressions, around),
        st.builds(Acc, names, dtypes, scalars(), around),
        st.builds(Update, names, st.sampled_from(sorted(COMBINE)), expressions, around),
        st.builds(Store, names, few(dimensions), expressions, around),
    )


def _blocks(inner: st.SearchStrategy) -> st.SearchStrategy:
    some = st.sampled_from((frozenset(), frozenset({(0,)}), frozenset({(0,), (1, 2)})))
    kinds = st.sampled_from(AXIS_KINDS)
    return st.one_of(
        st.builds(For, kinds, names, dimensions, few(inner), some),
        st.builds(If, expressions, few(inner), some),
    )


statements = st.recursive(
    _simple(st.sampled_from((frozenset(), frozenset({(0,)})))), _blocks, max_leaves=6
)
arguments = st.builds(Arg, names, st.sampled_from(ARG_MODES), types)


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    args = draw(few(arguments))
    usual = default_extents(a.type.shape for a in args)
    extents = draw(st.just(usual) | few(names))
    return Kernel(draw(names), extents, args, draw(few(statements)), draw(origins))


# ---- plan, sources, module

guards = st.builds(
    Guard,
    dimensions,
    st.sampled_from(("==", "<=", "!=")),
    dimensions,
    few(st.integers(0, 9)),
    names,
)
operands = st.one_of(
    names.flatmap(lambda n: st.builds(Operand, st.just(n), st.just(n), types)),
    st.builds(Operand, names, names, types),
)


@st.composite
def kernel_steps(draw: st.DrawFn) -> KernelStep:
    found = draw(few(operands))
    written = draw(st.integers(0, len(found)))
    return KernelStep(
        draw(names), draw(few(dimensions)), found, draw(few(dimensions)), draw(dimensions),
        draw(dimensions), written, draw(origins),
    )  # fmt: skip


steps = st.one_of(
    kernel_steps(),
    st.builds(
        CallStep, names, few(st.none() | operands), few(operands), attribute_lists(), origins
    ),
    st.builds(CopyStep, operands, operands, origins),
    st.builds(BindStep, names, few(st.tuples(st.integers(0, 5), names)), origins),
)
positions = st.integers(-1, 9)
buffers = st.builds(
    Buffer, names, st.sampled_from(BUFFER_KINDS), names, few(names), dimensions, positions,
    positions,
)  # fmt: skip
plans = st.builds(Plan, few(steps), few(buffers), few(guards))
sources = st.builds(
    Source,
    names,
    names,
    st.one_of(texts, few(st.sampled_from(("def f(x):", "    | y", "", " ", "}"))).map("\n".join)),
    few(st.builds(SourceLine, st.integers(1, 9), few(st.integers(0, 4)), origins)),
    few(st.tuples(names, names)),
    names,
)
positive = st.integers(0, 2**41)
modules = st.builds(
    Module,
    names,
    few(st.builds(Symbol, names, positive | st.just(0), positive | st.just(INFINITY), positive)),
    few(guards),
    few(st.tuples(names, st.integers(1, 22))),
    few(st.builds(Node, few(st.integers(0, 9)), names, names)),
    few(st.builds(Param, names, types, names)),
    graphs(),
    few(kernels()),
    st.none() | plans,
    few(sources),
)

# ---- the allocator


@st.composite
def interval_lists(draw: st.DrawFn) -> list[Interval]:
    found: list[Interval] = []
    for k in range(draw(st.integers(0, 20))):
        start = draw(st.integers(0, 12))
        size = draw(st.sampled_from((0, 1, 63, 64, 65, 1000, 4096)))
        found.append(Interval(f"b{k}", size, start, start + draw(st.integers(0, 6))))
    return found

"""One ONNX node through the operator's row: infer, decompose, verify, interpret; and its oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper

from compiler.frontend.reference import evaluate
from compiler.ir.dims import Dim, Symbol, dim
from compiler.ir.edits import fold
from compiler.ir.graph import Graph, Node, Op, Param, Value
from compiler.ir.interpret.onnx_ops import evaluator
from compiler.ir.interpret.tensor import run_graph
from compiler.ir.module import Module
from compiler.ir.types import UNKNOWN, Array, Attr, DType, ParamRef, Scalar, TensorType, attrs
from compiler.ir.verify import verify
from compiler.ops.shape_values import Walk
from compiler.ops.table import find
from compiler.ops.views import operator_name
from compiler.passes.base import Context
from compiler.passes.decompose import Decompose

Attribute = int | float | str | Sequence[int] | Array


@dataclass(frozen=True)
class Fixed:
    """An input whose elements the model holds (axes, shapes), not data."""

    array: Array


Input = Array | Fixed | None


def array_of(given: Input) -> Array | None:
    return given.array if isinstance(given, Fixed) else given


def leaf(name: str, array: Array, params: list[Param], context: Context) -> Op:
    """The op that import makes of an initializer."""
    t = TensorType(DType.of(array.dtype), tuple(dim(n) for n in array.shape))
    if array.size == 1:
        scalar = Scalar(t.element, int.from_bytes(array.tobytes(), "little"))
        return Op("const", (), (Value(name, t),), attrs(value=scalar))
    if array.dtype == np.int64 and array.ndim == 1:
        return Op("dims", (), (Value(name, t),), attrs(values=tuple(dim(int(n)) for n in array)))
    params.append(Param(name, t, context.params.add(array)))
    return Op("param", (), (Value(name, t),), attrs(param=ParamRef(name)))


def module_of(
    op: str,
    opset: int,
    inputs: Sequence[Input],
    attributes: Mapping[str, Attribute],
    outputs: int,
    symbolic: bool,
    context: Context,
) -> Module:
    """A graph of one node, its types inferred. With `symbolic`, a size n > 1 is a symbol `d<n>`."""
    params: list[Param] = []
    formals: list[Value] = []
    ops: list[Op] = []
    names: list[str | None] = []
    sizes: set[int] = set()

    def extent(n: int) -> Dim:
        if not symbolic or n == 1:
            return dim(n)
        sizes.add(n)
        return dim(f"d{n}")

    for k, given in enumerate(inputs):
        if given is None:
            names.append(None)
            continue
        names.append(f"x{k}")
        if isinstance(given, Fixed):
            ops.append(leaf(f"x{k}", given.array, params, context))
        else:
            t = TensorType(DType.of(given.dtype), tuple(extent(n) for n in given.shape))
            formals.append(Value(f"x{k}", t))
    found: dict[str, Attr] = {}
    for name, value in attributes.items():
        if isinstance(value, np.ndarray):
            params.append(
                Param(f"a_{name}", TensorType(DType.of(value.dtype), tuple(map(dim, value.shape))),
                      context.params.add(value))
            )
            found[name] = ParamRef(f"a_{name}")
        elif isinstance(value, float):
            found[name] = Scalar.of(DType.f32, value)
        else:
            found[name] = value if isinstance(value, int | str) else tuple(value)
    results = tuple(Value(f"y{k}", UNKNOWN) for k in range(outputs))
    node = Op(f"onnx.{op}", tuple(names), results, attrs(**found), (), frozenset({(0,)}))
    graph = Graph(
        tuple(formals), tuple(v.name for v in results), (*ops, node),
        tuple(v.name for v in results),
    )  # fmt: skip
    module = Module(
        "one", tuple(Symbol(f"d{n}") for n in sorted(sizes)), (), (("", opset),),
        (Node((0,), "", op),), tuple(params), graph,
    )  # fmt: skip
    walk = Walk(module, context.params, {v.name: v.type for v in formals})
    for leaf_op in ops:
        walk.visit(leaf_op)
    row = find(*operator_name(node))
    assert row is not None, op
    view = walk.view(node)
    types = row.infer(view)
    typed = replace(
        node, outputs=tuple(Value(v.name, t) for v, t in zip(results, types, strict=True))
    )
    return replace(
        module,
        guards=tuple(dict.fromkeys(view.guards)),
        graph=replace(graph, ops=(*ops, typed)),
    )


def decomposed(module: Module, context: Context) -> Module:
    """After `decompose`, whose events replay; the result verifies and holds no ONNX node."""
    result = Decompose().run(module, context)
    assert fold(module, result.events) == result.module
    verify(result.module)
    assert all(op.family != "onnx" for op in result.module.graph.ops)
    return result.module


def compiled(
    op: str,
    opset: int,
    inputs: Sequence[Input],
    attributes: Mapping[str, Attribute] | None = None,
    outputs: int = 1,
    symbolic: bool = False,
) -> list[Array]:
    """The results through infer, decompose and the tensor interpreter.

    The types of the decomposed graph are those that `infer` told, and no library step is left.
    """
    context = Context()
    module = module_of(op, opset, inputs, attributes or {}, outputs, symbolic, context)
    after = decomposed(module, context)
    assert all(o.kind != "extern" for o in after.graph.ops), f"{op} is left to the library"
    before_types, after_types = module.graph.types(), after.graph.types()
    for old, new in zip(module.graph.outputs, after.graph.outputs, strict=True):
        assert before_types[old].dtype is after_types[new].dtype
        assert before_types[old].rank == after_types[new].rank
    feeds = {f"x{k}": x for k, x in enumerate(inputs) if isinstance(x, np.ndarray)}
    with np.errstate(all="ignore"):
        found = run_graph(after, feeds, context.params)
    return [found[f"y{k}"] for k in range(outputs)]


def node_model(
    op: str,
    opset: int,
    inputs: Sequence[Input],
    attributes: Mapping[str, Attribute] | None = None,
    outputs: int = 1,
) -> tuple[ModelProto, dict[str, Array]]:
    """A model of one node whose inputs are all data, and what to feed it."""
    arrays = [array_of(x) for x in inputs]
    names = [f"x{k}" if x is not None else "" for k, x in enumerate(arrays)]
    made = {
        k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v
        for k, v in (attributes or {}).items()
    }
    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, names, results, **made)
    formals = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(names, arrays, strict=True)
        if x is not None
    ]
    outs = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in results]
    graph = helper.make_graph([node], "one", formals, outs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return model, {n: x for n, x in zip(names, arrays, strict=True) if x is not None}


def reference(
    op: str,
    opset: int,
    inputs: Sequence[Input],
    attributes: Mapping[str, Attribute] | None = None,
    outputs: int = 1,
) -> list[Array]:
    """The results of onnx's reference evaluator, put right."""
    model, feeds = node_model(op, opset, inputs, attributes, outputs)
    return evaluate(evaluator(model), feeds)


def onnxruntime(
    op: str,
    opset: int,
    inputs: Sequence[Input],
    attributes: Mapping[str, Attribute] | None = None,
    outputs: int = 1,
) -> list[Array]:
    """The results of ONNX Runtime, unoptimised."""
    import onnxruntime as ort

    model, feeds = node_model(op, opset, inputs, attributes, outputs)
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(f"y{k}") for k in range(outputs))
    model.ir_version = 9
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def assert_same(found: Sequence[Array], wanted: Sequence[Array], tolerance: float = 1e-5) -> None:
    """Equal dtypes and shapes; floats within `tolerance`, NaN equal to NaN; the rest exactly."""
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        else:
            np.testing.assert_array_equal(a, b)


# ---- strategies --------------------------------------------------------------------------------

SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], np.float32)

seeds = st.integers(0, 2**32 - 1)


def shapes(low: int = 0, high: int = 4, smallest: int = 0) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(smallest, 4), min_size=low, max_size=high).map(tuple)


def values(
    seed: int, shape: Sequence[int], dtype: str = "float32", special: bool = False
) -> Array:
    """Random elements; with `special` a third of the floats are zeros, infinities, NaN or ones."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("int"):
        return rng.integers(-9, 10, shape).astype(dtype)
    x = rng.standard_normal(shape).astype(dtype)
    if special:
        picked = rng.choice(SPECIAL, shape).astype(dtype)
        x = np.where(rng.random(shape) < 0.3, picked, x).astype(dtype)
    return np.asarray(x)


def broadcastable(draw: st.DrawFn, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape that broadcasts to `shape`: leading axes dropped, others set to 1."""
    drop = draw(st.integers(0, len(shape)))
    return tuple(1 if draw(st.booleans()) else n for n in shape[drop:])

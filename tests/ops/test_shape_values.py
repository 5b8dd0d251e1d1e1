"""Shape arithmetic: what the rows know of integers equals what the reference evaluator computes.

A chain of nodes is read once with symbolic dimensions; at several sizes the polynomials are
evaluated and compared with the run of the same chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx.defs
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from compiler.ir.dims import Symbol, dim
from compiler.ir.graph import Graph, Op, Param, Value
from compiler.ir.module import Module
from compiler.ir.types import UNKNOWN, Array, DType, ParamRef, TensorType, attrs
from compiler.ops.base import Known, Unsupported
from compiler.ops.shape_values import Walk, analyse, shape_values
from compiler.ops.table import OPERATORS, find
from compiler.ops.views import as_extern, onnx_form, operator_name
from compiler.passes.base import Context
from tests.ops.harness import Attribute, leaf

Step = tuple[str, str, Mapping[str, Attribute]]
"""`("y", "Gather s k", {"axis": 0})`: result, operator and operands, attributes."""

SYMBOLIC = ("a", "b", 3)
SIZES = ({"a": 2, "b": 5}, {"a": 0, "b": 1}, {"a": 7, "b": 4})


def chain(
    steps: Sequence[Step], fixed: Mapping[str, Array], opset: int, shape=SYMBOLIC, library=False
) -> tuple[Module, Context]:
    """The module of a chain on `x: f32[a, b, 3]`, types inferred as far as they can be."""
    context = Context()
    params: list[Param] = []
    x = Value("x", TensorType(DType.f32, tuple(dim(d) for d in shape)))
    ops = [leaf(name, array, params, context) for name, array in fixed.items()]
    symbols = tuple(Symbol(d) for d in shape if isinstance(d, str))
    module = Module("chain", symbols, (), (("", opset),), (), (), Graph((x,), (), ()))
    for k, (result, call, attributes) in enumerate(steps):
        op, *operands = call.split()
        made = {}
        for name, value in attributes.items():
            if isinstance(value, np.ndarray):
                params.append(Param(f"{result}.{name}", leaf("t", value, [], context).type,
                                    context.params.add(value)))
                made[name] = ParamRef(f"{result}.{name}")
            else:
                made[name] = value if isinstance(value, int | str) else tuple(value)
        names = tuple(None if n == "_" else n for n in operands)
        node = Op(f"onnx.{op}", names, (Value(result, UNKNOWN),), attrs(**made), (),
                  frozenset({(k,)}))
        ops.append(as_extern(node, opset) if library else node)
    module = replace(module, params=tuple(params))
    walk = Walk(module, context.params, {"x": x.type})
    typed: list[Op] = []
    for op in ops:
        node = onnx_form(op)
        if node is not None:
            row = find(*operator_name(node))
            assert row is not None, node.kind
            types = row.infer(walk.view(op))
            op = replace(op, outputs=(Value(op.key, types[0]),))
        walk.visit(op)
        typed.append(op)
    last = typed[-1].key
    return replace(module, graph=Graph((x,), (last,), tuple(typed), (last,))), context


def run(
    steps: Sequence[Step], fixed: Mapping[str, Array], opset: int, x: Array
) -> list[Array]:
    """Every result of the chain by the reference evaluator."""
    nodes = []
    for result, call, attributes in steps:
        op, *operands = call.split()
        made = {
            k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v
            for k, v in attributes.items()
        }
        names = ["" if n == "_" else n for n in operands]
        nodes.append(helper.make_node(op, names, [result], **made))
    weights = [numpy_helper.from_array(a, n) for n, a in fixed.items()]
    formal = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    outs = [helper.make_tensor_value_info(s[0], TensorProto.UNDEFINED, None) for s in steps]
    graph = helper.make_graph(nodes, "chain", [formal], outs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return ReferenceEvaluator(model).run(None, {"x": x})


def evaluate(known: Known, sizes: Mapping[str, int]) -> list[int]:
    assert all(g.holds(sizes) for g in known.guards)
    return [d.evaluate(sizes) for d in known.elements]


def i64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


ZERO, ONE, TWO, THREE = (np.array(n, np.int64) for n in range(4))

CHAINS: list[tuple[str, int, list[Step], dict[str, Array]]] = [
    ("flatten as exported", 13, [
        ("s", "Shape x", {}), ("n", "Gather s zero", {"axis": 0}),
        ("u", "Unsqueeze n axes", {}), ("t", "Concat u rest", {"axis": 0}),
    ], {"zero": ZERO, "axes": i64(0), "rest": i64(-1)}),
    ("flatten as exported, old", 11, [
        ("s", "Shape x", {}), ("n", "Gather s zero", {}), ("u", "Unsqueeze n", {"axes": [0]}),
        ("t", "Concat u rest", {"axis": 0}),
    ], {"zero": ZERO, "rest": i64(-1)}),
    ("a slice, squeezed", 13, [
        ("s", "Shape x", {}), ("c", "Slice s from to", {}), ("n", "Squeeze c axes", {}),
    ], {"from": i64(1), "to": i64(2), "axes": i64(0)}),
    ("a slice with attributes", 9, [
        ("s", "Shape x", {}), ("c", "Slice s", {"starts": [-2], "ends": [9223372036854775807]}),
    ], {}),
    ("a slice backward", 13, [
        ("s", "Shape x", {}), ("c", "Slice s from to axes by", {}),
    ], {"from": i64(-1), "to": i64(-4), "axes": i64(0), "by": i64(-1)}),
    ("products and quotients", 13, [
        ("s", "Shape x", {}), ("n", "ReduceProd s", {"keepdims": 0}), ("m", "Mul n two", {}),
        ("q", "Div m three", {}), ("r", "Mod q two", {}), ("d", "Sub q r", {}),
        ("e", "Neg d", {}), ("f", "Abs d", {}),
    ], {"two": TWO, "three": THREE}),
    ("size and square", 15, [
        ("n", "Size x", {}), ("m", "Pow n two", {}), ("k", "Add m one", {}),
    ], {"two": TWO, "one": ONE}),
    ("through int32 and float", 13, [
        ("s", "Shape x", {}), ("i", "Cast s", {"to": 6}), ("g", "Cast i", {"to": 1}),
        ("h", "Mul g scale", {}), ("f", "Floor h", {}), ("c", "Ceil f", {}),
        ("l", "Cast c", {"to": 7}), ("b", "Cast l", {"to": 7}), ("v", "Concat l l", {"axis": 0}),
    ], {"scale": np.array(2, np.float32)}),
    ("an expand target", 13, [
        ("s", "Shape x", {}), ("r", "Shape s", {}),
        ("ones", "ConstantOfShape r", {"value": i64(1)}),
        ("less", "Mul ones minus", {}), ("e", "Equal target less", {}),
        ("w", "Where e ones s", {}),
    ], {"minus": np.array(-1, np.int64), "target": i64(-1, 4, 3)}),
    ("logic", 16, [
        ("s", "Shape x", {}), ("k", "Add s one", {}), ("l", "Less s k", {}),
        ("g", "Greater s k", {}), ("le", "LessOrEqual s k", {}), ("ge", "GreaterOrEqual k s", {}),
        ("n", "Not l", {}), ("o", "Or l g", {}), ("an", "And l g", {}), ("w", "Where o s k", {}),
        ("mx", "Max s k", {}), ("mn", "Min s k", {}), ("t", "Cast k", {"to": 9}),
    ], {"one": ONE}),
    ("numbers in a row", 13, [
        ("r", "Range zero three one", {}), ("s", "Shape x", {}), ("t", "Gather s r", {}),
        ("m", "ReduceSum t", {"keepdims": 1}), ("f", "Reshape m flat", {}),
        ("e", "Expand f two", {}), ("i", "Identity e", {}), ("p", "Transpose i", {}),
    ], {"zero": ZERO, "three": THREE, "one": ONE, "flat": i64(-1), "two": i64(2)}),
]  # fmt: skip


@pytest.mark.parametrize("library", [False, True], ids=["nodes", "library steps"])
@pytest.mark.parametrize("title, opset, steps, fixed", CHAINS, ids=[c[0] for c in CHAINS])
def test_known_elements_are_what_a_run_gives(title, opset, steps, fixed, library):
    module, context = chain(steps, fixed, opset, library=library)
    known = analyse(module, context.params)
    for sizes in SIZES:
        results = run(steps, fixed, opset, np.zeros((sizes["a"], sizes["b"], 3), np.float32))
        for (name, _, _), result in zip(steps, results, strict=True):
            assert name in known, name
            assert evaluate(known[name], sizes) == np.asarray(result).reshape(-1).tolist(), name
            t = module.graph.types()[name]
            assert [d.evaluate(sizes) for d in t.dims] == list(np.shape(result))


def test_only_compiled_types_are_shape_values():
    steps: list[Step] = [
        ("s", "Shape x", {}), ("g", "Cast s", {"to": 11}), ("k", "Cast g", {"to": 7}),
    ]  # fmt: skip
    module, context = chain(steps, {}, 13)
    assert set(shape_values(module, context.params)) == {"s", "k"}
    assert shape_values(module, context.params)["k"] == tuple(dim(d) for d in SYMBOLIC)


def test_what_data_decide_is_not_known():
    steps: list[Step] = [
        ("s", "Shape x", {}), ("e", "Equal s one", {}), ("f", "Cast s", {"to": 1}),
        ("h", "Mul f half", {}), ("l", "Floor h", {}),
    ]  # fmt: skip
    module, context = chain(steps, {"one": i64(1, 1, 1), "half": np.array(0.5, np.float32)}, 13)
    known = shape_values(module, context.params)
    assert "e" not in known  # a may be 1 or not
    assert "h" not in known and "l" not in known


def test_float_weights_are_not_known():
    steps: list[Step] = [("t", "Add w w", {})]
    module, context = chain(steps, {"w": np.array([1, 2], np.float32)}, 13)
    assert not shape_values(module, context.params)


def test_a_float_is_known_within_a_guard():
    steps: list[Step] = [
        ("n", "Size x", {}), ("f", "Cast n", {"to": 1}), ("k", "Cast f", {"to": 7}),
    ]  # fmt: skip
    module, context = chain(steps, {}, 13)
    (guard,) = analyse(module, context.params)["k"].guards
    assert guard.holds({"a": 1000, "b": 1000})
    assert not guard.holds({"a": 10000, "b": 1000})


def test_reading_a_float_at_run_time_needs_no_guard():
    steps: list[Step] = [("n", "Size x", {}), ("f", "Cast n", {"to": 1}), ("y", "Div x f", {})]
    module, context = chain(steps, {}, 13)
    walk = Walk(module, context.params, {"x": module.graph.inputs[0].type})
    for op in module.graph.ops[:-1]:
        walk.visit(op)
    view = walk.view(module.graph.ops[-1])
    row = find("", "Div")
    assert row is not None
    row.infer(view)
    assert view.guards == []


def test_integers_wrap_as_their_dtype_does():
    steps: list[Step] = [("y", "Add big big", {})]
    for dtype in (np.int32, np.int64):
        big = np.array(np.iinfo(dtype).max, dtype)
        module, context = chain(steps, {"big": big}, 13)
        known = shape_values(module, context.params)
        assert known["y"] == (dim(-2),)


# ---- types -------------------------------------------------------------------------------------

INFERRED: list[tuple[str, int, Step, dict[str, Array]]] = [
    ("gather", 13, ("y", "Gather x k", {"axis": 1}), {"k": i64(0, 0)}),
    ("gather one", 13, ("y", "Gather x k", {"axis": -1}), {"k": ONE}),
    ("concat", 13, ("y", "Concat x x", {"axis": 1}), {}),
    ("unsqueeze", 13, ("y", "Unsqueeze x k", {}), {"k": i64(0, -1)}),
    ("unsqueeze 11", 11, ("y", "Unsqueeze x", {"axes": [1, 4]}), {}),
    ("slice", 13, ("y", "Slice x from to axes by", {}),
     {"from": i64(0, 1), "to": i64(2**63 - 1, 3), "axes": i64(1, 2), "by": i64(2, 1)}),
    ("slice from the end", 13, ("y", "Slice x from to axes", {}),
     {"from": i64(-2), "to": i64(-1), "axes": i64(2)}),
    ("slice backward", 13, ("y", "Slice x from to axes by", {}),
     {"from": i64(-1), "to": i64(-9), "axes": i64(2), "by": i64(-2)}),
    ("expand", 13, ("y", "Expand x k", {}), {"k": i64(2, 1, 1, 1)}),
    ("reduce", 18, ("y", "ReduceMin x k", {"keepdims": 0}), {"k": i64(0, -1)}),
    ("constant of shape", 13, ("y", "ConstantOfShape k", {}), {"k": i64(2, 3)}),
    ("range", 13, ("y", "Range a b c", {}),
     {k: np.array(v, np.float32) for k, v in {"a": 0.5, "b": 2, "c": 0.4}.items()}),
]  # fmt: skip


@pytest.mark.parametrize("title, opset, step, fixed", INFERRED, ids=[c[0] for c in INFERRED])
def test_types_of_library_steps(title, opset, step, fixed):
    module, _ = chain([step], fixed, opset)
    t = module.graph.types()["y"]
    for sizes in SIZES:
        (result,) = run([step], fixed, opset, np.zeros((sizes["a"], sizes["b"], 3), np.float32))
        assert [d.evaluate(sizes) for d in t.dims] == list(np.shape(result))
        assert t.element is DType.of(result.dtype)


def test_a_slice_of_a_symbolic_extent_rests_on_guards():
    fixed = {"from": i64(1), "to": i64(-1), "axes": i64(0)}
    step: Step = ("y", "Slice x from to axes", {})
    module, context = chain([step], fixed, 13)
    walk = Walk(module, context.params, dict(module.graph.types()))
    for op in module.graph.ops[:-1]:
        walk.visit(op)
    view = walk.view(module.graph.ops[-1])
    row = find("", "Slice")
    assert row is not None
    assert [str(d) for d in row.infer(view)[0].dims] == ["a-2", "b", "3"]
    assert all(g.holds({"a": 2, "b": 1}) for g in view.guards)
    assert not all(g.holds({"a": 1, "b": 1}) for g in view.guards)


@pytest.mark.parametrize(
    "step, fixed, message",
    [
        (("y", "Reshape x k", {}), {"k": i64(0, 0, 0, 0)}, "break.reshape"),
        (("y", "Reshape x k", {}), {"k": i64(-1, -1)}, "break.reshape"),
        (("y", "Squeeze x", {}), {}, "break.squeeze"),
        (("y", "Transpose x", {"perm": [0, 0, 1]}), {}, "break.perm"),
        (("y", "Gather x k", {"axis": 3}), {"k": ZERO}, "break.axis"),
        (("y", "Unsqueeze x k", {}), {"k": i64(0, 0)}, "break.axis"),
        (("y", "Concat x x", {}), {}, "break.attribute-missing"),
        (("y", "Slice x from to axes by", {}),
         {"from": i64(-1), "to": i64(0), "axes": i64(0), "by": i64(0)}, "break.slice"),
        (("y", "Range a b c", {}), {"a": ZERO, "b": ONE, "c": ZERO}, "break.range"),
        (("y", "Cast x", {"to": 99}), {}, "break.dtype"),
        (("y", "MatMul x k", {}), {"k": np.array(1, np.float32)}, "break.matmul-scalar"),
        (("y", "Gemm x x", {}), {}, "break.gemm-rank"),
    ],
)  # fmt: skip
def test_forms_that_have_no_type_say_why(step, fixed, message):
    with pytest.raises(Unsupported) as error:
        chain([step], fixed, 13)
    assert error.value.message == message


@pytest.mark.parametrize(
    "op, bound, larger, smaller",
    [("Max", 5, 9, 3), ("Min", 5, 4, 6)],
)
def test_a_clamped_size_lies_within_its_clamp(op, bound, larger, smaller):
    """And a size that shrinks has reached it: max(5 - a, 0) is 0."""
    steps: list[Step] = [
        ("s", "Shape x", {}), ("a", "Gather s zero", {"axis": 0}), ("y", f"{op} a k", {}),
        ("left", "Sub k a", {}), ("pad", "Max left zero", {}),
    ]
    if op == "Min":
        steps = steps[:3]
    module, context = chain(steps, {"zero": ZERO, "k": np.array(bound, np.int64)}, 13)
    known = analyse(module, context.params)
    assert [str(d) for d in known["y"].elements] == ["a"]
    guards = known["y"].guards
    if op == "Max":
        assert known["pad"].elements == (dim(0),)
        guards += known["pad"].guards
    assert {g.reason for g in guards} == {"guard.clamp"}
    assert all(g.holds({"a": larger}) for g in guards)
    assert not any(g.holds({"a": smaller}) for g in guards)


def test_a_bound_without_end_takes_all_of_a_symbolic_extent():
    fixed = {"from": i64(1), "to": i64(10**9), "axes": i64(0)}
    module, context = chain([("y", "Slice x from to axes", {})], fixed, 13)
    walk = Walk(module, context.params, {v.name: v.type for v in module.graph.inputs})
    for op in module.graph.ops[:-1]:
        walk.visit(op)
    view = walk.view(module.graph.ops[-1])
    row = find("", "Slice")
    assert row is not None
    assert [str(d) for d in row.infer(view)[0].dims] == ["a-1", "b", "3"]
    assert all(g.holds({"a": 7}) for g in view.guards)
    assert not all(g.holds({"a": 10**9 + 1}) for g in view.guards)


# ---- the table ---------------------------------------------------------------------------------


@pytest.mark.parametrize("row", OPERATORS, ids=lambda row: row.name)
def test_versions_are_those_of_the_standard(row):
    history = {
        s.since_version
        for s in onnx.defs.get_all_schemas_with_history()
        if s.name == row.name and s.domain == row.domain
    }
    assert set(row.versions) == {k for k in history if k <= max(row.versions)}
    assert find(row.domain, row.name) is row


def test_names_are_unique_and_both_spellings_of_the_domain_agree():
    assert len({(row.domain, row.name) for row in OPERATORS}) == len(OPERATORS)
    assert find("ai.onnx", "Add") is find("", "Add")
    assert find("com.microsoft", "Add") is None

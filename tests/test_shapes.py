"""Shapes: ranks 0 to 5, extents 0 and 1, broadcasting from both sides, views, products, reductions.

Each model goes through both pipelines and the plan interpreter; one group of them also through
machine code. The reference is float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import compiler
from compiler.errors import GuardError, ModelError
from compiler.ir.types import Array
from tests.frontend.models import I64, data, info, model, node
from tests.whole import (
    PIPELINES,
    Whole,
    assert_near,
    assert_records,
    float64,
    model_of,
)

SYMBOLS = {2: "a", 3: "b", 4: "c", 5: "d"}
"""A symbol for each extent, so that equal extents have one symbol and guards are none."""


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).uniform(-2, 2, shape).astype(np.float32)


def symbolic(shape: Sequence[int]) -> list[int | str]:
    return [SYMBOLS.get(n, n) for n in shape]


def check(
    proto: ModelProto, inputs: dict[str, Array], tolerance: float = 1e-5, engine: bool = False
) -> Whole:
    """Right in both pipelines; the last trace."""
    loaded = model_of(proto)
    wanted = float64(loaded, inputs)
    for base in PIPELINES:
        whole = Whole(loaded, base)
        assert_records(whole.trace.records)
        assert_near(whole.run(inputs), wanted, tolerance)
        if engine:
            found = compiler.compile(loaded, pipeline=base).engine.run(inputs)
            assert_near(found, wanted, tolerance)
    return Whole(loaded)


# ---- broadcasting --------------------------------------------------------------------------------

LEFT = [(), (1,), (3,), (1, 1), (2, 1), (2, 3), (2, 1, 3), (1, 4, 1), (2, 4, 3), (5, 1, 4, 1),
        (2, 1, 1, 4, 3), (1, 5, 1, 1, 1)]  # fmt: skip
RIGHT = [(), (1,), (3,), (2, 3), (4, 1), (5, 2, 4, 3), (2, 5, 1, 1, 3)]


def fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("right", RIGHT, ids=str)
def test_broadcasting_from_both_sides(right: tuple[int, ...]) -> None:
    for left in LEFT:
        if not fits(left, right):
            continue
        nodes = [node("Add", ["x", "y"], ["s"]), node("Tanh", ["s"], ["t"]),
                 node("Mul", ["t", "x"], ["z"])]  # fmt: skip
        source = model(
            nodes, [info("x", symbolic(left)), info("y", symbolic(right))], ["z", "s"]
        )
        check(source, {"x": floats(*left), "y": floats(*right, seed=1)})


def test_broadcasting_through_machine_code() -> None:
    """Every access pattern in one model: a row, a column, a scalar, a middle axis, an outer one."""
    shapes = {"row": (4,), "column": (3, 1), "one": (), "middle": (2, 1, 4), "outer": (2, 1, 1),
              "unit": (1, 1, 1)}  # fmt: skip
    nodes, last = [], "x"
    for k, name in enumerate(shapes):
        nodes.append(node(("Add", "Mul", "Sub", "Max")[k % 4], [last, name], [f"t{k}"]))
        last = f"t{k}"
    inputs = {"x": (2, 3, 4), **shapes}
    source = model(nodes, [info(n, symbolic(s)) for n, s in inputs.items()], [last])
    whole = check(source, {n: floats(*s) for n, s in inputs.items()}, engine=True)
    assert whole.trace.final.plan is not None and whole.trace.final.plan.launches() == 1


def test_a_symbol_may_be_1_or_0_at_run_time() -> None:
    """Where two symbols meet they must be equal, also when one of them is 1: never by `max`."""
    source = model(
        [node("Add", ["x", "y"], ["z"])], [info("x", ["n", "m"]), info("y", ["k", "m"])], ["z"]
    )
    for shape in ((1, 1), (1, 3), (0, 3), (3, 0), (0, 0)):
        check(source, {"x": floats(*shape), "y": floats(*shape)})
    whole = Whole(source)
    for rows in ((3, 1), (1, 3), (0, 1)):
        with pytest.raises(GuardError, match="n == k"):
            whole.run({"x": floats(rows[0], 2), "y": floats(rows[1], 2)})


def test_a_declared_1_broadcasts_and_a_constant_decides_a_symbol() -> None:
    nodes = [node("Add", ["x", "y"], ["z"])]
    check(model(nodes, [info("x", ["n", 1]), info("y", [1, "m"])], ["z"]),
          {"x": floats(0, 1), "y": floats(1, 3)})  # fmt: skip
    source = model(nodes, [info("x", ["n"]), info("y", [3])], ["z"])
    check(source, {"x": floats(3), "y": floats(3)})
    with pytest.raises(GuardError, match="n == 3"):
        Whole(source).run({"x": floats(1), "y": floats(3)})
    with pytest.raises(ModelError, match="dimensions 2 and 3 do not fit"):
        Whole(model(nodes, [info("x", [2]), info("y", [3])], ["z"]))


# ---- reductions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_reductions_over_any_axes(rank: int, keep: int) -> None:
    """Leading, middle, trailing, all; and none named, which means all."""
    x = floats(*(2, 3, 4, 2)[:rank])
    names = ["p", "q", "r", "s"][:rank]
    for count in range(rank + 1):
        for axes in combinations(range(rank), count):
            named = {"axes": [a - rank for a in axes]} if axes else {}
            extra = ["axes"] if axes else []
            weights = {"axes": np.array(axes, np.int64)} if axes else {}
            nodes = [
                node("ReduceSum", ["x", *extra], ["sum"], keepdims=keep),
                node("ReduceMax", ["x"], ["max"], keepdims=keep, **named),
                node("ReduceMean", ["x"], ["mean"], keepdims=keep, **named),
            ]
            outputs = ["sum", "max", "mean"]
            if keep:  # and back against what was reduced
                nodes += [node("Sub", ["x", "max"], ["d"]), node("Mul", ["d", "mean"], ["y"])]
                outputs.append("y")
            check(model(nodes, [info("x", names)], outputs, weights, opset=13), {"x": x})


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1), (1, 2), (0, 1, 2)], ids=str)
def test_normalising_along_any_axes(axes: tuple[int, ...]) -> None:
    """Two reductions and what stands between them, through machine code."""
    nodes = [
        node("ReduceMean", ["x"], ["m"], axes=list(axes)),
        node("Sub", ["x", "m"], ["d"]),
        node("Mul", ["d", "d"], ["q"]),
        node("ReduceMean", ["q"], ["v"], axes=list(axes)),
        node("Add", ["v", "eps"], ["w"]),
        node("Sqrt", ["w"], ["r"]),
        node("Div", ["d", "r"], ["y"]),
    ]
    weights = {"eps": np.float32(1e-5)}
    source = model(nodes, [info("x", ["p", "q", "r"])], ["y", "m"], weights)
    check(source, {"x": floats(3, 4, 5)}, 1e-5, engine=axes in ((0,), (1, 2), (0, 2)))


# ---- products ------------------------------------------------------------------------------------

PRODUCTS = [
    ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((1, 2, 3), (5, 3, 4)), ((5, 2, 3), (1, 3, 4)),
    ((2, 5, 2, 3), (5, 3, 4)), ((3,), (5, 3, 4)), ((5, 2, 3), (3,)), ((2, 1, 2, 3), (1, 5, 3, 4)),
    ((0, 3), (3, 4)), ((2, 0), (0, 4)), ((5, 0, 3), (3, 4)), ((2, 1, 2, 2, 3), (3, 2, 3, 4)),
    ((1, 3), (3, 1)), ((1, 1), (1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), PRODUCTS, ids=str)
def test_products_of_any_ranks(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    nodes = [node("MatMul", ["x", "y"], ["m"]), node("Relu", ["m"], ["z"])]
    for shape in (symbolic, list):
        source = model(nodes, [info("x", shape(left)), info("y", shape(right))], ["z"])
        check(source, {"x": floats(*left), "y": floats(*right)})


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_gemm_in_every_form(trans_a: int, trans_b: int) -> None:
    a, b = floats(*((3, 2) if trans_a else (2, 3))), floats(*((4, 3) if trans_b else (3, 4)))
    for alpha, beta in ((1.0, 1.0), (0.5, 2.0), (1.0, 0.0), (0.0, 1.0)):
        for bias in (None, (), (1,), (4,), (1, 4), (2, 1), (2, 4), (1, 1)):
            inputs = {"a": a, "b": b}
            types = [info("a", ["p", "q"]), info("b", ["u", "v"])]
            if bias is not None:
                inputs["c"] = floats(*bias)
                types.append(info("c", list(bias)))
            gemm = node(
                "Gemm", list(inputs), ["y"], alpha=alpha, beta=beta, transA=trans_a, transB=trans_b
            )
            check(model([gemm], types, ["y"], opset=11), inputs)


# ---- views ---------------------------------------------------------------------------------------

RESHAPES = [
    ((2, 3, 4), [0, -1], 0), ((2, 3, 4), [-1], 0), ((2, 3, 4), [4, -1, 2], 0),
    ((2, 3, 4), [0, 0, 0], 0), ((2, 3, 4), [-1, 0], 0), ((0, 3), [0, -1], 0), ((0, 3), [3, 0], 1),
    ((2, 0, 3), [0, 3, 0], 1), ((1, 1, 1), [], 0), ((6,), [2, 3], 0),
    ((2, 3, 4), [1, 2, 1, 12, 1], 0), ((0, 4), [0, 2, 2], 0), ((5,), [-1, 1], 0),
    ((0, 6), [0, 2, -1], 0),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "target", "allowzero"), RESHAPES, ids=str)
def test_reshapes(shape: tuple[int, ...], target: list[int], allowzero: int) -> None:
    """From a constant target, over symbols and not; and from one that only data tell."""
    nodes = [node("Reshape", ["x", "t"], ["y"], allowzero=allowzero), node("Neg", ["y"], ["z"])]
    wanted = np.array(target, np.int64)
    x = floats(*shape)
    check(model(nodes, [info("x", list(shape))], ["z"], {"t": wanted}, opset=14), {"x": x})
    if not allowzero:
        names = ["p", "q", "r"][: len(shape)]
        check(model(nodes, [info("x", names)], ["z"], {"t": wanted}, opset=14), {"x": x})
    types = [info("x", list(shape)), info("t", [len(target)], I64)]
    check(model(nodes, types, ["z"], opset=14), {"x": x, "t": wanted})


@pytest.mark.parametrize(
    ("names", "target", "fitting", "others"),
    [
        (["n", 6], [-1, 4], [(2, 6), (4, 6), (0, 6)], [(1, 6), (3, 6)]),
        (["n", "m"], [-1, 2], [(2, 3), (1, 2), (0, 5)], [(3, 3)]),
        (["n", "m"], [2, -1], [(2, 3), (4, 1)], [(3, 3)]),
        (["n"], [2, -1, 3], [(6,), (12,), (0,)], [(5,)]),
        (["n", "m"], [2, 3], [(2, 3), (3, 2), (6, 1)], [(1, 1), (0, 3)]),
        (["n", "m"], [-1, 0], [(2, 3), (3, 3), (4, 2)], []),
    ],
    ids=str,
)
def test_reshapes_that_fit_some_sizes_only(
    names: list[int | str],
    target: list[int],
    fitting: list[tuple[int, ...]],
    others: list[tuple[int, ...]],
) -> None:
    """What cannot be known beforehand is a guard: right where it holds, a clear error elsewhere."""
    nodes = [node("Reshape", ["x", "t"], ["y"]), node("Tanh", ["y"], ["z"])]
    source = model(nodes, [info("x", names)], ["z"], {"t": np.array(target, np.int64)})
    whole = Whole(source)
    engine = compiler.compile(whole.model).engine
    for shape in fitting:
        x = {"x": floats(*shape)}
        wanted = float64(whole.model, x)
        assert_near(whole.run(x), wanted)
        assert_near(engine.run(x), wanted)
    for shape in others:
        for run in (whole.run, engine.run):
            with pytest.raises(GuardError, match="n0"):
                run({"x": floats(*shape)})


def attention(heads: int = 2, size: int = 4) -> ModelProto:
    """A transformer block over [batch, seq, heads*size], its shapes computed as exporters do."""
    width = heads * size
    weights: dict[str, Array] = {
        "wq": floats(width, width), "wk": floats(width, width, seed=1),
        "wv": floats(width, width, seed=2), "wo": floats(width, width, seed=3),
        "gamma": floats(width), "beta": floats(width, seed=1),
        "w1": floats(width, 4 * width), "b1": floats(4 * width), "w2": floats(4 * width, width),
        "scale": np.array(size**-0.5, np.float32), "root": np.array(2**0.5, np.float32),
        "one": np.array(1, np.float32), "half": np.array(0.5, np.float32),
        **{f"i{k}": np.array([k], np.int64) for k in range(3)},
        "heads": np.array([heads], np.int64), "size": np.array([size], np.int64),
        "rest": np.array([-1], np.int64),
    }  # fmt: skip
    nodes = [
        node("LayerNormalization", ["x", "gamma", "beta"], ["n"], axis=-1),
        node("Shape", ["x"], ["s"]),
        node("Slice", ["s", "i0", "i1"], ["sb"]),
        node("Slice", ["s", "i1", "i2"], ["st"]),
        node("Concat", ["sb", "st", "heads", "size"], ["split"], axis=0),
        node("Concat", ["sb", "st", "rest"], ["join"], axis=0),
    ]
    for q in "qkv":
        nodes += [
            node("MatMul", ["n", f"w{q}"], [f"{q}m"]),
            node("Reshape", [f"{q}m", "split"], [f"{q}r"]),
            node("Transpose", [f"{q}r"], [q], perm=[0, 2, 3, 1] if q == "k" else [0, 2, 1, 3]),
        ]
    nodes += [
        node("MatMul", ["q", "k"], ["qk"]),
        node("Mul", ["qk", "scale"], ["scaled"]),
        node("Add", ["scaled", "mask"], ["masked"]),
        node("Softmax", ["masked"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["o"]),
        node("Transpose", ["o"], ["ot"], perm=[0, 2, 1, 3]),
        node("Reshape", ["ot", "join"], ["oj"]),
        node("MatMul", ["oj", "wo"], ["ow"]),
        node("Add", ["ow", "x"], ["r"]),
        node("MatMul", ["r", "w1"], ["f1"]),
        node("Add", ["f1", "b1"], ["f"]),
        node("Div", ["f", "root"], ["g1"]),
        node("Erf", ["g1"], ["g2"]),
        node("Add", ["g2", "one"], ["g3"]),
        node("Mul", ["f", "g3"], ["g4"]),
        node("Mul", ["g4", "half"], ["g"]),
        node("MatMul", ["g", "w2"], ["f2"]),
        node("Add", ["f2", "r"], ["y"]),
    ]
    types = [info("x", ["batch", "seq", width]), info("mask", ["batch", 1, 1, "seq"])]
    return model(nodes, types, ["y", "p"], weights)


def test_a_transformer_block_at_any_batch_and_length() -> None:
    loaded = model_of(attention())
    for base in PIPELINES:
        whole, one = Whole(loaded, base), compiler.compile(loaded, pipeline=base)
        assert not one.trace.breaks() and not whole.module.guards
        for batch, length in ((2, 5), (1, 1), (0, 3), (3, 0)):
            inputs = {
                "x": floats(batch, length, 8),
                "mask": np.where(floats(batch, 1, 1, length) > 1, -1e9, 0).astype(np.float32),
            }
            wanted = float64(loaded, inputs)
            assert_near(whole.run(inputs), wanted)
            assert_near(one.engine.run(inputs), wanted)


def test_views_of_views_and_views_as_outputs() -> None:
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Reshape", ["r", "flat"], ["y"]),
        node("Reshape", ["r", "units"], ["z"]),
        node("Transpose", ["z"], ["p"], perm=[2, 0, 1]),
        node("Flatten", ["p"], ["f"], axis=2),
        node("Neg", ["f"], ["n"]),
        node("Reshape", ["x", "flat"], ["w"]),
    ]
    weights = {"flat": np.array([-1], np.int64), "units": np.array([1, 0, -1], np.int64)}
    source = model(nodes, [info("x", ["a", "b"])], ["r", "y", "z", "p", "f", "n", "w"], weights)
    check(source, {"x": floats(2, 3)}, engine=True)
    check(source, {"x": floats(0, 3)})


# ---- what comes in and what goes out -------------------------------------------------------------


def test_outputs_of_every_kind() -> None:
    """Inputs, weights, constants, shapes, one value under several names, a value in between."""
    nodes = [
        node("Identity", ["x"], ["same"]),
        node("Identity", ["x"], ["again"]),
        node("Relu", ["x"], ["r"]),
        node("Identity", ["r"], ["r2"]),
        node("Exp", ["r"], ["e"]),
        node("Shape", ["x"], ["s"]),
        node("Shape", ["w"], ["ws"]),
        node("Constant", [], ["k"], value=helper.make_tensor("v", TensorProto.FLOAT, [2], [1, 2])),
        node("Constant", [], ["k0"], value_int=7),
        node("Identity", ["w"], ["w2"]),
        node("Transpose", ["w"], ["wt"]),
        node("Cast", ["s"], ["sf"], to=TensorProto.FLOAT),
        node("ReduceMean", ["sf"], ["sm"]),
    ]
    outputs = ["same", "again", "r", "r2", "e", "s", "ws", "k", "k0", "w2", "wt", "w", "x", "sm"]
    source = model(nodes, [info("x", ["a", "b"]), info("unused", ["q", 2])], outputs,
                   {"w": floats(3, 2)})  # fmt: skip
    check(source, {"x": floats(2, 3), "unused": floats(4, 2)}, engine=True)
    check(source, {"x": floats(0, 1), "unused": floats(0, 2)})


def test_results_share_no_memory_with_inputs_or_each_other() -> None:
    nodes = [node("Identity", ["x"], ["y"]), node("Identity", ["x"], ["z"]),
             node("Identity", ["w"], ["v"])]  # fmt: skip
    source = model(nodes, [info("x", ["n"])], ["y", "z", "v"], {"w": floats(4)})
    engine = compiler.compile(data(source)).engine
    x = floats(5)
    first = engine.run({"x": x})
    arrays = [x, *first.values()]
    assert not any(np.shares_memory(a, b) for a, b in combinations(arrays, 2))
    kept = first["v"].copy()
    for a in arrays:
        a[...] = 0  # the caller's now: nothing of it may be the engine's
    assert np.array_equal(engine.run({"x": floats(5)})["v"], kept)


def test_no_inputs_at_all() -> None:
    source = model([node("Constant", [], ["k"], value_float=2.5), node("Neg", ["k"], ["y"])], [],
                   ["y"])  # fmt: skip
    check(source, {}, engine=True)


def test_no_shapes_and_no_ranks() -> None:
    nodes = [node("Add", ["x", "y"], ["z"]), node("Relu", ["z"], ["w"])]
    unnamed = model(nodes, [info("x", [None, 3]), info("y", [None, 3])], ["w"])
    check(unnamed, {"x": floats(2, 3), "y": floats(2, 3)}, engine=True)
    unranked = model(nodes, [info("x"), info("y")], ["w"])
    whole = check(unranked, {"x": floats(2, 3), "y": floats(3)}, engine=True)
    assert {b.message for b in whole.trace.breaks()} == {"break.type-unknown"}


WORDS = ["a b", 'x"y', "ẩn", "λ→", "a/b:0", "%p", "@q", "{z}", "new\nline", "tab\t", '"', "\\",
         "for", "load", "params", "lo", "i", "0", "-1", "_", "r", "c", "n0", "y.1", "y.1.1", "x'",
         "日本", "a,b", "[k]", "a=b", "é", "#3", "//", "->"]  # fmt: skip


def test_names_may_be_anything() -> None:
    """Values, nodes and dimensions: quotes, blanks, other scripts, words of the languages below."""
    nodes, last = [], "in put"
    for k, word in enumerate(WORDS):
        op = ("Relu", "Neg", "Tanh", "Identity", "Exp")[k % 5]
        nodes.append(node(op, [last], [word], name=f"{word}!"))
        last = word
    source = model(nodes, [info("in put", ["batch size", '日"'])], [last, *WORDS[:12:3]])
    check(source, {"in put": floats(2, 3)}, engine=True)


@pytest.mark.parametrize("symbol", ["a b", "for", "n", "r", "x", "1x", 'q"', "日", "s.0", "lo"])
def test_dimensions_may_be_called_anything(symbol: str) -> None:
    nodes = [node("Add", ["x", "y"], ["z"]), node("ReduceSum", ["z"], ["s"], keepdims=1),
             node("Sub", ["z", "s"], ["o"])]  # fmt: skip
    source = model(nodes, [info("x", [symbol, 3]), info("y", [symbol, 3])], ["o"])
    check(source, {"x": floats(2, 3), "y": floats(2, 3)}, engine=symbol in ("for", "a b"))


def test_a_pipeline_may_name_any_value() -> None:
    source = model([node("Relu", ["x"], ['a+b "c"']), node("Neg", ['a+b "c"'], ["y,{z}"])],
                   [info("x", ["n"])], ["y,{z}"])  # fmt: skip
    text = r'default,partition-fallback{force=["a+b \"c\""]}'
    whole = Whole(source, text)
    assert [b.message for b in whole.trace.breaks()] == ["break.forced"]
    assert Whole(source, whole.trace.pipeline).trace.pipeline == whole.trace.pipeline
    x = floats(4)
    assert_near(whole.run({"x": x}), float64(whole.model, {"x": x}))


# ---- size ----------------------------------------------------------------------------------------


def test_a_chain_of_500_nodes() -> None:
    """Fused into kernels of at most 64 ops."""
    nodes, last = [], "x"
    for k in range(500):
        op = ("Neg", "Tanh", "Relu", "Sigmoid", "Erf")[k % 5]
        nodes.append(node(op, [last], [f"v{k}"]))
        last = f"v{k}"
    one = compiler.compile(data(model(nodes, [info("x", ["n"])], [last])))
    assert 500 / 64 <= one.engine.plan.launches() <= 10
    inputs = {"x": floats(7)}
    assert_near(one.engine.run(inputs), float64(one.model, inputs))


def test_150_inputs_added_up() -> None:
    """A kernel takes at most 16 arrays (R6), so a sum of many is several kernels."""
    names = [f"i{k}" for k in range(150)]
    nodes = [node("Sum", names, ["s"]), node("Add", ["i0", "i1"], ["a1"])]
    nodes += [node("Add", [f"a{k - 1}", f"i{k}"], [f"a{k}"]) for k in range(2, 150)]
    source = model(nodes, [info(n, ["n"]) for n in names], ["s", "a149"])
    whole = check(source, {n: floats(3, seed=k) for k, n in enumerate(names)})
    assert all(len(k.args) <= 16 for k in whole.module.kernels)


@pytest.mark.parametrize(("start", "end"), [(-1, -(10**8)), (10**8, -(10**8)), (10**8, 0)])
def test_a_backward_slice_far_beyond_the_ends_takes_what_is_there(start: int, end: int) -> None:
    bounds = {name: np.array([value], np.int64)
              for name, value in (("s", start), ("e", end), ("a", 0), ("k", -1))}  # fmt: skip
    nodes = [node("Slice", ["x", "s", "e", "a", "k"], ["y"])]
    proto = model(nodes, [info("x", ["n", 3])], ["y"], bounds)
    engine = compiler.compile(model_of(proto)).engine
    for n in (1, 5):
        x = floats(n, 3)
        assert np.array_equal(engine.run({"x": x})["y"], x[start:end:-1])

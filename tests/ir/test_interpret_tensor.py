"""The graph interpreter: one meaning per op, mixed levels, checked types, bound symbols."""

import numpy as np
import pytest

from compiler.ir.binding import GuardError, ShapeError
from compiler.ir.builder import Builder
from compiler.ir.dims import Guard, Symbol, dim
from compiler.ir.graph import Graph, Op, Value
from compiler.ir.interpret import InterpretError, captured, run_graph, run_op
from compiler.ir.module import Module
from compiler.ir.names import Names
from compiler.ir.params import ParamStore
from compiler.ir.parser import parse_module
from compiler.ir.types import (
    UNKNOWN,
    DType,
    ParamRef,
    Scalar,
    TensorType,
    attrs,
    tensor,
)

S = dim("s")


def f32(*values):
    return np.array(values, np.float32)


def one(kind, inputs, type, sizes=None, **attributes):
    """The result of a single op over arrays."""
    names = tuple(f"a{k}" for k in range(len(inputs)))
    op = Op(kind, names, (Value("y", type),), attrs(**attributes))
    (y,) = run_op(op, inputs, sizes)
    return y


def run(text, params=None, externs=None, **inputs):
    return run_graph(parse_module(text), inputs, params or ParamStore(), externs=externs)


# ---- single ops


def test_map_compare_select_broadcast_as_numpy():
    x, b = np.arange(6, dtype=np.float32).reshape(2, 3), f32(1, 2, 3)
    y = one("map.mul", [x, b], tensor(DType.f32, 2, 3))
    assert y.dtype == np.float32 and (y == x * b).all()
    p = one("compare.lt", [x, b], tensor(DType.bool, 2, 3))
    assert p.tolist() == [[True, True, True], [False, False, False]]
    y = one("select", [p, x, f32(-1)], tensor(DType.f32, 2, 3))
    assert y.tolist() == [[0, 1, 2], [-1, -1, -1]]
    assert one("map.exp", [f32(0)], tensor(DType.f32, 1)).tolist() == [1]
    assert one("map.add", [np.float32(1), np.float32(2)], tensor(DType.f32)).shape == ()


def test_cast_and_leaves():
    assert one("cast", [f32(2.9, -2.9)], tensor(DType.i64, 2), to=DType.i64).tolist() == [2, -2]
    c = one("const", [], tensor(DType.f32, 1, 1), value=Scalar.of(DType.f32, 0.1))
    assert c.shape == (1, 1) and c.dtype == np.float32 and c[0, 0] == np.float32(0.1)
    sizes = {"s": 4}
    d = one("dims", [], tensor(DType.i64, 3), sizes, values=(dim(2), S, 2 * S + 1))
    assert d.dtype == np.int64 and d.tolist() == [2, 4, 9]
    assert one("dims", [], tensor(DType.i64), sizes, values=(S,)) == 4
    y = one("iota", [], tensor(DType.i64, 2, "s"), sizes, axis=1)
    assert y.tolist() == [[0, 1, 2, 3]] * 2
    assert one("iota", [], tensor(DType.f32, 3), axis=0).dtype == np.float32


@pytest.mark.parametrize("name, wanted", [
    ("sum", [[6], [np.nan]]), ("prod", [[6], [np.nan]]),
    ("max", [[3], [np.nan]]), ("min", [[1], [np.nan]]),
])  # fmt: skip
def test_reduce_keeps_the_axis_and_nan(name, wanted):
    x = np.array([[1, 2, 3], [4, np.nan, 5]], np.float32)
    y = one(f"reduce.{name}", [x], tensor(DType.f32, 2, 1), axes=(1,))
    np.testing.assert_array_equal(y, f32(*wanted))


@pytest.mark.parametrize("dtype, wanted", [
    (DType.f32, [0, 1, -np.inf, np.inf]),
    (DType.i32, [0, 1, -(2**31), 2**31 - 1]),
    (DType.i64, [0, 1, -(2**63), 2**63 - 1]),
])  # fmt: skip
def test_reduce_of_nothing(dtype, wanted):
    x = np.zeros((2, 0), dtype.numpy())
    found = [
        one(f"reduce.{f}", [x], tensor(dtype, 2, 1), axes=(1,))
        for f in ("sum", "prod", "max", "min")
    ]
    assert [y.tolist() for y in found] == [[[w], [w]] for w in wanted]


def test_reduce_stays_in_its_dtype():
    y = one("reduce.sum", [np.full((1, 2), 2**30, np.int32)], tensor(DType.i32, 1, 1), axes=(1,))
    assert y.dtype == np.int32 and y.tolist() == [[-(2**31)]]


def test_views():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert (one("reshape", [x], tensor(DType.f32, 3, 2)) == x.reshape(3, 2)).all()
    y = one("permute", [x], tensor(DType.f32, 3, 2), perm=(1, 0))
    assert (y == x.T).all() and y.flags.c_contiguous
    y = one("expand", [f32(1, 2)], tensor(DType.f32, 2, 2))
    assert y.tolist() == [[1, 2], [1, 2]]
    y = one("copy", [x], tensor(DType.f32, 2, 3))
    assert (y == x).all() and not np.shares_memory(x, y)


def test_slice_with_symbolic_starts():
    x = np.arange(10, dtype=np.float32)
    y = one("slice", [x], tensor(DType.f32, "s"), {"s": 3}, starts=(S + 1,), steps=(2,))
    assert y.tolist() == [4, 6, 8]
    empty = one("slice", [x], tensor(DType.f32, 0), starts=(10,), steps=(1,))
    assert empty.shape == (0,)
    with pytest.raises(InterpretError, match="axis 0: 3 elements from 8 in steps of 1, of 10"):
        one("slice", [x], tensor(DType.f32, 3), starts=(8,), steps=(1,))


def test_permute_of_three_axes():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    y = one("permute", [x], tensor(DType.f32, 4, 2, 3), perm=(2, 0, 1))
    assert y[3, 1, 2] == x[1, 2, 3]


@pytest.mark.parametrize("kind", ["contract", "call.matmul"])
def test_contract(kind):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 5))
    y = one(
        kind,
        [a.astype(np.float32), b.astype(np.float32)],
        tensor(DType.f32, 2, 3, 5),
        spec="bmk,kn->bmn",
    )
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, a @ b, rtol=1e-5, atol=1e-6)
    ints = one(kind, [np.array([[1, 2]]), np.array([[3], [4]])], tensor(DType.i64, 1, 1),
               spec="mk,kn->mn")  # fmt: skip
    assert ints.tolist() == [[11]]
    none = one(kind, [np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)],
               tensor(DType.f32, 2, 3), spec="mk,kn->mn")  # fmt: skip
    assert none.tolist() == [[0] * 3] * 2


# ---- errors


def test_errors_name_the_op_and_its_origins():
    op = Op("map.add", ("x", "k"), (Value("y", tensor(DType.f32, 1)),), (), (), frozenset({(4,)}))
    with pytest.raises(InterpretError, match=r"%y = map.add @\[n4\]: add of float32 and int64"):
        run_op(op, [f32(1), np.array([1])])
    with pytest.raises(InterpretError, match=r"%y = map.nothing: no such function"):
        one("map.nothing", [f32(1)], tensor(DType.f32, 1))
    with pytest.raises(InterpretError, match=r"%y = magic: the tensor level has no such op"):
        one("magic", [], UNKNOWN)
    with pytest.raises(InterpretError, match="a library step, and no library"):
        one("onnx.Relu", [f32(1)], UNKNOWN)


def test_a_wrong_type_rule_is_seen():
    with pytest.raises(InterpretError, match="%y holds bool, declared f32"):
        one("compare.lt", [f32(1), f32(2)], tensor(DType.f32, 1))
    with pytest.raises(InterpretError, match=r"axis 0 of %y has extent 1, expected 2"):
        one("map.exp", [f32(1)], tensor(DType.f32, 2))
    with pytest.raises(InterpretError, match="expected 3"):
        one("map.add", [f32(1, 2), f32(1)], tensor(DType.f32, "s"), {"s": 3})


# ---- graphs

SOFTMAX = """module @softmax dims(s in [0,1024]) {
  graph (%x: f32[8,s]) -> (%y as probs) {
    %y = fused %x {
      %y.1 = reduce.max %x {axes=[1]} : f32[8,1]
      %y.2 = map.sub %x, %y.1         : f32[8,s]
      %y.3 = map.exp %y.2             : f32[8,s]
      %y.4 = reduce.sum %y.3 {axes=[1]} : f32[8,1]
      %y   = map.div %y.3, %y.4       : f32[8,s]
    } : f32[8,s]
  }
}"""

LAUNCHED = """module @softmax dims(s in [0,1024]) {
  graph (%x: f32[8,s]) -> (%y as probs) {
    %y = launch @k0 (%x) {r=8, c=s} : f32[8,s]
  }
  kernel @k0 (x: in f32[r,c], y: out f32[r,c]) {
    par i in r {
      acc m: f32 = -inf
      red j in c { m max= load x[i,j] }
      acc z: f32 = 0
      red j in c { let e = exp(load x[i,j] - m); store y[i,j] = e; z += e }
      vec j in c { store y[i,j] = load y[i,j] / z }
    }
  }
}"""


@pytest.mark.parametrize("s", [0, 1, 5])
def test_fused_and_launched_softmax_agree(s):
    x = np.random.default_rng(0).standard_normal((8, s)).astype(np.float32)
    (a,), (b,) = (run(text, x=x).values() for text in (SOFTMAX, LAUNCHED))
    assert a.shape == b.shape == (8, s)
    np.testing.assert_allclose(a, b, rtol=3e-7)
    if s:
        np.testing.assert_allclose(a.sum(axis=1), 1, rtol=1e-6)


def test_outputs_go_by_their_outside_names():
    assert run(SOFTMAX, x=np.zeros((8, 2), np.float32)).keys() == {"probs"}


def test_observe_sees_every_value_also_inside_regions():
    seen = {}
    run_graph(parse_module(SOFTMAX), {"x": np.zeros((8, 2), np.float32)}, ParamStore(),
              observe=lambda name, array: seen.setdefault(name, array.shape))  # fmt: skip
    assert seen == {
        "y.1": (8, 1), "y.2": (8, 2), "y.3": (8, 2), "y.4": (8, 1), "y": (8, 2),
    }  # fmt: skip


@pytest.mark.parametrize("text", [SOFTMAX, LAUNCHED])
def test_float64_precision(text):
    x = np.random.default_rng(0).standard_normal((8, 50)).astype(np.float32)
    y = run_graph(parse_module(text), {"x": x}, ParamStore(), precision="float64")["probs"]
    assert y.dtype == np.float64
    e = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-14)


def test_a_launch_reshapes_to_the_kernel_and_keeps_its_input():
    """Collapsed axes: the kernel sees one axis, the graph two; `inout` works on a copy."""
    text = """module @m {
      graph (%x: f32[r,c]) -> (%y) {
        %y = launch @k (%x) {n=c*r} : f32[r,c]
      }
      kernel @k (x: inout f32[n]) { par i in n { store x[i] = load x[i] + 1.0 } }
    }"""
    x = f32([1, 2], [3, 4])
    assert run(text, x=x)["y"].tolist() == [[2, 3], [4, 5]]
    assert x.tolist() == [[1, 2], [3, 4]]


def test_params_come_from_the_store():
    store = ParamStore()
    digest = store.add(f32(1, 2, 3))
    text = f"""module @m params(w: f32[3] "{digest}") {{
      graph (%x: f32[r,3]) -> (%y) {{
        %w = param @w : f32[3]
        %y = map.mul %x, %w : f32[r,3]
      }}
    }}"""
    assert run(text, store, x=f32([2, 2, 2]))["y"].tolist() == [[2, 4, 6]]
    op = parse_module(text).graph.ops[0]
    assert op.get("param") == ParamRef("w")


def test_byte_order_of_inputs_is_free():
    module = parse_module("""module @m {
      graph (%x: f32[s]) -> (%y) { %y = map.neg %x : f32[s] }
    }""")
    y = run_graph(module, {"x": f32(1, 2).astype(">f4")}, ParamStore())["y"]
    assert y.dtype == np.dtype(np.float32) and y.tolist() == [-1, -2]


def test_builder_ops_run():
    """Integration with `Builder`: layer normalisation written out."""
    b = Builder("y", Names(["x"]))
    x = Value("x", tensor(DType.f32, "r", "c"))
    mean = b.div(b.reduce("sum", x, [1]), b.cast(b.dim_scalar(b.extent(x, [1])), DType.f32))
    centred = b.sub(x, mean)
    variance = b.div(
        b.reduce("sum", b.mul(centred, centred), [1]),
        b.cast(b.dim_scalar(b.extent(x, [1])), DType.f32),
    )
    y = b.div(centred, b.map("sqrt", b.add(variance, b.scalar(1e-5, DType.f32))))
    module = Module("m", graph=Graph((x,), (y.name,), tuple(b.ops), ("y",)))
    data = np.random.default_rng(0).standard_normal((4, 16)).astype(np.float32)
    found = run_graph(module, {"x": data}, ParamStore())["y"]
    wide = data.astype(np.float64)
    wanted = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_symbols_and_guards_are_checked():
    x = Value("x", tensor(DType.f32, "r"))
    z = Value("z", tensor(DType.f32, "s"))
    y = Value("y", tensor(DType.f32, "r"))
    add = Op("map.add", ("x", "z"), (y,), (), (), frozenset({(0,)}))
    module = Module(
        "m", (Symbol("r", 1), Symbol("s")), (Guard(dim("r"), "==", S, (0,), "guard.broadcast"),),
        graph=Graph((x, z), ("y",), (add,), ("y",)),
    )  # fmt: skip
    ok = run_graph(module, {"x": f32(1, 2), "z": f32(3, 4)}, ParamStore())
    assert ok["y"].tolist() == [4, 6]
    with pytest.raises(GuardError, match="node n0 needs r == s"):
        run_graph(module, {"x": f32(1, 2), "z": f32(3)}, ParamStore())
    with pytest.raises(ShapeError, match=r"r .* is 0, expected 1 to"):
        run_graph(module, {"x": f32(), "z": f32()}, ParamStore())


class Nonzero:
    """A library of two functions: `extern` NonZero, and onnx.Add with an optional third input."""

    def __init__(self):
        self.calls = []

    def run(self, op, inputs, types):
        self.calls.append((op.kind, [None if x is None else x.shape for x in inputs], types))
        if op.kind == "extern":
            return [np.array(np.nonzero(inputs[0]))]
        return [sum(x for x in inputs if x is not None)]


def test_externs_and_sizes_from_data():
    text = """module @m guards(k <= s) {
      graph (%x: f32[s]) -> (%y) {
        %i = extern %x {op="onnx.NonZero", opset=17} : i64[1,k]
        %f = cast %i {to=f32} : f32[1,k]
        %n = dims {values=[k]} : i64[1]
        %m = cast %n {to=f32} : f32[1]
        %y = onnx.Add %f, _, %m : ?
      }
    }"""
    library = Nonzero()
    assert run(text, externs=library, x=f32(0, 3, 0, 5))["y"].tolist() == [[3, 5]]
    assert library.calls == [
        ("extern", [(4,)], [tensor(DType.f32, "s")]),
        ("onnx.Add", [(1, 2), None, (1,)],
         [tensor(DType.f32, 1, "k"), None, tensor(DType.f32, 1)]),
    ]  # fmt: skip


def test_guards_over_sizes_from_data_are_checked_when_known():
    text = """module @m guards(k <= 1 @n0 "few") {
      graph (%x: f32[s]) -> (%i) {
        %i = extern %x {op="onnx.NonZero", opset=17} : i64[1,k]
      }
    }"""
    assert run(text, externs=Nonzero(), x=f32(0, 3))["i"].tolist() == [[1]]
    with pytest.raises(GuardError, match="node n0 needs k <= 1"):
        run(text, externs=Nonzero(), x=f32(2, 3))


def test_regions_hand_captured_values_to_the_library():
    inner = Graph((), ("t",), (Op("onnx.Neg", ("x",), (Value("t", UNKNOWN),)),))
    op = Op("onnx.If", ("c",), (Value("y", UNKNOWN),), attrs(then_branch_region=0), (inner,))
    assert captured(op) == ("x",)

    class Library:
        def run(self, op, inputs, types):
            c, x = inputs
            assert types[1] == TensorType(DType.f32, (dim(2),))
            return [-x if c else x]

    module = Module("m", graph=Graph(
        (Value("c", tensor(DType.bool)), Value("x", tensor(DType.f32, 2))), ("y",), (op,), ("y",)
    ))  # fmt: skip
    inputs = {"c": np.array(True), "x": f32(1, 2)}
    assert run_graph(module, inputs, ParamStore(), externs=Library())["y"].tolist() == [-1, -2]

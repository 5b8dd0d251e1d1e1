"""Movement keeps the meaning: random graphs of it, fused and lowered, run in the loop interpreter
and as machine code, give what the tensor interpreter gives; and that gives what NumPy gives."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.codegen.cpu import emit_kernel
from compiler.codegen.numba_api import compile_kernel
from compiler.ir.edits import fold
from compiler.ir.interpret.loops import run_kernel
from compiler.ir.interpret.plan import run_plan
from compiler.ir.interpret.tensor import run_graph
from compiler.ir.loops import Kernel, Load, expressions, walk_expr, walk_statements
from compiler.ir.module import Module
from compiler.ir.parser import parse_module
from compiler.ir.plan import KernelStep
from compiler.ir.printer import print_kernel, print_module
from compiler.ir.types import Array, DType
from compiler.ir.verify import verify
from compiler.passes.base import Context, Pass
from compiler.passes.collapse_axes import CollapseAxes
from compiler.passes.fuse import Fuse
from compiler.passes.lower_loops import LowerLoops
from compiler.passes.order_steps import OrderSteps
from compiler.passes.plan_memory import PlanMemory
from compiler.passes.stream_stores import StreamStores
from compiler.runtime.native import RUNNER_SYMBOL, NativeCode, runner_object
from tests.lower.movement import inputs_for, modules

slow = settings(suppress_health_check=list(HealthCheck), deadline=None)


def planned(module: Module, by: str = "") -> tuple[Module, Context]:
    context = Context(sizes={"r": 64, "c": 64, "n": 16})
    passes: tuple[Pass, ...] = (
        Fuse(by=by), LowerLoops(), CollapseAxes(), StreamStores(), OrderSteps(), PlanMemory(),
    )  # fmt: skip
    state = module
    for p in passes:
        result = p.run(state, context)
        verify(result.module)
        assert fold(state, result.events) == result.module
        assert parse_module(print_module(result.module)) == result.module
        state = result.module
    return state, context


@settings(slow, max_examples=120)
@given(
    modules(), st.sampled_from(["", "", "origin"]),
    st.sampled_from([(3, 4, 2), (1, 1, 1), (2, 5, 3), (1, 4, 0), (0, 2, 2), (3, 0, 1)]),
)  # fmt: skip
def test_lowered_plan_equals_graph(module: Module, by: str, sizes: tuple[int, int, int]) -> None:
    verify(module)
    state, context = planned(module, by)
    inputs = inputs_for(dict(zip("rcn", sizes, strict=True)))
    wanted = run_graph(module, inputs, context.params)
    got = run_plan(state, inputs, context.params)
    for name, array in wanted.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-5)


# ---- machine code


def run_native(kernel: Kernel, extents: Mapping[str, int], buffers: Mapping[str, Array]) -> None:
    """The kernel as machine code over all of its range, in place."""
    made = compile_kernel("k", emit_kernel(kernel, "k").text, strict=False, math="poly")
    code = NativeCode({made.symbol: made.object, RUNNER_SYMBOL: runner_object()})
    entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(code.address(made.symbol))
    held = dict(buffers)
    for arg in kernel.args:
        if arg.mode == "scratch":
            shape = [d.evaluate(extents) for d in arg.type.dims]
            held[arg.name] = np.empty(shape, arg.type.element.numpy())
    words = [extents[n] for n in kernel.extents] + [held[a.name].ctypes.data for a in kernel.args]
    params = np.array([*words, *(0 for a in kernel.args if a.mode == "scratch")], np.int64)
    loops, _ = kernel.parallel()
    count = int(np.prod([loop.extent.evaluate(extents) for loop in loops]))
    entry(params.ctypes.data, 0, 0, count)
    assert code


@settings(slow, max_examples=12)
@given(modules(), st.sampled_from([(3, 4, 2), (5, 37, 6), (1, 64, 2)]))
def test_machine_code_equals_the_loop_tree(module: Module, sizes: tuple[int, int, int]) -> None:
    state, _ = planned(module)
    assert state.plan is not None
    known = dict(zip("rcn", sizes, strict=True))
    rng = np.random.default_rng(3)
    for step in state.plan.steps:
        assert isinstance(step, KernelStep)
        kernel = state.kernel(step.kernel)
        values = [d.evaluate(known) for d in step.extents]
        extents = dict(zip(kernel.extents, values, strict=True))
        mine: dict[str, Array] = {}
        for arg in kernel.args:
            if arg.mode != "scratch":
                shape = [d.evaluate(extents) for d in arg.type.dims]
                numbers = rng.integers(-6, 7, shape)
                mine[arg.name] = np.asarray(numbers, arg.type.element.numpy())
        other = {name: array.copy() for name, array in mine.items()}
        run_kernel(kernel, extents, mine)
        run_native(kernel, extents, other)
        for name, array in mine.items():
            np.testing.assert_allclose(other[name], array, rtol=1e-5, atol=1e-5)


# ---- the meaning, against NumPy


def evaluate(text: str, **inputs: Array) -> Array:
    """`%y` of the ops in `text` over the inputs, by the tensor interpreter; the lowered plan must
    give the same bits."""
    formals = ", ".join(
        f"%{n}: {DType.of(a.dtype).value}[{','.join(map(str, a.shape))}]"
        for n, a in inputs.items()
    )
    module = parse_module(f"module @m {{ graph ({formals}) -> (%y) {{ {text} }} }}")
    verify(module)
    state, context = planned(module)
    found = run_graph(module, inputs, context.params)["y"]
    np.testing.assert_array_equal(run_plan(state, inputs, context.params)["y"], found)
    return found


X = np.arange(12, dtype=np.float32).reshape(3, 4)
NAN = np.array([[1, np.nan, 3, np.nan], [4, 4, -0.0, 0.0], [0.0, -0.0, -1, -1]], np.float32)


@pytest.mark.parametrize("axis", [0, 1])
def test_concat(axis: int) -> None:
    shape = "[9,4]" if axis == 0 else "[3,12]"
    found = evaluate(f"%y = concat %x, %z, %x {{axis={axis}}} : f32{shape}", x=X, z=-X)
    np.testing.assert_array_equal(found, np.concatenate([X, -X, X], axis))


def test_pad() -> None:
    text = "%c = const {value=7.0} : f32[] %y = pad %x, %c {before=[1, 0], after=[0, 2]} : f32[4,6]"
    wanted = np.pad(X, [(1, 0), (0, 2)], constant_values=7)
    np.testing.assert_array_equal(evaluate(text, x=X), wanted)
    text = "%y = pad %x, %c {before=[0, 3], after=[2, 1]} : f32[5,8]"
    c = np.array(-2, np.float32)
    wanted = np.pad(X, [(0, 2), (3, 1)], constant_values=-2)
    np.testing.assert_array_equal(evaluate(text, x=X, c=c), wanted)


def test_reverse() -> None:
    found = evaluate("%y = reverse %x {axes=[0, 1]} : f32[3,4]", x=X)
    np.testing.assert_array_equal(found, X[::-1, ::-1])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_gather(dtype: type[np.signedinteger]) -> None:
    k = np.array([[2, -1, 0], [9, -9, 1]], dtype)
    found = evaluate("%y = gather %x, %k {axis=1} : f32[3,2,3]", x=X, k=k)
    np.testing.assert_array_equal(found, X[:, [[2, 3, 0], [3, 0, 1]]])
    one = np.array(-2, dtype)
    found = evaluate("%y = gather %x, %k {axis=0} : f32[4]", x=X, k=one)
    np.testing.assert_array_equal(found, X[1])


def test_gather_from_nothing() -> None:
    found = evaluate(
        "%y = gather %x, %k {axis=0} : f32[2,4]", x=X[:0], k=np.array([0, 3], np.int64)
    )
    np.testing.assert_array_equal(found, np.zeros((2, 4), np.float32))


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_elements(axis: int) -> None:
    k = np.random.default_rng(1).integers(-3, 3, (3, 4))
    found = evaluate(f"%y = gather_elements %x, %k {{axis={axis}}} : f32[3,4]", x=X, k=k)
    np.testing.assert_array_equal(found, np.take_along_axis(X, k, axis))


def test_gather_elements_of_fewer_rows() -> None:
    k = np.array([[1, 3], [0, -1]])
    found = evaluate("%y = gather_elements %x, %k {axis=1} : f32[2,2]", x=X, k=k)
    np.testing.assert_array_equal(found, np.take_along_axis(X[:2], k, 1))


@pytest.mark.parametrize("axis", [0, 1])
def test_scatter_elements(axis: int) -> None:
    """Of several updates of an element the last along the axis stays, as in NumPy's put."""
    k = np.random.default_rng(2).integers(-3, 3, (2, 3))
    u = np.random.default_rng(3).standard_normal((2, 3)).astype(np.float32)
    found = evaluate(f"%y = scatter_elements %x, %k, %u {{axis={axis}}} : f32[3,4]", x=X, k=k, u=u)
    wanted = X.copy()
    for i, j in np.ndindex(2, 3):
        at = (k[i, j], j) if axis == 0 else (i, k[i, j])
        wanted[at] = u[i, j]
    np.testing.assert_array_equal(found, wanted)


def test_scatter_elements_reads_no_index_beyond_the_last() -> None:
    """Indices of fewer rows than the data: the interpreter stops at a read outside an array."""
    k, u = np.array([[-1], [0]]), np.array([[7], [8]], np.float32)
    found = evaluate("%y = scatter_elements %x, %k, %u {axis=1} : f32[3,4]", x=X, k=k, u=u)
    wanted = X.copy()
    wanted[0, -1], wanted[1, 0] = 7, 8
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("function", ["max", "min"])
def test_argreduce(function: str, axis: int) -> None:
    reduced = np.argmax if function == "max" else np.argmin
    shape = "[1,4]" if axis == 0 else "[3,1]"
    for x in (X, NAN, -NAN, X.astype(np.int32) % 3, np.isnan(NAN)):
        kind = f"argreduce.{function}"
        first, last = (
            evaluate(f"%y = {kind} %x {{axis={axis}, last={n}}} : i64{shape}", x=x) for n in (0, 1)
        )
        np.testing.assert_array_equal(first, reduced(x, axis, keepdims=True))
        backwards = x.shape[axis] - 1 - reduced(np.flip(x, axis), axis, keepdims=True)
        np.testing.assert_array_equal(last, backwards)


# ---- no copy that an index map can express


def kernels(text: str, inputs: str, outputs: str = "%y") -> tuple[Kernel, ...]:
    module = parse_module(
        f"module @m dims(r, c, n) {{ graph ({inputs}) -> ({outputs}) {{ {text} }} }}"
    )
    verify(module)
    return planned(module)[0].kernels


MOVES = {
    "concat": "%t = concat %x, %x {axis=1} : f32[r,2*c] %y = map.tanh %t : f32[r,2*c]",
    "concat after": "%t = map.neg %x : f32[r,c] %y = concat %x, %t {axis=1} : f32[r,2*c]",
    "pad": """%c = const {value=0.0} : f32[] %e = map.exp %x : f32[r,c]
      %t = pad %e, %c {before=[1, 1], after=[0, 0]} : f32[r+1,c+1]
      %y = map.neg %t : f32[r+1,c+1]""",
    "reverse": "%t = reverse %x {axes=[1]} : f32[r,c] %y = map.add %t, %x : f32[r,c]",
    "slice and concat": """%a = slice %x {starts=[0, 1], steps=[1, 2]} : f32[r,c//2]
      %b = slice %x {starts=[0, 0], steps=[1, 2]} : f32[r,c//2] %m = map.neg %a : f32[r,c//2]
      %y = concat %m, %b {axis=1} : f32[r,c//2+c//2]""",
    "embedding": """%t = gather %x, %k {axis=0} : f32[n,c] %m = reduce.sum %t {axes=[1]} : f32[n,1]
      %y = map.sub %t, %m : f32[n,c]""",
    "transpose and row": """%t = permute %q {perm=[0, 2, 1, 3]} : f32[2,r,4,c]
      %m = reduce.max %t {axes=[3]} : f32[2,r,4,1] %y = map.sub %t, %m : f32[2,r,4,c]""",
}


@pytest.mark.parametrize("name", sorted(MOVES))
def test_movement_costs_no_kernel(name: str) -> None:
    inputs = "%x: f32[r,c], %k: i64[n], %q: f32[2,4,r,c]"
    assert len(kernels(MOVES[name], inputs)) == 1, name


def test_a_dear_producer_of_a_concat_is_no_part_of_it() -> None:
    """Every element of the result would compute the functions of all parts."""
    text = """%a = map.tanh %x : f32[r,c] %b = map.exp %x : f32[r,c]
      %y = concat %a, %b {axis=1} : f32[r,2*c]"""
    *before, joined = kernels(text, "%x: f32[r,c]")
    assert before and "tanh" not in print_kernel(joined) and "if" in print_kernel(joined)


def test_argmax_shares_the_loops_of_its_row() -> None:
    text = """%m = reduce.max %x {axes=[1]} : f32[r,1] %d = map.sub %x, %m : f32[r,c]
      %y = argreduce.max %d {axis=1, last=0} : i64[r,1]"""
    (kernel,) = kernels(text, "%x: f32[r,c]")
    assert print_kernel(kernel).count("red j in c") == 3  # one a level: m, the best, its place


VECTORISED = {
    "concat outer": "%y = concat %x, %x {axis=0} : f32[2*r,c]",
    "concat inner": "%y = concat %x, %x {axis=1} : f32[r,2*c]",
    "pad outer": """%z = const {value=0.0} : f32[]
      %y = pad %x, %z {before=[1, 0], after=[1, 0]} : f32[r+2,c]""",
    "pad inner": """%z = const {value=0.0} : f32[]
      %y = pad %x, %z {before=[0, 1], after=[0, 1]} : f32[r,c+2]""",
    "slice": "%y = slice %x {starts=[1, 1], steps=[1, 1]} : f32[r-1,c-1]",
    "reverse": "%y = reverse %x {axes=[0]} : f32[r,c]",
    "gather": "%y = gather %x, %k {axis=0} : f32[n,c]",
}


@pytest.mark.parametrize("name", sorted(VECTORISED))
def test_the_inner_loop_is_a_vector_loop(name: str) -> None:
    """A guarded load is a masked one in a vector loop, a branch outside where it does not vary."""
    (kernel,) = kernels(VECTORISED[name], "%x: f32[r,c], %k: i64[n]")
    made = compile_kernel("k", emit_kernel(kernel, "k").text, strict=False, math="poly")
    assert any(f"<{width} x float>" in made.llvm for width in (4, 8, 16)), made.llvm


def test_guards_keep_reads_inside() -> None:
    """Every load whose index may leave its buffer has a guard."""
    text = """%z = const {value=0.0} : f32[]
      %y = pad %x, %z {before=[1, 1], after=[1, 1]} : f32[r+2,c+2]"""
    (kernel,) = kernels(text, "%x: f32[r,c]")
    loads = [
        e
        for stmt in walk_statements(kernel.body)
        for root in expressions(stmt)
        for e in walk_expr(root)
        if isinstance(e, Load)
    ]
    assert loads and all(load.guard is not None for load in loads)




# ---- the engine


def test_movement_through_the_engine() -> None:
    """An embedding, halves that change places, a frame, a scatter and an argmax: one model."""
    nodes = [
        helper.make_node("Gather", ["w", "k"], ["rows"], axis=0),
        helper.make_node("Split", ["rows"], ["left", "right"], axis=1),
        helper.make_node("Neg", ["right"], ["minus"]),
        helper.make_node("Concat", ["minus", "left"], ["turned"], axis=1),
        helper.make_node("Pad", ["turned", "widths"], ["framed"]),
        helper.make_node("ScatterElements", ["framed", "at", "new"], ["y"], axis=1),
        helper.make_node("ArgMax", ["y"], ["best"], axis=1, keepdims=0),
    ]
    w = np.random.default_rng(5).standard_normal((9, 40)).astype(np.float32)
    weights = {
        "w": w,
        "widths": np.array([1, 2, 0, 3], np.int64),
        "at": np.array([[3, -1, 3]], np.int64),
        "new": np.array([[7, 8, 9]], np.float32),
    }
    graph = helper.make_graph(
        nodes, "moves",
        [helper.make_tensor_value_info("k", TensorProto.INT64, ["n"])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("best", TensorProto.INT64, None),
        ],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    built = compiler.compile(model.SerializeToString(), threads=2)
    assert not any(op.kind == "call.reference" for op in built.trace.final.graph.ops)
    for k in ([0, 8, 3, 3], [5]):
        found = built.engine.run({"k": np.array(k, np.int64)})
        wanted = np.zeros((1 + len(k), 45), np.float32)
        wanted[1:, 2:42] = np.concatenate([-w[k][:, 20:], w[k][:, :20]], 1)
        wanted[0, [3, -1]] = 9, 8
        np.testing.assert_array_equal(found["y"], wanted)
        np.testing.assert_array_equal(found["best"], np.argmax(wanted, 1))

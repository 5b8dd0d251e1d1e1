"""Convolutions, pooling and plain contractions as loop nests: the lowered plan in the loop
interpreter gives what the tensor interpreter gives, and what onnx's reference evaluator gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator

from compiler.ir.builder import Builder
from compiler.ir.dims import Symbol, dim, dims
from compiler.ir.edits import fold
from compiler.ir.graph import Graph, Op, Value
from compiler.ir.interpret.plan import run_plan
from compiler.ir.interpret.tensor import run_graph
from compiler.ir.loops import For, walk_statements
from compiler.ir.module import Module
from compiler.ir.names import Names
from compiler.ir.params import ParamStore
from compiler.ir.parser import parse_module
from compiler.ir.printer import print_module
from compiler.ir.types import Array, DType, TensorType
from compiler.ir.verify import VerifyError, verify
from compiler.lower.contract import choose_tile
from compiler.passes.base import Context, Pass
from compiler.passes.collapse_axes import CollapseAxes
from compiler.passes.fuse import Fuse
from compiler.passes.lower_loops import LowerLoops
from compiler.passes.order_steps import OrderSteps
from compiler.passes.plan_memory import PlanMemory
from compiler.passes.stream_stores import StreamStores


@dataclass(frozen=True)
class Case:
    """A convolution over one or two axes, or (outputs 0) a pooling."""

    batch: int
    groups: int
    channels: int
    outputs: int
    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    pool: str = ""
    symbolic: bool = False


@st.composite
def cases(draw: st.DrawFn, pool: str = "") -> Case:
    rank = draw(st.sampled_from([1, 2, 2, 2, 3]))

    def numbers(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    kernel, dilations = numbers(1, 3), numbers(1, 2)
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    before = tuple(draw(st.integers(0, k - 1)) for k in kernel)
    after = tuple(draw(st.integers(0, k - 1)) for k in kernel)
    least = (
        max(1, r - a - b) for r, a, b in zip(reach, before, after, strict=True)
    )
    longest = 9 if rank < 3 else 4
    image = tuple(draw(st.integers(n, max(n, longest))) for n in least)
    return Case(
        draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 3)),
        draw(st.integers(1, 6)), image, kernel, numbers(1, 3), dilations, before, after, pool,
        draw(st.booleans()),
    )  # fmt: skip


def built(case: Case) -> tuple[Module, dict[str, Array]]:
    """The module (`symbolic`: batch, channels and image are symbols) and random inputs."""
    b = Builder("v", Names())
    rank = len(case.image)
    sizes = [case.batch, case.groups, case.channels, *case.image]
    names = ["n", "g", "c", "h", "w", "d"][: len(sizes)]
    known: list[Symbol] = []
    shape = dims(sizes)
    weights = dims((case.groups, case.outputs, case.channels, *case.kernel))
    if case.symbolic:
        known = [Symbol(k) for k in names if k not in "g"]
        shape = tuple(dim(n) if k == "g" else dim(k) for k, n in zip(names, sizes, strict=True))
        weights = (weights[0], weights[1], dim("c"), *weights[3:])
    x = Value("x", TensorType(DType.f32, shape))
    rng = np.random.default_rng(3)
    inputs: dict[str, Array] = {"x": rng.standard_normal(sizes).astype(np.float32)}
    axes = tuple(range(3, 3 + rank))
    outside = float("-inf") if case.pool == "max" else 0.0
    windows = b.window(
        x, b.scalar(outside, DType.f32), axes, case.kernel, case.strides, case.dilations,
        case.before, case.after,
    )  # fmt: skip
    formals = [x]
    if case.pool:
        tail = range(3 + rank, 3 + 2 * rank)
        y = b.map("neg", b.reduce(case.pool, windows, tail))
    else:
        w = Value("w", TensorType(DType.f32, weights))
        bias = Value("b", TensorType(DType.f32, dims((case.groups, case.outputs, *[1] * rank))))
        r = Value("r", TensorType(DType.f32, (dim(1), *windows.type.dims[3 : 3 + rank])))
        places, taps = "yxz"[:rank], "uvw"[:rank]
        y = b.contract(windows, w, f"ngc{places}{taps},goc{taps}->ngo{places}")
        y = b.add(b.maximum(b.add(y, bias), b.scalar(0.0, DType.f32)), r)
        formals += [w, bias, r]
        bound = dict(zip(names, sizes, strict=True))
        for v in formals[1:]:
            size = [d.evaluate(bound) for d in v.type.dims]
            inputs[v.name] = rng.standard_normal(size).astype(np.float32)
    graph = Graph(tuple(formals), (y.name,), tuple(b.ops))
    return Module("windows", tuple(known), graph=graph), inputs


def lowered(module: Module) -> Module:
    verify(module)
    assert parse_module(print_module(module)) == module
    context = Context()
    passes: tuple[Pass, ...] = (
        Fuse(), LowerLoops(), CollapseAxes(), StreamStores(), OrderSteps(), PlanMemory(),
    )  # fmt: skip
    for p in passes:
        result = p.run(module, context)
        verify(result.module)
        assert fold(module, result.events) == result.module
        assert parse_module(print_module(result.module)) == result.module
        module = result.module
    return module


def both(module: Module, inputs: dict[str, Array]) -> tuple[Array, Array]:
    """The one result by the tensor interpreter and by the lowered plan, which is one kernel."""
    plan = lowered(module)
    assert plan.plan is not None and len(plan.plan.steps) == 1
    (wanted,) = run_graph(module, inputs, ParamStore()).values()
    (found,) = run_plan(plan, inputs, ParamStore()).values()
    return wanted, found


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_convolution_with_its_tail_is_one_kernel(case: Case) -> None:
    module, inputs = built(case)
    wanted, found = both(module, inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    reference = by_onnx(case, inputs)
    np.testing.assert_allclose(wanted, reference, rtol=1e-4, atol=1e-4)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["max", "sum", "min"]).flatmap(cases))
def test_pooling_is_one_kernel(case: Case) -> None:
    module, inputs = built(case)
    wanted, found = both(module, inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def by_onnx(case: Case, inputs: dict[str, Array]) -> Array:
    """The same convolution by onnx: groups folded into channels."""
    rank = len(case.image)
    node = helper.make_node(
        "Conv", ["x", "w"], ["y"], kernel_shape=case.kernel, strides=case.strides,
        dilations=case.dilations, pads=[*case.before, *case.after], group=case.groups,
    )  # fmt: skip
    values = [helper.make_tensor_value_info(n, 1, None) for n in ("x", "w")]
    graph = helper.make_graph([node], "c", values, [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    x = inputs["x"].reshape(case.batch, -1, *case.image)
    w = inputs["w"].reshape(-1, case.channels, *case.kernel)
    y = np.asarray(ReferenceEvaluator(model).run(None, {"x": x, "w": w})[0])
    y = y.reshape(case.batch, case.groups, case.outputs, *y.shape[-rank:])
    return np.maximum(y + inputs["b"], 0) + inputs["r"]


def contraction(
    spec: str, extents: dict[str, int], symbolic: bool
) -> tuple[Module, dict[str, Array]]:
    b = Builder("v", Names())
    left, right = spec.split("->")[0].split(",")
    rng = np.random.default_rng(5)
    formals: list[Value] = []
    inputs: dict[str, Array] = {}
    for name, letters in (("a", left), ("b", right)):
        shape = [dim(k) if symbolic else dim(extents[k]) for k in letters]
        formals.append(Value(name, TensorType(DType.f32, tuple(shape))))
        inputs[name] = rng.standard_normal([extents[k] for k in letters]).astype(np.float32)
    y = b.map("neg", b.contract(*formals, spec))
    known = tuple(Symbol(k) for k in extents) if symbolic else ()
    return Module("product", known, graph=Graph(tuple(formals), (y.name,), tuple(b.ops))), inputs


SPECS = ("mk,kn->mn", "km,nk->mn", "bmk,bkn->bmn", "mk,kn->nm", "k,kn->n", "mk,k->m", "k,k->",
         "abk,kc->abc", "ab,ab->ab", "ij,kl->ijkl", "nk,nk->n")  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SPECS), st.data(), st.booleans())
def test_contractions_without_a_library(spec: str, data: st.DataObject, symbolic: bool) -> None:
    letters = sorted(set(spec) - set(",->"))
    extents = {k: data.draw(st.sampled_from([0, 1, 2, 3, 5, 9])) for k in letters}
    module, inputs = contraction(spec, extents, symbolic)
    wanted, found = both(module, inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_long_line_is_cut_into_blocks() -> None:
    module, inputs = contraction("mk,kn->mn", {"m": 5, "k": 3, "n": 150}, symbolic=False)
    wanted, found = both(module, inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_stack_of_tiles_may_reach_past_the_last_row() -> None:
    """37 rows in three stacks of 13: what lies past them is neither computed nor stored."""
    case = Case(1, 1, 8, 4, (37, 60), (1, 3), (1, 1), (1, 1), (0, 1), (0, 1))
    module, inputs = built(case)
    (kernel,) = lowered(module).kernels
    stacks = [s for s in walk_statements(kernel.body) if isinstance(s, For) and s.axis[0] == "t"]
    assert [str(s.extent) for s in stacks] == ["13"]
    wanted, found = both(module, inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "columns"), [(56, 56), (7, 7), (1, 224), (14, 14), (None, 28)])
@pytest.mark.parametrize("outputs", [1, 4])
def test_a_tile_covers_its_plane_and_fits(
    rows: int | None, columns: int, outputs: int
) -> None:
    tile = choose_tile(rows, columns, 2, 2, outputs)
    assert tile.line % 16 == 0
    assert tile.line >= (tile.rows - 1) * tile.width + tile.columns
    assert tile.line * outputs <= 256
    assert tile.width == tile.columns + 2


def test_two_readers_of_one_window_both_absorb_it() -> None:
    b = Builder("v", Names())
    x = Value("x", TensorType(DType.f32, dims((1, 2, 5, 5))))
    w = Value("w", TensorType(DType.f32, dims((3, 2, 3, 3))))
    windows = b.window(x, b.scalar(0.0, DType.f32), (2, 3), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
    spec = "ncyxhw,ochw->noyx"
    first, second = b.contract(windows, w, spec), b.contract(windows, b.map("neg", w), spec)
    graph = Graph((x, w), (first.name, second.name), tuple(b.ops))
    module = Module("twice", graph=graph)
    plan = lowered(module)
    assert sum("rows" in [a.name for a in k.args] for k in plan.kernels) == 2
    assert all(op.kind != "window" for op in plan.graph.ops)
    rng = np.random.default_rng(0)
    inputs: dict[str, Array] = {
        v.name: rng.standard_normal([d.constant or 0 for d in v.type.dims]).astype(np.float32)
        for v in (x, w)
    }
    wanted = run_graph(module, inputs, ParamStore())
    found = run_plan(plan, inputs, ParamStore())
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)


def test_axes_that_are_as_long_as_a_guard_says() -> None:
    """The groups and the outputs in them are one axis, and a slice takes all of another."""
    text = """module @grouped dims(n, t, b) guards(b == 2 @n1) {
      graph (%x: f32[n,3,1,t,b], %w: f32[3,2,1]) -> (%y) {
        %c = contract %x, %w {spec="ngcyx,goc->ngoyx"} : f32[n,3,2,t,b]
        %j = reshape %c : f32[n,6,t,b]
        %y = slice %j {starts=[0, 0, 0, 0], steps=[1, 1, 1, 1]} : f32[n,6,t,2]
      }
    }"""
    rng = np.random.default_rng(0)
    inputs: dict[str, Array] = {
        "x": rng.standard_normal((2, 3, 1, 3, 2)).astype(np.float32),
        "w": rng.standard_normal((3, 2, 1)).astype(np.float32),
    }
    wanted, found = both(parse_module(text), inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_window_that_is_read_otherwise_is_an_array() -> None:
    b = Builder("v", Names())
    x = Value("x", TensorType(DType.f32, (dim("n"),)))
    y = b.window(x, b.scalar(7.0, DType.f32), (0,), (3,), (2,), (1,), (1,), (dim("n"),))
    graph = Graph((x,), (y.name,), tuple(b.ops))
    module = Module("alone", (Symbol("n"),), graph=graph)
    inputs: dict[str, Array] = {"x": np.arange(5, dtype=np.float32)}
    wanted, found = both(module, inputs)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(wanted[0], [7, 0, 1])


def test_loops_of_a_convolution() -> None:
    """The sums run over vectors without a condition, and their order is that of the indices."""
    case = Case(1, 1, 8, 8, (12, 12), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
    plan = lowered(built(case)[0])
    (kernel,) = plan.kernels
    loops = [s for s in walk_statements(kernel.body) if isinstance(s, For)]
    reduced = [s for s in loops if s.kind == "red"]
    assert [str(s.extent) for s in reduced] == ["8", "3"]
    assert all(s.extent.constant is not None for s in loops if s.kind == "vec")


def window_op(**changed: object) -> Op:
    b = Builder("v", Names())
    x = Value("x", TensorType(DType.f32, dims((1, 5))))
    b.window(x, b.scalar(0.0, DType.f32), (1,), (2,), (1,), (1,), (0,), (0,))
    return b.ops[-1].with_attrs(**changed)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"axes": (2,)}, "axes"),
        ({"sizes": (2, 2)}, "sizes"),
        ({"strides": (0,)}, "below 1"),
        ({"before": (1,)}, "the rule gives"),
    ],
)
def test_a_wrong_window_is_refused(changed: dict[str, object], message: str) -> None:
    b = Builder("v", Names())
    x = Value("x", TensorType(DType.f32, dims((1, 5))))
    outside = b.scalar(0.0, DType.f32)
    op = window_op(**changed)
    op = Op(op.kind, ("x", outside.name), op.outputs, op.attrs)
    module = Module("w", graph=Graph((x,), (op.key,), (*b.ops, op)))
    with pytest.raises(VerifyError, match=message):
        verify(module)

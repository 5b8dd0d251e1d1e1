"""Lowering keeps the meaning: random graphs, fused, lowered, collapsed, ordered, planned, and run
by the loop interpreter over a poisoned arena, give what the tensor interpreter gives."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.codegen.cpu import address_text, index_text, literal, unwrap
from compiler.ir.dims import dim, dims
from compiler.ir.edits import fold
from compiler.ir.graph import Op
from compiler.ir.interpret.plan import run_plan
from compiler.ir.interpret.tensor import run_graph
from compiler.ir.module import Module
from compiler.ir.params import ParamStore
from compiler.ir.parser import parse_module
from compiler.ir.printer import print_module
from compiler.ir.types import Array, DType, Scalar, TensorType
from compiler.ir.verify import verify
from compiler.passes.base import Context, Pass, PassError
from compiler.passes.collapse_axes import CollapseAxes
from compiler.passes.fuse import Fuse
from compiler.passes.lower_loops import LowerLoops
from compiler.passes.order_steps import OrderSteps
from compiler.passes.plan_memory import PlanMemory
from tests.fusion.graphs import modules


class Copying:
    """Runs `extern` Identity."""

    def run(
        self, op: Op, inputs: Sequence[Array | None], types: Sequence[TensorType]
    ) -> list[Array]:
        assert inputs[0] is not None
        return [inputs[0].copy()]


def inputs_for(module: Module, r: int, c: int) -> dict[str, Array]:
    rng = np.random.default_rng(7)
    found: dict[str, Array] = {}
    for v in module.graph.inputs:
        shape = [d.evaluate({"r": r, "c": c}) for d in v.type.dims]
        found[v.name] = np.asarray(rng.standard_normal(shape), np.float32)
    return found


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(modules(most=10), st.sampled_from(["", "origin"]), st.integers(0, 3), st.integers(0, 3))
def test_lowered_plan_equals_graph(module: Module, by: str, r: int, c: int) -> None:
    context = Context(sizes={"r": 64, "c": 64})
    state = module
    passes: tuple[Pass, ...] = (
        Fuse(by=by), LowerLoops(), CollapseAxes(), OrderSteps(), PlanMemory(),
    )  # fmt: skip
    for p in passes:
        result = p.run(state, context)
        verify(result.module)
        assert fold(state, result.events) == result.module
        assert parse_module(print_module(result.module)) == result.module
        state = result.module
    inputs = inputs_for(module, r, c)
    wanted = run_graph(module, inputs, context.params, externs=Copying())
    got = run_plan(state, inputs, context.params, externs=Copying())
    for name, array in wanted.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-5)


CONSTANT_OUTPUTS = """
module @constants dims(r) {
  graph (%x: f32[r]) -> (%a, %b, %s, %x as copy, %s as again) {
    %a = const {value=2.5} : f32[]
    %b = dims {values=[r, 7]} : i64[2]
    %s = dims {values=[3, 4]} : i64[2]
  }
}
"""


def test_outputs_that_no_step_makes() -> None:
    """Constants, dimensions, inputs and the same value twice reach the caller."""
    module = parse_module(CONSTANT_OUTPUTS)
    context = Context(params=ParamStore())
    for p in (LowerLoops(), CollapseAxes(), PlanMemory()):
        module = p.run(module, context).module
        verify(module)
    x = np.arange(3, dtype=np.float32)
    got = run_plan(module, {"x": x}, context.params)
    assert got["a"] == np.float32(2.5)
    assert got["b"].tolist() == [3, 7]
    assert got["s"].tolist() == got["again"].tolist() == [3, 4]
    assert got["copy"].tolist() == [0, 1, 2]


def test_an_op_outside_a_group_is_refused() -> None:
    module = parse_module(
        "module @m dims(r) { graph (%x: f32[r]) -> (%y) { %y = map.exp %x : f32[r] @[n0] } }"
    )
    with pytest.raises(PassError, match=r"lower-loops: map\.exp is in no group \(at %y \[n0\]\)"):
        LowerLoops().run(module, Context())


def test_index_text() -> None:
    i, j, c = dim("i"), dim("j"), dim("c")
    assert address_text((i, j), dims(["r", "c"])) == "i * c + j"
    assert address_text((dim(0), j), dims(["r", "c"])) == "j"
    assert address_text((i, dim(0)), dims(["r", "c"])) == "i * c"
    assert address_text((i, j, dim("k")), dims(["b", "r", "c"])) == "(i * r + j) * c + k"
    assert address_text((), ()) == "u64(0)"
    assert address_text((i + 3, j * 2), (c, c * 2)) == "(i + u64(3)) * (u64(2) * c) + u64(2) * j"
    assert index_text(c // 2 - i) == "u64(0) - i + ((c) // u64(2))"


def test_literals_are_exact() -> None:
    assert literal(Scalar.of(DType.f32, 0.1)) == "f32(0.1)"
    assert literal(Scalar.of(DType.f32, float("-inf"))) == "f32(-inf)"
    assert literal(Scalar.of(DType.f32, float("nan"))) == "from_bits(i32(2143289344))"
    assert literal(Scalar.of(DType.f32, -0.0)) == "f32(-0.0)"
    assert literal(Scalar.of(DType.i64, -7)) == "i64(-7)"
    assert literal(Scalar.of(DType.bool, True)) == "b1(True)"
    assert unwrap("(a + b)") == "a + b"
    assert unwrap("(a) + (b)") == "(a) + (b)"

"""fold-shape-ops: nodes and library steps whose elements follow from shapes become dims."""

from __future__ import annotations

import numpy as np

from compiler.passes.base import Context
from compiler.passes.dce import Dce
from compiler.passes.decompose import Decompose
from compiler.passes.fold_shape_ops import FoldShapeOps
from tests.passes.texts import kinds, module, run, values

HALF = """(%x: f32[s,6]) -> (%y) {
    %two = const i64(2) : i64[]
    %one = const i64(1) : i64[]
    %axis = const i64(0) : i64[1]
    %last = const i64(-1) : i64[1]
    %n = onnx.Shape %x : i64[2]
    %c = extern %n, %one {axis=0, op="onnx.Gather", opset=13} : i64[]
    %h = onnx.Div %c, %two : i64[]
    %u = extern %h, %axis {op="onnx.Unsqueeze", opset=13} : i64[1]
    %t = extern %last, %u {axis=0, op="onnx.Concat", opset=13} : i64[2]
    %y = onnx.Reshape %x, %t : f32[2*s,3]
}"""


def test_a_chain_through_library_steps_leaves_one_view():
    context = Context()
    before = module(HALF, context, head="dims(s)")
    folded, events = run(FoldShapeOps(), before, context)
    assert all(e.message == "fold-shape-ops.done" for e in events)
    assert dict(events[-1].parameters) == {"op": "extern", "values": "-1, 3"}
    lowered, _ = run(Decompose(), folded, context)
    after, _ = run(Dce(), lowered, context)
    assert kinds(after) == ["reshape"]
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(values(after, context, x=x)["y"], x.reshape(-1, 3))


def test_other_dtypes_are_cast_and_floats_are_computed():
    context = Context()
    before = module(
        """(%x: f32[s,6]) -> (%i, %e, %f) {
             %six = const i64(6) : i64[]
             %one = const i64(1) : i64[]
             %n = onnx.Shape %x : i64[2]
             %k = extern %n, %one {op="onnx.Gather", opset=13} : i64[]
             %e = extern %k, %six {op="onnx.Equal", opset=13} : bool[]
             %i = onnx.Cast %n {to=6} : i32[2]
             %g = onnx.Cast %n {to=1} : f32[2]
             %f = onnx.Floor %g : f32[2]
           }""",
        context, head="dims(s)",
    )  # fmt: skip
    after, _ = run(FoldShapeOps(), before, context)
    assert set(kinds(after)) == {"const", "dims", "cast", "onnx.Cast", "onnx.Floor"}
    assert [g.reason for g in after.guards] == ["guard.integer-range"]
    lowered, _ = run(Decompose(), after, context)
    found = values(lowered, context, x=np.zeros((5, 6), np.float32))
    assert found["e"].dtype == bool and found["e"]
    for name, dtype in (("i", np.int32), ("f", np.float32)):
        assert found[name].dtype == dtype and found[name].tolist() == [5, 6]


def test_what_is_not_compiled_or_not_known_stays():
    context = Context()
    before = module(
        """(%x: f32[s,6], %k: i64[2]) -> (%d, %y) {
             %n = dims {values=[s, 6]} : i64[2]
             %d = extern %n {op="onnx.Cast", opset=13, to=11} : f64[2]
             %y = onnx.Add %n, %k : i64[2]
           }""",
        context, head="dims(s)",
    )  # fmt: skip
    after, events = run(FoldShapeOps(), before, context)
    assert after is before and not events


def test_a_list_of_symbolic_length_is_not_written_down() -> None:
    context = Context()
    before = module(
        """(%x: f32[s,6]) -> (%r) {
             %z = const i64(0) : i64[]
             %n = dims {values=[s]} : i64[]
             %o = const i64(1) : i64[]
             %r = onnx.Range %z, %n, %o : i64[s]
           }""",
        context, head="dims(s)",
    )  # fmt: skip
    after, (event,) = run(FoldShapeOps(), before, context)
    assert after is before and event.message == "fold-shape-ops.length"
    assert dict(event.parameters)["count"] == "s"


def test_tensor_ops_on_dims_fold_too():
    context = Context()
    before = module(
        """(%x: f32[s,6]) -> (%v) {
             %n = dims {values=[s]} : i64[]
             %v = reshape %n : i64[1]
           }""",
        context, head="dims(s)",
    )  # fmt: skip
    after, _ = run(FoldShapeOps(), before, context)
    assert kinds(after) == ["dims", "dims"]

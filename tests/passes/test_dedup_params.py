"""dedup-params: equal arrays are one weight, wherever it is named."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.ir.params import Array, ParamStore
from compiler.passes.base import Context
from compiler.passes.cse import Cse
from compiler.passes.dedup_params import DedupParams
from tests.passes.texts import kinds, module, run, values

BODY = """(%x: f32[4]) -> (%y, %z) {
    %u = param @u : f32[4]
    %v = param @v : f32[4]
    %a = map.add %x, %u : f32[4]
    %y = map.exp %a : f32[4]
    %b = map.add %x, %v : f32[4]
    %z = map.exp %b : f32[4]
}"""


def test_equal_weights_let_cse_find_equal_values() -> None:
    context = Context()
    w = np.arange(4, dtype=np.float32)
    before = module(BODY, context, {"u": w, "v": w.copy()})
    after, events = run(DedupParams(), before, context)
    assert [p.name for p in after.params] == ["u"]
    assert [dict(e.parameters)["kept"] for e in events] == ["u"]
    merged, _ = run(Cse(), after, context)
    assert kinds(merged) == ["param", "map.add", "map.exp"]
    x = np.ones(4, np.float32)
    for name, array in values(before, context, x=x).items():
        np.testing.assert_array_equal(values(merged, context, x=x)[name], array)


def test_one_bit_makes_another_weight() -> None:
    context = Context()
    zero = np.zeros(4, np.float32)
    before = module(BODY, context, {"u": zero, "v": -zero})
    after, events = run(DedupParams(), before, context)
    assert after is before and not events


def test_the_same_bytes_in_another_shape_or_type_are_another_weight() -> None:
    context = Context()
    u = np.zeros(4, np.float32)
    before = module(BODY, context, {"u": u, "v": u, "w": u.reshape(2, 2), "k": u.view(np.int32)})
    after, events = run(DedupParams(), before, context)
    assert [p.name for p in after.params] == ["u", "w", "k"] and len(events) == 1


class _Counted(ParamStore):
    """A store that counts how often an array is read."""

    reads = 0

    def get(self, digest: str) -> Array:
        self.reads += 1
        return super().get(digest)


@pytest.mark.parametrize(("other", "reads"), [((16,), 0), ((1, 16), 41)])
def test_elements_are_looked_at_where_shapes_differ_once_a_weight(
    other: tuple[int, ...], reads: int
) -> None:
    store = _Counted()
    context = Context(params=store)
    arrays = {f"w{k}": np.full(16, k, np.float32) for k in range(40)}
    body = "(%x: f32[4]) -> (%y) { %y = map.exp %x : f32[4] }"
    before = module(body, context, {**arrays, "last": np.full(other, 39.5, np.float32)})
    store.reads = 0
    assert not DedupParams().run(before, context).events
    assert store.reads == reads


def test_a_weight_that_has_another_axis_of_extent_1_is_named() -> None:
    context = Context()
    u = np.arange(4, dtype=np.float32)
    weights = {"u": u, "k": -u, "v": u[None], "w": u[:, None] + 1}
    before = module(BODY.replace("@v : f32[4]", "@k : f32[4]"), context, weights)
    after, (event,) = run(DedupParams(), before, context)
    assert after is before and event.message == "dedup-params.shape"
    assert dict(event.parameters) == {
        "weight": "v", "kept": "u", "shape": "[1,4]", "other": "[4]",
    }  # fmt: skip


def test_attributes_and_regions_refer_to_it_too() -> None:
    context = Context()
    one = np.ones((1,), np.float32)
    before = module(
        """(%n: i64[1], %c: bool[]) -> (%a, %b, %d) {
            %a = onnx.ConstantOfShape %n {value=@u} : f32[4]
            %b = onnx.ConstantOfShape %n {value=@v} : f32[4]
            %d = onnx.If %c {else_branch_region=1, then_branch_region=0}
              () -> (%t) { %t = onnx.ConstantOfShape %n {value=@v} : f32[4] }
              () -> (%e) { %e = onnx.Relu %a : f32[4] } : f32[4]
        }""",
        context, {"u": one, "v": one},
    )  # fmt: skip
    after, events = run(DedupParams(), before, context)
    assert len(events) == 1 and [p.name for p in after.params] == ["u"]
    merged, _ = run(Cse(), after, context)
    assert kinds(merged) == ["onnx.ConstantOfShape", "onnx.If"]

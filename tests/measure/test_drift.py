"""The distance between two modules on the same inputs, and the first value that tells of it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.ir.dims import Guard, Symbol, dim
from compiler.ir.module import EMPTY, Module
from compiler.ir.types import Scalar
from compiler.measure.drift import (
    LIMIT,
    interpreted,
    max_abs,
    max_ulp,
    norm_rel,
    same,
    small_sizes,
    with_drift,
)
from tests.measure.models import built, traced

f32 = np.float32


# ---- distances -----------------------------------------------------------------------------------


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(1, 20))
def test_a_unit_in_the_last_place_is_one_step(x: float, steps: int) -> None:
    y = f32(x)
    for _ in range(steps):
        y = np.nextafter(y, f32(np.inf))
    crossed = np.signbit(f32(x)) and not np.signbit(y)  # -0 and 0 are two steps of the count
    found = max_ulp(np.array([x], f32), np.array([y]))
    assert found == steps or (crossed and found == steps + 1)


def test_distances_at_the_edges() -> None:
    nan, inf = f32(np.nan), f32(np.inf)
    a = np.array([nan, inf, -inf, 1.0], f32)
    assert same(a, a.copy()) and max_ulp(a, a.copy()) == max_abs(a, a.copy()) == 0
    assert max_abs(a, np.array([nan, inf, inf, 1.0], f32)) == math.inf
    assert max_abs(a, np.array([1.0, inf, -inf, 1.0], f32)) == math.inf
    zeros = np.array([0.0], f32), np.array([-0.0], f32)
    assert not same(*zeros) and max_ulp(*zeros) == 1 and max_abs(*zeros) == 0
    assert max_ulp(np.array([3, 7]), np.array([3, 4])) == 3
    assert max_ulp(np.ones(2, f32), np.ones(3, f32)) == math.inf
    empty = np.zeros((0, 3), f32)
    assert same(empty, empty) and max_ulp(empty, empty) == norm_rel(empty, empty) == 0
    assert max_abs(np.array(["a"], object), np.array(["b"], object)) == math.inf
    assert not same(np.ones(1, f32), np.ones(1, np.float64))
    assert max_ulp(np.array(1.0), np.array(np.nextafter(1.0, 2.0))) == 1
    assert max_ulp(np.array(-1e308), np.array(1e308)) > 2**62


def test_the_relative_error_is_of_norms() -> None:
    a, b = np.array([3.0, 4.0 + 0.5], f32), np.array([3.0, 4.0], f32)
    assert norm_rel(a, b) == pytest.approx(0.1)
    assert norm_rel(b, np.zeros(2, f32)) == 5.0


# ---- of a trace ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["five_op_chain", "layernorm_residual", "diamond"])
def test_every_pass_that_changed_has_a_small_drift(name: str) -> None:
    trace = with_drift(built(name))
    for record in trace.records:
        if not record.changed or record.name == "import":
            assert record.drift is None, record.name
            continue
        assert record.drift is not None, record.name
        assert record.drift.norm_rel < 1e-5, record.name
        if record.drift.max_abs == 0 == record.drift.max_ulp:
            assert record.drift.where == ()
        else:
            assert record.drift.first and record.drift.where
        sizes = dict(record.drift.sizes)
        assert set(sizes) == {s.name for s in trace.final.dims}
        assert all(2 <= n <= 5 for n in sizes.values()) and len(set(sizes.values())) == len(sizes)
    assert trace.record("fuse").drift is not None
    assert trace.record("emit").drift is not None
    assert built(name).trace.record("fuse").drift is None


def test_a_pass_that_breaks_a_value_is_found_with_the_value_and_its_origin() -> None:
    """`dce` is made to change the upper bound of the Clip, the last of five nodes."""
    whole = built("five_op_chain")
    trace = whole.trace
    k = next(k for k, r in enumerate(trace.records) if r.name == "dce")
    before = trace.records[k].before
    two = Scalar.of(next(v.type.element for v in before.graph.inputs), 2.0)
    ops = tuple(
        op.with_attrs(value=Scalar.of(two.dtype, 0.5))
        if op.kind == "const" and op.get("value") == two
        else op
        for op in before.graph.ops
    )
    broken = replace(before, graph=replace(before.graph, ops=ops))
    assert broken != before
    record = replace(trace.records[k], after=broken)
    planted = replace(trace, records=(*trace.records[:k], record, *trace.records[k + 1 :]))
    drift = with_drift(replace(whole, trace=planted)).records[k].drift
    assert drift is not None
    assert drift.max_abs > 0.1 and drift.norm_rel > 0.01 and drift.max_ulp > 1000
    assert (drift.first, drift.where) == ("high", ("n4",))


def test_sizes_are_small_differ_and_keep_bounds_and_guards() -> None:
    module = traced("five_op_chain")[0].final
    assert small_sizes(module) == {"r": 3, "c": 5}
    bounded = replace(module, dims=(Symbol("r", 8, 64, 8), Symbol("c", 0, 2)))
    assert small_sizes(bounded) == {"r": 8, "c": 2}
    equal = Guard(dim("r"), "==", dim("c"), (0,), "guard.broadcast")
    assert small_sizes(replace(module, guards=(equal,))) == {"r": 3, "c": 3}
    never = Guard(dim("r"), "==", dim("r") + 1, (0,), "guard.broadcast")
    assert small_sizes(replace(module, guards=(never,))) is None
    assert small_sizes(EMPTY) == {}


def test_large_kernels_are_not_interpreted() -> None:
    module = traced("five_op_chain")[0].final
    graph: Module = traced("five_op_chain")[0].module_after("collapse-axes")
    large = {"r": 1000, "c": 1000}
    for each in (module, graph):
        assert interpreted(each, large) > LIMIT > interpreted(each, {"r": 3, "c": 5}) > 0

"""The offset allocator: nothing overlaps, and the peak lies between its bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from compiler.ir.dims import dim
from compiler.ir.plan import (
    BindStep,
    Buffer,
    CopyStep,
    Interval,
    Layout,
    Operand,
    Plan,
    align_up,
    assign_offsets,
    buffer_bytes,
    find_overlap,
)
from compiler.ir.types import DType, tensor

from .strategies import interval_lists


@given(interval_lists())
def test_live_intervals_never_share_bytes(intervals):
    layout = assign_offsets(intervals)
    assert find_overlap(intervals, layout) is None
    assert set(layout.offsets) == {i.name for i in intervals}


@given(interval_lists())
def test_the_peak_lies_between_its_bounds(intervals):
    layout = assign_offsets(intervals)
    assert layout.lower_bound <= layout.peak <= layout.naive
    assert layout.naive == sum(align_up(i.size, 64) for i in intervals)
    used = [layout.offsets[i.name] + i.size for i in intervals if i.size]
    assert max(used, default=0) <= layout.peak


@given(interval_lists())
def test_offsets_are_aligned_and_do_not_depend_on_the_order_asked(intervals):
    layout = assign_offsets(intervals, alignment=256)
    assert all(at % 256 == 0 and at >= 0 for at in layout.offsets.values())
    assert assign_offsets(intervals[::-1], alignment=256) == layout


def test_disjoint_intervals_share_memory():
    chain = [Interval(f"b{k}", 64, k, k + 1) for k in range(10)]
    layout = assign_offsets(chain)
    assert (layout.naive, layout.peak, layout.lower_bound) == (640, 128, 128)


def test_the_smallest_gap_that_holds_it_is_taken():
    layout = assign_offsets([
        Interval("wall", 1024, 0, 9),
        Interval("big", 512, 0, 3),
        Interval("end", 256, 0, 9),
        Interval("late", 128, 5, 9),
    ])
    assert layout.offsets == {"wall": 0, "big": 1024, "end": 1536, "late": 1024}
    assert layout.peak == 1792


def test_empty_intervals_take_nothing():
    layout = assign_offsets([Interval("a", 0, 0, 9), Interval("b", 64, 0, 9)])
    assert (layout.peak, layout.naive) == (64, 64)
    assert assign_offsets([]) == Layout({}, 0, 0, 0)


def test_an_overlap_is_found_and_named():
    intervals = [Interval("a", 100, 0, 2), Interval("b", 64, 2, 4), Interval("c", 64, 3, 4)]
    layout = assign_offsets(intervals)
    shifted = replace(layout, offsets={**layout.offsets, "b": layout.offsets["a"] + 64})
    assert find_overlap(intervals, shifted) == ("a", "b")
    apart = replace(layout, offsets={"a": 0, "b": 128, "c": 0})
    assert find_overlap(intervals, apart) is None


def test_align_up():
    assert [align_up(n, 64) for n in (0, 1, 64, 65)] == [0, 64, 64, 128]


def test_bytes_of_a_buffer():
    assert buffer_bytes(DType.f32, (dim("s"), dim(8))) == 32 * dim("s")


def test_launches_count_all_steps_but_bindings():
    operand = Operand("x", "b", tensor(DType.f32, 8))
    buffer = Buffer("b", "input", "x", ("x",), dim(32), 0, 1)
    plan = Plan((CopyStep(operand, operand), BindStep("x", ((0, "s"),))), (buffer,), ())
    assert plan.launches() == 1
    assert plan.buffer("b") is buffer
    with pytest.raises(KeyError):
        plan.buffer("c")

"""The effect of a pass: what is left out, and what the figures of a variant are of."""

import threading
from typing import Any, cast

import pytest

import compiler
from compiler.driver import read_pipeline
from compiler.measure.effects import effects, left_out, without
from compiler.passes.base import Built as BuiltKernel
from compiler.passes.fuse import Fuse
from sample_models import sample


def rows(found: Any) -> dict[str, dict[str, Any]]:
    return {row["pass"]: row for row in found["rows"]}


def test_only_optional_passes_that_changed_something_are_left_out() -> None:
    built = compiler.compile(str(sample("softmax_spelled_out").path))
    names = left_out(built)
    required = {r.name for r in built.trace.records if r.required} - {"fuse"}
    changed = {r.name for r in built.trace.records if r.changed}
    assert "fuse" in names
    assert set(names) <= changed - required
    assert changed - required == set(names)


def test_leaving_fuse_out_groups_by_origin() -> None:
    found = without(read_pipeline("default"), "fuse")
    (fuse,) = (p for p in found if isinstance(p, Fuse))
    assert fuse.by == "origin"


def test_every_variant_says_what_it_moves_and_how_far_its_results_lie() -> None:
    sizes = {"r": 16, "c": 32}
    kernels: dict[str, BuiltKernel] = {}
    told: list[tuple[str, int, int]] = []
    found = effects(
        str(sample("five_op_chain").path), sizes=sizes, seconds=0.5, kernels=kernels,
        progress=lambda record, phase, done, of: told.append((phase, done, of)),
    )  # fmt: skip
    by_pass = rows(found)
    whole, fuse = by_pass[""], by_pass["fuse"]
    assert whole["launches"] == 1 and fuse["launches"] == 5
    assert whole["floor"] == 12 * 16 * 32 + 8 * 32
    assert fuse["floor"] == 44 * 16 * 32 + 8 * 32
    assert whole["ratio"] == 1.0 and fuse["ratio"] > 0
    assert fuse["moved"]["norm_rel"] < 1e-6
    assert cast(Any, found["conditions"])["sizes"] == sizes
    assert {phase for phase, _, _ in told} == {"effect", "measure"}
    rounds = [(done, of) for phase, done, of in told if phase == "measure"]
    assert rounds[0] == (0, 1) and all(0 < done <= of for done, of in rounds[1:])
    assert len(rounds) < 20, "telling is no part of what is timed"
    assert len(kernels) == 6, "the kernels of both variants are kept for the next compile"


def test_kernels_built_before_are_not_built_again() -> None:
    kernels: dict[str, BuiltKernel] = {}
    path = str(sample("five_op_chain").path)
    messages = []
    for _ in range(2):
        built = compiler.compile(path, kernels=kernels)
        messages += [e.message for e in built.trace.record("build").events]
    assert messages == ["build.done", "build.known"]


def test_a_cancel_is_heard() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(compiler.Cancelled):
        effects(str(sample("five_op_chain").path), cancel=stop)

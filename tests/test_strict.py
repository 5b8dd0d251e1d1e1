"""Strict numerics, and results that depend on nothing but the inputs.

    strict: fused == fuse{by=origin}, bit for bit
    any:    run(threads=1) == run(threads=n), bit for bit

Where a range is cut among threads, the rest of a vector loop moves; a result that moved with it
would depend on the machine.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import compiler
from compiler.driver import Built
from compiler.runtime import binding
from compiler.runtime.engine import Engine
from sample_models import sample
from tests.frontend.models import data, info, model, node
from tests.random_models import Random, models
from tests.whole import (
    NAMES,
    Whole,
    assert_close,
    assert_near,
    assert_same_bits,
    built,
    each_small,
    float64,
    inputs_of,
    pipeline_of,
    small,
)

SIZES = ((0, 0), (1, 1), (3, 5), (17, 64), (130, 257))


@cache
def by_origin(name: str) -> Built:
    """A sample in strict numerics, cleaned up as usual, one kernel an ONNX node."""
    each = sample(name)
    pipeline = f"{pipeline_of(each)},fuse{{by=origin}}"
    return compiler.compile(each.path, pipeline=pipeline, numerics="strict")


def sized(name: str, sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    one = built(name)
    names = [s.name for s in one.engine.signature.symbols]
    return inputs_of(one.trace, dict(zip(names, sizes, strict=True)), seed=3)


@pytest.mark.parametrize(("name", "sizes"), each_small(SIZES), ids=str)
def test_fused_is_op_by_op_bit_for_bit(name: str, sizes: tuple[int, ...]) -> None:
    inputs = sized(name, sizes)
    strict = built(name, numerics="strict")
    found = strict.engine.run(inputs)
    assert_same_bits(found, by_origin(name).engine.run(inputs))
    assert_near(found, float64(strict.model, inputs))


def test_strict_does_fuse() -> None:
    for name in ("five_op_chain", "softmax_spelled_out", "layernorm_residual"):
        fused, apart = built(name, numerics="strict"), by_origin(name)
        assert fused.engine.plan.launches() < apart.engine.plan.launches()
        assert fused.trace.numerics == "strict"


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(models(9))
def test_random_graphs_too(model: Random) -> None:
    source = model.proto.SerializeToString()
    fused = compiler.compile(source, numerics="strict")
    apart = compiler.compile(source, pipeline="default,fuse{by=origin}", numerics="strict")
    found = fused.engine.run(model.inputs)
    assert_same_bits(found, apart.engine.run(model.inputs))
    assert_close(found, float64(fused.model, model.inputs), 1e-4)


def test_constants_are_folded_as_the_kernel_would_compute_them() -> None:
    """Each result from constants, in strict numerics, is bit for bit the one from inputs."""
    values = np.array([0.0, -0.0, 1.5, -2.5, np.inf, np.nan, 1e-45, 3e38, 0.1, -7.25], np.float32)
    a, b = np.repeat(values, len(values)), np.tile(values, len(values))
    pairs = ["Add", "Sub", "Mul", "Div", "Min", "Max", "Pow"]
    nodes = [node(op, ["a", "b"], [f"y_{op}"]) for op in pairs]
    ones = ["Exp", "Tanh", "Erf", "Sigmoid", "Log", "Sqrt", "Neg", "Relu"]
    nodes += [node(op, ["a"], [f"y_{op}"]) for op in ones]
    nodes += [node("Softmax", ["a"], ["y_Softmax"]), node("ReduceMax", ["a"], ["y_ReduceMax"])]
    outputs = [n.output[0] for n in nodes]
    size = len(a)
    at_run = compiler.compile(
        data(model(nodes, [info("a", [size]), info("b", [size])], outputs)), numerics="strict"
    )
    ahead = compiler.compile(
        data(model(nodes, [], outputs, {"a": a, "b": b})), numerics="strict"
    )
    folded = {
        e.where for r in ahead.trace.records if r.name == "fold-constants"
        for e in r.events if e.edits
    }  # fmt: skip
    assert {"y_Add", "y_Div", "y_Max", "y_Sqrt"} <= folded
    assert not {"y_Exp", "y_Tanh", "y_Softmax"} & folded
    found, wanted = ahead.engine.run({}), at_run.engine.run({"a": a, "b": b})
    for name in outputs:
        nan = np.isnan(wanted[name])
        assert np.array_equal(nan, np.isnan(found[name])), name
        assert found[name][~nan].tobytes() == wanted[name][~nan].tobytes(), name


# ---- threads and chunks --------------------------------------------------------------------------


@pytest.mark.parametrize("numerics", ["default", "strict"])
@pytest.mark.parametrize("name", NAMES)
def test_threads_change_no_bit(name: str, numerics: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However a range is cut: at every size a step is split, into parts of odd lengths."""
    engine = built(name, numerics=numerics).engine
    split = Engine.assemble(engine.parts)
    monkeypatch.setattr(binding, "PARALLEL_WORK", 1)
    for sizes in dict.fromkeys(small(name, s) for s in SIZES[2:]):
        inputs = sized(name, sizes)
        whole = engine.run(inputs, threads=1)
        for threads in (2, 3, 7):
            assert_same_bits(split.run(inputs, threads=threads), whole)


def test_scratch_belongs_to_one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are kept between the loops of a kernel, in memory of the worker's own."""
    axes = {"axes": np.array([1], np.int64)}
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("ReduceSum", ["e", "axes"], ["z"]),
        node("Div", ["e", "z"], ["p"]),
        node("Log", ["p"], ["l"]),
        node("Mul", ["p", "l"], ["m"]),
        node("ReduceSum", ["m", "axes"], ["entropy"]),
    ]
    one = compiler.compile(data(model(nodes, [info("x", ["r", "c"])], ["entropy"], axes)))
    assert any(a.mode == "scratch" for k in one.module.kernels for a in k.args)
    monkeypatch.setattr(binding, "PARALLEL_WORK", 1)
    inputs = {"x": np.random.default_rng(0).standard_normal((211, 33)).astype(np.float32)}
    whole = one.engine.run(inputs, threads=1)
    assert_near(whole, float64(one.model, inputs))
    for threads in (2, 3, 8):
        assert_same_bits(one.engine.run(inputs, threads=threads), whole)


def test_large_runs_are_split_and_streamed_without_a_change() -> None:
    """Above the sizes at which steps are split, and rows written past the cache."""
    fused, apart = built("softmax_spelled_out", numerics="strict"), by_origin("softmax_spelled_out")
    inputs = sized("softmax_spelled_out", (2051, 2048))
    whole = fused.engine.run(inputs, threads=1)
    for threads in (2, 3):
        assert_same_bits(fused.engine.run(inputs, threads=threads), whole)
    assert_same_bits(apart.engine.run(inputs, threads=2), whole)
    default = built("softmax_spelled_out").engine
    found = default.run(inputs, threads=3)
    assert_same_bits(default.run(inputs, threads=1), found)
    x = inputs["x"].astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    assert_near(found, {"y": e / e.sum(axis=1, keepdims=True)})


def test_a_sum_over_everything_is_one_order_of_additions() -> None:
    source = model([node("ReduceSum", ["x"], ["y"], keepdims=0)], [info("x", ["r", "c"])], ["y"])
    engine = compiler.compile(data(source)).engine
    x = np.random.default_rng(0).standard_normal((300, 1000)).astype(np.float32)
    whole = engine.run({"x": x}, threads=1)
    for threads in (2, 3):
        assert_same_bits(engine.run({"x": x}, threads=threads), whole)
    assert abs(float(whole["y"]) - x.astype(np.float64).sum()) < 1e-2


def test_the_interpreter_agrees_with_strict_machine_code() -> None:
    """Where no function is a polynomial, the two levels give the same bits."""
    whole = Whole(sample("five_op_chain").path, numerics="strict")
    inputs = sized("five_op_chain", (17, 64))
    found = built("five_op_chain", numerics="strict").engine.run(inputs)
    assert_same_bits(whole.run(inputs), found)

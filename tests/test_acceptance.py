"""What must be seen of the samples: right results at every size, and exactly so many launches.

    |engine - reference| <= 1e-5 |reference|        reference in float64, one engine for all sizes
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import compiler
from compiler.errors import GuardError, OptionError
from compiler.fusion.decisions import Decision
from compiler.ir.plan import CallStep, KernelStep
from compiler.ir.types import Array
from compiler.runtime.engine import Engine, OutputError
from compiler.trace import PassRecord, Trace
from sample_models import FOLDER, sample
from tests.frontend.models import data, info, model, node
from tests.whole import (
    CONVOLUTIONS,
    PIPELINES,
    Whole,
    assert_near,
    assert_same_bits,
    built,
    each_small,
    float64,
    inputs_of,
    pipeline_of,
)

SIZES = ((7, 33), (250, 401), (0, 0), (1, 1), (0, 5), (5, 0))
"""The second is large enough for steps to be split over threads."""


# ---- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "sizes"), each_small(SIZES), ids=str)
@pytest.mark.parametrize("base", PIPELINES)
def test_one_engine_is_right_at_every_size(name: str, base: str, sizes: tuple[int, ...]) -> None:
    one = built(name, base)
    names = [s.name for s in one.engine.signature.symbols]
    inputs = inputs_of(one.trace, dict(zip(names, sizes, strict=True)), seed=1)
    found = one.engine.run(inputs)
    wanted = float64(one.model, inputs)
    assert all(a.dtype == np.float32 for a in found.values())
    assert_near(found, wanted)
    call = one.engine.bind(inputs)
    assert_same_bits(call(), found)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [(n, s) for n, s in each_small([(1, 1), (2, 3)]) if n not in CONVOLUTIONS or s == (1,)],
    ids=str,
)
def test_the_loops_say_the_same(name: str, sizes: tuple[int, ...]) -> None:
    """What the machine code was made from, read by an interpreter; of convolutions one image."""
    whole = interpreted(name)
    names = [s.name for s in whole.module.dims]
    inputs = inputs_of(whole.trace, dict(zip(names, sizes, strict=True)), seed=2)
    assert_near(whole.run(inputs), float64(whole.model, inputs))


@cache
def interpreted(name: str) -> Whole:
    return Whole(sample(name).path, pipeline_of(sample(name)))


@pytest.mark.parametrize("name", ["five_op_chain", "mlp", "tiny_gpt", "conv_bn_relu"])
def test_pinned_sizes_are_literals_of_the_code(name: str) -> None:
    symbols = built(name).engine.signature.symbols
    pin = {s.name: 3 + k for k, s in enumerate(symbols)}
    pinned = compiler.compile(sample(name).path, pin=pin)
    assert pinned.engine.signature.symbols == ()
    inputs = inputs_of(built(name).trace, pin)
    assert_near(pinned.engine.run(inputs), float64(pinned.model, inputs))
    other = inputs_of(built(name).trace, {n: size + 1 for n, size in pin.items()})
    with pytest.raises(ValueError, match="expected"):
        pinned.engine.run(other)


def test_digits_are_read_as_the_reference_reads_them() -> None:
    held_out = np.load(FOLDER / "digits_test.npz")
    inputs = {"image": held_out["image"].astype(np.float32)}
    one = built("digits")
    found = one.engine.run(inputs)["prob"].argmax(axis=1)
    assert np.array_equal(found, float64(one.model, inputs)["prob"].argmax(axis=1))
    assert (found == held_out["label"]).mean() >= 0.95


# ---- counts --------------------------------------------------------------------------------------


def kernels(trace: Trace) -> int:
    plan = trace.final.plan
    assert plan is not None
    return sum(isinstance(s, KernelStep) for s in plan.steps)


def test_layer_normalization_is_one_kernel() -> None:
    """And the residual with its bias another; the product between them is the library's."""
    trace = built("layernorm_residual").trace
    plan = trace.final.plan
    assert plan is not None
    norm, product, residual = plan.steps
    assert isinstance(norm, KernelStep) and norm.origins == {(0,)}
    assert isinstance(product, CallStep) and product.function == "matmul"
    assert isinstance(residual, KernelStep) and residual.origins == {(2,), (3,)}
    ops = trace.record("fuse").before.graph.ops
    assert sum((0,) in op.origins and op.kind != "const" for op in ops) >= 9


def decision(trace: Trace, a: str, b: str) -> Decision:
    (found,) = [d for d in trace.decisions if (d.a, d.b) == (a, b)]
    return found


def test_the_diamond_is_refused_by_r2_and_the_decision_says_so() -> None:
    trace = built("diamond").trace
    assert "partition-fallback{force=[b]}" in trace.pipeline
    refused = decision(trace, "a", "y")
    assert (refused.verdict, refused.rule, refused.message) == ("refused", "R2", "fuse.R2")
    assert dict(refused.parameters) == {"a": "a", "b": "y", "path": "b"}
    assert [b.message for b in trace.breaks()] == ["break.forced"]
    assert kernels(trace) == 2


def test_without_the_library_step_the_diamond_is_one_kernel() -> None:
    one = compiler.compile(sample("diamond").path)
    assert one.engine.plan.launches() == 1
    assert not one.trace.breaks()


def test_no_force_goes_past_a_rule() -> None:
    """The user may override the gain, never R1 to R8."""
    pipeline = "default,partition-fallback{force=[b]},fuse{force=[a+y]}"
    trace = compiler.compile(sample("diamond").path, pipeline=pipeline).trace
    assert decision(trace, "a", "y").rule == "R2"
    assert kernels(trace) == 2
    told = {e.message for e in trace.record("fuse").events}
    assert "fuse.option.refused" in told


def test_a_forbidden_pair_stays_apart() -> None:
    trace = compiler.compile(
        sample("five_op_chain").path, pipeline="default,fuse{forbid=[T3+T4]}"
    ).trace
    assert kernels(trace) == 2


def test_equal_kernels_are_built_once() -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("MatMul", ["a", "w"], ["m"]),
             node("Relu", ["m"], ["b"]), node("MatMul", ["b", "w"], ["n"]),
             node("Relu", ["n"], ["y"])]  # fmt: skip
    source = model(nodes, [info("x", ["n", 3])], ["y"], {"w": np.eye(3, dtype=np.float32)})
    one = compiler.compile(data(source))
    assert kernels(one.trace) == 3
    # The first reads the caller's array, the other two write over the products.
    symbols = [s.symbol for s in one.module.sources]
    assert symbols[1] == symbols[2] != symbols[0]
    x = np.array([[1, -2, 3]], np.float32)
    assert np.array_equal(one.engine.run({"x": x})["y"], [[1, 0, 3]])


# ---- the engine's contract, as the compiler makes engines ----------------------------------------


def chain_inputs(rows: int = 5, cols: int = 37) -> dict[str, Array]:
    return inputs_of(built("five_op_chain").trace, {"r": rows, "c": cols})


def right(inputs: dict[str, Array]) -> dict[str, Array]:
    return float64(built("five_op_chain").model, inputs)


def test_the_same_array_may_be_two_inputs() -> None:
    inputs = chain_inputs()
    inputs["R"] = inputs["X"]
    inputs["s"] = inputs["b"]
    assert_near(built("five_op_chain").engine.run(inputs), right(inputs))


def offset(array: Array, by: int) -> Array:
    """The array's copy, `by` bytes past a multiple of 64."""
    raw = np.empty(array.nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + by
    view = np.ndarray(array.shape, array.dtype, raw, start)
    view[...] = array
    return view


@pytest.mark.parametrize(
    "change",
    [
        lambda a: np.asfortranarray(a),
        lambda a: a[..., ::-1].copy()[..., ::-1],
        lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
        lambda a: offset(a, 1),
        lambda a: offset(a, 4),
        lambda a: offset(a, 20),
        lambda a: a.astype(">f4"),
        lambda a: np.broadcast_to(a[..., :1], a.shape),
    ],
    ids=["column-major", "reversed", "strided", "1 byte off", "4 bytes off", "20 bytes off",
         "big-endian", "broadcast"],
)  # fmt: skip
def test_inputs_lie_in_memory_as_they_like(change: Callable[[Array], Array]) -> None:
    given = {name: change(a) for name, a in chain_inputs().items()}
    plain = {name: np.array(a, np.float32) for name, a in given.items()}
    engine = built("five_op_chain").engine
    assert_same_bits(engine.run(given), engine.run(plain))
    assert_near(engine.run(plain), right(plain))


def test_out_is_written_where_it_lies_and_overlaps_nothing() -> None:
    engine, inputs = built("five_op_chain").engine, chain_inputs()
    wanted = engine.run(inputs)["Y"]
    for by in (0, 4, 20):
        out = offset(np.zeros_like(wanted), by)
        assert engine.run(inputs, {"Y": out})["Y"] is out
        assert np.array_equal(out, wanted)
    for name in ("X", "R"):
        with pytest.raises(OutputError, match=f"shares memory with input '{name}'"):
            engine.run(inputs, {"Y": inputs[name]})
        with pytest.raises(OutputError):
            engine.bind(inputs, {"Y": inputs[name]})
    with pytest.raises(OutputError):
        engine.run({**inputs, "b": wanted.reshape(-1)[3:40]}, {"Y": wanted})
    with pytest.raises(OutputError, match="the result is float32"):
        engine.run(inputs, {"Y": np.empty((5, 36), np.float32)})


def test_nothing_around_an_output_is_touched() -> None:
    """At any width, aligned or not: the tail of a vector loop ends where the array ends."""
    engine = built("softmax_spelled_out").engine
    for cols in (1, 7, 8, 9, 63, 64, 65):
        inputs = inputs_of(built("softmax_spelled_out").trace, {"rows": 3, "cols": cols})
        memory = np.full(3 * cols + 64, -7, np.float32)
        for start in (0, 1, 5, 16):
            memory[...] = -7
            out = memory[start : start + 3 * cols].reshape(3, cols)
            engine.run(inputs, {"y": out})
            assert (memory[:start] == -7).all() and (memory[start + 3 * cols :] == -7).all()
            np.testing.assert_allclose(out.sum(axis=1), 1, rtol=1e-6)


def test_scalars_in_and_out() -> None:
    nodes = [node("Mul", ["x", "x"], ["q"]), node("Add", ["q", "one"], ["y"])]
    source = model(nodes, [info("x", [])], ["y"], {"one": np.float32(1)})
    engine = compiler.compile(data(source)).engine
    for x in (np.float32(3), np.array(3, np.float32)):
        y = engine.run({"x": x})["y"]
        assert y.shape == () and y.dtype == np.float32 and y == 10
    out = np.zeros((), np.float32)
    assert engine.run({"x": np.float32(2)}, {"y": out})["y"] is out
    assert out == 5


def test_a_guard_that_fails_names_sizes_and_node() -> None:
    source = model(
        [node("Add", ["x", "y"], ["z"], name="join")], [info("x", ["n"]), info("y", ["m"])], ["z"]
    )
    engine = compiler.compile(data(source)).engine
    x = np.ones(3, np.float32)
    assert np.array_equal(engine.run({"x": x, "y": x})["z"], [2, 2, 2])
    with pytest.raises(GuardError, match=r"join.*n == m.*m=1, n=3"):
        engine.run({"x": x, "y": x[:1]})


def test_inputs_that_do_not_fit_are_named() -> None:
    engine, inputs = built("five_op_chain").engine, chain_inputs()
    with pytest.raises(ValueError, match="input 'b' has extent 36, expected 37"):
        engine.run({**inputs, "b": inputs["b"][:36]})
    with pytest.raises(ValueError, match="input 'b' is missing"):
        engine.run({name: a for name, a in inputs.items() if name != "b"})
    with pytest.raises(ValueError, match=r"'X'.*float64"):
        engine.run({**inputs, "X": inputs["X"].astype(np.float64)})


# ---- compiling ---------------------------------------------------------------------------------


def test_progress_is_told_pass_by_pass_and_kernel_by_kernel() -> None:
    told: list[tuple[str, int, int]] = []
    names: list[str] = []

    def progress(record: PassRecord | None, phase: str, done: int, of: int) -> None:
        told.append((phase, done, of))
        if record is not None:
            names.append(record.name)

    one = compiler.compile(sample("mlp").path, progress=progress)
    assert names == [r.name for r in one.trace.records]
    assert [t for t in told if t[0] == "pass"] == [
        ("pass", k + 1, len(names)) for k in range(len(names))
    ]
    assert [t for t in told if t[0] == "build"] == [("build", 0, 2), ("build", 1, 2)]


def test_a_compile_can_be_stopped_between_passes_and_kernels() -> None:
    for at in ("infer-shapes", "fuse", "emit"):
        cancel = threading.Event()

        def progress(record: PassRecord | None, *_: object) -> None:
            if record is not None and record.name == at:  # noqa: B023
                cancel.set()  # noqa: B023

        with pytest.raises(compiler.Cancelled):
            compiler.compile(sample("mlp").path, progress=progress, cancel=cancel)


def test_four_threads_compile_at_once() -> None:
    names = ("five_op_chain", "softmax_spelled_out", "digits", "diamond")
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda name: compiler.compile(sample(name).path), names))
    for name, one in zip(names, made, strict=True):
        inputs = inputs_of(one.trace, {s.name: 3 for s in one.engine.signature.symbols})
        assert_near(one.engine.run(inputs), float64(one.model, inputs))
        assert one.trace.name == name


# ---- the store -----------------------------------------------------------------------------------


def test_a_store_gives_the_engine_back_and_says_what_changed(tmp_path: Path) -> None:
    path = sample("diamond").path
    first = compiler.compile(path, store=tmp_path)
    assert not first.hit and first.changed == ()
    again = compiler.compile(path, store=tmp_path)
    assert again.hit and again.key == first.key
    assert again.trace.final == first.trace.final
    other = compiler.compile(path, store=tmp_path, numerics="strict")
    assert not other.hit and other.changed == ("numerics",)
    inputs = inputs_of(first.trace, {"rows": 2, "cols": 3})
    assert_same_bits(again.engine.run(inputs), first.engine.run(inputs))
    loaded = Engine.load(tmp_path / "engine" / first.key.digest)
    assert_same_bits(loaded.run(inputs), first.engine.run(inputs))


def test_a_folder_holds_the_engine_that_was_saved_last(tmp_path: Path) -> None:
    built("diamond").engine.save(tmp_path / "k")
    built("five_op_chain").engine.save(tmp_path / "k")
    assert Engine.load(tmp_path / "k").name == "five_op_chain"
    written = (tmp_path / "k" / "manifest.json").stat().st_ino
    built("five_op_chain").engine.save(tmp_path / "k")
    assert (tmp_path / "k" / "manifest.json").stat().st_ino == written, "it was there already"


def test_what_cannot_be_asked_for_is_refused() -> None:
    path = sample("diamond").path
    with pytest.raises(OptionError, match="a target is one of cpu, cuda, cuda:ptx, not 'tpu'"):
        compiler.compile(path, target="tpu")
    with pytest.raises(OptionError, match="one of default, strict, not 'fast'"):
        compiler.compile(path, numerics="fast")
    with pytest.raises(OptionError, match="one of any, not 'pad'"):
        compiler.compile(path, shapes={"rows": "pad"})
    with pytest.raises(ValueError, match="threads is 0"):
        compiler.compile(path, threads=0)

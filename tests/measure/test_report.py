"""A measurement from end to end at small sizes: what it holds, never how fast it was."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import compiler
from compiler.errors import InputsError
from compiler.ir.parser import parse_dim
from compiler.measure.bytes import step_bytes, total_floor
from compiler.measure.cold import ColdStartError, measure_compile, measure_load
from compiler.measure.report import Report, baseline, explanation, measure, print_report
from compiler.pipeline import OP_BY_OP, parse_pipeline, print_pipeline
from sample_models import sample
from tests.measure.models import FORCED, built, traced

CHAIN = sample("five_op_chain").path
SIZES = {"r": 12, "c": 20}
BOTH = {"op_by_op", "fused"}


@pytest.fixture(scope="module")
def chain() -> Report:
    return measure(CHAIN, sizes=SIZES, repetitions=4, cold=False)


def test_a_report_fulfils_the_schema(chain: Report) -> None:
    found = json.loads(json.dumps(chain.to_json(), allow_nan=False))
    assert found["schema"] == 1 and found["model"] == "five_op_chain"
    assert found["launches"] == {"op_by_op": 5, "fused": 1}
    assert found["kernels"] == {"op_by_op": 5, "fused": 1}
    assert found["floor_formula"]["fused"] == "12*c*r+8*c"
    n, row = 4 * 12 * 20, 4 * 20
    assert found["bytes"]["op_by_op"]["floor"] == 11 * n + 2 * row
    assert found["bytes"]["fused"]["floor"] == 3 * n + 2 * row
    for name in BOTH:
        words = found["bytes"][name]
        assert words.keys() == {"floor", "touched", "simulated", "measured"}
        assert words["measured"] is None and words["floor"] <= words["touched"]
        assert words["simulated"] >= words["floor"] - 64 * 8 and words["simulated"] % 64 == 0
        assert found["bandwidth"][name] > 0
        assert found["error"][name]["allclose"] is True
        assert found["error"][name]["norm_rel"] < 1e-6
        keys = {"max_abs", "max_rel", "norm_rel", "share_above", "allclose"}
        assert keys <= found["error"][name].keys()
        kernels = found["per_kernel"][name]
        assert len(kernels) == found["launches"][name]
        for step in kernels:
            assert {"name", "kind", "floor", "touched", "formula", "origins"} <= step.keys()
            assert step["kind"] == "kernel" and step["origins"] and step["p50"] > 0
        assert sum(step["floor"] for step in kernels) == words["floor"]
        assert sum(step["touched"] for step in kernels) == words["touched"]
    for name in ("reference", *BOTH):
        latency = found["latency"][name]
        assert latency["repetitions"] == 4 and latency["p50"] > 0
        assert latency["p95"] is None and latency["p99"] is None
    assert found["memory"] == {"naive": 0, "peak": 0, "lower_bound": 0}
    assert found["cold_start"] == {}
    assert set(found["bandwidth"]["copies"]) == {"library", "plain stores", "non-temporal stores"}
    conditions = found["conditions"]
    assert conditions["sizes"] == SIZES and conditions["dtype"] == "float32"
    assert conditions["repetitions"] == 4 and conditions["reference"].endswith("float64")
    assert conditions["fallback"] == "" and conditions["cpu"] and conditions["threads"] >= 1


def test_a_brief_report_compares_the_two_and_leaves_out_the_rest(chain: Report) -> None:
    brief = measure(CHAIN, sizes=SIZES, repetitions=4, cold=False, brief=True)
    found, whole = brief.to_json(), chain.to_json()
    assert found.keys() == whole.keys()
    for key in ("bytes", "launches", "kernels", "error", "floor_formula"):
        assert found[key] == whole[key]
    assert brief.reference is None and brief.peak is None
    assert brief.conditions.notes["reference"] == chain.conditions.notes["reference"]
    for variant in (brief.op_by_op, brief.fused):
        assert variant.latency.repetitions == 4 and variant.bandwidth
        assert variant.steps and all(step.p50 is None for step in variant.steps)
    assert "reference" not in print_report(brief).split("bytes")[0]


def test_a_report_prints_with_its_conditions(chain: Report) -> None:
    text = print_report(chain)
    for part in ("r=12, c=20", "floor, fused: 12*c*r+8*c", "op by op", "simulated",
                 "conditions", "threads", "n0 n1 n2 n3 n4", "copies of this run"):  # fmt: skip
        assert part in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_library_steps_keep_their_place_in_the_baseline() -> None:
    chosen = parse_pipeline(f"{FORCED},emit{{math=libm}},-cse")
    plain = baseline(chosen)
    text = print_pipeline(plain)
    assert "partition-fallback{force=[b]}" in text and "emit{math=libm}" in text
    assert [p.name for p in plain] == [p.name for p in OP_BY_OP]
    assert baseline(parse_pipeline("default")) == OP_BY_OP


def test_a_forced_library_step_and_a_pin_at_size_zero() -> None:
    path = sample("diamond").path
    found = measure(
        path, pipeline=FORCED, pin={"rows": 8}, sizes={"cols": 0}, repetitions=2, cold=False
    ).to_json()
    assert json.dumps(found, allow_nan=False)
    assert found["launches"] == {"op_by_op": 3, "fused": 3}
    steps = found["per_kernel"]["fused"]  # pyright: ignore
    assert [s["kind"] for s in steps] == ["kernel", "call", "kernel"]
    assert steps[1]["name"] == "Exp" and steps[1]["origins"] == ["n1"]
    assert found["bytes"]["fused"]["floor"] == 0  # pyright: ignore
    assert found["conditions"]["sizes"] == {"rows": 8, "cols": 0}  # pyright: ignore


def data_dependent() -> bytes:
    """y = f*f of f = the indices where x is not zero: its size is known only from data."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["z"]),
        helper.make_node("Cast", ["z"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "f"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "found", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return model.SerializeToString()


def test_sizes_that_data_tell() -> None:
    x = np.zeros((4, 6), np.float32)
    x[1, 2] = x[3, 5] = x[0, 0] = 1.0
    found = measure(data_dependent(), inputs={"x": x}, repetitions=2, cold=False)
    assert found.conditions.sizes["n"] == 4 and found.conditions.sizes["m"] == 6
    (size,) = (v for k, v in found.conditions.sizes.items() if k not in ("n", "m"))
    assert size == 3
    assert found.fused.floor == 4 * 4 * 6 + 8 * 2 * 3 + (8 + 4) * 2 * 3
    assert found.fused.error is not None and found.fused.error.max_abs == 0
    assert json.dumps(found.to_json(), allow_nan=False)


def test_inputs_from_a_file_give_the_sizes(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    rng = np.random.default_rng(0)
    np.savez(path, x=rng.standard_normal((3, 7)).astype(np.float32))
    softmax = sample("softmax_spelled_out").path
    found = measure(softmax, inputs=path, repetitions=2, cold=False)
    assert found.conditions.sizes == {"rows": 3, "cols": 7}
    assert found.conditions.notes["inputs"] == "given"
    with pytest.raises(InputsError, match="rows is 3 in the inputs, so it cannot be 4"):
        measure(softmax, inputs=path, sizes={"rows": 4}, repetitions=2, cold=False)


def test_a_cancel_is_heard_while_timing() -> None:
    stop = threading.Event()
    phases: list[str] = []

    def progress(record: object, phase: str, done: int, of: int) -> None:
        phases.append(phase)
        if phase == "measure":
            stop.set()

    with pytest.raises(compiler.Cancelled):
        measure(CHAIN, sizes=SIZES, cold=False, progress=progress, cancel=stop)
    assert list(dict.fromkeys(phases)) == ["pass", "build", "reference", "count", "measure"]


def test_an_explanation_counts_both_ways() -> None:
    found = explanation(built("mlp"))
    assert found["launches"] == {"op_by_op": 6, "fused": 4}
    formulas = found["floor_formula"]
    assert isinstance(formulas, dict) and set(formulas) == BOTH
    plain = step_bytes(traced("mlp", "op-by-op")[0].final)
    value = parse_dim(str(formulas["op_by_op"]))
    assert value.evaluate({"batch": 10}) == total_floor(plain, {"batch": 10})


# ---- cold start ----------------------------------------------------------------------------------


def test_a_cold_compile_and_a_cold_load_have_their_phases(tmp_path: Path) -> None:
    found = measure_compile(
        CHAIN, pin={}, sizes=SIZES, pipeline="default,emit{math=libm}", numerics="strict", threads=1
    )
    phases = ["import", "passes", "emit", "compile", "link", "first_run"]
    assert list(found) == [*phases, "total"]
    assert found["total"] == pytest.approx(sum(found[p] for p in phases))
    assert all(found[p] > 0 for p in phases)
    built("five_op_chain").engine.save(tmp_path / "engine")
    loaded = measure_load(tmp_path / "engine", sizes=SIZES, threads=1)
    assert list(loaded) == ["import", "load", "first_run", "total"]
    assert all(value > 0 for value in loaded.values())


def test_a_cold_start_that_fails_says_how(tmp_path: Path) -> None:
    with pytest.raises(ColdStartError, match="missing"):
        measure_load(tmp_path, sizes={}, threads=1)
    with pytest.raises(ColdStartError, match="no result after 0 seconds"):
        measure_load(tmp_path, sizes={}, threads=1, time_limit=0)
    stop = threading.Event()
    stop.set()
    with pytest.raises(compiler.Cancelled):
        measure_load(tmp_path, sizes={}, threads=1, cancel=stop)

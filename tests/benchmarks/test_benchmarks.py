"""The benchmarks' plumbing, with small models; no time is asserted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks.cold_start import cold_starts
from benchmarks.compile_time import compile_times
from benchmarks.numpy_models import NUMPY
from benchmarks.race import ERROR, Contestant, Race, race, turns
from compiler.frontend.load import load
from compiler.frontend.reference import reference
from compiler.measure.accuracy import compare_all
from compiler.measure.timing import Latency
from sample_models import sample


def test_everybody_gets_its_turns_and_no_round_is_left_half() -> None:
    seen: list[str] = []
    found = turns({k: lambda k=k: seen.append(k) for k in "abc"}, repetitions=200, seconds=60)
    assert {latency.repetitions for latency in found.values()} == {240}
    firsts = [k for k, before in zip(seen, ["", *seen], strict=False) if k != before]
    assert set(firsts) == set("abc") and len(firsts) > 6


def test_race_checks_times_and_says_who_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> object:
        raise ImportError("torch is not installed")

    def wrong(inputs: object, outs: dict[str, np.ndarray]) -> object:
        return lambda: outs["y"].fill(1)

    monkeypatch.setattr("benchmarks.race.NUMPY", {"bias_relu": wrong})
    monkeypatch.setattr("benchmarks.race.torch_call", none)
    each = sample("bias_relu")
    sizes = {"rows": 8, "cols": 16}
    found = race("bias_relu", each.path.read_bytes(), sizes, 2, repetitions=9, seconds=0.1)
    assert found.launches == 1 and found.library == 0
    assert found.ratio("fused") == 1
    for who in ("op by op", "fused", "ONNX Runtime"):
        assert found.contestants[who].latency is not None
        assert found.contestants[who].error <= ERROR
    assert found.contestants["NumPy"].latency is None
    assert "error" in found.contestants["NumPy"].absent
    assert found.contestants["torch.compile"].absent == "ImportError: torch is not installed"
    text = "\n".join(command.race_lines(found))
    assert "NumPy is not there" in text and "fused" in text
    assert json.loads(json.dumps(found.to_json()))["sizes"] == sizes


@pytest.mark.parametrize("name", sorted(NUMPY.keys() - {"softmax"}))
def test_numpy_models_compute_what_the_sample_does(name: str) -> None:
    model = load(sample(name).path)
    rng = np.random.default_rng(0)
    inputs = {
        v.name: rng.standard_normal([8] * len(v.type.tensor_type.shape.dim), np.float32)
        for v in model.proto.graph.input
    }
    wanted = reference(model, inputs).outputs
    outs = {n: np.full(y.shape, np.nan, np.float32) for n, y in wanted.items()}
    NUMPY[name](inputs, outs)()
    assert compare_all(outs, wanted).norm_rel <= ERROR


def test_equal_kernels_are_compiled_once() -> None:
    small, large = compile_times(1, (2, 4))
    assert (small.nodes, large.nodes) == (50, 100)
    assert large.kernels > small.kernels
    assert large.compiled == small.compiled < small.kernels
    assert "50-100" in command.compile_lines([small, large])[1]


def test_a_cold_start_in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.cold_start.KINDS", ("saved artifact",))
    found = cold_starts("bias_relu", sample("bias_relu").path, {"rows": 4, "cols": 4}, 1, 1)
    assert set(found.phases["saved artifact"]) == {"import", "load", "first run"}
    assert found.total("fused") is None


def test_command_writes_conditions_and_figures(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    assert command.main(["steps", "--json", str(path)]) == 0
    found = json.loads(path.read_text())
    assert {"cpu", "threads", "versions", "date", "order", "outputs"} <= found["conditions"].keys()
    assert found["figures"][0]["value"] == 1
    with pytest.raises(SystemExit):
        command.main(["nowhere"])


def test_recorded_runs_name_their_conditions() -> None:
    for path in (Path(command.__file__).parent / "recorded").glob("cpu-*.json"):
        for run in json.loads(path.read_text()):
            assert {"cpu", "threads", "versions", "date", "commit"} <= run["conditions"].keys()


def test_ratio_needs_both() -> None:
    there, absent = Contestant(Latency((2.0,)), 0.0), Contestant(None, 0.0, "no torch")
    found = Race("m", {}, {"fused": there, "torch.compile": absent}, 1, 0)
    assert found.ratio("torch.compile") is None and found.ratio("nobody") is None

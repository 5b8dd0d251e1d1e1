"""Measuring on a GPU, with a driver and counters that are not there: what is run, and what told."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from compiler.__main__ import main
from compiler.codegen import numba_cuda_api
from compiler.codegen.numba_cuda_api import CompiledPtx
from compiler.errors import TargetError
from compiler.measure import gpu, hbm
from compiler.measure.hbm import CountersClosed, Samples, measured
from compiler.measure.report import Report, measure, print_report
from compiler.runtime import cuda_driver
from sample_models import sample
from tests.runtime.fake_gpu import FakeLibrary, fake_device, parts_of

CHAIN = sample("five_op_chain").path
SIZES = {"r": 6, "c": 20}


@dataclass
class FakeSamples:
    """Two samples, each with half of what was moved."""

    read: float
    written: float
    num_completed_samples: int = 2

    def __getitem__(self, index: int, /) -> "FakeSamples":
        return self

    @property
    def metric_values(self) -> list[float]:
        return [self.read / 2, self.written / 2]


class FakeCollector:
    """Counts 100 bytes read and 50 written for each launch since it was configured."""

    def __init__(self, failing: str = "", samples: int = 2) -> None:
        self.calls: list[str] = []
        self.failing = failing
        self.samples = samples

    def note(self, name: str) -> None:
        if name == self.failing:
            raise PermissionError(f"no {name} for you")
        self.calls.append(name)

    def enable(self) -> None:
        self.note("enable")

    def configure(self, *, metrics: list[str], sampling_interval: int) -> None:
        assert len(metrics) == 2 and sampling_interval > 0
        self.note("configure")

    def start(self) -> None:
        self.note("start")

    def stop(self) -> None:
        self.note("stop")

    def decode(self, max_samples: int) -> Samples:
        since = self.calls[self.calls.index("configure") :].count("launch")
        self.note("decode")
        return FakeSamples(100.0 * since, 50.0 * since, self.samples)

    def disable(self) -> None:
        self.note("disable")


def counted(collector: FakeCollector, runs: int = 4) -> hbm.HbmBytes:
    return measured(
        lambda: collector.note("launch"), lambda: collector.note("wait"), lambda _: collector, runs
    )


def test_the_warm_up_is_not_counted() -> None:
    collector = FakeCollector()
    found = counted(collector)
    assert (found.read, found.written, found.total, found.samples) == (100, 50, 150, 2)
    assert collector.calls == [
        "launch", "wait", "enable", "configure", "start", *["launch"] * 4, "wait", "stop",
        "decode", "disable",
    ]  # fmt: skip


@pytest.mark.parametrize("failing", ["enable", "configure", "start", "decode"])
def test_closed_counters_say_how_they_are_opened(failing: str) -> None:
    collector = FakeCollector(failing)
    with pytest.raises(CountersClosed, match=r"no .* for you.*NVreg_RestrictProfiling.*SYS_ADMIN"):
        counted(collector)
    assert ("disable" in collector.calls) == (failing != "enable")


def test_more_samples_than_are_kept_are_no_measurement() -> None:
    with pytest.raises(CountersClosed, match="4 runs give more than"):
        counted(FakeCollector(samples=hbm.MOST_SAMPLES))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLibrary]:
    """A GPU that runs the chain's loop trees, and a compiler that leaves kernels as they are."""
    trees = {
        symbol: tree
        for pipeline in ("default", "op-by-op")
        for symbol, tree in parts_of(CHAIN, pipeline, SIZES)[1].kernels.items()
    }
    found = FakeLibrary(trees)

    def compile_ptx(name: str, source: str, **_: object) -> CompiledPtx:
        return CompiledPtx(name, "", "")

    def link_cubin(name: str, ptx: str, capability: tuple[int, int]) -> bytes:
        return name.encode()

    monkeypatch.setattr(numba_cuda_api, "compile_ptx", compile_ptx)
    monkeypatch.setattr(numba_cuda_api, "link_cubin", link_cubin)
    monkeypatch.setattr(cuda_driver.Device, "_open", {0: fake_device(found)})
    yield found


def on_gpu() -> Report:
    return measure(CHAIN, "cuda", sizes=SIZES, repetitions=12, cold=False)


def test_a_report_of_a_gpu(library: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    collectors: list[FakeCollector] = []

    def counters(index: int) -> FakeCollector:
        made = FakeCollector()
        collectors.append(made)
        before = len(library.launches)

        def decode(max_samples: int) -> Samples:
            since = len(library.launches) - before
            return FakeSamples(300.0 * since, 0.0)

        monkeypatch.setattr(made, "decode", decode)
        return made

    monkeypatch.setattr(gpu, "open_counters", lambda: (counters, ""))
    monkeypatch.setattr(gpu, "MOST_HBM_RUNS", 3)
    found = json.loads(json.dumps(on_gpu().to_json(), allow_nan=False))
    assert found["target"] == "cuda" and found["launches"] == {"op_by_op": 5, "fused": 1}
    n, row = 4 * 6 * 20, 4 * 20
    assert found["bytes"]["fused"] == {
        "floor": 3 * n + 2 * row, "touched": None, "simulated": None, "measured": 300,
    }  # fmt: skip
    assert found["bytes"]["op_by_op"]["floor"] == 11 * n + 2 * row
    assert found["bytes"]["op_by_op"]["measured"] == 5 * 300
    assert len(collectors) == 2 and all(c.calls[-1] == "disable" for c in collectors)
    for name in ("op_by_op", "fused"):
        assert found["error"][name]["norm_rel"] < 1e-6
        assert found["latency"][name]["repetitions"] == 12
        assert found["latency"][name]["p50"] == 0.25, "the driver's clock"
        assert found["bandwidth"][name] > 0
        steps = found["per_kernel"][name]
        assert [s["p50"] for s in steps] == [0.25] * found["launches"][name]
        assert sum(s["floor"] for s in steps) == found["bytes"][name]["floor"]
    assert found["latency"]["reference"]["p50"] > 0
    assert list(found["bandwidth"]["copies"]) == [gpu.COPY]
    about = found["conditions"]
    assert about["device"] == "Fake GPU" and about["driver"] == "13.0"
    assert about["capability"] == "9.0" and about["counters"] == "open"
    assert "cache_model" not in about and about["bytes"] == "HBM"


def test_a_report_says_why_nothing_is_measured(library: FakeLibrary) -> None:
    closed = (None, "cupti-python is not installed: pip install it")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu, "open_counters", lambda: closed)
        report = on_gpu()
    assert report.fused.measured is None and report.op_by_op.measured is None
    text = print_report(report)
    for part in ("target=cuda", "counters: cupti-python is not installed", "device: Fake GPU",
                 "clock: events", "device to device"):  # fmt: skip
        assert part in text


def test_outputs_are_poisoned_before_they_are_compared(library: FakeLibrary) -> None:
    """A kernel that writes nothing gives NaN, not what another variant left there."""
    parts, _ = parts_of(CHAIN, "default", SIZES)
    from compiler.runtime.cuda import CudaEngine

    engine = CudaEngine(parts, fake_device(library))
    random = np.random.default_rng(0)
    inputs = {
        name: random.standard_normal([d.evaluate(SIZES) for d in type.dims]).astype(np.float32)
        for name, type in engine.signature.inputs
    }
    bench = gpu.Bench({"fused": engine}, inputs)
    (y,) = bench.results("fused").values()
    assert np.isfinite(y).all()
    library.cuLaunchKernel = lambda *_: 0  # pyright: ignore
    (y,) = bench.results("fused").values()
    assert np.isnan(y).all()


def test_where_no_gpu_is_the_way_out_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise cuda_driver.NoDevice("the driver's library libcuda.so.1 is not there")

    monkeypatch.setattr(cuda_driver, "_open_driver", missing)
    monkeypatch.setattr(cuda_driver.Device, "_open", {})
    assert main(["measure", str(CHAIN), "--target", "cuda"]) == 1
    told = capsys.readouterr().err
    assert "libcuda.so.1 is not there" in told and "cuda:ptx" in told
    with pytest.raises(TargetError, match=r"runs nothing.*cuda where a GPU is"):
        measure(CHAIN, "cuda:ptx")


def test_counters_need_their_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hbm.importlib.util, "find_spec", lambda name: None)
    assert gpu.open_counters()[0] is None
    assert "pip install" in gpu.open_counters()[1]

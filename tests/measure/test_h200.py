"""The benchmark of the H200 without one: everything but the GPU, at small sizes."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler
from benchmarks import cuda_h200
from compiler.codegen import numba_cuda_api
from compiler.codegen.numba_cuda_api import CompiledPtx
from compiler.measure import gpu
from compiler.runtime import cuda_driver
from tests.runtime.fake_gpu import FakeLibrary, fake_device

Case = cuda_h200.Case


def small(case: Case) -> Case:
    sizes = {"rows": 3, "cols": 64}
    kept = dict(list(case.variants.items())[:1])
    other = [{"rows": r, "cols": c} for r, c in ((5, 1), (2, 37), (0, 8))]
    pin = {n: sizes[n] for n in case.pin}
    return replace(case, sizes=sizes, pin=pin, variants=kept, other_sizes=other)


NAMES = ("chain", "softmax", "residual layernorm")
CASES = [small(c) for c in cuda_h200.CASES if c.name in NAMES]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    """A GPU that runs whatever has been compiled while the test runs."""
    found = FakeLibrary({})
    compile: Callable[..., Any] = compiler.compile

    def seen(*args: Any, **options: Any) -> Any:
        built = compile(*args, **options)
        for source in built.module.sources:
            found.add(source.symbol, built.module.kernel(source.kernel))
        return built

    def compile_ptx(name: str, source: str, **_: object) -> CompiledPtx:
        return CompiledPtx(name, "", "")

    def link_cubin(name: str, ptx: str, capability: tuple[int, int]) -> bytes:
        return name.encode()

    monkeypatch.setattr(compiler, "compile", seen, raising=False)
    monkeypatch.setattr(numba_cuda_api, "compile_ptx", compile_ptx)
    monkeypatch.setattr(numba_cuda_api, "link_cubin", link_cubin)
    monkeypatch.setattr(cuda_driver.Device, "_open", {0: fake_device(found)})
    monkeypatch.setattr(gpu, "open_counters", lambda: (None, "closed here"))
    monkeypatch.setattr(cuda_h200, "REPETITIONS", 1)
    monkeypatch.setattr(cuda_h200, "ROUNDS", 2)
    monkeypatch.setattr(cuda_h200, "SAMPLE_SIZES", (9, 4))
    return found


def built(folder: Path, cases: Sequence[Case], *samples: str) -> None:
    """As `build`, with samples that are timed at small sizes."""
    cuda_h200.build(folder, cases, samples)
    index = json.loads((folder / "index.json").read_text())
    for entry in index["samples"]:
        entry["sizes"] = dict.fromkeys(entry["sizes"], 4)
    (folder / "index.json").write_text(json.dumps(index))


def test_a_dry_run(
    library: FakeLibrary, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "engines").mkdir()
    built(tmp_path / "engines", CASES, "bias_relu", "mlp")
    path = tmp_path / "out" / "found.json"
    assert cuda_h200.run(tmp_path / "engines", path, CASES, [["measure", "no_such_model"]]) == 1
    found = json.loads(path.read_text())
    assert [c["case"] for c in found["cases"]] == [c.name for c in CASES]
    for case in found["cases"]:
        assert case["right"] and max(case["errors"].values()) < 1e-6
        rows = {r["variant"]: r for r in case["rows"]}
        assert set(cuda_h200.CHOSEN) < set(rows)
        assert rows["op by op"]["floor"] > rows["by rule"]["floor"] == rows["any size"]["floor"]
        assert all(r["ms"] == 0.25 for r in rows.values())
    for sample in found["samples"]:
        assert sample["right"] and len(sample["errors"]["fused"]) == 2
    assert [s["steps"]["fused"]["host"] for s in found["samples"]] == [0, 2]
    (told,) = found["measure"]
    assert told["code"] == 1 and "no_such_model" in told["told"]
    assert found["counters"] == "closed here" and found["conditions"]["gpu"] == "Fake GPU"
    printed = capsys.readouterr().out
    assert "goal 0.95 of copy" in printed and "not measured" in printed and "all right" in printed


def test_a_wrong_kernel_is_found(library: FakeLibrary, tmp_path: Path) -> None:
    """A GPU that runs nothing leaves the poison in place."""
    built(tmp_path, CASES[1:2], "bias_relu")
    library.cuLaunchKernel = lambda *_: 0  # pyright: ignore
    assert cuda_h200.run(tmp_path, tmp_path / "found.json", CASES[1:2]) == 1
    found = json.loads((tmp_path / "found.json").read_text())
    assert not found["cases"][0]["right"] and not found["samples"][0]["right"]


@pytest.mark.parametrize(
    ("share", "verdict"), [(1.0, "met"), (1.029, "met"), (1.05, "MISSED"), (0.9, "MISSED")]
)
def test_measured_bytes_are_held_to_the_floor(share: float, verdict: str) -> None:
    row = {"floor": 1000, "hbm": {"read": 600 * share, "written": 400 * share}}
    right = {"floor": 10, "hbm": {"read": 5, "written": 5}}
    assert cuda_h200.within_share(right, row) == verdict
    assert cuda_h200.within_share(row, {"floor": 1, "hbm": {}}) == "not measured"


def test_the_references_are_those_of_float64() -> None:
    x = np.array([[1.0, 2.0, 4.0]], np.float32)
    total = np.exp([-3.0, -2.0, 0.0]).sum()
    np.testing.assert_allclose(
        cuda_h200.softmax_of({"x": x})[0], np.exp([-3.0, -2.0, 0.0]) / total
    )


def test_the_docs_tell_what_was_recorded() -> None:
    root = Path(__file__).parents[2]
    recorded = root / "benchmarks" / "recorded" / "h200-2026-12-02.json"
    cases = json.loads(recorded.read_text("utf-8"))["cases"]

    def columns(row: dict[str, Any]) -> list[str]:
        counted = (row["hbm"]["read"] + row["hbm"]["written"]) / row["floor"]
        return [f"{row['ms']:.3f} ms", f"{row['share']:.2f}", f"{counted:.3f}"]

    lines: list[list[str]] = []
    for case in cases:
        rows = {row["variant"]: row for row in case["rows"]}
        size = f"{case['sizes']['rows']} x {case['sizes']['cols']}"
        lines.append([size, *columns(rows[cuda_h200.RULE]), *columns(rows[cuda_h200.OP_BY_OP])])
    text = (root / "docs" / "benchmarks.md").read_text("utf-8").partition("## On a GPU")[2]
    table = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    assert [row[1:] for row in table[2:]] == lines

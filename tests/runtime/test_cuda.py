"""The engine on a GPU, with a driver that is not there: tables, grids, memory, host steps."""

import ctypes
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

import compiler
from compiler.errors import TargetError
from compiler.ir.binding import InputError
from compiler.runtime import cuda_driver
from compiler.runtime.artifact import Parts, WrongMachine
from compiler.runtime.binding import OutputError
from compiler.runtime.cuda import CudaEngine, DeviceArray, NoDevice, as_capability
from compiler.runtime.engine import Engine
from compiler.worker import targets
from sample_models import sample
from tests.runtime.fake_gpu import FakeLibrary, fake_device, parts_of

Floats = npt.NDArray[np.float32]


@cache
def made(name: str, pipeline: str = "default") -> tuple[Parts, FakeLibrary]:
    """The parts of a sample for a GPU, with the loop trees in the place of their machine code."""
    return parts_of(sample(name).path, pipeline)


def engine(name: str, pipeline: str = "default") -> CudaEngine:
    parts, library = made(name, pipeline)
    return CudaEngine(parts, fake_device(library))


@cache
def on_cpu(name: str) -> Engine:
    return compiler.compile(sample(name).path).engine


def inputs_of(found: Engine, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Floats]:
    random = np.random.default_rng(seed)
    return {
        name: random.standard_normal([d.evaluate(sizes) for d in type.dims]).astype(np.float32)
        for name, type in found.signature.inputs
    }


SIZES = {
    "five_op_chain": {"r": 5, "c": 12},
    "softmax_spelled_out": {"rows": 3, "cols": 37},
    "layernorm_residual": {"batch": 2, "seq": 3},
    "mlp": {"batch": 2},
    "diamond": {"rows": 4, "cols": 9},
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("pipeline", ["default", "op-by-op"])
def test_results_are_those_of_a_cpu(name: str, pipeline: str) -> None:
    cpu, gpu = on_cpu(name), engine(name, pipeline)
    for grow in (0, 1):
        sizes = {k: v + 3 * grow for k, v in SIZES[name].items()}
        inputs = inputs_of(cpu, sizes, grow)
        wanted, found = cpu.run(inputs), gpu.run(inputs)
        assert list(found) == list(wanted)
        for key, array in wanted.items():
            assert found[key].dtype == array.dtype
            np.testing.assert_allclose(found[key], array, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    "name", ["bias_gelu", "dirty", "ffn_dynamic", "fork_reduce", "lstm_cell", "attention_block"]
)
def test_other_samples(name: str) -> None:
    cpu, gpu = on_cpu(name), engine(name)
    sizes = {s.name: max(s.low, 3) for s in cpu.signature.symbols}
    inputs = inputs_of(cpu, sizes)
    wanted, found = cpu.run(inputs), gpu.run(inputs)
    for key, array in wanted.items():
        difference = np.linalg.norm(found[key].astype(np.float64) - array)
        assert difference <= 1e-5 * np.linalg.norm(array), key


def test_a_grid_follows_the_sizes() -> None:
    parts, library = made("five_op_chain")
    gpu = CudaEngine(parts, fake_device(library))
    library.launches.clear()
    gpu.run(inputs_of(gpu, {"r": 5, "c": 12}))
    gpu.run(inputs_of(gpu, {"r": 8, "c": 2100}))
    grids_seen = [grid for _, grid, _ in library.launches]
    assert grids_seen == [(1, 3), (3, 4)], "blocks of 1024 columns, of 2 rows"
    assert [threads for _, _, threads in library.launches] == [256, 256]


def test_no_rows_launch_nothing() -> None:
    parts, library = made("five_op_chain")
    gpu = CudaEngine(parts, fake_device(library))
    library.launches.clear()
    found = gpu.run(inputs_of(gpu, {"r": 0, "c": 8}))
    assert found["Y"].shape == (0, 8) and not library.launches


def test_bound_memory_stays_on_the_gpu() -> None:
    gpu = engine("softmax_spelled_out")
    inputs = inputs_of(gpu, {"rows": 3, "cols": 20})
    call = gpu.bind(inputs)
    (y,) = call.on_gpu.values()
    assert isinstance(y, DeviceArray) and np.isnan(y.to_host()).all()
    call.launch()
    first = call.fetch()["y"].copy()
    inputs["x"][...] += np.arange(20, dtype=np.float32)
    call.launch()
    np.testing.assert_array_equal(call.fetch()["y"], first)
    again = call()["y"]
    np.testing.assert_allclose(again, on_cpu("softmax_spelled_out").run(inputs)["y"], rtol=1e-5)
    y.fill(0xFF)
    assert np.isnan(y.to_host()).all()


def test_arrays_on_the_gpu_are_taken_as_they_are() -> None:
    gpu = engine("softmax_spelled_out")
    device = gpu.device
    x = np.random.default_rng(1).standard_normal((2, 16)).astype(np.float32)
    out = device.empty((2, 16), np.dtype(np.float32))
    call = gpu.bind({"x": device.upload(x)}, {"y": out})
    call.launch()
    np.testing.assert_allclose(
        out.to_host(), on_cpu("softmax_spelled_out").run({"x": x})["y"], rtol=1e-5
    )
    with pytest.raises(OutputError, match="y"):
        gpu.bind({"x": x}, {"y": device.empty((2, 15), np.dtype(np.float32))})


def test_steps_and_runs_are_timed_by_events() -> None:
    gpu = engine("layernorm_residual")
    inputs = inputs_of(gpu, {"batch": 1, "seq": 2})
    steps = gpu.per_step(inputs, 3)
    assert len(steps) == gpu.plan.launches() and {len(s) for s in steps} == {3}
    assert gpu.bind(inputs).milliseconds(4) == [0.25] * 4


def test_library_steps_run_on_the_host_and_say_so() -> None:
    gpu = engine("mlp")
    gpu.run(inputs_of(gpu, {"batch": 2}))
    host = [e for e in gpu.events if e.kind == "host"]
    assert [e.reason for e in host] == ["matmul", "matmul"]
    assert {e.kind for e in gpu.events} == {"host", "copy"}


def test_wrong_inputs() -> None:
    gpu = engine("softmax_spelled_out")
    with pytest.raises(InputError, match="z"):
        gpu.run({"z": np.zeros((2, 2), np.float32)})
    with pytest.raises(InputError, match="float64"):
        gpu.run({"x": np.zeros((2, 2))})


def test_another_gpu_is_refused() -> None:
    parts, library = made("softmax_spelled_out")
    assert as_capability(parts.about) == (9, 0)
    old = FakeLibrary(library.kernels, (8, 6))
    with pytest.raises(WrongMachine, match=r"8\.6"):
        CudaEngine(parts, fake_device(old)).run({"x": np.zeros((2, 2), np.float32)})


def test_memory_is_given_back() -> None:
    parts, library = made("softmax_spelled_out")
    fresh = FakeLibrary(library.kernels)
    gpu = CudaEngine(parts, fake_device(fresh))
    gpu.run({"x": np.ones((2, 16), np.float32)})
    before = len(fresh.memory)
    for rows in range(1, 6):
        gpu.run({"x": np.ones((rows, 16), np.float32)})
    assert len(fresh.memory) == before and fresh.freed


def test_saved_and_loaded(tmp_path: Path) -> None:
    parts, library = made("five_op_chain")
    CudaEngine(parts).save(tmp_path / "engine")
    names = {p.relative_to(tmp_path / "engine").parts[0] for p in tmp_path.rglob("*.*")}
    assert {"cubin", "ptx", "manifest.json"} <= names and "native" not in names
    loaded = CudaEngine.load_gpu(tmp_path / "engine", fake_device(library))
    inputs = inputs_of(loaded, {"r": 3, "c": 8})
    wanted = on_cpu("five_op_chain").run(inputs)["Y"]
    np.testing.assert_allclose(loaded.run(inputs)["Y"], wanted, rtol=1e-5, atol=1e-6)


def test_grids_are_those_of_the_kernels() -> None:
    parts, _ = made("softmax_spelled_out")
    found: Any = parts.about["grids"]
    assert list(found) == list(parts.kernels)
    assert all(entry["threads"] % 32 == 0 for entry in found.values())


def test_without_a_driver_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(cuda_driver, "_driver", None)
    monkeypatch.setattr(cuda_driver.Device, "_open", {})
    monkeypatch.setattr(ctypes, "CDLL", missing)
    parts, _ = made("softmax_spelled_out")
    told = {row["name"]: row for row in cast(list[dict[str, object]], targets())}
    assert (told["cuda"]["available"], told["cuda"]["message"]) == (False, "no-driver")
    with pytest.raises(TargetError, match=r"libcuda\.so\.1.*cuda:ptx"):
        compiler.compile(sample("softmax_spelled_out").path, target="cuda")
    with pytest.raises(NoDevice, match=r"compiled for a GPU.*libcuda"):
        CudaEngine(parts).run({"x": np.zeros((2, 2), np.float32)})

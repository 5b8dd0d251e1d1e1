"""Ratios in one run, with their conditions: `make bench`, or `python -m benchmarks [NAME …]`.

Every pair is timed interleaved, in random order, warm, with outputs preallocated and the same
number of threads; a figure is the median of the one over the median of the other. A turn is four
untimed calls and five timed ones: thread pools that still spin after their own call would otherwise
take the cores from the next variant.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

import compiler
from benchmarks import models
from compiler.measure.conditions import Conditions, available_threads
from compiler.measure.copies import copies
from compiler.measure.timing import Latency, interleave

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "sample_models"
THREADS = min(2, available_threads())


@dataclass(frozen=True)
class Figure:
    """One figure: `value` in `unit`, `target` as text, and whether it is met."""

    name: str
    value: float
    unit: str
    target: str
    met: bool
    detail: Mapping[str, float]


def ort_call(
    model: bytes, inputs: Mapping[str, np.ndarray], out: Mapping[str, np.ndarray]
) -> Callable[[], object]:
    """ONNX Runtime with inputs and outputs bound to the caller's arrays."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    for name, array in out.items():
        binding.bind_output(
            name, "cpu", 0, array.dtype, list(array.shape), array.__array_interface__["data"][0]
        )
    return lambda: session.run_with_iobinding(binding)


def random_inputs(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {n: rng.standard_normal(s, dtype=np.float32) for n, s in shapes.items()}


def race(
    model: bytes, shapes: Mapping[str, tuple[int, ...]], output: tuple[str, tuple[int, ...]],
    seconds: float,
) -> dict[str, Latency]:
    """op by op, fused, ONNX Runtime and a copy of the output's size, in one run."""
    inputs = random_inputs(shapes)
    name, shape = output
    outs = {k: {name: np.empty(shape, np.float32)} for k in ("op by op", "fused", "onnxruntime")}
    fused = compiler.compile(model, threads=THREADS)
    plain = compiler.compile(model, pipeline="op-by-op", threads=THREADS)
    calls: dict[str, Callable[[], object]] = {
        "op by op": plain.engine.bind(inputs, outs["op by op"]),
        "fused": fused.engine.bind(inputs, outs["fused"]),
        "onnxruntime": ort_call(model, inputs, outs["onnxruntime"]),
    }
    copy = copies(outs["fused"][name].nbytes, THREADS)
    calls |= {f"copy, {k}": call for k, call in copy.calls.items()}
    found = interleave(
        calls, repetitions=40, warmups=3, seconds=seconds, lead=4, take=5
    )
    np.testing.assert_allclose(outs["fused"][name], outs["onnxruntime"][name], 1e-4, 1e-5)
    np.testing.assert_allclose(outs["op by op"][name], outs["onnxruntime"][name], 1e-4, 1e-5)
    return found


def milliseconds(found: Mapping[str, Latency]) -> dict[str, float]:
    return {f"{name} p50 ms": latency.p50 * 1e3 for name, latency in found.items()}


def chain() -> list[Figure]:
    """The five-op chain at 4096 x 4096: op by op / fused."""
    n = 4096
    model = (SAMPLES / "five_op_chain.onnx").read_bytes()
    shapes = {"X": (n, n), "R": (n, n), "b": (n,), "s": (n,)}
    found = race(model, shapes, ("Y", (n, n)), 30)
    ratio = found["op by op"].p50 / found["fused"].p50
    ort = found["onnxruntime"].p50 / found["fused"].p50
    detail = {**milliseconds(found), "onnxruntime / fused": ort}
    return [Figure("chain: op by op / fused", ratio, "x", ">= 2.3", ratio >= 2.3, detail)]


def gelu() -> list[Figure]:
    """bias + GELU + residual at 2048 x 3072: ONNX Runtime / fused."""
    r, c = 2048, 3072
    shapes = {"x": (r, c), "b": (c,), "r": (r, c)}
    found = race(models.bias_gelu_residual(), shapes, ("y", (r, c)), 20)
    ratio = found["onnxruntime"].p50 / found["fused"].p50
    name = "bias+GELU+residual: onnxruntime / fused"
    return [Figure(name, ratio, "x", ">= 3", ratio >= 3, milliseconds(found))]


def softmax() -> list[Figure]:
    """Softmax at 8192 x 1024: ONNX Runtime / fused."""
    r, c = 8192, 1024
    found = race(models.softmax(), {"x": (r, c)}, ("y", (r, c)), 20)
    ratio = found["onnxruntime"].p50 / found["fused"].p50
    figure = Figure(
        "softmax: onnxruntime / fused", ratio, "x", "> 1", ratio > 1, milliseconds(found)
    )
    return [figure]


def call() -> list[Figure]:
    """What a bound call of a one-kernel engine costs beyond the kernel: 16 elements, serial."""
    built = compiler.compile(models.one_add(), threads=1)
    x, y = np.ones(16, np.float32), np.empty(16, np.float32)
    bound = built.engine.bind({"x": x}, {"y": y})

    def many(call: Callable[[], object], times: int = 1000) -> None:
        for _ in range(times):
            call()

    found = interleave({"call": lambda: many(bound), "nothing": lambda: many(lambda: None)},
                       repetitions=200)  # fmt: skip
    overhead = (found["call"].p50 - found["nothing"].p50) / 1000 * 1e6
    return [Figure("bound call beyond the kernel", overhead, "us", "<= 5", overhead <= 5, {})]


def steps() -> list[Figure]:
    """A plan of 120 steps compiles one kernel, not a function of its own."""
    built = compiler.compile(models.chain_of(120), pipeline="op-by-op")
    assert built.module.plan is not None
    symbols = len({s.symbol for s in built.module.sources})
    launches = built.module.plan.launches()
    return [
        Figure("kernels compiled for a 120-step plan", symbols, "", "1 (of 120 steps)",
               symbols == 1 and launches == 120, {"steps": launches,
               "compile ms": built.phases["compile"], "link ms": built.phases["link"]})
    ]  # fmt: skip


_COLD = """
import time; begin = time.perf_counter()
import numpy as np, compiler
built = compiler.compile({path!r})
y = built.engine.run({{"image": np.zeros({shape}, np.float32)}})
print(time.perf_counter() - begin)
"""

_LOAD = """
import time, sys
start = time.perf_counter()
import numpy, llvmlite.binding
imported = time.perf_counter()
from compiler.runtime.engine import Engine
engine = Engine.load({folder!r})
engine.run({{"image": numpy.zeros({shape}, numpy.float32)}})
done = time.perf_counter()
assert "numba" not in sys.modules and "onnx" not in sys.modules
print(done - imported, imported - start)
"""


def _median_of_processes(code: str, times: int) -> list[float]:
    rows: list[list[float]] = []
    for _ in range(times):
        out = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        rows.append([float(v) for v in out.stdout.split()])
    return [float(np.median(column)) for column in zip(*rows, strict=True)]


def cold() -> list[Figure]:
    """digits: a cold process to its first result; loading its artifact."""
    path = str(SAMPLES / "digits.onnx")
    built = compiler.compile(path)
    shape = tuple(d.constant or 1 for d in built.engine.signature.inputs[0][1].dims)
    (total,) = _median_of_processes(_COLD.format(path=path, shape=shape), 3)
    with tempfile.TemporaryDirectory() as root:
        folder = str(Path(root) / "digits")
        built.engine.save(folder)
        load, libraries = _median_of_processes(_LOAD.format(folder=folder, shape=shape), 7)
    return [
        Figure("digits: cold process to first result", total, "s", "< 5", total < 5, {}),
        Figure("digits: load and run beyond the libraries", load, "s", "<= 0.1", load <= 0.1,
               {"import numpy and llvmlite s": libraries}),
    ]  # fmt: skip


ALL: dict[str, Callable[[], list[Figure]]] = {
    "chain": chain, "gelu": gelu, "softmax": softmax, "call": call, "steps": steps, "cold": cold,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL))
    parser.add_argument("--json", metavar="FILE", help="write the figures here too")
    args = parser.parse_args()
    conditions = Conditions("cpu", THREADS, "float32", {}, 3, 200).to_json()
    print(json.dumps(conditions, indent=1))
    begin = time.perf_counter()
    figures: list[Figure] = []
    for name in args.names or ALL:
        for figure in ALL[name]():
            figures.append(figure)
            mark = "met" if figure.met else "MISSED"
            value = f"{figure.value:.3g} {figure.unit}"
            print(f"{figure.name}: {value} (wanted {figure.target}: {mark})")
            for key, value in figure.detail.items():
                print(f"    {key}: {value:.4g}")
    print(f"{time.perf_counter() - begin:.0f} s")
    if args.json:
        rows = [{**figure.__dict__, "detail": dict(figure.detail)} for figure in figures]
        text = json.dumps({"conditions": conditions, "figures": rows}, indent=1)
        Path(args.json).write_text(text + "\n", encoding="utf-8")
    return 0 if all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    raise SystemExit(main())

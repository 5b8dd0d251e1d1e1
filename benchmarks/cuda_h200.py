"""The CUDA target on an H200, in one run: checked, timed against a copy, HBM bytes counted.

    python -m benchmarks.cuda_h200 build FOLDER                 where numba-cuda is; needs no GPU
    python -m benchmarks.cuda_h200 run FOLDER --json PATH       where the GPU is

`build` compiles every variant of every kernel, and every sample fused and op by op, to machine code
for compute capability 9.0, keeps the engines in FOLDER, and beside each sample inputs at two sizes
with what the reference evaluator makes of them. `run` loads them through the driver and needs NumPy
alone; where FOLDER is not there it builds first.

Kernels. Every engine is checked on fresh random inputs, with poisoned outputs, against NumPy in
float64, before it is timed. Times are medians of GPU events over shuffled rounds; a share is floor
bytes over time, divided by the bandwidth of a device-to-device copy of the same rounds. The goals
are for the variant that the compiler chooses by itself (`by rule`); the others say how good the
rule is. HBM bytes are counted for it, for op by op and for the engine of any size.

Samples. Every sample as a whole, at its two sizes, from one engine, against the reference, with
poisoned outputs; then timed at its own sizes. Matrix products run on the host: their number is
there too.

`--measure` runs `python -m compiler measure NAME --target cuda` of three samples as a user does, in
processes of their own, which compile there (numba-cuda); each `--packages FOLDER` names packages
for one more try where that fails.

HBM bytes need the wheels of cupti-python, nvidia-cuda-cupti (13.4 or newer) and pyelftools for the
Python there, installed apart, for example
    pip install --no-index --no-deps --target /tmp/cupti wheels/*.whl
    PYTHONPATH=/tmp/cupti python -m benchmarks.cuda_h200 run FOLDER --json PATH
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.conditions import first_line
from compiler.ir.plan import CallStep

Arrays = Mapping[str, np.ndarray]
ROOT = Path(__file__).parent.parent
SAMPLE_SIZES = (48, 7)
"""The most that a symbol is where a sample is checked."""
FUSED = "fused"
REPETITIONS, ROUNDS = 10, 6
ERROR = 1e-5
HBM_SHARE = 0.03
"""How far the measured bytes may be from the floor."""


# ---- models --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A model, the size it is timed at, its variants, and what it computes, in NumPy."""

    name: str
    build: Callable[[], bytes]
    sizes: Mapping[str, int]
    pin: Mapping[str, int]
    variants: Mapping[str, str]
    reference: Callable[[Arrays], np.ndarray]
    other_sizes: Sequence[Mapping[str, int]]
    goal: float


def _model(nodes: list[Any], inputs: Mapping[str, list[str]], weights: Arrays) -> bytes:
    from onnx import TensorProto, checker, helper, numpy_helper

    def info(name: str, shape: list[str]) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        nodes, "model", [info(n, s) for n, s in inputs.items()], [info("y", ["rows", "cols"])],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(made, full_check=True)
    return made.SerializeToString()


def _node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    from onnx import helper

    return helper.make_node(op, inputs.split(), [output], **attributes)


FULL, ROW = ["rows", "cols"], ["cols"]


def bias_relu() -> bytes:
    """y = relu(x + b): one array that differs by row."""
    return _model(
        [_node("Add", "x b", "t"), _node("Relu", "t", "y")], {"x": FULL, "b": ROW}, {}
    )


def chain() -> bytes:
    """y = clip(relu(x + b) * s + r, -2, 2)"""
    return _model(
        [
            _node("Add", "x b", "t1"), _node("Relu", "t1", "t2"), _node("Mul", "t2 s", "t3"),
            _node("Add", "t3 r", "t4"), _node("Clip", "t4 low high", "y"),
        ],
        {"x": FULL, "b": ROW, "s": ROW, "r": FULL},
        {"low": np.array(-2, np.float32), "high": np.array(2, np.float32)},
    )  # fmt: skip


def softmax() -> bytes:
    return _model(
        [
            _node("ReduceMax", "x", "m", axes=[-1]), _node("Sub", "x m", "d"),
            _node("Exp", "d", "e"), _node("ReduceSum", "e axes", "z"), _node("Div", "e z", "y"),
        ],
        {"x": FULL},
        {"axes": np.array([-1], np.int64)},
    )  # fmt: skip


def layernorm(residual: bool) -> bytes:
    """y = (h - mean) / sqrt(variance + 1e-5) * w + b, h = x or x + r, node by node."""
    nodes = [_node("Add", "x r", "h")] if residual else []
    h = "h" if residual else "x"
    nodes += [
        _node("ReduceMean", h, "mu", axes=[-1]), _node("Sub", f"{h} mu", "d"),
        _node("Mul", "d d", "q"), _node("ReduceMean", "q", "v", axes=[-1]),
        _node("Add", "v eps", "ve"), _node("Sqrt", "ve", "sd"), _node("Div", "d sd", "n"),
        _node("Mul", "n w", "nw"), _node("Add", "nw b", "y"),
    ]  # fmt: skip
    inputs = {"x": FULL, **({"r": FULL} if residual else {}), "w": ROW, "b": ROW}
    return _model(nodes, inputs, {"eps": np.array(1e-5, np.float32)})


def _doubles(arrays: Arrays) -> dict[str, np.ndarray]:
    return {n: a.astype(np.float64) for n, a in arrays.items()}


def bias_relu_of(given: Arrays) -> np.ndarray:
    a = _doubles(given)
    return np.maximum(a["x"] + a["b"], 0)


def chain_of(given: Arrays) -> np.ndarray:
    a = _doubles(given)
    return np.clip(np.maximum(a["x"] + a["b"], 0) * a["s"] + a["r"], -2, 2)


def softmax_of(given: Arrays) -> np.ndarray:
    x = given["x"].astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=1, keepdims=True)
    return x


def layernorm_of(given: Arrays) -> np.ndarray:
    a = _doubles(given)
    h = a["x"] + a["r"] if "r" in a else a["x"]
    h -= h.mean(axis=1, keepdims=True)
    h /= np.sqrt((h * h).mean(axis=1, keepdims=True) + 1e-5)
    h *= a["w"]
    h += a["b"]
    return h


def _warps(columns: int, *warps: int) -> dict[str, str]:
    """Warps a row and wide accesses a thread, whose product holds the row; one warp: by rows a
    block too."""
    accesses = columns // 128
    found = {f"{w} warps a row": f"warps={w},chunks={accesses // w}" for w in warps if w > 1}
    if 1 in warps:
        for rows in (1, 2, 4, 8):
            name = f"1 warp a row, {rows} rows a block"
            found[name] = f"warps=1,chunks={accesses},block={rows}"
    return found


def _tiles(*rows: int) -> dict[str, str]:
    return {f"{r} rows a thread": f"rows={r}" for r in rows}


WIDE = {"rows": 32768, "cols": 4096}
LONG = {"rows": 131072, "cols": 1024}
ODD = [
    {"rows": r, "cols": c}
    for r, c in ((5, 1), (33, 37), (1001, 1000), (150_000, 16), (3, 4100), (7, 40_001))
]
"""Sizes that take the other paths: no multiple of four, rows that fill no warp or no registers,
more rows than a grid has blocks along y."""


def _softmax(columns: int, *warps: int, other_sizes: Sequence[Mapping[str, int]] = ()) -> Case:
    sizes = {"rows": (1 << 27) // columns, "cols": columns}
    name = "softmax" if columns == 1024 else f"softmax of {columns}"
    return Case(name, softmax, sizes, {"cols": columns}, _warps(columns, *warps), softmax_of,
                other_sizes, 0.85)  # fmt: skip


CASES = (
    Case("chain", chain, WIDE, {}, _tiles(1, 2, 4) | {"plain stores": "stream=false"},
         chain_of, ODD, 0.95),
    Case("bias relu", bias_relu, WIDE, {}, _tiles(1, 2, 4, 8), bias_relu_of, ODD[:2], 0.95),
    _softmax(1024, 1, 2, 4, other_sizes=ODD),
    Case("layernorm", lambda: layernorm(False), LONG, {"cols": 1024},
         _warps(1024, 2, 4) | {"plain stores": "stream=false"}, layernorm_of, ODD, 0.85),
    Case("residual layernorm", lambda: layernorm(True), LONG, {"cols": 1024},
         _warps(1024, 2, 4, 8), layernorm_of, ODD, 0.85),
    _softmax(256, 1, 2),
    _softmax(4096, 4, 8, 16),
    _softmax(16384, 16, 32),
)  # fmt: skip

OP_BY_OP = "op by op"
ANY = "any size"
RULE = "by rule"
CHOSEN = (RULE, OP_BY_OP, ANY)
"""The variants that nobody had to choose."""


# ---- build ---------------------------------------------------------------------------------------


def floor_of(trace: Any, sizes: Mapping[str, int]) -> int:
    """Bytes that the launches must move: the closed form of the trees before `map-gpu`."""
    from compiler.ir.access import floor
    from compiler.ir.dims import Dim
    from compiler.ir.types import KernelRef

    (before,) = (r.before for r in trace.records if r.name == "map-gpu")
    total = 0
    for op in before.graph.ops:
        ref = op.get("kernel")
        if op.kind == "launch" and isinstance(ref, KernelRef):
            given = {n: d for n, d in op.attrs if isinstance(d, Dim)}
            total += floor(before.kernel(ref.name)).substitute(given).nbytes.evaluate(sizes)
    return total


def build(folder: Path, cases: Sequence[Case] = CASES, samples: Sequence[str] = ()) -> None:
    """Compile every engine into `folder`; `samples`: only these, by name, instead of all."""
    import compiler

    index: list[dict[str, Any]] = []
    start = time.perf_counter()
    for case in cases:
        model = case.build()
        nothing: Mapping[str, int] = {}
        wanted = [(label, pipeline(o), case.pin) for label, o in case.variants.items()]
        wanted += [
            (RULE, "default", case.pin), (OP_BY_OP, "op-by-op", case.pin), (ANY, "default", nothing)
        ]  # fmt: skip
        for k, (label, text, pin) in enumerate(wanted):
            began = time.perf_counter()
            built = compiler.compile(
                model, target="cuda:ptx", pipeline=text, pin=pin, sizes=without(case.sizes, pin)
            )
            name = f"{case.name.replace(' ', '-')}-{k}"
            built.engine.save(folder / name)
            seconds = time.perf_counter() - began
            index.append({
                "case": case.name, "variant": label, "folder": name,
                "floor": floor_of(built.trace, case.sizes), "seconds": round(seconds, 2),
                "launches": built.engine.plan.launches(),
            })  # fmt: skip
            print(f"{case.name}, {label}: {seconds:.1f} s", file=sys.stderr)
    found = [build_sample(folder, name) for name in samples or sample_names()]
    commit = first_line("git", "rev-parse", "HEAD")
    about = {"commit": commit, "built": now(), "python": platform.python_version()}
    seconds = round(time.perf_counter() - start, 1)
    whole = {"engines": index, "samples": found, "about": about, "seconds": seconds}
    (folder / "index.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def sample_names() -> list[str]:
    from sample_models import catalogue

    return [s.name for s in catalogue()]


def build_sample(folder: Path, name: str) -> dict[str, Any]:
    """A sample's two engines, and its inputs and reference results at two sizes."""
    import compiler
    from compiler.frontend.reference import evaluate, evaluator, widened
    from compiler.measure.inputs import made_inputs
    from sample_models import sample

    chosen = sample(name)
    model = compiler.load(chosen.path)
    engines: dict[str, str] = {}
    steps: dict[str, dict[str, int]] = {}
    checked: list[dict[str, Any]] = []
    for label, pipeline in ((FUSED, "default"), (OP_BY_OP, "op-by-op")):
        built = compiler.compile(model, target="cuda:ptx", pipeline=pipeline, sizes=chosen.sizes)
        engines[label] = f"sample-{name}-{label.replace(' ', '-')}"
        built.engine.save(folder / engines[label])
        plan = built.engine.plan
        host = sum(isinstance(s, CallStep) for s in plan.steps)
        steps[label] = {"launches": plan.launches(), "host": host}
        if label == FUSED:
            right = evaluator(widened(model.proto))
            weights = {t.name for t in model.proto.graph.initializer}
            for k, most in enumerate(SAMPLE_SIZES):
                sizes = {n: min(v, most) for n, v in chosen.sizes.items()}
                inputs = made_inputs(built, sizes, seed=k)
                feeds = {
                    n: a.astype(np.float64) if a.dtype.kind == "f" else a
                    for n, a in inputs.items()
                    if n not in weights
                }
                names = [v.name for v in model.proto.graph.output]
                wanted = dict(zip(names, evaluate(right, feeds), strict=True))
                file = f"sample-{name}-{k}.npz"
                arrays = {f"in {n}": a for n, a in inputs.items()}
                arrays |= {f"out {n}": np.asarray(a) for n, a in wanted.items()}
                np.savez_compressed(folder / file, **arrays)  # pyright: ignore
                checked.append({"sizes": sizes, "file": file})
    print(f"sample {name}", file=sys.stderr)
    return {"sample": name, "engines": engines, "steps": steps, "checked": checked,
            "sizes": dict(chosen.sizes)}  # fmt: skip


def pipeline(options: str) -> str:
    """The default order for a GPU, with these options of `map-gpu`."""
    from compiler.pipeline import DEFAULT, for_target, print_pipeline

    text = print_pipeline(for_target(DEFAULT, "cuda:ptx"))
    return text.replace("map-gpu", f"map-gpu{{{options}}}")


def without(sizes: Mapping[str, int], pin: Mapping[str, int]) -> dict[str, int]:
    return {n: v for n, v in sizes.items() if n not in pin}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


# ---- run -----------------------------------------------------------------------------------------


def fresh(engine: Any, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Random inputs that nobody saw before."""
    rng = np.random.default_rng()
    return {
        name: rng.standard_normal([d.evaluate(sizes) for d in type.dims], dtype=np.float32)
        for name, type in engine.signature.inputs
    }


def error_of(found: np.ndarray, wanted: np.ndarray) -> float:
    """‖found - wanted‖ / ‖wanted‖, a million rows at a time; NaN stays NaN."""
    difference = norm = 0.0
    for k in range(0, len(wanted), 1 << 14):
        a, b = found[k : k + (1 << 14)].astype(np.float64), wanted[k : k + (1 << 14)]
        difference += float(((a - b) ** 2).sum())
        norm += float((b * b).sum())
    return (difference / max(norm, 1e-300)) ** 0.5


def checked(engine: Any, inputs: Any, out: Any, wanted: np.ndarray) -> float:
    """Run once on a poisoned output; the error."""
    call = engine.bind(inputs, {"y": out} if out is not None else None)
    call.poison()
    call.launch()
    return error_of(call.fetch()["y"], wanted)


def median(values: Sequence[float]) -> float:
    return float(np.median(values))


def hbm(call: Any, device: Any, counters: Any) -> dict[str, Any]:
    from compiler.measure.hbm import CountersClosed, measured

    try:
        found = measured(call.launch, device.synchronize, counters)
    except CountersClosed as closed:
        return {"closed": str(closed)}
    return {"read": found.read, "written": found.written, "samples": found.samples}


def run_case(case: Case, entries: Sequence[Mapping[str, Any]], folder: Path, device: Any,
             counters: Any) -> dict[str, Any]:  # fmt: skip
    from compiler.runtime.cuda import CudaEngine

    engines = {e["variant"]: CudaEngine.load_gpu(folder / e["folder"], device) for e in entries}
    floors = {e["variant"]: e["floor"] for e in entries}
    errors: dict[str, float] = {}
    for sizes in case.other_sizes:
        inputs = fresh(engines[ANY], sizes)
        label = f"{sizes['rows']} x {sizes['cols']}"
        errors[label] = checked(engines[ANY], inputs, None, case.reference(inputs))
    inputs = fresh(engines[ANY], case.sizes)
    wanted = case.reference(inputs)
    held = {n: device.upload(a) for n, a in inputs.items()}
    out = device.empty(wanted.shape, np.dtype(np.float32))
    calls: dict[str, Any] = {}
    for label, engine in engines.items():
        errors[label] = checked(engine, held, out, wanted)
        calls[label] = engine.bind(held, {"y": out})
    print(f"{case.name}: largest error {max(errors.values()):.2e}", file=sys.stderr)

    def copy() -> None:
        device.copy(out.address, held["x"].address, out.nbytes)

    work: dict[str, Callable[[], None]] = {label: call.launch for label, call in calls.items()}
    work["copy"] = copy
    times: dict[str, list[float]] = {label: [] for label in work}
    for turn in range(ROUNDS):
        order = list(times)
        random.shuffle(order)
        for label in order:
            found = device.times(work[label], REPETITIONS)
            if turn:
                times[label] += found
    copy = 2 * out.nbytes / median(times["copy"]) / 1e6
    rows: list[dict[str, Any]] = []
    for label in calls:
        ms = median(times[label])
        speed = floors[label] / ms / 1e6
        rows.append({
            "variant": label, "ms": ms, "p95": float(np.percentile(times[label], 95)),
            "floor": floors[label], "GB/s": speed, "share": speed / copy, "error": errors[label],
        })  # fmt: skip
    best = max((r for r in rows if r["variant"] not in (OP_BY_OP, ANY)), key=lambda r: r["share"])
    if counters is not None:
        for row in rows:
            if row["variant"] in CHOSEN:
                row["hbm"] = hbm(calls[row["variant"]], device, counters)
    return {
        "case": case.name, "sizes": dict(case.sizes), "goal": case.goal, "copy GB/s": copy,
        "copy ms": median(times["copy"]), "rows": rows, "best": best["variant"], "errors": errors,
        "right": all(e <= ERROR for e in errors.values()),
    }  # fmt: skip


def run_sample(entry: Mapping[str, Any], folder: Path, device: Any) -> dict[str, Any]:
    """A whole sample: its error at every stored size, and its times at its own."""
    from compiler.measure.accuracy import compare_all
    from compiler.measure.cold import plain_inputs
    from compiler.runtime.cuda import CudaEngine

    errors: dict[str, dict[str, float]] = {}
    times: dict[str, float] = {}
    engines = {n: CudaEngine.load_gpu(folder / f, device) for n, f in entry["engines"].items()}
    for label, engine in engines.items():
        errors[label] = {}
        for case in entry["checked"]:
            with np.load(folder / case["file"]) as stored:
                inputs = {n[3:]: stored[n] for n in stored.files if n.startswith("in ")}
                wanted = {n[4:]: stored[n] for n in stored.files if n.startswith("out ")}
            call = engine.bind(inputs)
            call.poison()
            call.launch()
            text = ", ".join(f"{n} {v}" for n, v in case["sizes"].items()) or "fixed"
            errors[label][text] = compare_all(call.fetch(), wanted).norm_rel
        call = engine.bind(plain_inputs(engine.signature, entry["sizes"]))
        count = 3 if entry["steps"][label]["host"] else REPETITIONS
        device.times(call.launch, 2)
        times[label] = median(device.times(call.launch, count))
    worst = max(e for found in errors.values() for e in found.values())
    return {
        "sample": entry["sample"], "sizes": entry["sizes"], "steps": entry["steps"], "ms": times,
        "errors": errors, "right": worst <= ERROR,
    }  # fmt: skip


def measured_by(command: Sequence[str], packages: Sequence[Path]) -> dict[str, Any]:
    """What `python -m compiler measure …` says here; with packages in front where it fails."""
    found: dict[str, Any] = {}
    for extra in ("", *map(str, packages)):
        path = os.pathsep.join(p for p in (extra, os.environ.get("PYTHONPATH", "")) if p)
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "compiler", *command], env={**os.environ, "PYTHONPATH": path},
            cwd=ROOT, capture_output=True, text=True, timeout=180,
        )  # fmt: skip
        found = {
            "command": " ".join(command), "code": done.returncode,
            "packages": Path(extra).name if extra else "",
            "seconds": round(time.perf_counter() - start, 1),
        }  # fmt: skip
        if done.returncode == 0:
            return {**found, "report": json.loads(done.stdout.splitlines()[-1])}
        found["told"] = done.stderr[-2000:]
    return found


def conditions(device: Any, index: Mapping[str, Any]) -> dict[str, Any]:
    words = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.mem",
             "--format=csv,noheader"]  # fmt: skip
    try:
        smi = subprocess.run(words, capture_output=True, text=True, timeout=30).stdout.strip()
    except OSError:
        smi = ""
    return {
        "gpu": device.name, "capability": device.capability, "processors": device.processors,
        "L2": device.cache, "cuda": device.driver, "nvidia-smi": smi, "date": now(),
        "python": platform.python_version(), "numpy": np.__version__,
        "kernel": platform.release(), "built": index["about"],
        "repetitions": REPETITIONS * (ROUNDS - 1),
    }  # fmt: skip


def table(results: Sequence[Mapping[str, Any]]) -> str:
    lines: list[str] = []
    for found in results:
        sizes = " x ".join(str(v) for v in found["sizes"].values())
        state = "right" if found["right"] else "WRONG"
        lines.append(f"{found['case']} {sizes}: copy {found['copy GB/s']:.0f} GB/s, {state}")
        for row in sorted(found["rows"], key=lambda r: -r["share"]):
            mark = "*" if row["variant"] == found["best"] else " "
            text = f" {mark} {row['variant']:44s} {row['ms']:7.4f} ms  {row['share']:.3f} of copy"
            counted = row.get("hbm", {})
            if "read" in counted:
                total = counted["read"] + counted["written"]
                text += (f"  HBM {counted['read'] / 1e9:.3f} + {counted['written'] / 1e9:.3f} GB, "
                         f"{total / row['floor']:.3f} of floor")  # fmt: skip
            lines.append(text)
        closed = {r["hbm"]["closed"] for r in found["rows"] if "closed" in r.get("hbm", {})}
        lines += [f"   HBM not measured: {reason}" for reason in closed]
        by_op = next(r for r in found["rows"] if r["variant"] == OP_BY_OP)
        rule = next(r for r in found["rows"] if r["variant"] == RULE)
        verdict = "met" if rule["share"] >= found["goal"] and found["right"] else "MISSED"
        lines.append(
            f"   goal {found['goal']} of copy: {verdict}; fused {by_op['ms'] / rule['ms']:.2f}x "
            f"faster than op by op; HBM within {HBM_SHARE:.0%}: {within_share(rule, by_op)}"
        )
    return "\n".join(lines)


def within_share(*rows: Mapping[str, Any]) -> str:
    """Whether the measured bytes of these variants are the floor's, nearly."""
    if any("read" not in r.get("hbm", {}) for r in rows):
        return "not measured"
    shares = [(r["hbm"]["read"] + r["hbm"]["written"]) / r["floor"] for r in rows]
    return "met" if all(abs(x - 1) <= HBM_SHARE for x in shares) else "MISSED"


def sample_table(found: Sequence[Mapping[str, Any]]) -> str:
    lines = [f"{'sample':22s} {'fused':>11s} {'op by op':>11s}  launches  on the host  error"]
    for s in found:
        fused, plain = (s["steps"][n] for n in (FUSED, OP_BY_OP))
        worst = max(e for each in s["errors"].values() for e in each.values())
        state = "" if s["right"] else "  WRONG"
        lines.append(
            f"{s['sample']:22s} {s['ms'][FUSED]:8.4f} ms {s['ms'][OP_BY_OP]:8.4f} ms  "
            f"{fused['launches'] - fused['host']:3d} / {plain['launches'] - plain['host']:3d}  "
            f"{fused['host']:6d}       {worst:.1e}{state}"
        )
    return "\n".join(lines)


def measure_line(found: Mapping[str, Any]) -> str:
    if found["code"]:
        last = found["told"].strip().splitlines()
        return f"{found['command']}: FAILED in {found['seconds']} s: {last[-1] if last else ''}"
    r = found["report"]
    parts = [
        f"{n} {r['latency'][n]['p50']:.4f} ms, {r['bandwidth'][n] or 0:.3f} of copy, "
        f"HBM {r['bytes'][n]['measured']} of floor {r['bytes'][n]['floor']}, "
        f"error {(r['error'][n] or {}).get('norm_rel', -1):.1e}"
        for n in ("op_by_op", "fused")
    ]
    return f"{found['command']} ({found['seconds']} s)\n  " + "\n  ".join(parts)


def run(
    folder: Path,
    path: Path,
    cases: Sequence[Case] = CASES,
    commands: Sequence[Sequence[str]] = (),
    packages: Sequence[Path] = (),
) -> int:
    """Check, time and count; write JSON, print tables. 1 where a result is wrong."""
    from compiler.measure.gpu import open_counters

    counters, why = open_counters()
    from compiler.runtime.cuda import Device

    if not (folder / "index.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        build(folder, cases)
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    device = Device.open()
    report: dict[str, Any] = {
        "conditions": conditions(device, index), "counters": why or "open", "cases": [],
        "samples": [], "measure": [],
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)

    def keep(section: str, found: Mapping[str, Any]) -> None:
        """What is there so far is on the disk, should the machine's time end."""
        report[section].append(found)
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")

    for entry in index["samples"]:
        keep("samples", run_sample(entry, folder, device))
    print(sample_table(report["samples"]), flush=True)
    for case in cases:
        entries = [e for e in index["engines"] if e["case"] == case.name]
        keep("cases", run_case(case, entries, folder, device, counters))
        print(table(report["cases"][-1:]), flush=True)
    for command in commands:
        keep("measure", measured_by(command, packages))
        print(measure_line(report["measure"][-1]), flush=True)
    found = report["conditions"]
    print(f"{found['gpu']}, driver {found['nvidia-smi']}, {found['date']}")
    if why:
        print(f"HBM bytes are not measured: {why}")
    right = all(r["right"] for r in (*report["cases"], *report["samples"]))
    print("all right" if right else "something is WRONG")
    return 0 if right and all(not m["code"] for m in report["measure"]) else 1


MEASURED = (
    ("five_op_chain", "r=8192", "c=4096"),
    ("softmax_spelled_out", "rows=32768", "cols=1024"),
    ("layernorm_residual",),
)
"""Samples that `run --measure` measures as a user does, with sizes."""


def commands_of() -> list[list[str]]:
    return [
        ["measure", name, "--target", "cuda", "--json", *(a for s in sizes for a in ("--size", s))]
        for name, *sizes in MEASURED
    ]


def main() -> int:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("build", help="compile every engine into FOLDER")
    ran = commands.add_parser("run", help="check, time and count on the GPU")
    for sub in (made, ran):
        sub.add_argument("folder", type=Path, metavar="FOLDER")
    ran.add_argument("--json", type=Path, default=Path("cuda_h200.json"), metavar="PATH")
    ran.add_argument("--case", action="append", default=[], choices=[c.name for c in CASES])
    ran.add_argument("--measure", action="store_true", help="`measure --target cuda` too")
    ran.add_argument(
        "--packages", type=Path, action="append", default=[], metavar="FOLDER",
        help="in front of the others where that fails",
    )  # fmt: skip
    args = parser.parse_args()
    if args.command == "build":
        args.folder.mkdir(parents=True, exist_ok=True)
        build(args.folder)
        return 0
    chosen = [c for c in CASES if not args.case or c.name in args.case]
    commands = commands_of() if args.measure else ()
    return run(args.folder, args.json, chosen, commands, args.packages)


if __name__ == "__main__":
    raise SystemExit(main())

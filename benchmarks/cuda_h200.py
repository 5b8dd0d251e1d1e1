"""Kernels on an H200, in one run: checked, timed against a copy, HBM bytes counted.

    python -m benchmarks.cuda_h200 build FOLDER                 where numba-cuda is; needs no GPU
    python -m benchmarks.cuda_h200 run FOLDER --json PATH       where the GPU is; needs only NumPy

`build` compiles every variant of every model to machine code for compute capability 9.0 and keeps
the engines in FOLDER (about 10 MB). `run` loads them through the driver; where FOLDER is not there
it builds first. Every engine is checked on fresh random inputs, with poisoned outputs, against
NumPy in float64, before it is timed. Times are medians of GPU events over shuffled rounds; a share
is floor bytes over time, divided by the bandwidth of a device-to-device copy of the same rounds.

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

Arrays = Mapping[str, np.ndarray]
REPETITIONS, ROUNDS = 10, 6
ERROR = 1e-5
POISON = 0xFF


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


def _rows_options() -> dict[str, str]:
    """Warps a row and wide accesses a thread, whose product is 8 (1024 elements)."""
    found = {f"1 warp a row, {b} rows a block": f"warps=1,chunks=8,block={b}" for b in (1, 4, 8)}
    found |= {f"{w} warps a row": f"warps={w},chunks={8 // w}" for w in (2, 4, 8)}
    found["4 warps a row, plain stores"] = "warps=4,chunks=2,stream=false"
    found["1 warp a row, 4 rows a block, plain stores"] = "warps=1,chunks=8,block=4,stream=false"
    return found


def _tiles() -> dict[str, str]:
    found = {f"{r} rows a thread": f"rows={r}" for r in (1, 2, 4)}
    found["2 rows a thread, plain stores"] = "rows=2,stream=false"
    found["2 rows a thread, 128 threads"] = "rows=2,threads=128"
    return found


WIDE = {"rows": 32768, "cols": 4096}
LONG = {"rows": 131072, "cols": 1024}
ODD = [
    {"rows": r, "cols": c}
    for r, c in ((5, 1), (33, 37), (1001, 1000), (150_000, 16), (3, 4100), (7, 40_001))
]
"""Sizes that take the other paths: no multiple of four, rows that fill no warp or no registers,
more rows than a grid has blocks along y."""

CASES = (
    Case("chain", chain, WIDE, {}, _tiles(), chain_of, ODD, 0.95),
    Case("softmax", softmax, LONG, {"cols": 1024}, _rows_options(), softmax_of, ODD, 0.85),
    Case("layernorm", lambda: layernorm(False), LONG, {"cols": 1024}, _rows_options(),
         layernorm_of, ODD, 0.85),
    Case("residual layernorm", lambda: layernorm(True), LONG, {"cols": 1024}, _rows_options(),
         layernorm_of, ODD, 0.85),
)  # fmt: skip

OP_BY_OP = "op by op"
ANY = "any size"


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


def build(folder: Path) -> None:
    """Compile every engine into `folder`."""
    import compiler

    index: list[dict[str, Any]] = []
    start = time.perf_counter()
    for case in CASES:
        model = case.build()
        nothing: Mapping[str, int] = {}
        wanted = [(label, pipeline(o), case.pin) for label, o in case.variants.items()]
        wanted += [(OP_BY_OP, "op-by-op", case.pin), (ANY, "default", nothing)]
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
    about = {"commit": commit(), "built": now(), "python": platform.python_version()}
    seconds = round(time.perf_counter() - start, 1)
    text = json.dumps({"engines": index, "about": about, "seconds": seconds}, indent=1)
    (folder / "index.json").write_text(text + "\n", encoding="utf-8")


def pipeline(options: str) -> str:
    """The default order for a GPU, with these options of `map-gpu`."""
    from compiler.pipeline import DEFAULT, for_target, print_pipeline

    text = print_pipeline(for_target(DEFAULT, "cuda:ptx"))
    return text.replace("map-gpu", f"map-gpu{{{options}}}")


def without(sizes: Mapping[str, int], pin: Mapping[str, int]) -> dict[str, int]:
    return {n: v for n, v in sizes.items() if n not in pin}


def commit() -> str:
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip()


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
    for array in call.on_gpu.values():
        array.fill(POISON)
    call.launch()
    return error_of(call.fetch()["y"], wanted)


def median(values: Sequence[float]) -> float:
    return float(np.median(values))


def hbm(call: Any, device: Any) -> dict[str, Any]:
    from compiler.measure.hbm import CountersClosed, measured

    try:
        found = measured(call.launch, device.synchronize)
    except CountersClosed as closed:
        return {"closed": str(closed)}
    return {"read": found.read, "written": found.written, "samples": found.samples}


def run_case(case: Case, entries: Sequence[Mapping[str, Any]], folder: Path, device: Any,
             counters: bool) -> dict[str, Any]:  # fmt: skip
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

    from compiler.runtime.cuda import Event

    times: dict[str, list[float]] = {label: [] for label in (*calls, "copy")}

    def copy_times() -> list[float]:
        marks = [Event(device) for _ in range(2 * REPETITIONS)]
        for start, end in zip(marks[::2], marks[1::2], strict=True):
            start.record()
            device.copy(out.address, held["x"].address, out.nbytes)
            end.record()
        device.synchronize()
        pairs = zip(marks[::2], marks[1::2], strict=True)
        return [end.milliseconds_since(start) for start, end in pairs]

    for turn in range(ROUNDS):
        order = list(times)
        random.shuffle(order)
        for label in order:
            found = copy_times() if label == "copy" else calls[label].milliseconds(REPETITIONS)
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
    if counters:
        for row in rows:
            if row is best or row["variant"] in (OP_BY_OP, ANY):
                row["hbm"] = hbm(calls[row["variant"]], device)
    return {
        "case": case.name, "sizes": dict(case.sizes), "goal": case.goal, "copy GB/s": copy,
        "copy ms": median(times["copy"]), "rows": rows, "best": best["variant"], "errors": errors,
        "right": all(e <= ERROR for e in errors.values()),
    }  # fmt: skip


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
        best = next(r for r in found["rows"] if r["variant"] == found["best"])
        verdict = "met" if best["share"] >= found["goal"] and found["right"] else "MISSED"
        lines.append(
            f"   goal {found['goal']} of copy: {verdict}; fused {by_op['ms'] / best['ms']:.2f}x "
            "faster than op by op"
        )
    return "\n".join(lines)


def run(folder: Path, path: Path, names: Sequence[str]) -> int:
    """Check, time and count; write JSON, print a table. 1 where a result is wrong."""
    from compiler.measure import hbm as counters

    try:
        counters.prepare()
        able = True
        why = ""
    except counters.CountersClosed as closed:
        able, why = False, str(closed)
    from compiler.runtime.cuda import Device

    if not (folder / "index.json").exists():
        build(folder)
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    device = Device.open()
    results: list[dict[str, Any]] = []
    for case in CASES:
        if not names or case.name in names:
            entries = [e for e in index["engines"] if e["case"] == case.name]
            results.append(run_case(case, entries, folder, device, able))
    report = {
        "conditions": conditions(device, index), "cases": results, "counters": why or "open",
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    found = report["conditions"]
    print(f"{found['gpu']}, driver {found['nvidia-smi']}, {found['date']}")
    if why:
        print(f"HBM bytes are not measured: {why}")
    print(table(results))
    return 0 if all(r["right"] for r in results) else 1


def main() -> int:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("build", help="compile every engine into FOLDER")
    ran = commands.add_parser("run", help="check, time and count on the GPU")
    for sub in (made, ran):
        sub.add_argument("folder", type=Path, metavar="FOLDER")
    default = Path(os.environ.get("OUT", ".")) / "cuda_h200.json"
    ran.add_argument("--json", type=Path, default=default, metavar="PATH")
    ran.add_argument("--case", action="append", default=[], choices=[c.name for c in CASES])
    args = parser.parse_args()
    if args.command == "build":
        args.folder.mkdir(parents=True, exist_ok=True)
        build(args.folder)
        return 0
    return run(args.folder, args.json, args.case)


if __name__ == "__main__":
    raise SystemExit(main())

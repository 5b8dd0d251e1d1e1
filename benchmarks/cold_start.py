"""Cold start: from a new process to the first result, seconds by phase.

    fused           import compiler | compile, into an empty store | first run
    saved artifact  import NumPy and llvmlite | load | first run
    ONNX Runtime    import onnxruntime | make the session | first run
    torch.compile   import torch and torch._dynamo | compile and first run, with an empty cache

Starting the interpreter, reading the inputs, and translating the ONNX file for torch are in no
phase. The child's result is compared with the reference by the process that asks.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

KINDS = ("fused", "saved artifact", "ONNX Runtime", "torch.compile")
ROOT = Path(__file__).resolve().parent.parent


class _Clock:
    """Seconds by phase; what happens between `stop` and `go` is in none."""

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self.start = time.perf_counter()

    def stop(self, phase: str) -> None:
        self.phases[phase] = time.perf_counter() - self.start

    def go(self) -> None:
        self.start = time.perf_counter()


# ---- in the new process --------------------------------------------------------------------------


def child(kind: str, model: str, folder: Path, threads: int) -> dict[str, float]:
    """One cold start; `inputs.npz` and `outs.npz` are in `folder`, the result goes to `y.npz`."""
    clock = _Clock()
    run: Callable[[], Mapping[str, Any]]
    if kind == "fused":
        import_module("compiler.codegen.numba_api")
        compile = import_module("compiler").compile
        clock.stop("import")
        inputs = _arrays(folder / "inputs.npz")
        clock.go()
        engine = compile(model, store=folder / "store", threads=threads).engine
        clock.stop("compile")
        run = lambda: engine.run(inputs)  # noqa: E731
    elif kind == "saved artifact":
        import_module("numpy")
        import_module("llvmlite.binding")
        clock.stop("import")
        inputs = _arrays(folder / "inputs.npz")
        clock.go()
        load = import_module("compiler.runtime.engine").Engine.load
        engine = load(folder / "engine", threads=threads)
        clock.stop("load")
        run = lambda: engine.run(inputs)  # noqa: E731
    elif kind == "ONNX Runtime":
        import_module("onnxruntime")
        clock.stop("import")
        inputs = _arrays(folder / "inputs.npz")
        clock.go()
        from benchmarks.rivals import onnxruntime_session

        session = onnxruntime_session(Path(model).read_bytes(), threads)
        clock.stop("session")
        names = [o.name for o in session.get_outputs()]
        run = lambda: dict(zip(names, session.run(None, inputs), strict=True))  # noqa: E731
    else:
        torch = import_module("torch")
        import_module("torch._dynamo")
        clock.stop("import")
        from benchmarks.torch_model import torch_module

        inputs, outs = _arrays(folder / "inputs.npz"), _arrays(folder / "outs.npz")
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        module = torch_module(Path(model).read_bytes(), inputs)
        tensors = [torch.from_numpy(a) for a in (*inputs.values(), *outs.values())]

        def run() -> Mapping[str, Any]:
            torch.compile(module, dynamic=False, fullgraph=True)(*tensors)
            return outs

    clock.go()
    results = run()
    clock.stop("compile, first run" if kind == "torch.compile" else "first run")
    import numpy as np

    _save(folder / "y.npz", {name: np.asarray(y) for name, y in results.items()})
    return clock.phases


def _save(path: Path, arrays: Mapping[str, Any]) -> None:
    """Arrays in a file; their names have a `_` before them there, so that none is an option."""
    import numpy as np

    named: dict[str, Any] = {f"_{name}": array for name, array in arrays.items()}
    np.savez(path, **named)


def _arrays(path: Path) -> dict[str, Any]:
    """The arrays of such a file, in order."""
    import numpy as np

    with np.load(path) as found:
        return {name[1:]: found[name] for name in found.files}


# ---- in the process that asks --------------------------------------------------------------------


@dataclass(frozen=True)
class Cold:
    """A model's cold starts: kind -> phase -> median of seconds; `absent` says why one is not."""

    model: str
    sizes: Mapping[str, int]
    times: int
    phases: Mapping[str, Mapping[str, float]]
    absent: Mapping[str, str]

    def total(self, kind: str) -> float | None:
        return sum(self.phases[kind].values()) if kind in self.phases else None

    def to_json(self) -> dict[str, object]:
        return {
            "model": self.model, "sizes": dict(self.sizes), "processes each": self.times,
            "seconds": {k: {**p, "total": self.total(k)} for k, p in self.phases.items()},
            "absent": dict(self.absent),
        }  # fmt: skip


def cold_starts(
    name: str, model: Path, sizes: Mapping[str, int], threads: int, times: int
) -> Cold:
    """All kinds in turn, `times` rounds of new processes with empty stores.

    AssertionError for a wrong result.
    """
    import numpy as np

    import compiler
    from compiler.frontend.load import load
    from compiler.frontend.reference import reference
    from compiler.measure.accuracy import compare_all
    from compiler.measure.inputs import made_inputs

    built = compiler.compile(model)
    inputs = made_inputs(built, sizes, 0)
    wanted = reference(load(model), inputs).outputs
    found: dict[str, list[dict[str, float]]] = {}
    absent: dict[str, str] = {}
    for _ in range(times):
        for kind in KINDS:
            with tempfile.TemporaryDirectory() as made:
                folder = Path(made)
                _save(folder / "inputs.npz", inputs)
                empty = {n: np.zeros(y.shape, np.float32) for n, y in wanted.items()}
                _save(folder / "outs.npz", empty)
                if kind == "saved artifact":
                    built.engine.save(folder / "engine")
                try:
                    phases = _in_new_process(kind, model, folder, threads)
                except ChildFailed as error:
                    if kind in ("fused", "saved artifact"):
                        raise
                    absent[kind] = str(error)
                    continue
                outs = _arrays(folder / "y.npz")
                assert outs.keys() == wanted.keys()
                error = compare_all(outs, wanted).norm_rel
                assert error <= 1e-5, f"{name}, {kind}: error {error}"
                found.setdefault(kind, []).append(phases)
    medians = {
        kind: {phase: median(row[phase] for row in rows) for phase in rows[0]}
        for kind, rows in found.items()
    }
    return Cold(name, dict(sizes), times, medians, absent)


class ChildFailed(Exception):
    """The new process ended with an error; the text is its last line."""


def _in_new_process(kind: str, model: Path, folder: Path, threads: int) -> dict[str, float]:
    """Torch is told where its cache is by an environment variable; the folder is empty."""
    command = [sys.executable, "-m", "benchmarks.cold_start", kind, str(model), str(folder)]
    process = subprocess.run(
        [*command, str(threads)], cwd=ROOT, capture_output=True, text=True, timeout=300,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")},
    )  # fmt: skip
    if process.returncode:
        raise ChildFailed((process.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(process.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold_start")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("threads", type=int)
    args = parser.parse_args()
    print(json.dumps(child(args.kind, args.model, args.folder, args.threads)))


if __name__ == "__main__":
    main()

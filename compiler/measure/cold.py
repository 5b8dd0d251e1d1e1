"""Cold start: from a new process to the first result, by phase, in milliseconds.

    compile   import | passes | emit | compile | link | first_run      total = their sum
    load      import (NumPy and llvmlite) | load | first_run           total = their sum

`python -m compiler.measure.cold MODEL` does it and prints JSON; `--engine FOLDER` loads a saved
engine. Starting the interpreter and making up inputs are in no phase. The file system's cache is
as the machine left it.

Teaches: what a user waits for the first time is mostly not the model.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from compiler.ir.plan import Signature
    from compiler.ir.types import Array

PHASES = ("import", "passes", "emit", "compile", "link", "first_run")
LOAD_PHASES = ("import", "load", "first_run")
TIME_LIMIT = 180.0
"""Seconds after which a measured process is ended."""

Phases = dict[str, float]


class _Clock:
    """Milliseconds since it was last looked at."""

    def __init__(self) -> None:
        self.last = time.perf_counter()

    def lap(self) -> float:
        now = time.perf_counter()
        passed, self.last = (now - self.last) * 1e3, now
        return passed


# ---- in the new process --------------------------------------------------------------------------


def cold_compile(
    model: str,
    *,
    pin: Mapping[str, int],
    sizes: Mapping[str, int],
    pipeline: str | None,
    numerics: str,
    threads: int | None,
    target: str = "cpu",
    seed: int = 0,
) -> Phases:
    """Import, compile and run once; meant for a process that has imported nothing yet."""
    clock = _Clock()
    import_module("compiler.codegen.numba_api")  # with it Numba, before any phase needs it
    from compiler.driver import compile
    from compiler.measure.inputs import default_sizes, made_inputs

    imported = clock.lap()
    built = compile(
        model, target, pin, pipeline, numerics, sizes=sizes, threads=threads
    )
    inputs = made_inputs(built, default_sizes(built, model, sizes), seed)
    clock.lap()
    built.engine.run(inputs)
    found = {**built.phases, "first_run": clock.lap()}
    phases = {name: found.get(name, 0.0) for name in PHASES}
    phases["import"] += imported
    return {**phases, "total": sum(phases.values())}


def cold_load(
    folder: str, *, sizes: Mapping[str, int], threads: int | None, target: str = "cpu"
) -> Phases:
    """Load a saved engine and run it once. Symbols that `sizes` leaves out are 4."""
    clock = _Clock()
    for name in ("numpy", "llvmlite.binding"):
        import_module(name)
    imported = clock.lap()
    from compiler.runtime.engine import Engine

    if target == "cpu":
        engine = Engine.load(folder, threads=threads)
    else:
        from compiler.runtime.cuda import CudaEngine

        engine = CudaEngine.load_gpu(folder)
    loaded = clock.lap()
    inputs = plain_inputs(engine.signature, sizes)
    clock.lap()
    engine.run(inputs)
    phases = dict(zip(LOAD_PHASES, (imported, loaded, clock.lap()), strict=True))
    return {**phases, "total": sum(phases.values())}


def plain_inputs(signature: Signature, sizes: Mapping[str, int]) -> dict[str, Array]:
    """Normal floats; zeros for all other types, which are right as an index into anything."""
    import numpy as np

    from compiler.runtime.binding import storage

    random = np.random.default_rng(0)
    found: dict[str, Array] = {}
    for name, type in signature.inputs:
        full = {s: sizes.get(s, 4) for s in type.symbols()}
        shape = tuple(d.evaluate(full) for d in type.dims)
        dtype = storage(type.dtype)
        if dtype is not None and dtype.kind == "f":
            found[name] = random.standard_normal(shape).astype(dtype)
        else:
            found[name] = np.zeros(shape, object if dtype is None else dtype)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m compiler.measure.cold")
    parser.add_argument("model", nargs="?", metavar="MODEL")
    parser.add_argument("--engine", metavar="FOLDER", help="load this engine instead")
    parser.add_argument("--pin", action="append", default=[], metavar="DIM=N")
    parser.add_argument("--size", action="append", default=[], metavar="DIM=N")
    parser.add_argument("--pipeline")
    parser.add_argument("--numerics", default="default")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--target", default="cpu")
    args = parser.parse_args(argv)
    sizes = _pairs(args.size)
    if args.engine is not None:
        phases = cold_load(
            args.engine, sizes=sizes, threads=args.threads, target=args.target
        )
    elif args.model is None:
        parser.error("MODEL or --engine FOLDER")
    else:
        phases = cold_compile(
            args.model, pin=_pairs(args.pin), sizes=sizes, pipeline=args.pipeline,
            numerics=args.numerics, threads=args.threads, target=args.target,
        )  # fmt: skip
    print(json.dumps(phases))
    return 0


def _pairs(texts: Sequence[str]) -> dict[str, int]:
    parts = [text.rpartition("=") for text in texts]
    return {name: int(number) for name, _, number in parts}


# ---- in the process that asks --------------------------------------------------------------------


class ColdStartError(Exception):
    """The new process failed or took too long; the text says how."""


def measure_compile(
    model: str | Path,
    *,
    pin: Mapping[str, int],
    sizes: Mapping[str, int],
    pipeline: str | None,
    numerics: str,
    threads: int | None,
    target: str = "cpu",
    cancel: threading.Event | None = None,
    time_limit: float = TIME_LIMIT,
) -> Phases:
    """`cold_compile` in a new process. ColdStartError; Cancelled when `cancel` is set."""
    command = [str(Path(model).resolve()), "--numerics", numerics, "--target", target]
    if pipeline is not None:
        command += ["--pipeline", pipeline]
    for option, values in (("--pin", pin), ("--size", sizes)):
        for name, value in values.items():
            command += [f"{option}={name}={value}"]
    return _child(command, threads, cancel, time_limit)


def measure_load(
    folder: str | Path,
    *,
    sizes: Mapping[str, int],
    threads: int | None,
    target: str = "cpu",
    cancel: threading.Event | None = None,
    time_limit: float = TIME_LIMIT,
) -> Phases:
    """`cold_load` in a new process. ColdStartError; Cancelled when `cancel` is set."""
    command = [f"--engine={Path(folder).resolve()}", "--target", target]
    command += [f"--size={name}={value}" for name, value in sizes.items()]
    return _child(command, threads, cancel, time_limit)


def _child(
    command: Sequence[str],
    threads: int | None,
    cancel: threading.Event | None,
    time_limit: float,
) -> Phases:
    """Run this module on `command` and read what it prints."""
    root = Path(__file__).resolve().parent.parent.parent
    more = [] if threads is None else [f"--threads={threads}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "compiler.measure.cold", *command, *more],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=root,
        text=True,
    )  # fmt: skip
    end = time.monotonic() + time_limit
    try:
        while True:
            try:
                out, errors = process.communicate(timeout=0.1)
                break
            except subprocess.TimeoutExpired:
                if cancel is not None and cancel.is_set():
                    from compiler.passes.base import Cancelled

                    raise Cancelled from None
                if time.monotonic() > end:
                    raise ColdStartError(f"no result after {time_limit:g} seconds") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    if process.returncode:
        lines = errors.strip().splitlines()
        raise ColdStartError(lines[-1] if lines else f"it ended with code {process.returncode}")
    return cast(Phases, json.loads(out.splitlines()[-1]))


if __name__ == "__main__":
    sys.exit(main())

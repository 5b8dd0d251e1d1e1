"""What the cost model must know of a machine, measured once and kept.

    bandwidth = 2 n / time of the best copy of n bytes      n four times the last-level cache
    peak      = 2 n³ / time of a matrix product
    launch    = time of a step that does nothing, split over the threads

Rounded to two significant digits, because the profile is part of an engine's key: a second
measurement of the same machine should give the same profile.

Teaches: a cost model needs three numbers, and they are better measured than looked up.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from compiler.ir.machine import TEST_MACHINE, MachineProfile
from compiler.measure.conditions import cpu_name
from compiler.measure.copies import copies
from compiler.runtime.addresses import address_of
from compiler.runtime.engine import available_threads
from compiler.runtime.native import RUNNER_SYMBOL, NativeCode, assemble, runner_object

FILE = "machine.json"
SIDE = 1024
"""Rows and columns of the matrices whose product is timed."""
STEPS = 1000

_EMPTY = """
define void @empty(ptr %params, i64 %worker, i64 %lo, i64 %hi) {
  ret void
}
"""


def rounded(value: float, digits: int = 2) -> float:
    """`value` with so many significant digits: 23456 -> 23000."""
    if value == 0 or not math.isfinite(value):
        return value
    return float(f"{value:.{digits - 1}e}")


def measure_machine(threads: int | None = None, repetitions: int = 5) -> MachineProfile:
    """A profile of this machine, in about a second. The best of `repetitions` counts."""
    workers = threads or available_threads()
    cache = last_level_cache()
    return MachineProfile(
        name=f"{cpu_name()}, {workers} threads",
        bandwidth=rounded(_bandwidth(4 * cache, workers, repetitions)),
        peak=rounded(peak(repetitions)),
        launch=rounded(_launch(workers, repetitions)),
        cache=cache,
    )


def _best(call: Callable[[], object], repetitions: int) -> float:
    """The shortest time of a call, in seconds, after one that is not timed."""
    call()
    times: list[float] = []
    for _ in range(repetitions):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _bandwidth(nbytes: int, threads: int, repetitions: int) -> float:
    made = copies(nbytes, threads)
    return max(2 * made.nbytes / _best(call, repetitions) for call in made.calls.values())


def peak(repetitions: int) -> float:
    """Float32 operations a second of a large matrix product by NumPy's library, on its threads."""
    a = np.ones((SIDE, SIDE), np.float32)
    out = np.empty_like(a)
    return 2 * SIDE**3 / _best(lambda: np.matmul(a, a, out=out), repetitions)


def _launch(threads: int, repetitions: int) -> float:
    code = NativeCode({"empty": assemble(_EMPTY), RUNNER_SYMBOL: runner_object()})
    row = [code.address("empty"), 0, threads, 1]
    steps = np.array([row] * STEPS, np.int64)
    params = np.zeros(1, np.int64)
    steps[:, 1] = address_of(params)
    return _best(lambda: code.run(address_of(steps), STEPS, threads), repetitions) / STEPS


def last_level_cache() -> int:
    """Bytes of the largest cache of the first CPU, as the system tells; else the test machine's."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes: list[int] = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            text = path.read_text().strip()
            sizes.append(int(text[:-1]) * units[text[-1:]])
        except (OSError, ValueError, KeyError):
            continue
    return max(sizes, default=TEST_MACHINE.cache)


def stored_machine(store: str | Path) -> MachineProfile:
    """The profile that a store keeps; measured and written there when it has none.

    One of another processor, or a file that is not understood, is measured again. Of two processes
    that measure at once, the first to write decides for both.
    """
    path = Path(store) / FILE
    kept = read_machine(path)
    if kept is not None and kept.name.startswith(cpu_name()):
        return kept
    if path.exists():
        path.unlink(missing_ok=True)
    made = measure_machine()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=FILE)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(asdict(made), file, indent=1)
    try:
        os.link(part, path)
    except FileExistsError:
        return read_machine(path) or made
    finally:
        os.unlink(part)
    return made


def read_machine(path: Path) -> MachineProfile | None:
    """The profile in a file, None where there is none that can be read."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return MachineProfile(
            str(values["name"]), float(values["bandwidth"]), float(values["peak"]),
            float(values["launch"]), int(values["cache"]),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return None

"""A measurement on a GPU: variants queued in turns, timed by events, their HBM bytes counted.

    turn of a variant:   run | event run event | event run event | …        queued, then waited for

Inputs and results stay in the GPU's memory. The first run of a turn fills the queue and is not
timed, so the host's time to queue a launch does not count where the GPU is behind. The turns of
the variants and of a copy within the GPU's memory are shuffled, round by round. A plan with library
steps waits for the host, and its time says so.

Teaches: measure with the clock of the machine that works, and the ceiling beside the figure.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from compiler.ir.types import Array
from compiler.measure import hbm
from compiler.measure.timing import Latency
from compiler.runtime.cuda import CudaCall, CudaEngine, Device

COPY = "device to device"
TAKE = 10
"""Timed runs of a turn."""
HBM_SECONDS = 0.1
"""What the counted runs may take together: samples of more are not kept."""
MOST_HBM_RUNS = 200


def open_counters() -> tuple[hbm.Counters | None, str]:
    """The GPU's counters, or None and the reason with the way out. Comes before anything that may
    load a CUPTI of its own."""
    try:
        return hbm.prepare(), ""
    except hbm.CountersClosed as closed:
        return None, str(closed)


@dataclass(frozen=True)
class Hbm:
    """Bytes of each variant's run, read plus written; empty where `closed` says why."""

    bytes: Mapping[str, int]
    closed: str


class Bench:
    """Variants of a model bound to the same inputs in the memory of one GPU."""

    def __init__(self, engines: Mapping[str, CudaEngine], inputs: Mapping[str, Array]) -> None:
        self.device: Device = next(iter(engines.values())).device
        held = {name: self.device.upload(array) for name, array in inputs.items()}
        self.calls: dict[str, CudaCall] = {n: e.bind(held) for n, e in engines.items()}

    def results(self, name: str) -> dict[str, Array]:
        """What a variant computes, on outputs that were poisoned before."""
        call = self.calls[name]
        call.poison()
        call.launch()
        return {n: array.copy() for n, array in call.fetch().items()}

    def time(
        self,
        copied: int,
        repetitions: int | None,
        seconds: float,
        most: int,
        check: Callable[[], None],
        progress: Callable[[int, int], None],
    ) -> tuple[dict[str, Latency], float]:
        """Latency of every variant, and bytes a second of a copy of `copied` bytes.

        `repetitions`: of each; None: as many as fit in `seconds`, `most` at most.
        """
        byte = np.dtype(np.uint8)
        source, target = (self.device.empty((copied,), byte) for _ in range(2))
        source.fill(1)

        def copy() -> None:
            self.device.copy(target.address, source.address, copied)

        work: dict[str, Callable[[], None]] = {n: c.launch for n, c in self.calls.items()}
        work[COPY] = copy
        for run in work.values():
            self.device.times(run, 2)
        once = sum(self.device.times(run, 1)[0] for run in work.values()) * 1e-3
        limit = math.inf if repetitions is not None else 1.7 * seconds
        if repetitions is None:
            repetitions = max(TAKE, min(most, int(seconds / max(once, 1e-6))))
        taken: dict[str, list[float]] = {name: [] for name in work}
        shuffle = random.Random(0)
        begin = time.perf_counter()
        while (done := len(taken[COPY])) < repetitions:
            take = min(TAKE, repetitions - done)
            order = list(work)
            shuffle.shuffle(order)
            for name in order:
                _, *found = self.device.times(work[name], 1 + take)
                taken[name] += [ms * 1e-3 for ms in found]
            check()
            progress(done + take, repetitions)
            if time.perf_counter() - begin > limit:
                break
        times = {name: Latency(tuple(found)) for name, found in taken.items()}
        return times, 2 * copied / max(times.pop(COPY).p50, 1e-9)

    def hbm(self, counters: hbm.Counters | None, closed: str, times: Mapping[str, Latency]) -> Hbm:
        """HBM bytes of a run of every variant, fused and op by op counted alike."""
        if counters is None:
            return Hbm({}, closed)
        found: dict[str, int] = {}
        for name, call in self.calls.items():
            runs = int(HBM_SECONDS / max(times[name].p50, 1e-6))
            runs = max(1, min(MOST_HBM_RUNS, runs))
            try:
                counted = hbm.measured(
                    call.launch, self.device.synchronize, counters, runs, self.device.index
                )
            except hbm.CountersClosed as refused:
                return Hbm({}, str(refused))
            found[name] = round(counted.total)
        return Hbm(found, "")

"""One model, one size, all who can run it: the same arrays, outputs in place, checked, then timed.

    round:  the contestants in a random order; each has a lead of untimed calls, then timed ones
    p50 always, p95 from 100 timed calls, p99 from 1,000

Worker threads of one library go on spinning for a while after its call and would take the cores
from the next one; the lead outlasts them.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import compiler
from benchmarks.numpy_models import NUMPY
from benchmarks.rivals import onnxruntime_call, torch_call
from compiler.frontend.load import load
from compiler.frontend.reference import reference
from compiler.measure.accuracy import compare_all
from compiler.measure.inputs import made_inputs
from compiler.measure.timing import Latency
from compiler.runtime.addresses import aligned_empty

ERROR = 1e-5
"""The largest error, relative to the norm of the float64 reference, with which one may race."""
LEAD, TURN = 0.045, 0.02
"""Seconds of untimed and of timed calls in a turn, at least. ONNX Runtime's threads spin for some
35 ms after a call, OpenBLAS's for 20, torch's for 8."""
MOST = 80
"""Timed calls in a turn, at most."""

Arrays = Mapping[str, np.ndarray]
Call = Callable[[], object]


@dataclass(frozen=True)
class Contestant:
    """Latency and error of one of them; `absent` says why there is no latency."""

    latency: Latency | None
    error: float
    absent: str = ""


@dataclass(frozen=True)
class Race:
    """A model at sizes; contestants by name. `launches` are those of the fused plan."""

    model: str
    sizes: Mapping[str, int]
    contestants: Mapping[str, Contestant]
    launches: int
    library: int

    def p50(self, name: str) -> float | None:
        latency = self.contestants[name].latency if name in self.contestants else None
        return latency.p50 if latency is not None else None

    def ratio(self, name: str) -> float | None:
        """How many times as long as fused; None where it was not timed."""
        mine, other = self.p50("fused"), self.p50(name)
        return other / mine if mine and other else None

    def to_json(self) -> dict[str, object]:
        return {
            "model": self.model,
            "sizes": dict(self.sizes),
            "kernel launches": self.launches,
            "library calls": self.library,
            "contestants": {
                name: {"error": c.error, "ms": c.latency.to_json(), "by fused": self.ratio(name)}
                if c.latency is not None
                else {"absent": c.absent}
                for name, c in self.contestants.items()
            },
        }


def race(
    name: str,
    model: bytes,
    sizes: Mapping[str, int],
    threads: int,
    *,
    repetitions: int,
    seconds: float,
    more: Mapping[str, Call] | None = None,
    store: Path | None = None,
) -> Race:
    """Check and time op by op, fused, and every rival that is there; `more` are timed beside them.
    `store` keeps our engines between runs.

    Raises AssertionError where a result of ours is wrong. A rival whose result is wrong, or that
    cannot run the model, is absent with the reason.
    """
    fused = compiler.compile(model, threads=threads, sizes=sizes, store=store)
    plain = compiler.compile(model, pipeline="op-by-op", threads=threads, store=store)
    inputs = {n: aligned(x) for n, x in made_inputs(fused, sizes, 0).items()}
    wanted = reference(load(model), inputs).outputs
    makers: dict[str, Callable[[Arrays], Call]] = {
        "op by op": lambda outs: plain.engine.bind(inputs, outs),
        "fused": lambda outs: fused.engine.bind(inputs, outs),
        "ONNX Runtime": lambda outs: onnxruntime_call(model, inputs, outs, threads),
        "torch.compile": lambda outs: torch_call(model, inputs, outs, threads),
    }
    if name in NUMPY:
        makers["NumPy"] = lambda outs: NUMPY[name](inputs, outs)
    calls: dict[str, Call] = {}
    errors: dict[str, float] = {}
    absent: dict[str, str] = {}
    for who, make in makers.items():
        outs = {n: aligned(np.full(y.shape, np.nan, np.float32)) for n, y in wanted.items()}
        try:
            call = make(outs)
            call()
        except Exception as problem:  # a rival's own, of any kind
            if who in ("op by op", "fused"):
                raise
            lines = str(problem).strip().splitlines() or [""]
            absent[who] = f"{type(problem).__name__}: {lines[0]}"
            continue
        errors[who] = compare_all(outs, wanted).norm_rel
        if not errors[who] <= ERROR:
            assert who not in ("op by op", "fused"), f"{name}, {who}: error {errors[who]}"
            absent[who] = f"its error is {errors[who]:.1e}"
            continue
        calls[who] = call
    found = turns({**calls, **(more or {})}, repetitions, seconds)
    contestants = {who: Contestant(found[who], errors.get(who, 0.0)) for who in found}
    contestants |= {who: Contestant(None, errors.get(who, 0.0), absent[who]) for who in absent}
    plan = fused.engine.plan
    kernels = sum(type(step).__name__ == "KernelStep" for step in plan.steps)
    library = sum(type(step).__name__ == "CallStep" for step in plan.steps)
    return Race(name, dict(sizes), contestants, kernels, library)


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that starts at a multiple of 64 bytes, as all of these libraries would allocate it."""
    made: np.ndarray = aligned_empty(array.shape, array.dtype)
    made[...] = array
    return made


def turns(
    calls: Mapping[str, Call], repetitions: int, seconds: float, seed: int = 0
) -> dict[str, Latency]:
    """Time the calls in rounds, each in an order of its own, until all were timed `repetitions`
    times, or for `seconds` once there were three rounds."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    shuffle = random.Random(seed)
    order = list(calls)
    begin = time.perf_counter()
    rounds = 0
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        while min(map(len, taken.values())) < repetitions:
            if rounds >= 3 and time.perf_counter() - begin > seconds:
                break
            shuffle.shuffle(order)
            for name in order:
                taken[name] += _turn(calls[name])
            rounds += 1
    finally:
        if collecting:
            gc.enable()
    return {name: Latency(tuple(times)) for name, times in taken.items()}


def _turn(call: Call) -> Sequence[float]:
    """A lead of at least two calls, then timed calls."""
    start = time.perf_counter()
    led = 0
    while led < 2 or time.perf_counter() - start < LEAD:
        call()
        led += 1
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < MOST and (len(times) < 3 or time.perf_counter() - begin < TURN):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times

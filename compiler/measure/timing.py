"""Latency: variants interleaved in one run, in random order, warm, and percentiles that the
number of repetitions supports.

    p50 always;  p95 from 100 repetitions;  p99 from 1,000        (nearest rank)

Teaches: a number without its conditions cannot be compared, and a mean hides the slow calls.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from compiler.trace import Json

QUANTILES = tuple(range(0, 101, 5))


@dataclass(frozen=True)
class Latency:
    """Seconds of every repetition, in the order they were taken."""

    seconds: tuple[float, ...]

    @property
    def repetitions(self) -> int:
        return len(self.seconds)

    @property
    def p50(self) -> float:
        """Median in seconds."""
        return percentile(self.seconds, 50)

    @property
    def p95(self) -> float | None:
        return percentile(self.seconds, 95) if self.repetitions >= 100 else None

    @property
    def p99(self) -> float | None:
        return percentile(self.seconds, 99) if self.repetitions >= 1000 else None

    def to_json(self) -> dict[str, Json]:
        """Milliseconds; `quantiles` are the 0th, 5th, … 100th percentile."""
        return {
            "p50": self.p50 * 1e3,
            "p95": None if self.p95 is None else self.p95 * 1e3,
            "p99": None if self.p99 is None else self.p99 * 1e3,
            "repetitions": self.repetitions,
            "quantiles": [percentile(self.seconds, q) * 1e3 for q in QUANTILES],
        }


def percentile(values: Sequence[float], q: float) -> float:
    """The smallest value with at least q percent of the values at or below it."""
    if not values:
        raise ValueError("no percentile of nothing")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q / 100 * len(ordered)) - 1)]


def interleave(
    variants: Mapping[str, Callable[[], object]],
    *,
    repetitions: int,
    warmups: int = 3,
    seconds: float = math.inf,
    slow: Mapping[str, int] | None = None,
    seed: int = 0,
    check: Callable[[], None] = lambda: None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, Latency]:
    """Time each variant in `repetitions` turns, one round after the other, each round in an order
    of its own. `slow` gives variants that are timed fewer times. Stops after `seconds` once every
    variant has been timed three times (or as often as it may be)."""
    limits = {name: min(repetitions, (slow or {}).get(name, repetitions)) for name in variants}
    for name, call in variants.items():
        for _ in range(min(warmups, limits[name])):
            check()
            call()
    shuffle = random.Random(seed)
    taken: dict[str, list[float]] = {name: [] for name in variants}
    begin = time.perf_counter()
    for k in range(repetitions):
        order = [name for name in variants if k < limits[name]]
        shuffle.shuffle(order)
        for name in order:
            call = variants[name]
            start = time.perf_counter()
            call()
            taken[name].append(time.perf_counter() - start)
        check()
        progress(k + 1, repetitions)
        if k >= 2 and time.perf_counter() - begin > seconds:
            break
    return {name: Latency(tuple(times)) for name, times in taken.items()}


def now_and_then(tell: Callable[[int, int], None]) -> Callable[[int, int], None]:
    """Tells ten times a second at most, so that telling is no part of the load."""
    last = time.perf_counter()

    def told(done: int, of: int) -> None:
        nonlocal last
        if time.perf_counter() - last > 0.1:
            tell(done, of)
            last = time.perf_counter()

    return told


def seconds_of(call: Callable[[], object]) -> float:
    """Seconds of the second call."""
    call()
    start = time.perf_counter()
    call()
    return max(time.perf_counter() - start, 1e-6)

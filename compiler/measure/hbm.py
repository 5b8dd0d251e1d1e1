"""HBM bytes as the GPU's own counters tell them, in this process.

    read, written = Σ samples of dram__bytes_{read,write}.sum over R runs, divided by R

CUPTI's PM sampling adds up what every memory controller counts while kernels run; nothing is
replayed or serialised, so what is measured is what happens. One run comes before the counters are
configured, since they count from then on. It needs `cupti-python` and
`nvidia-cuda-cupti` (both from 13.4 on) and `pyelftools`. The library of CUPTI that is loaded first
in a process is the one that every call goes to, and an older one refuses all of them: `prepare`
loads the right one, before anything else that brings one (PyTorch does).

Where the driver keeps its counters for administrators, `CountersClosed` says how they are opened.

Teaches: the bytes that a program must move can be proved, those that it does move can be counted.
"""

# cupti has no type hints; the public functions of this module are its typed face.
# pyright: basic

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

METRICS: Final = ("dram__bytes_read.sum", "dram__bytes_write.sum")
INTERVAL: Final = 20_000
"""Nanoseconds of one sample."""
MOST_SAMPLES: Final = 10_000
"""That are kept; a fifth of a second."""

OPEN: Final = (
    "an administrator opens them with the driver's option NVreg_RestrictProfilingToAdminUsers=0 "
    "(in /etc/modprobe.d, then the module is loaded again), or gives the process CAP_SYS_ADMIN"
)
INSTALL: Final = "pip install 'cupti-python>=13.4' 'nvidia-cuda-cupti>=13.4' pyelftools"


class CountersClosed(Exception):
    """The bytes can't be measured here; the text tells why and the way out."""


@dataclass(frozen=True, slots=True)
class HbmBytes:
    """Bytes of one run, and how many samples they were summed from."""

    read: float
    written: float
    samples: int

    @property
    def total(self) -> float:
        return self.read + self.written


class Sample(Protocol):
    @property
    def metric_values(self) -> Sequence[float]: ...


class Samples(Protocol):
    @property
    def num_completed_samples(self) -> int: ...

    def __getitem__(self, index: int, /) -> Sample: ...


class Collector(Protocol):
    """What samples the counters of one GPU: CUPTI's, or a test's."""

    def enable(self) -> None: ...
    def configure(self, *, metrics: list[str], sampling_interval: int) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def decode(self, max_samples: int) -> Samples: ...
    def disable(self) -> None: ...


Counters = Callable[[int], Collector]
"""The collector of the GPU of an index."""


def prepare() -> Counters:
    """Load CUPTI's own library of the package, first of all. Raises CountersClosed."""
    spec = importlib.util.find_spec("cupti")
    if spec is None or spec.origin is None:
        raise CountersClosed(f"cupti-python is not installed: {INSTALL}")
    library = Path(spec.origin).parent.parent / "nvidia" / "cu13" / "lib" / "libcupti.so.13"
    if not library.exists():
        raise CountersClosed(f"{library.name} does not stand beside cupti-python: {INSTALL}")
    try:
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        sampling: Any = import_module("cupti.pm_sampling")
    except (OSError, ImportError) as error:
        raise CountersClosed(f"CUPTI can't be loaded: {error}; {INSTALL}") from error
    return lambda index: sampling.Collector(device_index=index)


def measured(
    launch: Callable[[], object],
    synchronize: Callable[[], object],
    counters: Counters,
    runs: int = 20,
    device: int = 0,
) -> HbmBytes:
    """Bytes that `launch` reads and writes, the mean of `runs` runs. `counters`: from `prepare`.

    Raises CountersClosed with the driver's words, and where the runs take too long.
    """
    launch()
    synchronize()
    try:
        collector = counters(device)
        collector.enable()
    except Exception as error:
        raise CountersClosed(f"the driver keeps its counters closed ({error}): {OPEN}") from error
    try:
        collector.configure(metrics=list(METRICS), sampling_interval=INTERVAL)
        collector.start()
        for _ in range(runs):
            launch()
        synchronize()
        collector.stop()
        data = collector.decode(max_samples=MOST_SAMPLES)
        count = int(data.num_completed_samples)
        if count >= MOST_SAMPLES:
            raise ValueError(f"{runs} runs give more than {MOST_SAMPLES} samples")
        read, written = (
            sum(data[i].metric_values[k] for i in range(count)) / runs for k in range(2)
        )
    except Exception as error:
        raise CountersClosed(f"CUPTI refused to sample ({error}): {OPEN}") from error
    finally:
        collector.disable()
    return HbmBytes(float(read), float(written), count)

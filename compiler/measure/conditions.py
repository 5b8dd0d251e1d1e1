"""The conditions of a measurement: without them a number cannot be compared."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from compiler.trace import Json

LIBRARIES = ("numpy", "numba", "llvmlite", "onnx", "onnxruntime", "torch")


@dataclass(frozen=True)
class Conditions:
    """What a run was measured under. `fallback` says in plain words why a CPU ran it, if a GPU
    was asked for; `notes` are further conditions, by name."""

    device: str
    threads: int
    dtype: str
    sizes: Mapping[str, int]
    warmups: int
    repetitions: int
    cache: str = "warm"
    concurrency: int = 1
    fallback: str = ""
    target: str = "cpu"
    notes: Mapping[str, str] = field(default_factory=dict[str, str])

    def to_json(self) -> dict[str, Json]:
        return {
            "device": self.device,
            "target": self.target,
            "cpu": cpu_name(),
            "cores": os.cpu_count() or 1,
            "threads": self.threads,
            "dtype": self.dtype,
            "sizes": dict(self.sizes),
            "warmups": self.warmups,
            "repetitions": self.repetitions,
            "cache": self.cache,
            "concurrency": self.concurrency,
            "versions": dict(versions()),
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "fallback": self.fallback,
            **self.notes,
        }


def cpu_name() -> str:
    """The processor's name as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that are installed."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found

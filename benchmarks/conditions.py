"""Two CPUs for everybody, and what a reader must know to compare a figure."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

from compiler.measure.conditions import Conditions
from compiler.trace import Json

TWO = 2
ROOT = Path(__file__).resolve().parent.parent


def on_two_cpus() -> None:
    """Start this program again on two CPUs where it may use more, so that libraries that ask the
    system (NumPy's BLAS does) make two threads as well."""
    if not hasattr(os, "sched_getaffinity"):
        return
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) > TWO:
        os.sched_setaffinity(0, cpus[:TWO])
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks", *sys.argv[1:]])


def conditions(threads: int, repetitions: int) -> dict[str, Json]:
    notes = {
        "process": "one for all contestants, on two CPUs",
        "order": "random in every round",
        "arrays": "aligned to 64 bytes",
        "outputs": "preallocated; ONNX Runtime by I/O binding; torch.compile copies into them "
        "inside the compiled function; NumPy by out=",
        "torch.compile": "default mode, dynamic=False, fullgraph=True, the ONNX nodes as torch ops",
        "ONNX Runtime": "intra_op 2, inter_op 1, all graph optimisations, CPU",
        "lead": "each turn starts with untimed calls, at least 2 and for 45 ms",
        "load": f"{os.getloadavg()[0]:.1f} in the minute before",
        "blas": blas_kernel(),
        "c++": first_line("g++", "--version"),
        "commit": first_line("git", "rev-parse", "HEAD"),
        "uncommitted": str(bool(first_line("git", "status", "-s", "-uno", "compiler"))),
    }
    return Conditions("cpu", threads, "float32", {}, 2, repetitions, notes=notes).to_json()


def first_line(*command: str) -> str:
    """Of what a command prints; empty where it cannot run."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    except OSError:
        return ""
    return (done.stdout.splitlines() or [""])[0]


def blas_kernel() -> str:
    """NumPy's BLAS and the CPU it computes for, which OPENBLAS_CORETYPE may have set."""
    import numpy  # noqa: F401  (loads the library)

    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return ""
    for path in sorted(set(re.findall(r"/\S*openblas\S*\.so\S*", maps))):
        library = ctypes.CDLL(path)
        for name in ("scipy_openblas_get_config64_", "openblas_get_config"):
            if hasattr(library, name):
                function = getattr(library, name)
                function.restype = ctypes.c_char_p
                return (function() or b"").decode()
    return ""

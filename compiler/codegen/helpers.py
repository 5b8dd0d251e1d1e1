"""Processes that help to compile kernels: Numba and LLVM use one CPU of a process, whatever it has.

    caller    from the first kernel of the list on      take(k): made by a helper?  else compile it
    helper    from the last one back                    claim, compile, answer

Whoever claims a kernel compiles it, so nothing is done twice, and they meet where the list ends for
both. A helper is a new process that reads jobs and writes kernels through pipes: nothing is forked,
so threads do not matter; it ends when its input does, so it outlives nobody. The same source gives
the same bytes in every process. A kernel that a helper fails to make, because it does not compile,
because the helper was killed or because it answers nonsense, the caller makes: errors are told
where they belong.

Teaches: parallel work needs a rule for who does what, and one for when somebody disappears.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from compiler.pipes import take_output

if TYPE_CHECKING:
    from compiler.codegen.numba_api import CompiledKernel

WORTH = 12_000
"""Characters of source for each process that takes part: some 1.2 s of compiling. A helper needs
about 0.8 s until it compiles: for Numba's import, and what Numba does for its first kernel."""

PATIENCE = 60.0
"""Seconds to wait for a kernel that a helper has claimed."""

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Job:
    """The arguments of `compile_kernel`."""

    name: str
    source: str
    strict: bool
    math: str


def helpers_worth(jobs: Sequence[Job], cpus: int) -> int:
    """How many helpers make up for their start, where that many CPUs may be used."""
    characters = sum(len(job.source) for job in jobs)
    return max(0, min(cpus, characters // WORTH, len(jobs)) - 1)


class Helpers:
    """`count` helpers at work on `jobs`, until the `with` block ends."""

    def __init__(self, jobs: Sequence[Job], count: int) -> None:
        self._lock = threading.Lock()
        self._open = {job.name: job for job in jobs}
        self._claimed: dict[str, Future[CompiledKernel | None]] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads: list[threading.Thread] = []
        for _ in range(count):
            try:
                process = subprocess.Popen(
                    [sys.executable, "-m", "compiler.codegen.helpers"], cwd=ROOT,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                )  # fmt: skip
            except OSError:
                break
            thread = threading.Thread(target=self._tend, args=(process,), daemon=True)
            self._processes.append(process)
            self._threads.append(thread)
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End the helpers, also in the middle of a kernel."""
        with self._lock:
            self._open.clear()
        for process in self._processes:
            process.kill()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.communicate()

    def take(self, name: str, check: Callable[[], None]) -> CompiledKernel | None:
        """The kernel, where a helper has claimed it; None: it is the caller's to compile.

        While it waits it calls `check`, which may raise.
        """
        with self._lock:
            claimed = self._claimed.get(name)
            if claimed is None:
                self._open.pop(name, None)
                return None
        for _ in range(int(PATIENCE / 0.1)):
            check()
            try:
                return claimed.result(0.1)
            except TimeoutError:
                continue
        return None

    def _tend(self, process: subprocess.Popen[bytes]) -> None:
        """Give one helper jobs while there are any."""
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.load(process.stdout)  # it is ready: before, no job is kept waiting for it
        except Exception:  # damaged pickles raise anything; a helper is a help, not a need
            return
        while True:
            with self._lock:
                if not self._open:
                    return
                name, job = self._open.popitem()
                answer: Future[CompiledKernel | None] = Future()
                self._claimed[name] = answer
            try:
                pickle.dump(job, process.stdin)
                process.stdin.flush()
                answer.set_result(pickle.load(process.stdout))
            except Exception:
                answer.set_result(None)
                return


def serve() -> None:
    """The life of a helper: a job in, a kernel or None out, until the input ends."""
    from compiler.codegen.numba_api import compile_kernel

    jobs, kernels = sys.stdin.buffer, take_output()
    made: CompiledKernel | None = None
    try:
        while True:
            pickle.dump(made, kernels)
            kernels.flush()
            job = pickle.load(jobs)
            assert isinstance(job, Job)
            try:
                made = compile_kernel(job.name, job.source, strict=job.strict, math=job.math)
            except Exception:  # the caller compiles it again, and tells the error
                made = None
    except (EOFError, OSError, KeyboardInterrupt):
        return


if __name__ == "__main__":
    # Of the module by its name, in which the caller's jobs are, not of this `__main__`.
    from compiler.codegen import helpers

    helpers.serve()

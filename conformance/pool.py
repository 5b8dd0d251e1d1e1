"""Run tests in processes of their own: what crashes or hangs costs one test, not the run.

    parent ── name ──► worker (forked)        worker ── verdict ──► parent

A worker that dies or answers too late is ended, its test has failed, and a new one is forked for
the tests that are left. The clock of a test stands still while the parent does.

Teaches: the boundary of a process is the only one that a crash respects.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from conformance.cases import Case
from conformance.judge import FAILED, Verdict

Judge = Callable[[Case], Verdict]

TICK = 0.25
"""Seconds between two looks at the clock."""


@dataclass
class _Worker:
    """A process, its end of the pipe, and the test it is at for so many seconds."""

    process: ForkProcess
    pipe: Connection
    name: str = ""
    spent: float = 0.0


def run(
    cases: Mapping[str, Case], judge: Judge, workers: int = 2, limit: float = 120.0
) -> Iterator[tuple[str, Verdict]]:
    """Name and verdict of every test, as they are done. `limit`: seconds that one test may take.

    Forks: the calling process should not have threads of its own.
    """
    waiting = iter(cases)
    crew = [worker for _ in range(workers) if (worker := _start(cases, judge, waiting))]
    try:
        last = time.monotonic()
        while crew:
            ready = wait([w.pipe for w in crew], timeout=TICK)
            now = time.monotonic()
            passed, last = min(now - last, 2 * TICK), now
            for worker in tuple(crew):
                worker.spent += passed
                if worker.pipe in ready:
                    verdict, alive = _answer(worker)
                elif worker.spent > limit:
                    why = f"hang: no answer within {limit:g} seconds"
                    verdict, alive = Verdict(FAILED, why), False
                else:
                    continue
                yield worker.name, verdict
                if alive and _give(worker, waiting):
                    continue
                _end(worker)
                crew.remove(worker)
                if not alive and (fresh := _start(cases, judge, waiting)) is not None:
                    crew.append(fresh)
    finally:
        for worker in crew:
            _end(worker)


def _start(cases: Mapping[str, Case], judge: Judge, waiting: Iterator[str]) -> _Worker | None:
    """A new worker at the next test; None when there is none left."""
    name = next(waiting, "")
    if not name:
        return None
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    process = fork.Process(target=_serve, args=(theirs, cases, judge), daemon=True)
    process.start()
    theirs.close()
    ours.send(name)
    return _Worker(process, ours, name)


def _serve(pipe: Connection, cases: Mapping[str, Case], judge: Judge) -> None:
    """In a worker: a verdict for every name, until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            name = pipe.recv()
        except EOFError:
            return
        pipe.send(judge(cases[name]))


def _answer(worker: _Worker) -> tuple[Verdict, bool]:
    """The verdict, and whether the worker lives."""
    try:
        verdict = worker.pipe.recv()
    except (EOFError, ConnectionError):
        worker.process.join()
        why = f"crash: the process ended with {worker.process.exitcode}"
        return Verdict(FAILED, why), False
    assert isinstance(verdict, Verdict)
    return verdict, True


def _give(worker: _Worker, waiting: Iterator[str]) -> bool:
    """Send the next test; False when there is none left."""
    name = next(waiting, "")
    if name:
        worker.name, worker.spent = name, 0.0
        worker.pipe.send(name)
    return bool(name)


def _end(worker: _Worker) -> None:
    worker.pipe.close()
    if worker.process.exitcode is None:
        worker.process.kill()
    worker.process.join()

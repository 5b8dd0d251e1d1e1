"""Compiles and measurements in a process of their own: JSON lines over pipes (docs/json.md).

    a line in: a request      a line out: one answer of the request with the same id

Requests run one after the other, so that a measurement never shares the processor with a compile
of the same worker. A thread reads ahead, so that a cancel is heard while a job runs. A job that
fails answers an error and leaves the worker ready; what kills the process, the caller sees.

Teaches: the boundary of a process is the only one that a crash respects.
"""

from __future__ import annotations

import hashlib
import json
import queue
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

import compiler
from compiler.passes.base import Cancelled
from compiler.snapshots import kernels, snapshot
from compiler.trace import Json, PassRecord, count

if TYPE_CHECKING:
    from compiler.driver import Built

Request = Mapping[str, object]


@dataclass
class Job:
    """A request that is waiting or running, and whether it is still wanted."""

    id: object
    request: Request
    cancel: threading.Event = field(default_factory=threading.Event)


class Worker:
    """Serves `requests` until the stream ends or says quit; answers go to `answers`."""

    def __init__(self, requests: TextIO, answers: TextIO) -> None:
        self._requests = requests
        self._answers = answers
        self._writing = threading.Lock()
        self._jobs: dict[object, Job] = {}
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()

    def serve(self) -> None:
        """Run jobs in the order of their requests. Returns when there will be no more."""
        threading.Thread(target=self._read, name="requests", daemon=True).start()
        while (job := self._queue.get()) is not None:
            try:
                self._answer(job, self._run(job))
            except Cancelled:
                self._answer(job, {"event": "cancelled"})
            except Exception as error:  # whatever goes wrong belongs to this job alone
                self._answer(job, {"event": "error", "error": error_json(error, job.request)})
            finally:
                self._jobs.pop(job.id, None)

    # ---- requests ------------------------------------------------------------------------------

    def _read(self) -> None:
        for line in self._requests:
            if not line.strip():
                continue
            try:
                request: object = json.loads(line)
            except ValueError as error:
                self._write({"event": "error", "error": _malformed(str(error))})
                continue
            if not isinstance(request, dict):
                self._write({"event": "error", "error": _malformed("a request is an object")})
            elif not self._take(cast(dict[str, object], request)):
                break
        self._queue.put(None)

    def _take(self, request: Request) -> bool:
        """Queue a job or cancel one; False for quit, which cancels the job that runs."""
        match request.get("command"):
            case "quit":
                for job in list(self._jobs.values()):
                    job.cancel.set()
                return False
            case "cancel":
                job = self._jobs.get(request.get("of"))
                if job is not None:
                    job.cancel.set()
            case "compile" | "measure":
                job = Job(request.get("id"), request)
                self._jobs[job.id] = job
                self._queue.put(job)
            case other:
                error = _malformed(f"no command is called {other!r}; there are: compile, measure")
                self._write({"id": _plain(request.get("id")), "event": "error", "error": error})
        return True

    # ---- jobs ----------------------------------------------------------------------------------

    def _run(self, job: Job) -> dict[str, Json]:
        if job.cancel.is_set():
            raise Cancelled
        if job.request["command"] == "compile":
            return self._compile(job)
        return self._measure(job)

    def _compile(self, job: Job) -> dict[str, Json]:
        start = time.perf_counter()
        options = read_options(job.request)
        built = compiler.compile(
            _model(job.request),
            target=options.target,
            pin=options.pin,
            pipeline=options.pipeline,
            numerics=options.numerics,
            threads=options.threads,
            sizes=options.sizes,
            progress=self._on_pass(job),
            cancel=job.cancel,
        )
        blobs = Blobs(Path(_text(job.request, "blobs")))
        trace = built.trace
        made = list(kernels(trace.final, built.context.blobs.data))
        return {
            "event": "result",
            "trace": blobs.put(_trace_json(built, job.request)),
            "snapshots": [blobs.put(snapshot(m)) for m in trace.snapshots()],
            "kernels": [blobs.put(k) for k in made],
            "compiled": len(trace.final.sources),
            "milliseconds": round((time.perf_counter() - start) * 1e3, 1),
        }

    def _measure(self, job: Job) -> dict[str, Json]:
        raise NotImplementedError

    def _on_pass(self, job: Job) -> compiler.Progress:
        def told(record: PassRecord | None, phase: str, done: int, of: int) -> None:
            answer: dict[str, Json] = {"event": "progress", "phase": phase, "done": done, "of": of}
            if record is not None:
                answer |= {
                    "name": record.name,
                    "changed": record.changed,
                    "unit": record.unit,
                    "before": count(record.before, record.unit),
                    "after": count(record.after, record.unit),
                }
            self._answer(job, answer)

        return told

    # ---- answers -------------------------------------------------------------------------------

    def _answer(self, job: Job, answer: Mapping[str, Json]) -> None:
        self._write({"id": _plain(job.id), **answer})

    def _write(self, answer: Mapping[str, Json]) -> None:
        line = json.dumps(answer, ensure_ascii=False, allow_nan=False)
        with self._writing:
            self._answers.write(line + "\n")
            self._answers.flush()

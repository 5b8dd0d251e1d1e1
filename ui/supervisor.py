"""Jobs of the page: compiles and measurements, one at a time, in a process that may die.

    submit ─► queue ─► one worker process (JSON lines) ─► events of the job ─► the browser

A compile and a measurement never run together, so a latency is never taken beside a compile. What
somebody waits for goes before background jobs: one that runs is asked to stop as soon as another
job arrives, goes back to the head of its queue, and starts over when nobody waits. The worker is
replaced after it compiled many kernels (dropped kernels never free their memory), when
it dies, when a job runs too long or grows too large, and when a cancelled job does not stop by
itself. A spare process stands by, its imports done, so that a replacement costs no waiting.
Nothing that a worker does reaches this process but lines of JSON, which are handed on unread.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

Json = dict[str, object]

TERMINAL = frozenset({"result", "error", "cancelled"})
"""Events after which a job is over."""


@dataclass(frozen=True)
class Limits:
    """What a job may take. Times in seconds, memory in bytes of resident pages."""

    time: float = 120.0
    memory: int = 3 * 2**30
    """The five-op chain at its largest sizes takes 2.1 GiB: the reference computes in float64."""
    abandoned: float = 10.0
    """How long a job goes on with nobody listening."""
    grace: float = 1.0
    """How long a cancelled job may take to stop before its process is killed."""
    kernels: int = 200
    """Kernels after which a worker is replaced."""
    waiting: int = 32
    """Jobs that may wait; more are refused."""
    kept: int = 64
    """Finished jobs that are remembered."""


def failure(message: str, **parameters: str | int | float) -> Json:
    """An error event in the form that the worker's own have: a message id and its parameters."""
    return {"event": "error", "error": {"message": message, "parameters": dict(parameters)}}


@dataclass(eq=False)
class Job:
    """A request and what has been heard of it so far. `events` only grows."""

    token: str
    request: Mapping[str, object]
    events: list[Json] = field(default_factory=list[Json])
    cancelled: bool = False
    listeners: int = 0
    heard: float = field(default_factory=time.monotonic)
    """When somebody last listened."""
    background: bool = False
    """Whether it gives way to jobs that somebody waits for."""

    @property
    def done(self) -> bool:
        return bool(self.events) and self.events[-1].get("event") in TERMINAL

    def listen(self, step: int) -> None:
        """Count one listener more (`step` 1) or less (-1)."""
        self.listeners += step
        self.heard = time.monotonic()

    def abandoned(self, seconds: float) -> bool:
        return self.listeners == 0 and time.monotonic() - self.heard > seconds


class Worker:
    """A worker process and a thread that reads its answers into a queue."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self.answers: queue.SimpleQueue[Json | None] = queue.SimpleQueue()
        """Answers in order; None after the last, when the process is gone."""
        self.kernels = 0
        threading.Thread(target=self._read, name="worker-answers", daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                answer = json.loads(line)
            except ValueError:
                continue
            if isinstance(answer, dict):
                self.answers.put(answer)
        self.answers.put(None)

    def send(self, request: Mapping[str, object]) -> bool:
        """Write one request; False when the process is gone."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request, ensure_ascii=False) + "\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            return False
        return True

    def memory(self) -> int:
        """Resident bytes, 0 where the system does not tell."""
        try:
            text = Path(f"/proc/{self.process.pid}/statm").read_text()
        except OSError:
            return 0
        return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        """End the process and those that it started (a cold start is measured in new ones)."""
        with suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()

    def death(self) -> str:
        """How the process ended: the name of a signal, or its exit status.

        One that only closed its output is ended now.
        """
        try:
            status = self.process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self.kill()
            status = self.process.wait()
        return signal.Signals(-status).name if status < 0 else f"status {status}"


class Supervisor:
    """Runs jobs one after the other. `command` starts a worker, `folder` is where it starts."""

    def __init__(self, command: Sequence[str], folder: Path, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._command = list(command)
        self._folder = folder
        self._jobs: dict[str, Job] = {}
        self._once: dict[str, Job] = {}
        self._waiting: deque[Job] = deque()
        self._background: deque[Job] = deque()
        self._running: Job | None = None
        self._changed = threading.Condition()
        self._closed = False
        self._worker: Worker | None = None
        self._spare: Worker | None = None
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._thread.start()

    # ---- what the page calls -------------------------------------------------------------------

    def warm(self) -> None:
        """Start a process ahead of the first job."""
        with self._changed:
            if self._spare is None and not self._closed:
                self._spare = Worker(self._command, self._folder)

    def submit(self, request: Mapping[str, object], *, background: bool = False) -> Job:
        """Put a job in the queue. When too many wait, the job comes back refused."""
        job = Job(secrets.token_urlsafe(18), request, background=background)
        with self._changed:
            self._jobs[job.token] = job
            finished = [t for t, j in self._jobs.items() if j.done and not self._kept(j)]
            for token in finished[: max(0, len(finished) - self.limits.kept)]:
                del self._jobs[token]
            before = len(self._waiting) + (len(self._background) if background else 0)
            if before >= self.limits.waiting:
                job.events.append(failure("job.busy", waiting=before))
            else:
                (self._background if background else self._waiting).append(job)
                self._tell_places(job)
                self._changed.notify_all()
        return job

    def once(self, request: Mapping[str, object]) -> Job:
        """The job of a request whose answer never changes: asked for again, it is the same one,
        unless that failed. It is never forgotten."""
        text = json.dumps(request, sort_keys=True)
        with self._changed:
            job = self._once.get(text)
            failed = job is not None and job.done and job.events[-1]["event"] != "result"
            if job is None or failed or job.cancelled:
                job = self._once[text] = self.submit(request)
        return job

    def _tell_places(self, *asking: Job) -> None:
        """Tell jobs that wait how many go before them (all of them where none is named): the one
        that runs too, unless it gives way."""
        running = self._running
        for place, job in enumerate((*self._waiting, *self._background)):
            if asking and job not in asking:
                continue
            stays = running is not None and (job.background or not running.background)
            job.events.append({"event": "queued", "position": place + stays})

    def _kept(self, job: Job) -> bool:
        return any(job is kept for kept in self._once.values())

    def job(self, token: str) -> Job | None:
        return self._jobs.get(token)

    def cancel(self, token: str) -> bool:
        """Ask a job to stop; whether there is one that had not ended."""
        with self._changed:
            job = self._jobs.get(token)
            if job is None or job.done:
                return False
            job.cancelled = True
            for waiting in (self._waiting, self._background):
                if job in waiting:
                    waiting.remove(job)
                    job.events.append({"event": "cancelled"})
                    self._tell_places()
            self._changed.notify_all()
        return True

    def close(self) -> None:
        """End both processes; jobs that wait or run are cancelled."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout=10)

    # ---- the one thread that runs jobs ---------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._background and not self._closed:
                    self._changed.wait()
                if self._closed:
                    break
                job = (self._waiting or self._background).popleft()
                self._running = job
                self._tell_places()
            if job.cancelled or job.abandoned(self.limits.abandoned):
                with self._changed:
                    self._running = None
                    job.events.append({"event": "cancelled"})
                continue
            worker = self._living()
            end = self._follow(job, worker)
            if worker.kernels >= self.limits.kernels:
                worker.kill()
            if worker.process.poll() is not None:
                self._worker = None
            with self._changed:
                self._running = None
                if end is None:
                    self._background.appendleft(job)
                    self._tell_places(job)
                else:
                    job.events.append(end)
            self.warm()
        for job in (*self._waiting, *self._background):
            job.events.append({"event": "cancelled"})
        for worker in (self._worker, self._spare):
            if worker is not None:
                worker.kill()

    def _living(self) -> Worker:
        """The worker, replaced by the spare or a new one when it is gone."""
        worker = self._worker
        if worker is None or worker.process.poll() is not None:
            with self._changed:
                worker, self._spare = self._spare, None
            if worker is None or worker.process.poll() is not None:
                worker = Worker(self._command, self._folder)
            self._worker = worker
        return worker

    def _follow(self, job: Job, worker: Worker) -> Json | None:
        """Run one job on a worker up to its last event, which is returned, not recorded.

        None: the job is still wanted, but gave way to another.
        """
        limits = self.limits
        if not worker.send({"id": job.token, **job.request}):
            return failure("job.died", how=worker.death())
        job.events.append({"event": "started"})
        deadline = time.monotonic() + limits.time
        stop = 0.0

        def unwanted() -> bool:
            return job.cancelled or self._closed or job.abandoned(limits.abandoned)

        def stopped() -> Json | None:
            return {"event": "cancelled"} if unwanted() or not job.background else None

        while True:
            try:
                answer = worker.answers.get(timeout=0.1)
            except queue.Empty:
                answer = {}
            now = time.monotonic()
            if answer is None:
                return stopped() if stop else failure("job.died", how=worker.death())
            if answer.get("id") == job.token:
                event = {k: v for k, v in answer.items() if k != "id"}
                if event.get("event") in TERMINAL:
                    worker.kernels += kernels_of(event)
                    return stopped() if stop and event["event"] == "cancelled" else event
                job.events.append(event)
            if stop and now > stop:
                worker.kill()
                return stopped()
            if now > deadline:
                worker.kill()
                return failure("job.time", seconds=int(limits.time))
            if worker.memory() > limits.memory:
                worker.kill()
                return failure("job.memory", limit_bytes=limits.memory)
            if not stop and (unwanted() or (job.background and self._waiting)):
                stop = now + limits.grace
                worker.send({"command": "cancel", "of": job.token})


def kernels_of(event: Mapping[str, object]) -> int:
    """How many kernels the worker compiled for this result."""
    compiled = event.get("compiled", 0)
    return compiled if isinstance(compiled, int) else 0

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
import math
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

import compiler
from compiler.driver import TARGETS, open_device, read_pipeline
from compiler.errors import TargetError
from compiler.history import history
from compiler.listings import kernel_listings, param_listing, plan_listing
from compiler.measure.drift import with_drift
from compiler.measure.effects import effects
from compiler.measure.inputs import assumed_sizes
from compiler.measure.report import baseline, explanation, untiled
from compiler.passes.base import Built as BuiltKernel
from compiler.pipeline import DEFAULT, Pipeline, for_target, print_pipeline
from compiler.pipes import take_output
from compiler.trace import Json, PassRecord, Trace, count

if TYPE_CHECKING:
    from compiler import OnnxModel

Request = Mapping[str, object]
KEPT = 1000
"""Kernels of a target that a worker holds for the next compile."""

LONGEST = 1000
"""Characters that are told of an error that is not the compiler's own."""


Told = Callable[[Mapping[str, Json]], None]
Command = Callable[[Request, Told, threading.Event], Mapping[str, Json]]
"""What a caller adds to the commands: it is given the request, what tells progress, and what says
that nobody wants it any more, and gives the keys of its result."""

OWN = ("compile", "measure", "effects", "targets")
"""The commands that every worker has."""


class RequestError(Exception):
    """A request that is not what docs/json.md says."""


@dataclass
class Job:
    """A request that is waiting or running, and whether it is still wanted."""

    id: object
    request: Request
    cancel: threading.Event = field(default_factory=threading.Event)


class Worker:
    """Serves `requests` until the stream ends or says quit; answers go to `answers`."""

    def __init__(
        self, requests: TextIO, answers: TextIO, commands: Mapping[str, Command] | None = None
    ) -> None:
        self._requests = requests
        self._answers = answers
        self._kernels: dict[str, dict[str, BuiltKernel]] = {}
        """By target: kernels built so far, by symbol."""
        self._commands = dict(commands or {})
        self._writing = threading.Lock()
        self._jobs: dict[object, Job] = {}
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()

    def serve(self) -> None:
        """Run jobs in the order of their requests. Returns when there will be no more."""
        threading.Thread(target=self._read, name="requests", daemon=True).start()
        while (job := self._queue.get()) is not None:
            try:
                self._answer(job, self._run(job))
            except compiler.Cancelled:
                self._answer(job, {"event": "cancelled"})
            except Exception as error:  # whatever goes wrong belongs to this job alone
                self._answer(job, {"event": "error", "error": error_json(error, job.request)})
            finally:
                self._jobs.pop(job.id, None)

    def ready(self) -> None:
        """Tell the other side that requests will be served without delay."""
        self._write({"event": "ready"})

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
            case str(name) if name in OWN or name in self._commands:
                job = Job(request.get("id"), request)
                self._jobs[job.id] = job
                self._queue.put(job)
            case other:
                known = ", ".join((*OWN, *self._commands))
                error = _malformed(f"no command is called {other!r}; there are: {known}")
                self._write({"id": _plain(request.get("id")), "event": "error", "error": error})
        return True

    # ---- jobs ----------------------------------------------------------------------------------

    def _run(self, job: Job) -> dict[str, Json]:
        if job.cancel.is_set():
            raise compiler.Cancelled
        if job.request["command"] == "compile":
            return self._compile(job)
        if job.request["command"] == "targets":
            return {"event": "result", "targets": targets()}
        if job.request["command"] == "measure":
            return self._measure(job)
        if job.request["command"] == "effects":
            return self._effects(job)
        command = self._commands[str(job.request["command"])]

        def told(progress: Mapping[str, Json]) -> None:
            self._answer(job, {"event": "progress", **progress})

        return {"event": "result", **command(job.request, told, job.cancel)}

    def _compile(self, job: Job) -> dict[str, Json]:
        start = time.perf_counter()
        options = read_options(job.request)
        model = load(job.request)
        blobs = Blobs(Path(_text(job.request, "blobs")))
        passes = for_target(read_pipeline(self._pipeline(options)), options.target)
        sizes = assumed_sizes(_text(job.request, "model"), options.pin, options.sizes)
        reached = Reached(model.name, options, passes, blobs, sizes)
        try:
            built = compiler.compile(
                model,
                target=options.target,
                pin=options.pin,
                pipeline=passes,
                numerics=options.numerics,
                threads=options.threads,
                sizes=sizes,
                progress=self._on_pass(job, reached),
                cancel=job.cancel,
                kernels=self._known(options.target),
            )
        except compiler.Cancelled:
            raise
        except Exception as error:
            return self._failed(job, error, reached)
        trace = with_drift(built) if options.drift else built.trace
        final = trace.final
        listings = kernel_listings(final, built.context.blobs.data)
        return {
            "event": "result",
            "trace": blobs.put({**trace.to_json(), **explanation(built)}),
            "history": blobs.put(history(trace.records)),
            "kernels": [{"name": k["name"], "blob": blobs.put(k)} for k in listings],
            "plan": blobs.put(plan_listing(untiled(built))),
            "params": blobs.put({"params": param_listing(final, built.context.params)}),
            "key": {"digest": built.key.digest, **dict(built.key.components)},
            "default": print_pipeline(for_target(DEFAULT, options.target)),
            "compiled": newly_built(trace.records),
            "milliseconds": round((time.perf_counter() - start) * 1e3, 1),
        }

    def _failed(self, job: Job, error: Exception, reached: Reached) -> dict[str, Json]:
        """The error of a compile, and how far it got: trace and history up to the pass that
        failed, which `pass` names. An error before the first pass has neither."""
        answer: dict[str, Json] = {"event": "error", "error": error_json(error, job.request)}
        if not reached.records:
            return answer
        done = len(reached.records)
        failed = reached.pipeline[done] if done < len(reached.pipeline) else None
        return answer | {
            "pass": None if failed is None else failed.name,
            "level": None if failed is None else failed.level,
            **reached.put(),
        }

    def _measure(self, job: Job) -> dict[str, Json]:
        options = read_options(job.request)
        report = compiler.measure_model(
            load(job.request),
            target=options.target,
            pin=options.pin,
            pipeline=options.pipeline,
            numerics=options.numerics,
            threads=options.threads,
            sizes=options.sizes,
            repetitions=options.repetitions,
            seconds=options.seconds,
            cold=not options.brief,
            brief=options.brief,
            progress=self._on_pass(job),
            cancel=job.cancel,
            kernels=self._known(options.target),
        )
        return {
            "event": "result",
            "report": report.to_json(),
            "compiled": report.op_by_op.kernels + report.fused.kernels,
        }

    def _effects(self, job: Job) -> dict[str, Json]:
        options = read_options(job.request)
        known = self._known("cpu")
        before = len(known)
        found = effects(
            load(job.request), options.pipeline, options.numerics, options.pin, options.threads,
            sizes=options.sizes, seconds=options.seconds, progress=self._on_pass(job),
            cancel=job.cancel, kernels=known,
        )  # fmt: skip
        return {"event": "result", "effects": found, "compiled": len(known) - before}

    def _known(self, target: str) -> dict[str, BuiltKernel]:
        """The kernels of a target; forgotten when they have become very many."""
        found = self._kernels.setdefault(target, {})
        if len(found) > KEPT:
            found.clear()
        return found

    def _pipeline(self, options: Options) -> str | None:
        """The pipeline's text, or that of op by op with the same emit options and breaks."""
        if not options.op_by_op:
            return options.pipeline
        return print_pipeline(baseline(read_pipeline(options.pipeline)))

    def _on_pass(
        self, job: Job, reached: Reached | None = None
    ) -> Callable[[PassRecord | None, str, int, int], None]:
        """Tells of progress; with `reached` the imported graph, as soon as it is there."""

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
                if reached is not None:
                    reached.records.append(record)
                    if record.name == "import":
                        answer |= reached.put()
            self._answer(job, answer)

        return told

    # ---- answers -------------------------------------------------------------------------------

    def _answer(self, job: Job, answer: Mapping[str, Json]) -> None:
        self._write({"id": _plain(job.id), **answer})

    def _write(self, answer: Mapping[str, Json]) -> None:
        line = json.dumps(finite(answer), ensure_ascii=False)
        with self._writing:
            self._answers.write(line + "\n")
            self._answers.flush()


# ---- what a request says -------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """The options of a request, each with its default where it is absent or of no use."""

    target: str = "cpu"
    numerics: str = "default"
    pipeline: str | None = None
    threads: int | None = None
    pin: Mapping[str, int] = field(default_factory=dict[str, int])
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    repetitions: int | None = None
    seconds: float | None = None
    op_by_op: bool = False
    drift: bool = False
    brief: bool = False


def read_options(request: Request) -> Options:
    """The `options` of a request. RequestError names the one that is of a wrong kind."""
    options = _object("options", request.get("options"))

    def text(key: str) -> str | None:
        value = options.get(key)
        if value is not None and not isinstance(value, str):
            raise RequestError(f"{key} is text, not {value!r}")
        return value

    def integer(key: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise RequestError(f"{key} is a whole number, not {value!r}")
        return value

    def flag(key: str) -> bool:
        value = options.get(key, False)
        if not isinstance(value, bool):
            raise RequestError(f"{key} is true or false, not {value!r}")
        return value

    def sizes(key: str) -> dict[str, int]:
        found = _object(key, options.get(key))
        return {name: integer(f"{key}.{name}", size) for name, size in found.items()}

    threads, repetitions, seconds = (
        options.get(key) for key in ("threads", "repetitions", "seconds")
    )
    if seconds is not None and not isinstance(seconds, int | float):
        raise RequestError(f"seconds is a number, not {seconds!r}")
    return Options(
        target=text("target") or "cpu",
        numerics=text("numerics") or "default",
        pipeline=text("pipeline") or None,
        threads=None if threads is None else integer("threads", threads),
        pin=sizes("pin"),
        sizes=sizes("sizes"),
        repetitions=None if repetitions is None else integer("repetitions", repetitions),
        seconds=None if seconds is None else float(seconds),
        op_by_op=flag("op_by_op"),
        drift=flag("drift"),
        brief=flag("brief"),
    )


def load(request: Request) -> OnnxModel:
    """The model of a request, called what the request calls it. ModelError as `compiler.load`."""
    path, name = _text(request, "model"), request.get("name")
    if not isinstance(name, str) or not name:
        return compiler.load(path)
    return replace(compiler.load(path, name=name), name=Path(name).stem)


def _object(key: str, value: object) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RequestError(f"{key} is an object, not {value!r}")
    return cast(dict[str, object], value)


def _text(request: Request, key: str) -> str:
    value = request.get(key)
    if not isinstance(value, str) or not value:
        raise RequestError(f"{key} is missing")
    return value


def _plain(id: object) -> Json:
    """An id as it came; anything but a number or text counts as none."""
    return id if isinstance(id, int | str) else None


def newly_built(records: Sequence[PassRecord]) -> int:
    """How many kernels a compile built itself."""
    return sum(e.message == "build.done" for r in records for e in r.events)


def targets() -> list[Json]:
    """`{name, available, reason, message}` of each target.

    The reason is the driver's own text, or empty; `message` names it where the page has words.
    """
    found: list[Json] = []
    for name in TARGETS:
        reason = message = ""
        if name == "cuda":
            try:
                open_device(name)
            except TargetError as error:
                reason = str(error.parameters.get("reason", ""))
                message = "no-driver" if error.parameters.get("lacks") == "driver" else ""
        if not reason and name != "cpu" and find_spec("numba_cuda") is None:
            reason, message = "numba-cuda is not installed", "no-package"
        found.append(
            {"name": name, "available": not reason, "reason": reason, "message": message}
        )
    return found


# ---- what an answer says -------------------------------------------------------------------------


@dataclass(frozen=True)
class Blobs:
    """A folder of files named by the SHA-256 of their content."""

    folder: Path

    def put(self, value: Mapping[str, Json]) -> str:
        """Write JSON unless it is there; its digest. Written beside and renamed."""
        data = json.dumps(finite(value), ensure_ascii=False, separators=(",", ":")).encode()
        digest = hashlib.sha256(data).hexdigest()
        path = self.folder / digest
        if path.exists():
            path.touch()
        else:
            part = self.folder / f"{digest}.{threading.get_ident()}.part"
            part.write_bytes(data)
            part.replace(path)
        return digest


@dataclass(frozen=True)
class Reached:
    """How far a compile has got: the records so far of the passes that it runs, for the sizes that
    its cost model assumes."""

    name: str
    options: Options
    pipeline: Pipeline
    blobs: Blobs
    sizes: Mapping[str, int]
    records: list[PassRecord] = field(default_factory=list[PassRecord])

    def put(self) -> dict[str, Json]:
        """Digests of `trace` and `history` up to here."""
        text = print_pipeline(self.pipeline)
        records = tuple(self.records)
        trace = Trace(
            self.name, text, self.options.target, self.options.numerics, records, self.sizes
        )  # fmt: skip
        return {
            "trace": self.blobs.put(trace.to_json()),
            "history": self.blobs.put(history(records)),
        }


def finite(value: Json) -> Json:
    """JSON has no infinity and no NaN: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [finite(item) for item in value]
    return value


def error_json(error: Exception, request: Request) -> dict[str, Json]:
    """`{message, parameters, text, file, node, remedy}` of whatever went wrong.

    Where the request names the model, that name stands in place of the path that was read.
    """
    path, name = request.get("model"), request.get("name")

    def shown(text: str) -> str:
        if isinstance(path, str) and isinstance(name, str) and path:
            return text.replace(path, name).replace(Path(path).name, name)
        return text

    if isinstance(error, compiler.CompilerError):
        file = error.file if isinstance(error, compiler.ModelError) else ""
        node = error.node if isinstance(error, compiler.ModelError) else ""
        values = {k: shown(v) if isinstance(v, str) else v for k, v in error.parameters.items()}
        return {
            "message": error.message, "parameters": values, "text": shown(error.problem),
            "file": shown(file), "node": node, "remedy": shown(error.remedy),
        }  # fmt: skip
    if isinstance(error, RequestError):
        return _malformed(str(error))
    message = "error.memory" if isinstance(error, MemoryError) else "error.internal"
    text = shown(f"{type(error).__name__}: {error}"[:LONGEST])
    return {
        "message": message, "parameters": {"text": text}, "text": text, "file": "", "node": "",
        "remedy": "",
    }  # fmt: skip


def _malformed(text: str) -> dict[str, Json]:
    return {"message": "error.request", "parameters": {"text": text}, "text": text}


def main(commands: Mapping[str, Command] | None = None) -> int:
    """`python -m compiler worker`: serve standard input until it ends; the exit status."""
    with TextIOWrapper(take_output(), encoding="utf-8") as answers:
        serve(sys.stdin, answers, commands)
    return 0


def serve(
    requests: TextIO, answers: TextIO, commands: Mapping[str, Command] | None = None
) -> None:
    """Serve until `requests` ends. Says `ready` when everything that a compile needs is imported.

    `commands` are further ones of the caller, by name.
    """
    for name in compiler.__all__:
        getattr(compiler, name)
    worker = Worker(requests, answers, commands)
    worker.ready()
    worker.serve()

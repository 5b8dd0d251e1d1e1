"""The routes beside Streamlit's own: modules of the component, blobs, uploads, jobs.

GET  /ui/<version>/…      modules, catalogues, samples and glossary; never change
GET  /blob/<digest>       what a worker wrote; never changes
GET  /layout/<digest>/<pass>?open=<group>   where the graphs around a pass of a history go; ditto
POST /upload?name=…       one `.onnx`; answers its digest
GET  /job/<token>         the events of a job, as server-sent events
DELETE /job/<token>       cancel
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys
from collections.abc import AsyncIterator, Mapping
from functools import cache
from pathlib import Path

from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from lessons import glossary, public
from lessons.form import written
from sample_models import catalogue
from ui.language import LANGUAGES, sentences
from ui.layout import NO_SUCH
from ui.service import ROOT, UPLOAD_LIMIT, service
from ui.supervisor import Job, failure

HERE = Path(__file__).resolve().parent
FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}
LAYOUT_SECONDS = 10.0
PLACE = re.compile(r"[0-9]{1,4}/(§[0-9.]{1,40})?")
"""A pass, and the key of a group (ui/layout.py) or nothing."""

POLL_SECONDS = 0.05
PING_SECONDS = 5.0
ENDING = ".onnx"
LONGEST_NAME = 200


class Immutable(StaticFiles):
    """Files under a path that names their content."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        response = super().file_response(*args, **kwargs)  # pyright: ignore[reportArgumentType]
        response.headers.update(FOREVER)
        return response


def samples_json() -> bytes:
    """The samples as the component lists them."""
    rows = [
        {
            "name": s.name,
            "title": dict(s.title),
            "teaches": dict(s.teaches),
            "sizes": dict(s.sizes),
            "maximum": dict(s.maximum),
            "force": list(s.force),
        }
        for s in catalogue()
    ]
    return json.dumps(rows, ensure_ascii=False).encode()


def catalogue_json(language: str) -> bytes:
    """The sentences of the page and of the compiler, as one catalogue."""
    return json.dumps(dict(sentences(language)), ensure_ascii=False).encode()


@cache
def glossary_json() -> bytes:
    """The terms of the glossary, in both languages."""
    return json.dumps(glossary.public(glossary.glossary()), ensure_ascii=False).encode()


@cache
def course_json() -> bytes:
    """Every lesson of the course, written or not."""
    return json.dumps(public.course_json(), ensure_ascii=False).encode()


@cache
def lesson_json(slug: str) -> bytes:
    """One lesson in all languages, with what was recorded of it."""
    return json.dumps(public.lesson_json(slug), ensure_ascii=False).encode()


@cache
def version() -> str:
    """A digest of everything under `/ui/<version>/`."""
    h = hashlib.sha256(samples_json())
    h.update(glossary_json())
    h.update(course_json())
    for slug in written():
        h.update(lesson_json(slug))
    for language in LANGUAGES:
        h.update(catalogue_json(language))
    for path in sorted((HERE / "explorer").rglob("*.*")):
        h.update(path.relative_to(HERE).as_posix().encode())
        h.update(path.read_bytes())
    return h.hexdigest()[:16]


@cache
def styles() -> str:
    """The style sheets of the component, one after the other."""
    found = sorted((HERE / "explorer").rglob("*.css"))
    return "".join(path.read_text(encoding="utf-8") for path in found)


async def translations(request: Request) -> Response:
    language = request.path_params["language"]
    if language not in LANGUAGES:
        return Response(status_code=404)
    data = catalogue_json(language)
    return Response(data, media_type="application/json", headers=FOREVER)


async def lesson(request: Request) -> Response:
    """The course under the name `course`, and each lesson under its own."""
    name = request.path_params["name"]
    if name != "course" and name not in written():
        return Response(status_code=404)
    data = course_json() if name == "course" else lesson_json(name)
    return Response(data, media_type="application/json", headers=FOREVER)


async def samples(request: Request) -> Response:
    return Response(samples_json(), media_type="application/json", headers=FOREVER)


async def terms(request: Request) -> Response:
    return Response(glossary_json(), media_type="application/json", headers=FOREVER)


# ---- blobs and layouts ---------------------------------------------------------------------------


async def blob(request: Request) -> Response:
    path = service().blobs.path(request.path_params["digest"])
    if path is None:
        return refused(404, "blob.gone")
    return FileResponse(path, media_type="application/json", headers=FOREVER)


_drawing = asyncio.Semaphore(1)


async def layout(request: Request) -> Response:
    """Lays out at most one graph at a time, each in a process that is killed when it takes long.

    That a graph is too large is an answer like another: a browser reports a status from 400 up as
    an error of the page.
    """
    digest, at = request.path_params["digest"], request.path_params["at"]
    opened = request.query_params.get("open", "")
    history = service().blobs.path(digest)
    if history is None or not PLACE.fullmatch(f"{at}/{opened}"):
        return refused(404, "blob.gone")
    made_from = hashlib.sha256(f"{digest}/{at}/{opened}".encode()).hexdigest()
    async with _drawing:
        kept = service().layouts.path(made_from)
        if kept is None:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "ui.layout", str(history), at, opened,
                cwd=ROOT, stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            try:
                data, _ = await asyncio.wait_for(process.communicate(), LAYOUT_SECONDS)
            except TimeoutError:
                return refused(200, "layout.large")
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            if process.returncode == NO_SUCH:
                return refused(404, "blob.gone")
            if process.returncode != 0:
                return refused(200, "layout.large")
            service().layouts.write(made_from, data)
            return Response(data, media_type="application/json", headers=FOREVER)
    return FileResponse(kept, media_type="application/json", headers=FOREVER)


# ---- uploads -------------------------------------------------------------------------------------


def refused(status: int, message: str, **parameters: str | int | float) -> JSONResponse:
    return JSONResponse(failure(message, **parameters), status)


def shortened(name: str) -> str:
    """A file's name of at most `LONGEST_NAME` characters, with its ending."""
    if len(name) <= LONGEST_NAME:
        return name
    end = name[-len(ENDING) :]
    return f"{name[: LONGEST_NAME - len(end) - 1]}…{end}"


def from_elsewhere(request: Request) -> bool:
    """Whether a browser sent this on behalf of another site."""
    origin = request.headers.get("origin")
    return origin is not None and origin.partition("://")[2] != request.headers.get("host")


async def upload(request: Request) -> Response:
    """Keep one file by its digest. What is in it, the worker finds out."""
    if from_elsewhere(request):
        return refused(403, "upload.elsewhere")
    given = Path(request.query_params.get("name", "")).name
    name = shortened(given)
    if not given.lower().endswith(ENDING):
        return refused(415, "upload.kind", name=name)
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > UPLOAD_LIMIT:
                return refused(413, "upload.large", name=name, limit_bytes=UPLOAD_LIMIT)
    except ClientDisconnect:
        return Response(status_code=400)
    if not data:
        return refused(400, "upload.empty", name=name)
    digest = await asyncio.to_thread(service().uploads.put, bytes(data))
    service().name_upload(digest, name)
    return JSONResponse({"digest": digest, "name": name, "bytes": len(data)})


# ---- jobs ----------------------------------------------------------------------------------------


def sent(number: int, event: Mapping[str, object]) -> str:
    """One server-sent event; JSON holds no line break."""
    return f"id: {number}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"


async def events(job: Job, start: int) -> AsyncIterator[str]:
    """The events of a job from number `start` on, as they come, and a sign of life between."""
    job.listen(1)
    number, quiet = start, 0.0
    try:
        while True:
            done = job.done  # asked first: what comes meanwhile is sent before the end
            while number < len(job.events):
                event = job.events[number]
                yield sent(number, event)
                number, quiet = number + 1, 0.0
            if done:
                return
            await asyncio.sleep(POLL_SECONDS)
            quiet += POLL_SECONDS
            if quiet > PING_SECONDS:
                yield ": alive\n\n"
                quiet = 0.0
    finally:
        job.listen(-1)


async def follow(request: Request) -> Response:
    job = service().supervisor.job(request.path_params["token"])
    if job is None:
        return refused(404, "job.gone")
    last = request.headers.get("last-event-id", "")
    start = int(last) + 1 if last.isdecimal() and len(last) < 10 else 0
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events(job, start), media_type="text/event-stream", headers=headers)


async def cancel(request: Request) -> Response:
    if from_elsewhere(request):
        return refused(403, "upload.elsewhere")
    stopped = service().supervisor.cancel(request.path_params["token"])
    return Response(status_code=202 if stopped else 204)  # nothing to stop is no mistake


async def another_version(request: Request) -> Response:
    """A page that was opened before the server changed asks for what is gone."""
    return PlainTextResponse("another version", 404, headers={"Cache-Control": "no-store"})


def routes() -> list[BaseRoute]:
    at = f"/ui/{version()}"
    return [
        Route(f"{at}/samples.json", samples),
        Route(f"{at}/glossary.json", terms),
        Route(f"{at}/lessons/{{name}}.json", lesson),
        Mount(f"{at}/explorer", Immutable(directory=HERE / "explorer")),
        Route(f"{at}/translations/{{language}}.json", translations),
        Route("/ui/{rest:path}", another_version),
        Route("/blob/{digest}", blob),
        Route("/layout/{digest}/{at}", layout),
        Route("/upload", upload, methods=["POST"]),
        Route("/job/{token}", follow, methods=["GET"]),
        Route("/job/{token}", cancel, methods=["DELETE"]),
    ]

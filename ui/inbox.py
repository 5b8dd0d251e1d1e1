"""What the component asks for and what an address says, read with care: both come from outside."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lessons.form import lesson, written
from sample_models import catalogue, sample
from ui.service import service

NUMERICS = ("default", "strict")
TARGETS = ("cpu", "cuda", "cuda:ptx")
PAGES = ("explore", "measure", "lessons", "glossary")
FLAGS = ("op_by_op", "drift", "brief")
LONGEST = 4000
"""Characters of a pipeline's text."""

LONGEST_SUBMISSION = 16000
"""Characters of a submission, as JSON."""

LARGEST_SIZE = 2**31
UPLOADED = re.compile(r"sha256:([0-9a-f]{64})")
PLACE = re.compile(r"\d{1,5}(\.\d{1,6})?")
"""A pass, and behind the dot one of its events."""

WORD = re.compile(r"[a-z0-9_-]{1,80}")
PIN = re.compile(r"\s*([^\s=,]+)\s*=\s*([0-9]{1,10})\s*")

Json = dict[str, object]


@dataclass(frozen=True)
class Refused:
    """A request that no worker needs to see: a message id and its parameters."""

    message: str
    parameters: tuple[tuple[str, str | int | float], ...] = ()


def read_pins(text: str) -> dict[str, int] | Refused:
    """`batch=32, seq=128` as a mapping; empty text is empty."""
    pins: dict[str, int] = {}
    for item in text.split(",") if text.strip() else ():
        match = PIN.fullmatch(item)
        if match is None or int(match[2]) > LARGEST_SIZE or match[1] in pins:
            return Refused("request.pin", (("text", item.strip()),))
        pins[match[1]] = int(match[2])
    return pins


def read_sizes(value: object) -> dict[str, int] | Refused:
    """Sizes by symbol: whole numbers from 0."""
    if not isinstance(value, Mapping):
        return {}
    sizes: dict[str, int] = {}
    for name, size in value.items():
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= LARGEST_SIZE:
            return Refused("request.size", (("name", str(name)), ("value", str(size))))
        sizes[str(name)] = size
    return sizes


def model_file(model: str) -> tuple[str, str] | None:
    """The path of a sample or an upload and the name to show for it; None where there is none."""
    match = UPLOADED.fullmatch(model)
    if match is not None:
        path = service().uploads.path(match[1])
        name = service().names.get(match[1], f"{match[1][:12]}.onnx")
        return None if path is None else (str(path), name)
    try:
        found = sample(model)
    except KeyError:
        return None
    return str(found.path), found.file


def read(asked: Mapping[object, object]) -> Json | Refused:
    """The worker's request for what the component asks."""

    def text(key: str, default: str = "") -> str:
        value = asked.get(key, default)
        return value if isinstance(value, str) else default

    kind = text("kind")
    if kind == "targets":
        return {"command": kind}
    if kind == "exercise":
        return read_exercise(asked)
    if kind not in ("compile", "measure", "effects"):
        return Refused("request.kind", (("kind", kind),))
    found = model_file(text("model"))
    if found is None:
        if text("model").startswith("sha256:"):
            return Refused("request.model")
        return Refused("request.sample", (("name", text("model")[:80]),))
    path, shown = found
    pipeline = text("pipeline").strip()
    if len(pipeline) > LONGEST:
        return Refused("request.pipeline", (("longest", LONGEST),))
    pins = read_pins(text("pin"))
    if isinstance(pins, Refused):
        return pins
    numerics = text("numerics", "default")
    options: Json = {
        "pin": pins,
        "pipeline": pipeline or None,
        "numerics": numerics if numerics in NUMERICS else "default",
        "target": target if (target := text("target")) in TARGETS else TARGETS[0],
        **{flag: True for flag in FLAGS if asked.get(flag) is True},
    }
    request: Json = {
        "command": kind,
        "model": path,
        "name": text("name")[:200] or shown,
        "options": options,
        "blobs": str(service().blobs.folder),
    }
    if kind in ("measure", "effects"):
        sizes = read_sizes(asked.get("sizes"))
        if isinstance(sizes, Refused):
            return sizes
        options["sizes"] = sizes
    return request


def read_exercise(asked: Mapping[object, object]) -> Json | Refused:
    """A submission for an exercise that there is; what is in it, the grader finds out."""
    slug, name, submission = (asked.get(key) for key in ("lesson", "exercise", "submission"))
    if slug not in written() or name not in lesson(str(slug)).exercises:
        return Refused("request.exercise")
    if not isinstance(submission, Mapping) or len(json.dumps(submission)) > LONGEST_SUBMISSION:
        return Refused("request.submission", (("longest", LONGEST_SUBMISSION),))
    return {"command": "exercise", "lesson": slug, "exercise": name, "submission": submission}


def read_view(address: Mapping[str, str]) -> Json:
    """The keys of the address that the page knows, each checked; others are left alone."""
    model = address.get("model", "")
    known = model in [s.name for s in catalogue()] or UPLOADED.fullmatch(model) is not None

    def one_of(key: str, values: tuple[str, ...]) -> str:
        return value if (value := address.get(key, "")) in values else ""

    def text(key: str) -> str:
        return address.get(key, "")[:LONGEST]

    at = address.get("at", "")
    return {
        "page": one_of("page", PAGES),
        "model": model if known else "",
        "unknown": "" if known else model[:80],
        "target": one_of("target", TARGETS),
        "numerics": one_of("numerics", NUMERICS),
        "passes": text("passes"),
        "pin": text("pin"),
        "bind": text("bind"),
        "at": at if PLACE.fullmatch(at) else "",
        "sel": text("sel"),
        "tab": tab if WORD.fullmatch(tab := address.get("tab", "")) else "",
        "left": text("left"),
        "colour": colour if WORD.fullmatch(colour := address.get("colour", "")) else "",
        "view": shown if WORD.fullmatch(shown := address.get("view", "")) else "",
        "merged": one_of("merged", ("1",)),
        "lesson": lesson if WORD.fullmatch(lesson := address.get("lesson", "")) else "",
        "term": term if WORD.fullmatch(term := address.get("term", "")) else "",
        "lang": one_of("lang", ("en",)),
    }

"""What the component asks for and what an address says, read with care: both come from outside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sample_models import catalogue, sample
from ui.service import service

NUMERICS = ("default", "strict")
TABS = ("kernels", "decisions", "breaks", "measure")
LONGEST = 4000
"""Characters of a pipeline's text."""

LARGEST_SIZE = 2**31
UPLOADED = re.compile(r"sha256:([0-9a-f]{64})")
PIN = re.compile(r"\s*([^\s=,]+)\s*=\s*(\d{1,10})\s*")

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
        if match is None or int(match[2]) > LARGEST_SIZE:
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
        return None if path is None else (str(path), f"{match[1][:12]}.onnx")
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
    if kind not in ("compile", "measure"):
        return Refused("request.kind", (("kind", kind),))
    found = model_file(text("model"))
    if found is None:
        return Refused("request.model")
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
        "target": "cpu",
    }
    request: Json = {
        "command": kind,
        "model": path,
        "name": text("name")[:200] or shown,
        "options": options,
        "blobs": str(service().blobs.folder),
    }
    if kind == "measure":
        sizes = read_sizes(asked.get("sizes"))
        if isinstance(sizes, Refused):
            return sizes
        options["sizes"] = sizes
    return request


def read_view(address: Mapping[str, str]) -> Json:
    """The keys of the address that the page knows, each checked; others are left alone."""
    model = address.get("model", "")
    known = model in [s.name for s in catalogue()] or UPLOADED.fullmatch(model) is not None
    at = address.get("at", "")
    tab = address.get("tab", "")
    numerics = address.get("numerics", "")
    return {
        "model": model if known else "",
        "numerics": numerics if numerics in NUMERICS else "default",
        "pipeline": address.get("passes", "")[:LONGEST],
        "pin": address.get("pin", "")[:LONGEST],
        "at": int(at) if at.isdecimal() and len(at) < 6 else 0,
        "tab": tab if tab in TABS else TABS[0],
        "bind": address.get("bind", "")[:LONGEST],
    }

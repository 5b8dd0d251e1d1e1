"""An engine as a folder of files: what it is put together from, written and read.

    manifest.json               digests of all files; what the engine was made for
    plan.json                   signature, plan, tables of kernels, weights and library steps
    native/<symbol>.o           one object file a kernel; native/runner.o walks the plan
    cubin/<symbol>.cubin        the same for a GPU
    library/<digest>.onnx       a model of one node for each reference step
    weights/<digest>.bin        raw elements (`.json` for text)
    kernels.py ir/ llvm/ asm/ trace.json …          to be read by people, and to build from again

Reading compiles nothing and imports neither Numba nor onnx. It refuses, before anything is linked,
a folder in which any byte has changed, and one made for another CPU.

Teaches: an artifact is a value; what makes it valid is written inside it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np

from compiler.ir.graph import Origin
from compiler.ir.plan import Plan, Signature
from compiler.ir.types import Array
from compiler.runtime.native import RUNNER_SYMBOL, cpu_features
from compiler.runtime.plan_json import Contents, ParamEntry, decode, encode
from compiler.runtime.store import (
    ArtifactError,
    Json,
    Manifest,
    array_path,
    map_array,
    read_verified,
    save_arrays,
    writing,
)

PLAN: Final = "plan.json"

_TEXT: Final = "str"  # the element type of a weight that holds text
_OWN: Final = ("manifest.json", PLAN, "native", "cubin", "library", "weights")


class WrongMachine(ArtifactError):
    """An engine made for another CPU; the text says what differs and the way out."""


@dataclass(frozen=True)
class Parts:
    """Everything an engine is put together from.

    `kernels`: kernel -> symbol of its object file; `objects`: symbol -> object file (the plan
    runner is added where it is missing); `params`: weight -> read-only array; `library`: first
    result of a reference step -> ONNX model of that one node; `texts`: relative path -> bytes of
    a file to be read by people; `about`: what is known of the compile, with `key`; `labels`: node
    position -> what to call the node in a message.
    """

    name: str
    signature: Signature
    plan: Plan
    kernels: Mapping[str, str]
    objects: Mapping[str, bytes]
    params: Mapping[str, Array]
    library: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    texts: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    about: Mapping[str, Json] = field(default_factory=dict[str, Json])
    labels: Mapping[Origin, str] = field(default_factory=dict[Origin, str])


def write_artifact(parts: Parts, folder: Path) -> None:
    """Write `folder`, whole or not at all; one of the same key that is there and intact stays.

    Raises ArtifactError where it can't be written to, or holds other files, and for a text whose
    path leaves the folder or is one of the engine's own.
    """
    cpu, features = cpu_features()
    about = {**parts.about, "cpu": cpu, "features": features}
    gpu = _for_gpu(parts.about)
    with writing(folder, about) as part:
        for path, data in parts.texts.items():
            _check_path(path)
            _put(part / path, data)
        for symbol, data in parts.objects.items():
            _put(part / _object_name(symbol, gpu), data)
        library = {value: _digest(model) for value, model in parts.library.items()}
        for value, model in parts.library.items():
            _put(part / "library" / f"{library[value]}.onnx", model)
        entries = {name: _put_param(part / "weights", a) for name, a in parts.params.items()}
        contents = Contents(
            parts.name, parts.signature, parts.plan, parts.kernels, entries, library, parts.labels
        )
        _put(part / PLAN, encode(contents))


def read_artifact(folder: Path) -> Parts:
    """The parts of a verified folder. Large weights are memory-mapped; it may be read-only.

    Raises ArtifactError that names the file at fault, and WrongMachine.
    """
    manifest = read_verified(folder)
    _check_machine(manifest)
    try:
        contents = decode(manifest.read(PLAN))
    except ValueError as error:
        raise ArtifactError(
            f"{folder / PLAN} is not of this compiler's format ({error}): "
            "delete the folder and build the engine again"
        ) from error
    gpu = _for_gpu(manifest.about)
    symbols = (*contents.kernels.values(), *(() if gpu else (RUNNER_SYMBOL,)))
    return Parts(
        contents.name,
        contents.signature,
        contents.plan,
        contents.kernels,
        {symbol: manifest.read(_object_name(symbol, gpu)) for symbol in symbols},
        {name: _get_param(manifest, entry) for name, entry in contents.params.items()},
        {v: manifest.read(f"library/{digest}.onnx") for v, digest in contents.library.items()},
        _Texts(manifest),
        manifest.about,
        contents.labels,
    )


def _for_gpu(about: Mapping[str, Json]) -> bool:
    """Whether an engine runs on a GPU: then its CPU does not matter."""
    return str(about.get("target", "cpu")) != "cpu"


def _object_name(symbol: str, gpu: bool) -> str:
    if gpu:
        return f"cubin/{symbol}.cubin"
    return "native/runner.o" if symbol == RUNNER_SYMBOL else f"native/{symbol}.o"


class _Texts(Mapping[str, bytes]):
    """The files for people in an artifact, read (and checked again) when asked for."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._names = [n for n in manifest.files if n.split("/")[0] not in _OWN]

    def __getitem__(self, name: str) -> bytes:
        if name not in self._names:
            raise KeyError(name)
        return self._manifest.read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _check_machine(manifest: Manifest) -> None:
    built_for = manifest.about.get("cpu"), manifest.about.get("features")
    here = cpu_features()
    if built_for == here or _for_gpu(manifest.about):
        return
    there, ours = (set(str(features).split(",")) for features in (built_for[1], here[1]))
    details = [f"CPU {built_for[0]} there, {here[0]} here"] if built_for[0] != here[0] else []
    for where, names in (("only there", there - ours), ("only here", ours - there)):
        if names:
            details.append(f"{where}: {_short(sorted(names))}")
    raise WrongMachine(
        f"{manifest.folder} was made for another CPU ({'; '.join(details)}): "
        "compile the model again on this machine"
    )


def _short(names: list[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return " ".join(names[:most]) + more


def _check_path(path: str) -> None:
    parts = PurePosixPath(path).parts
    if not parts or PurePosixPath(path).is_absolute() or ".." in parts or parts[0] in _OWN:
        raise ArtifactError(f"{path!r} can't be the path of a text in an artifact: choose another")


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _put_param(folder: Path, array: Array) -> ParamEntry:
    if array.dtype.kind in "OSUT":
        data = json.dumps([_as_text(v) for v in array.reshape(-1).tolist()]).encode()
        digest = _digest(data)
        _put(folder / f"{digest}.json", data)
        return ParamEntry(digest, _TEXT, array.shape)
    digest = _digest(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    if not array_path(folder, digest).exists():
        save_arrays(folder, {digest: array})
    return ParamEntry(digest, array.dtype.name, array.shape)


def _get_param(manifest: Manifest, entry: ParamEntry) -> Array:
    folder = manifest.folder / "weights"
    if entry.dtype != _TEXT:
        return map_array(array_path(folder, entry.digest), entry.dtype, entry.shape)
    items: list[str] = json.loads(manifest.read(f"weights/{entry.digest}.json"))
    array: Array = np.array(items, np.object_).reshape(entry.shape)
    array.flags.writeable = False
    return array


def _as_text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _digest(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()

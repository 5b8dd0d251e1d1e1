"""Artifact folders: written whole or not at all, and read only if every byte is what was written.

    manifest = {about, files: {name: (sha256, size)}, digest: sha256 of all that stands before it}

A folder is filled beside its final place and renamed there in one step, so no reader ever sees half
of one. What a crash or a bad disk does to it afterwards, the digests show: hence nothing here waits
for the disk (fsync). The digests guard against accidents, not against forgery: an artifact is
native code, to be loaded only from one's own store.

Teaches: atomic publication by rename; a tree of digests with a single root.
"""

import fcntl
import hashlib
import json
import math
import mmap
import os
import shutil
import time
import uuid
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from compiler.runtime.addresses import aligned_empty

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]

MANIFEST: Final = "manifest.json"
FORMAT: Final = 1

_PART: Final = ".part"  # how the names of unfinished folders end
_STALE: Final = 24 * 3600  # seconds after which an unfinished folder has no writer any more
_MAP_FROM: Final = 1 << 20  # bytes; smaller arrays are read: a mapping holds a file open
_BUILD_AGAIN: Final = "delete the folder and build the engine again"


class ArtifactError(Exception):
    """An artifact that can't be written or trusted; the text names the file and the way out."""


@dataclass(frozen=True)
class FileEntry:
    """What the manifest says of one file: the SHA-256 of its bytes (hex) and their number."""

    sha256: str
    size: int


@dataclass(frozen=True)
class Manifest:
    """The manifest of a verified folder.

    `about` is what its writer said of it, as JSON values; `files` maps relative names with forward
    slashes to entries, sorted, the manifest itself left out; `digest` stands for all of it.
    """

    folder: Path
    about: Mapping[str, Json]
    files: Mapping[str, FileEntry]
    digest: str

    def read(self, name: str) -> bytes:
        """The bytes of one file, checked once more. Raises ArtifactError."""
        if name not in self.files:
            raise ArtifactError(f"{self.folder / name} is not in the manifest: {_BUILD_AGAIN}")
        try:
            data = (self.folder / name).read_bytes()
        except OSError as error:
            raise ArtifactError(f"cannot read {self.folder / name}: {error}") from error
        if hashlib.sha256(data).hexdigest() != self.files[name].sha256:
            raise _damaged(self.folder / name)
        return data


@contextmanager
def writing(
    folder: Path, about: Mapping[str, Json] | None = None, *, replace: bool = False
) -> Generator[Path, None, None]:
    """An empty folder to fill; on leaving the block it gets its manifest and becomes `folder`.

    Where the block raises, it is removed and `folder` is as before. Where `folder` exists by then
    (two writers of one key) and is intact, it stays and ours is dropped, unless `replace`; one
    that is damaged, or whose `about` has another `key`, is replaced. Replacing takes two renames:
    a reader just between them finds none.
    A folder with files but no manifest is somebody else's: ArtifactError, as for a place that
    can't be written to.
    """
    folder = Path(os.path.realpath(folder))
    part = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}{_PART}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _one_writer(folder.parent):
            _check_ours(folder)
            _sweep(folder)
        part.mkdir()
        yield part
        files = {name: _entry(part / name) for name in _file_names(part)}
        (part / MANIFEST).write_bytes(_render(about or {}, files)[0])
        _publish(part, folder, replace, (about or {}).get("key"))
    except OSError as error:
        raise ArtifactError(
            f"cannot write {folder}: {error}; choose a folder that is writable and has space"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def read_verified(folder: Path) -> Manifest:
    """The manifest of `folder`, after every byte in it has been checked. Writes nothing.

    Raises ArtifactError that names the file: one missing, extra, cut or changed, the manifest
    included, or a manifest of another format.
    """
    folder = Path(folder)
    try:
        manifest = _read_manifest(folder)
        present = set(_file_names(folder)) - {MANIFEST}
        for name in sorted(present - manifest.files.keys()):
            raise ArtifactError(f"{folder / name} does not belong to the artifact: remove it")
        for name, entry in manifest.files.items():
            if name not in present:
                raise ArtifactError(f"{folder / name} is missing: {_BUILD_AGAIN}")
            if _entry(folder / name) != entry:
                raise _damaged(folder / name)
    except OSError as error:
        raise ArtifactError(f"cannot read {folder}: {error}") from error
    return manifest


def array_path(folder: Path, digest: str) -> Path:
    """Where `save_arrays` puts the array with this digest. Raises ValueError for no plain name."""
    if not digest.isalnum() or not digest.isascii():
        raise ValueError(f"{digest!r} is not a digest: letters and digits only")
    return folder / f"{digest}.bin"


def save_arrays(folder: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write each array's elements, C-contiguous and in native byte order, to `array_path`."""
    folder.mkdir(parents=True, exist_ok=True)
    for digest, array in arrays.items():
        array.astype(array.dtype.newbyteorder("="), copy=False).tofile(array_path(folder, digest))


def map_array(path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """A file of raw elements as a read-only array, 64-byte aligned; large ones memory-mapped.

    It stays valid after the file is unlinked, not after it is cut. Raises ArtifactError where the
    file can't be read or its size is not that of `shape`.
    """
    element = np.dtype(dtype)
    size = math.prod(shape) * element.itemsize
    try:
        with open(path, "rb") as file:
            actual = os.fstat(file.fileno()).st_size
            if actual != size:
                raise ArtifactError(
                    f"{path} has {actual} bytes where {element.name}{list(shape)} needs {size}: "
                    f"{_BUILD_AGAIN}"
                )
            if size >= _MAP_FROM:
                memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                return np.frombuffer(memory, element).reshape(shape)
            array = aligned_empty(shape, element)
            array[...] = np.fromfile(file, element).reshape(shape)
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error}") from error
    array.flags.writeable = False
    return array


def _render(about: Mapping[str, Json], files: Mapping[str, FileEntry]) -> tuple[bytes, str]:
    """The manifest's bytes, and its digest: a function, so that equal content is equal bytes."""
    body: dict[str, object] = {
        "format": FORMAT,
        "about": dict(sorted(about.items())),
        "files": {
            name: {"sha256": entry.sha256, "size": entry.size}
            for name, entry in sorted(files.items())
        },
    }
    digest = hashlib.sha256(json.dumps(body).encode()).hexdigest()
    return (json.dumps({**body, "digest": digest}, indent=1) + "\n").encode(), digest


def _read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    if not path.is_file():
        raise ArtifactError(f"{path} is missing: {folder} is not an artifact, or {_BUILD_AGAIN}")
    data = path.read_bytes()
    try:
        value = cast("dict[str, Any]", json.loads(data))
        if value["format"] != FORMAT:
            raise ArtifactError(
                f"{path} has format {value['format']} where this compiler reads {FORMAT}: "
                f"{_BUILD_AGAIN}"
            )
        about: dict[str, Json] = dict(value["about"].items())
        files = {
            str(name): FileEntry(str(entry["sha256"]), int(entry["size"]))
            for name, entry in value["files"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path) from error
    # Written again it must give the same bytes, so a flipped blank is found as well.
    again, digest = _render(about, files)
    if again != data:
        raise _damaged(path)
    return Manifest(folder, about, files, digest)


def _damaged(path: Path) -> ArtifactError:
    return ArtifactError(f"{path} is damaged (its digest does not match): {_BUILD_AGAIN}")


def _entry(path: Path) -> FileEntry:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return FileEntry(digest, file.tell())


def _file_names(folder: Path) -> list[str]:
    """All entries below `folder` that are no plain folder, sorted. Raises ArtifactError on others.

    Only regular files may be in an artifact: a link could change, a pipe would block.
    """
    names: list[str] = []
    for root, folders, files in os.walk(folder):
        for name in (*files, *folders):
            path = Path(root, name)
            if path.is_symlink() or (name in files and not path.is_file()):
                raise ArtifactError(f"{path} is not a regular file: remove it")
        names += [Path(root, name).relative_to(folder).as_posix() for name in files]
    return sorted(names)


def _check_ours(folder: Path) -> None:
    if folder.exists() and not (folder / MANIFEST).exists() and any(folder.iterdir()):
        raise ArtifactError(
            f"{folder} holds other files and no {MANIFEST}: choose a new or an empty folder"
        )


def _publish(part: Path, folder: Path, replace: bool, key: Json) -> None:
    with _one_writer(folder.parent):
        _check_ours(folder)
        if not folder.exists() or not any(folder.iterdir()):
            os.rename(part, folder)
        elif replace or not _holds(folder, key):
            old = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}{_PART}")
            os.rename(folder, old)
            os.rename(part, folder)
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _one_writer(parent: Path) -> Generator[None, None, None]:
    """Holds back all other writers, threads and processes, where the file system has locks."""
    handle = os.open(parent, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _holds(folder: Path, key: Json) -> bool:
    """Whether a folder is an intact artifact of this key."""
    try:
        return read_verified(folder).about.get("key") == key
    except ArtifactError:
        return False


def _sweep(folder: Path) -> None:
    """Remove what writers of the same folder left behind when they were killed."""
    for sibling in folder.parent.iterdir():
        if sibling.name.startswith(f".{folder.name}.") and sibling.name.endswith(_PART):
            try:
                old = time.time() - sibling.stat().st_mtime > _STALE
            except FileNotFoundError:
                continue
            if old:
                shutil.rmtree(sibling, ignore_errors=True)

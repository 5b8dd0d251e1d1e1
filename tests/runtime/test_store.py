"""Artifact folders: what a writer leaves, and what a reader refuses."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from compiler.runtime import store
from compiler.runtime.addresses import address_of
from compiler.runtime.store import (
    MANIFEST,
    ArtifactError,
    array_path,
    map_array,
    read_verified,
    save_arrays,
    writing,
)

CONTENT = {
    "plan.json": b'{"steps": []}\n',
    "native/k0.o": bytes(range(256)) * 3,
    "native/runner.o": b"\x7fELF",
    "ir/empty.txt": b"",
    "weights/ab12.bin": b"\x00" * 64,
}


def write(folder: Path, content: dict[str, bytes], **options: bool) -> None:
    with writing(folder, {"cpu": "znver4", "key": "k"}, **options) as part:
        for name, data in content.items():
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            (part / name).write_bytes(data)


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    folder = tmp_path / "engine" / "0123"
    write(folder, CONTENT)
    return folder


# Writing and reading.


def test_what_was_written_is_read(artifact: Path) -> None:
    manifest = read_verified(artifact)
    assert dict(manifest.about) == {"cpu": "znver4", "key": "k"}
    assert {name: entry.size for name, entry in manifest.files.items()} == {
        name: len(data) for name, data in CONTENT.items()
    }
    assert {name: manifest.read(name) for name in manifest.files} == CONTENT
    assert [path.name for path in artifact.parent.iterdir()] == ["0123"]
    text = (artifact / MANIFEST).read_text()
    assert text.endswith(f'"digest": "{manifest.digest}"\n}}\n')


def test_equal_content_gives_equal_manifests(artifact: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(other, dict(reversed(CONTENT.items())))
    assert (other / MANIFEST).read_bytes() == (artifact / MANIFEST).read_bytes()
    write(tmp_path / "third", {**CONTENT, "plan.json": b"{}"})
    assert read_verified(tmp_path / "third").digest != read_verified(other).digest


def test_an_artifact_may_be_moved(artifact: Path, tmp_path: Path) -> None:
    moved = artifact.rename(tmp_path / "moved")
    assert read_verified(moved).read("plan.json") == CONTENT["plan.json"]


def test_a_read_only_folder(artifact: Path) -> None:
    paths = [artifact, *artifact.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    artifact.parent.chmod(0o555)
    try:
        before = {path: path.stat() for path in paths}
        manifest = read_verified(artifact)
        assert manifest.read("native/k0.o") == CONTENT["native/k0.o"]
        array = map_array(artifact / "weights/ab12.bin", np.float32, (16,))
        assert not array.any()
        after = {path: path.stat() for path in (artifact, *artifact.rglob("*"))}
        assert {p: (s.st_mtime_ns, s.st_size) for p, s in before.items()} == {
            p: (s.st_mtime_ns, s.st_size) for p, s in after.items()
        }
    finally:
        artifact.parent.chmod(0o755)
        for path in paths:
            path.chmod(0o755)


# Damage.


@pytest.mark.parametrize("name", [*CONTENT, MANIFEST])
def test_any_flipped_byte_is_refused(artifact: Path, name: str) -> None:
    path = artifact / name
    good = path.read_bytes()
    for position in range(len(good)):
        for bit in (1, 0x20, 0x80):
            bad = bytearray(good)
            bad[position] ^= bit
            path.write_bytes(bad)
            with pytest.raises(ArtifactError) as caught:
                read_verified(artifact)
            assert str(path) in str(caught.value) or name == MANIFEST
            assert str(artifact) in str(caught.value)
    path.write_bytes(good)
    read_verified(artifact)


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda f: (f / "native/k0.o").unlink(), r"k0\.o is missing.*build the engine again"),
        (lambda f: (f / "extra.txt").write_text("x"), r"extra\.txt does not belong.*remove it"),
        (lambda f: (f / "native/.hidden").touch(), r"hidden does not belong"),
        (lambda f: os.truncate(f / "plan.json", 3), r"plan\.json is damaged.*build the engine"),
        (lambda f: (f / MANIFEST).unlink(), r"manifest\.json is missing"),
        (lambda f: (f / MANIFEST).write_text("[]"), r"manifest\.json is damaged"),
        (lambda f: (f / MANIFEST).write_text('{"format": 9}'), r"format 9 .* reads 1"),
        (lambda f: os.symlink(f / "plan.json", f / "link"), r"link is not a regular file"),
        (lambda f: os.symlink(f / "native", f / "linked"), r"linked is not a regular file"),
        (lambda f: os.mkfifo(f / "pipe"), r"pipe is not a regular file"),
    ],
)
def test_damage_is_named(artifact: Path, damage: Callable[[Path], object], text: str) -> None:
    damage(artifact)
    with pytest.raises(ArtifactError, match=text):
        read_verified(artifact)


def test_no_artifact_at_all(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"nowhere/manifest\.json is missing"):
        read_verified(tmp_path / "nowhere")


def test_a_file_is_checked_again_when_it_is_read(artifact: Path) -> None:
    manifest = read_verified(artifact)
    (artifact / "plan.json").write_bytes(b'{"steps": 1}\n')
    with pytest.raises(ArtifactError, match=r"plan\.json is damaged"):
        manifest.read("plan.json")
    (artifact / "plan.json").unlink()
    with pytest.raises(ArtifactError, match=r"plan\.json"):
        manifest.read("plan.json")
    with pytest.raises(ArtifactError, match="not in the manifest"):
        manifest.read("../outside")


# Writers.


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "store" / "key"
    with pytest.raises(ZeroDivisionError), writing(folder) as part:
        (part / "half").write_text("half")
        1 / 0  # noqa: B018
    assert list(folder.parent.iterdir()) == []


def test_a_writer_that_fails_leaves_the_old_one(artifact: Path) -> None:
    before = tree(artifact)
    with pytest.raises(ZeroDivisionError), writing(artifact, replace=True) as part:
        (part / "plan.json").write_text("half")
        1 / 0  # noqa: B018
    assert tree(artifact) == before
    assert [path.name for path in artifact.parent.iterdir()] == [artifact.name]


def test_the_first_writer_stays_unless_told_otherwise(artifact: Path) -> None:
    write(artifact, {"plan.json": b"2"})
    assert read_verified(artifact).read("plan.json") == CONTENT["plan.json"]
    write(artifact, {"plan.json": b"3"}, replace=True)
    assert tree(artifact).keys() == {"plan.json", MANIFEST}
    assert read_verified(artifact).read("plan.json") == b"3"
    assert [path.name for path in artifact.parent.iterdir()] == [artifact.name]


def test_a_damaged_folder_is_replaced(artifact: Path) -> None:
    (artifact / "plan.json").unlink()
    write(artifact, CONTENT)
    assert read_verified(artifact).read("plan.json") == CONTENT["plan.json"]
    assert [path.name for path in artifact.parent.iterdir()] == [artifact.name]


@pytest.mark.parametrize("replace", [False, True])
def test_other_peoples_files_are_never_touched(tmp_path: Path, replace: bool) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "letter.txt").write_text("dear")
    with pytest.raises(ArtifactError, match=r"home holds other files"):
        write(folder, CONTENT, replace=replace)
    assert tree(tmp_path) == {"home/letter.txt": b"dear"}


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    write(tmp_path / "new", CONTENT)
    assert read_verified(tmp_path / "new").files.keys() == CONTENT.keys()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ArtifactError, match=r"cannot write .*choose a folder that is writable"):
        write(tmp_path / "file" / "key", CONTENT)


@pytest.mark.parametrize("replace", [False, True])
def test_eight_writers_and_a_reader_of_one_key(tmp_path: Path, replace: bool) -> None:
    folder = tmp_path / "key"
    start = threading.Barrier(8)
    contents = [{f"{i}.txt": bytes([i]) * 1000, "same.txt": b"same"} for i in range(8)]

    def work(i: int) -> None:
        start.wait()
        for _ in range(5):
            write(folder, contents[i], replace=replace)
            if not replace:
                read_verified(folder)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    read_verified(folder)
    left = {name: data for name, data in tree(folder).items() if name != MANIFEST}
    assert left in contents
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_what_a_killed_writer_left_is_swept(artifact: Path) -> None:
    old, new = (artifact.with_name(f".{artifact.name}.{n}.part") for n in ("old", "new"))
    for folder in (old, new):
        folder.mkdir()
        (folder / "half").write_text("x")
    past = old.stat().st_mtime - store._STALE - 60
    os.utime(old, (past, past))
    write(artifact, CONTENT)
    assert not old.exists()
    assert new.exists()


# Arrays.

ARRAYS = {
    "a0": np.arange(12, dtype=np.float32).reshape(3, 4),
    "a1": np.array(2.5, np.float64),
    "a2": np.zeros((0, 7), np.int64),
    "a3": np.array([True, False, True]),
    "a4": np.arange(12, dtype=np.float32).reshape(3, 4).T,
    "a5": np.arange(5, dtype=">i4"),
    "a6": np.arange(300_000, dtype=np.float64),
    "a7": np.array([np.nan, -0.0, np.inf], np.float16),
}


@pytest.mark.parametrize("digest", ARRAYS)
def test_arrays_come_back(tmp_path: Path, digest: str) -> None:
    save_arrays(tmp_path / "weights", ARRAYS)
    array = ARRAYS[digest]
    native = array.dtype.newbyteorder("=")
    path = array_path(tmp_path / "weights", digest)
    assert path.stat().st_size == array.nbytes
    got = map_array(path, native, array.shape)
    assert got.dtype == native
    assert got.shape == array.shape
    assert got.tobytes() == array.astype(native).tobytes()
    assert got.flags.c_contiguous
    assert not got.flags.writeable
    assert address_of(got) % 64 == 0
    with pytest.raises(ValueError, match="read-only"):
        got[...] = 0
    path.unlink()
    assert got.tobytes() == array.astype(native).tobytes()


def test_many_arrays_hold_no_files_open(tmp_path: Path) -> None:
    save_arrays(tmp_path, {f"w{i}": np.arange(9.0) for i in range(200)})
    before = len(os.listdir("/proc/self/fd"))
    held = [map_array(array_path(tmp_path, f"w{i}"), np.float64, (9,)) for i in range(200)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert all(np.array_equal(array, np.arange(9.0)) for array in held)


def test_an_array_of_another_size_is_refused(tmp_path: Path) -> None:
    save_arrays(tmp_path, {"w": np.zeros(10, np.float32)})
    with pytest.raises(ArtifactError, match=r"w\.bin has 40 bytes where float32\[3, 4\] needs 48"):
        map_array(array_path(tmp_path, "w"), np.float32, (3, 4))
    with pytest.raises(ArtifactError, match=r"v\.bin"):
        map_array(array_path(tmp_path, "v"), np.float32, (3, 4))
    with pytest.raises(ValueError, match="not a digest"):
        array_path(tmp_path, "../w")

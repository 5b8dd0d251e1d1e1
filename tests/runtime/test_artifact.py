"""An engine as a folder: written, read, refused when a byte or the CPU is another."""

import json
import os
import shutil
import stat
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.ir.plan import Signature
from compiler.ir.types import tensor
from compiler.runtime import artifact, native, plan_json
from compiler.runtime.addresses import address_of
from compiler.runtime.engine import ArtifactError, Engine, Parts, WrongMachine
from compiler.runtime.plan_json import Contents, ParamEntry, decode, encode
from tests.ir import strategies
from tests.runtime.engines import F32, add, chain, increment, launch, operand, pair, parts

ROOT = Path(__file__).parents[2]


def weighted() -> Parts:
    """y = x + w, with w large enough to be mapped; and weights of other kinds, not used."""
    t = tensor(F32, "s")
    step = launch("add", "s", operand("x", t), operand("w", t), operand("y", t))
    made = parts(
        {"x": t}, {"y": t}, (step,), (), objects={"add": add()},
        params={"w": np.arange(300_000, dtype=np.float32)},
    )  # fmt: skip
    others = {
        "small": np.arange(6, dtype=np.int64).reshape(2, 3),
        "scalar": np.array(True),
        "empty": np.zeros((0, 3), np.float16),
        "text": np.array([["a", "được"]], np.object_),
    }
    return replace(made, params={**made.params, **others}, library={"l": b"a", "m": b"a"})


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store") / "k1"
    Engine.assemble(chain(), threads=1).save(folder)
    return folder


def run_python(text: str, *arguments: object) -> str:
    """What the program prints in a process of its own."""
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", start + textwrap.dedent(text), *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- plan.json


entries = st.builds(
    ParamEntry, strategies.words, st.just("float32"),
    st.lists(st.integers(0, 9), max_size=3).map(tuple),
)  # fmt: skip
signatures = st.builds(
    Signature,
    st.lists(st.tuples(strategies.names, strategies.types), max_size=3).map(tuple),
    st.lists(st.tuples(strategies.names, strategies.types), max_size=3).map(tuple),
    st.just(()),
)
contents = st.builds(
    Contents,
    strategies.names,
    signatures,
    strategies.plans,
    st.dictionaries(strategies.names, strategies.names, max_size=2),
    st.dictionaries(strategies.names, entries, max_size=2),
    st.dictionaries(strategies.names, strategies.words, max_size=2),
    st.dictionaries(st.tuples(st.integers(0, 9)), strategies.names, max_size=2),
)


@given(contents)
def test_what_is_written_is_read_back(made: Contents) -> None:
    text = encode(made)
    assert decode(text) == made
    assert encode(decode(text)) == text


def test_plan_json_of_another_format_or_shape_is_refused(saved: Path) -> None:
    document = json.loads((saved / "plan.json").read_text())
    for change in ({"format": 99}, {"steps": 3}, {"name": None}, {"guards": [{}]}):
        with pytest.raises(ValueError, match=r"format|expected|missing"):
            decode(json.dumps({**document, **change}).encode())
    del document["buffers"]
    with pytest.raises(ValueError, match="'buffers' is missing"):
        decode(json.dumps(document).encode())


# ---- save and load


def test_a_loaded_engine_is_the_same_engine(saved: Path) -> None:
    made, loaded = Engine.assemble(chain()), Engine.load(saved)
    assert loaded.signature == made.signature
    assert loaded.plan == made.plan
    assert (loaded.name, loaded.key) == ("test", "k1")
    assert loaded.parts.labels == made.parts.labels
    assert loaded.parts.about["components"] == {"graph": "g"}
    assert dict(loaded.parts.texts) == dict(made.parts.texts)
    a = np.random.default_rng(0).random((9, 4), np.float32)
    assert np.array_equal(loaded.run({"a": a, "b": a})["y"], made.run({"a": a, "b": a})["y"])
    assert loaded.phases.keys() == {"read", "link"}


def test_the_folder_is_laid_out_as_documented(saved: Path, tmp_path: Path) -> None:
    found = {p.relative_to(saved).as_posix() for p in saved.rglob("*") if p.is_file()}
    assert found == {
        "manifest.json", "plan.json", "native/add.o", "native/increment.o", "native/runner.o",
        "kernels.py", "ir/00.txt", "trace.json",
    }  # fmt: skip
    about = json.loads((saved / "manifest.json").read_text())["about"]
    assert (about["cpu"], about["features"]) == native.cpu_features()
    Engine.load(saved).save(tmp_path / "again")
    for name in found:
        assert (tmp_path / "again" / name).read_bytes() == (saved / name).read_bytes(), name


def test_weights_come_back_aligned_read_only_and_once_a_content(tmp_path: Path) -> None:
    made = weighted()
    twin = replace(made, params={**made.params, "twin": made.params["w"].copy()})
    engine = Engine.assemble(twin)
    engine.save(tmp_path / "k")
    loaded = Engine.load(tmp_path / "k")
    assert loaded.parts.library == made.library
    assert len(list((tmp_path / "k" / "weights").iterdir())) == len(made.params)
    assert len(list((tmp_path / "k" / "library").iterdir())) == 1
    for name, array in loaded.parts.params.items():
        assert array.dtype == twin.params[name].dtype
        assert array.shape == twin.params[name].shape
        assert np.array_equal(array, twin.params[name])
        assert not array.flags.writeable
        assert array.dtype == object or address_of(array) % 64 == 0
    assert loaded._program.params["w"] is loaded.parts.params["w"]  # mapped, not copied
    shutil.rmtree(tmp_path / "k")
    x = np.ones(300_000, np.float32)
    assert np.array_equal(loaded.run({"x": x})["y"], made.params["w"] + x)


def test_texts_must_stay_inside_and_off_the_engines_own_files(tmp_path: Path) -> None:
    for path in ("", "/etc/x", "../x", "a/../../x", "plan.json", "native/x.o", "manifest.json"):
        with pytest.raises(ArtifactError, match="path of a text"):
            Engine.assemble(replace(pair(), texts={path: b"x"})).save(tmp_path / "k")
        assert not (tmp_path / "k").exists()


FILES = (
    "manifest.json", "plan.json", "native/add.o", "native/increment.o", "native/runner.o",
    "kernels.py", "ir/00.txt", "trace.json",
)  # fmt: skip


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("where", [0, 0.5, 1])
def test_a_flipped_byte_in_any_file_is_refused(
    saved: Path, tmp_path: Path, name: str, where: float
) -> None:
    folder = tmp_path / "k"
    shutil.copytree(saved, folder)
    data = bytearray((folder / name).read_bytes())
    data[int(where * (len(data) - 1))] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(ArtifactError, match=name.replace(".", r"\.")):
        Engine.load(folder)


def test_a_missing_file_and_no_folder_are_refused(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "k"
    shutil.copytree(saved, folder)
    (folder / "native/add.o").unlink()
    with pytest.raises(ArtifactError, match=r"native/add\.o is missing"):
        Engine.load(folder)
    with pytest.raises(ArtifactError, match="not an artifact"):
        Engine.load(tmp_path / "nowhere")


# ---- other machines, other versions


def test_another_cpus_engine_is_refused(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, features = native.cpu_features()
    here = "another-cpu", features.replace("+sse2", "-sse2") + ",+wings"
    monkeypatch.setattr(artifact, "cpu_features", lambda: here)
    with pytest.raises(WrongMachine) as caught:
        Engine.load(saved)
    text = str(caught.value)
    assert "another-cpu here" in text and "+wings" in text and "compile the model again" in text
    assert str(saved) in text
    monkeypatch.undo()
    assert Engine.load(saved).name == "test"


def test_the_difference_is_told_in_short(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _ = native.cpu_features()
    here = name, ",".join(f"+f{k}" for k in range(99))
    monkeypatch.setattr(artifact, "cpu_features", lambda: here)
    with pytest.raises(WrongMachine, match=r"only here: (\+f\d+ ){8}and 91 more") as caught:
        Engine.load(saved)
    assert name not in str(caught.value)


def test_an_engine_of_another_format_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_json, "PLAN_FORMAT", 99)
    Engine.assemble(pair()).save(tmp_path / "k")
    monkeypatch.undo()
    with pytest.raises(ArtifactError, match=r"format 99.*build the engine again"):
        Engine.load(tmp_path / "k")


# ---- processes


LOAD = """
    import numpy, llvmlite.binding
    import compiler
    from compiler.runtime import native
    parse = native.llvm.parse_assembly
    def parse_nothing(text):
        assert text == "", "a load compiled something"
        return parse(text)
    native.llvm.parse_assembly = parse_nothing
    engine = compiler.Engine.load(sys.argv[1])
    x = numpy.full((3, 4), 2, numpy.float32)
    print(engine.run({"a": x, "b": x})["y"].sum())
    ours = sorted({m for m in sys.modules if m.startswith("compiler.")})
    print(*ours)
    print(*[m for m in ("numba", "onnx", "networkx", "streamlit") if m in sys.modules])
"""


def test_loading_imports_no_more_than_it_needs_and_compiles_nothing(saved: Path) -> None:
    total, ours, heavy = run_python(LOAD, saved).splitlines()
    assert float(total) == 12 * 6
    assert heavy == ""
    ir = {"binding", "dims", "graph", "plan", "types"}
    allowed = {"ir", "runtime"} | {f"ir.{name}" for name in ir}
    names = {name.removeprefix("compiler.") for name in ours.split()}
    assert names - {n for n in names if n.startswith("runtime.")} == allowed


def test_a_read_only_folder_can_be_loaded(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    shutil.copytree(saved, folder)
    everything = [folder, *folder.rglob("*")]
    for path in everything:
        os.chmod(path, stat.S_IREAD | (stat.S_IEXEC if path.is_dir() else 0))
    before = sorted(folder.rglob("*"))
    try:
        assert run_python(LOAD, folder).splitlines()[0] == "72.0"
        assert sorted(folder.rglob("*")) == before
    finally:
        for path in everything:
            os.chmod(path, stat.S_IRWXU)


WRITE = """
    from dataclasses import replace
    from compiler.runtime.engine import Engine
    from tests.runtime.engines import increment, pair
    objects = {"increment": increment(by=float(sys.argv[2]))}
    Engine.assemble(replace(pair(), objects=objects)).save(sys.argv[1])
"""


def test_engines_of_two_processes_live_in_a_third(tmp_path: Path) -> None:
    """Both name their kernel alike, and it is another kernel."""
    for name, by in (("one", 1), ("ten", 10)):
        run_python(WRITE, tmp_path / name, by)
    engines = [Engine.load(tmp_path / name) for name in ("one", "ten")]
    calls = [engine.bind({"x": np.zeros(3, np.float32)}) for engine in engines]
    for _ in range(2):
        assert [call()["y"].tolist() for call in calls] == [[1, 1, 1], [10, 10, 10]]
    assert engines[0].run({"x": np.ones(1, np.float32)})["y"] == 2
    del engines, calls[0]
    assert calls[0]()["y"].tolist() == [10, 10, 10]
    assert increment() != increment(by=10.0)

"""Engines as the compiler makes them: one artifact for all sizes, threads, processes, damage."""

import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import compiler
from compiler.ir.types import TensorType
from compiler.runtime.engine import ArtifactError, Engine
from sample_models import catalogue, sample
from tests.whole import built, small

ROOT = Path(__file__).parents[2]


def compiled(name: str) -> Engine:
    return built(name).engine


def inputs_of(engine: Engine, sizes: dict[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)

    def array(type: TensorType) -> np.ndarray:
        shape = [d.evaluate(sizes) for d in type.dims]
        if type.element.is_integer:
            return rng.integers(0, 8, shape).astype(type.element.numpy())
        return rng.standard_normal(shape).astype(np.float32)

    return {name: array(type) for name, type in engine.signature.inputs}


def reference(name: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(sample(name).path, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def assert_near(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].shape == array.shape and found[name].dtype == array.dtype
        assert np.linalg.norm(found[name] - array) <= 1e-5 * np.linalg.norm(array)


def run_python(text: str, *arguments: object) -> str:
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", start + textwrap.dedent(text), *map(str, arguments)],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", [each.name for each in catalogue()])
def test_one_artifact_serves_all_sizes(name: str, tmp_path: Path) -> None:
    compiled(name).save(tmp_path / name)
    loaded = Engine.load(tmp_path / name, threads=2)
    pairs = ((0, 0), (1, 1), (3, 1), (3, 300), (300, 300))
    for taken in dict.fromkeys(small(name, pair) for pair in pairs):
        inputs = inputs_of(loaded, dict(zip(sample(name).maximum, taken, strict=True)))
        found = loaded.run(inputs)
        assert_near(found, reference(name, inputs))
        assert_near(loaded.bind(inputs)(), found)


LOAD = """
    import numpy
    import compiler
    engine = compiler.Engine.load(sys.argv[1])
    heavy = [m for m in ("numba", "onnx") if m in sys.modules]
    inputs = dict(numpy.load(sys.argv[2]))
    numpy.savez(sys.argv[3], **engine.run(inputs))
    print(heavy, [m for m in ("numba", "onnx") if m in sys.modules], "library" in engine.phases)
"""


@pytest.mark.parametrize(
    ("name", "modules"), [("digits", "[] [] False"), ("diamond", "[] ['onnx'] True")]
)
def test_another_process_runs_it_without_numba_and_imports_onnx_only_to_use_it(
    name: str, modules: str, tmp_path: Path
) -> None:
    engine = compiled(name)
    engine.save(tmp_path / "k")
    inputs = inputs_of(engine, dict.fromkeys(sample(name).sizes, 5))
    np.savez(tmp_path / "in.npz", **inputs)
    printed = run_python(LOAD, tmp_path / "k", tmp_path / "in.npz", tmp_path / "out.npz")
    assert printed.strip() == modules
    for key, array in engine.run(inputs).items():
        assert np.array_equal(np.load(tmp_path / "out.npz")[key], array)


def test_a_flipped_byte_in_any_file_is_refused(tmp_path: Path) -> None:
    compiled("diamond").save(tmp_path / "k")
    files = [p for p in sorted((tmp_path / "k").rglob("*")) if p.is_file()]
    kinds = {p.relative_to(tmp_path / "k").parts[0] for p in files}
    assert kinds >= {"manifest.json", "plan.json", "native", "library", "kernels.py", "ir",
                     "trace.json", "llvm", "asm"}  # fmt: skip
    for path in files:
        whole = path.read_bytes()
        data = bytearray(whole)
        data[len(data) // 2] ^= 0x20
        path.write_bytes(data)
        with pytest.raises(ArtifactError) as caught:
            Engine.load(tmp_path / "k")
        assert str(path) in str(caught.value)
        path.write_bytes(whole)
    assert Engine.load(tmp_path / "k").name == compiled("diamond").name


COMPILE = """
    import compiler
    compiler.compile(sys.argv[1]).engine.save(sys.argv[2])
"""


def test_engines_of_two_processes_live_in_a_third(tmp_path: Path) -> None:
    names = ("five_op_chain", "softmax_spelled_out")
    for name in names:
        run_python(COMPILE, sample(name).path, tmp_path / name)
    engines = {name: Engine.load(tmp_path / name) for name in names}
    for name, engine in engines.items():
        inputs = inputs_of(engine, dict.fromkeys(sample(name).sizes, 17))
        assert_near(engine.run(inputs), reference(name, inputs))


@pytest.mark.parametrize("name", ["layernorm_residual", "digits"])
def test_eight_threads_share_an_engine(name: str) -> None:
    engine = compiled(name)
    work = []
    for k in range(8):
        inputs = inputs_of(engine, dict.fromkeys(sample(name).sizes, 1 + 9 * (k % 4)), seed=k)
        work.append((inputs, engine.run(inputs)))

    def repeat(item: tuple[dict[str, np.ndarray], dict[str, np.ndarray]]) -> bool:
        inputs, wanted = item
        found = [engine.run(inputs, threads=1 + k % 3) for k in range(25)]
        return all(np.array_equal(f[key], wanted[key]) for f in found for key in wanted)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(repeat, work))


def test_a_model_whose_sizes_come_from_data_runs(tmp_path: Path) -> None:
    """y = 2 x[x != 0] + 1 through NonZero and Gather."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["i"]),
        helper.make_node("Squeeze", ["i", "zero"], ["j"]),
        helper.make_node("Gather", ["x", "j"], ["g"]),
        helper.make_node("Mul", ["g", "two"], ["d"]),
        helper.make_node("Add", ["d", "one"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "data_sizes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["s"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
        [
            helper.make_tensor("two", TensorProto.FLOAT, [], [2]),
            helper.make_tensor("one", TensorProto.FLOAT, [1], [1]),
            helper.make_tensor("zero", TensorProto.INT64, [1], [0]),
        ],
    )  # fmt: skip
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model)
    engine = compiler.compile(model.SerializeToString()).engine
    engine.save(tmp_path / "k")
    for each in (engine, Engine.load(tmp_path / "k")):
        for values in ([0, 1, 0, 2], [0, 0], [], [3]):
            x = np.array(values, np.float32)
            assert each.run({"x": x})["y"].tolist() == [2 * v + 1 for v in values if v]


def test_saving_where_it_is_already_keeps_the_folder(tmp_path: Path) -> None:
    engine = compiled("digits")
    engine.save(tmp_path / "k")
    before = (tmp_path / "k" / "manifest.json").stat().st_ino
    engine.save(tmp_path / "k")
    assert (tmp_path / "k" / "manifest.json").stat().st_ino == before
    shutil.rmtree(tmp_path / "k")
    with pytest.raises(ArtifactError):
        Engine.load(tmp_path / "k")

"""The command line: what it prints, what it writes, and how it says what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.__main__ import main
from compiler.ir.parser import parse_module
from compiler.ir.printer import print_module
from compiler.pipeline import DEFAULT, print_pipeline
from sample_models import sample
from tests.frontend.models import BOOL, I64, data, info, model, node
from tests.whole import NAMES, assert_near, built, float64

ROOT = Path(__file__).resolve().parents[1]
SMALL = ("--size", "rows=2", "--size", "cols=3")

Capture = pytest.CaptureFixture[str]


def call(capsys: Capture, *arguments: object) -> str:
    """What a command prints; it must succeed and complain of nothing."""
    status = main([str(a) for a in arguments])
    printed = capsys.readouterr()
    assert (status, printed.err) == (0, "")
    return printed.out


def strict_json(text: str) -> Any:
    """JSON as the standard has it: no NaN, no Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def refusal(capsys: Capture, *arguments: object) -> str:
    """What a command says when it fails: one line on the error stream, nothing else."""
    assert main([str(a) for a in arguments]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ") and printed.err.count("\n") == 1
    return printed.err


# ---- compile -------------------------------------------------------------------------------------


def test_compile_says_what_came_out(capsys: Capture) -> None:
    text = call(capsys, "compile", "five_op_chain")
    assert "five_op_chain: 1 launches, 1 kernels" in text
    assert all(phase in text for phase in ("import", "passes", "emit", "compile", "link"))
    assert "graph breaks" not in text
    forced = call(capsys, "compile", "diamond", "--pipeline", "default,partition-fallback{force=b}")
    assert "graph breaks: exp (Exp)" in forced


def test_compile_keeps_engines_in_a_store(capsys: Capture, tmp_path: Path) -> None:
    command = ("compile", "diamond", "--store", tmp_path)
    first = strict_json(call(capsys, *command, "--json"))
    assert first["hit"] is False
    assert (tmp_path / "engine" / first["key"] / "manifest.json").is_file()
    again = strict_json(call(capsys, *command, "--json"))
    assert again["hit"] is True and again["key"] == first["key"]
    assert "(from the store)" in call(capsys, *command)
    changed = call(capsys, *command, "--numerics", "strict")
    assert "changed since the last engine of this model: numerics" in changed


def test_pin_makes_literals(capsys: Capture) -> None:
    found = strict_json(call(capsys, "compile", "diamond", "--pin", "rows=8", "--json"))
    assert [s["name"] for s in found["symbols"]] == ["cols"]
    assert found["pipeline"] == print_pipeline(DEFAULT)


# ---- run -----------------------------------------------------------------------------------------


def test_run_reads_and_writes_arrays(capsys: Capture, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)
    text = call(
        capsys, "run", sample("diamond").path, "--inputs", tmp_path / "in.npz",
        "--output", tmp_path / "out.npz", "--threads", 1,
    )  # fmt: skip
    assert text.startswith("y: float32[3, 4]\n")
    with np.load(tmp_path / "out.npz", allow_pickle=False) as file:
        assert_near(dict(file), float64(built("diamond").model, {"x": x}))


@pytest.mark.parametrize("name", NAMES)
def test_every_sample_runs_on_made_inputs(name: str, capsys: Capture) -> None:
    sizes = [f"--size={symbol}=2" for symbol in sample(name).sizes]
    found = strict_json(call(capsys, "run", name, *sizes, "--json"))
    assert found["output"] is None
    for result in found["outputs"].values():
        assert result["dtype"] == "float32" and result["shape"][0] == 2
        assert len(result["values"]) == min(16, np.prod(result["shape"]))


def test_a_seed_makes_inputs_that_come_back(capsys: Capture) -> None:
    first, same, other = (
        call(capsys, "run", "diamond", *SMALL, "--seed", seed) for seed in (0, 0, 1)
    )
    assert first == same != other


def test_a_size_of_zero_is_a_size(capsys: Capture) -> None:
    found = strict_json(call(capsys, "run", "diamond", "--size=rows=0", "--size=cols=3", "--json"))
    assert found["outputs"]["y"] == {"shape": [0, 3], "dtype": "float32", "values": []}


def test_a_dimension_without_a_size_is_4(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data(model([node("Relu", ["x"], ["y"])], [info("x", ["n", 2])], ["y"])))
    assert strict_json(call(capsys, "run", path, "--json"))["outputs"]["y"]["shape"] == [4, 2]


def test_outputs_of_any_name_and_value(capsys: Capture, tmp_path: Path) -> None:
    """Names that are words of Python or paths; infinities, NaN, flags and integers."""
    names = ["file", "allow_pickle", "a/b:0", "ẩn", "n", "flag"]
    nodes = [
        node("Log", ["x"], ["file"]), node("Neg", ["x"], ["allow_pickle"]),
        node("Relu", ["x"], ["a/b:0"]), node("Exp", ["x"], ["ẩn"]), node("Shape", ["x"], ["n"]),
        node("Cast", ["x"], ["flag"], to=BOOL),
    ]  # fmt: skip
    path = tmp_path / "m.onnx"
    path.write_bytes(data(model(nodes, [info("x", [3])], names)))
    np.savez(tmp_path / "in.npz", x=np.array([0, -1, np.inf], np.float32))
    found = strict_json(
        call(capsys, "run", path, "--inputs", tmp_path / "in.npz", "--json", "--output",
             tmp_path / "results")
    )  # fmt: skip
    assert found["outputs"]["file"]["values"] == [None, None, None]
    assert found["outputs"]["allow_pickle"]["values"] == [0, 1, None]
    assert found["outputs"]["flag"] == {
        "shape": [3], "dtype": "bool", "values": [False, True, True]
    }  # fmt: skip
    with np.load(found["output"], allow_pickle=False) as file:
        assert sorted(file.files) == sorted(names)
        np.testing.assert_array_equal(file["file"], [-np.inf, np.nan, np.inf])
        assert file["n"].dtype == np.int64 and file["n"].tolist() == [3]


def test_made_indices_stay_inside_what_they_index(capsys: Capture, tmp_path: Path) -> None:
    weights = {"w": np.arange(6, dtype=np.float32).reshape(3, 2)}
    path = tmp_path / "m.onnx"
    path.write_bytes(
        data(model([node("Gather", ["w", "i"], ["y"])], [info("i", ["n"], I64)], ["y"], weights))
    )
    found = strict_json(call(capsys, "run", path, "--size", "n=50", "--json"))
    assert found["outputs"]["y"]["shape"] == [50, 2]


# ---- explain and passes --------------------------------------------------------------------------


def test_explain_prints_every_pass_and_every_decision(capsys: Capture) -> None:
    pipeline = "default,partition-fallback{force=[b]}"
    text = call(capsys, "explain", "diamond", "--pipeline", pipeline)
    heads = [line for line in text.splitlines() if f"/{len(DEFAULT)} " in line]
    assert [h.split()[1].partition("{")[0] for h in heads] == [p.name for p in DEFAULT]
    assert "refused a + y [pointwise] R2:" in text
    assert "Graph breaks\n    exp (Exp):" in text
    assert "{" not in text.replace("{force=[b]}", ""), "a sentence lacks a parameter"


def test_explain_speaks_vietnamese(capsys: Capture) -> None:
    english = call(capsys, "explain", "softmax_spelled_out")
    vietnamese = call(capsys, "explain", "softmax_spelled_out", "--lang", "vi")
    assert "Kế hoạch có 1 bước" in vietnamese and "Kế hoạch" not in english


def test_explain_in_json(capsys: Capture) -> None:
    found = strict_json(call(capsys, "explain", "diamond", "--json"))
    assert found["schema"] == 1
    assert [p["name"] for p in found["passes"]] == [p.name for p in DEFAULT]
    assert {"op_by_op", "fused"} == found["launches"].keys() == found["floor_formula"].keys()
    assert found["launches"] == {"op_by_op": 3, "fused": 1}
    assert all(p["drift"] is None for p in found["passes"])


def test_explain_tells_how_far_each_pass_moved_the_results(capsys: Capture) -> None:
    found = strict_json(call(capsys, "explain", "softmax_spelled_out", "--drift", "--json"))
    drifts = {p["name"]: p["drift"] for p in found["passes"] if p["drift"] is not None}
    assert "fuse" in drifts and "decompose" in drifts
    assert all(d["norm_rel"] < 1e-5 for d in drifts.values())
    text = call(capsys, "explain", "softmax_spelled_out", "--drift")
    assert "drift: max abs" in text


def test_passes_prints_modules_that_can_be_read_back(capsys: Capture) -> None:
    found = strict_json(call(capsys, "passes", "five_op_chain", "--json"))
    for text in found["snapshots"]:
        assert print_module(parse_module(text)) == text
    printed = call(capsys, "passes", "five_op_chain")
    assert printed.count("// after ") == sum(p["changed"] for p in found["passes"])
    written = found["snapshots"][1:-1]  # the last one holds digests of machine code
    assert len(written) > 5 and all(text in printed for text in written)


# ---- measure -------------------------------------------------------------------------------------


def test_measure_compares_three_variants_in_one_run(capsys: Capture) -> None:
    command = ("measure", "five_op_chain", "--size", "r=8", "--size", "c=16")
    found = strict_json(call(capsys, *command, "--repetitions", 3, "--json"))
    assert found["schema"] == 1 and found["conditions"]["sizes"] == {"r": 8, "c": 16}
    assert found["launches"] == {"op_by_op": 5, "fused": 1}
    assert found["floor_formula"]["fused"] == "12*c*r+8*c"
    assert found["bytes"]["fused"]["floor"] == 12 * 8 * 16 + 8 * 16
    assert all(found["latency"][v]["repetitions"] == 3 for v in ("reference", "op_by_op", "fused"))
    assert all(found["error"][v]["allclose"] for v in ("op_by_op", "fused"))
    assert found["cold_start"]["total"] > 0


# ---- what is wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("compile", "nowhere.onnx"), "nowhere.onnx: there is no such file"),
        (("compile", "nowhere"), "nowhere: there is no such file"),
        (("compile", ROOT / "README.md"), "README.md: this is not an ONNX model"),
        (("compile", "diamond", "--pin", "foo=3"), "no dimension called 'foo'; it has: rows, cols"),
        (("compile", "diamond", "--pin", f"rows={2**50}"), "rows = 1125899906842624 is out of"),
        (("compile", "diamond", "--pipeline", "default,fuze"), "no pass is called 'fuze'"),
        (("compile", "diamond", "--pipeline", "default,-emit"), "emit is required"),
        (("compile", "diamond", "--pipeline", "default,partition-fallback{force=[zz]}"),
         "no node to force is called 'zz'"),
        (("compile", "diamond", "--target", "tpu"),
         "a target is one of cpu, cuda, cuda:ptx, not 'tpu'"),
        (("run", "diamond", "--size", "foo=3"), "no dimension called 'foo'"),
        (("run", "diamond", "--pin", "rows=2", "--size", "rows=3"), "rows is pinned to 2"),
        (("run", "diamond", "--inputs", "nowhere.npz"), "nowhere.npz"),
        (("run", "diamond", "--inputs", ROOT / "README.md"), "the inputs cannot be read"),
        (("run", "diamond", "--inputs", ROOT / "sample_models" / "digits_test.npz"),
         "there is no input 'image'; inputs: x"),
        (("measure", "nowhere.onnx"), "nowhere.onnx: there is no such file"),
        (("measure", "diamond", "--size", "foo=3"), "no dimension called 'foo'"),
        (("run", "diamond", *SMALL, "--output", ROOT / "nowhere" / "y.npz"), "nowhere"),
    ],
    ids=lambda x: " ".join(map(str, x[:1])) if isinstance(x, tuple) else x[:40],
)  # fmt: skip
def test_errors_name_the_problem(
    arguments: tuple[object, ...], said: str, capsys: Capture
) -> None:
    assert said in refusal(capsys, *arguments)


def test_a_node_that_does_not_fit_is_named(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    nodes = [node("MatMul", ["x", "w"], ["y"], name="product")]
    wrong = model(nodes, [info("x", ["n", 3])], ["y"], {"w": np.ones((4, 2), np.float32)})
    path.write_bytes(data(wrong))
    said = refusal(capsys, "compile", path)
    assert "broken.onnx" in said and '"product"' in said and "dimensions 3 and 4" in said


def test_an_operator_that_nobody_knows_is_named(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "own.onnx"
    nodes = [node("Frobnicate", ["x"], ["y"], name="f", domain="com.example")]
    own = model(nodes, [info("x", [2])], ["y"], domains={"com.example": 1})
    path.write_bytes(data(own))
    said = refusal(capsys, "run", path)
    assert "Frobnicate" in said and "com.example" in said and '"f"' in said


@pytest.mark.parametrize("option", ["--pin", "--size"])
@pytest.mark.parametrize("value", ["rows", "rows=", "=3", "rows=x", "rows=-1"])
def test_sizes_are_names_and_numbers(option: str, value: str, capsys: Capture) -> None:
    said = refusal(capsys, "run", "diamond", option, value)
    assert f"{option} is NAME=NUMBER, not '{value}'" in said


@pytest.mark.parametrize(
    "arguments",
    [[], ["frob"], ["run"], ["run", "diamond", "--threads", "0"], ["run", "diamond", "--threads=x"],
     ["run", "diamond", "--numerics", "fast"], ["run", "diamond", "--lang", "fr"]],
)  # fmt: skip
def test_usage(arguments: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: python -m compiler" in capsys.readouterr().err


# ---- as a program --------------------------------------------------------------------------------


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "compiler", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_it_is_a_program() -> None:
    done = program("run", "digits", "--size", "batch=3", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert strict_json(done.stdout)["outputs"]["prob"]["shape"] == [3, 10]
    failed = program("compile", "nowhere.onnx")
    assert failed.returncode == 1 and failed.stdout == ""
    assert failed.stderr.startswith("error: nowhere.onnx: there is no such file")


def test_every_size_runs_from_one_engine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for batch in ("1", "5", "0"):
        call(capsys, "run", "digits", "--size", f"batch={batch}", "--store", str(tmp_path))
    assert len(list((tmp_path / "engine").iterdir())) == 1

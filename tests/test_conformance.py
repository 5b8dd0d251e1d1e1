"""The classifier of the backend suite: what passes, what fails on purpose, what a crash costs."""

import json
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto
from onnx.backend.test.case.node import _NodeTestCases, bernoulli, nonzero, scan, softmax

from conformance.__main__ import as_json, main, report, table_sentence, unused_exclusions
from conformance.cases import Case, case, collect
from conformance.exclusions import EXCLUSIONS, Exclusion
from conformance.judge import STATUSES, Verdict, Wrong, compare, judge
from conformance.pool import run
from tests.frontend.models import info, model, node

ROOT = Path(__file__).parent.parent
RECORDED = ROOT / "conformance" / "recorded.json"
IMPORTED = (bernoulli, nonzero, scan, softmax)
"""Importing one of these makes its tests; all of them take six seconds."""

X = np.array([-1, 2, 3], np.float32)


def made(nodes: Sequence[object], expected: Sequence[object], name: str = "test_mine") -> Case:
    proto: ModelProto = model(nodes, [info("x", ["n"])], ["y"])
    return Case("node", name, "Mine", 1e-3, 1e-7, proto, [([X], expected)])


RELU = made([node("Relu", ["x"], ["y"])], [np.maximum(X, 0)])
WRONG = replace(RELU, sets=[([X], [np.array([0, 2, 4], np.float32)])])
UNIQUE = made([node("Unique", ["x"], ["y"])], [X])


@pytest.fixture(scope="module")
def nodes() -> dict[str, Case]:
    tests = {t.name: t for t in _NodeTestCases}
    operators = {n: t.model.graph.node[0].op_type for n, t in tests.items() if t.model}
    return {name: case("node", test, operators) for name, test in tests.items()}


@pytest.mark.parametrize(
    ("name", "operator", "status"),
    [
        ("test_softmax_axis_0", "Softmax", "compiled"),
        ("test_softmax_axis_0_expanded_ver18", "Softmax", "compiled"),
        ("test_nonzero_example", "NonZero", "breaks"),
        ("test_scan_sum", "Scan", "breaks"),
        ("test_scan9_multi_state", "Scan", "breaks"),
        ("test_bernoulli", "Bernoulli", "excluded"),
    ],
)
def test_node_tests(nodes: dict[str, Case], name: str, operator: str, status: str) -> None:
    verdict = judge(nodes[name])
    assert (nodes[name].operator, verdict.status) == (operator, status), verdict
    assert bool(verdict.detail) == (status != "compiled")


def test_stored_tests() -> None:
    cases = collect(("simple", "pytorch-converted", "pytorch-operator"))
    for name, status in {
        "simple/test_sequence_model2": "breaks",
        "simple/test_expand_shape_model1": "compiled",
        "simple/test_gradient_of_add": "excluded",
        "pytorch-converted/test_Linear": "compiled",
        "pytorch-operator/test_operator_addmm": "compiled",
    }.items():
        verdict = judge(cases[name])
        assert verdict.status == status, (name, verdict)


def test_what_is_wrong_has_failed() -> None:
    assert judge(RELU) == Verdict("compiled")
    assert judge(UNIQUE) == Verdict("breaks", "Unique: break.operator")
    wrong = judge(WRONG)
    assert wrong.status == "failed" and "output 0: values differ" in wrong.detail
    for expected, said in (
        ([X.astype(np.float64)], "dtype is float32, not float64"),
        ([X[:2]], r"shape is \(3,\), not \(2,\)"),
        ([X, X], "1 outputs, expected 2"),
        ([[X]], "kind is ndarray, not list"),
        ([None], "kind is ndarray, not NoneType"),
    ):
        verdict = judge(replace(RELU, sets=[([np.abs(X)], expected)]))
        assert verdict.status == "failed", verdict
        with pytest.raises(AssertionError, match=said):
            raise AssertionError(verdict.detail)
    lost = judge(made([node("Own", ["x"], ["y"], domain="own")], [X]))
    assert lost.status == "failed" and lost.detail.startswith("UnsupportedOperator")


def test_an_exclusion_excuses_its_own_error_only() -> None:
    row = Exclusion(r"node/test_m.*", r"Wrong: output 0: values differ", "known")
    assert judge(WRONG, [row]) == Verdict("excluded", "known", 0)
    assert judge(RELU, [row]) == Verdict("compiled")
    assert judge(replace(WRONG, name="test_other"), [row]).status == "failed"
    assert judge(replace(RELU, sets=[([X], [X[:2]])]), [row]).status == "failed"


def test_compare() -> None:
    compare("y", np.float32([np.nan, 1]), np.float32([np.nan, 1.0005]), 1e-3, 0)
    compare("y", np.float16([1]), np.float16([1 + 2**-10]), 1e-3, 0)
    compare("y", np.array(["a"], object), np.array(["a"]), 1e-3, 0)
    compare("y", [X, [X]], [X, [X]], 1e-3, 0)
    for found, expected in (
        (np.float32([1]), np.float32([1.002])),
        (np.float16([1]), np.float16([1 + 2 * 2**-10])),
        (np.array(["a"], object), np.array(["b"])),
        ([X], [X, X]),
        ([X], [X + 1]),
        (np.array([0]), np.array([1])),
    ):
        with pytest.raises(Wrong):
            compare("y", found, expected, 1e-3, 0)


def clumsy(case: Case) -> Verdict:
    """A judge that dies at one test and never comes back from another."""
    if case.name == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if case.name == "hang":
        time.sleep(600)
    return Verdict("compiled", str(os.getpid()))


@pytest.mark.parametrize("workers", [1, 2, 9])
def test_a_crash_and_a_hang_cost_one_test_each(workers: int) -> None:
    names = ["a", "crash", "b", "hang", "c", "d"]
    found = dict(run({n: replace(RELU, name=n) for n in names}, clumsy, workers, limit=1.0))
    assert sorted(found) == sorted(names)
    assert found["crash"] == Verdict("failed", "crash: the process ended with -9")
    assert found["hang"] == Verdict("failed", "hang: no answer within 1 seconds")
    assert all(found[n].status == "compiled" for n in "abcd")
    assert str(os.getpid()) not in {found[n].detail for n in "abcd"}


def test_report() -> None:
    cases = {"node/test_mine": RELU, "node/test_wrong": replace(WRONG, name="test_wrong")}
    results = {n: judge(c) for n, c in cases.items()}
    text = report(cases, results, {"onnx": "1"})
    rows = [line.split() for line in text.splitlines()]
    assert ["Mine", "2", "1", "-", "-", "1"] in rows
    assert "  node/test_wrong: Wrong: output 0: values differ" in text
    found = json.loads(json.dumps(as_json(cases, results, {"onnx": "1"})))
    assert found["operators"] == {"Mine": {"compiled": 1, "breaks": 0, "excluded": 0, "failed": 1}}
    assert found["tests"]["node/test_mine"] == ["compiled"]
    assert unused_exclusions(results) == tuple(row.reason for row in EXCLUSIONS)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "results.json"
    asked = ["--kind", "pytorch-operator", "--workers", "1", "--json", str(kept), "operator_mm$"]
    assert main(asked) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["pytorch-operator", "1", "1", "-", "-", "-"] in rows
    assert json.loads(kept.read_text())["tests"] == {
        "pytorch-operator/test_operator_mm": ["compiled"]
    }
    assert main(["--kind", "simple", "no_such_test"]) == 2


def test_the_readme_tells_what_was_recorded() -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    statuses = [verdict[0] for verdict in recorded["tests"].values()]
    assert recorded["all"] == {status: statuses.count(status) for status in STATUSES}
    assert recorded["all"]["failed"] == 0
    reasons = {row.reason for row in EXCLUSIONS}
    assert {v[1] for v in recorded["tests"].values() if v[0] == "excluded"} == reasons
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert table_sentence(recorded) in readme

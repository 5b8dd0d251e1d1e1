"""The graders are graded: model solutions pass, starters fail, known-bad ones for their reason."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler
from lessons import checks
from lessons.checks import Grader, Outcome, SubmissionError, check, read
from lessons.form import FOLDER, lesson, written
from ui.language import sentences

EXERCISES = [(slug, name) for slug in written() for name in lesson(slug).exercises]
FILES = [
    (slug, name, path)
    for slug, name in EXERCISES
    for path in sorted((FOLDER / slug / "submissions" / name).glob("*.json"))
]


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


MODEL = load(FOLDER / "gop-toan-tu" / "submissions" / "bat_tat" / "model.json")["submission"]


@pytest.mark.parametrize(("slug", "name"), EXERCISES)
def test_every_exercise_has_a_model_a_starter_and_known_bad_ones(slug: str, name: str) -> None:
    names = [path.stem for s, n, path in FILES if (s, n) == (slug, name)]
    assert {"model", "starter"} < set(names) and any(n.startswith("bad_") for n in names)


@pytest.mark.parametrize(("slug", "name", "path"), FILES, ids=[p.stem for _, _, p in FILES])
def test_a_submission_fails_for_its_reason_and_no_other(slug: str, name: str, path: Path) -> None:
    content = load(path)
    heard: list[Outcome] = []
    report = check(slug, name, content["submission"], told=heard.append)
    failed = {o.check: o.message for o in report.outcomes if not o.passed}
    assert failed == (content["fails"] or {})
    assert report.passed == (path.stem == "model")
    assert tuple(heard) == report.outcomes
    assert [o.check for o in heard] == [c for c, _ in lesson(slug).exercises[name].checks]
    for outcome in report.outcomes:
        assert outcome.message in sentences("vi")


def test_every_check_fails_for_some_known_bad_submission_or_a_planted_fault() -> None:
    failed = {c for _, _, path in FILES for c in (load(path)["fails"] or {})}
    assert failed == {c for s, n in EXERCISES for c, _ in lesson(s).exercises[n].checks}


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine whose results are off by a hair more than the tolerance."""
    data = lesson("gop-toan-tu")
    grader = Grader(data, read(MODEL, data), threading.Event())
    numbers = {"rtol": 1e-5, "atol": 1e-6, "inputs": 3}
    assert grader.outcome("reference", numbers).passed
    engine = grader.builds["on"].engine
    right = engine.run
    shift = 1e-3
    monkeypatch.setattr(
        engine, "run",
        lambda inputs: {n: np.asarray(a) + np.float32(shift) for n, a in right(inputs).items()},
    )  # fmt: skip
    outcome = grader.outcome("reference", numbers)
    assert (outcome.passed, outcome.message) == (False, "exercise.reference.on")
    assert outcome.parameters["error"] == pytest.approx(shift, rel=0.01)
    monkeypatch.setattr(
        engine, "run", lambda inputs: {n: np.full_like(a, np.nan) for n, a in right(inputs).items()}
    )
    assert not grader.outcome("reference", numbers).passed


def test_inputs_have_no_symmetry() -> None:
    data = lesson("gop-toan-tu")
    grader = Grader(data, read(MODEL, data), threading.Event())
    found = list(checks._asymmetric(grader.builds["on"], 3))
    shapes = {inputs["X"].shape for inputs in found}
    assert len(shapes) == 3 and all(r != c for r, c in shapes)
    for inputs in found:
        assert not np.array_equal(inputs["X"], inputs["R"])
        assert abs(float(inputs["X"].mean())) > 0.01


def with_row(**changes: object) -> dict[str, object]:
    return {**MODEL, "shapes": [{**MODEL["shapes"][0], **changes}]}


@pytest.mark.parametrize(
    ("submission", "text"),
    [
        (None, "object"), ([], "object"), ({**MODEL, "off": 3}, "pipeline"),
        ({**MODEL, "on": "x" * 5000}, "pipeline"), ({**MODEL, "shapes": {}}, "list"),
        ({**MODEL, "shapes": [MODEL["shapes"][0]] * 13}, "at most 12"),
        ({**MODEL, "shapes": [3]}, "object"), (with_row(sizes={"r": 4}), "sizes r, c"),
        (with_row(sizes={"r": 4, "c": 5, "n": 3}), "n = 3"),
        (with_row(sizes={"r": 0, "c": 5}), "from 1 to"),
        (with_row(sizes={"r": 4, "c": 99999}), "from 1 to"),
        (with_row(sizes={"r": 4, "c": True}), "no size"), (with_row(off="704"), "number of bytes"),
        (with_row(on=-1), "from 0"), (with_row(on=True), "number of bytes"),
        (with_row(on=float("inf")), "from 0"), (with_row(on=float("nan")), "from 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_graded_says_why(submission: object, text: str) -> None:
    with pytest.raises(SubmissionError, match=text):
        check("gop-toan-tu", "bat_tat", submission)


def test_unknown_exercises_and_a_cancel() -> None:
    with pytest.raises(KeyError):
        check("nowhere", "bat_tat", MODEL)
    with pytest.raises(KeyError):
        check("gop-toan-tu", "nothing", MODEL)
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(compiler.Cancelled):
        check("gop-toan-tu", "bat_tat", MODEL, cancel=cancel)


def test_other_launches_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    data = lesson("gop-toan-tu")
    other = replace(
        data, exercises={"bat_tat": replace(data.exercises["bat_tat"], checks=(
            ("launches", {"off": 4, "on": 1}),
        ))},
    )  # fmt: skip
    monkeypatch.setattr(checks, "lesson", lambda slug, folder: other)
    (outcome,) = check("gop-toan-tu", "bat_tat", MODEL).outcomes
    assert not outcome.passed and outcome.parameters == {"found": 5, "wanted": 4}

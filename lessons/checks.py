"""Exercises, graded by what the compiler did with a submission: never by comparing texts.

    check("gop-toan-tu", "bat_tat", submission) -> Report, one outcome a check

A submission of `switch_pass` is
    {"off": PIPELINE, "on": PIPELINE,                     what the learner ran, null: not yet
     "shapes": [{"sizes": {"r": 512, "c": 768}, "off": BYTES, "on": BYTES}, …]}
and its checks are
    launches    kernels launched by each of the two compiles
    floor       the bytes that the learner computed are those of the compiles, at every shape
    reference   both results are near the float64 reference, on inputs of no symmetry

Outcomes carry a message id and parameters; the sentences stand in `ui/translations`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np

import compiler
from lessons import arith
from lessons.form import FOLDER, Lesson, lesson
from lessons.prose import Json
from sample_models import sample

LONGEST = 4000
"""Characters of a pipeline."""
MOST_SHAPES = 12
LARGEST_BYTES = 2**53
STATES = ("off", "on")
SHAPES = ((3, 5), (17, 40), (64, 33), (1, 7), (29, 2))
"""Sizes of the inputs that results are compared on, given to the symbols in their order."""

Parameters = Mapping[str, str | int | float]


class SubmissionError(Exception):
    """A submission that cannot be graded: it is not of the form."""


@dataclass(frozen=True)
class Outcome:
    """One check, with the message id that says how it went."""

    check: str
    passed: bool
    message: str
    parameters: Parameters = field(default_factory=dict[str, "str | int | float"])

    def to_json(self) -> dict[str, Json]:
        return {
            "check": self.check, "passed": self.passed, "message": self.message,
            "parameters": dict(self.parameters),
        }  # fmt: skip


@dataclass(frozen=True)
class Report:
    """All checks in order. `compiled` counts the kernels that were compiled for them."""

    outcomes: tuple[Outcome, ...]
    compiled: int

    @property
    def passed(self) -> bool:
        return all(o.passed for o in self.outcomes)

    def to_json(self) -> dict[str, Json]:
        return {
            "passed": self.passed, "checks": [o.to_json() for o in self.outcomes],
            "compiled": self.compiled,
        }  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """A row of the learner's ledger: bytes computed for each state at these sizes."""

    sizes: Mapping[str, int]
    bytes: Mapping[str, float | None]


@dataclass(frozen=True)
class Submission:
    """`pipelines` by state; None where the learner has not run it."""

    pipelines: Mapping[str, str | None]
    shapes: tuple[Shape, ...]


def check(
    slug: str,
    exercise: str,
    submission: object,
    *,
    told: Callable[[Outcome], None] | None = None,
    cancel: threading.Event | None = None,
    folder: Path = FOLDER,
) -> Report:
    """Grade a submission. `told` hears each outcome as it comes.

    KeyError for a lesson or an exercise that is not there, SubmissionError for a submission that
    is not of the form, compiler.Cancelled. What the compiler refuses is an outcome, not an error.
    """
    data = lesson(slug, folder)
    wanted = data.exercises[exercise]
    grader = Grader(data, read(submission, data), cancel or threading.Event())
    outcomes: list[Outcome] = []
    for name, numbers in wanted.checks:
        grader.stop_if_unwanted()
        outcome = grader.outcome(name, numbers)
        outcomes.append(outcome)
        if told is not None:
            told(outcome)
    return Report(tuple(outcomes), grader.compiled)


# ---- a submission --------------------------------------------------------------------------------


def read(value: object, data: Lesson) -> Submission:
    """A submission of `switch_pass`. SubmissionError names what is wrong in it."""
    fields = _mapping("submission", value)
    pipelines: dict[str, str | None] = {}
    for state in STATES:
        text = fields.get(state)
        if text is not None and (not isinstance(text, str) or len(text) > LONGEST):
            raise SubmissionError(f"{state} is the text of a pipeline")
        pipelines[state] = text
    rows = fields.get("shapes", [])
    if not isinstance(rows, list) or len(cast(list[object], rows)) > MOST_SHAPES:
        raise SubmissionError(f"shapes is a list of at most {MOST_SHAPES}")
    return Submission(pipelines, tuple(_shape(row, data) for row in cast(list[object], rows)))


def _shape(value: object, data: Lesson) -> Shape:
    fields = _mapping("a shape", value)
    sizes: dict[str, int] = {}
    for name, size in _mapping("sizes", fields.get("sizes")).items():
        most = sample(data.model).maximum.get(name)
        if most is None or not isinstance(size, int) or isinstance(size, bool):
            raise SubmissionError(f"{name} = {size!r} is no size of {data.model}")
        if not 1 <= size <= most:
            raise SubmissionError(f"{name} is from 1 to {most}, not {size}")
        sizes[name] = size
    if set(sizes) != set(data.sizes):
        raise SubmissionError(f"a shape has the sizes {', '.join(data.sizes)}")
    found: dict[str, float | None] = {}
    for state in STATES:
        number = fields.get(state)
        if number is None:
            found[state] = None
        elif isinstance(number, bool) or not isinstance(number, int | float):
            raise SubmissionError(f"{state} is a number of bytes, not {number!r}")
        elif not 0 <= number <= LARGEST_BYTES:
            raise SubmissionError(f"{state} is from 0 to {LARGEST_BYTES} bytes")
        else:
            found[state] = float(number)
    return Shape(sizes, found)


def _mapping(what: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise SubmissionError(f"{what} is an object")
    return cast(Mapping[str, object], value)


# ---- the checks ----------------------------------------------------------------------------------


@dataclass
class Grader:
    """Compiles what a submission names, once each, and answers its checks."""

    data: Lesson
    submission: Submission
    cancel: threading.Event
    compiled: int = 0

    def stop_if_unwanted(self) -> None:
        if self.cancel.is_set():
            raise compiler.Cancelled

    def outcome(self, name: str, numbers: Mapping[str, float]) -> Outcome:
        """How one check goes."""
        try:
            absent = [s for s in STATES if self.submission.pipelines[s] is None]
            if absent:
                return Outcome(name, False, f"exercise.absent.{absent[0]}")
            checks = {
                "launches": self._launches, "floor": self._floor, "reference": self._reference,
            }  # fmt: skip
            return checks[name](numbers)
        except compiler.CompilerError as error:
            parameters: dict[str, str | int | float] = {
                k: v if isinstance(v, str | int | float) else str(v)
                for k, v in error.parameters.items()
            }
            return Outcome(name, False, error.message, parameters)

    @cached_property
    def builds(self) -> Mapping[str, compiler.Built]:
        """State -> its compile. Raises CompilerError."""
        found: dict[str, compiler.Built] = {}
        for state, pipeline in self.submission.pipelines.items():
            built = compiler.compile(
                sample(self.data.model).path, pipeline=pipeline or None, cancel=self.cancel
            )
            self.compiled += len(built.module.kernels)
            found[state] = built
        return found

    def _launches(self, numbers: Mapping[str, float]) -> Outcome:
        found = {state: _explained(built, "launches") for state, built in self.builds.items()}
        wanted = {state: int(numbers[state]) for state in STATES}
        for state in STATES:
            if found[state] != wanted[state]:
                parameters = {"found": cast(int, found[state]), "wanted": wanted[state]}
                return Outcome("launches", False, f"exercise.launches.{state}", parameters)
        return Outcome("launches", True, "exercise.launches.right", wanted)

    def _floor(self, numbers: Mapping[str, float]) -> Outcome:
        needed, tolerance = int(numbers["sizes"]), numbers["tolerance"]
        shapes = self.submission.shapes
        different = {tuple(sorted(s.sizes.items())) for s in shapes}
        if len(different) < needed:
            parameters = {"found": len(different), "wanted": needed}
            return Outcome("floor", False, "exercise.floor.few", parameters)
        formulas = {
            state: str(_explained(built, "floor_formula")) for state, built in self.builds.items()
        }
        for row, shape in enumerate(shapes, start=1):
            for state in STATES:
                value = shape.bytes[state]
                if value is None:
                    return Outcome("floor", False, f"exercise.floor.empty.{state}", {"row": row})
                right = arith.value_of(formulas[state], shape.sizes)
                assert right is not None
                if abs(value - right) > tolerance * right:
                    times = value / right
                    parameters = {"row": row, "times": round(times, 3)}
                    return Outcome("floor", False, f"exercise.floor.{state}", parameters)
        return Outcome("floor", True, "exercise.floor.right", {"found": len(different)})

    def _reference(self, numbers: Mapping[str, float]) -> Outcome:
        rtol, atol, wanted = numbers["rtol"], numbers["atol"], int(numbers["inputs"])
        for state, built in self.builds.items():
            for inputs in _asymmetric(built, wanted):
                self.stop_if_unwanted()
                right = compiler.reference(built.model, inputs).outputs
                for name, array in built.engine.run(inputs).items():
                    found = np.asarray(array, np.float64)
                    exact = np.asarray(right[name], np.float64)
                    distance = np.abs(found - exact)
                    if not bool((distance <= atol + rtol * np.abs(exact)).all()):
                        parameters = {"name": name, "error": float(np.max(distance))}
                        return Outcome(
                            "reference", False, f"exercise.reference.{state}", parameters
                        )
        return Outcome("reference", True, "exercise.reference.right", {"found": wanted})


def _explained(built: compiler.Built, key: str) -> Json:
    """`launches` or `floor_formula` of the compile itself."""
    found = compiler.explanation(built)[key]
    assert isinstance(found, Mapping)
    return found["fused"]


def _asymmetric(built: compiler.Built, count: int) -> Iterator[dict[str, np.ndarray]]:
    """`count` inputs of shapes that differ in every dimension and values of no symmetry."""
    signature = built.engine.signature
    for seed, values in enumerate(SHAPES[:count]):
        random = np.random.default_rng(seed)
        sizes = _given(values, [s.name for s in signature.symbols])
        yield {
            name: (random.standard_normal([d.evaluate(sizes) for d in kind.dims]) + 0.3).astype(
                np.float32
            )
            for name, kind in signature.inputs
        }


def _given(values: Sequence[int], names: Sequence[str]) -> Mapping[str, int]:
    return {name: values[k % len(values)] for k, name in enumerate(names)}

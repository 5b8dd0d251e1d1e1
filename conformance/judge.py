"""What became of one test: compiled, with breaks, excluded or failed.

A test is run whatever is said of it. An exclusion names the tests and the very error that it
excuses; a test that fails in any other way has failed, and one that passes has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.backend import prepare
from conformance.cases import Case
from conformance.exclusions import EXCLUSIONS, Exclusion

COMPILED, BREAKS, EXCLUDED, FAILED = STATUSES = ("compiled", "breaks", "excluded", "failed")

BFLOAT16_RTOL = 2.0**-6
"""Two units in the last place, which the suite's own runner allows for bfloat16."""


@dataclass(frozen=True)
class Verdict:
    """`status`, and `detail`: why it broke, is excluded or failed. `exclusion`: which row."""

    status: str
    detail: str = ""
    exclusion: int | None = None


class Wrong(AssertionError):
    """A result that is not what the test expects."""


def judge(case: Case, exclusions: Sequence[Exclusion] = EXCLUSIONS, **options: str) -> Verdict:
    """Compile the test's model, run its sets of inputs, compare. `options`: those of `prepare`."""
    try:
        breaks = run(case, options)
    except Exception as error:  # whatever it is, it belongs to this test
        said = f"{type(error).__name__}: {error}"
        for k, row in enumerate(exclusions):
            if row.excuses(f"{case.kind}/{case.name}", said):
                return Verdict(EXCLUDED, row.reason, k)
        return Verdict(FAILED, said)
    return Verdict(BREAKS, breaks) if breaks else Verdict(COMPILED)


def run(case: Case, options: dict[str, str]) -> str:
    """Run the test; the reasons of its graph breaks. Raises Wrong, and whatever the compiler
    raises."""
    model, sets = case.read()
    rep = prepare(model, **options)
    for inputs, expected in sets:
        found = rep.run(inputs)
        if len(found) != len(expected):
            raise Wrong(f"{len(found)} outputs, expected {len(expected)}")
        for k, (left, right) in enumerate(zip(found, expected, strict=True)):
            compare(f"output {k}", left, right, case.rtol, case.atol)
    return "; ".join(
        dict.fromkeys(f"{b.op}: {b.message}" for b in rep.built.trace.breaks())
    )


def compare(what: str, found: object, expected: object, rtol: float, atol: float) -> None:
    """Wrong unless both are the same kind of value, of one dtype and shape, equal within the
    tolerance; NaN equals NaN."""
    if expected is None or isinstance(expected, list):
        if type(found) is not type(expected):
            raise Wrong(f"{what}: kind is {type(found).__name__}, not {type(expected).__name__}")
        if isinstance(expected, list) and isinstance(found, list):
            if len(found) != len(expected):
                raise Wrong(f"{what}: {len(found)} elements, not {len(expected)}")
            for k, (left, right) in enumerate(zip(found, expected, strict=True)):
                compare(f"{what}[{k}]", left, right, rtol, atol)
        return
    left, right = np.asarray(found), np.asarray(expected)
    if left.shape != right.shape:
        raise Wrong(f"{what}: shape is {left.shape}, not {right.shape}")
    if right.dtype.kind in "OSUT":
        if left.astype(object).tolist() != right.astype(object).tolist():
            raise Wrong(f"{what}: texts differ")
        return
    if left.dtype != right.dtype:
        raise Wrong(f"{what}: dtype is {left.dtype}, not {right.dtype}")
    if left.dtype.name == "bfloat16":
        rtol = max(rtol, BFLOAT16_RTOL)
    if left.dtype.kind == "V" or left.dtype.name == "bfloat16":
        left, right = left.astype(np.float32), right.astype(np.float32)
    try:
        np.testing.assert_allclose(left, right, rtol=rtol, atol=atol)
    except AssertionError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise Wrong(f"{what}: values differ: {'; '.join(lines[1:5])}") from error

"""Every error that the code raises has a sentence and a way out, and can be formatted."""

from __future__ import annotations

import ast
import pickle
import string
from pathlib import Path

import pytest

from compiler import errors
from compiler.errors import TEXTS, CompilerError, ModelError, PipelineError, UnsupportedOperator

ROOT = Path(__file__).parent.parent
RAISED = {"ModelError", "PinError", "ForceError", "InputsError"}


def calls() -> list[tuple[str, str, set[str]]]:
    """(file, message id, keywords) of every `SomeError("some.id", …)` in the compiler."""
    found: list[tuple[str, str, set[str]]] = []
    for path in sorted((ROOT / "compiler").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in RAISED
                and node.args
                and isinstance(node.args[0], ast.Constant)
            ):
                given = {k.arg for k in node.keywords if k.arg is not None}
                found.append((path.name, str(node.args[0].value), given))
    return found


def test_calls_are_found() -> None:
    assert len(calls()) > 20


@pytest.mark.parametrize(("file", "message", "given"), calls())
def test_every_error_formats(file: str, message: str, given: set[str]) -> None:
    assert message in TEXTS, f"{file} raises {message}"
    wanted = {
        name.partition("!")[0] for text in TEXTS[message]
        for _, name, _, _ in string.Formatter().parse(text) if name
    }  # fmt: skip
    assert wanted <= given, f"{file}: {message} needs {wanted - given}"


def test_sentences_end_once() -> None:
    for problem, remedy in TEXTS.values():
        assert problem and not problem.endswith(".") and remedy.endswith(".")


def test_an_error_says_where_what_and_how() -> None:
    error = ModelError("model.undefined-value", file="m.onnx", node="#1 Add", value="w")
    assert str(error) == (
        "m.onnx, node #1 Add: reads the value 'w', which nothing defines. Check the node's inputs: "
        "an input or a weight of that name is missing."
    )
    assert (error.file, error.node, error.remedy_id) == (
        "m.onnx", "#1 Add", "model.undefined-value.remedy",
    )  # fmt: skip
    assert str(CompilerError("an.unknown-id")).startswith("an.unknown-id")


def test_errors_survive_a_process_boundary() -> None:
    for error in (
        UnsupportedOperator("#0 X", "far", op="X", reason="unknown", file="m"),
        PipelineError("pipeline.word", at=3),
        ModelError("model.missing", file="m"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error)
        assert again.parameters == error.parameters
    assert issubclass(errors.GuardError, ValueError)

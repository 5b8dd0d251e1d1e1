"""The page's worker: exercises beside what the compiler's worker does."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from compiler.worker import serve
from lessons.form import FOLDER
from ui.worker import exercise

MODEL = json.loads(
    (FOLDER / "gop-toan-tu" / "submissions" / "bat_tat" / "model.json").read_text(encoding="utf-8")
)["submission"]


def answers(*requests: object) -> list[dict[str, Any]]:
    """What the worker writes for requests, without its `ready`."""
    out = StringIO()
    serve(StringIO("".join(f"{json.dumps(r)}\n" for r in requests)), out, {"exercise": exercise})
    ready, *rest = (json.loads(line) for line in out.getvalue().splitlines())
    assert ready == {"event": "ready"}
    return rest


def asked(**changes: object) -> dict[str, object]:
    return {
        "id": 1, "command": "exercise", "lesson": "gop-toan-tu", "exercise": "bat_tat",
        "submission": MODEL, **changes,
    }  # fmt: skip


def test_an_exercise_is_told_check_by_check() -> None:
    *progress, result = answers(asked())
    assert [p["check"]["check"] for p in progress] == ["launches", "floor", "reference"]
    assert [(p["event"], p["phase"], p["done"]) for p in progress] == [
        ("progress", "check", k) for k in (1, 2, 3)
    ]
    assert result["event"] == "result" and result["passed"] is True and result["compiled"] == 6
    assert result["checks"] == [p["check"] for p in progress]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"lesson": "nowhere"}, "nowhere"), ({"exercise": "nothing"}, "nothing"),
        ({"submission": 3}, "object"), ({"lesson": None}, "None"),
    ],
)  # fmt: skip
def test_what_cannot_be_graded_is_an_error_of_the_request(
    changes: dict[str, object], text: str
) -> None:
    (answer,) = answers(asked(**changes))
    assert answer["event"] == "error" and answer["error"]["message"] == "error.request"
    assert text in answer["error"]["text"]


def test_unknown_commands_name_those_that_there_are() -> None:
    (answer,) = answers({"id": 2, "command": "dance"})
    assert "exercise" in answer["error"]["text"] and answer["id"] == 2


def test_it_compiles_as_the_compilers_own_does(tmp_path: Path) -> None:
    model = FOLDER.parent / "sample_models" / "bias_relu.onnx"
    request = {"id": 3, "command": "compile", "model": str(model), "blobs": str(tmp_path)}
    assert answers(request)[-1]["event"] == "result"

"""What an attempt to break the house found: wrong orders, wrong files, sizes beyond memory."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from onnx import TensorProto, helper
from starlette.requests import Request

import compiler
from compiler.__main__ import main
from compiler.errors import ModelError, PipelineError
from compiler.frontend.reference import reference
from compiler.measure.inputs import read_inputs
from compiler.pipeline import DEFAULT, parse_pipeline, print_pipeline
from compiler.runtime.binding import OutputError
from tests.whole import ROOT, built, model_of
from ui.routes import events, from_elsewhere
from ui.supervisor import Job

PASSES = print_pipeline(DEFAULT).split(",")


@pytest.mark.parametrize("name", ["collapse-axes", "stream-stores", "order-steps", "cse", "dce"])
@pytest.mark.parametrize("behind", ["plan-memory", "emit", "build"])
def test_nothing_changes_what_a_plan_describes(name: str, behind: str) -> None:
    order = [p for p in PASSES if p != name]
    order.insert(order.index(behind) + 1, name)
    with pytest.raises(PipelineError, match=f"{name} stands before plan-memory"):
        parse_pipeline(",".join(order))


def test_an_out_that_is_none_is_refused() -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(OutputError, match="'y' is a NoneType, expected an array"):
        built("softmax_spelled_out").engine.run({"x": x}, out=cast(Any, {"y": None}))


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({"end": -5}, []), ({"start": -9, "end": -2}, [2]), ({"start": 9}, []),
        ({"start": 2, "end": 1}, []), ({"start": -1, "end": 9}, [4]),
    ],
)  # fmt: skip
def test_limits_of_a_shape_beyond_its_rank(limits: dict[str, int], wanted: list[int]) -> None:
    x = np.zeros((2, 3, 4), np.float32)
    graph = helper.make_graph(
        [helper.make_node("Shape", ["x"], ["y"], **limits)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["a", "b", "c"])],
        [helper.make_empty_tensor_value_info("y")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    for pipeline in ("default", "default,partition-fallback{force=[y]}"):
        engine = compiler.compile(model.SerializeToString(), pipeline=pipeline).engine
        assert engine.run({"x": x})["y"].tolist() == wanted
    assert reference(model_of(model), {"x": x}).outputs["y"].tolist() == wanted


def test_inputs_that_are_cut_off(tmp_path: Path) -> None:
    whole = io.BytesIO()
    np.savez(whole, x=np.zeros(100, np.float32))
    path = tmp_path / "x.npz"
    for kept in (0, 10, 300):
        path.write_bytes(whole.getvalue()[:kept])
        with pytest.raises(ModelError, match=r"x\.npz: the inputs cannot be read"):
            read_inputs(path)


@pytest.mark.parametrize("size", ["1000000", "1099511627776"])
@pytest.mark.parametrize("command", ["run", "measure"])
def test_sizes_beyond_memory(
    command: str, size: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--size", f"r={size}", "--size", f"c={size}"]
    assert main([command, "five_op_chain", *sizes]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: not enough memory: ") and said.count("\n") == 1


def test_a_size_of_five_thousand_digits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "five_op_chain", "--size", "r=" + "9" * 5000]) == 1
    assert capsys.readouterr().err.startswith("error: --size is NAME=NUMBER")


@pytest.mark.parametrize(
    ("origin", "elsewhere"),
    [
        ("http://here:1", False), ("https://here:1", False), ("http://here:2", True),
        ("null", True), ("http://[::1", True), ("", True),
    ],
)  # fmt: skip
def test_an_origin_of_any_form(origin: str, elsewhere: bool) -> None:
    headers = [(b"host", b"here:1"), (b"origin", origin.encode())]
    request = Request({"type": "http", "method": "POST", "headers": headers})
    assert from_elsewhere(request) is elsewhere


def test_events_of_a_finished_job_end_wherever_one_begins() -> None:
    async def told(start: int) -> list[str]:
        return [text async for text in events(job, start)]

    def heard(start: int) -> int:
        return len(asyncio.run(asyncio.wait_for(told(start), 5)))

    job = Job("t", {}, [{"event": "progress"}, {"event": "result"}])
    # In a thread of its own: the browser tests keep this thread's event loop running.
    with ThreadPoolExecutor(1) as thread:
        assert list(thread.map(heard, (0, 1, 2, 999))) == [2, 1, 0, 0]
    assert job.listeners == 0


def test_a_reader_that_leaves_early_hears_nothing() -> None:
    command = [sys.executable, "-m", "compiler", "passes", "five_op_chain"]
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as gone:
        done = subprocess.run(command, cwd=ROOT, stdout=gone, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"")

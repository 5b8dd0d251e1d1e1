"""The worker's protocol: JSON lines in, JSON lines out, whatever the lines hold."""

import hashlib
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest
from onnx import TensorProto

from compiler.driver import TARGETS, read_pipeline
from compiler.errors import ModelError
from compiler.ir.machine import TEST_MACHINE
from compiler.listings import BINS
from compiler.measure.report import baseline
from compiler.pipeline import print_pipeline
from compiler.worker import Worker, error_json, finite, read_options
from sample_models import sample
from tests.frontend.models import info, model, node

ROOT = Path(__file__).resolve().parents[1]


class Client:
    """A worker behind pipes, in a thread of this process."""

    def __init__(self) -> None:
        read, write = os.pipe()
        answers_read, answers_write = os.pipe()
        self.requests = os.fdopen(write, "w", encoding="utf-8")
        self._in = os.fdopen(read, encoding="utf-8")
        self._out = os.fdopen(answers_write, "w", encoding="utf-8")
        self._answers = os.fdopen(answers_read, encoding="utf-8")
        self.found: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        threading.Thread(target=self._read, daemon=True).start()

    def _serve(self) -> None:
        Worker(self._in, self._out).serve()
        self._out.close()

    def _read(self) -> None:
        for line in self._answers:
            self.found.put(json.loads(line))

    def send(self, request: object) -> None:
        text = request if isinstance(request, str) else json.dumps(request)
        self.requests.write(text + "\n")
        self.requests.flush()

    def until_last(self, id: object) -> list[dict[str, Any]]:
        """The answers to a request, up to the one that ends it."""
        answers: list[dict[str, Any]] = []
        while not answers or answers[-1]["event"] not in ("result", "error", "cancelled"):
            answer = self.found.get(timeout=120)
            if answer.get("id") == id:
                answers.append(answer)
        return answers

    def nothing(self) -> bool:
        try:
            self.found.get(timeout=0.05)
        except Empty:
            return True
        return False


@pytest.fixture
def client() -> Iterator[Client]:
    client = Client()
    yield client
    client.send({"command": "quit"})
    client.thread.join(timeout=20)
    assert not client.thread.is_alive()


def compile_request(id: int, name: str, blobs: Path, **options: object) -> dict[str, object]:
    return {
        "id": id,
        "command": "compile",
        "model": str(sample(name).path),
        "options": options,
        "blobs": str(blobs),
    }


def read(folder: Path, digest: str) -> dict[str, Any]:
    """A blob, which must be called what its content says."""
    data = (folder / digest).read_bytes()
    assert hashlib.sha256(data).hexdigest() == digest
    return json.loads(data)


def test_a_compile_tells_every_pass_and_leaves_its_blobs(client: Client, tmp_path: Path) -> None:
    client.send(compile_request(1, "softmax_spelled_out", tmp_path))
    *progress, result = client.until_last(1)
    passes = [p for p in progress if p["phase"] == "pass"]
    assert [p["done"] for p in passes] == list(range(1, passes[0]["of"] + 1))
    assert passes[0]["name"] == "import" and passes[-1]["name"] == "build"
    assert next(p for p in passes if p["name"] == "fuse")["after"] == 1

    trace, history = read(tmp_path, result["trace"]), read(tmp_path, result["history"])
    assert trace["schema"] == history["schema"] == 1
    assert [p["name"] for p in trace["passes"]] == [p["name"] for p in passes]
    for told, shown in zip(trace["passes"], history["passes"], strict=True):
        assert (told["name"], told["level"]) == (shown["name"], shown["level"])
        assert len(told["events"]) == len(shown["steps"])
        assert told["changed"] == any(shown["steps"])
        assert told["drift"] is None
    assert any("fused" in str(c["lines"]) for c in history["chunks"])
    (named,) = result["kernels"]
    kernel = read(tmp_path, named["blob"])
    assert kernel["name"] == named["name"]
    assert "define" in kernel["llvm"] and kernel["assembly"] and not kernel["ptx"]
    assert any("def " in line["text"] for line in kernel["source"])
    plan = read(tmp_path, result["plan"])
    assert [s["kind"] for s in plan["steps"]] == ["kernel"]
    assert plan["steps"][0]["name"] == kernel["name"]
    assert read(tmp_path, result["params"]) == {"params": []}
    assert result["compiled"] == 1 and result["milliseconds"] > 0
    assert result["default"] == read(tmp_path, result["trace"])["pipeline"]
    assert not list(tmp_path.glob("*.part"))


def test_the_imported_graph_is_there_before_anything_is_built(
    client: Client, tmp_path: Path
) -> None:
    client.send(compile_request(1, "mlp", tmp_path))
    *progress, result = client.until_last(1)
    (told,) = (p for p in progress if "history" in p)
    assert (told["name"], told["done"]) == ("import", 1) and told is progress[0]
    early, whole = read(tmp_path, told["history"]), read(tmp_path, result["history"])
    trace, last = read(tmp_path, told["trace"]), read(tmp_path, result["trace"])
    (first,), shown = trace["passes"], last["passes"][0]
    assert first["events"] == shown["events"] and trace["pipeline"] == last["pipeline"]
    assert [p["name"] for p in early["passes"]] == ["import"]
    assert early["chunks"] == whole["chunks"][: len(early["chunks"])]
    assert (early["first"], early["passes"][0]) == (whole["first"], whole["passes"][0])
    params = read(tmp_path, result["params"])["params"]
    assert params and all(len(p["histogram"]) == BINS for p in params)


def test_a_compile_that_fails_leaves_how_far_it_got(client: Client, tmp_path: Path) -> None:
    forced = "default,partition-fallback{force=[nowhere]}"
    client.send(compile_request(1, "mlp", tmp_path, pipeline=forced))
    end = client.until_last(1)[-1]
    assert end["event"] == "error" and end["error"]["message"] == "force.unknown"
    assert (end["pass"], end["level"]) == ("partition-fallback", "onnx")
    trace, history = read(tmp_path, end["trace"]), read(tmp_path, end["history"])
    assert [p["name"] for p in trace["passes"]] == ["import", "bind-dims", "infer-shapes"]
    assert [p["name"] for p in history["passes"]] == [p["name"] for p in trace["passes"]]
    assert (trace["model"], trace["pipeline"].split(",")[-1]) == ("mlp", "build")


def test_a_compile_that_fails_before_its_first_pass_leaves_nothing(
    client: Client, tmp_path: Path
) -> None:
    client.send(compile_request(1, "mlp", tmp_path, pipeline="default,-nonsense"))
    end = client.until_last(1)[-1]
    assert set(end) == {"id", "event", "error"} and not list(tmp_path.iterdir())


def test_op_by_op_is_the_same_pipeline_without_fusion(client: Client, tmp_path: Path) -> None:
    client.send(compile_request(1, "five_op_chain", tmp_path, op_by_op=True))
    result = client.until_last(1)[-1]
    assert len(result["kernels"]) == 5
    pipeline = read(tmp_path, result["trace"])["pipeline"]
    assert pipeline == print_pipeline(baseline(read_pipeline(None)))
    assert len(read(tmp_path, result["plan"])["steps"]) == 5


def test_drift_comes_when_it_is_asked_for(client: Client, tmp_path: Path) -> None:
    client.send(compile_request(1, "softmax_spelled_out", tmp_path, drift=True))
    passes = read(tmp_path, client.until_last(1)[-1]["trace"])["passes"]
    found = {p["name"]: p["drift"] for p in passes if p["drift"] is not None}
    assert found["fuse"]["max_abs"] == 0
    assert all(set(d) >= {"max_abs", "max_ulp", "first"} for d in found.values())


def test_a_gain_is_estimated_for_the_sizes_that_are_told(client: Client, tmp_path: Path) -> None:
    def asked(id: int, **options: object) -> tuple[dict[str, int], float]:
        client.send(compile_request(id, "five_op_chain", tmp_path, **options))
        trace = read(tmp_path, client.until_last(id)[-1]["trace"])
        return trace["assumed"], trace["decisions"][0]["gain"]

    assumed, gain = asked(1)
    assert assumed == sample("five_op_chain").sizes == {"r": 2048, "c": 2048}
    machine = TEST_MACHINE
    assert gain == pytest.approx(8 * 2048 * 2048 / machine.bandwidth + machine.launch)
    assumed, small = asked(2, pin={"c": 16}, sizes={"r": 10})
    assert assumed == {"r": 10}
    assert small == pytest.approx(8 * 10 * 16 / machine.bandwidth + machine.launch)


@pytest.mark.parametrize("name", ["five_op_chain", "mlp", "resnet_tiny"])
def test_a_gpu_must_move_what_a_cpu_must_move(client: Client, tmp_path: Path, name: str) -> None:
    def asked(id: int, target: str) -> tuple[list[Any], Any]:
        client.send(compile_request(id, name, tmp_path, target=target))
        result = client.until_last(id)[-1]
        steps = [s for s in read(tmp_path, result["plan"])["steps"] if s["kind"] != "bind"]
        trace = read(tmp_path, result["trace"])
        assert [s["floor"] for s in steps] == [s["floor"] for s in trace["floors"]["fused"]]
        return [(s["reads"], s["writes"]) for s in steps], trace["floor_formula"]

    if find_spec("numba_cuda") is None:
        pytest.skip("numba-cuda is not installed")
    assert asked(1, "cuda:ptx") == asked(2, "cpu")


def test_bytes_that_no_formula_tells_are_null(client: Client, tmp_path: Path) -> None:
    nodes = [node("Exp", ["x"], ["h"]), node("Reshape", ["h", "s"], ["y"])]
    proto = model(nodes, [info("x", ["n", 4]), info("s", ["q"], TensorProto.INT64)], ["y"])
    path = tmp_path / "reshaped.onnx"
    path.write_bytes(proto.SerializeToString())
    request = {"id": 1, "command": "compile", "model": str(path), "blobs": str(tmp_path)}
    client.send(request)
    result = client.until_last(1)[-1]
    trace = read(tmp_path, result["trace"])
    assert trace["floor_formula"] == {"op_by_op": None, "fused": None}
    (refusal,) = trace["decisions"]
    assert refusal["rule"] == "R1" and refusal["bytes_before"] is refusal["bytes_after"] is None
    assert [s["floor"] for s in trace["floors"]["fused"]] == ["32*n", None, None]
    sizes = {b["name"]: b["size"] for b in read(tmp_path, result["plan"])["buffers"]}
    assert sizes == {"x": "16*n", "s": "8*q", "h": "16*n", "y": None, "y:out": None}
    client.send({**request, "id": 2, "command": "measure"})
    assert client.until_last(2)[-1]["error"]["message"] == "inputs.fitting"


def test_a_target_that_needs_no_gpu_leaves_ptx(client: Client, tmp_path: Path) -> None:
    client.send({"id": 9, "command": "targets"})
    (answer,) = client.until_last(9)
    rows = {t["name"]: t for t in answer["targets"]}
    assert list(rows) == list(TARGETS)
    assert rows["cpu"] == {"name": "cpu", "available": True, "reason": "", "message": ""}
    assert all(bool(t["reason"]) != t["available"] for t in rows.values())
    client.send(compile_request(1, "softmax_spelled_out", tmp_path, target="cuda:ptx"))
    result = client.until_last(1)[-1]
    if rows["cuda:ptx"]["available"]:
        assert read(tmp_path, result["trace"])["target"] == "cuda:ptx"
        (named,) = result["kernels"]
        ptx = read(tmp_path, named["blob"])["ptx"]
        assert any(".entry" in line["text"] for line in ptx)
        told = [line["text"].split()[0] for line in ptx if line["origins"]]
        assert "ex2.approx.ftz.f32" in told or "fma.rn.f32" in told, "instructions know their ops"
        assert not any(str(ROOT) in line["text"] for line in ptx)
    else:
        assert result["event"] == "error" and result["error"]["remedy"]


def test_the_options_reach_the_compiler(client: Client, tmp_path: Path) -> None:
    pipeline = "default,fuse{by=origin}"
    client.send(
        compile_request(
            1, "softmax_spelled_out", tmp_path,
            pipeline=pipeline, pin={"rows": 8}, numerics="strict",
        )
    )  # fmt: skip
    result = client.until_last(1)[-1]
    trace = json.loads((tmp_path / result["trace"]).read_bytes())
    assert trace["numerics"] == "strict"
    assert "fuse{by=origin}" in trace["pipeline"]
    assert [s["name"] for s in trace["symbols"]] == ["cols"]
    assert len(result["kernels"]) == 5


def test_a_broken_model_is_an_error_with_the_name_that_the_request_gave(
    client: Client, tmp_path: Path
) -> None:
    path = tmp_path / ("0" * 64)
    path.write_bytes(sample("mlp").path.read_bytes()[:5000])
    request = compile_request(1, "mlp", tmp_path) | {"model": str(path), "name": "mine.onnx"}
    client.send(request)
    error = client.until_last(1)[-1]["error"]
    assert error["message"] == "model.truncated"
    assert error["file"] == "mine.onnx"
    assert error["remedy"]
    assert str(path) not in json.dumps(error) and path.name not in json.dumps(error)
    client.send(compile_request(2, "softmax_spelled_out", tmp_path))
    assert client.until_last(2)[-1]["event"] == "result", "the worker goes on"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"options": {"pipeline": 3}}, "pipeline is text"),
        ({"options": {"pin": {"rows": "8"}}}, "pin.rows is a whole number"),
        ({"options": []}, "options is an object"),
        ({"options": {"op_by_op": 1}}, "op_by_op is true or false"),
        ({"options": {"drift": "yes"}}, "drift is true or false"),
        ({"model": None}, "model is missing"),
        ({"blobs": ""}, "blobs is missing"),
    ],
)
def test_a_wrong_request_is_an_error_that_says_what_is_wrong(
    client: Client, tmp_path: Path, change: dict[str, object], text: str
) -> None:
    client.send(compile_request(1, "softmax_spelled_out", tmp_path) | change)
    answer = client.until_last(1)[-1]
    assert answer["event"] == "error"
    assert text in answer["error"]["text"]
    assert answer["error"]["message"] == "error.request"


def test_a_wrong_pipeline_is_an_error_of_the_compiler(client: Client, tmp_path: Path) -> None:
    pipeline = "default,-nothing"
    client.send(compile_request(1, "softmax_spelled_out", tmp_path, pipeline=pipeline))
    error = client.until_last(1)[-1]["error"]
    assert error["message"] == "pipeline.unknown" and "nothing" in error["text"]


def test_lines_that_are_no_requests_are_answered(client: Client) -> None:
    for line, part in (("{", "Expecting"), ("[1]", "object")):
        client.send(line)
        assert part in client.found.get(timeout=20)["error"]["text"]
    client.send({"id": 5, "command": "dance"})
    answer = client.found.get(timeout=20)
    assert answer["id"] == 5 and answer["error"]["message"] == "error.request"
    client.send("")
    client.send({"command": "cancel", "of": 99})
    assert client.nothing()


def test_a_job_cancelled_before_it_runs_and_one_while_it_runs(
    client: Client, tmp_path: Path
) -> None:
    client.send(compile_request(1, "layernorm_residual", tmp_path))
    client.send(compile_request(2, "layernorm_residual", tmp_path))
    client.send({"command": "cancel", "of": 2})
    client.send({"command": "cancel", "of": 1})
    assert client.until_last(1)[-1] == {"id": 1, "event": "cancelled"}
    assert client.until_last(2) == [{"id": 2, "event": "cancelled"}]
    client.send(compile_request(3, "softmax_spelled_out", tmp_path))
    assert client.until_last(3)[-1]["event"] == "result"


def test_a_measurement_reports_what_the_schema_says(client: Client) -> None:
    client.send({
        "id": 1, "command": "measure", "model": str(sample("five_op_chain").path),
        "options": {"sizes": {"r": 64, "c": 32}, "repetitions": 5},
    })  # fmt: skip
    *progress, result = client.until_last(1)
    assert progress
    report = result["report"]
    assert report["launches"] == {"op_by_op": 5, "fused": 1}
    assert report["bytes"]["fused"]["floor"] == 3 * 64 * 32 * 4 + 2 * 32 * 4
    assert report["bytes"]["fused"]["measured"] is None
    assert report["conditions"]["sizes"] == {"r": 64, "c": 32}
    assert report["latency"]["fused"]["repetitions"] >= 1
    assert report["error"]["fused"]["allclose"] is True
    assert result["compiled"] >= 6
    assert report["latency"]["reference"] and report["cold_start"]


def test_a_brief_measurement_starts_no_process_and_times_no_reference(client: Client) -> None:
    client.send({
        "id": 1, "command": "measure", "model": str(sample("five_op_chain").path),
        "options": {"sizes": {"r": 64, "c": 32}, "repetitions": 5, "brief": True},
    })  # fmt: skip
    *progress, result = client.until_last(1)
    assert "cold" not in [event["phase"] for event in progress]
    assert result["report"]["latency"]["reference"] is None
    assert result["report"]["cold_start"] == {}
    assert result["report"]["error"]["fused"]["allclose"] is True


def test_as_a_program_it_says_ready_and_prints_nothing_but_answers() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "compiler", "worker"],
        cwd=ROOT, input='{"command": "quit"}\n', capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"event": "ready"}]


def test_infinity_and_nan_become_null() -> None:
    assert finite({"a": [1.5, math.inf, math.nan], "b": "inf", "c": True}) == {
        "a": [1.5, None, None], "b": "inf", "c": True,
    }  # fmt: skip


def test_an_error_of_ours_keeps_its_id_and_one_of_python_tells_its_kind() -> None:
    ours = error_json(ModelError("model.no-graph", file="/tmp/x.onnx", node="#1"), {})
    assert (ours["message"], ours["file"], ours["node"]) == ("model.no-graph", "/tmp/x.onnx", "#1")
    assert error_json(KeyError("k"), {})["message"] == "error.internal"
    assert error_json(MemoryError(), {})["message"] == "error.memory"


def test_absent_options_have_their_defaults() -> None:
    options = read_options({})
    assert (options.target, options.numerics, options.pipeline) == ("cpu", "default", None)
    assert options.pin == options.sizes == {}
    assert not options.op_by_op and not options.drift


def test_the_end_of_the_requests_ends_the_worker() -> None:
    answers = StringIO()
    Worker(StringIO(""), answers).serve()
    assert answers.getvalue() == ""

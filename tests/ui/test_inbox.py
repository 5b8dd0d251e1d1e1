"""What comes from a browser or an address is checked before a worker sees it."""

import hashlib
from collections.abc import Iterator

import pytest

from sample_models import sample
from ui.inbox import Refused, model_file, read, read_pins, read_sizes, read_view
from ui.service import service


@pytest.fixture(autouse=True)
def running() -> Iterator[None]:
    """A service of the test's own."""
    service.cache_clear()
    try:
        yield
    finally:
        service().close()
        service.cache_clear()


@pytest.mark.parametrize(
    ("text", "pins"),
    [
        ("", {}),
        ("  ", {}),
        ("batch=32", {"batch": 32}),
        (" batch = 32 , seq=128 ", {"batch": 32, "seq": 128}),
        ("N=0", {"N": 0}),
    ],
)
def test_pins_are_read(text: str, pins: dict[str, int]) -> None:
    assert read_pins(text) == pins


@pytest.mark.parametrize(
    "text", ["batch", "batch=", "batch=x", "batch=-1", "a=1;b=2", "a=9999999999", ","]
)
def test_a_pin_that_cannot_be_read_is_named(text: str) -> None:
    refused = read_pins(text)
    assert isinstance(refused, Refused) and refused.message == "request.pin"


@pytest.mark.parametrize("size", [-1, 1.5, "3", True, None, 2**40])
def test_a_size_is_a_whole_number_in_range(size: object) -> None:
    refused = read_sizes({"rows": size})
    assert isinstance(refused, Refused)
    assert dict(refused.parameters)["name"] == "rows"


def test_a_sample_and_an_upload_are_files_and_anything_else_is_not() -> None:
    data = b"anything"
    digest = service().uploads.put(data)
    assert model_file("mlp") == (str(sample("mlp").path), "mlp.onnx")
    uploaded = model_file(f"sha256:{digest}")
    assert uploaded is not None and uploaded[0].endswith(digest)
    assert uploaded[1] == f"{digest[:12]}.onnx"
    service().name_upload(digest, "mô.onnx")
    request = read({"kind": "measure", "model": f"sha256:{digest}"})
    assert isinstance(request, dict) and request["name"] == "mô.onnx"
    for wrong in ("../mlp", "/etc/passwd", f"sha256:{'0' * 64}", "sha256:../../x", ""):
        assert model_file(wrong) is None


def test_a_compile_becomes_the_workers_request() -> None:
    request = read(
        {
            "kind": "compile",
            "model": "mlp",
            "pipeline": " default,-cse ",
            "numerics": "strict",
            "pin": "batch=8",
        }
    )
    assert not isinstance(request, Refused)
    assert request == {
        "command": "compile",
        "model": str(sample("mlp").path),
        "name": "mlp.onnx",
        "options": {
            "pin": {"batch": 8},
            "pipeline": "default,-cse",
            "numerics": "strict",
            "target": "cpu",
        },
        "blobs": str(service().blobs.folder),
    }


def test_a_measurement_carries_its_sizes() -> None:
    request = read({"kind": "measure", "model": "mlp", "sizes": {"batch": 16}})
    assert not isinstance(request, Refused)
    options = request["options"]
    assert isinstance(options, dict) and options["sizes"] == {"batch": 16}


def test_targets_are_asked_of_the_worker_without_a_model() -> None:
    assert read({"kind": "targets", "model": "../x"}) == {"command": "targets"}


@pytest.mark.parametrize("flag", ["op_by_op", "drift", "brief"])
def test_a_flag_is_set_by_true_alone(flag: str) -> None:
    for value, wanted in ((True, True), ("yes", None), (1, None), (False, None)):
        request = read({"kind": "compile", "model": "mlp", flag: value})
        assert not isinstance(request, Refused)
        options = request["options"]
        assert isinstance(options, dict) and options.get(flag) is wanted


@pytest.mark.parametrize("target", ["cpu", "cuda", "cuda:ptx", "tpu", 3])
def test_a_target_that_is_unknown_counts_as_the_first(target: object) -> None:
    request = read({"kind": "compile", "model": "mlp", "target": target})
    assert not isinstance(request, Refused)
    options = request["options"]
    assert isinstance(options, dict)
    assert options["target"] == (target if target in ("cuda", "cuda:ptx") else "cpu")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"kind": "delete", "model": "mlp"}, "request.kind"),
        ({"kind": "compile", "model": f"sha256:{'0' * 64}"}, "request.model"),
        ({"kind": "compile", "model": "nothing"}, "request.sample"),
        ({"kind": "compile", "model": 3}, "request.sample"),
        ({"kind": "compile", "model": "mlp", "pin": "x"}, "request.pin"),
        ({"kind": "compile", "model": "mlp", "pipeline": "x" * 5000}, "request.pipeline"),
        ({"kind": "measure", "model": "mlp", "sizes": {"batch": -1}}, "request.size"),
    ],
)
def test_what_cannot_be_done_is_refused(asked: dict[object, object], message: str) -> None:
    refused = read(asked)
    assert isinstance(refused, Refused) and refused.message == message


NOTHING = {
    "page": "", "model": "", "unknown": "", "target": "", "numerics": "", "passes": "", "pin": "",
    "bind": "", "at": "", "sel": "", "tab": "", "left": "", "colour": "", "view": "",
    "merged": "", "lesson": "", "term": "", "lang": "",
}  # fmt: skip


def test_an_address_gives_a_view() -> None:
    digest = hashlib.sha256(b"x").hexdigest()
    address = {
        "page": "measure", "model": f"sha256:{digest}", "target": "cuda:ptx", "numerics": "strict",
        "passes": "default,-cse", "pin": "batch=2", "bind": "batch=4", "at": "7.12", "sel": "Y",
        "tab": "decisions", "left": "op_by_op", "colour": "bytes", "view": "kernels", "merged": "1",
        "lesson": "gop-toan-tu", "term": "kernel", "lang": "en",
    }  # fmt: skip
    assert read_view({**address, "unknown": "kept elsewhere"}) == {**address, "unknown": ""}


def test_what_is_wrong_in_an_address_counts_for_nothing() -> None:
    assert read_view({}) == NOTHING
    wrong = {
        "page": "admin", "model": "<script>", "target": "tpu", "numerics": "x", "at": "-1",
        "tab": "<b>", "colour": "<b>", "view": "a b", "merged": "2",
        "lesson": "../x", "term": "a b", "lang": "de",
    }  # fmt: skip
    assert read_view(wrong) == {**NOTHING, "unknown": "<script>"}
    assert len(str(read_view({"passes": "x" * 9000})["passes"])) == 4000

"""The routes beside Streamlit's own, as a browser or a stranger would call them."""

import hashlib
import http.client
import json
from urllib.parse import urlsplit

import pytest

from ui.routes import version
from ui.service import UPLOAD_LIMIT


def call(
    server: str, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (lower case) and body of one request."""
    connection = http.client.HTTPConnection(urlsplit(server).netloc, timeout=20)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        found = {k.lower(): v for k, v in answer.getheaders()}
        return answer.status, found, answer.read()
    finally:
        connection.close()


def message(body: bytes) -> str:
    return str(json.loads(body)["error"]["message"])


@pytest.mark.parametrize(
    "path", ["explorer/app.mjs", "samples.json", "translations/vi.json", "translations/en.json"]
)
def test_what_a_version_names_never_changes(server: str, path: str) -> None:
    status, headers, body = call(server, "GET", f"/ui/{version()}/{path}")
    assert status == 200 and body
    assert "immutable" in headers["cache-control"]


def test_other_versions_and_files_outside_are_not_there(server: str) -> None:
    assert call(server, "GET", f"/ui/{version()}/translations/de.json")[0] == 404
    assert call(server, "GET", f"/ui/{version()}/explorer/..%2f..%2fapp.py")[0] >= 400
    for path in ("/ui/0000/explorer/app.mjs", "/ui/0000/translations/vi.json", "/ui/page.py"):
        status, headers, body = call(server, "GET", path)
        assert (status, body) == (404, b"another version"), path
        assert headers["cache-control"] == "no-store"
        assert headers["content-type"].startswith("text/plain")


def test_an_upload_answers_its_digest(server: str) -> None:
    data = b"not yet looked at"
    status, _, body = call(server, "POST", "/upload?name=..%2Fa%2Fm%C3%B4.onnx", data)
    assert status == 200
    digest = hashlib.sha256(data).hexdigest()
    assert json.loads(body) == {"digest": digest, "name": "mô.onnx", "bytes": len(data)}
    assert call(server, "GET", f"/blob/{digest}")[0] == 404, "an upload is no blob"


def test_a_long_name_is_cut_and_keeps_its_ending(server: str) -> None:
    status, _, body = call(server, "POST", f"/upload?name={'L' * 240}.ONNX", b"long")
    name = json.loads(body)["name"]
    assert status == 200 and len(name) == 200 and name.endswith("L….ONNX")
    status, _, body = call(server, "POST", f"/upload?name={'L' * 240}.txt", b"long")
    assert (status, message(body)) == (415, "upload.kind")


@pytest.mark.parametrize("path", ["/upload?name=x.onnx", "/", "/job/x", "/blob/x", "/ui/x"])
@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "[::2]", "a b", ""])
def test_a_name_that_is_not_ours_is_not_answered(server: str, path: str, host: str) -> None:
    port = urlsplit(server).port
    method, at = ("POST" if "upload" in path else "GET"), f"{host}:{port}"
    status, _, body = call(server, method, path, b"x", Host=at, Origin=f"http://{at}")
    assert status == 403 and b"server.allowedHosts" in body


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST."])
def test_this_machine_has_several_names(server: str, host: str) -> None:
    at = f"{host}:{urlsplit(server).port}"
    assert call(server, "GET", "/_stcore/health", Host=at)[0] == 200


@pytest.mark.parametrize(
    ("query", "body", "headers", "status", "wanted"),
    [
        ("name=x.pt", b"x", {}, 415, "upload.kind"),
        ("", b"x", {}, 415, "upload.kind"),
        ("name=x.onnx", b"", {}, 400, "upload.empty"),
        ("name=x.onnx", b"x", {"Origin": "http://elsewhere.example"}, 403, "upload.elsewhere"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    server: str, query: str, body: bytes, headers: dict[str, str], status: int, wanted: str
) -> None:
    answer = call(server, "POST", f"/upload?{query}", body, **headers)
    assert (answer[0], message(answer[2])) == (status, wanted)


def test_an_upload_above_the_limit_is_refused(server: str) -> None:
    status, _, body = call(server, "POST", "/upload?name=x.onnx", bytes(UPLOAD_LIMIT + 1))
    assert (status, message(body)) == (413, "upload.large")


@pytest.mark.parametrize("digest", ["0" * 64, "x", "..%2f..%2fapp.py"])
def test_unknown_digests_are_not_there(server: str, digest: str) -> None:
    for path in (f"/blob/{digest}", f"/layout/{digest}/0"):
        assert call(server, "GET", path)[0] in (400, 404)


def test_unknown_jobs_are_not_there(server: str) -> None:
    status, _, body = call(server, "GET", "/job/unknown")
    assert (status, message(body)) == (404, "job.gone")
    assert call(server, "DELETE", "/job/unknown")[0] == 204
    assert call(server, "DELETE", "/job/unknown", Origin="http://elsewhere.example")[0] == 403

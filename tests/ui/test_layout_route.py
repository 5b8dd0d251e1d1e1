"""`GET /layout/<digest>/<pass>?open=<group>`: made once, kept, stopped when it takes long."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.types import Message

from tests.ui.histories import film, transformer
from ui import routes
from ui.service import service


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """A service of this test alone."""
    service.cache_clear()
    yield
    service().close()
    service.cache_clear()


def get(path: str, query: str = "") -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one request to our routes alone."""
    sent: list[Message] = []

    async def receive() -> Message:
        await asyncio.Event().wait()  # nobody hangs up
        raise AssertionError("a GET has no body")

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(),
        "query_string": query.encode(), "headers": [], "root_path": "", "scheme": "http",
        "server": ("localhost", 80), "http_version": "1.1",
    }  # fmt: skip
    app = Starlette(routes=routes.routes())
    with ThreadPoolExecutor(1) as thread:  # the browser tests keep a loop running in this one
        thread.submit(lambda: asyncio.run(app(scope, receive, send))).result()
    start = next(m for m in sent if m["type"] == "http.response.start")
    body = b"".join(m.get("body", b"") for m in sent if m["type"] == "http.response.body")
    headers = {k.decode().lower(): v.decode() for k, v in start["headers"]}
    return start["status"], headers, body


def kept(document: object) -> str:
    return service().blobs.put(json.dumps(document).encode())


def test_a_layout_is_made_once_and_never_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = transformer(2)
    digest = kept(film([], nodes))
    status, headers, body = get(f"/layout/{digest}/0")
    assert status == 200 and "immutable" in headers["cache-control"]
    assert set(json.loads(body)["boxes"]) == {n["key"] for n in nodes}

    def never(*_: object, **__: object) -> None:
        raise AssertionError("it is made again")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", never)
    again, headers, same = get(f"/layout/{digest}/0")
    assert (again, same) == (200, body) and "immutable" in headers["cache-control"]


def test_a_group_opens_to_its_members() -> None:
    digest = kept(film([], transformer(3)))
    group = json.loads(get(f"/layout/{digest}/0")[2])["groups"][1]
    status, _, body = get(f"/layout/{digest}/0", f"open={quote(group['key'])}")
    assert status == 200 and set(json.loads(body)["boxes"]) == set(group["members"])


def test_what_is_not_there_is_not_found() -> None:
    digest = kept(film([], transformer(2)))
    for path, query in (
        (f"/layout/{'0' * 64}/0", ""), (f"/layout/{digest}/1", ""), (f"/layout/{digest}/x", ""),
        (f"/layout/{digest}/-1", ""), (f"/layout/{digest}/0", f"open={quote('§99')}"),
        (f"/layout/{digest}/0", "open=../x"), (f"/layout/{digest}/0", "open=%00"),
    ):  # fmt: skip
        status, _, body = get(path, query)
        assert (status, json.loads(body)["error"]["message"]) == (404, "blob.gone"), (path, query)


def test_a_layout_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def watched(*arguments: str, **options: object) -> asyncio.subprocess.Process:
        started.append(await start(*arguments, **options))  # pyright: ignore
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", watched)
    monkeypatch.setattr(routes, "LAYOUT_SECONDS", 0.01)
    status, _, body = get(f"/layout/{kept(film([], transformer(2)))}/0")
    assert (status, json.loads(body)["error"]["message"]) == (200, "layout.large")
    assert [p.returncode for p in started] == [-9]
    assert not list(service().layouts.folder.iterdir())


def test_a_layout_that_fails_is_told_as_one_that_is_too_large() -> None:
    status, headers, body = get(f"/layout/{service().blobs.put(b'no history')}/0")
    assert (status, json.loads(body)["error"]["message"]) == (200, "layout.large")
    assert "cache-control" not in headers

"""The real page on a free port, and Debian's Chromium, once for all browser tests."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

from ui.language import LANGUAGES

ROOT = Path(__file__).resolve().parents[2]
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
expect.set_options(timeout=20_000)  # a busy machine is no failure
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running page."""
    port = free_port()
    address = f"http://localhost:{port}"
    log = tmp_path_factory.mktemp("server") / "log"
    command = [
        sys.executable, "-m", "streamlit", "run", "app.py",
        "--server.port", str(port), "--server.headless", "true",
    ]  # fmt: skip
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"{address}/_stcore/health", timeout=1):
                    break
            except OSError:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)
    assert "Traceback" not in log.read_text(), log.read_text()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=list(ARGUMENTS)
        )
        yield browser
        browser.close()


@dataclass
class Watch:
    """What a page did that no test asks for: errors it reported, requests that left the machine."""

    errors: list[str] = field(default_factory=list[str])
    outside: list[str] = field(default_factory=list[str])

    def console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def error(self, error: Exception) -> None:
        self.errors.append(str(error))

    def request(self, request: Request) -> None:
        scheme, _, rest = request.url.partition("://")
        host = rest.split("/")[0].rsplit(":", 1)[0]
        if scheme in ("http", "https", "ws", "wss") and host not in LOOPBACK:
            self.outside.append(request.url)


@pytest.fixture
def watch() -> Watch:
    return Watch()


def new_context(browser: Browser) -> BrowserContext:
    return browser.new_context(viewport={"width": 1366, "height": 768}, locale="vi-VN")


@pytest.fixture(scope="session")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser profile that keeps the files of the page: not every test loads them anew."""
    context = new_context(browser)
    yield context
    context.close()


def forget(context: BrowserContext, origin: str) -> None:
    """Close its pages and forget all that they kept, but not the files of the page."""
    for page in context.pages:
        page.close()
    page = context.new_page()
    kept = {"origin": origin, "storageTypes": "cookies,local_storage,indexeddb"}
    context.new_cdp_session(page).send("Storage.clearDataForOrigin", kept)
    page.close()


def watched(context: BrowserContext, watch: Watch) -> Page:
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.on("console", watch.console)
    page.on("pageerror", watch.error)
    page.on("request", watch.request)
    return page


@pytest.fixture
def page(context: BrowserContext, server: str, watch: Watch) -> Iterator[Page]:
    """A page of a fresh session. After the test: no error in the console, no request outside."""
    yield watched(context, watch)
    forget(context, server)
    assert not watch.errors
    assert not watch.outside


@pytest.fixture
def fresh(browser: Browser, watch: Watch) -> Iterator[Page]:
    """A page of a browser profile of its own, watched as `page` is."""
    context = new_context(browser)
    yield watched(context, watch)
    context.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`language`: both where that is asked for, else one; all tests together speak both."""
    if "language" not in metafunc.fixturenames:
        return
    one = LANGUAGES[crc32(metafunc.function.__name__.encode()) % len(LANGUAGES)]
    every = metafunc.config.getoption("every_language")
    marked = metafunc.definition.get_closest_marker("every_language") is not None
    metafunc.parametrize("language", LANGUAGES if every or marked else [one])

"""The real page on a free port, and Debian's Chromium, once for all browser tests."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import pytest
from playwright.sync_api import (
    Browser,
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


@contextmanager
def profile(browser: Browser, watch: Watch) -> Iterator[Page]:
    """A page of a browser profile of its own, whose errors and requests are watched."""
    context = browser.new_context(viewport={"width": 1366, "height": 768}, locale="vi-VN")
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.on("console", watch.console)
    page.on("pageerror", watch.error)
    page.on("request", watch.request)
    yield page
    context.close()


@pytest.fixture
def page(browser: Browser, watch: Watch) -> Iterator[Page]:
    """A page of a fresh session. After the test: no error in the console, no request outside."""
    with profile(browser, watch) as page:
        yield page
    assert not watch.errors
    assert not watch.outside


@pytest.fixture
def fresh(browser: Browser, watch: Watch) -> Iterator[Page]:
    """A page of another browser profile, watched as `page` is."""
    with profile(browser, watch) as page:
        yield page


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`language`: both where that is asked for, else one; all tests together speak both."""
    if "language" not in metafunc.fixturenames:
        return
    one = LANGUAGES[crc32(metafunc.function.__name__.encode()) % len(LANGUAGES)]
    every = metafunc.config.getoption("every_language")
    marked = metafunc.definition.get_closest_marker("every_language") is not None
    metafunc.parametrize("language", LANGUAGES if every or marked else [one])

"""Many readers at once: reruns, memory, what stays behind (`make bench-page`).

A real server is spoken to as a browser does: a WebSocket with Streamlit's own messages. Opening and
closing sessions costs memory up to a working set; what is asked is that it is flat after it. Some
ask for a compile and leave in the middle.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

ROOT = Path(__file__).resolve().parents[1]
AT_ONCE = 100
RERUN_SECONDS = 1.0
ROUNDS = 3
A_ROUND = 200
OPENING = 10
"""Sessions of a round that open at the same time."""

KEPT_SECONDS = 5
"""How long the server keeps a session whose reader left; the page's own is Streamlit's 120 s."""

GROWTH = 1.1
WORKERS = 2
"""One that works and one that stands by."""

ASKING = 20
"""One session in so many asks for a compile."""

TRIGGERS = "$$STREAMLIT_INTERNAL_KEY_{}__events"
"""The widget that carries what a component triggers."""


@dataclass(frozen=True)
class Server:
    """A running page: its port, its process."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def address(self) -> str:
        return f"http://localhost:{self.port}"

    def memory(self) -> int:
        """Resident bytes of the page's process."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def workers(self) -> int:
        """Processes that the page started and that still run."""
        found = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found += int(fields[1]) == self.process.pid and fields[0] != "Z"
        return found

    def sessions(self) -> int:
        """Sessions with a reader, as the server counts them."""
        with urllib.request.urlopen(f"{self.address}/_stcore/metrics", timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith("active_sessions "):
                    return int(float(line.split()[1]))
        raise RuntimeError("the server does not count its sessions")


@contextmanager
def running(kept: int = KEPT_SECONDS) -> Iterator[Server]:
    """A page on a free port, with its worker and its spare."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = int(s.getsockname()[1])
    command = [
        sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port),
        "--server.headless", "true", "--server.disconnectedSessionTTL", str(kept),
    ]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    server = Server(port, process)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"{server.address}/_stcore/health", timeout=1):
                    break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the page's server did not start") from None
                time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        process.wait(timeout=30)


async def finished(session: ClientConnection, asked: BackMsg) -> str:
    """Ask for a run of the script and wait for its end; the component's id, if it was told."""
    await session.send(asked.SerializeToString())
    component = ""
    while True:
        answer = await session.recv()
        assert isinstance(answer, bytes)
        message = ForwardMsg.FromString(answer)
        kind = message.WhichOneof("type")
        if kind == "script_finished":
            return component
        if kind == "delta" and message.delta.new_element.WhichOneof("type") == "bidi_component":
            component = message.delta.new_element.bidi_component.id


def plain() -> BackMsg:
    """A rerun that changes nothing."""
    asked = BackMsg()
    asked.rerun_script.query_string = ""
    return asked


async def rerun(session: ClientConnection) -> float:
    """Seconds until a rerun that changes nothing has finished."""
    start = time.perf_counter()
    await finished(session, plain())
    return time.perf_counter() - start


def compiling(component: str, nonce: str) -> BackMsg:
    """What the component sends when a reader chooses a model."""
    asked = plain()
    widget = asked.rerun_script.widget_states.widgets.add()
    widget.id = TRIGGERS.format(component)
    value = {"kind": "compile", "model": "softmax_spelled_out", "nonce": nonce}
    widget.json_trigger_value = json.dumps([{"event": "request", "value": value}])
    return asked


def opened(server: Server) -> connect:
    """A session: a socket as the browser opens it."""
    return connect(
        f"ws://localhost:{server.port}/_stcore/stream",
        subprotocols=[Subprotocol("streamlit")],
        max_size=None,
    )


async def at_once(server: Server, many: int) -> list[float]:
    """Seconds of a rerun in each of `many` sessions that ask at the same time."""
    sessions = [await opened(server) for _ in range(many)]
    try:
        for session in sessions:
            await rerun(session)
        return await asyncio.gather(*(rerun(session) for session in sessions))
    finally:
        await asyncio.gather(*(session.close() for session in sessions))


async def come_and_go(server: Server, many: int) -> None:
    """`many` sessions open, run the page once and leave; a few at a time."""
    free = asyncio.Semaphore(OPENING)

    async def visit(k: int) -> None:
        async with free, opened(server) as session:
            component = await finished(session, plain())
            if k % ASKING == 0:
                await finished(session, compiling(component, str(k)))

    await asyncio.gather(*(visit(k) for k in range(many)))


def settled(server: Server, kept: int) -> int:
    """Memory when the sessions of a round are forgotten."""
    deadline = time.monotonic() + 60
    while server.sessions():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{server.sessions()} sessions are left over")
        time.sleep(0.2)
    time.sleep(kept + 1)
    return server.memory()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sessions", description=__doc__)
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="sessions that rerun at once")
    parser.add_argument("--round", type=int, default=A_ROUND, help="sessions of a round")
    options = parser.parse_args()
    failed: list[str] = []

    def figure(name: str, value: str, wanted: str, met: bool) -> None:
        print(f"{name}: {value} (wanted {wanted}){'' if met else '  NOT MET'}", flush=True)
        if not met:
            failed.append(name)

    cpus = len(os.sched_getaffinity(0))
    print(f"CPUs of this process: {cpus}; load before: {os.getloadavg()[0]:.1f}")
    with running() as server:
        gc.disable()  # of the client: its pauses are not the server's
        times = asyncio.run(at_once(server, options.at_once))
        gc.enable()
        slowest = max(times)
        figure(
            f"{options.at_once} reruns at once, the last answered after", f"{slowest:.2f} s",
            f"at most {RERUN_SECONDS} s", slowest <= RERUN_SECONDS,
        )  # fmt: skip
        print(f"  median {statistics.median(times):.2f} s")
        memory: list[int] = []
        for k in range(ROUNDS):
            asyncio.run(come_and_go(server, options.round))
            memory.append(settled(server, KEPT_SECONDS))
            print(f"  memory after round {k + 1} of {options.round} sessions: "
                  f"{memory[-1] / 2**20:.0f} MiB")  # fmt: skip
        growth = memory[-1] / memory[-2]
        figure("memory after the last round over that before", f"{growth:.3f}",
               f"at most {GROWTH}", growth <= GROWTH)  # fmt: skip
        figure("sessions left over", str(server.sessions()), "0", server.sessions() == 0)
        workers = server.workers()
        figure("processes of the page", str(workers), f"at most {WORKERS}", workers <= WORKERS)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())

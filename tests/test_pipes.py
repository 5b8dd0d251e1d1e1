"""What one process writes to another arrives whole, whatever stops it in between."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SIZE = 1 << 21
WRITE = """
import os
from compiler.pipes import take_output
out = take_output()
os.write(1, b"of a library")
print("of ours")
out.write(bytes(range(256)) * (SIZE // 256))
out.close()
"""


@pytest.mark.parametrize("flags", [[], ["-u"]], ids=["buffered", "unbuffered"])
def test_all_arrives_and_nothing_else(flags: list[str]) -> None:
    """The pipe is full, and the writer is stopped in the middle of a write, again and again."""
    process = subprocess.Popen(
        [sys.executable, *flags, "-c", WRITE.replace("SIZE", str(SIZE))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    found = process.stdout.read(1)
    while process.poll() is None and len(found) < SIZE // 2:
        time.sleep(0.002)
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGCONT)
        found += process.stdout.read(50_000)
    found += process.stdout.read()
    assert process.wait(60) == 0
    assert found == bytes(range(256)) * (SIZE // 256)
    assert process.stderr.read() == b"of a libraryof ours\n"
    process.stdout.close()
    process.stderr.close()

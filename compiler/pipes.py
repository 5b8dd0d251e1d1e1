"""Standard output as a pipe to one reader: all that is written arrives, and nothing else does.

`python -u`, or PYTHONUNBUFFERED as images of containers set it, makes `sys.stdout` raw: `write`
does one system call. On a full pipe a signal, a stop for one, ends that call after a part, and
neither `pickle` nor `print` looks at the number that comes back: the rest is lost in the middle of
a message. A buffered stream writes on until all is out. And what a C library prints to descriptor 1
would stand between two messages: it goes to standard error.

Teaches: a write tells how much it wrote.
Source: write(2), "Partial writes"; Python's `io.RawIOBase.write`.
"""

from __future__ import annotations

import os
import sys
from typing import BinaryIO

__all__ = ["take_output"]


def take_output() -> BinaryIO:
    """Standard output for the caller alone, once a process; `sys.stdout` is standard error then."""
    sys.stdout.flush()
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return stream

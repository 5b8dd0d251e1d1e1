"""Files named by the SHA-256 of their content, in a folder that is kept below a limit.

What is used least recently goes first. Nothing here looks into a file.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import uuid
from pathlib import Path

DIGEST = re.compile(r"[0-9a-f]{64}")


class Store:
    """Content-addressed files in `folder`, together at most `limit` bytes after each `prune`."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, data: bytes) -> str:
        """Keep `data`; its digest."""
        digest = hashlib.sha256(data).hexdigest()
        if self.path(digest) is None:
            self.write(digest, data)
        return digest

    def write(self, digest: str, data: bytes) -> None:
        """Keep `data` under the digest of what it was made from.

        Written beside the final name and renamed, so that nobody reads half of it.
        """
        part = self.folder / f"{uuid.uuid4().hex}.part"
        part.write_bytes(data)
        part.replace(self.folder / digest)
        self.prune(keep=digest)

    def path(self, digest: str) -> Path | None:
        """The file, now the most recently used one; None where there is none."""
        if not DIGEST.fullmatch(digest):
            return None
        path = self.folder / digest
        try:
            os.utime(path)
        except OSError:
            return None
        return path

    def prune(self, keep: str = "") -> None:
        """Remove the files used least recently until the limit holds; `keep` stays."""
        with self._lock:
            found: list[tuple[float, int, Path]] = []
            for path in self.folder.iterdir():
                try:
                    stat = path.stat()
                except OSError:
                    continue
                found.append((stat.st_mtime, stat.st_size, path))
            total = sum(size for _, size, _ in found)
            for _, size, path in sorted(found):
                if total <= self.limit:
                    return
                if path.name != keep and path.suffix != ".part":
                    path.unlink(missing_ok=True)
                    total -= size

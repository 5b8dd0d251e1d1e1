"""What one page process owns: the stores and the supervisor, made when first asked for."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ui.store import Store
from ui.supervisor import Supervisor

ROOT = Path(__file__).resolve().parent.parent
UPLOAD_LIMIT = 64 * 2**20
"""Bytes of one uploaded model."""

NAMES_KEPT = 10_000

WORKER = (sys.executable, "-m", "ui.worker")


@dataclass(frozen=True)
class Service:
    """`uploads` holds models, `blobs` what workers wrote, `layouts` drawn graphs by digest."""

    uploads: Store
    blobs: Store
    layouts: Store
    supervisor: Supervisor
    folder: tempfile.TemporaryDirectory[str]
    names: dict[str, str] = field(default_factory=dict[str, str])
    """What the files were called that were uploaded, by digest, the last ones."""

    def name_upload(self, digest: str, name: str) -> None:
        """Remember the name of an upload."""
        self.names.pop(digest, None)
        self.names[digest] = name
        while len(self.names) > NAMES_KEPT:
            del self.names[next(iter(self.names))]

    def close(self) -> None:
        self.supervisor.close()
        self.folder.cleanup()


@cache
def service() -> Service:
    """The service of this process. Its folder is temporary and goes with the process."""
    folder = tempfile.TemporaryDirectory(prefix="explorer-")
    at = Path(folder.name)
    return Service(
        uploads=Store(at / "uploads", 512 * 2**20),
        blobs=Store(at / "blobs", 512 * 2**20),
        layouts=Store(at / "layouts", 64 * 2**20),
        supervisor=Supervisor(WORKER, ROOT),
        folder=folder,
    )


@asynccontextmanager
async def lifespan(app: object) -> AsyncIterator[dict[str, object]]:
    """Start with the server and end with it."""
    running = service()
    running.supervisor.warm()
    try:
        yield {}
    finally:
        running.close()
        service.cache_clear()

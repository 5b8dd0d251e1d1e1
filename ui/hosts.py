"""Whom the server answers: names of this machine, and those that it was told to be known by.

A page elsewhere may let its own name point here (DNS rebinding). Its browser then calls that page
and this server one origin, and only the `Host` header tells them apart. Streamlit looks at it for
its own connection alone, by its setting `server.allowedHosts`; here the same setting holds for
every request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import config

SETTING = "server.allowedHosts"
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/@?#\[\]]+)(:[0-9]{1,5})?")
"""A name or an address, the IPv6 ones in brackets, and perhaps a port."""

REFUSAL = """\
This server does not answer to the name in the address.
Open it as http://localhost:PORT, or start it with --{setting} and that name (README.md).
Máy chủ này không trả lời tên trong địa chỉ.
Mở trang bằng http://localhost:PORT, hoặc khởi động máy chủ với --{setting} và tên đó (README.md).
"""


def allowed(host: str, names: Iterable[str]) -> bool:
    """Whether `names` have the host of a `Host` header; `*.a.b` has all below `a.b`, `*` any.

    Without names, every host is allowed, as Streamlit has it.
    """
    patterns = [name.strip().lower().rstrip(".") for name in names]
    match = HOST.fullmatch(host.lower())
    if not patterns or match is None:
        return not patterns
    found = match[1].strip("[]").rstrip(".")
    return any(
        pattern in ("*", found) or (pattern[:2] == "*." and found.endswith(pattern[1:]))
        for pattern in patterns
    )


class KnownHosts:
    """Middleware that answers 403 where the `Host` header names nobody that we are."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = HTTPConnection(scope).headers.get("host", "")
            if not allowed(host, config.get_option(SETTING)):
                answer = PlainTextResponse(REFUSAL.format(setting=SETTING), 403)
                await answer(scope, receive, send)
                return
        await self.app(scope, receive, send)

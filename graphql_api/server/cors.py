"""Which pages of other origins may read the answers."""

import re
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphql_api.errors import InvalidValue
from graphql_api.server.correlation import HEADER

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
_REMEMBERED = 600
"""seconds for which a browser need not ask again"""
_NAMES = re.compile(r"[A-Za-z0-9_-]+(\s*,\s*[A-Za-z0-9_-]+)*")


def check_origins(origins: Sequence[str]) -> None:
    """Refuses what is no origin."""
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise InvalidValue(
                f"{origin!r} is no origin: write scheme://host or scheme://host:port, in small letters, "
                "without a path; or * for all.",
                argument="cors_origins",
            )


class AllowOrigins:
    """Middleware: pages of these origins may ask and read; `*` means pages of any origin.

    Credentials that a browser adds by itself are never allowed: whoever asks sends a token in a header.
    """

    def __init__(self, app: ASGIApp, *, origins: Sequence[str]) -> None:
        self.app = app
        self.origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        asked = Headers(scope=scope)
        allowed = self._allowed(asked.get("origin"))
        if scope["method"] == "OPTIONS" and "origin" in asked and "access-control-request-method" in asked:
            await self._permission(asked, allowed)(scope, receive, send)
            return

        async def send_with_permission(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if allowed is not None:
                    headers["access-control-allow-origin"] = allowed
                    headers["access-control-expose-headers"] = HEADER
                headers.add_vary_header("origin")
            await send(message)

        await self.app(scope, receive, send_with_permission)

    def _allowed(self, origin: str | None) -> str | None:
        if origin is None:
            return None
        if "*" in self.origins:
            return "*"
        return origin if origin in self.origins else None

    def _permission(self, asked: Headers, allowed: str | None) -> Response:
        """What a browser asks for before it sends; without an allowed origin it is told nothing, and does not send."""
        headers = {"vary": "origin, access-control-request-headers", "cache-control": "no-store"}
        if allowed is not None:
            headers["access-control-allow-origin"] = allowed
            headers["access-control-allow-methods"] = "GET, POST"
            headers["access-control-max-age"] = str(_REMEMBERED)
            wanted = asked.get("access-control-request-headers", "")
            if _NAMES.fullmatch(wanted.strip()):
                headers["access-control-allow-headers"] = wanted.strip()
        return Response(status_code=204, headers=headers)

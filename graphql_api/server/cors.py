"""Cross-origin resource sharing (CORS): which other origins may read responses."""

import re
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphql_api.errors import InvalidValue
from graphql_api.server.request_state import CORRELATION_HEADER

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
_MAX_AGE_SECONDS = 600
"""How long a browser may cache the answer to a preflight."""
_HEADER_NAMES = re.compile(r"[A-Za-z0-9_-]+(\s*,\s*[A-Za-z0-9_-]+)*")


def check_origins(origins: Sequence[str]) -> None:
    """Raise InvalidValue for a text that is not an origin."""
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise InvalidValue(
                f"{origin!r} is not an origin: write scheme://host or scheme://host:port, in lower case, "
                "without a path; or * for all.",
                argument="cors_origins",
            )


class AllowOrigins:
    """Middleware that lets pages of these origins send requests and read responses; `*` means any origin.

    Credentials that a browser adds by itself, such as cookies, are never allowed: callers send a token in a header.
    """

    def __init__(self, app: ASGIApp, *, origins: Sequence[str]) -> None:
        self.app = app
        self.origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_headers = Headers(scope=scope)
        allowed = self._allowed_origin(request_headers.get("origin"))
        is_preflight = "origin" in request_headers and "access-control-request-method" in request_headers
        if scope["method"] == "OPTIONS" and is_preflight:
            await self._preflight_response(request_headers, allowed)(scope, receive, send)
            return

        async def send_with_cors_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if allowed is not None:
                    headers["access-control-allow-origin"] = allowed
                    headers["access-control-expose-headers"] = CORRELATION_HEADER
                headers.add_vary_header("origin")
            await send(message)

        await self.app(scope, receive, send_with_cors_headers)

    def _allowed_origin(self, origin: str | None) -> str | None:
        if origin is None:
            return None
        if "*" in self.origins:
            return "*"
        return origin if origin in self.origins else None

    def _preflight_response(self, request_headers: Headers, allowed: str | None) -> Response:
        """Answer a preflight. Without an allowed origin it grants nothing, so the browser sends no request."""
        headers = {"vary": "origin, access-control-request-headers", "cache-control": "no-store"}
        if allowed is not None:
            headers["access-control-allow-origin"] = allowed
            headers["access-control-allow-methods"] = "GET, POST"
            headers["access-control-max-age"] = str(_MAX_AGE_SECONDS)
            requested = request_headers.get("access-control-request-headers", "").strip()
            if _HEADER_NAMES.fullmatch(requested):
                headers["access-control-allow-headers"] = requested
        return Response(status_code=204, headers=headers)

"""The middleware of the application: CORS, draining of request bodies, masking of internal errors.

A server that closes a connection with unread bytes resets it, and the response is lost. So a body is drained before its
response ends. If its rest is within the limits, the connection stays usable. Otherwise the response says
`connection: close`, and the server keeps reading for a moment until the client has received the response.
"""

import asyncio
import re
from collections.abc import Sequence
from logging import getLogger

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphql_api.errors import CrossSiteRequest, InternalError, InvalidValue
from graphql_api.server.graphql_request import declared_length
from graphql_api.server.request_state import CLIENT_CLOSED_REQUEST, CORRELATION_HEADER, get_request_state
from graphql_api.server.responses import error_response, send_error

log = getLogger("shardql")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5}|:\*)?")
_PORT = re.compile(r":[0-9]{1,5}$")
_MAX_AGE_SECONDS = 600
"""How long a browser may cache the answer to a preflight."""
_HEADER_NAMES = re.compile(r"[A-Za-z0-9_-]+(\s*,\s*[A-Za-z0-9_-]+)*")


# --- CORS ------------------------------------------------------------------------------------------------------


def check_origins(origins: Sequence[str]) -> None:
    """Raise InvalidValue for a text that is not an origin."""
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise InvalidValue(
                f"{origin!r} is not an origin: write scheme://host or scheme://host:port, in lower case, "
                "without a path; scheme://host:* for any port; or * for all.",
                argument="cors_origins",
            )


class AllowOrigins:
    """Middleware that lets pages of these origins send requests and read responses.

    `*` means any origin, and `http://localhost:*` any port of a host.
    Credentials that a browser adds by itself, such as cookies, are never allowed: callers send a token in a header.
    """

    def __init__(self, app: ASGIApp, *, origins: Sequence[str]) -> None:
        self.app = app
        self.origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and not self._allows_socket(Headers(scope=scope)):
            error = CrossSiteRequest(
                "Pages of this origin may not connect: list it in SHARDQL_CORS_ORIGINS, or connect from another one."
            )
            await send_error(scope, receive, send, error)
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_headers = Headers(scope=scope)
        origin = request_headers.get("origin")
        allowed = None if origin is None else self._allowed(origin)
        if scope["method"] == "OPTIONS" and origin is not None and "access-control-request-method" in request_headers:
            await _preflight_response(request_headers, allowed)(scope, receive, send)
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

    def _allows_socket(self, headers: Headers) -> bool:
        """Return whether a page may open a WebSocket. Browsers send no preflight, but always the origin of the page."""
        origin = headers.get("origin")
        if origin is None or self._allowed(origin) is not None:
            return True
        host = headers.get("host", "")  # `AllowHosts` has checked it.
        return origin.partition("://")[2].lower() == host.strip().lower()

    def _allowed(self, origin: str) -> str | None:
        """Return what the response allows, or None."""
        if "*" in self.origins:
            return "*"
        any_port = f"{_PORT.sub('', origin)}:*"
        return None if self.origins.isdisjoint((origin, any_port)) else origin


def _preflight_response(request_headers: Headers, allowed: str | None) -> Response:
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


# --- draining --------------------------------------------------------------------------------------------------


class DrainRequest:
    """Middleware that reads and drops an unread request body, up to `max_bytes` and for `timeout` seconds."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, timeout: float = 1.0) -> None:
        self.app = app
        self.max_bytes = max_bytes
        self.timeout = timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = _RequestBody(scope, receive)
        closes = False

        async def drain_and_send(message: Message) -> None:
            nonlocal closes
            if message["type"] == "http.response.start" and not body.ended:
                headers = MutableHeaders(scope=message)
                closes = headers.get("connection") == "close" or not await body.drain(self.max_bytes, self.timeout)
                if closes:
                    headers["connection"] = "close"
            if closes and message["type"] == "http.response.body" and not message.get("more_body", False):
                await send({**message, "more_body": True})
                await body.discard(self.max_bytes, self.timeout)
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self.app(scope, body.receive, drain_and_send)


class _RequestBody:
    """The body of one request, and how much of it has been received."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        self._receive = receive
        self._content_length = declared_length(headers)
        self._received_bytes = 0
        self._read_started = False
        self._expects_continue = headers.get("expect", "").lower() == "100-continue"
        self.ended = self._content_length == 0 and "transfer-encoding" not in headers

    async def receive(self) -> Message:
        self._read_started = True
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.ended = True
        else:
            self._received_bytes += len(message.get("body", b""))
            self.ended = not message.get("more_body", False)
        return message

    async def drain(self, max_bytes: int, seconds: float) -> bool:
        """Drain the body. Return False if the rest is too long, or if the client still waits for `100 Continue`."""
        too_long = self._content_length - self._received_bytes > max_bytes
        if too_long or (self._expects_continue and not self._read_started):
            return False
        return await self.discard(max_bytes, seconds)

    async def discard(self, max_bytes: int, seconds: float) -> bool:
        """Read and drop what arrives within these limits. Return whether the body has ended."""
        last_byte = self._received_bytes + max_bytes
        try:
            async with asyncio.timeout(seconds):
                while not self.ended and self._received_bytes <= last_byte:
                    await self.receive()
        except TimeoutError:
            pass
        return self.ended


# --- errors ----------------------------------------------------------------------------------------------------


class MaskInternalErrors:
    """Middleware that adds the correlation id to each response, and masks internal errors after logging them once."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = get_request_state(scope)
        started = False

        async def send_with_correlation_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message)[CORRELATION_HEADER] = state.correlation_id
            await send(message)

        try:
            await self.app(scope, receive, send_with_correlation_id)
        except ClientDisconnect:
            state.status = CLIENT_CLOSED_REQUEST
        except Exception:
            if started:
                raise  # Part of the response is sent already, so the server closes the connection and logs the error.
            log.exception(
                "%s %s failed, correlation id %s",
                scope["method"],
                scope["path"],
                state.correlation_id,
                extra={"correlation_id": state.correlation_id},
            )
            response = await error_response(Request(scope), InternalError(state.correlation_id))
            await response(scope, receive, send_with_correlation_id)

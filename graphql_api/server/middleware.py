"""The middleware of the application: names of hosts, CORS, draining of request bodies, masking of internal errors.

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

from graphql_api.errors import CrossSiteRequest, InternalError, InvalidValue, ShardQLError
from graphql_api.server.allowed_hosts import HostPolicy
from graphql_api.server.graphql_request import length_of
from graphql_api.server.request_state import CLIENT_CLOSED_REQUEST, CORRELATION_HEADER, get_request_state
from graphql_api.server.responses import error_response, send_error

log = getLogger("shardql")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5}|:\*)?")
_PORT = re.compile(r":[0-9]{1,5}$")
_CORRELATION_NAME = CORRELATION_HEADER.encode()
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


class OriginPolicy:
    """Which pages may send requests and read responses: those of these origins.

    `*` means any origin, and `http://localhost:*` any port of a host.
    Credentials that a browser adds by itself, such as cookies, are never allowed: callers send a token in a header.
    """

    def __init__(self, origins: Sequence[str]) -> None:
        self.origins = frozenset(origins)

    def allows_socket(self, headers: Headers) -> bool:
        """Return whether a page may open a WebSocket. Browsers send no preflight, but always the origin of the page."""
        origin = headers.get("origin")
        if origin is None or self.allowed(origin) is not None:
            return True
        host = headers.get("host", "")  # `HostPolicy` has checked it.
        return origin.partition("://")[2].lower() == host.strip().lower()

    def allowed(self, origin: str) -> str | None:
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


# --- requests --------------------------------------------------------------------------------------------------


class GuardRequests:
    """Middleware around all requests: host names, CORS, unread bodies, correlation ids and internal errors.

    It is one class since each further middleware would call `send` once more for each part of a response.
    """

    def __init__(
        self, app: ASGIApp, *, origins: Sequence[str], hosts: Sequence[str], max_bytes: int, timeout: float = 1.0
    ) -> None:
        """An unread request body is read and dropped, up to `max_bytes` and for `timeout` seconds."""
        self.app = app
        self.origins = OriginPolicy(origins)
        self.hosts = HostPolicy(hosts)
        self.max_bytes = max_bytes
        self.timeout = timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(_Exchange(self, scope, receive, send))
        elif scope["type"] == "websocket":
            await self._connect(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        refusal: ShardQLError | None = None
        if not self.origins.allows_socket(headers):
            refusal = CrossSiteRequest(
                "Pages of this origin may not connect: list it in SHARDQL_CORS_ORIGINS, or connect from another one."
            )
        refusal = refusal or self.hosts.refusal(scope, headers.getlist("host"))
        if refusal is None:
            await self.app(scope, receive, send)
        else:
            await send_error(scope, receive, send, refusal)

    async def _serve(self, exchange: "_Exchange") -> None:
        scope, head = exchange.scope, exchange.head
        if scope["method"] == "OPTIONS" and head.origin is not None:
            headers = Headers(scope=scope)
            if "access-control-request-method" in headers:
                await _preflight_response(headers, exchange.allowed)(scope, exchange.receive, exchange.send_plain)
                return
        try:
            refusal = self.hosts.refusal(scope, head.hosts)
            if refusal is None:
                await self.app(scope, exchange.receive, exchange.send)
            else:
                await send_error(scope, exchange.receive, exchange.send, refusal)
        except ClientDisconnect:
            exchange.state.status = CLIENT_CLOSED_REQUEST
        except Exception:
            if exchange.has_started:
                raise  # Part of the response is sent already, so the server closes the connection and logs the error.
            correlation_id = exchange.state.correlation_id
            log.exception(
                "%s %s failed, correlation id %s",
                scope["method"],
                scope["path"],
                correlation_id,
                extra={"correlation_id": correlation_id},
            )
            response = await error_response(Request(scope), InternalError(correlation_id))
            await response(scope, exchange.receive, exchange.send)


class _RequestHead:
    """What the guard needs of the request headers, read in one pass."""

    def __init__(self, scope: Scope) -> None:
        self.origin: str | None = None
        self.hosts: list[str] = []
        self.expects_continue = self.is_chunked = False
        self.content_length = 0
        has_length = has_expectation = False
        for name, value in scope["headers"]:
            if name == b"host":
                self.hosts.append(value.decode("latin-1"))
            elif name == b"content-length" and not has_length:
                has_length, self.content_length = True, length_of(value.decode("latin-1"))
            elif name == b"origin" and self.origin is None:
                self.origin = value.decode("latin-1")
            elif name == b"expect" and not has_expectation:
                has_expectation, self.expects_continue = True, value.lower() == b"100-continue"
            elif name == b"transfer-encoding":
                self.is_chunked = True


def _add_headers(headers: list[tuple[bytes, bytes]], correlation_id: str) -> bool:
    """Add the headers of each response to those that our own code has made. Return False if they are other ones."""
    names = [name for name, _ in headers]
    if names.count(b"vary") != 1 or _CORRELATION_NAME in names:
        return False
    at = names.index(b"vary")
    headers[at] = (b"vary", headers[at][1] + b", origin")
    headers.append((_CORRELATION_NAME, correlation_id.encode("latin-1")))
    return True


class _Exchange:
    """One request and its response: how much of the body was received, and what each response gets."""

    def __init__(self, guard: GuardRequests, scope: Scope, receive: Receive, send: Send) -> None:
        self.head = _RequestHead(scope)
        self.scope = scope
        self.state = get_request_state(scope)
        self.allowed = None if self.head.origin is None else guard.origins.allowed(self.head.origin)
        self.has_started = False
        self.ended = self.head.content_length == 0 and not self.head.is_chunked
        """the body was received"""
        self._guard = guard
        self._receive = receive
        self._send = send
        self._received_bytes = 0
        self._read_started = False
        self._closes = False

    # --- the response

    async def send(self, message: Message) -> None:
        """Send a part of a response, with the headers of each response."""
        if message["type"] == "http.response.start":
            self.has_started = True
            headers = message["headers"] = [*message.get("headers", ())]
            if self.allowed is not None or not _add_headers(headers, self.state.correlation_id):
                self._replace_headers(message)
        await (self._send(message) if self.ended and not self._closes else self.send_plain(message))

    def _replace_headers(self, message: Message) -> None:
        headers = MutableHeaders(scope=message)
        headers[CORRELATION_HEADER] = self.state.correlation_id
        if self.allowed is not None:
            headers["access-control-allow-origin"] = self.allowed
            headers["access-control-expose-headers"] = CORRELATION_HEADER
        headers.add_vary_header("origin")

    async def send_plain(self, message: Message) -> None:
        """Send a part of a response, after the request body was received or dropped."""
        if not self.ended and message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            self._closes = headers.get("connection") == "close" or not await self._drain()
            if self._closes:
                headers["connection"] = "close"
        if self._closes and message["type"] == "http.response.body" and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._discard()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    # --- the body

    async def receive(self) -> Message:
        """Receive a part of the body."""
        self._read_started = True
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.ended = True
        else:
            self._received_bytes += len(message.get("body", b""))
            self.ended = not message.get("more_body", False)
        return message

    async def _drain(self) -> bool:
        """Drain the body. Return False if the rest is too long, or if the client still waits for `100 Continue`."""
        too_long = self.head.content_length - self._received_bytes > self._guard.max_bytes
        if too_long or (self.head.expects_continue and not self._read_started):
            return False
        return await self._discard()

    async def _discard(self) -> bool:
        """Read and drop what arrives within the limits. Return whether the body has ended."""
        last_byte = self._received_bytes + self._guard.max_bytes
        try:
            async with asyncio.timeout(self._guard.timeout):
                while not self.ended and self._received_bytes <= last_byte:
                    await self.receive()
        except TimeoutError:
            pass
        return self.ended

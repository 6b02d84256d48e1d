"""Kept-alive HTTP/1.1 connections to one endpoint. They have no timeouts of their own."""

import asyncio
import ssl
from collections.abc import Callable
from socket import SOCK_STREAM
from typing import Any, NamedTuple

from aiohappyeyeballs import start_connection
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from graphql_api.clock import Instant, read_clocks, seconds_between
from graphql_api.runtime import SharedResult
from graphql_api.storage.engines.dynamodb.error_mapping import NoConnection

_CHUNK_BYTES = 64 * 1024
_NEXT_ADDRESS_SECONDS = 0.25
"""after which the next address of a host is tried too, as RFC 8305 recommends"""


class Endpoint(NamedTuple):
    """What a connection needs to know of a server."""

    url: str
    host: str
    port: int
    tls: ssl.SSLContext | None


class HttpResponse(NamedTuple):
    """A complete response. Names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class HttpConnection(asyncio.Protocol):
    """One connection, with at most one request at a time."""

    idle_since: Instant = ()

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._are_headers_complete = False
        self._keeps_alive = True
        self._response: asyncio.Future[HttpResponse] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._is_paused = False
        self._lost = self._loop.create_future()

    @property
    def is_reusable(self) -> bool:
        """Return whether another request may be sent."""
        return self._keeps_alive and self._response is None and not self._transport.is_closing()

    async def exchange(self, head: bytes, body: bytes) -> HttpResponse:
        """Send a request and return its response. The first bytes are sent before the first suspension.

        After an error or a cancellation, the connection must be aborted.
        """
        if self._transport.is_closing():
            raise ConnectionResetError("The server closed the connection before the request was sent")
        response: asyncio.Future[HttpResponse] = self._loop.create_future()
        self._response = response
        try:
            if len(body) <= _CHUNK_BYTES:
                self._transport.write(head + body)
            else:
                self._transport.write(head + body[:_CHUNK_BYTES])
                await self._send_rest(body, response)
            return await response
        finally:
            self._response = None

    async def _send_rest(self, body: bytes, response: asyncio.Future[HttpResponse]) -> None:
        """Send the rest of a large body in chunks, until the server answers."""
        for start in range(_CHUNK_BYTES, len(body), _CHUNK_BYTES):
            if self._is_paused:
                self._writable = self._loop.create_future()
                waiting: list[asyncio.Future[Any]] = [self._writable, response]
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(0)
            if response.done():
                self._keeps_alive = False  # The server did not read the whole body.
                return
            self._transport.write(body[start : start + _CHUNK_BYTES])

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed."""
        await asyncio.shield(self._lost)

    # --- called by the event loop

    def connection_made(self, transport: Any) -> None:
        self._transport: asyncio.Transport = transport

    def data_received(self, data: bytes) -> None:
        if self._response is None or self._response.done():
            self._transport.abort()  # Nothing was asked.
            return
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as problem:
            self._fail(ConnectionError(f"The response is not valid HTTP: {problem}"))
            self._transport.abort()

    def eof_received(self) -> None:
        names = {name.lower() for name, _ in self._headers}
        if self._are_headers_complete and names.isdisjoint({b"content-length", b"transfer-encoding"}):
            self.on_message_complete()  # Such a body ends with the connection.

    def connection_lost(self, problem: Exception | None) -> None:
        self._keeps_alive = False
        self._fail(problem or ConnectionResetError("The server closed the connection before the response was complete"))
        self.resume_writing()
        if not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    # --- called by the parser

    def on_message_begin(self) -> None:
        if self._response is None or self._response.done():
            self._keeps_alive = False  # It would be read as the next response.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._are_headers_complete = True

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        headers, body = self._headers, b"".join(self._parts)
        self._headers, self._parts, self._are_headers_complete = [], [], False
        if status < 200:
            return  # An interim response: the final one follows.
        self._keeps_alive &= self._parser.should_keep_alive()
        if self._response is not None and not self._response.done():
            named = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
            self._response.set_result(HttpResponse(status, named, body))

    def _fail(self, problem: Exception) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(problem)


class ConnectionPool:
    """The connections to one endpoint. The caller limits how many are used at the same time.

    Each connection resolves the host again, so a change of its addresses takes effect with the next connection.
    Concurrent connections share one resolution.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        limit: int,
        keep_alive_seconds: float,
        clocks: Callable[[], Instant] = read_clocks,
    ) -> None:
        self.endpoint = endpoint
        self._limit = limit
        self._keep_alive_seconds = keep_alive_seconds
        self._clocks = clocks
        self._idle: list[HttpConnection] = []
        """the latest is reused first, so that those that a burst has opened expire"""
        self._is_closed = False
        self._sweep_handle: asyncio.TimerHandle | None = None
        self._resolution: SharedResult[Any] | None = None

    async def acquire(self) -> HttpConnection:
        """Return an idle connection, or open one."""
        now = self._clocks()
        while self._idle:
            connection = self._idle.pop()
            # After a freeze of the process, the sweep is late, and the server has gone without a word.
            if connection.is_reusable and self._is_fresh(connection, now):
                return connection
            connection.abort()
        return await self._open()

    def _is_fresh(self, connection: HttpConnection, now: Instant) -> bool:
        return seconds_between(connection.idle_since, now) < self._keep_alive_seconds

    def release(self, connection: HttpConnection) -> None:
        """Keep a connection for the next request, or close it."""
        if self._is_closed or not connection.is_reusable or len(self._idle) >= self._limit:
            connection.abort()
            return
        connection.idle_since = self._clocks()
        self._idle.append(connection)
        if self._sweep_handle is None:
            loop = asyncio.get_running_loop()
            self._sweep_handle = loop.call_later(self._keep_alive_seconds, self._sweep, loop)

    async def close(self) -> None:
        """Close the idle connections, and the others when they are released."""
        self._is_closed = True
        if self._sweep_handle is not None:
            self._sweep_handle.cancel()
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.abort()
        for connection in idle:
            await connection.wait_closed()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the connections that have been idle for too long."""
        now = self._clocks()
        kept = [connection for connection in self._idle if connection.is_reusable and self._is_fresh(connection, now)]
        for connection in {*self._idle}.difference(kept):
            connection.abort()
        self._idle = kept
        wait = self._keep_alive_seconds - seconds_between(kept[0].idle_since, now) if kept else None
        self._sweep_handle = None if wait is None else loop.call_later(wait, self._sweep, loop)

    async def _open(self) -> HttpConnection:
        host, tls, loop = self.endpoint.host, self.endpoint.tls, asyncio.get_running_loop()
        try:
            addresses = await self._resolve(loop)
            socket = await start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS, loop=loop)
            try:
                _, connection = await loop.create_connection(
                    HttpConnection, sock=socket, ssl=tls, server_hostname=host if tls else None
                )
            except BaseException:
                socket.close()
                raise
        except OSError as problem:
            raise NoConnection(f"{self.endpoint.url} cannot be reached: {problem}") from problem
        return connection

    async def _resolve(self, loop: asyncio.AbstractEventLoop) -> Any:
        if self._resolution is None or self._resolution.is_cancelled:
            lookup = loop.getaddrinfo(self.endpoint.host, self.endpoint.port, type=SOCK_STREAM)
            resolution = self._resolution = SharedResult(asyncio.ensure_future(lookup))
            resolution.future.add_done_callback(self._forget(resolution))
        return await self._resolution.wait()

    def _forget(self, resolution: SharedResult[Any]) -> Callable[[object], None]:
        def forget(_: object) -> None:
            if self._resolution is resolution:
                self._resolution = None

        return forget

"""Limits on the size and time of request lines and headers. uvicorn itself has neither limit."""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class LimitedHttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, which also closes a connection whose request header is too large or too slow.

    Bytes are counted per read. The read that starts a header is not counted, since it may contain a whole header.
    """

    max_head_bytes: ClassVar[int] = 64 << 10
    head_timeout: ClassVar[float] = 10.0

    _heads_started = 0
    _head_is_open = False
    _head_bytes = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of an idle connection, for the first request as for later ones."""
        super().connection_made(transport)
        self._set_timer(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
        self._set_timer(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of an unfinished header."""
        heads_started = self._heads_started
        super().data_received(data)
        if not self._head_is_open or self.transport.is_closing():
            return
        if self._heads_started != heads_started:
            self._set_timer(self.head_timeout)
            return
        self._head_bytes += len(data)
        if self._head_bytes > self.max_head_bytes:
            self._refuse("431 Request Header Fields Too Large", "is larger than the server accepts")

    def on_message_begin(self) -> None:
        """Note the start of a header."""
        self._heads_started += 1
        self._head_is_open, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Note the end of a header."""
        self._head_is_open = False
        self._set_timer(None)
        super().on_headers_complete()

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._on_timeout)

    def _on_timeout(self) -> None:
        if not self._head_is_open:
            self.transport.close()
        elif self._heads_started > 1 and not self.cycle.response_complete:
            self._set_timer(self.head_timeout)  # The response to the previous request comes first.
        else:
            self._refuse("408 Request Timeout", f"did not arrive within {self.head_timeout:g} s")

    def _refuse(self, status: str, reason: str) -> None:
        """Send a plain-text response, since the request is incomplete, and close the connection."""
        self._set_timer(None)
        body = f"The header of the request {reason}.".encode()
        head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()

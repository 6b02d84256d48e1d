"""Request lines and headers, bounded in size and time: uvicorn takes any number of bytes, and waits for ever."""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class BoundedHeads(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, but a connection is closed on which the head of a request does not end.

    Bytes are counted read by read, from the second one of a head: the first may bring it whole.
    """

    most_bytes: ClassVar[int] = 64 << 10
    seconds: ClassVar[float] = 10.0

    _begun = 0
    _open = False
    _came = 0
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Waits for the first request as long as for a later one."""
        super().connection_made(transport)
        self._wait(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits for nothing any more."""
        self._wait(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Takes note of what came of a head that has not ended."""
        begun = self._begun
        super().data_received(data)
        if not self._open or self.transport.is_closing():
            return
        if self._begun != begun:
            self._wait(self.seconds)
            return
        self._came += len(data)
        if self._came > self.most_bytes:
            self._refuse("431 Request Header Fields Too Large", "is larger than the server reads")

    def on_message_begin(self) -> None:
        """The first byte of a head has come."""
        self._begun += 1
        self._open, self._came = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head has ended."""
        self._open = False
        self._wait(None)
        super().on_headers_complete()

    def _wait(self, seconds: float | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._patience = None if seconds is None else self.loop.call_later(seconds, self._is_late)

    def _is_late(self) -> None:
        if not self._open:
            self.transport.close()
        elif self._begun > 1 and not self.cycle.response_complete:
            self._wait(self.seconds)  # The answer to the request before comes first.
        else:
            self._refuse("408 Request Timeout", f"did not arrive within {self.seconds:g} s")

    def _refuse(self, status: str, why: str) -> None:
        """Says so in plain text, as to everything that is no request, and closes the connection."""
        self._wait(None)
        text = f"The head of the request {why}.".encode()
        head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {len(text)}\r\n"
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + text)
        self.transport.close()

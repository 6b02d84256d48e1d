"""A small HTTP server for measurements: kept-alive POST requests with a length, answered in order."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import cast

import uvloop

Handler = Callable[[bytes, bytes], Awaitable[bytes]]
"""from head and body of a request to a whole response"""

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)


def response(body: bytes, headers: bytes = b"content-type: application/json\r\n", status: bytes = b"200 OK") -> bytes:
    """Build a response."""
    return b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\n\r\n%b" % (status, headers, len(body), body)


class _Connection(asyncio.Protocol):
    def __init__(self, handle: Handler) -> None:
        self._handle = handle
        self._received = b""
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # That of uvloop is no subclass.

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._task is None:
            self._answer_next()

    def _answer_next(self) -> None:
        self._task = None
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._received[:end]
        found = _LENGTH.search(head)
        total = end + 4 + (int(found[1]) if found else 0)
        if len(self._received) < total:
            return
        body, self._received = self._received[end + 4 : total], self._received[total:]
        self._task = asyncio.ensure_future(self._answer(head, body))

    async def _answer(self, head: bytes, body: bytes) -> None:
        answer = await self._handle(head, body)
        if not self._transport.is_closing():
            self._transport.write(answer)
            self._answer_next()


async def _serve(start: Callable[[], Awaitable[Handler]]) -> None:
    handle = await start()
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(handle), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"http://{host}:{port}", flush=True)
    await server.serve_forever()


def serve(start: Callable[[], Awaitable[Handler]]) -> None:
    """Run a server at a free port, and print its URL."""
    uvloop.run(_serve(start))

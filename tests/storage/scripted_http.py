"""A server on loopback that answers each HTTP request with the next scripted bytes."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from graphql_api.storage.engines.dynamodb.http_connections import ConnectionPool, Endpoint
from tests.faults.http_messages import Message, read_message


def http_response(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """Return the bytes of a response. `length` contradicts the body."""
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers)
    return "\r\n".join((*lines, "", "")).encode() + body


@dataclass(frozen=True)
class Answer:
    """How one request is answered."""

    parts: Sequence[bytes] = ()
    """sent one after the other, with a turn of the event loop in between"""
    closes: bool = False
    """closes the connection afterwards"""
    waits: bool = False
    """waits for the client to disconnect afterwards"""


@dataclass
class HttpServer:
    """The state of the server. Without answers left, it repeats the last one."""

    port: int
    answers: list[Answer] = field(default_factory=list)
    requests: list[Message] = field(default_factory=list)
    connections: int = 0
    """number of accepted connections"""
    open_connections: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def answer(self, *answers: Answer | bytes) -> None:
        """Set the next answers."""
        self.answers = [one if isinstance(one, Answer) else Answer((one,)) for one in answers]

    def pool(
        self, *, keep_alive_seconds: float = 60.0, limit: int = 10, host: str = "127.0.0.1", **options: Any
    ) -> ConnectionPool:
        """Return a pool of connections to the server."""
        endpoint = Endpoint(f"http://{host}:{self.port}", host, self.port, None)
        return ConnectionPool(endpoint, limit, keep_alive_seconds, **options)

    async def wait_for_disconnects(self) -> None:
        """Wait until no client is connected."""
        await self.wait_until(lambda: not self.open_connections)

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on the state holds."""
        async with asyncio.timeout(10), self.changed:
            await self.changed.wait_for(condition)

    async def _count(self, change: int) -> None:
        self.open_connections += change
        async with self.changed:
            self.changed.notify_all()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        await self._count(1)
        self.writers.append(writer)
        try:
            while (request := await read_message(reader)) is not None:
                self.requests.append(request)
                await self._count(0)
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                for part in answer.parts:
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0.001)
                if answer.waits:
                    await reader.read()
                if answer.closes or answer.waits:
                    return
        except (OSError, asyncio.IncompleteReadError):
            pass  # The client has disconnected.
        finally:
            writer.close()
            await self._count(-1)


@asynccontextmanager
async def start_http_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[HttpServer]:
    """Start the server."""
    state = HttpServer(0)
    server = await asyncio.start_server(state.serve, "127.0.0.1", 0, limit=2**22, ssl=tls)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
        for writer in state.writers:
            writer.transport.abort()
        with suppress(TimeoutError):
            await asyncio.wait_for(server.wait_closed(), 5)
        await asyncio.sleep(0)

"""A proxy on loopback before a DynamoDB server: it knows what passes, counts it, and spoils it to order."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.faults.faults import Fault
from tests.faults.messages import Message, read_message
from tests.faults.requests import Request, read_request

Rule = Callable[[Request], Fault | None]
"""Which fault a request meets, if any."""

LOOPBACK = "127.0.0.1"


def no_fault(_: Request) -> None:
    """The rule of a healthy network."""


class FaultProxy:
    """`async with FaultProxy(port) as proxy:`; clients go to `proxy.endpoint`, and `proxy.rule` may change at will."""

    def __init__(self, server_port: int, rule: Rule = no_fault, *, hash_attribute: str = "hashKey") -> None:
        self.rule = rule
        self.requests: list[Request] = []
        """every request that came, in order"""
        self.spoiled: list[Request] = []
        """those that met a fault"""
        self.in_flight: set[Request] = set()
        """those that wait for an answer, and whose client waits too"""
        self.most_in_flight = 0
        self.connections = 0
        self.most_connections = 0
        self._server_port = server_port
        self._hash_attribute = hash_attribute
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._problems: list[Exception] = []

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(_WatchedReader(loop=loop), self._serve, loop=loop)

        self._server = await loop.create_server(protocol, LOOPBACK, 0, backlog=1024)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()
        if self._problems and problem is None:
            raise ExceptionGroup("The proxy failed in its own work", self._problems)

    @property
    def endpoint(self) -> str:
        """Where clients find it."""
        return f"http://{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"

    def forget(self) -> None:
        """Counts from nothing again."""
        self.requests.clear()
        self.spoiled.clear()
        self.most_in_flight = len(self.in_flight)
        self.most_connections = self.connections

    def calls(self, operation: str = "Query") -> Counter[str]:
        """How often each hash key was asked by an operation."""
        return Counter(key for request in self.requests if request.operation == operation for key in request.hash_keys)

    async def until(self, holds: Callable[[], bool], within: float = 5.0) -> None:
        """Waits until something holds of what the proxy counts."""
        async with asyncio.timeout(within):
            while not holds():
                await self._changed.wait()

    def _has_changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        assert isinstance(reader, _WatchedReader)
        self._tasks.add(task)
        self.connections += 1
        self.most_connections = max(self.most_connections, self.connections)
        server = _ServerConnection(self._server_port)
        try:
            while (message := await read_message(reader)) is not None:
                await self._pass_on(message, reader, writer, server)
        except (OSError, asyncio.IncompleteReadError):
            pass  # The client left, or a fault has ended the connection.
        except Exception as problem:  # noqa: BLE001 - a mistake of the proxy itself must fail the test
            self._problems.append(problem)
        finally:
            self.connections -= 1
            self._tasks.discard(task)
            server.close()
            writer.close()

    async def _pass_on(
        self, message: Message, reader: "_WatchedReader", writer: asyncio.StreamWriter, server: "_ServerConnection"
    ) -> None:
        now = asyncio.get_running_loop().time()
        request = read_request(message, len(self.requests), now, self._hash_attribute)
        self.requests.append(request)
        self.in_flight.add(request)
        self.most_in_flight = max(self.most_in_flight, len(self.in_flight))
        self._has_changed()
        fault = self.rule(request)
        if fault is not None:
            self.spoiled.append(request)
        exchange = _Exchange(request, message, reader, writer, server)
        work = asyncio.ensure_future(exchange.plain() if fault is None else fault.play(exchange))
        gone = asyncio.ensure_future(reader.gone.wait())
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                await work
        finally:
            self.in_flight.discard(request)
            self._has_changed()
            for waiting in (work, gone):
                waiting.cancel()
                with suppress(asyncio.CancelledError, OSError, asyncio.IncompleteReadError):
                    await waiting


class _WatchedReader(asyncio.StreamReader):
    """Tells at once when the other side is gone, without anybody reading."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.gone = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.gone.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.gone.set()


class _ServerConnection:
    """The server's side of one client connection: opened when first needed, and kept."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, message: Message) -> Message:
        """Sends a request and waits for its answer."""
        if self._streams is not None and self._streams[0].at_eof():
            self.close()
        if self._streams is None:
            self._streams = await asyncio.open_connection(LOOPBACK, self._port, limit=2**20)
        reader, writer = self._streams
        try:
            writer.write(message.encode())
            await writer.drain()
            answer = await read_message(reader)
        except BaseException:
            self.close()  # What is left of this answer must not become the next one.
            raise
        if answer is None:
            self.close()
            raise ConnectionResetError("the server closed the connection instead of answering")
        return answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class _Exchange:
    """One request between both sides."""

    def __init__(
        self,
        request: Request,
        message: Message,
        reader: _WatchedReader,
        writer: asyncio.StreamWriter,
        server: _ServerConnection,
    ) -> None:
        self.request = request
        self._message = message
        self._reader = reader
        self._writer = writer
        self._server = server

    async def plain(self) -> None:
        """What happens where there is no fault."""
        await self.answer(await self.forward())

    async def forward(self) -> Message:
        return await self._server.ask(self._message)

    async def answer(self, message: Message) -> None:
        self._writer.write(message.encode())
        await self._writer.drain()

    async def until_gone(self) -> None:
        await self._reader.gone.wait()

    def reset(self) -> None:
        # Lingering for no time at all is what makes close() send RST.
        connection: socket.socket = self._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def close(self) -> None:
        self._writer.close()

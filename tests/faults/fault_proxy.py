"""A proxy on loopback in front of a DynamoDB server. It records and counts requests, and injects faults by a rule."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.faults.dynamodb_requests import Request, read_request
from tests.faults.fault_types import Fault
from tests.faults.http_messages import Message, read_message

Rule = Callable[[Request], Fault | None]
"""Selects the fault for a request, or None."""

LOOPBACK = "127.0.0.1"


def no_fault(_: Request) -> None:
    """The rule that injects no faults."""


class FaultProxy:
    """`async with FaultProxy(port) as proxy:` starts it. Clients use `proxy.endpoint`. `proxy.rule` may be replaced."""

    def __init__(self, server_port: int, rule: Rule = no_fault, *, hash_attribute: str = "hashKey") -> None:
        self.rule = rule
        self.requests: list[Request] = []
        """all requests, in order of arrival"""
        self.faulted: list[Request] = []
        """the requests that got a fault"""
        self.in_flight: set[Request] = set()
        """the requests without a response whose client is still connected"""
        self.peak_in_flight = 0
        self.connections = 0
        self.peak_connections = 0
        self._server_port = server_port
        self._hash_attribute = hash_attribute
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._errors: list[Exception] = []

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(_WatchedReader(loop=loop), self._serve, loop=loop)

        self._server = await loop.create_server(protocol, LOOPBACK, 0, backlog=1024)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()
        if self._errors and error is None:
            raise ExceptionGroup("The fault proxy itself failed", self._errors)

    @property
    def endpoint(self) -> str:
        """The URL for clients."""
        return f"http://{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"

    def reset_counts(self) -> None:
        """Reset all counts."""
        self.requests.clear()
        self.faulted.clear()
        self.peak_in_flight = len(self.in_flight)
        self.peak_connections = self.connections

    def calls_by_hash_key(self, operation: str = "Query") -> Counter[str]:
        """Return how often an operation requested each hash key."""
        return Counter(key for request in self.requests if request.operation == operation for key in request.hash_keys)

    async def wait_until(self, condition: Callable[[], bool], within: float = 5.0) -> None:
        """Wait until a condition on the counts of the proxy holds."""
        async with asyncio.timeout(within):
            while not condition():
                await self._changed.wait()

    def _notify_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        assert isinstance(reader, _WatchedReader)
        self._tasks.add(task)
        self.connections += 1
        self.peak_connections = max(self.peak_connections, self.connections)
        server = _ServerConnection(self._server_port)
        try:
            while (message := await read_message(reader)) is not None:
                await self._handle_request(message, reader, writer, server)
        except (OSError, asyncio.IncompleteReadError):
            pass  # The client has disconnected, or a fault has closed the connection.
        except Exception as error:  # noqa: BLE001 - a defect of the proxy must fail the test
            self._errors.append(error)
        finally:
            self.connections -= 1
            self._tasks.discard(task)
            server.close()
            writer.close()

    async def _handle_request(
        self, message: Message, reader: "_WatchedReader", writer: asyncio.StreamWriter, server: "_ServerConnection"
    ) -> None:
        now = asyncio.get_running_loop().time()
        request = read_request(message, len(self.requests), now, self._hash_attribute)
        self.requests.append(request)
        self.in_flight.add(request)
        self.peak_in_flight = max(self.peak_in_flight, len(self.in_flight))
        self._notify_change()
        fault = self.rule(request)
        if fault is not None:
            self.faulted.append(request)
        exchange = _Exchange(request, message, reader, writer, server)
        work = asyncio.ensure_future(exchange.forward_unchanged() if fault is None else fault.apply(exchange))
        disconnected = asyncio.ensure_future(reader.disconnected.wait())
        try:
            await asyncio.wait({work, disconnected}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                await work
        finally:
            self.in_flight.discard(request)
            self._notify_change()
            for waiting in (work, disconnected):
                waiting.cancel()
                with suppress(asyncio.CancelledError, OSError, asyncio.IncompleteReadError):
                    await waiting


class _WatchedReader(asyncio.StreamReader):
    """Signals a disconnect of the other side immediately, without a pending read."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.disconnected = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.disconnected.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.disconnected.set()


class _ServerConnection:
    """The server side of one client connection. Connects on first use and stays open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, message: Message) -> Message:
        """Send a request and return its response."""
        if self._streams is not None and self._streams[0].at_eof():
            self.close()
        if self._streams is None:
            self._streams = await asyncio.open_connection(LOOPBACK, self._port, limit=2**20)
        reader, writer = self._streams
        try:
            writer.write(message.encode())
            await writer.drain()
            response = await read_message(reader)
        except BaseException:
            self.close()  # The rest of this response must not be read as the next one.
            raise
        if response is None:
            self.close()
            raise ConnectionResetError("the server closed the connection without a response")
        return response

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class _Exchange:
    """One request between client and server."""

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

    async def forward_unchanged(self) -> None:
        """The exchange without a fault."""
        await self.send_response(await self.forward())

    async def forward(self) -> Message:
        return await self._server.request(self._message)

    async def send_response(self, message: Message) -> None:
        self._writer.write(message.encode())
        await self._writer.drain()

    async def wait_for_disconnect(self) -> None:
        await self._reader.disconnected.wait()

    def reset(self) -> None:
        # With a linger time of zero, close() sends RST.
        connection: socket.socket = self._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def close(self) -> None:
        self._writer.close()

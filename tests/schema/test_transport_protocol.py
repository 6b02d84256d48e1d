"""The protocol graphql-transport-ws without a server: a client that says nothing, and one that leaves."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from graphql_api.errors import ShardQLError
from graphql_api.schema.execution.graphql_operation import ExecutionResponse, Operation
from graphql_api.schema.execution.streamed_execution import Responses
from graphql_api.schema.transport_protocol import MAX_REASON_BYTES, TransportProtocol, close_reason


class Socket:
    """A client that sends these messages, and then waits until the server closes the connection, or leaves."""

    def __init__(self, *messages: Mapping[str, Any], leaves: bool = False) -> None:
        self.waiting = [json.dumps(message) for message in messages]
        self.leaves = leaves
        self.sent: list[Any] = []
        self.closed = asyncio.get_running_loop().create_future()

    async def receive(self) -> str:
        if self.waiting:
            return self.waiting.pop(0)
        if not self.leaves:
            await self.closed
        raise EOFError

    async def send(self, text: str) -> None:
        self.sent.append(json.loads(text))

    async def close(self, code: int, reason: str) -> None:
        self.closed.set_result((code, reason))


class Server:
    """Executes operations that never end."""

    def __init__(self) -> None:
        self.ended = 0
        self.started = asyncio.Event()

    async def connect(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def read_operation(self, payload: Mapping[str, Any]) -> Operation:
        return Operation(payload["query"])

    def check_place(self, in_progress: int) -> None:
        if in_progress:
            raise ShardQLError("No.")

    async def stream(self, operation: Operation) -> Responses:
        try:
            yield ExecutionResponse({"data": {}})
            self.started.set()
            await asyncio.Event().wait()
        finally:
            self.ended += 1


async def test_silent_clients() -> None:
    """A client that does not begin in time is disconnected."""
    socket = Socket()
    await TransportProtocol(Server(), socket, 100, 0.0).run()
    assert await socket.closed == (4408, "Connection initialisation timeout")


async def test_leaving_clients() -> None:
    """When a client leaves, its operations end before the protocol does."""
    server = Server()
    socket = Socket({"type": "connection_init"}, {"type": "subscribe", "id": "1", "payload": {"query": "{ a }"}})
    protocol = TransportProtocol(server, socket, 100, 60.0)
    running = asyncio.create_task(protocol.run())
    await server.started.wait()
    assert [operation.query for operation, _ in protocol.operations] == ["{ a }"]
    socket.closed.set_result(None)
    await running
    assert (server.ended, protocol.operations) == (1, [])
    assert [message["type"] for message in socket.sent] == ["connection_ack", "next"]


def test_close_reasons() -> None:
    """The reason in a close frame is cut at its limit, between two characters."""
    assert close_reason("short") == "short"
    assert len(close_reason("é" * 100).encode()) == MAX_REASON_BYTES - 1

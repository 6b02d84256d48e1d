"""The protocols of subscriptions: `graphql-transport-ws` by Strawberry, with checked messages; server-sent events."""

from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, cast

from strawberry.exceptions import ConnectionRejectionError
from strawberry.http.async_base_view import AsyncWebSocketAdapter
from strawberry.http.exceptions import NonTextMessageReceived, WebSocketDisconnected
from strawberry.http.streaming import SSETransport
from strawberry.subscriptions import GRAPHQL_TRANSPORT_WS_PROTOCOL
from strawberry.subscriptions.protocols.graphql_transport_ws.handlers import BaseGraphQLTransportWSHandler
from strawberry.types import ExecutionResult

from graphql_api.codecs import read_json, write_json
from graphql_api.errors import ShardQLError, Unauthenticated, error_body
from graphql_api.schema.executable_schema import strawberry_result
from graphql_api.schema.execution.graphql_operation import ExecutionResponse, Operation
from graphql_api.schema.execution.request_rejection import FormattedError
from graphql_api.schema.execution.streamed_execution import Responses

PROTOCOL = GRAPHQL_TRANSPORT_WS_PROTOCOL
BAD_REQUEST, FORBIDDEN, RESTARTS = 4400, 4403, 1012
"""Codes with which a connection is closed. Clients connect again after the last two."""
MAX_REASON_BYTES = 123
"""Bytes of the reason in a close frame."""
_ID_TYPES = {"subscribe", "complete"}


class TransportSocket(Protocol):
    """The WebSocket of one client."""

    async def receive(self) -> str | None:
        """Return the next message; None if it is binary. Raise EOFError if the connection has ended."""

    async def send(self, text: str) -> None:
        """Send a message. Raise EOFError if the connection has ended."""

    async def close(self, code: int, reason: str) -> None:
        """Close the connection, unless it is closed."""


class ProtocolServer(Protocol):
    """What the protocol asks of the server."""

    async def connect(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Authenticate the client by the payload of its first message, and return that of the acknowledgement."""

    def read_operation(self, payload: Mapping[str, Any]) -> Operation:
        """Return the operation in the payload of a message. Raise an error if there is none."""

    def check_place(self, in_progress: int) -> None:
        """Raise an error if a connection with this number of operations in progress must not start another."""

    def stream(self, operation: Operation) -> Responses:
        """Execute an operation."""


def close_reason(text: str) -> str:
    """Return a text as the reason in a close frame, which is short."""
    return text.encode()[:MAX_REASON_BYTES].decode(errors="ignore")


class TransportProtocol:
    """One connection with the protocol `graphql-transport-ws`."""

    def __init__(self, server: ProtocolServer, socket: TransportSocket, max_elements: int, seconds: float) -> None:
        """`seconds`: time within which the client must send its first message."""
        adapter = _Adapter(socket, max_elements)
        self._handler = _Handler(
            cast(Any, _View(server, socket)),
            adapter,
            cast(Any, {}),
            None,
            cast(Any, _Source(server)),
            timedelta(seconds=seconds),
        )
        self._handler.server = server

    async def run(self) -> None:
        """Serve the client until the connection ends."""
        await self._handler.handle()

    @property
    def operations(self) -> list[tuple[Operation, Awaitable[None]]]:
        """The operations in progress, and the tasks that execute them."""
        return [(cast(Operation, one.query), one.task) for one in self._handler.operations.values() if one.task]


@dataclass(frozen=True, slots=True)
class _View:
    """The part of Strawberry's view that its handler calls."""

    server: ProtocolServer
    socket: TransportSocket

    async def on_ws_connect(self, context: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return await self.server.connect(context["connection_params"])
        except ShardQLError as problem:
            code = FORBIDDEN if isinstance(problem, Unauthenticated) else BAD_REQUEST
            await self.socket.close(code, problem.message)
            raise ConnectionRejectionError from problem


@dataclass(frozen=True, slots=True)
class _Source:
    """In place of Strawberry's schema: the handler passes on the operations that `_Handler` has read."""

    server: ProtocolServer

    async def stream(self, query: Any, **_: Any) -> AsyncGenerator[ExecutionResult, None]:
        return self._results(query)

    async def _results(self, operation: Operation) -> AsyncGenerator[ExecutionResult, None]:
        async with aclosing(self.server.stream(operation)) as responses:
            async for response in responses:
                yield strawberry_result(response)


class _Adapter(AsyncWebSocketAdapter):
    """Converts messages between JSON and text."""

    def __init__(self, socket: TransportSocket, max_elements: int) -> None:
        self._socket = socket
        self._max_elements = max_elements

    async def iter_json(self, *, ignore_parsing_errors: bool = False) -> AsyncGenerator[object, None]:  # noqa: ARG002
        with suppress(EOFError):
            while True:
                text = await self._socket.receive()
                if text is None:
                    raise NonTextMessageReceived
                try:
                    message = read_json(text, "The message", self._max_elements)
                except ShardQLError as problem:
                    await self.close(BAD_REQUEST, problem.message)
                    return
                yield message

    async def send_json(self, message: Mapping[str, object]) -> None:
        try:
            await self._socket.send(write_json(message).decode())
        except EOFError:
            raise WebSocketDisconnected from None

    async def close(self, code: int, reason: str) -> None:
        await self._socket.close(code, reason)


class _Handler(BaseGraphQLTransportWSHandler[Any, None]):
    server: ProtocolServer

    async def handle_message(self, message: Any) -> None:
        """Handle a message whose shape is that of the protocol. Others close the connection."""
        problem = _shape_problem(message)
        if problem is not None:
            await self.handle_invalid_message(problem)
        else:
            await super().handle_message(message)

    async def handle_subscribe(self, message: Any) -> None:
        """Start an operation, or send the error why it is refused."""
        if self.connection_acknowledged and message["id"] not in self.operations:
            try:
                self.server.check_place(len(self.operations))
                operation = self.server.read_operation(message["payload"])
            except ShardQLError as problem:
                error = FormattedError(error_body(problem)).formatted
                await self.send_message({"id": message["id"], "type": "error", "payload": [error]})
                return
            message = {**message, "payload": {"query": operation}}
        await super().handle_subscribe(message)

    async def handle_task_exception(self, error: Exception) -> None:
        """Log nothing for a client that has disconnected."""
        if not isinstance(error, WebSocketDisconnected):
            await super().handle_task_exception(error)


def _shape_problem(message: Any) -> str | None:
    """Return why a message is not one of the protocol."""
    if not isinstance(message, dict):
        return "A message must be a JSON object"
    kind = message.get("type")
    if not isinstance(kind, str):
        return "A message must have a type"
    if kind in _ID_TYPES and not (isinstance(message.get("id"), str) and message["id"]):
        return f"The message {kind} must have an id, which is a text"
    if kind == "subscribe" and not isinstance(message.get("payload"), dict):
        return "The message subscribe must have a payload, which is an object"
    if kind == "connection_init" and message.get("payload") is None:
        message.pop("payload", None)
    return None


# --- server-sent events ------------------------------------------------------------------------------------------

_EVENTS = SSETransport()
STREAM_HEADERS: Mapping[str, str] = {
    **{name.lower(): value for name, value in _EVENTS.headers.items()},
    "cache-control": "no-store, no-transform",
}
KEEP_ALIVE = _EVENTS.encode_comment("").encode()
COMPLETE = _EVENTS.encode_complete().encode()


def encode_next(response: ExecutionResponse) -> bytes:
    """Return the event that contains a response."""
    return _EVENTS.encode_next(cast(Any, response.body), lambda body: write_json(body).decode()).encode()

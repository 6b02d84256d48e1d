"""The GraphQL endpoint over WebSocket, with the protocol graphql-transport-ws."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from logging import getLogger
from typing import Any

from starlette.datastructures import Headers
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from graphql_api.errors import InvalidRequest, TooManySubscriptions
from graphql_api.schema import (
    FORBIDDEN,
    PROTOCOL,
    RESTARTS,
    Caller,
    Operation,
    Responses,
    TransportProtocol,
    close_reason,
)
from graphql_api.server.auth import Authenticator, Identity
from graphql_api.server.graphql_endpoint import MAX_UNITS_HEADER, caller_of
from graphql_api.server.graphql_request import operation_of
from graphql_api.server.request_state import get_request_state
from graphql_api.server.responses import send_error
from graphql_api.server.settings import Settings
from graphql_api.server.subscriptions import SubscriptionService

CONNECT_SECONDS = 10.0
"""Time within which a client must send its first message."""
SEND_SECONDS = 30.0
"""Time within which a client must read a message."""
CLOSE_SECONDS = 2.0
"""Time in which a connection that the server has closed must end."""
PAYLOAD_HEADERS = ("authorization", "x-api-key", "x-explain", MAX_UNITS_HEADER)
"""Headers that clients may send as members of the payload of the first message. Browsers cannot set headers."""
_UNACCEPTABLE, _TOO_LARGE, _TOO_SLOW, _FAILED = 4406, 1009, 1008, 1011
log = getLogger("shardql")


@dataclass(frozen=True, slots=True)
class WebSocketEndpoint:
    """The endpoint of one path."""

    subscriptions: SubscriptionService
    authenticator: Authenticator
    settings: Settings

    async def respond(self, socket: WebSocket) -> None:
        if PROTOCOL not in socket.scope["subprotocols"]:
            await socket.accept()
            await socket.close(_UNACCEPTABLE, f"Connect with the protocol {PROTOCOL}")
            return
        try:
            with self.subscriptions.connection():
                await socket.accept(PROTOCOL)
                await _Connection(self, socket).run()
        except TooManySubscriptions as problem:
            await send_error(socket.scope, socket.receive, socket.send, problem)


class _Connection:
    """One client, and the operations that it has in progress."""

    def __init__(self, endpoint: WebSocketEndpoint, socket: WebSocket) -> None:
        self._endpoint = endpoint
        self._socket = socket
        self._state = get_request_state(socket.scope)
        self._messages = _Messages(socket, endpoint.settings.max_body_bytes)
        self._protocol = TransportProtocol(self, self._messages, endpoint.settings.max_elements, CONNECT_SECONDS)
        self._headers = socket.headers
        self._identity: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._operations = 0

    async def run(self) -> None:
        """Serve the client until it leaves, its credential expires, or the server stops."""
        serving = asyncio.create_task(self._protocol.run())
        ending = asyncio.create_task(self._end())
        try:
            await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                await asyncio.wait({serving}, timeout=CLOSE_SECONDS)
            for task in (serving, ending):
                if task.done():
                    task.result()
        except Exception:
            correlation = {"correlation_id": self._state.correlation_id}
            log.exception("A WebSocket connection failed", extra=correlation)
            await self._messages.close(_FAILED, f"The log has the error under {self._state.correlation_id}")
        finally:
            serving.cancel()
            ending.cancel()
            await asyncio.gather(serving, ending, return_exceptions=True)

    async def _end(self) -> None:
        """Close the connection when it is time. Queries and mutations in progress get their responses before."""
        subscriptions = self._endpoint.subscriptions
        stopping: asyncio.Future[Any] = asyncio.ensure_future(subscriptions.wait_for_end(Identity()))
        try:
            await asyncio.wait({stopping, self._identity}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        if not subscriptions.is_stopping:
            await subscriptions.wait_for_end(self._identity.result())
        executing = [
            task for operation, task in self._protocol.operations if not subscriptions.is_subscription(operation)
        ]
        await asyncio.gather(*executing, return_exceptions=True)
        if subscriptions.is_stopping:
            await self._messages.close(RESTARTS, "The server stops: connect again")
        else:
            await self._messages.close(FORBIDDEN, "The token has expired: connect again with a new one")

    # --- what the protocol asks

    async def connect(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Authenticate the client. The acknowledgement has the id under which the log has the connection."""
        self._headers = _with_payload(self._socket.headers, payload)
        identity = await self._endpoint.authenticator.authenticate(self._headers)
        self._caller(identity)
        self._identity.set_result(identity)
        return {"requestId": self._state.correlation_id}

    def _caller(self, identity: Identity) -> Caller:
        self._operations += 1
        operation_id = f"{self._state.correlation_id}-{self._operations}"
        return caller_of(self._headers, identity, self._endpoint.settings, operation_id, read_only=False)

    def read_operation(self, payload: Mapping[str, Any]) -> Operation:
        """Return the operation in the payload of a message."""
        return operation_of(payload)

    def check_place(self, in_progress: int) -> None:
        """Refuse further operations of a client that has too many in progress."""
        limit = self._endpoint.settings.max_connection_operations
        if in_progress >= limit:
            raise TooManySubscriptions(
                f"The connection has {in_progress:,} operations in progress; the limit is {limit:,}. End some of them, "
                "or open another connection."
            )

    def stream(self, operation: Operation) -> Responses:
        """Execute an operation."""
        caller = self._caller(self._identity.result())
        return self._endpoint.subscriptions.stream(operation, caller, self._socket, self._state)


def _with_payload(headers: Headers, payload: Mapping[str, Any]) -> Headers:
    """Return the headers of the handshake, and those in a payload."""
    found = {name.lower(): value for name, value in payload.items() if name.lower() in PAYLOAD_HEADERS}
    for name, value in found.items():
        if not isinstance(value, str):
            raise InvalidRequest(f"{name} in the payload of connection_init is not a text: send a string.")
    added = [(name.encode(), value.encode("latin-1", "replace")) for name, value in found.items()]
    return Headers(raw=[*headers.raw, *added])


class _Messages:
    """The messages of a WebSocket. One that a slow client does not read ends its connection."""

    def __init__(self, socket: WebSocket, max_bytes: int) -> None:
        self._socket = socket
        self._max_bytes = max_bytes

    async def receive(self) -> str | None:
        """Return the next message; None if it is binary. Raise EOFError if the connection has ended."""
        if not self._is_open():
            raise EOFError
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise EOFError
        text: str | None = message.get("text")
        if text is not None and len(text) > self._max_bytes:
            await self.close(_TOO_LARGE, f"A message has at most {self._max_bytes:,} bytes")
            raise EOFError
        return text

    async def send(self, text: str) -> None:
        """Send a message. Raise EOFError if the connection has ended."""
        if not self._is_open():
            raise EOFError
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._socket.send_text(text)
        except TimeoutError:
            await self.close(_TOO_SLOW, "The client reads too slowly")
            raise EOFError from None
        except (WebSocketDisconnect, RuntimeError):
            raise EOFError from None

    async def close(self, code: int, reason: str) -> None:
        """Close the connection, unless it is closed."""
        if self._is_open():
            with suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._socket.close(code, close_reason(reason))

    def _is_open(self) -> bool:
        states = self._socket.client_state, self._socket.application_state
        return WebSocketState.DISCONNECTED not in states

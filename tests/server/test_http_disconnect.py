"""Operations are cancelled when their client disconnects."""

import asyncio
import socket
import struct

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from graphql_api.server.app import build_app
from graphql_api.server.disconnects import cancel_on_disconnect
from graphql_api.server.settings import Settings
from tests.server.scripted_executor import ScriptedExecutor, no_database
from tests.support.loopback import TIMEOUT, RawConnection, request, serve_app

WAIT = b'{"query": "wait"}'
CANCEL_SECONDS = 0.2
"""Seconds within which an operation without a client must end."""


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_disconnect_cancels_the_operation(method: str, reset: bool, caplog: pytest.LogCaptureFixture) -> None:
    """An operation ends within 200 ms after its client closes or resets the connection. Nothing is logged."""
    executor = ScriptedExecutor()
    with serve_app(build_app(executor, no_database(), Settings())) as address, RawConnection(address) as other:
        with RawConnection(address) as connection:
            if method == "POST":
                connection.send(request("POST /graphql", WAIT, content_type="application/json"))
            else:
                connection.send(request("GET /graphql?query=wait", apollo_require_preflight="1"))
            assert executor.waiting.wait(TIMEOUT)
            assert other.post(b'{"query": "{ a }"}').status == 200
            assert not executor.ended.is_set()
            if reset:
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert executor.ended.wait(CANCEL_SECONDS)
        assert other.post(b'{"query": "{ a }"}').status == 200
    assert caplog.records == []


def test_disconnect_during_the_body(caplog: pytest.LogCaptureFixture) -> None:
    """A disconnect before the body is complete executes nothing, and is no failure."""
    executor = ScriptedExecutor()
    with serve_app(build_app(executor, no_database(), Settings())) as address:
        with RawConnection(address) as connection:
            connection.send(request("POST /graphql", content_type="application/json", content_length="100") + b"{")
        with RawConnection(address) as connection:
            assert connection.post(b'{"query": "{ a }"}').status == 200
    assert len(executor.operations) == 1
    assert caplog.records == []


class ClientMessages:
    """The messages of a client: parts of a body, then a disconnect when the event is set."""

    def __init__(self) -> None:
        self.parts = 3
        self.disconnected = asyncio.Event()

    async def __call__(self) -> Message:
        if self.parts:
            self.parts -= 1
            return {"type": "http.request", "body": b"a", "more_body": bool(self.parts)}
        await self.disconnected.wait()
        return {"type": "http.disconnect"}


async def test_result() -> None:
    """An operation that ends before a disconnect returns its result."""
    assert await cancel_on_disconnect(asyncio.sleep(0.01, "done"), ClientMessages()) == "done"


async def test_failure() -> None:
    """The exception of an operation is raised."""

    async def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await cancel_on_disconnect(fails(), ClientMessages())


async def test_cleanup_is_awaited() -> None:
    """A cancelled operation may take time to clean up. The request ends afterwards."""
    messages = ClientMessages()
    ended = False

    async def slowly() -> None:
        nonlocal ended
        try:
            messages.disconnected.set()
            await asyncio.sleep(TIMEOUT)
        finally:
            await asyncio.sleep(0.01)
            ended = True

    with pytest.raises(ClientDisconnect):
        await cancel_on_disconnect(slowly(), messages)
    assert ended


async def test_cancelled_request() -> None:
    """When the request is cancelled, its operation is cancelled too."""
    cancelled = False

    async def forever() -> None:
        nonlocal cancelled
        try:
            await asyncio.sleep(TIMEOUT)
        except asyncio.CancelledError:
            cancelled = True
            raise

    task = asyncio.create_task(cancel_on_disconnect(forever(), ClientMessages()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled

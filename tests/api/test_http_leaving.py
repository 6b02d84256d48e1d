"""Clients that leave: their work ends."""

import asyncio
import socket
import struct

import pytest
from starlette.types import Message

from graphql_api.server.app import WebOptions, build_app
from graphql_api.server.disconnect import ClientDisconnected, cancel_on_disconnect
from tests.api.running import PATIENCE, Wire, request, running
from tests.api.scripted import ScriptedEngine, no_database

WAIT = b'{"query": "wait"}'
SOON = 0.2
"""seconds within which work without a client must have ended"""


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_work_ends_with_its_client(method: str, reset: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A client that closes or resets its connection ends its work within 200 ms, without a line of log."""
    engine = ScriptedEngine()
    with running(build_app(engine, no_database(), WebOptions())) as address, Wire(address) as other:
        with Wire(address) as wire:
            if method == "POST":
                wire.send(request("POST /graphql", WAIT, content_type="application/json"))
            else:
                wire.send(request("GET /graphql?query=wait", apollo_require_preflight="1"))
            assert engine.waits.wait(PATIENCE)
            assert other.post(b'{"query": "{ a }"}').status == 200
            assert not engine.ended.is_set()
            if reset:
                wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert engine.ended.wait(SOON)
        assert other.post(b'{"query": "{ a }"}').status == 200
    assert caplog.records == []


def test_leaving_in_the_middle_of_a_body(caplog: pytest.LogCaptureFixture) -> None:
    """A client that leaves before its body is complete asks nothing of the engine, and is no failure."""
    engine = ScriptedEngine()
    with running(build_app(engine, no_database(), WebOptions())) as address:
        with Wire(address) as wire:
            wire.send(request("POST /graphql", content_type="application/json", content_length="100") + b"{")
        with Wire(address) as wire:
            assert wire.post(b'{"query": "{ a }"}').status == 200
    assert len(engine.operations) == 1
    assert caplog.records == []


class Receiving:
    """The messages of a client: parts of a body, then silence until it leaves."""

    def __init__(self) -> None:
        self.parts = 3
        self.left = asyncio.Event()

    async def __call__(self) -> Message:
        if self.parts:
            self.parts -= 1
            return {"type": "http.request", "body": b"a", "more_body": bool(self.parts)}
        await self.left.wait()
        return {"type": "http.disconnect"}


async def test_result_of_work() -> None:
    """Work that ends before its client leaves gives its result."""
    assert await cancel_on_disconnect(asyncio.sleep(0.01, "done"), Receiving()) == "done"


async def test_failure_of_work() -> None:
    """Work that fails gives its failure."""

    async def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await cancel_on_disconnect(fails(), Receiving())


async def test_end_is_waited_for() -> None:
    """Work that takes time to end is waited for, so that nothing of it is left behind the request."""
    receiving = Receiving()
    ended = False

    async def slowly() -> None:
        nonlocal ended
        try:
            receiving.left.set()
            await asyncio.sleep(PATIENCE)
        finally:
            await asyncio.sleep(0.01)
            ended = True

    with pytest.raises(ClientDisconnected):
        await cancel_on_disconnect(slowly(), receiving)
    assert ended


async def test_the_server_stops() -> None:
    """When the request itself is cancelled, so is its work."""
    cancelled = False

    async def forever() -> None:
        nonlocal cancelled
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            cancelled = True
            raise

    task = asyncio.create_task(cancel_on_disconnect(forever(), Receiving()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled

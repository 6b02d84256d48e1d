"""Large bodies: few of them are read at the same time, so that they take a bounded amount of memory."""

import asyncio
import json

import pytest
from starlette.requests import Request
from starlette.types import Message

from graphql_api.errors import BodyTooSlow
from graphql_api.schema import Operation
from graphql_api.server.graphql_request import LARGE_BODY_BYTES, read_body_operation

PART = LARGE_BODY_BYTES + 1


class Upload:
    """A request whose body arrives in parts, and the task that reads it."""

    def __init__(self, large_bodies: asyncio.Semaphore, size: int, seconds: float = 60.0) -> None:
        text = json.dumps({"query": "{ a }"})
        self._rest = text.encode() + b" " * (size - len(text))
        self.parts = asyncio.Queue[Message]()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(size).encode())]
        request = Request({"type": "http", "method": "POST", "headers": headers}, self.parts.get)
        self.task = asyncio.ensure_future(read_body_operation(request, 1 << 20, 20_000, seconds, large_bodies))

    def send(self, size: int) -> None:
        """Let a part of the body arrive."""
        part, self._rest = self._rest[:size], self._rest[size:]
        self.parts.put_nowait({"type": "http.request", "body": part, "more_body": bool(self._rest)})

    async def settle(self) -> None:
        """Let the task read what it wants to read."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def operation(self) -> Operation:
        """Return the operation."""
        return await asyncio.wait_for(self.task, 60)


async def test_small_bodies_do_not_wait() -> None:
    """A small body needs no place."""
    places = asyncio.Semaphore(1)
    await places.acquire()
    upload = Upload(places, 1_000)
    upload.send(1_000)
    assert (await upload.operation()).query == "{ a }"


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["read", "cancelled"])
async def test_large_bodies_wait_for_a_place(is_cancelled: bool) -> None:
    """While a large body waits, nothing more of it is read. It goes on when another one is read, or cancelled."""
    places = asyncio.Semaphore(1)
    first, second = Upload(places, 2 * PART), Upload(places, 3 * PART)
    for upload in (first, second):
        upload.send(PART)
        await upload.settle()
    second.send(PART)
    second.send(PART)
    await second.settle()
    assert second.parts.qsize() == 2
    if is_cancelled:
        first.task.cancel()
    else:
        first.send(PART)
        assert (await first.operation()).query == "{ a }"
    assert (await second.operation()).query == "{ a }"
    assert not places.locked()


async def test_waiting_has_a_limit() -> None:
    """A large body that gets no place within the time for a body is refused, and leaves no place behind."""
    places = asyncio.Semaphore(1)
    await places.acquire()
    upload = Upload(places, 2 * PART, seconds=0.05)
    upload.send(2 * PART)
    with pytest.raises(BodyTooSlow):
        await upload.operation()
    places.release()
    assert not places.locked()

"""Server-sent events: the protocol graphql-sse in its mode of distinct connections, one operation each.

A stream that is cut off has no event `complete`: clients then subscribe again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from graphql_api.schema import COMPLETE, KEEP_ALIVE, STREAM_HEADERS, Responses, encode_next
from graphql_api.server.disconnects import wait_for_disconnect

SEND_SECONDS = 30.0
"""Time within which a client must read an event."""


class EventStreamResponse(Response):
    """A response that sends a server-sent event for each response of an operation."""

    def __init__(
        self, responses: Responses, wait_for_end: Callable[[], Awaitable[None]], keep_alive_seconds: float
    ) -> None:
        """`wait_for_end` returns when the stream is to be cut off."""
        headers = {**STREAM_HEADERS, "x-content-type-options": "nosniff", "vary": "accept"}
        super().__init__(headers=headers)
        del self.headers["content-length"]
        self._responses = responses
        self._wait_for_end = wait_for_end
        self._keep_alive_seconds = keep_alive_seconds
        self._sending = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        disconnect = wait_for_disconnect(receive)
        if await _first((self._send_all(send), self._keep_alive(send), disconnect, self._end())) == _DISCONNECT:
            raise ClientDisconnect
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send) -> None:
        """Send all responses, in the task in which the generator of the application runs."""
        async with aclosing(self._responses) as responses:
            async for response in responses:
                await self._send(send, encode_next(response))
        await self._send(send, COMPLETE)

    async def _keep_alive(self, send: Send) -> None:
        while True:
            await asyncio.sleep(self._keep_alive_seconds)
            await self._send(send, KEEP_ALIVE)

    async def _end(self) -> None:
        await self._wait_for_end()

    async def _send(self, send: Send, data: bytes) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS), self._sending:
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except TimeoutError:
            raise ClientDisconnect from None


_DISCONNECT = 2
"""the position of that part in a response"""


async def _first(parts: tuple[Coroutine[Any, Any, None], ...]) -> int:
    """Run all parts until one ends, cancel the others, and return the position of the first."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        position = next(position for position, task in enumerate(tasks) if task.done())
        tasks[position].result()
        return position
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

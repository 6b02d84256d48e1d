"""Drains the rest of a request body before the response ends, so that the client can read the response.

A server that closes a connection with unread bytes resets it, and the response is lost. If the rest of the body is
within the limits, the connection stays usable. Otherwise the response says `connection: close`, and the server keeps
reading for a moment until the client has received the response.
"""

import asyncio

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class DrainRequest:
    """Middleware that reads and drops an unread request body, up to `max_bytes` and for `timeout` seconds."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, timeout: float = 1.0) -> None:
        self.app = app
        self.max_bytes = max_bytes
        self.timeout = timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = _RequestBody(scope, receive)
        closes = False

        async def drain_and_send(message: Message) -> None:
            nonlocal closes
            if message["type"] == "http.response.start" and not body.ended:
                headers = MutableHeaders(scope=message)
                closes = headers.get("connection") == "close" or not await body.drain(self.max_bytes, self.timeout)
                if closes:
                    headers["connection"] = "close"
            if closes and message["type"] == "http.response.body" and not message.get("more_body", False):
                await send({**message, "more_body": True})
                await body.discard(self.max_bytes, self.timeout)
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self.app(scope, body.receive, drain_and_send)


class _RequestBody:
    """The body of one request, and how much of it has been received."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        content_length = headers.get("content-length", "0")
        self._receive = receive
        self._content_length = int(content_length[:20]) if content_length.isdecimal() else 0
        self._received_bytes = 0
        self._read_started = False
        self._expects_continue = headers.get("expect", "").lower() == "100-continue"
        self.ended = self._content_length == 0 and "transfer-encoding" not in headers

    async def receive(self) -> Message:
        self._read_started = True
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.ended = True
        else:
            self._received_bytes += len(message.get("body", b""))
            self.ended = not message.get("more_body", False)
        return message

    async def drain(self, max_bytes: int, seconds: float) -> bool:
        """Drain the body. Return False if the rest is too long, or if the client still waits for `100 Continue`."""
        too_long = self._content_length - self._received_bytes > max_bytes
        if too_long or (self._expects_continue and not self._read_started):
            return False
        return await self.discard(max_bytes, seconds)

    async def discard(self, max_bytes: int, seconds: float) -> bool:
        """Read and drop what arrives within these limits. Return whether the body has ended."""
        last_byte = self._received_bytes + max_bytes
        try:
            async with asyncio.timeout(seconds):
                while not self.ended and self._received_bytes <= last_byte:
                    await self.receive()
        except TimeoutError:
            pass
        return self.ended

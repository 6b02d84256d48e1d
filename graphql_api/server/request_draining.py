"""What a client is still sending when its answer is ready: read and dropped up to a bound, so that it sees the answer.

A server that closes a connection with unread bytes in it resets it, and the answer is lost on its way. A body that ends
within the bound leaves the connection usable. Behind a longer one the connection is closed, and said to be; even then
what comes is read for a moment, until the client has seen the answer.
"""

import asyncio

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class DropLeftovers:
    """Middleware; `most` bytes and `patience` seconds bound what is read for nothing."""

    def __init__(self, app: ASGIApp, *, most: int, patience: float = 1.0) -> None:
        self.app = app
        self.most = most
        self.patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = _Body(scope, receive)
        closes = False

        async def send_and_drop(message: Message) -> None:
            nonlocal closes
            if message["type"] == "http.response.start" and not body.ended:
                headers = MutableHeaders(scope=message)
                closes = headers.get("connection") == "close" or not await body.drop(self.most, self.patience)
                if closes:
                    headers["connection"] = "close"
            if closes and message["type"] == "http.response.body" and not message.get("more_body", False):
                await send({**message, "more_body": True})
                await body.linger(self.most, self.patience)
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self.app(scope, body.receive, send_and_drop)


class _Body:
    """The body of one request, and how far it has come."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        declared = headers.get("content-length", "0")
        self._inner = receive
        self._declared = int(declared[:20]) if declared.isdecimal() else 0
        self._came = 0
        self._asked = False
        self._waits_for_consent = headers.get("expect", "").lower() == "100-continue"
        self.ended = self._declared == 0 and "transfer-encoding" not in headers

    async def receive(self) -> Message:
        self._asked = True
        message = await self._inner()
        if message["type"] == "http.disconnect":
            self.ended = True
        else:
            self._came += len(message.get("body", b""))
            self.ended = not message.get("more_body", False)
        return message

    async def drop(self, most: int, patience: float) -> bool:
        """Reads the rest away; False if there is more of it than that, or the client waits to be asked for it."""
        if self._declared - self._came > most or (self._waits_for_consent and not self._asked):
            return False
        return await self.linger(most, patience)

    async def linger(self, most: int, patience: float) -> bool:
        """Reads what comes, up to so many bytes and seconds; whether that was all."""
        last = self._came + most
        try:
            async with asyncio.timeout(patience):
                while not self.ended and self._came <= last:
                    await self.receive()
        except TimeoutError:
            pass
        return self.ended

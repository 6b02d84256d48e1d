"""A client of an ASGI application without a server, which adds next to nothing to the CPU time of a request."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.types import ASGIApp, Message


@dataclass(frozen=True, slots=True)
class Response:
    """Status and text of a response."""

    status: int
    text: str


async def request(
    app: ASGIApp,
    body: bytes,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "POST",
    path: str = "/graphql",
) -> Response:
    """Send a request, by default with a GraphQL operation."""
    sent: list[Message] = []
    received = [{"type": "http.request", "body": body, "more_body": False}]
    all_headers = {
        "host": "localhost",
        "content-type": "application/json",
        "accept": "application/graphql-response+json",
        "content-length": str(len(body)),
        **(headers or {}),
    }

    async def receive() -> Message:
        if received:
            return received.pop()
        await asyncio.Event().wait()
        raise AssertionError("the client never disconnects")

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in all_headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }
    await app(scope, receive, send)
    return Response(sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:]).decode())

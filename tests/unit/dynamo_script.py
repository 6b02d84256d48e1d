"""A server on loopback that answers DynamoDB's protocol as a test tells it, and remembers what it was asked."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from aiohttp import web

from graphql_api.storage.engines.dynamodb import DynamoSettings, DynamoStore
from tests.dynamodb_local import Server

DESCRIPTION: dict[str, Any] = {
    "TableName": "script",
    "TableStatus": "ACTIVE",
    "KeySchema": [
        {"AttributeName": "hashKey", "KeyType": "HASH"},
        {"AttributeName": "rangeKey", "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": name, "AttributeType": kind}
        for name, kind in (("hashKey", "S"), ("rangeKey", "S"), ("t", "S"), ("text", "S"), ("n", "S"), ("number", "N"))
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": name,
            "IndexStatus": "ACTIVE",
            "KeySchema": [
                {"AttributeName": hash_attribute, "KeyType": "HASH"},
                {"AttributeName": range_attribute, "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "ALL"},
        }
        for name, hash_attribute, range_attribute in (("byText", "t", "text"), ("byNumber", "n", "number"))
    ],
}

QUICK = DynamoSettings(
    deadline=60.0,
    connect_seconds=10.0,
    read_seconds=20.0,
    backoff_base=0.001,
    backoff_cap=0.002,
    breaker_failures=100,
)
"""pauses that a test does not feel; takes no busy machine for a fault"""


@dataclass(frozen=True)
class Reply:
    """What the server says: a body with its right checksum unless another one is given."""

    body: Mapping[str, Any] | bytes
    status: int = 200
    checksum: int | None = None
    after: float = 0.0
    """seconds"""
    drop: bool = False
    """closes the connection instead of answering"""

    def response(self) -> web.Response:
        """The reply as it is sent."""
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        told = crc32(body) if self.checksum is None else self.checksum
        headers = {"x-amz-crc32": str(told), "content-type": "application/x-amz-json-1.0"}
        return web.Response(status=self.status, body=body, headers=headers)


DROPPED = Reply({}, drop=True)
SILENT = Reply({}, after=30)


def error(code: str, status: int = 400, **more: Any) -> Reply:
    """A reply that tells of an error."""
    return Reply({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": f"told: {code}", **more}, status)


Teller = Callable[[Mapping[str, Any]], Reply]


@dataclass
class Script:
    """What is answered to each operation: replies in turn, of which the last one stays."""

    endpoint: str = ""
    replies: dict[str, list[Reply | Teller]] = field(
        default_factory=lambda: {"DescribeTable": [Reply({"Table": DESCRIPTION})]}
    )
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def tell(self, operation: str, *replies: Reply | Teller) -> None:
        """Sets what an operation is answered from now on."""
        self.replies[operation] = list(replies)

    def requests(self, operation: str) -> list[dict[str, Any]]:
        """What an operation was asked so far."""
        return [request for name, request in self.asked if name == operation]

    @property
    def counts(self) -> Counter[str]:
        return Counter(name for name, _ in self.asked)

    async def open(self, settings: DynamoSettings = QUICK, **changes: Any) -> DynamoStore:
        """A store on the script."""
        return await Server(self.endpoint).open("script", replace(settings, **changes))

    async def busy_with(self, requests: int) -> None:
        """Waits until so many requests are on their way."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.in_flight >= requests)

    async def idle(self) -> None:
        """Waits until no request is on its way."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.in_flight == 0)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Plays one step."""
        operation = request.headers["X-Amz-Target"].partition(".")[2]
        asked = json.loads(await request.read())
        self.asked.append((operation, asked))
        left = self.replies[operation]
        step = left.pop(0) if len(left) > 1 else left[0]
        reply = step if isinstance(step, Reply) else step(asked)
        async with self.changed:
            self.in_flight += 1
            self.changed.notify_all()
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(reply.after)
        finally:
            async with self.changed:
                self.in_flight -= 1
                self.changed.notify_all()
        if reply.drop and request.transport is not None:
            request.transport.abort()
        return reply.response()


@asynccontextmanager
async def playing() -> AsyncIterator[Script]:
    """A script, and the server that plays it."""
    script = Script()
    app = web.Application(client_max_size=32 * 1024 * 1024)
    app.router.add_post("/", script.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    script.endpoint = f"http://{host}:{port}"
    try:
        yield script
    finally:
        await runner.cleanup()

"""A server on loopback that answers the DynamoDB protocol with scripted replies and records its requests."""

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
from graphql_api.storage.engines.dynamodb.driver_client import READS, WRITES
from tests.support.dynamodb_servers import Server

DESCRIPTION: dict[str, Any] = {
    "TableName": "script",
    "TableStatus": "ACTIVE",
    "KeySchema": [
        {"AttributeName": "hashKey", "KeyType": "HASH"},
        {"AttributeName": "rangeKey", "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": name, "AttributeType": attribute_type}
        for name, attribute_type in (
            ("hashKey", "S"),
            ("rangeKey", "S"),
            ("t", "S"),
            ("text", "S"),
            ("n", "S"),
            ("number", "N"),
        )
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
    attempts=3,
    backoff_base=0.001,
    backoff_cap=0.002,
    breaker_failures=100,
)
"""few attempts, short pauses, and timeouts long enough for a busy machine"""


@dataclass(frozen=True)
class Reply:
    """A reply of the server. Its checksum is correct unless another one is set."""

    body: Mapping[str, Any] | bytes
    status: int = 200
    checksum: int | None = None
    delay: float = 0.0
    """seconds"""
    drop: bool = False
    """closes the connection instead of answering"""
    content_type: str = "application/x-amz-json-1.0"
    has_checksum: bool = True

    def response(self) -> web.Response:
        """Return the reply as an HTTP response."""
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        checksum = crc32(body) if self.checksum is None else self.checksum
        headers = {"content-type": self.content_type} | ({"x-amz-crc32": str(checksum)} if self.has_checksum else {})
        return web.Response(status=self.status, body=body, headers=headers)


DROPPED = Reply({}, drop=True)
NO_RESPONSE = Reply({}, delay=30)


def error_reply(code: str, status: int = 400, **more: Any) -> Reply:
    """A reply with an error code."""
    return Reply({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": f"scripted: {code}", **more}, status)


ReplyFunction = Callable[[Mapping[str, Any]], Reply]


@dataclass
class ScriptedDynamoDB:
    """The replies to each operation, in order. The last reply repeats."""

    endpoint: str = ""
    replies: dict[str, list[Reply | ReplyFunction]] = field(
        default_factory=lambda: {"DescribeTable": [Reply({"Table": DESCRIPTION})]}
    )
    transport: str = "direct"
    """that of the stores that `open` opens"""
    received: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    """those of the received requests"""
    in_flight: int = 0
    peak_in_flight: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def set_replies(self, operation: str, *replies: Reply | ReplyFunction) -> None:
        """Set the replies to an operation."""
        self.replies[operation] = list(replies)

    @property
    def transports(self) -> set[str]:
        """Return how the frequent requests were sent: the client of aioboto3 adds a header to each attempt."""
        return {
            "aioboto3" if "amz-sdk-invocation-id" in headers else "direct"
            for (operation, _), headers in zip(self.received, self.headers, strict=True)
            if operation in READS | WRITES
        }

    def requests(self, operation: str) -> list[dict[str, Any]]:
        """Return the requests of an operation so far."""
        return [request for name, request in self.received if name == operation]

    @property
    def counts(self) -> Counter[str]:
        return Counter(name for name, _ in self.received)

    async def open(self, settings: DynamoSettings = QUICK, **changes: Any) -> DynamoStore:
        """Open a store on the server."""
        return await Server(self.endpoint).open("script", replace(settings, **{"transport": self.transport, **changes}))

    async def wait_for_requests(self, requests: int) -> None:
        """Wait until this number of requests is in flight."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.in_flight >= requests)

    async def wait_until_idle(self) -> None:
        """Wait until no request is in flight."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.in_flight == 0)

    async def handle_request(self, request: web.Request) -> web.StreamResponse:
        """Return the next reply of an operation."""
        operation = request.headers["X-Amz-Target"].partition(".")[2]
        body = json.loads(await request.read())
        self.received.append((operation, body))
        self.headers.append(request.headers)
        replies = self.replies[operation]
        next_reply = replies.pop(0) if len(replies) > 1 else replies[0]
        reply = next_reply if isinstance(next_reply, Reply) else next_reply(body)
        async with self.changed:
            self.in_flight += 1
            self.changed.notify_all()
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        try:
            await asyncio.sleep(reply.delay)
        finally:
            async with self.changed:
                self.in_flight -= 1
                self.changed.notify_all()
        if reply.drop and request.transport is not None:
            request.transport.abort()
        return reply.response()


@asynccontextmanager
async def start_scripted_dynamodb(transport: str = "direct") -> AsyncIterator[ScriptedDynamoDB]:
    """Start the server."""
    server = ScriptedDynamoDB(transport=transport)
    app = web.Application(client_max_size=32 * 1024 * 1024)
    app.router.add_post("/", server.handle_request)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.endpoint = f"http://{host}:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()

"""Faults between a client and a server, one class each."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

import orjson

from tests.faults.dynamodb_requests import Request
from tests.faults.http_messages import Message


class Exchange(Protocol):
    """One request between client and server, and the actions that a fault can take on it."""

    @property
    def request(self) -> Request: ...

    async def forward(self) -> Message:
        """Send the request to the server and return its response."""
        ...

    async def send_response(self, message: Message) -> None:
        """Send a response to the client unchanged."""
        ...

    async def wait_for_disconnect(self) -> None:
        """Wait until the client has disconnected."""
        ...

    def reset(self) -> None:
        """Break the client connection with RST."""
        ...

    def close(self) -> None:
        """Close the client connection in an orderly way."""
        ...


class Fault(Protocol):
    """Replaces the normal exchange of a request."""

    async def apply(self, exchange: Exchange) -> None: ...


@dataclass(frozen=True, slots=True)
class Delay:
    """The response is delayed."""

    seconds: float

    async def apply(self, exchange: Exchange) -> None:
        await asyncio.sleep(self.seconds)
        await exchange.send_response(await exchange.forward())


@dataclass(frozen=True, slots=True)
class BlackHole:
    """The request is received and never answered."""

    async def apply(self, exchange: Exchange) -> None:
        await exchange.wait_for_disconnect()


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection breaks before the server receives the request."""

    async def apply(self, exchange: Exchange) -> None:
        exchange.reset()


@dataclass(frozen=True, slots=True)
class AppliedThenReset:
    """The server executes the request, and the connection breaks before the response."""

    async def apply(self, exchange: Exchange) -> None:
        await exchange.forward()
        exchange.reset()


@dataclass(frozen=True, slots=True)
class ResetAfterEvent:
    """An event happens, then the connection breaks. The server may have executed the request before the event."""

    event: Callable[[], Awaitable[object]]
    applied: bool

    async def apply(self, exchange: Exchange) -> None:
        if self.applied:
            await exchange.forward()
        await self.event()
        exchange.reset()


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The server receives the request twice, and the client receives the second response."""

    async def apply(self, exchange: Exchange) -> None:
        await exchange.forward()
        await exchange.send_response(await exchange.forward())


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An error response in the format of DynamoDB. The server does not receive the request."""

    status: str
    error_type: str
    namespace: str = "com.amazonaws.dynamodb.v20120810"

    async def apply(self, exchange: Exchange) -> None:
        error_type = f"{self.namespace}#{self.error_type}"
        await exchange.send_response(
            json_response(self.status, {"__type": error_type, "message": f"{self.error_type} from the fault proxy."})
        )


THROTTLE = ErrorReply("400 Bad Request", "ProvisionedThroughputExceededException")
THROTTLE_OF_SERVICE = ErrorReply("400 Bad Request", "ThrottlingException", "com.amazon.coral.availability")
SERVER_ERROR = ErrorReply("500 Internal Server Error", "InternalServerError")


@dataclass(frozen=True, slots=True)
class TransactionConflict:
    """A write fails because of a concurrent transaction. In a transaction, the conflict is on its first write."""

    async def apply(self, exchange: Exchange) -> None:
        actions = exchange.request.body.get("TransactItems")
        if actions is None:
            await ErrorReply("400 Bad Request", "TransactionConflictException").apply(exchange)
            return
        error_type = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException"
        reasons = [{"Code": "TransactionConflict"}, *({"Code": "None"} for _ in actions[1:])]
        content = {"__type": error_type, "message": "from the fault proxy.", "CancellationReasons": reasons}
        await exchange.send_response(json_response("400 Bad Request", content))


@dataclass(frozen=True, slots=True)
class Truncated:
    """The client receives half of the response with the Content-Length of the whole. Then the connection closes."""

    async def apply(self, exchange: Exchange) -> None:
        response = await exchange.forward()
        half = Message(response.start, response.headers, _half(response.body))
        await exchange.send_response(half.with_header("Content-Length", str(len(response.body))))
        exchange.close()


@dataclass(frozen=True, slots=True)
class CutShort:
    """The client receives half of the response with a matching Content-Length. Only JSON and checksum are invalid."""

    async def apply(self, exchange: Exchange) -> None:
        response = await exchange.forward()
        await exchange.send_response(response.with_body(_half(response.body)))


@dataclass(frozen=True, slots=True)
class Garbage:
    """The client receives bytes that are not UTF-8, with the checksum of the original response."""

    async def apply(self, exchange: Exchange) -> None:
        response = await exchange.forward()
        await exchange.send_response(response.with_body(b"\xff\xfe\x80" + _half(response.body)[::-1]))


@dataclass(frozen=True, slots=True)
class Corrupted:
    """The last digit of the response is changed. It is valid JSON, and only its checksum is wrong."""

    async def apply(self, exchange: Exchange) -> None:
        response = await exchange.forward()
        await exchange.send_response(response.with_body(_LAST_DIGIT.sub(_next_digit, response.body, count=1)))


@dataclass(frozen=True, slots=True)
class Empty:
    """A successful response with the body `{}` and a valid checksum."""

    async def apply(self, exchange: Exchange) -> None:
        await exchange.forward()
        await exchange.send_response(json_response("200 OK", {}))


def json_response(status: str, content: object) -> Message:
    """Return a response with the headers that DynamoDB sends."""
    body = orjson.dumps(content)
    headers = (
        ("Content-Type", "application/x-amz-json-1.0"),
        ("x-amzn-RequestId", "0" * 52),
        ("x-amz-crc32", str(crc32(body))),
    )
    return Message(f"HTTP/1.1 {status}", headers, b"").with_body(body)


_LAST_DIGIT = re.compile(rb"\d(?=\D*$)")


def _next_digit(match: re.Match[bytes]) -> bytes:
    return b"%d" % ((int(match[0]) + 1) % 10)


def _half(body: bytes) -> bytes:
    return body[: len(body) // 2]

"""What may go wrong between a client and its server, one class each."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

import orjson

from tests.faults.messages import Message
from tests.faults.requests import Request


class Exchange(Protocol):
    """A request on its way, and what can be done with it."""

    @property
    def request(self) -> Request: ...

    async def forward(self) -> Message:
        """Sends the request to the server, and gives its answer."""
        ...

    async def answer(self, message: Message) -> None:
        """Sends an answer to the client, as it is."""
        ...

    async def until_gone(self) -> None:
        """Waits until the client has given up."""
        ...

    def reset(self) -> None:
        """Breaks the client's connection with RST."""
        ...

    def close(self) -> None:
        """Ends the client's connection in order."""
        ...


class Fault(Protocol):
    """Something that becomes of a request instead of an answer."""

    async def play(self, exchange: Exchange) -> None: ...


@dataclass(frozen=True, slots=True)
class Delay:
    """The answer comes late."""

    seconds: float

    async def play(self, exchange: Exchange) -> None:
        await asyncio.sleep(self.seconds)
        await exchange.answer(await exchange.forward())


@dataclass(frozen=True, slots=True)
class BlackHole:
    """The request is taken and never answered."""

    async def play(self, exchange: Exchange) -> None:
        await exchange.until_gone()


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection breaks before the server has seen anything."""

    async def play(self, exchange: Exchange) -> None:
        exchange.reset()


@dataclass(frozen=True, slots=True)
class AppliedThenReset:
    """The server does what it was asked, and the connection breaks before the answer."""

    async def play(self, exchange: Exchange) -> None:
        await exchange.forward()
        exchange.reset()


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Something else happens before the connection breaks, and the server has done what it was asked before, or not."""

    event: Callable[[], Awaitable[object]]
    applied: bool

    async def play(self, exchange: Exchange) -> None:
        if self.applied:
            await exchange.forward()
        await self.event()
        exchange.reset()


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The server gets the request twice; the client hears the second answer."""

    async def play(self, exchange: Exchange) -> None:
        await exchange.forward()
        await exchange.answer(await exchange.forward())


@dataclass(frozen=True, slots=True)
class Refuse:
    """An error in the server's own form, which has not done anything."""

    status: str
    kind: str
    namespace: str = "com.amazonaws.dynamodb.v20120810"

    async def play(self, exchange: Exchange) -> None:
        kind = f"{self.namespace}#{self.kind}"
        await exchange.answer(answer_of(self.status, {"__type": kind, "message": f"{self.kind} by order."}))


THROTTLE = Refuse("400 Bad Request", "ProvisionedThroughputExceededException")
THROTTLE_OF_SERVICE = Refuse("400 Bad Request", "ThrottlingException", "com.amazon.coral.availability")
SERVER_ERROR = Refuse("500 Internal Server Error", "InternalServerError")


@dataclass(frozen=True, slots=True)
class MeetsOthers:
    """A write is refused since another transaction is under way; a transaction is told so of its first write."""

    async def play(self, exchange: Exchange) -> None:
        actions = exchange.request.body.get("TransactItems")
        if actions is None:
            await Refuse("400 Bad Request", "TransactionConflictException").play(exchange)
            return
        kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException"
        reasons = [{"Code": "TransactionConflict"}, *({"Code": "None"} for _ in actions[1:])]
        told = {"__type": kind, "message": "by order.", "CancellationReasons": reasons}
        await exchange.answer(answer_of("400 Bad Request", told))


@dataclass(frozen=True, slots=True)
class Truncated:
    """Half of the answer comes; its length was announced in full, then the connection ends."""

    async def play(self, exchange: Exchange) -> None:
        whole = await exchange.forward()
        half = Message(whole.start, whole.headers, _half(whole.body))
        await exchange.answer(half.with_header("Content-Length", str(len(whole.body))))
        exchange.close()


@dataclass(frozen=True, slots=True)
class CutShort:
    """Half of the answer comes, and its length agrees: only the JSON and the checksum tell."""

    async def play(self, exchange: Exchange) -> None:
        whole = await exchange.forward()
        await exchange.answer(whole.with_body(_half(whole.body)))


@dataclass(frozen=True, slots=True)
class Garbage:
    """Octets that are no text at all; the checksum is that of what the server had said."""

    async def play(self, exchange: Exchange) -> None:
        whole = await exchange.forward()
        await exchange.answer(whole.with_body(b"\xff\xfe\x80" + _half(whole.body)[::-1]))


@dataclass(frozen=True, slots=True)
class Corrupted:
    """The answer is still JSON of the right shape, but its last digit is another one: only the checksum tells."""

    async def play(self, exchange: Exchange) -> None:
        whole = await exchange.forward()
        await exchange.answer(whole.with_body(_LAST_DIGIT.sub(_another_digit, whole.body, count=1)))


@dataclass(frozen=True, slots=True)
class Empty:
    """A success that says nothing: `{}`, with its right checksum."""

    async def play(self, exchange: Exchange) -> None:
        await exchange.forward()
        await exchange.answer(answer_of("200 OK", {}))


def answer_of(status: str, content: object) -> Message:
    """An answer with everything that DynamoDB sends along."""
    body = orjson.dumps(content)
    headers = (
        ("Content-Type", "application/x-amz-json-1.0"),
        ("x-amzn-RequestId", "0" * 52),
        ("x-amz-crc32", str(crc32(body))),
    )
    return Message(f"HTTP/1.1 {status}", headers, b"").with_body(body)


_LAST_DIGIT = re.compile(rb"\d(?=\D*$)")


def _another_digit(found: re.Match[bytes]) -> bytes:
    return b"%d" % ((int(found[0]) + 1) % 10)


def _half(body: bytes) -> bytes:
    return body[: len(body) // 2]

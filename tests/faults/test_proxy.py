"""The fault proxy itself, before a server that only counts."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from random import Random
from typing import Any
from zlib import crc32

import orjson
import pytest

from tests.faults.faults import (
    SERVER_ERROR,
    THROTTLE,
    THROTTLE_OF_SERVICE,
    AppliedThenReset,
    BlackHole,
    Corrupted,
    CutShort,
    Delay,
    Duplicate,
    Empty,
    Fault,
    Garbage,
    Refuse,
    Reset,
    Truncated,
    answer_of,
)
from tests.faults.messages import Message, read_message
from tests.faults.proxy import LOOPBACK, FaultProxy
from tests.faults.requests import Request, read_request
from tests.faults.rules import always, first_try, now_and_then, of_shard, only_first

QUERY = {
    "TableName": "things",
    "IndexName": "gsi01",
    "KeyConditionExpression": "#h = :h AND #r >= :r",
    "ExpressionAttributeNames": {"#h": "h", "#r": "r"},
    "ExpressionAttributeValues": {":h": {"S": "thing!03|x#1"}, ":r": {"S": "place#7"}},
}


@dataclass
class CountingServer:
    """Answers every request with its number."""

    port: int = 0
    bodies: list[Any] = field(default_factory=list)
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while (message := await read_message(reader)) is not None:
            self.bodies.append(orjson.loads(message.body))
            writer.write(answer_of("200 OK", {"number": len(self.bodies), "text": "some words"}).encode())
        writer.close()


class Client:
    """One connection, without any cleverness."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, operation: str = "Query", body: Any = None) -> Message | None:
        headers = (("Host", LOOPBACK), ("X-Amz-Target", f"DynamoDB_20120810.{operation}"))
        message = Message("POST / HTTP/1.1", headers, b"").with_body(orjson.dumps(body or QUERY))
        self._writer.write(message.encode())
        return await read_message(self._reader)

    async def number(self) -> Any:
        answer = await self.ask()
        assert answer is not None
        return orjson.loads(answer.body)["number"]

    def leave(self) -> None:
        self._writer.close()


@pytest.fixture
async def server() -> AsyncIterator[CountingServer]:
    """A server to stand behind the proxy."""
    counting = CountingServer()
    listening = await asyncio.start_server(counting.serve, LOOPBACK, 0)
    counting.port = listening.sockets[0].getsockname()[1]
    yield counting
    listening.close()
    await listening.wait_closed()


@pytest.fixture
async def proxy(server: CountingServer) -> AsyncIterator[FaultProxy]:
    """A proxy without faults."""
    async with FaultProxy(server.port) as running:
        yield running


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[Client]:
    """A connection to the proxy."""
    reader, writer = await asyncio.open_connection(LOOPBACK, int(proxy.endpoint.rpartition(":")[2]))
    yield Client(reader, writer)
    writer.close()


async def test_without_a_fault_everything_passes_over_one_connection(
    client: Client, proxy: FaultProxy, server: CountingServer
) -> None:
    """Requests of one connection are forwarded over one connection, in order, and counted."""
    assert [await client.number() for _ in range(3)] == [1, 2, 3]
    assert (server.connections, proxy.most_connections, proxy.most_in_flight) == (1, 1, 1)
    assert server.bodies == [QUERY] * 3
    assert [request.number for request in proxy.requests] == [0, 1, 2]
    assert proxy.calls() == {"thing!03|x#1": 3}
    assert (proxy.spoiled, proxy.in_flight) == ([], set())


async def test_a_delay_answers_late_and_a_client_that_left_is_no_longer_in_flight(
    client: Client, proxy: FaultProxy
) -> None:
    """A delayed answer is the right one, and nobody counts as waiting who has closed the connection."""
    proxy.rule = always(Delay(0.05))
    before = asyncio.get_running_loop().time()
    assert await client.number() == 1
    assert asyncio.get_running_loop().time() - before >= 0.05
    proxy.rule = always(Delay(60))
    asking = asyncio.ensure_future(client.ask())
    await proxy.until(lambda: len(proxy.in_flight) == 1)
    client.leave()
    await proxy.until(lambda: not proxy.in_flight)
    assert await asking is None


async def test_a_black_hole_takes_a_request_and_says_nothing(
    client: Client, proxy: FaultProxy, server: CountingServer
) -> None:
    """The connection stays open, the server sees nothing, and the request stays in flight until its client leaves."""
    proxy.rule = always(BlackHole())
    asking = asyncio.ensure_future(client.ask())
    await proxy.until(lambda: len(proxy.in_flight) == 1)
    done, _ = await asyncio.wait({asking}, timeout=0.05)
    assert not done
    assert proxy.connections == 1
    assert server.bodies == []
    client.leave()
    await proxy.until(lambda: not proxy.in_flight)
    assert await asking is None


@pytest.mark.parametrize(("fault", "applied"), [(Reset(), 0), (AppliedThenReset(), 1)])
async def test_a_reset_breaks_the_connection_before_or_after_the_server_has_acted(
    client: Client, proxy: FaultProxy, server: CountingServer, fault: Fault, applied: int
) -> None:
    """The client gets RST, not an orderly end, and the server has seen the request only where the fault says so."""
    proxy.rule = always(fault)
    with pytest.raises(ConnectionResetError):
        await client.ask()
    assert len(server.bodies) == applied


async def test_a_duplicate_reaches_the_server_twice_and_is_answered_once(
    client: Client, proxy: FaultProxy, server: CountingServer
) -> None:
    """The client hears one answer, and its next request gets the next one."""
    proxy.rule = only_first(Duplicate())
    assert await client.number() == 2
    assert await client.number() == 3
    assert server.bodies == [QUERY] * 3


@pytest.mark.parametrize(
    ("fault", "start", "kind"),
    [
        (
            THROTTLE,
            "HTTP/1.1 400 Bad Request",
            "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
        ),
        (THROTTLE_OF_SERVICE, "HTTP/1.1 400 Bad Request", "com.amazon.coral.availability#ThrottlingException"),
        (
            SERVER_ERROR,
            "HTTP/1.1 500 Internal Server Error",
            "com.amazonaws.dynamodb.v20120810#InternalServerError",
        ),
    ],
)
async def test_a_refusal_looks_like_the_servers_own(
    client: Client, proxy: FaultProxy, server: CountingServer, fault: Refuse, start: str, kind: str
) -> None:
    """Status, type and checksum are those of DynamoDB, and the server has seen nothing."""
    proxy.rule = always(fault)
    answer = await client.ask()
    assert answer is not None
    assert answer.start == start
    assert orjson.loads(answer.body)["__type"] == kind
    assert answer.header("x-amz-crc32") == str(crc32(answer.body))
    assert answer.header("content-type") == "application/x-amz-json-1.0"
    assert server.bodies == []


async def test_a_truncated_answer_ends_before_its_length(client: Client, proxy: FaultProxy) -> None:
    """Half of the body comes, then the connection ends in order."""
    proxy.rule = always(Truncated())
    with pytest.raises(asyncio.IncompleteReadError) as ended:
        await client.ask()
    assert ended.value.expected is not None
    assert len(ended.value.partial) == ended.value.expected // 2


@pytest.mark.parametrize("fault", [CutShort(), Garbage(), Corrupted(), Empty()])
async def test_a_spoiled_answer_leaves_the_connection_in_order(client: Client, proxy: FaultProxy, fault: Fault) -> None:
    """The length is that of what came, so that the next request on the connection is answered as ever."""
    proxy.rule = only_first(fault)
    answer = await client.ask()
    assert answer is not None
    assert await client.number() == 2
    is_whole = answer.header("x-amz-crc32") == str(crc32(answer.body))
    assert is_whole == isinstance(fault, Empty)
    if isinstance(fault, Empty):
        assert answer.body == b"{}"
    elif isinstance(fault, Corrupted):
        assert orjson.loads(answer.body) == {"number": 2, "text": "some words"}
    else:
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(answer.body)
    if isinstance(fault, Garbage):
        with pytest.raises(UnicodeDecodeError):
            answer.body.decode()


async def test_an_answer_in_chunks_arrives_whole() -> None:
    """A server may answer in chunks; the client gets one body of known length."""
    chunked = (
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n6;x=y\r\n": 42}\r\n0\r\nTrailer: 1\r\n\r\n'
    )
    reader = asyncio.StreamReader()
    reader.feed_data(chunked)
    message = await read_message(reader)
    assert message is not None
    assert (message.body, message.headers) == (b'{"a": 42}', (("Content-Length", "9"),))


async def test_a_mistake_of_the_proxy_itself_fails_the_test(server: CountingServer) -> None:
    """A rule that raises does not pass for a fault of the network."""

    def broken(_: Request) -> Fault | None:
        raise LookupError("no such shard")

    proxy = FaultProxy(server.port, broken)
    await proxy.__aenter__()
    reader, writer = await asyncio.open_connection(LOOPBACK, int(proxy.endpoint.rpartition(":")[2]))
    assert await Client(reader, writer).ask() is None
    writer.close()
    with pytest.raises(ExceptionGroup) as found:
        await proxy.__aexit__(None, None, None)
    assert found.group_contains(LookupError)


# --- what a request asks for -----------------------------------------------------------------------------------


def _request(operation: str, body: Any) -> Request:
    message = Message("POST / HTTP/1.1", (("X-Amz-Target", f"DynamoDB_20120810.{operation}"),), orjson.dumps(body))
    return read_request(message, 0, 0.0, "hashKey")


def _key(shard: str) -> dict[str, Any]:
    return {"hashKey": {"S": f"thing!{shard}"}, "rangeKey": {"S": "key#1"}}


@pytest.mark.parametrize(
    ("operation", "body", "shards"),
    [
        ("Query", QUERY, {"03"}),
        ("Query", QUERY | {"KeyConditionExpression": "h=:h AND r <= :r"}, {"03"}),
        ("GetItem", {"Key": _key("01")}, {"01"}),
        ("PutItem", {"Item": _key("01")}, {"01"}),
        ("BatchGetItem", {"RequestItems": {"things": {"Keys": [_key("01"), _key("02")]}}}, {"01", "02"}),
        (
            "BatchWriteItem",
            {
                "RequestItems": {
                    "things": [{"PutRequest": {"Item": _key("01")}}, {"DeleteRequest": {"Key": _key("05")}}]
                }
            },
            {"01", "05"},
        ),
        (
            "TransactWriteItems",
            {"TransactItems": [{"Put": {"Item": _key("01")}}, {"Delete": {"Key": _key("04")}}]},
            {"01", "04"},
        ),
        ("Scan", {"TableName": "things"}, set()),
        ("DescribeTable", {"TableName": "things"}, set()),
    ],
)
def test_a_request_tells_its_operation_and_its_shards(operation: str, body: Any, shards: set[str]) -> None:
    """Whatever the operation, rules can aim at the shards that it touches."""
    request = _request(operation, body)
    assert (request.operation, set(request.shards)) == (operation, shards)


# --- rules -----------------------------------------------------------------------------------------------------


def test_rules_choose_by_shard_by_try_and_by_chance() -> None:
    """Each rule spoils exactly the requests that it is for."""
    query, put = _request("Query", QUERY), _request("PutItem", {"Item": _key("03")})
    other = _request("Query", QUERY | {"ExpressionAttributeValues": {":h": {"S": "thing!04"}}})
    reset = Reset()
    assert [always(reset, of_shard("03"))(request) for request in (query, put, other)] == [reset, None, None]
    rule = first_try(reset)
    assert [rule(request) for request in (query, query, other, other, put)] == [reset, None, reset, None, None]
    rule = only_first(reset)
    assert [rule(request) for request in (put, query, other, query)] == [None, reset, None, None]
    rule = now_and_then(0.1, Random(7), reset, THROTTLE)
    met = [rule(query) for _ in range(10_000)]
    assert 900 < len([fault for fault in met if fault is not None]) < 1_100
    assert {fault for fault in met if fault is not None} == {reset, THROTTLE}
    assert rule(put) is None

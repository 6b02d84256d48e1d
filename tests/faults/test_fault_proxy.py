"""The fault proxy, in front of a server that counts requests."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from random import Random
from typing import Any
from zlib import crc32

import orjson
import pytest

from tests.faults.dynamodb_requests import Request, read_request
from tests.faults.fault_proxy import LOOPBACK, FaultProxy
from tests.faults.fault_rules import always, first_attempts, first_request, random_faults, reads_shard
from tests.faults.fault_types import (
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
    ErrorReply,
    Fault,
    Garbage,
    Reset,
    Truncated,
    json_response,
)
from tests.faults.http_messages import Message, read_message

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
            writer.write(json_response("200 OK", {"number": len(self.bodies), "text": "some words"}).encode())
        writer.close()


class Client:
    """One connection that sends requests without retries."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def request(self, operation: str = "Query", body: Any = None) -> Message | None:
        headers = (("Host", LOOPBACK), ("X-Amz-Target", f"DynamoDB_20120810.{operation}"))
        message = Message("POST / HTTP/1.1", headers, b"").with_body(orjson.dumps(body or QUERY))
        self._writer.write(message.encode())
        return await read_message(self._reader)

    async def number(self) -> Any:
        response = await self.request()
        assert response is not None
        return orjson.loads(response.body)["number"]

    def disconnect(self) -> None:
        self._writer.close()


@pytest.fixture
async def server() -> AsyncIterator[CountingServer]:
    """The server of the proxy."""
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


async def test_requests_without_faults_use_one_connection(
    client: Client, proxy: FaultProxy, server: CountingServer
) -> None:
    """Requests of one client connection are forwarded over one server connection, in order, and counted."""
    assert [await client.number() for _ in range(3)] == [1, 2, 3]
    assert (server.connections, proxy.peak_connections, proxy.peak_in_flight) == (1, 1, 1)
    assert server.bodies == [QUERY] * 3
    assert [request.number for request in proxy.requests] == [0, 1, 2]
    assert proxy.calls_by_hash_key() == {"thing!03|x#1": 3}
    assert (proxy.faulted, proxy.in_flight) == ([], set())


async def test_delay(client: Client, proxy: FaultProxy) -> None:
    """A delayed response is unchanged. A request is no longer in flight after its client has disconnected."""
    proxy.rule = always(Delay(0.05))
    before = asyncio.get_running_loop().time()
    assert await client.number() == 1
    assert asyncio.get_running_loop().time() - before >= 0.05
    proxy.rule = always(Delay(60))
    pending_request = asyncio.ensure_future(client.request())
    await proxy.wait_until(lambda: len(proxy.in_flight) == 1)
    client.disconnect()
    await proxy.wait_until(lambda: not proxy.in_flight)
    assert await pending_request is None


async def test_black_hole(client: Client, proxy: FaultProxy, server: CountingServer) -> None:
    """The connection stays open, the server gets nothing, and the request is in flight until its client disconnects."""
    proxy.rule = always(BlackHole())
    pending_request = asyncio.ensure_future(client.request())
    await proxy.wait_until(lambda: len(proxy.in_flight) == 1)
    done, _ = await asyncio.wait({pending_request}, timeout=0.05)
    assert not done
    assert proxy.connections == 1
    assert server.bodies == []
    client.disconnect()
    await proxy.wait_until(lambda: not proxy.in_flight)
    assert await pending_request is None


@pytest.mark.parametrize(("fault", "applied"), [(Reset(), 0), (AppliedThenReset(), 1)])
async def test_reset(client: Client, proxy: FaultProxy, server: CountingServer, fault: Fault, applied: int) -> None:
    """The client gets RST. The server has received the request only if the fault is `AppliedThenReset`."""
    proxy.rule = always(fault)
    with pytest.raises(ConnectionResetError):
        await client.request()
    assert len(server.bodies) == applied


async def test_duplicate(client: Client, proxy: FaultProxy, server: CountingServer) -> None:
    """The server gets the request twice. The client gets one response, and the next request gets the next one."""
    proxy.rule = first_request(Duplicate())
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
async def test_error_reply(
    client: Client, proxy: FaultProxy, server: CountingServer, fault: ErrorReply, start: str, kind: str
) -> None:
    """An error reply has the status, type and checksum of DynamoDB, and the server gets no request."""
    proxy.rule = always(fault)
    response = await client.request()
    assert response is not None
    assert response.start == start
    assert orjson.loads(response.body)["__type"] == kind
    assert response.header("x-amz-crc32") == str(crc32(response.body))
    assert response.header("content-type") == "application/x-amz-json-1.0"
    assert server.bodies == []


async def test_truncated(client: Client, proxy: FaultProxy) -> None:
    """The client gets half of the body, then the connection closes in an orderly way."""
    proxy.rule = always(Truncated())
    with pytest.raises(asyncio.IncompleteReadError) as caught:
        await client.request()
    assert caught.value.expected is not None
    assert len(caught.value.partial) == caught.value.expected // 2


@pytest.mark.parametrize("fault", [CutShort(), Garbage(), Corrupted(), Empty()])
async def test_invalid_responses_keep_the_connection_usable(client: Client, proxy: FaultProxy, fault: Fault) -> None:
    """An invalid response has a correct Content-Length, so that the next request on the connection succeeds."""
    proxy.rule = first_request(fault)
    response = await client.request()
    assert response is not None
    assert await client.number() == 2
    has_valid_checksum = response.header("x-amz-crc32") == str(crc32(response.body))
    assert has_valid_checksum == isinstance(fault, Empty)
    if isinstance(fault, Empty):
        assert response.body == b"{}"
    elif isinstance(fault, Corrupted):
        assert orjson.loads(response.body) == {"number": 2, "text": "some words"}
    else:
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(response.body)
    if isinstance(fault, Garbage):
        with pytest.raises(UnicodeDecodeError):
            response.body.decode()


async def test_chunked_responses() -> None:
    """A chunked response reaches the client as one body with a Content-Length."""
    chunked = (
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n6;x=y\r\n": 42}\r\n0\r\nTrailer: 1\r\n\r\n'
    )
    reader = asyncio.StreamReader()
    reader.feed_data(chunked)
    message = await read_message(reader)
    assert message is not None
    assert (message.body, message.headers) == (b'{"a": 42}', (("Content-Length", "9"),))


async def test_an_error_in_a_rule_fails_the_test(server: CountingServer) -> None:
    """An exception in a rule is raised at the end of the test, instead of counting as a network fault."""

    def failing_rule(_: Request) -> Fault | None:
        raise LookupError("no such shard")

    proxy = FaultProxy(server.port, failing_rule)
    await proxy.__aenter__()
    reader, writer = await asyncio.open_connection(LOOPBACK, int(proxy.endpoint.rpartition(":")[2]))
    assert await Client(reader, writer).request() is None
    writer.close()
    with pytest.raises(ExceptionGroup) as found:
        await proxy.__aexit__(None, None, None)
    assert found.group_contains(LookupError)


# --- parsing of requests ----------------------------------------------------------------------------------------


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
def test_requests_have_an_operation_and_shards(operation: str, body: Any, shards: set[str]) -> None:
    """The operation and the shards of every type of request are recognized."""
    request = _request(operation, body)
    assert (request.operation, set(request.shards)) == (operation, shards)


# --- rules -----------------------------------------------------------------------------------------------------


def test_rules() -> None:
    """Each rule selects exactly the requests that it is for."""
    query, put = _request("Query", QUERY), _request("PutItem", {"Item": _key("03")})
    other = _request("Query", QUERY | {"ExpressionAttributeValues": {":h": {"S": "thing!04"}}})
    reset = Reset()
    assert [always(reset, reads_shard("03"))(request) for request in (query, put, other)] == [reset, None, None]
    rule = first_attempts(reset)
    assert [rule(request) for request in (query, query, other, other, put)] == [reset, None, reset, None, None]
    rule = first_request(reset)
    assert [rule(request) for request in (put, query, other, query)] == [None, reset, None, None]
    rule = random_faults(0.1, Random(7), reset, THROTTLE)
    faults = [rule(query) for _ in range(10_000)]
    assert 900 < len([fault for fault in faults if fault is not None]) < 1_100
    assert {fault for fault in faults if fault is not None} == {reset, THROTTLE}
    assert rule(put) is None

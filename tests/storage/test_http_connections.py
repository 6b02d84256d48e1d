"""Own HTTP connections: what is read as a response, what is an error, and which connections are used again."""

import asyncio
from collections.abc import AsyncIterator
from socket import AF_INET, SOCK_STREAM
from typing import Any, ClassVar

import pytest

from graphql_api.storage.engines.dynamodb.error_mapping import NoConnection
from graphql_api.storage.engines.dynamodb.http_connections import ConnectionPool, HttpResponse
from tests.storage.scripted_http import Answer, HttpServer, http_response, start_http_server

HELLO = http_response(b"hello", "X-Name: Value")


@pytest.fixture
async def http() -> AsyncIterator[HttpServer]:
    """A server with scripted responses."""
    async with start_http_server() as server:
        server.answer(HELLO)
        yield server


async def send(pool: ConnectionPool, body: bytes = b"{}") -> HttpResponse:
    """Send a request as the transport does."""
    connection = await pool.acquire()
    head = f"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {len(body)}\r\n\r\n"
    try:
        response = await connection.exchange(head.encode(), body)
    except BaseException:
        connection.abort()
        raise
    pool.release(connection)
    return response


async def sent_once(http: HttpServer, answer: Answer | bytes) -> HttpResponse:
    """Send one request, and a second one that must not see anything of the first answer."""
    http.answer(answer, HELLO)
    pool = http.pool()
    try:
        return await asyncio.wait_for(send(pool), 10)
    finally:
        assert (await asyncio.wait_for(send(pool), 10)).body == b"hello"
        await pool.close()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
UNTIL_THE_END = b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\n\r\n<html>"

COMPLETE: dict[str, tuple[Answer | bytes, int, bytes]] = {
    "one part": (HELLO, 200, b"hello"),
    "every byte alone": (Answer([bytes([byte]) for byte in HELLO]), 200, b"hello"),
    "chunked": (CHUNKED + b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", 200, b"hello"),
    "interim response": (b"HTTP/1.1 100 Continue\r\n\r\n" + HELLO, 200, b"hello"),
    "no body": (http_response(b"", status="500 Internal Server Error"), 500, b""),
    "until the end of the connection": (Answer([UNTIL_THE_END], closes=True), 502, b"<html>"),
    "closes afterwards": (http_response(b"bye", "Connection: close"), 200, b"bye"),
    "HTTP/1.0": (Answer([b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"], closes=True), 200, b"ok"),
}


@pytest.mark.parametrize(("answer", "status", "body"), COMPLETE.values(), ids=COMPLETE.keys())
async def test_complete_responses(http: HttpServer, answer: Answer | bytes, status: int, body: bytes) -> None:
    """A complete response has its status, its headers in lower case, and its body."""
    response = await sent_once(http, answer)
    assert (response.status, response.body) == (status, body)
    if answer is HELLO:
        assert response.headers == {"content-length": "5", "x-name": "Value"}


INCOMPLETE: dict[str, Answer | bytes] = {
    "closed without a byte": Answer(closes=True),
    "cut in the headers": Answer([HELLO[:20]], closes=True),
    "cut in the body": Answer([HELLO[:-2]], closes=True),
    "longer Content-Length than the body": Answer([http_response(b"hello", length=6)], closes=True),
    "cut in a chunk": Answer([CHUNKED + b"5\r\nhel"], closes=True),
    "cut before the last chunk": Answer([CHUNKED + b"5\r\nhello\r\n"], closes=True),
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "two lengths": http_response(b"hello", "Content-Length: 4"),
    "negative length": http_response(b"hello", length=-1),
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
}


@pytest.mark.parametrize("answer", INCOMPLETE.values(), ids=INCOMPLETE.keys())
async def test_incomplete_responses_are_errors(http: HttpServer, answer: Answer | bytes) -> None:
    """An incomplete or invalid response is an error of the connection, and never a shorter response."""
    with pytest.raises(OSError, match=r".") as caught:
        await sent_once(http, answer)
    assert not isinstance(caught.value, NoConnection | TimeoutError)


@pytest.mark.parametrize(
    "answer",
    [
        http_response(b"hello", length=4),
        HELLO + HELLO,
        HELLO + HELLO[:30],
        Answer([HELLO, HELLO]),
        Answer([HELLO, b"x"]),
        Answer([HELLO], closes=True),
    ],
    ids=["shorter Content-Length", "two at once", "a part more at once", "two", "a byte more", "closed"],
)
async def test_data_after_a_response_is_dropped(http: HttpServer, answer: Answer | bytes) -> None:
    """What follows a response is not read as the next one: the connection is closed."""
    http.answer(answer, http_response(b"next"))
    pool = http.pool()
    assert (await send(pool)).body in {b"hello", b"hell"}
    await asyncio.sleep(0.05)
    assert (await send(pool)).body == b"next"
    assert http.connections == 2
    await pool.close()


async def test_connections_are_used_again(http: HttpServer) -> None:
    """Requests one after the other use one connection, and the latest one first after a burst."""
    pool = http.pool()
    for _ in range(5):
        await send(pool)
    assert http.connections == 1
    await asyncio.gather(*(send(pool) for _ in range(4)))
    assert http.connections == 4
    for _ in range(5):
        await send(pool)
    assert http.connections == 4
    await pool.close()
    await http.wait_for_disconnects()


async def test_the_pool_keeps_at_most_its_limit(http: HttpServer) -> None:
    """More connections than the limit are closed when they are released."""
    pool = http.pool(limit=2)
    connections = [await pool.acquire() for _ in range(5)]
    for connection in connections:
        pool.release(connection)
    await http.wait_until(lambda: http.open_connections == 2)
    await pool.close()
    await http.wait_for_disconnects()


async def test_idle_connections_expire(http: HttpServer) -> None:
    """An idle connection is closed after the keep-alive time, without another request."""
    pool = http.pool(keep_alive_seconds=0.05)
    await asyncio.gather(*(send(pool) for _ in range(3)))
    await http.wait_for_disconnects()
    await send(pool)
    assert http.connections == 4
    await pool.close()


async def test_connections_are_not_reused_after_a_freeze(http: HttpServer) -> None:
    """A connection that was idle for longer than the keep-alive time, by the clock that went on, is not used again."""
    now = [0.0, 0.0]
    pool = http.pool(clocks=lambda: tuple(now))
    await asyncio.gather(*(send(pool) for _ in range(3)))
    now[1] = 59.0
    await send(pool)
    assert http.connections == 3
    now[1] = 125.0
    await send(pool)
    assert http.connections == 4
    await http.wait_until(lambda: http.open_connections == 1)
    await pool.close()


async def test_a_connection_released_after_close_is_closed(http: HttpServer) -> None:
    """Closing the pool closes a connection in use when its request ends."""
    pool = http.pool()
    connection = await pool.acquire()
    await pool.close()
    pool.release(connection)
    await http.wait_for_disconnects()


async def test_a_cancelled_request_closes_its_connection(http: HttpServer) -> None:
    """The response of a cancelled request cannot be read by the next one."""
    http.answer(Answer(waits=True))
    pool = http.pool()
    request = asyncio.ensure_future(send(pool))
    await http.wait_until(lambda: bool(http.requests))
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    await http.wait_for_disconnects()
    http.answer(HELLO)
    assert (await send(pool)).body == b"hello"
    await pool.close()


@pytest.mark.parametrize("size", [1, 64 * 1024, 64 * 1024 + 1, 3_000_000])
async def test_bodies_of_any_size(http: HttpServer, size: int) -> None:
    """The server receives exactly the body, and the client the whole response."""
    body = bytes(number % 251 for number in range(size))
    http.answer(http_response(body))
    pool = http.pool()
    assert (await send(pool, body)).body == body
    assert http.requests[0].body == body
    await pool.close()


async def test_large_bodies_let_other_tasks_run(http: HttpServer) -> None:
    """While a large body is sent, other tasks get turns of the event loop."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    pool = http.pool()
    counter = asyncio.ensure_future(count())
    await send(pool, bytes(2_000_000))
    counter.cancel()
    assert turns > 2_000_000 / (64 * 1024) / 2
    await pool.close()


class RefusingServer(asyncio.Protocol):
    """Answers as soon as it receives anything, and reads nothing more."""

    transports: ClassVar[list[Any]] = []

    def connection_made(self, transport: Any) -> None:
        self.transports.append(transport)

    def data_received(self, data: bytes) -> None:
        transport = self.transports[-1]
        transport.pause_reading()
        transport.write(http_response(b"too large", status="413 Payload Too Large"))


async def test_an_early_answer_to_a_large_body(http: HttpServer) -> None:
    """If the server answers before it has read the body, the answer counts, and the connection is closed."""
    server = await asyncio.get_running_loop().create_server(RefusingServer, "127.0.0.1", 0)
    http.port = server.sockets[0].getsockname()[1]
    pool = http.pool()
    response = await asyncio.wait_for(send(pool, bytes(30_000_000)), 20)
    assert (response.status, response.body) == (413, b"too large")
    assert pool._idle == []
    RefusingServer.transports.pop().abort()
    server.close()
    await server.wait_closed()


async def test_cancelling_a_large_upload(http: HttpServer) -> None:
    """A cancelled upload leaves nothing behind."""
    http.answer(Answer(waits=True))
    pool = http.pool()
    request = asyncio.ensure_future(send(pool, bytes(30_000_000)))
    await asyncio.sleep(0.02)
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    assert request.cancelled()
    await http.wait_for_disconnects()


async def test_no_server(http: HttpServer, unused_tcp_port: int) -> None:
    """Without a server, nothing was sent, and the error says so."""
    http.port = unused_tcp_port
    with pytest.raises(NoConnection, match=f"http://127.0.0.1:{unused_tcp_port} cannot be reached"):
        await send(http.pool())


async def test_each_connection_resolves_the_host_again(http: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the addresses of a host takes effect with the next connection; concurrent ones share a lookup."""
    async with start_http_server() as other:
        other.answer(http_response(b"other"))
        lookups: list[str] = []
        ports = [http.port, other.port]

        async def look_up(host: str, port: int, **_: Any) -> list[Any]:
            lookups.append(host)
            await asyncio.sleep(0.01)
            return [(AF_INET, SOCK_STREAM, 6, "", ("127.0.0.1", ports[min(len(lookups), 2) - 1]))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
        pool = http.pool(host="dynamodb.test")
        answers = await asyncio.gather(*(send(pool) for _ in range(3)))
        assert [answer.body for answer in answers] == [b"hello"] * 3
        assert lookups == ["dynamodb.test"]
        assert (await send(pool)).body == b"hello"
        for writer in http.writers:
            writer.transport.abort()
        await http.wait_for_disconnects()
        await asyncio.sleep(0.01)
        assert (await send(pool)).body == b"other"
        assert lookups == ["dynamodb.test"] * 2
        await pool.close()


async def test_the_next_address_is_tried(
    http: HttpServer, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    """If one address of a host refuses connections, the next one is used."""
    addresses = [(AF_INET, SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in (unused_tcp_port, http.port)]

    async def look_up(*_: Any, **__: Any) -> list[Any]:
        return addresses

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    pool = http.pool(host="dynamodb.test")
    assert (await send(pool)).body == b"hello"
    await pool.close()


async def test_a_cancelled_connection_does_not_disturb_others(
    http: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two requests that share a lookup is cancelled, and the other one is answered."""
    entered = asyncio.Event()

    async def look_up(host: str, port: int, **_: Any) -> list[Any]:
        entered.set()
        await asyncio.sleep(0.02)
        return [(AF_INET, SOCK_STREAM, 6, "", ("127.0.0.1", http.port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    pool = http.pool(host="dynamodb.test")
    first, second = (asyncio.ensure_future(send(pool)) for _ in range(2))
    await entered.wait()
    first.cancel()
    assert (await second).body == b"hello"
    assert first.cancelled()
    await pool.close()

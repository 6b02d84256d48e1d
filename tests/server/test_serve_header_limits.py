"""Limits of request headers over a real connection: size and time."""

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from select import select
from typing import ClassVar

import pytest

from graphql_api.cli.process.http_protocol import LimitedHttpProtocol
from graphql_api.server.app import build_app
from graphql_api.server.settings import Settings
from tests.server.scripted_executor import ScriptedExecutor, no_database
from tests.server.server_processes import USERS, server_process
from tests.support.loopback import RawConnection, request, serve_app

GOOD = b'{"query": "{ a }"}'


class SmallHeadProtocol(LimitedHttpProtocol):
    """The protocol with a smaller size limit."""

    max_head_bytes: ClassVar[int] = 20_000


class ShortTimeoutProtocol(LimitedHttpProtocol):
    """The protocol with a shorter timeout."""

    head_timeout: ClassVar[float] = 0.5


def serve_with(protocol: type[LimitedHttpProtocol]) -> AbstractContextManager[str]:
    """Serve with a protocol, and return the URL of the server."""
    app = build_app(ScriptedExecutor(), no_database(), Settings())
    return serve_app(app, http=protocol, timeout_keep_alive=1)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Return the URL of a server with a small size limit."""
    with serve_with(SmallHeadProtocol) as found:
        yield found


@pytest.fixture(scope="module")
def impatient_address() -> Iterator[str]:
    """Return the URL of a server with a short timeout."""
    with serve_with(ShortTimeoutProtocol) as found:
        yield found


def bytes_until_refused(connection: RawConnection, piece: bytes) -> int:
    """Send pieces until the server responds. Return the number of sent bytes."""
    for sent in range(len(piece), 10_000_000, len(piece)):
        connection.send(piece)
        answered, _, _ = select([connection.socket], [], [], 0.005)
        if answered:
            return sent
    raise AssertionError("the server does not refuse")


def response_statuses(connection: RawConnection, number: int) -> list[bytes]:
    """Return the status codes of this number of pipelined responses."""
    came = b""
    while came.count(b"HTTP/1.1 ") < number or not came.endswith(b"}"):
        came += connection.socket.recv(1 << 16)
    return re.findall(rb"HTTP/1.1 (\d+)", came)


@pytest.mark.parametrize("piece", [b"x-more: 1\r\n" * 100, b"a" * 1_000], ids=["many headers", "one header"])
def test_header_size_limit(address: str, piece: bytes) -> None:
    """Headers above the size limit are refused with 431 in plain text, and the connection is closed."""
    with RawConnection(address) as connection:
        connection.send(b"GET /graphql HTTP/1.1\r\nhost: a\r\nx: ")
        assert bytes_until_refused(connection, piece) < 100_000
        reply = connection.reply("GET")
        assert reply.status == 431
        assert reply.body == b"The header of the request is larger than the server accepts."
        assert reply.headers["connection"] == "close"


def test_url_size_limit(address: str) -> None:
    """An endless URL is refused with 431."""
    with RawConnection(address) as connection:
        connection.send(b"GET /graphql?query=")
        assert bytes_until_refused(connection, b"a" * 1_000) < 100_000
        assert connection.reply("GET").status == 431


def test_header_timeout(impatient_address: str) -> None:
    """Headers that arrive byte by byte are refused with 408 after the timeout."""
    with RawConnection(impatient_address) as connection:
        for byte in b"GET /graphql HTTP/1.1\r\nx: y":
            answered, _, _ = select([connection.socket], [], [], 0.02)
            if answered:
                break
            connection.send(bytes([byte]))
        reply = connection.reply("GET")
        assert reply.status == 408
        assert reply.body == b"The header of the request did not arrive within 0.5 s."


def test_idle_connection(address: str) -> None:
    """An idle connection is closed after the keep-alive timeout."""
    with RawConnection(address) as connection:
        assert connection.is_closed()


def test_size_limit_applies_per_request(address: str) -> None:
    """The size limit applies to each request, not to the whole connection."""
    with RawConnection(address) as connection:
        for _ in range(4):
            assert connection.post(GOOD, x_long="a" * 10_000).status == 200


def test_timeout_applies_per_request(impatient_address: str) -> None:
    """The timeout applies to each request, not to the whole connection."""
    with RawConnection(impatient_address) as connection:
        for _ in range(4):
            assert connection.post(GOOD).status == 200
            time.sleep(0.25)


def test_pipelined_requests(address: str) -> None:
    """Pipelined requests in one packet all get responses, and an incomplete one after its rest has arrived."""
    one = request("POST /graphql", GOOD, content_type="application/json")
    with RawConnection(address) as connection:
        connection.send(one * 300 + one[:30])
        assert response_statuses(connection, 300) == [b"200"] * 300
        connection.send(one[30:])
        assert connection.reply().status == 200


def test_shardql_serve_has_the_limits(tmp_path: Path) -> None:
    """`shardql serve` applies these limits, which are large enough for proxies and browsers."""
    with server_process(tmp_path, USERS) as server, RawConnection(server.address) as connection:
        assert connection.exchange("GET /healthz", x_long="a" * 40_000).status == 200
        connection.send(b"GET /healthz HTTP/1.1\r\nx: ")
        assert bytes_until_refused(connection, b"a" * 10_000) < 2_000_000
        assert connection.reply("GET").status == 431

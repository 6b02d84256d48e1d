"""Heads of requests over a real connection: those that do not end take neither memory nor a connection for long."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from select import select
from typing import ClassVar

import pytest

from graphql_api.cli.process.header_limits import LimitedHttpProtocol
from graphql_api.server.app import WebOptions, build_app
from tests.api.processes import USERS, serving
from tests.api.running import Wire, request, running
from tests.api.scripted import ScriptedEngine, no_database

GOOD = b'{"query": "{ a }"}'


class _Hasty(LimitedHttpProtocol):
    """The same with bounds that a test reaches soon."""

    max_head_bytes: ClassVar[int] = 20_000
    head_timeout: ClassVar[float] = 0.5


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the server is."""
    with running(build_app(ScriptedEngine(), no_database(), WebOptions()), http=_Hasty, timeout_keep_alive=1) as found:
        yield found


def _sent_until_refused(wire: Wire, piece: bytes) -> int:
    """How many bytes are sent, piece by piece, before the server answers."""
    for sent in range(len(piece), 10_000_000, len(piece)):
        wire.send(piece)
        answered, _, _ = select([wire.socket], [], [], 0.005)
        if answered:
            return sent
    raise AssertionError("the server reads on and on")


def _answers(wire: Wire, number: int) -> list[bytes]:
    """The status lines of so many answers that come one behind the other."""
    came = b""
    while came.count(b"HTTP/1.1 ") < number or not came.endswith(b"}"):
        came += wire.socket.recv(1 << 16)
    return re.findall(rb"HTTP/1.1 (\d+)", came)


@pytest.mark.parametrize("piece", [b"x-more: 1\r\n" * 100, b"a" * 1_000], ids=["many headers", "one header"])
def test_a_head_without_end(address: str, piece: bytes) -> None:
    """Headers without end are refused with 431 soon behind the bound, in plain text, and the connection is closed."""
    with Wire(address) as wire:
        wire.send(b"GET /graphql HTTP/1.1\r\nhost: a\r\nx: ")
        assert _sent_until_refused(wire, piece) < 100_000
        reply = wire.reply("GET")
        assert reply.status == 431
        assert reply.body == b"The header of the request is larger than the server accepts."
        assert reply.headers["connection"] == "close"


def test_an_address_without_end(address: str) -> None:
    """So is an address without end."""
    with Wire(address) as wire:
        wire.send(b"GET /graphql?query=")
        assert _sent_until_refused(wire, b"a" * 1_000) < 100_000
        assert wire.reply("GET").status == 431


def test_a_slow_head(address: str) -> None:
    """A head that comes byte by byte is refused with 408 after its time, however steadily it comes."""
    with Wire(address) as wire:
        for byte in b"GET /graphql HTTP/1.1\r\n":
            wire.send(bytes([byte]))
            time.sleep(0.02)
        wire.send(b"x: ")
        reply = wire.reply("GET")
        assert reply.status == 408
        assert reply.body == b"The header of the request did not arrive within 0.5 s."


def test_a_connection_that_says_nothing(address: str) -> None:
    """A connection on which nothing comes is closed after the time that one between two requests has."""
    with Wire(address) as wire:
        assert wire.is_closed()


def test_requests_one_after_the_other(address: str) -> None:
    """Bounds begin anew with each request: a connection may be older, and bring more, than one head may."""
    with Wire(address) as wire:
        for _ in range(4):
            assert wire.post(GOOD, x_long="a" * 10_000).status == 200
            time.sleep(0.25)


def test_requests_that_come_together(address: str) -> None:
    """Many requests in one piece, the last one cut, are all answered, and the last one when its rest has come."""
    one = request("POST /graphql", GOOD, content_type="application/json")
    with Wire(address) as wire:
        wire.send(one * 300 + one[:30])
        assert _answers(wire, 300) == [b"200"] * 300
        wire.send(one[30:])
        assert wire.reply().status == 200


def test_the_server_of_the_command_line(tmp_path: Path) -> None:
    """`shardql serve` has these bounds, wide enough for every proxy and browser."""
    with serving(tmp_path, USERS) as server, Wire(server.address) as wire:
        assert wire.ask("GET /healthz", x_long="a" * 40_000).status == 200
        wire.send(b"GET /healthz HTTP/1.1\r\nx: ")
        assert _sent_until_refused(wire, b"a" * 10_000) < 2_000_000
        assert wire.reply("GET").status == 431

"""The limit on the connections of a server: a new one replaces a silent one, and is refused if all are in use."""

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from select import select

import pytest

from graphql_api.cli.process.connection_guard import ConnectionGuard, raise_file_limit, unread_bytes
from graphql_api.cli.process.http_protocol import LimitedHttpProtocol
from graphql_api.server.app import build_app
from graphql_api.server.settings import Settings
from tests.server.scripted_executor import ScriptedExecutor, no_database
from tests.server.server_processes import USERS, server_process
from tests.support.loopback import TIMEOUT, RawConnection, request, serve_app

GOOD, WAIT = b'{"query": "{ a }"}', b'{"query": "wait"}'


@dataclass(frozen=True)
class LimitedServer:
    """A server with a limit."""

    address: str
    guard: ConnectionGuard
    executor: ScriptedExecutor

    def connect(self, count: int) -> RawConnection:
        """Open a connection, and wait until the server has accepted this number of them."""
        connection = RawConnection(self.address)
        self.wait_for(count)
        return connection

    def wait_for(self, count: int) -> None:
        """Wait until the server has a number of connections."""
        ends = time.monotonic() + TIMEOUT
        while len(self.guard) != count:
            assert time.monotonic() < ends
            time.sleep(0.001)


@contextmanager
def limited_server(connections: int) -> Iterator[LimitedServer]:
    """Start a server that accepts a number of connections."""
    guard, executor = ConnectionGuard(connections), ScriptedExecutor()
    app = build_app(executor, no_database(), Settings())
    with serve_app(app, http=LimitedHttpProtocol.guarded(guard)) as address:
        yield LimitedServer(address, guard, executor)


def test_a_new_connection_replaces_a_silent_one() -> None:
    """One that has never sent a request goes first. Then the one goes that has been silent for the longest time."""
    with limited_server(2) as server, server.connect(1) as kept:
        assert kept.post(GOOD).status == 200
        with server.connect(2) as silent, RawConnection(server.address) as later:
            assert later.post(GOOD).status == 200
            assert silent.is_closed()
            with RawConnection(server.address) as last:
                assert last.post(GOOD).status == 200
                assert kept.is_closed()
                assert later.post(GOOD).status == 200


def test_connections_in_use_are_not_replaced() -> None:
    """If a request is in progress on each connection, a new one gets 503 with Retry-After, until one of them ends."""
    with limited_server(2) as server, ExitStack() as holders:
        connections = [holders.enter_context(server.connect(number)) for number in (1, 2)]
        for holder in connections:
            server.executor.waiting.clear()
            holder.send(request("POST /graphql", WAIT, content_type="application/json"))
            assert server.executor.waiting.wait(TIMEOUT)
        with RawConnection(server.address) as refused:
            reply = refused.reply()
            assert (reply.status, reply.body) == (503, b"The server has too many connections.")
            assert (reply.headers["retry-after"], reply.headers["connection"]) == ("1", "close")
            assert refused.is_closed()
        connections[0].socket.close()
        server.wait_for(1)
        with RawConnection(server.address) as accepted:
            assert accepted.post(GOOD).status == 200


@dataclass(eq=False)
class FakeConnection:
    """A connection that is silent, or whose request has not been read yet."""

    is_unread: bool = False
    is_closed: bool = False

    def has_unread_bytes(self) -> bool:
        return self.is_unread

    def close_silently(self) -> None:
        self.is_closed = True

    def begin_drain(self) -> None:
        """Nothing to do."""


def test_connections_with_unread_requests_are_not_replaced() -> None:
    """If a busy process has not read the request of a connection yet, a new connection does not replace it."""
    guard = ConnectionGuard(2)
    unread, silent = FakeConnection(is_unread=True), FakeConnection()
    assert all(guard.add(connection) for connection in (unread, silent, FakeConnection(is_unread=True)))
    assert (unread.is_closed, silent.is_closed) == (False, True)
    assert not guard.add(FakeConnection())
    assert not unread.is_closed


def test_unread_bytes() -> None:
    """The bytes that have arrived count until they are read."""
    near, far = socket.socketpair()
    with near, far:
        assert unread_bytes(near.fileno()) == 0
        far.sendall(b"abc")
        assert unread_bytes(near.fileno()) == 3
        near.recv(3)
        far.close()
        assert unread_bytes(near.fileno()) == 0


def test_shardql_serve_limits_connections(tmp_path: Path) -> None:
    """`shardql serve` keeps as many connections as the setting permits, and still answers new ones."""
    with server_process(tmp_path, USERS, SHARDQL_MAX_CONNECTIONS="3") as server, ExitStack() as opened:
        silent = [opened.enter_context(RawConnection(server.address)) for _ in range(4)]
        with RawConnection(server.address) as connection:
            assert connection.exchange("GET /healthz").status == 200
            # Connections that arrive together are not accepted in a certain order.
            kept = {one.socket: one for one in silent}
            while len(kept) > 2:
                closed, _, _ = select([*kept], [], [], TIMEOUT)
                assert all(kept.pop(one).is_closed() for one in closed)
        assert [one.exchange("GET /healthz").status for one in kept.values()] == [200, 200]


@pytest.mark.parametrize(
    ("limits", "changed", "is_enough"),
    [
        ((1024, 4096), (1512, 4096), True),
        ((1024, resource.RLIM_INFINITY), (1512, resource.RLIM_INFINITY), True),
        ((1024, 1200), (1200, 1200), False),
        ((2000, 4096), None, True),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None, True),
    ],
    ids=["low", "low, no maximum", "low maximum", "enough", "no limit"],
)
def test_limit_of_open_files(
    limits: tuple[int, int],
    changed: tuple[int, int] | None,
    is_enough: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The process permits itself enough files for the connections, and warns if the system does not."""
    calls = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: calls.append(new))
    raise_file_limit(1000)
    assert calls == ([] if changed is None else [changed])
    warning = (
        "The process may open 1200 files, and 1000 connections need up to 1512: raise the limit (ulimit -Hn), or lower "
        "SHARDQL_MAX_CONNECTIONS."
    )
    assert [record.message for record in caplog.records] == ([] if is_enough else [warning])

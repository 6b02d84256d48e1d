"""SIGTERM under load: every request that was sent on an established connection gets its response."""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from graphql_api.cli.process.connection_guard import ConnectionGuard
from graphql_api.cli.process.http_protocol import LimitedHttpProtocol
from graphql_api.cli.process.listen_backlog import refuse_new_connections, wait_until_accepted
from graphql_api.server.app import build_app
from graphql_api.server.settings import Settings
from tests.overload.load_generator import Answer, RawClient, post_request
from tests.server.scripted_executor import ScriptedExecutor, no_database
from tests.server.server_processes import USERS, wait_until_refused
from tests.support.loopback import LOOPBACK, TIMEOUT, RawConnection, request, serve_app
from tests.support.run_depth import depth
from tests.write_guarantees.forked_servers import Server, ServerForker, start_forker

PAGE = {"query": "{ userByCreated(limit: 5) { items { userId } } }"}
KEPT, CLOSING = post_request("/graphql", PAGE), post_request("/graphql", PAGE, connection="close")
GOOD = b'{"query": "{ a }"}'
CLIENTS = 4
"""clients that keep their connection, and as many that open one for each request"""


@pytest.fixture(scope="module")
def forker() -> Iterator[ServerForker]:
    """The process that forks the servers."""
    with start_forker() as process:
        yield process


@dataclass
class Load:
    """Clients that send requests until no server listens."""

    port: int
    answers: list[Answer] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    """requests that were sent on an established connection, and got no complete response"""
    closed_kept: int = 0
    """kept-alive clients whose last response said that the connection closes"""
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Run all clients to their end."""
        await asyncio.gather(
            *(self._keep_connection() for _ in range(CLIENTS)), *(self._open_connections() for _ in range(CLIENTS))
        )

    async def _connections(self) -> AsyncIterator[RawClient]:
        """Yield new connections until they are refused."""
        loop = asyncio.get_running_loop()
        with suppress(ConnectionRefusedError):
            while True:
                _, client = await loop.create_connection(RawClient, LOOPBACK, self.port)
                try:
                    yield client
                finally:
                    client.close()

    async def _send(self, client: RawClient, request: bytes, kind: str) -> Answer | None:
        try:
            answer = await asyncio.wait_for(client.request(request), TIMEOUT)
        except (OSError, TimeoutError) as problem:
            self.unanswered.append(f"{kind}: {problem!r}")
            return None
        self.answers.append(answer)
        self.answered.set()
        return answer

    async def _open_connections(self) -> None:
        async for client in self._connections():
            await self._send(client, CLOSING, "new connection")

    async def _keep_connection(self) -> None:
        async for client in self._connections():
            while client.is_open:
                answer = await self._send(client, KEPT, "kept connection")
                if answer is None:
                    return
                if answer.headers.get("connection") == "close":
                    self.closed_kept += 1


async def stop_under_load(server: Server, random: Random) -> Load:
    """Send SIGTERM to a server under load, and wait until all clients are refused."""
    load = Load(int(server.address.rpartition(":")[2]))
    running = asyncio.ensure_future(load.run())
    await asyncio.wait_for(load.answered.wait(), TIMEOUT)
    await asyncio.sleep(random.uniform(0.0, 0.1))
    os.kill(server.pid, signal.SIGTERM)
    await asyncio.wait_for(running, TIMEOUT * 2)
    return load


@pytest.mark.parametrize("drain_seconds", ["0.3", "0"], ids=["drain", "no drain"])
async def test_sigterm_under_load(forker: ServerForker, tmp_path: Path, random: Random, drain_seconds: str) -> None:
    """No request on an established connection is lost, and kept-alive clients learn that their connection closes."""
    for _ in range(depth(5, 100)):
        words = (USERS, "--store", f"sqlite:///{tmp_path}/users.db", "--sample", "50")
        variables = {"SHARDQL_DRAIN_SECONDS": drain_seconds, "SHARDQL_LOG_LEVEL": "warning"}
        server = await asyncio.to_thread(forker.serve, tmp_path, *words, **variables)
        load = await stop_under_load(server, random)
        assert load.unanswered == []
        assert load.closed_kept >= CLIENTS
        assert {answer.status for answer in load.answers} == {200}
        assert all(len(json.loads(answer.body)["data"]["userByCreated"]["items"]) == 5 for answer in load.answers)


async def test_sigterm_of_workers(forker: ServerForker, tmp_path: Path, random: Random) -> None:
    """No request is lost by several worker processes that share the port."""
    for _ in range(depth(1, 20)):
        words = (USERS, "--store", f"sqlite:///{tmp_path}/users.db", "--sample", "50", "--workers", "2")
        variables = {"SHARDQL_DRAIN_SECONDS": "0.3", "SHARDQL_LOG_LEVEL": "warning"}
        server = await asyncio.to_thread(forker.serve, tmp_path, *words, **variables)
        load = await stop_under_load(server, random)
        assert load.unanswered == []
        assert load.closed_kept >= CLIENTS


# --- single connections ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoppingServer:
    """A server whose drain has begun."""

    address: str
    guard: ConnectionGuard


@contextmanager
def guarded_server(linger_seconds: float = 1.0) -> Iterator[StoppingServer]:
    """Start a server with a guard."""
    guard = ConnectionGuard()
    protocol = type("ShortLinger", (LimitedHttpProtocol.guarded(guard),), {"linger_seconds": linger_seconds})
    with serve_app(build_app(ScriptedExecutor(), no_database(), Settings()), http=protocol) as address:
        yield StoppingServer(address, guard)


def test_responses_of_a_drain_close_their_connection() -> None:
    """Before the drain a connection stays open. Its next response, and that of a new connection, say that it closes."""
    with guarded_server() as server, RawConnection(server.address) as kept:
        assert "connection" not in kept.post(GOOD).headers
        server.guard.begin_drain()
        with RawConnection(server.address) as new:
            for connection in (kept, new):
                reply = connection.post(GOOD)
                assert (reply.status, reply.headers["connection"]) == (200, "close")
                assert connection.is_closed()


def test_a_request_in_progress_closes_its_connection() -> None:
    """The response to a request that began before the drain says that its connection closes."""
    with guarded_server() as server, RawConnection(server.address) as connection:
        connection.send(request("POST /graphql", GOOD, content_type="application/json")[:-5])
        while not len(server.guard):
            time.sleep(0.001)
        time.sleep(0.05)
        server.guard.begin_drain()
        connection.send(GOOD[-5:])
        reply = connection.reply()
    assert (reply.status, reply.headers["connection"]) == (200, "close")


def test_pipelined_requests_are_answered_in_a_drain() -> None:
    """Requests that a client has sent together all get their response. Only the last one closes the connection."""
    one = request("POST /graphql", GOOD, content_type="application/json")
    with guarded_server() as server, RawConnection(server.address) as connection:
        server.guard.begin_drain()
        connection.send(one * 5)
        received = b""
        with suppress(ConnectionResetError):
            while part := connection.socket.recv(1 << 16):
                received += part
    assert received.count(b"HTTP/1.1 200") == 5
    assert received.lower().count(b"connection: close") == 1


def test_a_silent_connection_lingers() -> None:
    """A stopping server answers a request that arrives within a second on a silent connection, old or new."""
    with ExitStack() as servers:
        server = servers.enter_context(guarded_server(linger_seconds=TIMEOUT))
        with RawConnection(server.address) as kept, RawConnection(server.address) as new:
            assert kept.post(GOOD).status == 200
            while len(server.guard) < 2:
                time.sleep(0.001)
            server.guard.begin_drain()
            stopping = Thread(target=servers.pop_all().close)
            stopping.start()
            wait_until_refused(server.address)
            for connection in (kept, new):
                reply = connection.post(GOOD)
                assert (reply.status, reply.headers["connection"]) == (200, "close")
            stopping.join(TIMEOUT)
            assert not stopping.is_alive()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has filters of listening sockets")
async def test_the_backlog_is_accepted() -> None:
    """New connections are dropped, established ones are accepted and answered, and then the socket can be closed."""
    accepted: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(await reader.read(100))
        writer.close()

    listener = socket.create_server((LOOPBACK, 0), backlog=100)
    address = listener.getsockname()
    clients = [socket.create_connection(address) for _ in range(50)]
    for client in clients:
        client.sendall(b"request")
    assert refuse_new_connections(listener)
    with closing(socket.socket()) as late:
        late.settimeout(0.2)
        with pytest.raises(TimeoutError):
            late.connect(address)
    async with await asyncio.start_server(serve, sock=listener):
        await wait_until_accepted(listener, 0.0)
        for client in clients:
            assert await asyncio.to_thread(client.recv, 1) == b""
            client.close()
    assert accepted == [b"request"] * 50

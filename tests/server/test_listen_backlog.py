"""The backlog of a listening socket is accepted in few iterations of the event loop."""

import asyncio
import errno
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from graphql_api.cli.process import listen_backlog
from graphql_api.cli.process.listen_backlog import MAX_ACCEPTED, BacklogAcceptor
from tests.support.loopback import LOOPBACK, TIMEOUT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uvloop does not exist there")
CLIENTS = 10 * MAX_ACCEPTED


class Accepted:
    """Counts the connections of a server. Create it within the event loop."""

    def __init__(self) -> None:
        self.count = 0
        self.all = asyncio.Event()

    def protocol(self) -> asyncio.Protocol:
        """Return the protocol of a connection."""
        return Recorder(self)


class Recorder(asyncio.Protocol):
    """A connection that is counted and closed."""

    def __init__(self, accepted: Accepted) -> None:
        self._accepted = accepted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._accepted.count += 1
        if self._accepted.count == CLIENTS:
            self._accepted.all.set()
        transport.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A listening socket with clients in its backlog."""
    with ExitStack() as opened:
        found = opened.enter_context(socket.create_server((LOOPBACK, 0), backlog=2 * CLIENTS))
        for _ in range(CLIENTS):
            opened.enter_context(socket.create_connection(found.getsockname(), TIMEOUT))
        yield found


async def iterations_until_accepted(listener: socket.socket, *, with_acceptor: bool) -> int:
    """Return how many iterations the event loop needs for all clients."""
    accepted = Accepted()
    loop, iterations = asyncio.get_running_loop(), 0

    def count() -> None:
        nonlocal iterations
        iterations += 1
        loop.call_soon(count)

    server = await loop.create_server(accepted.protocol, sock=listener, backlog=2 * CLIENTS)
    acceptor = BacklogAcceptor(listener, accepted.protocol) if with_acceptor else None
    loop.call_soon(count)
    await asyncio.wait_for(accepted.all.wait(), TIMEOUT)
    if acceptor is not None:
        acceptor.stop()
    server.close()
    return iterations


def run_with_uvloop(listener: socket.socket, *, with_acceptor: bool) -> int:
    """Count iterations of the event loop of servers."""
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(iterations_until_accepted(listener, with_acceptor=with_acceptor))


def test_connections_are_accepted_in_batches(listener: socket.socket) -> None:
    """All clients are accepted in a few iterations, each of which may take long under load."""
    assert run_with_uvloop(listener, with_acceptor=True) < CLIENTS / 4


def test_the_server_of_uvloop_accepts_one_by_one(listener: socket.socket) -> None:
    """Without the acceptor, each client needs an iteration: the acceptor is still needed."""
    assert run_with_uvloop(listener, with_acceptor=False) >= CLIENTS


def test_a_lack_of_files(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system has no files for connections, the process does not try without a pause, and goes on later."""
    monkeypatch.setattr(listen_backlog, "_RETRY_SECONDS", 0.05)
    attempts = 0

    class FullSystem(socket.socket):
        """A socket that fails at first."""

        def accept(self) -> tuple[socket.socket, object]:
            nonlocal attempts
            attempts += 1
            if attempts <= 3:
                raise OSError(errno.EMFILE, "too many open files")
            return super().accept()

        def dup(self) -> "FullSystem":
            return FullSystem(fileno=socket.dup(self.fileno()))

    async def run() -> None:
        accepted = Accepted()
        with FullSystem(fileno=socket.dup(listener.fileno())) as full:
            acceptor = BacklogAcceptor(full, accepted.protocol)
            await asyncio.sleep(0.02)
            assert attempts == 1
            await asyncio.wait_for(accepted.all.wait(), TIMEOUT)
            acceptor.stop()
        assert attempts < CLIENTS + 100

    asyncio.run(run())

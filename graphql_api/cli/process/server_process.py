"""One process that serves requests, from its start to its end."""

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import ClassVar

import uvicorn
from prometheus_client import disable_created_metrics
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from graphql_api.cli.sample_data import stored_samples
from graphql_api.cli.terminal_output import opened_with_status
from graphql_api.connection import Secrets
from graphql_api.database import Database
from graphql_api.model import load_catalog
from graphql_api.server import Settings, create_application, load_graph, open_server_database
from graphql_api.server.observability import Instrumentation, log_unfinished_elements

KEEP_ALIVE_SECONDS = 75
"""Longer than the idle timeout of load balancers, so that none of them sends into a connection that is closing."""
_POLL_SECONDS = 0.05
Callback = Callable[[], object]


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What every process of a server needs to know. It is pickled for worker processes."""

    address: str
    """Address of the catalog, `module:attribute`."""
    settings: Settings
    secrets: Secrets

    def open_database(self) -> AbstractAsyncContextManager[Database]:
        """Open the database. Create or migrate its table if the settings allow it."""
        catalog = load_catalog(self.address)
        return opened_with_status(lambda show: open_server_database(catalog, self.settings, self.secrets, show))


def run_server(config: ServerConfig, listener: socket.socket, on_listening: Callback) -> None:
    """Serve until a stop signal, in an event loop of its own."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    with asyncio.Runner(loop_factory=uvicorn.Config(app="", log_config=None).get_loop_factory()) as runner:
        runner.run(_serve(config, listener, on_listening))


async def _serve(config: ServerConfig, listener: socket.socket, on_listening: Callback) -> None:
    """Open the database first, so that its errors end the command."""
    settings = config.settings
    async with config.open_database() as database:
        samples = await stored_samples(database, config.address) if settings.graphiql else ()
        instrumentation = Instrumentation(settings)
        if settings.workers == 1:  # Otherwise the supervisor has logged them.
            log_unfinished_elements(database)
        graph, secrets = load_graph(config.address), config.secrets
        app = create_application(
            graph, lambda: nullcontext(database), settings, instrumentation, samples, secrets=secrets
        )
        uvicorn_config = uvicorn.Config(
            app,
            lifespan="on",
            http=LimitedHttpProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            root_path=settings.root_path,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=settings.stop_seconds,
        )
        begin_shutdown = instrumentation.readiness.begin_shutdown
        await _DrainingServer(uvicorn_config, settings.drain_seconds, on_listening, begin_shutdown).serve([listener])


class _DrainingServer(uvicorn.Server):
    """A uvicorn server that reports when it listens, and accepts requests for a while after a stop signal."""

    def __init__(
        self, config: uvicorn.Config, drain_seconds: float, on_listening: Callback, on_stopping: Callback
    ) -> None:
        super().__init__(config)
        self._drain_seconds = drain_seconds
        self._on_listening = on_listening
        self._on_stopping = on_stopping

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signature of uvicorn
        """Stop on a signal, and at once on a second Ctrl-C. A signal is not raised again: it is no failure."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and report that requests are accepted."""
        await super().startup(sockets)
        if self.started:
            self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept requests until load balancers have noticed the shutdown, then finish the accepted ones."""
        self._on_stopping()
        for _ in range(round(self._drain_seconds / _POLL_SECONDS)):
            if self.force_exit:
                break
            await asyncio.sleep(_POLL_SECONDS)
        await super().shutdown(sockets)


class LimitedHttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, which also closes a connection whose request header is too large or too slow.

    uvicorn itself has neither limit. Bytes are counted per read. The read that starts a header is not counted, since
    it may contain a whole header.
    """

    max_head_bytes: ClassVar[int] = 64 << 10
    head_timeout: ClassVar[float] = 10.0

    _heads_started = 0
    _head_is_open = False
    _head_bytes = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of an idle connection, for the first request as for later ones."""
        super().connection_made(transport)
        self._set_timer(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
        self._set_timer(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of an unfinished header."""
        heads_started = self._heads_started
        super().data_received(data)
        if not self._head_is_open or self.transport.is_closing():
            return
        if self._heads_started != heads_started:
            self._set_timer(self.head_timeout)
            return
        self._head_bytes += len(data)
        if self._head_bytes > self.max_head_bytes:
            self._refuse("431 Request Header Fields Too Large", "is larger than the server accepts")

    def on_message_begin(self) -> None:
        """Note the start of a header."""
        self._heads_started += 1
        self._head_is_open, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Note the end of a header."""
        self._head_is_open = False
        self._set_timer(None)
        super().on_headers_complete()

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._on_timeout)

    def _on_timeout(self) -> None:
        if not self._head_is_open:
            self.transport.close()
        elif self._heads_started > 1 and not self.cycle.response_complete:
            self._set_timer(self.head_timeout)  # The response to the previous request comes first.
        else:
            self._refuse("408 Request Timeout", f"did not arrive within {self.head_timeout:g} s")

    def _refuse(self, status: str, reason: str) -> None:
        """Send a plain-text response, since the request is incomplete, and close the connection."""
        self._set_timer(None)
        body = f"The header of the request {reason}.".encode()
        head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()

"""One process that serves requests, from its start to its end."""

import asyncio
import gc
import signal
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from types import FrameType

import uvicorn
from prometheus_client import disable_created_metrics

from graphql_api.cli import COLLECTION_THRESHOLDS
from graphql_api.cli.process.connection_guard import ConnectionGuard, raise_file_limit
from graphql_api.cli.process.early_refusal import EarlyRefusal
from graphql_api.cli.process.http_protocol import LimitedHttpProtocol
from graphql_api.cli.process.listen_backlog import BacklogAcceptor, refuse_new_connections, wait_until_accepted
from graphql_api.cli.process.websocket_protocol import LimitedWebSocketProtocol
from graphql_api.cli.sample_data import stored_samples
from graphql_api.cli.terminal_output import opened_with_status
from graphql_api.connection import Secrets
from graphql_api.database import Database
from graphql_api.model import load_catalog
from graphql_api.server import Settings, create_application, load_graph, open_server_database, warm_connections
from graphql_api.server.observability import Instrumentation, log_unfinished_elements

KEEP_ALIVE_SECONDS = 75
"""Longer than the idle timeout of load balancers, so that none of them sends into a connection that is closing."""
_POLL_SECONDS = 0.05
_ROUND_TRIP_SECONDS = 0.25
"""between a server and its clients, at most"""
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


def run_server(
    config: ServerConfig,
    listener: socket.socket,
    on_listening: Callback,
    closes_port: Callable[[], bool] = lambda: True,
) -> None:
    """Serve until a stop signal, in an event loop of its own.

    `closes_port` is asked when the process stops: whether no other process listens on the port any longer.
    """
    raise_file_limit(config.settings.max_connections)
    disable_created_metrics()  # type: ignore[no-untyped-call]
    with asyncio.Runner(loop_factory=uvicorn.Config(app="", log_config=None).get_loop_factory()) as runner:
        runner.run(_serve(config, listener, on_listening, closes_port))


async def _serve(
    config: ServerConfig, listener: socket.socket, on_listening: Callback, closes_port: Callable[[], bool]
) -> None:
    """Open the database first, so that its errors end the command."""
    settings = config.settings
    async with config.open_database() as database:
        samples = await stored_samples(database, config.address) if settings.graphiql else ()
        instrumentation = Instrumentation(settings)
        if settings.workers == 1:  # Otherwise the supervisor has logged them.
            log_unfinished_elements(database)
        await warm_connections(database)
        graph = load_graph(config.address)
        app = create_application(
            graph, lambda: nullcontext(database), settings, instrumentation, samples, secrets=lambda: config.secrets
        )
        path = settings.root_path + settings.path
        refusal = EarlyRefusal(app.state.admission, path, instrumentation.count_refused)
        guard = ConnectionGuard(settings.max_connections, refusal)
        uvicorn_config = uvicorn.Config(
            app,
            lifespan="on",
            http=LimitedHttpProtocol.guarded(guard),
            ws=LimitedWebSocketProtocol.guarded(guard) if graph.has_subscriptions else "none",
            ws_max_size=settings.max_body_bytes,
            ws_ping_interval=settings.keep_alive_seconds,
            ws_ping_timeout=settings.keep_alive_seconds,
            ws_per_message_deflate=False,
            log_config=None,
            access_log=False,
            server_header=False,
            root_path=settings.root_path,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=settings.stop_seconds,
        )
        _reduce_garbage_collection()
        begin_shutdown = instrumentation.readiness.begin_shutdown
        subscriptions = app.state.subscriptions
        end_streams = (lambda: None) if subscriptions is None else subscriptions.stop
        server = _DrainingServer(
            uvicorn_config, guard, settings.drain_seconds, on_listening, begin_shutdown, closes_port, end_streams
        )
        await server.serve([listener])


def _reduce_garbage_collection() -> None:
    """Exempt the objects of the start from garbage collection, and collect after more new objects.

    Reference counts free nearly all objects of a request. With the defaults of Python, collections would visit the
    schema and the requests in the queue again and again, for a tenth of the CPU time.
    """
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)


class _DrainingServer(uvicorn.Server):
    """A uvicorn server that reports when it listens, and accepts requests for a while after a stop signal."""

    def __init__(
        self,
        config: uvicorn.Config,
        guard: ConnectionGuard,
        drain_seconds: float,
        on_listening: Callback,
        on_stopping: Callback,
        closes_port: Callable[[], bool],
        end_streams: Callback,
    ) -> None:
        super().__init__(config)
        self._guard = guard
        self._drain_seconds = drain_seconds
        self._on_listening = on_listening
        self._on_stopping = on_stopping
        self._closes_port = closes_port
        self._end_streams = end_streams
        self._acceptors: list[BacklogAcceptor] = []

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signature of uvicorn
        """Stop on a signal, and at once on a second Ctrl-C. A signal is not raised again: it is no failure."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and report that requests are accepted."""
        await super().startup(sockets)
        if self.started:
            if not isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):  # Those accept all connections.
                self._acceptors = [BacklogAcceptor(listener, self._create_protocol) for listener in sockets or ()]
            self._on_listening()

    def _create_protocol(self) -> asyncio.Protocol:
        arguments = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        protocol: asyncio.Protocol = self.config.http_protocol_class(**arguments)
        return protocol

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept requests until load balancers have noticed the shutdown, then finish the accepted ones.

        From the beginning, each response closes its connection. The connections that clients have established before
        the end are accepted, and their requests answered. If other processes share the port, they accept them.
        """
        self._on_stopping()
        self._guard.begin_drain()
        for _ in range(round(self._drain_seconds / _POLL_SECONDS)):
            if self.force_exit:
                break
            await asyncio.sleep(_POLL_SECONDS)
        if not self.force_exit and self._closes_port():
            for listener in sockets or ():
                refuse_new_connections(listener)
                await wait_until_accepted(listener, min(self._drain_seconds, _ROUND_TRIP_SECONDS))
        for acceptor in self._acceptors:
            acceptor.stop()
        self._end_streams()  # Not before: their clients connect again at once, and must reach another server.
        await super().shutdown(sockets)

"""One process that serves requests, from its start to its end."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import uvicorn
from prometheus_client import disable_created_metrics

from graphql_api.cli.process.socket_server import Server
from graphql_api.cli.sample_loading import stored_samples
from graphql_api.connection import Secrets
from graphql_api.database import Database
from graphql_api.model import load_catalog
from graphql_api.server import Settings, create_application, create_instrumentation, load_graph, open_server_database


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What every process of a server needs to know. It is pickled for worker processes."""

    address: str
    """Address of the catalog, `module:attribute`."""
    settings: Settings
    secrets: Secrets

    def open_database(self) -> AbstractAsyncContextManager[Database]:
        """Open the database. Create or extend its table if the settings allow it."""
        return open_server_database(load_catalog(self.address), self.settings, self.secrets)


async def serve(config: ServerConfig, listener: socket.socket, on_listening: Callable[[], None]) -> None:
    """Serve until a stop signal. Open the database first, so that its errors end the command."""
    async with config.open_database() as database:

        @asynccontextmanager
        async def already_open() -> AsyncIterator[Database]:
            yield database

        samples = await stored_samples(database, config.address) if config.settings.graphiql else ()
        instrumentation = create_instrumentation(config.settings)
        graph = load_graph(config.address)
        app = create_application(graph, already_open, config.settings, instrumentation, samples, secrets=config.secrets)
        begin_shutdown = instrumentation.readiness.begin_shutdown
        server = Server(app, config.settings, on_listening=on_listening, on_stopping=begin_shutdown)
        await server.serve([listener])


def run_server(config: ServerConfig, listener: socket.socket, on_listening: Callable[[], None]) -> None:
    """Run `serve` in an event loop of its own."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    with asyncio.Runner(loop_factory=uvicorn.Config(app="", log_config=None).get_loop_factory()) as runner:
        runner.run(serve(config, listener, on_listening))

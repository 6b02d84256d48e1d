"""One process that answers requests, from its start to its end."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import uvicorn
from prometheus_client import disable_created_metrics

from graphql_api.cli.process.socket_server import Server
from graphql_api.cli.sample_loading import stored_samples
from graphql_api.database import Database
from graphql_api.model import load_catalog
from graphql_api.opening import Secrets
from graphql_api.server import Settings, application, load_graph, open_served, operations_of


@dataclass(frozen=True, slots=True)
class Serving:
    """What is served, as every process of a server knows it."""

    address: str
    """of the catalog"""
    settings: Settings
    secrets: Secrets

    def open(self) -> AbstractAsyncContextManager[Database]:
        """The database, made or completed as the settings say."""
        return open_served(load_catalog(self.address), self.settings, self.secrets)


async def serve_one(serving: Serving, bound: socket.socket, listening: Callable[[], None]) -> None:
    """Serves until a signal asks for a stop; the database is opened first, so that its errors can be told."""
    async with serving.open() as database:

        @asynccontextmanager
        async def already_open() -> AsyncIterator[Database]:
            yield database

        shown = await stored_samples(database, serving.address) if serving.settings.graphiql else ()
        operations = operations_of(serving.settings)
        graph = load_graph(serving.address)
        app = application(graph, already_open, serving.settings, operations, shown, secrets=serving.secrets)
        server = Server(app, serving.settings, listening=listening, stopping=operations.readiness.stop)
        await server.serve([bound])


def run_one(serving: Serving, bound: socket.socket, listening: Callable[[], None]) -> None:
    """The same, in an event loop of its own."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    with asyncio.Runner(loop_factory=uvicorn.Config(app="", log_config=None).get_loop_factory()) as runner:
        runner.run(serve_one(serving, bound, listening))

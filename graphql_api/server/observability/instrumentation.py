"""What people who run a server see of it: health, counts, log and spans, around an application."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from graphql_api.database import Database
from graphql_api.server import OpenDatabase
from graphql_api.server.observability.health import Readiness, health_routes
from graphql_api.server.observability.metrics import STORE_CALLS, STORE_SECONDS, Metrics
from graphql_api.server.observability.metrics_endpoint import metrics_routes
from graphql_api.server.observability.observed_executor import ObservedEngine, Runs
from graphql_api.server.observability.request_log import LogRequests
from graphql_api.server.observability.tracing import NoTracing, Tracing
from graphql_api.storage import MeteredStore, StoreCall


class Operations:
    """Watches one server: pass its engine, database, routes and middleware through here."""

    def __init__(
        self,
        *,
        path: str = "/graphql",
        ready_seconds: float = 1.0,
        metrics: bool = True,
        tracing: Tracing | None = None,
    ) -> None:
        self.readiness = Readiness(ready_seconds)
        self.metrics = Metrics()
        self._tracing = tracing or NoTracing()
        self._path = path
        self._shows_metrics = metrics

    def engine(self, engine: Runs) -> ObservedEngine:
        """The engine, watched."""
        return ObservedEngine(engine, self.metrics, self._tracing)

    def opening(self, open_database: OpenDatabase) -> OpenDatabase:
        """The database, with a store that is measured."""

        @asynccontextmanager
        async def opened() -> AsyncIterator[Database]:
            async with open_database() as database:
                self.readiness.opened(database.store)
                try:
                    yield replace(database, store=MeteredStore(database.store, self._told))
                finally:
                    self.readiness.stop()

        def open_measured() -> AbstractAsyncContextManager[Database]:
            return opened()

        return open_measured

    def routes(self) -> list[BaseRoute]:
        """Paths for machines."""
        return [*health_routes(self.readiness), *(metrics_routes(self.metrics) if self._shows_metrics else ())]

    def middleware(self) -> Middleware:
        """What stands around everything else, so that it sees each answer as it goes out."""
        return Middleware(LogRequests, metrics=self.metrics, tracing=self._tracing, graphql=self._path)

    def _told(self, call: StoreCall) -> None:
        self.metrics.add(STORE_CALLS, call.name, call.failure or "ok")
        self.metrics.took(STORE_SECONDS, call.seconds, call.name)
        self._tracing.store_call(call)

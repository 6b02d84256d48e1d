"""Instrumentation of an application: health checks, metrics, request log and tracing."""

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
from graphql_api.server.observability.observed_executor import ObservedExecutor, OperationExecutor
from graphql_api.server.observability.request_log import LogRequests
from graphql_api.server.observability.tracing import NoTracing, Tracing
from graphql_api.storage import MeteredStore, StoreCall


class Instrumentation:
    """Observes one server. Pass its executor, database, routes and middleware through these methods."""

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
        self._serves_metrics = metrics

    def instrument_executor(self, executor: OperationExecutor) -> ObservedExecutor:
        """Return an executor that counts and traces operations."""
        return ObservedExecutor(executor, self.metrics, self._tracing)

    def instrument_database(self, open_database: OpenDatabase) -> OpenDatabase:
        """Return a function that opens the database with a measured store."""

        @asynccontextmanager
        async def open_metered() -> AsyncIterator[Database]:
            async with open_database() as database:
                self.readiness.store_opened(database.store)
                try:
                    yield replace(database, store=MeteredStore(database.store, self._record_store_call))
                finally:
                    self.readiness.begin_shutdown()

        def open_database_metered() -> AbstractAsyncContextManager[Database]:
            return open_metered()

        return open_database_metered

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the health checks and metrics."""
        return [*health_routes(self.readiness), *(metrics_routes(self.metrics) if self._serves_metrics else ())]

    def middleware(self) -> Middleware:
        """Return the middleware that logs requests. It must be outermost, to see each final response."""
        return Middleware(LogRequests, metrics=self.metrics, tracing=self._tracing, graphql_path=self._path)

    def _record_store_call(self, call: StoreCall) -> None:
        self.metrics.increment(STORE_CALLS, call.name, call.failure or "ok")
        self.metrics.observe(STORE_SECONDS, call.seconds, call.name)
        self._tracing.record_store_call(call)

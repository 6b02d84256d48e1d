"""Instrumentation of an application: measures store calls and operations, and logs one line per request.

Lines contain no variables, no tokens and no query strings. Only at the level `debug` a line contains explain output,
and with it the search arguments.
"""

import re
import time
from asyncio import CancelledError
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from logging import DEBUG, INFO, getLogger
from math import nan
from typing import Any, Protocol

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphql_api.database import Database
from graphql_api.errors import ExpiredToken, InvalidToken, Overloaded, TokenAhead, TokenMismatch
from graphql_api.evolution import STATUSES, reported_state
from graphql_api.model import camel_case
from graphql_api.runtime import RequestStatistics, collect_statistics, current_statistics
from graphql_api.schema import Caller, ExecutionResponse, Operation, StreamingExecutor
from graphql_api.server import (
    RESERVED_PATHS,
    AdmissionController,
    OpenDatabase,
    RequestState,
    Settings,
    get_request_state,
)
from graphql_api.server.observability.health import Readiness
from graphql_api.server.observability.metrics import Metric, Metrics
from graphql_api.server.observability.observed_streams import ObservedStreams, count_activity, operation_outcome
from graphql_api.server.observability.tracing import Tracing, create_tracing
from graphql_api.storage import BudgetedStore, MeteredStore, StoreCall

TOKEN_CODES = frozenset(error.code for error in (InvalidToken, ExpiredToken, TokenMismatch, TokenAhead))
MAX_CHARACTERS = 200
"""Maximum length of a logged value that a client chooses."""
_OPERATION_NAME = re.compile(r"\b(?:query|mutation|subscription)\s+([A-Za-z_][A-Za-z0-9_]*)")
_MAX_SEARCHED = 10_000
"""Characters of a document that are searched for a name."""

SWITCHING_PROTOCOLS = 101
"""the status of a WebSocket connection"""
FORBIDDEN = 403
"""the status of a handshake that is refused by closing it"""
_LOGGED = frozenset({"http", "websocket"})
_RESPONSE_STARTS = frozenset({"http.response.start", "websocket.http.response.start"})
_PRESENT_COUNTS = frozenset({"requests_waiting", "requests_running"})
"""counts of the moment, which are 0 at the end of a request"""
_SECONDS_BETWEEN_OVERLOAD_LINES = 10.0

log = getLogger("shardql.request")
overload_log = getLogger("shardql.overload")


def logs_explain() -> bool:
    """Return whether log lines contain explain output."""
    return log.isEnabledFor(DEBUG)


# --- operations ------------------------------------------------------------------------------------------------


class OperationExecutor(Protocol):
    """Executes GraphQL operations."""

    async def run(
        self, operation: Operation, database: Database, caller: Caller, request: Request | None = None
    ) -> ExecutionResponse: ...


@dataclass(frozen=True, slots=True)
class ObservedExecutor:
    """Delegates operations to another executor, and counts, traces and logs them."""

    executor: OperationExecutor
    metrics: Metrics
    tracing: Tracing | None

    async def run(
        self, operation: Operation, database: Database, caller: Caller, request: Request | None = None
    ) -> ExecutionResponse:
        outcome = "failed"
        started = time.perf_counter()
        self.metrics.record(Metric.IN_FLIGHT)
        self.metrics.record(Metric.QUEUE_SECONDS, amount=caller.waited_seconds)
        try:
            name = operation_name(operation)
            with self.tracing.operation(name) if self.tracing is not None else nullcontext() as finish_span:
                response = await self.executor.run(operation, database, caller, request)
                if response.path is not None:
                    self.metrics.record(Metric.QUERY_PATHS, response.path)
                outcome = operation_outcome(response)
                if finish_span is not None:
                    statistics = statistics_fields(current_statistics())
                    finish_span({"correlationId": caller.correlation_id, **statistics}, bool(response.codes))
                return response
        except CancelledError:
            outcome = "cancelled"
            raise
        finally:
            self.metrics.record(Metric.IN_FLIGHT, amount=-1)
            self.metrics.record(Metric.OPERATIONS, outcome)
            self.metrics.record(Metric.OPERATION_SECONDS, amount=time.perf_counter() - started)


def operation_name(operation: Operation) -> str | None:
    """Return the name of an operation, which is only informative: the first name in a long document may be missed."""
    if operation.name:
        return operation.name
    match = _OPERATION_NAME.search((operation.query or "")[:_MAX_SEARCHED])
    return match[1] if match else None


def statistics_fields(statistics: RequestStatistics) -> dict[str, int]:
    """Return the counts under their names in logs and spans."""
    return {camel_case(name): count for name, count in statistics.totals().items()}


# --- requests --------------------------------------------------------------------------------------------------


class LogRequests:
    """Middleware that logs and counts each request at its end, whatever its outcome."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, tracing: Tracing | None, graphql_path: str) -> None:
        self.app = app
        self._metrics = metrics
        self._tracing = tracing
        self._routes = {graphql_path: "graphql"} | {path: path[1:] for path in RESERVED_PATHS}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in _LOGGED:
            await self.app(scope, receive, send)
            return
        state, started = get_request_state(scope), time.perf_counter()
        # Without the prefix of a reverse proxy or of a mounting application.
        path = scope["path"].removeprefix(scope.get("root_path", ""))

        async def send_and_note_status(message: Message) -> None:
            if message["type"] in _RESPONSE_STARTS:
                state.status = message["status"]
            elif message["type"] == "websocket.accept":
                state.status = SWITCHING_PROTOCOLS
            elif message["type"] == "websocket.close" and state.status != SWITCHING_PROTOCOLS:
                state.status = FORBIDDEN
            await send(message)

        trace = self._tracing.request(Headers(scope=scope)) if self._tracing is not None else nullcontext()
        with trace, collect_statistics() as statistics:
            try:
                await self.app(scope, receive, send_and_note_status)
            finally:
                self._count(path, state, statistics)
                # Machines poll these paths, so only errors are logged by default.
                quiet = path in RESERVED_PATHS and state.status == 200
                self._log(DEBUG if quiet else INFO, scope, state, statistics, time.perf_counter() - started)

    def _count(self, path: str, state: RequestState, statistics: RequestStatistics) -> None:
        record = self._metrics.record
        route = "events" if path.startswith("/events/") else self._routes.get(path, "other")
        record(Metric.HTTP_REQUESTS, route, str(state.status))
        for code in state.error_codes:
            record(Metric.ERRORS, self._metrics.code_label(code))
            if code in TOKEN_CODES:
                record(Metric.TOKEN_ERRORS, code)
        for (projection, outcome), count in state.events.items():
            record(Metric.EVENTS, projection, outcome, amount=count)
        count_activity(self._metrics, statistics)

    def _log(
        self, level: int, scope: Scope, state: RequestState, statistics: RequestStatistics, seconds: float
    ) -> None:
        if not log.isEnabledFor(level):
            return
        method, path = scope.get("method", "WEBSOCKET")[:MAX_CHARACTERS], scope["path"][:MAX_CHARACTERS]
        fields: dict[str, Any] = {
            "correlationId": state.correlation_id,
            "method": method,
            "path": path,
            "status": state.status,
            "milliseconds": round(seconds * 1000, 1),
        }
        operation = state.operation
        if operation is not None:
            document = operation.document_id
            if document is None and operation.query is not None:
                # A hash does not reveal the text of the query.
                document = blake2b(operation.query.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
            named = {"operation": operation_name(operation), "document": document}
            fields |= {name: text[:MAX_CHARACTERS] for name, text in named.items() if text is not None}
        if state.error_codes:
            fields["codes"] = tuple(dict.fromkeys(state.error_codes))
        if statistics.store_calls:
            fields |= {name: count for name, count in statistics_fields(statistics).items() if count}
        if state.explain_entries and logs_explain():
            fields["explain"] = state.explain_entries
        log.log(level, "%s %s %s", method, path, state.status, extra={"facts": fields})


# --- the server ------------------------------------------------------------------------------------------------


class Instrumentation:
    """Observes one server. Pass its executor, database, routes and middleware through these methods."""

    def __init__(self, settings: Settings, *, tracing: Tracing | None = None) -> None:
        self.readiness = Readiness(settings.ready_seconds)
        self.metrics = Metrics()
        self._settings = settings
        self._logged_refusals, self._refusals_logged_at = 0, 0.0
        self._tracing = tracing or (create_tracing() if settings.tracing else None)

    def instrument_executor(self, executor: OperationExecutor) -> ObservedExecutor:
        return ObservedExecutor(executor, self.metrics, self._tracing)

    def instrument_streams(self, executor: StreamingExecutor) -> ObservedStreams:
        return ObservedStreams(executor, self.metrics)

    def subscriptions_changed(self, number: int) -> None:
        """Publish the number of open subscriptions."""
        self.metrics.set(Metric.SUBSCRIPTIONS, number)

    def instrument_database(self, open_database: OpenDatabase) -> OpenDatabase:
        @asynccontextmanager
        async def open_metered() -> AsyncIterator[Database]:
            async with open_database() as database:
                self.readiness.database_opened(database)
                self.metrics.declare_catalog(database.catalog)
                try:
                    metered = MeteredStore(database.store, self._record_store_call)
                    yield replace(database, store=BudgetedStore(metered))
                finally:
                    self.readiness.begin_shutdown()

        return open_metered

    def admission_changed(self, admission: AdmissionController) -> None:
        """Publish the limit and the queue, and log refused operations as a number."""
        self.metrics.set(Metric.OPERATION_LIMIT, admission.limit)
        self.metrics.set(Metric.QUEUED, admission.queued)
        self.metrics.set(Metric.REPLY_BYTES, admission.memory.used)
        refused, now = admission.total_refused - self._logged_refusals, time.perf_counter()
        if refused and now - self._refusals_logged_at >= _SECONDS_BETWEEN_OVERLOAD_LINES:
            self._logged_refusals, self._refusals_logged_at = admission.total_refused, now
            overload_log.warning(
                "Overloaded: %d operations were refused since the last such line. %d may run at the same time.",
                refused,
                admission.limit,
            )

    def count_refused(self) -> None:
        """Count a request that was refused before it reached the application."""
        for count in self._refusal_counters:
            count()

    @cached_property
    def _refusal_counters(self) -> tuple[Callable[[], None], ...]:
        metrics = self.metrics
        return metrics.counter(Metric.HTTP_REQUESTS, "graphql", "503"), metrics.counter(Metric.ERRORS, Overloaded.code)

    def routes(self) -> list[BaseRoute]:
        routes = self.readiness.routes()
        return [*routes, Route("/metrics", self._metrics_page)] if self._settings.metrics else routes

    async def _metrics_page(self, request: Request) -> Response:
        record = await self.readiness.table_record()
        if record is not None:
            counts = Counter(map(reported_state, record.elements.values()))
            self.metrics.set_counts(Metric.ELEMENTS, {state: counts[state] for state in STATUSES})
            self.metrics.set(Metric.MIGRATION, record.progress.percent / 100 if record.progress else nan)
        return self.metrics.endpoint(request)

    def middleware(self) -> Middleware:
        """Return the middleware that logs requests. It must be outermost, to see each final response."""
        return Middleware(LogRequests, metrics=self.metrics, tracing=self._tracing, graphql_path=self._settings.path)

    def _record_store_call(self, call: StoreCall) -> None:
        self.metrics.record(Metric.STORE_CALLS, call.name, call.failure or "ok")
        self.metrics.record(Metric.STORE_SECONDS, call.name, amount=call.seconds)
        if self._tracing is not None:
            self._tracing.record_store_call(call)

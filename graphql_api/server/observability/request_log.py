"""Logs one line per request, and counts requests.

Lines contain no variables, no tokens and no query strings. Only at the level `debug` a line contains explain output,
and with it the search arguments.
"""

import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import asdict
from logging import DEBUG, INFO, getLogger
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphql_api.errors import ExpiredToken, InvalidToken, TokenAhead, TokenMismatch
from graphql_api.runtime import RequestStatistics, collect_statistics
from graphql_api.server import get_request_state
from graphql_api.server.observability.health import HEALTH, READY
from graphql_api.server.observability.metrics import (
    ERRORS,
    HTTP_REQUESTS,
    RECORDS_READ,
    RECORDS_RETURNED,
    SEARCHES,
    SHARDS_ASKED,
    STORE_RETRIES,
    TOKEN_ERRORS,
    Metrics,
)
from graphql_api.server.observability.metrics_endpoint import METRICS_PATH
from graphql_api.server.observability.tracing import Tracing

TOKEN_CODES = frozenset(error.code for error in (InvalidToken, ExpiredToken, TokenMismatch, TokenAhead))
QUIET_PATHS = frozenset({HEALTH, READY, METRICS_PATH})
"""Paths that machines poll. Responses with status 200 are logged only at the level `debug`."""
CLIENT_CLOSED_REQUEST = 499
"""Status in the log if the client disconnected before the response."""
MAX_CHARACTERS = 200
"""Maximum length of a logged value that a client chooses."""

log = getLogger("shardql.request")

_operation_fields: ContextVar[dict[str, str] | None] = ContextVar("operation_fields", default=None)
"""Log fields of the operation of the current request."""


def add_log_fields(**fields: str | None) -> None:
    """Add fields to the log line of the current request. None is skipped."""
    current = _operation_fields.get()
    if current is not None:
        current |= {name: value[:MAX_CHARACTERS] for name, value in fields.items() if value is not None}


def logs_explain() -> bool:
    """Return whether log lines contain explain output."""
    return log.isEnabledFor(DEBUG)


class LogRequests:
    """Middleware that logs and counts each request at its end, whatever its outcome."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        tracing: Tracing,
        graphql_path: str,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.app = app
        self._metrics = metrics
        self._tracing = tracing
        self._routes = {graphql_path: "graphql", HEALTH: "healthz", READY: "readyz", METRICS_PATH: "metrics"}
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = self._clock()
        status = 500

        async def send_and_note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        operation_fields: dict[str, str] = {}
        token = _operation_fields.set(operation_fields)
        try:
            with self._tracing.request(Headers(scope=scope)), collect_statistics() as statistics:
                try:
                    await self.app(scope, receive, send_and_note_status)
                finally:
                    state = get_request_state(scope)
                    status = CLIENT_CLOSED_REQUEST if state.client_disconnected else status
                    self._count(scope, status, state.error_codes, statistics)
                    self._log(scope, status, self._clock() - started, operation_fields, statistics)
        finally:
            _operation_fields.reset(token)

    def _count(self, scope: Scope, status: int, codes: tuple[str, ...], statistics: RequestStatistics) -> None:
        metrics = self._metrics
        metrics.increment(HTTP_REQUESTS, self._routes.get(_route_path(scope), "other"), str(status))
        for code in codes:
            metrics.increment(ERRORS, metrics.code_label(code))
            if code in TOKEN_CODES:
                metrics.increment(TOKEN_ERRORS, code)
        for metric, amount in (
            (STORE_RETRIES, statistics.retries),
            (SEARCHES, statistics.searches),
            (SHARDS_ASKED, statistics.shards_asked),
            (RECORDS_READ, statistics.records_read),
            (RECORDS_RETURNED, statistics.records_returned),
        ):
            metrics.increment(metric, amount=amount)

    def _log(
        self,
        scope: Scope,
        status: int,
        seconds: float,
        operation_fields: Mapping[str, str],
        statistics: RequestStatistics,
    ) -> None:
        level = DEBUG if _route_path(scope) in QUIET_PATHS and status == 200 else INFO
        if not log.isEnabledFor(level):
            return
        state = get_request_state(scope)
        method, path = scope["method"][:MAX_CHARACTERS], scope["path"][:MAX_CHARACTERS]
        counts = {name: count for name, count in statistics_fields(statistics).items() if count}
        fields: dict[str, Any] = {
            "correlationId": state.correlation_id,
            "method": method,
            "path": path,
            "status": status,
            "milliseconds": round(seconds * 1000, 1),
            **operation_fields,
            **({"codes": tuple(dict.fromkeys(state.error_codes))} if state.error_codes else {}),
            **(counts if statistics.store_calls else {}),
            **({"explain": state.explain_entries} if state.explain_entries and logs_explain() else {}),
        }
        log.log(level, "%s %s %s", method, path, status, extra={"facts": fields})


def statistics_fields(statistics: RequestStatistics) -> dict[str, int]:
    """Return the counts under their names in logs and spans."""
    return {_camel_case(name): count for name, count in asdict(statistics).items()}


def _route_path(scope: Scope) -> str:
    """Return the path without the prefix of a reverse proxy or of a mounting application."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))

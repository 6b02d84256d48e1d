"""One line of log, and the counts, for each request.

Neither variables nor tokens nor what stands behind the path of an address get into them. At the level `debug` alone
a line tells what each search has done, and so what was searched for.
"""

import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from logging import DEBUG, INFO, getLogger
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphql_api.errors import ExpiredToken, InvalidToken, TokenAhead, TokenMismatch
from graphql_api.runtime import Tally, tallied
from graphql_api.server import notes_of
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
QUIET = frozenset({HEALTH, READY, METRICS_PATH})
"""asked all day long by machines: their answers are logged only where they are not 200"""
CLIENT_LEFT = 499
"""the status that logs give a request whose client did not wait for the answer"""
MAX_CHARACTERS = 200
"""of what clients can make up"""

log = getLogger("shardql.request")


@dataclass(slots=True)
class OperationFacts:
    """What is known of the operation of a request."""

    facts: dict[str, str] = field(default_factory=dict)
    """its name and what tells its text from others, as the log shows them"""


_operation: ContextVar[OperationFacts | None] = ContextVar("operation", default=None)


def note_operation(**facts: str | None) -> None:
    """Adds to the line of the present request what is known of its operation."""
    noted = _operation.get()
    if noted is not None:
        noted.facts |= {name: value[:MAX_CHARACTERS] for name, value in facts.items() if value is not None}


def logs_explain() -> bool:
    """Whether lines tell what searches have done."""
    return log.isEnabledFor(DEBUG)


class LogRequests:
    """Middleware: logs and counts each request when it has ended, however it ended."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        tracing: Tracing,
        graphql: str,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.app = app
        self._metrics = metrics
        self._tracing = tracing
        self._routes = {graphql: "graphql", HEALTH: "healthz", READY: "readyz", METRICS_PATH: "metrics"}
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = self._clock()
        status = 500

        async def send_noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        operation = OperationFacts()
        before = _operation.set(operation)
        try:
            with self._tracing.request(Headers(scope=scope)), tallied() as tally:
                try:
                    await self.app(scope, receive, send_noted)
                finally:
                    notes = notes_of(scope)
                    status = CLIENT_LEFT if notes.left else status
                    self._count(scope, status, notes.codes, tally)
                    self._log(scope, status, self._clock() - started, operation.facts, tally)
        finally:
            _operation.reset(before)

    def _count(self, scope: Scope, status: int, codes: tuple[str, ...], tally: Tally) -> None:
        metrics = self._metrics
        metrics.add(HTTP_REQUESTS, self._routes.get(_route(scope), "other"), str(status))
        for code in codes:
            metrics.add(ERRORS, metrics.label_of(code))
            if code in TOKEN_CODES:
                metrics.add(TOKEN_ERRORS, code)
        for metric, amount in (
            (STORE_RETRIES, tally.retries),
            (SEARCHES, tally.searches),
            (SHARDS_ASKED, tally.shards_asked),
            (RECORDS_READ, tally.records_read),
            (RECORDS_RETURNED, tally.records_returned),
        ):
            metrics.add(metric, amount=amount)

    def _log(self, scope: Scope, status: int, seconds: float, operation: Mapping[str, str], tally: Tally) -> None:
        level = DEBUG if _route(scope) in QUIET and status == 200 else INFO
        if not log.isEnabledFor(level):
            return
        notes = notes_of(scope)
        method, path = scope["method"][:MAX_CHARACTERS], scope["path"][:MAX_CHARACTERS]
        facts: dict[str, Any] = {
            "correlationId": notes.correlation_id,
            "method": method,
            "path": path,
            "status": status,
            "milliseconds": round(seconds * 1000, 1),
            **operation,
            **({"codes": tuple(dict.fromkeys(notes.codes))} if notes.codes else {}),
            **({name: count for name, count in in_log(tally).items() if count} if tally.store_calls else {}),
            **({"explain": notes.explained} if notes.explained and logs_explain() else {}),
        }
        log.log(level, "%s %s %s", method, path, status, extra={"facts": facts})


def in_log(tally: Tally) -> dict[str, int]:
    """The counts under the names that logs and spans use."""
    return {_camel(name): count for name, count in asdict(tally).items()}


def _route(scope: Scope) -> str:
    """The path as the application knows it, behind whatever a proxy or another application puts before it."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))

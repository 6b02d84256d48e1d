"""An operation executor that counts, traces and logs what another executor runs."""

import re
import time
from asyncio import CancelledError
from hashlib import blake2b
from typing import Protocol

from graphql_api.database import Database
from graphql_api.runtime import current_statistics
from graphql_api.schema import Caller, ExecutionResponse, Operation
from graphql_api.server.observability.metrics import IN_FLIGHT, OPERATION_SECONDS, OPERATIONS, Metrics
from graphql_api.server.observability.request_log import add_log_fields, statistics_fields
from graphql_api.server.observability.tracing import Tracing

_OPERATION_NAME = re.compile(r"\b(?:query|mutation|subscription)\s+([A-Za-z_][A-Za-z0-9_]*)")
_MAX_SEARCHED = 10_000
"""Characters of a document that are searched for a name. The name is only informative."""


class OperationExecutor(Protocol):
    """Executes GraphQL operations."""

    async def run(self, operation: Operation, database: Database, caller: Caller) -> ExecutionResponse: ...


class ObservedExecutor:
    """Delegates operations to another executor and records their outcomes."""

    def __init__(self, executor: OperationExecutor, metrics: Metrics, tracing: Tracing) -> None:
        self._executor = executor
        self._metrics = metrics
        self._tracing = tracing

    async def run(self, operation: Operation, database: Database, caller: Caller) -> ExecutionResponse:
        """Execute the operation. The response is unchanged."""
        name = _operation_name(operation)
        add_log_fields(operation=name, document=_document_fingerprint(operation))
        outcome = "failed"
        started = time.perf_counter()
        self._metrics.change_gauge(IN_FLIGHT, 1)
        try:
            with self._tracing.operation(name) as finish_span:
                response = await self._executor.run(operation, database, caller)
                outcome = _outcome(response)
                attributes: dict[str, str | int] = {
                    "correlationId": caller.correlation_id,
                    **statistics_fields(current_statistics()),
                }
                finish_span(attributes, failed=bool(response.codes))
                return response
        except CancelledError:
            outcome = "cancelled"
            raise
        finally:
            self._metrics.change_gauge(IN_FLIGHT, -1)
            self._metrics.increment(OPERATIONS, outcome)
            self._metrics.observe(OPERATION_SECONDS, time.perf_counter() - started)


def _outcome(response: ExecutionResponse) -> str:
    if not response.executed:
        return "refused"
    return "errors" if response.codes else "ok"


def _operation_name(operation: Operation) -> str | None:
    if operation.name:
        return operation.name
    match = _OPERATION_NAME.search((operation.query or "")[:_MAX_SEARCHED])
    return match[1] if match else None


def _document_fingerprint(operation: Operation) -> str | None:
    """Return the id of a trusted document, or a hash of the query, which does not reveal its text."""
    if operation.document_id is not None:
        return operation.document_id
    if operation.query is None:
        return None
    return blake2b(operation.query.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

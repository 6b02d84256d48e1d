"""An engine that is watched: what it runs is counted, traced and noted for the log."""

import re
import time
from asyncio import CancelledError
from hashlib import blake2b
from typing import Protocol

from graphql_api.database import Database
from graphql_api.runtime import tally_so_far
from graphql_api.schema import Answer, Caller, Operation
from graphql_api.server.observability.metrics import IN_FLIGHT, OPERATION_SECONDS, OPERATIONS, Metrics
from graphql_api.server.observability.request_log import in_log, note_operation
from graphql_api.server.observability.tracing import Tracing

_NAMED = re.compile(r"\b(?:query|mutation|subscription)\s+([A-Za-z_][A-Za-z0-9_]*)")
_LOOKED_AT = 10_000
"""characters of a document: the name is for people who read logs"""


class Runs(Protocol):
    """What answers operations."""

    async def run(self, operation: Operation, database: Database, caller: Caller) -> Answer: ...


class ObservedEngine:
    """Runs operations by another engine, and tells what became of them."""

    def __init__(self, engine: Runs, metrics: Metrics, tracing: Tracing) -> None:
        self._engine = engine
        self._metrics = metrics
        self._tracing = tracing

    async def run(self, operation: Operation, database: Database, caller: Caller) -> Answer:
        """The engine's own answer."""
        name = _name(operation)
        note_operation(operation=name, document=_digest(operation))
        outcome = "failed"
        started = time.perf_counter()
        self._metrics.move(IN_FLIGHT, 1)
        try:
            with self._tracing.operation(name) as tell:
                answer = await self._engine.run(operation, database, caller)
                outcome = _outcome(answer)
                tell({"correlationId": caller.correlation_id, **in_log(tally_so_far())}, failed=bool(answer.codes))
                return answer
        except CancelledError:
            outcome = "cancelled"
            raise
        finally:
            self._metrics.move(IN_FLIGHT, -1)
            self._metrics.add(OPERATIONS, outcome)
            self._metrics.took(OPERATION_SECONDS, time.perf_counter() - started)


def _outcome(answer: Answer) -> str:
    if not answer.executed:
        return "refused"
    return "errors" if answer.codes else "ok"


def _name(operation: Operation) -> str | None:
    if operation.name:
        return operation.name
    found = _NAMED.search((operation.query or "")[:_LOOKED_AT])
    return found[1] if found else None


def _digest(operation: Operation) -> str | None:
    """What tells one document from another without showing it: the id of a trusted one, else a hash."""
    if operation.document_id is not None:
        return operation.document_id
    if operation.query is None:
        return None
    return blake2b(operation.query.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

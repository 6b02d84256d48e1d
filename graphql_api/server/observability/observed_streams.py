"""Counts the executions of streaming transports: each event of a subscription is measured like an operation."""

import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from graphql_api.database import Database
from graphql_api.runtime import RequestStatistics, collect_statistics
from graphql_api.schema import Admit, Caller, ExecutionResponse, Operation, Responses, StreamingExecutor
from graphql_api.server.observability.metrics import Metric, Metrics


def operation_outcome(response: ExecutionResponse) -> str:
    """Return the outcome of an operation, as the metrics name it."""
    return "refused" if not response.executed else "errors" if response.codes else "ok"


def count_activity(metrics: Metrics, statistics: RequestStatistics) -> None:
    """Count the activity of the store for one request, or for one event."""
    if statistics.retries:
        metrics.record(Metric.STORE_RETRIES, amount=statistics.retries)
    if statistics.hedges:
        metrics.record(Metric.STORE_HEDGES, amount=statistics.hedges)
    if statistics.lookup_repairs_failed:
        metrics.record(Metric.LOOKUP_REPAIRS_FAILED, amount=statistics.lookup_repairs_failed)
    metrics.record_reads(statistics)


@dataclass(frozen=True, slots=True)
class ObservedStreams:
    """Delegates operations to another executor, and counts them."""

    executor: StreamingExecutor
    metrics: Metrics

    def is_subscription(self, operation: Operation) -> bool:
        """Return whether an operation is a subscription."""
        return self.executor.is_subscription(operation)

    async def stream(
        self, operation: Operation, database: Database, caller: Caller, request: Any = None, *, admit: Admit
    ) -> Responses:
        """Yield the responses to an operation."""

        @asynccontextmanager
        async def admit_and_measure(is_event: bool) -> AsyncIterator[float]:
            with collect_statistics() as statistics:
                async with admit(is_event) as waited:
                    started = time.perf_counter()
                    self.metrics.record(Metric.IN_FLIGHT)
                    self.metrics.record(Metric.QUEUE_SECONDS, amount=waited)
                    try:
                        yield waited
                    finally:
                        self.metrics.record(Metric.IN_FLIGHT, amount=-1)
                        self.metrics.record(Metric.OPERATION_SECONDS, amount=time.perf_counter() - started)
                        count_activity(self.metrics, statistics)

        metric = Metric.SUBSCRIPTION_EVENTS if self.is_subscription(operation) else Metric.OPERATIONS
        stream = self.executor.stream(operation, database, caller, request, admit=admit_and_measure)
        async with aclosing(stream) as responses:
            async for response in responses:
                self.metrics.record(metric, operation_outcome(response))
                yield response

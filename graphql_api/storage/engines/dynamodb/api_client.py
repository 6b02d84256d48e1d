"""API calls: their execution with concurrency limits, attempts with backoff, and a deadline."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from time import perf_counter
from typing import Any, Generic, TypeVar

from graphql_api.errors import (
    ConditionFailed,
    Conflict,
    SchemaChanged,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    Throttled,
)
from graphql_api.runtime import (
    HedgedReads,
    RequestTurn,
    ResponsiveTimer,
    RetryBudget,
    RetryStrategy,
    current_meter,
    current_reservation,
    current_statistics,
)
from graphql_api.storage.engines.dynamodb.concurrency_limits import ConcurrencyLimiter
from graphql_api.storage.engines.dynamodb.driver_client import READS, WRITES, Response, Transport
from graphql_api.storage.engines.dynamodb.dynamodb_settings import DynamoSettings
from graphql_api.storage.engines.dynamodb.error_mapping import (
    DRIVER_ERRORS,
    AttemptFailure,
    InconsistentResponse,
    classify_error,
)

T = TypeVar("T")
P = TypeVar("P")

_NOTHING_WRITTEN_ERRORS: Mapping[type[StoreError], str] = {
    Conflict: "conflicted with other writes of the same record",
    Throttled: "were throttled",
    StoreDenied: "were denied",
    SchemaChanged: "were stopped, because the table's record has changed",
}
"""the errors of writes after which nothing was written, with a description of such attempts"""

# --- calls -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ApiCall(Generic[T]):
    """An API call and the state of its attempts."""

    operation: str
    """the name in the protocol: `Query`"""
    request: dict[str, Any]
    parse: Callable[[Response], T]
    """returns the result of a response; may raise KeyError, TypeError or ArithmeticError for an invalid one"""
    deadline: float
    """time of the event loop"""
    shard: str | None = None
    hash_key: str | None = None
    """the shard in error messages"""
    is_table_operation: bool = False
    """describes or changes the table: it may take longer, and is retried until the deadline"""
    outcome_unknown: bool = False
    """an attempt may have been executed, but received no response"""
    most_units: float = 0.0
    """the most capacity units that one attempt charges"""
    least_units: float = 0.0
    """the least units that AWS charges; DynamoDB Local reports none for a read that finds nothing"""

    @property
    def where(self) -> str:
        return f"{self.operation} of {self.shard}" if self.shard else self.operation


class ApiClient:
    """Executes API calls with one transport."""

    def __init__(
        self, transport: Transport, table: str, settings: DynamoSettings, clock: Callable[[], float], random: Random
    ) -> None:
        self.table = table
        self.settings = settings
        self._transport = transport
        self._retries = RetryStrategy(
            first_backoff_seconds=settings.backoff_base,
            max_backoff_seconds=settings.backoff_cap,
            uniform=random.uniform,
        )
        self._limiter = ConcurrencyLimiter(settings, clock)
        self._min_attempt_seconds = min(settings.read_seconds, settings.deadline) / 2
        """an attempt with less time, because it waited for a slot, does not count as a failure of its shard"""
        self._budget = RetryBudget(settings.retry_share, settings.retry_floor, clock)
        self._hedged_reads = HedgedReads(settings.hedge_percentile, settings.hedge_share)
        self._timer = ResponsiveTimer()

    @contextmanager
    def operation(self, fan_out: int) -> Iterator[None]:
        """Adapt the budgets to an operation of this many requests, while it is in progress."""
        with self._budget.operation(fan_out), self._hedged_reads.operation(fan_out):
            yield

    def new_deadline(self) -> float:
        """Return the deadline of an operation that starts now."""
        return asyncio.get_running_loop().time() + self.settings.deadline

    def new_table_deadline(self) -> float:
        """Return the deadline of an operation that describes or changes the table, and starts now."""
        return asyncio.get_running_loop().time() + self.settings.table_deadline

    async def execute(self, call: ApiCall[T]) -> T:
        """Return the result of a call, or raise the error of the last attempt, before the deadline."""
        meter = current_meter() if call.operation in READS | WRITES else None
        if meter is not None:
            call.request["ReturnConsumedCapacity"] = "TOTAL"
        self._budget.deposit()
        retries = self._retries.start(call.deadline)
        faults = conflicts = 0
        has_token = False
        while True:
            outcome = await self._attempt(call)
            is_fault = isinstance(outcome, AttemptFailure) and outcome.retry and not outcome.is_conflict
            if has_token and not is_fault:
                self._budget.refund()
            if not isinstance(outcome, AttemptFailure):
                response, result = outcome
                if meter is not None:
                    add = meter.add if call.operation in READS else meter.add_write
                    units = _consumed_capacity(response)
                    add(None if units is None else max(units, call.least_units))
                return result
            may_be_charged = _may_be_charged(outcome)
            if may_be_charged and meter is not None:
                meter.add_in_doubt(call.most_units)
            faults += is_fault
            conflicts += outcome.is_conflict
            max_faults = sys.maxsize if call.is_table_operation else self.settings.attempts
            exhausted = faults >= max_faults or conflicts >= self.settings.conflict_attempts
            if not outcome.retry or exhausted or (may_be_charged and not _reserve_attempt(call)):
                break
            if not await retries.pause(self._budget.withdraw if is_fault else None):
                break
            has_token = is_fault
            current_statistics().retries += 1
        error = _final_error(call, outcome.error)
        error.shard = call.hash_key
        raise error

    async def repeat_unprocessed(
        self, parts: list[P], send: Callable[[list[P]], Awaitable[list[P]]], deadline: float, problem: str
    ) -> None:
        """Send the parts of a batch, and then repeatedly those that `send` returns as unprocessed.

        `parts` always holds what remains. If the deadline is too close, raise Throttled with the `problem`.
        """
        retries = self._retries.start(deadline)
        while parts:
            count, parts[:] = len(parts), await send(parts)
            if len(parts) < count:
                retries.failed_attempts = 0
            if parts:
                if not await retries.pause():
                    raise Throttled(f"{problem.format(len(parts))}, and the deadline is reached. Try again later.")
                current_statistics().retries += 1

    async def _attempt(self, call: ApiCall[T]) -> tuple[Response, T] | AttemptFailure:
        loop, settings = asyncio.get_running_loop(), self.settings
        read_seconds = settings.table_read_seconds if call.is_table_operation else settings.read_seconds
        started = None
        slot = self._limiter.slot(call.operation, call.shard)
        try:
            with RequestTurn() as turn:
                if not slot.enter_now():
                    async with asyncio.timeout_at(call.deadline):
                        await slot.__aenter__()
                try:
                    turn.begin()
                    started = loop.time()
                    with self._timer.timeout(settings.connect_seconds + read_seconds, call.deadline):
                        response = await self._send(call)
                    result = _parse(call, response)
                finally:
                    slot.leave()
        except StoreError as problem:
            return AttemptFailure(problem)
        except TimeoutError as problem:
            if started is None:
                return AttemptFailure(
                    StoreUnavailable(
                        f"{call.where}: too many concurrent requests, and no free slot within "
                        f"{settings.deadline:g} seconds. Try again later."
                    )
                )
            failure = classify_error(problem, call.where, self.table)
            if loop.time() - started < self._min_attempt_seconds:
                call.outcome_unknown = True
                return failure
        except DRIVER_ERRORS as problem:
            failure = classify_error(problem, call.where, self.table)
        else:
            self._limiter.record_success(call.shard)
            return response, result
        call.outcome_unknown |= failure.in_progress
        if failure.outcome_unknown:
            call.outcome_unknown = True
            self._limiter.record_failure(call.shard)
        else:
            self._limiter.record_success(call.shard)
        return failure

    async def _send(self, call: ApiCall[Any]) -> Response:
        """Send the request in the slot of the caller; a late read is hedged in a slot of its own.

        Reports how long each read of one shard took, also if it failed.
        """

        async def send() -> Response:
            started = perf_counter()
            try:
                return await self._transport.send(call.operation, call.request)
            finally:
                if call.operation == "Query" and call.hash_key is not None:
                    current_statistics().shard_seconds.append((call.hash_key, perf_counter() - started))

        async def send_again() -> Response:
            current_statistics().hedges += 1
            async with self._limiter.slot(call.operation, call.shard):
                return await send()

        def may_hedge() -> bool:
            return self._limiter.has_free_slot(call.operation, call.shard)

        if call.operation not in READS or current_reservation() is not None:
            return await send()
        return await self._hedged_reads.run(call.operation, send, send_again, may_hedge)


def _may_be_charged(failure: AttemptFailure) -> bool:
    """Return whether DynamoDB may charge for a failed attempt: it was executed, or its conditions were tested."""
    return failure.outcome_unknown or failure.in_progress or isinstance(failure.error, ConditionFailed | Conflict)


def _reserve_attempt(call: ApiCall[Any]) -> bool:
    """Reserve the units of another attempt. Return False if they do not fit under the ceiling of the request."""
    reservation = current_reservation()
    return reservation is None or reservation.extend(call.most_units)


def _parse(call: ApiCall[T], response: Response) -> T:
    try:
        return call.parse(response)
    except (KeyError, TypeError, ArithmeticError) as problem:
        raise InconsistentResponse(f"a member is missing or malformed: {problem!r}") from problem


def _final_error(call: ApiCall[Any], error: StoreError) -> StoreError:
    """Return the error of the last attempt. It states that nothing was written only if this holds for all attempts."""
    if isinstance(error, StoreUnavailable):
        error.certain = not call.outcome_unknown
    later_attempts = _NOTHING_WRITTEN_ERRORS.get(type(error)) if call.operation in WRITES else None
    if later_attempts is None or not call.outcome_unknown:
        return error
    unknown = StoreUnavailable(
        f"{call.where}: one attempt received no response, and later attempts {later_attempts}. Try again."
    )
    unknown.__cause__ = error
    return unknown


def _consumed_capacity(response: Response) -> float | None:
    """Return the consumed capacity of a response. Responses to batches list it by table."""
    reported = response.get("ConsumedCapacity")
    parts: list[dict[str, float]] = reported if isinstance(reported, list) else [reported or {}]
    if not parts or any("CapacityUnits" not in part for part in parts):
        return None
    return sum(part["CapacityUnits"] for part in parts)


def check_count(response: Response) -> None:
    """Refuse a truncated response."""
    if response["Count"] != len(response["Items"]):
        raise InconsistentResponse("the number of items differs from Count")


def response_size(response: Response) -> int:
    """Return the size of a response in bytes, or 0 if its header does not state it."""
    return int(response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("content-length", 0))


async def run_concurrently(work: Callable[[P], Coroutine[Any, Any, T]], parts: Sequence[P]) -> list[T]:
    """Run all parts concurrently and return their results. The first error, or cancellation, cancels the others."""
    if len(parts) == 1:
        return [await work(parts[0])]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work(part)) for part in parts]
    except BaseExceptionGroup as problems:
        raise problems.exceptions[0] from None
    return [task.result() for task in tasks]

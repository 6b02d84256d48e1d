"""Execution of one API call: concurrency limits, attempts with backoff, and a deadline."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from graphql_api.errors import Conflict, StoreDenied, StoreError, StoreUnavailable, Throttled
from graphql_api.runtime import count_retry, current_meter
from graphql_api.storage.engines.dynamodb.concurrency_limits import ConcurrencyLimiter, RetryBudget
from graphql_api.storage.engines.dynamodb.dynamodb_settings import DynamoSettings
from graphql_api.storage.engines.dynamodb.error_mapping import (
    DRIVER_ERRORS,
    AttemptFailure,
    InconsistentResponse,
    classify_error,
)

Response = dict[str, Any]
ResponseCheck = Callable[[Response], None]
"""raises InconsistentAnswer for an invalid response"""

METERED_OPERATIONS = frozenset({"Query", "BatchGetItem"})
"""operations that report their consumed capacity, if it is metered"""


@dataclass(slots=True)
class ApiCall:
    """An API call and the state of its attempts."""

    operation: str
    """the name in the protocol: `Query`"""
    request: dict[str, Any]
    check: ResponseCheck
    deadline: float
    """time of the event loop"""
    shard: str | None = None
    hash_key: str | None = None
    """the shard in error messages"""
    outcome_unknown: bool = False
    """an attempt may have been executed, but received no response"""

    @property
    def where(self) -> str:
        return f"{self.operation} of {self.shard}" if self.shard else self.operation


class ApiClient:
    """Executes API calls with one client."""

    def __init__(
        self, client: Any, table: str, settings: DynamoSettings, clock: Callable[[], float], random: Random
    ) -> None:
        self.table = table
        self.settings = settings
        self._client = client
        self._random = random
        self._limiter = ConcurrencyLimiter(settings, clock)
        self._min_attempt_seconds = min(settings.read_seconds, settings.deadline) / 2
        """an attempt with less time, because it waited for a slot, does not count as a failure of its shard"""
        self._budget = RetryBudget(settings.retry_share, settings.retry_floor, clock)
        self._methods = {
            operation: getattr(client, method) for method, operation in client.meta.method_to_api_mapping.items()
        }

    def new_deadline(self) -> float:
        """Return the deadline of an operation that starts now."""
        return asyncio.get_running_loop().time() + self.settings.deadline

    async def execute(self, call: ApiCall) -> Response:
        """Return the response to a call, or raise the error of the last attempt, before the deadline."""
        meter = current_meter() if call.operation in METERED_OPERATIONS else None
        if meter is not None:
            call.request["ReturnConsumedCapacity"] = "TOTAL"
        self._budget.deposit()
        faults = conflicts = 0
        while True:
            outcome = await self._attempt(call)
            if not isinstance(outcome, AttemptFailure):
                if meter is not None:
                    meter.add(_consumed_capacity(outcome))
                return outcome
            conflicts += outcome.is_conflict
            faults += not outcome.is_conflict
            exhausted = faults >= self.settings.attempts or conflicts >= self.settings.conflict_attempts
            if not outcome.retry or exhausted:
                break
            seconds = self.backoff_seconds(faults + conflicts)
            if self.seconds_left(call.deadline) <= seconds or not (outcome.is_conflict or self._budget.withdraw()):
                break
            count_retry()
            await asyncio.sleep(seconds)
        error = _final_error(call, outcome.error)
        error.shard = call.hash_key
        raise error

    def backoff_seconds(self, attempt: int) -> float:
        """Return the pause after an attempt: exponential backoff with full jitter."""
        settings = self.settings
        return self._random.uniform(0, min(settings.backoff_cap, settings.backoff_base * 2 ** (attempt - 1)))

    @staticmethod
    def seconds_left(deadline: float) -> float:
        """Return the seconds until a deadline."""
        return deadline - asyncio.get_running_loop().time()

    async def _attempt(self, call: ApiCall) -> Response | AttemptFailure:
        loop = asyncio.get_running_loop()
        started = None
        try:
            async with asyncio.timeout_at(call.deadline), self._limiter.slot(call.operation, call.shard):
                started = loop.time()
                async with asyncio.timeout(self.settings.connect_seconds + self.settings.read_seconds):
                    response: Response = await self._methods[call.operation](**call.request)
                call.check(response)
        except StoreError as problem:
            return AttemptFailure(problem)
        except TimeoutError as problem:
            if started is None:
                return AttemptFailure(self._no_slot_error(call))
            failure = classify_error(problem, call.where, self.table)
            if loop.time() - started < self._min_attempt_seconds:
                call.outcome_unknown = True
                return failure
        except DRIVER_ERRORS as problem:
            failure = classify_error(problem, call.where, self.table)
        else:
            self._limiter.record_success(call.shard)
            return response
        call.outcome_unknown |= failure.in_progress
        if failure.outcome_unknown:
            call.outcome_unknown = True
            self._limiter.record_failure(call.shard)
        else:
            self._limiter.record_success(call.shard)
        return failure

    def _no_slot_error(self, call: ApiCall) -> StoreUnavailable:
        return StoreUnavailable(
            f"{call.where}: too many concurrent requests, and no free slot within {self.settings.deadline:g} seconds. "
            "Try again later."
        )


def _final_error(call: ApiCall, error: StoreError) -> StoreError:
    """Return the error of the last attempt. It states that nothing was written only if this holds for all attempts."""
    if isinstance(error, StoreUnavailable):
        error.certain = not call.outcome_unknown
    later_attempts = _NOTHING_WRITTEN_ERRORS.get(type(error)) if call.operation in _WRITES else None
    if later_attempts is None or not call.outcome_unknown:
        return error
    unknown = StoreUnavailable(
        f"{call.where}: one attempt received no response, and later attempts {later_attempts}. Try again."
    )
    unknown.__cause__ = error
    return unknown


_WRITES = frozenset({"TransactWriteItems", "BatchWriteItem", "PutItem", "DeleteItem"})
_NOTHING_WRITTEN_ERRORS: Mapping[type[StoreError], str] = {
    Conflict: "conflicted with other writes of the same record",
    Throttled: "were throttled",
    StoreDenied: "were denied",
}
"""the errors of writes after which nothing was written, with a description of such attempts"""


def _consumed_capacity(response: Response) -> float | None:
    """Return the consumed capacity of a response. Responses to batches list it by table."""
    reported = response.get("ConsumedCapacity")
    parts: list[dict[str, float]] = reported if isinstance(reported, list) else [reported or {}]
    if not parts or any("CapacityUnits" not in part for part in parts):
        return None
    return sum(part["CapacityUnits"] for part in parts)


def require_members(*members: str) -> ResponseCheck:
    """Return a check that a response has these members."""

    def check(response: Response) -> None:
        for member in members:
            if member not in response:
                raise InconsistentResponse(f"it has no {member}")

    return check

"""One request: its places, its attempts with pauses between them, its deadline."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from graphql_api.errors import Conflict, StoreDenied, StoreError, StoreUnavailable, Throttled
from graphql_api.runtime import count_retry, present_bill
from graphql_api.storage.engines.dynamodb.concurrency_limits import RetryBudget, Traffic
from graphql_api.storage.engines.dynamodb.dynamodb_settings import DynamoSettings
from graphql_api.storage.engines.dynamodb.error_mapping import NOTICED, Failure, InconsistentAnswer, judge

Answer = dict[str, Any]
Check = Callable[[Answer], None]
"""raises InconsistentAnswer for an answer that cannot be one"""

BILLED = frozenset({"Query", "BatchGetItem"})
"""operations that are asked what they cost, where somebody wants to know"""


@dataclass(slots=True)
class Call:
    """A request and what is known of its attempts."""

    operation: str
    """as the protocol writes it: `Query`"""
    request: dict[str, Any]
    check: Check
    deadline: float
    """by the clock of the event loop"""
    shard: str | None = None
    hash_key: str | None = None
    """what errors name as the shard"""
    unheard: bool = False
    """an attempt may have been carried out although no answer came"""

    @property
    def where(self) -> str:
        return f"{self.operation} of {self.shard}" if self.shard else self.operation


class Calls:
    """Sends requests over one client."""

    def __init__(
        self, client: Any, table: str, settings: DynamoSettings, clock: Callable[[], float], random: Random
    ) -> None:
        self.table = table
        self.settings = settings
        self._client = client
        self._random = random
        self._traffic = Traffic(settings, clock)
        self._fair_trial = min(settings.read_seconds, settings.deadline) / 2
        """a request that had less time, since it waited for its place, says nothing against its shard"""
        self._budget = RetryBudget(settings.retry_share, settings.retry_floor, clock)
        self._methods = {
            operation: getattr(client, method) for method, operation in client.meta.method_to_api_mapping.items()
        }

    def deadline(self) -> float:
        """The end of an operation that begins now."""
        return asyncio.get_running_loop().time() + self.settings.deadline

    async def do(self, call: Call) -> Answer:
        """The answer to a call, or the error of its last attempt; never later than its deadline."""
        bill = present_bill() if call.operation in BILLED else None
        if bill is not None:
            call.request["ReturnConsumedCapacity"] = "TOTAL"
        self._budget.earn()
        faults = conflicts = 0
        while True:
            answer = await self._attempt(call)
            if not isinstance(answer, Failure):
                if bill is not None:
                    bill.add(_charged(answer))
                return answer
            conflicts += answer.in_the_way
            faults += not answer.in_the_way
            enough = faults >= self.settings.attempts or conflicts >= self.settings.conflict_attempts
            if not answer.retry or enough:
                break
            pause = self.pause(faults + conflicts)
            if self.left(call.deadline) <= pause or not (answer.in_the_way or self._budget.take()):
                break
            count_retry()
            await asyncio.sleep(pause)
        error = _as_far_as_known(call, answer.error)
        error.shard = call.hash_key
        raise error

    def pause(self, attempt: int) -> float:
        """How long to wait after an attempt: anything up to a limit that doubles."""
        settings = self.settings
        return self._random.uniform(0, min(settings.backoff_cap, settings.backoff_base * 2 ** (attempt - 1)))

    @staticmethod
    def left(deadline: float) -> float:
        """Seconds until a deadline."""
        return deadline - asyncio.get_running_loop().time()

    async def _attempt(self, call: Call) -> Answer | Failure:
        loop = asyncio.get_running_loop()
        started = None
        try:
            async with asyncio.timeout_at(call.deadline), self._traffic.place(call.operation, call.shard):
                started = loop.time()
                async with asyncio.timeout(self.settings.connect_seconds + self.settings.read_seconds):
                    answer: Answer = await self._methods[call.operation](**call.request)
                call.check(answer)
        except StoreError as problem:
            return Failure(problem)
        except TimeoutError as problem:
            if started is None:
                return Failure(self._no_place(call))
            failure = judge(problem, call.where, self.table)
            if loop.time() - started < self._fair_trial:
                call.unheard = True
                return failure
        except NOTICED as problem:
            failure = judge(problem, call.where, self.table)
        else:
            self._traffic.answered(call.shard)
            return answer
        call.unheard |= failure.under_way
        if failure.unheard:
            call.unheard = True
            self._traffic.unanswered(call.shard)
        else:
            self._traffic.answered(call.shard)
        return failure

    def _no_place(self, call: Call) -> StoreUnavailable:
        return StoreUnavailable(
            f"{call.where}: no place for it within {self.settings.deadline:g} seconds, so many requests are on their "
            "way. Try again a little later."
        )


def _as_far_as_known(call: Call, error: StoreError) -> StoreError:
    """The error of the last attempt; it says that nothing was written only where that is true of all."""
    if isinstance(error, StoreUnavailable):
        error.certain = not call.unheard
    late = _SAY_THAT_NOTHING_WAS_WRITTEN.get(type(error)) if call.operation in _WRITES else None
    if late is None or not call.unheard:
        return error
    unknown = StoreUnavailable(f"{call.where}: one attempt brought no answer, and later ones {late}. Try again.")
    unknown.__cause__ = error
    return unknown


_WRITES = frozenset({"TransactWriteItems", "BatchWriteItem", "PutItem", "DeleteItem"})
_SAY_THAT_NOTHING_WAS_WRITTEN: Mapping[type[StoreError], str] = {
    Conflict: "met other writes of the same record",
    Throttled: "were throttled",
    StoreDenied: "were not allowed",
}
"""and what the attempts behind one that brought no answer came to"""


def _charged(answer: Answer) -> float | None:
    """The capacity units that an answer tells of; the one of a batch lists them by table."""
    told = answer.get("ConsumedCapacity")
    parts: list[dict[str, float]] = told if isinstance(told, list) else [told or {}]
    if not parts or any("CapacityUnits" not in part for part in parts):
        return None
    return sum(part["CapacityUnits"] for part in parts)


def requires(*members: str) -> Check:
    """A check that an answer has these members, which every whole answer has."""

    def check(answer: Answer) -> None:
        for member in members:
            if member not in answer:
                raise InconsistentAnswer(f"it has no {member}")

    return check

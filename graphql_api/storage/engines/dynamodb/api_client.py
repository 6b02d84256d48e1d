"""API calls: the client of the driver, and execution with concurrency limits, attempts with backoff, and a deadline."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from io import BytesIO
from random import Random
from typing import Any, Generic, TypeVar
from zlib import crc32

import aioboto3
import orjson
from aiobotocore.config import AioConfig
from botocore.exceptions import BotoCoreError

from graphql_api.errors import (
    Conflict,
    SchemaChanged,
    StoreDenied,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    Throttled,
)
from graphql_api.runtime import RetryStrategy, current_meter, current_statistics
from graphql_api.storage import current_fence
from graphql_api.storage.engines.dynamodb.concurrency_limits import ConcurrencyLimiter, RetryBudget
from graphql_api.storage.engines.dynamodb.dynamodb_settings import DynamoSettings
from graphql_api.storage.engines.dynamodb.error_mapping import (
    DRIVER_ERRORS,
    AttemptFailure,
    InconsistentResponse,
    classify_error,
)

T = TypeVar("T")
P = TypeVar("P")

Response = dict[str, Any]

METERED_OPERATIONS = frozenset({"Query", "BatchGetItem"})
"""operations that report their consumed capacity, if it is metered"""

_WRITES = frozenset({"TransactWriteItems", "BatchWriteItem", "PutItem", "DeleteItem"})

_NOTHING_WRITTEN_ERRORS: Mapping[type[StoreError], str] = {
    Conflict: "conflicted with other writes of the same record",
    Throttled: "were throttled",
    StoreDenied: "were denied",
    SchemaChanged: "were stopped, because the table's record has changed",
}
"""the errors of writes after which nothing was written, with a description of such attempts"""

_LARGE_BODY_BYTES = 256 * 1024


# --- the client of the driver ----------------------------------------------------------------------------------


async def open_client(
    stack: AsyncExitStack,
    session: aioboto3.Session,
    region: str | None,
    endpoint: str | None,
    settings: DynamoSettings,
) -> Any:
    """Return a low-level client that is closed with the exit stack."""
    config = AioConfig(
        connect_timeout=settings.connect_seconds,
        read_timeout=settings.read_seconds,
        max_pool_connections=settings.pool,
        retries={"total_max_attempts": 1, "mode": "standard"},
        parameter_validation=False,  # requests are validated when they are encoded
    )
    try:
        client = await stack.enter_async_context(
            session.client("dynamodb", region_name=region, endpoint_url=endpoint, config=config)
        )
    except (BotoCoreError, ValueError) as problem:
        raise StoreRefused(
            f"The DynamoDB client cannot be created: {problem} Set region and endpoint with the table's name, or set "
            "AWS_DEFAULT_REGION."
        ) from problem
    client.meta.events.register("before-send.dynamodb", _stream_large_body)
    for operation in _WRITES:
        client.meta.events.register(f"before-send.dynamodb.{operation}", _verify_fence)
    client.meta.events.register("before-parse.dynamodb", _verify_response)
    return client


def _verify_fence(**_: Any) -> None:
    """Stop a write whose plan is too old. The request is signed by now: it cannot be applied long after this check."""
    fence = current_fence()
    if fence is not None:
        fence.verify()


def _stream_large_body(request: Any, **_: Any) -> None:
    """Send a large body in chunks, so that it does not block the event loop."""
    if isinstance(request.body, bytes) and len(request.body) > _LARGE_BODY_BYTES:
        request.body = BytesIO(request.body)


def _verify_response(response_dict: dict[str, Any], **_: Any) -> None:
    """Refuse an incomplete or damaged body. The driver itself accepts a truncated body as an empty response."""
    body = response_dict["body"]
    checksum = response_dict["headers"].get("x-amz-crc32")
    if checksum is not None:
        if checksum != str(crc32(body)):
            raise InconsistentResponse("the checksum of the body does not match")
        if body.startswith(b"{"):
            return
    is_json = "json" in response_dict["headers"].get("content-type", "")
    if response_dict["status_code"] >= 300 and not is_json:
        return  # Sent by an intermediary, such as a proxy: only the status is meaningful.
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise InconsistentResponse("the body is not JSON") from problem
    if not isinstance(parsed, dict):
        raise InconsistentResponse("the body is not a JSON object")


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
        self._retries = RetryStrategy(
            first_backoff_seconds=settings.backoff_base,
            max_backoff_seconds=settings.backoff_cap,
            uniform=random.uniform,
        )
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

    async def execute(self, call: ApiCall[T]) -> T:
        """Return the result of a call, or raise the error of the last attempt, before the deadline."""
        meter = current_meter() if call.operation in METERED_OPERATIONS else None
        if meter is not None:
            call.request["ReturnConsumedCapacity"] = "TOTAL"
        self._budget.deposit()
        retries = self._retries.start(call.deadline)
        faults = conflicts = 0
        while True:
            outcome = await self._attempt(call)
            if not isinstance(outcome, AttemptFailure):
                response, result = outcome
                if meter is not None:
                    meter.add(_consumed_capacity(response))
                return result
            conflicts += outcome.is_conflict
            faults += not outcome.is_conflict
            exhausted = faults >= self.settings.attempts or conflicts >= self.settings.conflict_attempts
            permit = None if outcome.is_conflict else self._budget.withdraw
            if not outcome.retry or exhausted or not await retries.pause(permit):
                break
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
        loop = asyncio.get_running_loop()
        started = None
        try:
            async with asyncio.timeout_at(call.deadline), self._limiter.slot(call.operation, call.shard):
                started = loop.time()
                async with asyncio.timeout(self.settings.connect_seconds + self.settings.read_seconds):
                    response: Response = await self._methods[call.operation](**call.request)
                result = _parse(call, response)
        except StoreError as problem:
            return AttemptFailure(problem)
        except TimeoutError as problem:
            if started is None:
                return AttemptFailure(
                    StoreUnavailable(
                        f"{call.where}: too many concurrent requests, and no free slot within "
                        f"{self.settings.deadline:g} seconds. Try again later."
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


def _parse(call: ApiCall[T], response: Response) -> T:
    try:
        return call.parse(response)
    except (KeyError, TypeError, ArithmeticError) as problem:
        raise InconsistentResponse(f"a member is missing or malformed: {problem!r}") from problem


def _final_error(call: ApiCall[Any], error: StoreError) -> StoreError:
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

"""The subscriptions of one process: their number, the executions of their events, and the end of all of them.

An open subscription holds no place of admission control. Each of its events waits for one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager, nullcontext, suppress
from itertools import count
from logging import getLogger
from random import random
from typing import Any

from graphql_api.clock import system_clock
from graphql_api.errors import InternalError, Overloaded, ShardQLError, TooManySubscriptions, error_body
from graphql_api.schema import Caller, ExecutionResponse, Operation, Responses, StreamingExecutor
from graphql_api.server.admission_control import AdmissionController
from graphql_api.server.auth import Identity
from graphql_api.server.database_lifespan import DatabaseHolder
from graphql_api.server.request_state import RequestState

MAX_EVENTS = 16
"""Events of all subscriptions that are executed at the same time. The others wait, and the application with them."""
_FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.05, 2.0
"""between two attempts of an event to enter, with exponential backoff and full jitter"""
_MAX_SLEEP_SECONDS = 60.0
"""The clock may be set, so a long wait for a time of day looks at it again."""
MAX_NOTED_CODES = 100
log = getLogger("shardql")


class SubscriptionService:
    """Executes operations of streaming transports within the limits of one process."""

    def __init__(
        self,
        executor: StreamingExecutor,
        database: DatabaseHolder,
        admission: AdmissionController,
        max_subscriptions: int,
        on_change: Callable[[int], object] = lambda _: None,
    ) -> None:
        """`on_change` receives the number of open subscriptions."""
        self._executor = executor
        self._database = database
        self._admission = admission
        self._max_subscriptions = max_subscriptions
        self._on_change = on_change
        self._events = asyncio.Semaphore(MAX_EVENTS)
        self._stopping = asyncio.Event()
        self.open_subscriptions = 0
        self.open_connections = 0

    def is_subscription(self, operation: Operation) -> bool:
        """Return whether an operation is a subscription. It may be invalid otherwise."""
        return self._executor.is_subscription(operation)

    async def stream(self, operation: Operation, caller: Caller, request: Any, state: RequestState) -> Responses:
        """Yield the responses to an operation. Never raises. `state` notes the codes of their errors."""
        try:
            with self._subscription() if self.is_subscription(operation) else nullcontext():
                database = await self._database.get()
                stream = self._executor.stream(operation, database, caller, request, admit=self._admit)
                async with aclosing(stream) as responses:
                    async for response in responses:
                        state.error_codes = (*state.error_codes, *response.codes)[:MAX_NOTED_CODES]
                        state.explain_entries = response.explain_entries
                        yield response
                        await asyncio.sleep(0)  # A generator that never waits must not stop all other work.
        except ShardQLError as problem:
            state.error_codes += (problem.code,)
            yield ExecutionResponse({"errors": [error_body(problem)]}, problem.status)
        except Exception:
            log.exception("A stream failed", extra={"correlation_id": caller.correlation_id})
            yield ExecutionResponse(
                {"errors": [error_body(InternalError(caller.correlation_id))]}, InternalError.status
            )

    @contextmanager
    def connection(self) -> Iterator[None]:
        """Count a WebSocket connection. Raise TooManySubscriptions if there are too many."""
        if self.open_connections >= self._max_subscriptions:
            raise TooManySubscriptions(
                f"The server has {self.open_connections:,} open WebSocket connections. Try again later."
            )
        self.open_connections += 1
        try:
            yield
        finally:
            self.open_connections -= 1

    @contextmanager
    def _subscription(self) -> Iterator[None]:
        if self.open_subscriptions >= self._max_subscriptions:
            raise TooManySubscriptions(
                f"The server has {self.open_subscriptions:,} open subscriptions. Try again later."
            )
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, added: int) -> None:
        self.open_subscriptions += added
        self._on_change(self.open_subscriptions)

    @asynccontextmanager
    async def _admit(self, is_event: bool) -> AsyncIterator[float]:
        """Hold a place of admission control. An event is not refused, but waits."""
        if not is_event:
            async with self._admission.admit() as waited:
                yield waited
            return
        async with self._events, AsyncExitStack() as place:
            yield await self._enter(place)

    async def _enter(self, place: AsyncExitStack) -> float:
        """Enter a place of admission control, and return how long that has taken since the last refusal."""
        for attempt in count():
            with suppress(Overloaded):
                return await place.enter_async_context(self._admission.admit())
            await asyncio.sleep(random() * min(MAX_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(attempt, 10)))  # noqa: S311
        raise AssertionError("the loop has no end")

    # --- the end

    def stop(self) -> None:
        """End all streams, so that clients connect to another server."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        """Return whether the server stops."""
        return self._stopping.is_set()

    async def wait_for_end(self, identity: Identity) -> None:
        """Wait until the credential of a client expires, or the server stops."""
        stopping = asyncio.create_task(self._stopping.wait())
        expiry = asyncio.create_task(_wait_until(identity.expires)) if identity.expires is not None else stopping
        try:
            await asyncio.wait({stopping, expiry}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            expiry.cancel()


async def _wait_until(time: float) -> None:
    while (remaining := time - system_clock()) > 0:  # noqa: ASYNC110 - it waits for a time
        await asyncio.sleep(min(remaining, _MAX_SLEEP_SECONDS))

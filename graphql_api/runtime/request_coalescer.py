"""Coalescing: concurrent calls are sent as one batch, and equal reads share one result (single-flight)."""

from asyncio import (
    CancelledError,
    Future,
    Task,
    create_task,
    current_task,
    gather,
    get_running_loop,
    shield,
    sleep,
    wait,
)
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
P = TypeVar("P")


class SharedResult(Generic[T]):
    """A result with several waiters. Its work is cancelled when the last waiter is cancelled."""

    def __init__(self, future: Future[T]) -> None:
        self.future = future
        self._waiters = 0
        self.is_cancelled = False

    async def wait(self) -> T:
        """Return the result, or raise the error."""
        self.enter()
        try:
            return await shield(self.future)
        finally:
            self.leave()

    async def provide(self, work: Awaitable[T]) -> T:
        """Await the work, and give its result or its error to the waiters. A cancellation cancels the result."""
        self.enter()
        try:
            result = await work
        except Exception as problem:
            self.future.set_exception(problem)
            self.future.exception()  # There may be no waiter.
            raise
        except BaseException:
            self.is_cancelled = True
            self.future.cancel()
            raise
        else:
            self.future.set_result(result)
            return result
        finally:
            self.leave()

    def enter(self) -> None:
        """Count a waiter."""
        self._waiters += 1

    def leave(self) -> None:
        """Count a waiter less. Without waiters, the result is not needed."""
        self._waiters -= 1
        if not self._waiters and not self.future.done():
            self.is_cancelled = True
            self.future.cancel()


async def wait_for_all(results: Sequence[SharedResult[T]]) -> list[T | BaseException]:
    """Return the result or the error of each, without a coroutine for each of them."""
    for result in results:
        result.enter()
    try:
        pending = {result.future for result in results if not result.future.done()}
        if pending:
            await wait(pending)
    finally:
        for result in results:
            result.leave()
    outcomes: list[T | BaseException] = []
    for result in results:
        if result.future.cancelled():
            raise CancelledError
        problem = result.future.exception()
        outcomes.append(result.future.result() if problem is None else problem)
    return outcomes


class CoalescedCall(SharedResult[T], Generic[P, T]):
    """One call of a batch. The sender of the batch sets its result or its error."""

    def __init__(self, part: P) -> None:
        super().__init__(get_running_loop().create_future())
        self.part = part

    def succeed(self, result: T) -> None:
        """Set the result, unless all waiters were cancelled."""
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, problem: Exception) -> None:
        """Set the error, unless the call has its result or all waiters were cancelled."""
        if not self.future.done():
            self.future.set_exception(problem)


class RequestCoalescer(Generic[P, T]):
    """Collects concurrent calls, and sends them as one batch once `idle_turns` of the event loop have added no call.

    `send` sets the result or error of each call. An error that it raises is the error of all other calls. A cancelled
    caller does not affect the other callers. The batch is cancelled when all of them are cancelled.
    """

    def __init__(
        self, send: Callable[[Sequence[CoalescedCall[P, T]]], Coroutine[Any, Any, None]], idle_turns: int = 1
    ) -> None:
        self._send = send
        self._idle_turns = idle_turns
        self._pending: list[CoalescedCall[P, T]] = []
        self._tasks: set[Task[None]] = set()

    def submit(self, part: P, *, at_once: bool = False) -> CoalescedCall[P, T]:
        """Add a call to the pending batch, or send it at once and alone."""
        call: CoalescedCall[P, T] = CoalescedCall(part)  # A call of the generic alias takes three times as long.
        if at_once:
            self._start([call], 0)
        else:
            if not self._pending:
                self._start(self._pending, self._idle_turns)
            self._pending.append(call)
        return call

    async def close(self) -> None:
        """Cancel all batches, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await gather(*self._tasks, return_exceptions=True)

    def _start(self, calls: list[CoalescedCall[P, T]], idle_turns: int) -> None:
        task = create_task(self._run(calls, idle_turns))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, calls: list[CoalescedCall[P, T]], idle_turns: int) -> None:
        size = idle = 0
        while idle < idle_turns:
            await sleep(0)
            size, idle = len(calls), idle + 1 if len(calls) == size else 0
        if calls is self._pending:
            self._pending = []
        waiting = [call for call in calls if not call.future.done()]
        task, cancelled = current_task(), 0

        def count_cancelled(future: Future[T]) -> None:
            nonlocal cancelled
            cancelled += future.cancelled()
            if task is not None and cancelled == len(waiting):
                task.cancel()

        for call in waiting:
            call.future.add_done_callback(count_cancelled)
        try:
            if waiting:
                await self._send(waiting)
        except Exception as problem:  # noqa: BLE001 - the callers receive it
            for call in waiting:
                call.fail(problem)
        finally:
            for call in waiting:
                call.future.cancel()  # This has an effect only if the batch was cancelled.

"""Coalescing of concurrent calls: batches, results and errors of single calls, and cancellation."""

import asyncio
from collections.abc import Sequence

import pytest

from graphql_api.runtime import CoalescedCall, RequestCoalescer, SharedResult

Call = CoalescedCall[int, int]


class Squares:
    """Computes squares in batches. Odd numbers fail alone, and negative numbers fail the whole batch."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.started = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        self.cancelled = 0
        self.coalescer = RequestCoalescer(self.send)

    async def send(self, calls: Sequence[Call]) -> None:
        """Send one batch, once the service is open."""
        self.batches.append([call.part for call in calls])
        self.started.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        for call in calls:
            if call.part < 0:
                raise ZeroDivisionError
            if call.part % 2:
                call.fail(ValueError(call.part))
            else:
                call.succeed(call.part**2)

    def start(self, *numbers: int) -> list[asyncio.Task[int]]:
        """Start one call per number."""
        return [asyncio.create_task(self.call(number)) for number in numbers]

    async def call(self, number: int) -> int:
        """Return the square of a number."""
        return await self.coalescer.submit(number).wait()


async def test_concurrent_calls_are_one_batch() -> None:
    """Each call of a batch has its own result or error. Later calls are another batch."""
    squares = Squares()
    results = await asyncio.gather(*squares.start(2, 3, 4), return_exceptions=True)
    assert (results[0], results[2]) == (4, 16)
    assert isinstance(results[1], ValueError)
    assert await squares.coalescer.submit(6).wait() == 36
    assert squares.batches == [[2, 3, 4], [6]]


async def test_a_call_can_be_sent_at_once() -> None:
    """A call that is sent at once is alone in its batch."""
    squares = Squares()
    tasks = squares.start(2, 4)
    assert await squares.coalescer.submit(6, at_once=True).wait() == 36
    assert await asyncio.gather(*tasks) == [4, 16]
    assert sorted(squares.batches) == [[2, 4], [6]]


async def test_an_error_of_the_batch_reaches_the_calls_without_result() -> None:
    """If a batch fails, the calls that have no result yet get its error."""
    results = await asyncio.gather(*Squares().start(2, -1, 4), return_exceptions=True)
    assert results[0] == 4
    assert [type(result) for result in results[1:]] == [ZeroDivisionError, ZeroDivisionError]


async def test_a_cancelled_caller_does_not_affect_others() -> None:
    """A batch continues for its other callers, and is cancelled with the last one."""
    squares = Squares()
    squares.open.clear()
    early, first, second = squares.start(8, 2, 4)
    await asyncio.sleep(0)
    early.cancel()
    await squares.started.wait()
    first.cancel()
    await asyncio.wait([early, first])
    squares.open.set()
    assert await second == 16
    squares.open.clear()
    squares.started.clear()
    tasks = squares.start(2, 4)
    await squares.started.wait()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await squares.coalescer.close()
    assert squares.batches == [[2, 4], [2, 4]]
    assert squares.cancelled == 1


async def test_closing_cancels_batches() -> None:
    """Closing a coalescer cancels its batches and their calls."""
    squares = Squares()
    squares.open.clear()
    tasks = squares.start(2, 4)
    await squares.started.wait()
    await squares.coalescer.close()
    assert squares.cancelled == 1
    for task in tasks:
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_shared_result_is_cancelled_with_its_last_waiter() -> None:
    """Work that several callers wait for runs until the last of them is cancelled."""
    open_door = asyncio.Event()
    shared = SharedResult(asyncio.ensure_future(open_door.wait()))
    first, second = (asyncio.ensure_future(shared.wait()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    states = [shared.is_cancelled]
    second.cancel()
    await asyncio.wait([second])
    assert [*states, shared.is_cancelled] == [False, True]
    assert shared.future.cancelled()

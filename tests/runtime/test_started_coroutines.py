"""Coroutines that are begun at once: those that never wait are done, the others are finished in the same task."""

import asyncio

import pytest

from graphql_api.runtime import StartedCoroutine


async def test_work_that_never_waits_is_done() -> None:
    """Work that never waits is done at once, in the task that began it."""

    async def work() -> asyncio.Task[None] | None:
        return asyncio.current_task()

    started = StartedCoroutine(work())
    assert started.is_done
    assert started.result is asyncio.current_task()


async def test_work_that_waits_is_finished() -> None:
    """Work that waits continues after each result, and may catch the errors that it waits for."""
    event, failure = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def work() -> str:
        await event.wait()
        await asyncio.sleep(0)
        try:
            await failure
        except ZeroDivisionError:
            return "caught"
        return "not raised"

    started = StartedCoroutine(work())
    assert not started.is_done
    event.set()
    failure.set_exception(ZeroDivisionError())
    assert await started.finish() == "caught"
    assert started.is_done


async def test_errors_are_raised() -> None:
    """An error is raised where the work is begun, or where it is finished."""

    async def work(waits: bool) -> None:
        if waits:
            await asyncio.sleep(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        StartedCoroutine(work(waits=False))
    started = StartedCoroutine(work(waits=True))
    with pytest.raises(ZeroDivisionError):
        await started.finish()


async def test_a_timeout_that_began_with_the_work_ends_it() -> None:
    """A timeout within the work cancels it, although it was entered before the work waited."""

    async def work() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timeout"
        return "no timeout"

    assert await StartedCoroutine(work()).finish() == "timeout"

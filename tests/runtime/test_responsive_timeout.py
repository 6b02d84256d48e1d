"""Timeouts that do not count the time in which the event loop could not process a response."""

import asyncio

import pytest

from graphql_api.runtime import ResponsiveTimer, responsive_timeout
from tests.support.virtual_time import run_virtually, virtual_cpu_time, work


async def seconds_until_timeout(timer: ResponsiveTimer, seconds: float) -> float:
    """The time after which a block that never ends is cancelled."""
    started = asyncio.get_running_loop().time()
    with pytest.raises(TimeoutError), timer.timeout(seconds):
        await asyncio.Event().wait()
    return asyncio.get_running_loop().time() - started


def test_a_timeout_of_an_idle_process() -> None:
    """Without other work, a timeout is as long as requested, up to two ticks. Timeouts end independently."""

    async def run() -> list[float]:
        timer = ResponsiveTimer()
        return await asyncio.gather(*(seconds_until_timeout(timer, seconds) for seconds in (1.3, 0.3, 0.31)))

    for measured, requested in zip(run_virtually(run()), (1.3, 0.3, 0.31), strict=True):
        assert requested - 0.02 <= measured <= requested + 0.04


def test_time_without_cpu_does_not_count() -> None:
    """If the event loop is blocked for 75 of every 100 milliseconds, a timeout lasts several times as long."""

    async def run() -> float:
        async def disturb() -> None:
            while True:
                await asyncio.sleep(0.025)
                work(0.075)

        disturbing = asyncio.ensure_future(disturb())
        try:
            return await seconds_until_timeout(ResponsiveTimer(), 0.3)
        finally:
            disturbing.cancel()

    assert run_virtually(run()) > 0.6


def test_time_of_own_work_counts_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this process works three quarters of the time, an unresponsive peer is given up, but after a longer time."""
    monkeypatch.setattr(responsive_timeout, "thread_time", virtual_cpu_time)

    async def run() -> float:
        async def compute() -> None:
            while True:
                await asyncio.sleep(0.004)
                work(0.012)

        computing = asyncio.ensure_future(compute())
        try:
            return await seconds_until_timeout(ResponsiveTimer(), 0.3)
        finally:
            computing.cancel()

    assert 0.6 < run_virtually(run()) < 1.6


def test_a_response_that_waits_for_the_event_loop_is_in_time() -> None:
    """A response that arrived in time, while the event loop was busy for longer than the timeout, is processed."""

    async def run() -> str:
        with ResponsiveTimer().timeout(0.3):
            await asyncio.sleep(0.1)
            work(10)
            for _ in range(5):
                await asyncio.sleep(0)
            return "processed"

    assert run_virtually(run()) == "processed"


def test_a_timer_without_timeouts_is_idle() -> None:
    """After the last timeout has ended, nothing is scheduled."""

    async def run() -> int:
        timer = ResponsiveTimer()
        with timer.timeout(10):
            await asyncio.sleep(0.5)
        await asyncio.sleep(0.1)
        return len(asyncio.get_running_loop()._scheduled)  # type: ignore[attr-defined]

    assert run_virtually(run()) == 0


def test_cancellation_is_no_timeout() -> None:
    """A block that is cancelled from outside raises CancelledError."""

    async def run() -> None:
        async def wait() -> None:
            with ResponsiveTimer().timeout(0.5):
                await asyncio.Event().wait()

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtually(run())

"""Retries: the pauses between attempts, the limits of attempts and time, and refused retries."""

from dataclasses import replace

from graphql_api.runtime import RetryStrategy


class FakeTime:
    """A clock that only pauses advance."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Record a pause, and advance the clock."""
        self.pauses.append(seconds)
        self.now += seconds


def strategy_with(time: FakeTime) -> RetryStrategy:
    """A strategy whose pauses have their maximum length."""
    return RetryStrategy(
        max_attempts=5,
        max_seconds=100.0,
        first_backoff_seconds=1.0,
        max_backoff_seconds=3.0,
        uniform=lambda _, longest: longest,
        sleep=time.sleep,
        clock=lambda: time.now,
    )


async def test_pauses_double_up_to_a_maximum() -> None:
    """The upper bound of a pause doubles with every failed attempt. The last attempt has no pause."""
    time = FakeTime()
    retries = strategy_with(time).start()
    assert [await retries.pause() for _ in range(5)] == [True, True, True, True, False]
    assert time.pauses == [1.0, 2.0, 3.0, 3.0]
    retries.failed_attempts = 0
    assert await retries.pause()
    assert time.pauses[-1] == 1.0


async def test_no_attempt_starts_after_the_time_limit() -> None:
    """A pause that would exceed the time limit or the deadline is not made."""
    time = FakeTime()
    strategy = strategy_with(time)
    for retries in (replace(strategy, max_seconds=3.0).start(), strategy.start(deadline=time.now + 4.0)):
        assert await retries.pause()
        assert not await retries.pause()
    assert time.pauses == [1.0, 1.0]


async def test_a_suspended_process_does_not_retry() -> None:
    """If a pause lasts longer than requested, no attempt starts after the time limit."""
    time = FakeTime()

    async def oversleep(seconds: float) -> None:
        await time.sleep(seconds + 1_000)

    assert not await replace(strategy_with(time), sleep=oversleep).start().pause()


async def test_a_retry_can_be_refused() -> None:
    """Permission is requested after the pause, with the deadline, and only if nothing else prevents the retry."""
    time = FakeTime()
    retries = replace(strategy_with(time), max_attempts=2).start()
    deadlines: list[float] = []

    async def refuse(deadline: float) -> bool:
        assert time.pauses
        deadlines.append(deadline)
        return False

    assert not await retries.pause(refuse)
    assert not await retries.pause(refuse)
    assert time.pauses == [1.0]
    assert deadlines == [200.0]


async def test_permission_may_come_too_late() -> None:
    """A retry whose permission arrives after the deadline is not made."""
    time = FakeTime()

    async def permit(_: float) -> bool:
        await time.sleep(1_000)
        return True

    assert not await strategy_with(time).start().pause(permit)

"""Hedged reads: which reads are sent twice, which response counts, and what late responses cost a page."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from graphql_api.runtime import HedgedReads
from graphql_api.runtime.hedged_reads import MIN_SAMPLES
from tests.support.virtual_time import run_virtually

USUAL = 0.01
LATE = 5.0
PERCENTILE, SHARE = 0.97, 0.05


@dataclass
class ScriptedReads:
    """Reads whose durations are given."""

    hedged: HedgedReads = field(default_factory=lambda: HedgedReads(PERCENTILE, SHARE))
    hedges: int = 0
    cancelled: int = 0

    async def respond(self, seconds: float, name: str) -> str:
        """Return the name of a request after a time."""
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return name

    async def read(
        self,
        first: float = USUAL,
        second: float = USUAL,
        *,
        may_hedge: Callable[[], bool] = lambda: True,
    ) -> str:
        """Return which request of a hedged read was answered first."""

        def send_again() -> Coroutine[Any, Any, str]:
            self.hedges += 1
            return self.respond(second, "hedge")

        return await self.hedged.run("Query", lambda: self.respond(first, "first"), send_again, may_hedge)

    async def learn(self) -> None:
        """Make the usual duration known."""
        for number in range(2 * MIN_SAMPLES):
            await self.read(USUAL if number < MIN_SAMPLES else USUAL / 2)
        assert self.hedges == 0


def test_a_late_read_is_sent_again() -> None:
    """The response of the hedge counts, the late request is cancelled, and the read takes twice the usual time."""

    async def run() -> None:
        reads = ScriptedReads()
        await reads.learn()
        started = asyncio.get_running_loop().time()
        assert await reads.read(LATE, 0.9 * USUAL) == "hedge"
        assert asyncio.get_running_loop().time() - started == pytest.approx(1.9 * USUAL)
        assert (reads.hedges, reads.cancelled) == (1, 1)
        assert not asyncio.current_task().cancelling()  # type: ignore[union-attr]

    run_virtually(run())


def test_the_first_request_may_still_win() -> None:
    """If the first response arrives before that of the hedge, it counts, and the hedge is cancelled."""

    async def run() -> None:
        reads = ScriptedReads()
        await reads.learn()
        assert await reads.read(1.5 * USUAL) == "first"
        assert (reads.hedges, reads.cancelled) == (1, 1)

    run_virtually(run())


@dataclass
class Outcome:
    """The outcome of a request after a time."""

    seconds: float
    error: Exception | None = None

    async def __call__(self) -> str:
        await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return "answered"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Outcome(3 * USUAL), Outcome(USUAL, ValueError("hedge"))),
        (Outcome(1.5 * USUAL, KeyError("first")), Outcome(USUAL)),
    ],
    ids=["the hedge fails", "the first request fails"],
)
def test_one_request_fails(first: Outcome, second: Outcome) -> None:
    """If one of both requests fails, the other one is awaited."""

    async def run() -> None:
        reads = ScriptedReads()
        await reads.learn()
        assert await reads.hedged.run("Query", first, second, lambda: True) == "answered"

    run_virtually(run())


@pytest.mark.parametrize("seconds", [0.5 * USUAL, 1.5 * USUAL, 3 * USUAL])
def test_both_requests_fail(seconds: float) -> None:
    """If both requests fail, or the first one before the hedge is sent, the error is that of the first one."""

    async def run() -> None:
        reads = ScriptedReads()
        await reads.learn()
        with pytest.raises(KeyError):
            await reads.hedged.run(
                "Query",
                Outcome(seconds, KeyError("first")),
                Outcome(USUAL, ValueError("hedge")),
                lambda: True,
            )

    run_virtually(run())


def test_a_cancelled_read_ends_all_requests() -> None:
    """A read that is cancelled raises CancelledError, and cancels all of its requests."""

    async def run() -> None:
        reads = ScriptedReads()
        await reads.learn()
        task = asyncio.ensure_future(reads.read(LATE, LATE))
        await asyncio.sleep(1.5 * USUAL)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (reads.hedges, reads.cancelled) == (1, 2)

    run_virtually(run())


def test_a_timeout_of_a_hedged_read() -> None:
    """A timeout around a hedged read is a timeout, not a cancellation. A late hedge is followed by a second one."""

    async def run() -> None:
        reads = ScriptedReads()
        await reads.learn()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await reads.read(LATE, LATE)
        assert (reads.hedges, reads.cancelled) == (2, 3)

    run_virtually(run())


def test_hedges_need_experience_and_permission() -> None:
    """No hedge is sent before enough durations are known, without permission, or with a share of 0."""

    async def run() -> None:
        new, experienced, off = ScriptedReads(), ScriptedReads(), ScriptedReads(HedgedReads(PERCENTILE, 0.0))
        await experienced.learn()
        await off.learn()
        assert await new.read(LATE) == "first"
        assert await experienced.read(LATE, may_hedge=lambda: False) == "first"
        assert await off.read(LATE) == "first"
        assert new.hedges + experienced.hedges + off.hedges == 0

    run_virtually(run())


def test_reads_that_are_late_together_are_not_hedged() -> None:
    """If most reads of an operation are late, the cause is common to them: only the first and the last are hedged."""

    async def run() -> None:
        reads = ScriptedReads()
        await reads.learn()
        with reads.hedged.operation(100):
            durations = [1.5 * USUAL] * 90 + [LATE] * 2
            winners = await asyncio.gather(*(reads.read(seconds, 0.9 * USUAL) for seconds in durations))
        assert winners == ["first"] * 90 + ["hedge"] * 2
        assert 2 <= reads.hedges <= 7

    run_virtually(run())


def test_hedges_have_a_budget() -> None:
    """If half of all reads are late, hedges are still no more than 5 % of the reads."""

    async def run() -> None:
        reads = ScriptedReads(HedgedReads(0.4, SHARE))
        for number in range(2_000):
            await reads.read(LATE if number % 2 else USUAL, LATE)
        assert 0.04 * 2_000 < reads.hedges <= SHARE * 2_000

    run_virtually(run())


@pytest.mark.parametrize(("shards", "percentile"), [(16, 0.95), (150, 0.90)])
def test_late_reads_barely_delay_pages(shards: int, percentile: float) -> None:
    """If 2 % of reads are five seconds late, nearly all pages take at most twice as long as without late reads.

    Pages over 16 shards are compared at the 95th percentile, pages over 150 shards at the 90th.
    """

    async def page_seconds(late_share: float, hedge_share: float) -> tuple[float, float]:
        """The percentile of page durations, and the hedges per read."""
        random = Random(7)
        reads = ScriptedReads(HedgedReads(PERCENTILE, hedge_share))

        def duration() -> float:
            return LATE if random.random() < late_share else USUAL * random.lognormvariate(0, 0.5)

        durations = []
        now = asyncio.get_running_loop().time
        pages = 9_000 // shards
        for _ in range(pages):
            started = now()
            await asyncio.gather(*(reads.read(duration(), duration()) for _ in range(shards)))
            durations.append(now() - started)
        measured = sorted(durations[pages // 10 :])
        return measured[int(percentile * len(measured))], reads.hedges / (pages * shards)

    clean, clean_hedges = run_virtually(page_seconds(0.0, SHARE))
    unhedged, _ = run_virtually(page_seconds(0.02, 0.0))
    hedged, hedges = run_virtually(page_seconds(0.02, SHARE))
    assert unhedged == LATE
    assert hedged <= 2 * clean
    assert max(clean_hedges, hedges) <= SHARE

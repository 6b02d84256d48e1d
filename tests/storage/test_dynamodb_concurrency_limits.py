"""Concurrency limits, and circuit breakers of shards."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from graphql_api.errors import StoreRefused, StoreUnavailable
from graphql_api.storage.engines.dynamodb.concurrency_limits import MAX_TRACKED_SHARDS, ConcurrencyLimiter
from graphql_api.storage.engines.dynamodb.dynamodb_settings import DEFAULTS, DynamoSettings
from tests.support.fake_clock import FakeClock

# --- slots -----------------------------------------------------------------------------------------------------


async def max_concurrent_slots(limiter: ConcurrencyLimiter, requests: Sequence[tuple[str, str | None]]) -> int:
    """Return how many requests hold a slot at the same time, if each holds it briefly."""
    holding = peak = 0

    async def hold(operation: str, shard: str | None) -> None:
        nonlocal holding, peak
        async with limiter.slot(operation, shard):
            holding += 1
            peak = max(peak, holding)
            await asyncio.sleep(0.001)
            holding -= 1

    await asyncio.gather(*(hold(*one) for one in requests))
    return peak


async def test_slots_are_limited() -> None:
    """Slots are limited in total, per operation, and per shard."""
    settings = replace(DEFAULTS, in_flight=20, in_flight_of_operation=10, in_flight_of_shard=4)
    limiter = ConcurrencyLimiter(settings, FakeClock())
    queries = [("Query", f"shard {number}") for number in range(50)]
    gets: list[tuple[str, str | None]] = [("BatchGetItem", None)] * 50
    scans: list[tuple[str, str | None]] = [("Scan", None)] * 50
    assert await max_concurrent_slots(limiter, [("Query", "one shard")] * 50) == 4
    assert await max_concurrent_slots(limiter, queries) == 10
    assert await max_concurrent_slots(limiter, [*queries, *gets, *scans]) == 20


async def test_an_unresponsive_shard_leaves_slots_for_others() -> None:
    """Any number of requests that wait for one shard hold no more slots than the limit of the shard."""
    settings = replace(DEFAULTS, in_flight=20, in_flight_of_operation=10, in_flight_of_shard=4)
    limiter = ConcurrencyLimiter(settings, FakeClock())

    async def wait_forever() -> None:
        async with limiter.slot("Query", "unresponsive"):
            await asyncio.Event().wait()

    waiting_tasks = [asyncio.ensure_future(wait_forever()) for _ in range(100)]
    await asyncio.sleep(0)
    others = [("Query", f"shard {number}") for number in range(50)]
    assert await asyncio.wait_for(max_concurrent_slots(limiter, others), 5) == 6
    for task in waiting_tasks:
        task.cancel()
    await asyncio.gather(*waiting_tasks, return_exceptions=True)
    assert await max_concurrent_slots(limiter, [("Query", "unresponsive")] * 9) == 4


def test_invalid_limits() -> None:
    """Settings with more slots than connections, or without a deadline, are rejected."""
    with pytest.raises(StoreRefused, match="pool"):
        DynamoSettings(pool=100)
    with pytest.raises(StoreRefused, match="deadline"):
        DynamoSettings(deadline=0)


# --- breakers --------------------------------------------------------------------------------------------------


async def send_request(limiter: ConcurrencyLimiter, shard: str, *, succeeded: bool) -> None:
    """Send one request to a shard and record its outcome."""
    async with limiter.slot("Query", shard):
        pass
    (limiter.record_success if succeeded else limiter.record_failure)(shard)


async def test_circuit_breaker() -> None:
    """After five failures in a row, the circuit breaker of a shard opens for a second. Then one request probes it."""
    clock = FakeClock()
    limiter = ConcurrencyLimiter(DEFAULTS, clock)
    for _ in range(4):
        await send_request(limiter, "a", succeeded=False)
        clock.now += 0.25
    await send_request(limiter, "a", succeeded=True)
    for _ in range(5):
        await send_request(limiter, "a", succeeded=False)
        clock.now += 0.25
    with pytest.raises(StoreUnavailable, match="circuit breaker is open"):
        await send_request(limiter, "a", succeeded=True)
    await send_request(limiter, "b", succeeded=True)
    clock.now += 1
    async with limiter.slot("Query", "a"):
        with pytest.raises(StoreUnavailable):
            await send_request(limiter, "a", succeeded=True)
    limiter.record_failure("a")
    with pytest.raises(StoreUnavailable):
        await send_request(limiter, "a", succeeded=True)
    clock.now += 1
    await send_request(limiter, "a", succeeded=True)
    await send_request(limiter, "a", succeeded=True)


async def test_a_burst_of_failures_does_not_open_the_breaker() -> None:
    """Any number of failures within the time of one attempt leaves the breaker closed. A later failure opens it."""
    clock = FakeClock()
    limiter = ConcurrencyLimiter(DEFAULTS, clock)
    for _ in range(20):
        await send_request(limiter, "a", succeeded=False)
        clock.now += 0.04
    await send_request(limiter, "a", succeeded=True)
    for _ in range(20):
        await send_request(limiter, "a", succeeded=False)
        clock.now += 0.04
    clock.now += 0.3
    await send_request(limiter, "a", succeeded=False)
    with pytest.raises(StoreUnavailable):
        await send_request(limiter, "a", succeeded=True)


async def test_only_failing_shards_are_tracked() -> None:
    """Healthy shards use no memory, and the number of tracked failing shards is limited."""
    limiter = ConcurrencyLimiter(DEFAULTS, FakeClock())
    for number in range(100):
        await send_request(limiter, f"shard {number}", succeeded=True)
    assert len(limiter._shards) == 0
    for number in range(MAX_TRACKED_SHARDS + 100):
        await send_request(limiter, f"shard {number}", succeeded=False)
    assert len(limiter._shards) == MAX_TRACKED_SHARDS

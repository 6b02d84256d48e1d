"""How much may be on its way at once, how often a process may try again, and when a shard is left alone."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from graphql_api.errors import StoreRefused, StoreUnavailable
from graphql_api.storage.engines.dynamodb.concurrency_limits import MAX_TRACKED_SHARDS, RetryBudget, ConcurrencyLimiter
from graphql_api.storage.engines.dynamodb.dynamodb_settings import DEFAULTS, DynamoSettings
from tests.clocks import Clock


def test_a_fresh_budget_has_its_floor() -> None:
    """A process that has asked nothing yet may try again ten times."""
    budget = RetryBudget(0.1, 10, Clock())
    assert [budget.withdraw() for _ in range(11)] == [True] * 10 + [False]


def test_the_budget_is_a_share_of_requests() -> None:
    """Beyond the floor, ten requests allow one retry."""
    budget = RetryBudget(0.1, 10, Clock())
    for _ in range(10):
        budget.withdraw()
    for _ in range(101):
        budget.deposit()
    assert sum(budget.withdraw() for _ in range(50)) == 10


def test_the_budget_fills_up_to_its_floor() -> None:
    """Each second allows ten retries more, and never more than ten at once without requests."""
    clock = Clock()
    budget = RetryBudget(0.1, 10, clock)
    for _ in range(10):
        budget.withdraw()
    clock.now += 0.35
    assert sum(budget.withdraw() for _ in range(10)) == 3
    clock.now += 60
    assert sum(budget.withdraw() for _ in range(50)) == 10


def test_requests_save_up_only_so_much() -> None:
    """A million requests without trouble do not allow a storm of retries."""
    budget = RetryBudget(0.1, 10, Clock())
    for _ in range(1_000_000):
        budget.deposit()
    assert sum(budget.withdraw() for _ in range(1_000)) == 100


# --- places ----------------------------------------------------------------------------------------------------


async def most_at_once(traffic: ConcurrencyLimiter, asked: Sequence[tuple[str, str | None]]) -> int:
    """How many requests hold places at the same time, if each holds its place for a moment."""
    holding = most = 0

    async def hold(operation: str, shard: str | None) -> None:
        nonlocal holding, most
        async with traffic.slot(operation, shard):
            holding += 1
            most = max(most, holding)
            await asyncio.sleep(0.001)
            holding -= 1

    await asyncio.gather(*(hold(*one) for one in asked))
    return most


async def test_places() -> None:
    """There are so many places for all, fewer for one operation, fewer for one shard."""
    settings = replace(DEFAULTS, in_flight=20, in_flight_of_operation=10, in_flight_of_shard=4)
    traffic = ConcurrencyLimiter(settings, Clock())
    queries = [("Query", f"shard {number}") for number in range(50)]
    gets: list[tuple[str, str | None]] = [("BatchGetItem", None)] * 50
    scans: list[tuple[str, str | None]] = [("Scan", None)] * 50
    assert await most_at_once(traffic, [("Query", "one shard")] * 50) == 4
    assert await most_at_once(traffic, queries) == 10
    assert await most_at_once(traffic, [*queries, *gets, *scans]) == 20


async def test_a_silent_shard_leaves_room() -> None:
    """However many requests wait for one shard, they hold no more places than the shard has."""
    settings = replace(DEFAULTS, in_flight=20, in_flight_of_operation=10, in_flight_of_shard=4)
    traffic = ConcurrencyLimiter(settings, Clock())

    async def wait_for_ever() -> None:
        async with traffic.slot("Query", "silent"):
            await asyncio.Event().wait()

    waiting = [asyncio.ensure_future(wait_for_ever()) for _ in range(100)]
    await asyncio.sleep(0)
    others = [("Query", f"shard {number}") for number in range(50)]
    assert await asyncio.wait_for(most_at_once(traffic, others), 5) == 6
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert await most_at_once(traffic, [("Query", "silent")] * 9) == 4


def test_more_places_than_connections() -> None:
    """Settings that would let requests wait for a connection, where no deadline sees them, are refused."""
    with pytest.raises(StoreRefused, match="pool"):
        DynamoSettings(pool=100)
    with pytest.raises(StoreRefused, match="deadline"):
        DynamoSettings(deadline=0)


# --- breakers --------------------------------------------------------------------------------------------------


async def ask(traffic: ConcurrencyLimiter, shard: str, *, answered: bool) -> None:
    """One request to a shard."""
    async with traffic.slot("Query", shard):
        pass
    (traffic.record_success if answered else traffic.record_failure)(shard)


async def test_breaker() -> None:
    """A shard that leaves five requests in a row unanswered is left alone for a second; then one request tries it."""
    clock = Clock()
    traffic = ConcurrencyLimiter(DEFAULTS, clock)
    for _ in range(4):
        await ask(traffic, "a", answered=False)
    await ask(traffic, "a", answered=True)
    for _ in range(5):
        await ask(traffic, "a", answered=False)
    with pytest.raises(StoreUnavailable, match="circuit breaker is open"):
        await ask(traffic, "a", answered=True)
    await ask(traffic, "b", answered=True)
    clock.now += 1
    async with traffic.slot("Query", "a"):
        with pytest.raises(StoreUnavailable):
            await ask(traffic, "a", answered=True)
    traffic.record_failure("a")
    with pytest.raises(StoreUnavailable):
        await ask(traffic, "a", answered=True)
    clock.now += 1
    await ask(traffic, "a", answered=True)
    await ask(traffic, "a", answered=True)


async def test_only_shards_out_of_order_are_remembered() -> None:
    """Shards that are well take no memory, and of the others only so many do."""
    traffic = ConcurrencyLimiter(DEFAULTS, Clock())
    for number in range(100):
        await ask(traffic, f"shard {number}", answered=True)
    assert len(traffic._shards) == 0
    for number in range(MAX_TRACKED_SHARDS + 100):
        await ask(traffic, f"shard {number}", answered=False)
    assert len(traffic._shards) == MAX_TRACKED_SHARDS

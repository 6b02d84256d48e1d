"""Many searches at once, and searches that are given up: what one costs the others."""

import asyncio
import tracemalloc
from dataclasses import replace
from random import Random

import pytest

from graphql_api.errors import StoreError, Throttled
from tests.depth import depth
from tests.faults.conftest import Behind
from tests.faults.faults import SERVER_ERROR, THROTTLE, BlackHole, Delay, Fault, Reset
from tests.faults.proxy import no_fault
from tests.faults.rules import always, now_and_then, of_shard, only_first
from tests.faults.timing import best_of
from tests.faults.troubles import CALM, HASTY
from tests.faults.world import SHARDS, WIDE, Thing, Walk, Wide, database, records, shard_of, wide_answer
from tests.stores import CountingStore

SILENT_SHARD = "07"
MAX_OCTETS_A_SEARCH = 4 * 2**20
"""of a search over 150 shards, with the proxy's part"""


@pytest.mark.parametrize("fault", [THROTTLE, Reset()], ids=["throttles", "resets"])
async def test_a_few_faults_cost_a_few_calls(behind: Behind, fault: Fault) -> None:
    """At 2 % over 16 shards nobody sees an error, and there are at most 1.1 times the calls that were needed."""
    store = CountingStore(await behind.store(CALM))
    db = database(store)
    behind.proxy.forget()
    behind.proxy.rule = now_and_then(0.02, Random(2), fault)
    for _ in range(depth(5, 80)):
        walk = Walk(db, Thing.by_place)
        await walk.on(12)
        assert walk.errors == []
        walk.check()
    needed = store.counts.reads
    assert needed > depth(1_000, 10_000)
    assert len(behind.proxy.spoiled) > 0.01 * needed
    assert len(behind.proxy.requests) <= 1.1 * needed


async def test_a_store_that_throttles_everything_is_not_flooded_with_retries(behind: Behind) -> None:
    """Over all searches there are no more retries than the budget allows, however many calls fail."""
    db = await behind.database(CALM)
    now = asyncio.get_running_loop().time
    began = now()
    behind.proxy.rule = always(THROTTLE)
    for _ in range(20):
        with pytest.raises(Throttled):
            await db.search(Thing.by_place, limit=20)
    calls = 20 * SHARDS
    allowed = CALM.retry_floor * (1 + now() - began) + CALM.retry_share * calls
    assert calls < len(behind.proxy.requests) <= calls + allowed + 1


@pytest.mark.parametrize("fault", [Reset(), THROTTLE, SERVER_ERROR], ids=["reset", "throttle", "server error"])
async def test_a_fresh_store_survives_a_fault_on_its_first_call(behind: Behind, fault: Fault) -> None:
    """A budget that nothing has been paid into yet still allows a retry; the call is for the table's definition."""
    behind.proxy.rule = only_first(fault, lambda _: True)
    db = await behind.database(CALM)
    found = await db.get(Thing, "k1")
    assert found == records()[1]
    operations = [request.operation for request in behind.proxy.requests]
    assert operations == ["DescribeTable", "DescribeTable", "BatchGetItem"]


async def test_one_silent_shard_costs_other_searches_nothing(behind: Behind) -> None:
    """While searches over all shards hang on one of them, those that need only others get no error and no call more."""
    proxy = behind.proxy
    store = await behind.store(HASTY)
    hanging = database(store)
    counted = CountingStore(store)
    db = database(counted)
    proxy.rule = always(BlackHole(), of_shard(SILENT_SHARD))
    others = [thing for thing in records() if shard_of(thing) != SILENT_SHARD]
    errors: list[StoreError] = []

    async def hang() -> None:
        while True:
            try:
                await hanging.search(Thing.by_place, limit=20)
            except StoreError as problem:
                errors.append(problem)
            await asyncio.sleep(0.02)

    crowd = [asyncio.ensure_future(hang()) for _ in range(3)]
    try:
        await proxy.until(lambda: any(SILENT_SHARD in request.shards for request in proxy.in_flight))
        rounds = 0
        while rounds < depth(2, 20) or not errors:
            rounds += 1
            for thing in others:
                page = await db.search(Thing.by_id, eq=thing.key)
                assert [*page.items] == [thing]
    finally:
        for task in crowd:
            task.cancel()
        ended = await asyncio.gather(*crowd, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ended)
    assert errors
    # Whoever waits for half a second may find another shard of a busy machine too late.
    assert any(SILENT_SHARD in str(problem.shard) for problem in errors)
    calls = [request for request in proxy.requests if request.index is None and request.operation == "Query"]
    assert counted.counts.reads >= len(others)
    assert len(calls) <= 1.2 * counted.counts.reads


async def test_one_silent_shard_is_asked_less_and_less(behind: Behind) -> None:
    """The other shards go on under PARTIAL, and after a few attempts the silent one is left alone for a while."""
    settings = replace(HASTY, breaker_seconds=60.0)
    proxy = behind.proxy
    db = await behind.database(settings)
    proxy.rule = always(BlackHole(), of_shard(SILENT_SHARD))
    for _ in range(3):
        for _ in range(10):
            page = await db.search(Thing.by_place, limit=20, on_shard_failure="PARTIAL")
            assert len(page.items) == 20
            assert [failed.shard for failed in page.shards.failed] == [f"thing!{SILENT_SHARD}"]
    assert len(proxy.spoiled) <= settings.breaker_failures + settings.attempts


async def test_a_cancelled_search_leaves_nothing_in_flight(behind: Behind) -> None:
    """Every call is dropped within 200 ms, none is made after, and the store answers the next search."""
    proxy = behind.proxy
    db = await behind.database(CALM)
    for fault in (BlackHole(), Delay(60)):

        async def seconds_until_quiet(fault: Fault = fault) -> float:
            proxy.rule = always(fault)
            search = asyncio.ensure_future(db.search(Thing.by_place, limit=20))
            await proxy.until(lambda: len(proxy.in_flight) == SHARDS)
            asked = len(proxy.requests)
            began = asyncio.get_running_loop().time()
            search.cancel()
            await proxy.until(lambda: not proxy.in_flight)
            took = asyncio.get_running_loop().time() - began
            with pytest.raises(asyncio.CancelledError):
                await search
            await asyncio.sleep(0.2)
            assert len(proxy.requests) == asked
            return took

        assert await best_of(5, seconds_until_quiet, enough=0.2) <= 0.2
        proxy.rule = no_fault
        walk = Walk(db, Thing.by_place)
        await walk.on()
        walk.check()


async def test_a_search_that_is_cancelled_between_attempts_makes_no_more(behind: Behind) -> None:
    """Nobody goes on retrying for a caller who has left."""
    proxy = behind.proxy
    db = await behind.database(replace(CALM, backoff_base=0.3, backoff_cap=0.3))
    proxy.rule = always(Reset())
    search = asyncio.ensure_future(db.search(Thing.by_place, limit=20))
    await proxy.until(lambda: len(proxy.requests) >= SHARDS and not proxy.in_flight)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    asked = len(proxy.requests)
    await asyncio.sleep(0.4)
    assert len(proxy.requests) == asked
    assert not proxy.in_flight


async def test_many_wide_searches_at_once_stay_within_the_pool(behind: Behind) -> None:
    """Searches over 150 shards each wait for their turn in our own line, never for a connection, and none fails."""
    settings = replace(CALM, deadline=300.0, read_seconds=30.0, pool=80, in_flight=70, in_flight_of_operation=60)
    db = await behind.database(settings)
    proxy = behind.proxy
    proxy.rule = always(Delay(0.005))
    expected = wide_answer()[:20]

    async def search() -> None:
        page = await db.search(Wide.by_place, limit=20)
        assert [*page.items] == expected

    await asyncio.gather(*(search() for _ in range(2)))
    proxy.forget()
    traced, crowd = depth(5, 50), depth(20, 50)
    tracemalloc.start()
    await asyncio.gather(*(search() for _ in range(traced)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    await asyncio.gather(*(search() for _ in range(crowd)))
    assert len(proxy.requests) >= WIDE * (traced + crowd)
    assert settings.in_flight_of_operation / 2 < proxy.most_in_flight <= settings.in_flight_of_operation
    assert proxy.most_connections <= settings.pool
    assert peak < traced * MAX_OCTETS_A_SEARCH

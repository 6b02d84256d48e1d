"""Concurrent and cancelled searches during faults: they do not slow down other searches."""

import asyncio
import tracemalloc
from dataclasses import replace
from random import Random

import pytest

from graphql_api.errors import StoreError
from tests.faults.conftest import ProxiedStores
from tests.faults.fault_proxy import no_fault
from tests.faults.fault_rules import always, first_request, random_faults, reads_shard
from tests.faults.fault_settings import LONG_TIMEOUTS, SHORT_TIMEOUTS, more_patient
from tests.faults.fault_types import SERVER_ERROR, THROTTLE, BlackHole, Delay, Fault, Reset
from tests.faults.proxied_catalog import (
    SHARDS,
    WIDE,
    Thing,
    Traversal,
    Wide,
    database,
    records,
    shard_of,
    sorted_wide_records,
)
from tests.faults.time_bounds import best_of
from tests.support.run_depth import depth
from tests.support.store_doubles import CountingStore

UNRESPONSIVE_SHARD = "07"
MAX_BYTES_PER_SEARCH = 4 * 2**20
"""of a search over 150 shards, including the proxy"""


@pytest.mark.parametrize("fault", [THROTTLE, Reset()], ids=["throttles", "resets"])
async def test_rare_faults_cost_few_calls(proxied: ProxiedStores, fault: Fault) -> None:
    """With 2 % faults over 16 shards, no search fails, and at most 10 % of the calls are retries."""
    store = CountingStore(await proxied.open_store(LONG_TIMEOUTS))
    db = database(store)
    proxied.proxy.reset_counts()
    proxied.proxy.rule = random_faults(0.02, Random(2), fault)
    for _ in range(depth(5, 80)):
        traversal = Traversal(db, Thing.by_place)
        await traversal.read_rest(12)
        assert traversal.errors == []
        traversal.verify()
    needed = store.counts.reads
    assert needed > depth(1_000, 10_000)
    assert len(proxied.proxy.faulted) > 0.01 * needed
    assert len(proxied.proxy.requests) <= 1.1 * needed


async def test_retries_stay_within_the_retry_budget(proxied: ProxiedStores) -> None:
    """If every call is throttled, concurrent searches together make no more retries than the retry budget allows."""
    settings = replace(LONG_TIMEOUTS, deadline=4.0, retry_floor=10.0)
    db = await proxied.open_database(settings)
    await db.get(Thing, "k1")
    proxied.proxy.reset_counts()
    now = asyncio.get_running_loop().time
    started = now()
    proxied.proxy.rule = always(THROTTLE)

    async def search() -> None:
        with pytest.raises(StoreError):
            await db.search(Thing.by_place, limit=20)

    await asyncio.gather(*(search() for _ in range(20)))
    calls = 20 * SHARDS
    allowed = SHARDS * (1 + now() - started) + settings.retry_share * calls
    assert SHARDS < len(proxied.proxy.requests) <= calls + allowed + 1


@pytest.mark.parametrize("fault", [Reset(), THROTTLE, SERVER_ERROR], ids=["reset", "throttle", "server error"])
async def test_a_new_store_retries_its_first_call(proxied: ProxiedStores, fault: Fault) -> None:
    """A new retry budget allows a retry of the first call, which describes the table."""
    proxied.proxy.rule = first_request(fault, lambda _: True)
    db = await proxied.open_database(LONG_TIMEOUTS)
    found = await db.get(Thing, "k1")
    assert found == records()[1]
    operations = [request.operation for request in proxied.proxy.requests]
    assert operations == ["DescribeTable", "DescribeTable", "BatchGetItem"]


async def test_an_unresponsive_shard_does_not_affect_other_searches(proxied: ProxiedStores) -> None:
    """While one shard does not respond, searches of other shards have no errors and few extra calls."""
    proxy = proxied.proxy
    store = await proxied.open_store(more_patient(SHORT_TIMEOUTS))
    hanging_db = database(store)
    counting_store = CountingStore(store)
    db = database(counting_store)
    proxy.rule = always(BlackHole(), reads_shard(UNRESPONSIVE_SHARD))
    other_things = [thing for thing in records() if shard_of(thing) != UNRESPONSIVE_SHARD]
    errors: list[StoreError] = []

    async def hang() -> None:
        while True:
            try:
                await hanging_db.search(Thing.by_place, limit=20)
            except StoreError as error:
                errors.append(error)
            await asyncio.sleep(0.02)

    hanging_searches = [asyncio.ensure_future(hang()) for _ in range(3)]
    try:
        await proxy.wait_until(lambda: any(UNRESPONSIVE_SHARD in request.shards for request in proxy.in_flight))
        rounds = 0
        while rounds < depth(2, 20) or not errors:
            rounds += 1
            for thing in other_things:
                page = await db.search(Thing.by_id, eq=thing.key)
                assert [*page.items] == [thing]
    finally:
        for task in hanging_searches:
            task.cancel()
        ended = await asyncio.gather(*hanging_searches, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ended)
    assert errors
    # On a busy machine, another shard may exceed the timeout too.
    assert any(UNRESPONSIVE_SHARD in str(error.shard) for error in errors)
    calls = [request for request in proxy.requests if request.index is None and request.operation == "Query"]
    assert counting_store.counts.reads >= len(other_things)
    assert len(calls) <= 1.2 * counting_store.counts.reads


async def test_the_circuit_breaker_stops_calls_to_an_unresponsive_shard(proxied: ProxiedStores) -> None:
    """Under PARTIAL, other shards fill the pages, and calls to the unresponsive shard stop after a few attempts."""
    settings = more_patient(replace(SHORT_TIMEOUTS, breaker_seconds=60.0))
    proxy = proxied.proxy
    db = await proxied.open_database(settings)
    proxy.rule = always(BlackHole(), reads_shard(UNRESPONSIVE_SHARD))
    for _ in range(3):
        for _ in range(10):
            page = await db.search(Thing.by_place, limit=20, on_shard_failure="PARTIAL")
            assert len(page.items) == 20
            assert [failed.shard for failed in page.shards.failed] == [f"thing!{UNRESPONSIVE_SHARD}"]
    assert len(proxy.faulted) <= settings.breaker_failures + settings.attempts


async def test_a_cancelled_search_ends_its_calls(proxied: ProxiedStores) -> None:
    """A cancelled search ends its calls within 200 ms and makes no more. The store still serves the next search."""
    proxy = proxied.proxy
    db = await proxied.open_database(LONG_TIMEOUTS)
    for fault in (BlackHole(), Delay(60)):

        async def seconds_until_quiet(fault: Fault = fault) -> float:
            proxy.rule = always(fault)
            search = asyncio.ensure_future(db.search(Thing.by_place, limit=20))
            await proxy.wait_until(lambda: len(proxy.in_flight) == SHARDS)
            calls_before = len(proxy.requests)
            started = asyncio.get_running_loop().time()
            search.cancel()
            await proxy.wait_until(lambda: not proxy.in_flight)
            seconds = asyncio.get_running_loop().time() - started
            with pytest.raises(asyncio.CancelledError):
                await search
            await asyncio.sleep(0.2)
            assert len(proxy.requests) == calls_before
            return seconds

        assert await best_of(5, seconds_until_quiet, enough=0.2) <= 0.2
        proxy.rule = no_fault
        traversal = Traversal(db, Thing.by_place)
        await traversal.read_rest()
        traversal.verify()


async def test_a_search_cancelled_during_backoff_makes_no_more_calls(proxied: ProxiedStores) -> None:
    """A search that is cancelled between two attempts makes no further attempt."""
    proxy = proxied.proxy
    db = await proxied.open_database(replace(LONG_TIMEOUTS, backoff_base=0.3, backoff_cap=0.3))
    proxy.rule = always(Reset())
    search = asyncio.ensure_future(db.search(Thing.by_place, limit=20))
    await proxy.wait_until(lambda: len(proxy.requests) >= SHARDS and not proxy.in_flight)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    calls_before = len(proxy.requests)
    await asyncio.sleep(0.4)
    assert len(proxy.requests) == calls_before
    assert not proxy.in_flight


async def test_concurrent_wide_searches_stay_within_the_connection_pool(proxied: ProxiedStores) -> None:
    """Concurrent searches over 150 shards wait for the semaphore, never for a connection, and none fails."""
    settings = replace(
        LONG_TIMEOUTS, deadline=300.0, read_seconds=30.0, pool=80, in_flight=70, in_flight_of_operation=60
    )
    db = await proxied.open_database(settings)
    proxy = proxied.proxy
    proxy.rule = always(Delay(0.005))
    expected = sorted_wide_records()[:20]

    async def search() -> None:
        page = await db.search(Wide.by_place, limit=20)
        assert [*page.items] == expected

    await asyncio.gather(*(search() for _ in range(2)))
    proxy.reset_counts()
    traced, untraced = depth(5, 50), depth(20, 50)
    tracemalloc.start()
    await asyncio.gather(*(search() for _ in range(traced)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    await asyncio.gather(*(search() for _ in range(untraced)))
    assert len(proxy.requests) >= WIDE * (traced + untraced)
    assert settings.in_flight_of_operation / 2 < proxy.peak_in_flight <= settings.in_flight_of_operation
    assert proxy.peak_connections <= settings.pool
    assert peak < traced * MAX_BYTES_PER_SEARCH

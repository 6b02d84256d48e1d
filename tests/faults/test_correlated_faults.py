"""Faults that many shards have at the same time: pages succeed, and few requests are added."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import pytest

from graphql_api.database import Database
from graphql_api.errors import StoreError
from graphql_api.model.markers import IndexRef
from graphql_api.runtime import collect_statistics
from graphql_api.storage.engines.dynamodb import DynamoSettings
from tests.faults.conftest import ProxiedStores
from tests.faults.fault_rules import first_attempts, random_faults
from tests.faults.fault_types import SERVER_ERROR, THROTTLE, Exchange, Fault, Reset
from tests.faults.proxied_catalog import SHARDS, WIDE, Thing, Wide, database, expected_things, sorted_wide_records
from tests.support.run_depth import depth, is_deep
from tests.support.store_doubles import CountingStore

DEFAULTS_WITH_TIME = replace(
    DynamoSettings(), deadline=60.0, connect_seconds=10.0, read_seconds=20.0, breaker_seconds=0.1
)
"""the default limits of retries, with enough time for a busy machine"""

SAVED_HEDGES = 20
"""hedged reads that the budget has saved, in addition to its share of the reads"""


@dataclass(frozen=True)
class WideSearch:
    """A search over many shards, and its first page."""

    index: IndexRef
    shards: int
    expected: Callable[[], object]

    async def verify(self, db: Database) -> None:
        """Read the first page, and compare it."""
        page = await db.search(self.index, limit=20)
        assert [*page.items] == self.expected()
        assert page.complete


SEARCHES = [
    WideSearch(Thing.by_place, SHARDS, lambda: expected_things(Thing.by_place)[:20]),
    WideSearch(Wide.by_place, WIDE, lambda: sorted_wide_records()[:20]),
]
over_all_widths = pytest.mark.parametrize("search", SEARCHES, ids=[f"{search.shards} shards" for search in SEARCHES])


@over_all_widths
@pytest.mark.parametrize("fault", [THROTTLE, SERVER_ERROR, Reset()], ids=["throttle", "500", "reset"])
async def test_every_shard_fails_once(proxied: ProxiedStores, search: WideSearch, fault: Fault) -> None:
    """A page whose shards all fail once succeeds, for the first page of a new store as for later ones.

    A deep run has the default deadline.
    """
    db = await proxied.open_database(DynamoSettings() if is_deep() else DEFAULTS_WITH_TIME)
    for _ in range(depth(3, 30)):
        proxied.proxy.reset_counts()
        proxied.proxy.rule = first_attempts(fault)
        await search.verify(db)
        assert len(proxied.proxy.faulted) >= search.shards


@over_all_widths
@pytest.mark.parametrize(
    ("share", "factor"),
    [pytest.param(0.3, 1.5, id="30 %"), pytest.param(0.02, 1.1, id="2 %", marks=pytest.mark.deep)],
)
async def test_random_resets(
    proxied: ProxiedStores, search: WideSearch, share: float, factor: float, random: Random
) -> None:
    """At 30 % resets, 99 % of the pages succeed with at most 1.5 times the needed requests; at 2 % with 1.1 times.

    The share of resets that were drawn differs from run to run. The limit therefore counts the requests that were
    not reset: 1.5 times the needed requests, 30 % of them reset, are 1.05 times the needed ones.
    """
    counting_store = CountingStore(await proxied.open_store(DEFAULTS_WITH_TIME))
    db = database(counting_store)
    await search.verify(db)
    proxied.proxy.reset_counts()
    read_before = counting_store.counts.reads
    proxied.proxy.rule = random_faults(share, random, Reset())
    pages, failed, hedges = depth(1_200, 80_000) // search.shards, 0, 0
    for _ in range(pages):
        with collect_statistics() as statistics:
            try:
                await search.verify(db)
            except StoreError:
                failed += 1
        hedges += statistics.hedges
    assert failed <= 0.01 * pages
    needed, faulted = counting_store.counts.reads - read_before, len(proxied.proxy.faulted)
    assert faulted > 0.5 * share * needed
    not_faulted = len(proxied.proxy.requests) - faulted
    assert not_faulted <= needed + hedges
    assert not_faulted <= (1 - share) * factor * needed + SAVED_HEDGES


@dataclass
class LateReply:
    """A response that is five seconds late. Counts the responses for which the client has waited so long."""

    awaited: int = 0

    async def apply(self, exchange: Exchange) -> None:
        """Send the response, unless the client disconnects before."""
        await asyncio.sleep(5)
        self.awaited += 1
        await exchange.send_response(await exchange.forward())


@pytest.mark.parametrize(
    ("search", "waiting_share"), [(SEARCHES[0], 0.05), (SEARCHES[1], 0.1)], ids=["16 shards", "150 shards"]
)
async def test_late_reads_are_hedged(
    proxied: ProxiedStores, search: WideSearch, waiting_share: float, random: Random
) -> None:
    """If 2 % of the reads are late, over 16 shards 95 % of the pages wait for none of them, over 150 shards 90 %.

    At most 5 % of the reads are sent twice, in addition to the few that the budget has saved.
    """
    late = LateReply()
    counting_store = CountingStore(await proxied.open_store(DEFAULTS_WITH_TIME))
    db = database(counting_store)
    while counting_store.counts.reads < 4 * search.shards + 256:  # The usual duration is known after some pages.
        await search.verify(db)
    requests, reads = len(proxied.proxy.requests), counting_store.counts.reads
    proxied.proxy.rule = random_faults(0.02, random, late)
    pages, waiting, hedges = depth(1_600, 60_000) // search.shards, 0, 0
    for _ in range(pages):
        awaited = late.awaited
        with collect_statistics() as statistics:
            await search.verify(db)
        hedges += statistics.hedges
        waiting += late.awaited > awaited
    assert len(proxied.proxy.faulted) > 0.01 * search.shards * pages
    assert waiting <= waiting_share * pages
    reads = counting_store.counts.reads - reads
    assert 0 < hedges <= 0.05 * reads + SAVED_HEDGES
    assert len(proxied.proxy.requests) - requests <= reads + hedges

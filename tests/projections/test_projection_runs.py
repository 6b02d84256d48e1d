"""Runs over events: the read model is the plain fold of the events, whatever the source and the store do."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from graphql_api import open_catalog
from graphql_api.projections import ProjectionRun, StreamProjector, parse_envelope
from graphql_api.runtime import RetryStrategy
from graphql_api.verification import verify_table
from tests.projections.account_projections import CATALOG, accounts
from tests.projections.event_histories import deliver
from tests.projections.read_models import BANK, check_read_model, chunks_of
from tests.support.dynamodb_servers import ENGINE
from tests.support.run_depth import depth
from tests.write_guarantees.faulty_store import FaultyStore

QUICK_RETRIES = RetryStrategy(first_backoff_seconds=0.001, max_backoff_seconds=0.01, max_seconds=60.0)

on_both_stores = pytest.mark.parametrize("store_url", ["sqlite", ENGINE], indirect=True)


@on_both_stores
@pytest.mark.parametrize("one_log", [False, True], ids=["streams", "log"])
async def test_the_read_model_is_the_fold_of_the_events(store_url: str, one_log: bool, random: Random) -> None:
    """Repeated, late, interleaved and invalid events lead to the plain fold; a second run applies nothing."""
    delivery = deliver(random, depth(quick=8, deep=50), depth(quick=160, deep=5_000), one_log=one_log)
    async with open_catalog(CATALOG, store_url, create_table=True) as database:
        progress = await ProjectionRun(database, BANK).run(chunks_of(delivery.lines))
        await check_read_model(database, delivery)
        assert not (await verify_table(database.store, CATALOG)).findings
        assert {name: one.applied for name, one in progress.projections.items()} == delivery.expected.applied
        again = await ProjectionRun(database, BANK).run(chunks_of(delivery.lines, size=7))
        assert not any(one.applied or one.dead or one.waiting for one in again.projections.values())
        assert again.unreadable == 0
        await check_read_model(database, delivery)


@on_both_stores
async def test_events_wait_for_a_missing_one(store_url: str, random: Random) -> None:
    """Events after a missing one are not applied, other streams go on, and the run names what is missing."""
    delivery = deliver(random, 6, 90, missing=2)
    async with open_catalog(CATALOG, store_url, create_table=True) as database:
        progress = await ProjectionRun(database, BANK).run(chunks_of(delivery.lines))
        await check_read_model(database, delivery)
        assert progress.has_findings
        for one in progress.projections.values():
            assert dict(one.gaps) == delivery.expected.waiting


@on_both_stores
async def test_lost_replies_and_conflicts_apply_nothing_twice(store_url: str, random: Random) -> None:
    """With replies that are lost after the write and conflicts, each event is still applied exactly once."""
    delivery = deliver(random, 6, depth(quick=90, deep=2_000))
    async with open_catalog(CATALOG, store_url, create_table=True) as database:
        faulty = FaultyStore(database.store, random, conflicts=0.05, lost=0.1)
        await ProjectionRun(replace(database, store=faulty), BANK, retries=QUICK_RETRIES).run(chunks_of(delivery.lines))
        assert faulty.fault_count
        await check_read_model(database, delivery)


@on_both_stores
@pytest.mark.parametrize("one_log", [False, True], ids=["streams", "log"])
async def test_two_projectors_apply_each_event_once(store_url: str, one_log: bool, random: Random) -> None:
    """Two projectors over the same events, each with its own copies of the positions, share the work."""
    delivery = deliver(random, 5, depth(quick=75, deep=1_000), one_log=one_log)
    async with (
        open_catalog(CATALOG, store_url, create_table=True) as one,
        open_catalog(CATALOG, store_url, create_table=True) as other,
    ):
        runs = [
            ProjectionRun(database, BANK, retries=QUICK_RETRIES).run(chunks_of(delivery.lines, size))
            for database, size in ((one, 10), (other, 13))
        ]
        progress = await asyncio.gather(*runs)
        await check_read_model(one, delivery)
    for name, count in delivery.expected.applied.items():
        assert sum(each.projections[name].applied for each in progress) == count


async def test_events_do_not_wait_for_what_another_projector_has_applied(store_url: str) -> None:
    """A projector that has kept an older position reads it again before it lets events wait."""
    data = {"accountId": "a", "owner": "ann", "at": "1"}
    first, second, third = (
        parse_envelope({"stream": "a", "seq": seq, "type": "Opened", "data": data}) for seq in (1, 2, 3)
    )
    async with open_catalog(CATALOG, store_url, create_table=True) as database:
        one, other = (StreamProjector(database, accounts) for _ in range(2))
        assert (await one.apply("a", [first])).applied == 1
        assert (await other.apply("a", [second])).applied == 1
        result = await one.apply("a", [third])
        assert (result.applied, result.waiting) == (1, ())

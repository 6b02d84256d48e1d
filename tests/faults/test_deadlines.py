"""A failing store: the caller gets an error within the deadline, however many retries are allowed."""

import asyncio
from dataclasses import replace
from math import inf

import pytest

from graphql_api.errors import StoreError
from tests.faults.conftest import ProxiedStores
from tests.faults.fault_proxy import no_fault
from tests.faults.fault_rules import always, is_query, reads_shard
from tests.faults.fault_settings import HARMFUL_FAULTS, LONG_TIMEOUTS
from tests.faults.fault_types import Delay
from tests.faults.proxied_catalog import LIMIT, Policy, Thing, Traversal
from tests.faults.time_bounds import best_of

MAX_LATENESS = 0.05
DEADLINE = 0.4
RETRY_UNTIL_DEADLINE = replace(
    LONG_TIMEOUTS,
    deadline=DEADLINE,
    attempts=1_000_000,
    retry_floor=1_000_000.0,
    breaker_failures=1_000_000,
    backoff_cap=0.02,
)
"""retries until the deadline"""
on_failing_shard = reads_shard("07")
QUICK_FAULTS = ("black hole", "reset", "throttle", "garbage")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK_FAULTS else [pytest.mark.deep]) for name in HARMFUL_FAULTS]
)
@pytest.mark.parametrize("pages_before", [0, 1], ids=["first page", "later page"])
@pytest.mark.parametrize(
    ("policy", "one"),
    [("FAIL", True), ("FAIL", False), ("PARTIAL", False)],
    ids=["fail-one", "fail-all", "partial-all"],
)
async def test_errors_arrive_within_the_deadline(
    proxied: ProxiedStores, name: str, pages_before: int, policy: Policy, one: bool
) -> None:
    """The error arrives at most 50 ms after the deadline, and the same token continues the search."""
    traversal = Traversal(await proxied.open_database(LONG_TIMEOUTS), Thing.by_place, policy)
    for _ in range(pages_before):
        await traversal.read_page()
    patient_db, traversal.db = traversal.db, await proxied.open_database(RETRY_UNTIL_DEADLINE)
    now = asyncio.get_running_loop().time

    async def lateness() -> float:
        proxied.proxy.rule = always(HARMFUL_FAULTS[name], on_failing_shard if one else is_query)
        started = now()
        with pytest.raises(StoreError) as found:
            await traversal.read_page()
        assert found.value.retryable
        return now() - started - DEADLINE

    assert await best_of(5, lateness, enough=MAX_LATENESS) <= MAX_LATENESS
    proxied.proxy.rule = no_fault
    traversal.db = patient_db
    await traversal.read_rest()
    traversal.verify()


@pytest.mark.parametrize("name", ["black hole", "throttle"])
async def test_partial_pages_arrive_within_the_deadline(proxied: ProxiedStores, name: str) -> None:
    """Under PARTIAL, one failing shard delays the page no longer than the deadline."""
    traversal = Traversal(await proxied.open_database(RETRY_UNTIL_DEADLINE), Thing.by_place, "PARTIAL")
    now = asyncio.get_running_loop().time

    async def lateness() -> float:
        proxied.proxy.rule = always(HARMFUL_FAULTS[name], on_failing_shard)
        started = now()
        try:
            page = await traversal.read_page()
        except StoreError:
            return inf  # The machine is so busy that no shard responded in time.
        failed = [failed.shard for failed in page.shards.failed]
        assert "thing!07" in failed
        return now() - started - DEADLINE if len(failed) == 1 else inf

    assert await best_of(5, lateness, enough=MAX_LATENESS) <= MAX_LATENESS
    proxied.proxy.rule = no_fault
    traversal.db = await proxied.open_database(LONG_TIMEOUTS)
    await traversal.read_rest()
    traversal.verify()


async def test_a_short_read_timeout_retries_a_slow_shard(proxied: ProxiedStores) -> None:
    """With a short `read_seconds`, a search retries a slow shard after that time and costs one more call."""
    read_seconds = 0.3
    db = await proxied.open_database(replace(LONG_TIMEOUTS, read_seconds=read_seconds, connect_seconds=0.1))
    await db.get(Thing, "k1")
    proxied.proxy.reset_counts()
    slow = Delay(60)
    now = asyncio.get_running_loop().time
    call_counts: list[int] = []
    await db.search(Thing.by_place, limit=LIMIT)
    needed = len(proxied.proxy.requests)

    async def measure_seconds() -> float:
        remaining_faults = [slow]
        proxied.proxy.reset_counts()
        proxied.proxy.rule = lambda request: (
            remaining_faults.pop() if remaining_faults and on_failing_shard(request) else None
        )
        started = now()
        page = await db.search(Thing.by_place, limit=LIMIT)
        assert page.complete
        call_counts.append(len(proxied.proxy.requests))
        return now() - started

    assert await best_of(5, measure_seconds, enough=1.0) < 1.0
    assert needed + 1 in call_counts

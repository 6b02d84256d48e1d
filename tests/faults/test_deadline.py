"""However a store fails, and however often it may be asked again, a caller hears of it within the deadline."""

import asyncio
from dataclasses import replace
from math import inf

import pytest

from graphql_api.errors import StoreError
from tests.faults.conftest import Behind
from tests.faults.faults import Delay
from tests.faults.proxy import no_fault
from tests.faults.rules import always, is_query, of_shard
from tests.faults.timing import best_of
from tests.faults.troubles import CALM, HARMFUL
from tests.faults.world import LIMIT, Policy, Thing, Walk

LATE = 0.05
DEADLINE = 0.4
STUBBORN = replace(
    CALM, deadline=DEADLINE, attempts=1_000_000, retry_floor=1_000_000.0, breaker_failures=1_000_000, backoff_cap=0.02
)
"""asks again for as long as there is time"""
FAILING = of_shard("07")
QUICK = ("black hole", "reset", "throttle", "garbage")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.deep]) for name in HARMFUL]
)
@pytest.mark.parametrize("pages_before", [0, 1], ids=["first page", "later page"])
@pytest.mark.parametrize(
    ("policy", "one"),
    [("FAIL", True), ("FAIL", False), ("PARTIAL", False)],
    ids=["fail-one", "fail-all", "partial-all"],
)
async def test_an_error_comes_within_the_deadline(
    behind: Behind, name: str, pages_before: int, policy: Policy, one: bool
) -> None:
    """The error is there at most 50 ms after the deadline, and the walk goes on from the same token."""
    walk = Walk(await behind.database(CALM), Thing.by_place, policy)
    for _ in range(pages_before):
        await walk.step()
    calm, walk.db = walk.db, await behind.database(STUBBORN)
    now = asyncio.get_running_loop().time

    async def lateness() -> float:
        behind.proxy.rule = always(HARMFUL[name], FAILING if one else is_query)
        began = now()
        with pytest.raises(StoreError) as found:
            await walk.step()
        assert found.value.retryable
        return now() - began - DEADLINE

    assert await best_of(5, lateness, enough=LATE) <= LATE
    behind.proxy.rule = no_fault
    walk.db = calm
    await walk.on()
    walk.check()


@pytest.mark.parametrize("name", ["black hole", "throttle"])
async def test_a_partial_page_comes_within_the_deadline(behind: Behind, name: str) -> None:
    """Under PARTIAL one failing shard does not hold the page of the others up for longer than an error would."""
    walk = Walk(await behind.database(STUBBORN), Thing.by_place, "PARTIAL")
    now = asyncio.get_running_loop().time

    async def lateness() -> float:
        behind.proxy.rule = always(HARMFUL[name], FAILING)
        began = now()
        try:
            page = await walk.step()
        except StoreError:
            return inf  # The machine is so busy that no shard answered in time.
        failed = [failed.shard for failed in page.shards.failed]
        assert "thing!07" in failed
        return now() - began - DEADLINE if len(failed) == 1 else inf

    assert await best_of(5, lateness, enough=LATE) <= LATE
    behind.proxy.rule = no_fault
    walk.db = await behind.database(CALM)
    await walk.on()
    walk.check()


async def test_a_slow_shard_is_overtaken_by_a_second_attempt(behind: Behind) -> None:
    """Who sets `read_seconds` low waits no longer than that for an answer which does not come, and pays one call."""
    read_seconds = 0.3
    db = await behind.database(replace(CALM, read_seconds=read_seconds, connect_seconds=0.1))
    await db.get(Thing, "k1")
    behind.proxy.forget()
    slow = Delay(60)
    now = asyncio.get_running_loop().time
    asked: list[int] = []
    await db.search(Thing.by_place, limit=LIMIT)
    needed = len(behind.proxy.requests)

    async def took() -> float:
        left = [slow]
        behind.proxy.forget()
        behind.proxy.rule = lambda request: left.pop() if left and FAILING(request) else None
        began = now()
        page = await db.search(Thing.by_place, limit=LIMIT)
        assert page.complete
        asked.append(len(behind.proxy.requests))
        return now() - began

    assert await best_of(5, took, enough=1.0) < 1.0
    assert needed + 1 in asked

"""Many writers of one record in several processes: one is first, and each of the others learns of it."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphql_api.storage.port import Store
from graphql_api.storage.values import Put
from tests.store_contract.crowd import AT_ONCE, COUNTERS, GUARDS, PROCESSES, TAKEN, WANTED, Crowd, counter, gathered
from tests.store_contract.engines import Engine
from tests.store_contract.samples import page, put, reading, record

pytestmark = pytest.mark.needs("crowds")

MANY = PROCESSES * AT_ONCE
HANGS = 120.0
"""seconds after which somebody waits for ever"""


@pytest.fixture(scope="module")
def crowd() -> Iterator[Crowd]:
    """Processes that do what they are told."""
    with gathered() as processes:
        yield processes


async def test_one_of_many_creates(engine: Engine, store: Store, crowd: Crowd, tmp_path: Path) -> None:
    """Of 64 that create one record in four processes one succeeds, and the record is its own."""
    async with asyncio.timeout(HANGS):
        outcomes = await crowd.do("create", engine.address(tmp_path))
    assert Counter(outcomes.values()) == {"done": 1, "CONDITION_FAILED": MANY - 1}
    (winner,) = [who for who, outcome in outcomes.items() if outcome == "done"]
    assert list(await store.get_many([WANTED], True)) == [record(WANTED, by=winner, _w=winner)]


async def test_one_of_many_deletes(engine: Engine, store: Store, crowd: Crowd, tmp_path: Path) -> None:
    """Of 64 that delete one record as it stands in four processes one succeeds."""
    await put(store, record(TAKEN, free=True))
    async with asyncio.timeout(HANGS):
        outcomes = await crowd.do("remove", engine.address(tmp_path))
    assert Counter(outcomes.values()) == {"done": 1, "CONDITION_FAILED": MANY - 1}
    assert list(await store.get_many([TAKEN], True)) == [None]


async def test_guards(engine: Engine, store: Store, crowd: Crowd, tmp_path: Path) -> None:
    """Of those that want one name one transaction succeeds; there are no records but its own and its guard's."""
    async with asyncio.timeout(HANGS):
        outcomes = await crowd.do("claim", engine.address(tmp_path))
    assert Counter(outcomes.values()) == {"done": GUARDS, "CONDITION_FAILED": MANY - GUARDS}
    own = [row.item for row in (await page(store, reading(None, "own!"))).rows]
    guards = [row.item for row in (await page(store, reading(None, "guard!"))).rows]
    assert sorted(item["rangeKey"] for item in own) == sorted(who for who, done in outcomes.items() if done == "done")
    assert {item["guard"]: item["rangeKey"] for item in own} == {item["rangeKey"]: item["by"] for item in guards}


async def test_counters(engine: Engine, store: Store, crowd: Crowd, tmp_path: Path) -> None:
    """Transactions that overlap count each step of each of 64 once, whoever came in between."""
    await store.write([Put(record(counter(number), n=0, w="")) for number in range(COUNTERS)])
    async with asyncio.timeout(HANGS):
        tries = await crowd.do("step", engine.address(tmp_path))
    assert len(tries) == MANY
    found = await store.get_many([counter(number) for number in range(COUNTERS)], True)
    assert sum(item["n"] for item in found if item is not None) == 2 * MANY

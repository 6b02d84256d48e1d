"""Concurrent writers of one record in several processes: one write wins, and each other writer gets an error."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphql_api.storage.port import Store
from graphql_api.storage.values import Put
from tests.store_contract.contract_engines import Engine
from tests.store_contract.samples import put, range_read, read_page, record
from tests.store_contract.writer_processes import (
    COUNTERS,
    GUARDS,
    PROCESSES,
    TAKEN,
    WANTED,
    WRITERS_PER_PROCESS,
    WriterProcesses,
    counter,
    start_writer_processes,
)

pytestmark = pytest.mark.needs("processes")

WRITERS = PROCESSES * WRITERS_PER_PROCESS
MAX_SECONDS = 120.0
"""seconds after which a test counts as hanging"""


@pytest.fixture(scope="module")
def writers() -> Iterator[WriterProcesses]:
    """Processes that execute the work of a test concurrently."""
    with start_writer_processes() as processes:
        yield processes


async def test_one_concurrent_create_succeeds(
    engine: Engine, store: Store, writers: WriterProcesses, tmp_path: Path
) -> None:
    """If 64 writers in four processes create one record, one succeeds and its record is stored."""
    async with asyncio.timeout(MAX_SECONDS):
        outcomes = await writers.run("create", engine.address(tmp_path))
    assert Counter(outcomes.values()) == {"done": 1, "CONDITION_FAILED": WRITERS - 1}
    (winner,) = [writer for writer, outcome in outcomes.items() if outcome == "done"]
    assert list(await store.get_many([WANTED], True)) == [record(WANTED, by=winner, _w=winner)]


async def test_one_concurrent_delete_succeeds(
    engine: Engine, store: Store, writers: WriterProcesses, tmp_path: Path
) -> None:
    """If 64 writers in four processes delete one record on a condition, one succeeds."""
    await put(store, record(TAKEN, free=True))
    async with asyncio.timeout(MAX_SECONDS):
        outcomes = await writers.run("remove", engine.address(tmp_path))
    assert Counter(outcomes.values()) == {"done": 1, "CONDITION_FAILED": WRITERS - 1}
    assert list(await store.get_many([TAKEN], True)) == [None]


async def test_one_transaction_claims_a_unique_name(
    engine: Engine, store: Store, writers: WriterProcesses, tmp_path: Path
) -> None:
    """Of several transactions that claim one name, one succeeds. The others leave no record and no guard item."""
    async with asyncio.timeout(MAX_SECONDS):
        outcomes = await writers.run("claim", engine.address(tmp_path))
    assert Counter(outcomes.values()) == {"done": GUARDS, "CONDITION_FAILED": WRITERS - GUARDS}
    own = [row.item for row in (await read_page(store, range_read(None, "own!"))).rows]
    guards = [row.item for row in (await read_page(store, range_read(None, "guard!"))).rows]
    assert sorted(item["rangeKey"] for item in own) == sorted(
        writer for writer, outcome in outcomes.items() if outcome == "done"
    )
    assert {item["guard"]: item["rangeKey"] for item in own} == {item["rangeKey"]: item["by"] for item in guards}


async def test_overlapping_transactions_count_each_step_once(
    engine: Engine, store: Store, writers: WriterProcesses, tmp_path: Path
) -> None:
    """Overlapping transactions of 64 writers increment two counters each, without a lost or doubled step."""
    await store.write([Put(record(counter(number), n=0, w="")) for number in range(COUNTERS)])
    async with asyncio.timeout(MAX_SECONDS):
        attempts = await writers.run("step", engine.address(tmp_path))
    assert len(attempts) == WRITERS
    counters = await store.get_many([counter(number) for number in range(COUNTERS)], True)
    assert sum(item["n"] for item in counters if item is not None) == 2 * WRITERS

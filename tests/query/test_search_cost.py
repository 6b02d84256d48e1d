"""The cost of searches, as the mean over all pages of a traversal."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Index, Shards
from graphql_api.database import Database
from graphql_api.model.markers import IndexRef
from graphql_api.query.token_seal import TokenSeal
from graphql_api.sharding.shard_space import Generation, ShardSpace
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from tests.support.run_depth import depth, is_deep
from tests.support.store_doubles import CountingStore, Counts, IndependentReadsStore


def _catalog(shards: int) -> tuple[Catalog, type[Any]]:
    class Thing(Entity, shards=Shards(shards)):
        """A record with a sort value."""

        key: Id[str]
        position: int
        tied: str = "the same"

        by_position = Index(sort="position")
        by_tied = Index(sort="tied", raw=True)

    return Catalog(Thing), Thing


def _evenly(shards: int, random: Random) -> Iterator[int]:
    while True:
        yield random.randrange(shards)


def _half_in_one(shards: int, random: Random) -> Iterator[int]:
    while True:
        yield 0 if random.random() < 0.5 else random.randrange(shards)


def _zipf(shards: int, random: Random) -> Iterator[int]:
    weights = [1 / (number + 1) for number in range(shards)]
    while True:
        yield from random.choices(range(shards), weights, k=1000)


def _three_filled(shards: int, random: Random) -> Iterator[int]:
    while True:
        yield random.randrange(min(3, shards))


Spread = Callable[[int, Random], Iterator[int]]


@dataclass(frozen=True)
class TraversalCosts:
    """The cost of each page of a traversal."""

    pages: list[Counts]

    def mean(self, name: str) -> float:
        total: int = sum(vars(page)[name] for page in self.pages)
        return total / len(self.pages)

    def share_of_pages(self, rounds: int) -> float:
        return sum(page.rounds <= rounds for page in self.pages) / len(self.pages)


async def _filled_database(
    path: Path, shards: int, spread: Spread, records: int, random: Random
) -> tuple[Database, type[Any]]:
    catalog, thing = _catalog(shards)
    store = await open_sqlite(path)
    await store.ensure_table(catalog.table_definition())
    db = Database(catalog, store, TokenSeal([b"s" * 32]))
    space = ShardSpace((Generation(None, shards),))
    numbers = iter(range(100 * records * shards))
    unused_ids: dict[int, list[str]] = {}
    batch = []
    for _, wanted in zip(range(records), spread(shards, random), strict=False):
        # Ids are generated until one belongs to the wanted shard; the others are kept for later records.
        while not unused_ids.get(wanted):
            key = f"id{next(numbers)}"
            unused_ids.setdefault(space.ordinal(key, 0) - (shards > 1), []).append(key)
        batch.append(thing(key=unused_ids[wanted].pop(), position=random.randrange(2**40)))
    assert await db.put_many(batch) == [None] * records
    return db, thing


async def _costs_of_traversal(
    db: Database, thing: type[Entity], index: str, limit: int, engine: Callable[[Store], Store], records: int
) -> TraversalCosts:
    store = CountingStore(engine(db.store))
    counted = Database(db.catalog, store, db.seal)
    pages, token, found = [], None, 0
    while True:
        store.counts = Counts()
        page = await counted.search(getattr(thing, index), limit=limit, next_token=token)
        pages.append(store.counts)
        found += len(page.items)
        token = page.next_token
        assert (store.counts.scans, store.counts.gets) == (0, 0)
        if token is None:
            assert found == records
            return TraversalCosts(pages)


def _limits() -> list[int]:
    return [20, 50, 100, 500] if is_deep() else [20, 100]


@pytest.mark.parametrize("shards", [1, 16, 64, 150])
async def test_evenly_filled_shards_keep_the_cost_bounds(shards: int, tmp_path: Path, random: Random) -> None:
    """With evenly filled shards, pages cost at most 2·L + 3·n records and 1.1·n calls on average, 99 % in 4 rounds."""
    records = depth(1_000, 30_000)
    db, thing = await _filled_database(tmp_path / "x.db", shards, _evenly, records, random)
    for limit in _limits():
        costs = await _costs_of_traversal(db, thing, "by_position", limit, IndependentReadsStore, records)
        assert costs.mean("records_read") <= 2 * limit + 3 * shards, limit
        assert costs.mean("reads") <= 1.1 * shards, limit
        assert costs.share_of_pages(rounds=4) >= 0.99, limit
    await db.store.close()


@pytest.mark.parametrize("shards", [16, 64, 150])
@pytest.mark.parametrize("spread", [_half_in_one, _zipf, _three_filled])
async def test_unevenly_filled_shards_keep_the_cost_bounds(
    spread: Spread, shards: int, tmp_path: Path, random: Random
) -> None:
    """With unevenly filled shards 99 % of the pages take at most 4 rounds, and at most 1.5 times the records."""
    records = depth(700, 30_000)
    db, thing = await _filled_database(tmp_path / "x.db", shards, spread, records, random)
    for limit in _limits():
        costs = await _costs_of_traversal(db, thing, "by_position", limit, IndependentReadsStore, records)
        assert costs.mean("records_read") <= 1.5 * (2 * limit + 3 * shards), limit
        assert costs.share_of_pages(rounds=4) >= 0.99, limit
    await db.store.close()


async def test_sqlite_reads_a_page_in_one_range_scan(tmp_path: Path, random: Random) -> None:
    """SQLite reads a page in one range scan, which stops at the first record of the next page."""
    db, thing = await _filled_database(tmp_path / "x.db", 150, _evenly, 2_000, random)
    for index in ("by_position", "by_id"):
        costs = await _costs_of_traversal(db, thing, index, 20, lambda store: store, 2_000)
        assert [page.rounds for page in costs.pages] == [1] * 100
        assert max(page.records_read for page in costs.pages) == 21
    await db.store.close()


@pytest.mark.parametrize("engine", [IndependentReadsStore, lambda store: store])
async def test_tied_records_keep_the_cost_bounds(
    engine: Callable[[Store], Store], tmp_path: Path, random: Random
) -> None:
    """If all records tie on a raw index over 150 shards, the cost and the length of tokens stay within their bounds."""
    db, thing = await _filled_database(tmp_path / "x.db", 150, _evenly, 3_000, random)
    costs = await _costs_of_traversal(db, thing, "by_tied", 20, engine, 3_000)
    assert len(costs.pages) == 150
    assert costs.mean("records_read") <= 2 * 20 + 3 * 150
    assert max(page.records_read for page in costs.pages) <= 1.5 * (2 * 20 + 3 * 150)
    index = IndexRef(thing, "by_tied")
    ends = [*(await db.search(index, first=5)).cursors, *(await db.search(index, last=5)).cursors]
    assert max(map(len, ends)) <= min(map(len, ends)) + 8
    assert max(map(len, ends)) <= 250
    await db.store.close()

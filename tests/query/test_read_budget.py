"""Cost of filters and selections: a read budget per page, few rounds, and an extra batch without a covering index."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Index, Shards, Union
from graphql_api.database import Database
from graphql_api.errors import InvalidLimit, TokenMismatch
from graphql_api.query.search_request import READ_BUDGET
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.sqlite import SqliteStore, open_sqlite
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key
from tests.support.memory_store import MemoryStore
from tests.support.run_depth import depth
from tests.support.store_doubles import CountingStore, Counts, IndependentReadsStore

SEAL = TokenSeal([b"s" * 32])
RECORDS = 20_000
BUCKETS = 100

Engine = Callable[[Store], Store]
ENGINES: list[Engine] = [IndependentReadsStore, lambda store: store]


def catalog_and_entity(shards: int) -> tuple[Catalog, type[Any]]:
    """Returns an entity, and its catalog, with indexes that project different properties."""

    class Thing(Entity, shards=Shards(shards)):
        """A record in one of many buckets."""

        key: Id[str]
        position: int
        other: int | None = None
        bucket: int = 0
        note: str = ""

        by_position = Index(sort="position")
        by_keys = Index(sort="position", projection="KEYS_ONLY", name="keys")
        by_some = Index(sort="position", projection=["bucket"], name="some")
        by_other = Index(sort="other")
        by_raw = Index(sort="other", raw=True, projection="KEYS_ONLY", name="raw")
        by_any = Union("by_position", "by_other")

    return Catalog(Thing), Thing


async def database(store: Store, catalog: Catalog) -> Database:
    """Returns a database with the catalog over a store."""
    await store.ensure_table(catalog.table_definition())
    return Database(catalog, store, SEAL)


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """An empty store."""
    store = await open_sqlite(tmp_path / "x.db")
    yield store
    await store.close()


async def read_all_pages(
    db: Database,
    index: Any,
    store: CountingStore | None = None,
    *,
    backward: bool = False,
    size: int = 20,
    **options: Any,
) -> list[tuple[Any, Counts]]:
    """Returns all pages of a search in the order of reading, each with its cost."""
    pages: list[tuple[Any, Counts]] = []
    token = None
    while True:
        assert len(pages) < 3_000
        if store is not None:
            store.counts = Counts()
        paging = {"last": size, "before": token} if backward else {"limit": size, "next_token": token}
        page = await db.search(index, **options, **paging)
        pages.append((page, store.counts if store is not None else Counts()))
        token = (page.start_cursor if page.has_previous else None) if backward else page.next_token
        if token is None:
            return pages


def keys(pages: Sequence[tuple[Any, Counts]]) -> list[str]:
    """Returns the ids of all records, page by page."""
    return [item.key for page, _ in pages for item in page.items]


# --- the read budget -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("index", ["by_position", "by_keys", "by_any"])
async def test_a_page_that_reaches_its_budget_ends_early_and_loses_no_record(
    index: str, engine: Engine, sqlite: SqliteStore
) -> None:
    """A page at its budget ends early with BUDGET, reads at most one more record per shard, and loses none."""
    shards, budget = 16, 100
    catalog, thing = catalog_and_entity(shards)
    db = await database(engine(sqlite), catalog)
    records = [thing(key=f"k{at:04}", position=at, other=-at, bucket=at % BUCKETS) for at in range(1_000)]
    assert await db.put_many(records) == [None] * 1_000
    expected = [record.key for record in records if record.bucket == 7]
    for backward in (False, True):
        pages = await read_all_pages(
            db, getattr(thing, index), backward=backward, size=5, filter={"bucket": 7}, read_budget=budget
        )
        assert sorted(keys(pages)) == expected
        stopped = [page for page, _ in pages if page.stopped_by is not None]
        assert len(stopped) >= 5
        assert {page.stopped_by for page in stopped} == {"BUDGET"}
        for page, _ in pages[:-1]:
            read = page.explain["read"]["recordsRead"]
            assert (page.stopped_by is None) == (len(page.items) == 5)
            assert read <= budget + shards + 1
            assert page.stopped_by is None or read >= budget
        assert pages[-1][0].stopped_by is None


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("index", ["by_position", "by_keys", "by_any"])
@pytest.mark.parametrize("backward", [False, True])
async def test_a_budget_of_one_record_makes_progress(
    backward: bool, index: str, engine: Engine, sqlite: SqliteStore
) -> None:
    """With a budget of one record each page makes progress, and the traversal ends."""
    catalog, thing = catalog_and_entity(3)
    db = await database(engine(sqlite), catalog)
    records = [thing(key=f"k{at:02}", position=at, other=at, bucket=at % 10) for at in range(40)]
    assert await db.put_many(records) == [None] * 40
    pages = await read_all_pages(
        db, getattr(thing, index), backward=backward, size=2, filter={"bucket": 3}, read_budget=1
    )
    assert sorted(keys(pages)) == ["k03", "k13", "k23", "k33"]
    assert len(pages) <= 2 * 40 + 3
    assert all(page.explain["read"]["recordsRead"] <= 1 + 3 for page, _ in pages)


@pytest.mark.parametrize("engine", ENGINES)
async def test_rare_matches_do_not_exceed_the_budget(engine: Engine, sqlite: SqliteStore) -> None:
    """Selectivity estimates never make a page request many more records than its budget allows."""
    shards = 150
    catalog, thing = catalog_and_entity(shards)
    db = await database(engine(sqlite), catalog)
    total = depth(3_000, 30_000)
    records = [thing(key=f"k{at:05}", position=at, bucket=int(at == total - 1)) for at in range(total)]
    assert await db.put_many(records) == [None] * total
    for index in (thing.by_position, thing.by_keys):
        pages = await read_all_pages(db, index, filter={"bucket": 1}, read_budget=1_000)
        assert keys(pages) == [f"k{total - 1:05}"]
        assert max(page.explain["read"]["recordsRead"] for page, _ in pages) <= 1_000 + shards + 1
        assert len(pages) <= 3 * total / 1_000 + 2


async def test_a_full_page_that_spends_its_budget_says_so(sqlite: SqliteStore) -> None:
    """A full page says BUDGET if it spent its budget before it was known whether another record matches."""
    catalog, thing = catalog_and_entity(1)
    db = await database(sqlite, catalog)
    await db.put_many([thing(key=f"k{at:02}", position=at, bucket=int(at > 0)) for at in range(41)])
    search = {"limit": 1, "filter": {"bucket": 0}, "read_budget": 10}
    page = await db.search(thing.by_position, **search)
    assert ([record.key for record in page.items], page.stopped_by) == (["k00"], "BUDGET")
    pages = [page]
    while pages[-1].next_token is not None:
        pages.append(await db.search(thing.by_position, **search, next_token=pages[-1].next_token))
    assert [len(one.items) for one in pages[1:]] == [0] * (len(pages) - 1)
    assert pages[-1].stopped_by is None


@pytest.mark.parametrize("budget", [0, -1, True, 1.5, "10", None])
async def test_a_budget_is_a_positive_whole_number(budget: Any, sqlite: SqliteStore) -> None:
    """A budget that is no positive whole number is rejected under the name of the argument."""
    catalog, thing = catalog_and_entity(1)
    db = await database(sqlite, catalog)
    with pytest.raises(InvalidLimit, match="read_budget must be a whole number of at least 1"):
        await db.search(thing.by_position, read_budget=budget)


async def test_the_budget_may_change_between_pages_and_the_filter_may_not(sqlite: SqliteStore) -> None:
    """A token is valid with any budget and selection, but only with its own filter."""
    catalog, thing = catalog_and_entity(2)
    db = await database(sqlite, catalog)
    await db.put_many([thing(key=f"k{at}", position=at, bucket=at % 2) for at in range(8)])
    filter = {"bucket": 1, "position": {"ge": 1}}
    token = (await db.search(thing.by_position, filter=filter, limit=1)).next_token
    for options in ({"read_budget": 2}, {"select": ["key"]}, {"limit": 3}):
        reordered = {"position": {"ge": 1}, "bucket": {"eq": 1}}
        page = await db.search(thing.by_position, filter=reordered, next_token=token, **options)
        assert page.items[0].key == "k3"
    for other in ({"bucket": 1}, {"bucket": 0, "position": {"ge": 1}}, {"bucket": 1, "position": {"gt": 1}}, None):
        with pytest.raises(TokenMismatch, match=r"was made for where \(?bucket eq 1"):
            await db.search(thing.by_position, filter=other, next_token=token)


# --- rounds ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FilledDatabase:
    """A database with many records, and the ids in each bucket."""

    db: Database
    thing: type[Any]
    in_bucket: dict[int, list[str]]


async def fill_database(store: SqliteStore, shards: int, random: Random) -> FilledDatabase:
    """Stores records with random sort values, about one in a hundred of them in each bucket."""
    catalog, thing = catalog_and_entity(shards)
    db = await database(store, catalog)
    records = [
        thing(key=f"k{at}", position=random.randrange(2**40), bucket=random.randrange(BUCKETS)) for at in range(RECORDS)
    ]
    assert await db.put_many(records) == [None] * RECORDS
    records.sort(key=lambda record: (record.position, record.key))
    in_bucket: dict[int, list[str]] = {}
    for record in records:
        in_bucket.setdefault(record.bucket, []).append(record.key)
    return FilledDatabase(db, thing, in_bucket)


class BatchCountingStore(CountingStore):
    """Also counts the batches of records fetched by key."""

    batches = 0

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.batches += 1
        return await super().get_many(keys, consistent)


@dataclass(frozen=True)
class Cost:
    """The cost of a page: rounds of reads, batches of fetched records, records read from an index."""

    rounds: int
    batches: int
    records_read: int


async def costs_of_pages(filled_database: FilledDatabase, engine: Store, index: str, buckets: int) -> list[Cost]:
    """Returns the cost of each page of traversals of some buckets, and checks that each traversal is complete."""
    costs = []
    store = BatchCountingStore(engine)
    db = Database(filled_database.db.catalog, store, SEAL)
    for bucket, limit in product(range(buckets), [20, 50]):
        found: list[str] = []
        token = None
        while token is not None or not found:
            store.counts, store.batches = Counts(), 0
            page = await db.search(
                getattr(filled_database.thing, index), limit=limit, next_token=token, filter={"bucket": bucket}
            )
            costs.append(Cost(store.counts.rounds, store.batches, store.counts.records_read))
            assert page.stopped_by is None or store.counts.records_read >= READ_BUDGET
            found += [item.key for item in page.items]
            token = page.next_token
        assert found == filled_database.in_bucket[bucket]
    return costs


@pytest.mark.parametrize("shards", [16, 150])
@pytest.mark.parametrize("index", ["by_position", "by_keys"])
async def test_a_filter_of_one_percent_takes_few_rounds_within_the_budget(
    index: str, shards: int, sqlite: SqliteStore, random: Random
) -> None:
    """With a filter of 1 %, 99 % of the pages take at most 4 rounds, and each page stays within its budget."""
    filled_database = await fill_database(sqlite, shards, random)
    independent_reads = MemoryStore(sqlite)
    await independent_reads.load_inner()
    costs = await costs_of_pages(filled_database, independent_reads, index, depth(8, 50))
    assert len(costs) >= 100
    costs += await costs_of_pages(filled_database, sqlite, index, depth(1, 10))
    # In the last round of a page, each shard reads at least one record.
    assert max(cost.records_read for cost in costs) < READ_BUDGET + shards
    # A sample of 1 % of the pages deviates by less than four standard deviations. Few pages have a skewed distribution.
    most = 1 + len(costs) / 100 + 4 * (len(costs) / 100) ** 0.5
    assert sum(cost.rounds > 4 for cost in costs) <= most
    # Records are fetched in batches, at most one per round.
    assert sum(cost.batches > 4 for cost in costs) <= most
    assert (sum(cost.batches for cost in costs) == 0) == (index == "by_position")


# --- selections ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
async def test_unprojected_properties_cost_one_batch_per_page(engine: Engine, sqlite: SqliteStore) -> None:
    """Selecting only projected properties costs no batch; any other selection costs exactly one batch per page."""
    catalog, thing = catalog_and_entity(16)
    await database(sqlite, catalog)
    store = BatchCountingStore(engine(sqlite))
    db = Database(catalog, store, SEAL)
    records = [thing(key=f"k{at:02}", position=at, other=at, bucket=at + 1, note=f"n{at}") for at in range(60)]
    assert await db.put_many(records) == [None] * 60
    projected: list[tuple[Any, Sequence[str] | None]] = [
        (thing.by_position, None),
        (thing.by_position, ["note"]),
        (thing.by_keys, ["key", "position"]),
        (thing.by_keys, []),
        (thing.by_some, ["bucket", "position"]),
        (thing.by_raw, ["key", "other"]),
    ]
    unprojected: list[tuple[Any, Sequence[str] | None]] = [
        (thing.by_keys, None),
        (thing.by_keys, ["position", "note"]),
        (thing.by_some, ["note"]),
        (thing.by_raw, ["key", "note"]),
    ]
    for index, select in projected + unprojected:
        store.batches = 0
        pages = await read_all_pages(db, index, store, size=7, select=select)
        assert store.batches == (len(pages) if (index, select) in unprojected else 0)
        for name in thing.model_fields if select is None else select:
            expected = [getattr(record, name) for record in records]
            assert [getattr(item, name) for page, _ in pages for item in page.items] == expected


async def test_properties_neither_selected_nor_projected_are_missing(sqlite: SqliteStore) -> None:
    """A property that is neither selected nor projected is missing, instead of having its default."""
    catalog, thing = catalog_and_entity(2)
    db = await database(sqlite, catalog)
    await db.put(thing(key="k", position=1, bucket=5, note="n"))
    (item,) = (await db.search(thing.by_some, select=["key"])).items
    assert (item.key, item.position, item.bucket) == ("k", 1, 5)
    assert not hasattr(item, "note")
    assert item.model_dump() == {"key": "k", "position": 1, "bucket": 5}

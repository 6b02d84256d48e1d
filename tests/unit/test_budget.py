"""What filters and selections cost: a budget a page, few rounds, and one batch more where an index lacks something."""

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
from tests.depth import depth
from tests.stores import CountingStore, Counts, ReadByRead
from tests.unit.remembered import RememberedStore

SEAL = TokenSeal([b"s" * 32])
RECORDS = 20_000
BUCKETS = 100

Engine = Callable[[Store], Store]
ENGINES: list[Engine] = [ReadByRead, lambda store: store]


def declared(shards: int) -> tuple[Catalog, type[Any]]:
    """An entity with a property that one of its indexes lacks."""

    class Thing(Entity, shards=Shards(shards)):
        """A record in one of many buckets."""

        key: Id[str]
        place: int
        other: int | None = None
        bucket: int = 0
        note: str = ""

        by_place = Index(sort="place")
        by_keys = Index(sort="place", projection="KEYS_ONLY", name="keys")
        by_some = Index(sort="place", projection=["bucket"], name="some")
        by_other = Index(sort="other")
        by_raw = Index(sort="other", raw=True, projection="KEYS_ONLY", name="raw")
        by_any = Union("by_place", "by_other")

    return Catalog(Thing), Thing


async def database(store: Store, catalog: Catalog) -> Database:
    """The catalog over a store."""
    await store.ensure_table(catalog.table_definition())
    return Database(catalog, store, SEAL)


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """An empty store."""
    store = await open_sqlite(tmp_path / "x.db")
    yield store
    await store.close()


async def walk(
    db: Database,
    index: Any,
    store: CountingStore | None = None,
    *,
    backward: bool = False,
    size: int = 20,
    **options: Any,
) -> list[tuple[Any, Counts]]:
    """All pages of a search in walking order, each with what it cost."""
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
    """The ids of all records, page by page."""
    return [item.key for page, _ in pages for item in page.items]


# --- the budget ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("index", ["by_place", "by_keys", "by_any"])
async def test_a_page_ends_at_its_budget_says_so_and_the_walk_goes_on(
    index: str, engine: Engine, sqlite: SqliteStore
) -> None:
    """A short page that is not the last says BUDGET, looked at no more than that and a record a shard; none is lost."""
    shards, budget = 16, 100
    catalog, thing = declared(shards)
    db = await database(engine(sqlite), catalog)
    records = [thing(key=f"k{at:04}", place=at, other=-at, bucket=at % BUCKETS) for at in range(1_000)]
    assert await db.put_many(records) == [None] * 1_000
    expected = [record.key for record in records if record.bucket == 7]
    for backward in (False, True):
        pages = await walk(
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
@pytest.mark.parametrize("index", ["by_place", "by_keys", "by_any"])
@pytest.mark.parametrize("backward", [False, True])
async def test_the_smallest_budget_still_gets_on(
    backward: bool, index: str, engine: Engine, sqlite: SqliteStore
) -> None:
    """With a budget of one record every page looks at new ones, and the walk ends."""
    catalog, thing = declared(3)
    db = await database(engine(sqlite), catalog)
    records = [thing(key=f"k{at:02}", place=at, other=at, bucket=at % 10) for at in range(40)]
    assert await db.put_many(records) == [None] * 40
    pages = await walk(db, getattr(thing, index), backward=backward, size=2, filter={"bucket": 3}, read_budget=1)
    assert sorted(keys(pages)) == ["k03", "k13", "k23", "k33"]
    assert len(pages) <= 2 * 40 + 3
    assert all(page.explain["read"]["recordsRead"] <= 1 + 3 for page, _ in pages)


@pytest.mark.parametrize("engine", ENGINES)
async def test_rare_matches_never_make_a_page_read_much_more_than_its_budget(
    engine: Engine, sqlite: SqliteStore
) -> None:
    """However rare the page before found its matches to be, the next one asks for no more than the budget allows."""
    shards = 150
    catalog, thing = declared(shards)
    db = await database(engine(sqlite), catalog)
    total = depth(3_000, 30_000)
    records = [thing(key=f"k{at:05}", place=at, bucket=int(at == total - 1)) for at in range(total)]
    assert await db.put_many(records) == [None] * total
    for index in (thing.by_place, thing.by_keys):
        pages = await walk(db, index, filter={"bucket": 1}, read_budget=1_000)
        assert keys(pages) == [f"k{total - 1:05}"]
        assert max(page.explain["read"]["recordsRead"] for page, _ in pages) <= 1_000 + shards + 1
        assert len(pages) <= 3 * total / 1_000 + 2


@pytest.mark.parametrize("budget", [0, -1, True, 1.5, "10", None])
async def test_a_budget_is_a_whole_number_from_one(budget: Any, sqlite: SqliteStore) -> None:
    """What is no number of records is refused by the argument's name."""
    catalog, thing = declared(1)
    db = await database(sqlite, catalog)
    with pytest.raises(InvalidLimit, match="read_budget must be a whole number of at least 1"):
        await db.search(thing.by_place, read_budget=budget)


async def test_the_budget_may_change_between_pages_and_the_filter_may_not(sqlite: SqliteStore) -> None:
    """A token goes with any budget and any selection, and with the filter that it was made for."""
    catalog, thing = declared(2)
    db = await database(sqlite, catalog)
    await db.put_many([thing(key=f"k{at}", place=at, bucket=at % 2) for at in range(8)])
    filter = {"bucket": 1, "place": {"ge": 1}}
    token = (await db.search(thing.by_place, filter=filter, limit=1)).next_token
    for options in ({"read_budget": 2}, {"select": ["key"]}, {"limit": 3}):
        turned = {"place": {"ge": 1}, "bucket": {"eq": 1}}
        page = await db.search(thing.by_place, filter=turned, next_token=token, **options)
        assert page.items[0].key == "k3"
    for other in ({"bucket": 1}, {"bucket": 0, "place": {"ge": 1}}, {"bucket": 1, "place": {"gt": 1}}, None):
        with pytest.raises(TokenMismatch, match=r"was made for where \(?bucket eq 1"):
            await db.search(thing.by_place, filter=other, next_token=token)


# --- how many rounds -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filled:
    """A database with many records, and which of them lie in each bucket."""

    db: Database
    thing: type[Any]
    in_bucket: dict[int, list[str]]


async def fill(store: SqliteStore, shards: int, random: Random) -> Filled:
    """Records at random places, one in a hundred of them in each bucket."""
    catalog, thing = declared(shards)
    db = await database(store, catalog)
    records = [
        thing(key=f"k{at}", place=random.randrange(2**40), bucket=random.randrange(BUCKETS)) for at in range(RECORDS)
    ]
    assert await db.put_many(records) == [None] * RECORDS
    records.sort(key=lambda record: (record.place, record.key))
    in_bucket: dict[int, list[str]] = {}
    for record in records:
        in_bucket.setdefault(record.bucket, []).append(record.key)
    return Filled(db, thing, in_bucket)


class Batches(CountingStore):
    """Counts how often records are fetched by key, too."""

    batches = 0

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.batches += 1
        return await super().get_many(keys, consistent)


@dataclass(frozen=True)
class Cost:
    """What a page took: rounds of reads, batches of fetched records, records looked at in an index."""

    rounds: int
    batches: int
    records_read: int


async def costs_of_walks(filled: Filled, engine: Store, index: str, buckets: int) -> list[Cost]:
    """What each page takes of walks through some buckets, every one of which is complete."""
    costs = []
    store = Batches(engine)
    db = Database(filled.db.catalog, store, SEAL)
    for bucket, limit in product(range(buckets), [20, 50]):
        found: list[str] = []
        token = None
        while token is not None or not found:
            store.counts, store.batches = Counts(), 0
            page = await db.search(
                getattr(filled.thing, index), limit=limit, next_token=token, filter={"bucket": bucket}
            )
            costs.append(Cost(store.counts.rounds, store.batches, store.counts.records_read))
            assert page.stopped_by is None or store.counts.records_read >= READ_BUDGET
            found += [item.key for item in page.items]
            token = page.next_token
        assert found == filled.in_bucket[bucket]
    return costs


@pytest.mark.parametrize("shards", [16, 150])
@pytest.mark.parametrize("index", ["by_place", "by_keys"])
async def test_one_match_in_a_hundred_takes_few_rounds_and_stays_within_the_budget(
    index: str, shards: int, sqlite: SqliteStore, random: Random
) -> None:
    """A filter of 1 %, on rows or fetched records: 99 % of pages in 4 rounds, within the budget, walks complete."""
    filled = await fill(sqlite, shards, random)
    read_by_read = RememberedStore(sqlite)
    await read_by_read.remember()
    costs = await costs_of_walks(filled, read_by_read, index, depth(8, 50))
    assert len(costs) >= 100
    costs += await costs_of_walks(filled, sqlite, index, depth(1, 10))
    assert max(cost.records_read for cost in costs) <= READ_BUDGET
    assert 100 * sum(cost.rounds > 4 for cost in costs) <= len(costs)
    # Records are fetched in batches, and of these there are no more than of rounds.
    assert 100 * sum(cost.batches > 4 for cost in costs) <= len(costs)
    assert (sum(cost.batches for cost in costs) == 0) == (index == "by_place")


# --- selections ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
async def test_what_an_index_lacks_costs_one_batch_a_page(engine: Engine, sqlite: SqliteStore) -> None:
    """Selecting only what is carried costs no batch; anything else costs exactly one a page, and is never null."""
    catalog, thing = declared(16)
    await database(sqlite, catalog)
    store = Batches(engine(sqlite))
    db = Database(catalog, store, SEAL)
    records = [thing(key=f"k{at:02}", place=at, other=at, bucket=at + 1, note=f"n{at}") for at in range(60)]
    assert await db.put_many(records) == [None] * 60
    carried: list[tuple[Any, Sequence[str] | None]] = [
        (thing.by_place, None),
        (thing.by_place, ["note"]),
        (thing.by_keys, ["key", "place"]),
        (thing.by_keys, []),
        (thing.by_some, ["bucket", "place"]),
        (thing.by_raw, ["key", "other"]),
    ]
    lacking: list[tuple[Any, Sequence[str] | None]] = [
        (thing.by_keys, None),
        (thing.by_keys, ["place", "note"]),
        (thing.by_some, ["note"]),
        (thing.by_raw, ["key", "note"]),
    ]
    for index, select in carried + lacking:
        store.batches = 0
        pages = await walk(db, index, store, size=7, select=select)
        assert store.batches == (len(pages) if (index, select) in lacking else 0)
        for name in thing.model_fields if select is None else select:
            expected = [getattr(record, name) for record in records]
            assert [getattr(item, name) for page, _ in pages for item in page.items] == expected


async def test_what_was_not_selected_and_is_not_carried_is_missing(sqlite: SqliteStore) -> None:
    """A property that was not asked for is no default that could be taken for a value: there is none."""
    catalog, thing = declared(2)
    db = await database(sqlite, catalog)
    await db.put(thing(key="k", place=1, bucket=5, note="n"))
    (item,) = (await db.search(thing.by_some, select=["key"])).items
    assert (item.key, item.place, item.bucket) == ("k", 1, 5)
    assert not hasattr(item, "note")
    assert item.model_dump() == {"key": "k", "place": 1, "bucket": 5}

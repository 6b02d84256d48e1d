"""Regression tests for traversals: simpler rules for positions and tokens would lose or repeat records."""

from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, SubId, Timestamp
from graphql_api.database import Database
from graphql_api.model.markers import IndexRef
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.sqlite import SqliteStore, open_sqlite
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import RangeRead, ReadResult
from tests.support.store_doubles import IndependentReadsStore, InterleavingStore

SEAL = TokenSeal([b"s" * 32])


@pytest.fixture(params=["shared scan", "independent reads"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """The SQLite engine, with its single scan and with independent reads per shard."""
    inner: SqliteStore = await open_sqlite(tmp_path / "x.db")
    yield IndependentReadsStore(inner) if request.param == "independent reads" else inner
    await inner.close()


async def _filled_database(store: Store, catalog: Catalog, records: Sequence[Entity]) -> Database:
    await store.ensure_table(catalog.table_definition())
    db = Database(catalog, store, SEAL)
    assert await db.put_many(records) == [None] * len(records)
    return db


async def _all_records(
    db: Database, index: IndexRef, limit: int, *, backward: bool = False, **arguments: Any
) -> list[Any]:
    """Returns all records in result order, page by page; fails if the traversal does not end."""
    found: list[Any] = []
    token = None
    for _ in range(2000):
        if backward:
            page = await db.search(index, **arguments, last=limit, before=token)
            found[:0] = page.items
            token = page.start_cursor if page.has_previous else None
        else:
            page = await db.search(index, **arguments, limit=limit, next_token=token)
            found += page.items
            token = page.next_token
        if token is None:
            return found
    pytest.fail("the traversal does not end")


def _tied_records(shards: int, values: int, count: int) -> tuple[Catalog, type[Entity], list[Entity]]:
    class Thing(Entity, shards=Shards(shards)):
        """Many records have the same sort value."""

        key: Id[str]
        position: str

        by_position = Index(sort="position", raw=True)

    return Catalog(Thing), Thing, [Thing(key=f"k{at}", position=f"p{at % values:02}") for at in range(count)]


async def test_tied_records_are_returned_exactly_once(store: Store) -> None:
    """On a tied index each shard has its own position; one start key for all shards would lose hundreds of records."""
    catalog, thing, records = _tied_records(16, 20, 800)
    db = await _filled_database(store, catalog, records)
    for reverse in (False, True):
        found = await _all_records(db, IndexRef(thing, "by_position"), 7, reverse=reverse)
        assert [item.position for item in found] == sorted((item.position for item in found), reverse=reverse)
        assert {item.key for item in found} == {record.key for record in records}
        assert len(found) == 800


async def test_a_reverse_traversal_ends(store: Store) -> None:
    """A reverse traversal ends, although a descending read starts at the last record of the previous page."""

    class Thing(Entity, shards=Shards(3)):
        """A record without further properties."""

        key: Id[str]

    records = [Thing(key=f"k{at:03}") for at in range(50)]
    db = await _filled_database(store, Catalog(Thing), records)
    found = await _all_records(db, Thing.by_id, 1, reverse=True)
    assert found == records[::-1]


async def test_the_successor_of_a_prefix_is_not_in_its_range(store: Store) -> None:
    """A record whose id is exactly the successor of a prefix is not in the prefix's range, in either direction."""

    class Thing(Entity):
        """A record whose id is its whole range key."""

        key: Id[str]

    db = await _filled_database(store, Catalog(Thing), [Thing(key=key) for key in ("a", "ab", "b", "c")])
    for reverse in (False, True):
        found = await _all_records(db, Thing.by_id, 1, prefix="a", reverse=reverse)
        assert [item.key for item in found] == (["ab", "a"] if reverse else ["a", "ab"])


async def test_backward_is_forward_reversed_on_ties(store: Store) -> None:
    """A backward traversal reverses the shards and the engine's order within ties, too."""
    catalog, thing, records = _tied_records(5, 2, 60)
    db = await _filled_database(store, catalog, records)
    index = IndexRef(thing, "by_position")
    forward, reversed_ = await _all_records(db, index, 7), await _all_records(db, index, 7, reverse=True)
    assert reversed_ == forward[::-1]
    assert await _all_records(db, index, 4, backward=True) == forward
    assert await _all_records(db, index, 4, reverse=True, backward=True) == reversed_


async def test_a_generation_added_between_pages_keeps_shard_ordinals(store: Store) -> None:
    """Shard ordinals do not change with new generations, so positions on a tied index stay valid."""

    def catalog_with(shards: Shards) -> tuple[Catalog, type[Any]]:
        class Thing(Entity, shards=shards):
            """Many records have the same sort value."""

            key: Id[str]
            created: Created[Timestamp]
            position: str = "one"

            by_position = Index(sort="position", raw=True)

        return Catalog(Thing), Thing

    catalog, thing = catalog_with(Shards(5).then(3, since=100))
    records = [thing(key=f"k{at}", created=at * 2) for at in range(100)]
    db = await _filled_database(store, catalog, records)
    before = await _all_records(db, IndexRef(thing, "by_position"), 9)
    for limit in (1, 13, 50, 77):
        first = await db.search(IndexRef(thing, "by_position"), limit=limit)
        # The only shard of a generation has an empty text, and sorts before all others.
        grown, thing_grown = catalog_with(Shards(5).then(3, since=100).then(1, since=1000).then(16, since=2000))
        new = Database(grown, store, SEAL)
        rest: list[Any] = []
        token = first.next_token
        while token:
            page = await new.search(IndexRef(thing_grown, "by_position"), limit=9, next_token=token)
            rest += page.items
            token = page.next_token
        assert [item.key for item in [*first.items, *rest]] == [item.key for item in before]


async def test_history_entries_do_not_tie(store: Store) -> None:
    """Entries of a history with equal values do not tie, since range values end with the whole primary key."""

    class Entry(Entity, shards=Shards(4)):
        """One of many equal entries of an id."""

        order_id: Id[str]
        number: SubId[int]
        status: str

        by_status = Index(hash="status")

    records = [Entry(order_id=f"o{at % 3}", number=at, status="shipped") for at in range(60)]
    db = await _filled_database(store, Catalog(Entry), records)
    for limit in (1, 7):
        found = await _all_records(db, Entry.by_status, limit, status="shipped")
        assert sorted(item.number for item in found) == list(range(60))


async def test_texts_with_delimiters_sort_as_texts(store: Store) -> None:
    """Texts with delimiters or control characters sort as plain texts, and `eq` finds exactly the equal one."""

    class Thing(Entity):
        """A record with a name."""

        key: Id[str]
        name: str

        by_name = Index(sort="name")

    names = ["ann", "anna", "ann|", "ann}", "ann\x00", "ann\x01", "ann\x02", "", "ann\x01|x", "an", "\U0010ffff", "é"]
    db = await _filled_database(store, Catalog(Thing), [Thing(key=str(at), name=name) for at, name in enumerate(names)])
    assert [item.name for item in await _all_records(db, Thing.by_name, 1)] == sorted(names)
    exact = [[item.key for item in await _all_records(db, Thing.by_name, 2, eq=name)] for name in names]
    assert exact == [[str(at)] for at in range(len(names))]


async def test_a_record_that_moves_between_rounds_is_on_the_page_once(tmp_path: Path) -> None:
    """A record that moves between two rounds is on the page once, at the first of its positions."""

    class Thing(Entity, shards=Shards(4)):
        """A record that moves."""

        key: Id[str]
        position: int

        by_position = Index(sort="position")

    inner = await open_sqlite(tmp_path / "x.db")
    between = InterleavingStore(IndependentReadsStore(inner, max_rows=1))
    db = await _filled_database(between, Catalog(Thing), [Thing(key=f"k{at}", position=at) for at in range(20)])
    between.action = partial(db.put, Thing(key="k0", position=15))
    page = await db.search(Thing.by_position, limit=20)
    assert [item.key for item in page.items] == [f"k{at}" for at in range(20)]
    await inner.close()


async def test_an_engine_may_alternate_between_scans_and_independent_reads(tmp_path: Path) -> None:
    """If an engine alternates between a shared scan and reads per shard, tied records are returned once."""
    catalog, thing, records = _tied_records(6, 1, 60)
    inner = await open_sqlite(tmp_path / "x.db")
    independent = IndependentReadsStore(inner, max_rows=2)
    alternating_stores: Iterator[Store] = cycle([inner, independent, independent])

    class AlternatingStore(ForwardingStore):
        async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
            return await next(alternating_stores).read_ranges(reads, min(want, 3))

    db = await _filled_database(AlternatingStore(inner), catalog, records)
    found = await _all_records(db, IndexRef(thing, "by_position"), 7)
    assert sorted(item.key for item in found) == sorted(record.key for record in records)
    await inner.close()

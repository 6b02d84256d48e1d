"""Simpler-looking rules of search, resume and token lose or repeat records: a case against each of them."""

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
from graphql_api.storage.port import Store
from graphql_api.storage.values import RangeRead, ReadResult
from tests.stores import Between, ReadByRead, WrappedStore

SEAL = TokenSeal([b"s" * 32])


@pytest.fixture(params=["shared scan", "read by read"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """The embedded engine, by its one scan and as one that answers shard by shard."""
    inner: SqliteStore = await open_sqlite(tmp_path / "x.db")
    yield ReadByRead(inner) if request.param == "read by read" else inner
    await inner.close()


async def _filled(store: Store, catalog: Catalog, records: Sequence[Entity]) -> Database:
    await store.ensure_table(catalog.table_definition())
    db = Database(catalog, store, SEAL)
    assert await db.put_many(records) == [None] * len(records)
    return db


async def _walk(db: Database, index: IndexRef, limit: int, *, backward: bool = False, **arguments: Any) -> list[Any]:
    """All records in answer order, page by page; at most one page more than needed."""
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
    pytest.fail("the walk does not end")


def _tied(shards: int, values: int, count: int) -> tuple[Catalog, type[Entity], list[Entity]]:
    class Thing(Entity, shards=Shards(shards)):
        """Many of them share a place."""

        key: Id[str]
        place: str

        by_place = Index(sort="place", raw=True)

    return Catalog(Thing), Thing, [Thing(key=f"k{at}", place=f"p{at % values:02}") for at in range(count)]


async def test_one_position_on_a_tied_index_loses_and_doubles_nothing(store: Store) -> None:
    """800 records, 16 shards, 20 values: one synthetic start key for all shards would lose hundreds of them."""
    catalog, thing, records = _tied(16, 20, 800)
    db = await _filled(store, catalog, records)
    for reverse in (False, True):
        found = await _walk(db, IndexRef(thing, "by_place"), 7, reverse=reverse)
        assert [item.place for item in found] == sorted((item.place for item in found), reverse=reverse)
        assert {item.key for item in found} == {record.key for record in records}
        assert len(found) == 800


async def test_a_reverse_walk_ends(store: Store) -> None:
    """The record at a page's start is met again when an engine reads downwards: it is no progress, and no answer."""

    class Thing(Entity, shards=Shards(3)):
        """A record with a place of its own."""

        key: Id[str]

    records = [Thing(key=f"k{at:03}") for at in range(50)]
    db = await _filled(store, Catalog(Thing), records)
    found = await _walk(db, Thing.by_id, 1, reverse=True)
    assert found == records[::-1]


async def test_the_record_after_a_prefix_is_no_answer_and_no_progress(store: Store) -> None:
    """An id that is exactly the prefix's successor stands at the end of the range, read either way."""

    class Thing(Entity):
        """A record whose id is all of its range key."""

        key: Id[str]

    db = await _filled(store, Catalog(Thing), [Thing(key=key) for key in ("a", "ab", "b", "c")])
    for reverse in (False, True):
        found = await _walk(db, Thing.by_id, 1, prefix="a", reverse=reverse)
        assert [item.key for item in found] == (["ab", "a"] if reverse else ["a", "ab"])


async def test_backward_is_forward_reversed_on_ties(store: Store) -> None:
    """Walking backward turns the shards and the engine's order within a tie too, not only the values."""
    catalog, thing, records = _tied(5, 2, 60)
    db = await _filled(store, catalog, records)
    index = IndexRef(thing, "by_place")
    forward, reversed_ = await _walk(db, index, 7), await _walk(db, index, 7, reverse=True)
    assert reversed_ == forward[::-1]
    assert await _walk(db, index, 4, backward=True) == forward
    assert await _walk(db, index, 4, reverse=True, backward=True) == reversed_


async def test_growth_between_pages_renumbers_no_shard(store: Store) -> None:
    """A place on a tied index names its shard by an ordinal, which is the same in every later generation."""

    def catalog_with(shards: Shards) -> tuple[Catalog, type[Any]]:
        class Thing(Entity, shards=shards):
            """Many of them share a place."""

            key: Id[str]
            created: Created[Timestamp]
            place: str = "one"

            by_place = Index(sort="place", raw=True)

        return Catalog(Thing), Thing

    catalog, thing = catalog_with(Shards(5).then(3, since=100))
    records = [thing(key=f"k{at}", created=at * 2) for at in range(100)]
    db = await _filled(store, catalog, records)
    before = await _walk(db, IndexRef(thing, "by_place"), 9)
    for limit in (1, 13, 50, 77):
        first = await db.search(IndexRef(thing, "by_place"), limit=limit)
        # One shard has no text, and stands before all others.
        grown, thing_grown = catalog_with(Shards(5).then(3, since=100).then(1, since=1000).then(16, since=2000))
        new = Database(grown, store, SEAL)
        rest: list[Any] = []
        token = first.next_token
        while token:
            page = await new.search(IndexRef(thing_grown, "by_place"), limit=9, next_token=token)
            rest += page.items
            token = page.next_token
        assert [item.key for item in [*first.items, *rest]] == [item.key for item in before]


async def test_history_entries_do_not_tie(store: Store) -> None:
    """Range values end in the whole primary key: an id's entries with one status and time are all found."""

    class Entry(Entity, shards=Shards(4)):
        """One of many equal entries of an id."""

        order_id: Id[str]
        number: SubId[int]
        status: str

        by_status = Index(hash="status")

    records = [Entry(order_id=f"o{at % 3}", number=at, status="shipped") for at in range(60)]
    db = await _filled(store, Catalog(Entry), records)
    for limit in (1, 7):
        found = await _walk(db, Entry.by_status, limit, status="shipped")
        assert sorted(item.number for item in found) == list(range(60))


async def test_text_below_the_delimiters_sorts_as_text(store: Store) -> None:
    """With plain `|` between segments "anna" would come before "ann", and a prefix of one would hide the other."""

    class Thing(Entity):
        """A record with a name."""

        key: Id[str]
        name: str

        by_name = Index(sort="name")

    names = ["ann", "anna", "ann|", "ann}", "ann\x00", "ann\x01", "ann\x02", "", "ann\x01|x", "an", "\U0010ffff", "é"]
    db = await _filled(store, Catalog(Thing), [Thing(key=str(at), name=name) for at, name in enumerate(names)])
    assert [item.name for item in await _walk(db, Thing.by_name, 1)] == sorted(names)
    exact = [[item.key for item in await _walk(db, Thing.by_name, 2, eq=name)] for name in names]
    assert exact == [[str(at)] for at in range(len(names))]


async def test_a_record_that_moves_between_two_rounds_is_on_the_page_once(tmp_path: Path) -> None:
    """It is shown at the first of its places, and the other records of the page as if it had not moved."""

    class Thing(Entity, shards=Shards(4)):
        """A record that moves."""

        key: Id[str]
        place: int

        by_place = Index(sort="place")

    inner = await open_sqlite(tmp_path / "x.db")
    between = Between(ReadByRead(inner, most=1))
    db = await _filled(between, Catalog(Thing), [Thing(key=f"k{at}", place=at) for at in range(20)])
    between.action = partial(db.put, Thing(key="k0", place=15))
    page = await db.search(Thing.by_place, limit=20)
    assert [item.key for item in page.items] == [f"k{at}" for at in range(20)]
    await inner.close()


async def test_an_engine_may_answer_together_once_and_alone_then(tmp_path: Path) -> None:
    """A place that lies before what a read has shown already takes nothing back: ties come once."""
    catalog, thing, records = _tied(6, 1, 60)
    inner = await open_sqlite(tmp_path / "x.db")
    alone = ReadByRead(inner, most=2)
    turns: Iterator[Store] = cycle([inner, alone, alone])

    class Switching(WrappedStore):
        async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
            return await next(turns).read_ranges(reads, min(want, 3))

    db = await _filled(Switching(inner), catalog, records)
    found = await _walk(db, IndexRef(thing, "by_place"), 7)
    assert sorted(item.key for item in found) == sorted(record.key for record in records)
    await inner.close()

"""The check of the creation value on put, for entities with several shard generations."""

from collections.abc import Sequence
from pathlib import Path

from graphql_api import Catalog, Created, Entity, Id, Shards, SubId, Timestamp, Ttl
from graphql_api.database import Database
from graphql_api.errors import CreationChanged
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Key, Position, Put, RangeRead, ReadResult, RowPage
from graphql_api.writes.item_keys import to_item


class Growing(Entity, shards=Shards(2).then(4, since=1_000)):
    """A record of an entity with two shard generations."""

    key: Id[str]
    created: Created[Timestamp]
    note: str
    ends: Ttl[Timestamp] | None = None


class Log(Entity, shards=Shards(2).then(4, since=1_000)):
    """A history with two shard generations."""

    key: Id[str]
    at: SubId[int]
    created: Created[Timestamp]


class EmptyFirst(ForwardingStore):
    """Returns an empty first page with a continuation position for each hash key, as engines may do."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.started = set[str]()

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        answers: list[ReadResult] = []
        for read in reads:
            if read.hash_key in self.started:
                answers += await self.inner.read_ranges([read], want)
            else:
                self.started.add(read.hash_key)
                begin = read.range.high if read.descending else read.range.low
                answers.append(RowPage([], Position(str(begin), read.ordinal, Key("-", "-")), 0))
        return answers


async def test_the_creation_check_continues_after_an_empty_page(tmp_path: Path) -> None:
    """The creation check continues reading after an empty engine page."""
    inner = await open_sqlite(tmp_path / "x.db")
    catalog = Catalog(Log)
    await inner.ensure_table(catalog.table_definition())
    await Database(catalog, inner, TokenSeal([b"s" * 32])).put(Log(key="a", at=1, created=1))
    db = Database(catalog, EmptyFirst(inner), TokenSeal([b"s" * 32]))
    (problem,) = await db.put_many([Log(key="a", at=2, created=2_000)])
    assert isinstance(problem, CreationChanged)
    await inner.close()


async def test_an_invalid_stored_record_can_be_replaced(tmp_path: Path) -> None:
    """A stored record that lacks a required property can be replaced, and does not block other writes."""
    store = await open_sqlite(tmp_path / "x.db")
    catalog = Catalog(Growing)
    await store.ensure_table(catalog.table_definition())
    db = Database(catalog, store, TokenSeal([b"s" * 32]))
    record = Growing(key="a", created=1, note="n")
    old = {name: value for name, value in to_item(catalog.entity(Growing), record, None, "w").items() if name != "note"}
    assert await store.write([Put(old)]) == [None]
    assert await db.put_many([record, Growing(key="b", created=2, note="m")]) == [None, None]
    assert await db.get(Growing, "a") == record
    await store.close()


async def test_an_expired_record_frees_its_creation_value(tmp_path: Path) -> None:
    """An expired record does not block its id from a new creation value."""
    store = await open_sqlite(tmp_path / "x.db")
    catalog = Catalog(Growing)
    await store.ensure_table(catalog.table_definition())
    db = Database(catalog, store, TokenSeal([b"s" * 32]), clock=lambda: 500)
    await db.put(Growing(key="a", created=1, note="old", ends=400))
    new = Growing(key="a", created=2_000, note="new")
    await db.put(new)
    assert await db.get(Growing, "a") == new
    await store.close()

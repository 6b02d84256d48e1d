"""The price of writes: charges lie within estimates, no ceiling is passed, and SQLite charges as DynamoDB does."""

from dataclasses import replace
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from graphql_api import Catalog, Entity, Id, Index, Shards
from graphql_api import operations as operations_of
from graphql_api.database import Database
from graphql_api.errors import ItemTooLarge, OutcomeUnknown, QueryTooCostly, ShardQLError, StoreUnavailable
from graphql_api.query.token_seal import TokenSeal
from graphql_api.runtime.request_statistics import meter_capacity
from graphql_api.storage.engines.sqlite import SqliteStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Delete, Key, Put, TableDefinition, Write
from graphql_api.writes.commands import Create, Update
from tests.storage.test_capacity_units import TABLE, item
from tests.support.dynamodb_servers import Server
from tests.support.run_depth import depth
from tests.support.store_doubles import CountingStore
from tests.writes.conftest import OpenTable
from tests.writes.library_catalog import Library
from tests.writes.test_random_writes import WriteGenerator

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
MAX_UNITS = [10, 100, 1_000, 5_000, 20_000]


async def test_charges_of_random_writes_lie_within_estimates(library: Library) -> None:
    """A write that succeeds charges no less and no more than its estimate, on each engine."""
    db, writes, succeeded = library.db, WriteGenerator(Random(7)), 0
    for _ in range(depth(120, 1_500)):
        command = writes.command()
        estimate = db.estimate_writes([command])
        with meter_capacity() as meter:
            (result,) = await db.apply_each([command])
        assert meter.write_units is not None
        if isinstance(result, ShardQLError):
            continue
        succeeded += 1
        assert estimate.least <= meter.write_units <= estimate.most, command
        assert estimate.least <= estimate.expected <= estimate.most, command
    assert succeeded > 30


async def test_random_writes_never_pass_a_ceiling(library: Library) -> None:
    """Each write charges no more than its ceiling, or is refused; whatever fits succeeds."""
    db, writes, random, codes = library.db, WriteGenerator(Random(11)), Random(3), set[str]()
    for _ in range(depth(120, 1_500)):
        limited = db.limited(random.choice(MAX_UNITS))
        ceiling = limited.ceiling
        assert ceiling is not None
        with meter_capacity() as meter:
            (result,) = await limited.apply_each([writes.command()])
        codes.add(result.code if isinstance(result, ShardQLError) else "ok")
        if isinstance(result, QueryTooCostly):
            assert result.estimate is not None
        assert ceiling.reserved == 0
        assert meter.total is not None
        assert meter.total <= ceiling.charged <= ceiling.max_units
    assert codes >= {"ok", "QUERY_TOO_COSTLY"}


# --- the units of SQLite ---------------------------------------------------------------------------------------


def random_write(random: Random) -> Write:
    """Returns a write of one of three items, which differ in size, index keys and attributes."""
    key = random.choice("abc")
    if random.random() < 0.2:
        return Delete(Key("u!", key))
    written: dict[str, Any] = {**item(random.choice([10, 1_500, 3_000])), "rangeKey": key}
    written["s"] = random.choice("xy")
    for name in ("g", "h"):
        if random.random() < 0.3:
            del written[name]
    return Put(written)


async def charge(store: Store, write: Write, *, together: bool) -> float | None:
    """Returns the write units of a write."""
    with meter_capacity() as meter:
        if together:
            await store.write_together([write], uuid4().hex)
        else:
            assert await store.write([write]) == [None]
    return meter.write_units


@pytest.mark.parametrize("open_table", ["sqlite"], indirect=True)
async def test_sqlite_charges_as_dynamodb(open_table: OpenTable, dynamodb: Server) -> None:
    """The units that SQLite computes for a write are those that DynamoDB Local reports."""
    sqlite, other = await open_table(), await dynamodb.open(f"writes-{uuid4().hex}")
    assert isinstance(sqlite, SqliteStore)
    random = Random(5)
    for store in (sqlite, other):
        await store.ensure_table(TableDefinition(TABLE.indexes))
    for number in range(depth(60, 500)):
        write, together = random_write(random), random.random() < 0.3
        units = [await charge(store, write, together=together) for store in (sqlite, other)]
        assert units[0] == units[1], (number, write, together)
    await other.close()


# --- sizes and ceilings ----------------------------------------------------------------------------------------


class Note(Entity, shards=Shards(2), max_record_bytes=1_000):
    """A short note."""

    note_id: Id[str]
    text: str = ""

    by_text = Index(sort="text")


CATALOG = Catalog(Note)


async def notes(open_table: OpenTable) -> Database:
    """Returns an empty database of notes."""
    store = await open_table()
    await store.ensure_table(CATALOG.table_definition())
    return Database(CATALOG, store, SEAL)


async def test_records_above_the_declared_size_are_refused(open_table: OpenTable) -> None:
    """A record larger than `max_record_bytes` is refused, by every kind of write."""
    db = await notes(open_table)
    await db.put(Note(note_id="a", text="x"))
    large = Note(note_id="a", text="é" * 200)
    await db.put(large)
    too_large = Note(note_id="a", text="é" * 400)
    with pytest.raises(ItemTooLarge, match="at most 1,000 are allowed"):
        await db.put(too_large)
    with pytest.raises(ItemTooLarge):
        await db.create(Note(note_id="b", text="é" * 400))
    with pytest.raises(ItemTooLarge):
        await db.update(Note, "a", text="é" * 400)
    assert await db.get(Note, "a") == large


async def test_the_expected_charge_of_a_create(open_table: OpenTable) -> None:
    """The expected units of a create without constraints are its charge: the record and its entry, twice."""
    db = await notes(open_table)
    command = Create(CATALOG.entity(Note), {"note_id": "a", "text": "x"})
    with meter_capacity() as meter:
        await db.apply(command)
    assert db.estimate_writes([command]).expected == meter.write_units == 4


async def test_an_update_within_the_declared_size_fits_a_low_ceiling(open_table: OpenTable) -> None:
    """With a declared size, an update needs few units; without enough of them nothing is written."""
    db = await notes(open_table)
    await db.put(Note(note_id="a", text="x"))
    update = Update(CATALOG.entity(Note), ["a"], {"text": "y"})
    counting = CountingStore(db.store)
    limited = replace(db, store=counting).limited(6.5)
    with pytest.raises(QueryTooCostly) as refused:
        await limited.apply(update)
    assert counting.counts.writes == 0
    assert refused.value.estimate == db.estimate_writes([update]).describe()
    limited = db.limited(8)
    await limited.apply(update)
    assert limited.ceiling is not None
    assert limited.ceiling.charged <= 8


async def test_all_or_none_writes_under_a_ceiling(open_table: OpenTable) -> None:
    """Operations that do not fit together write nothing, and the error has the estimate of all of them."""
    db = await notes(open_table)
    operations = [operations_of.Create(Note(note_id=id)) for id in "ab"]
    with pytest.raises(QueryTooCostly) as refused:
        await db.limited(7.5).write(operations)
    assert refused.value.estimate is not None
    assert refused.value.estimate["expected"] == 8
    assert await db.get_many(Note, ["a", "b"]) == [None, None]
    limited = db.limited(8)
    await limited.write(operations)
    assert limited.ceiling is not None
    assert limited.ceiling.charged == 8


class LosingStore(CountingStore):
    """Loses the reply to every transaction."""

    async def write_together(self, writes: Any, token: str) -> None:
        await super().write_together(writes, token)
        raise StoreUnavailable("the reply is lost")


async def test_a_ceiling_does_not_turn_doubt_into_a_refusal(open_table: OpenTable) -> None:
    """If the reply to a write is lost and its retry does not fit, its outcome is reported as unknown."""
    db = await notes(open_table)
    losing = LosingStore(db.store)
    limited = replace(db, store=losing).limited(6)
    with pytest.raises(OutcomeUnknown):
        await limited.create(Note(note_id="a"))
    assert losing.counts.writes == 1
    assert await db.get(Note, "a") == Note(note_id="a")

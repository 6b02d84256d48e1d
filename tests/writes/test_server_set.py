"""Properties declared as `server_set()`: constructors do not require them, and each write of a record has them."""

from typing import Any

import pytest

from graphql_api import (
    Catalog,
    Created,
    Entity,
    Id,
    Index,
    Int32,
    Shards,
    SubId,
    Timestamp,
    Updated,
    Version,
    derived,
    server_set,
)
from graphql_api.database import Database
from graphql_api.errors import CreationChanged, InvalidRecord
from graphql_api.operations import Create
from graphql_api.operations import Put as PutOperation
from graphql_api.query.token_seal import TokenSeal
from graphql_api.schema.graph import build_schema
from graphql_api.storage.values import Put
from graphql_api.writes.item_keys import to_item
from tests.support.engine_params import on_both_engines
from tests.support.fake_clock import FakeClock
from tests.writes.conftest import OpenTable

NOW = 1_700_000_000


class Note(Entity, shards=Shards(1).then(16, since=NOW - 1_000)):
    """A note whose shard follows from its creation."""

    note_id: Id[str]
    text: str
    created: Created[Timestamp] = server_set()
    updated: Updated[Timestamp] = server_set()
    day: int = derived(lambda created: created // 86_400, "created")

    by_day = Index(sort="day")


class Counted(Entity):
    """A record with a version."""

    counted_id: Id[str]
    version: Version[Int32] = server_set()


class Visit(Entity, current="~now"):
    """A history with a current record."""

    visit_id: Id[str]
    step: SubId[str]
    begun: Created[Timestamp] = server_set()


class Declared(Entity):
    """The form without `server_set()`."""

    declared_id: Id[str]
    created: Created[Timestamp]
    updated: Updated[Timestamp]


CATALOG = Catalog(Note, Counted, Visit, Declared)


@pytest.fixture
def clock() -> FakeClock:
    """The clock of the database."""
    return FakeClock(NOW)


@pytest.fixture
async def db(open_table: OpenTable, clock: FakeClock) -> Database:
    """A database with an empty table."""
    store = await open_table()
    await store.ensure_table(CATALOG.table_definition())
    return Database(CATALOG, store, TokenSeal([bytes(range(32))]), clock=clock)


@on_both_engines
async def test_constructors_do_not_require_what_the_server_sets(db: Database) -> None:
    """A record has null until it is written; `create` returns it with the values that the server has set."""
    note = Note(note_id="n", text="a")
    unset: list[object] = [note.created, note.updated, note.day]
    assert unset == [None, None, None]
    assert note.key.generation is None
    created = await db.create(note)
    assert (created.created, created.updated, created.day) == (NOW, NOW, NOW // 86_400)
    assert await db.get(Note, "n") == created
    assert created.key.generation == 1


@on_both_engines
async def test_puts_set_the_creation_value_once(db: Database, clock: FakeClock) -> None:
    """A put of a new record sets the current time; a put of a stored one keeps its creation value, and its shard."""
    await db.put(Note(note_id="n", text="a"))
    clock.now += 100
    assert await db.put_many([Note(note_id="n", text="b"), Note(note_id="m", text="c")]) == [None, None]
    await db.write([PutOperation(Note(note_id="m", text="d")), Create(Note(note_id="o", text="e"))])
    read = [await db.get(Note, id) for id in "nmo"]
    assert [(one.text, one.created, one.updated) for one in read if one] == [
        ("b", NOW, NOW + 100),
        ("d", NOW + 100, NOW + 100),
        ("e", NOW + 100, NOW + 100),
    ]
    page = await db.search(Note.by_day)
    assert sorted(note.note_id for note in page.items) == ["m", "n", "o"]


@on_both_engines
async def test_a_provided_creation_value_still_counts(db: Database) -> None:
    """A provided value places the record, and cannot be changed by a later put."""
    await db.put(Note(note_id="n", text="a", created=5))
    stored = await db.get(Note, "n")
    assert stored is not None
    assert stored.created == 5
    with pytest.raises(CreationChanged):
        await db.put(Note(note_id="n", text="a", created=6))


@on_both_engines
async def test_versions_and_histories(db: Database, clock: FakeClock) -> None:
    """Versions count the writes, and all entries of a history get the creation value of the first one."""
    for _ in range(2):
        await db.put(Counted(counted_id="c"))
    counted = await db.get(Counted, "c")
    assert counted is not None
    assert counted.version == 2
    await db.put(Visit(visit_id="v", step="a"))
    clock.now += 7
    await db.put(Visit(visit_id="v", step="b"))
    current = await db.get(Visit, "v")
    assert current is not None
    assert current.begun == NOW
    assert [one.begun for one in (await db.search(Visit.by_id, visit_id="v")).items] == [NOW] * 3


async def test_a_stored_record_without_the_value_is_invalid(db: Database) -> None:
    """A record of an older release, which lacks the value, is refused as without `server_set()`, and never null."""
    spec = CATALOG.entity(Declared)
    record = Declared(declared_id="d", created=1, updated=2)
    for entity, names in ((CATALOG.entity(Note), ("created", "updated")), (spec, ("created", "updated"))):
        stored: Any = Note(note_id="d", text="x", created=1, updated=2) if entity is not spec else record
        for name in names:
            item = {part: value for part, value in to_item(entity, stored, None, "w").items() if part != name}
            await db.store.write([Put(item)])
            with pytest.raises(InvalidRecord, match=f"{name}: Field required"):
                await db.get(entity.model, "d")


def test_the_graphql_schema_is_that_of_the_form_without_it() -> None:
    """Inputs and outputs are equal, however the values are declared."""

    def entity(default: Any) -> type[Entity]:
        annotations = {"thing_id": Id[str], "created": Created[Timestamp], "version": Version[Int32]}
        defaults = {"created": default(), "version": default()} if default else {}
        body = {"__annotations__": annotations, "__module__": __name__, "__doc__": "A thing.", **defaults}
        return type("Thing", (Entity,), body)

    declared, left_out = (build_schema(Catalog(entity(default))).as_str() for default in (None, server_set))
    assert declared == left_out

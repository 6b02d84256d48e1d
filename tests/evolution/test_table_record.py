"""The record that a table stores about itself: what opening a table announces, and what it refuses."""

import logging
import sqlite3
from asyncio import gather
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api import UniqueTogether
from graphql_api.connection import Secrets, open_catalog
from graphql_api.database import Database
from graphql_api.errors import ConditionFailed, InvalidSettings, StoreUnavailable, WrongTable
from graphql_api.evolution import (
    EARLIER_FORMAT,
    TABLE_FORMAT,
    TABLE_RECORD_KEY,
    TableRecord,
    prepare_table,
    save_record,
)
from graphql_api.model.catalog import Catalog
from graphql_api.model.entity import Entity
from graphql_api.model.markers import Created, Id, Index, Shards, SubId, Timestamp, TimestampMs
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Put, TableDefinition, TransactionWrite
from tests.support.store_doubles import all_items

NOW = 1_000
SECRETS = Secrets((b"a secret of thirty-two bytes only",))


class User(Entity):
    """An entity with one shard."""

    user_id: Id[str]
    created: Created[Timestamp]
    name: str = ""

    by_name = Index(sort="name")


class Email(Entity):
    """An entity in the shards of its user."""

    email: Id[str]
    user_id: str | None = None
    created: Created[Timestamp]

    by_user = Index(hash="user_id", sort="created", sharded="User")


def catalog_of_users(shards: Shards, *others: type[Entity], **members: Any) -> Catalog:
    """A catalog in which users have these shards and members."""
    return Catalog(type("User", (User,), {"__module__": __name__, **members}, shards=shards), *others)


def model_of(catalog: Catalog, name: str) -> Any:
    """The class of an entity. Each catalog has its own."""
    return catalog.entity(name).model


def table_url(folder: Path) -> str:
    """The URL of the table of a test."""
    return f"sqlite:///{folder / 'table.db'}"


async def open_table(folder: Path, catalog: Catalog, now: float = NOW, **options: Any) -> None:
    """Open the table of a catalog, as a server does at its start. It builds nothing."""
    async with open_catalog(catalog, table_url(folder), clock=lambda: now, **{"migrate": False, **options}):
        pass


async def read_item(folder: Path) -> Item | None:
    """Return the stored form of the table's record."""
    store = await open_sqlite(folder / "table.db")
    try:
        return (await store.get_many([TABLE_RECORD_KEY], consistent=True))[0]
    finally:
        await store.close()


async def table_record(folder: Path) -> TableRecord:
    """Return the table's record."""
    item = await read_item(folder)
    assert item is not None
    return TableRecord.from_item(item)


async def states(folder: Path, kind: str) -> dict[str, str]:
    """Return the states of all elements of one kind, by entity and name."""
    elements = (await table_record(folder)).elements.values()
    return {f"{one.element.entity}.{one.element.name}": one.state for one in elements if one.element.kind == kind}


async def expect_rejection(folder: Path, catalog: Catalog, match: str, **options: Any) -> None:
    """Verify that opening the table fails and leaves its record unchanged."""
    before = await read_item(folder)
    with pytest.raises(WrongTable, match=match):
        await open_table(folder, catalog, **options)
    assert await read_item(folder) == before


# --- the record itself -----------------------------------------------------------------------------------------


async def test_a_new_table_knows_everything(tmp_path: Path) -> None:
    """A new table records its entities, and all elements as ready, generations of the past and the future too."""
    await open_table(tmp_path, catalog_of_users(Shards(1).then(4, since=10).then(16, since=5_000), Email))
    item = await read_item(tmp_path)
    assert item is not None
    assert len(item["_w"]) == 16
    assert {name: item[name] for name in ("format", "epoch", "leaseSeconds")} == {
        "format": TABLE_FORMAT,
        "epoch": 1,
        "leaseSeconds": "30.0",
    }
    record = await table_record(tmp_path)
    assert {name: data["size"] for name, data in record.entities.items()} == {"user": 1, "email": 1}
    assert {one.state for one in record.elements.values()} == {"ready"}
    assert {one.is_checked for one in record.elements.values()} == {True}
    assert await states(tmp_path, "index") == {"user.name": "ready", "email.user": "ready"}
    generations = {
        one.element.name: one.element.definition["size"]
        for one in record.of_entity("user")
        if one.element.kind == "generation"
    }
    assert generations == {"1": 4, "2": 16}


async def test_the_lease_of_a_new_table(tmp_path: Path) -> None:
    """The lease that the first server proposes is stored in the table, and later proposals change nothing."""
    await open_table(tmp_path, Catalog(User), lease_seconds=7.5)
    await open_table(tmp_path, Catalog(User), lease_seconds=60)
    assert (await table_record(tmp_path)).lease_seconds == 7.5
    with pytest.raises(InvalidSettings, match="lease_seconds is 0"):
        await open_table(tmp_path, Catalog(User), lease_seconds=0)


async def test_additions_to_known_entities_are_announced(tmp_path: Path) -> None:
    """What a catalog adds to an entity that the table knows is announced. Its index is not created yet."""
    await open_table(tmp_path, Catalog(User))
    more = {"by_created": Index(sort="created"), "unique_name": UniqueTogether("user_id", "name")}
    await open_table(tmp_path, catalog_of_users(Shards(1).then(4, since=2_000), Email, **more))
    assert await states(tmp_path, "index") == {"user.name": "ready", "user.created": "announced", "email.user": "ready"}
    assert set((await states(tmp_path, "unique")).values()) == {"announced"}
    assert await states(tmp_path, "generation") == {"user.1": "announced"}
    store = await open_sqlite(tmp_path / "table.db")
    table = await store.describe()
    await store.close()
    assert table is not None
    assert sorted(index.name for index in table.indexes) == ["name", "user"]


async def test_indexes_that_a_new_entity_lacks(tmp_path: Path) -> None:
    """If a server may not create the indexes of a new entity, they are announced, and the entity is served."""
    await open_table(tmp_path, Catalog(User))
    async with open_catalog(Catalog(User, Email), table_url(tmp_path), create_table=False) as db:
        await db.create(Email, email="a@b", created=1)
        assert await db.get(Email, "a@b") is not None
    assert await states(tmp_path, "index") == {"user.name": "ready", "email.user": "announced"}


async def test_a_missing_table_is_not_created(tmp_path: Path) -> None:
    """A server that may not create the table refuses to start without it."""
    for options in ({"create_table": False}, {"read_only": True}):
        with pytest.raises(WrongTable, match="There is no table"):
            await open_table(tmp_path, Catalog(User), **options)


async def test_read_only_servers_announce_nothing(tmp_path: Path) -> None:
    """A read-only server writes nothing to the table."""
    await open_table(tmp_path, Catalog(User))
    before = await read_item(tmp_path)
    await open_table(tmp_path, catalog_of_users(Shards(1), Email, by_created=Index(sort="created")), read_only=True)
    assert await read_item(tmp_path) == before


async def test_a_changed_index_order_is_rejected(tmp_path: Path) -> None:
    """An index with another order than its stored entries is rejected, with a remedy. Under a new name it is added."""

    def ordered_by(*sort: str, **named: Any) -> Catalog:
        return catalog_of_users(Shards(1), by_name=Index(sort=list(sort), **named))

    await open_table(tmp_path, ordered_by("name"))
    changed = "another definition of the index user.name, which is ready.*under another name="
    await expect_rejection(tmp_path, ordered_by("name", "created"), changed)
    await open_table(tmp_path, ordered_by("name", "created", name="nameCreated"))
    assert await states(tmp_path, "index") == {"user.name": "ready", "user.nameCreated": "announced"}
    await expect_rejection(tmp_path, ordered_by("name", raw=True), "range key")


async def test_announced_definitions_are_replaced(tmp_path: Path) -> None:
    """A definition that was never built gives way to another proposal."""
    await open_table(tmp_path, Catalog(User))
    for order in (["created"], ["created", "name"]):
        await open_table(tmp_path, catalog_of_users(Shards(1), by_created=Index(sort=order, name="more")))
        sort = (await table_record(tmp_path)).elements["user index more"].element.definition["sort"]
        assert [part["stored"] for part in sort] == order


async def test_reopening_writes_nothing(tmp_path: Path) -> None:
    """Opening the same catalog again, or one with less, writes nothing, at any later time."""
    catalog = catalog_of_users(Shards(1).then(4, since=10).then(16, since=5_000), Email)
    await open_table(tmp_path, catalog)
    watcher = sqlite3.connect(tmp_path / "table.db", isolation_level=None)
    try:
        before = watcher.execute("PRAGMA data_version").fetchone()
        await open_table(tmp_path, catalog, now=9_999, migrate=True)
        await open_table(tmp_path, catalog_of_users(Shards(1).then(4, since=10)))
        await open_table(tmp_path, Catalog(Email, User))
        assert watcher.execute("PRAGMA data_version").fetchone() == before
        await open_table(tmp_path, catalog_of_users(Shards(1), by_created=Index(sort="created")))
        assert watcher.execute("PRAGMA data_version").fetchone() != before
    finally:
        watcher.close()


@pytest.mark.parametrize("format_number", [0, 3, "1", None])
async def test_unknown_formats_are_rejected(tmp_path: Path, format_number: Any) -> None:
    """A table with an unknown format is rejected before any change."""
    store = await open_sqlite(tmp_path / "table.db")
    await store.ensure_table(TableDefinition())
    record = {"hashKey": TABLE_RECORD_KEY.hash, "rangeKey": TABLE_RECORD_KEY.range, "format": format_number}
    await store.write([Put(record)])
    await store.close()
    await expect_rejection(
        tmp_path, Catalog(User), f"format {format_number!r}.*format {TABLE_FORMAT}", adopt_table=True
    )
    store = await open_sqlite(tmp_path / "table.db")
    assert await store.describe() == TableDefinition()
    await store.close()


# --- tables of the earlier format ------------------------------------------------------------------------------


async def write_earlier_record(folder: Path, catalog: Catalog, indexes: dict[str, str]) -> None:
    """Create a table as a server of the earlier format does."""
    store = await open_sqlite(folder / "table.db")
    await store.ensure_table(catalog.table_definition())
    spaces = {
        name: {"width": 2, "function": "blake2b", "generations": [{"size": 1}, {"size": 4, "since": "2000"}]}
        for name in catalog.entities
    }
    key = {"hashKey": TABLE_RECORD_KEY.hash, "rangeKey": TABLE_RECORD_KEY.range}
    await store.write([Put({**key, "format": EARLIER_FORMAT, "spaces": spaces, "indexes": {"user": indexes}})])
    await store.close()


EARLIER_INDEXES = {
    "id": "hashKey: user; rangeKey: userId text",
    "name": "hashKey: user; nameRangeKey: name text, userId text",
}


async def test_tables_of_the_earlier_format(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A table of the earlier format is taken over: what it served is ready and unchecked, and the log warns."""
    grown = Shards(1).then(4, since=2_000)
    await write_earlier_record(tmp_path, catalog_of_users(grown), EARLIER_INDEXES)
    with caplog.at_level(logging.WARNING, "shardql"):
        await open_table(tmp_path, catalog_of_users(grown, by_created=Index(sort="created")))
    assert "Stop all servers of earlier releases first" in caplog.text
    record = await table_record(tmp_path)
    assert await states(tmp_path, "index") == {"user.name": "ready", "user.created": "announced"}
    assert await states(tmp_path, "generation") == {"user.1": "ready"}
    assert not record.elements["user index name"].is_checked
    assert record.epoch > 0


async def test_reading_a_table_of_the_earlier_format(tmp_path: Path) -> None:
    """A read-only server serves a table of the earlier format as before, and does not take it over."""
    catalog = catalog_of_users(Shards(1).then(4, since=2_000))
    await write_earlier_record(tmp_path, catalog, EARLIER_INDEXES)
    before = await read_item(tmp_path)
    async with open_catalog(catalog, table_url(tmp_path), read_only=True) as db:
        assert (await db.search(model_of(catalog, "User").by_name)).items == []
    assert await read_item(tmp_path) == before


async def test_changed_entries_of_the_earlier_format(tmp_path: Path) -> None:
    """A table of the earlier format whose entries have another order is refused."""
    catalog = catalog_of_users(Shards(1).then(4, since=2_000))
    await write_earlier_record(tmp_path, catalog, {**EARLIER_INDEXES, "name": "hashKey: user; nameRangeKey: name text"})
    await expect_rejection(tmp_path, catalog, "by_name are stored as hashKey: user; nameRangeKey: name text, and")


# --- what never changes ----------------------------------------------------------------------------------------

APPLIED = Shards(1).then(4, since=2_000).then(16, since=3_000)


@pytest.mark.parametrize(
    ("shards", "match"),
    [
        (Shards(2).then(4, since=2_000).then(16, since=3_000), "size of the first shard generation"),
        (Shards(1).then(5, since=2_000).then(16, since=3_000), "generation user.1"),
        (Shards(1).then(4, since=2_001).then(16, since=3_000), "generation user.1"),
        (Shards(1).then(2, since=1_500).then(4, since=2_000).then(16, since=3_000), "generation user.1"),
        (Shards(1, width=3).then(4, since=2_000).then(16, since=3_000), "shards of width 2.*3"),
        (Shards(1, function="string-hash").then(4, since=2_000).then(16, since=3_000), "blake2b.*string-hash"),
    ],
)
async def test_changes_of_applied_shards_are_rejected(tmp_path: Path, shards: Shards, match: str) -> None:
    """A catalog that changes a ready generation, the width or the function is rejected."""
    await open_table(tmp_path, catalog_of_users(APPLIED))
    await expect_rejection(tmp_path, catalog_of_users(shards), match)


async def test_older_catalogs_place_records_as_the_table_says(tmp_path: Path) -> None:
    """A server whose catalog lacks a ready generation uses it nevertheless."""
    await open_table(tmp_path, catalog_of_users(APPLIED))
    older = catalog_of_users(Shards(1))
    async with open_catalog(older, table_url(tmp_path), clock=lambda: NOW) as db:
        user = model_of(older, "User")
        await db.put_many([user(user_id=f"u{number}", created=2_000 + number) for number in range(20)])
        hash_keys = {item["hashKey"] for item in await all_items(db.store) if "userId" in item}
        assert hash_keys == {"user!00", "user!01", "user!02", "user!03"}
        assert len((await db.search(user.by_name, limit=50)).items) == 20


async def test_changed_types_of_creation_values_are_rejected(tmp_path: Path) -> None:
    """Generations in seconds are not equal to generations in milliseconds."""
    await open_table(tmp_path, catalog_of_users(Shards(1).then(4, since="2026-01-01")))

    class Other(Entity, name="user", shards=Shards(1).then(4, since="2026-01-01")):
        user_id: Id[str]
        created: Created[TimestampMs]

    await expect_rejection(tmp_path, Catalog(Other), "user")


async def test_changed_ids_are_rejected(tmp_path: Path) -> None:
    """A catalog with another id is rejected: record keys never change."""
    await open_table(tmp_path, Catalog(User))

    class Other(Entity, name="user"):
        other_id: Id[str]

    await expect_rejection(tmp_path, Catalog(Other), "the id userId text.* otherId text")


async def test_added_and_removed_entities(tmp_path: Path) -> None:
    """An added entity may have past generations. A removed entity stays known."""
    await open_table(tmp_path, Catalog(Email, User))
    await open_table(tmp_path, catalog_of_users(Shards(1)))

    class Ticket(Entity, shards=APPLIED):
        ticket_id: Id[str]
        created: Created[int]

    await open_table(tmp_path, Catalog(Ticket, User), now=9_999)
    assert sorted((await table_record(tmp_path)).entities) == ["email", "ticket", "user"]
    assert await states(tmp_path, "generation") == {"ticket.1": "ready", "ticket.2": "ready"}
    await expect_rejection(tmp_path, catalog_of_users(Shards(2)), "User was stored with")


# --- several processes -----------------------------------------------------------------------------------------


class OvertakenStore(ForwardingStore):
    """Runs another action before each transaction."""

    def __init__(self, inner: Store, *others: Callable[[], Awaitable[None]]) -> None:
        super().__init__(inner)
        self.others = list(others)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Write after the next action."""
        if self.others:
            await self.others.pop(0)()
        await super().write_together(writes, token)


class AlwaysConflictingStore(ForwardingStore):
    """Fails every transaction because of a concurrent change."""

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Fail as if the stored record had changed."""
        raise ConditionFailed("changed concurrently", position=0, old=None)


GROWN = Shards(1).then(4, since=2_000)


async def test_concurrent_opening_with_the_same_catalog(tmp_path: Path) -> None:
    """A process accepts the record that a concurrent process with the same catalog has written."""
    store = OvertakenStore(
        await open_sqlite(tmp_path / "table.db"), lambda: open_table(tmp_path, catalog_of_users(GROWN))
    )
    await prepare_table(store, catalog_of_users(GROWN))
    await store.close()
    assert store.others == []
    assert await states(tmp_path, "generation") == {"user.1": "ready"}


async def test_concurrent_opening_with_another_entity(tmp_path: Path) -> None:
    """Two concurrent catalogs that each add an entity are both recorded."""
    await open_table(tmp_path, catalog_of_users(Shards(1)))
    store = OvertakenStore(
        await open_sqlite(tmp_path / "table.db"), lambda: open_table(tmp_path, catalog_of_users(Shards(1), Email))
    )
    await prepare_table(store, catalog_of_users(GROWN))
    await store.close()
    assert await states(tmp_path, "generation") == {"user.1": "announced"}
    assert await states(tmp_path, "index") == {"user.name": "ready", "email.user": "ready"}


async def test_concurrent_opening_with_another_growth(tmp_path: Path) -> None:
    """A process reads the table record again after a concurrent growth, and is rejected if it conflicts."""
    await open_table(tmp_path, catalog_of_users(Shards(1)))
    other = Shards(1).then(8, since=3_000)

    async def build_other() -> None:
        await open_table(tmp_path, catalog_of_users(other))
        store = await open_sqlite(tmp_path / "table.db")
        record = await table_record(tmp_path)
        growth = replace(record.elements["user generation 1"], state="building")
        assert await save_record(store, record, record.changed(growth))
        await store.close()

    store = OvertakenStore(await open_sqlite(tmp_path / "table.db"), build_other)
    with pytest.raises(WrongTable, match=r"generation user\.1, which is building"):
        await prepare_table(store, catalog_of_users(GROWN))
    await store.close()
    assert (await table_record(tmp_path)).elements["user generation 1"].element.definition["size"] == 8


async def test_persistent_conflicts(tmp_path: Path) -> None:
    """A process whose transactions always conflict fails with a retryable error."""
    store = AlwaysConflictingStore(await open_sqlite(tmp_path / "table.db"))
    with pytest.raises(StoreUnavailable, match="keep changing the record of the table: retry") as problem:
        await prepare_table(store, catalog_of_users(GROWN))
    await store.close()
    assert problem.value.retryable
    assert await read_item(tmp_path) is None


async def test_many_concurrent_openings(tmp_path: Path) -> None:
    """Processes that open a new table concurrently agree on one table record."""
    await gather(*(open_table(tmp_path, catalog_of_users(APPLIED, Email)) for _ in range(6)))
    await open_table(tmp_path, catalog_of_users(APPLIED, Email))
    record = await table_record(tmp_path)
    assert record.epoch == 1
    assert await states(tmp_path, "generation") == {"user.1": "ready", "user.2": "ready"}


# --- records from before a growth ------------------------------------------------------------------------------


class Step(Entity):
    """A history."""

    order_id: Id[str]
    number: SubId[int]
    created: Created[Timestamp]

    by_created = Index(sort="created")


def catalog_with_history(shards: Shards) -> Catalog:
    """A catalog of users, their e-mails and a history, all with these shards."""
    grown = type("Step", (Step,), {"__module__": __name__}, shards=shards)
    return catalog_of_users(shards, Email, grown)


def open_database(folder: Path, catalog: Catalog, now: float) -> AbstractAsyncContextManager[Database]:
    """Open the table as a server at this time. All servers have the same secrets."""
    return open_catalog(catalog, table_url(folder), secrets=SECRETS, clock=lambda: now)


async def search_ids(
    db: Database, index: str, token: str | None = None, **arguments: Any
) -> tuple[list[str], str | None]:
    """Return the ids of one page of users or e-mails, and the token of the next page."""
    entity, attribute = index.split(".")
    model = model_of(db.catalog, entity)
    page = await db.search(getattr(model, attribute), **arguments, next_token=token)
    key = db.catalog.entity(entity).ids[0].name
    return [getattr(item, key) for item in page.items], page.next_token


async def test_old_records_are_found_after_a_growth(tmp_path: Path) -> None:
    """After two growths, every record is found by get, by search and by parent."""
    shard_versions = [Shards(1), Shards(1).then(4, since=2_000), Shards(1).then(4, since=2_000).then(16, since=3_000)]
    written: list[str] = []
    for version, shards in enumerate(shard_versions):
        created = NOW * (version + 1) + 1
        async with open_database(tmp_path, catalog_with_history(shards), now=created - 2 if version else NOW) as db:
            user, email, step = (model_of(db.catalog, name) for name in ("User", "Email", "Step"))
            for number in range(12):
                own_id = f"u{version}{number:02}"
                written.append(own_id)
                await db.put(user(user_id=own_id, created=created, name=own_id))
                await db.put(email(email=f"{own_id}@y", user_id="u000", created=created))
                await db.put(step(order_id=own_id, number=1, created=created))
    async with open_database(tmp_path, catalog_with_history(shard_versions[-1]), now=9_999) as db:
        user, email, step = (model_of(db.catalog, name) for name in ("User", "Email", "Step"))
        assert (await search_ids(db, "User.by_name", limit=50))[0] == written
        assert (await search_ids(db, "Email.by_user", user_id="u000"))[0] == [f"{own_id}@y" for own_id in written]
        assert (await search_ids(db, "Email.by_user", user_id="u000", from_=2_000, to=2_999))[0] == [
            f"{own_id}@y" for own_id in written[12:24]
        ]
        search_counts = set()
        for own_id in written:
            stored = await db.get(user, own_id)
            assert stored is not None
            entry = await db.get(step, own_id, number=1)
            assert entry is not None
            assert await db.get(step, own_id) == entry
            search_counts.add(len((await db.search(user.by_id, eq=own_id)).items))
        assert search_counts == {1}


async def test_page_tokens_survive_a_growth(tmp_path: Path) -> None:
    """A search that started before a growth continues after it, over old and new shards, without gaps or duplicates."""
    before = catalog_with_history(Shards(2))
    async with open_database(tmp_path, before, now=NOW) as db:
        user = model_of(db.catalog, "User")
        await db.put_many([user(user_id=f"u{number:02}", created=number, name=f"{number:02}") for number in range(20)])
        first, token = await search_ids(db, "User.by_name", limit=7)
    assert token is not None
    async with open_database(tmp_path, catalog_with_history(Shards(2).then(5, since=2_000)), now=NOW) as db:
        user = model_of(db.catalog, "User")
        await db.put_many(
            [user(user_id=f"v{number:02}", created=2_000 + number, name=f"{number:02}") for number in range(20)]
        )
        rest: list[str] = []
        while token is not None:
            more, token = await search_ids(db, "User.by_name", token, limit=3)
            rest += more
    assert first == [f"u{number:02}" for number in range(7)]
    # The cursor is after u06: v06 is after it, and earlier records are not returned.
    assert rest == ["v06", *(f"{kind}{number:02}" for number in range(7, 20) for kind in "uv")]


async def test_new_records_use_the_new_shards(tmp_path: Path) -> None:
    """Records since a growth use the new shards. Earlier records stay in their shards."""
    async with open_database(tmp_path, catalog_with_history(Shards(1).then(4, since=2_000)), now=NOW) as db:
        user = model_of(db.catalog, "User")
        await db.put_many([user(user_id=f"u{number}", created=1_999 + number % 2) for number in range(40)])
        stored: dict[int, set[str]] = {1_999: set(), 2_000: set()}
        for item in await all_items(db.store):
            if item["hashKey"].startswith("user!"):
                stored[item["created"]].add(item["hashKey"])
    assert stored == {1_999: {"user!"}, 2_000: {"user!00", "user!01", "user!02", "user!03"}}

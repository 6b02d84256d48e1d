"""The record that a table stores about itself, and the growth of shards."""

import sqlite3
from asyncio import gather
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any

import pytest

from graphql_api.connection import Secrets, open_catalog
from graphql_api.database import Database
from graphql_api.errors import ConditionFailed, GenerationTooEarly, StoreUnavailable, WrongTable
from graphql_api.evolution.table_record import TABLE_FORMAT, TABLE_RECORD_KEY, index_entry_formats, prepare_table
from graphql_api.model.catalog import Catalog
from graphql_api.model.entity import Entity
from graphql_api.model.markers import Created, Id, Index, Role, Shards, SubId, Timestamp, TimestampMs
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Put, TableDefinition, TransactionWrite
from tests.support.store_doubles import WrappedStore, all_items

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


def catalog_of_users(shards: Shards, *others: type[Entity]) -> Catalog:
    """A catalog in which users have these shards."""
    return Catalog(type("User", (User,), {"__module__": __name__}, shards=shards), *others)


def model_of(catalog: Catalog, name: str) -> Any:
    """The class of an entity. Each catalog has its own."""
    return catalog.entity(name).model


def table_url(folder: Path) -> str:
    """The URL of the table of a test."""
    return f"sqlite:///{folder / 'table.db'}"


async def open_table(folder: Path, catalog: Catalog, now: float = NOW) -> None:
    """Open the table of a catalog, as a server does at its start."""
    async with open_catalog(catalog, table_url(folder), clock=lambda: now):
        pass


async def read_table_record(folder: Path) -> Item | None:
    """Return the table record."""
    store = await open_sqlite(folder / "table.db")
    try:
        (meta,) = await store.get_many([TABLE_RECORD_KEY], consistent=True)
        return meta
    finally:
        await store.close()


async def recorded_generations(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the recorded generations by entity."""
    meta = await read_table_record(folder)
    assert meta is not None
    return {name: space["generations"] for name, space in meta["spaces"].items()}


async def expect_rejection(
    folder: Path, catalog: Catalog, error: type[Exception], match: str, now: float = NOW
) -> None:
    """Verify that opening the table fails and leaves the table record unchanged."""
    before = await read_table_record(folder)
    with pytest.raises(error, match=match):
        await open_table(folder, catalog, now)
    assert await read_table_record(folder) == before


async def put(folder: Path, catalog: Catalog, *records: Entity, tenant: str | None = None) -> None:
    """Write records as a server with this catalog."""
    async with open_catalog(catalog, table_url(folder), clock=lambda: NOW) as db:
        for record in records:
            await db.scoped(tenant=tenant).put(record)


# --- the record itself -----------------------------------------------------------------------------------------


async def test_a_new_table_records_all_generations(tmp_path: Path) -> None:
    """A new table records its format and all declared generations, past and future."""
    catalog = catalog_of_users(Shards(1).then(4, since=10).then(16, since=5_000), Email)
    await open_table(tmp_path, catalog)
    meta = await read_table_record(tmp_path)
    assert meta is not None
    assert len(meta["_w"]) == 16
    assert dict(meta) == {
        "hashKey": "shardql!",
        "rangeKey": "table#meta",
        "format": TABLE_FORMAT,
        "spaces": {
            "user": {
                "width": 2,
                "function": "blake2b",
                "generations": [{"size": 1}, {"size": 4, "since": "10"}, {"size": 16, "since": "5000"}],
            },
            "email": {"width": 2, "function": "blake2b", "generations": [{"size": 1}]},
        },
        "indexes": {entity.name: index_entry_formats(entity) for entity in catalog.entities.values()},
        "_w": meta["_w"],
    }


async def test_a_changed_index_order_is_rejected(tmp_path: Path) -> None:
    """An index with another order than its stored entries is rejected. The error names both orders."""

    def ordered_by(*sort: str, **named: Any) -> Catalog:
        by_name = Index(sort=list(sort), **named)
        return Catalog(type("User", (User,), {"__module__": __name__, "by_name": by_name}))

    await open_table(tmp_path, ordered_by("name"))
    changed = (
        "by_name are stored as hashKey: user; nameRangeKey: name text, userId text, and the catalog declares .*created"
    )
    await expect_rejection(tmp_path, ordered_by("name", "created"), WrongTable, changed)
    await open_table(tmp_path, ordered_by("name", "created", name="nameCreated"))
    meta = await read_table_record(tmp_path)
    assert meta is not None
    assert meta["indexes"]["user"] == {
        "id": "hashKey: user; rangeKey: userId text",
        "name": "hashKey: user; nameRangeKey: name text, userId text",
        "nameCreated": "hashKey: user; nameCreatedRangeKey: name text, created timestamp, userId text",
    }
    await expect_rejection(tmp_path, ordered_by("name", raw=True), WrongTable, "hashKey: user; name raw: name text")


async def test_reopening_writes_nothing(tmp_path: Path) -> None:
    """Opening the same catalog again writes nothing, at any later time."""
    catalog = catalog_of_users(Shards(1).then(4, since=10).then(16, since=5_000), Email)
    await open_table(tmp_path, catalog)
    watcher = sqlite3.connect(tmp_path / "table.db", isolation_level=None)
    try:
        before = watcher.execute("PRAGMA data_version").fetchone()
        await open_table(tmp_path, catalog, now=9_999)
        assert watcher.execute("PRAGMA data_version").fetchone() == before
        await open_table(
            tmp_path, catalog_of_users(Shards(1).then(4, since=10).then(16, since=5_000).then(5, since=10_000), Email)
        )
        assert watcher.execute("PRAGMA data_version").fetchone() != before
    finally:
        watcher.close()


@pytest.mark.parametrize("format_number", [0, 2, "1", None])
async def test_unknown_formats_are_rejected(tmp_path: Path, format_number: Any) -> None:
    """A table with an unknown format is rejected before any change."""
    store = await open_sqlite(tmp_path / "table.db")
    await store.ensure_table(TableDefinition())
    await store.write(
        [Put({"hashKey": TABLE_RECORD_KEY.hash, "rangeKey": TABLE_RECORD_KEY.range, "format": format_number})]
    )
    await store.close()
    await expect_rejection(tmp_path, catalog_of_users(Shards(1)), WrongTable, f"format {format_number!r}.*format 1")
    store = await open_sqlite(tmp_path / "table.db")
    assert await store.describe() == TableDefinition()
    await store.close()


# --- growth ----------------------------------------------------------------------------------------------------


async def test_future_generations_are_recorded(tmp_path: Path) -> None:
    """One or more added generations that start in the future are recorded after the applied ones."""
    await open_table(tmp_path, catalog_of_users(Shards(1)))
    await open_table(tmp_path, catalog_of_users(Shards(1).then(4, since=NOW + 1)))
    assert await recorded_generations(tmp_path) == {"user": [{"size": 1}, {"size": 4, "since": "1001"}]}
    await open_table(
        tmp_path, catalog_of_users(Shards(1).then(4, since=NOW + 1).then(8, since=NOW + 2).then(16, since=NOW + 9))
    )
    assert [each["size"] for each in (await recorded_generations(tmp_path))["user"]] == [1, 4, 8, 16]


@pytest.mark.parametrize("since", [NOW, NOW - 1, 0, -5])
async def test_past_generations_are_rejected(tmp_path: Path, since: int) -> None:
    """An added generation that starts now or earlier is rejected, and nothing is recorded."""
    await open_table(tmp_path, catalog_of_users(Shards(1)))
    message = f"User gets a shard generation since {since}, which is not in the future"
    await expect_rejection(
        tmp_path, catalog_of_users(Shards(1).then(4, since=since)), GenerationTooEarly, message, now=NOW + 0.9
    )


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "too_early", "in_time"),
    [
        (Timestamp, NOON, datetime(2026, 3, 1, 12, 0, 1, tzinfo=UTC)),
        (TimestampMs, NOON, datetime(2026, 3, 1, 12, 0, 0, 1_000, tzinfo=UTC)),
        (datetime, NOON, datetime(2026, 3, 1, 12, 0, 0, 1, tzinfo=UTC)),
        (date, date(2026, 3, 1), date(2026, 3, 2)),
    ],
)
async def test_start_dates_of_every_time_type(tmp_path: Path, kind: Any, too_early: date, in_time: date) -> None:
    """Seconds, milliseconds, datetimes and dates are compared with the current time in their own unit."""

    def catalog(shards: Shards) -> Catalog:
        annotations = {"thing_id": Id[str], "created": Annotated[kind, Role("created")]}
        return Catalog(
            type("Thing", (Entity,), {"__module__": __name__, "__annotations__": annotations}, shards=shards)
        )

    now = NOON.timestamp()
    await open_table(tmp_path, catalog(Shards(1)), now)
    await expect_rejection(
        tmp_path, catalog(Shards(1).then(4, since=too_early)), GenerationTooEarly, "not in the future", now
    )
    await open_table(tmp_path, catalog(Shards(1).then(4, since=in_time)), now)
    assert len((await recorded_generations(tmp_path))["thing"]) == 2


@pytest.mark.parametrize("tenant", [None, "acme", "a|b!c"])
async def test_generations_start_after_all_stored_records(tmp_path: Path, tenant: str | None) -> None:
    """A generation that starts at or before a stored creation value, of any tenant, is rejected."""
    old = catalog_of_users(Shards(1))
    model = model_of(old, "User")
    users = [model(user_id=f"u{number}", created=created) for number, created in enumerate([5, 1_700, 1_600])]
    await put(tmp_path, old, *users, tenant=tenant)
    for since in (NOW + 1, 1_700):
        message = f"since {since}, and a record in its shards was created at 1700"
        await expect_rejection(tmp_path, catalog_of_users(Shards(1).then(4, since=since)), GenerationTooEarly, message)
    await open_table(tmp_path, catalog_of_users(Shards(1).then(4, since=1_701)))
    assert len((await recorded_generations(tmp_path))["user"]) == 2


async def test_generations_start_after_records_of_sharded_children(tmp_path: Path) -> None:
    """Records in the shards of a parent count for its growth, by their own creation value."""
    old = catalog_of_users(Shards(1), Email)
    await put(tmp_path, old, Email(email="x@y", user_id="u", created=1_800))
    too_early = catalog_of_users(Shards(1).then(4, since=1_800), Email)
    await expect_rejection(tmp_path, too_early, GenerationTooEarly, "User .* since 1800.* created at 1800")
    await open_table(tmp_path, catalog_of_users(Shards(1).then(4, since=1_801), Email))
    grown = await recorded_generations(tmp_path)
    assert (len(grown["user"]), len(grown["email"])) == (2, 1)


class Ticket(Entity):
    """An entity whose creation values are not times."""

    ticket_id: Id[str]
    created: Created[int]


async def test_numeric_generations_start_after_stored_records(tmp_path: Path) -> None:
    """If creation values are numbers, an added generation only has to start after all stored ones."""

    def tickets(shards: Shards) -> Catalog:
        return Catalog(type("Ticket", (Ticket,), {"__module__": __name__}, shards=shards))

    old = tickets(Shards(1))
    model = model_of(old, "Ticket")
    await put(tmp_path, old, model(ticket_id="t", created=7))
    await expect_rejection(tmp_path, tickets(Shards(1).then(4, since=7)), GenerationTooEarly, "created at 7")
    await open_table(tmp_path, tickets(Shards(1).then(4, since=8)))
    assert (await recorded_generations(tmp_path))["ticket"][1] == {"size": 4, "since": "8"}


async def test_a_rejected_catalog_adds_no_index(tmp_path: Path) -> None:
    """A rejected catalog does not add its indexes to the table."""
    await open_table(tmp_path, catalog_of_users(Shards(1)))
    await expect_rejection(
        tmp_path, catalog_of_users(Shards(1).then(4, since=1), Email), GenerationTooEarly, "not in the future"
    )
    store = await open_sqlite(tmp_path / "table.db")
    table = await store.describe()
    await store.close()
    assert table is not None
    assert [index.name for index in table.indexes] == ["name"]


# --- what never changes ----------------------------------------------------------------------------------------

APPLIED = Shards(1).then(4, since=2_000).then(16, since=3_000)


@pytest.mark.parametrize(
    ("shards", "match"),
    [
        (
            Shards(1).then(4, since=2_000),
            "1, 4 since 2000, 16 since 3000, and the catalog declares 1, 4 since 2000: keep",
        ),
        (Shards(1), "and the catalog declares 1: keep"),
        (Shards(2).then(4, since=2_000).then(16, since=3_000), "and the catalog declares 2, 4"),
        (Shards(1).then(5, since=2_000).then(16, since=3_000), "5 since 2000"),
        (Shards(1).then(4, since=2_001).then(16, since=3_000), "4 since 2001"),
        (Shards(1).then(2, since=1_500).then(4, since=2_000).then(16, since=3_000), "2 since 1500"),
        (Shards(1, width=3).then(4, since=2_000).then(16, since=3_000), "width 2 by blake2b.* width 3 by blake2b"),
        (Shards(1, function="string-hash").then(4, since=2_000).then(16, since=3_000), "width 2 by string-hash"),
    ],
)
async def test_changes_of_applied_shards_are_rejected(tmp_path: Path, shards: Shards, match: str) -> None:
    """A catalog that lacks or changes an applied generation, the width or the function is rejected."""
    await open_table(tmp_path, catalog_of_users(APPLIED))
    await expect_rejection(tmp_path, catalog_of_users(shards), WrongTable, match)


async def test_changed_types_of_creation_values_are_rejected(tmp_path: Path) -> None:
    """Generations in seconds are not equal to generations in milliseconds."""
    await open_table(tmp_path, catalog_of_users(Shards(1).then(4, since="2026-01-01")))

    class Other(Entity, name="user", shards=Shards(1).then(4, since="2026-01-01")):
        user_id: Id[str]
        created: Created[TimestampMs]

    await expect_rejection(
        tmp_path, Catalog(Other), WrongTable, "4 since 1767225600, and the catalog declares 1, 4 since 1767225600000"
    )


async def test_added_entities_record_all_generations(tmp_path: Path) -> None:
    """An added entity may have past generations. The generations of a removed entity stay recorded."""
    await open_table(tmp_path, Catalog(Email, User))
    with_tickets = Catalog(type("Ticket", (Ticket,), {"__module__": __name__}, shards=APPLIED))
    await open_table(tmp_path, with_tickets, now=9_999)
    grown = await recorded_generations(tmp_path)
    assert [len(grown[name]) for name in ("email", "user", "ticket")] == [1, 1, 3]
    await expect_rejection(
        tmp_path, catalog_of_users(Shards(2)), WrongTable, "User was stored with the shard generations 1"
    )
    await expect_rejection(tmp_path, Catalog(Ticket), WrongTable, "Ticket was stored")


# --- several processes -----------------------------------------------------------------------------------------


class OvertakenStore(WrappedStore):
    """Runs another action before each transaction."""

    def __init__(self, inner: Store, *others: Callable[[], Awaitable[None]]) -> None:
        super().__init__(inner)
        self.others = list(others)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Write after the next action."""
        if self.others:
            await self.others.pop(0)()
        await super().write_together(writes, token)


class AlwaysConflictingStore(WrappedStore):
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
    await prepare_table(store, catalog_of_users(GROWN), NOW)
    await store.close()
    assert store.others == []
    assert await recorded_generations(tmp_path) == {"user": [{"size": 1}, {"size": 4, "since": "2000"}]}


async def test_concurrent_opening_with_another_entity(tmp_path: Path) -> None:
    """Two concurrent catalogs that each add an entity are both recorded."""
    await open_table(tmp_path, catalog_of_users(Shards(1)))
    store = OvertakenStore(
        await open_sqlite(tmp_path / "table.db"), lambda: open_table(tmp_path, catalog_of_users(Shards(1), Email))
    )
    await prepare_table(store, catalog_of_users(GROWN), NOW)
    await store.close()
    assert {name: len(each) for name, each in (await recorded_generations(tmp_path)).items()} == {"user": 2, "email": 1}


async def test_concurrent_opening_with_another_growth(tmp_path: Path) -> None:
    """A process reads the table record again after a concurrent growth, and is rejected if it conflicts."""
    await open_table(tmp_path, catalog_of_users(Shards(1)))
    other = Shards(1).then(8, since=3_000)
    store = OvertakenStore(
        await open_sqlite(tmp_path / "table.db"), lambda: open_table(tmp_path, catalog_of_users(other))
    )
    with pytest.raises(WrongTable, match="8 since 3000, and the catalog declares 1, 4 since 2000"):
        await prepare_table(store, catalog_of_users(GROWN), NOW)
    await store.close()
    assert await recorded_generations(tmp_path) == {"user": [{"size": 1}, {"size": 8, "since": "3000"}]}


async def test_persistent_conflicts(tmp_path: Path) -> None:
    """A process whose transactions always conflict fails with a retryable error."""
    store = AlwaysConflictingStore(await open_sqlite(tmp_path / "table.db"))
    with pytest.raises(StoreUnavailable, match="keep changing the record of the table: retry") as problem:
        await prepare_table(store, catalog_of_users(GROWN), NOW)
    await store.close()
    assert problem.value.retryable
    assert await read_table_record(tmp_path) is None


async def test_many_concurrent_openings(tmp_path: Path) -> None:
    """Processes that open a new table concurrently agree on one table record."""
    await gather(*(open_table(tmp_path, catalog_of_users(APPLIED, Email)) for _ in range(6)))
    await open_table(tmp_path, catalog_of_users(APPLIED, Email))
    assert {name: len(each) for name, each in (await recorded_generations(tmp_path)).items()} == {"user": 3, "email": 1}


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

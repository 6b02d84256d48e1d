"""What a table records about itself, and how its shards may grow."""

import sqlite3
from asyncio import gather
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any

import pytest

from graphql_api.database import Database
from graphql_api.errors import ConditionFailed, GenerationTooEarly, StoreUnavailable, WrongTable
from graphql_api.evolution.table_record import TABLE_RECORD_KEY, TABLE_FORMAT, prepare_table, index_entry_formats
from graphql_api.model.catalog import Catalog
from graphql_api.model.entity import Entity
from graphql_api.model.markers import Created, Id, Index, Role, Shards, SubId, Timestamp, TimestampMs
from graphql_api.opening import Secrets, open_catalog
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Put, TableDefinition, TransactionWrite
from tests.stores import WrappedStore, all_items

NOW = 1_000
SECRETS = Secrets((b"a secret of thirty-two bytes only",))


class User(Entity):
    """Not sharded yet."""

    user_id: Id[str]
    created: Created[Timestamp]
    name: str = ""

    by_name = Index(sort="name")


class Email(Entity):
    """Lies beside its user."""

    email: Id[str]
    user_id: str | None = None
    created: Created[Timestamp]

    by_user = Index(hash="user_id", sort="created", sharded="User")


def users(shards: Shards, *others: type[Entity]) -> Catalog:
    """The catalog of a release in which users have these shards."""
    return Catalog(type("User", (User,), {"__module__": __name__}, shards=shards), *others)


def model_of(catalog: Catalog, name: str) -> Any:
    """The class of an entity, which each release makes anew."""
    return catalog.entity(name).model


def url_of(folder: Path) -> str:
    """The table of a test."""
    return f"sqlite:///{folder / 'table.db'}"


async def opened(folder: Path, catalog: Catalog, now: float = NOW) -> None:
    """Opens a catalog's table as a server does when it starts."""
    async with open_catalog(catalog, url_of(folder), clock=lambda: now):
        pass


async def meta_of(folder: Path) -> Item | None:
    """What the table says about itself."""
    store = await open_sqlite(folder / "table.db")
    try:
        (meta,) = await store.get_many([TABLE_RECORD_KEY], consistent=True)
        return meta
    finally:
        await store.close()


async def recorded(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The generations that were applied, by entity."""
    meta = await meta_of(folder)
    assert meta is not None
    return {name: space["generations"] for name, space in meta["spaces"].items()}


async def refused(folder: Path, catalog: Catalog, error: type[Exception], match: str, now: float = NOW) -> None:
    """Opening fails and leaves the table's record of itself as it is, to the write."""
    before = await meta_of(folder)
    with pytest.raises(error, match=match):
        await opened(folder, catalog, now)
    assert await meta_of(folder) == before


async def put(folder: Path, catalog: Catalog, *records: Entity, tenant: str | None = None) -> None:
    """Writes records as a server with that catalog does."""
    async with open_catalog(catalog, url_of(folder), clock=lambda: NOW) as db:
        for record in records:
            await db.scoped(tenant=tenant).put(record)


# --- the record itself -----------------------------------------------------------------------------------------


async def test_a_new_table_takes_all_generations(tmp_path: Path) -> None:
    """A new table records its format and every declared generation, those that began long ago and those to come."""
    catalog = users(Shards(1).then(4, since=10).then(16, since=5_000), Email)
    await opened(tmp_path, catalog)
    meta = await meta_of(tmp_path)
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


async def test_an_index_whose_entries_were_made_otherwise_is_refused(tmp_path: Path) -> None:
    """Another order under the name of an old one would miss the records that stand there: both orders are named."""

    def ordered_by(*sort: str, **named: Any) -> Catalog:
        by_name = Index(sort=list(sort), **named)
        return Catalog(type("User", (User,), {"__module__": __name__, "by_name": by_name}))

    await opened(tmp_path, ordered_by("name"))
    changed = "by_name are stored as hashKey: user; nameRangeKey: name text, userId text, and the catalog declares .*created"
    await refused(tmp_path, ordered_by("name", "created"), WrongTable, changed)
    await opened(tmp_path, ordered_by("name", "created", name="nameCreated"))
    meta = await meta_of(tmp_path)
    assert meta is not None
    assert meta["indexes"]["user"] == {
        "id": "hashKey: user; rangeKey: userId text",
        "name": "hashKey: user; nameRangeKey: name text, userId text",
        "nameCreated": "hashKey: user; nameCreatedRangeKey: name text, created timestamp, userId text",
    }
    await refused(tmp_path, ordered_by("name", raw=True), WrongTable, "hashKey: user; name raw: name text")


async def test_opening_again_writes_nothing(tmp_path: Path) -> None:
    """The same catalog, opened again, leaves the file as it is, however late it has become."""
    catalog = users(Shards(1).then(4, since=10).then(16, since=5_000), Email)
    await opened(tmp_path, catalog)
    watcher = sqlite3.connect(tmp_path / "table.db", isolation_level=None)
    try:
        before = watcher.execute("PRAGMA data_version").fetchone()
        await opened(tmp_path, catalog, now=9_999)
        assert watcher.execute("PRAGMA data_version").fetchone() == before
        await opened(tmp_path, users(Shards(1).then(4, since=10).then(16, since=5_000).then(5, since=10_000), Email))
        assert watcher.execute("PRAGMA data_version").fetchone() != before
    finally:
        watcher.close()


@pytest.mark.parametrize("format_number", [0, 2, "1", None])
async def test_another_format_is_refused(tmp_path: Path, format_number: Any) -> None:
    """A table of another format is refused before anything of it is touched."""
    store = await open_sqlite(tmp_path / "table.db")
    await store.ensure_table(TableDefinition())
    await store.write([Put({"hashKey": TABLE_RECORD_KEY.hash, "rangeKey": TABLE_RECORD_KEY.range, "format": format_number})])
    await store.close()
    await refused(tmp_path, users(Shards(1)), WrongTable, f"format {format_number!r}.*format 1")
    store = await open_sqlite(tmp_path / "table.db")
    assert await store.describe() == TableDefinition()
    await store.close()


# --- growth ----------------------------------------------------------------------------------------------------


async def test_a_generation_of_the_future_is_recorded(tmp_path: Path) -> None:
    """Added generations that begin after now are recorded, several at once too, behind those that were applied."""
    await opened(tmp_path, users(Shards(1)))
    await opened(tmp_path, users(Shards(1).then(4, since=NOW + 1)))
    assert await recorded(tmp_path) == {"user": [{"size": 1}, {"size": 4, "since": "1001"}]}
    await opened(tmp_path, users(Shards(1).then(4, since=NOW + 1).then(8, since=NOW + 2).then(16, since=NOW + 9)))
    assert [each["size"] for each in (await recorded(tmp_path))["user"]] == [1, 4, 8, 16]


@pytest.mark.parametrize("since", [NOW, NOW - 1, 0, -5])
async def test_a_generation_of_the_past_is_refused(tmp_path: Path, since: int) -> None:
    """An added generation that begins now or earlier is refused, and nothing is recorded."""
    await opened(tmp_path, users(Shards(1)))
    wanted = f"User gets a shard generation since {since}, which is not in the future"
    await refused(tmp_path, users(Shards(1).then(4, since=since)), GenerationTooEarly, wanted, now=NOW + 0.9)


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
async def test_every_kind_of_time_knows_the_present(tmp_path: Path, kind: Any, too_early: date, in_time: date) -> None:
    """Seconds, milliseconds, datetimes and dates are compared with now in their own unit."""

    def catalog(shards: Shards) -> Catalog:
        annotations = {"thing_id": Id[str], "created": Annotated[kind, Role("created")]}
        return Catalog(
            type("Thing", (Entity,), {"__module__": __name__, "__annotations__": annotations}, shards=shards)
        )

    now = NOON.timestamp()
    await opened(tmp_path, catalog(Shards(1)), now)
    await refused(tmp_path, catalog(Shards(1).then(4, since=too_early)), GenerationTooEarly, "not in the future", now)
    await opened(tmp_path, catalog(Shards(1).then(4, since=in_time)), now)
    assert len((await recorded(tmp_path))["thing"]) == 2


@pytest.mark.parametrize("tenant", [None, "acme", "a|b!c"])
async def test_a_generation_begins_after_every_stored_record(tmp_path: Path, tenant: str | None) -> None:
    """A generation that begins at or before a stored creation value, of whatever tenant, is refused."""
    old = users(Shards(1))
    model = model_of(old, "User")
    ahead = [model(user_id=f"u{number}", created=created) for number, created in enumerate([5, 1_700, 1_600])]
    await put(tmp_path, old, *ahead, tenant=tenant)
    for since in (NOW + 1, 1_700):
        wanted = f"since {since}, and a record in its shards was created at 1700"
        await refused(tmp_path, users(Shards(1).then(4, since=since)), GenerationTooEarly, wanted)
    await opened(tmp_path, users(Shards(1).then(4, since=1_701)))
    assert len((await recorded(tmp_path))["user"]) == 2


async def test_records_beside_their_parent_count_for_its_growth(tmp_path: Path) -> None:
    """A stored e-mail lies in the user's shards by its own creation value, so users grow only after that too."""
    old = users(Shards(1), Email)
    await put(tmp_path, old, Email(email="x@y", user_id="u", created=1_800))
    too_early = users(Shards(1).then(4, since=1_800), Email)
    await refused(tmp_path, too_early, GenerationTooEarly, "User .* since 1800.* created at 1800")
    await opened(tmp_path, users(Shards(1).then(4, since=1_801), Email))
    grown = await recorded(tmp_path)
    assert (len(grown["user"]), len(grown["email"])) == (2, 1)


class Ticket(Entity):
    """Its creation values are no times."""

    ticket_id: Id[str]
    created: Created[int]


async def test_plain_numbers_are_compared_with_records_alone(tmp_path: Path) -> None:
    """Where creation values are no times, an added generation has to begin behind every stored one, and that is all."""

    def tickets(shards: Shards) -> Catalog:
        return Catalog(type("Ticket", (Ticket,), {"__module__": __name__}, shards=shards))

    old = tickets(Shards(1))
    model = model_of(old, "Ticket")
    await put(tmp_path, old, model(ticket_id="t", created=7))
    await refused(tmp_path, tickets(Shards(1).then(4, since=7)), GenerationTooEarly, "created at 7")
    await opened(tmp_path, tickets(Shards(1).then(4, since=8)))
    assert (await recorded(tmp_path))["ticket"][1] == {"size": 4, "since": "8"}


async def test_a_refused_growth_adds_no_index(tmp_path: Path) -> None:
    """A catalog that is refused leaves the table without the indexes that it would have added."""
    await opened(tmp_path, users(Shards(1)))
    await refused(tmp_path, users(Shards(1).then(4, since=1), Email), GenerationTooEarly, "not in the future")
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
        (Shards(1).then(4, since=2_000), "1, 4 since 2000, 16 since 3000, and the catalog declares 1, 4 since 2000: keep"),
        (Shards(1), "and the catalog declares 1: keep"),
        (Shards(2).then(4, since=2_000).then(16, since=3_000), "and the catalog declares 2, 4"),
        (Shards(1).then(5, since=2_000).then(16, since=3_000), "5 since 2000"),
        (Shards(1).then(4, since=2_001).then(16, since=3_000), "4 since 2001"),
        (Shards(1).then(2, since=1_500).then(4, since=2_000).then(16, since=3_000), "2 since 1500"),
        (Shards(1, width=3).then(4, since=2_000).then(16, since=3_000), "width 2 by blake2b.* width 3 by blake2b"),
        (Shards(1, function="string-hash").then(4, since=2_000).then(16, since=3_000), "width 2 by string-hash"),
    ],
)
async def test_applied_shards_never_change(tmp_path: Path, shards: Shards, match: str) -> None:
    """A catalog that lacks an applied generation or changes one, the width or the function is refused."""
    await opened(tmp_path, users(APPLIED))
    await refused(tmp_path, users(shards), WrongTable, match)


async def test_another_kind_of_creation_value_is_refused(tmp_path: Path) -> None:
    """Generations that began at seconds do not begin at the same number of milliseconds."""
    await opened(tmp_path, users(Shards(1).then(4, since="2026-01-01")))

    class Other(Entity, name="user", shards=Shards(1).then(4, since="2026-01-01")):
        user_id: Id[str]
        created: Created[TimestampMs]

    await refused(
        tmp_path, Catalog(Other), WrongTable, "4 since 1767225600, and the catalog declares 1, 4 since 1767225600000"
    )


async def test_an_added_entity_takes_all_its_generations(tmp_path: Path) -> None:
    """An entity that joins later brings generations of any age; one that left is still remembered when it returns."""
    await opened(tmp_path, Catalog(Email, User))
    with_tickets = Catalog(type("Ticket", (Ticket,), {"__module__": __name__}, shards=APPLIED))
    await opened(tmp_path, with_tickets, now=9_999)
    grown = await recorded(tmp_path)
    assert [len(grown[name]) for name in ("email", "user", "ticket")] == [1, 1, 3]
    await refused(tmp_path, users(Shards(2)), WrongTable, "User was stored with the shard generations 1")
    await refused(tmp_path, Catalog(Ticket), WrongTable, "Ticket was stored")


# --- several processes -----------------------------------------------------------------------------------------


class Overtaken(WrappedStore):
    """Lets others go first, whenever something is about to be written together."""

    def __init__(self, inner: Store, *others: Callable[[], Awaitable[None]]) -> None:
        super().__init__(inner)
        self.others = list(others)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Writes after the next of the others."""
        if self.others:
            await self.others.pop(0)()
        await super().write_together(writes, token)


class AlwaysOvertaken(WrappedStore):
    """Finds the record changed every time."""

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Fails as it does when the record is another one than expected."""
        raise ConditionFailed("changed meanwhile", position=0, old=None)


GROWN = Shards(1).then(4, since=2_000)


async def test_overtaken_by_the_same_catalog(tmp_path: Path) -> None:
    """A process that is overtaken by another one with the same catalog goes on with what that one recorded."""
    store = Overtaken(await open_sqlite(tmp_path / "table.db"), lambda: opened(tmp_path, users(GROWN)))
    await prepare_table(store, users(GROWN), NOW)
    await store.close()
    assert store.others == []
    assert await recorded(tmp_path) == {"user": [{"size": 1}, {"size": 4, "since": "2000"}]}


async def test_overtaken_by_another_entity(tmp_path: Path) -> None:
    """Two catalogs that each add an entity at once are both recorded, none in place of the other."""
    await opened(tmp_path, users(Shards(1)))
    store = Overtaken(await open_sqlite(tmp_path / "table.db"), lambda: opened(tmp_path, users(Shards(1), Email)))
    await prepare_table(store, users(GROWN), NOW)
    await store.close()
    assert {name: len(each) for name, each in (await recorded(tmp_path)).items()} == {"user": 2, "email": 1}


async def test_overtaken_by_another_growth(tmp_path: Path) -> None:
    """A process that is overtaken by another growth looks again, and is refused as it would have been later."""
    await opened(tmp_path, users(Shards(1)))
    other = Shards(1).then(8, since=3_000)
    store = Overtaken(await open_sqlite(tmp_path / "table.db"), lambda: opened(tmp_path, users(other)))
    with pytest.raises(WrongTable, match="8 since 3000, and the catalog declares 1, 4 since 2000"):
        await prepare_table(store, users(GROWN), NOW)
    await store.close()
    assert await recorded(tmp_path) == {"user": [{"size": 1}, {"size": 8, "since": "3000"}]}


async def test_always_overtaken(tmp_path: Path) -> None:
    """A process that never gets through gives up with an error that says to try again."""
    store = AlwaysOvertaken(await open_sqlite(tmp_path / "table.db"))
    with pytest.raises(StoreUnavailable, match="keep changing the record of the table: retry") as problem:
        await prepare_table(store, users(GROWN), NOW)
    await store.close()
    assert problem.value.retryable
    assert await meta_of(tmp_path) is None


async def test_many_open_at_once(tmp_path: Path) -> None:
    """Processes that open a new table at the same time end with one record of it, which fits all of them."""
    await gather(*(opened(tmp_path, users(APPLIED, Email)) for _ in range(6)))
    await opened(tmp_path, users(APPLIED, Email))
    assert {name: len(each) for name, each in (await recorded(tmp_path)).items()} == {"user": 3, "email": 1}


# --- records from before a growth ------------------------------------------------------------------------------


class Step(Entity):
    """A history."""

    order_id: Id[str]
    number: SubId[int]
    created: Created[Timestamp]

    by_created = Index(sort="created")


def release(shards: Shards) -> Catalog:
    """Users, their e-mails and a history, all with these shards."""
    grown = type("Step", (Step,), {"__module__": __name__}, shards=shards)
    return users(shards, Email, grown)


def database(folder: Path, catalog: Catalog, now: float) -> AbstractAsyncContextManager[Database]:
    """A server of the given time; all of them have the same secrets."""
    return open_catalog(catalog, url_of(folder), secrets=SECRETS, clock=lambda: now)


async def ids(db: Database, index: str, token: str | None = None, **arguments: Any) -> tuple[list[str], str | None]:
    """A page of users or e-mails by id, and the token of the next one."""
    entity, attribute = index.split(".")
    model = model_of(db.catalog, entity)
    page = await db.search(getattr(model, attribute), **arguments, next_token=token)
    key = db.catalog.entity(entity).ids[0].name
    return [getattr(item, key) for item in page.items], page.next_token


async def test_records_from_before_a_growth_are_found_after_it(tmp_path: Path) -> None:
    """After two growths every record is found by get, by search and by parent, wherever its creation value put it."""
    eras = [Shards(1), Shards(1).then(4, since=2_000), Shards(1).then(4, since=2_000).then(16, since=3_000)]
    written: list[str] = []
    for era, shards in enumerate(eras):
        created = NOW * (era + 1) + 1
        async with database(tmp_path, release(shards), now=created - 2 if era else NOW) as db:
            user, email, step = (model_of(db.catalog, name) for name in ("User", "Email", "Step"))
            for number in range(12):
                own_id = f"u{era}{number:02}"
                written.append(own_id)
                await db.put(user(user_id=own_id, created=created, name=own_id))
                await db.put(email(email=f"{own_id}@y", user_id="u000", created=created))
                await db.put(step(order_id=own_id, number=1, created=created))
    async with database(tmp_path, release(eras[-1]), now=9_999) as db:
        user, email, step = (model_of(db.catalog, name) for name in ("User", "Email", "Step"))
        assert (await ids(db, "User.by_name", limit=50))[0] == written
        assert (await ids(db, "Email.by_user", user_id="u000"))[0] == [f"{own_id}@y" for own_id in written]
        assert (await ids(db, "Email.by_user", user_id="u000", from_=2_000, to=2_999))[0] == [
            f"{own_id}@y" for own_id in written[12:24]
        ]
        homes = set()
        for own_id in written:
            found = await db.get(user, own_id)
            assert found is not None
            entry = await db.get(step, own_id, number=1)
            assert entry is not None
            assert await db.get(step, own_id) == entry
            homes.add(len((await db.search(user.by_id, eq=own_id)).items))
        assert homes == {1}


async def test_a_token_from_before_a_growth_goes_on_after_it(tmp_path: Path) -> None:
    """A walk that began before a growth goes on after it, through old and new shards, without loss or double."""
    before = release(Shards(2))
    async with database(tmp_path, before, now=NOW) as db:
        user = model_of(db.catalog, "User")
        await db.put_many([user(user_id=f"u{number:02}", created=number, name=f"{number:02}") for number in range(20)])
        first, token = await ids(db, "User.by_name", limit=7)
    assert token is not None
    async with database(tmp_path, release(Shards(2).then(5, since=2_000)), now=NOW) as db:
        user = model_of(db.catalog, "User")
        await db.put_many(
            [user(user_id=f"v{number:02}", created=2_000 + number, name=f"{number:02}") for number in range(20)]
        )
        rest: list[str] = []
        while token is not None:
            more, token = await ids(db, "User.by_name", token, limit=3)
            rest += more
    assert first == [f"u{number:02}" for number in range(7)]
    # The place is behind u06: v06 is behind it too, what is before it is not.
    assert rest == ["v06", *(f"{kind}{number:02}" for number in range(7, 20) for kind in "uv")]


async def test_new_records_use_the_new_shards(tmp_path: Path) -> None:
    """Records created since a growth spread over its shards; those before stay in theirs, to the letter."""
    async with database(tmp_path, release(Shards(1).then(4, since=2_000)), now=NOW) as db:
        user = model_of(db.catalog, "User")
        await db.put_many([user(user_id=f"u{number}", created=1_999 + number % 2) for number in range(40)])
        found: dict[int, set[str]] = {1_999: set(), 2_000: set()}
        for item in await all_items(db.store):
            if item["hashKey"].startswith("user!"):
                found[item["created"]].add(item["hashKey"])
    assert found == {1_999: {"user!"}, 2_000: {"user!00", "user!01", "user!02", "user!03"}}

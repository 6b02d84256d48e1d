"""Lookups in a store of their own: what is refused, what a paused writer does, and what runs beside it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from graphql_api import (
    Catalog,
    Create,
    Created,
    Delete,
    Entity,
    Id,
    Lookup,
    Shards,
    SubId,
    Timestamp,
    Ttl,
    Update,
    open_catalog,
)
from graphql_api.database import Database
from graphql_api.errors import (
    AlreadyExists,
    CatalogBehind,
    CrossStoreWrite,
    RecordNotFound,
    ShardQLError,
    StoreError,
    StoreUnavailable,
    WrongTable,
)
from graphql_api.evolution import MigrationSettings, run_migration
from graphql_api.evolution.table_record import read_record, save_record
from graphql_api.query import SearchRequest
from graphql_api.query.execution import Page
from graphql_api.runtime.request_statistics import collect_statistics
from graphql_api.storage import Check, Expect, ForwardingStore, Key, Put, TransactionWrite, Write
from graphql_api.storage import Delete as DeleteItem
from graphql_api.verification import Damage, VerificationSettings, verify_table
from graphql_api.writes import MIN_GRACE_SECONDS, item_key, with_lookup_store
from tests.lookups.two_stores import (
    CATALOG,
    GRACE,
    SECRETS,
    Fault,
    Killed,
    User,
    check_consistent,
    found,
    lookup_store,
    mapped,
    reconcile,
    two_stores,
    with_fault,
)
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server
from tests.support.fake_clock import FakeClock
from tests.support.run_depth import depth
from tests.support.store_doubles import CountingStore, all_items


@pytest.fixture
def clock() -> FakeClock:
    """The clock of all servers."""
    return FakeClock()


@pytest.fixture
async def db(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Database]:
    """A database over two stores."""
    async with two_stores(tmp_path, clock) as opened:
        yield opened


async def test_records_and_mapping_items_are_apart(db: Database) -> None:
    """The table has no mapping item, and the lookup store has nothing else."""
    for number in range(5):
        await db.put(User(user_id=f"u{number}", phone="1"))
    store = lookup_store(db)
    assert not [item for item in await all_items(store.inner) if "~lookup" in item["hashKey"]]
    others = [item["hashKey"] for item in await all_items(store.mappings) if "~lookup" not in item["hashKey"]]
    assert others == ["shardql!"]
    await check_consistent(db)
    assert await found(db, "1") == [f"u{number}" for number in range(5)]


async def test_a_search_asks_each_store_once(db: Database) -> None:
    """A search reads one range of the lookup store, and the records of the page in the table."""
    for number in range(7):
        await db.put(User(user_id=f"u{number}", phone=f"{number % 2}"))
    store = lookup_store(db)
    records, mappings = CountingStore(store.inner), CountingStore(store.mappings)
    counting = replace(db, store=with_lookup_store(records, mappings, db.clock))
    assert len((await counting.search(User.by_phone, phone="1")).items) == 3
    assert (mappings.counts.reads, mappings.counts.records_read, mappings.counts.gets) == (1, 3, 0)
    assert (records.counts.reads, records.counts.gets) == (0, 3)


class Visit(Entity):
    """A visit by a user."""

    user_id: Id[str]
    day: SubId[int]


@pytest.mark.parametrize("first", ["lookup", "records"])
async def test_searches_in_one_call_read_their_own_stores(tmp_path: Path, clock: FakeClock, first: str) -> None:
    """Searches of a lookup and of records in one call return what each returns alone, in any order."""
    async with two_stores(tmp_path, clock, Catalog(User, Visit)) as db:
        for number in range(4):
            await db.put(User(user_id=f"u{number}", phone=f"{number % 2}"))
            await db.put(Visit(user_id=f"u{number % 2}", day=number))
        requests = [
            *(SearchRequest("user", "by_phone", {"phone": phone}) for phone in "01"),
            *(SearchRequest("visit", "by_id", {"user_id": user}) for user in ("u0", "u1")),
        ]
        if first == "records":
            requests.reverse()
        alone = [(await db.page(request)).items for request in requests]
        together = await db.pages(requests)
        assert [page.items for page in together if isinstance(page, Page)] == alone
        assert all(len(items) == 2 for items in alone)


@pytest.mark.parametrize("engines", ["dynamodb sqlite", "sqlite dynamodb", "dynamodb dynamodb"])
async def test_lookups_on_other_engines(
    tmp_path: Path, clock: FakeClock, dynamodb: Server, monkeypatch: pytest.MonkeyPatch, engines: str
) -> None:
    """Records and lookups may be on different engines."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    urls = [
        f"sqlite:///{tmp_path}/{number}.db"
        if engine == "sqlite"
        else f"dynamodb://two-{uuid4().hex}?endpoint={dynamodb.endpoint}&region={REGION}"
        for number, engine in enumerate(engines.split())
    ]
    options: dict[str, Any] = {"secrets": SECRETS, "clock": clock, "create_table": True}
    async with open_catalog(CATALOG, urls[0], lookups=urls[1], **options) as db:
        users = [User(user_id=f"u{number}", phone=f"{number % 2}") for number in range(6)]
        assert await db.put_many(users) == [None] * 6
        assert await found(db, "1") == ["u1", "u3", "u5"]
        clock.now += GRACE
        await db.update(User, "u3", phone="0")
        await db.delete(User, "u5")
        assert await found(db, "1") == ["u1"]
        assert await found(db, "0") == ["u0", "u2", "u3", "u4"]
        await check_consistent(db)
        with pytest.raises(Killed):
            await with_fault(db, Fault("mapping put", "killed after")).create(User, user_id="x", phone="1")
        with pytest.raises(Killed):
            await with_fault(db, Fault("mapping put", "killed before")).update(User, "u1", phone="0")
        clock.now += GRACE
        result = await reconcile(db, apply=True)
        assert (result.created.total(), result.removed.total(), result.remaining) == (1, 2, 0)
        await check_consistent(db)
        assert await found(db, "0") == ["u0", "u1", "u2", "u3", "u4"]


# --- what is refused -------------------------------------------------------------------------------------------


async def test_an_all_or_none_write_over_two_stores_is_refused(db: Database) -> None:
    """A write of several records with lookups is refused with a code and a remedy, and writes nothing."""
    await db.create(User, user_id="a", phone="1")
    before = await all_items(db.store)
    with pytest.raises(CrossStoreWrite) as refused:
        await db.write([Create(User, user_id="b", phone="1"), Delete(User, "a")])
    assert refused.value.code == "CROSS_STORE_WRITE"
    assert "one by one" in refused.value.message
    assert await all_items(db.store) == before
    await db.write([Update(User, "a", phone="2")])
    assert await found(db, "2") == ["a"]


async def test_a_condition_on_a_mapping_item_is_refused(db: Database) -> None:
    """A transaction whose conditions are in both stores is refused before anything is sent."""
    key = Key("user~lookup.phone!|phone#1", "userId#a")
    record: dict[str, Any] = {"hashKey": "user!00", "rangeKey": "userId#a", "userId": "a"}
    before = await all_items(db.store)
    with pytest.raises(CrossStoreWrite):
        await db.store.write_together([Put(record), Check(key, Expect(absent=True))], "token")
    assert await all_items(db.store) == before


async def test_a_table_is_opened_with_its_own_lookup_store_only(tmp_path: Path, clock: FakeClock) -> None:
    """Without the lookup store, with another one, or with the table itself, opening is refused."""
    async with two_stores(tmp_path, clock):
        pass
    url = f"sqlite:///{tmp_path}/records.db"
    for lookups, reason in (
        (None, "opened with no lookup store"),
        (f"sqlite:///{tmp_path}/other.db", "opened with the lookup store"),
        (url, "must be a table of its own"),
    ):
        with pytest.raises(WrongTable) as refused:
            async with open_catalog(CATALOG, url, lookups=lookups, secrets=SECRETS):
                pass
        assert reason in refused.value.message
        assert "--lookup-store" in refused.value.message


class PlainUser(Entity, name="user", shards=CATALOG.entity(User).model.__declaration__.shards):
    """A user in an older catalog, without the lookup."""

    user_id: Id[str]
    name: str = ""
    phone: str | None = None


async def test_an_older_server_without_the_lookup_store_cannot_write(db: Database, tmp_path: Path) -> None:
    """A server that cannot maintain the lookup refuses to write its entity; it still reads."""
    await db.create(User, user_id="a", phone="1")
    async with open_catalog(Catalog(PlainUser), f"sqlite:///{tmp_path}/records.db", secrets=SECRETS) as older:
        assert (await older.get(PlainUser, "a")) is not None
        with pytest.raises(CatalogBehind) as refused:
            await older.update(PlainUser, "a", phone="2")
        assert "--lookup-store" in refused.value.message
    lookups = f"sqlite:///{tmp_path}/lookups.db"
    url = f"sqlite:///{tmp_path}/records.db"
    async with open_catalog(Catalog(PlainUser), url, lookups=lookups, secrets=SECRETS) as older:
        await older.update(PlainUser, "a", phone="2")
    assert await found(db, "2") == ["a"]


# --- in flight -------------------------------------------------------------------------------------------------


async def test_a_mapping_item_in_flight_is_never_removed(db: Database, clock: FakeClock) -> None:
    """Neither a reconciliation nor a writer removes a mapping item that is younger than the grace age."""
    with pytest.raises(Killed):
        await with_fault(db, Fault("mapping put", "killed after")).create(User, user_id="a", phone="1")
    clock.now += GRACE - 1
    result = await reconcile(db, apply=True)
    assert (result.in_flight, result.dangling, result.removed) == ({"user.phone": 1}, {}, {})
    assert await mapped(db, "a") == {"1": False}
    clock.now += 1
    result = await reconcile(db)
    assert (result.in_flight, result.dangling, result.remaining) == ({}, {"user.phone": 1}, 1)
    result = await reconcile(db, apply=True)
    assert (result.removed, result.remaining) == ({"user.phone": 1}, 0)
    assert await mapped(db, "a") == {}


async def test_writers_leave_young_mapping_items(db: Database, clock: FakeClock) -> None:
    """An update removes the mapping item of the old value only if that is older than the grace age."""
    await db.create(User, user_id="a", phone="1")
    await db.update(User, "a", phone="2")
    assert await mapped(db, "a") == {"1": False, "2": True}
    clock.now += GRACE
    await db.update(User, "a", phone="3")
    assert await mapped(db, "a") == {"1": False, "3": True}
    assert [await found(db, phone) for phone in "123"] == [[], [], ["a"]]


class PausedRecords(ForwardingStore):
    """Pauses a writer before its record is written, while others act."""

    def __init__(self, inner: Any, meanwhile: Any) -> None:
        super().__init__(inner)
        self.meanwhile = meanwhile

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        await super().write_together(writes, token)


async def test_a_writer_that_pauses_beyond_the_grace_age(db: Database, clock: FakeClock) -> None:
    """If its mapping item was removed during a pause, an insert writes it again after its record."""

    async def pass_the_grace_age() -> None:
        clock.now += GRACE + 1
        assert (await reconcile(db, apply=True)).removed == {"user.phone": 1}

    store = lookup_store(db)
    paused = replace(
        db, store=with_lookup_store(PausedRecords(store.inner, pass_the_grace_age), store.mappings, db.clock)
    )
    await paused.create(User, user_id="a", phone="1")
    assert await found(db, "1") == ["a"]
    await check_consistent(db)


async def test_a_writer_that_pauses_and_ends(db: Database, clock: FakeClock) -> None:
    """If its process also ends after the record, searches miss it until a reconciliation writes its mapping item."""

    class EndsAfterRecord(PausedRecords):
        async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
            await super().write_together(writes, token)
            raise Killed

    async def pass_the_grace_age() -> None:
        clock.now += GRACE + 1
        await reconcile(db, apply=True)

    store = lookup_store(db)
    paused = replace(
        db, store=with_lookup_store(EndsAfterRecord(store.inner, pass_the_grace_age), store.mappings, db.clock)
    )
    with pytest.raises(Killed):
        await paused.create(User, user_id="a", phone="1")
    assert await found(db, "1") == []
    result = await reconcile(db)
    assert (result.missing, result.remaining) == ({"user.phone": 1}, 1)
    assert (await reconcile(db, apply=True)).created == {"user.phone": 1}
    assert await found(db, "1") == ["a"]


async def test_a_paused_update_does_not_remove_what_others_wrote(db: Database, clock: FakeClock) -> None:
    """An update that pauses after its record leaves the mapping item of the old value to a reconciliation."""
    await db.create(User, user_id="a", phone="1")
    clock.now += GRACE

    class PausedMappings(ForwardingStore):
        async def get_many(self, keys: Sequence[Key], consistent: bool) -> Any:
            await db.update(User, "a", phone="1")
            clock.now += GRACE + 1
            return await super().get_many(keys, consistent)

    store = lookup_store(db)
    paused = replace(db, store=with_lookup_store(store.inner, PausedMappings(store.mappings), db.clock))
    await paused.update(User, "a", phone="2")
    assert await found(db, "1") == ["a"]
    assert (await reconcile(db, apply=True)).remaining == 0
    await check_consistent(db)


async def test_a_removal_needs_the_mapping_item_unchanged(db: Database, clock: FakeClock) -> None:
    """A mapping item that is written again while it is compared with its record stays."""
    with pytest.raises(Killed):
        await with_fault(db, Fault("mapping put", "killed after")).create(User, user_id="a", phone="1")
    clock.now += GRACE

    class BusyMappings(ForwardingStore):
        async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
            if isinstance(writes[0], DeleteItem):
                await db.create(User, user_id="a", phone="1")
            return await super().write(writes)

    store = lookup_store(db)
    busy = replace(db, store=with_lookup_store(store.inner, BusyMappings(store.mappings), db.clock))
    result = await reconcile(busy, apply=True)
    assert (result.dangling, result.removed, result.changed) == ({"user.phone": 1}, {}, 1)
    assert await found(db, "1") == ["a"]


async def test_a_change_of_the_table_during_a_reconciliation(db: Database) -> None:
    """If the table's record changes while a page is compared, the page is compared again, and counted once."""
    await db.create(User, user_id="a", phone="1")
    store, calls = lookup_store(db), 0
    (mapping,) = [item for item in await all_items(store.mappings) if "~lookup" in item["hashKey"]]
    await store.mappings.write([DeleteItem(item_key(mapping))])

    class ChangingMappings(ForwardingStore):
        async def get_many(self, keys: Sequence[Key], consistent: bool) -> Any:
            nonlocal calls
            calls += 1
            if calls == 1:
                record = await read_record(store.inner)
                assert record is not None
                assert await save_record(store.inner, record, record.changed())
            return await super().get_many(keys, consistent)

    changing = replace(db, store=with_lookup_store(store.inner, ChangingMappings(store.mappings), db.clock))
    result = await reconcile(changing, apply=True)
    assert calls == 6, "three reads for each of two attempts"
    assert (result.missing, result.created, len(result.listed)) == ({"user.phone": 1}, {"user.phone": 1}, 1)
    assert await found(db, "1") == ["a"]


async def test_failed_repairs_and_dangling_mapping_items_are_counted(db: Database, clock: FakeClock) -> None:
    """The statistics of a request have the records whose mapping items are not written, and those that dangle."""
    await db.create(User, user_id="a", phone="1")
    clock.now += GRACE
    with collect_statistics() as statistics:
        await with_fault(db, Fault("mapping delete", "fails")).update(User, "a", phone="2")
    assert statistics.lookup_repairs_failed == 1
    with collect_statistics() as statistics:
        assert await found(db, "1") == []
    assert statistics.of_index("user", "phone").dangling == 1


class Member(Entity, shards=Shards(2).then(7, since=1_000)):
    """A member, over two shard generations."""

    member_id: Id[str]
    created: Created[Timestamp]
    phone: str | None = None
    until: Ttl[Timestamp] | None = None

    by_phone = Lookup("phone")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"created": 5}, {"created": 2_000}),
        ({"created": 5, "until": 1_900_000_000}, {"created": 5, "until": 1_800_100_000}),
        ({"created": 5}, {"created": 5}),
    ],
)
async def test_a_refused_insert_leaves_the_mapping_item_of_the_other_record(
    tmp_path: Path, clock: FakeClock, first: dict[str, Any], second: dict[str, Any]
) -> None:
    """An insert whose id exists, also in another shard or with another expiry, does not change its mapping item."""
    async with two_stores(tmp_path, clock, Catalog(Member)) as db:
        await db.create(Member, member_id="m", phone="1", **first)
        before = await db.search(Member.by_phone, phone="1")
        for wait in (0.0, GRACE):
            clock.now += wait
            with pytest.raises(AlreadyExists):
                await db.create(Member, member_id="m", phone="1", **second)
            assert (await db.search(Member.by_phone, phone="1")).items == before.items
            assert (await reconcile(db)).listed == []
        await db.delete(Member, "m")
        for wait in (0.0, GRACE):
            clock.now += wait
            await db.create(Member, member_id="m", phone="1", **second)
            assert len((await db.search(Member.by_phone, phone="1")).items) == 1
            assert (await reconcile(db)).listed == []
            await db.delete(Member, "m")


async def test_rows_of_a_batch_over_two_stores_are_independent(db: Database) -> None:
    """A row that is refused does not stop the others, and names its own position."""
    await db.create(User, user_id="u1", phone="1")
    results = await db.create_many([User(user_id=f"u{number}", phone="1") for number in range(4)])
    assert [type(result) for result in results] == [User, AlreadyExists, User, User]
    assert await found(db, "1") == ["u0", "u1", "u2", "u3"]
    await check_consistent(db)


# --- the other tools -------------------------------------------------------------------------------------------


async def test_a_migration_builds_and_drops_a_lookup_in_its_store(tmp_path: Path, clock: FakeClock) -> None:
    """A lookup of stored records is built in the lookup store, and dropped there."""

    class Person(Entity, name="user"):
        user_id: Id[str]
        town: str | None = None

    class PersonWithLookup(Entity, name="user"):
        user_id: Id[str]
        town: str | None = None
        by_town = Lookup("town")

    async with two_stores(tmp_path, clock, Catalog(Person)) as db:
        for number in range(9):
            await db.put(Person(user_id=f"u{number}", town=f"t{number % 2}"))
    async with two_stores(tmp_path, clock, Catalog(PersonWithLookup)) as db:
        page = await db.search(PersonWithLookup.by_town, town="t1")
        assert [person.user_id for person in page.items] == ["u1", "u3", "u5", "u7"]
        store = lookup_store(db)
        assert len(await all_items(store.mappings)) == 10
        without = Catalog(Person).with_lookup_store(f"{db.catalog.lookup_store}")
        result = await run_migration(store, without, MigrationSettings(clock=clock, drop=True))
        assert result.dropped == ["user lookup town"]
        assert len(await all_items(store.mappings)) == 1


async def test_verification_covers_both_stores(db: Database, clock: FakeClock) -> None:
    """`verify --repair` writes missing mapping items, and removes dangling ones that are not in flight."""
    for number in range(4):
        await db.create(User, user_id=f"u{number}", phone="1")
    store = lookup_store(db)
    (mapping, *_) = [item for item in await all_items(store.mappings) if item["rangeKey"] == "userId#u1"]
    await store.mappings.write([DeleteItem(Key(mapping["hashKey"], mapping["rangeKey"]))])
    with pytest.raises(Killed):
        await with_fault(db, Fault("mapping put", "killed after")).create(User, user_id="x", phone="1")
    settings = VerificationSettings(clock=clock, repair=True)
    result = await verify_table(store, db.catalog, settings)
    assert [one.damage for one in result.findings] == [Damage.MAPPING_ITEM], "the young one is in flight"
    clock.now += GRACE
    result = await verify_table(store, db.catalog, settings)
    assert [(one.damage, one.is_repaired) for one in result.findings] == [(Damage.VOID_ITEM, True)]
    await check_consistent(db)


# --- a reconciliation beside running writers -------------------------------------------------------------------


class UnreliableStore(ForwardingStore):
    """Loses some requests and some replies."""

    def __init__(self, inner: Any, random: Random) -> None:
        super().__init__(inner)
        self.random = random

    async def _send(self, send: Any) -> Any:
        await asyncio.sleep(0)
        fate = self.random.random()
        if fate < 0.04:
            raise StoreUnavailable("The request is lost: retry.")
        result = await send()
        if fate < 0.08:
            raise StoreUnavailable("The reply is lost: retry.")
        return result

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        await self._send(lambda: self.inner.write_together(writes, token))

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        try:
            found: Sequence[StoreError | None] = await self._send(lambda: self.inner.write(writes))
        except StoreUnavailable as problem:
            return [problem] * len(writes)
        return found


@dataclass
class Writers:
    """Writers of users at random, with what is known of each record."""

    clock: FakeClock
    random: Random
    busy: Counter[str] = field(default_factory=Counter)
    """ids that a writer is writing at the moment"""
    disturbed: set[str] = field(default_factory=set)
    """ids of which a write had a fault, so that a search may miss them"""
    written: int = 0

    async def run(self, db: Database, writes: int) -> None:
        """Writes users at random."""
        for _ in range(writes):
            id, phone = f"u{self.random.randrange(20)}", self.random.choice(["1", "2", "3", None])
            self.clock.now += self.random.choice([0.0, 0.1, MIN_GRACE_SECONDS / 20])
            self.busy[id] += 1
            with collect_statistics() as statistics:
                try:
                    await self._write(db, id, phone)
                    self.written += 1
                except (AlreadyExists, RecordNotFound):
                    pass
                except ShardQLError:
                    self.disturbed.add(id)
            if statistics.lookup_repairs_failed:
                self.disturbed.add(id)
            self.busy[id] -= 1

    async def _write(self, db: Database, id: str, phone: str | None) -> None:
        match self.random.randrange(4):
            case 0:
                await db.create(User, user_id=id, phone=phone)
            case 1:
                await db.delete(User, id)
            case 2:
                await db.put(User(user_id=id, phone=phone))
            case _:
                await db.update(User, id, phone=phone)


class WatchedMappings(ForwardingStore):
    """Compares each mapping item that a reconciliation removes with its record, before and after."""

    def __init__(self, db: Database, writers: Writers) -> None:
        super().__init__(lookup_store(db).mappings)
        self.db, self.writers = db, writers
        self.wrongly_removed: list[str] = []

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        deletes = [write.key for write in writes if isinstance(write, DeleteItem)]
        before = [await self._needs(key) for key in deletes]
        results = await super().write(writes)
        for key, was_needed, problem in zip(deletes, before, results, strict=False):
            if was_needed and problem is None and await self._needs(key):
                self.wrongly_removed.append(f"{key}")
        return results

    async def _needs(self, mapping: Key) -> bool:
        """Whether a record that nobody is writing, and that no fault has disturbed, needs a mapping item."""
        id = mapping.range.removeprefix("userId#")
        record = await self.db.get(User, id)
        needs = record is not None and mapping.hash.endswith(f"phone#{record.phone}")
        return needs and not self.writers.busy[id] and id not in self.writers.disturbed


async def test_a_reconciliation_beside_running_writers(db: Database, clock: FakeClock, random: Random) -> None:
    """Repeated reconciliations beside writers with faults remove only what dangles; no search misses a record after."""
    store, grace = lookup_store(db), MIN_GRACE_SECONDS
    count, each = 8, depth(quick=40, deep=1_250)
    writers = Writers(clock, random)
    unreliable = [UnreliableStore(store.inner, random), UnreliableStore(store.mappings, random)]
    server = replace(db, store=with_lookup_store(unreliable[0], unreliable[1], clock, grace))
    running = [asyncio.create_task(writers.run(server, each)) for _ in range(count)]
    watched = WatchedMappings(db, writers)
    reconciling = replace(db, store=with_lookup_store(store.inner, watched, clock, grace))
    removed = 0
    while not all(task.done() for task in running):
        removed += (await reconcile(reconciling, apply=True, grace_seconds=grace)).removed.total()
        await asyncio.sleep(0)
    await asyncio.gather(*running)
    assert writers.written > count * each / 4
    assert removed > 0
    assert watched.wrongly_removed == []
    items = [item for item in await all_items(store.inner) if "user!" in item["hashKey"]]
    for phone in ("1", "2", "3"):
        expected = {item["userId"] for item in items if item.get("phone") == phone}
        ids = {*await found(db, phone)}
        assert ids <= expected, "no search finds a record without the value"
        assert expected - ids <= writers.disturbed, "only records whose write had a fault are missed"
    clock.now += grace
    assert (await reconcile(db, apply=True, grace_seconds=grace)).remaining == 0
    await check_consistent(db)
    for phone in ("1", "2", "3"):
        assert {*await found(db, phone)} == {item["userId"] for item in items if item.get("phone") == phone}


async def test_without_faults_nothing_is_ever_missed(db: Database, clock: FakeClock, random: Random) -> None:
    """While reconciliations run, a search finds a record as soon as its write has returned, and never loses it."""
    stop = asyncio.Event()

    async def reconcile_again_and_again() -> None:
        while not stop.is_set():
            await reconcile(db, apply=True, grace_seconds=MIN_GRACE_SECONDS)
            await asyncio.sleep(0)

    task = asyncio.create_task(reconcile_again_and_again())
    try:
        for number in range(depth(quick=40, deep=1_000)):
            id, phone = f"u{number % 7}", f"{random.randrange(3)}"
            clock.now += MIN_GRACE_SECONDS / 4
            await db.put(User(user_id=id, phone=phone))
            assert id in await found(db, phone)
    finally:
        stop.set()
        await task
    assert (await reconcile(db)).missing == {}

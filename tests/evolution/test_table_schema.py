"""A process's copy of the table's record: leases, comparison, and operations while the table changes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Index, SubId
from graphql_api.clock import Instant, read_clocks, running_clock, seconds_between
from graphql_api.database import Database
from graphql_api.errors import InvalidValue, NotReady, SchemaChanged, ShardQLError, StoreError, StoreUnavailable
from graphql_api.evolution import State, TableSchema, announce, opened_schema, prepare_table, read_record, save_record
from graphql_api.evolution.schema_copy import read_copy
from graphql_api.evolution.table_record import EPOCH_KEY, TABLE_RECORD_KEY
from graphql_api.evolution.table_schema import ComparedSchema, LeasedSchema
from graphql_api.model import Entity as AnyEntity
from graphql_api.query import TokenSeal
from graphql_api.query.execution import PointLookup
from graphql_api.runtime import meter_part
from graphql_api.storage import ForwardingStore, Item, Key, Store, TransactionWrite, Write, current_fence
from graphql_api.storage.engines.sqlite import SqliteStore, open_sqlite
from graphql_api.writes import CommandResult, Create, Update
from tests.support.store_doubles import InterleavingStore, all_items

LEASE = 30.0


class User(Entity):
    """A user without indexes."""

    user_id: Id[str]
    town: str = "Bern"


class UserByTown(Entity, name="user"):
    """The next release of users."""

    user_id: Id[str]
    town: str = "Bern"

    by_town = Index(sort="town")


Action = Callable[[], Coroutine[Any, Any, None]]

OLD, NEW = Catalog(User), Catalog(UserByTown)
USER = OLD.entity(User)
BY_TOWN = "user index town"
"""id of the element that the next release adds"""
TOWN_KEY = NEW.entity(UserByTown).indexes["by_town"].range_attribute


@dataclass
class FakeClocks:
    """Three clocks that change only when a test moves them."""

    now: Instant = (100.0, 200.0, 1_800_000_000.0)

    def __call__(self) -> Instant:
        return self.now

    def move(self, seconds: float, which: Sequence[int] = (0, 1, 2)) -> None:
        """Move some of the clocks forward."""
        self.now = tuple(value + seconds * (number in which) for number, value in enumerate(self.now))


class LeasingStore(ForwardingStore):
    """An engine with leases: it checks the fence as DynamoDB does. Reads of the table's record can be slow or fail."""

    def __init__(self, inner: Store, clocks: FakeClocks) -> None:
        super().__init__(inner)
        self.clocks = clocks
        self.reads: list[Key] = []
        self.writes = 0
        self.is_unreachable = False
        self.reply_seconds = 0.0
        self.read_seconds = 0.0

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.reads += keys
        if keys[0] not in {EPOCH_KEY, TABLE_RECORD_KEY}:
            self.clocks.move(self.read_seconds)
            return await super().get_many(keys, consistent)
        if self.is_unreachable:
            raise StoreUnavailable("The record cannot be reached.")
        items = await super().get_many(keys, consistent)
        await asyncio.sleep(0)
        self.clocks.move(self.reply_seconds)
        return items

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        self._verify()
        return await super().write(writes)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        self._verify()
        await super().write_together(writes, token)

    def _verify(self) -> None:
        fence = current_fence()
        if fence is not None:
            fence.verify()
        self.writes += 1


async def elsewhere(action: Action) -> None:
    """Run an action without the fence of the present task."""
    await asyncio.create_task(action(), context=Context())


async def change_state(store: Store, element: str, state: State) -> None:
    """Change the state of an element, as a migration does."""
    record = await read_record(store)
    assert record is not None
    assert await save_record(store, record, record.changed(replace(record.elements[element], state=state)))


async def begin_building(store: Store) -> None:
    """Announce the index of the next release, and begin to build it."""
    await announce(store, NEW)
    await change_state(store, BY_TOWN, "building")


async def stored_user(store: Store, id: str) -> Item | None:
    """Return the stored item of a user."""
    return next((item for item in await all_items(store) if item.get("userId") == id), None)


def database(store: Store, schema: TableSchema | None, catalog: Catalog = OLD) -> Database:
    """A database with this schema."""
    return Database(catalog, store, TokenSeal((b"a secret of thirty-two bytes only",)), schema=schema)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """A table that knows users."""
    store = await open_sqlite(tmp_path / "table.db")
    await prepare_table(store, OLD, lease_seconds=LEASE)
    yield store
    await store.close()


@pytest.fixture
def clocks() -> FakeClocks:
    """The clocks of a server with leases."""
    return FakeClocks()


@pytest.fixture
def leasing(store: SqliteStore, clocks: FakeClocks) -> LeasingStore:
    """The table, as an engine with leases."""
    return LeasingStore(store, clocks)


@pytest.fixture
async def schema(leasing: LeasingStore) -> AsyncIterator[TableSchema]:
    """The schema of a server with leases."""
    async with opened_schema(leasing, OLD, clocks=leasing.clocks) as schema:
        yield schema


@pytest.fixture
def db(leasing: LeasingStore, schema: TableSchema) -> Database:
    """A server with leases."""
    return database(leasing, schema)


def create_that(action: Action, id: str = "u", *, times: int = 1) -> tuple[Create, list[None]]:
    """Return a creation during which something happens, up to some times, and the list of its plans."""
    plans: list[None] = []

    async def allow(old: AnyEntity | None, new: AnyEntity | None) -> None:
        plans.append(None)
        if len(plans) <= times:
            await elsewhere(action)

    return Create(USER, {"user_id": id}, allow=allow), plans


# --- leases ----------------------------------------------------------------------------------------------------


async def test_a_lease_counts_from_sending(leasing: LeasingStore) -> None:
    """The age of a copy counts from when the read that brought it was sent, not from its reply."""
    leasing.reply_seconds = 20
    async with opened_schema(leasing, OLD, clocks=leasing.clocks) as schema:
        db = database(leasing, schema)
        leasing.is_unreachable = True
        leasing.clocks.move(9)
        await db.create(User, user_id="a")
        leasing.clocks.move(1)
        with pytest.raises(StoreUnavailable, match="not reached the record of the table for 30 seconds"):
            await db.create(User, user_id="b")


async def test_a_renewal_counts_from_sending(leasing: LeasingStore, schema: TableSchema, db: Database) -> None:
    """A read that confirms the epoch renews the copy, from when it was sent."""
    leasing.clocks.move(LEASE - 1)
    leasing.reply_seconds = 10
    await db.create(User, user_id="a")
    leasing.is_unreachable = True
    leasing.clocks.move(LEASE - 10 - 1)
    await db.create(User, user_id="b")
    leasing.clocks.move(1)
    with pytest.raises(StoreUnavailable):
        await db.create(User, user_id="c")
    leasing.is_unreachable, leasing.reply_seconds = False, 0
    await db.create(User, user_id="c")


@pytest.mark.parametrize("clock", [0, 1, 2])
async def test_a_frozen_process_does_not_write(
    leasing: LeasingStore, schema: TableSchema, db: Database, clock: int
) -> None:
    """A write that was planned before the process froze for a lease is not sent. Any clock that went on shows it."""

    async def freeze() -> None:
        leasing.clocks.move(LEASE, [clock])

    command, plans = create_that(freeze)
    leasing.is_unreachable = True
    with pytest.raises(StoreUnavailable, match="for 30 seconds") as problem:
        await db.apply(command)
    assert problem.value.retryable
    assert (len(plans), leasing.writes) == (1, 0)
    assert await stored_user(leasing, "u") is None


async def test_clocks_that_go_backwards(leasing: LeasingStore, db: Database) -> None:
    """A wall clock that is set back does not prolong a lease."""
    leasing.is_unreachable = True
    leasing.clocks.move(-10_000, [2])
    leasing.clocks.move(LEASE, [0, 1])
    with pytest.raises(StoreUnavailable):
        await db.create(User, user_id="u")


async def test_without_renewals(leasing: LeasingStore, db: Database) -> None:
    """While the record cannot be reached, writes are refused after one lease, and reads after ten."""
    await db.create(User, user_id="u")
    leasing.is_unreachable = True
    leasing.clocks.move(LEASE - 1)
    await db.create(User, user_id="v")
    leasing.clocks.move(1)
    with pytest.raises(StoreUnavailable):
        await db.create(User, user_id="w")
    leasing.clocks.move(9 * LEASE - 1)
    assert await db.get(User, "u") is not None
    assert len((await db.search(User.by_id)).items) == 2
    leasing.clocks.move(1)
    for read in (db.get(User, "u"), db.search(User.by_id), db.count(User.by_id), db.get_many(User, ["u"])):
        with pytest.raises(StoreUnavailable, match="for 300 seconds"):
            await read


async def test_reads_that_end_after_the_read_lease(leasing: LeasingStore, db: Database) -> None:
    """A read whose reply arrives after the read lease is repeated with a renewed copy, or refused."""
    await db.create(User, user_id="u")
    leasing.read_seconds = 10 * LEASE
    leasing.reads.clear()
    with pytest.raises(StoreUnavailable, match="kept changing"):
        await db.get(User, "u")
    leasing.reads.clear()

    async def recover() -> None:
        await asyncio.sleep(0)
        leasing.read_seconds = 0

    found, _ = await asyncio.gather(db.get(User, "u"), recover())
    assert found is not None
    assert EPOCH_KEY in leasing.reads


async def test_a_changed_epoch_stops_pinned_writes(leasing: LeasingStore, schema: TableSchema, db: Database) -> None:
    """A write whose plan is older than the newest copy is not sent, but planned again and executed."""

    async def change() -> None:
        await begin_building(leasing.inner)
        await schema.refresh()

    command, plans = create_that(change)
    assert await db.apply(command) is not None
    assert (len(plans), leasing.writes) == (2, 1)
    stored = await stored_user(leasing, "u")
    assert stored is not None
    assert stored[TOWN_KEY].startswith("town#Bern")


async def test_writes_stopped_each_time(leasing: LeasingStore, schema: TableSchema, db: Database) -> None:
    """If the record changes during each attempt, the write fails with SchemaChanged, and nothing is written."""
    await begin_building(leasing.inner)
    states: list[State] = ["ready", "closing"]

    async def change() -> None:
        states.reverse()
        await change_state(leasing.inner, BY_TOWN, states[0])
        await schema.refresh()

    command, plans = create_that(change, times=1_000)
    with pytest.raises(SchemaChanged):
        await db.apply(command)
    assert (len(plans), leasing.writes) == (5, 0)


async def test_commands_of_one_record_stay_in_order(leasing: LeasingStore, schema: TableSchema, db: Database) -> None:
    """After a change, commands that follow a stopped one on the same record are executed again after it."""

    async def change() -> None:
        await begin_building(leasing.inner)
        await schema.refresh()

    command, _ = create_that(change)
    results = await db.apply_each([command, Update(USER, ["u"], {"town": "Oslo"}), Create(USER, {"user_id": "v"})])
    assert [result for result in results if isinstance(result, ShardQLError)] == []
    found = await db.get(User, "u")
    assert found is not None
    assert found.town == "Oslo"


async def test_renewals_of_a_server(leasing: LeasingStore) -> None:
    """A server makes one small read per third of a lease, and one more when the epoch has changed."""
    pauses, turns = asyncio.Queue[float](), asyncio.Semaphore(0)

    async def pause(seconds: float) -> None:
        pauses.put_nowait(seconds)
        await turns.acquire()

    async def renew() -> list[Key]:
        assert await pauses.get() == LEASE / 3
        leasing.reads.clear()
        turns.release()
        pauses.put_nowait(await pauses.get())
        return leasing.reads

    async with LeasedSchema(leasing, OLD, await read_copy(leasing, OLD), leasing.clocks, pause) as schema:
        for _ in range(3):
            leasing.clocks.move(LEASE / 3)
            assert await renew() == [EPOCH_KEY]
        await begin_building(leasing.inner)
        assert await renew() == [EPOCH_KEY, TABLE_RECORD_KEY, EPOCH_KEY]
        assert schema.latest.record.elements[BY_TOWN].state == "building"
        leasing.is_unreachable = True
        await renew()
        leasing.is_unreachable = False
        leasing.clocks.move(LEASE / 3)
        assert await renew() == [EPOCH_KEY]
        assert seconds_between(schema.latest.asked_at, leasing.clocks()) == 0


async def test_requests_cost_nothing_more(leasing: LeasingStore, schema: TableSchema, db: Database) -> None:
    """With a valid copy, no operation reads or writes more than without a schema."""

    async def cost_of(db: Database, id: str) -> tuple[int, int]:
        leasing.reads.clear()
        leasing.writes = 0
        await db.create(User, user_id=id)
        await db.get(User, id)
        await db.update(User, id, town="Oslo")
        await db.search(User.by_id)
        await db.delete(User, id)
        return len(leasing.reads), leasing.writes

    assert await cost_of(db, "a") == await cost_of(replace(db, schema=None), "b")


async def test_renewals_are_not_metered(leasing: LeasingStore, schema: TableSchema, db: Database) -> None:
    """A renewal within a request is not part of its cost."""
    leasing.clocks.move(LEASE)
    with meter_part() as meter:
        await db.create(User, user_id="u")
    assert EPOCH_KEY in leasing.reads
    assert meter is None or meter.units == 0


async def test_concurrent_renewals_are_one_read(leasing: LeasingStore, schema: TableSchema) -> None:
    """Requests that need a renewal share it. A cancelled one does not affect the others."""
    leasing.clocks.move(LEASE)
    leasing.reads.clear()
    tasks = [asyncio.create_task(schema.copy_for_writing()) for _ in range(20)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    copies = await asyncio.gather(*tasks[1:])
    assert leasing.reads == [EPOCH_KEY]
    assert {seconds_between(copy.asked_at, leasing.clocks()) for copy in copies} == {0}


async def test_a_renewal_from_before_a_freeze(leasing: LeasingStore, schema: TableSchema) -> None:
    """A request that joins a renewal which was sent before a freeze renews again, and is not refused."""
    leasing.clocks.move(LEASE)
    leasing.reply_seconds = 2 * LEASE
    renewal = asyncio.create_task(schema.refresh())
    await asyncio.sleep(0)

    async def thaw() -> None:
        await renewal
        leasing.reply_seconds = 0

    copy, _ = await asyncio.gather(schema.copy_for_writing(), thaw())
    assert seconds_between(copy.asked_at, leasing.clocks()) == 0
    leasing.reads.clear()
    leasing.clocks.move(LEASE)
    leasing.is_unreachable = True
    with pytest.raises(StoreUnavailable):
        await schema.copy_for_writing()


def test_the_clocks_of_a_process() -> None:
    """The time since a moment is the largest difference of three clocks."""
    before = read_clocks()
    assert len(before) == 3
    assert 0 <= seconds_between(before, read_clocks()) < 60
    assert seconds_between((1.0, 2.0, 3.0), (1.5, 4.0, -1.0)) == 2
    earlier = running_clock()
    assert 0 <= running_clock() - earlier < 60


# --- comparison ------------------------------------------------------------------------------------------------


@asynccontextmanager
async def two_processes(folder: Path) -> AsyncIterator[tuple[Database, SqliteStore]]:
    """A server over a file, and the store of another process that changes the table."""
    async with AsyncExitStack() as stack:
        stores = [await open_sqlite(folder / "table.db") for _ in range(2)]
        for each in stores:
            stack.push_async_callback(each.close)
        await prepare_table(stores[0], OLD)
        schema = await stack.enter_async_context(opened_schema(stores[0], OLD))
        assert isinstance(schema, ComparedSchema)
        yield database(stores[0], schema), stores[1]


async def test_sqlite_writes_with_an_older_plan(tmp_path: Path) -> None:
    """A write whose plan is older than a change by another process is not applied, but planned again."""
    async with two_processes(tmp_path) as (db, other):
        command, plans = create_that(lambda: begin_building(other))
        assert await db.apply(command) is not None
        assert len(plans) == 2
        stored = await stored_user(other, "u")
        assert stored is not None
        assert stored[TOWN_KEY].startswith("town#Bern")


async def test_sqlite_creates_with_an_older_copy(tmp_path: Path) -> None:
    """A create that is planned with an older copy is planned again, although nothing has verified the copy before."""
    async with two_processes(tmp_path) as (db, other):
        await begin_building(other)
        await db.create(User, user_id="u")
        stored = await stored_user(other, "u")
        assert stored is not None
        assert TOWN_KEY in stored


@pytest.mark.parametrize("is_overtaken", [True, False])
async def test_sqlite_refusals_of_an_older_copy(tmp_path: Path, *, is_overtaken: bool) -> None:
    """A create that was refused with an older copy is planned again; a refusal with the present one is final."""
    async with two_processes(tmp_path) as (db, other):
        assert db.schema is not None
        commands = [Create(USER, {"user_id": id}) for id in ("u", "v")]
        plans = []

        async def execute(planned: Sequence[Create]) -> list[CommandResult]:
            plans.append([command.values["user_id"] for command in planned])
            if len(plans) > 1:
                return await db._execute(planned)
            (created,) = await db._execute(planned[1:])
            if is_overtaken:
                await elsewhere(lambda: begin_building(other))
            return [InvalidValue("refused"), created]

        results = await db.schema.write(commands, execute)
        assert plans == ([["u", "v"], ["u"]] if is_overtaken else [["u", "v"]])
        assert [isinstance(result, User) for result in results] == [is_overtaken, True]


class OvertakenStore(ForwardingStore):
    """Runs an action before the next independent writes."""

    def __init__(self, inner: Store, action: Action) -> None:
        super().__init__(inner)
        self.actions = [action]

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        if self.actions:
            await elsewhere(self.actions.pop())
        return await super().write(writes)


async def test_sqlite_batches_with_an_older_plan(tmp_path: Path) -> None:
    """Plain writes of a batch that another process overtakes are planned again, all of them."""
    async with two_processes(tmp_path) as (db, other):
        overtaken = replace(db, store=OvertakenStore(db.store, lambda: begin_building(other)))
        assert await overtaken.put_many([User(user_id=f"u{number}") for number in range(20)]) == [None] * 20
        items = [item for item in await all_items(other) if "userId" in item]
        assert len([item for item in items if TOWN_KEY in item]) == 20


async def test_sqlite_reads_that_a_change_overlaps(tmp_path: Path) -> None:
    """A read during which another process changes the record is repeated with the new copy."""
    async with two_processes(tmp_path) as (db, other):
        await db.create(User, user_id="u")
        interleaving = InterleavingStore(db.store)
        interleaving.action = lambda: begin_building(other)
        assert len((await replace(db, store=interleaving).search(User.by_id)).items) == 1
        assert db.schema is not None
        assert db.schema.latest.record.elements[BY_TOWN].state == "building"


async def test_sqlite_errors_of_an_older_copy(tmp_path: Path) -> None:
    """An error that stems from an outdated copy of the record is not reported: the read is repeated."""
    async with two_processes(tmp_path) as (db, other):
        schema = db.schema
        assert schema is not None
        outdated, seen = schema.latest, list[int]()

        async def read(catalog: Catalog) -> int:
            seen.append(len(catalog.entities["user"].written_indexes))
            if catalog is outdated.catalog:
                await begin_building(other)
                raise NotReady("outdated", element="x", state="announced")
            return seen[-1]

        assert await schema.read(read) == 2
        assert seen == [1, 2]


async def test_sqlite_reads_under_permanent_change(tmp_path: Path) -> None:
    """A read that changes overlap again and again fails with a retryable error."""
    async with two_processes(tmp_path) as (db, other):
        await begin_building(other)
        states: list[State] = ["ready", "closing"]

        async def read(_: Catalog) -> None:
            states.reverse()
            await change_state(other, BY_TOWN, states[0])

        assert db.schema is not None
        with pytest.raises(StoreUnavailable, match="kept changing") as problem:
            await db.schema.read(read)
        assert problem.value.retryable


async def test_sqlite_lookups_of_an_older_copy(tmp_path: Path) -> None:
    """Point lookups that were made before a change are made again, with the keys and defaults of the new copy."""
    async with two_processes(tmp_path) as (db, other):
        await db.create(User, user_id="u")
        lookup = db.wanted(USER, ["u"], consistent=True)
        await begin_building(other)
        (found,) = (await db.read_records([lookup])).results  # type: ignore[list-item]
        assert isinstance(found, User)
        assert db.schema is not None
        assert db.schema.latest.record.elements[BY_TOWN].state == "building"


# --- processes that announce nothing ---------------------------------------------------------------------------


async def test_entities_that_nothing_has_announced(tmp_path: Path) -> None:
    """A read-only process finds no record of an entity that the table does not know, and cannot write it."""

    class Pet(Entity):
        pet_id: Id[str]
        name: str = ""

        by_name = Index(sort="name")

    catalog = Catalog(User, Pet)
    async with two_processes(tmp_path) as (_, other):
        before = await read_record(other)
        await prepare_table(other, catalog, read_only=True)
        async with opened_schema(other, catalog) as schema:
            reader = database(other, schema, catalog)
            assert await reader.get(Pet, "p") is None
            assert await reader.get(User, "u") is None
            with pytest.raises(NotReady, match="Nothing has announced Pet") as problem:
                await reader.create(Pet, pet_id="p")
            assert problem.value.extensions["element"] == "entity pet"
            await reader.create(User, user_id="u")
        assert await read_record(other) == before


async def test_a_table_without_a_record_is_read(tmp_path: Path) -> None:
    """A read-only process serves a table that no server has opened, until a server writes its record."""
    store = await open_sqlite(tmp_path / "table.db")
    await store.ensure_table(OLD.table_definition())
    await prepare_table(store, OLD, read_only=True)
    assert await read_record(store) is None
    async with opened_schema(store, OLD) as schema:
        reader = database(store, schema)
        assert await reader.get(User, "u") is None
        assert schema.latest.record.epoch == 0
        await prepare_table(store, OLD)
        assert await reader.get(User, "u") is None
        assert schema.latest.record.epoch == 1
        await reader.create(User, user_id="u")
    await store.close()


def test_extensions_of_not_ready() -> None:
    """The extensions of NOT_READY name the element, its state, and its progress if it is known."""
    error = NotReady("The index is being built.", element="index user.town", state="building", progress="40 %")
    assert error.message == "The index is being built."
    expected: dict[str, Any] = {"code": "NOT_READY", "retryable": True, "retryAfter": 10, "element": "index user.town"}
    assert error.extensions == {**expected, "state": "building", "progress": "40 %"}
    assert "progress" not in NotReady("wait", element="e", state="announced").extensions


class Step(Entity):
    """A history without current records."""

    order_id: Id[str]
    number: SubId[str]


class StepWithCurrent(Entity, name="step", current="~"):
    """The next release of the history."""

    order_id: Id[str]
    number: SubId[str]


async def test_current_records_that_are_not_ready(tmp_path: Path) -> None:
    """Reads of current records are refused until these are ready, also for a process that only reads by id."""
    catalog = Catalog(StepWithCurrent)
    spec = catalog.entity(StepWithCurrent)
    async with two_processes(tmp_path) as (_, other):
        await prepare_table(other, Catalog(Step), adopt=True)
        await prepare_table(other, catalog)
        store = await open_sqlite(tmp_path / "table.db")
        async with opened_schema(store, catalog) as schema:
            db = database(store, schema, catalog)
            await db.create(StepWithCurrent, order_id="o", number="1")
            for read in (db.get(StepWithCurrent, "o", number="~"), db.get_many(StepWithCurrent, [("o", "1"), "o"])):
                with pytest.raises(NotReady) as problem:
                    await read
                assert problem.value.extensions["element"] == "current record step.current"
            assert await db.get(StepWithCurrent, "o") == StepWithCurrent(order_id="o", number="1"), "its last entry"
            lookups = [db.wanted(spec, values, consistent=True) for values in (["o", "1"], ["o", "~"], ["x", "1"])]
            answers = (await db.read_records([one for one in lookups if isinstance(one, PointLookup)])).results
            assert [type(answer).__name__ for answer in answers] == ["StepWithCurrent", "NotReady", "NoneType"]
            await change_state(other, "step current record current", "ready")
            assert await db.get_many(StepWithCurrent, ["o"]) == [None], "nothing has built it"
        await store.close()

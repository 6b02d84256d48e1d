"""The progress that a migration reports, and migrations that lose contact to the store."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Id, Index, SubId, Unique, derived
from graphql_api.errors import NotReady, StoreError, StoreUnavailable
from graphql_api.evolution import (
    MigrationProgress,
    MigrationResult,
    MigrationSettings,
    TableRecord,
    proposed,
    run_migration,
)
from graphql_api.evolution.migration import migrate_at_opening
from graphql_api.evolution.schema_copy import read_copy
from graphql_api.evolution.table_opening import announce, prepare_table
from graphql_api.evolution.table_record import (
    EPOCH_KEY,
    PassProgress,
    read_record,
    save_progress,
    save_record,
)
from graphql_api.evolution.table_schema import LeasedSchema, TableSchema, opened_schema
from graphql_api.storage import (
    ForwardingStore,
    Item,
    Key,
    Put,
    RangeRead,
    ReadResult,
    ScanPage,
    Store,
    TableDefinition,
    Write,
)
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.writes import item_key
from tests.evolution.migration_support import (
    NOW,
    ROWS,
    entity,
    migrated,
    model_of,
    opened,
    opened_store,
    put_all,
    stored_items,
    users,
)
from tests.evolution.test_migration_faults import Killed, LaggingIndexes, SmallPages, run
from tests.evolution.test_new_properties import Renewals
from tests.evolution.test_table_schema import FakeClocks, LeasingStore, database

BEFORE, AFTER = Catalog(users()), Catalog(users(by_town=Index(hash="town", sort="name")))
FENCE = 3.0 + 0.2 + 0.3


class Clock:
    """A time that passes only while a migration waits."""

    def __init__(self, **settings: Any) -> None:
        self.now = 0.0
        self.seen: list[MigrationProgress] = []
        own = {"margin_seconds": 0.2, "life_seconds": 0.3, "segments": 2, **settings}
        self.settings = MigrationSettings(clock=lambda: NOW, timer=lambda: self.now, sleep=self._sleep, **own)

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    @property
    def waited(self) -> float:
        """The longest time that was left of a wait."""
        return max((one.seconds_left or 0.0 for one in self.seen), default=0.0)


class LeasedTable(ForwardingStore):
    """An engine with leases, in small pages, that notes the progress that is stored in it."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.reported: list[int] = []
        self.before_scan: Callable[[], None] = lambda: None

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        self.before_scan()
        page = await super().scan(segment, of, after)
        return page if len(page.items) <= 4 else ScanPage(page.items[:4], item_key(page.items[3]))

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        items = [write.item for write in writes if isinstance(write, Put) and item_key(write.item) == EPOCH_KEY]
        self.reported += [item["progress"]["percent"] for item in items]
        return await super().write(writes)


async def fill(folder: Path, catalog: Catalog = BEFORE) -> None:
    """Stores users, in a table with a lease of three seconds."""
    async with opened(folder, catalog) as db:
        await put_all(db, "User", *ROWS)
        record = await read_record(db.store)
        assert record is not None
        assert await save_record(db.store, record, replace(record.changed(), lease_seconds=3.0))


async def migrate(store: Store, catalog: Catalog, clock: Clock) -> MigrationResult:
    """Runs a migration in the time of a clock."""
    return await run_migration(store, catalog, clock.settings, clock.seen.append)


async def recorded(store: Store) -> TableRecord:
    """The table's record."""
    record = await read_record(store)
    assert record is not None
    return record


# --- what is reported ------------------------------------------------------------------------------------------


async def test_the_progress_of_a_pass(tmp_path: Path) -> None:
    """The progress counts the records of the table, and never decreases. It ends when the elements are ready."""
    await fill(tmp_path)
    clock = Clock()
    async with opened_store(tmp_path) as inner:
        store = LeasedTable(inner)
        store.before_scan = lambda: setattr(clock, "now", clock.now + 0.4)  # pages take time
        assert (await migrate(store, AFTER, clock)).is_complete
        assert (await recorded(store)).progress is None
    percents = [one.percent for one in clock.seen if one.step == "repairing records"]
    assert percents == sorted(percents, key=lambda percent: percent or 0)
    assert (percents[0], percents[-1]) == (0, 99)
    assert len({*percents}) > 5
    assert store.reported == sorted(store.reported)
    assert store.reported[0] == 0 < store.reported[-1]
    assert len(store.reported) < len(percents), "servers learn it as often as they renew their copies"


async def test_the_progress_on_sqlite(tmp_path: Path) -> None:
    """Without leases there is one pass, and servers see its progress while it runs."""
    await fill(tmp_path)
    seen = list[tuple[int | None, str]]()
    async with opened(tmp_path, BEFORE) as db, opened_store(tmp_path) as inner:
        await announce(db.store, AFTER)

        class Watched(SmallPages):
            async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
                page = await super().scan(segment, of, after)
                record = await recorded(inner)
                percent = None if record.progress is None else record.progress.percent
                seen.append((percent, record.elements["user index town"].state))
                return page

        store = Watched(await open_sqlite(tmp_path / "table.db"))
        settings = MigrationSettings(clock=lambda: NOW, timer=lambda: float(len(seen)))  # a second per page
        assert (await run_migration(store, AFTER, settings)).is_complete
        await store.close()
    assert {state for _, state in seen} == {"building"}
    percents = [percent for percent, _ in seen]
    assert None not in percents
    assert percents == sorted(percents, key=lambda percent: percent or 0)
    assert len({*percents}) > 4


async def test_an_unknown_number_of_items(tmp_path: Path) -> None:
    """If the engine does not know the number of items, complete segments alone count."""
    await fill(tmp_path)

    class Uncounted(LeasedTable):
        async def describe(self) -> TableDefinition | None:
            found = await super().describe()
            return found and replace(found, item_count=None)

    clock = Clock()
    async with opened_store(tmp_path) as inner:
        assert (await migrate(Uncounted(inner), AFTER, clock)).is_complete
    assert {one.percent for one in clock.seen if one.step == "repairing records"} == {0, 50, 99}


async def test_the_progress_of_a_removal(tmp_path: Path) -> None:
    """While what is dropped is removed, its elements show the progress."""
    await fill(tmp_path, AFTER)
    seen = dict[str, set[str]]()
    async with opened_store(tmp_path) as inner:
        clock = Clock(drop=True)

        class Watched(LeasedTable):
            async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
                clock.now += 1.0
                record = await recorded(inner)
                for key, one in record.elements.items():
                    seen.setdefault(key, set()).add(record.progress_of(one))
                return await super().scan(segment, of, after)

        result = await migrate(Watched(inner), BEFORE, clock)
    assert result.dropped == ["user index town"]
    assert len(seen.pop("user index town")) > 2
    assert {percent for known in seen.values() for percent in known} == {""}


async def test_a_killed_run_leaves_its_progress(tmp_path: Path) -> None:
    """The progress of a run that was killed stays, since the next run continues there."""
    await fill(tmp_path)

    class ScanKilled(SmallPages):
        async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
            if self.scans == 5:
                raise Killed
            return await super().scan(segment, of, after)

    ticks = iter(range(10**6))
    with pytest.raises(Killed):
        await run(ScanKilled(await open_sqlite(tmp_path / "table.db")), AFTER, timer=lambda: float(next(ticks)))
    async with opened(tmp_path, AFTER) as db:
        with pytest.raises(NotReady) as caught:
            await db.search(model_of(db).by_town, town="Bern")
        left = int(caught.value.progress.removesuffix(" %"))
        assert 30 < left < 70
        assert f"is being built ({left} %)" in caught.value.message
        assert (await migrated(tmp_path, AFTER)).is_complete
        assert len((await db.search(model_of(db).by_town, town="Bern")).items) == 16


async def test_violations_void_the_progress(tmp_path: Path) -> None:
    """After a pass that found violations, the progress is not known: all records have to be read again."""
    await fill(tmp_path, Catalog(users({"email": str | None}, email="x")))
    catalog = Catalog(users({"email": Unique[str] | None}, email="x"))
    assert (await migrated(tmp_path, catalog)).violations
    async with opened_store(tmp_path) as store:
        record = await recorded(store)
        assert record.elements["user unique email"].state == "building"
        assert record.progress is None


# --- what it costs ---------------------------------------------------------------------------------------------


async def test_servers_learn_the_progress_by_their_renewals(tmp_path: Path) -> None:
    """With leases, the renewal of the copy brings the progress. A request that is refused reads nothing."""
    await fill(tmp_path)
    async with opened_store(tmp_path) as inner:
        leasing, renewals = LeasingStore(inner, FakeClocks()), Renewals()
        record = await announce(inner, AFTER)
        key = "user index town"
        assert await save_record(inner, record, record.changed(replace(record.elements[key], state="building")))
        copy = await read_copy(leasing, AFTER)
        async with LeasedSchema(leasing, AFTER, copy, leasing.clocks, renewals.pause) as schema:
            db = database(leasing, schema, AFTER)
            await renewals.next()
            building = await recorded(inner)
            await save_progress(inner, building, PassProgress(40, frozenset({building.elements[key].epoch})))
            leasing.reads.clear()
            for expected in ("", "40 %"):
                with pytest.raises(NotReady) as caught:
                    await db.search(model_of(db).by_town, town="Bern")
                assert caught.value.progress == expected
                assert leasing.reads == []
                await renewals.next()
                assert leasing.reads == [EPOCH_KEY]
                leasing.reads.clear()


async def test_a_progress_that_comes_too_late(tmp_path: Path) -> None:
    """A progress of an earlier epoch is not stored, and changes nothing."""
    await fill(tmp_path)
    async with opened_store(tmp_path) as store:
        old = await recorded(store)
        assert await save_record(store, old, old.changed())
        await save_progress(store, old, PassProgress(40, frozenset({1})))
        assert ((await recorded(store)).epoch, (await recorded(store)).progress) == (old.epoch + 1, None)
        assert replace(old, progress=PassProgress(40, frozenset({1}))).changed().progress is None


# --- contact ---------------------------------------------------------------------------------------------------


class CutStore(LeasedTable):
    """An engine that does not answer for a time of the clock."""

    def __init__(self, inner: Store, clock: Clock) -> None:
        super().__init__(inner)
        self.clock = clock
        self.cut = (0.0, 0.0)
        self.refused = 0

    def _check(self) -> None:
        if self.cut[0] <= self.clock.now < self.cut[1]:
            self.refused += 1
            raise StoreUnavailable("The store does not answer.")

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self._check()
        return await super().get_many(keys, consistent)

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        self._check()
        self.clock.now += 0.5
        return await super().scan(segment, of, after)


@pytest.mark.parametrize("begin", [1.0, 5.0], ids=["during the wait", "during the final pass"])
async def test_a_run_that_loses_contact_goes_on(tmp_path: Path, begin: float) -> None:
    """A migration that does not reach the store for several leases continues by itself, and repeats no page."""
    await fill(tmp_path)
    clock = Clock()
    async with opened_store(tmp_path) as inner:
        store = CutStore(inner, clock)
        store.cut = (begin, begin + 12.0)
        result = await migrate(store, AFTER, clock)
    assert result.is_complete
    assert store.refused
    assert any(one.step == "waiting until the store answers again" for one in clock.seen)
    alone = tmp_path / "alone"
    alone.mkdir()
    await fill(alone, AFTER)
    assert await stored_items(tmp_path) == await stored_items(alone)


async def test_a_run_that_never_reaches_the_store_ends(tmp_path: Path) -> None:
    """After some minutes without an answer, the run ends with a retryable error."""
    await fill(tmp_path)
    clock = Clock()
    async with opened_store(tmp_path) as inner:
        store = CutStore(inner, clock)
        store.cut = (1.0, 10**6)
        with pytest.raises(StoreUnavailable) as caught:
            await migrate(store, AFTER, clock)
    assert caught.value.retryable
    assert 180 < clock.now < 900


async def test_the_next_run_does_not_wait_again(tmp_path: Path) -> None:
    """If a run ends after its final pass has begun, the next one goes on without another wait for the servers."""
    await fill(tmp_path)

    class PassKilled(LeasedTable):
        scans = 0

        async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
            self.scans += 1
            if self.scans > 4:
                raise Killed
            return await super().scan(segment, of, after)

    async with opened_store(tmp_path) as inner:
        first, second = Clock(), Clock(claim_seconds=0.01)
        with pytest.raises(Killed):
            await migrate(PassKilled(inner), AFTER, first)
        assert first.waited == pytest.approx(FENCE)
        assert (await migrate(LeasedTable(inner), AFTER, second)).is_complete
        assert second.waited == 0.0


async def test_a_run_that_was_killed_while_it_waited(tmp_path: Path) -> None:
    """If a run ends before its wait is over, the next one waits for the whole time."""
    await fill(tmp_path)

    class Impatient(Clock):
        async def _sleep(self, seconds: float) -> None:
            await super()._sleep(seconds)
            if self.now > 2.0:
                raise Killed

    async with opened_store(tmp_path) as inner:
        with pytest.raises(Killed):
            await migrate(LeasedTable(inner), AFTER, Impatient())
        second = Clock()
        assert (await migrate(LeasedTable(inner), AFTER, second)).is_complete
        assert second.waited == pytest.approx(FENCE)


# --- lag -------------------------------------------------------------------------------------------------------


async def test_current_records_are_found_in_lagging_indexes(tmp_path: Path) -> None:
    """Before current records are ready, those that the migration has written are found in all indexes."""

    def steps(**options: Any) -> Any:
        own = {"order_id": Id[str], "number": SubId[str], "place": str}
        return entity("Step", own, options, by_place=Index(hash="place"))

    older, newer = Catalog(steps()), Catalog(steps(current="now"))
    async with opened(tmp_path, older) as db:
        await put_all(db, "Step", *({"order_id": f"o{n % 3}", "number": f"{n}", "place": "x"} for n in range(6)))
        record = await recorded(db.store)
        assert await save_record(db.store, record, replace(record.changed(), lease_seconds=3.0))
    looked_up = set[str]()

    class Lagging(LaggingIndexes):
        async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
            looked_up.update(f"{read.range.low}" for read in reads if read.index is not None)
            return await super().read_ranges(reads, want)

    async with opened_store(tmp_path) as inner:
        store = Lagging(inner)
        assert (await migrate(store, newer, Clock())).is_complete
    assert {text for text in looked_up if "now" in text}
    assert {sum(f"o{n}" in text and "now" in text for text in looked_up) for n in range(3)} == {1}
    assert all(looks >= 3 for looks in store.looks.values())


# --- other releases --------------------------------------------------------------------------------------------


def first_letter(name: str) -> str:
    """A derived value."""
    return name[:1]


class OvertakenTable(LeasedTable):
    """An engine on which another release begins to build its elements while the second page is read."""

    schema: TableSchema

    def __init__(self, inner: Store, newer: Catalog) -> None:
        super().__init__(inner)
        self._newer = newer
        self._scans = self.written = self.written_before = 0

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        self._scans += 1
        if self._scans == 2:
            self.written_before = self.written
            record = await recorded(self.inner)
            proposal = proposed(record, self._newer)
            added = [one for key, one in proposal.elements.items() if key not in record.elements]
            building = proposal.changed(*(replace(one, state="building") for one in added))
            assert await save_record(self.inner, record, building)
            await self.schema.refresh()  # A lease ends, and the migration goes on with a new copy.
        return await super().scan(segment, of, after)

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        results = await super().write(writes)
        is_record = [isinstance(one, Put) and one.item["hashKey"] == "user!" for one in writes]
        self.written += sum(own and problem is None for own, problem in zip(is_record, results, strict=True))
        return results


async def test_a_pass_stops_when_its_catalog_can_no_longer_write_the_records(tmp_path: Path) -> None:
    """A pass writes no record after another release has begun to build a derived property that it cannot compute."""
    await fill(tmp_path)
    clock = Clock(segments=1)
    letter = derived(first_letter, "name")
    newer = Catalog(users({"letter": str | None}, letter=letter, by_letter=Index(hash="letter", sort="name")))
    async with opened_store(tmp_path) as inner:
        store = OvertakenTable(inner, newer)
        served = await prepare_table(store, AFTER, create_table=False)
        async with opened_schema(store, AFTER, served=served) as store.schema:
            result = await migrate_at_opening(store, AFTER, store.schema, clock.settings)
        assert (await recorded(store)).elements["user index town"].state == "building"
    assert store.written == store.written_before > 0
    assert "requires a newer catalog" in result.withdrawn["user index town"]

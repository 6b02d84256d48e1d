"""Migrations that are killed, run twice or together with servers, and wait for leases and for lagging indexes."""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from graphql_api import Catalog, ForeignKey, Id, Index, SubId, Unique, derived
from graphql_api.errors import NotReady, RecordNotFound
from graphql_api.evolution.migration import run_migration
from graphql_api.evolution.migration_settings import MigrationProgress, MigrationResult, MigrationSettings
from graphql_api.evolution.table_opening import announce
from graphql_api.evolution.table_record import read_record, save_record
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import (
    Check,
    Delete,
    Item,
    Key,
    Put,
    RangeRead,
    ReadResult,
    RowPage,
    ScanPage,
    TableDefinition,
    TransactionWrite,
    Write,
)
from graphql_api.writes import item_key
from tests.evolution.late_store import at_once
from tests.evolution.migration_support import (
    NOW,
    ROWS,
    bookkeeping,
    entity,
    migrated,
    model_of,
    opened,
    put_all,
    states,
    stored_items,
    teams,
    users,
)
from tests.support.run_depth import depth

PAGE = 4


class SmallPages(ForwardingStore):
    """Scans in pages of a few records. It compares the epoch as SQLite does."""

    scans = 0

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        self.scans += 1
        await asyncio.sleep(0)
        page = await super().scan(segment, of, after)
        if len(page.items) <= PAGE:
            return page
        return ScanPage(page.items[:PAGE], item_key(page.items[PAGE - 1]))

    def holds(self, check: Check, *, now: bool = False) -> bool:
        """Compares with the file."""
        inner: Any = self.inner
        return bool(inner.holds(check, now=now))


class Killed(BaseException):
    """Ends a process."""


class KilledStore(SmallPages):
    """Kills the process at a call: before the engine has applied it, or before its reply."""

    def __init__(self, inner: Store, last: int, *, applies: bool) -> None:
        super().__init__(inner)
        self.calls = 0
        self._last = last
        self._applies = applies

    async def _call(self, call: Callable[[], Any]) -> Any:
        self.calls += 1
        if self.calls > self._last or (self.calls == self._last and not self._applies):
            raise Killed
        result = await call()
        if self.calls == self._last:
            raise Killed
        return result

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        answer: Sequence[ReadResult] = await self._call(lambda: self.inner.read_ranges(reads, want))
        return answer

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        answer: Sequence[Item | None] = await self._call(lambda: self.inner.get_many(keys, consistent))
        return answer

    async def write(self, writes: Sequence[Write]) -> Any:
        return await self._call(lambda: self.inner.write(writes))

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        await self._call(lambda: self.inner.write_together(writes, token))

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        page: ScanPage = await self._call(lambda: SmallPages.scan(self, segment, of, after))
        return page

    async def ensure_table(self, definition: TableDefinition) -> None:
        await self._call(lambda: self.inner.ensure_table(definition))


def first_letter(name: str) -> str:
    """A derived value."""
    return name[:1]


def catalogs() -> tuple[Catalog, Catalog]:
    """A catalog, and one that adds elements of several kinds and drops one."""

    def steps(**options: Any) -> Any:
        return entity("Step", {"order_id": Id[str], "number": SubId[str], "place": str}, options)

    older = Catalog(teams(), users({"email": str | None}, email=None, by_name=Index(sort="name")), steps())
    newer = users(
        {"email": Unique[str] | None, "letter": str | None}, email=None, letter=derived(first_letter, "name"),
        by_town=Index(hash="town", sort="name"), by_letter=Index(hash="letter"),
        of_team=ForeignKey("Team", by="team_id"),
    )  # fmt: skip
    return older, Catalog(teams(), newer, steps(current="now"))


async def fill(folder: Path, catalog: Catalog) -> None:
    """Stores records of all entities."""
    async with opened(folder, catalog) as db:
        await put_all(db, "Team", {"team_id": "red"})
        await put_all(db, "User", *({**row, "team_id": "red", "email": row["name"]} for row in ROWS[:10]))
        await put_all(db, "Step", *({"order_id": f"o{n % 2}", "number": f"{n}", "place": "x"} for n in range(4)))


async def run(store: Store, catalog: Catalog, **settings: Any) -> MigrationResult:
    """Runs a migration that drops, and closes the store."""
    try:
        own = MigrationSettings(clock=lambda: NOW, drop=True, claim_seconds=0.05, **settings)
        return await run_migration(store, catalog, own)
    finally:
        with suppress(Killed):
            await store.close()


def ticking() -> Callable[[], float]:
    """A timer that advances with each look at it, so that two runs make the same calls on any machine."""
    ticks = count()
    return lambda: next(ticks) / 100


class DeletingStore(SmallPages):
    """Deletes the last entry of a history just before a migration writes its current record."""

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        heads = [one.item for one in writes if isinstance(one, Put) and one.item.get("number") == "now"]
        if heads:
            await self.inner.write(
                [Delete(Key(head["hashKey"], head["rangeKey"].replace("now", "1"))) for head in heads]
            )
        await super().write_together(writes, token)


async def test_a_current_record_needs_its_entry(tmp_path: Path) -> None:
    """A history whose only entry is deleted while its current record is built gets none."""
    without = Catalog(entity("Step", {"order_id": Id[str], "number": SubId[str], "place": str}, {}))
    with_current = Catalog(
        entity("Step", {"order_id": Id[str], "number": SubId[str], "place": str}, {"current": "now"})
    )
    async with opened(tmp_path, without) as db:
        await put_all(db, "Step", {"order_id": "o", "number": "1", "place": "x"})
    assert (await run(DeletingStore(await open_sqlite(tmp_path / "table.db")), with_current)).is_complete
    assert [item for item in await stored_items(tmp_path) if "number" in item] == []


async def test_a_killed_run_continues(tmp_path: Path, random: Random) -> None:
    """A run that is killed at any call, before or after the engine applied it, is completed by another run."""
    older, newer = catalogs()
    await fill(tmp_path, older)
    undisturbed = tmp_path / "undisturbed"
    shutil.copytree(tmp_path, undisturbed, ignore=shutil.ignore_patterns("undisturbed"))
    counting = KilledStore(await open_sqlite(undisturbed / "table.db"), 10**9, applies=True)
    assert (await run(counting, newer, timer=ticking())).is_complete
    expected = await stored_items(undisturbed), await states(undisturbed)
    assert counting.calls > 40
    step = depth(quick=7, deep=1)
    for number in range(random.randint(1, step), counting.calls + 1, step):
        for applies in (False, True):
            folder = tmp_path / f"{number}{applies}"
            folder.mkdir()
            shutil.copy(tmp_path / "table.db", folder)
            killed = KilledStore(await open_sqlite(folder / "table.db"), number, applies=applies)
            with pytest.raises(Killed):
                await run(killed, newer, timer=ticking())
            result = await run(SmallPages(await open_sqlite(folder / "table.db")), newer)
            assert result.is_complete
            assert (await stored_items(folder), await states(folder)) == expected, (number, applies)
            assert await bookkeeping(folder) == ["table#epoch", "table#meta"]


async def test_a_killed_run_redoes_at_most_one_page(tmp_path: Path) -> None:
    """After a kill in the middle of a pass, another run reads only the pages that were not complete."""
    before, catalog = Catalog(users()), Catalog(users(by_town=Index(hash="town")))
    async with opened(tmp_path, before) as db:
        await put_all(db, "User", *ROWS)

    class ScanKilled(SmallPages):
        async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
            if self.scans == 5:
                raise Killed
            return await super().scan(segment, of, after)

    with pytest.raises(Killed):
        await run(ScanKilled(await open_sqlite(tmp_path / "table.db")), catalog)
    store = SmallPages(await open_sqlite(tmp_path / "table.db"))
    assert (await run(store, catalog)).is_complete
    items = len(ROWS) + 3  # the table's record, its epoch, and a checkpoint
    assert store.scans == -(-items // PAGE) - 5


async def test_two_runs_at_once(tmp_path: Path, random: Random) -> None:
    """Two runs that interleave end with the items of one run, and both succeed."""
    older, newer = catalogs()
    await fill(tmp_path, older)
    alone = tmp_path / "alone"
    shutil.copytree(tmp_path, alone, ignore=shutil.ignore_patterns("alone"))
    await run(await open_sqlite(alone / "table.db"), newer)
    for number in range(depth(quick=3, deep=50)):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        shutil.copy(tmp_path / "table.db", folder)
        segments = random.choice([1, 3])

        async def delayed(folder: Path = folder, segments: int = segments) -> MigrationResult:
            store = SmallPages(await open_sqlite(folder / "table.db"))
            await asyncio.sleep(random.uniform(0, 0.05))
            return await run(store, newer, segments=segments)

        results = await asyncio.gather(delayed(), delayed(), delayed())
        assert all(result.is_complete for result in results)
        assert await stored_items(folder) == await stored_items(alone)
        assert await bookkeeping(folder) == ["table#epoch", "table#meta"]


async def test_two_runs_at_once_report_violations(tmp_path: Path, random: Random) -> None:
    """If several runs share a pass that finds a violation, none of them makes the element ready."""
    before = Catalog(users({"email": str | None}, email=None))
    catalog = Catalog(users({"email": Unique[str] | None}, email=None))
    async with opened(tmp_path, before) as db:
        await put_all(db, "User", *({**row, "email": f"{n % 30}"} for n, row in enumerate(ROWS)))
    for _ in range(depth(quick=5, deep=100)):

        async def delayed() -> MigrationResult:
            store = SmallPages(await open_sqlite(tmp_path / "table.db"))
            await asyncio.sleep(random.uniform(0, 0.05))
            return await run(store, catalog, segments=3)

        results = await asyncio.gather(delayed(), delayed(), delayed())
        found = [[one.record.range for one in result.violations] for result in results]
        assert found == [["userId#u30"]] * 3
        assert (await states(tmp_path))["user unique email"] == "building"


async def test_servers_give_right_answers_during_a_run(tmp_path: Path, random: Random) -> None:
    """While an index is built, old and new servers write, and each search is right or refused."""
    before, catalog = Catalog(users()), Catalog(users(by_town=Index(hash="town", sort="name")))
    expected: dict[str, dict[str, Any]] = {row["user_id"]: row for row in ROWS}
    async with opened(tmp_path, before) as old, opened(tmp_path, catalog) as new:
        await put_all(old, "User", *ROWS)
        migration = asyncio.create_task(run(SmallPages(await open_sqlite(tmp_path / "table.db")), catalog))
        answers = refusals = 0
        while not (migration.done() and answers):
            db = random.choice([old, new])
            model, user_id = model_of(db), f"u{random.randrange(40):02}"
            action, town = random.choice(["put", "update", "delete"]), random.choice(["Bern", "Oslo", None])
            if action == "put":
                await db.put(model(user_id=user_id, name=user_id, town=town))
                expected[user_id] = {"name": user_id, "town": town}
            elif action == "delete":
                await db.delete(model, user_id)
                expected.pop(user_id, None)
            else:
                with suppress(RecordNotFound):
                    await db.update(model, user_id, town=town)
                    expected[user_id] = {**expected[user_id], "town": town}
            try:
                page = await new.search(model_of(new).by_town, town="Bern", limit=100)
            except NotReady:
                refusals += 1
                continue
            answers += 1
            assert [user.name for user in page.items] == sorted(
                user["name"] for user in expected.values() if user["town"] == "Bern"
            )
        assert (await migration).is_complete
        assert refusals


# --- leases and lag --------------------------------------------------------------------------------------------


class LaggingIndexes(ForwardingStore):
    """An engine without comparison, whose indexes find a record only at the third look."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.looks: dict[str, int] = {}

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        answers = await super().read_ranges(reads, want)
        for read in reads:
            if read.index is not None:
                self.looks[f"{read.hash_key} {read.range.low}"] = looks = (
                    self.looks.get(f"{read.hash_key} {read.range.low}", 0) + 1
                )
                if looks < 3:
                    return [RowPage((), None, 0)]
        return answers


class Waits:
    """The waits of a migration, whose time passes only while it waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.longest: dict[str, float] = {}
        self.settings = MigrationSettings(
            clock=lambda: NOW, margin_seconds=0.2, life_seconds=0.3, segments=2, timer=lambda: self.now,
            sleep=self._sleep,
        )  # fmt: skip

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    def note(self, progress: MigrationProgress) -> None:
        """Notes the longest wait of each step."""
        if progress.seconds_left is not None:
            self.longest[progress.step] = max(self.longest.get(progress.step, 0.0), progress.seconds_left)


async def test_leases_are_waited_for_and_lag_too(tmp_path: Path) -> None:
    """On an engine with leases, building waits for a lease, a margin and the life of a request, and for lag."""
    older, newer = catalogs()
    await fill(tmp_path, older)
    store = LaggingIndexes(await open_sqlite(tmp_path / "table.db"))
    record = await read_record(store)
    assert record is not None
    await save_record(store, record, replace(record.changed(), lease_seconds=3.0))
    await announce(store, newer)
    waits = Waits()
    try:
        result = await run_migration(store, newer, waits.settings, waits.note)
    finally:
        await store.close()
    assert result.is_complete
    assert max(store.looks.values()) >= 3
    assert sorted(waits.longest.values()) == [pytest.approx(3.5), pytest.approx(30.2)]
    alone = tmp_path / "alone"
    alone.mkdir()
    await fill(alone, older)
    await migrated(alone, newer)
    assert await stored_items(tmp_path) == await stored_items(alone)


async def test_a_derived_version_closes_the_version_before(tmp_path: Path) -> None:
    """With leases, no server reads by a version of a derived property when records get the next one."""
    older = Catalog(users({"key": str}, key=derived(str.upper, "name"), by_key=Index(sort="key")))
    next_key = derived(str.lower, "name", version=2, previous=str.upper)
    newer = Catalog(users({"key": str}, key=next_key, by_key=Index(sort="key")))
    async with opened(tmp_path, older) as db:
        await put_all(db, "User", *ROWS[:3])
    store = LaggingIndexes(await open_sqlite(tmp_path / "table.db"))
    record = await read_record(store)
    assert record is not None
    await save_record(store, record, replace(record.changed(), lease_seconds=3.0))
    await announce(store, newer)
    waits, seen = Waits(), list[tuple[str, str, str]]()

    def note(progress: MigrationProgress) -> None:
        waits.note(progress)
        states = at_once(read_record(store))
        assert states is not None
        one, two = (states.elements[f"user derived property key@{version}"].state for version in (1, 2))
        seen.append((progress.step, one, two))

    try:
        result = await run_migration(store, newer, waits.settings, note)
        assert result.is_complete
        record = await read_record(store)
    finally:
        await store.close()
    assert [*dict.fromkeys(seen)][:2] == [
        ("waiting until no server reads by the version before", "closing", "announced"),
        ("waiting until all servers maintain the elements", "closing", "building"),
    ]
    assert waits.longest["waiting until no server reads by the version before"] == pytest.approx(30.2)
    assert record is not None
    assert "user derived property key@1" not in record.elements
    assert record.elements["user derived property key@2"].state == "ready"


async def test_a_version_that_was_closed_can_be_read_again(tmp_path: Path) -> None:
    """If the next version is given up before its migration has begun, the version before is ready again."""
    older = Catalog(users({"key": str}, key=derived(str.upper, "name"), by_key=Index(sort="key")))
    next_key = derived(str.lower, "name", version=2, previous=str.upper)
    newer = Catalog(users({"key": str}, key=next_key, by_key=Index(sort="key")))
    async with opened(tmp_path, older) as db:
        await put_all(db, "User", *ROWS[:3])
        await announce(db.store, newer)
        record = await read_record(db.store)
        assert record is not None
        key = "user derived property key@1"
        assert await save_record(db.store, record, record.changed(replace(record.elements[key], state="closing")))
        with pytest.raises(NotReady):
            await db.search(model_of(db).by_key)
        assert (await migrated(tmp_path, older)).is_complete
        assert len((await db.search(model_of(db).by_key)).items) == 3

"""Comparisons of two stores: exactly the items that differ, for at most one pass over each store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from graphql_api import Catalog, Entity, Id, Index, Shards, Timestamp, Ttl, open_catalog
from graphql_api.database import Database
from graphql_api.errors import InvalidSettings, StoreError, WrongTable
from graphql_api.storage import (
    Check,
    Delete,
    ForwardingStore,
    Item,
    Key,
    Put,
    ScanPage,
    Store,
    TransactionWrite,
    Write,
)
from graphql_api.verification import (
    ComparisonResult,
    ComparisonSettings,
    DifferenceKind,
    StoreDifference,
    compare_stores,
)
from graphql_api.writes import item_key
from tests.evolution.migration_support import entity, opened, put_all
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server
from tests.support.run_depth import depth
from tests.support.store_doubles import CountingStore, all_items
from tests.verification.damaged_tables import CATALOG, NOW, SECRETS, write_records
from tests.verification.running_writers import Writer

SETTINGS = ComparisonSettings(clock=lambda: NOW, settle_seconds=0.0)
NAMES = ("first", "second")


async def compared(
    first: Store, second: Store, catalog: Catalog = CATALOG, settings: ComparisonSettings = SETTINGS
) -> ComparisonResult:
    """Compares two stores."""
    return await compare_stores((first, second), catalog, NAMES, settings)


async def copy_items(source: Store, target: Store) -> None:
    """Copies all items, but those that the table keeps about itself, under other write ids."""
    items = [item for item in await all_items(source) if not item["hashKey"].startswith("shardql!")]
    for start in range(0, len(items), 500):
        puts = [Put({**item, "_w": f"copy {start}"}) for item in items[start : start + 500]]
        assert not any(await target.write(puts))


@asynccontextmanager
async def two_tables(folder: Path, catalog: Catalog = CATALOG) -> AsyncIterator[tuple[Database, Database]]:
    """Opens two empty tables of a catalog on SQLite."""
    async with AsyncExitStack() as stack:
        dbs = []
        for name in NAMES:
            (folder / name).mkdir(exist_ok=True)
            dbs.append(await stack.enter_async_context(opened(folder / name, catalog, NOW)))
        yield dbs[0], dbs[1]


@pytest.fixture
async def copies(tmp_path: Path) -> AsyncIterator[tuple[Database, Database]]:
    """Two tables with the same records."""
    async with two_tables(tmp_path) as (first, second):
        await write_records(first)
        await copy_items(first.store, second.store)
        yield first, second


# --- what differs ----------------------------------------------------------------------------------------------


async def test_copies_are_equal(copies: tuple[Database, Database]) -> None:
    """Two stores with the same items are equal, whatever the write ids are. Nothing is read by key."""
    first, second = (CountingStore(db.store) for db in copies)
    result = await compared(first, second, settings=replace(SETTINGS, segments=1))
    assert (result.differences, result.differing_shards, result.notes) == ([], [], [])
    assert result.shards[0] == result.shards[1]
    for store in (first, second):
        assert store.counts.scans == 1
        assert store.counts.gets <= 3, "the table's record"


async def test_each_kind_of_difference(copies: tuple[Database, Database]) -> None:
    """Missing, additional and different items are reported, constraint items and counters too."""
    first, second = copies
    items = {item["rangeKey"]: item for item in await all_items(second.store)}
    (unique,) = [one for one in await all_items(second.store) if one["hashKey"].endswith("nameCanonical#ann")]
    extra = {**items["personId#bob"], "rangeKey": "personId#zed", "personId": "zed"}
    changed = {**items["email#e1@x"], "label": "changed", "more": 1}
    counter = {**items["counter#num"], "_last": 77}
    await second.store.write([Delete(item_key(unique)), Put(extra), Put(changed), Put(counter)])
    result = await compared(first.store, second.store)
    assert set(result.differences) == {
        StoreDifference(DifferenceKind.MISSING, item_key(unique)),
        StoreDifference(DifferenceKind.EXTRA, item_key(extra)),
        StoreDifference(DifferenceKind.DIFFERS, item_key(changed), ("label", "more")),
        StoreDifference(DifferenceKind.DIFFERS, item_key(counter), ("_last",)),
    }
    assert len(result.differing_shards) == 4
    assert result.unsettled == []


async def test_expired_items_do_not_differ(tmp_path: Path) -> None:
    """A record that has expired, and that only one engine has removed, is no difference."""

    class Card(Entity, name="card"):
        card_id: Id[str]
        until: Ttl[Timestamp] | None = None

    catalog = Catalog(Card)
    async with two_tables(tmp_path, catalog) as (first, second):
        for number, until in enumerate((int(NOW) - 5, int(NOW) + 5)):
            await first.put(Card(card_id=f"{number}", until=until))
        result = await compared(first.store, second.store, catalog)
        assert [one.record.range for one in result.differences] == ["cardId#1"]


async def test_stored_responses_are_not_compared(copies: tuple[Database, Database]) -> None:
    """Responses under idempotency keys live for a day, and are not compared."""
    first, second = copies
    (response,) = [one for one in await all_items(second.store) if "~once" in one["hashKey"]]
    await second.store.write([Delete(item_key(response))])
    assert (await compared(first.store, second.store)).differences == []


async def test_positions_of_streams_are_compared(copies: tuple[Database, Database]) -> None:
    """Without its position, a copy would apply the events of a stream again. Dead letters are not compared."""
    first, second = copies
    lost = [
        one for one in await all_items(second.store) if one["hashKey"].startswith(("shardql~stream", "shardql~dead"))
    ]
    await second.store.write([Delete(item_key(item)) for item in lost])
    result = await compared(first.store, second.store)
    (position,) = (item for item in lost if item["hashKey"].startswith("shardql~stream"))
    assert result.differences == [StoreDifference(DifferenceKind.MISSING, item_key(position))]


async def test_tables_with_other_shards_are_refused(tmp_path: Path) -> None:
    """Tables that place records in different shards cannot be compared item by item."""
    catalogs = [Catalog(entity("User", {"user_id": Id[str]}, {"shards": Shards(size)})) for size in (2, 4)]
    stores = []
    async with AsyncExitStack() as stack:
        for name, catalog in zip(NAMES, catalogs, strict=True):
            (tmp_path / name).mkdir()
            stores.append((await stack.enter_async_context(opened(tmp_path / name, catalog))).store)
        with pytest.raises(WrongTable, match="place records of user in different shards"):
            await compared(stores[0], stores[1], catalogs[0])


async def test_different_elements_are_noted(tmp_path: Path) -> None:
    """Elements that only one table has, or in another state, are named."""
    plain = Catalog(entity("User", {"user_id": Id[str], "town": str}))
    indexed = Catalog(entity("User", {"user_id": Id[str], "town": str}, by_town=Index(sort="town")))
    async with AsyncExitStack() as stack:
        stores = []
        for name, catalog in zip(NAMES, (plain, indexed), strict=True):
            (tmp_path / name).mkdir()
            db = await stack.enter_async_context(opened(tmp_path / name, catalog))
            await put_all(db, "User", {"user_id": "u", "town": "Bern"})
            stores.append(db.store)
        result = await compared(stores[0], stores[1], plain)
    assert result.notes == ["Only the second store has the index user.town."]
    assert [one.attributes for one in result.differences] == [("townRangeKey",)]


# --- cost ------------------------------------------------------------------------------------------------------


class User(Entity, shards=Shards(16)):
    """A user."""

    user_id: Id[str]
    name: str

    by_name = Index(sort="name")


USERS = Catalog(User)
DIFFERENT = 37


class Killed(Exception):
    """The process was killed."""


@dataclass
class ItemCountingStore(ForwardingStore):
    """Counts the items that pages and reads by key return."""

    inner: Store
    scanned: int = 0
    fetched: int = 0
    pages: int = 10**9
    """after which the process is killed"""

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        self.pages -= 1
        if self.pages < 0:
            raise Killed
        page = await self.inner.scan(segment, of, after)
        self.scanned += len(page.items)
        return page

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.fetched += len(keys)
        return await self.inner.get_many(keys, consistent)


async def plant_differences(store: Store, random: Random) -> set[Key]:
    """Changes, deletes and adds 37 items. Returns their keys."""
    items = [item for item in await all_items(store) if item["hashKey"].startswith("user!")]
    chosen = random.sample(items, DIFFERENT)
    for number, item in enumerate(chosen):
        if number % 3 == 0:
            await store.write([Delete(item_key(item))])
        elif number % 3 == 1:
            await store.write([Put({**item, "name": "other"})])
        else:
            added = {**item, "rangeKey": f"{item['rangeKey']}-added", "_w": "added"}
            await store.write([Put(added)])
            chosen[number] = added
    return set(map(item_key, chosen))


async def assert_cost(stores: Sequence[Store], keys: set[Key]) -> None:
    """Checks that a comparison finds exactly these keys, reads each item once, and the different ones twice more."""
    counting = [ItemCountingStore(store) for store in stores]
    total = [len(await all_items(store)) for store in stores]
    result = await compared(counting[0], counting[1], USERS)
    assert {one.record for one in result.differences} == keys
    assert len(result.differences) == len(keys)
    for store, items in zip(counting, total, strict=True):
        assert store.scanned == items, "one pass"
        assert store.fetched <= 2 * len(keys) + 3, "two looks at each difference, and the table's record"


async def test_37_differences_are_found_for_one_pass_each(tmp_path: Path, random: Random) -> None:
    """Two stores that differ in 37 places: exactly these are found, and each store is read once."""
    count = depth(quick=4_000, deep=200_000)
    async with two_tables(tmp_path, USERS) as (first, second):
        for start in range(0, count, 5_000):
            numbers = range(start, min(start + 5_000, count))
            await first.put_many([User(user_id=f"u{number:06}", name=f"n{number % 97}") for number in numbers])
        await copy_items(first.store, second.store)
        keys = await plant_differences(second.store, random)
        await assert_cost((first.store, second.store), keys)


async def test_37_differences_between_engines(
    tmp_path: Path, dynamodb: Server, random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite against DynamoDB: the digests do not depend on the engine, and exactly the differences are found."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    url = f"dynamodb://compared-{uuid4().hex}?endpoint={dynamodb.endpoint}&region={REGION}&deadline=60&read_seconds=30"
    (tmp_path / "first").mkdir()
    count = depth(quick=600, deep=20_000)
    async with (
        opened(tmp_path / "first", USERS, NOW) as first,
        open_catalog(USERS, url, secrets=SECRETS, create_table=True) as second,
    ):
        await first.put_many([User(user_id=f"u{number:06}", name=f"n{number % 97}") for number in range(count)])
        await copy_items(first.store, second.store)
        assert (await compared(first.store, second.store, USERS)).differing_shards == []
        keys = await plant_differences(second.store, random)
        await assert_cost((first.store, second.store), keys)


# --- interruptions ---------------------------------------------------------------------------------------------


async def test_an_interrupted_comparison_goes_on(tmp_path: Path, random: Random) -> None:
    """A comparison that is killed again and again reads each page once, and finds exactly the differences."""
    progress = tmp_path / "progress"
    settings = replace(SETTINGS, progress_file=progress, segments=3)
    async with two_tables(tmp_path, USERS) as (first, second):
        await first.put_many([User(user_id=f"u{number:06}", name="n") for number in range(9_000)])
        await copy_items(first.store, second.store)
        keys = await plant_differences(second.store, random)
        stores = [ItemCountingStore(first.store), ItemCountingStore(second.store)]
        for attempt in range(2):
            stores[1].pages = 2
            with pytest.raises(Killed):
                await compared(stores[0], stores[1], USERS, settings)
            with progress.open("ab") as file:
                file.write(b"half a block"[: 12 * attempt])
        stores[1].pages = 10**9
        result = await compared(stores[0], stores[1], USERS, settings)
        assert {one.record for one in result.differences} == keys
        for number, store in enumerate((first.store, second.store)):
            total = len(await all_items(store))
            assert result.items[number] == total
            assert stores[number].scanned <= total + 6 * 1_000, "at most the pages that were being read"
        assert not progress.exists()


async def test_the_progress_of_another_comparison_is_refused(copies: tuple[Database, Database], tmp_path: Path) -> None:
    """A file with the progress of other stores, or with anything else, is refused and not changed."""
    first, second = copies
    progress, notes = tmp_path / "progress", tmp_path / "notes.txt"
    settings = replace(SETTINGS, progress_file=progress)
    with pytest.raises(Killed):
        await compared(ItemCountingStore(first.store, pages=0), second.store, settings=settings)
    before = progress.read_bytes()
    with pytest.raises(InvalidSettings, match="the progress of another comparison"):
        await compare_stores((first.store, second.store), CATALOG, ("first", "third"), settings)
    assert progress.read_bytes() == before
    notes.write_text("my notes")
    with pytest.raises(InvalidSettings, match="holds something else"):
        await compared(first.store, second.store, settings=replace(SETTINGS, progress_file=notes))
    assert notes.read_text() == "my notes"


# --- running writers -------------------------------------------------------------------------------------------


class MirroredStore(ForwardingStore):
    """Applies each transaction to a second store too, a little later."""

    def __init__(self, inner: Store, mirror: Store) -> None:
        super().__init__(inner)
        self.mirror = mirror
        self.begun = self.applied = 0
        self.progress = asyncio.Condition()

    async def settle(self, _: float) -> None:
        """Waits until the second store has what the first one has now."""
        begun = self.begun
        async with self.progress:
            await self.progress.wait_for(lambda: self.applied >= begun)

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        self.begun += 1
        results = await self.inner.write(writes)
        await self._mirror([one for one, problem in zip(writes, results, strict=True) if problem is None])
        return results

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        self.begun += 1
        applied: Sequence[TransactionWrite] = ()
        try:
            await self.inner.write_together(writes, token)
            applied = writes
        finally:
            await self._mirror(applied)

    async def _mirror(self, writes: Sequence[TransactionWrite]) -> None:
        changes = [replace(one, expect=None) for one in writes if not isinstance(one, Check)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert not any(await self.mirror.write(changes))
        async with self.progress:
            self.applied += 1
            self.progress.notify_all()


async def test_writes_that_reach_both_stores_are_no_differences(tmp_path: Path, random: Random) -> None:
    """While writers change both stores, one a little later than the other, only real differences are reported."""
    async with two_tables(tmp_path) as (first, second):
        mirrored = MirroredStore(first.store, second.store)
        writer = Writer(replace(first, store=mirrored), Random(random.random()))
        await writer.run(100)
        lost = {"hashKey": "person!01", "rangeKey": "personId#lost", "personId": "lost"}
        await first.store.write([Put(lost)])
        running = asyncio.ensure_future(writer.run(depth(quick=300, deep=10_000)))
        comparisons = 0
        while not running.done():
            result = await compared(first.store, second.store, settings=replace(SETTINGS, sleep=mirrored.settle))
            assert [one.record.range for one in result.differences] == ["personId#lost"]
            comparisons += 1
        running.result()
        assert comparisons > 1


async def test_an_item_that_keeps_changing_is_named(copies: tuple[Database, Database]) -> None:
    """A difference that changes at every look is neither reported nor forgotten."""
    first, second = copies
    (item,) = [
        one for one in await all_items(second.store) if one["rangeKey"] == "personId#bob" and "~" not in one["hashKey"]
    ]
    number = 0

    async def change() -> None:
        nonlocal number
        number += 1
        await second.store.write([Put({**item, "name": f"{number}", "_w": f"{number}"})])

    await change()
    result = await compared(first.store, ChangingStore(second.store, change))
    assert result.differences == []
    assert result.unsettled == [item_key(item)]


class ChangingStore(ForwardingStore):
    """Runs an action before each read by key."""

    def __init__(self, inner: Store, action: Callable[[], Awaitable[None]]) -> None:
        super().__init__(inner)
        self.action = action

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        await self.action()
        return await self.inner.get_many(keys, consistent)

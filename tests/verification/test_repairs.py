"""Repairs: on conditions, under the write fence, and with every error of the store."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from graphql_api.errors import StoreRefused, StoreUnavailable
from graphql_api.evolution import BATCH_RETRIES, read_record, save_record
from graphql_api.storage import Delete, ForwardingStore, Item, Key, Put, ScanPage, Store, TransactionWrite
from graphql_api.verification import Damage, VerificationSettings, table_verification, verify_table
from graphql_api.verification.snapshot_reads import SnapshotReads
from graphql_api.writes import item_key
from tests.evolution.migration_support import opened
from tests.support.store_doubles import CountingStore, all_items
from tests.verification.damaged_tables import CATALOG, NOW, Email, Person, write_records

REPAIR = VerificationSettings(clock=lambda: NOW, repair=True)
EMAIL = "email#e1@x"


async def email(store: Store) -> Item:
    """Returns the record that the tests damage."""
    (item,) = [one for one in await all_items(store) if one["rangeKey"] == EMAIL and "~" not in one["hashKey"]]
    return item


async def damage(store: Store) -> None:
    """Removes an index key."""
    item = await email(store)
    await store.write([Put({name: value for name, value in item.items() if name != "personRangeKey"})])


class HookedStore(ForwardingStore):
    """Runs an action before each read by key, or before each transaction."""

    def __init__(
        self,
        inner: Store,
        on_read: Callable[[Sequence[Key]], Awaitable[None]] | None = None,
        on_commit: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(inner)
        self.on_read, self.on_commit = on_read, on_commit

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        if self.on_read is not None:
            await self.on_read(keys)
        return await self.inner.get_many(keys, consistent)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        if self.on_commit is not None:
            await self.on_commit()
        await self.inner.write_together(writes, token)


async def test_a_record_that_changes_before_its_repair_keeps_the_change(tmp_path: Path) -> None:
    """A write between the inspection and the repair is not lost: the repair is planned again."""
    async with opened(tmp_path, CATALOG, NOW) as db:
        await write_records(db)
        await damage(db.store)
        commits = 0

        async def change_first() -> None:
            nonlocal commits
            commits += 1
            if commits == 1:
                item = await email(db.store)
                await db.store.write([Put({**item, "label": "changed", "_w": "another write"})])

        result = await verify_table(HookedStore(db.store, on_commit=change_first), CATALOG, REPAIR)
        # The other program has written no mapping item for its label.
        kinds = [(one.damage, one.is_repaired) for one in result.findings]
        assert kinds == [(Damage.INDEX_KEY, True), (Damage.MAPPING_ITEM, True)]
        assert commits == 2
        record = await db.get(Email, "e1@x")
        assert record is not None
        assert record.label == "changed"
        assert (await db.search(Email.by_person, person_id="ann", prefix="changed")).items == [record]


async def test_an_item_that_keeps_changing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged record that changes at every look is neither reported nor repaired, but named."""
    retries = replace(table_verification.SETTLE_RETRIES, first_backoff_seconds=0.0)
    monkeypatch.setattr(table_verification, "SETTLE_RETRIES", retries)
    async with opened(tmp_path, CATALOG, NOW) as db:
        await write_records(db)
        await damage(db.store)
        target = item_key(await email(db.store))
        number = 0

        async def change(keys: Sequence[Key]) -> None:
            nonlocal number
            if target in keys:
                number += 1
                await db.store.write([Put({**await email(db.store), "_w": f"write {number}"})])

        result = await verify_table(HookedStore(db.store, on_read=change), CATALOG, REPAIR)
        assert result.findings == []
        assert result.unsettled == [target]


async def test_a_repair_stops_when_the_table_record_changes(tmp_path: Path) -> None:
    """A repair that was planned before an index left its state is not applied."""
    async with opened(tmp_path, CATALOG, NOW) as db:
        await write_records(db)
        await damage(db.store)
        damaged = await email(db.store)

        async def drop() -> None:
            record = await read_record(db.store)
            assert record is not None
            element = record.elements["email index person"]
            if element.state == "ready":
                assert await save_record(db.store, record, record.changed(replace(element, state="closing")))

        hooked = HookedStore(db.store)
        done = False

        async def drop_once() -> None:
            nonlocal done
            if not done:
                done = True
                await drop()

        hooked.on_commit = drop_once
        hooked.holds = db.store.holds  # type: ignore[attr-defined]
        hooked.forget_snapshot = db.store.forget_snapshot  # type: ignore[attr-defined]
        result = await verify_table(hooked, CATALOG, REPAIR)
        assert done
        assert result.findings == []
        assert await email(db.store) == damaged


async def test_a_refused_repair_is_reported(tmp_path: Path) -> None:
    """A repair that the store refuses is reported with its reason, and the rest is repaired."""
    async with opened(tmp_path, CATALOG, NOW) as db:
        await write_records(db)
        await damage(db.store)
        (counter,) = [one for one in await all_items(db.store) if one["hashKey"] == "ticket~counter!|desk#a"]
        await db.store.write([Put({**counter, "_last": 0})])

        class Refusing(ForwardingStore):
            async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
                if any(isinstance(one, Put) and one.item["rangeKey"] == EMAIL for one in writes):
                    raise StoreRefused("no such write")
                await self.inner.write_together(writes, token)

        result = await verify_table(Refusing(db.store), CATALOG, REPAIR)
        assert {(one.damage, one.is_repaired, one.is_derivable) for one in result.findings} == {
            (Damage.INDEX_KEY, False, False),
            (Damage.COUNTER, True, True),
        }
        (refused,) = [one for one in result.findings if one.damage is Damage.INDEX_KEY]
        assert "the repair is refused: no such write" in refused.reason
        assert result.remaining.total() == 1


async def test_a_store_that_does_not_answer_is_asked_again(
    tmp_path: Path, random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages, looks and repairs are repeated when the store does not answer, and nothing is found twice."""
    async with opened(tmp_path, CATALOG, NOW) as db:
        await write_records(db)
        await damage(db.store)

        retries = replace(BATCH_RETRIES, max_attempts=1_000, first_backoff_seconds=0.0)
        monkeypatch.setattr(table_verification, "BATCH_RETRIES", retries)

        class Failing(ForwardingStore):
            failures = 0

            def fail(self) -> None:
                if not self.failures or random.random() < 0.2:
                    self.failures += 1
                    raise StoreUnavailable("try again")

            async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
                self.fail()
                return await self.inner.scan(segment, of, after)

            async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
                self.fail()
                return await self.inner.get_many(keys, consistent)

            async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
                await self.inner.write_together(writes, token)
                self.fail()

        store, result = Failing(db.store), None
        while result is None:
            with suppress(StoreUnavailable):  # when it is opened
                result = await verify_table(store, CATALOG, replace(REPAIR, segments=1))
        assert store.failures
        assert [(one.damage, one.is_repaired) for one in result.findings] == [(Damage.INDEX_KEY, True)]
        assert (await verify_table(db.store, CATALOG, REPAIR)).findings == []


async def test_two_repairs_at_once(tmp_path: Path) -> None:
    """Two verifications that repair the same table at the same time restore it once."""
    async with opened(tmp_path, CATALOG, NOW) as db:
        await write_records(db)
        healthy = plain(await all_items(db.store))
        for item in await all_items(db.store):
            kept = {name: value for name, value in item.items() if not name.endswith("RangeKey")}
            await db.store.write([Put(kept)])
        both = await asyncio.gather(*(verify_table(db.store, CATALOG, REPAIR) for _ in range(2)))
        assert sum(result.repaired.total() for result in both) >= 10
        assert not any(result.remaining for result in both)
        assert plain(await all_items(db.store)) == healthy


async def test_a_repair_may_reveal_more(tmp_path: Path) -> None:
    """A record in a wrong shard without its index keys and reference item is moved, and then has all of them."""
    async with opened(tmp_path, CATALOG, NOW) as db:
        await write_records(db)
        healthy = plain(await all_items(db.store))
        item = await email(db.store)
        (reference,) = [one for one in await all_items(db.store) if one["rangeKey"] == f"email.ofPerson\x01|{EMAIL}"]
        bare = {name: value for name, value in item.items() if name not in {"personRangeKey", "emailPersonHashKey"}}
        await db.store.write([Put({**bare, "hashKey": "email!01"})])
        for key in (item_key(item), item_key(reference)):
            await db.store.write([Delete(key)])
        result = await verify_table(db.store, CATALOG, REPAIR)
        assert {one.damage for one in result.findings} == {Damage.SHARD, Damage.INDEX_KEY, Damage.REFERENCE_ITEM}
        assert not result.remaining
        assert plain(await all_items(db.store)) == healthy


async def test_findings_whose_cause_is_repaired_are_not_reported(tmp_path: Path) -> None:
    """A value that only a copy in a wrong shard has twice is no duplicate once the copy is gone."""
    async with opened(tmp_path, CATALOG, NOW) as db:
        await write_records(db)
        (item,) = [
            one for one in await all_items(db.store) if one["rangeKey"] == "personId#ann" and "~" not in one["hashKey"]
        ]
        unique = [one for one in await all_items(db.store) if one["hashKey"] == "person~unique!|nameCanonical#ann"]
        await db.store.write([Put({**item, "hashKey": "person!03"})])
        await db.store.write([Put({**unique[0], "_owner": ["person!03", "personId#ann"]})])
        found = await verify_table(db.store, CATALOG, replace(REPAIR, repair=False))
        assert Damage.DOUBLED in {one.damage for one in found.findings}
        result = await verify_table(db.store, CATALOG, REPAIR)
        assert not result.remaining
        assert (await verify_table(db.store, CATALOG, REPAIR)).findings == []
        assert await db.get(Person, "ann") is not None


async def test_a_verification_reads_a_healthy_record_once(tmp_path: Path) -> None:
    """The pages of a healthy table are read once, and the items that its records need are read once for each page."""
    async with opened(tmp_path, CATALOG, NOW) as db:
        await write_records(db)
        counting = CountingStore(db.store)
        assert (await verify_table(counting, CATALOG, replace(REPAIR, segments=1))).findings == []
        assert counting.counts.scans == 1
        items = await all_items(db.store)
        assert counting.counts.gets <= 2 * len(items), "shared keys are read once for a page"


async def test_a_snapshot_notices_every_change(tmp_path: Path) -> None:
    """Reads that were remembered are unchanged until an item among them is written, created or deleted."""
    async with opened(tmp_path, CATALOG, NOW) as db:
        await write_records(db)
        item = await email(db.store)
        missing = Key(item["hashKey"], "email#none")
        for change in (Put({**item, "_w": "later"}), Delete(item_key(item)), Put({**item, "rangeKey": missing.range})):
            reads = SnapshotReads(db.store)
            await reads.get_many([item_key(item), missing], consistent=True)
            assert await reads.is_unchanged()
            await db.store.write([change])
            assert not await reads.is_unchanged()
            await db.store.write([Put(item), Delete(missing)])


def plain(items: Sequence[Item]) -> list[dict[str, object]]:
    """Returns items without their write ids."""
    return [{name: value for name, value in item.items() if name != "_w"} for item in items]

"""What is verified of a table: the elements that are ready, by the table's record rather than by the catalog alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, ForeignKey, Id, Index, SubId, Timestamp, Ttl, Unique, derived, open_catalog
from graphql_api.database import Database
from graphql_api.evolution import EPOCH_KEY, TABLE_RECORD_KEY, read_record, save_record
from graphql_api.storage import Delete, Put, Store
from graphql_api.verification import Damage, VerificationResult, VerificationSettings, verify_table
from graphql_api.writes import item_key
from tests.evolution.migration_support import (
    NOW,
    ROWS,
    SECRETS,
    entity,
    migrated,
    model_of,
    opened,
    put_all,
    teams,
    users,
)
from tests.support.store_doubles import CountingStore, all_items

SETTINGS = VerificationSettings(clock=lambda: NOW)
PLAIN = Catalog(users())
WITH_TOWN = Catalog(users(by_town=Index(hash="town", sort="name")))


async def found(db: Database, catalog: Catalog | None = None, **settings: Any) -> VerificationResult:
    """Verifies the table of a database."""
    return await verify_table(db.store, catalog or db.catalog, replace(SETTINGS, **settings))


async def change(store: Store, range_key: str, **attributes: Any) -> None:
    """Changes attributes of an item; None removes one."""
    (item,) = [one for one in await all_items(store) if one["rangeKey"] == range_key]
    changed = {name: value for name, value in {**item, **attributes}.items() if value is not None}
    assert await store.write([Put(changed)]) == [None]


async def set_state(db: Database, element: str, state: Any) -> None:
    """Gives an element of the table another state."""
    record = await read_record(db.store)
    assert record is not None
    assert await save_record(db.store, record, record.changed(replace(record.elements[element], state=state)))


async def test_an_announced_index_is_named_and_not_verified(tmp_path: Path) -> None:
    """Records without the keys of an index that is not built have no findings, and the index is named."""
    async with opened(tmp_path, PLAIN) as db:
        await put_all(db, "User", *ROWS)
    async with opened(tmp_path, WITH_TOWN) as db:
        result = await found(db)
    assert result.findings == []
    assert result.left_out == ["The index user.town is announced, and not built yet."]


@pytest.mark.parametrize("state", ["building", "closing", "dropping"])
async def test_an_index_in_another_state_is_named_and_not_verified(tmp_path: Path, state: str) -> None:
    """Records with and without the keys of an index that is built or removed have no findings."""
    async with opened(tmp_path, WITH_TOWN) as db:
        await put_all(db, "User", *ROWS[:4])
        await set_state(db, "user index town", state)
        await change(db.store, "userId#u00", userTownHashKey=None, townRangeKey=None)
        await change(db.store, "userId#u01", townRangeKey="wrong")
        result = await found(db)
        assert result.findings == []
        assert [line for line in result.left_out if "index user.town is being" in line]


async def test_an_index_of_another_catalog_is_verified(tmp_path: Path) -> None:
    """A catalog verifies every recorded index, also one that only another catalog declares."""
    async with opened(tmp_path, WITH_TOWN) as db:
        await put_all(db, "User", *ROWS[:4])
        await change(db.store, "userId#u00", townRangeKey=None)
    async with opened(tmp_path, PLAIN) as db:
        result = await found(db)
        assert [(one.damage, one.elements) for one in result.findings] == [(Damage.INDEX_KEY, ("index user.town",))]
        assert (await found(db, repair=True)).repaired.total() == 1
    async with opened(tmp_path, WITH_TOWN) as db:
        assert len((await db.search(model_of(db).by_town, town="Bern")).items) == 2


async def test_what_a_catalog_declares_and_the_table_lacks_is_named(tmp_path: Path) -> None:
    """Before any server has announced a newer catalog, its additions are named and not verified."""
    newer = Catalog(
        users(
            {"letter": str | None, "email": Unique[str] | None},
            letter=derived(lambda name: name[:1], "name"),
            email=None,
            by_town=Index(hash="town", sort="name"),
        ),
        teams(),
    )
    async with opened(tmp_path, PLAIN) as db:
        await put_all(db, "User", *ROWS[:4])
        result = await found(db, newer)
    assert result.findings == []
    assert {line.split(" is ")[0] for line in result.left_out} == {
        "The index user.town",
        "The unique user.email",
        "The derived property user.letter@1",
        "The property user.email",
        "The property user.letter",
        "The entity team",
    }


async def test_an_entity_of_another_catalog_is_named(tmp_path: Path) -> None:
    """Records of an entity that only another catalog declares are no damage, and the entity is named."""
    both = Catalog(users(), teams())
    async with opened(tmp_path, both) as db:
        await put_all(db, "Team", {"team_id": "red"})
    async with opened(tmp_path, PLAIN) as db:
        result = await found(db)
    assert result.findings == []
    assert result.left_out == ["The entity team is not verified: only other catalogs declare it."]
    assert [(shard.head, shard.items) for shard in result.shards] == [("team", 1)]


async def test_an_entity_with_an_unknown_function_is_named(tmp_path: Path) -> None:
    """An entity whose derived property this catalog cannot compute is named, and not verified."""
    new = Catalog(
        users({"letter": str | None}, letter=derived(lambda name: name[:1], "name"), by_letter=Index(hash="letter"))
    )
    async with opened(tmp_path, new) as db:
        await put_all(db, "User", *ROWS[:4])
        await change(db.store, "userId#u00", letter="x")
    async with opened(tmp_path, PLAIN) as db:
        result = await found(db)
    assert result.findings == []
    assert any("requires a newer catalog" in line for line in result.left_out)


async def test_a_derived_property_that_only_another_catalog_computes(tmp_path: Path) -> None:
    """A derived property that no key uses, and that this catalog does not declare, has no findings."""
    other = Catalog(users({"letter": str | None}, letter=derived(lambda name: name[:1], "name")))
    async with opened(tmp_path, other) as db:
        await put_all(db, "User", *ROWS[:4])
    async with opened(tmp_path, PLAIN) as db:
        result = await found(db)
        assert (result.findings, result.left_out) == ([], [])
        await put_all(db, "User", ROWS[0])
        assert (await found(db)).findings == []


async def test_unchecked_elements_are_verified(tmp_path: Path) -> None:
    """Elements that an earlier release wrote are served, so they are verified too."""
    async with opened(tmp_path, WITH_TOWN) as db:
        await put_all(db, "User", *ROWS[:4])
        record = await read_record(db.store)
        assert record is not None
        unchecked = replace(record.elements["user index town"], is_checked=False)
        assert await save_record(db.store, record, record.changed(unchecked))
        await change(db.store, "userId#u00", townRangeKey=None)
        result = await found(db)
    assert [one.damage for one in result.findings] == [Damage.INDEX_KEY]
    assert result.left_out == []


async def test_a_key_attribute_that_two_indexes_share(tmp_path: Path) -> None:
    """While an index is built that shares a key attribute, records with and without its keys have no findings."""
    both = Catalog(users(by_town=Index(hash="town", sort="name"), by_town_and_team=Index(hash="town", sort="team_id")))
    async with opened(tmp_path, both) as db:
        rows = [{**row, "team_id": "t"} for row in ROWS[:3]]
        await put_all(db, "User", *rows, {"user_id": "x", "name": "x", "town": None})
        await set_state(db, "user index townAndTeam", "building")
        await change(db.store, "userId#u00", townAndTeamRangeKey=None)
        assert (await found(db)).findings == []
        await change(db.store, "userId#u01", userTownHashKey=None)
        assert [one.elements for one in (await found(db)).findings] == [("index user.town",)]


async def test_a_property_that_is_newer_than_its_records(tmp_path: Path) -> None:
    """Records, entries and current records that are older than a property with a default have no findings."""

    def orders(annotations: dict[str, Any] | None = None, **body: Any) -> Any:
        own = {"order_id": Id[str], "at": SubId[str], "note": str, **(annotations or {})}
        return entity("Order", own, {"current": "~current"}, **body)

    old = Catalog(orders(), users())
    new = Catalog(
        orders({"language": str, "tags": list[str]}, language="en", tags=[]), users({"language": str}, language="en")
    )
    async with opened(tmp_path, old) as db:
        await put_all(
            db, "Order", {"order_id": "o", "at": "v1", "note": "a"}, {"order_id": "p", "at": "v1", "note": "a"}
        )
        await put_all(db, "User", *ROWS[:3])
    async with opened(tmp_path, new) as db:
        assert (await found(db)).findings == []
        await put_all(db, "Order", {"order_id": "o", "at": "v0", "note": "b"})
        assert (await found(db)).findings == []
        await put_all(db, "Order", {"order_id": "o", "at": "v2", "note": "b", "language": "fr"})
        assert (await found(db)).findings == []


async def test_constraints_of_an_entity_whose_expiry_is_not_ready(tmp_path: Path) -> None:
    """While records get an expiry, the expiry of their constraint items is not verified, and is named."""
    before = Catalog(users({"email": Unique[str] | None, "until": Timestamp | None}, email=None, until=None))
    after = Catalog(users({"email": Unique[str] | None, "until": Ttl[Timestamp] | None}, email=None, until=None))
    async with opened(tmp_path, before) as db:
        await put_all(db, "User", {**ROWS[0], "email": "a", "until": int(NOW) + 100})
    async with opened(tmp_path, after) as db:
        result = await found(db)
        assert result.findings == []
        assert any("server-set user.until.expiry" in line for line in result.left_out)
        assert any("The constraints and lookups of user are not verified" in line for line in result.left_out)
    assert (await migrated(tmp_path, after)).is_complete
    async with opened(tmp_path, after) as db:
        result = await found(db)
        assert (result.findings, result.left_out) == ([], [])


async def test_foreign_keys_of_another_catalog_are_verified(tmp_path: Path) -> None:
    """A reference item that is missing is found by a catalog that does not declare the foreign key."""
    both = Catalog(teams(), users(of_team=ForeignKey("Team", by="team_id")))
    async with opened(tmp_path, both) as db:
        await put_all(db, "Team", {"team_id": "red"})
        await put_all(db, "User", {**ROWS[0], "team_id": "red"})
        (item,) = [one for one in await all_items(db.store) if "~refs" in one["hashKey"]]
        await db.store.write([Delete(item_key(item))])
    async with opened(tmp_path, PLAIN) as db:
        result = await found(db, repair=True)
        assert [(one.damage, one.is_repaired) for one in result.findings] == [(Damage.REFERENCE_ITEM, True)]


async def test_a_verification_only_reads(tmp_path: Path) -> None:
    """A verification announces nothing, and writes nothing."""
    async with opened(tmp_path, PLAIN) as db:
        await put_all(db, "User", *ROWS[:4])
        counting = CountingStore(db.store)
        await verify_table(counting, WITH_TOWN, SETTINGS)
        assert counting.counts.writes == 0
        record = await read_record(db.store)
        assert record is not None
        assert "user index town" not in record.elements


@pytest.mark.parametrize("epoch", [None, 7])
async def test_an_epoch_that_is_not_that_of_the_record(tmp_path: Path, epoch: int | None) -> None:
    """An epoch that differs from the table's record is the only finding: no server can act on the table."""
    async with opened(tmp_path, PLAIN) as db:
        await put_all(db, "User", *ROWS[:4])
    async with open_catalog(PLAIN, f"sqlite:///{tmp_path / 'table.db'}", secrets=SECRETS, migrate=False) as db:
        (item,) = await db.store.get_many([EPOCH_KEY], consistent=True)
        assert item is not None
        await db.store.write([Delete(EPOCH_KEY) if epoch is None else Put({**item, "epoch": epoch})])
        result = await found(db)
    assert [(one.damage, one.record, one.is_derivable) for one in result.findings] == [
        (Damage.TABLE_RECORD, EPOCH_KEY, False)
    ]
    assert result.left_out == ["Nothing else is verified: servers refuse to work with this table."]


async def test_an_unknown_item_of_the_table_itself(tmp_path: Path) -> None:
    """An item under the hash key of the table's record that no release writes is reported."""
    async with opened(tmp_path, PLAIN) as db:
        await db.store.write([Put({"hashKey": TABLE_RECORD_KEY.hash, "rangeKey": "table#notes", "_w": "x"})])
        assert [one.damage for one in (await found(db)).findings] == [Damage.TABLE_RECORD]


async def test_ignored_kinds(tmp_path: Path) -> None:
    """Kinds of damage that are ignored are neither reported nor repaired."""
    async with opened(tmp_path, WITH_TOWN) as db:
        await put_all(db, "User", *ROWS[:4])
        await change(db.store, "userId#u00", townRangeKey=None)
        before = await all_items(db.store)
        result = await found(db, repair=True, ignored=frozenset({Damage.INDEX_KEY}))
        assert (result.findings, result.counts.total()) == ([], 0)
        assert await all_items(db.store) == before


async def test_a_table_of_the_first_release(tmp_path: Path) -> None:
    """A table that release 0.1.0 wrote is verified as it is served, before any server has taken it over."""
    async with opened(tmp_path, WITH_TOWN) as db:
        await put_all(db, "User", *ROWS[:4])
        await change(db.store, "userId#u00", townRangeKey=None)
        spaces = {"user": {"width": 2, "function": "blake2b", "generations": [{"size": 1}]}}
        earlier = {"hashKey": TABLE_RECORD_KEY.hash, "rangeKey": TABLE_RECORD_KEY.range, "format": 1, "spaces": spaces}
        assert not any(await db.store.write([Put(earlier), Delete(EPOCH_KEY)]))
        result = await found(db)
        assert [(one.damage, one.elements) for one in result.findings] == [(Damage.INDEX_KEY, ("index user.town",))]

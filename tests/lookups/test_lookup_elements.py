"""Lookups as elements of a table: announced, built, maintained by servers without them, verified and dropped."""

from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Id, Lookup, SubId, Timestamp, Ttl, Unique, derived, open_catalog
from graphql_api.errors import NotReady, WrongTable
from graphql_api.evolution.migration_plan import plan_migration
from graphql_api.evolution.table_record import read_record
from graphql_api.verification import Damage, VerificationSettings, verify_table
from tests.evolution.migration_support import (
    NOW,
    ROWS,
    SECRETS,
    change_states,
    entity,
    migrated,
    model_of,
    opened,
    opened_store,
    put_all,
    states,
    users,
)
from tests.support.store_doubles import all_items

BEFORE = Catalog(users())
BY_TOWN = "user lookup town"


def with_lookup(*properties: str, **options: Any) -> Catalog:
    """The catalog of users with a lookup."""
    return Catalog(users(by_town=Lookup(*(properties or ("town",)), **options)))


async def mappings(folder: Path, head: str = "user~lookup.town!") -> list[str]:
    """The range keys of all mapping items of a lookup, in order of their keys."""
    async with opened_store(folder) as store:
        items = await all_items(store)
        return sorted(item["rangeKey"] for item in items if item["hashKey"].startswith(head))


async def test_a_lookup_of_stored_records_is_built_by_a_migration(tmp_path: Path) -> None:
    """Until a migration has built it, a search by a new lookup is refused; afterwards it finds every stored record."""
    async with opened(tmp_path, BEFORE) as db:
        await put_all(db, "User", *ROWS)
    after = with_lookup()
    async with opened(tmp_path, after) as db:
        with pytest.raises(NotReady) as refused:
            await db.search(model_of(db).by_town, town="Bern")
        assert refused.value.extensions["element"] == "lookup user.town"
        assert refused.value.extensions["state"] == "announced"
        with pytest.raises(NotReady):
            await db.count(model_of(db).by_town, town="Bern")
    assert await mappings(tmp_path) == []
    async with opened_store(tmp_path) as store:
        record = await read_record(store)
        assert record is not None
        plan = await plan_migration(store, after, record)
        assert plan.rewritten == len(ROWS)
    result = await migrated(tmp_path, after)
    assert (result.is_complete, result.written) == (True, len(ROWS))
    async with opened(tmp_path, after) as db:
        page = await db.search(model_of(db).by_town, town="Bern")
        assert [user.user_id for user in page.items] == [row["user_id"] for row in ROWS if row["town"] == "Bern"][:20]
    assert (await migrated(tmp_path, after)).written == 0


async def test_servers_with_an_older_catalog_maintain_a_lookup(tmp_path: Path) -> None:
    """A server whose catalog lacks a lookup writes and removes its mapping items, from the recorded definition."""
    after = with_lookup("town", "name", name="place")
    async with opened(tmp_path, BEFORE) as old:
        await put_all(old, "User", *ROWS[:3])
        assert (await migrated(tmp_path, after)).is_complete
        await put_all(old, "User", *ROWS[3:5])
        model = model_of(old)
        await old.update(model, "u00", town="Rome")
        await old.update(model, "u03", name="other")
        await old.delete(model, "u01")
        async with opened(tmp_path, after) as db:
            search: Any = model_of(db).by_town
            for town, name, found in (
                ("Bern", "n00", []),
                ("Rome", "n00", ["u00"]),
                ("Oslo", "n01", []),
                ("Oslo", "n03", []),
                ("Oslo", "other", ["u03"]),
                ("Bern", "n04", ["u04"]),
            ):
                page = await db.search(search, town=town, name=name)
                assert [user.user_id for user in page.items] == found, (town, name)
    assert len(await mappings(tmp_path, "user~lookup.place!")) == 4


async def test_a_lookup_of_an_unknown_property_is_kept(tmp_path: Path) -> None:
    """A server that does not know the property of a lookup keeps its values and its mapping items."""
    after = Catalog(users({"code": str | None}, code=None, by_code=Lookup("code")))
    async with opened(tmp_path, BEFORE) as old:
        assert (await migrated(tmp_path, after)).is_complete
        async with opened(tmp_path, after) as db:
            await put_all(db, "User", {**ROWS[0], "code": "x"}, {**ROWS[1], "code": "x"})
        await old.update(model_of(old), "u00", name="other")
        await old.put(model_of(old)(**ROWS[0]))
        await old.delete(model_of(old), "u01")
    async with opened(tmp_path, after) as db:
        assert [user.user_id for user in (await db.search(model_of(db).by_code, code="x")).items] == ["u00"]
    assert await mappings(tmp_path, "user~lookup.code!") == ["userId#u00"]


@pytest.mark.parametrize("state", ["building", "ready", "closing"])
async def test_writes_maintain_a_lookup_in_these_states(tmp_path: Path, state: Any) -> None:
    """Mapping items are written from `building` on, until a lookup is removed; it is searched only while ready."""
    after = with_lookup()
    async with opened(tmp_path, after) as db:
        await change_states(db, {BY_TOWN: state})
    async with opened(tmp_path, after) as db:
        await put_all(db, "User", ROWS[0])
        if state == "ready":
            assert len((await db.search(model_of(db).by_town, town="Bern")).items) == 1
        else:
            with pytest.raises(NotReady):
                await db.search(model_of(db).by_town, town="Bern")
    assert await mappings(tmp_path) == ["userId#u00"]


@pytest.mark.parametrize("state", ["announced", "dropping"])
async def test_writes_ignore_a_lookup_in_these_states(tmp_path: Path, state: Any) -> None:
    """A proposal, and a lookup that is being removed, get no mapping items."""
    after = with_lookup()
    async with opened(tmp_path, after) as db:
        await change_states(db, {BY_TOWN: state})
    async with opened(tmp_path, after) as db:
        await put_all(db, "User", ROWS[0])
    assert await mappings(tmp_path) == []


async def test_dropping_a_lookup_removes_its_mapping_items(tmp_path: Path) -> None:
    """A dropped lookup leaves no mapping item, and another lookup of the same property keeps its own."""
    both = Catalog(users(by_town=Lookup("town"), by_place=Lookup("town", name="place")))
    async with opened(tmp_path, both) as db:
        await put_all(db, "User", *ROWS)
    result = await migrated(tmp_path, Catalog(users(by_place=Lookup("town", name="place"))), drop=True)
    assert result.dropped == [BY_TOWN]
    assert await mappings(tmp_path) == []
    assert len(await mappings(tmp_path, "user~lookup.place!")) == len(ROWS)


async def test_another_definition_under_the_same_name_is_refused(tmp_path: Path) -> None:
    """A lookup that is built cannot get other properties; under another name= it is built in addition."""
    async with opened(tmp_path, with_lookup()) as db:
        await put_all(db, "User", *ROWS[:2])
    with pytest.raises(WrongTable) as refused:
        async with opened(tmp_path, with_lookup("name")):
            pass
    assert "parts is town text in the table, and name text in the catalog" in refused.value.message
    assert "name=" in refused.value.message
    other = with_lookup("name", name="byName")
    assert (await migrated(tmp_path, other)).is_complete
    async with opened(tmp_path, other) as db:
        assert len((await db.search(model_of(db).by_town, name="n01")).items) == 1


def letters(function: Any, **options: Any) -> Catalog:
    """A catalog with a lookup of a derived property."""
    letter = derived(function, "name", **options)
    return Catalog(users({"letter": str | None}, letter=letter, by_letter=Lookup("letter")))


def first_letter(name: str) -> str:
    """The first version."""
    return name[:1]


def last_letter(name: str) -> str:
    """The second version."""
    return name[-1:]


async def test_a_new_version_of_a_derived_property_moves_its_mapping_items(tmp_path: Path) -> None:
    """A migration to another function moves the mapping items with the records that it rewrites."""
    async with opened(tmp_path, letters(first_letter)) as db:
        await put_all(db, "User", *ROWS)
    newer = letters(last_letter, version=2, previous=first_letter)
    assert (await migrated(tmp_path, newer)).is_complete
    async with opened(tmp_path, newer) as db:
        page = await db.search(model_of(db).by_letter, letter="7")
        assert [user.name for user in page.items] == ["n07", "n17", "n27"]
    assert await mappings(tmp_path, "user~lookup.letter!|letter#n") == []


async def test_mapping_items_get_the_expiry_of_their_records(tmp_path: Path) -> None:
    """If records begin to expire, a migration gives their mapping items the same expiry."""
    plain: dict[str, Any] = {"until": Timestamp | None}
    before = Catalog(users(plain, until=None, by_town=Lookup("town")))
    async with opened(tmp_path, before) as db:
        await put_all(db, "User", {**ROWS[0], "until": int(NOW) + 9})
    after = Catalog(users({"until": Ttl[Timestamp] | None}, until=None, by_town=Lookup("town")))
    assert (await migrated(tmp_path, after)).is_complete
    async with opened_store(tmp_path) as store:
        (mapping,) = [item for item in await all_items(store) if item["hashKey"].startswith("user~lookup.")]
    assert mapping["until"] == int(NOW) + 9
    result = await migrated(tmp_path, before, drop=True)
    assert "user server-set until.expiry" in result.dropped
    async with opened_store(tmp_path) as store:
        (mapping,) = [item for item in await all_items(store) if item["hashKey"].startswith("user~lookup.")]
    assert "until" not in mapping


async def test_values_that_are_too_long_are_violations(tmp_path: Path) -> None:
    """A stored value that no hash key can contain is reported; the lookup stays `building` until it is corrected."""
    async with opened(tmp_path, BEFORE) as db:
        await put_all(db, "User", ROWS[0], {**ROWS[1], "town": "x" * 3_000})
    after = with_lookup()
    result = await migrated(tmp_path, after)
    assert not result.is_complete
    (violation,) = result.violations
    assert violation.record.range == "userId#u01"
    assert (await states(tmp_path))[BY_TOWN] == "building"
    async with opened(tmp_path, after) as db:
        await db.update(model_of(db), "u01", town="Oslo")
    assert (await migrated(tmp_path, after)).is_complete
    assert await mappings(tmp_path) == ["userId#u00", "userId#u01"]


async def test_histories_that_get_current_records(tmp_path: Path) -> None:
    """Current records that a migration writes get their mapping items too."""
    annotations = {"guest_id": Id[str], "at": SubId[str], "place": str | None}
    body: dict[str, Any] = {"place": None, "by_place": Lookup("place")}
    before = Catalog(entity("Visit", annotations, **body))
    async with opened(tmp_path, before) as db:
        for at in ("1", "2"):
            await put_all(db, "Visit", {"guest_id": "g", "at": at, "place": f"p{at}"})
    after = Catalog(entity("Visit", annotations, {"current": "~now"}, **body))
    assert (await migrated(tmp_path, after)).is_complete
    async with opened(tmp_path, after) as db:
        page = await db.search(model_of(db, "Visit").by_place, place="p2")
        assert [visit.at for visit in page.items] == ["2", "~now"]
    async with opened_store(tmp_path) as store:
        assert (await verify_table(store, after)).findings == []
    await migrated(tmp_path, before, drop=True)
    async with opened_store(tmp_path) as store:
        await verify_table(store, before, VerificationSettings(repair=True))
        assert (await verify_table(store, before)).findings == []
    assert len(await mappings(tmp_path, "visit~lookup.place!")) == 2


async def test_verification_leaves_out_lookups_that_are_not_ready(tmp_path: Path) -> None:
    """Only mapping items of ready lookups are verified; those of a lookup that is built are no damage."""
    async with opened(tmp_path, BEFORE) as db:
        await put_all(db, "User", *ROWS[:3])
    async with opened(tmp_path, with_lookup()) as db:
        await change_states(db, {BY_TOWN: "building"})
        result = await verify_table(db.store, with_lookup())
        assert (result.findings, any("lookup user.town" in line for line in result.left_out)) == ([], True)
        await change_states(db, {BY_TOWN: "ready"})
        result = await verify_table(db.store, with_lookup())
        assert [finding.damage for finding in result.findings] == [Damage.MAPPING_ITEM] * 3


async def test_opening_on_sqlite_builds_a_lookup(tmp_path: Path) -> None:
    """Outside production, opening a SQLite table with a new lookup builds it."""
    url = f"sqlite:///{tmp_path}/table.db"
    async with opened(tmp_path, BEFORE) as db:
        await put_all(db, "User", *ROWS[:3])
    after = Catalog(users({"email": Unique[str] | None}, email=None, by_town=Lookup("town")))
    async with open_catalog(after, url, secrets=SECRETS) as db:
        assert len((await db.search(model_of(db).by_town, town="Bern")).items) == 2

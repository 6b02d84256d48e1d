"""Migrations of tables with records: what is pending is built, verified or removed, and nothing else changes."""

from dataclasses import replace
from pathlib import Path

import pytest

from graphql_api import Catalog, ForeignKey, Index, Unique, UniqueTogether, derived, open_catalog
from graphql_api.database import Database
from graphql_api.errors import ForeignKeyBroken, NotReady, NotUnique
from graphql_api.evolution.migration import run_migration
from graphql_api.evolution.migration_plan import plan_migration
from graphql_api.evolution.table_record import read_record, save_record
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.values import Delete, Key, Put
from tests.evolution.migration_support import (
    ROWS,
    SECRETS,
    bookkeeping,
    migrated,
    model_of,
    opened,
    put_all,
    states,
    stored_items,
    teams,
    users,
)
from tests.support.store_doubles import CountingStore


async def names_by_town(db: Database, town: str) -> list[str]:
    """Return the names of users of a town, by the index."""
    model = model_of(db)
    return [user.name for user in (await db.search(model.by_town, town=town)).items]


BEFORE = Catalog(users())
WITH_TOWN = Catalog(users(by_town=Index(hash="town", sort="name")))


async def test_an_index_added_to_stored_records_finds_all_of_them(tmp_path: Path) -> None:
    """An index that is added to stored records is refused until it is built, and then finds all of them."""
    async with opened(tmp_path, BEFORE) as db:
        await put_all(db, "User", *ROWS)
        await db.scoped(tenant="acme").put(model_of(db)(**ROWS[0]))
    async with opened(tmp_path, WITH_TOWN) as db:
        with pytest.raises(NotReady):
            await names_by_town(db, "Bern")
    result = await migrated(tmp_path, WITH_TOWN)
    assert result.is_complete
    assert result.ready == ["user index town"]
    assert result.written == 32
    async with opened(tmp_path, WITH_TOWN) as db:
        assert await names_by_town(db, "Bern") == [row["name"] for row in ROWS[::2]]
        assert await names_by_town(db.scoped(tenant="acme"), "Bern") == ["n00"]
    assert await bookkeeping(tmp_path) == ["table#epoch", "table#meta"]


async def test_migrated_records_equal_new_ones(tmp_path: Path) -> None:
    """Records that a migration repaired equal those that a server with the catalog would have written."""
    catalog = Catalog(teams(), users(
        annotations={"email": Unique[str] | None, "letter": str | None}, email=None,
        letter=derived(lambda name: name[:1], "name"), by_town=Index(hash="town", sort="name"),
        by_letter=Index(hash="letter"), of_team=ForeignKey("Team", by="team_id"),
    ))  # fmt: skip
    before = Catalog(teams(), users(annotations={"email": str | None}, email=None))
    rows = [{**row, "email": f"{row['name']}@x", "team_id": "red"} for row in ROWS[:7]]
    (tmp_path / "new").mkdir()
    for folder, first in ((tmp_path, before), (tmp_path / "new", catalog)):
        async with opened(folder, first) as db:
            await put_all(db, "Team", {"team_id": "red"})
            await put_all(db, "User", *rows)
    result = await migrated(tmp_path, catalog)
    assert result.is_complete, result
    assert await stored_items(tmp_path) == await stored_items(tmp_path / "new")


async def test_a_second_run_only_reads(tmp_path: Path) -> None:
    """A run with nothing to do writes nothing, and its plan is empty."""
    async with opened(tmp_path, BEFORE) as db:
        await put_all(db, "User", *ROWS)
    await migrated(tmp_path, WITH_TOWN)
    store = CountingStore(await open_sqlite(tmp_path / "table.db"))
    record = await read_record(store)
    assert record is not None
    assert not (await plan_migration(store, WITH_TOWN, record)).pending
    assert store.counts.scans == 0
    await run_migration(store, WITH_TOWN)
    assert (store.counts.writes, store.counts.scans) == (0, 0)
    await store.close()


async def test_the_plan_names_what_is_pending(tmp_path: Path) -> None:
    """The plan names the pending elements, and counts the records and their rewrites. It changes nothing."""
    async with opened(tmp_path, BEFORE) as db:
        await put_all(db, "User", *ROWS)
    before = await stored_items(tmp_path)
    store = await open_sqlite(tmp_path / "table.db")
    record = await read_record(store)
    assert record is not None
    plan = await plan_migration(store, WITH_TOWN, record, rate=10)
    await store.close()
    assert [one.element.id for one in plan.pending.announced] == ["user index town"]
    assert (plan.records, plan.rewritten, plan.is_exact) == (33, 31, True)
    assert plan.write_units == 31
    assert plan.read_units >= 1
    assert plan.seconds == pytest.approx(3.3)
    assert await stored_items(tmp_path) == before


# --- constraints -----------------------------------------------------------------------------------------------

WITH_EMAIL = Catalog(users(annotations={"email": str | None}, email=None))
WITH_UNIQUE_EMAIL = Catalog(users(annotations={"email": Unique[str] | None}, email=None))


async def test_a_unique_constraint_added_to_stored_records_holds(tmp_path: Path) -> None:
    """A unique constraint that is added to stored records is enforced against their values."""
    async with opened(tmp_path, WITH_EMAIL) as db:
        await put_all(db, "User", *({**row, "email": f"{row['name']}@x"} for row in ROWS))
    result = await migrated(tmp_path, WITH_UNIQUE_EMAIL)
    assert result.is_complete
    async with opened(tmp_path, WITH_UNIQUE_EMAIL) as db:
        with pytest.raises(NotUnique):
            await put_all(db, "User", {"user_id": "new", "name": "x", "email": "n03@x"})
        await put_all(db, "User", {**ROWS[3], "email": "n03@x"}, {"user_id": "new", "name": "x", "email": "free"})


async def test_duplicates_are_reported_completely_and_repaired(tmp_path: Path) -> None:
    """Duplicates of a new unique constraint are reported with both records. After a repair the run completes."""
    async with opened(tmp_path, WITH_EMAIL) as db:
        await put_all(db, "User", *({**row, "email": f"{int(row['user_id'][1:]) % 29}@x"} for row in ROWS))
    result = await migrated(tmp_path, WITH_UNIQUE_EMAIL)
    assert not result.is_complete
    assert [(one.record.range, one.other and one.other.range) for one in result.violations] == [
        ("userId#u29", "userId#u00"),
        ("userId#u30", "userId#u01"),
    ]
    assert "already has" in result.violations[0].reason
    assert await bookkeeping(tmp_path) == ["table#epoch", "table#meta"]
    async with opened(tmp_path, WITH_UNIQUE_EMAIL) as db:
        await put_all(db, "User", {**ROWS[29], "email": "29@x"})
        await db.delete(model_of(db), "u01")
        record = await read_record(db.store)
        assert record is not None
        assert record.elements["user unique email"].state == "building"
    result = await migrated(tmp_path, WITH_UNIQUE_EMAIL)
    assert result.is_complete
    assert result.ready == ["user unique email"]


PARENTS = Catalog(teams(), users())
CHILDREN = Catalog(teams(), users(of_team=ForeignKey("Team", by="team_id")))


async def test_a_foreign_key_added_to_stored_records_protects_their_parents(tmp_path: Path) -> None:
    """A foreign key that is added later protects stored parents, also from servers with the old catalog."""
    async with opened(tmp_path, PARENTS) as old:
        await put_all(old, "Team", {"team_id": "red"}, {"team_id": "blue"})
        await put_all(old, "User", *({**row, "team_id": "red"} for row in ROWS))
        result = await migrated(tmp_path, CHILDREN)
        assert result.is_complete
        with pytest.raises(ForeignKeyBroken):
            await old.delete(model_of(old, "Team"), "red")
        await old.delete(model_of(old, "Team"), "blue")


async def test_references_to_nothing_are_reported(tmp_path: Path) -> None:
    """A reference to a record that does not exist is a violation, and the foreign key stays building."""
    async with opened(tmp_path, PARENTS) as db:
        await put_all(db, "Team", {"team_id": "red"})
        await put_all(db, "User", {**ROWS[0], "team_id": "red"}, {**ROWS[1], "team_id": "gone"})
    result = await migrated(tmp_path, CHILDREN)
    assert [one.record.range for one in result.violations] == ["userId#u01"]
    assert "gone" in result.violations[0].reason
    async with opened(tmp_path, CHILDREN) as db:
        await put_all(db, "Team", {"team_id": "gone"})
    assert (await migrated(tmp_path, CHILDREN)).is_complete


async def test_a_reference_whose_parent_an_older_server_deletes_is_reported(tmp_path: Path) -> None:
    """A pass looks for the parent of each record, also of those whose references are stored already."""
    async with opened(tmp_path, CHILDREN) as db:
        await put_all(db, "Team", {"team_id": "red"})
        await put_all(db, "User", {**ROWS[0], "team_id": "red"})
        record = await read_record(db.store)
        assert record is not None
        building = replace(record.elements["user foreign key ofTeam"], state="building")
        assert await save_record(db.store, record, record.changed(building))
        await db.store.write([Delete(Key("team!", "teamId#red"))])
    result = await migrated(tmp_path, CHILDREN)
    assert [one.record.range for one in result.violations] == ["userId#u00"]
    assert (await states(tmp_path))["user foreign key ofTeam"] == "building"


async def test_a_record_that_does_not_decode_is_a_violation(tmp_path: Path) -> None:
    """A stored record that does not fit the catalog is reported; the others are repaired."""
    async with opened(tmp_path, BEFORE) as db:
        await put_all(db, "User", *ROWS[:3])
        model_without_name = {"hashKey": "user!", "rangeKey": "userId#u99", "userId": "u99", "town": "Bern"}
        await db.store.write([Put(model_without_name)])
    result = await migrated(tmp_path, WITH_TOWN)
    assert [(one.record.range, one.elements) for one in result.violations] == [("userId#u99", ("user index town",))]
    assert "name: Field required" in result.violations[0].reason
    assert result.written == 3


async def test_opening_builds_what_is_pending_and_logs_violations(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Opening a file migrates it. Violations do not stop the opening: they are logged."""
    async with opened(tmp_path, WITH_EMAIL) as db:
        await put_all(db, "User", {**ROWS[0], "email": "x"}, {**ROWS[1], "email": "x"})
    both = Catalog(users({"email": Unique[str] | None}, email=None, by_town=Index(hash="town", sort="name")))
    async with open_catalog(both, f"sqlite:///{tmp_path / 'table.db'}", secrets=SECRETS) as db:
        assert await names_by_town(db, "Bern") == ["n00"]
    assert "userId#u01" in caplog.text
    assert (await states(tmp_path))["user unique email"] == "building"


async def test_an_opening_logs_some_violations(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An opening that migrates names the first records that violate a constraint, and the command that lists all."""
    async with opened(tmp_path, BEFORE) as db:
        await put_all(db, "User", *ROWS)
    catalog = Catalog(users(unique=UniqueTogether("town")))
    async with open_catalog(catalog, f"sqlite:///{tmp_path / 'table.db'}", secrets=SECRETS):
        pass
    messages = [record.message for record in caplog.records if record.name == "shardql"]
    first = "A stored record keeps the unique user.unique from becoming ready: user! / userId#u02"
    assert messages[0].startswith(first)
    assert (
        messages[10]
        == "19 further violations are listed by: shardql migrate MODULE:CATALOG --store URL --apply --report FILE"
    )
    assert len(messages) == 11

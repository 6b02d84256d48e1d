"""New properties that servers set: versions and update times, on a table with leases."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Int32, Timestamp, Updated, Version, counter
from graphql_api.database import Database
from graphql_api.errors import InvalidValue, NotReady, VersionConflict
from graphql_api.evolution import plan_migration, run_migration
from graphql_api.evolution.migration_plan import WaitTimes
from graphql_api.evolution.schema_copy import read_copy
from graphql_api.evolution.table_opening import announce
from graphql_api.evolution.table_record import read_record, save_record
from graphql_api.evolution.table_schema import LeasedSchema
from tests.evolution.migration_support import ROWS, migrated, model_of, opened, opened_store, put_all, users
from tests.evolution.test_migration_faults import Waits
from tests.evolution.test_new_properties import Renewals
from tests.evolution.test_table_schema import FakeClocks, LeasingStore, database

BEFORE = Catalog(users())
AFTER = Catalog(users({"changes": Version[Int32], "changed": Updated[Timestamp]}, changes=0, changed=0))
SET = {"user server-set changes.version", "user server-set changed.updated"}


async def fill(folder: Path) -> None:
    """Stores users, in a table with a lease of three seconds."""
    async with opened(folder, BEFORE) as db:
        await put_all(db, "User", *ROWS[:2])
        record = await read_record(db.store)
        assert record is not None
        assert await save_record(db.store, record, replace(record.changed(), lease_seconds=3.0))


@asynccontextmanager
async def server(store: Any) -> AsyncIterator[Database]:
    """A server of the next release, which does not renew its copy."""
    leasing = LeasingStore(store, FakeClocks())
    copy = await read_copy(leasing, AFTER)
    async with LeasedSchema(leasing, AFTER, copy, leasing.clocks, Renewals().pause) as schema:
        yield database(leasing, schema, AFTER)


async def test_writes_before_the_migration(tmp_path: Path) -> None:
    """While a property that servers set is announced, writes succeed without it. Conditions on it are refused."""
    await fill(tmp_path)
    async with opened_store(tmp_path) as store:
        await announce(store, AFTER)
        async with server(store) as db:
            user = model_of(db)
            created = await db.create(user, user_id="new", name="n")
            updated = await db.update(user, "u00", name="changed")
            await db.put(user(user_id="u01", name="put"))
            for record in (created, updated, *await db.get_many(user, ["u01", "u00"])):
                assert (record.changes, record.changed) == (0, 0)
            with pytest.raises(NotReady) as caught:
                await db.update(user, "u00", name="again", expected_version=0)
            assert caught.value.element == "server-set user.changes.version"
            with pytest.raises(InvalidValue, match="set by the server"):
                await db.update(user, "u00", changes=7)


async def test_the_migration_waits_for_the_properties_first(tmp_path: Path) -> None:
    """The migration lets servers set properties only when all of them keep the values. The plan counts both waits."""
    await fill(tmp_path)
    waits = Waits()
    steps = list[str]()
    async with opened_store(tmp_path) as inner:
        store = LeasingStore(inner, FakeClocks())
        record = await announce(store, AFTER)
        plan = await plan_migration(store, AFTER, record, waits=WaitTimes(3.0, 0.2, 0.3))
        assert plan.seconds == 2 * 3.5
        result = await run_migration(store, AFTER, waits.settings, lambda progress: steps.append(progress.step))
        assert result.is_complete
        assert {*result.ready} >= SET
        assert [*dict.fromkeys(steps)] == [
            "waiting until no server erases new properties",
            "waiting until all servers maintain the elements",
        ]
        async with server(store) as db:
            user = model_of(db)
            created = await db.create(user, user_id="new", name="n")
            assert created.changes == 1
            assert created.changed > 0
            assert (await db.update(user, "u00", name="changed", expected_version=0)).changes == 1
            with pytest.raises(VersionConflict):
                await db.update(user, "u00", name="again", expected_version=0)


async def test_a_counter_without_a_group(tmp_path: Path) -> None:
    """A counter of all records of an entity is an element of the table, as one with a group is."""
    await fill(tmp_path)
    catalog = Catalog(users({"number": Int32}, number=counter()))
    async with opened(tmp_path, catalog) as db:
        assert (await db.create(model_of(db), user_id="new", name="n")).number == 1
    assert (await migrated(tmp_path, catalog)).ready == ["user server-set number.counter"]


async def test_a_property_that_records_need(tmp_path: Path) -> None:
    """A version without a default is set from the beginning: records are invalid without it."""
    catalog = Catalog(users({"changes": Version[Int32]}))
    await fill(tmp_path)
    async with opened(tmp_path, catalog) as db:
        user = model_of(db)
        assert (await db.create(user, user_id="new", name="n")).changes == 1

"""New properties without a default: stored records may lack them."""

from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Int32
from graphql_api.errors import InvalidRecord
from graphql_api.evolution import State, TableRecord, proposed, unfinished_elements
from graphql_api.verification import Damage, verify_table
from tests.evolution.migration_support import ROWS, migrated, model_of, opened, put_all, stored_record, users

BEFORE, AFTER = Catalog(users()), Catalog(users({"age": Int32}))
AGE = "user property age"


async def test_records_without_a_required_property(tmp_path: Path) -> None:
    """A property that stored records lack is unchecked. The migration reports them until they are corrected."""
    async with opened(tmp_path, BEFORE) as db:
        await put_all(db, "User", *ROWS[:2])
    async with opened(tmp_path, AFTER) as db:
        user: Any = model_of(db)
        await db.put(user(**ROWS[1], age=3))
        with pytest.raises(InvalidRecord, match="Declare a default for records that are older"):
            await db.get(user, "u00")
        (status,) = unfinished_elements(await stored_record(tmp_path), AFTER)
        assert (status.element, status.state) == ("property user.age", "unchecked")
        result = await migrated(tmp_path, AFTER)
        assert [(one.elements, one.record.range) for one in result.violations] == [((AGE,), "userId#u00")]
        assert not (await stored_record(tmp_path)).elements[AGE].is_checked
        await db.put(user(**ROWS[0], age=4))
        assert (await migrated(tmp_path, AFTER)).ready == [AGE]
        assert unfinished_elements(await stored_record(tmp_path), AFTER) == []


async def test_records_of_older_servers(tmp_path: Path) -> None:
    """An older server keeps the property of stored records. Records that it creates lack it: `verify` finds them."""
    async with opened(tmp_path, BEFORE) as older, opened(tmp_path, AFTER) as db:
        await db.put(model_of(db)(**ROWS[0], age=3))
        assert (await migrated(tmp_path, AFTER)).ready == [AGE]
        await put_all(older, "User", *ROWS[:2])
        stored = await db.get(model_of(db), "u00")
        assert stored is not None
        assert stored.age == 3
        found = (await verify_table(db.store, AFTER)).findings
        assert [(one.damage, one.record.range) for one in found] == [(Damage.INVALID_RECORD, "userId#u01")]


async def test_a_table_without_records(tmp_path: Path) -> None:
    """If no record lacks the property, the migration only verifies this."""
    async with opened(tmp_path, BEFORE):
        pass
    async with opened(tmp_path, AFTER):
        assert (await migrated(tmp_path, AFTER)).ready == [AGE]


@pytest.mark.parametrize(
    ("annotation", "default", "is_checked"),
    [(Int32, ..., False), (Int32, 5, True), (Int32 | None, None, True), (Int32 | None, ..., True)],
)
@pytest.mark.parametrize(("has_leases", "state"), [(False, "ready"), (True, "announced")])
def test_which_properties_are_unchecked(
    annotation: Any, default: Any, is_checked: bool, has_leases: bool, state: State
) -> None:
    """Only a new property of a known entity is unchecked, and only if records cannot lack it."""
    body = {} if default is ... else {"age": default}
    catalog = Catalog(users({"age": annotation}, **body))
    found = proposed(proposed(TableRecord(), BEFORE), catalog, has_leases=has_leases).elements[AGE]
    assert (found.state, found.is_checked) == (state, is_checked)
    assert proposed(TableRecord(), catalog).elements[AGE].is_checked

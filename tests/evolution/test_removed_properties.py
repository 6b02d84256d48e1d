"""A property that was removed from the table: servers that still declare it store no values that would be lost."""

from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Int32, Timestamp, Updated, Version
from graphql_api.errors import NotReady
from graphql_api.evolution import State
from tests.evolution.migration_support import ROWS, change_states, migrated, model_of, opened, put_all, states, users

WITHOUT, WITH = Catalog(users()), Catalog(users({"note": str | None, "size": int}, note=None, size=1))
ID = ROWS[0]["user_id"]
NOTE = "user property note"


async def test_values_of_a_removed_property_are_refused(tmp_path: Path) -> None:
    """A running server refuses values of a property that was removed, since other servers erase them."""
    async with opened(tmp_path, WITH) as db, opened(tmp_path, WITHOUT) as other:
        user, row = model_of(db), ROWS[0]
        await db.create(user, **row, note="kept")
        assert NOTE in (await migrated(tmp_path, WITHOUT, drop=True)).dropped
        for write in (
            db.update(user, ID, note="lost"),
            db.update(user, ID, size=2),
            db.put(user(**row, note="lost")),
            db.create(user, **ROWS[1], note="lost"),
        ):
            with pytest.raises(NotReady, match="which is not recorded in the table") as caught:
                await write
            assert caught.value.state == "absent"
        await db.update(user, ID, town="Rome")
        await db.put(user(**row))
        await put_all(other, "User", ROWS[1])
    async with opened(tmp_path, WITH) as db:
        assert (await db.update(model_of(db), ID, note="kept")).note == "kept"


async def test_a_proposal_that_was_taken_back(tmp_path: Path) -> None:
    """The same holds if the older release removes a property before it is ready."""
    async with opened(tmp_path, WITHOUT) as older, opened(tmp_path, WITH) as db:
        await put_all(older, "User", ROWS[0])
        await change_states(older, {NOTE: "announced"})
        assert NOTE in (await migrated(tmp_path, WITHOUT, drop=True)).dropped
        with pytest.raises(NotReady, match="which is not recorded in the table"):
            await db.update(model_of(db), ID, note="lost")


@pytest.mark.parametrize("state", ["closing", "dropping"])
async def test_values_of_a_property_that_is_being_removed(tmp_path: Path, state: State) -> None:
    """Values are refused from the begin of the removal on. What servers set themselves is not."""
    declared: dict[str, Any] = {"version": Version[Int32], "changed": Updated[Timestamp], "note": str | None}
    catalog = Catalog(users(declared, version=0, changed=0, note=None))
    async with opened(tmp_path, catalog) as db:
        user = model_of(db)
        await db.create(user, **ROWS[0])
        removed = [NOTE, *(f"user property {name}" for name in ("version", "changed"))]
        await change_states(db, dict.fromkeys(removed, state))
        with pytest.raises(NotReady, match="is being removed"):
            await db.update(user, ID, note="lost")
        assert (await db.update(user, ID, town="Rome")).version == 2
    assert (await states(tmp_path))[NOTE] == state

"""Items that no server can read: a verification reports them, and verifies all others."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import field_validator

from graphql_api import Catalog, Entity, Id, Int32, SubId, Unique, counter
from graphql_api.database import Database
from graphql_api.evolution import TABLE_RECORD_KEY
from graphql_api.storage import Item, Put
from graphql_api.verification import Damage, Finding, VerificationSettings, verify_table
from tests.evolution.migration_support import NOW, opened
from tests.support.store_doubles import all_items

SETTINGS = VerificationSettings(clock=lambda: NOW)


class Note(Entity, current="~current"):
    """The versions of a note."""

    note_id: Id[str]
    at: SubId[str]
    title: Unique[str]

    @field_validator("title")
    @classmethod
    def _check(cls, title: str) -> str:
        return {"broken": None}.get(title, title).strip()  # type: ignore[union-attr]


class Ticket(Entity):
    """A numbered ticket."""

    ticket_id: Id[str]
    desk: str
    num: Int32 = counter("desk")


CATALOG = Catalog(Note, Ticket)


async def write_records(db: Database) -> None:
    """Writes two notes and two tickets."""
    for name in ("a", "b"):
        await db.put(Note(note_id=name, at="v1", title=f"t{name}"))
        await db.create(Ticket, ticket_id=name, desk="one")


async def change(db: Database, head: str, range_key: str, **attributes: Any) -> Item:
    """Changes attributes of an item. Returns it."""
    found = [one for one in await all_items(db.store) if one["hashKey"].startswith(head)]
    item = next(one for one in found if one["rangeKey"] == range_key)
    changed = {name: value for name, value in {**item, **attributes}.items() if value is not None}
    assert await db.store.write([Put(changed)]) == [None]
    return changed


async def findings(db: Database, **settings: Any) -> list[Finding]:
    """Verifies the table. The other note and the other ticket are damaged too, and must be found."""
    await change(db, "note~unique!|title#tb", "title", _owner=["note!", "noteId#none"])
    await change(db, "ticket~counter!", "counter#num", _last=1)
    found = (await verify_table(db.store, CATALOG, replace(SETTINGS, **settings))).findings
    assert {Damage.UNIQUE_ITEM, Damage.COUNTER} <= {one.damage for one in found}
    return [one for one in found if one.damage not in {Damage.UNIQUE_ITEM, Damage.COUNTER}]


async def test_a_validator_that_fails(tmp_path: Path) -> None:
    """An entry whose validator raises any error is reported once, with the error; its history is left alone."""
    async with opened(tmp_path, CATALOG) as db:
        await write_records(db)
        await change(db, "note!", "noteId#a\x01|at#v1", title="broken")
        found = await findings(db, repair=True)
    assert [(one.damage, one.record.range) for one in found] == [(Damage.INVALID_RECORD, "noteId#a\x01|at#v1")]
    assert "'NoneType' object has no attribute 'strip'" in found[0].reason


async def test_a_value_that_no_key_can_contain(tmp_path: Path) -> None:
    """A record whose counter would have a key that is too long is reported, and the others are verified."""
    async with opened(tmp_path, CATALOG) as db:
        await write_records(db)
        await change(db, "ticket!", "ticketId#a", desk="x" * 3_000)
        found = await findings(db)
    assert [(one.damage, one.record.range) for one in found] == [(Damage.INVALID_RECORD, "ticketId#a")]
    assert "Shorten" in found[0].reason


@pytest.mark.parametrize(
    "owner", ["note!", ["note!"], ["", ""], ["note!", "x" * 2_000], [1, 2], ["USER#1", "x"], ["ticket!", "ticketId#a"]]
)
async def test_an_owner_that_is_no_key(tmp_path: Path, owner: Any) -> None:
    """A unique item whose owner is no key of a record is corrected, if a record needs it, and else deleted."""
    async with opened(tmp_path, CATALOG) as db:
        await write_records(db)
        void = await change(db, "note~unique!|title#ta", "title", hashKey="note~unique!|title#void", _owner=owner)
        await change(db, "note~unique!|title#ta", "title", _owner=owner)
        found = await findings(db, repair=True)
        assert [(one.damage, one.is_repaired) for one in found] == [(Damage.VOID_ITEM, True)]
        assert found[0].record.hash == void["hashKey"]
        assert not any(await db.store.write([]))
        assert (await verify_table(db.store, CATALOG, SETTINGS)).findings == []


@pytest.mark.parametrize("schema", [b"not compressed", 5, None])
async def test_an_unreadable_table_record(tmp_path: Path, schema: object) -> None:
    """A table's record that cannot be read is the only finding."""
    async with opened(tmp_path, CATALOG) as db:
        await write_records(db)
        await change(db, "shardql!", "table#meta", schema=schema)
        result = await verify_table(db.store, CATALOG, SETTINGS)
    assert [(one.damage, one.is_derivable) for one in result.findings] == [(Damage.TABLE_RECORD, False)]
    assert result.findings[0].record.hash == TABLE_RECORD_KEY.hash

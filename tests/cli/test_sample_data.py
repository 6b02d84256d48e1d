"""Sample data is written once, and existing records are kept."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from graphql_api import open_catalog
from graphql_api.cli.sample_data import stored_samples, write_samples_once
from graphql_api.database import Database
from graphql_api.examples.users import Email, User, catalog, sample
from graphql_api.model.entity import Entity

USERS = "graphql_api.examples.users:catalog"
COUNT = 40
RECORDS = [*sample(COUNT)]


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    """A database with an empty table."""
    async with open_catalog(catalog, f"sqlite:///{tmp_path}/users.db") as opened:
        yield opened


async def are_stored(db: Database, records: Iterator[Entity] | list[User | Email]) -> list[bool]:
    """Return which of these records are stored unchanged."""
    return [
        record == await (db.get(Email, record.email) if isinstance(record, Email) else db.get(User, record.user_id))
        for record in records
        if isinstance(record, User | Email)
    ]


async def test_sample_is_written_once(db: Database) -> None:
    """The first call writes all records, the second one nothing."""
    shown: list[int] = []
    assert await write_samples_once(db, USERS, COUNT, shown.append) == len(RECORDS) == shown[-1]
    assert await write_samples_once(db, USERS, COUNT, shown.append) == 0
    assert all(await are_stored(db, RECORDS))


async def test_a_larger_sample_is_completed(db: Database) -> None:
    """A larger sample adds only the missing records."""
    written = await write_samples_once(db, USERS, COUNT // 2, lambda _: None)
    assert written + await write_samples_once(db, USERS, COUNT, lambda _: None) == len(RECORDS)
    assert all(await are_stored(db, RECORDS))


async def test_changed_records_are_kept(db: Database) -> None:
    """Neither a later start nor the completion of an incomplete sample overwrites changed records."""
    await write_samples_once(db, USERS, COUNT, lambda _: None)
    first, last = RECORDS[0], RECORDS[-1]
    assert isinstance(first, User)
    changed = first.model_copy(update={"phone": "123"})
    await db.put(changed)
    assert await write_samples_once(db, USERS, COUNT, lambda _: None) == 0
    assert isinstance(last, Email)
    await db.delete(Email, last.email)
    assert await write_samples_once(db, USERS, COUNT, lambda _: None) == 1
    assert await db.get(User, first.user_id) == changed
    assert await db.get(Email, last.email) == last


async def test_stored_samples(db: Database) -> None:
    """Stored sample records are returned, if the module has sample data."""
    assert await stored_samples(db, USERS) == []
    await db.put(RECORDS[0])
    assert await stored_samples(db, USERS) == [RECORDS[0]]
    assert await stored_samples(db, "graphql_api.errors:catalog") == []

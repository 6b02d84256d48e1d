"""Migrations of a table of DynamoDB Local that are killed, continued, and run again."""

import signal
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from graphql_api import open_catalog
from graphql_api.database import Database
from graphql_api.errors import NotReady, NotUnique
from graphql_api.evolution import MigrationSettings, run_migration
from graphql_api.storage.engines import opened_store
from tests.evolution.migration_process import END, LOST, NEWER, OLDER, PAGE, values_of
from tests.evolution.migration_support import SECRETS
from tests.evolution.test_migration_processes import read_line, signal_to, start_migration
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server
from tests.support.run_depth import depth
from tests.support.store_doubles import CountingStore

SEGMENTS, PASSES = 8, 2
OWN_ITEMS = 2 + SEGMENTS * PASSES
"""items that the table keeps about itself during a run"""
USERS_OF_TOWN = 50
BATCH = 500


async def test_a_killed_run_continues_on_dynamodb(
    dynamodb: Server, random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After kill -9, a run continues, and redoes one page per segment at most. A further run only reads.

    The run creates the physical indexes, repairs all records, and then lets searches use the indexes.
    """
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    patient = "deadline=120&connect_seconds=10&read_seconds=60&table_pause=0.2"
    url = f"dynamodb://killed-{uuid4().hex}?endpoint={dynamodb.endpoint}&region={REGION}&{patient}"
    count, page, kills = depth(quick=200, deep=20_000), depth(quick=10, deep=100), depth(quick=1, deep=12)
    opened = open_catalog(
        OLDER, url, secrets=SECRETS, create_table=True, migrate=False, lease_seconds=depth(quick=8, deep=10)
    )
    async with opened as db:
        model: Any = OLDER.entity("User").model
        rows = [values_of(number, number // USERS_OF_TOWN) for number in range(count)]
        for start in range(0, count, BATCH):  # A larger batch could take longer than a lease.
            batch = [model(**row) for row in rows[start : start + BATCH]]
            assert await db.put_many(batch) == [None] * len(batch)
    async with open_catalog(NEWER, url, secrets=SECRETS) as db:
        with pytest.raises(NotReady):
            await find_town(db, 0)
    pages, losses, has_ended = 0, 0, False
    for left in range(kills, -1, -1):
        process = await start_migration(url, page)
        most = random.randrange(1, PASSES * count // page // (kills + 1)) if left else 1 << 30
        read = 0
        while read < most and (line := await read_line(process)):
            read += line == PAGE
            losses += line == LOST
            has_ended = line == END
        if left:
            signal_to(process, signal.SIGKILL)
        _, log = await process.communicate()
        assert process.returncode == (-signal.SIGKILL if left else 0), log.decode()
        pages += read
    assert has_ended
    items = 2 * count + OWN_ITEMS  # users, and items of their unique values
    assert pages <= PASSES * (items // page + SEGMENTS) + (kills + losses) * SEGMENTS
    async with opened_store(url) as store:
        counting = CountingStore(store)
        settings = MigrationSettings(margin_seconds=0.1, life_seconds=0.2)
        assert (await run_migration(counting, NEWER, settings)).records == 0
        assert (counting.counts.writes, counting.counts.scans) == (0, 0)
    async with open_catalog(NEWER, url, secrets=SECRETS) as db:
        for town in range(0, count // USERS_OF_TOWN, depth(quick=1, deep=40)):
            expected = range(town * USERS_OF_TOWN, (town + 1) * USERS_OF_TOWN)
            assert await find_town(db, town) == [f"u{number:07}" for number in expected]
        user: Any = NEWER.entity("User").model
        with pytest.raises(NotUnique):
            await db.put(user(**{**values_of(0, 0), "email": values_of(1, 0)["email"]}))


async def find_town(db: Database, town: int) -> list[str]:
    """The users of a town, by the new index."""
    user: Any = NEWER.entity("User").model
    return [one.user_id for one in (await db.search(user.by_town, town=f"t{town:05}", limit=60)).items]

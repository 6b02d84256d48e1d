"""Migrations of a table of DynamoDB Local that are killed, continued, and run again."""

from uuid import uuid4

import pytest

from graphql_api import Catalog, Index, Unique, open_catalog
from graphql_api.evolution import MigrationSettings, run_migration
from graphql_api.storage import Store
from graphql_api.storage.engines import opened_store
from tests.evolution.migration_support import SECRETS, users
from tests.evolution.test_migration_faults import Killed, KilledStore
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server
from tests.support.run_depth import depth
from tests.support.store_doubles import CountingStore

SETTINGS = MigrationSettings(margin_seconds=0.2, life_seconds=0.3, segments=2, claim_seconds=0.5)


def before() -> Catalog:
    """The catalog of the stored users."""
    return Catalog(users({"email": str | None}, email=None))


def after() -> Catalog:
    """The catalog with an index and a unique constraint."""
    return Catalog(users({"email": Unique[str] | None}, email=None, by_town=Index(hash="town", sort="name")))


async def killed(store: Store, catalog: Catalog, last: int) -> None:
    """Runs a migration that is killed at a call."""
    with pytest.raises(Killed):
        await run_migration(KilledStore(store, last, applies=True), catalog, SETTINGS)


async def test_a_killed_run_continues_on_dynamodb(dynamodb: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was killed is continued by another one. A further run has nothing to do, and only reads."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    url = f"dynamodb://killed-{uuid4().hex}?endpoint={dynamodb.endpoint}&region={REGION}"
    count = depth(quick=300, deep=20_000)
    opened = open_catalog(before(), url, secrets=SECRETS, create_table=True, migrate=False, lease_seconds=4.0)
    async with opened as db:
        model = db.catalog.entity("User").model
        rows = [
            {"user_id": f"u{n:05}", "name": f"n{n:05}", "town": f"t{n // 50}", "email": f"e{n}"} for n in range(count)
        ]
        await db.put_many([model(**row) for row in rows])
    async with opened_store(url) as store:
        for last in (12, 60):
            await killed(store, after(), last)
        counting = CountingStore(store)
        assert (await run_migration(counting, after(), SETTINGS)).is_complete
        counting = CountingStore(store)
        assert (await run_migration(counting, after(), SETTINGS)).records == 0
        assert (counting.counts.writes, counting.counts.scans) == (0, 0)
    async with open_catalog(after(), url, secrets=SECRETS) as db:
        user = db.catalog.entity("User").model
        for town in range(0, count // 50, depth(quick=1, deep=40)):
            page = await db.search(getattr(user, "by_town"), town=f"t{town}", limit=60)  # noqa: B009 - not declared
            assert [one.name for one in page.items] == [f"n{n:05}" for n in range(town * 50, town * 50 + 50)]

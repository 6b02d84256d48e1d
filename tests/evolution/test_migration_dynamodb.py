"""Migrations of a table of DynamoDB Local."""

from uuid import uuid4

import pytest

from graphql_api import Catalog, Index, Unique, open_catalog
from graphql_api.errors import NotReady
from graphql_api.evolution.migration import run_migration
from graphql_api.evolution.migration_settings import MigrationSettings
from tests.evolution.migration_support import ROWS, SECRETS, model_of, put_all, users
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server


async def test_an_index_and_a_constraint_on_dynamodb(dynamodb: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration creates the physical index, repairs all records, and then lets searches use the index."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    url = f"dynamodb://migrated-{uuid4().hex}?endpoint={dynamodb.endpoint}&region={REGION}"
    before = Catalog(users({"email": str | None}, email=None))
    catalog = Catalog(users({"email": Unique[str] | None}, email=None, by_town=Index(hash="town", sort="name")))
    opened = open_catalog(before, url, secrets=SECRETS, create_table=True, migrate=False, lease_seconds=4.0)
    async with opened as db:
        await put_all(db, "User", *({**row, "email": row["name"]} for row in ROWS))
    async with open_catalog(catalog, url, secrets=SECRETS) as db:
        model = model_of(db)
        with pytest.raises(NotReady):
            await db.search(model.by_town, town="Bern")
        settings = MigrationSettings(margin_seconds=0.2, life_seconds=0.5)
        result = await run_migration(db.store, catalog, settings)
        assert result.is_complete
        assert sorted(result.ready) == ["user index town", "user unique email"]
    async with open_catalog(catalog, url, secrets=SECRETS) as db:
        model = model_of(db)
        assert len((await db.search(model.by_town, town="Bern")).items) == 16
        assert (await run_migration(db.store, catalog, settings)).records == 0

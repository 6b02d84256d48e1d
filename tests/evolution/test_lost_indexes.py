"""Physical indexes of ready elements that were deleted: searches are refused, and the engine can fill them again."""

from pathlib import Path
from uuid import uuid4

import pytest

from graphql_api import Catalog, Index, open_catalog
from graphql_api.database import Database
from graphql_api.errors import NotReady
from tests.evolution.migration_support import ROWS, SECRETS, model_of, opened, put_all, users
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server

CATALOG = Catalog(users(by_town=Index(hash="town", sort="name"), by_name=Index(sort="name")))


async def assert_refused(db: Database) -> None:
    """Checks that searches by the lost index are refused, and others are not."""
    user = model_of(db)
    for failing in ("FAIL", "PARTIAL"):
        with pytest.raises(NotReady, match=r"User\.by_town needs the index user.town, which is ready, but") as caught:
            await db.search(user.by_town, town="Bern", on_shard_failure=failing)
        assert caught.value.state == "lost"
        assert "shardql table create" in caught.value.message
    assert len((await db.search(user.by_name)).items) == 4


async def test_a_deleted_index_is_not_ready(tmp_path: Path) -> None:
    """Searches by an index that was deleted get NOT_READY. An opening that creates tables creates it again."""
    async with opened(tmp_path, CATALOG) as db:
        await put_all(db, "User", *ROWS[:4])
        await db.store.drop_index("town")
        await assert_refused(db)
    async with open_catalog(CATALOG, f"sqlite:///{tmp_path / 'table.db'}", read_only=True, secrets=SECRETS) as db:
        await assert_refused(db)
    async with opened(tmp_path, CATALOG) as db:
        assert len((await db.search(model_of(db).by_town, town="Bern")).items) == 2


async def test_a_deleted_index_is_not_ready_on_dynamodb(dynamodb: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds on DynamoDB, for a server that runs and for one that starts, until the index is created."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    url = f"dynamodb://lost-{uuid4().hex}?endpoint={dynamodb.endpoint}&region={REGION}&table_pause=0.05"
    async with open_catalog(CATALOG, url, secrets=SECRETS, create_table=True) as db:
        await put_all(db, "User", *ROWS[:4])
        await db.search(model_of(db).by_town, town="Bern")
        async with open_catalog(CATALOG, url, secrets=SECRETS) as other:
            await other.store.drop_index("town")
        await assert_refused(db)
    async with open_catalog(CATALOG, url, secrets=SECRETS) as db:
        await assert_refused(db)
    async with open_catalog(CATALOG, url, secrets=SECRETS, create_table=True) as db:
        assert len((await db.search(model_of(db).by_town, town="Bern")).items) == 2

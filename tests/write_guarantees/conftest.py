"""Fixtures: server processes, and tables that they share on SQLite and DynamoDB Local."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from graphql_api.connection import open_catalog
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server
from tests.write_guarantees.forked_servers import ServerForker, start_forker
from tests.write_guarantees.served_catalog import CATALOG
from tests.write_guarantees.server_cluster import Cluster, TableLocation, start_cluster

LENIENT_SETTINGS = "table_pause=0.05&connect_seconds=10&read_seconds=20&deadline=60"
"""store settings for a machine that also runs other tests"""


@pytest.fixture(scope="session")
def server_forker() -> Iterator[ServerForker]:
    """The process that forks the servers."""
    with start_forker() as process:
        yield process


@pytest.fixture
def sqlite_location(tmp_path: Path) -> TableLocation:
    """A SQLite file."""
    return TableLocation(tmp_path, f"sqlite:///{tmp_path}/table.db")


@pytest.fixture
async def dynamodb_location(dynamodb: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableLocation:
    """A table of DynamoDB Local."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    url = f"dynamodb://table-{uuid4().hex}?region={REGION}&endpoint={dynamodb.endpoint}&{LENIENT_SETTINGS}"
    async with open_catalog(CATALOG, url, create_table=True):
        pass
    return TableLocation(tmp_path, url, CREDENTIALS)


@pytest.fixture(params=["sqlite_location", "dynamodb_location"])
def location(request: pytest.FixtureRequest) -> TableLocation:
    """A table on each engine."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, TableLocation)
    return found


@pytest.fixture
async def four_servers(server_forker: ServerForker, location: TableLocation) -> AsyncIterator[Cluster]:
    """Four server processes on one table."""
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(start_cluster(server_forker, location))

"""Tables that several server processes share: a SQLite file, and a table of DynamoDB Local."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from graphql_api.opening import open_catalog
from tests.dynamodb_local import CREDENTIALS, REGION, Server
from tests.writes.fleet import Fleet, Place, fleet
from tests.writes.servers import Mother, mother
from tests.writes.world import CATALOG

PATIENT = "table_pause=0.05&connect_seconds=10&read_seconds=20&deadline=60"
"""of a store on a machine that is busy with other tests"""


@pytest.fixture(scope="session")
def servers() -> Iterator[Mother]:
    """What has the server processes."""
    with mother() as process:
        yield process


@pytest.fixture
def on_file(tmp_path: Path) -> Place:
    """A SQLite file."""
    return Place(tmp_path, f"sqlite:///{tmp_path}/written.db")


@pytest.fixture
async def on_dynamodb(dynamodb: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A table of DynamoDB Local."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    url = f"dynamodb://written-{uuid4().hex}?region={REGION}&endpoint={dynamodb.endpoint}&{PATIENT}"
    async with open_catalog(CATALOG, url, create_table=True):
        pass
    return Place(tmp_path, url, CREDENTIALS)


@pytest.fixture(params=["on_file", "on_dynamodb"])
def place(request: pytest.FixtureRequest) -> Place:
    """A table on each engine in turn."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Place)
    return found


@pytest.fixture
async def four(servers: Mother, place: Place) -> AsyncIterator[Fleet]:
    """Four server processes on one table."""
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(fleet(servers, place))

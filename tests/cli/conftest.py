"""Tables of DynamoDB Local for commands."""

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server, session


@pytest.fixture
def dynamodb_url(dynamodb: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a table that does not exist yet. It is deleted after the test."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    name = f"t-{uuid4().hex}"
    timeouts = "table_pause=0.05&connect_seconds=10&read_seconds=20&deadline=60"
    yield f"dynamodb://{name}?region={REGION}&endpoint={dynamodb.endpoint}&{timeouts}"

    async def delete() -> None:
        async with session().client("dynamodb", endpoint_url=dynamodb.endpoint) as client:
            await client.delete_table(TableName=name)

    asyncio.run(delete())

"""Fixtures: a scripted server with the DynamoDB protocol, for both transports."""

from collections.abc import AsyncIterator

import pytest

from graphql_api.storage.engines.dynamodb.dynamodb_settings import TRANSPORTS
from tests.storage.scripted_dynamodb import ScriptedDynamoDB, start_scripted_dynamodb


@pytest.fixture(params=TRANSPORTS)
async def server(request: pytest.FixtureRequest) -> AsyncIterator[ScriptedDynamoDB]:
    """A server with scripted replies. All frequent requests of its stores use the transport of the test."""
    async with start_scripted_dynamodb(request.param) as server:
        yield server
        assert server.transports <= {request.param}

"""DynamoDB Local, beside the SQLite that is always there."""

from collections.abc import Iterator

import pytest

from tests.dynamodb_local import NoServer, Server, dynamodb_local, running
from tests.engines_report import RAN

ENGINE = "dynamodb-local"


@pytest.fixture(scope="session")
def started() -> Iterator[Server | NoServer]:
    """DynamoDB Local, or why there is none."""
    try:
        with dynamodb_local() as server:
            yield server
    except NoServer as problem:
        yield problem


@pytest.fixture
def server(started: Server | NoServer, request: pytest.FixtureRequest) -> Server:
    """DynamoDB Local; without it only continuous integration fails."""
    found = running(started, ENGINE, request)
    request.node.user_properties.append((RAN, ENGINE))
    return found

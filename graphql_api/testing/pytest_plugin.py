"""Fixtures for pytest: a database in memory and a client, for the catalog that `pyproject.toml` names.

The setting `shardql = "app:graph"` names a catalog or a graph. A test module may define the fixture `shardql_graph`
instead. Databases belong to no event loop, so the fixtures work with every plugin for asynchronous tests.
"""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # Other test runs load this plugin too, and should not import the package for it.
    from graphql_api.database import Database
    from graphql_api.schema import Graph
    from graphql_api.testing import GraphQLClient

SETTING = "shardql"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the setting that names the catalog or graph under test."""
    parser.addini(SETTING, "Catalog or graph under test, as MODULE:NAME, for the fixtures of ShardQL.")


@pytest.fixture(scope="session")
def shardql_graph(request: pytest.FixtureRequest) -> "Graph":
    """The graph under test, which the setting `shardql` names. Define this fixture yourself to use another one."""
    address: Any = request.config.getini(SETTING)
    if not address:
        raise pytest.UsageError(
            f'Name the catalog or graph under test: {SETTING} = "app:graph" below [tool.pytest.ini_options], or define '
            "the fixture shardql_graph."
        )
    from graphql_api.server import load_graph  # noqa: PLC0415 - see above

    return load_graph(address)


@pytest.fixture
def shardql_db(shardql_graph: "Graph") -> "Database":
    """An empty database in memory, a new one for each test."""
    from graphql_api.testing import open_in_memory  # noqa: PLC0415 - see above

    return asyncio.run(open_in_memory(shardql_graph.catalog))


@pytest.fixture
def shardql_client(shardql_graph: "Graph", shardql_db: "Database") -> "GraphQLClient":
    """A client of the database as an anonymous caller; `as_caller("ann")` returns one of an authenticated caller."""
    from graphql_api.testing import GraphQLClient  # noqa: PLC0415 - see above

    return GraphQLClient(shardql_graph, shardql_db)

"""Building a schema does not change the process or another schema."""

import gc
from collections.abc import Iterator

import pytest
from graphql import print_schema

from graphql_api import Catalog, Entity, Id
from graphql_api.errors import InvalidCatalog
from graphql_api.examples.issues import catalog as issues
from graphql_api.schema.graph import Graph


class Query(Entity):
    """An entity with the name of the root query type."""

    query_id: Id[str]


@pytest.fixture(params=[True, False])
def gc_enabled(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether garbage collection is enabled during the test."""
    if not request.param:
        gc.disable()
    yield request.param
    gc.enable()


def test_building_restores_garbage_collection(gc_enabled: bool) -> None:
    """After a successful or failed build, garbage collection is enabled exactly if it was enabled before."""
    assert Graph(issues).schema.query is not None
    assert gc.isenabled() is gc_enabled
    with pytest.raises(InvalidCatalog):
        Graph(Catalog(Query))
    assert gc.isenabled() is gc_enabled


def test_schemas_of_one_catalog_are_equal() -> None:
    """Schemas of one catalog are equal, with and without mutations, in any build order."""
    first, second = Graph(issues), Graph(issues)
    with_writes = print_schema(first.schema._schema)
    without = print_schema(first.read_only_schema._schema)
    assert print_schema(second.read_only_schema._schema) == without
    assert print_schema(second.schema._schema) == with_writes != without

"""Building a schema leaves nothing changed in the process, and nothing in another schema."""

import gc
from collections.abc import Iterator

import pytest
from graphql import print_schema

from graphql_api import Catalog, Entity, Id
from graphql_api.errors import InvalidCatalog
from graphql_api.examples.issues import catalog as issues
from graphql_api.schema.graph import Graph


class Query(Entity):
    """An entity that is called as the root of all queries."""

    query_id: Id[str]


@pytest.fixture(params=[True, False])
def collects(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether garbage is collected; afterwards it is."""
    if not request.param:
        gc.disable()
    yield request.param
    gc.enable()


def test_garbage_is_collected_as_before(collects: bool) -> None:
    """After a schema was built, or refused, garbage is collected if it was before, and only then."""
    assert Graph(issues).schema.query is not None
    assert gc.isenabled() is collects
    with pytest.raises(InvalidCatalog):
        Graph(Catalog(Query))
    assert gc.isenabled() is collects


def test_each_schema_is_built_anew() -> None:
    """Schemas of one catalog are the same, whichever was built before, with what writes and without."""
    first, second = Graph(issues), Graph(issues)
    with_writes = print_schema(first.schema._schema)
    without = print_schema(first.read_only_schema._schema)
    assert print_schema(second.read_only_schema._schema) == without
    assert print_schema(second.schema._schema) == with_writes != without

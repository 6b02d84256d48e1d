"""A small catalog for tests of custom fields."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

import strawberry

from graphql_api import Catalog, Entity, Id, Index
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Context
from tests.schema.graphql_client import GraphQLClient, open_client

Info = strawberry.Info[Context, None]


class Level(Enum):
    """The experience of a person."""

    LOW = "low"
    HIGH = "high"


class Person(Entity):
    """A member of the staff."""

    person_id: Id[str]
    name: str
    town: str = "Rom"
    level: Level = Level.LOW
    born: date = date(2000, 2, 3)

    by_town = Index(hash="town", sort="name")


class Stranger(Entity):
    """An entity of another catalog."""

    stranger_id: Id[str]


ANN, BO = Person(person_id="p1", name="Ann"), Person(person_id="p2", name="Bo", level=Level.HIGH)


def staff_graph(namespace: str | None = None) -> Graph:
    """Return a new graph, to which tests add fields."""
    return Graph(Catalog(Person, namespace=namespace))


@asynccontextmanager
async def staff_client(graph: Graph, folder: Path, **executor_options: Any) -> AsyncIterator[GraphQLClient]:
    """Open a client for a graph with two people."""
    async with open_client(graph.catalog, folder, ANN, BO, graph=graph, **executor_options) as client:
        yield client

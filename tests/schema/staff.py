"""A small catalog to add own fields to."""

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
from tests.schema.asking import Asked, asked

Info = strawberry.Info[Context, None]


class Level(Enum):
    """How much somebody knows."""

    LOW = "low"
    HIGH = "high"


class Person(Entity):
    """Somebody."""

    person_id: Id[str]
    name: str
    town: str = "Rom"
    level: Level = Level.LOW
    born: date = date(2000, 2, 3)

    by_town = Index(hash="town", sort="name")


class Stranger(Entity):
    """Belongs to another catalog."""

    stranger_id: Id[str]


ANN, BO = Person(person_id="p1", name="Ann"), Person(person_id="p2", name="Bo", level=Level.HIGH)


def people(namespace: str | None = None) -> Graph:
    """A graph to add to."""
    return Graph(Catalog(Person, namespace=namespace))


@asynccontextmanager
async def asking(graph: Graph, folder: Path, **more: Any) -> AsyncIterator[Asked]:
    """Two people, asked through a graph."""
    async with asked(graph.catalog, folder, ANN, BO, graph=graph, **more) as ask:
        yield ask

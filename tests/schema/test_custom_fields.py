"""Custom queries, mutations and fields on generated types, written as in an application."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import strawberry

from graphql_api import Entity, Id
from graphql_api.errors import InvalidCatalog
from graphql_api.schema.request_context import Caller
from graphql_api.schema.types.connection_types import Connection, EmptyPage, PageInfo, StoppedBy
from tests.schema.graphql_client import LIMITS
from tests.schema.staff_catalog import Info, Level, Person, staff_client, staff_graph

# --- queries ---------------------------------------------------------------------------------------------------


async def test_custom_queries(tmp_path: Path) -> None:
    """Custom queries are added to the generated ones, and may return generated record and page types."""
    graph = staff_graph()
    PersonType: Any = graph.record_type(Person)  # noqa: N806
    PersonPage: Any = graph.page_type(Person)  # noqa: N806

    @graph.query
    @strawberry.type
    class Queries:
        @strawberry.field
        def hello(self, name: str = "you") -> str:
            return f"Hello {name}."

        @strawberry.field
        async def second_person(self, info: Info) -> PersonType:
            return await info.context.database.get(Person, "p2")

        @strawberry.field
        async def romans(self, info: Info, limit: int = 1) -> PersonPage:
            return Connection(await info.context.database.search(Person.by_town, town="Rom", limit=limit))

        @strawberry.field
        async def all_of_them(self, info: Info) -> list[PersonType]:
            return [*(await info.context.database.search(Person.by_id)).items]

    async with staff_client(graph, tmp_path) as client:
        found = await client.data(
            """{ hello secondPerson { name level } allOfThem { personId } person(id: "p1") { name }
                 romans { items { name } nextToken edges { cursor } pageInfo { hasNextPage } } }"""
        )
        assert found["romans"].pop("nextToken") == found["romans"]["edges"][0].pop("cursor")
        assert found == {
            "hello": "Hello you.",
            "secondPerson": {"name": "Bo", "level": "HIGH"},
            "allOfThem": [{"personId": "p1"}, {"personId": "p2"}],
            "person": {"name": "Ann"},
            "romans": {"items": [{"name": "Ann"}], "edges": [{}], "pageInfo": {"hasNextPage": True}},
        }


def test_attributes_of_connections() -> None:
    """Resolvers can read a connection before they return it."""

    class StoppedPage(EmptyPage):
        items = ("Ann", "Bo")
        cursors = ("1", "2")
        has_next = True
        stopped_by: Any = "BUDGET"

    connection = Connection(StoppedPage())
    assert (connection.items, connection.next_token, connection.complete) == (("Ann", "Bo"), None, True)
    assert [(edge.node, edge.cursor) for edge in connection.edges] == [("Ann", "1"), ("Bo", "2")]
    page_info: PageInfo = connection.page_info
    assert (page_info.has_next_page, page_info.has_previous_page) == (True, False)
    assert (page_info.start_cursor, page_info.end_cursor) == (None, None)
    stopped_by: StoppedBy | None = connection.stopped_by
    assert stopped_by is StoppedBy.BUDGET
    assert connection.shards.expected == 0


async def test_query_cost_of_custom_pages(tmp_path: Path) -> None:
    """A page of a custom field has the query cost of a generated one, by its arguments or their defaults."""
    graph = staff_graph()
    PersonPage: Any = graph.page_type(Person)  # noqa: N806

    @graph.query
    @strawberry.type
    class Queries:
        @strawberry.field
        async def romans(self, info: Info, limit: int = 70) -> PersonPage:
            return Connection(await info.context.database.search(Person.by_town, town="Rom", limit=limit))

    async with staff_client(graph, tmp_path, limits=replace(LIMITS, cost=10)) as client:
        for given, records in (("", 70), ("(limit: 5)", 5)):
            error = await client.error(f"{{ romans{given} {{ items {{ name }} }} }}")
            assert error["extensions"] == {"code": "QUERY_TOO_COSTLY", "limit": 10, "found": 2 + records * 2}


async def test_python_types_in_custom_fields(tmp_path: Path) -> None:
    """Python types in custom fields map to the scalars of generated fields."""
    graph = staff_graph()

    @graph.query
    @strawberry.type
    class Queries:
        @strawberry.field
        def echo(self, at: datetime, day: date, amount: Decimal, uuid: UUID, span: timedelta, raw: bytes) -> str:
            return " ".join(map(str, (at.astimezone(UTC), day, amount, uuid, span, raw)))

        @strawberry.field
        def size(self, raw: bytes) -> int:
            return len(raw)

        @strawberry.field
        def at(self) -> datetime:
            return datetime(2026, 1, 2, tzinfo=UTC)

        @strawberry.field
        def level(self, level: Level) -> Level:
            return level

        @strawberry.field
        def anything(self, value: strawberry.scalars.JSON) -> strawberry.scalars.JSON:
            return value

    async with staff_client(graph, tmp_path) as client:
        found = await client.data(
            """{ at level(level: HIGH) anything(value: {a: [1, null]}) echo(
                 at: "2026-01-01T00:00:00+02:00", day: "2026-02-03", amount: 1.5,
                 uuid: "00000000-0000-0000-0000-000000000001", span: "P1D", raw: "AP8=") }"""
        )
        assert found == {
            "at": "2026-01-02T00:00:00.000000Z",
            "level": "HIGH",
            "anything": {"a": [1, None]},
            "echo": "2025-12-31 22:00:00+00:00 2026-02-03 1.5 "
            "00000000-0000-0000-0000-000000000001 1 day, 0:00:00 b'\\x00\\xff'",
        }
        error = await client.error('{ size(raw: "?") }')
        assert "Bytes must be a base64 string." in error["message"]


async def test_context(tmp_path: Path) -> None:
    """Resolvers get the caller, and the database scoped to the caller."""
    graph = staff_graph()

    @graph.query
    @strawberry.type
    class Queries:
        @strawberry.field
        def me(self, info: Info) -> str | None:
            return f"{info.context.caller.subject} {info.context.database.tenant} {info.context.caller.correlation_id}"

    async with staff_client(graph, tmp_path) as client:
        caller = Caller("c-9", tenant="t", subject="ann")
        assert await client.data('{ me person(id: "p1") { name } }', caller=caller) == {
            "me": "ann t c-9",
            "person": None,
        }


# --- fields of records -----------------------------------------------------------------------------------------


async def test_custom_fields_of_records(tmp_path: Path) -> None:
    """Custom fields of an entity get its record as their parent, in every field that returns it."""
    graph = staff_graph("Staff")

    @strawberry.type
    class More:
        @strawberry.field
        def loud(self: Any) -> str:
            return str(self.name.upper())

        @strawberry.field
        async def neighbours(self: Any, info: Info) -> int:
            return len((await info.context.database.search(Person.by_town, town=self.town)).items)

    assert graph.extend(Person, More) is More
    async with staff_client(graph, tmp_path) as client:
        found = await client.data(
            """{ Staff_Person(id: "p1") { name loud neighbours }
                 Staff_PersonById(reverse: true) { edges { node { loud } } } }"""
        )
        assert found == {
            "Staff_Person": {"name": "Ann", "loud": "ANN", "neighbours": 2},
            "Staff_PersonById": {"edges": [{"node": {"loud": "BO"}}, {"node": {"loud": "ANN"}}]},
        }


async def test_functions_as_fields_of_records(tmp_path: Path) -> None:
    """A function becomes a field with its arguments, its description and its context."""
    graph = staff_graph("Staff")

    @graph.extend(Person)
    def shout(person: strawberry.Parent[Person], mark: str = "!") -> str:
        """The name, loud."""
        return f"{person.name.upper()}{mark}"

    @graph.extend(Person)
    async def neighbours(person: strawberry.Parent[Person], info: Info) -> int:
        return len((await info.context.database.search(Person.by_town, town=person.town)).items)

    assert shout(Person(person_id="p", name="Zoe", town="Rom"), "?") == "ZOE?"
    assert '"""The name, loud."""\n  shout(mark: String! = "!"): String!' in graph.schema.as_str()
    async with staff_client(graph, tmp_path) as client:
        found = await client.data('{ Staff_Person(id: "p1") { loud: shout(mark: "?") neighbours } }')
        assert found == {"Staff_Person": {"loud": "ANN?", "neighbours": 2}}


def test_functions_need_the_record_as_parent() -> None:
    """A function without the record as its parent, or with a record of another entity, is refused with a remedy."""
    graph = staff_graph("Staff")

    def of_nothing(mark: str) -> str:
        return mark

    def of_another(other: strawberry.Parent[Other]) -> str:
        return other.other_id

    for resolver in (of_nothing, of_another):
        extend: Any = graph.extend(Person)
        with pytest.raises(InvalidCatalog, match=r"Annotate its first parameter with strawberry\.Parent\[Person\]"):
            extend(resolver)
    assert graph.extend(Person)(of_any) is of_any


def of_any(root: Any) -> str:
    """Return the text of a record of any entity."""
    return str(root)


class Other(Entity):
    """An entity of no catalog."""

    other_id: Id[str]


# --- mutations -------------------------------------------------------------------------------------------------


async def test_custom_mutations(tmp_path: Path) -> None:
    """Custom mutations write, return generated types, and are absent from the read-only schema."""
    graph = staff_graph()
    PersonType: Any = graph.record_type(Person)  # noqa: N806

    @strawberry.input
    class NewPerson:
        name: str
        level: Level = Level.LOW

    @strawberry.type
    class Added:
        person: PersonType

    @graph.mutation
    @strawberry.type
    class Mutations:
        @strawberry.mutation
        async def add_person(self, info: Info, input: NewPerson) -> Added:
            person = Person(person_id=f"p-{input.name}", name=input.name, level=input.level)
            await info.context.database.put(person)
            return Added(person=person)

    query = 'mutation { addPerson(input: {name: "Cy", level: HIGH}) { person { personId level } } }'
    async with staff_client(graph, tmp_path) as client:
        response = await client.execute(query, caller=Caller("c", read_only=True))
        assert (response.status, response.codes, response.executed) == (405, ("METHOD_NOT_ALLOWED",), False)
        assert await client.data('{ person(id: "p-Cy") { name } }') == {"person": None}
        assert await client.data(query) == {"addPerson": {"person": {"personId": "p-Cy", "level": "HIGH"}}}
        assert await client.data('{ person(id: "p-Cy") { name } }') == {"person": {"name": "Cy"}}
    assert graph.schema._schema.mutation_type is not None
    assert graph.read_only_schema._schema.mutation_type is None

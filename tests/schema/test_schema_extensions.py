"""Schema extensions of Strawberry: which hooks run, what they see, and what they change."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import graphql
import pytest
import strawberry
from strawberry.directive import DirectiveLocation, DirectiveValue
from strawberry.extensions import AddValidationRules, MaxTokensLimiter, QueryDepthLimiter, SchemaExtension
from strawberry.schema_directive import Location

from graphql_api import Catalog
from graphql_api.errors import ExpiredToken, InvalidCatalog, InvalidValue
from graphql_api.schema.graph import ExtensionArgument, Graph
from graphql_api.schema.request_context import Caller
from tests.schema.staff_catalog import Person, staff_client

QUERY = '{ personByTown(town: "Rom") { items { name level } nextToken } person(id: "p1") { name } }'
WRITE = 'mutation { createPerson(input: {personId: "p9", name: "Cy"}) { person { name } } }'


def staff_with(*extensions: ExtensionArgument, **options: Any) -> Graph:
    """Return a graph of the staff with these extensions."""
    return Graph(Catalog(Person), extensions=extensions, **options)


class Recorder(SchemaExtension):
    """Records the hooks that run."""

    def __init__(self, events: list[str]) -> None:
        self.events = events

    def on_operation(self) -> Iterator[None]:
        self.events.append(f"operation of {self.execution_context.context.caller.subject}")
        yield
        result, refused = self.execution_context.result, self.execution_context.pre_execution_errors
        self.events.append(f"operation ends: {result.data if result else refused}")

    async def on_parse(self) -> AsyncIterator[None]:
        yield
        self.events.append(f"parsed: {self.execution_context.graphql_document is not None}")

    def on_validate(self) -> Iterator[None]:
        self.events.append("validate")
        yield

    async def on_execute(self) -> AsyncIterator[None]:
        self.events.append(f"execute {self.execution_context.operation_type.value}")
        yield
        self.events.append("executed")

    async def get_results(self) -> dict[str, Any]:
        return {"events": len(self.events)}


class Upper(SchemaExtension):
    """Changes each text, and notes the fields that it has seen."""

    seen: list[str]

    async def resolve(self, _next: Callable[..., Any], root: Any, info: Any, *args: Any, **kwargs: Any) -> Any:
        self.execution_context.context.seen.append(f"{info.parent_type.name}.{info.field_name}")
        found = _next(root, info, *args, **kwargs)
        found = await found if hasattr(found, "__await__") else found
        return found.upper() if isinstance(found, str) else found


async def test_hooks_of_an_operation(tmp_path: Path) -> None:
    """Each hook runs around its part, also if the document is cached, and `get_results` is added to the response."""
    events: list[str] = []
    async with staff_client(staff_with(lambda: Recorder(events)), tmp_path) as client:
        for _ in range(2):
            events.clear()
            response = await client.execute("{ __typename }", caller=Caller("c", subject="ann"))
            assert response.body == {"data": {"__typename": "Query"}, "extensions": {"events": 6}}
            assert events == [
                "operation of ann",
                "parsed: True",
                "validate",
                "execute query",
                "executed",
                "operation ends: {'__typename': 'Query'}",
            ]
        events.clear()
        assert await client.data(WRITE) == {"createPerson": {"person": {"name": "Cy"}}}
        assert "execute mutation" in events
        explained = await client.execute("{ __typename }", caller=Caller("c", explain=True))
        assert explained.body["extensions"].keys() == {"events", "explain"}


async def test_hooks_of_refused_operations(tmp_path: Path) -> None:
    """Extensions see why an operation is refused, and it is not executed."""
    for query, code in (("{", "GRAPHQL_PARSE_FAILED"), ("{ x }", "GRAPHQL_VALIDATION_FAILED"), (WRITE, None)):
        events: list[str] = []
        async with staff_client(staff_with(Recorder(events)), tmp_path) as client:
            response = await client.execute(query, caller=Caller("c", read_only=True))
            assert response.codes == (code or "METHOD_NOT_ALLOWED",)
            assert not any(event.startswith("execute") for event in events)
            assert events[-1].startswith("operation ends: [")
            assert response.body["extensions"] == {"events": len(events)}


@pytest.mark.parametrize("extension", [Recorder([]), lambda: Recorder([]), SchemaExtension])
async def test_extensions_without_a_resolve_hook(tmp_path: Path, extension: ExtensionArgument) -> None:
    """Compiled code completes queries if no extension has a `resolve` hook, with the same response as without it."""
    async with (
        staff_client(staff_with(), tmp_path) as plain,
        staff_client(staff_with(extension), tmp_path) as fast,
        staff_client(staff_with(extension), tmp_path, compiled=False) as stock,
    ):
        expected = await plain.data(QUERY)
        responses = [await client.execute(QUERY) for client in (fast, stock)]
    assert [response.path for response in responses] == ["fast", "stock"]
    assert [response.body["data"] for response in responses] == [expected, expected]


async def test_resolve_hooks_see_each_field(tmp_path: Path) -> None:
    """A `resolve` hook runs for each field of the response, which turns compiled code off."""
    seen: list[str] = []
    graph = staff_with(Upper, context_getter=lambda _, __: {"seen": seen})
    async with staff_client(graph, tmp_path) as client:
        response = await client.execute(QUERY)
        assert response.path == "stock"
        items = response.body["data"]["personByTown"]["items"]
        assert items == [{"name": "ANN", "level": "LOW"}, {"name": "BO", "level": "HIGH"}]
        assert sorted(seen) == [
            *["Person.level"] * 2,
            *["Person.name"] * 3,
            "PersonConnection.items",
            "PersonConnection.nextToken",
            "Query.person",
            "Query.personByTown",
        ]
        assert await client.data(WRITE) == {"createPerson": {"person": {"name": "CY"}}}


async def test_instances_are_copied(tmp_path: Path) -> None:
    """An instance is copied for each operation: concurrent operations do not share its state."""
    instance = Recorder([])
    async with staff_client(staff_with(instance), tmp_path) as client:
        await client.data("{ __typename }")
    assert instance.events
    assert not hasattr(instance, "execution_context")


async def test_results_set_by_extensions(tmp_path: Path) -> None:
    """An extension may set the result before the execution, which then does not happen."""

    class Cached(SchemaExtension):
        def on_execute(self) -> Iterator[None]:
            self.execution_context.result = graphql.ExecutionResult({"person": "cached"}, None)
            yield

    async with staff_client(staff_with(Cached), tmp_path) as client:
        assert await client.data(QUERY) == {"person": "cached"}
        assert not client.counts.reads


class Failing(SchemaExtension):
    """Raises an error before or after the operation."""

    error: Exception
    after = False

    def on_operation(self) -> Iterator[None]:
        if not self.after:
            raise self.error
        yield
        raise self.error


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ExpiredToken("The token is too old."), ExpiredToken.status, ExpiredToken.code),
        (graphql.GraphQLError("No.", extensions={"code": "NO"}), 400, "NO"),
        (RuntimeError("sesame"), 500, "INTERNAL_ERROR"),
    ],
)
async def test_failing_extensions(tmp_path: Path, error: Exception, status: int, code: str, later: bool) -> None:
    """The error of a hook is the response, without data; an unexpected one is masked."""
    made = type("Made", (Failing,), {"error": error, "after": later})
    async with staff_client(staff_with(made), tmp_path) as client:
        response = await client.execute(QUERY)
        assert (response.status, response.codes, response.executed) == (status, (code,), False)
        assert "sesame" not in str(response.body)


class NoNames(graphql.ValidationRule):
    """Refuses fields with the name `name`."""

    def enter_field(self, node: graphql.FieldNode, *_: Any) -> None:
        if node.name.value == "name":
            self.report_error(graphql.GraphQLError("No names.", node))


class Refusing(SchemaExtension):
    """Refuses each document, as an own check of costs would."""

    def on_validate(self) -> Iterator[None]:
        self.execution_context.pre_execution_errors = [graphql.GraphQLError("No.", extensions={"code": "OWN"})]
        yield


LIMITERS: dict[str, tuple[Sequence[ExtensionArgument], str]] = {
    "rules": ([lambda: AddValidationRules([NoNames])], "GRAPHQL_VALIDATION_FAILED"),
    "depth": ([lambda: QueryDepthLimiter(max_depth=1)], "GRAPHQL_VALIDATION_FAILED"),
    "tokens": ([lambda: MaxTokensLimiter(max_token_count=10)], "GRAPHQL_PARSE_FAILED"),
    "own": ([Refusing], "OWN"),
}


@pytest.mark.parametrize("name", LIMITERS)
async def test_limiting_extensions(tmp_path: Path, name: str) -> None:
    """Extensions of Strawberry refuse documents, also cached ones, by rules, by tokens, or by own checks."""
    extensions, code = LIMITERS[name]
    async with staff_client(staff_with(*extensions), tmp_path) as client:
        for _ in range(2):
            response = await client.execute(QUERY)
            assert (response.status, {*response.codes}, response.executed) == (400, {code}, False)
        assert not client.counts.reads


# --- directives and types ----------------------------------------------------------------------------------------


@strawberry.directive(locations=[DirectiveLocation.FIELD])
def replaced(value: DirectiveValue[str], by: str) -> str:
    """Replace a text."""
    return f"{by}{value}"


@strawberry.schema_directive(locations=[Location.OBJECT])
class Team:
    """The team that owns a type."""

    name: str


@strawberry.interface
class Animal:
    """An interface of the application."""

    name: str


@strawberry.type(directives=[Team(name="pets")])
class Cat(Animal):
    """A type that only the interface reaches."""

    lives: int


async def test_operation_directives(tmp_path: Path) -> None:
    """A directive of the application changes the field that has it; other documents remain compiled."""
    async with staff_client(staff_with(directives=[replaced]), tmp_path) as client:
        query = 'query ($by: String!) { person(id: "p1") { name other: name @replaced(by: $by) } }'
        response = await client.execute(query, {"by": "Dr "})
        assert response.body["data"] == {"person": {"name": "Ann", "other": "Dr Ann"}}
        assert response.path == "stock"
        assert (await client.execute(QUERY)).path == "fast"


async def test_own_types_and_schema_directives(tmp_path: Path) -> None:
    """Types that no field names, and their schema directives, are part of the schema."""
    graph = staff_with(types=[Cat])

    @graph.query
    @strawberry.type
    class Queries:
        @strawberry.field
        def pet(self) -> Animal:
            return Cat(name="Tom", lives=9)

    async with staff_client(graph, tmp_path) as client:
        found = await client.data("{ pet { __typename name ... on Cat { lives } } }")
        assert found == {"pet": {"__typename": "Cat", "name": "Tom", "lives": 9}}
    assert 'type Cat implements Animal @team(name: "pets")' in graph.schema.as_str()


@pytest.mark.parametrize("name", ["replaced", "skip"])
def test_names_of_directives(name: str) -> None:
    """A directive whose name another directive has, or one of GraphQL, is refused."""

    @strawberry.directive(locations=[DirectiveLocation.FIELD], name=name)
    def named(value: DirectiveValue[str]) -> str:
        return value

    with pytest.raises(InvalidCatalog, match=f"@{name}"):
        staff_with(directives=[replaced, named])


def test_names_of_types() -> None:
    """A type whose name is that of a generated type is refused when the schema is built."""

    @strawberry.type(name="PageInfo")
    class Own:
        number: int

    with pytest.raises(InvalidCatalog, match="PageInfo"):
        _ = staff_with(types=[Own]).schema


def test_extensions_that_are_none() -> None:
    """What is no extension and makes none is refused when the graph is built, not with each request."""
    with pytest.raises(InvalidValue, match="extensions has 5, and takes classes") as problem:
        staff_with(5)  # type: ignore[arg-type]
    assert problem.value.extensions["argument"] == "extensions"

"""`graph.schema.execute` answers like the server, and with its error codes."""

from pathlib import Path
from typing import Any

import pytest
import strawberry
from strawberry.types import ExecutionResult
from strawberry.types.graphql import OperationType

from graphql_api.errors import InvalidValue
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller, Context
from tests.schema.graphql_client import GraphQLClient
from tests.schema.staff_catalog import Info, staff_client, staff_graph

CALLER = Caller("c-1", subject="ann")
DOCUMENTS = (
    '{ personByTown(town: "Rom", limit: 1) { items { name level } nextToken } }',
    'mutation { createPerson(input: {personId: "p9", name: "Cy"}) { person { name } } }',
    'mutation { createPerson(input: {personId: "p1", name: "Cy"}) { person { name } } }',
    '{ person(id: "p1") { name wrong } }',
    "{",
    '{ personByTown(town: "Rom", limit: 100000) { items { name } } }',
    "query ($id: ID!) { person(id: $id) { name } }",
    "{ broken }",
)


def graph_of_staff() -> Graph:
    """Return a graph with a field that fails, and one that shows the context."""
    graph = staff_graph()

    @graph.query
    @strawberry.type
    class Queries:
        @strawberry.field
        def broken(self) -> int | None:
            raise RuntimeError("sesame")

        @strawberry.field
        def team(self, info: Info) -> str:
            return f"{info.context.team} {info.context.caller.subject}"  # type: ignore[attr-defined]

    return graph


def body_of(result: ExecutionResult) -> dict[str, Any]:
    """Return the response that the views of Strawberry make of a result."""
    body: dict[str, Any] = {} if result.data is None and result.errors else {"data": result.data}
    return body | ({"errors": [error.formatted for error in result.errors]} if result.errors else {})


async def execute(graph: Graph, client: GraphQLClient, query: str, **options: Any) -> ExecutionResult:
    """Execute an operation with a new context."""
    return await graph.schema.execute(query, context_value=await graph.context(client.db, CALLER), **options)


@pytest.mark.parametrize("query", DOCUMENTS)
async def test_responses_of_execute(tmp_path: Path, query: str) -> None:
    """The data and the errors are those of the server, with codes, locations and paths."""
    bodies: list[dict[str, Any]] = []
    graph = graph_of_staff()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        async with staff_client(graph, tmp_path / folder, details=False) as client:
            if folder == "a":
                bodies.append((await client.execute(query, caller=CALLER)).body)
            else:
                bodies.append(body_of(await execute(graph, client, query)))
    for body in bodies:
        body.setdefault("data", None)
        if (body["data"] or {}).get("personByTown"):
            assert body["data"]["personByTown"].pop("nextToken")  # It is sealed anew each time.
    assert bodies[0] == bodies[1]


async def test_attributes_of_the_context_given_to_execute(tmp_path: Path) -> None:
    """Attributes that the application sets on the context reach resolvers, in each execution with it."""
    graph = graph_of_staff()
    async with staff_client(graph, tmp_path) as client:
        context: Any = await graph.context(client.db, CALLER)
        context.team = "red"
        for _ in range(2):
            result = await graph.schema.execute("{ team }", context_value=context)
            assert (result.data, result.errors) == ({"team": "red ann"}, None)


async def test_operations_that_are_not_allowed(tmp_path: Path) -> None:
    """A view that allows only queries gets METHOD_NOT_ALLOWED for mutations, and nothing is written."""
    graph = graph_of_staff()
    async with staff_client(graph, tmp_path) as client:
        result = await execute(graph, client, DOCUMENTS[1], allowed_operation_types={OperationType.QUERY})
        assert [error.extensions for error in result.errors or ()] == [{"code": "METHOD_NOT_ALLOWED"}]
        assert await client.data('{ person(id: "p9") { name } }') == {"person": None}


async def test_limits_of_execute(tmp_path: Path) -> None:
    """An application sets other limits by setting another executor."""
    graph = graph_of_staff()
    async with staff_client(graph, tmp_path, limits=Limits(cost=1)) as client:
        graph.schema.executor = client.executor
        result = await execute(graph, client, DOCUMENTS[0])
        assert [(error.extensions or {})["code"] for error in result.errors or ()] == ["QUERY_TOO_COSTLY"]


async def test_streams_have_one_result(tmp_path: Path) -> None:
    """Operations over streaming transports have the same limits and codes as others."""
    graph = graph_of_staff()
    async with staff_client(graph, tmp_path) as client:
        context: Context = await graph.context(client.db, CALLER)
        for open_stream in (graph.schema.stream, graph.schema.subscribe):
            results = [one async for one in await open_stream("{ broken }", context_value=context)]
            errors = [error for one in results for error in one.errors or ()]
            assert [(error.extensions or {})["code"] for error in errors] == ["INTERNAL_ERROR"]


async def test_contexts_that_are_refused(tmp_path: Path) -> None:
    """A context that is no context of the graph, a root value, or synchronous execution is refused with the remedy."""
    graph = graph_of_staff()
    async with staff_client(graph, tmp_path) as client:
        with pytest.raises(InvalidValue, match=r"graph\.context"):
            await graph.schema.execute("{ __typename }", context_value={"user": "ann"})
        with pytest.raises(InvalidValue, match="root_value"):
            await execute(graph, client, "{ __typename }", root_value=1)
        with pytest.raises(InvalidValue, match="asynchronously"):
            graph.schema.execute_sync("{ __typename }", context_value=await graph.context(client.db, CALLER))
    assert "__schema" in (graph.schema.introspect())

"""Subscriptions without a server: contexts, extensions, compiled code, and Strawberry's own protocols."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import strawberry
from strawberry.extensions import SchemaExtension
from strawberry.types.execution import ExecutionResult, PreExecutionError

from graphql_api import Catalog, Graph
from graphql_api.errors import InvalidCatalog
from graphql_api.schema.request_context import Caller, Context
from tests.schema.graphql_client import GraphQLClient
from tests.schema.staff_catalog import ANN, BO, Info, Person, staff_client

CALLER = Caller("c", subject="ann")
HIRED = "subscription { hired { name level town colleagues: __typename } }"


@strawberry.type
class Slow:
    @strawberry.field
    async def number(self, info: Info) -> int:
        info.context.seen.append(info.context)  # type: ignore[attr-defined]
        return len(info.context.seen)  # type: ignore[attr-defined]


def staff_graph(**options: Any) -> Graph:
    """Return a graph whose subscriptions yield people and numbers."""
    graph = Graph(Catalog(Person), **options)
    person: Any = graph.record_type(Person)

    @graph.subscription
    @strawberry.type(description="What happens.")
    class Subscriptions:
        @strawberry.subscription
        async def hired(self) -> AsyncGenerator[person, None]:
            yield ANN
            yield BO

        @strawberry.subscription
        async def languages(self, info: Info, times: int = 2) -> AsyncGenerator[str, None]:
            for _ in range(times):
                yield f"{info.context.language} {info.context.request}"  # type: ignore[attr-defined]

        @strawberry.subscription
        async def slow(self) -> AsyncGenerator[Slow, None]:
            yield Slow()
            yield Slow()

    return graph


async def results(client: GraphQLClient, graph: Graph, query: str, **options: Any) -> list[ExecutionResult]:
    """Return all results of a subscription."""
    context: Context = await graph.context(client.db, CALLER)
    async with aclosing(await graph.schema.subscribe(query, context_value=context, **options)) as stream:
        return [one async for one in stream]


@pytest.mark.parametrize("compiled", [True, False])
async def test_records(tmp_path: Path, compiled: bool) -> None:
    """Compiled code and graphql-core complete the records of events alike."""
    graph = staff_graph()
    async with staff_client(graph, tmp_path, compiled=compiled) as client:
        graph.schema.executor = client.executor
        found = await results(client, graph, HIRED)
    assert [one.data for one in found] == [
        {"hired": {"name": "Ann", "level": "LOW", "town": "Rom", "colleagues": "Person"}},
        {"hired": {"name": "Bo", "level": "HIGH", "town": "Rom", "colleagues": "Person"}},
    ]


async def test_context_getter(tmp_path: Path) -> None:
    """The context getter runs for the subscription and for each event. Other attributes of the context remain."""
    calls: list[Context] = []

    def context_getter(request: Any, context: Context) -> dict[str, Any]:
        calls.append(context)
        return {"language": f"it{len(calls)}"}

    graph = staff_graph(context_getter=context_getter)
    seen: list[Context] = []
    async with staff_client(graph, tmp_path) as client:
        assert [one.data for one in await results(client, graph, "subscription { languages }")] == [
            {"languages": "it1 None"}
        ] * 2
        assert len(calls) == 3
        context = await graph.context(client.db, CALLER)
        context.add({"seen": seen})
        stream = await graph.schema.subscribe("subscription { slow { number } }", context_value=context)
        assert [one.data async for one in stream] == [{"slow": {"number": 1}}, {"slow": {"number": 2}}]
    assert len({id(one) for one in [context, *seen]}) == 3
    assert context.is_stream is False


class Recorder(SchemaExtension):
    """Records the hooks, and changes results."""

    events: list[str]

    def on_operation(self) -> Iterator[None]:
        self.events.append("operation")
        yield
        self.events.append("operation ends")

    def on_execute(self) -> Iterator[None]:
        self.events.append("execute")
        yield

    def on_stream_result(self, result: Any) -> Iterator[None]:
        self.events.append(str(result.data))
        result.data = {"hired": None}
        yield

    def get_results(self) -> dict[str, Any]:
        return {"events": len(self.events)}


async def test_extensions(tmp_path: Path) -> None:
    """`on_operation` runs around all responses, `on_stream_result` around each, which has the added results."""
    events: list[str] = []
    graph = staff_graph(extensions=[type("Recording", (Recorder,), {"events": events})])
    async with staff_client(graph, tmp_path) as client:
        found = await results(client, graph, "subscription { hired { name } }")
        assert events == [
            "operation",
            "execute",
            "{'hired': {'name': 'Ann'}}",
            "{'hired': {'name': 'Bo'}}",
            "operation ends",
        ]
        assert [one.data for one in found] == [{"hired": None}] * 2
        assert [one.extensions for one in found] == [{"events": 3}, {"events": 4}]
        events.clear()
        (refused,) = await results(client, graph, "subscription { hired }")
        assert isinstance(refused, PreExecutionError)
        assert refused.extensions == {"events": 1}
        assert events == ["operation", "operation ends"]


async def test_resolve_hooks(tmp_path: Path) -> None:
    """A `resolve` hook runs for each field of each event."""

    class Upper(SchemaExtension):
        async def resolve(self, _next: Any, root: Any, info: Any, *args: Any, **kwargs: Any) -> Any:
            found = _next(root, info, *args, **kwargs)
            found = await found if hasattr(found, "__await__") else found
            return found.upper() if isinstance(found, str) else found

    graph = staff_graph(extensions=[Upper])
    async with staff_client(graph, tmp_path) as client:
        found = await results(client, graph, "subscription { hired { name } }")
    assert [one.data for one in found] == [{"hired": {"name": "ANN"}}, {"hired": {"name": "BO"}}]


def test_subscription_root() -> None:
    """The type passed to the graph is the root, with its description; names of its fields are unique."""

    @strawberry.type(description="Numbers.")
    class Numbers:
        @strawberry.subscription
        async def numbers(self) -> AsyncGenerator[int, None]:
            yield 1

    graph = Graph(Catalog(Person), subscription=Numbers)
    sdl = graph.schema.as_str()
    assert '"""Numbers."""\ntype Subscription {\n  numbers: Int!\n}' in sdl
    assert "type Subscription" in graph.read_only_schema.as_str()
    assert "type Subscription" not in Graph(Catalog(Person)).schema.as_str()
    with pytest.raises(InvalidCatalog, match="numbers: is added to the subscriptions"):
        Graph(Catalog(Person), subscription=Numbers).subscription(Numbers)

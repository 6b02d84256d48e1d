"""Attributes of the context that an application sets, and dataloaders in it."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import strawberry
from graphql import GraphQLError
from strawberry.dataloader import DataLoader

from graphql_api import Catalog
from graphql_api.errors import InvalidValue
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller, Context, ContextGetter
from tests.schema.staff_catalog import Info, Person, staff_client


def graph_with(context_getter: ContextGetter | None) -> Graph:
    """Return a graph whose field `badge` uses a dataloader in the context."""
    graph = Graph(Catalog(Person), context_getter=context_getter)

    @strawberry.type
    class Fields:
        @strawberry.field
        async def badge(self: Any, info: Info) -> str | None:
            found: str | None = await info.context.badges.load(self.person_id)  # type: ignore[attr-defined]
            return found

    graph.extend(Person, Fields)
    return graph


BADGES = '{ personByTown(town: "Rom") { items { name badge } } }'


@pytest.mark.parametrize("kind", ["returned", "set", "asynchronous"])
async def test_dataloaders_in_the_context(tmp_path: Path, kind: str) -> None:
    """A dataloader that the context getter makes batches the records of a page, anew in each request."""
    batches: list[list[str]] = []

    async def load(keys: list[str]) -> list[str]:
        batches.append(keys)
        return [f"badge of {key}" for key in keys]

    def loaders() -> dict[str, Any]:
        return {"badges": DataLoader(load_fn=load)}

    def returned(request: Any, context: Context) -> Mapping[str, Any]:
        assert (request, context.request) == (None, None)
        return loaders()

    def set_(request: Any, context: Context) -> None:
        context.badges = loaders()["badges"]

    async def asynchronous(request: Any, context: Context) -> Mapping[str, Any]:
        assert await context.database.get(Person, "p1") is not None
        return loaders()

    getters: dict[str, ContextGetter] = {"returned": returned, "set": set_, "asynchronous": asynchronous}
    async with staff_client(graph_with(getters[kind]), tmp_path) as client:
        for _ in range(2):
            data = await client.data(BADGES)
            assert [one["badge"] for one in data["personByTown"]["items"]] == ["badge of p1", "badge of p2"]
    assert batches == [["p1", "p2"], ["p1", "p2"]]


@pytest.mark.parametrize("name", ["database", "caller", "authorization", "dataloaders", "is_mutation", "add"])
async def test_own_attributes_of_the_context(tmp_path: Path, name: str) -> None:
    """An application cannot replace an attribute that the context itself has: rules depend on them."""
    async with staff_client(graph_with(lambda _, __: {name: None}), tmp_path) as client:
        response = await client.execute("{ __typename }")
        assert (response.status, response.codes) == (500, ("INTERNAL_ERROR",))


async def test_errors_of_the_context_getter(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A context getter refuses a request with its own error; any other exception is masked and logged once."""
    for problem, status, code in (
        (InvalidValue("Send the header."), 400, "INVALID_VALUE"),
        (GraphQLError("Sign in.", extensions={"code": "UNAUTHENTICATED"}), 400, "UNAUTHENTICATED"),
        (RuntimeError("sesame"), 500, "INTERNAL_ERROR"),
    ):

        def fail(request: Any, context: Context, problem: Exception = problem) -> None:
            raise problem

        async with staff_client(graph_with(fail), tmp_path) as client:
            response = await client.execute("{ __typename }")
            assert (response.status, response.codes, response.executed) == (status, (code,), False)
            assert "sesame" not in str(response.body)
    assert sum("sesame" in str(record.exc_info) for record in caplog.records) == 1


async def test_deadline_of_the_context_getter(tmp_path: Path) -> None:
    """A context getter that does not end is stopped at the deadline of the operation."""

    async def wait(request: Any, context: Context) -> None:
        await asyncio.Event().wait()

    async with staff_client(graph_with(wait), tmp_path, limits=Limits(deadline=0.05)) as client:
        assert (await client.execute("{ __typename }")).codes == ("DEADLINE_EXCEEDED",)


async def test_time_of_the_context_getter(tmp_path: Path) -> None:
    """The time of a context getter counts toward the deadline of the operation, like that of a queue."""
    graph = Graph(Catalog(Person), context_getter=lambda _, __: {})

    @graph.query
    @strawberry.type
    class Queries:
        @strawberry.field
        def waited(self, info: Info) -> float:
            return info.context.caller.waited_seconds

    async with staff_client(graph, tmp_path) as client:
        caller = Caller("c", waited_seconds=5.0)
        assert (await client.data("{ waited }", caller=caller))["waited"] > 5.0

"""Hooks on generated fields, and errors of custom fields."""

from pathlib import Path
from typing import Any

import pytest
import strawberry
from graphql import GraphQLError
from strawberry.extensions import FieldExtension
from strawberry.permission import BasePermission

from graphql_api import Catalog, Entity, Id, Index
from graphql_api.errors import InvalidValue, ShardQLError
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from tests.schema.graphql_client import open_client
from tests.schema.staff_catalog import Info, staff_client, staff_graph

# --- hooks -----------------------------------------------------------------------------------------------------


class LowerCaseForAnn(FieldExtension):
    """Returns a text in lower case, and refuses other callers than ann."""

    def resolve(self, next_: Any, source: Any, info: Info, **arguments: Any) -> Any:
        """Wrap the resolver of a record field."""
        if info.context.caller.subject != "ann":
            raise NotAuthorizedForField("Only Ann sees names: sign in as Ann.")
        return next_(source, info, **arguments).lower()


class LimitToOne(FieldExtension):
    """Limits a search to one record."""

    async def resolve_async(self, next_: Any, source: Any, info: Info, **arguments: Any) -> Any:
        """Wrap the resolver of a search."""
        return await next_(source, info, **{**arguments, "limit": 1})


class NotAuthorizedForField(ShardQLError):
    """A custom error."""

    code = "NOT_FOR_YOU"


async def test_hooks(tmp_path: Path) -> None:
    """A hook wraps a generated field: it changes arguments and results, and raises errors with custom codes."""
    graph = staff_graph()
    graph.hook("Person.name", LowerCaseForAnn())
    graph.hook("personByTown", LimitToOne())
    query = '{ personByTown(town: "Rom") { items { name personId } } }'
    async with staff_client(graph, tmp_path) as client:
        caller = Caller("c", subject="ann")
        data = await client.data(query, caller=caller)
        assert data == {"personByTown": {"items": [{"name": "ann", "personId": "p1"}]}}
        error = await client.error(query)
        assert error["message"] == "Only Ann sees names: sign in as Ann."
        assert error["path"] == ["personByTown", "items", 0, "name"]
        assert error["extensions"] == {"code": "NOT_FOR_YOU"}


async def test_hooks_see_properties_of_any_name(tmp_path: Path) -> None:
    """A hook works on fields whose arguments have the names of hook parameters."""

    class Odd(Entity):
        key: Id[str]
        source: str = "s"
        info: str = "i"
        root: str = "r"
        next_: str = "n"

        by_words = Index(hash="source", sort=["info", "root", "next_"])

    seen: list[dict[str, Any]] = []

    class Watch(FieldExtension):
        async def resolve_async(self, next_: Any, source: Any, info: Info, **arguments: Any) -> Any:
            seen.append(arguments)
            return await next_(source, info, **arguments)

    graph = Graph(Catalog(Odd))
    graph.hook("oddByWords", Watch())
    async with open_client(graph.catalog, tmp_path, Odd(key="k"), graph=graph) as client:
        query = '{ oddByWords(source: "s", info_: {eq: "i"}, root: {eq: "r"}, next: {eq: "n"}) { items { key } } }'
        assert await client.data(query) == {"oddByWords": {"items": [{"key": "k"}]}}
        assert len(seen) == 1


# --- errors ----------------------------------------------------------------------------------------------------


class Denied(BasePermission):
    """Refuses every caller."""

    message = "Denied."
    error_extensions = {"code": "FORBIDDEN"}  # noqa: RUF012

    def has_permission(self, source: Any, info: Info, **arguments: Any) -> bool:
        """Return false."""
        return False


async def test_errors_of_custom_fields(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Errors of ShardQL and GraphQL are reported unchanged. Any other error is masked and logged once."""
    graph = staff_graph()

    @graph.query
    @strawberry.type
    class Queries:
        @strawberry.field
        def ours(self) -> int | None:
            raise InvalidValue("Give another one.", argument="x")

        @strawberry.field
        def graphql(self) -> int | None:
            raise GraphQLError("Mine.", extensions={"code": "MINE", "more": 1})

        @strawberry.field
        def plain(self) -> int | None:
            raise GraphQLError("Plain.")

        denied: int | None = strawberry.field(resolver=lambda: 1, permission_classes=[Denied])

        @strawberry.field
        def broken(self) -> int | None:
            raise RuntimeError("the password is sesame")

    async with staff_client(graph, tmp_path) as client:
        errors = {error["path"][0]: error for error in await client.errors("{ ours graphql plain denied broken }")}
        assert errors["ours"]["extensions"] == {"code": "INVALID_VALUE", "argument": "x"}
        assert errors["graphql"]["extensions"] == {"code": "MINE", "more": 1}
        assert errors["plain"]["extensions"] == {"code": "BAD_USER_INPUT"}
        assert (errors["denied"]["message"], errors["denied"]["extensions"]) == ("Denied.", {"code": "FORBIDDEN"})
        assert errors["broken"]["extensions"] == {"code": "INTERNAL_ERROR", "correlationId": "c-1"}
        assert "sesame" not in str(errors)
        assert sum("sesame" in str(record.exc_info) for record in caplog.records) == 1

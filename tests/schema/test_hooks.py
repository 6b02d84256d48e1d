"""Hooks around generated fields, and what becomes of the errors of own ones."""

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
from tests.schema.asking import asked
from tests.schema.staff import Info, asking, people

# --- hooks -----------------------------------------------------------------------------------------------------


class Whisper(FieldExtension):
    """Shows a text in small letters, and hides it from strangers."""

    def resolve(self, next_: Any, source: Any, info: Info, **given: Any) -> Any:
        """Around a field that is read from the record."""
        if info.context.caller.subject != "ann":
            raise NotForYou("Only Ann sees names: sign in as Ann.")
        return next_(source, info, **given).lower()


class AtMostOne(FieldExtension):
    """Lets nobody see more than one record."""

    async def resolve_async(self, next_: Any, source: Any, info: Info, **given: Any) -> Any:
        """Around a search."""
        return await next_(source, info, **{**given, "limit": 1})


class NotForYou(ShardQLError):
    """An own error."""

    code = "NOT_FOR_YOU"


async def test_hooks(tmp_path: Path) -> None:
    """A hook stands around a generated field: it changes arguments and answers, and refuses with codes of its own."""
    graph = people()
    graph.hook("Person.name", Whisper())
    graph.hook("personByTown", AtMostOne())
    query = '{ personByTown(town: "Rom") { items { name personId } } }'
    async with asking(graph, tmp_path) as ask:
        caller = Caller("c", subject="ann")
        found = await ask.data(query, caller=caller)
        assert found == {"personByTown": {"items": [{"name": "ann", "personId": "p1"}]}}
        error = await ask.error(query)
        assert error["message"] == "Only Ann sees names: sign in as Ann."
        assert error["path"] == ["personByTown", "items", 0, "name"]
        assert error["extensions"] == {"code": "NOT_FOR_YOU"}


async def test_hooks_see_properties_of_any_name(tmp_path: Path) -> None:
    """A hook goes around fields whose arguments are called like those of hooks themselves."""

    class Odd(Entity):
        key: Id[str]
        source: str = "s"
        info: str = "i"
        root: str = "r"
        next_: str = "n"

        by_words = Index(hash="source", sort=["info", "root", "next_"])

    seen: list[dict[str, Any]] = []

    class Watch(FieldExtension):
        async def resolve_async(self, next_: Any, source: Any, info: Info, **given: Any) -> Any:
            seen.append(given)
            return await next_(source, info, **given)

    graph = Graph(Catalog(Odd))
    graph.hook("oddByWords", Watch())
    async with asked(graph.catalog, tmp_path, Odd(key="k"), graph=graph) as ask:
        query = '{ oddByWords(source: "s", info_: {eq: "i"}, root: {eq: "r"}, next: {eq: "n"}) { items { key } } }'
        assert await ask.data(query) == {"oddByWords": {"items": [{"key": "k"}]}}
        assert len(seen) == 1


# --- errors ----------------------------------------------------------------------------------------------------


class Denied(BasePermission):
    """Lets nobody in."""

    message = "Denied."
    error_extensions = {"code": "FORBIDDEN"}  # noqa: RUF012

    def has_permission(self, source: Any, info: Info, **given: Any) -> bool:
        """Never."""
        return False


async def test_errors_of_own_fields(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Errors of ours and of GraphQL come as they are; any other is masked, and the log tells it once."""
    graph = people()

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

    async with asking(graph, tmp_path) as ask:
        errors = {error["path"][0]: error for error in await ask.errors("{ ours graphql plain denied broken }")}
        assert errors["ours"]["extensions"] == {"code": "INVALID_VALUE", "argument": "x"}
        assert errors["graphql"]["extensions"] == {"code": "MINE", "more": 1}
        assert errors["plain"]["extensions"] == {"code": "BAD_USER_INPUT"}
        assert (errors["denied"]["message"], errors["denied"]["extensions"]) == ("Denied.", {"code": "FORBIDDEN"})
        assert errors["broken"]["extensions"] == {"code": "INTERNAL_ERROR", "correlationId": "c-1"}
        assert "sesame" not in str(errors)
        assert sum("sesame" in str(record.exc_info) for record in caplog.records) == 1

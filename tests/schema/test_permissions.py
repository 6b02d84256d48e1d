"""Permissions of Strawberry on fields of the application."""

from pathlib import Path
from typing import Any

import pytest
import strawberry
from graphql import GraphQLError
from strawberry.permission import BasePermission, PermissionExtension

from graphql_api.errors import ExpiredToken
from tests.schema.staff_catalog import Info, Person, staff_client, staff_graph


class OwnError(GraphQLError):
    """An error class of an application."""


class Refusing(BasePermission):
    message: str | None = "Only for editors."

    def has_permission(self, source: Any, info: Info, **arguments: Any) -> bool:
        return False


class RefusingLater(Refusing):
    async def has_permission(self, source: Any, info: Info, **arguments: Any) -> bool:  # type: ignore[override]
        return False


class Explained(Refusing):
    error_extensions = {"role": "editor"}  # noqa: RUF012
    error_class = OwnError


class Coded(Refusing):
    error_extensions = {"code": "UNAUTHENTICATED"}  # noqa: RUF012


class Silent(Refusing):
    message = None


class Raising(Refusing):
    error: Exception

    def on_unauthorized(self) -> None:
        raise self.error


def raising(error: Exception) -> BasePermission:
    """Return a permission that raises this error as it refuses."""
    permission = Raising()
    permission.error = error
    return permission


REFUSALS: dict[str, tuple[BasePermission, str, dict[str, Any]]] = {
    "plain": (Refusing(), "Only for editors.", {"code": "FORBIDDEN"}),
    "asynchronous": (RefusingLater(), "Only for editors.", {"code": "FORBIDDEN"}),
    "own extensions and error class": (Explained(), "Only for editors.", {"code": "FORBIDDEN", "role": "editor"}),
    "own code": (Coded(), "Only for editors.", {"code": "UNAUTHENTICATED"}),
    "no message": (Silent(), "The caller may not read or write this.", {"code": "FORBIDDEN"}),
    "own error of Python": (raising(PermissionError("Editors only.")), "Editors only.", {"code": "FORBIDDEN"}),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_refusing_permissions(tmp_path: Path, name: str) -> None:
    """A permission that refuses a field is FORBIDDEN with its message and its extensions, on roots and on records."""
    permission, message, extensions = REFUSALS[name]
    graph = staff_graph()

    async def one() -> int:
        return 1

    def refused() -> Any:
        return strawberry.field(resolver=one, extensions=[PermissionExtension([permission])])

    @graph.query
    @strawberry.type
    class Queries:
        secret: int | None = refused()

    @strawberry.type
    class Fields:
        hidden: int | None = refused()

    graph.extend(Person, Fields)
    async with staff_client(graph, tmp_path) as client:
        for query, path in (("{ secret }", ["secret"]), ('{ person(id: "p1") { name hidden } }', ["person", "hidden"])):
            error = await client.error(query)
            assert (error["message"], error["path"], error["extensions"]) == (message, path, extensions)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyError("sesame"), "INTERNAL_ERROR"),
        (PermissionError(13, "sesame"), "INTERNAL_ERROR"),
        (ExpiredToken("The token is too old."), ExpiredToken.code),
    ],
)
async def test_other_errors_of_permissions(tmp_path: Path, error: Exception, code: str) -> None:
    """Other exceptions of a permission keep their own code, or are masked."""
    graph = staff_graph()

    @graph.query
    @strawberry.type
    class Queries:
        secret: int | None = strawberry.field(resolver=lambda: 1, extensions=[PermissionExtension([raising(error)])])

    async with staff_client(graph, tmp_path) as client:
        found = await client.error("{ secret }")
        assert found["extensions"]["code"] == code
        assert "sesame" not in str(found)

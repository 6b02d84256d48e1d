"""Name collisions are refused when the schema is built: all of them at once, each with its location."""

from collections.abc import Mapping
from enum import Enum
from types import new_class
from typing import Any, Generic, TypeVar

import pytest
from pydantic import BaseModel, create_model

from graphql_api import Catalog, Entity, Id, Index
from graphql_api.errors import InvalidCatalog
from graphql_api.schema.graph import build_schema

T = TypeVar("T")


def make_entity(name: str, properties: Mapping[str, Any] | None = None, **indexes: Index) -> type[Entity]:
    """An entity with this name."""
    body = {"__module__": __name__, "__annotations__": {"key": Id[str], **(properties or {})}, **indexes}
    return new_class(name, (Entity,), {}, lambda names: names.update(body))


def make_enum(name: str) -> Any:
    """An enum with this name."""
    return Enum(name, {"A": "a"})


def make_model(name: str) -> Any:
    """A model with this name."""
    return create_model(name, x=(int, ...))


class CollidingFields(BaseModel):
    """Has two fields with the same GraphQL name, and one that is invalid in GraphQL."""

    a_b: int
    aB: int  # noqa: N815
    naïve: int  # noqa: PLC2401


class Box(BaseModel, Generic[T]):
    """A generic model."""

    content: T


def collisions(*entities: type[Entity], namespace: str | None = None) -> list[tuple[str, str]]:
    """The violations in the schema of these entities: location and problem."""
    with pytest.raises(InvalidCatalog) as caught:
        build_schema(Catalog(*entities, namespace=namespace))
    for violation in caught.value.violations:
        assert violation.remedy
        assert str(violation) in caught.value.message
    return [
        (f"{found.entity}.{found.property}" if found.property else found.entity, found.problem)
        for found in caught.value.violations
    ]


USER = make_entity("User", {"town": str}, by_town=Index(hash="town"))
BY_TWO = {"by_one": Index(sort=["a", "b"], name="one"), "by_two": Index(sort="a_asc_b", name="two")}
CASES: dict[str, tuple[list[type[Entity]], str, str]] = {
    "entity like the pages of another": ([USER, make_entity("UserConnection")], "UserConnection", "the pages of User"),
    "entity like an edge": ([USER, make_entity("UserEdge")], "UserEdge", "the pages of User"),
    "entity like the orders of a list": ([USER, make_entity("UserOrder")], "UserOrder", "the orders of User"),
    "entity like a list": ([USER, make_entity("Users")], "Users", "field 'users', which is taken by the list of User"),
    "list like a by-id field": (
        [make_entity("Users"), USER],
        "User.by_town",
        "field 'users', which is taken by Users by id",
    ),
    "entity like a search": (
        [USER, make_entity("UserByTown")],
        "UserByTown",
        "field 'userByTown', which User has as well",
    ),
    "enum like an entity": (
        [make_entity("Level", {"x": make_enum("Level")})],
        "Level.x",
        "type 'Level', which is taken by",
    ),
    "two enums": (
        [make_entity("A", {"x": make_enum("Level"), "y": make_enum("Level")})],
        "A.y",
        "type 'Level', which is taken by",
    ),
    "two models": (
        [make_entity("A", {"x": make_model("M"), "y": make_model("M")})],
        "A.y",
        "type 'M', which is taken by",
    ),
    "model and enum": (
        [make_entity("A", {"x": make_model("M"), "y": make_enum("M")})],
        "A.y",
        "type 'M', which is taken by",
    ),
    "model like an entity": (
        [make_entity("A", {"x": make_model("B")}), make_entity("B")],
        "B",
        "type 'B', which is taken by",
    ),
    "model like a condition": (
        [make_entity("A", {"x": make_model("StringCondition")})],
        "A.key",
        "type 'StringCondition'",
    ),
    "enum like a range": ([make_entity("A", {"x": make_enum("StringRange")})], "A.key", "type 'StringRange'"),
    "model with two fields of a name": (
        [make_entity("A", {"x": CollidingFields})],
        "A.x",
        "becomes the field 'aB', as 'a_b' does",
    ),
    "generic model": ([make_entity("A", {"x": Box[int]})], "A.x", "whose name is invalid in GraphQL"),
    "property like the id of records": ([make_entity("A", {"id": str, "row_id": str})], "A.row_id", "field 'rowId'"),
    "two orders": (
        [make_entity("A", {"a": str, "b": str, "a_asc_b": str}, **BY_TWO)],
        "A.by_two",
        "order 'A_ASC_B_ASC'",
    ),
}


@pytest.mark.parametrize(("entities", "location", "text"), CASES.values(), ids=CASES.keys())
def test_name_collisions(entities: list[type[Entity]], location: str, text: str) -> None:
    """If two things have the same name, the second one is reported, with the owner of the name."""
    assert any(found == location and text in problem for found, problem in collisions(*entities))


@pytest.mark.parametrize("name", ["true", "false", "null", "naïve"])
def test_invalid_enum_members(name: str) -> None:
    """An enum member that is invalid in GraphQL is refused, with the name of the enum."""
    assert collisions(make_entity("A", {"x": Enum("Level", {name: 1})})) == [
        ("A.x", f"is of Level, whose member {name!r} is invalid in GraphQL.")
    ]


RESERVED = ["Query", "Mutation", "Subscription", "Int", "Float", "String", "Boolean", "ID", "Node", "PageInfo"]
RESERVED += ["BigInt", "Timestamp", "TimestampMs", "Decimal", "UUID", "Date", "DateTime", "Duration", "JSON", "Bytes"]
RESERVED += ["SearchShards", "FailedShard", "StoppedBy", "OnShardFailure"]
RESERVED += ["WriteError", "FieldProblem", "DeleteResult"]


@pytest.mark.parametrize("name", RESERVED)
@pytest.mark.parametrize("kind", [make_entity, make_enum, make_model])
def test_reserved_types(kind: Any, name: str) -> None:
    """Reserved type names are refused for entities, enums and models, and allowed with a namespace."""
    made = kind(name)
    catalog = [made] if kind is make_entity else [make_entity("A", {"x": made})]
    assert any(f"becomes the type {name!r}, which is taken" in problem for _, problem in collisions(*catalog))
    assert f"P_{name}" in build_schema(Catalog(*catalog, namespace="P"))._schema.type_map


@pytest.mark.parametrize("name", ["Node", "Nodes"])
def test_reserved_fields(name: str) -> None:
    """The field names that Relay reserves are refused."""
    assert any(f"becomes the field '{name.lower()}', which" in problem for _, problem in collisions(make_entity(name)))


def test_all_collisions_are_reported() -> None:
    """All collisions are reported together, whatever their kind."""
    found = collisions(
        USER,
        make_entity("UserConnection", {"id": str, "row_id": str}),
        make_entity("Users", {"x": CollidingFields, "level": make_enum("UserEdge")}),
        make_entity("Date"),
    )
    assert [location for location, _ in found] == [
        "UserConnection",
        "UserConnection.row_id",
        "Users.x",
        "Users.x",
        "Users.level",
        "Users",
        "Date",
        "Users",
    ]


def test_violations_of_the_catalog_come_first() -> None:
    """Collisions within one declaration are reported when the catalog is created."""
    with pytest.raises(InvalidCatalog, match="is called in GraphQL 'aB'"):
        Catalog(make_entity("A", {"a_b": str, "aB": str}))

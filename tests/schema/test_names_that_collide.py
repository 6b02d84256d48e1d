"""Names that two things would have are refused when the schema is made: all of them at once, each with its place."""

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


def entity(name: str, properties: Mapping[str, Any] | None = None, **indexes: Index) -> type[Entity]:
    """An entity of this name."""
    body = {"__module__": __name__, "__annotations__": {"key": Id[str], **(properties or {})}, **indexes}
    return new_class(name, (Entity,), {}, lambda names: names.update(body))


def enum(name: str) -> Any:
    """An enum of this name."""
    return Enum(name, {"A": "a"})


def model(name: str) -> Any:
    """A model of this name."""
    return create_model(name, x=(int, ...))


class Twice(BaseModel):
    """Has two fields of one name, and one that GraphQL cannot write."""

    a_b: int
    aB: int  # noqa: N815
    naïve: int  # noqa: PLC2401


class Box(BaseModel, Generic[T]):
    """A model of anything."""

    content: T


def refused(*entities: type[Entity], namespace: str | None = None) -> list[tuple[str, str]]:
    """What the schema of these entities is refused for: places and problems."""
    with pytest.raises(InvalidCatalog) as caught:
        build_schema(Catalog(*entities, namespace=namespace))
    for violation in caught.value.violations:
        assert violation.remedy
        assert str(violation) in caught.value.message
    return [
        (f"{found.entity}.{found.property}" if found.property else found.entity, found.problem)
        for found in caught.value.violations
    ]


USER = entity("User", {"town": str}, by_town=Index(hash="town"))
BY_TWO = {"by_one": Index(sort=["a", "b"], name="one"), "by_two": Index(sort="a_asc_b", name="two")}
CASES: dict[str, tuple[list[type[Entity]], str, str]] = {
    "entity like the pages of another": ([USER, entity("UserConnection")], "UserConnection", "the pages of User"),
    "entity like an edge": ([USER, entity("UserEdge")], "UserEdge", "the pages of User"),
    "entity like the orders of a list": ([USER, entity("UserOrder")], "UserOrder", "the orders of User"),
    "entity like a list": ([USER, entity("Users")], "Users", "field 'users', which is taken by the list of User"),
    "list like a by-id field": (
        [entity("Users"), USER],
        "User.by_town",
        "field 'users', which is taken by Users by id",
    ),
    "entity like a search": ([USER, entity("UserByTown")], "UserByTown", "field 'userByTown', which User has as well"),
    "enum like an entity": ([entity("Level", {"x": enum("Level")})], "Level.x", "type 'Level', which is taken by"),
    "two enums": ([entity("A", {"x": enum("Level"), "y": enum("Level")})], "A.y", "type 'Level', which is taken by"),
    "two models": ([entity("A", {"x": model("M"), "y": model("M")})], "A.y", "type 'M', which is taken by"),
    "model and enum": ([entity("A", {"x": model("M"), "y": enum("M")})], "A.y", "type 'M', which is taken by"),
    "model like an entity": ([entity("A", {"x": model("B")}), entity("B")], "B", "type 'B', which is taken by"),
    "model like a condition": ([entity("A", {"x": model("StringCondition")})], "A.key", "type 'StringCondition'"),
    "enum like a range": ([entity("A", {"x": enum("StringRange")})], "A.key", "type 'StringRange'"),
    "model with two fields of a name": ([entity("A", {"x": Twice})], "A.x", "becomes the field 'aB', as 'a_b' does"),
    "generic model": ([entity("A", {"x": Box[int]})], "A.x", "whose name is invalid in GraphQL"),
    "property like the id of records": ([entity("A", {"id": str, "row_id": str})], "A.row_id", "field 'rowId'"),
    "two orders": ([entity("A", {"a": str, "b": str, "a_asc_b": str}, **BY_TWO)], "A.by_two", "order 'A_ASC_B_ASC'"),
}


@pytest.mark.parametrize(("entities", "place", "says"), CASES.values(), ids=CASES.keys())
def test_one_name_for_two_things(entities: list[type[Entity]], place: str, says: str) -> None:
    """Two things that would have one name are refused by the one that came second, with what took it."""
    assert any(found == place and says in problem for found, problem in refused(*entities))


@pytest.mark.parametrize("name", ["true", "false", "null", "naïve"])
def test_members_of_enums(name: str) -> None:
    """A member of an enum that GraphQL cannot write is refused with the enum's name."""
    assert refused(entity("A", {"x": Enum("Level", {name: 1})})) == [
        ("A.x", f"is of Level, whose member {name!r} is invalid in GraphQL.")
    ]


RESERVED = ["Query", "Mutation", "Subscription", "Int", "Float", "String", "Boolean", "ID", "Node", "PageInfo"]
RESERVED += ["BigInt", "Timestamp", "TimestampMs", "Decimal", "UUID", "Date", "DateTime", "Duration", "JSON", "Bytes"]
RESERVED += ["SearchShards", "FailedShard", "StoppedBy", "OnShardFailure"]
RESERVED += ["WriteError", "FieldProblem", "DeleteResult"]


@pytest.mark.parametrize("name", RESERVED)
@pytest.mark.parametrize("kind", [entity, enum, model])
def test_reserved_types(kind: Any, name: str) -> None:
    """No entity, enum or model is called as a type that GraphQL or every catalog has; behind a namespace it may be."""
    made = kind(name)
    catalog = [made] if kind is entity else [entity("A", {"x": made})]
    assert any(f"becomes the type {name!r}, which is taken" in problem for _, problem in refused(*catalog))
    assert f"P_{name}" in build_schema(Catalog(*catalog, namespace="P"))._schema.type_map


@pytest.mark.parametrize("name", ["Node", "Nodes"])
def test_reserved_fields(name: str) -> None:
    """The fields that Relay gives a meaning stay free."""
    assert any(f"becomes the field '{name.lower()}', which" in problem for _, problem in refused(entity(name)))


def test_everything_at_once() -> None:
    """All names that collide are told together, whatever they are names of."""
    found = refused(
        USER,
        entity("UserConnection", {"id": str, "row_id": str}),
        entity("Users", {"x": Twice, "level": enum("UserEdge")}),
        entity("Date"),
    )
    assert [place for place, _ in found] == [
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
    """What is wrong with the declaration itself is told when the catalog is made."""
    with pytest.raises(InvalidCatalog, match="is called in GraphQL 'aB'"):
        Catalog(entity("A", {"a_b": str, "aB": str}))

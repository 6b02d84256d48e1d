"""Non-scalar values: nested models, lists, sets, maps, bytes, deprecations, and properties added later."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from graphql import GraphQLEnumType, GraphQLObjectType, get_named_type
from pydantic import BaseModel, ConfigDict, Field, RootModel

from graphql_api import (
    Catalog,
    Entity,
    Id,
    Timestamp,
    Ttl,
)
from graphql_api.schema.graph import build_schema
from tests.schema.graphql_client import open_client
from tests.schema.test_values import EAST, Level


class Inner(BaseModel):
    """A model inside a model.

    Described in two paragraphs.
    """

    level: Level
    at: datetime | None = None


class Address(BaseModel):
    """A postal address."""

    street_name: str
    number: int
    position: tuple[float, ...] = ()
    inner: Inner | None = None
    inners: list[Inner | None] = []
    old: Annotated[str, Field(deprecated="Ask for streetName.", description="As it was written once.")] = "-"


class Open(BaseModel):
    """Keeps unknown fields."""

    model_config = ConfigDict(extra="allow")
    known: int = 1


class Tree(BaseModel):
    """Contains itself."""

    name: str
    children: list["Tree"] = []


class Wrapped(RootModel[list[int]]):
    """A list with a name."""


class Nested(Entity):
    """A record with things inside."""

    key: Id[str]
    home: Address
    others: list[Address]
    by_name: dict[str, Address]
    numbers: set[int]
    levels: frozenset[Level]
    texts: tuple[str, ...] = ()
    pair: tuple[int, str] = (1, "x")
    table: list[list[int]]
    either: int | str = 0
    anything: Any = None
    raw: bytes = b""
    chunks: list[bytes]
    open: Open = Open()
    tree: Tree | None = None
    wrapped: Wrapped
    maybe: list[str | None] | None = None
    old: Annotated[int, Field(deprecated=True)] = 0
    older: Annotated[int, Field(deprecated="Take `either`.")] = 0
    expires: Ttl[Timestamp] | None = None


NESTED = Catalog(Nested)


def test_types_of_nested_values() -> None:
    """Models have their own types; lists, tuples and sets are lists; values without a single type are JSON."""
    types = build_schema(NESTED)._schema.type_map
    nested, address, inner = types["Nested"], types["Address"], types["Inner"]
    assert isinstance(nested, GraphQLObjectType)
    assert isinstance(address, GraphQLObjectType)
    assert {name: str(field.type) for name, field in nested.fields.items()} == {
        "id": "ID!",
        "key": "String!",
        "home": "Address!",
        "others": "[Address!]!",
        "byName": "JSON!",
        "numbers": "[BigInt!]!",
        "levels": "[Level!]!",
        "texts": "[String!]!",
        "pair": "JSON!",
        "table": "[[BigInt!]!]!",
        "either": "JSON!",
        "anything": "JSON",
        "raw": "Bytes!",
        "chunks": "[Bytes!]!",
        "open": "JSON!",
        "tree": "Tree",
        "wrapped": "JSON!",
        "maybe": "[String]",
        "old": "BigInt!",
        "older": "BigInt!",
        "expires": "Timestamp",
    }
    assert {name: str(field.type) for name, field in address.fields.items()} == {
        "streetName": "String!",
        "number": "BigInt!",
        "position": "[Float!]!",
        "inner": "Inner",
        "inners": "[Inner]!",
        "old": "String!",
    }
    tree = types["Tree"]
    assert isinstance(tree, GraphQLObjectType)
    assert str(tree.fields["children"].type) == "JSON!"
    assert inner.description == "A model inside a model.\n\nDescribed in two paragraphs."


def test_descriptions_and_deprecations() -> None:
    """The schema contains the docstrings, descriptions and deprecations of classes and properties."""
    types = build_schema(NESTED)._schema.type_map
    nested, address = types["Nested"], types["Address"]
    assert isinstance(nested, GraphQLObjectType)
    assert isinstance(address, GraphQLObjectType)
    assert nested.description == "A record with things inside."
    assert nested.fields["old"].deprecation_reason == "This field is deprecated."
    assert nested.fields["older"].deprecation_reason == "Take `either`."
    assert address.fields["old"].deprecation_reason == "Ask for streetName."
    assert address.fields["old"].description == "As it was written once."
    level = get_named_type(nested.fields["levels"].type)
    assert isinstance(level, GraphQLEnumType)
    assert [*level.values] == ["LOW", "HIGH"]


async def test_nested_values(tmp_path: Path) -> None:
    """Nested values are returned as they were stored; sets have a stable order."""
    moment = datetime(2026, 1, 1, 12, tzinfo=EAST)
    home = Address(street_name="Via Appia", number=2**60, inner=Inner(level=Level.HIGH, at=moment), inners=[None])
    record = Nested(
        key="k",
        home=home,
        others=[home],
        by_name={"first": home},
        numbers={10, 9, -1},
        levels=frozenset(Level),
        texts=("b", "a"),
        pair=(2, "y"),
        table=[[1], []],
        either="e",
        anything={"a": [1, None, {"b": "c"}]},
        raw=b"\x00\xff",
        chunks=[b"x"],
        open=Open.model_validate({"more": [1]}),
        tree=Tree(name="a", children=[Tree(name="b")]),
        wrapped=Wrapped([3]),
        maybe=["x", None],
    )
    async with open_client(NESTED, tmp_path, record) as client:
        found = await client.data(
            """{ nested(id: "k") {
              home { streetName number position inner { level at } inners { level } }
              others { streetName } byName numbers levels texts pair table either anything raw chunks open
              tree { name children } wrapped maybe expires
            } }"""
        )
        values = found["nested"]
        assert values.pop("byName")["first"]["street_name"] == "Via Appia"
        assert values == {
            "home": {
                "streetName": "Via Appia",
                "number": str(2**60),
                "position": [],
                "inner": {"level": "HIGH", "at": "2026-01-01T06:15:00.000000Z"},
                "inners": [None],
            },
            "others": [{"streetName": "Via Appia"}],
            "numbers": ["-1", "9", "10"],
            "levels": ["HIGH", "LOW"],
            "texts": ["b", "a"],
            "pair": [2, "y"],
            "table": [["1"], []],
            "either": "e",
            "anything": {"a": [1, None, {"b": "c"}]},
            "raw": "AP8=",
            "chunks": ["eA=="],
            "open": {"known": 1, "more": [1]},
            "tree": {"name": "a", "children": [{"name": "b", "children": []}]},
            "wrapped": [3],
            "maybe": ["x", None],
            "expires": None,
        }


async def test_a_property_added_later(tmp_path: Path) -> None:
    """A record that was stored before a property existed has its default, even for a model."""

    class Old(Entity, name="thing"):
        key: Id[str]

    class New(Entity, name="thing"):
        key: Id[str]
        home: Address = Address(street_name="nowhere", number=0)
        count: int = 7

    async with (
        open_client(Catalog(Old), tmp_path, Old(key="k")) as client,
        open_client(Catalog(New), tmp_path) as later,
    ):
        assert await client.data('{ old(id: "k") { key } }') == {"old": {"key": "k"}}
        found = await later.data('{ new(id: "k") { count home { streetName } } }')
        assert found == {"new": {"count": "7", "home": {"streetName": "nowhere"}}}

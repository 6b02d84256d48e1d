"""Values in mutation inputs: every scalar, models, lists, sets, maps, bytes and JSON."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from graphql import GraphQLInputObjectType, print_type
from pydantic import BaseModel, ConfigDict, Field

from graphql_api import Catalog, Entity, Id, Int32, stored
from graphql_api.errors import InvalidCatalog
from graphql_api.schema.graph import Graph
from tests.schema.graphql_client import open_client
from tests.schema.graphql_text import EnumName, input_type, literal
from tests.schema.test_nested_values import NESTED, Address, Inner, Nested, Open, Tree, Wrapped
from tests.schema.test_values import CATALOG, VALUES, Everything, Grade, Level, Shade

FULL = Nested(
    key="k",
    home=Address(
        street_name="Via Appia",
        number=2**60,
        position=(1.5, -2),
        inner=Inner(level=Level.HIGH, at=datetime(2026, 1, 1, 12, tzinfo=UTC)),
        inners=[None, Inner(level=Level.LOW)],
    ),
    others=[Address(street_name="x", number=1)],
    by_name={"first_of": Address(street_name="y", number=2, inner=Inner(level=Level.LOW))},
    numbers={10, 9, -1},
    levels=frozenset(Level),
    texts=("b", "a"),
    pair=(2, "y"),
    table=[[1], []],
    either="e",
    anything={"a": [1, None, {"b": "c"}]},
    raw=b"\x00\xff",
    chunks=[b"x", b"\xfe"],
    open=Open.model_validate({"more": [1]}),
    tree=Tree(name="a", children=[Tree(name="b")]),
    wrapped=Wrapped([3]),
    maybe=["x", None],
    expires=2**40,
)
NESTED_SELECTION = """key home { streetName number position inner { level at } inners { level at } old }
  others { streetName number position inner { level at } inners { level at } old } byName numbers levels texts pair
  table either anything raw chunks open tree { name children } wrapped maybe old older expires"""
EVERYTHING = Everything(
    key="k",
    big=-(2**63),
    small=-5,
    real=1.5e-7,
    amount=Decimal("12345678901234567890.123"),
    flag=True,
    text='"\u0000é\U0001f600',
    uuid=UUID(int=2**100),
    day=date(2024, 2, 29),
    moment=datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=UTC),
    span=timedelta(days=-1, microseconds=5),
    seconds=-1,
    millis=2**53,
    level=Level.HIGH,
    grade=Grade.BAD,
    shade=Shade.LIGHT,
    one_of="y",
    renamed=7,
    nothing="x",
)


EVERY_PROPERTY = " ".join(
    sorted(
        {part for part, *_ in VALUES if part != "one_of"} | {"key", "oneOf", "nothing", "seconds", "millis", "renamed"}
    )
)
INITIAL_NESTED = {
    "key": "k-3",
    "home": FULL.others[0],
    "others": [],
    "by_name": {},
    "numbers": {1},
    "levels": {Level.LOW},
}
INITIAL_RECORDS = {
    "Nested": Nested.model_validate({**INITIAL_NESTED, "table": [], "chunks": [], "wrapped": [1]}),
    "Everything": Everything(key="k-3"),
}
"""records whose properties all change in an update"""


@pytest.mark.parametrize(
    ("catalog", "record", "selection"), [(NESTED, FULL, NESTED_SELECTION), (CATALOG, EVERYTHING, EVERY_PROPERTY)]
)
async def test_output_is_valid_input(tmp_path: Path, catalog: Catalog, record: Any, selection: str) -> None:
    """The output of a record is valid input for a create, a put and an update, and stores the same values."""
    name = type(record).__name__
    field = name.lower()
    async with open_client(catalog, tmp_path, record, INITIAL_RECORDS[name]) as client:
        output = (await client.data(f'{{ {field}(id: "k") {{ {selection} }} }}'))[field]
        model: Any = type(record)
        for verb, key in (("create", "k-1"), ("put", "k-2"), ("update", "k-3")):
            given = {**output, "key": key}
            if verb == "update":
                given["id"] = given.pop("key")
            head = f"mutation ($input: {input_type(verb, name)}!)"
            query = f"{head} {{ {verb}{name}(input: $input) {{ {field} {{ {selection} }} }} }}"
            made = await client.data(query, {"input": given})
            assert made[f"{verb}{name}"][field] == {**output, "key": key}
            assert await client.db.get(model, key) == record.model_copy(update={"key": key})


@pytest.mark.parametrize(("part", "kind", "value", "out", "others"), VALUES)
async def test_scalars(tmp_path: Path, part: str, kind: str, value: Any, out: Any, others: list[Any]) -> None:
    """A scalar is accepted in its output form and its other input forms, as a literal and as a variable."""
    field = "oneOf" if part == "one_of" else part
    async with open_client(CATALOG, tmp_path) as client:
        for number, given in enumerate([out, *others]):
            written = EnumName(given) if isinstance(value, Enum) else given
            calls = [
                f'{at}: createEverything(input: {{key: "{at}{number}", {field}: {of}}}) {{ everything {{ {field} }} }}'
                for at, of in (("a", literal(written)), ("b", "$value"))
            ]
            query = f"mutation ($value: {kind}) {{ {' '.join(calls)} }}"
            made = await client.data(query, {"value": given})
            assert made["a"] == made["b"] == {"everything": {field: out}}
            record = await client.db.get(Everything, f"b{number}")
            assert getattr(record, part) == value


def test_inputs_of_models() -> None:
    """Models become input types. Fields with a default are optional."""
    types = Graph(NESTED).schema._schema.type_map
    assert print_type(types["InnerInput"]).splitlines() == [
        '"""Inner as input."""',
        "input InnerInput {",
        "  level: Level!",
        "  at: DateTime",
        "}",
    ]
    address, nested = types["AddressInput"], types["NestedInput"]
    assert isinstance(address, GraphQLInputObjectType)
    assert isinstance(nested, GraphQLInputObjectType)
    assert address.fields["old"].deprecation_reason == "Ask for streetName."
    assert {name: str(field.type) for name, field in address.fields.items()} == {
        "streetName": "String!",
        "number": "BigInt!",
        "position": "[Float!]",
        "inner": "InnerInput",
        "inners": "[InnerInput]",
        "old": "String",
    }
    assert {name: str(field.type) for name, field in nested.fields.items()} == {
        "key": "String!",
        "home": "AddressInput!",
        "others": "[AddressInput!]!",
        "byName": "JSON!",
        "numbers": "[BigInt!]!",
        "levels": "[Level!]!",
        "texts": "[String!]",
        "pair": "JSON",
        "table": "[[BigInt!]!]!",
        "either": "JSON",
        "anything": "JSON",
        "raw": "Bytes",
        "chunks": "[Bytes!]!",
        "open": "JSON",
        "tree": "TreeInput",
        "wrapped": "JSON!",
        "maybe": "[String]",
        "old": "BigInt",
        "older": "BigInt",
        "expires": "Timestamp",
    }


async def test_null_inside_models(tmp_path: Path) -> None:
    """Inside a model, null counts as omitted for a required value, and an omitted nullable field is null."""

    class Room(BaseModel):
        name: str
        floor: int | None
        doors: int = 1

    class House(Entity):
        house_id: Id[str]
        room: Room

    async with open_client(Catalog(House), tmp_path) as client:
        put = 'putHouse(input: {houseId: "h", room: $r}) { house { room { floor doors } } }'
        query = f"mutation ($r: RoomInput!) {{ {put} }}"
        for room in ({"name": "a"}, {"name": "a", "floor": None, "doors": None}):
            made = await client.data(query, {"r": room})
            assert made == {"putHouse": {"house": {"room": {"floor": None, "doors": "1"}}}}


# --- special inputs --------------------------------------------------------------------------------------------


class Shelf(Entity):
    """Contains bytes that GraphQL sees as JSON."""

    shelf_id: Id[str]
    chunks: dict[str, bytes] = Field(default_factory=dict)
    deep: Any = None
    count: Annotated[int, stored("cnt"), Field(ge=0)] = 0
    id: Int32 = 0
    expected_version: str = "-"


SHELVES = Catalog(Shelf)
PUT = "mutation ($input: ShelfInput!) { putShelf(input: $input) { shelf { chunks deep rowId expectedVersion } } }"


async def test_bytes_in_json(tmp_path: Path) -> None:
    """Bytes inside JSON are base64 text in both directions; other text is refused, with the name of the property."""
    async with open_client(SHELVES, tmp_path) as client:
        made = await client.data(PUT, {"input": {"shelfId": "s", "chunks": {"a": "AP8="}}})
        assert made["putShelf"]["shelf"]["chunks"] == {"a": "AP8="}
        shelf = await client.db.get(Shelf, "s")
        assert shelf is not None
        assert shelf.chunks == {"a": b"\x00\xff"}
        error = await client.error(PUT, {"input": {"shelfId": "s", "chunks": {"a": "?"}}})
        assert error["extensions"] == {"code": "INVALID_VALUE", "argument": "chunks"}


async def test_variables_inside_json(tmp_path: Path) -> None:
    """An omitted variable inside JSON drops its key from an object, and is null in a list."""
    put = """mutation ($a: JSON, $b: JSON) {
      putShelf(input: {shelfId: "s", deep: {a: $a, b: $b, c: [$a, $b, {b: $b}], d: null}}) { shelf { deep } } }"""
    async with open_client(SHELVES, tmp_path) as client:
        made = await client.data(put, {"a": {"x": 1}})
        found = await client.data('{ shelf(id: "s") { deep } }')
    deep = {"a": {"x": 1}, "c": [{"x": 1}, None, {}], "d": None}
    assert made["putShelf"]["shelf"] == found["shelf"] == {"deep": deep}


async def test_json_depth_limit(tmp_path: Path) -> None:
    """JSON that is nested too deeply for the engines is refused."""
    async with open_client(SHELVES, tmp_path) as client:
        deep: Any = 1
        for levels in range(1, 500):
            deep = [deep]
            if levels in (29, 40, 499):
                answer = await client.execute(PUT, {"input": {"shelfId": "s", "deep": deep}})
                assert answer.codes == (() if levels < 30 else ("INVALID_VALUE",)), levels


async def test_properties_with_reserved_names(tmp_path: Path) -> None:
    """A property called `id` becomes `rowId`, and one with the name of an argument gets a trailing underscore."""
    async with open_client(SHELVES, tmp_path) as client:
        made = await client.data(PUT, {"input": {"shelfId": "s", "rowId": 3, "expectedVersion_": "x"}})
        assert made["putShelf"]["shelf"] == {"chunks": {}, "deep": None, "rowId": 3, "expectedVersion": "x"}
        changed = await client.data(
            'mutation { updateShelf(input: {id: "s", rowId: 4, expectedVersion_: "y"}) { shelf { rowId } } }'
        )
        assert changed["updateShelf"]["shelf"] == {"rowId": 4}
        shelf = await client.db.get(Shelf, "s")
        assert shelf is not None
        assert (shelf.id, shelf.expected_version) == (4, "y")


async def test_null_in_creates_and_updates(tmp_path: Path) -> None:
    """In a create, null counts as omitted for a required value; in an update, it clears the property or is refused."""
    async with open_client(CATALOG, tmp_path) as client:
        query = "mutation ($input: EverythingInput!) { createEverything(input: $input) { everything { big level } } }"
        made = await client.data(query, {"input": {"key": "k", "big": None, "level": None, "nothing": None}})
        assert made["createEverything"]["everything"] == {"big": "0", "level": "LOW"}
        change = "mutation ($input: EverythingPatch!) { updateEverything(input: $input) { everything { nothing } } }"
        await client.data(change, {"input": {"id": "k", "nothing": "x"}})
        await client.data(change, {"input": {"id": "k"}})
        assert await client.data('{ everything(id: "k") { nothing } }') == {"everything": {"nothing": "x"}}
        await client.data(change, {"input": {"id": "k", "nothing": None}})
        assert await client.data('{ everything(id: "k") { nothing } }') == {"everything": {"nothing": None}}
        assert (await client.error(change, {"input": {"id": "k", "big": None}}))["extensions"][
            "code"
        ] == "INVALID_RECORD"


def test_input_type_collisions() -> None:
    """A model whose input type has the name of a shared input type is refused."""

    class Delete(BaseModel):
        model_config = ConfigDict(frozen=True)
        size: int

    class Depot(Entity):
        depot_id: Id[str]
        first: Delete

    with pytest.raises(InvalidCatalog, match="becomes the type 'DeleteInput', which is taken by"):
        Graph(Catalog(Depot))

"""What goes into records by mutations: every scalar, models, lists, sets, maps, bytes and JSON."""

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
from tests.schema.asking import asked
from tests.schema.test_nested_values import NESTED, Address, Inner, Nested, Open, Tree, Wrapped
from tests.schema.test_values import CATALOG, VALUES, Everything, Grade, Level, Shade
from tests.schema.written import Bare, literal

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
SHOWN = """key home { streetName number position inner { level at } inners { level at } old }
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
PLAIN_NESTED = {
    "key": "k-3",
    "home": FULL.others[0],
    "others": [],
    "by_name": {},
    "numbers": {1},
    "levels": {Level.LOW},
}
PLAIN = {
    "Nested": Nested.model_validate({**PLAIN_NESTED, "table": [], "chunks": [], "wrapped": [1]}),
    "Everything": Everything(key="k-3"),
}
"""records of which everything becomes another thing"""


@pytest.mark.parametrize(("catalog", "record", "shown"), [(NESTED, FULL, SHOWN), (CATALOG, EVERYTHING, EVERY_PROPERTY)])
async def test_what_comes_out_goes_in(tmp_path: Path, catalog: Catalog, record: Any, shown: str) -> None:
    """Whatever a record answers makes the same record again, by a create, a put and an update."""
    name = type(record).__name__
    field = name.lower()
    async with asked(catalog, tmp_path, record, PLAIN[name]) as ask:
        told = (await ask.data(f'{{ {field}(id: "k") {{ {shown} }} }}'))[field]
        for verb, key in (("create", "k-1"), ("put", "k-2"), ("update", "k-3")):
            given = {**told, "key": key}
            if verb == "update":
                given["id"] = given.pop("key")
            head = f"mutation ($input: {verb.capitalize()}{name}Input!)"
            query = f"{head} {{ {verb}{name}(input: $input) {{ {field} {{ {shown} }} }} }}"
            made = await ask.data(query, {"input": given})
            assert made[f"{verb}{name}"][field] == {**told, "key": key}
            assert await ask.db.get(type(record), key) == record.model_copy(update={"key": key})


@pytest.mark.parametrize(("part", "kind", "value", "out", "others"), VALUES)
async def test_scalars(tmp_path: Path, part: str, kind: str, value: Any, out: Any, others: list[Any]) -> None:
    """A scalar goes in as it comes out and in its other forms, as a literal and as a variable."""
    field = "oneOf" if part == "one_of" else part
    async with asked(CATALOG, tmp_path) as ask:
        for number, given in enumerate([out, *others]):
            written = Bare(given) if isinstance(value, Enum) else given
            calls = [
                f'{at}: createEverything(input: {{key: "{at}{number}", {field}: {of}}}) {{ everything {{ {field} }} }}'
                for at, of in (("a", literal(written)), ("b", "$value"))
            ]
            query = f"mutation ($value: {kind}) {{ {' '.join(calls)} }}"
            made = await ask.data(query, {"value": given})
            assert made["a"] == made["b"] == {"everything": {field: out}}
            record = await ask.db.get(Everything, f"b{number}")
            assert getattr(record, part) == value


def test_inputs_of_models() -> None:
    """Models become input types in which what has a default may be left out, with the words of their fields."""
    types = Graph(NESTED).schema._schema.type_map
    assert print_type(types["InnerInput"]).splitlines() == [
        '"""',
        "A model inside a model.",
        "",
        "Described in two paragraphs.",
        '"""',
        "input InnerInput {",
        '  """The level."""',
        "  level: Level!",
        "",
        '  """The at."""',
        "  at: DateTime",
        "}",
    ]
    address, nested = types["AddressInput"], types["CreateNestedInput"]
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


async def test_null_inside_of_models(tmp_path: Path) -> None:
    """Inside of a model null counts as left out where a value is needed, and what is left out is null elsewhere."""

    class Room(BaseModel):
        name: str
        floor: int | None
        doors: int = 1

    class House(Entity):
        house_id: Id[str]
        room: Room

    async with asked(Catalog(House), tmp_path) as ask:
        put = 'putHouse(input: {houseId: "h", room: $r}) { house { room { floor doors } } }'
        query = f"mutation ($r: RoomInput!) {{ {put} }}"
        for room in ({"name": "a"}, {"name": "a", "floor": None, "doors": None}):
            made = await ask.data(query, {"r": room})
            assert made == {"putHouse": {"house": {"room": {"floor": None, "doors": "1"}}}}


# --- what does not fit -----------------------------------------------------------------------------------------


class Shelf(Entity):
    """Holds bytes where GraphQL sees JSON."""

    shelf_id: Id[str]
    chunks: dict[str, bytes] = Field(default_factory=dict)
    deep: Any = None
    count: Annotated[int, stored("cnt"), Field(ge=0)] = 0
    id: Int32 = 0
    expected_version: str = "-"


SHELVES = Catalog(Shelf)
PUT = "mutation ($input: PutShelfInput!) { putShelf(input: $input) { shelf { chunks deep rowId expectedVersion } } }"


async def test_bytes_in_json(tmp_path: Path) -> None:
    """Bytes inside of JSON are a text in base64, both ways; what is none is refused by the name of the property."""
    async with asked(SHELVES, tmp_path) as ask:
        made = await ask.data(PUT, {"input": {"shelfId": "s", "chunks": {"a": "AP8="}}})
        assert made["putShelf"]["shelf"]["chunks"] == {"a": "AP8="}
        shelf = await ask.db.get(Shelf, "s")
        assert shelf is not None
        assert shelf.chunks == {"a": b"\x00\xff"}
        error = await ask.error(PUT, {"input": {"shelfId": "s", "chunks": {"a": "?"}}})
        assert error["extensions"] == {"code": "INVALID_VALUE", "argument": "chunks"}


async def test_variables_inside_of_json(tmp_path: Path) -> None:
    """A variable without a value leaves its key of a map out, as it does elsewhere, and is null in a list."""
    put = """mutation ($a: JSON, $b: JSON) {
      putShelf(input: {shelfId: "s", deep: {a: $a, b: $b, c: [$a, $b, {b: $b}], d: null}}) { shelf { deep } } }"""
    async with asked(SHELVES, tmp_path) as ask:
        made = await ask.data(put, {"a": {"x": 1}})
        found = await ask.data('{ shelf(id: "s") { deep } }')
    deep = {"a": {"x": 1}, "c": [{"x": 1}, None, {}], "d": None}
    assert made["putShelf"]["shelf"] == found["shelf"] == {"deep": deep}


async def test_json_that_is_too_deep(tmp_path: Path) -> None:
    """JSON that no engine holds is refused, however deep it is."""
    async with asked(SHELVES, tmp_path) as ask:
        deep: Any = 1
        for levels in range(1, 500):
            deep = [deep]
            if levels in (29, 40, 499):
                answer = await ask.answer(PUT, {"input": {"shelfId": "s", "deep": deep}})
                assert answer.codes == (() if levels < 30 else ("INVALID_VALUE",)), levels


async def test_properties_called_as_what_inputs_have(tmp_path: Path) -> None:
    """A property called `id` is `rowId`, and one called as an argument has an underscore behind its name."""
    async with asked(SHELVES, tmp_path) as ask:
        made = await ask.data(PUT, {"input": {"shelfId": "s", "rowId": 3, "expectedVersion_": "x"}})
        assert made["putShelf"]["shelf"] == {"chunks": {}, "deep": None, "rowId": 3, "expectedVersion": "x"}
        changed = await ask.data(
            'mutation { updateShelf(input: {id: "s", rowId: 4, expectedVersion_: "y"}) { shelf { rowId } } }'
        )
        assert changed["updateShelf"]["shelf"] == {"rowId": 4}
        shelf = await ask.db.get(Shelf, "s")
        assert shelf is not None
        assert (shelf.id, shelf.expected_version) == (4, "y")


async def test_null_in_a_whole_record(tmp_path: Path) -> None:
    """In a whole record null counts as left out where a value is needed; in a change it clears, or is refused."""
    async with asked(CATALOG, tmp_path) as ask:
        query = (
            "mutation ($input: CreateEverythingInput!) { createEverything(input: $input) { everything { big level } } }"
        )
        made = await ask.data(query, {"input": {"key": "k", "big": None, "level": None, "nothing": None}})
        assert made["createEverything"]["everything"] == {"big": "0", "level": "LOW"}
        change = (
            "mutation ($input: UpdateEverythingInput!) { updateEverything(input: $input) { everything { nothing } } }"
        )
        await ask.data(change, {"input": {"id": "k", "nothing": "x"}})
        await ask.data(change, {"input": {"id": "k"}})
        assert await ask.data('{ everything(id: "k") { nothing } }') == {"everything": {"nothing": "x"}}
        await ask.data(change, {"input": {"id": "k", "nothing": None}})
        assert await ask.data('{ everything(id: "k") { nothing } }') == {"everything": {"nothing": None}}
        assert (await ask.error(change, {"input": {"id": "k", "big": None}}))["extensions"]["code"] == "INVALID_RECORD"


def test_inputs_that_collide() -> None:
    """A model whose input is called as that of an entity is refused."""

    class CreateDepot(BaseModel):
        model_config = ConfigDict(frozen=True)
        size: int

    class Depot(Entity):
        depot_id: Id[str]
        first: CreateDepot

    with pytest.raises(InvalidCatalog, match="becomes the type 'CreateDepotInput', which is taken by"):
        Graph(Catalog(Depot))

"""Where in a record a mistake is: in the names of the schema, in types of their own as in JSON."""

from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from graphql_api import Catalog, Entity, Id
from tests.schema.asking import asked


class Colour(Enum):
    """Of a pin."""

    RED = "red"
    BLUE_ISH = 2


class Pin(BaseModel):
    """On a map."""

    lat_deg: float
    pin_name: str = Field(default="a", min_length=1, alias="label")


class Branch(BaseModel):
    """Of a tree."""

    leaf_count: int
    inner_branches: list["Branch"] = []


class Map(Entity):
    """Holds pins in every manner."""

    map_id: Id[str]
    first_pin: Pin | None = None
    all_pins: list[Pin] = Field(default_factory=list)
    named_pins: dict[str, Pin] = Field(default_factory=dict)
    home_branch: Branch | None = None
    far_pins: tuple[Pin, ...] = ()
    some_pair: tuple[int, Pin] | None = None
    either_way: int | Pin | None = None
    own_colour: Colour = Colour.RED
    colours_by_day: dict[str, Colour] = Field(default_factory=dict)
    one_word: Literal["a", "b"] = "a"


CATALOG = Catalog(Map)
CREATE = "mutation ($input: CreateMapInput!) { createMap(input: $input) { map { mapId } } }"
PIN = {"latDeg": 1.5}

PLACES: list[tuple[dict[str, Any], list[str]]] = [
    ({"firstPin": {**PIN, "pinName": ""}}, ["firstPin.pinName"]),
    ({"allPins": [PIN, {**PIN, "pinName": ""}]}, ["allPins.1.pinName"]),
    ({"namedPins": {"a b": {"label": ""}}}, ["namedPins.a b.lat_deg", "namedPins.a b.label"]),
    ({"farPins": [{**PIN, "pinName": ""}]}, ["farPins.0.pinName"]),
    ({"namedPins": {"lat_deg": PIN}}, ["namedPins.lat_deg.lat_deg"]),
    (
        {"homeBranch": {"leafCount": "1", "innerBranches": [{"leafCount": 1}]}},
        ["homeBranch.innerBranches.0.leaf_count"],
    ),
    ({"somePair": [1, PIN]}, ["somePair.1.lat_deg"]),
    ({"eitherWay": PIN}, ["eitherWay.int", "eitherWay.Pin.lat_deg"]),
    ({"oneWord": "c"}, ["oneWord"]),
    ({"coloursByDay": {"own_colour": "RED"}}, ["coloursByDay.own_colour"]),
]


@pytest.mark.parametrize(("given", "places"), PLACES)
async def test_where_it_is_wrong(tmp_path: Path, given: dict[str, Any], places: list[str]) -> None:
    """Message, argument and fields name the place alike: as the input has it, and in JSON as the JSON has it."""
    async with asked(CATALOG, tmp_path) as ask:
        error = await ask.error(CREATE, {"input": {"mapId": "m", **given}})
        told = error["extensions"]
        assert [one["field"] for one in told["fields"]] == places
        assert told["argument"] == places[0]
        said = "; ".join(f"Map.{one['field']}: {one['message']}" for one in told["fields"])
        assert error["message"] == f"{said}."


async def test_what_is_right_in_json(tmp_path: Path) -> None:
    """The place that an error names in JSON is the one at which the value is then taken."""
    given = {
        "namedPins": {"a b": {"lat_deg": 1, "label": "x"}},
        "homeBranch": {"leafCount": 1, "innerBranches": [{"leaf_count": 1}]},
        "somePair": [1, {"lat_deg": 1}],
        "coloursByDay": {"mo": "red"},
    }
    async with asked(CATALOG, tmp_path) as ask:
        await ask.data(CREATE, {"input": {"mapId": "m", **given}})
        stored = await ask.db.get(Map, "m")
        assert stored is not None
        assert stored.named_pins["a b"].pin_name == "x"


async def test_which_members_there_are(tmp_path: Path) -> None:
    """An enum that is cleared lists the members of the schema; inside of JSON those of the JSON."""
    async with asked(CATALOG, tmp_path) as ask:
        await ask.data(CREATE, {"input": {"mapId": "m"}})
        error = await ask.error('mutation { updateMap(input: {id: "m", ownColour: null}) { map { mapId } } }')
        assert error["message"] == "Map.ownColour: Input should be RED or BLUE_ISH, and not null."
        error = await ask.error(CREATE, {"input": {"mapId": "n", "coloursByDay": {"mo": "RED"}}})
        assert error["message"] == "Map.coloursByDay.mo: Input should be 'red' or 2."


async def test_very_many_mistakes(tmp_path: Path) -> None:
    """Of more mistakes than anybody reads the first hundred are told, and how many more there are."""
    async with asked(CATALOG, tmp_path) as ask:
        pins = {str(number): {"label": ""} for number in range(100)}
        error = await ask.error(CREATE, {"input": {"mapId": "m", "namedPins": pins}})
        fields = error["extensions"]["fields"]
        assert len(fields) == 100
        assert error["extensions"]["argument"] == fields[0]["field"] == "namedPins.0.lat_deg"
        assert error["message"].endswith("; and 100 more.")

"""The path of an error inside a record: schema names in typed values, original keys in JSON."""

from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from graphql_api import Catalog, Entity, Id
from tests.schema.graphql_client import open_client


class Colour(Enum):
    """The colour of a pin."""

    RED = "red"
    BLUE_ISH = 2


class Pin(BaseModel):
    """A pin on a map."""

    lat_deg: float
    pin_name: str = Field(default="a", min_length=1, alias="label")


class Branch(BaseModel):
    """A branch of a tree."""

    leaf_count: int
    inner_branches: list["Branch"] = []


class Map(Entity):
    """Contains pins in nested types of every kind."""

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
CREATE = "mutation ($input: MapInput!) { createMap(input: $input) { map { mapId } } }"
PIN = {"latDeg": 1.5}

PATHS: list[tuple[dict[str, Any], list[str]]] = [
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


@pytest.mark.parametrize(("given", "paths"), PATHS)
async def test_error_paths(tmp_path: Path, given: dict[str, Any], paths: list[str]) -> None:
    """Message, argument and fields have the same path: input names in typed values, original keys in JSON."""
    async with open_client(CATALOG, tmp_path) as client:
        error = await client.error(CREATE, {"input": {"mapId": "m", **given}})
        extensions = error["extensions"]
        assert [one["field"] for one in extensions["fields"]] == paths
        assert extensions["argument"] == paths[0]
        details = "; ".join(f"Map.{one['field']}: {one['message']}" for one in extensions["fields"])
        assert error["message"] == f"{details}."


async def test_paths_in_json_are_accepted(tmp_path: Path) -> None:
    """A value at the path that an error reports for JSON is accepted."""
    given = {
        "namedPins": {"a b": {"lat_deg": 1, "label": "x"}},
        "homeBranch": {"leafCount": 1, "innerBranches": [{"leaf_count": 1}]},
        "somePair": [1, {"lat_deg": 1}],
        "coloursByDay": {"mo": "red"},
    }
    async with open_client(CATALOG, tmp_path) as client:
        await client.data(CREATE, {"input": {"mapId": "m", **given}})
        stored = await client.db.get(Map, "m")
        assert stored is not None
        assert stored.named_pins["a b"].pin_name == "x"


async def test_enum_members_in_errors(tmp_path: Path) -> None:
    """An error lists the enum members of the schema, and inside JSON the stored values."""
    async with open_client(CATALOG, tmp_path) as client:
        await client.data(CREATE, {"input": {"mapId": "m"}})
        error = await client.error('mutation { updateMap(input: {id: "m", ownColour: null}) { map { mapId } } }')
        assert error["message"] == "Map.ownColour: Input should be RED or BLUE_ISH, and not null."
        error = await client.error(CREATE, {"input": {"mapId": "n", "coloursByDay": {"mo": "RED"}}})
        assert error["message"] == "Map.coloursByDay.mo: Input should be 'red' or 2."


async def test_error_count_limit(tmp_path: Path) -> None:
    """At most 100 errors of a record are reported, and the number of further ones."""
    async with open_client(CATALOG, tmp_path) as client:
        pins = {str(number): {"label": ""} for number in range(100)}
        error = await client.error(CREATE, {"input": {"mapId": "m", "namedPins": pins}})
        fields = error["extensions"]["fields"]
        assert len(fields) == 100
        assert error["extensions"]["argument"] == fields[0]["field"] == "namedPins.0.lat_deg"
        assert error["message"].endswith("; and 100 more.")

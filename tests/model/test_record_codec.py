"""Encoding records as attributes, and decoding attributes as records."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from ipaddress import IPv4Address
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel

from graphql_api import Catalog, Created, Entity, Id, Index, Int32, Timestamp, TimestampMs, canonical, derived, stored
from graphql_api.errors import InvalidRecord, InvalidValue
from graphql_api.model.record_codec import decode_record, encode_record
from tests.laws.key_strategies import texts


class Color(StrEnum):
    RED = "r"
    GREEN = "g"


class Level(IntEnum):
    LOW = 1
    HIGH = 9


class Place(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["place"] = "place"
    street_name: str
    house_number: Annotated[int, stored("no")] = 1
    moved_in: date | None = None


class Person(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["person"] = "person"
    full_name: str
    lives_at: list[Place] = []
    height: float = 0.0
    worth: Decimal = Decimal(0)
    seen_at: datetime | None = None
    waited: timedelta = timedelta(0)
    favourite: Color = Color.RED
    tags: set[str] = set()
    friends: "dict[str, Person]" = {}


class Scores(RootModel[dict[int, list[float]]]):
    """Scores of each round."""


class Everything(Entity):
    """An entity with a property of every supported type."""

    everything_id: Id[UUID]
    made_at: Created[TimestampMs]
    text: str
    number: int
    small: Int32 | None = None
    ratio: float
    price: Annotated[Decimal, stored("amt")]
    flag: bool
    day: date
    moment: datetime
    length: timedelta
    color: Color
    level: Level | None = None
    short: str = derived(canonical, "text")

    raw: bytes = b""
    words: set[str] = Field(default_factory=lambda: {"default"})
    numbers: frozenset[int] = frozenset()
    chunks: set[bytes] = Field(default_factory=set)
    flags: set[bool] = Field(default_factory=set)
    pairs: list[tuple[int, str]] = Field(default_factory=list)
    by_day: dict[date, Level] = Field(default_factory=dict)
    person: Person | None = None
    subject: Person | Place | None = None
    subjects: list[Person | Place] = Field(default_factory=list)
    scores: Scores = Scores({})
    address: IPv4Address = IPv4Address("127.0.0.1")
    anything: Any = None


SPEC = Catalog(Everything).entity(Everything)

# --- round trip --------------------------------------------------------------------------------------------------

FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e125, max_value=1e125).filter(
    lambda number: number == 0 or abs(number) > 1e-129
)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=6)
MOMENTS = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7, minutes=30))])).filter(
    lambda moment: 1 < moment.year < 9999
)
LENGTHS = st.timedeltas(min_value=timedelta(days=-(10**6)), max_value=timedelta(days=10**6))
INTEGERS = st.integers(-(2**63), 2**63 - 1)
PLACES = st.builds(Place, street_name=texts(), house_number=INTEGERS, moved_in=st.none() | st.dates())


def people(friends: st.SearchStrategy[dict[str, Person]]) -> st.SearchStrategy[Person]:
    """People with these friends."""
    return st.builds(
        Person,
        full_name=texts(),
        lives_at=st.lists(PLACES, max_size=2),
        height=FINITE,
        worth=DECIMALS,
        seen_at=st.none() | MOMENTS,
        waited=LENGTHS,
        favourite=st.sampled_from(Color),
        tags=st.sets(texts(), max_size=3),
        friends=friends,
    )


PEOPLE = people(st.dictionaries(texts(), people(st.just({})), max_size=2))
JSON = st.recursive(
    # A whole number beyond 2**53 may have been an int or a float; it is decoded as an int.
    st.none() | st.booleans() | INTEGERS | FINITE.filter(lambda number: abs(number) < 2**53) | texts(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.builds(
    Everything,
    everything_id=st.uuids(),
    made_at=st.integers(0, 2**53),
    text=texts(),
    number=INTEGERS,
    small=st.none() | st.integers(-(2**31), 2**31 - 1),
    ratio=FINITE,
    price=DECIMALS,
    flag=st.booleans(),
    day=st.dates(),
    moment=MOMENTS,
    length=LENGTHS,
    color=st.sampled_from(Color),
    level=st.none() | st.sampled_from(Level),
    raw=st.binary(max_size=5),
    words=st.sets(texts(), max_size=3),
    numbers=st.frozensets(INTEGERS, max_size=3),
    chunks=st.sets(st.binary(max_size=3), max_size=3),
    flags=st.sets(st.booleans()),
    pairs=st.lists(st.tuples(INTEGERS, texts()), max_size=3),
    by_day=st.dictionaries(st.dates(), st.sampled_from(Level), max_size=3),
    person=st.none() | PEOPLE,
    subject=st.none() | PEOPLE | PLACES,
    subjects=st.lists(PEOPLE | PLACES, max_size=3),
    scores=st.builds(Scores, st.dictionaries(INTEGERS, st.lists(FINITE, max_size=2), max_size=2)),
    address=st.ip_addresses(v=4),
    anything=JSON,
)


def with_decimals(value: Any) -> Any:
    """Converts ints to Decimals, as some engines do."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return Decimal(value)
    if isinstance(value, Mapping):
        return {key: with_decimals(item) for key, item in value.items()}
    if isinstance(value, list | frozenset):
        return type(value)(with_decimals(item) for item in value)
    return value


def assert_storable(value: Any) -> None:
    """Asserts that the value is an attribute value that the storage port permits."""
    if isinstance(value, Mapping):
        assert all(type(key) is str for key in value)
        for item in value.values():
            assert_storable(item)
    elif isinstance(value, frozenset):
        assert value
        assert len({Decimal if type(item) is int else type(item) for item in value}) == 1
        assert all(type(item) in {str, bytes, int, Decimal} for item in value)
    elif isinstance(value, list):
        for item in value:
            assert_storable(item)
    else:
        assert value is None or type(value) in {str, int, Decimal, bytes, bool}


@given(RECORDS)
def test_decoding_reverses_encoding(record: Everything) -> None:
    """Decoding an encoded record gives an equal record, also if the engine returns ints as Decimals."""
    attributes = encode_record(SPEC, record)
    assert_storable(attributes)
    assert decode_record(SPEC, attributes) == record
    assert decode_record(SPEC, with_decimals(attributes)) == record


@given(RECORDS)
def test_encoding_reverses_decoding(record: Everything) -> None:
    """Encoding a decoded record gives the same attributes."""
    attributes = encode_record(SPEC, record)
    assert encode_record(SPEC, decode_record(SPEC, attributes)) == attributes


# --- encoding ----------------------------------------------------------------------------------------------------


class Part(Entity):
    """An entity with a few properties."""

    part_id: Id[str]
    first_name: str
    maker: str | None = None
    color: str | None = "red"
    amount: Annotated[Decimal, stored("amt")] = Decimal(5)
    short: str = derived(canonical, "first_name")
    made: Timestamp = 0
    place: Place | None = None
    words: set[str] = Field(default_factory=lambda: {"default"})

    by_short = Index(sort="short")


PART = Catalog(Part).entity(Part)


def part(**changes: Any) -> Part:
    """A valid part with changes."""
    return Part(**{"part_id": "p", "first_name": "Ä", **changes})


def test_attributes_have_stored_names() -> None:
    """Properties and fields of nested models are encoded under their stored names."""
    place = Place(street_name="s", house_number=3)
    assert encode_record(PART, part(place=place)) == {
        "partId": "p",
        "firstName": "Ä",
        "color": "red",
        "amt": Decimal(5),
        "short": "a",
        "made": 0,
        "place": {"kind": "place", "streetName": "s", "no": 3, "movedIn": None},
        "words": frozenset({"default"}),
    }


def test_null_is_stored_only_to_override_a_default() -> None:
    """A null is not stored, unless a missing attribute would be decoded as a default other than null."""
    attributes = encode_record(PART, part(maker=None, color=None))
    assert "maker" not in attributes
    assert attributes["color"] is None
    assert decode_record(PART, attributes) == part(maker=None, color=None)


def test_empty_set_is_preserved() -> None:
    """An empty set is stored as an empty list, because engines have no empty sets, and is decoded as an empty set."""
    attributes = encode_record(PART, part(words=set()))
    assert attributes["words"] == []
    assert decode_record(PART, attributes) == part(words=set())


def test_encoding_recomputes_derived_properties() -> None:
    """Encoding recomputes derived properties from changed sources, and updates the record."""
    record = part()
    record.first_name = "Öl"
    assert encode_record(PART, record)["short"] == "ol"
    assert record.short == "ol"


def test_nested_datetimes_are_stored_in_utc() -> None:
    """A nested datetime is stored in UTC; one without an offset is refused."""
    holder = Catalog(Holder).entity(Holder)
    moment = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert encode_record(holder, Holder(holder_id="h", held=[moment]))["held"] == ["2026-01-01T00:00:00.000000Z"]
    with pytest.raises(InvalidValue, match=r"Holder\.held"):
        encode_record(holder, Holder(holder_id="h", held=[datetime(2026, 1, 1)]))  # noqa: DTZ001


class Holder(Entity):
    """An entity with a property of any type."""

    holder_id: Id[str]
    held: Any = None


def nested(levels: int) -> Any:
    """Lists nested to this depth."""
    return [nested(levels - 1)] if levels else []


@pytest.mark.parametrize(
    ("held", "problem"),
    [
        (object(), "A object cannot be stored"),
        ({(1, 2): 3}, "key of type tuple"),
        ({None: 3}, "key of type NoneType"),
        ([1.0, float("inf")], "Holder.held"),
        ([2**63], "Holder.held"),
        (["\ud800"], "Holder.held"),
        (nested(40), "29 levels"),
    ],
)
def test_unsupported_values_are_refused(held: Any, problem: str) -> None:
    """A value that no engine can store is refused with the name of the property."""
    with pytest.raises(InvalidValue, match=problem) as failure:
        encode_record(Catalog(Holder).entity(Holder), Holder(holder_id="h", held=held))
    assert failure.value.argument == "held"


def test_enum_in_a_list_is_stored_by_value() -> None:
    """An enum in a list is stored by its value, of any type."""

    class Pair(Enum):
        ONE = "1"
        TWO = 2

    class Game(Entity):
        game_id: Id[str]
        pairs: list[Pair]

    spec = Catalog(Game).entity(Game)
    game = Game(game_id="g", pairs=[Pair.TWO, Pair.ONE])
    assert encode_record(spec, game)["pairs"] == [2, "1"]
    assert decode_record(spec, encode_record(spec, game)) == game


def test_invalid_assigned_value_is_refused() -> None:
    """An invalid value that was assigned to a record is refused with entity and property."""
    record = part()
    record.made = 2**60
    with pytest.raises(InvalidValue, match=r"Part\.made: .*") as failure:
        encode_record(PART, record)
    assert failure.value.argument == "made"
    record = part()
    record.first_name = None  # type: ignore[assignment]
    with pytest.raises(InvalidRecord, match=r"Part\.short is null|Part\.first_name is null"):
        encode_record(PART, record)
    with pytest.raises(InvalidRecord, match="A Holder is no Part"):
        encode_record(PART, Holder(holder_id="h"))


# --- decoding ----------------------------------------------------------------------------------------------------


def test_older_record_gets_defaults() -> None:
    """Properties that an older record lacks get their default, or null if nullable; derived properties are computed."""

    class Newer(Entity, name="part"):
        part_id: Id[str]
        first_name: str
        short: str = derived(canonical, "first_name")
        size: int = 7
        tags: list[str] = Field(default_factory=lambda: ["new"])
        note: str | None

    newer = Catalog(Newer).entity(Newer)
    assert decode_record(newer, {"partId": "p", "firstName": "Ä", "gone": 1, "hashKey": "part!", "_w": "x"}) == Newer(
        part_id="p", first_name="Ä", size=7, tags=["new"], note=None
    )


def test_stored_derived_value_is_ignored() -> None:
    """Decoding ignores the stored value of a derived property and computes it again."""
    assert decode_record(PART, {"partId": "p", "firstName": "Ä", "short": "stale"}).model_dump()["short"] == "a"


def test_missing_property_is_refused() -> None:
    """Decoding a record without a required property fails; the error contains the key and a remedy."""
    with pytest.raises(InvalidRecord, match=r"part! / partId#p: first_name: .* default for records that are older"):
        decode_record(PART, {"partId": "p", "hashKey": "part!", "rangeKey": "partId#p"})


@pytest.mark.parametrize(
    ("attribute", "value", "place"),
    [("made", "soon", "made"), ("amt", [1], "amount"), ("firstName", 7, "first_name"), ("place", {"no": 1}, "place")],
)
def test_invalid_stored_value_is_refused(attribute: str, value: Any, place: str) -> None:
    """A stored value of the wrong type is refused with the name of the property."""
    with pytest.raises(InvalidRecord, match=place) as failure:
        decode_record(PART, {"partId": "p", "firstName": "n", attribute: value})
    assert (failure.value.argument or "").startswith(place)

"""Design advice: problems of valid catalogs, and their cost."""

import re
from collections.abc import Sequence
from enum import Enum
from pathlib import Path

import pytest

from graphql_api import Catalog, Entity, Id, Index, Shards, SubId, Timestamp, Ttl, canonical, derived, open_catalog
from graphql_api.errors import EmptyKey, KeyTooLong
from graphql_api.examples.users import catalog as users
from graphql_api.examples.users import sample
from graphql_api.ops.design_advice import Advice, find_advice
from graphql_api.ops.record_capacity import entity_capacity
from graphql_api.storage.capacity_units import read_units
from graphql_api.storage.item_rules import record_size

HASH_REMEDY = "Add shards, or hash by another property too."


class State(Enum):
    """The state of a parcel."""

    OPEN = "open"
    CLOSED = "closed"
    GONE = "gone"


class Parcel(Entity):
    """An entity with indexes that have few hash keys."""

    parcel_id: Id[str]
    state: State
    urgent: bool
    town: str
    number: str
    note: str = ""

    by_state = Index(hash="state")
    by_urgent_state = Index(hash=["urgent", "state"])
    by_town_urgent = Index(hash=["town", "urgent"])
    by_number = Index(sort="number")


class SpreadParcel(Parcel, shards=Shards(4)):
    """The same entity over four shards."""


def advice_for(catalog: Catalog, *records: Entity) -> list[Advice]:
    """The advice for a catalog and for records of its first entity."""
    spec = next(iter(catalog.entities.values()))
    return [*find_advice(catalog, {spec.name: records})]


def parcels(numbers: Sequence[str], towns: int = 100) -> list[SpreadParcel]:
    """Parcels with these numbers, distributed over the given number of towns."""
    return [
        SpreadParcel(parcel_id=f"p{at}", state=State.OPEN, urgent=False, town=f"t{at % towns}", number=number)
        for at, number in enumerate(numbers)
    ]


# --- hot hash keys -----------------------------------------------------------------------------------------------


def test_hot_hash_keys() -> None:
    """An index with few hash keys is reported with their number and the supported write rate."""
    messages = [
        f"Parcel.{index}: is hashed by {names}, of {keys} values, over one shard: all its entries share {keys} "
        f"hash keys. Together they support at most about {keys},000 writes per second."
        for index, names, keys in (("by_state", "state", 3), ("by_urgent_state", "urgent and state", 6))
    ]
    hot = advice_for(Catalog(Parcel))
    assert [str(one) for one in hot] == messages
    assert {(one.remedy, one.is_warning) for one in hot} == {(HASH_REMEDY, True)}


def test_shards_spread_a_hot_hash() -> None:
    """An index with few hash values is not reported if its entity has several shards."""
    assert advice_for(Catalog(SpreadParcel)) == []


@pytest.mark.parametrize(("towns", "keys"), [(1, 4), (2, 8), (3, None)])
def test_few_hash_values_in_records(towns: int, keys: int | None) -> None:
    """Hash properties with few values in at least 50 records are reported."""
    many = parcels([f"x{at:02}" for at in range(60)], towns)
    hot = advice_for(Catalog(SpreadParcel), *many)
    assert [one.attribute for one in hot] == (["by_town_urgent"] if keys else [])
    for one in hot:
        values = "has one value" if towns == 1 else f"have {towns} values"
        assert f"town and urgent, which {values} in 60 records, over 4 shards: all its entries share {keys} hash" in (
            one.problem
        )
        assert one.cost == f"Together they support at most about {keys},000 writes per second."
    assert advice_for(Catalog(SpreadParcel), *many[:40]) == []


def test_records_without_an_entry_do_not_count() -> None:
    """Only records with an entry in the index count for its hash values."""

    class Task(Entity):
        task_id: Id[str]
        owner: str | None = None
        due: str | None = None

        by_owner = Index(hash="owner", sort="due")

    catalog = Catalog(Task)
    assert advice_for(catalog, *(Task(task_id=f"t{at}", owner="o") for at in range(60))) == []
    assert len(advice_for(catalog, *(Task(task_id=f"t{at}", owner="o", due="d") for at in range(60)))) == 1


def test_index_sharded_like_a_parent() -> None:
    """An index that is sharded like a parent has one hash key for each parent, regardless of shards."""

    class Owner(Entity, shards=Shards(16)):
        owner_id: Id[str]

    class Pet(Entity):
        pet_id: Id[str]
        owner_id: str

        by_owner = Index(hash="owner_id", sharded="Owner")

    catalog = Catalog(Pet, Owner)
    for owners, hot in ((4, True), (30, False)):
        pets = [Pet(pet_id=f"p{at}", owner_id=f"o{at % owners}") for at in range(60)]
        assert [one.attribute for one in advice_for(catalog, *pets)] == (["by_owner"] if hot else [])


def test_unsharded_index() -> None:
    """An index with `sharded=False` has one hash key, even if its entity is sharded."""

    class Note(Entity, shards=Shards(8)):
        note_id: Id[str]
        text: str

        by_text = Index(sort="text", sharded=False)

    (one,) = advice_for(Catalog(Note))
    assert one.problem == "is not sharded: all its entries share 1 hash key."
    assert one.cost == "Together they support at most about 1,000 writes per second."


def test_write_rate_depends_on_entry_size() -> None:
    """The supported write rate of a hash key depends on the write units of its entries."""
    large = Parcel(parcel_id="p", state=State.OPEN, urgent=True, town="t", number="1", note="x" * 3_500)
    assert "about 750 writes per second" in advice_for(Catalog(Parcel), large)[0].cost


def test_records_that_no_longer_fit_an_index() -> None:
    """Stored records that an index could no longer hold do not prevent advice."""
    old = [Parcel(parcel_id=f"p{at}", state=State.OPEN, urgent=True, town="t", number="x" * 3_000) for at in range(5)]
    assert [one.attribute for one in advice_for(Catalog(Parcel), *old)] == ["by_state", "by_urgent_state"]


# --- projections -------------------------------------------------------------------------------------------------


class Page(Entity):
    """An entity with a large property."""

    page_id: Id[str]
    kind: str
    title: str
    text: str
    folded: str = derived(canonical, "title")

    by_title = Index(sort="title", projection="KEYS_ONLY")
    by_folded = Index(sort="folded", projection=["title", "kind", "text"])
    by_kind = Index(hash="kind", sort="folded", projection=["title"])


PAGES = [Page(page_id=f"p{at:03d}", kind=f"k{at}", title=f"Title {at:03d}", text="x" * 5_000) for at in range(60)]


def test_partial_projections() -> None:
    """A partial projection is reported with the missing properties and the cost of fetches, not as a warning."""
    by_title, by_kind = advice_for(Catalog(Page), *PAGES)
    assert (by_title.attribute, by_kind.attribute) == ("by_title", "by_kind")
    assert by_title.problem.startswith(
        "does not project kind, text, folded: selecting or filtering by one of them reads"
    )
    assert by_kind.problem.startswith(
        "does not project text: selecting or filtering by one of them reads each record by key"
    )
    assert not by_title.is_warning
    assert not by_kind.is_warning
    spec = Catalog(Page).entity(Page)
    capacity = entity_capacity(Catalog(Page), spec, PAGES, "")
    (rows,) = (read_units(round(51 * index.bytes)) for index in capacity.indexes if index.name == "title")
    each = read_units(round(capacity.bytes))
    assert each == 1.0
    assert f"A page of 50 then takes about {51 * each + rows:g} read units, not {rows:g}; with a filter, 1 more" in (
        by_title.cost
    )
    assert record_size({"text": PAGES[0].text}) > 4_096


def test_time_to_live_that_is_not_projected() -> None:
    """A time to live that an index does not project is reported."""

    class Session(Entity):
        session_id: Id[str]
        user: str
        until: Ttl[Timestamp]

        by_user = Index(sort="user", projection="KEYS_ONLY")

    assert [one.problem.split(":")[0] for one in advice_for(Catalog(Session))] == ["does not project until"]


# --- order of texts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "kind", "pair"),
    [
        (["9", "10", "8"], "numbers", "'10' comes before '8'"),
        (["31.12.2025", "01.02.2026", "15.1.2026"], "dates that begin with the day", "'01.02.2026' comes before"),
        (["31/12/25", "01/02/26"], "dates that begin with the day", "'01/02/26' comes before '31/12/25'"),
        (["12-31-2025", "01-02-2026"], "dates that begin with the month", "'01-02-2026' comes before '12-31-2025'"),
        (["9.5", "10"], "decimal numbers", "'10' comes before '9.5'"),
        (
            ["2026-01-31T10:30:00Z", "2026-01-31T11:30:00+02:00"],
            "timestamps in several formats",
            "'2026-01-31T10:30:00Z' comes before '2026-01-31T11:30:00+02:00'",
        ),
        (
            ["2026-01-31T10:30:00.5Z", "2026-01-31T10:30:00Z"],
            "timestamps in several formats",
            "'2026-01-31T10:30:00.5Z' comes before '2026-01-31T10:30:00Z'",
        ),
        (
            ["2026-01-31T10:30:00Z", "2026-02-01T10:30Z"],
            "timestamps in several formats",
            "'2026-01-31T10:30:00Z' and '2026-02-01T10:30Z'",
        ),
    ],
)
def test_texts_that_sort_wrongly(texts: list[str], kind: str, pair: str) -> None:
    """A sort property with numbers or dates as text is reported with two values in the wrong order."""
    (one,) = advice_for(Catalog(SpreadParcel), *parcels(texts))
    assert one.attribute == "number"
    assert one.problem.startswith(f"is a text and contains {kind}: {pair}")
    assert re.fullmatch(
        r"A range by value must read the whole index: about [\d.]+ read units for each 1,000 records\.", one.cost
    )
    remedies = {
        "numbers": "Declare it as int",
        "decimal numbers": "Declare it as Decimal",
    }
    assert one.remedy.startswith(remedies.get(kind, "Declare it as date"))


@pytest.mark.parametrize(
    "texts",
    [
        ["09", "10"],
        ["9", "10", "x"],
        ["17739999999", "9112345678901"],
        ["2025-12-31", "2026-01-02"],
        ["31.12.2025", "99.99.2026"],
        ["31.12.2025", "01.02.2026", "soon"],
        ["01.02.2026", "02.02.2026"],
        ["v1", "v2", "v10"],
        ["1.9.0", "1.10.0"],
        ["10.0.0.1.9", "9.0.0.1.9"],
        [f"Topic {number}" for number in range(1, 40)],
        ["2026-01-31T10:30:00Z", "2026-02-01T00:00:00Z"],
        ["2026-01-31T10:30:00+02:00", "2026-02-01T00:00:00+02:00"],
        ["2026-01-31T10:30:00Z", "2026-13-31T10:30:00+02:00"],
        [],
    ],
)
def test_texts_that_sort_correctly(texts: list[str]) -> None:
    """Texts that sort correctly are not reported: padded numbers, phone numbers, ISO dates, mixed texts, titles."""
    assert advice_for(Catalog(SpreadParcel), *parcels(texts)) == []


class Order(Entity, current="~current"):
    """A history with current records."""

    order_id: Id[str]
    version: SubId[str]


def test_sub_ids_that_sort_wrongly() -> None:
    """Sub ids that sort wrongly are reported, regardless of the sub id of current records."""
    fine = [Order(order_id=f"o{at}", version=version) for at in (9, 10) for version in ("09", "10", "~current")]
    assert advice_for(Catalog(Order), *fine) == []
    (one,) = advice_for(Catalog(Order), *fine, *(Order(order_id="o9", version=version) for version in ("2",)))
    assert one.attribute == "version"
    assert "'10' comes before '2'" in one.problem


# --- examples ----------------------------------------------------------------------------------------------------


def test_no_advice_for_the_example() -> None:
    """There is no advice for the example catalog and its sample."""
    records: dict[str, list[Entity]] = {}
    for record in sample(300):
        records.setdefault(users.entity(type(record)).name, []).append(record)
    assert [*find_advice(users, records)] == []


def test_advice_without_typical_record() -> None:
    """Advice that needs no records is reported even if no typical record can be generated."""

    class Odd(Entity):
        odd_id: Id[str]
        flag: bool
        text: str
        number: int = derived(int, "text")

        by_flag = Index(hash="flag", sort="number", projection="KEYS_ONLY")

    (one,) = advice_for(Catalog(Odd))
    assert one.attribute == "by_flag"
    assert "share 2 hash keys" in one.problem


class Tagged(Entity):
    """An entity with a raw index."""

    tagged_id: Id[str]
    note: str | None = None
    count: int = 0

    by_note = Index(sort="note", raw=True)
    by_count = Index(sort="count", raw=True, name="count")


class Remark(Entity):
    """An entity that stores other values in the same attributes."""

    remark_id: Id[str]
    note: str
    count: int = 0


def test_texts_that_share_a_plain_key() -> None:
    """A text in the attribute of another entity's raw index can be neither empty nor long, and is reported."""
    (advice,) = advice_for(Catalog(Tagged, Remark))
    assert str(advice) == (
        "Remark.note: is stored as 'note', the plain key of Tagged.by_note. So its values can be neither empty nor "
        "longer than 1,020 bytes."
    )
    assert advice.remedy == 'Store it under another name by stored("…").'


async def test_refusal_of_a_text_that_shares_a_plain_key(tmp_path: Path) -> None:
    """Such a value is refused with the reason, on every path, before it reaches the engine."""
    async with open_catalog(Catalog(Tagged, Remark), f"sqlite:///{tmp_path}/x.db") as db:
        for text, error in (("", EmptyKey), ("x" * 1_021, KeyTooLong)):
            with pytest.raises(error, match="an index of the table stores it as a plain key"):
                await db.put(Remark(remark_id="r", note=text))
            with pytest.raises(error, match="an index of the table stores it as a plain key"):
                await db.create(Remark, remark_id="r", note=text)
        await db.put(Remark(remark_id="r", note="x" * 1_020))

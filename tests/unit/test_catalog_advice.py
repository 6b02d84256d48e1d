"""What stands out in catalogs that break no rule, and what it costs."""

import re
from collections.abc import Sequence
from enum import Enum
from types import new_class
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Index, Shards, SubId, Timestamp, Ttl, canonical, derived
from graphql_api.examples.users import catalog as users
from graphql_api.examples.users import sample
from graphql_api.ops.design_advice import Advice, find_advice
from graphql_api.ops.record_capacity import entity_capacity
from graphql_api.storage.item_sizes import read_units, record_size

HASH = "Add shards, or hash by another property too."


class State(Enum):
    """How far something is."""

    OPEN = "open"
    CLOSED = "closed"
    GONE = "gone"


class Parcel(Entity):
    """Under way."""

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
    """The same over more shards."""


def found(catalog: Catalog, *records: Entity) -> list[Advice]:
    """The advice for a catalog and records of its first entity."""
    spec = next(iter(catalog.entities.values()))
    return [*find_advice(catalog, {spec.name: records})]


def parcels(numbers: Sequence[str], towns: int = 100) -> list[SpreadParcel]:
    """Parcels of these numbers, in so many towns."""
    return [
        SpreadParcel(parcel_id=f"p{at}", state=State.OPEN, urgent=False, town=f"t{at % towns}", number=number)
        for at, number in enumerate(numbers)
    ]


# --- hot hashes ------------------------------------------------------------------------------------------------


def test_hot_hashes() -> None:
    """An index whose hash properties have few values over few shards is named with its hash keys and what they take."""
    told = [
        f"Parcel.{index}: is hashed by {names}, of {keys} values, over one shard: all its entries share {keys} "
        f"hash keys. Together they support at most about {keys},000 writes per second."
        for index, names, keys in (("by_state", "state", 3), ("by_urgent_state", "urgent and state", 6))
    ]
    hot = found(Catalog(Parcel))
    assert [str(one) for one in hot] == told
    assert {(one.remedy, one.is_warning) for one in hot} == {(HASH, True)}


def test_shards_spread_a_hot_hash() -> None:
    """Few values are no matter where shards spread them."""
    assert found(Catalog(SpreadParcel)) == []


@pytest.mark.parametrize(("towns", "keys"), [(1, 4), (2, 8), (3, None)])
def test_few_values_in_records(towns: int, keys: int | None) -> None:
    """Hash properties that have few values in many records are named too, and those of few records are not."""
    many = parcels([f"x{at:02}" for at in range(60)], towns)
    hot = found(Catalog(SpreadParcel), *many)
    assert [one.attribute for one in hot] == (["by_town_urgent"] if keys else [])
    for one in hot:
        values = "has one value" if towns == 1 else f"have {towns} values"
        assert (
            f"town and urgent, which {values} in 60 records, over 4 shards: all its entries share {keys} hash"
            in (one.problem)
        )
        assert one.cost == f"Together they support at most about {keys},000 writes per second."
    assert found(Catalog(SpreadParcel), *many[:40]) == []


def test_records_without_an_entry_do_not_count() -> None:
    """Only records that are in an index tell how its hash keys spread."""

    class Task(Entity):
        task_id: Id[str]
        owner: str | None = None
        due: str | None = None

        by_owner = Index(hash="owner", sort="due")

    catalog = Catalog(Task)
    assert found(catalog, *(Task(task_id=f"t{at}", owner="o") for at in range(60))) == []
    assert len(found(catalog, *(Task(task_id=f"t{at}", owner="o", due="d") for at in range(60)))) == 1


def test_children_lie_under_their_parents() -> None:
    """An index that is sharded like a parent has one hash key for each parent, whatever shards the parents have."""

    class Owner(Entity, shards=Shards(16)):
        owner_id: Id[str]

    class Pet(Entity):
        pet_id: Id[str]
        owner_id: str

        by_owner = Index(hash="owner_id", sharded="Owner")

    catalog = Catalog(Pet, Owner)
    for owners, hot in ((4, True), (30, False)):
        pets = [Pet(pet_id=f"p{at}", owner_id=f"o{at % owners}") for at in range(60)]
        assert [one.attribute for one in found(catalog, *pets)] == (["by_owner"] if hot else [])


def test_an_index_without_shards() -> None:
    """An index that is not sharded, of an entity that is, lies under one hash key."""

    class Note(Entity, shards=Shards(8)):
        note_id: Id[str]
        text: str

        by_text = Index(sort="text", sharded=False)

    (one,) = found(Catalog(Note))
    assert one.problem == "is not sharded: all its entries share 1 hash key."
    assert one.cost == "Together they support at most about 1,000 writes per second."


def test_large_entries_take_fewer_writes() -> None:
    """What a hash key takes is counted in write units of the entries that lie there."""
    large = Parcel(parcel_id="p", state=State.OPEN, urgent=True, town="t", number="1", note="x" * 3_500)
    assert "about 750 writes per second" in found(Catalog(Parcel), large)[0].cost


def test_records_that_are_older_than_an_index() -> None:
    """Stored records that an index could not take any more do not keep advice back."""
    old = [Parcel(parcel_id=f"p{at}", state=State.OPEN, urgent=True, town="t", number="x" * 3_000) for at in range(5)]
    assert [one.attribute for one in found(Catalog(Parcel), *old)] == ["by_state", "by_urgent_state"]


# --- projections -----------------------------------------------------------------------------------------------


class Page(Entity):
    """Something long."""

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
    """An index that lacks properties is named with them and with what fetching them costs, which may be meant so."""
    by_title, by_kind = found(Catalog(Page), *PAGES)
    assert (by_title.attribute, by_kind.attribute) == ("by_title", "by_kind")
    assert by_title.problem.startswith("does not project kind, text, folded: selecting or filtering by one of them reads")
    assert by_kind.problem.startswith("does not project text: selecting or filtering by one of them reads each record by key")
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


def test_an_expiry_that_is_not_carried() -> None:
    """A property that every page needs is named as any other that an index lacks."""

    class Session(Entity):
        session_id: Id[str]
        user: str
        until: Ttl[Timestamp]

        by_user = Index(sort="user", projection="KEYS_ONLY")

    assert [one.problem.split(":")[0] for one in found(Catalog(Session))] == ["does not project until"]


# --- many indexes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "stands_out"), [(10, False), (11, True)])
def test_many_indexes(count: int, stands_out: bool) -> None:
    """More than ten indexes of one entity are told with the write units of creating and of changing a record."""
    names = [f"number_{at}" for at in range(count)]
    body: dict[str, Any] = {
        "__module__": __name__,
        "__annotations__": {"wide_id": Id[str], **dict.fromkeys(names, int)},
    }
    body |= {f"by_{name}": Index(sort=name) for name in names}
    wide = new_class("Wide", (Entity,), {}, lambda space: space.update(body))
    told = found(Catalog(wide))
    expected = (
        f"Wide: has {count} indexes, and every write of a record writes to all of them. Creating a record takes about "
        f"{2 * (1 + count)} write units, updating it {2 * (1 + count)} to {2 * (1 + 2 * count)}."
    )
    assert [str(one) for one in told] == ([expected] if stands_out else [])


# --- texts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "kind", "pair"),
    [
        (["9", "10", "8"], "numbers", "'10' comes before '8'"),
        (["31.12.2025", "01.02.2026", "15.1.2026"], "dates that begin with the day", "'01.02.2026' comes before"),
        (["31/12/25", "01/02/26"], "dates that begin with the day", "'01/02/26' comes before '31/12/25'"),
        (["12-31-2025", "01-02-2026"], "dates that begin with the month", "'01-02-2026' comes before '12-31-2025'"),
        (["1.9.0", "1.10.0"], "versions", "'1.10.0' comes before '1.9.0'"),
        (["1.0.0", "1.0.0-rc.1"], "versions", "'1.0.0' comes before '1.0.0-rc.1'"),
        (["v1", "v2", "v10"], "versions", "'v10' comes before 'v2'"),
        (["step-9", "step-10.1"], "versions", "'step-10.1' comes before 'step-9'"),
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
def test_texts_that_do_not_sort(texts: list[str], kind: str, pair: str) -> None:
    """Texts that are numbers or dates, and order an index, are named with two of them that come in wrong order."""
    (one,) = found(Catalog(SpreadParcel), *parcels(texts))
    assert one.attribute == "number"
    assert one.problem.startswith(f"is a text and contains {kind}: {pair}")
    assert re.fullmatch(
        r"A range by value must read the whole index: about [\d.]+ read units for each 1,000 records\.", one.cost
    )
    remedies = {"numbers": "Declare it as int", "decimal numbers": "Declare it as Decimal", "versions": "Pad the numbers"}
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
        ["v01", "v10"],
        ["001.009.000", "001.010.000"],
        ["v1", "w10", "v9"],
        ["1.9.0", "1.10.0", "next"],
        ["10.0.0.1.9", "9.0.0.1.9"],
        ["2026-01-31T10:30:00Z", "2026-02-01T00:00:00Z"],
        ["2026-01-31T10:30:00+02:00", "2026-02-01T00:00:00+02:00"],
        ["2026-01-31T10:30:00Z", "2026-13-31T10:30:00+02:00"],
        [],
    ],
)
def test_texts_that_are_fine(texts: list[str]) -> None:
    """Padded numbers, texts among numbers, phone numbers, dates by year and texts in right order are left alone."""
    assert found(Catalog(SpreadParcel), *parcels(texts)) == []


class Order(Entity, current="~current"):
    """A history with current records."""

    order_id: Id[str]
    version: SubId[str]


def test_versions_of_a_history() -> None:
    """Sub ids that do not sort are told whatever the current record has there; an id that looks like one is not."""
    fine = [Order(order_id=f"o{at}", version=version) for at in (9, 10) for version in ("v09", "v10", "~current")]
    assert found(Catalog(Order), *fine) == []
    (one,) = found(Catalog(Order), *fine, *(Order(order_id="o9", version=version) for version in ("v2",)))
    assert one.attribute == "version"
    assert "'v10' comes before 'v2'" in one.problem


# --- the examples ----------------------------------------------------------------------------------------------


def test_the_example_is_fine() -> None:
    """Nothing stands out in the example catalog and its sample."""
    records: dict[str, list[Entity]] = {}
    for record in sample(300):
        records.setdefault(users.entity(type(record)).name, []).append(record)
    assert [*find_advice(users, records)] == []


def test_what_cannot_be_made_up() -> None:
    """Where no record is there and none can be made up, what needs none is told all the same."""

    class Odd(Entity):
        odd_id: Id[str]
        flag: bool
        text: str
        number: int = derived(int, "text")

        by_flag = Index(hash="flag", sort="number", projection="KEYS_ONLY")

    (one,) = found(Catalog(Odd))
    assert one.attribute == "by_flag"
    assert "share 2 hash keys" in one.problem

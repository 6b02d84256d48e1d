"""What stands out in catalogs that break no rule."""

from enum import Enum

from graphql_api import Catalog, Entity, Id, Index, Shards
from graphql_api.catalog.advice import advice
from graphql_api.examples.users import catalog as users
from graphql_api.examples.users import sample


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

    by_state = Index(hash="state")
    by_urgent_state = Index(hash=["urgent", "state"])
    by_town_urgent = Index(hash=["town", "urgent"])
    by_number = Index(sort="number")


class SpreadParcel(Parcel, shards=Shards(4)):
    """The same over more shards."""


def told(catalog: Catalog, *records: Entity) -> list[str]:
    """The advice for a catalog and records of its one entity."""
    (spec,) = catalog.entities.values()
    return [str(one) for one in advice(catalog, {spec.name: records})]


def parcel(number: str) -> SpreadParcel:
    """A parcel of this number."""
    return SpreadParcel(parcel_id=f"p-{number}", state=State.OPEN, urgent=False, town="x", number=number)


def test_hot_hashes() -> None:
    """An index whose hash properties have few values over few shards is named with the hash keys that it has."""
    remedy = "Give it more shards, or hash by another property too."
    assert told(Catalog(Parcel)) == [
        f"Parcel.{index}: is hashed by {names}, of {keys} values, over one shard: all its entries lie under {keys} "
        f"hash keys. {remedy}"
        for index, names, keys in (("by_state", "state", 3), ("by_urgent_state", "urgent and state", 6))
    ]


def test_shards_spread_a_hot_hash() -> None:
    """Few values are no matter where shards spread them."""
    assert told(Catalog(SpreadParcel)) == []


def test_numbers_in_texts() -> None:
    """A text that holds numbers of several widths, and orders an index, is named with two that come in wrong order."""
    records = [parcel(number) for number in ("9", "10", "8")]
    (found,) = told(Catalog(SpreadParcel), *records)
    assert found == (
        "SpreadParcel.number: is a text and holds numbers: '10' comes before '8'. Make it an int, or pad its numbers "
        "with zeros to one width."
    )


def test_texts_that_are_fine() -> None:
    """Padded numbers, texts among numbers, and phone numbers are left alone."""
    for numbers in (["09", "10"], ["9", "10", "x"], ["17739999999", "9112345678901"], []):
        assert told(Catalog(SpreadParcel), *map(parcel, numbers)) == []


def test_the_example_is_fine() -> None:
    """Nothing stands out in the example catalog and its sample."""
    records: dict[str, list[Entity]] = {}
    for record in sample(300):
        records.setdefault(users.entity(type(record)).name, []).append(record)
    assert [*advice(users, records)] == []

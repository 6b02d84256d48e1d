"""A catalog of people with a chosen number of shards and every kind of index that paging tests need."""

from collections.abc import Sequence
from functools import cache
from random import Random
from types import new_class
from typing import Any

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, Timestamp, canonical, derived, desc

NAMES = ["Ann", "Anna", "Ánna", "Bo", "Zoë", "Ya-Li", "O'Hara"]


class Person(Entity):
    """A person in a town."""

    person_id: Id[str]
    created: Created[Timestamp]
    name: str
    town: str
    note: str
    folded: str = derived(canonical, "name")

    by_folded = Index(sort=["folded", desc("created")])
    by_town = Index(hash="town", sort=desc("created"))
    by_note = Index(sort="note", raw=True)


@cache
def people_catalog(shards: int) -> tuple[Catalog, type[Any]]:
    """Return the catalog and its entity with this number of shards."""
    body = {"__module__": __name__, "__doc__": Person.__doc__, "__qualname__": "Person"}
    person = new_class("Person", (Person,), {"shards": Shards(shards)}, lambda names: names.update(body))
    return Catalog(person), person


def sample_people(person: type[Any], count: int) -> Sequence[Any]:
    """Return people, some of whom differ only in their id."""
    random = Random(count)
    return [
        person(
            person_id=f"p{number:06d}",
            created=random.randrange(max(1, count // 3)),
            name=random.choice(NAMES),
            town=random.choice(["Rom", "Oslo"]),
            note=random.choice(["x", "y", f"n{number}"]),
        )
        for number in range(count)
    ]

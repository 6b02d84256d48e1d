"""A catalog with lookups of every kind, and the mapping items that its stored records need."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphql_api import (
    Catalog,
    Created,
    Entity,
    ForeignKey,
    HasMany,
    Id,
    Int32,
    Lookup,
    Ref,
    Shards,
    SubId,
    Timestamp,
    Ttl,
    Unique,
    Version,
    canonical,
    derived,
    open_catalog,
)
from graphql_api.connection import Secrets
from graphql_api.database import Database
from graphql_api.storage import Store
from tests.support.store_doubles import CountingStore, all_items

NOW = 1_800_000_000.0
SECRETS = Secrets.generate()


class House(Entity):
    """A house."""

    house_id: Id[str]
    phone: str | None = None

    people = HasMany("Person", via="by_phone")


class Person(Entity, shards=Shards(3).then(150, since=1_000)):
    """A person."""

    person_id: Id[str]
    created: Created[Timestamp]
    version: Version[Int32]
    name: str
    name_canonical: str = derived(canonical, "name")
    email: Unique[str] | None = None
    phone: str | None = None
    house_id: str | None = None
    until: Ttl[Timestamp] | None = None

    by_phone = Lookup("phone")
    by_name = Lookup("name_canonical", name="canonicalName")
    by_house_and_name = Lookup("house_id", "name")

    of_house = ForeignKey("House", by="house_id")
    calls = HasMany("Call", via="by_number", by="phone")
    last_call = Ref("Call", by="phone", via="by_number")


class Call(Entity, shards=Shards(2).then(5, since=1_000), current="~current"):
    """A call, and its states."""

    call_id: Id[str]
    at: SubId[str]
    created: Created[Timestamp]
    number: str | None = None
    state: str = "ringing"

    by_number = Lookup("number")


class Note(Entity, shards=Shards(4)):
    """A history without current records."""

    note_id: Id[str]
    at: SubId[int]
    phone: str | None = None

    by_phone = Lookup("phone")


CATALOG = Catalog(House, Person, Call, Note)

LOOKUPS: dict[str, dict[str, Sequence[str]]] = {
    "person": {"phone": ["phone"], "canonicalName": ["nameCanonical"], "houseAndName": ["houseId", "name"]},
    "call": {"number": ["number"]},
    "note": {"phone": ["phone"]},
}
"""stored names of the properties of each lookup"""


def _escaped(value: str) -> str:
    return "".join(f"%{ord(letter):02X}" if letter in "%|#!/" else letter for letter in value)


def expected_mappings(items: Sequence[Any]) -> dict[tuple[str, str], list[str]]:
    """The mapping items that stored records need, by key, with the key of the record; computed from raw items."""
    found = {}
    for item in items:
        tenant, separator, rest = item["hashKey"].rpartition("|") if "~" not in item["hashKey"] else ("", "", "")
        for name, parts in LOOKUPS.get(rest.partition("!")[0], {}).items():
            values = [item.get(part) for part in parts]
            if all(values):
                head = f"{tenant}{separator}{rest.partition('!')[0]}~lookup.{name}!"
                key = head + "".join(f"|{part}#{_escaped(v)}" for part, v in zip(parts, values, strict=True))
                found[key, item["rangeKey"]] = [item["hashKey"], item["rangeKey"]]
    return found


async def check_mappings(store: Store) -> int:
    """Compares all mapping items with those that the records need. Returns their number."""
    items = await all_items(store)
    mappings = {(item["hashKey"], item["rangeKey"]): item for item in items if "~lookup." in item["hashKey"]}
    expected = expected_mappings(items)
    assert {key: list(item["_owner"]) for key, item in mappings.items()} == expected
    return len(mappings)


@asynccontextmanager
async def opened(folder: Path, catalog: Catalog = CATALOG, now: float = NOW, **options: Any) -> AsyncIterator[Database]:
    """Opens the catalog on SQLite."""
    url = f"sqlite:///{folder}/phone.db"
    async with open_catalog(catalog, url, secrets=SECRETS, clock=lambda: now, **options) as db:
        yield db


def counted(db: Database) -> tuple[Database, CountingStore]:
    """Returns the database over a store that counts its calls."""
    store = CountingStore(db.store)
    return replace(db, store=store), store

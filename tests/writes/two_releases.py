"""Catalogs of two releases that share a table, and databases that act on the table's record."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from graphql_api import (
    Catalog,
    Entity,
    ForeignKey,
    Id,
    Index,
    Int32,
    SubId,
    Timestamp,
    Ttl,
    Unique,
    Updated,
    Version,
)
from graphql_api.database import Database
from graphql_api.evolution import State, TableRecord, proposed
from graphql_api.evolution.catalog_merge import effective_catalog
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key
from graphql_api.writes.item_keys import WRITE_ID, item_key
from tests.support.fake_clock import FakeClock
from tests.support.store_doubles import all_items
from tests.writes.library_catalog import SEAL


def older_release() -> Catalog:
    """The release that knows only names and notes."""

    class Town(Entity):
        town_id: Id[str]

    class Person(Entity):
        person_id: Id[str]
        name: str
        note: str | None = None

        by_name = Index(sort="name")

    class Order(Entity):
        order_id: Id[str]
        at: SubId[str]
        total: int = 0

    return Catalog(Town, Person, Order)


def newer_release() -> Catalog:
    """The release that adds properties, indexes, constraints, server-set properties, and current records."""

    class Town(Entity):
        town_id: Id[str]

    class Person(Entity):
        person_id: Id[str]
        name: str
        note: str | None = None
        town: str | None = None
        rank: int = 5
        email: Unique[str | None] = None
        version: Version[Int32] = 0
        updated: Updated[Timestamp] = 0
        expires: Ttl[Timestamp] | None = None

        by_name = Index(sort="name")
        by_town = Index(hash="town", sort="name")
        by_rank = Index(sort=["rank", "name"], sharded=False)
        by_note = Index(sort="note", raw=True)
        of_town = ForeignKey("Town", by="town")

    class Order(Entity, current="~current"):
        order_id: Id[str]
        at: SubId[str]
        total: int = 0
        customer: Unique[str | None] = None

        by_total = Index(sort="total")

    return Catalog(Town, Person, Order)


OLDER, NEWER = older_release(), newer_release()

KNOWN = proposed(proposed(TableRecord(), OLDER), NEWER)
"""the table of the older release, to which the newer one has announced its additions"""


def with_state(record: TableRecord, state: State, names: Collection[str] | None = None) -> TableRecord:
    """Return the record with announced elements in another state: all of them, or those with one of these ids."""
    changed = [
        replace(recorded, state=state)
        for key, recorded in record.elements.items()
        if (recorded.state == "announced" if names is None else key in names)
    ]
    return record.changed(*changed)


READY = with_state(KNOWN, "ready")


@dataclass
class Servers:
    """Servers of both releases over one table, which act on the same copy of its record."""

    store: Store
    record: TableRecord = READY
    clock: FakeClock = field(default_factory=lambda: FakeClock(1_800_000_000.0))

    def server(self, catalog: Catalog) -> Database:
        """A server with this catalog."""
        return Database(effective_catalog(catalog, self.record), self.store, SEAL, clock=self.clock)

    @property
    def older(self) -> Database:
        return self.server(OLDER)

    @property
    def newer(self) -> Database:
        return self.server(NEWER)

    async def items(self) -> dict[Key, Item]:
        """All items by key, without their write ids."""
        items = await all_items(self.store)
        return {item_key(item): {name: value for name, value in item.items() if name != WRITE_ID} for item in items}

    async def item(self, hash_key: str, range_key: str) -> dict[str, Any]:
        """One stored item."""
        return dict((await self.items())[Key(hash_key, range_key)])


async def read(database: Database, entity: Any, *key: Any, **parts: Any) -> Any:
    """Return a record that must exist."""
    record = await database.get(entity, *key, **parts)
    assert record is not None
    return record


def model(catalog: Catalog, name: str) -> Any:
    """The class of an entity."""
    return catalog.entity(name).model

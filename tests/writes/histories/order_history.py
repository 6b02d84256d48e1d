"""Test catalog of orders with histories, and a check of their current records."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import new_class
from typing import Any
from uuid import uuid4

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, SubId, Timestamp, Ttl, Union, canonical, derived
from graphql_api.database import Database
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item
from tests.support.fake_clock import FakeClock
from tests.support.store_doubles import all_items

CURRENT = "~current"
NOW = 100.0
SEAL = TokenSeal([b"a secret of thirty-two bytes only"])


class Order(Entity, shards=Shards(1).then(16, since=1_000), current=CURRENT):
    """An order with a history and a current record."""

    order_id: Id[str]
    version: SubId[str]
    created: Created[Timestamp] = 1
    status: str = "new"
    total: int | None = None
    note: str | None = None
    body: str | None = None
    expires: Ttl[Timestamp] | None = None
    note_canonical: str | None = derived(canonical, "note")

    by_status = Index(hash="status", sort="version")
    by_total = Index(sort="total", projection="KEYS_ONLY")
    by_note = Index(sort="note_canonical")
    by_words = Index(sort=["note", "version"])
    by_any = Union("by_note", "by_words")


class Entry(Entity):
    """A history without current records, with ids and sub ids of two parts."""

    order_id: Id[str]
    part: Id[int]
    at: SubId[str]
    line: SubId[int]
    status: str = "new"
    total: int | None = None


class Plain(Entity):
    """A record without history."""

    key: Id[str]
    created: Created[Timestamp] = 1
    status: str = "new"
    total: int | None = None
    note: str = "none"
    note_canonical: str = derived(canonical, "note")

    by_word = Index(hash="note_canonical")


CATALOG = Catalog(Order, Entry, Plain)


@dataclass
class Shop:
    """The orders of one test, with their own tenant in a shared table."""

    store: Store
    tenant: str = field(default_factory=lambda: f"t{uuid4().hex}")
    clock: FakeClock = field(default_factory=lambda: FakeClock(NOW))

    @property
    def db(self) -> Database:
        return self.through(self.store)

    def through(self, store: Store, catalog: Catalog = CATALOG) -> Database:
        """A database of the same records over another store or with another catalog."""
        return Database(catalog, store, SEAL, clock=self.clock, tenant=self.tenant)

    async def items(self) -> list[Item]:
        """All items of this tenant."""
        return [item for item in await all_items(self.store) if item["hashKey"].startswith(f"{self.tenant}|")]

    async def histories(self) -> dict[str, list[str]]:
        """Checks the current records of all orders, and returns the versions by id."""
        return check_current_records([item for item in await self.items() if "version" in item])

    async def state(self, order_id: str) -> dict[str, Any]:
        """The properties of the current record of an order."""
        found = await self.db.get(Order, order_id)
        assert found is not None
        assert found.version == CURRENT
        return found.model_dump(exclude={"order_id", "version", "created", "expires", "body", "note_canonical"})


def check_current_records(items: Sequence[Item]) -> dict[str, list[str]]:
    """Checks that each id has entries and one current record, equal to the last entry. Returns the versions by id."""
    found: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        found[item["orderId"]].append(item)
    versions = {}
    for key, records in found.items():
        (current,) = [item for item in records if item["version"] == CURRENT]
        entries = sorted(
            (item for item in records if item["version"] != CURRENT), key=lambda item: str(item["version"])
        )
        assert entries, key
        assert current["_of"] == entries[-1]["version"], key
        assert shared_attributes(current) == shared_attributes(entries[-1]), key
        versions[key] = [item["version"] for item in entries]
    return versions


def shared_attributes(item: Item) -> dict[str, Any]:
    """The attributes that an entry and its current record share."""
    names = ("hashKey", "orderId", "created", "status", "total", "note", "body", "noteCanonical", "expires")
    return {name: item.get(name) for name in names}


def with_generations(*generations: tuple[int, int]) -> type[Order]:
    """Returns the class of orders with additional shard generations, given as size and start."""
    shards = Shards(1).then(16, since=1_000)
    for size, since in generations:
        shards = shards.then(size, since=since)
    body = {"__module__": __name__, "__doc__": Order.__doc__}
    return new_class("Order", (Order,), {"shards": shards}, lambda names: names.update(body))


def order(order_id: str, version: str, **values: Any) -> Order:
    """Returns an order with its required properties."""
    return Order(order_id=order_id, version=version, **values)


class CallRecordingStore(ForwardingStore):
    """Records the names of the calls of a store."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.calls: list[str] = []

    async def read_ranges(self, reads: Any, want: int) -> Any:
        self.calls.append("read_ranges")
        return await super().read_ranges(reads, want)

    async def get_many(self, keys: Any, consistent: bool) -> Any:
        self.calls.append("get_many")
        return await super().get_many(keys, consistent)

    async def write(self, writes: Any) -> Any:
        self.calls.append("write")
        return await super().write(writes)

    async def write_together(self, writes: Any, token: str) -> None:
        self.calls.append("write_together")
        await super().write_together(writes, token)

"""A catalog with all declarations that derive something, healthy records of it, and kinds of damage to plant."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Literal

from graphql_api import (
    Catalog,
    Created,
    Entity,
    Event,
    ForeignKey,
    Id,
    Index,
    Int32,
    Lookup,
    Set,
    Shards,
    SubId,
    Timestamp,
    Ttl,
    Unique,
    UniqueTogether,
    Version,
    canonical,
    counter,
    derived,
    projection,
)
from graphql_api.connection import Secrets
from graphql_api.database import Database
from graphql_api.projections import StreamProjector, parse_envelope
from graphql_api.storage import Delete, Item, Key, Put, Store
from graphql_api.writes import item_key, possible_hash_keys

SECRETS = Secrets.generate()
NOW = 1_800_000_000.0
WEEK = 7 * 24 * 3600


class State(Enum):
    """The state of a person."""

    OPEN = "open"
    CLOSED = "closed"


class Person(Entity, shards=Shards(2).then(4, since=1_000)):
    """A person."""

    person_id: Id[str]
    created: Created[Timestamp]
    version: Version[Int32]
    name: str
    name_canonical: Unique[str] = derived(canonical, "name")
    town: str | None = None
    town_canonical: str | None = derived(canonical, "town")
    phone: str | None = None
    born: datetime | None = None
    state: State = State.OPEN
    row: int | None = None
    seat: int | None = None
    mentor_id: str | None = None

    by_town = Index(hash="town_canonical", sort="name_canonical")
    by_phone = Index(sort="phone", raw=True)
    by_home = Lookup("town_canonical")
    unique_seat = UniqueTogether("row", "seat")
    of_mentor = ForeignKey("Person", by="mentor_id")


class Email(Entity, shards=Shards(3)):
    """An e-mail address of a person."""

    email: Id[str]
    person_id: str
    label: str | None = None

    by_person = Index(hash="person_id", sort="label")
    by_label = Lookup("label")
    of_person = ForeignKey("Person", by="person_id")


class Order(Entity, shards=Shards(3), current="~current"):
    """The versions of an order."""

    order_id: Id[str]
    at: SubId[str]
    card: Unique[str]
    note: str | None = None
    person_id: str | None = None

    by_note = Index(sort="note")
    by_holder = Lookup("person_id")
    of_person = ForeignKey("Person", by="person_id")


class Visit(Entity, shards=Shards(2).then(8, since=1_000), current="~current"):
    """The versions of a visit, over two generations."""

    visit_id: Id[str]
    at: SubId[str]
    began: Created[Timestamp]
    note: str | None = None


class Diary(Entity, shards=Shards(2).then(8, since=1_000)):
    """A history without a current record, over two generations."""

    diary_id: Id[str]
    at: SubId[int]
    created: Created[Timestamp]
    mood: Unique[str | None] = None


class Pass(Entity):
    """A pass that expires."""

    card_id: Id[str]
    code: Unique[str]
    person_id: str | None = None
    until: Ttl[Timestamp] | None = None

    by_holder = Lookup("person_id", name="passHolder")
    of_person = ForeignKey("Person", by="person_id")


class Ticket(Entity):
    """A numbered ticket of a desk."""

    ticket_id: Id[str]
    desk: str
    num: Int32 = counter("desk")


class Labelled(Event):
    """An e-mail address was labelled."""

    type: Literal["Labelled"] = "Labelled"
    email: str


@projection(Email, source="labels")
def labels(event: Labelled) -> list[Set]:
    """The labels of e-mail addresses."""
    return [Set(Email(email=event.email, person_id="ann", label="from an event"))]


CATALOG = Catalog(Person, Email, Order, Visit, Diary, Pass, Ticket)


async def write_records(db: Database) -> None:
    """Writes healthy records, with and without each optional property, in both generations."""
    await db.create(Person, person_id="ann", created=5, name="Ann", town="Bern", phone="17", row=1, seat=1)
    born = datetime.fromisoformat("2001-01-01T00:00:00Z")
    await db.create(Person, person_id="bob", created=5, name="Bob", town="Bern", born=born)
    await db.create(Person, person_id="cleo", created=2_000, name="Cleo", town="Oslo", phone="18", row=1, seat=2)
    await db.create(Person, person_id="dan", created=2_000, name="Dan", state=State.CLOSED)
    await db.update(Person, "bob", mentor_id="ann")
    await db.update(Person, "dan", mentor_id="dan")
    for number in range(4):
        await db.put(Email(email=f"e{number}@x", person_id="ann" if number % 2 else "cleo", label=f"l{number}"))
    for order, versions in (("o1", 3), ("o2", 1)):
        for version in range(versions):
            await db.put(
                Order(order_id=order, at=f"v{version}", card=f"{order}-{version}", note=f"n{version}", person_id="ann")
            )
    for visit, began in (("early", 5), ("late", 2_000)):
        for version in range(2):
            await db.put(Visit(visit_id=visit, at=f"v{version}", began=began, note=f"{version}"))
            await db.put(Diary(diary_id=visit, at=version, created=began, mood=f"{visit}{version}"))
    await db.put(Pass(card_id="p1", code="c1", person_id="ann", until=int(NOW) + 1_000))
    await db.put(Pass(card_id="p2", code="c2"))
    for number in range(3):
        await db.create(Ticket, ticket_id=f"t{number}", desk="a")
    await db.create(Ticket, ticket_id="other", desk="b")
    await db.create(Ticket, ticket_id="kept", desk="c", idempotency_key="k")
    events = [{"stream": "s", "seq": seq, "type": "Labelled", "data": {"email": "e4@x"}} for seq in (1, 2)]
    events[1]["data"] = {}
    await StreamProjector(db, labels).apply("s", [*map(parse_envelope, events)])


@dataclass
class Tenant:
    """The items of one tenant, which a test damages."""

    store: Store
    name: str
    items: dict[Key, Item] = field(default_factory=dict)
    removed: set[Key] = field(default_factory=set)
    """items that only the damage adds"""

    def key(self, hash_text: str, range_text: str) -> Key:
        """The full key of an item of this tenant."""
        return Key(f"{self.name}|{hash_text}", range_text)

    def find(self, head: str, range_text: str, part: str = "") -> Item:
        """The item of an entity, or of a kind of items, with this range key, and a part of its hash key."""
        (item,) = (one for one in self.all(head) if one["rangeKey"] == range_text and one["hashKey"].endswith(part))
        return item

    def all(self, head: str) -> list[Item]:
        """The items of an entity, or of a kind of items."""
        prefix = f"{self.name}|{head}!"
        return [one for key, one in self.items.items() if key.hash.startswith(prefix)]

    def generation_key(self, entity: str, own_id: str, generation: int) -> str:
        """The hash key of an id in a shard generation."""
        return possible_hash_keys(CATALOG.entities[entity], own_id, self.name, generation)[0]

    async def put(self, item: Mapping[str, Any]) -> Key:
        """Stores an item, as another program does."""
        assert await self.store.write([Put(dict(item))]) == [None]
        return item_key(item)

    async def change(self, item: Item, **attributes: Any) -> Key:
        """Changes attributes of an item; None removes one."""
        changed = {**item, **attributes}
        return await self.put({name: value for name, value in changed.items() if value is not None})

    async def delete(self, item: Item) -> Key:
        """Deletes an item."""
        assert await self.store.write([Delete(item_key(item))]) == [None]
        return item_key(item)

    async def move(self, item: Item, hash_text: str) -> Key:
        """Moves an item to another hash key."""
        await self.delete(item)
        return await self.put({**item, "hashKey": f"{self.name}|{hash_text}"})

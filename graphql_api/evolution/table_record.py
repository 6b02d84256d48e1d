"""The record that a table keeps about itself: it is the schema that all servers act on.

A catalog only proposes changes. `proposed` adds what a catalog declares, and `changed` moves elements to their next
states; both are pure. `save_record` stores the result, if nobody else has changed the record. A small item holds only
the epoch, which increases with every change: servers read it to learn whether their copy is current.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from zlib import compress, decompress

import orjson

from graphql_api.codecs import hash_key
from graphql_api.errors import ConditionFailed, Conflict, WrongTable
from graphql_api.evolution.elements import MAINTAINED, Data, Element, State, element_of_id
from graphql_api.storage import Check, Expect, Item, Key, Put, Store
from graphql_api.writes import commit_transaction, item_at

TABLE_FORMAT = 2
EARLIER_FORMAT = 1
"""records of this format have no elements: they are taken over when a server opens the table"""

TABLE_RECORD_KEY = Key(hash_key("shardql", ""), "table#meta")
EPOCH_KEY = Key(hash_key("shardql", ""), "table#epoch")

DEFAULT_LEASE_SECONDS = 30.0

RENAME_REMEDY = (
    "Declare the new one beside it, under another name= in the catalog. Once it is ready, let searches use it, and "
    "remove the old one with: shardql migrate MODULE:CATALOG --store URL --drop"
)


@dataclass(frozen=True, slots=True)
class RecordedElement:
    """An element of the table, and its state."""

    element: Element
    state: State
    epoch: int
    """the epoch of its last change"""
    is_checked: bool = True
    """false: an earlier release wrote the records, and nothing has verified them since"""

    @property
    def is_maintained(self) -> bool:
        """Return whether all servers maintain and enforce the element."""
        return self.state in MAINTAINED


@dataclass(frozen=True, slots=True)
class TableRecord:
    """The entities and elements of a table, with their states."""

    epoch: int = 0
    lease_seconds: float = DEFAULT_LEASE_SECONDS
    entities: Mapping[str, Data] = field(default_factory=dict)
    """keys and first shard generation of each entity, by name"""
    elements: Mapping[str, RecordedElement] = field(default_factory=dict)
    """by id"""
    earlier: Mapping[str, Data] = field(default_factory=dict)
    """what a record of the earlier format told of entities whose catalog has not been opened since"""

    def of_entity(self, entity: str) -> list[RecordedElement]:
        """Return the elements of an entity."""
        return [recorded for recorded in self.elements.values() if recorded.element.entity == entity]

    def changed(self, *elements: RecordedElement, forgotten: frozenset[str] = frozenset()) -> "TableRecord":
        """Return the next record, with changed elements and without forgotten ones."""
        epoch = self.epoch + 1
        changes = {recorded.element.id: replace(recorded, epoch=epoch) for recorded in elements}
        kept = {key: recorded for key, recorded in self.elements.items() if key not in forgotten}
        return replace(self, epoch=epoch, elements={**kept, **changes})

    # --- stored form -------------------------------------------------------------------------------------------

    def to_item(self) -> Item:
        """Return the stored form."""
        elements = {
            key: {
                "state": recorded.state,
                "epoch": recorded.epoch,
                **({"definition": recorded.element.definition} if recorded.element.definition else {}),
                **({} if recorded.is_checked else {"isChecked": False}),
            }
            for key, recorded in self.elements.items()
        }
        schema = {"entities": self.entities, "elements": elements, "earlier": self.earlier}
        return item_at(
            TABLE_RECORD_KEY,
            {
                "format": TABLE_FORMAT,
                "epoch": self.epoch,
                "leaseSeconds": f"{self.lease_seconds}",
                # As text, a catalog of 150 entities would exceed the size of an item.
                "schema": compress(orjson.dumps(schema, default=int)),
            },
        )

    @classmethod
    def from_item(cls, item: Item) -> "TableRecord":
        """Return the record in a stored item of the present format."""
        schema = orjson.loads(decompress(item["schema"]))
        elements = {
            key: RecordedElement(
                element_of_id(key, data.get("definition", {})),
                data["state"],
                data["epoch"],
                data.get("isChecked", True),
            )
            for key, data in schema["elements"].items()
        }
        lease_seconds = float(item["leaseSeconds"])
        return cls(int(item["epoch"]), lease_seconds, schema["entities"], elements, schema["earlier"])


# --- storage ---------------------------------------------------------------------------------------------------


async def read_record(store: Store) -> TableRecord | None:
    """Return the table's record; None if no server has written one in the present format."""
    (item,) = await store.get_many([TABLE_RECORD_KEY], consistent=True)
    if item is None or item.get("format") == EARLIER_FORMAT:
        return None
    if item.get("format") != TABLE_FORMAT:
        raise WrongTable(
            f"The table has format {item.get('format')!r}, and this release reads format {TABLE_FORMAT}: use the "
            "release that wrote it, or migrate."
        )
    return TableRecord.from_item(item)


async def read_epoch(store: Store) -> int:
    """Return the epoch of the table's record, by one small read."""
    (item,) = await store.get_many([EPOCH_KEY], consistent=True)
    return 0 if item is None else int(item["epoch"])


async def save_record(store: Store, old: TableRecord | None, new: TableRecord) -> bool:
    """Store a changed record and its epoch. Return False if somebody else has changed it first."""
    unchanged = _of_epoch(0 if old is None else old.epoch)
    try:
        await commit_transaction(store, [Put(new.to_item()), Put(item_at(EPOCH_KEY, {"epoch": new.epoch}), unchanged)])
    except (ConditionFailed, Conflict):
        return False
    return True


def epoch_check(epoch: int) -> Check:
    """Return the condition that the table's record is still of this epoch; 0: that the table has no record."""
    return Check(EPOCH_KEY, _of_epoch(epoch))


def _of_epoch(epoch: int) -> Expect:
    return Expect(attributes={"epoch": epoch}) if epoch else Expect(absent=True)

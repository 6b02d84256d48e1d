"""The record that a table keeps about itself: it is the schema that all servers act on.

A catalog only proposes changes. `proposed` adds what a catalog declares, and `changed` moves elements to their next
states; both are pure. `save_record` stores the result, if no other process has changed the record. A small item holds
the epoch, which increases with every change: servers read it to learn whether their copy is current. It also holds the
progress of a migration, so that servers learn it without another read.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from zlib import compress, decompress

import orjson

from graphql_api.codecs import hash_key
from graphql_api.errors import ConditionFailed, Conflict, StoreError, WrongTable
from graphql_api.evolution.elements import MAINTAINED, Data, Element, State, element_of_id
from graphql_api.storage import Check, Expect, Item, Key, Put, Store
from graphql_api.writes import commit_transaction, item_at, new_write_id

TABLE_FORMAT = 2
EARLIER_FORMAT = 1
"""records of this format have no elements: they are taken over when a server opens the table"""

TABLE_RECORD_KEY = Key(hash_key("shardql", ""), "table#meta")
EPOCH_KEY = Key(hash_key("shardql", ""), "table#epoch")

DEFAULT_LEASE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class RecordedElement:
    """An element of the table, and its state."""

    element: Element
    state: State
    epoch: int
    """the epoch of its last change"""
    is_checked: bool = True
    """false: nothing has verified that all stored records comply"""

    @property
    def is_maintained(self) -> bool:
        """Return whether all servers maintain and enforce the element."""
        return self.state in MAINTAINED


@dataclass(frozen=True, slots=True)
class PassProgress:
    """How much of a migration is done: it counts for elements whose last change has one of the epochs."""

    percent: int
    epochs: frozenset[int]
    removes: bool = False
    """it removes elements, and builds none"""

    def covers(self, recorded: RecordedElement) -> bool:
        """Return whether the migration builds, verifies or removes an element."""
        is_pending = recorded.state in ({"dropping"} if self.removes else {"building", "ready"})
        return is_pending and recorded.epoch in self.epochs and not (recorded.state == "ready" and recorded.is_checked)

    def to_data(self) -> Data:
        """Return the stored form."""
        return {"percent": self.percent, "epochs": sorted(self.epochs), "removes": self.removes}

    @classmethod
    def from_item(cls, item: Item) -> "PassProgress | None":
        """Return the progress in the item of the epoch; None if no migration has reported any since its last change."""
        data = item.get("progress")
        return None if data is None else cls(int(data["percent"]), frozenset(map(int, data["epochs"])), data["removes"])


@dataclass(frozen=True, slots=True)
class TableRecord:
    """The entities and elements of a table, with their states."""

    epoch: int = 0
    lease_seconds: float = DEFAULT_LEASE_SECONDS
    entities: Mapping[str, Data] = field(default_factory=dict)
    """keys and first shard generation of each entity, by name"""
    elements: Mapping[str, RecordedElement] = field(default_factory=dict)
    """by id"""
    table_id: str = field(default_factory=new_write_id, compare=False)
    """distinguishes a table from another one of its name that was created later"""
    earlier: Mapping[str, Data] = field(default_factory=dict)
    """what a record of the earlier format holds of entities whose catalog has not been opened since"""
    progress: PassProgress | None = field(default=None, compare=False)
    """of a migration since the last change; None if it is not known"""

    def of_entity(self, entity: str) -> list[RecordedElement]:
        """Return the elements of an entity."""
        return [recorded for recorded in self.elements.values() if recorded.element.entity == entity]

    def changed(self, *elements: RecordedElement, forgotten: frozenset[str] = frozenset()) -> "TableRecord":
        """Return the next record, with changed elements and without forgotten ones."""
        epoch = self.epoch + 1
        changes = {recorded.element.id: replace(recorded, epoch=epoch) for recorded in elements}
        kept = {key: recorded for key, recorded in self.elements.items() if key not in forgotten}
        return replace(self, epoch=epoch, elements={**kept, **changes}, progress=None)

    def progress_of(self, recorded: RecordedElement) -> str:
        """Return the progress of an element that is built, verified or removed: `40 %`; empty if it is not known."""
        return f"{self.progress.percent} %" if self.progress is not None and self.progress.covers(recorded) else ""

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
                "tableId": self.table_id,
                # As text, a catalog of 150 entities would exceed the size of an item.
                "schema": compress(orjson.dumps(schema, default=int)),
            },
        )

    @classmethod
    def from_item(cls, item: Item, epoch_item: Item | None = None) -> "TableRecord":
        """Return the record in a stored item of the present format, with the progress in the item of its epoch."""
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
        lease_seconds, table_id = float(item["leaseSeconds"]), item["tableId"]
        entities, earlier = schema["entities"], schema["earlier"]
        record = cls(int(item["epoch"]), lease_seconds, entities, elements, table_id, earlier)
        return record if epoch_item is None else with_progress(record, epoch_item)


# --- storage ---------------------------------------------------------------------------------------------------


async def read_record(store: Store) -> TableRecord | None:
    """Return the table's record; None if no server has written one in the present format."""
    record, _ = await read_any_record(store)
    return record


async def read_any_record(store: Store) -> tuple[TableRecord | None, Item | None]:
    """Return the table's record with the progress of a migration, or the item of a record of the earlier format."""
    item, epoch_item = await store.get_many([TABLE_RECORD_KEY, EPOCH_KEY], consistent=True)
    if item is None or item.get("format") == EARLIER_FORMAT:
        return None, item
    if item.get("format") != TABLE_FORMAT:
        raise WrongTable(
            f"The table has format {item.get('format')!r}, and this release reads format {TABLE_FORMAT}: use the "
            "release that wrote it, or migrate."
        )
    return TableRecord.from_item(item, epoch_item), None


async def read_epoch(store: Store) -> Item:
    """Return the item with the epoch of the table's record, and the progress of a migration, by one small read."""
    (item,) = await store.get_many([EPOCH_KEY], consistent=True)
    return {"epoch": 0} if item is None else item


def with_progress(record: TableRecord, epoch_item: Item) -> TableRecord:
    """Return a record with the progress in the item of the epoch, if that is of the same epoch."""
    is_same = epoch_item["epoch"] == record.epoch
    return replace(record, progress=PassProgress.from_item(epoch_item) if is_same else None)


async def save_record(store: Store, old: TableRecord | None, new: TableRecord) -> bool:
    """Store a changed record and its epoch. Return False if another process has changed it first."""
    unchanged = _of_epoch(0 if old is None else old.epoch)
    try:
        await commit_transaction(store, [Put(new.to_item()), Put(item_at(EPOCH_KEY, {"epoch": new.epoch}), unchanged)])
    except (ConditionFailed, Conflict):
        return False
    return True


async def save_progress(store: Store, record: TableRecord, progress: PassProgress) -> None:
    """Let all servers know the progress of a migration, unless the record has changed. It may be lost."""
    item = item_at(EPOCH_KEY, {"epoch": record.epoch, "progress": progress.to_data()})
    with suppress(StoreError):
        await store.write([Put(item, _of_epoch(record.epoch))])


def epoch_check(epoch: int) -> Check:
    """Return the condition that the table's record is still of this epoch; 0: that the table has no record."""
    return Check(EPOCH_KEY, _of_epoch(epoch))


def _of_epoch(epoch: int) -> Expect:
    return Expect(attributes={"epoch": epoch}) if epoch else Expect(absent=True)

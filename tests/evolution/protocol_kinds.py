"""What servers and migrations do for each kind of element, in the model of the protocol."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Item = Mapping[str, Any]
ItemKey = tuple[str, ...]
Items = Mapping[ItemKey, Item]


@dataclass(frozen=True)
class TableRecord:
    """The table's record of the element."""

    state: str = "absent"
    epoch: int = 0
    earlier: str = "ready"
    """the state of the version before, if the element is a version of a derived property"""

    @property
    def is_maintained(self) -> bool:
        """Whether servers maintain and enforce the element."""
        return self.state in {"building", "ready", "closing"}


@dataclass(frozen=True)
class Change:
    """A write or check of one item, on the condition that the item is still as it was read."""

    key: ItemKey
    read: Item | None
    item: Item | None
    is_blind: bool = False


class ElementKind(ABC):
    """What servers and migrations do for one kind of element."""

    withdrawn_from: frozenset[str] = frozenset({"building", "ready"})
    """states from which the element may be withdrawn"""
    searches: tuple[tuple[str, ...], ...] = ()
    """arguments of the searches that read by the element"""

    @abstractmethod
    def initial_items(self) -> dict[ItemKey, Item]:
        """Return the records before the first change."""

    @abstractmethod
    def writes(self) -> list[tuple[str, ...]]:
        """Return the writes that servers may send: a name and its arguments."""

    @abstractmethod
    def plan(self, items: Items, write: tuple[str, ...], record: TableRecord, server: int) -> tuple[Change, ...] | None:
        """Return the changes of a write by a server with this copy of the record; None if it is refused."""

    def plan_rest(self, items: Items, write: tuple[str, ...], record: TableRecord) -> tuple[Change, ...]:
        """Return the changes of the second transaction of a write, if it has one."""
        del items, write, record
        return ()

    @abstractmethod
    def repair(self, items: Items, key: str) -> tuple[Change, ...] | None:
        """Return what a migration writes for a record; nothing if it is complete, None for a violation."""

    @abstractmethod
    def remove(self, items: Items, key: str) -> tuple[Change, ...]:
        """Return the changes that remove the effects of the element on a record."""

    needs_code = False
    """servers need a function of the catalog to maintain the element, which replaces an earlier version"""
    is_built = True
    """a pass builds the element; otherwise it becomes ready when all servers know it"""
    readers_prepare = False
    """readers take the element into account from `announced` on, so it is built one read lease later"""

    def can_search(self, record: TableRecord) -> bool:
        """Return whether a server with this copy of the record answers searches that the element concerns."""
        return record.state == "ready"

    def search(self, items: Items, arguments: tuple[str, ...], record: TableRecord) -> tuple[set[str], set[str]]:
        """Return what a search finds that the element concerns, and what it should find."""
        del items, arguments, record
        return set(), set()

    @abstractmethod
    def violation(self, items: Items) -> str | None:
        """Return what is wrong with the items, if the element is ready."""


KEYS = ("a", "b")
VALUES = ("x", "y")


def records(items: Items) -> Iterator[tuple[str, Item]]:
    """Return the records by key, without the items of constraints."""
    return ((key, items["record", key]) for key in KEYS if ("record", key) in items)


class IndexKind(ElementKind):
    """An index: each record has its entry as an attribute."""

    searches = tuple((value,) for value in VALUES)

    def initial_items(self) -> dict[ItemKey, Item]:
        return {("record", key): {"value": "x"} for key in KEYS}

    def writes(self) -> list[tuple[str, ...]]:
        return [(name, key, value) for name in ("put", "update") for key in KEYS for value in VALUES]

    def plan(self, items: Items, write: tuple[str, ...], record: TableRecord, server: int) -> tuple[Change, ...] | None:
        del server
        name, key, value = write
        stored = items.get(("record", key))
        item = {**(stored or {}), "value": value} | ({"entry": value} if record.is_maintained else {})
        return (Change(("record", key), stored, item, is_blind=name == "put"),)

    def repair(self, items: Items, key: str) -> tuple[Change, ...] | None:
        stored = items.get(("record", key))
        if stored is None or stored.get("entry") == stored["value"]:
            return ()
        return (Change(("record", key), stored, {**stored, "entry": stored["value"]}),)

    def remove(self, items: Items, key: str) -> tuple[Change, ...]:
        stored = items.get(("record", key))
        if stored is None or "entry" not in stored:
            return ()
        return (Change(("record", key), stored, {name: stored[name] for name in stored if name != "entry"}),)

    def search(self, items: Items, arguments: tuple[str, ...], record: TableRecord) -> tuple[set[str], set[str]]:
        del record
        (value,) = arguments
        found = {key for key, item in records(items) if item.get("entry") == value}
        return found, {key for key, item in records(items) if item["value"] == value}

    def violation(self, items: Items) -> str | None:
        wrong = [key for key, item in records(items) if item.get("entry") != item["value"]]
        return f"the entries of {wrong} differ from their values" if wrong else None


class DerivedKind(IndexKind):
    """The second version of an indexed derived property. The first server has only the function of the first one."""

    needs_code = True
    withdrawn_from = frozenset()

    def initial_items(self) -> dict[ItemKey, Item]:
        return {("record", key): {"value": "x", "entry": self._entry("x", 1)} for key in KEYS}

    @staticmethod
    def _entry(value: str, version: int) -> str:
        return f"{value}{version}"

    def plan(self, items: Items, write: tuple[str, ...], record: TableRecord, server: int) -> tuple[Change, ...] | None:
        name, key, value = write
        stored = items["record", key]
        entry = self._entry(value, 2 if record.is_maintained and server == 1 else 1)
        return (Change(("record", key), stored, {**stored, "value": value, "entry": entry}, is_blind=name == "put"),)

    def repair(self, items: Items, key: str) -> tuple[Change, ...] | None:
        stored = items["record", key]
        entry = self._entry(stored["value"], 2)
        return () if stored["entry"] == entry else (Change(("record", key), stored, {**stored, "entry": entry}),)

    def remove(self, items: Items, key: str) -> tuple[Change, ...]:
        raise NotImplementedError("an older catalog cannot remove a later version")

    def can_search(self, record: TableRecord) -> bool:
        return record.state == "ready" or (not record.is_maintained and record.earlier == "ready")

    def search(self, items: Items, arguments: tuple[str, ...], record: TableRecord) -> tuple[set[str], set[str]]:
        (value,) = arguments
        entry = self._entry(value, 2 if record.state == "ready" else 1)
        found = {key for key, item in records(items) if item["entry"] == entry}
        return found, {key for key, item in records(items) if item["value"] == value}

    def violation(self, items: Items) -> str | None:
        wrong = [key for key, item in records(items) if item["entry"] != self._entry(item["value"], 2)]
        return f"{wrong} have entries of the version before" if wrong else None


class PropertyKind(ElementKind):
    """A new property, which only the second server declares. The first one keeps its values once it knows of it."""

    withdrawn_from = frozenset()
    is_built = False

    def initial_items(self) -> dict[ItemKey, Item]:
        return {("record", key): {"value": "x"} for key in KEYS}

    def writes(self) -> list[tuple[str, ...]]:
        return [(name, key, value) for name in ("put", "update", "note") for key in KEYS for value in VALUES]

    def plan(self, items: Items, write: tuple[str, ...], record: TableRecord, server: int) -> tuple[Change, ...] | None:
        name, key, value = write
        stored = items["record", key]
        if name == "note":  # `written` is what the record should keep until the next put that knows the property
            if server == 0 or record.state != "ready":
                return None
            noted = Change(("written", key), items.get(("written", key)), {"note": value})
            return (Change(("record", key), stored, {**stored, "note": value}), noted)
        if name == "put" and server == 1 and record.state == "ready":
            written = Change(("written", key), items.get(("written", key)), None, is_blind=True)
            return (Change(("record", key), stored, {"value": value}, is_blind=True), written)
        is_blind = name == "put" and record.state == "absent"
        kept = {} if is_blind else stored
        return (Change(("record", key), stored, {**kept, "value": value}, is_blind=is_blind),)

    def repair(self, items: Items, key: str) -> tuple[Change, ...] | None:
        del items, key
        return ()

    def remove(self, items: Items, key: str) -> tuple[Change, ...]:
        raise NotImplementedError("values that callers wrote are never removed")

    def violation(self, items: Items) -> str | None:
        written = {name[1]: item["note"] for name, item in items.items() if name[0] == "written"}
        lost = [key for key, note in written.items() if items["record", key].get("note") != note]
        return f"{lost} have lost their notes" if lost else None


class UniqueKind(ElementKind):
    """A unique constraint: an item for each value names the record that has it."""

    def initial_items(self) -> dict[ItemKey, Item]:
        return {("record", key): {"value": value} for key, value in zip(KEYS, VALUES, strict=True)}

    def writes(self) -> list[tuple[str, ...]]:
        return [("update", key, value) for key in KEYS for value in (*VALUES, "z")]

    def plan(self, items: Items, write: tuple[str, ...], record: TableRecord, server: int) -> tuple[Change, ...] | None:
        del server
        _, key, value = write
        stored = items[("record", key)]
        changes = [Change(("record", key), stored, {**stored, "value": value})]
        if record.is_maintained:
            taken = items.get(("unique", value))
            if taken is not None and taken["owner"] != key and self._is_owner(items, taken, value, record):
                return None
            changes.append(Change(("unique", value), taken, {"owner": key}))
            before = items.get(("unique", stored["value"]))
            if stored["value"] != value and before is not None and before["owner"] == key:
                changes.append(Change(("unique", stored["value"]), before, None))
        return tuple(changes)

    @staticmethod
    def _is_owner(items: Items, taken: Item, value: str, record: TableRecord) -> bool:
        """Return whether a value counts as taken. While building, an item may be left from an earlier value."""
        return record.state != "building" or items["record", taken["owner"]]["value"] == value

    def repair(self, items: Items, key: str) -> tuple[Change, ...] | None:
        stored = items[("record", key)]
        taken = items.get(("unique", stored["value"]))
        if taken is not None and taken["owner"] == key:
            return ()
        if taken is not None and items["record", taken["owner"]]["value"] == stored["value"]:
            return None
        item_change = Change(("unique", stored["value"]), taken, {"owner": key})
        return (Change(("record", key), stored, stored), item_change)

    def remove(self, items: Items, key: str) -> tuple[Change, ...]:
        owned = [(name, item) for name, item in items.items() if name[0] == "unique" and item["owner"] == key]
        return tuple(Change(name, item, None) for name, item in owned)

    def violation(self, items: Items) -> str | None:
        values = [item["value"] for _, item in records(items)]
        return f"two records have a value of {values}" if len({*values}) < len(values) else None


class ForeignKeyKind(ElementKind):
    """A foreign key from children to parents: reference items, and a delete intent on a parent that is deleted."""

    def initial_items(self) -> dict[ItemKey, Item]:
        items: dict[ItemKey, Item] = {("record", key): {"value": "x"} for key in KEYS}
        return items | {("parent", value): {"intent": None} for value in VALUES}

    def writes(self) -> list[tuple[str, ...]]:
        updates = [("update", key, value) for key in KEYS for value in VALUES]
        return [*updates, *((name, "", value) for name in ("delete parent", "create parent") for value in VALUES)]

    def plan(self, items: Items, write: tuple[str, ...], record: TableRecord, server: int) -> tuple[Change, ...] | None:
        del server
        name, key, value = write
        parent = items.get(("parent", value))
        if name == "create parent":
            return (Change(("parent", value), None, {"intent": None}),) if parent is None else None
        if name == "delete parent":
            if parent is None or parent["intent"] is not None:
                return None
            return (Change(("parent", value), parent, {"intent": "deleting"} if record.is_maintained else None),)
        stored = items["record", key]
        change = Change(("record", key), stored, {**stored, "value": value})
        if not record.is_maintained:
            return (change,)
        if parent is None or parent["intent"] is not None:
            return None
        before = ("reference", stored["value"], key)
        release = [Change(before, items[before], None)] if stored["value"] != value and before in items else []
        reference = ("reference", value, key)
        return (
            change,
            Change(("parent", value), parent, parent),
            Change(reference, items.get(reference), {"to": value}),
            *release,
        )

    def plan_rest(self, items: Items, write: tuple[str, ...], record: TableRecord) -> tuple[Change, ...]:
        name, _, value = write
        parent = items.get(("parent", value))
        if name != "delete parent" or not record.is_maintained or parent is None or parent["intent"] is None:
            return ()
        is_referenced = any(("reference", value, key) in items for key in KEYS)
        return (Change(("parent", value), parent, {"intent": None} if is_referenced else None),)

    def repair(self, items: Items, key: str) -> tuple[Change, ...] | None:
        stored = items["record", key]
        reference = ("reference", stored["value"], key)
        parent = items.get(("parent", stored["value"]))
        if parent is None:  # A server with an older copy may have deleted it, although a reference was stored already.
            return None
        if reference in items:
            return ()
        if parent["intent"] is not None:
            return None
        check = Change(("parent", stored["value"]), parent, parent)
        return (Change(("record", key), stored, stored), check, Change(reference, None, {"to": stored["value"]}))

    def remove(self, items: Items, key: str) -> tuple[Change, ...]:
        owned = [(name, item) for name, item in items.items() if name[0] == "reference" and name[2] == key]
        return tuple(Change(name, item, None) for name, item in owned)

    def violation(self, items: Items) -> str | None:
        dangling = [key for key, item in records(items) if ("parent", item["value"]) not in items]
        return f"{dangling} have no parent" if dangling else None


class GenerationKind(ElementKind):
    """A shard generation: records that are created after its begin are placed in a new shard."""

    withdrawn_from = frozenset()
    readers_prepare = True
    searches = ((),)

    def initial_items(self) -> dict[ItemKey, Item]:
        return {("record", "a", "0"): {"created": "before"}}

    def writes(self) -> list[tuple[str, ...]]:
        creations = [("create", key, created) for key in KEYS for created in ("before", "after")]
        return [*creations, *(("delete", key, "") for key in KEYS)]

    def plan(self, items: Items, write: tuple[str, ...], record: TableRecord, server: int) -> tuple[Change, ...] | None:
        del server
        name, key, created = write
        shards = ("0", "1") if record.is_maintained else ("0",)
        stored = {shard: items.get(("record", key, shard)) for shard in shards}
        if name == "delete":
            return tuple(Change(("record", key, shard), item, None) for shard, item in stored.items())
        if any(stored.values()):
            return None
        if record.state == "building" and created == "after":
            return None
        shard = "1" if record.is_maintained and created == "after" else "0"
        checks = [Change(("record", key, other), None, None) for other in shards if other != shard]
        return (Change(("record", key, shard), None, {"created": created}), *checks)

    def repair(self, items: Items, key: str) -> tuple[Change, ...] | None:
        stored = items.get(("record", key, "0"))
        return None if stored is not None and stored["created"] == "after" else ()

    def remove(self, items: Items, key: str) -> tuple[Change, ...]:
        raise NotImplementedError("generations are never removed")

    def can_search(self, record: TableRecord) -> bool:
        return True

    def search(self, items: Items, arguments: tuple[str, ...], record: TableRecord) -> tuple[set[str], set[str]]:
        shards = ("0",) if record.state == "absent" else ("0", "1")
        stored = {(name[1], name[2]) for name in items}
        return {key for key, shard in stored if shard in shards}, {key for key, _ in stored}

    def violation(self, items: Items) -> str | None:
        keys = [name[1] for name in items]
        if len({*keys}) < len(keys):
            return f"an id of {keys} is stored twice"
        late = [name[1] for name, item in items.items() if name[2] == "0" and item["created"] == "after"]
        return f"{late} are in the shard of an earlier generation" if late else None


class CurrentRecordKind(ElementKind):
    """Current records of histories: a copy of the last entry of each id, which default searches leave out."""

    readers_prepare = True
    searches = (("default",), ("current",))

    def initial_items(self) -> dict[ItemKey, Item]:
        return {("entry", "a", "1"): {"value": "x"}}

    def writes(self) -> list[tuple[str, ...]]:
        return [("append", key, value) for key in KEYS for value in VALUES]

    @staticmethod
    def last_entry(items: Items, key: str) -> tuple[str, str | None]:
        """Return the number and value of the last entry of an id."""
        numbers = sorted(name[2] for name in items if name[:2] == ("entry", key))
        return (numbers[-1], items["entry", key, numbers[-1]]["value"]) if numbers else ("0", None)

    def plan(self, items: Items, write: tuple[str, ...], record: TableRecord, server: int) -> tuple[Change, ...] | None:
        del server
        _, key, value = write
        number, _ = self.last_entry(items, key)
        if number == "4":
            return None
        entry = Change(("entry", key, str(int(number) + 1)), None, {"value": value})
        if not record.is_maintained:
            return (entry,)
        return (entry, Change(("current", key), items.get(("current", key)), {"value": value}))

    def repair(self, items: Items, key: str) -> tuple[Change, ...] | None:
        number, value = self.last_entry(items, key)
        stored = items.get(("current", key))
        if value is None or (stored is not None and stored["value"] == value):
            return ()
        entry = items["entry", key, number]
        next_entry = Change(("entry", key, str(int(number) + 1)), None, None)
        return (
            Change(("current", key), stored, {"value": value}),
            Change(("entry", key, number), entry, entry),
            next_entry,
        )

    def remove(self, items: Items, key: str) -> tuple[Change, ...]:
        stored = items.get(("current", key))
        return () if stored is None else (Change(("current", key), stored, None),)

    def can_search(self, record: TableRecord) -> bool:
        return True

    def search(self, items: Items, arguments: tuple[str, ...], record: TableRecord) -> tuple[set[str], set[str]]:
        entries = {"/".join(name) for name in items if name[0] == "entry"}
        current = {f"{name[1]}={item['value']}" for name, item in items.items() if name[0] == "current"}
        if arguments == ("default",):
            return entries | (current if record.state == "absent" else set()), entries
        if record.state != "ready":
            return set(), set()
        last = {key: self.last_entry(items, key)[1] for key in KEYS}
        return current, {f"{key}={value}" for key, value in last.items() if value is not None}

    def violation(self, items: Items) -> str | None:
        found, expected = self.search(items, ("current",), TableRecord("ready"))
        return f"current records are {sorted(found)} instead of {sorted(expected)}" if found != expected else None


KINDS: dict[str, Callable[[], ElementKind]] = {
    "index": IndexKind,
    "derived property": DerivedKind,
    "unique": UniqueKind,
    "foreign key": ForeignKeyKind,
    "generation": GenerationKind,
    "current record": CurrentRecordKind,
    "property": PropertyKind,
}

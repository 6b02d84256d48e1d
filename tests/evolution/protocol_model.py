"""A model of the protocol that changes a catalog on live data: servers, migrations and an engine, without I/O.

One element (an index, a constraint, a generation, the current records of a history …) is announced, built, used,
withdrawn and removed while servers write and read. Time is counted in ticks. Every message may be late: the engine
applies a request at any moment of its life, also after its sender gave up. Servers freeze, lose contact with
the table's record, and act on their copy.

`Model.actions` lists what may happen next, and `Model.take` does it. `Model.wrong` collects wrong answers.
Each rule of the protocol can be switched off, to show that it is needed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

LEASE, MARGIN, LIFE, READ_LEASE = 3, 3, 3, 15
"""Ticks: age of a copy that permits writes, delay of a request after its check, its life, age that permits reads."""

MAX_OPERATIONS = 2
MAX_REQUESTS = 3

USUAL_WEIGHTS = {
    "begin": 0.4,
    "search": 0.4,
    "abandon": 0.5,
    "proceed": 4,
    "apply": 3,
    "visit": 6,
    "change": 3,
    "wait": 4,
}
"""How often random schedules contain an action, before a random factor."""

PROGRESS = {(name, 0) for name in ("look", "change", "visit", "refresh")}
"""The actions of the first migration, which some schedules prefer so that it comes to its end."""

Action = tuple[Any, ...]
Item = Mapping[str, Any]
ItemKey = tuple[str, ...]
Items = Mapping[ItemKey, Item]


@dataclass(frozen=True)
class Rules:
    """The rules of the protocol, each of which is needed."""

    lease: bool = True
    """a server writes only with a copy that is younger than one lease"""
    age_from_sending: bool = True
    """the age of a copy counts from sending the read that brought it"""
    clock_runs_while_frozen: bool = True
    """the clock of a server goes on while its process is frozen"""
    read_lease: bool = True
    """a server answers only with a copy that is younger than one read lease"""
    conditional_changes: bool = True
    """a change of the table's record is conditional on its state and epoch"""
    final_pass: bool = True
    """the pass that decides begins after a wait, not at once"""
    wait_lease: bool = True
    """the wait contains a lease"""
    wait_margin: bool = True
    """the wait contains a margin"""
    wait_life: bool = True
    """the wait contains the life of a request"""
    wait_read_lease: bool = True
    """an element that is closing is dropped after one read lease"""
    wait_for_readers: bool = True
    """an element that readers take into account from `announced` on is built one read lease later"""
    stop_older_servers: bool = True
    """a server without the function of a derived property does not write its entity"""


@dataclass(frozen=True)
class TableRecord:
    """The table's record of the element."""

    state: str = "absent"
    epoch: int = 0

    @property
    def is_maintained(self) -> bool:
        """Whether servers maintain and enforce the element."""
        return self.state in {"building", "ready", "closing"}


@dataclass(frozen=True)
class Copy:
    """A copy of the record, and the reading of its owner's clock from which its age counts."""

    record: TableRecord
    since: int


@dataclass
class Server:
    """A server: its copy, a renewal that has not returned yet, and the time that it was frozen."""

    copy: Copy
    renewal: Copy | None = None
    is_frozen: bool = False
    frozen_ticks: int = 0


@dataclass(frozen=True)
class Change:
    """A write or check of one item, on the condition that the item is still as it was read."""

    key: ItemKey
    read: Item | None
    item: Item | None
    is_blind: bool = False


@dataclass
class Operation:
    """A write or a search of a server, between two of its steps."""

    server: int
    name: str
    arguments: tuple[str, ...]
    copy: Copy
    changes: tuple[Change, ...] = ()
    checked: int | None = None
    is_sent: bool = False
    answer: tuple[set[str], set[str]] | None = None
    """keys that a search found, and those that it should have found at that moment"""


@dataclass(frozen=True)
class Request:
    """A transaction on its way to the engine, and the operation that waits for its outcome."""

    changes: tuple[Change, ...]
    created: int
    operation: Operation | None = None


@dataclass
class Migration:
    """A run of `migrate`: what it knows of the record, when it learned it, and the keys that its pass has visited."""

    known: TableRecord | None = None
    since: int = 0
    renewed: int = 0
    visited: set[str] = field(default_factory=set)


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
    """servers need a function of the catalog to maintain the element"""
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
    """An index of a derived property with a new version, which the first server does not know."""

    needs_code = True

    def plan(self, items: Items, write: tuple[str, ...], record: TableRecord, server: int) -> tuple[Change, ...] | None:
        changes = super().plan(items, write, record, server)
        if changes is None or server == 1 or not record.is_maintained:
            return changes
        (change,) = changes
        assert change.item is not None
        return (replace(change, item={**change.item, "entry": "of the old version"}),)


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
        if reference in items:
            return ()
        parent = items.get(("parent", stored["value"]))
        if parent is None or parent["intent"] is not None:
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
        return [("create", key, created) for key in KEYS for created in ("before", "after")]

    def plan(self, items: Items, write: tuple[str, ...], record: TableRecord, server: int) -> tuple[Change, ...] | None:
        del server
        _, key, created = write
        shards = ("0", "1") if record.is_maintained else ("0",)
        if any(("record", key, shard) in items for shard in shards):
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
}


class Model:
    """Two servers, two migrations, and an engine whose table has one element."""

    def __init__(self, kind: str, rules: Rules | None = None, state: str = "absent") -> None:
        self.kind = KINDS[kind]()
        self.rules = rules or Rules()
        self.now = 0
        self.version = 0
        self.record = TableRecord(state)
        self.items: dict[ItemKey, Item] = {name: {**item, "w": 0} for name, item in self.kind.initial_items().items()}
        self.servers = [Server(Copy(self.record, 0)) for _ in range(2)]
        self.migrations = [Migration() for _ in range(2)]
        self.operations: list[Operation] = []
        self.requests: list[Request] = []
        self.wrong: list[str] = []
        for key in KEYS if state == "ready" else ():
            self._commit(self.kind.repair(self.items, key) or ())
        if state == "dropping":  # an earlier migration has not noticed that its work was taken back
            self.migrations[0] = Migration(TableRecord("building", -1), -LIFE, -LEASE, {*KEYS})

    # --- schedules ---------------------------------------------------------------------------------------------

    def actions(self) -> list[Action]:
        """Return everything that may happen next."""
        return [("wait", 1), *self._server_actions(), *self._migration_actions(), *self._engine_actions()]

    def take(self, action: Action) -> bool:
        """Let an action happen. Return False if it is not possible now."""
        if action not in self.actions():
            return False
        name, *arguments = action
        getattr(self, f"_{name}")(*arguments)
        if self.record.state == "ready":
            problem = self.kind.violation(self.items)
            if problem:
                self.wrong.append(f"violated while ready: {problem}")
        return True

    def _wait(self, ticks: int) -> None:
        self.now += ticks
        for server in self.servers:
            server.frozen_ticks += ticks if server.is_frozen else 0

    # --- servers -----------------------------------------------------------------------------------------------

    def _server_actions(self) -> Iterator[Action]:
        for number, server in enumerate(self.servers):
            if server.is_frozen:
                yield "thaw", number
                continue
            yield "freeze", number
            yield ("renew", number) if server.renewal is None else ("receive", number)
            if len(self.operations) < MAX_OPERATIONS:
                yield from (("begin", number, *write) for write in self.kind.writes())
                yield from (("search", number, *arguments) for arguments in self.kind.searches)
        for number, operation in enumerate(self.operations):
            if not self.servers[operation.server].is_frozen and not operation.is_sent:
                yield "proceed", number
        if self.record.state == "absent":
            yield ("announce",)

    def _clock(self, server: Server) -> int:
        return self.now - (0 if self.rules.clock_runs_while_frozen else server.frozen_ticks)

    def _is_young(self, operation: Operation, limit: int) -> bool:
        return self._clock(self.servers[operation.server]) - operation.copy.since < limit

    def _freeze(self, number: int) -> None:
        self.servers[number].is_frozen = True

    def _thaw(self, number: int) -> None:
        self.servers[number].is_frozen = False

    def _renew(self, number: int) -> None:
        """Send the read of the record. The engine answers at once, and the reply may be late."""
        server = self.servers[number]
        server.renewal = Copy(self.record, self._clock(server))

    def _receive(self, number: int) -> None:
        server = self.servers[number]
        assert server.renewal is not None
        since = server.renewal.since if self.rules.age_from_sending else self._clock(server)
        server.copy, server.renewal = Copy(server.renewal.record, since), None

    def _begin(self, number: int, *write: str) -> None:
        """Read what a write needs, and plan it with the present copy of the record."""
        copy = self.servers[number].copy
        if self._is_older(number, copy):
            return
        changes = self.kind.plan(self.items, write, copy.record, number)
        if changes is not None:
            self.operations.append(Operation(number, "write", write, copy, changes))

    def _is_older(self, number: int, copy: Copy) -> bool:
        """Return whether the first server lacks the function of a derived property, and may not write or search."""
        is_stopped = self.rules.stop_older_servers and self.kind.needs_code and number == 0
        return is_stopped and copy.record.is_maintained

    def _search(self, number: int, *arguments: str) -> None:
        """Read by the element, if it is ready. The server checks its copy again before it answers."""
        copy = self.servers[number].copy
        if self.kind.can_search(copy.record) and not self._is_older(number, copy):
            self.operations.append(Operation(number, "search", arguments, copy))

    def _proceed(self, number: int) -> None:
        operation = self.operations[number]
        if operation.name == "search":
            self._proceed_search(operation)
        elif operation.checked is None:
            if not self.rules.lease or self._is_young(operation, LEASE):
                operation.checked = self.now
            else:
                self.operations.remove(operation)
        elif self.now - operation.checked > MARGIN:
            operation.checked = None
        else:
            operation.is_sent = True
            self.requests.append(Request(operation.changes, self.now, operation))

    def _proceed_search(self, operation: Operation) -> None:
        if operation.answer is None:
            operation.answer = self.kind.search(self.items, operation.arguments, operation.copy.record)
            return
        self.operations.remove(operation)
        found, expected = operation.answer
        if found != expected and (not self.rules.read_lease or self._is_young(operation, READ_LEASE)):
            self.wrong.append(f"search {operation.arguments} found {sorted(found)} instead of {sorted(expected)}")

    # --- engine ------------------------------------------------------------------------------------------------

    def _engine_actions(self) -> Iterator[Action]:
        for number in range(len(self.requests)):
            yield "apply", number
        for number, request in enumerate(self.requests):
            if request.operation is not None and request.operation in self.operations:
                yield "abandon", number

    def _abandon(self, number: int) -> None:
        """Give up waiting for a request, which the engine may still apply."""
        operation = self.requests[number].operation
        assert operation is not None
        self.operations.remove(operation)

    def _apply(self, number: int) -> None:
        """Apply a request, unless its life has ended or one of its conditions does not hold."""
        request = self.requests.pop(number)
        is_alive = self.now - request.created <= LIFE
        applied = is_alive and self._commit(request.changes)
        operation = request.operation
        if operation is None or operation not in self.operations:
            return
        rest = self.kind.plan_rest(self.items, operation.arguments, operation.copy.record) if applied else ()
        if not rest:
            self.operations.remove(operation)
        else:
            operation.changes, operation.checked, operation.is_sent = rest, None, False

    def _commit(self, changes: tuple[Change, ...]) -> bool:
        if not all(change.is_blind or self.items.get(change.key) == change.read for change in changes):
            return False
        self.version += 1
        for change in changes:
            if change.item is None:
                self.items.pop(change.key, None)
            elif change.item is not change.read:
                self.items[change.key] = {**change.item, "w": self.version}
        return True

    # --- migrations --------------------------------------------------------------------------------------------

    def _migration_actions(self) -> Iterator[Action]:
        for number, migration in enumerate(self.migrations):
            if migration.known != self.record:
                yield "look", number
            known = migration.known
            if known is None:
                continue
            if known.state == "announced" and self._may_build(migration):
                yield "change", number, "building"
            if known.state in self.kind.withdrawn_from:
                yield "change", number, "closing"
            if known.state in {"building", "dropping"} and self._may_pass(migration):
                if not self.rules.lease or self.now - migration.renewed < LEASE:
                    yield from (("visit", number, key) for key in KEYS if key not in migration.visited)
                elif migration.known == self.record:
                    yield "refresh", number
                if len(migration.visited) == len(KEYS):
                    yield "change", number, "ready" if known.state == "building" else "absent"
            wait = (READ_LEASE if self.rules.wait_read_lease else 0) + MARGIN
            if known.state == "closing" and self.now - migration.since >= wait:
                yield "change", number, "dropping"

    def _may_build(self, migration: Migration) -> bool:
        """Return whether an announced element may be built: every reader takes it into account."""
        wait = READ_LEASE + MARGIN if self.kind.readers_prepare and self.rules.wait_for_readers else 0
        return self.now - migration.since >= wait

    def _may_pass(self, migration: Migration) -> bool:
        """Return whether a pass that decides may begin: every request of a server with an older copy has ended."""
        if not self.rules.final_pass:
            return True
        rules = self.rules
        wait = LEASE * rules.wait_lease + MARGIN * rules.wait_margin + LIFE * rules.wait_life
        return self.now - migration.since >= wait

    def _announce(self) -> None:
        self.record = TableRecord("announced", self.record.epoch + 1)

    def _look(self, number: int) -> None:
        """Read the record. Work under an earlier epoch is void."""
        self.migrations[number] = Migration(self.record, self.now, self.now)

    def _refresh(self, number: int) -> None:
        """Read the record again: a migration holds a lease like a server."""
        self.migrations[number].renewed = self.now

    def _change(self, number: int, state: str) -> None:
        """Change the state of the element, if nobody else has changed it."""
        migration = self.migrations[number]
        if migration.known == self.record or not self.rules.conditional_changes:
            self.record = TableRecord(state, self.record.epoch + 1)
        self.migrations[number] = Migration()

    def _visit(self, number: int, key: str) -> None:
        """Repair a record, or remove the effects of the element, in one transaction."""
        migration = self.migrations[number]
        assert migration.known is not None
        if migration.known.state == "dropping":
            changes: tuple[Change, ...] | None = self.kind.remove(self.items, key)
        else:
            changes = self.kind.repair(self.items, key)
        if changes is None:
            return  # a violation: the pass cannot end before somebody repairs it
        migration.visited.add(key)
        if changes:
            self._commit(changes)


def random_schedule(kind: str, rules: Rules, seed: int, steps: int = 120) -> tuple[str, list[Action], list[str]]:
    """Run a random schedule until something is wrong. Return its first state, its actions, and what is wrong.

    Each actor and each kind of action has a random weight of its own. So some schedules have a server that never
    renews, others one that is often frozen, or two migrations that undo each other's work.
    """
    random = Random(seed)
    state = random.choice(["absent", "ready", "dropping"] if KINDS[kind]().withdrawn_from else ["absent"])
    model = Model(kind, rules, state)
    weights: dict[Any, float] = {}

    def weight(action: Action) -> float:
        name, *arguments = action
        actor = arguments[0] if arguments and name not in {"proceed", "apply", "abandon", "wait"} else None
        if name == "proceed":
            actor = model.operations[arguments[0]].server
        group = (name, actor, arguments[1] if name == "change" else None)
        if group not in weights:
            weights[group] = USUAL_WEIGHTS.get(name, 1) * random.choice([0.05, 0.3, 1, 1, 3, 10])
            if name == "freeze" or group[2] == "closing":
                weights[group] *= random.choice([0, 0, 0.1])
        return weights[group]

    pace = random.choice([0.0, 0.2, 0.35, 0.6])
    actions: list[Action] = []
    while len(actions) < steps and not model.wrong:
        possible = model.actions()
        if random.random() < pace:
            forward = [action for action in possible if action[:2] in PROGRESS and action[2:] != ("closing",)]
            possible = forward or [action for action in possible if action[0] in {"announce", "wait"}]
        actions += random.choices(possible, [weight(action) for action in possible])
        model.take(actions[-1])
    return state, actions, model.wrong

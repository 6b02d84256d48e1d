"""A model of the protocol that changes a catalog on live data: servers, migrations and an engine, without I/O.

One element (an index, a constraint, a generation, the current records of a history …) is announced, built, used,
withdrawn and removed while servers write and read. Time is counted in ticks. Every message may be late: the engine
applies a request at any moment of its life, also after its sender gave up. Servers freeze, lose contact with
the table's record, and act on their copy.

`Model.actions` lists what may happen next, and `Model.take` does it. `Model.wrong` collects wrong answers.
Each rule of the protocol can be switched off, to show that it is needed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.evolution.protocol_kinds import KEYS, KINDS, Change, Item, ItemKey, TableRecord

LEASE, MARGIN, LIFE, READ_LEASE = 3, 3, 3, 30
"""Ticks: age of a copy that permits writes, delay of a request after its check, its life, age that permits reads."""

MAX_OPERATIONS = 2

Action = tuple[Any, ...]


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
    include_announced: bool = True
    """readers take announced generations and current records into account"""
    wait_for_readers: bool = True
    """an element that readers take into account from `announced` on is built one read lease later"""
    stop_older_servers: bool = True
    """a server without the function of a derived property does not write its entity"""
    close_version_before: bool = True
    """a version of a derived property is closing for one read lease before records get the next one"""
    announce_properties: bool = True
    """values of a new property are refused until no server can erase them any longer"""


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
    operation: Operation


@dataclass
class Migration:
    """A run of `migrate`: what it knows of the record, when it learned it, and the keys that its pass has visited."""

    known: TableRecord | None = None
    since: int = 0
    renewed: int = 0
    visited: set[str] = field(default_factory=set)


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

    def last_chances(self) -> Iterator[Action]:
        """Yield the requests, checks and answers that are possible now, and not after one more tick."""
        for number, operation in enumerate(self.operations):
            server = self.servers[operation.server]
            left = READ_LEASE if operation.name == "search" else LEASE
            left -= self._clock(server) - operation.copy.since
            if operation.checked is not None:
                left = MARGIN + 1 - (self.now - operation.checked)
            if left == 1 and not server.is_frozen and not operation.is_sent:
                yield "proceed", number
        for number, request in enumerate(self.requests):
            if self.now - request.created == LIFE:
                yield "apply", number

    def take(self, action: Action) -> bool:
        """Let an action happen. Return False if it is not possible now."""
        if action not in self.actions():
            return False
        self.execute(action)
        return True

    def execute(self, action: Action) -> None:
        """Let one of the possible actions happen."""
        name, *arguments = action
        getattr(self, f"_{name}")(*arguments)
        if self.record.state == "ready":
            problem = self.kind.violation(self.items)
            if problem:
                self.wrong.append(f"violated while ready: {problem}")

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
        record = operation.copy.record
        if record.state == "announced" and not self.rules.include_announced:
            record = replace(record, state="absent")
        if operation.answer is None:
            operation.answer = self.kind.search(self.items, operation.arguments, record)
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
            if request.operation in self.operations:
                yield "abandon", number

    def _abandon(self, number: int) -> None:
        """Give up waiting for a request, which the engine may still apply."""
        self.operations.remove(self.requests[number].operation)

    def _apply(self, number: int) -> None:
        """Apply a request, unless its life has ended or one of its conditions does not hold."""
        request = self.requests.pop(number)
        is_alive = self.now - request.created <= LIFE
        applied = is_alive and self._commit(request.changes)
        operation = request.operation
        if operation not in self.operations:
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
            if known.state == "announced" and self._may_begin(migration):
                yield "change", number, "building" if self.kind.is_built else "ready"
            if known.state == "announced" and self.kind.needs_code:
                yield ("close", number) if known.earlier == "ready" else ("reopen", number)
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

    def _may_begin(self, migration: Migration) -> bool:
        """Return whether servers may maintain an announced element, or store the values of a new property."""
        assert migration.known is not None
        rules = self.rules
        if not self.kind.is_built:
            return not rules.announce_properties or self._may_pass(migration)
        if self.kind.needs_code and rules.close_version_before and migration.known.earlier == "ready":
            return False
        is_awaited = migration.known.earlier == "closing" or (self.kind.readers_prepare and rules.wait_for_readers)
        return self.now - migration.since >= (READ_LEASE + MARGIN if is_awaited else 0)

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
        """Change the state of the element."""
        self._save(number, state=state)

    def _close(self, number: int) -> None:
        """Let no server search by the version before any longer."""
        self._save(number, earlier="closing")

    def _reopen(self, number: int) -> None:
        """Let servers search by the version before again: the later one is taken back before it was built."""
        self._save(number, earlier="ready")

    def _save(self, number: int, **changes: str) -> None:
        """Change the record, unless another process has changed it."""
        migration = self.migrations[number]
        assert migration.known is not None
        if migration.known == self.record or not self.rules.conditional_changes:
            self.record = replace(migration.known, epoch=self.record.epoch + 1, **changes)
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

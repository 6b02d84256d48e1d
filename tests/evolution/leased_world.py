"""Servers of several releases over a store with leases, their clients, migrations, and an oracle of each moment."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from graphql_api import Catalog
from graphql_api.codecs import RecordKeySeal
from graphql_api.database import Database
from graphql_api.errors import NotReady, OutcomeUnknown, ShardQLError, StoreUnavailable, WrongTable
from graphql_api.evolution import MigrationSettings, prepare_table, read_record
from graphql_api.evolution.migration import _Migration
from graphql_api.evolution.schema_copy import read_copy
from graphql_api.evolution.table_record import EPOCH_KEY
from graphql_api.evolution.table_schema import LeasedSchema, TableSchema
from graphql_api.model import LOST
from graphql_api.query import TokenSeal
from graphql_api.storage import Item, Key
from graphql_api.writes import write_key
from tests.evolution.catalog_oracle import (
    MODELS,
    Operation,
    Stored,
    check_page,
    check_refusal,
    check_unique,
    creation_of,
    current_records,
    last_entry,
)
from tests.evolution.changing_catalogs import (
    CURRENT,
    CURRENT_ELEMENT,
    EMAILS,
    GUESTS,
    IDS,
    NAMES,
    NUMBERS,
    PLACES,
    TEAMS,
    TOWNS,
    Query,
    RecordId,
    Release,
    Values,
    catalog_of,
    queries_of,
)
from tests.evolution.late_store import (
    LEASE,
    LIFE,
    MARGIN,
    START,
    AppliedWrite,
    Effect,
    Engine,
    Faults,
    ServerStore,
    at_once,
    virtual_time,
)

SEAL = TokenSeal((b"a secret of thirty-two bytes only",))


@dataclass
class Server:
    """A process with a catalog."""

    release: Release
    catalog: Catalog
    store: ServerStore
    db: Database


@dataclass
class LeasedWorld:
    """A table, its servers, and what was stored at each moment."""

    random: Random
    engine: Engine
    stack: AsyncExitStack
    use_clocks: Callable[[ServerStore], Callable[[], Any]] = lambda store: store.clocks
    servers: list[Server] = field(default_factory=list)
    copies: dict[RecordId, dict[Key, Values]] = field(default_factory=dict)
    """the items of each record, by key: one at most, except within a transaction"""
    stored: Stored = field(default_factory=dict)
    history: list[tuple[float, Stored]] = field(default_factory=lambda: [(0.0, {})])
    """what was stored from a moment on"""
    removed_teams: set[str] = field(default_factory=set)
    states: dict[str, str] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    on_change: Callable[[], None] = lambda: None
    """called when the table's record changes"""
    answers: int = 0
    refusals: set[str] = field(default_factory=set)
    migrated: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, folder: Path, random: Random, faults: Faults, stack: AsyncExitStack, **more: Any) -> "LeasedWorld":
        """A world without servers."""
        engine = Engine(folder, random, faults)
        stack.callback(engine.end)
        world = cls(random, engine, stack, **more)
        engine.on_applied = world.note
        return world

    def log(self, text: str) -> None:
        """Notes what happened, for the message of a failing schedule."""
        self.events.append(f"{virtual_time():8.2f} {text}")

    # --- processes ---------------------------------------------------------------------------------------------

    async def schema_of(self, catalog: Catalog, store: ServerStore, stack: AsyncExitStack) -> LeasedSchema:
        """The copy of a process, which renews itself."""
        clocks = self.use_clocks(store)
        copy = await read_copy(store, catalog, clocks)
        schema = LeasedSchema(
            store, catalog, copy, clocks, store.pause, settles=True, margin_seconds=MARGIN, life_seconds=LIFE
        )
        return await stack.enter_async_context(schema)

    async def start(self, release: Release) -> Server | None:
        """Starts a server, if the table does not refuse its catalog."""
        catalog, store = catalog_of(release), ServerStore(self.engine)
        schema: LeasedSchema | None = None
        while schema is None:
            try:
                await prepare_table(store, catalog, create_table=not self.states, lease_seconds=LEASE)
                schema = await self.schema_of(catalog, store, self.stack)
            except WrongTable as problem:
                self.log(f"refuses {release}: {problem}")
                return None
            except StoreUnavailable:
                await asyncio.sleep(1)
        db = Database(
            catalog, store, SEAL, lambda: START + virtual_time(), key_seal=RecordKeySeal(b"s" * 32), schema=schema
        )
        self.servers.append(Server(release, catalog, store, db))
        self.log(f"server {len(self.servers) - 1} has {release}")
        return self.servers[-1]

    async def migrate(self, release: Release, store: ServerStore, *, drop: bool) -> None:
        """Runs a migration as a process of its own, and again while the store does not answer."""
        catalog = catalog_of(release)
        settings = MigrationSettings(
            drop=drop, segments=self.random.choice([1, 2]), margin_seconds=MARGIN, life_seconds=LIFE,
            clock=lambda: START + virtual_time(), timer=virtual_time,
            sleep=store.pause,
        )  # fmt: skip
        while True:
            try:
                async with AsyncExitStack() as stack:
                    await prepare_table(store, catalog, create_table=False)
                    schema = await self.schema_of(catalog, store, stack)
                    self.log(f"migration begins (drop={drop})")
                    result = await _Migration(store, catalog, schema, settings, lambda _: None).run()
                    self.migrated += [*result.ready, *result.dropped]
                    self.log(f"migration ends: {result.ready} {result.dropped} {[*map(str, result.violations)]}")
                    return
            except WrongTable as problem:
                self.log(f"migration is refused: {problem}")
                return
            except ShardQLError as problem:
                self.log(f"migration fails: {problem}")
                if not problem.retryable:
                    raise
                await store.pause(1)

    # --- the oracle --------------------------------------------------------------------------------------------

    def note(self, operation: Operation | None, writes: Sequence[AppliedWrite]) -> None:
        """Compares an applied request with its operation, and notes what is stored now."""
        before, changed = self.stored, dict[RecordId, None]()
        for write, old, new in writes:
            key, id = write_key(write), _id_of(old or new or {})
            if key == EPOCH_KEY:
                self._note_states()
            elif id is not None:
                changed[id] = None
                copies = self.copies.setdefault(id, {})
                copies.pop(key, None)
                if new is not None:
                    copies[key] = properties(new)
        for id in changed:
            assert len(self.copies[id]) < 2, f"{id} is stored in several shards: {self.copies[id]}"
        entries = [id for id in changed if id[-1] != CURRENT]
        now = {id: next(iter(self.copies[id].values()), None) for id in entries}
        if any(now[id] != before.get(id) for id in entries):
            rest = {id: values for id, values in before.items() if id not in now}
            self.stored = rest | {id: values for id, values in now.items() if values is not None}
            self.history.append((virtual_time(), self.stored))
        for id in changed:
            self.log(f"{operation and operation.kind} {id}: {before.get(id)} → {[*self.copies[id].values()]}")
        for id in entries:
            if id[0] != "team" and now[id] != before.get(id):
                self._check_change(operation, id, before, now[id])
        if changed:
            check_unique(self.stored, self.states)
            self._check_current_records()

    def _check_change(self, operation: Operation | None, id: RecordId, before: Stored, after: Values | None) -> None:
        old = before.get(id)
        assert operation is not None, f"a migration changes {id} from {old} to {after}"
        assert operation.id == id, f"{operation} changes {id}"
        bases = [before]
        if operation.kind == "update" and old is None and self.states.get(CURRENT_ELEMENT) != "ready":
            # Without current records, another entry may be created between the reads of an update and its write.
            bases = self.moments(operation.since)[1:]
        wanted = [None if one is None else _without_nulls(one) for one in map(operation.outcome, bases)]
        unkept = self._unkept(id[0])
        if unkept and after is not None:
            for name in unkept & after.keys():
                assert operation.values.get(name) in (None, (old or {}).get(name)), f"{operation} stores {name}"
            after, wanted = _without(after, unkept), [None if one is None else _without(one, unkept) for one in wanted]
        assert after in wanted, f"{operation} changes {old} to {after}"
        assert not (operation.kind == "create" and old is not None), f"{operation} replaces {old}"
        assert operation.refusal is None or operation.is_in_doubt, f"{operation} was applied later"
        operation.is_applied = True

    def _unkept(self, entity: str) -> set[str]:
        """The properties that are not ready: some servers keep their values, and none may store other ones."""
        ready = {"ready", "closing", "dropping"}
        return {
            name
            for stored, name in STORED.items()
            if self.states.get(f"{entity} property {stored}", "gone") not in ready
        }

    def _check_current_records(self) -> None:
        """Checks the current records if they are ready, and that none is left after they have been dropped."""
        state = self.states.get(CURRENT_ELEMENT)
        if state in {"ready", None}:
            found = {id: values for id, one in self.copies.items() if id[-1] == CURRENT for values in one.values()}
            expected = {} if state is None else current_records(self.stored)
            assert found == expected, f"current records are {found} instead of {expected}"

    def _note_states(self) -> None:
        record = at_once(read_record(self.engine.table))
        assert record is not None, "the record has an epoch"
        states: dict[str, str] = {key: recorded.state for key, recorded in record.elements.items()}
        changes = {key: state for key, state in states.items() if self.states.get(key) != state}
        changes |= dict.fromkeys(self.states.keys() - states.keys(), "gone")
        self.states = states
        self.log(f"epoch {record.epoch}: {changes}")
        self._check_current_records()
        self.on_change()

    def moments(self, since: float) -> list[Stored]:
        """What was stored at any moment since then."""
        found: list[Stored] = []
        for moment, stored in reversed(self.history):
            found.append(stored)
            if moment < since:
                break
        return found

    # --- writes ------------------------------------------------------------------------------------------------

    async def write(self, server: Server, kind: str, id: RecordId, values: Values) -> None:
        """Lets a client write a record, and compares its response with what the engine has applied."""
        since = virtual_time()
        operation = Operation.of(kind, id, values, server.release, since)
        Effect.set(operation)
        try:
            await operation.send(server.db, server.release)
        except ShardQLError as problem:
            self.refusals.add(problem.code)
            is_in_doubt = isinstance(problem, OutcomeUnknown) or (
                isinstance(problem, StoreUnavailable) and not problem.certain
            )
            if not is_in_doubt:
                operation.refusal = f"{problem}"
                self._check_refusal(problem, operation, since)
        else:
            self._check_success(operation, since)
        finally:
            Effect.set(None)

    def _check_success(self, operation: Operation, since: float) -> None:
        """A write that succeeds without a change has found what it would write."""
        outcomes = ((stored.get(operation.id), operation.outcome(stored)) for stored in self.moments(since))
        may_be_unchanged = any(
            old is new or (old is not None and new is not None and old == _without_nulls(new)) for old, new in outcomes
        )
        assert operation.is_applied or may_be_unchanged, f"{operation} succeeds and is not applied"

    def _check_refusal(self, problem: ShardQLError, operation: Operation, since: float) -> None:
        assert not operation.is_applied, f"{operation} is applied, and the client is told {problem}"
        if not (problem.retryable or problem.code == "SCHEMA_CHANGED"):
            check_refusal(problem, operation, self.moments(since), self.removed_teams)

    async def write_team(self, server: Server, team_id: str, *, removes: bool) -> None:
        """Lets a client create or delete a team."""
        team: Any = server.db.catalog.entity("Team").model
        try:
            if removes:
                self.removed_teams.add(team_id)
                await server.db.delete(team, team_id)
            else:
                await server.db.put(team(team_id=team_id))
        except ShardQLError as problem:
            self.refusals.add(problem.code)
            if not (problem.retryable or problem.code in {"FOREIGN_KEY", "OUTCOME_UNKNOWN", "SCHEMA_CHANGED"}):
                raise

    # --- reads -------------------------------------------------------------------------------------------------

    async def get(self, server: Server, id: RecordId) -> None:
        """Compares a read by id with what was stored while it ran. Without a sub id it finds the last entry."""
        release, model = server.release, server.db.catalog.entity(MODELS[id[0]]).model
        since, sub_id = virtual_time(), dict[str, Any](zip(["number"], id[2:], strict=False))
        try:
            found: Any = await server.db.get(model, id[1], **sub_id)
        except ShardQLError as problem:
            self._check_refused_read(problem)
            return
        self.answers += 1
        shown = None if found is None else release.values(id[0], found)
        records = [
            last_entry(one, id[1]) if id[0] == "visit" and not id[2:] else one.get(id) for one in self.moments(since)
        ]
        if id[-1] == CURRENT:
            records = [last_entry(one, id[1]) if release.has_current else None for one in self.moments(since)]
        possible = [release.shown(id[0], values) for values in records]
        assert shown in possible, f"get {id} by {release}: {shown} instead of {possible}, with {self.states}"

    async def search(self, server: Server, number: int) -> None:
        """Compares a search with what was stored while it ran, or shortly before if indexes lag."""
        release, schema = server.release, server.db.schema
        queries = queries_of(release)
        query: Query = queries[number % len(queries)]
        model: Any = server.db.catalog.entity(MODELS[query.entity]).model
        since = virtual_time() - self.engine.faults.lag
        shown = {_shows_current(schema)}
        try:
            page = await server.db.search(getattr(model, release.python_name(query.index)), limit=50, **query.arguments)
        except ShardQLError as problem:
            self._check_refused_read(problem)
            return
        self.answers += 1
        try:
            check_page(query, release, page.items, self.moments(since), sorted(shown | {_shows_current(schema)}))
        except AssertionError as problem:
            problem.add_note(f"with {self.states}")
            raise

    def _check_refused_read(self, problem: ShardQLError) -> None:
        self.refusals.add(problem.code)
        assert problem.retryable, problem
        assert not (isinstance(problem, NotReady) and problem.state == LOST), (
            f"a reader trusts a removed index: {problem}"
        )

    # --- clients -----------------------------------------------------------------------------------------------

    async def act(self, server: Server) -> None:
        """One random request of a client."""
        random = self.random
        kind = random.choices(["create", "put", "update", "delete", "team", "get", "search"], [3, 2, 4, 1, 1, 2, 8])[0]
        if kind == "search":
            await self.search(server, random.randrange(1_000))
        elif kind == "team":
            await self.write_team(server, random.choice(["red", "blue"]), removes=random.random() < 0.4)
        else:
            id: RecordId = ("user", random.choice(IDS))
            if server.release.visits and random.random() < 0.4:
                id = ("visit", random.choice(GUESTS), random.choice(NUMBERS))
            if kind == "get":
                id = random.choice([id, id, id[:2], (*id[:2], CURRENT)]) if id[0] == "visit" else id
                await self.get(server, id)
            else:
                await self.write(server, kind, id, self.random_values(id, kind))

    def random_values(self, id: RecordId, kind: str = "create") -> Values:
        """The properties of a record. A record that is stored usually keeps its creation time."""
        choose = self.random.choice
        created = creation_of(self.stored, id)
        if created is None or (kind == "put" and self.random.random() < 0.1):
            created = int(START + virtual_time()) + choose([-50, 0, 0, 0, 100])
        if id[0] == "visit":
            return {"created": created, "place": choose(PLACES), "note": choose(["late", None])}
        own = {"name": choose(NAMES), "town": choose(TOWNS), "email": choose(EMAILS), "team_id": choose(TEAMS)}
        return {"created": created, **own}


STORED = {
    "name": "name", "town": "town", "email": "email", "teamId": "team_id", "created": "created", "place": "place",
    "note": "note",
}  # fmt: skip


def _id_of(item: Item) -> RecordId | None:
    """The id of a stored record; None for other items."""
    names = {"user": ("userId",), "visit": ("guestId", "number"), "team": ("teamId",)}
    entity = str(item["hashKey"]).partition("!")[0]
    return (entity, *(str(item[name]) for name in names[entity])) if entity in names else None


def properties(item: Item) -> Values:
    """The properties in a stored record that clients provide, without nulls."""
    return {name: item[stored] for stored, name in STORED.items() if item.get(stored) is not None}


def _without(values: Values, names: set[str]) -> Values:
    return {name: value for name, value in values.items() if name not in names}


def _without_nulls(values: Values) -> Values:
    return {name: value for name, value in values.items() if value is not None}


def _shows_current(schema: TableSchema | None) -> bool:
    """Whether the copy of a server has current records that are ready."""
    recorded = None if schema is None else schema.latest.record.elements.get(CURRENT_ELEMENT)
    return recorded is not None and recorded.state == "ready"

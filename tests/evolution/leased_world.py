"""Servers of several releases over a store with leases, their clients, migrations, and an oracle of each moment."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from graphql_api import Catalog
from graphql_api.codecs import RecordKeySeal
from graphql_api.database import Database
from graphql_api.errors import OutcomeUnknown, ShardQLError, StoreUnavailable, WrongTable
from graphql_api.evolution import MigrationSettings, prepare_table, read_record
from graphql_api.evolution.migration import _Migration
from graphql_api.evolution.table_record import EPOCH_KEY
from graphql_api.evolution.table_schema import LeasedSchema, read_copy
from graphql_api.query import TokenSeal
from graphql_api.storage import Item, TransactionWrite
from graphql_api.writes import write_key
from tests.evolution.changing_catalogs import EMAILS, IDS, NAMES, TEAMS, TOWNS, Release, catalog_of, queries_of
from tests.evolution.late_store import (
    LEASE,
    LIFE,
    MARGIN,
    START,
    Effect,
    Engine,
    Faults,
    ServerStore,
    at_once,
    virtual_time,
)

SEAL = TokenSeal((b"a secret of thirty-two bytes only",))
User = Mapping[str, Any]
Users = Mapping[str, User]


@dataclass
class Operation:
    """A write of a client, and whether the engine has applied it."""

    kind: str
    user_id: str
    values: Mapping[str, Any]
    is_applied: bool = False
    is_in_doubt: bool = False
    """one of its requests got no reply, and may be applied later although others were refused"""
    refusal: str | None = None
    """why the client was told that nothing is written"""

    def outcome(self, stored: User | None) -> User | None:
        """What is stored after the operation."""
        match self.kind:
            case "delete":
                return None
            case "create":
                return self.values
        return {**(stored or {}), **self.values}


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
    users: dict[str, User] = field(default_factory=dict)
    history: list[tuple[float, Users]] = field(default_factory=lambda: [(0.0, {})])
    """what was stored from a moment on"""
    teams: set[str] = field(default_factory=set)
    team_history: list[tuple[float, frozenset[str]]] = field(default_factory=lambda: [(0.0, frozenset())])
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
        return await stack.enter_async_context(LeasedSchema(store, catalog, copy, clocks, store.pause, settles=True))

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

    async def migrate(
        self, release: Release, store: ServerStore, *, drop: bool, has_first_pass: bool | None = None
    ) -> None:
        """Runs a migration as a process of its own, and again while the store does not answer."""
        catalog = catalog_of(release)
        has_first = self.random.random() < 0.5 if has_first_pass is None else has_first_pass
        settings = MigrationSettings(
            drop=drop, segments=self.random.choice([1, 2]), margin_seconds=MARGIN, life_seconds=LIFE,
            has_first_pass=has_first, clock=lambda: START + virtual_time(), timer=virtual_time,
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

    def note(self, operation: Operation | None, write: TransactionWrite, old: Item | None, new: Item | None) -> None:
        """Compares an applied write with its operation, and notes what is stored now."""
        key = write_key(write)
        head, _, number = key.hash.partition("!")[0], None, key.range.partition("#")[2]
        if key == EPOCH_KEY:
            self._note_states()
        elif head == "user":
            self._note_user(operation, number, old, new)
        elif head == "team":
            if new is None:
                self.teams.discard(number)
            else:
                self.teams.add(number)
            self.team_history.append((virtual_time(), frozenset(self.teams)))
        else:
            return
        self.check_constraints()

    def _note_states(self) -> None:
        record = at_once(read_record(self.engine.table))
        assert record is not None, "the record has an epoch"
        states: dict[str, str] = {key: recorded.state for key, recorded in record.elements.items()}
        changes = {key: state for key, state in states.items() if self.states.get(key) != state}
        changes |= dict.fromkeys(self.states.keys() - states.keys(), "gone")
        self.states = states
        self.log(f"epoch {record.epoch}: {changes}")
        self.on_change()

    def _note_user(self, operation: Operation | None, user_id: str, old: Item | None, new: Item | None) -> None:
        before, after = properties(old), properties(new)
        self.log(f"{operation and operation.kind} {user_id}: {before} → {after} {self._keys(new)}")
        if after == before:
            return
        assert operation is not None, f"a migration changes {user_id} from {before} to {after}"
        expected = operation.outcome(before)
        wanted = None if expected is None else {name: value for name, value in expected.items() if value is not None}
        if after is None:
            self.users.pop(user_id)
        else:
            self.users[user_id] = after
        self.history.append((virtual_time(), dict(self.users)))
        assert operation.user_id == user_id, f"{operation} changes {user_id}"
        assert after == wanted, f"{operation} changes {before} to {after}"
        assert not (operation.kind == "create" and before is not None), f"{operation} replaces {before}"
        assert operation.refusal is None or operation.is_in_doubt, f"{operation} was applied later"
        operation.is_applied = True

    @staticmethod
    def _keys(item: Item | None) -> list[str]:
        return sorted(name for name in item or () if name not in STORED and not name.endswith("Key"))

    def check_constraints(self) -> None:
        """Checks that every constraint that is ready holds."""
        if self.states.get("user unique email") == "ready":
            emails = [user["email"] for user in self.users.values() if "email" in user]
            assert len({*emails}) == len(emails), "the unique constraint is ready and violated"
        if self.states.get("user foreign key ofTeam") == "ready":
            used = {user["team_id"] for user in self.users.values() if "team_id" in user}
            assert used <= self.teams, "the foreign key is ready and violated"

    def moments(self, since: float) -> list[Users]:
        """What was stored at any moment since then."""
        found: list[Users] = []
        for moment, users in reversed(self.history):
            found.append(users)
            if moment < since:
                break
        return found

    def teams_since(self, since: float) -> list[frozenset[str]]:
        """The teams that were stored at any moment since then."""
        found: list[frozenset[str]] = []
        for moment, teams in reversed(self.team_history):
            found.append(teams)
            if moment < since:
                break
        return found

    # --- writes ------------------------------------------------------------------------------------------------

    async def write(self, server: Server, kind: str, user_id: str, values: User) -> None:
        """Lets a client write a user, and compares what it is told with what the engine has applied."""
        db, release = server.db, server.release
        user: Any = db.catalog.entity("User").model
        provided = {name: values[name] for name in release.properties}
        if kind == "update":
            provided = dict([*provided.items()][1:] or provided)
        operation = Operation(kind, user_id, {} if kind == "delete" else provided)
        Effect.set(operation)
        since = virtual_time()
        try:
            if kind == "create":
                await db.create(user, user_id=user_id, **provided)
            elif kind == "put":
                server_set = {"version": 1} if release.has_version else {}
                await db.put(user(user_id=user_id, **provided, **server_set))
            elif kind == "update":
                await db.update(user, user_id, **provided)
            else:
                await db.delete(user, user_id)
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
        wanted = {name: value for name, value in operation.values.items() if value is not None}
        may_be_unchanged = any(
            properties_equal(users.get(operation.user_id), operation.outcome(users.get(operation.user_id)))
            for users in self.moments(since)
        )
        assert operation.is_applied or may_be_unchanged, f"{operation} succeeds and is not applied: {wanted}"

    def _check_refusal(self, problem: ShardQLError, operation: Operation, since: float) -> None:
        assert not operation.is_applied, f"{operation} is applied, and the client is told {problem}"
        if problem.retryable or problem.code == "SCHEMA_CHANGED":
            return
        moments, user_id = self.moments(since), operation.user_id
        stored = [users[user_id] for users in moments if user_id in users]
        emails = [operation.values.get("email"), *(user.get("email") for user in stored)]
        others = [user.get("email") for users in moments for key, user in users.items() if key != user_id]
        teams = {operation.values.get("team_id"), *(user.get("team_id") for user in stored)}
        possible = {
            "ALREADY_EXISTS": operation.kind == "create" and bool(stored),
            "RECORD_NOT_FOUND": operation.kind == "update" and any(user_id not in users for users in moments),
            "NOT_UNIQUE": any(email is not None and email in others for email in emails),
            "FOREIGN_KEY": bool(teams & self.removed_teams)
            or any(not teams <= {*known, None} for known in self.teams_since(since)),
        }
        assert possible.get(problem.code), f"{operation} is refused: {problem.code}: {problem}"

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

    async def get(self, server: Server, user_id: str) -> None:
        """Compares a read by id with what was stored while it ran."""
        user: Any = server.db.catalog.entity("User").model
        since = virtual_time()
        try:
            found = await server.db.get(user, user_id)
        except ShardQLError as problem:
            self._check_refused_read(problem)
            return
        self.answers += 1
        shown = None if found is None else _values(found, server.release)
        possible = [_shown(users.get(user_id), server.release) for users in self.moments(since)]
        assert shown in possible, f"get {user_id} by {server.release}: {shown} instead of {possible}"

    async def search(self, server: Server, number: int) -> None:
        """Compares a search with what was stored while it ran, or shortly before if indexes lag."""
        queries = queries_of(server.release)
        index, arguments, matches, order = queries[number % len(queries)]
        user: Any = server.db.catalog.entity("User").model
        since = virtual_time() - self.engine.faults.lag
        try:
            page = await server.db.search(getattr(user, index), limit=50, **arguments)
        except ShardQLError as problem:
            self._check_refused_read(problem)
            return
        self.answers += 1
        what, release = f"{index} {arguments} by {server.release}", server.release
        moments = self.moments(since)
        found = {record.user_id: _values(record, release) for record in page.items}
        assert len(found) == len(page.items), f"{what}: a user twice in {page.items}"
        positions = [order(key, user) for key, user in found.items()]
        assert positions == sorted(positions), f"{what}: {positions} are not in order"
        for user_id in IDS:
            possible = [
                shown if (shown := _shown(users.get(user_id), release)) is not None and matches(shown) else None
                for users in moments
            ]
            assert found.get(user_id) in possible, (
                f"{what}: {user_id} is {found.get(user_id)} instead of {possible}, with {self.states}"
            )

    def _check_refused_read(self, problem: ShardQLError) -> None:
        self.refusals.add(problem.code)
        assert problem.retryable, problem

    # --- clients -----------------------------------------------------------------------------------------------

    async def act(self, server: Server) -> None:
        """One random request of a client."""
        random = self.random
        kind = random.choices(["create", "put", "update", "delete", "team", "get", "search"], [3, 2, 4, 1, 1, 2, 8])[0]
        user_id = random.choice(IDS)
        if kind == "get":
            await self.get(server, user_id)
        elif kind == "search":
            await self.search(server, random.randrange(100))
        elif kind == "team":
            await self.write_team(server, random.choice(["red", "blue"]), removes=random.random() < 0.4)
        else:
            await self.write(server, kind, user_id, self.random_values())

    def random_values(self) -> User:
        """The properties of a user."""
        choose = self.random.choice
        return {"name": choose(NAMES), "town": choose(TOWNS), "email": choose(EMAILS), "team_id": choose(TEAMS)}


STORED = {"userId": "user_id", "name": "name", "town": "town", "email": "email", "teamId": "team_id"}


def properties(item: Item | None) -> User | None:
    """The properties in a stored user that clients provide, without nulls."""
    if item is None:
        return None
    return {name: item[stored] for stored, name in STORED.items() if name != "user_id" and item.get(stored) is not None}


def properties_equal(one: User | None, other: User | None) -> bool:
    """Whether two users have the same properties; null is like missing."""
    if one is None or other is None:
        return one is other
    return all(one.get(name) == other.get(name) for name in one.keys() | other.keys())


def _shown(user: User | None, release: Release) -> User | None:
    return None if user is None else {name: user.get(name) for name in release.properties}


def _values(record: Any, release: Release) -> User:
    return {name: getattr(record, name) for name in release.properties}

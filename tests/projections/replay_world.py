"""Servers of two releases that apply posted events and answer reads while replays run, in virtual time, with faults."""

import asyncio
from asyncio import Runner, Task
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from json import dumps
from pathlib import Path
from random import Random
from secrets import SystemRandom
from typing import Any, Literal
from unittest.mock import patch

from graphql_api import Catalog, Entity, Event, Graph, Id, Index, Set, projection
from graphql_api.codecs import RecordKeySeal
from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from graphql_api.evolution import MigrationSettings, prepare_table, read_record, served_version
from graphql_api.evolution.migration import _Migration
from graphql_api.evolution.schema_copy import SchemaCopy, read_copy
from graphql_api.evolution.table_schema import LeasedSchema
from graphql_api.projections import StreamProjector, parse_envelope, replay
from graphql_api.query import TokenSeal
from graphql_api.runtime import RetryStrategy
from tests.evolution.late_store import (
    LEASE,
    LIFE,
    MARGIN,
    START,
    Engine,
    Faults,
    ServerStore,
    VirtualLoop,
    at_once,
    memory_folder,
    seeded_pauses,
    virtual_time,
)

SEAL = TokenSeal((b"a secret of thirty-two bytes only",))
STREAMS = ("a", "b", "c")
OWNER = "ann"
SILENT = 3
"""every third event has no operations"""
LONGEST = 4_000.0
"""virtual seconds of a schedule"""
POST = RetryStrategy(first_backoff_seconds=0.2, max_backoff_seconds=1.0, max_attempts=3)


class Counted(Event):
    """An event with its own number."""

    type: Literal["Counted"] = "Counted"
    account_id: str
    count: int


class Account(Entity):
    """The last event of a stream."""

    account_id: Id[str]
    owner: str = OWNER
    count: int
    built_by: int

    by_owner = Index(hash="owner")


class NextAccount(Account, name="account", version=2):
    """The same, as the next release builds it."""

    by_owner = Index(hash="owner")


def _operations(model: type[Account], event: Counted, release: int) -> list[Set]:
    is_silent = event.count % SILENT == 0
    return [] if is_silent else [Set(model(account_id=event.account_id, count=event.count, built_by=release))]


@projection(Account, source="log", name="accounts")
def accounts(event: Counted) -> list[Set]:
    """The projection of the first release."""
    return _operations(Account, event, 1)


def accounts_before(event: Counted) -> list[Set]:
    """What the first release makes of an event."""
    return _operations(NextAccount, event, 1)


@projection(NextAccount, source="log", name="accounts", previous=accounts_before)
def next_accounts(event: Counted) -> list[Set]:
    """The projection of the next release."""
    return _operations(NextAccount, event, 2)


OLDER, NEWER = (
    Graph(Catalog(Account), projections=[accounts]),
    Graph(Catalog(NextAccount), projections=[next_accounts]),
)


@dataclass
class Server:
    """A process of one release."""

    graph: Graph
    store: ServerStore
    db: Database

    @property
    def projector(self) -> StreamProjector:
        """Applies events as they are posted."""
        (one,) = self.graph.sources["log"].projections
        return StreamProjector(self.db, one, retries=POST)


@dataclass
class ReplayWorld:
    """One random schedule. A wrong answer raises `AssertionError`."""

    random: Random
    faults: Faults
    engine: Engine
    stack: AsyncExitStack
    servers: list[Server] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    log: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STREAMS, 0))
    """the last event of each stream in the log, which is posted next or was posted"""
    acknowledged: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STREAMS, 0))
    answers: int = 0
    answered_by: set[int] = field(default_factory=set)
    refusals: set[str] = field(default_factory=set)
    failure: BaseException | None = None

    def note(self, text: str) -> None:
        """Notes what happened, for the message of a failing schedule."""
        self.events.append(f"{virtual_time():8.2f} {text}")

    # --- processes ---------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def opened(self, catalog: Catalog, store: ServerStore) -> AsyncIterator[Database]:
        """A process opens the table."""
        copy: SchemaCopy | None = None
        while copy is None:
            try:
                await prepare_table(store, catalog, lease_seconds=LEASE)
                copy = await read_copy(store, catalog, store.clocks)
            except ShardQLError as problem:
                if not problem.retryable:
                    raise
                await store.pause(1)
        waits: dict[str, Any] = {"margin_seconds": MARGIN, "life_seconds": LIFE, "settles": True}
        async with LeasedSchema(store, catalog, copy, store.clocks, store.pause, **waits) as schema:
            yield Database(
                catalog, store, SEAL, lambda: START + virtual_time(), key_seal=RecordKeySeal(b"s" * 32), schema=schema
            )

    async def start(self, graph: Graph) -> None:
        """Starts a server."""
        store = ServerStore(self.engine)
        db = await self.stack.enter_async_context(self.opened(graph.catalog, store))
        self.servers.append(Server(graph, store, db))

    def settings(self, store: ServerStore, *, drop: bool = False) -> MigrationSettings:
        """How replays and migrations wait."""
        return MigrationSettings(
            drop=drop, segments=1, margin_seconds=MARGIN, life_seconds=LIFE, clock=lambda: START + virtual_time(),
            timer=virtual_time, sleep=store.pause,
        )  # fmt: skip

    async def replay(self, store: ServerStore) -> None:
        """Runs a replay over the log until servers use the new version. Errors that may pass begin it again."""

        async def chunks() -> AsyncIterator[Sequence[bytes]]:
            ends = self.log if self.random.random() < 0.7 else self.acknowledged
            yield [_line(stream, count) for stream in STREAMS for count in range(1, ends[stream] + 1)]

        while True:
            try:
                result = await replay(
                    lambda catalog: self.opened(catalog, store),
                    NEWER.catalog,
                    NEWER.sources["log"],
                    chunks,
                    settings=self.settings(store),
                )
            except ShardQLError as problem:
                self.note(f"replay fails: {problem}")
                if not problem.retryable and problem.code not in {"SCHEMA_CHANGED", "WRONG_TABLE"}:
                    raise
            else:
                self.note(f"replay ends: {result and (result.is_switched, [*map(str, result.missing)])}")
                if result is None or result.is_switched:
                    return
            await store.pause(1)

    async def drop(self) -> None:
        """Removes the version before, as `migrate --drop`."""
        store = ServerStore(self.engine)
        while True:
            try:
                async with self.opened(NEWER.catalog, store) as db:
                    assert db.schema is not None
                    run = _Migration(
                        store, NEWER.catalog, db.schema, self.settings(store, drop=True), lambda _: None
                    ).run()
                    self.note(f"dropped {(await run).dropped}")
                    return
            except ShardQLError as problem:
                if not problem.retryable:
                    raise
                await store.pause(1)

    def version(self) -> int:
        """The version that the table's record says is served."""
        record = at_once(read_record(self.engine.table))
        assert record is not None
        return served_version(record, "account")

    # --- clients -----------------------------------------------------------------------------------------------

    async def post(self, stream: str) -> None:
        """Posts the next event of a stream, and again until a server has applied it."""
        self.log[stream] += 1
        last, first = self.log[stream], self.log[stream]
        while True:
            server = self.random.choice(self.servers)
            events = [parse_envelope(_event(stream, count)) for count in range(first, last + 1)]
            try:
                result = await server.projector.apply(stream, events)
            except ShardQLError as problem:
                self.refusals.add(problem.code)
                if not problem.retryable:
                    raise
            else:
                assert not result.dead, result.dead
                if not result.waiting:
                    self.acknowledged[stream] = last
                    return
                first = result.expected
            await asyncio.sleep(self.random.uniform(0, 1))

    async def read(self) -> None:
        """Compares the answer of a server with the events that were acknowledged before it, and posted until then."""
        server, stream = self.random.choice(self.servers), self.random.choice(STREAMS)
        least = _shown(self.acknowledged[stream])
        is_search = self.random.random() < 0.5 and not self.faults.lag
        (model,) = (spec.model for spec in server.graph.catalog.entities.values())
        account: Any = None
        try:
            if is_search:
                page = await server.db.search(getattr(model, "by_owner"), owner=OWNER)  # noqa: B009 - of any release
                account = next((one for one in page.items if one.account_id == stream), None)
            else:
                account = await server.db.get(model, stream, consistent=True)
        except ShardQLError as problem:
            self.refusals.add(problem.code)
            if not problem.retryable:
                raise
            return
        count = 0 if account is None else account.count
        self.answers += 1
        self.answered_by |= set() if account is None else {account.built_by}
        where = f"{stream} by release {1 + self.servers.index(server) % 2}, version {self.version()}"
        assert least <= count <= self.log[stream], f"{where}: {count} instead of {least} to {self.log[stream]}"

    async def _forever(self, act: Any, pace: float) -> None:
        try:
            while True:
                await asyncio.sleep(self.random.expovariate(1 / pace))
                await act()
        except AssertionError as problem:
            self.failure = self.failure or problem

    async def _disturb(self) -> None:
        server = self.random.choice(self.servers)
        seconds = self.random.choice([1, 2, 4, 12]) * LEASE * self.random.random()
        (server.store.freeze if self.random.random() < 0.5 else server.store.cut)(seconds)

    # --- the schedule ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Runs servers, clients and replays until the new version is served and checked."""
        random = self.random
        await self.start(OLDER)
        await self.start(NEWER)
        pace = random.choice([0.3, 1.0, 4.0])
        clients = [
            asyncio.create_task(self._forever(lambda stream=stream: self.post(stream), pace)) for stream in STREAMS
        ]
        clients += [asyncio.create_task(self._forever(self.read, 0.2)) for _ in range(3)]
        if random.random() < 0.7:
            clients.append(asyncio.create_task(self._forever(self._disturb, random.choice([10.0, 40.0]))))
        await asyncio.sleep(random.uniform(1, 4 * LEASE))
        await self._watch([asyncio.create_task(self._replays()) for _ in range(random.choice([1, 1, 2]))])
        if random.random() < 0.5:
            await self._watch([asyncio.create_task(self.drop())])
        await asyncio.sleep(random.uniform(0, 12 * LEASE))
        await self._watch([])
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        await self._settle()

    async def _replays(self) -> None:
        """Runs a replay that may be killed and frozen, and once more."""
        random = self.random
        while random.random() < 0.4:
            run = asyncio.create_task(self.replay(ServerStore(self.engine)))
            await asyncio.sleep(random.uniform(0, 14 * LEASE))
            run.cancel()
            with suppress(asyncio.CancelledError):
                await run
            self.note("replay is killed")
        store = ServerStore(self.engine)
        run = asyncio.create_task(self.replay(store))
        while not run.done():
            await asyncio.sleep(random.uniform(0, 2 * LEASE))
            if random.random() < 0.05:
                store.freeze(random.choice([1, 12]) * LEASE * random.random())
        run.result()

    async def _watch(self, tasks: Sequence["Task[None]"]) -> None:
        """Waits until tasks have ended. The first wrong answer ends the schedule."""
        while True:
            if self.failure is not None:
                raise self.failure
            if self.engine.problems:
                raise self.engine.problems[0]
            if all(task.done() for task in tasks):
                break
            assert virtual_time() < LONGEST, "the schedule does not end"
            await asyncio.sleep(0.5)
        for task in tasks:
            task.result()

    async def _settle(self) -> None:
        """All servers answer the fold of all events, built by the next release alone."""
        await asyncio.sleep(2 * LIFE + 12 * LEASE)
        self.faults.slow = self.faults.lost = self.faults.slow_reads = 0.0
        for server in self.servers:
            server.store.cut_until = server.store.frozen_until = 0.0
        await asyncio.sleep(LEASE)
        assert self.version() == 2
        newer = self.servers[1]
        for stream in STREAMS:
            events = [parse_envelope(_event(stream, count)) for count in range(1, self.log[stream] + 1)]
            await newer.projector.apply(stream, events)
            for server in self.servers:
                (model,) = (spec.model for spec in server.graph.catalog.entities.values())
                account: Any = await server.db.get(model, stream, consistent=True)
                shown = _shown(self.log[stream])
                assert (account and (account.count, account.built_by)) == ((shown, 2) if shown else None)


def _shown(count: int) -> int:
    """The last event up to this one that has operations."""
    return count if count % SILENT or not count else count - 1


def _event(stream: str, count: int) -> dict[str, Any]:
    return {"stream": stream, "seq": count, "type": "Counted", "data": {"accountId": stream, "count": count}}


def _line(stream: str, count: int) -> bytes:
    return dumps(_event(stream, count)).encode()


@contextmanager
def _seeded_retries(random: Random) -> Iterator[None]:
    with patch.object(SystemRandom, "random", lambda _: random.random()):
        yield


def run_schedule(seed: int) -> ReplayWorld:
    """Runs one schedule."""
    random = Random(seed)
    choose = random.choice
    faults = Faults(slow=choose([0, 0.05, 0.3]), lost=choose([0, 0, 0.03]), slow_reads=choose([0, 0, 0.4]))
    worlds: list[ReplayWorld] = []

    async def run(folder: Path) -> None:
        async with AsyncExitStack() as stack:
            engine = Engine(folder, random, faults)
            stack.callback(engine.end)
            worlds.append(ReplayWorld(random, faults, engine, stack))
            await worlds[0].run()

    with (
        memory_folder() as folder,
        seeded_pauses(random),
        _seeded_retries(random),
        Runner(loop_factory=VirtualLoop) as runner,
    ):
        try:
            runner.run(run(folder))
        except AssertionError as problem:
            problem.add_note("\n".join([f"seed {seed}", *worlds[0].events[-80:]]))
            raise
    return worlds[0]

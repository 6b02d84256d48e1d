"""Test catalog of a library with constraints, an integrity check, and a scheduler that interleaves store calls."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from graphql_api import (
    Catalog,
    Created,
    Entity,
    ForeignKey,
    Id,
    Immutable,
    Index,
    Int32,
    Shards,
    SubId,
    Timestamp,
    TimestampMs,
    Ttl,
    Unique,
    UniqueTogether,
    Updated,
    Version,
    canonical,
    counter,
    derived,
    generated,
)
from graphql_api.database import Database
from graphql_api.errors import ShardQLError, StoreError
from graphql_api.model.specs import ForeignKeySpec
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.port import Store
from graphql_api.storage.values import (
    Item,
    Key,
    RangeRead,
    ReadResult,
    ScanPage,
    TableDefinition,
    TransactionWrite,
    Write,
)
from graphql_api.writes.constraints import constraint_items, owner_key
from graphql_api.writes.item_keys import item_key
from tests.support.fake_clock import FakeClock
from tests.support.store_doubles import all_items

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
NOW = 1_800_000_000.25


class Author(Entity, shards=Shards(1).then(4, since=1_000)):
    """An author of books."""

    author_id: Id[str] = generated()
    created: Created[TimestampMs]
    updated: Updated[Timestamp]
    version: Version[Int32]
    name: str
    name_canonical: Unique[str] = derived(canonical, "name")
    mentor_id: str | None = None

    by_name = Index(sort="name_canonical")
    of_mentor = ForeignKey("Author", by="mentor_id")


class Book(Entity, shards=Shards(3)):
    """A book with an author and an optional editor."""

    book_id: Id[str]
    author_id: str
    editor_id: str | None = None
    isbn: Unique[str | None] = None
    shelf: int = 1
    place: int | None = None
    language: Immutable[str] = "en"

    by_author = Index(hash="author_id", sort="book_id")
    unique_place = UniqueTogether("shelf", "place")
    of_author = ForeignKey("Author", by="author_id")
    of_editor = ForeignKey("Author", by="editor_id")


class Loan(Entity, shards=Shards(2), current="~current"):
    """The loans of a book, with a current record."""

    loan_id: Id[str]
    at: SubId[str]
    card: Unique[str]
    author_id: str | None = None
    updated: Updated[Timestamp] = 0

    of_author = ForeignKey("Author", by="author_id")


class Pass(Entity):
    """A library card that expires."""

    card_id: Id[str]
    code: Unique[str]
    author_id: str | None = None
    until: Ttl[Timestamp] | None = None

    of_author = ForeignKey("Author", by="author_id")


class Ticket(Entity):
    """A numbered ticket of a desk. Its number is part of its id."""

    desk: Id[str]
    num: Id[Int32] = counter("desk")
    note: str = ""


class Diary(Entity, shards=Shards(2).then(8, since=1_000)):
    """A history without a current record, over two shard generations."""

    diary_id: Id[str]
    at: SubId[int]
    created: Created[Timestamp]
    version: Version[Int32]
    mood: Unique[str | None] = None


class Visit(Entity, shards=Shards(2).then(8, since=1_000), current="~current"):
    """A history with a current record, over two shard generations."""

    visit_id: Id[str]
    at: SubId[str]
    began: Created[Timestamp]
    note: str | None = None


CATALOG = Catalog(Author, Book, Loan, Pass, Ticket, Diary, Visit)


@dataclass
class Library:
    """The library of one tenant in a store."""

    store: Store
    tenant: str | None = None
    clock: FakeClock = field(default_factory=lambda: FakeClock(NOW))

    @property
    def db(self) -> Database:
        return self.through(self.store)

    def through(self, store: Store) -> Database:
        """A database of the same records over another store."""
        return Database(CATALOG, store, SEAL, clock=self.clock, tenant=self.tenant)

    async def items(self) -> dict[Key, Item]:
        """All items of this tenant."""
        prefix = "" if self.tenant is None else f"{self.tenant}|"
        return {item_key(item): item for item in await all_items(self.store) if _belongs_to(item_key(item), prefix)}

    async def check(self) -> None:
        """Checks that constraint items match the records exactly and that each referenced record exists.

        Expired items do not count, because the engine may not have removed them yet.
        """
        now = self.clock.now
        items = {key: item for key, item in (await self.items()).items() if not _is_expired(key, item, now)}
        expected: dict[Key, Key] = {}
        for key, item in items.items():
            entity = CATALOG.entities.get(_entity_name(key))
            is_entry = entity is not None and entity.current is not None and "_of" not in item
            if entity is None or is_entry:
                continue
            constraints = constraint_items(entity, item, self.tenant)
            for constraint_key in constraints:
                assert constraint_key not in expected, f"{key} and {expected[constraint_key]} share {constraint_key}"
                expected[constraint_key] = key
            for constraint_key, constraint_item in constraints.items():
                if not isinstance(constraint_item.constraint, ForeignKeySpec):
                    continue
                parent = constraint_item.constraint.parent
                (value,) = constraint_item.values
                named = [one for one in items if _entity_name(one) == parent.name and one.range == f"authorId#{value}"]
                if named == [key]:
                    del expected[constraint_key]
                assert len(named) == 1, f"{key} names {value}, of which there are {len(named)}"
        found = {key: owner_key(item) for key, item in items.items() if "_owner" in item}
        assert found == expected


def _is_expired(key: Key, item: Item, now: float) -> bool:
    entity = CATALOG.entities.get(_entity_name(key))
    ends = item.get("_until") if entity is None else item.get(entity.ttl.stored) if entity.ttl is not None else None
    return ends is not None and bool(ends <= now)


def _entity_name(key: Key) -> str:
    return key.hash.partition("!")[0].rpartition("|")[2]


def _belongs_to(key: Key, prefix: str) -> bool:
    head = key.hash.partition("!")[0]
    return head.startswith(prefix) and head.count("|") == (1 if prefix else 0) and _entity_name(key) != "shardql"


# --- interleaved writes ----------------------------------------------------------------------------------------

MAX_CONSECUTIVE_CALLS = 8
"""store calls"""

Operation = Callable[[Database], Awaitable[Any]]


class CallScheduler:
    """Interleaves concurrent operations, one store call at a time, in random order."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.waiting: dict[str, list[asyncio.Future[None]]] = {}
        self.running: set[str] = set()
        self.state_changed = asyncio.Event()
        self.calls = 0
        self.recent: list[str] = []

    @asynccontextmanager
    async def next_call(self, name: str) -> AsyncIterator[None]:
        """Waits until the operation may make its next call. Each of its concurrent calls waits separately."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(name, []).append(turn)
        self.state_changed.set()
        try:
            await turn
            yield
        finally:
            self.running.discard(name)
            self.state_changed.set()

    async def run(
        self, library: Library, operations: Mapping[str, Operation], *, crash: tuple[str, int] | None = None
    ) -> dict[str, Any]:
        """Runs operations and returns their results or errors. `crash` cancels one operation before a store call."""
        tasks = {
            name: asyncio.ensure_future(operation(library.through(ScheduledStore(library.store, self, name))))
            for name, operation in operations.items()
        }
        for task in tasks.values():
            task.add_done_callback(lambda _: self.state_changed.set())
        steps = dict.fromkeys(tasks, 0)
        while any(not task.done() for task in tasks.values()):
            busy = (not task.done() and name not in self.waiting for name, task in tasks.items())
            if self.running or any(busy):
                self.state_changed.clear()
                await self.state_changed.wait()
                continue
            name = self._next()
            turn, *others = self.waiting.pop(name)
            if others:
                self.waiting[name] = others
            if crash == (name, steps[name]):
                tasks[name].cancel()
            elif not turn.cancelled():
                turn.set_result(None)
                self.running.add(name)
                steps[name] += 1
                self.calls += 1
            await asyncio.sleep(0)
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        return {name: "crashed" if task.cancelled() else _result_or_error(task) for name, task in tasks.items()}

    def _next(self) -> str:
        """Picks a random waiting operation, but no operation too often in a row, so that none exhausts its retries."""
        others = [name for name in sorted(self.waiting) if self.recent != [name] * MAX_CONSECUTIVE_CALLS]
        name = self.random.choice(others or sorted(self.waiting))
        self.recent = [*self.recent, name][-MAX_CONSECUTIVE_CALLS:]
        return name


def _result_or_error(task: "asyncio.Future[Any]") -> Any:
    problem = task.exception()
    if problem is None:
        return task.result()
    if isinstance(problem, ShardQLError):
        return problem
    raise problem


class ScheduledStore:
    """The store of one operation, which waits for the scheduler before each call.

    It is no `ForwardingStore`: operations must not share counters, as they would in one process. One that waited for
    the counter of another would not wait for the scheduler.
    """

    def __init__(self, inner: Store, scheduler: CallScheduler, name: str) -> None:
        self.inner = inner
        self.scheduler = scheduler
        self.name = name

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        async with self.scheduler.next_call(self.name):
            return await self.inner.read_ranges(reads, want)

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        async with self.scheduler.next_call(self.name):
            return await self.inner.get_many(keys, consistent)

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        async with self.scheduler.next_call(self.name):
            return await self.inner.write(writes)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        async with self.scheduler.next_call(self.name):
            await self.inner.write_together(writes, token)

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        raise NotImplementedError("a write never scans")

    async def describe(self) -> TableDefinition | None:
        raise NotImplementedError("a write never describes the table")

    async def ensure_table(self, definition: TableDefinition) -> None:
        raise NotImplementedError("a write never changes the table")

    async def drop_index(self, name: str) -> None:
        raise NotImplementedError("a write never changes the table")

    async def close(self) -> None:
        raise NotImplementedError("the library closes its store")

"""A library whose records are bound to one another, and what must hold of it whatever happens; writes in turns."""

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
from graphql_api.errors import ShardQLError
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key, RangeRead, ReadResult, TransactionWrite, Write
from graphql_api.writes.constraints.constraint_items import unique_items, owner_key, reference_items
from graphql_api.writes.item_keys import item_key
from tests.clocks import Clock
from tests.stores import WrappedStore, all_items

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
NOW = 1_800_000_000.25


class Author(Entity, shards=Shards(1).then(4, since=1_000)):
    """Who writes books."""

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
    """What they write."""

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
    """Where a book was, and is."""

    loan_id: Id[str]
    at: SubId[str]
    card: Unique[str]
    author_id: str | None = None
    updated: Updated[Timestamp] = 0

    of_author = ForeignKey("Author", by="author_id")


class Pass(Entity):
    """What opens the door for a while."""

    card_id: Id[str]
    code: Unique[str]
    author_id: str | None = None
    until: Ttl[Timestamp] | None = None

    of_author = ForeignKey("Author", by="author_id")


class Ticket(Entity):
    """Whose number is called next; by its number it is known."""

    desk: Id[str]
    num: Id[Int32] = counter("desk")
    note: str = ""


class Diary(Entity, shards=Shards(2).then(8, since=1_000)):
    """A history without a current record, over generations of shards."""

    diary_id: Id[str]
    at: SubId[int]
    created: Created[Timestamp]
    version: Version[Int32]
    mood: Unique[str | None] = None


class Visit(Entity, shards=Shards(2).then(8, since=1_000), current="~current"):
    """A history with a current record, over generations of shards."""

    visit_id: Id[str]
    at: SubId[str]
    began: Created[Timestamp]
    note: str | None = None


CATALOG = Catalog(Author, Book, Loan, Pass, Ticket, Diary, Visit)


@dataclass
class Shelf:
    """The library on a store, as one tenant has it."""

    store: Store
    tenant: str | None = None
    clock: Clock = field(default_factory=lambda: Clock(NOW))

    @property
    def db(self) -> Database:
        return self.through(self.store)

    def through(self, store: Store) -> Database:
        """The same records through another store."""
        return Database(CATALOG, store, SEAL, clock=self.clock, tenant=self.tenant)

    async def items(self) -> dict[Key, Item]:
        """Everything that this tenant has stored."""
        slot = "" if self.tenant is None else f"{self.tenant}|"
        return {item_key(item): item for item in await all_items(self.store) if _of_slot(item_key(item), slot)}

    async def check(self) -> None:
        """Each unique value and foreign key has exactly the item that stands for it, and what is named is there.

        What has expired is not there any more, and what stands for it neither, until an engine removes them.
        """
        now = self.clock.now
        items = {key: item for key, item in (await self.items()).items() if not _is_over(key, item, now)}
        wanted: dict[Key, Key] = {}
        for key, item in items.items():
            entity = CATALOG.entities.get(_head(key))
            is_entry = entity is not None and entity.current is not None and "_of" not in item
            if entity is None or is_entry:
                continue
            references = reference_items(entity, item, self.tenant)
            for bound in [*unique_items(entity, item, self.tenant), *references]:
                assert bound not in wanted, f"{key} and {wanted[bound]} share {bound}"
                wanted[bound] = key
            for reference in references.values():
                parent = reference.foreign_key.parent
                (value,) = reference.values
                named = [one for one in items if _head(one) == parent.name and one.range == f"authorId#{value}"]
                if named == [key]:
                    del wanted[next(bound for bound, one in references.items() if one is reference)]
                assert len(named) == 1, f"{key} names {value}, of which there are {len(named)}"
        found = {key: owner_key(item) for key, item in items.items() if "_owner" in item}
        assert found == wanted


def _is_over(key: Key, item: Item, now: float) -> bool:
    entity = CATALOG.entities.get(_head(key))
    ends = item.get("_until") if entity is None else item.get(entity.ttl.stored) if entity.ttl is not None else None
    return ends is not None and bool(ends <= now)


def _head(key: Key) -> str:
    return key.hash.partition("!")[0].rpartition("|")[2]


def _of_slot(key: Key, slot: str) -> bool:
    head = key.hash.partition("!")[0]
    return head.startswith(slot) and head.count("|") == (1 if slot else 0) and _head(key) != "shardql"


# --- writes in turns -------------------------------------------------------------------------------------------

MAX_IN_A_ROW = 8
"""turns"""

Operation = Callable[[Database], Awaitable[Any]]


class Turns:
    """Lets several operations go on one call of the store at a time, in an order that is drawn."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.waiting: dict[str, list[asyncio.Future[None]]] = {}
        self.going_on: set[str] = set()
        self.changed = asyncio.Event()
        self.calls = 0
        self.row: list[str] = []

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Waits for one's turn; some operations make several calls at once, each of which is a turn."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(name, []).append(turn)
        self.changed.set()
        try:
            await turn
            yield
        finally:
            self.going_on.discard(name)
            self.changed.set()

    async def run(
        self, shelf: Shelf, operations: Mapping[str, Operation], *, crash: tuple[str, int] | None = None
    ) -> dict[str, Any]:
        """What becomes of each: what it gives, or its error; one may end in the middle, before a call of the store."""
        tasks = {
            name: asyncio.ensure_future(operation(shelf.through(InTurns(shelf.store, self, name))))
            for name, operation in operations.items()
        }
        for task in tasks.values():
            task.add_done_callback(lambda _: self.changed.set())
        taken = dict.fromkeys(tasks, 0)
        while any(not task.done() for task in tasks.values()):
            busy = (not task.done() and name not in self.waiting for name, task in tasks.items())
            if self.going_on or any(busy):
                self.changed.clear()
                await self.changed.wait()
                continue
            name = self._next()
            turn, *others = self.waiting.pop(name)
            if others:
                self.waiting[name] = others
            if crash == (name, taken[name]):
                tasks[name].cancel()
            elif not turn.cancelled():
                turn.set_result(None)
                self.going_on.add(name)
                taken[name] += 1
                self.calls += 1
            await asyncio.sleep(0)
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        return {name: "crashed" if task.cancelled() else _outcome(task) for name, task in tasks.items()}

    def _next(self) -> str:
        """Anyone who waits, but nobody so often in a row that they would give up waiting for the others."""
        others = [name for name in sorted(self.waiting) if self.row != [name] * MAX_IN_A_ROW]
        name = self.random.choice(others or sorted(self.waiting))
        self.row = [*self.row, name][-MAX_IN_A_ROW:]
        return name


def _outcome(task: "asyncio.Future[Any]") -> Any:
    problem = task.exception()
    if problem is None:
        return task.result()
    if isinstance(problem, ShardQLError):
        return problem
    raise problem


class InTurns(WrappedStore):
    """A store as one of the operations has it."""

    def __init__(self, inner: Store, turns: Turns, name: str) -> None:
        super().__init__(inner)
        self.turns = turns
        self.name = name

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        async with self.turns.turn(self.name):
            return await super().read_ranges(reads, want)

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        async with self.turns.turn(self.name):
            return await super().get_many(keys, consistent)

    async def write(self, writes: Sequence[Write]) -> Any:
        async with self.turns.turn(self.name):
            return await super().write(writes)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        async with self.turns.turn(self.name):
            await super().write_together(writes, token)

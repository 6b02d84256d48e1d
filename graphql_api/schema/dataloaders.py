"""Every read of one request: what is asked for at the same moment is read together, and nothing is read twice.

All fields read through `Reads`, so that rules of access have one place to stand at.
"""

from asyncio import create_task, shield, sleep
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from graphql_api.database import Database, first_of
from graphql_api.errors import QueryTooCostly, ShardQLError
from graphql_api.model import Entity, EntitySpec
from graphql_api.query import PYTHON, Dialect, SearchRequest
from graphql_api.query.execution import Count, Page, RecordRead
from graphql_api.storage import Key

T = TypeVar("T")

Path = Sequence[str | int]
"""where in the answer a field stands"""

Told = Callable[[Path, Mapping[str, Any]], None]
"""takes what a read has done, and for which field"""

MAX_LISTED = 10_000
"""records that the lists of ids in one operation may name: what they hold is known too late for its cost"""

QUIET = 3
"""Turns of the event loop in which nobody asks for more: fields that lie deeper in the answer begin a little later."""


class Shared(Generic[T]):
    """Work that several wait for: it runs once, and is given up when nobody waits for it any more."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._task = create_task(work)
        self._waiting = 0
        self.given_up = False

    async def wait(self) -> T:
        """What comes out of it, or the error that it ends with."""
        self._waiting += 1
        try:
            return await shield(self._task)
        finally:
            self._waiting -= 1
            if not self._waiting and not self._task.done():
                self.given_up = True
                self._task.cancel()


Answers = Mapping[Hashable, Entity | ShardQLError | None]


class _Batch:
    """Reads by key that become one call of the store."""

    def __init__(self, work: Callable[["_Batch"], Coroutine[Any, Any, Answers]]) -> None:
        self.reads: dict[Hashable, RecordRead] = {}
        self.fields: dict[str, Path] = {}
        """whose records they are, each with the place where it stands first"""
        self.answers = Shared(work(self))

    def add(self, wanted: Hashable, read: RecordRead, path: Path) -> None:
        """Takes a read in, and for which field it is."""
        self.reads[wanted] = read
        self.fields.setdefault(".".join(part for part in path if isinstance(part, str)), path)


class Reads:
    """The reads of one request.

    Where `keeps` is false nothing is read from memory: in a mutation, a later field sees what an earlier one wrote.
    """

    def __init__(self, database: Database, told: Told | None = None, *, keeps: bool = True) -> None:
        self._database = database
        self._told = told
        self._keeps = keeps
        self._pages: dict[Hashable, Shared[Page[Any]]] = {}
        self._batches: dict[Hashable, _Batch] = {}
        self._open: dict[bool, _Batch] = {}
        """by consistency: batches that still take reads"""
        self._listed = 0

    # --- searches ----------------------------------------------------------------------------------------------

    async def page(self, request: SearchRequest, path: Path) -> Page[Any]:
        """A page of a search; this is the only way from a field to one."""
        if not self._keeps:
            return await self._page(replace(request, consistent=True), path)
        wanted = repr(replace(request, why=None))
        shared = self._pages.get(wanted)
        if shared is None or shared.given_up:
            shared = self._pages[wanted] = Shared(self._page(request, path, wanted))
        return await shared.wait()

    async def count(self, request: SearchRequest, at_most: Any, path: Path) -> Count:
        """How many records the whole answer has to which a page belongs."""
        counted = await self._database.count_of(request, at_most)
        if self._told is not None:
            self._told(path, counted.explain)
        return counted

    async def _page(self, request: SearchRequest, path: Path, wanted: Hashable = None) -> Page[Any]:
        try:
            page = await self._database.page(request)
        except Exception:
            self._pages.pop(wanted, None)  # Who asks again does not get an old failure.
            raise
        if self._told is not None:
            self._told(path, page.explain)
        return page

    # --- records by key ----------------------------------------------------------------------------------------

    def admit(self, listed: int) -> None:
        """Refuses a list of so many ids that the operation would read more than one may."""
        self._listed += listed
        if self._listed > MAX_LISTED:
            raise QueryTooCostly(
                f"The lists of ids in this answer name more than {MAX_LISTED:,} records: ask for fewer at once.",
                limit=MAX_LISTED,
            )

    async def record(
        self,
        entity: EntitySpec,
        values: Sequence[Any],
        path: Path,
        *,
        keys: Sequence[Key] | None = None,
        consistent: bool = False,
        together: bool = True,
        why: str | None = None,
        dialect: Dialect = PYTHON,
    ) -> Entity | None:
        """The record with these values of its primary key; this is the only way from a field to one.

        Without sub ids it is the present entry of the id. `keys`: where alone it can be, if that is known. `together`:
        in one call with what others ask for at the same moment.
        """
        consistent = consistent or not self._keeps
        read = RecordRead(entity, keys, consistent, why) if keys is not None else None
        wanted = read or self._database.wanted(entity, values, consistent=consistent, why=why, dialect=dialect)
        if isinstance(wanted, SearchRequest):
            return first_of(await self.page(wanted, path))
        answer = await self._answer(wanted, path, together=together)
        if isinstance(answer, ShardQLError):
            raise answer
        return answer

    async def _answer(self, read: RecordRead, path: Path, *, together: bool) -> Entity | ShardQLError | None:
        wanted = (read.entity.name, tuple(read.keys), read.consistent)
        batch = self._batches.get(wanted)
        if batch is None or batch.answers.given_up:
            batch = self._batches[wanted] = self._batch(together=together, consistent=read.consistent)
            batch.add(wanted, read, path)
        return (await batch.answers.wait())[wanted]

    def _batch(self, *, together: bool, consistent: bool) -> _Batch:
        """The batch that takes a read: one of its own, or the one that is open."""
        if not together:
            return _Batch(self._ask)
        batch = self._open.get(consistent)
        if batch is None or batch.answers.given_up:
            batch = self._open[consistent] = _Batch(self._ask_when_quiet)
        return batch

    async def _ask_when_quiet(self, batch: _Batch) -> Answers:
        """Waits until all fields of this level of the answer have asked."""
        known, quiet = 0, 0
        while quiet < QUIET:
            await sleep(0)
            known, quiet = len(batch.reads), quiet + 1 if len(batch.reads) == known else 0
        self._open = {consistent: other for consistent, other in self._open.items() if other is not batch}
        return await self._ask(batch)

    async def _ask(self, batch: _Batch) -> Answers:
        try:
            found = await self._database.read_records([*batch.reads.values()])
        except Exception:
            self._forget(batch)
            raise
        if not self._keeps:
            self._forget(batch)
        if self._told is not None and found.explain:
            fields = {"fields": [*batch.fields]} if len(batch.reads) > 1 else {}
            self._told(next(iter(batch.fields.values())), {**fields, **found.explain})
        return dict(zip(batch.reads, found.answers, strict=True))

    def _forget(self, batch: _Batch) -> None:
        """Lets whoever asks again read anew."""
        self._batches = {wanted: other for wanted, other in self._batches.items() if other is not batch}

"""The reads of one request: together, once, and given up when nobody waits for them any more."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Index
from graphql_api.database import Database
from graphql_api.errors import StoreUnavailable
from graphql_api.model.specs import EntitySpec
from graphql_api.query.search_request import SearchRequest
from graphql_api.schema.dataloaders import Dataloaders
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key, RangeRead, ReadResult
from tests.schema.asking import opened
from tests.stores import WrappedStore


class Note(Entity):
    """A note."""

    note_id: Id[str]
    text: str = "-"

    by_text = Index(sort="text")


CATALOG = Catalog(Note)
SPEC: EntitySpec = CATALOG.entity(Note)
SEARCH = SearchRequest("note", "by_text", {})


class Gate(WrappedStore):
    """Lets calls through when it is open; counts those that came, and those that were given up."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.open = asyncio.Event()
        self.open.set()
        self.came: list[int] = []
        self.all_came = asyncio.Event()
        """two have come"""
        self.given_up = 0
        self.fails = False

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        await self._pass(len(keys))
        return await super().get_many(keys, consistent)

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        await self._pass(len(reads))
        return await super().read_ranges(reads, want)

    async def _pass(self, size: int) -> None:
        self.came.append(size)
        if len(self.came) == 2:
            self.all_came.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        if self.fails:
            raise StoreUnavailable("The store is away: try again.")


@asynccontextmanager
async def reading(folder: Path, **how: Any) -> AsyncIterator[tuple[Dataloaders, Gate]]:
    """The reads of one request, over a store that can be held."""
    notes = [Note(note_id=f"n{at}", text=f"t{at}") for at in range(5)]
    async with opened(CATALOG, await open_sqlite(folder / "x.db"), *notes) as db:
        gate = Gate(db.store)
        yield Dataloaders(Database(CATALOG, gate, db.seal, db.clock), **how), gate


async def note(reads: Dataloaders, id: str, **how: Any) -> str | None:
    """The text of a note."""
    found = await reads.load_record(SPEC, [id], ["note"], **how)
    assert found is None or isinstance(found, Note)
    return None if found is None else found.text


async def test_records_that_are_asked_for_together(tmp_path: Path) -> None:
    """What is asked for at the same moment is one call, each key once; later asks for the same cost nothing."""
    async with reading(tmp_path) as (reads, gate):
        found = await asyncio.gather(*(note(reads, f"n{at % 6}") for at in range(12)))
        assert found == ["t0", "t1", "t2", "t3", "t4", None] * 2
        assert gate.came == [6]
        assert await note(reads, "n1") == "t1"
        assert gate.came == [6]


async def test_records_that_are_read_alone(tmp_path: Path) -> None:
    """A read that is to stand alone waits for no other, and joins none; consistent reads are other reads."""
    async with reading(tmp_path) as (reads, gate):
        asks = [
            note(reads, "n1", batch=False),
            note(reads, "n2"),
            note(reads, "n3"),
            note(reads, "n2", consistent=True),
        ]
        assert await asyncio.gather(*asks) == ["t1", "t2", "t3", "t2"]
        assert sorted(gate.came) == [1, 1, 2]


async def test_where_a_record_alone_can_be(tmp_path: Path) -> None:
    """Where it is known where a record lives, it is read there and nowhere else."""
    async with reading(tmp_path) as (reads, gate):
        assert await note(reads, "n1", keys=[Key("note!", "noteId#n4")]) == "t4"
        assert gate.came == [1]


async def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    """A batch or a search that failed is read again when somebody asks again."""
    async with reading(tmp_path) as (reads, gate):
        gate.fails = True
        for _ in range(2):
            failed = await asyncio.gather(note(reads, "n1"), note(reads, "n2"), return_exceptions=True)
            assert [type(one) for one in failed] == [StoreUnavailable] * 2
            with pytest.raises(StoreUnavailable):
                await reads.load_page(SEARCH, ["notes"])
        gate.fails = False
        assert await note(reads, "n1") == "t1"
        assert len((await reads.load_page(SEARCH, ["notes"])).items) == 5
        assert gate.came == [2, 1, 2, 1, 1, 1]


async def test_equal_searches_are_one(tmp_path: Path) -> None:
    """Who asks for the same gets the same page, also while it is still looked for; another page is another search."""
    async with reading(tmp_path) as (reads, gate):
        asks = [SEARCH, replace(SEARCH, why="Another reason."), replace(SEARCH, limit=1)]
        pages = await asyncio.gather(*(reads.load_page(ask, ["notes"]) for ask in asks))
        assert pages[0] is pages[1]
        assert [len(page.items) for page in pages] == [5, 5, 1]
        assert gate.came == [1, 1]


async def test_who_leaves_takes_nothing_from_others(tmp_path: Path) -> None:
    """Somebody who stops waiting ends neither a batch nor a search that others wait for."""
    async with reading(tmp_path) as (reads, gate):
        gate.open.clear()
        asks: list[asyncio.Task[Any]] = [
            asyncio.create_task(note(reads, "n1")),
            asyncio.create_task(note(reads, "n1")),
            asyncio.create_task(reads.load_page(SEARCH, ["notes"])),
            asyncio.create_task(reads.load_page(SEARCH, ["again"])),
        ]
        await gate.all_came.wait()
        asks[0].cancel()
        asks[2].cancel()
        gate.open.set()
        assert await asks[1] == "t1"
        assert len((await asks[3]).items) == 5
        assert asks[0].cancelled()
        assert asks[2].cancelled()
        assert (gate.came, gate.given_up) == ([1, 1], 0)


async def test_work_that_nobody_waits_for_ends(tmp_path: Path) -> None:
    """When the last one leaves, the call of the store is given up; who asks then begins anew."""
    async with reading(tmp_path) as (reads, gate):
        gate.open.clear()
        asks: list[asyncio.Task[Any]] = [
            asyncio.create_task(note(reads, "n1")),
            asyncio.create_task(reads.load_page(SEARCH, ["notes"])),
        ]
        await gate.all_came.wait()
        for ask in asks:
            ask.cancel()
        await asyncio.wait(asks)
        gate.open.set()
        assert await note(reads, "n1") == "t1"
        assert len((await reads.load_page(SEARCH, ["notes"])).items) == 5
        assert gate.given_up == 2
        assert len(gate.came) == 4


async def test_a_batch_that_is_left_before_it_is_sent(tmp_path: Path) -> None:
    """A batch whose only reader leaves before it is sent is never sent, and takes no later reader with it."""
    async with reading(tmp_path) as (reads, gate):
        first = asyncio.create_task(note(reads, "n1"))
        await asyncio.sleep(0)
        first.cancel()
        assert await asyncio.gather(*(note(reads, id) for id in ("n1", "n2"))) == ["t1", "t2"]
        assert gate.came == [2]


async def test_nothing_is_kept_where_something_is_written(tmp_path: Path) -> None:
    """In a mutation every read is made anew, and sees every write."""
    async with reading(tmp_path, cache=False) as (reads, gate):
        assert await asyncio.gather(*(note(reads, id) for id in ("n1", "n1"))) == ["t1", "t1"]
        assert await note(reads, "n1") == "t1"
        first, second = await reads.load_page(SEARCH, ["notes"]), await reads.load_page(SEARCH, ["notes"])
        assert first is not second
        assert gate.came == [1, 1, 1, 1]

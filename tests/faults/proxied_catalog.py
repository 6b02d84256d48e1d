"""Sample records, and traversals that compare the pages of a search with the expected result."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from random import Random
from typing import Any, Literal

from graphql_api import Catalog, Entity, Id, Index, Shards
from graphql_api.database import Database
from graphql_api.errors import StoreError
from graphql_api.model.markers import IndexRef
from graphql_api.query.execution.result_page import Page
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.port import Store

SHARDS = 16
RECORDS = 160
WIDE = 150
LIMIT = 12
SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
Policy = Literal["FAIL", "PARTIAL"]
Record = Mapping[str, Any]


class Thing(Entity, shards=Shards(SHARDS)):
    """A record with a unique value in one index and a shared value in the other."""

    key: Id[str]
    place: int
    word: str

    by_place = Index(sort="place")
    by_word = Index(sort="word", raw=True)


class Wide(Entity, shards=Shards(WIDE)):
    """A record of an entity with many shards."""

    key: Id[str]
    place: int

    by_place = Index(sort="place")


CATALOG = Catalog(Thing, Wide)


@cache
def records() -> Sequence[Thing]:
    """The sample records, the same in every run, in no order."""
    random = Random(16)
    places = random.sample(range(-10_000, 10_000), RECORDS)
    return [
        Thing(key=f"k{number}", place=place, word=random.choice(["alpha", "beta", "gamma", "gamma ray"]))
        for number, place in enumerate(places)
    ]


@cache
def sorted_wide_records() -> list[Wide]:
    """Records over many shards, in the order of the index."""
    places = Random(150).sample(range(10_000), 2 * WIDE)
    return sorted((Wide(key=f"w{place}", place=place) for place in places), key=lambda wide: wide.place)


def shard_of(thing: Thing) -> str:
    """The shard of a record, computed as in docs/reference/shards.md."""
    number = int.from_bytes(blake2b(thing.key.encode()).digest()[:8], "big") % SHARDS
    return f"0{'0123456789abcdef'[number]}"


def expected_things(index: IndexRef, *, reverse: bool = False, without: Sequence[str] = ()) -> list[Thing]:
    """The result of a search without the records of some shards. Tied records are in any order."""
    sort = index.attribute.removeprefix("by_")
    remaining = [thing for thing in records() if shard_of(thing) not in without]
    return sorted(remaining, key=lambda thing: getattr(thing, sort), reverse=reverse)


def database(store: Store) -> Database:
    """A database on a store."""
    return Database(CATALOG, store, SEAL, tenant="faults")


@dataclass
class Traversal:
    """Reads the pages of a search. After an error, the caller may retry with the same token."""

    db: Database
    index: IndexRef
    policy: Policy = "FAIL"
    reverse: bool = False
    pages: list[Page[Thing]] = field(default_factory=list)
    errors: list[StoreError] = field(default_factory=list)
    token: str | None = None

    async def read_page(self, limit: int = LIMIT) -> Page[Thing]:
        """Read one page, or raise the error of the store."""
        page = await self.db.search(
            self.index,
            reverse=self.reverse,
            limit=limit,
            next_token=self.token,
            on_shard_failure=self.policy,
        )
        if page.complete and page.next_token is not None:
            assert len(page.items) == limit
        self.pages.append(page)
        self.token = page.next_token
        return page

    async def read_rest(self, limit: int = 200, *, max_seconds: float = 10.0) -> None:
        """Read all remaining pages, and retry retryable errors."""
        async with asyncio.timeout(max_seconds):
            while not self.pages or self.token is not None:
                try:
                    await self.read_page(limit)
                except StoreError as error:
                    if not error.retryable:
                        raise
                    self.errors.append(error)
                    await asyncio.sleep(0.02)

    @property
    def results(self) -> list[Thing]:
        return [thing for page in self.pages for thing in page.items]

    def verify(self) -> None:
        """Verify that every record was returned once, and in order unless a shard failed."""
        assert sorted(thing.key for thing in self.results) == sorted(thing.key for thing in records())
        assert {thing.key: thing for thing in self.results} == {thing.key: thing for thing in records()}
        for page in self.pages:
            self.verify_order(page.items)
            assert page.complete == (not page.shards.failed)
        if all(page.complete for page in self.pages):
            self.verify_order(self.results)

    def verify_order(self, things: Sequence[Thing]) -> None:
        sort = self.index.attribute.removeprefix("by_")
        values = [getattr(thing, sort) for thing in things]
        assert values == sorted(values, reverse=self.reverse)

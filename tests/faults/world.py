"""Records behind a proxy, and walks over them: what must come, worked out from plain values with `sorted`."""

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
    """A record with a place of its own in one order, and one of many at a place of the other."""

    key: Id[str]
    place: int
    word: str

    by_place = Index(sort="place")
    by_word = Index(sort="word", raw=True)


class Wide(Entity, shards=Shards(WIDE)):
    """A record of many shards."""

    key: Id[str]
    place: int

    by_place = Index(sort="place")


CATALOG = Catalog(Thing, Wide)


@cache
def records() -> Sequence[Thing]:
    """The same records in every run, in no order."""
    random = Random(16)
    places = random.sample(range(-10_000, 10_000), RECORDS)
    return [
        Thing(key=f"k{number}", place=place, word=random.choice(["alpha", "beta", "gamma", "gamma ray"]))
        for number, place in enumerate(places)
    ]


@cache
def wide_answer() -> list[Wide]:
    """Records over many shards, in their order."""
    places = Random(150).sample(range(10_000), 2 * WIDE)
    return sorted((Wide(key=f"w{place}", place=place) for place in places), key=lambda wide: wide.place)


def shard_of(thing: Thing) -> str:
    """The shard that a record must be in, by the definition in docs/shards.md."""
    number = int.from_bytes(blake2b(thing.key.encode()).digest()[:8], "big") % SHARDS
    return f"0{'0123456789abcdef'[number]}"


def answer(index: IndexRef, *, reverse: bool = False, without: Sequence[str] = ()) -> list[Thing]:
    """The whole answer of a search, without some shards; records that tie are left in any order."""
    sort = index.attribute.removeprefix("by_")
    left = [thing for thing in records() if shard_of(thing) not in without]
    return sorted(left, key=lambda thing: getattr(thing, sort), reverse=reverse)


def database(store: Store) -> Database:
    """The records as they are seen through a store."""
    return Database(CATALOG, store, SEAL, tenant="faults")


@dataclass
class Walk:
    """A walk from page to page, as a caller would do it: after an error it asks again with the token that it has."""

    db: Database
    index: IndexRef
    policy: Policy = "FAIL"
    reverse: bool = False
    pages: list[Page[Thing]] = field(default_factory=list)
    errors: list[StoreError] = field(default_factory=list)
    token: str | None = None

    async def step(self, limit: int = LIMIT) -> Page[Thing]:
        """One page, or the error of the store."""
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

    async def on(self, limit: int = 200, *, patience: float = 10.0) -> None:
        """All that is left, by large pages; errors that a caller may retry are retried."""
        async with asyncio.timeout(patience):
            while not self.pages or self.token is not None:
                try:
                    await self.step(limit)
                except StoreError as problem:
                    if not problem.retryable:
                        raise
                    self.errors.append(problem)
                    await asyncio.sleep(0.02)

    @property
    def found(self) -> list[Thing]:
        return [thing for page in self.pages for thing in page.items]

    def check(self) -> None:
        """Every record came once and no other; each page is in order, and while no shard failed all of them are."""
        assert sorted(thing.key for thing in self.found) == sorted(thing.key for thing in records())
        assert {thing.key: thing for thing in self.found} == {thing.key: thing for thing in records()}
        for page in self.pages:
            self.check_order(page.items)
            assert page.complete == (not page.shards.failed)
        if all(page.complete for page in self.pages):
            self.check_order(self.found)

    def check_order(self, things: Sequence[Thing]) -> None:
        sort = self.index.attribute.removeprefix("by_")
        values = [getattr(thing, sort) for thing in things]
        assert values == sorted(values, reverse=self.reverse)

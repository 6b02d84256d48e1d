"""Counting reads of each record only what tells whether it counts."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any

import pytest
from pydantic import Field

from graphql_api import Catalog, Entity, Id, Index, Shards, Timestamp, Ttl, Union, canonical, derived, stored
from graphql_api.database import Database
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from graphql_api.storage.values import RangeRead, ReadResult
from tests.stores import ReadByRead, Stingy, WrappedStore

NOW = 1_000


class Base(Entity, name="thing", shards=Shards(3)):
    """What every record has."""

    key: Id[str]
    name: str
    other: str | None = None
    size: Annotated[int, stored("sz")] = 0
    folded: str = derived(canonical, "name")
    label: str = Field(default_factory=lambda data: f"{data['name']} {data['size']}")
    body: str = "much text that nobody counts by"

    by_name = Index(sort="name")
    by_other = Index(sort="other")
    by_raw = Index(sort="other", raw=True)
    by_keys = Index(sort=["name", "size"], projection="KEYS_ONLY", name="keys")
    by_some = Index(sort="other", projection=["size"], name="some")
    by_both = Union("by_name", "by_other")
    by_three = Union("by_keys", "by_other", "by_raw")


class Lasting(Base, name="thing", shards=Shards(3)):
    """Stays for ever."""


class Passing(Base, name="thing", shards=Shards(3)):
    """May expire."""

    until: Ttl[Timestamp] | None = None

    by_until = Index(sort="until", projection=["until"], name="until")


LASTING, PASSING = Catalog(Lasting), Catalog(Passing)


class Noting(WrappedStore):
    """Remembers what was asked of each index."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.asked: dict[str | None, frozenset[str] | None] = {}

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        self.asked |= {read.index: read.attributes for read in reads}
        assert len({read.attributes for read in reads}) == 1
        return await super().read_ranges(reads, want)


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store."""
    store = await open_sqlite(tmp_path / "x.db")
    await store.ensure_table(PASSING.table_definition())
    yield store
    await store.close()


@pytest.mark.parametrize(
    ("index", "options", "asked"),
    [
        (Lasting.by_name, {}, [set()]),
        (Passing.by_name, {}, [{"until"}]),
        (Lasting.by_name, {"filter": {"size": 5, "body": {"contains": "x"}}}, [{"sz", "body"}]),
        (Lasting.by_name, {"filter": {"folded": "jo"}}, [{"folded", "name"}]),
        (Lasting.by_name, {"filter": {"name": {"contains": "o"}}}, [{"name"}]),
        (Lasting.by_keys, {"filter": {"size": {"in": [5, 6]}}}, [set()]),
        (Lasting.by_some, {"filter": {"size": {"in": [5, 6]}, "body": "x"}}, [{"sz"}]),
        (Passing.by_until, {}, [{"until"}]),
        (Lasting.by_both, {}, [set(), {"hashKey", "nameRangeKey"}]),
        (Passing.by_both, {"filter": {"size": 5}}, [{"sz", "until"}, {"sz", "until", "hashKey", "nameRangeKey"}]),
    ],
)
async def test_only_what_tells_whether_a_record_counts_is_read(
    index: Any, options: dict[str, Any], asked: list[set[str]], sqlite: Store
) -> None:
    """Rows come with what the filter and the expiry need, and with the keys that they have in earlier indexes."""
    store = Noting(sqlite)
    catalog = PASSING if index.entity is Passing else LASTING
    db = Database(catalog, store, TokenSeal([b"s" * 32]), clock=lambda: NOW)
    await db.count(index, **options)
    assert [*store.asked.values()] == [*map(frozenset, asked)]


async def test_a_default_that_is_made_of_the_record_takes_all_of_it(sqlite: Store) -> None:
    """What is computed from properties that nobody can know beforehand needs all of them."""
    store = Noting(sqlite)
    db = Database(LASTING, store, TokenSeal([b"s" * 32]))
    await db.count(Lasting.by_name, filter={"label": "a 1"})
    assert [*store.asked.values()] == [None]


async def test_a_search_takes_all_that_its_index_carries(sqlite: Store) -> None:
    """A page shows whole records, and its reads name no attributes."""
    store = Noting(sqlite)
    await Database(LASTING, store, TokenSeal([b"s" * 32])).search(Lasting.by_name, select=[])
    assert [*store.asked.values()] == [None]


@pytest.mark.parametrize("passing", [False, True])
async def test_every_count_is_that_of_the_records(passing: bool, sqlite: Store, random: Random) -> None:
    """Whatever is filtered by, an engine that answers no more than it is asked for finds as many as there are."""
    thing: Any = Passing if passing else Lasting
    names = ["Jo", "jo", "Ann", "Jö"]
    records = [
        thing(
            key=f"k{at}",
            name=random.choice(names),
            other=random.choice([*names, None]),
            size=random.randrange(4),
            **({"until": random.choice([NOW - 1, NOW, NOW + 1, None])} if passing else {}),
        )
        for at in range(120)
    ]
    catalog = PASSING if passing else LASTING
    for store in (Stingy(sqlite), Stingy(ReadByRead(sqlite))):
        db = Database(catalog, store, TokenSeal([b"s" * 32]), clock=lambda: NOW)
        await db.put_many(records)
        living = [one for one in records if not passing or one.until is None or one.until > NOW]
        for filter, holds in (
            (None, lambda one: True),
            ({"size": {"gt": 1}}, lambda one: one.size > 1),
            ({"folded": "JÖ"}, lambda one: one.folded == "jo"),
            ({"label": {"prefix": "Jo "}}, lambda one: one.label.startswith("Jo ")),
            ({"or": [{"other": "jo"}, {"size": 0}]}, lambda one: one.other == "jo" or one.size == 0),
            ({"not": {"other": {"exists": True}}}, lambda one: one.other is None),
        ):
            kept = [one for one in living if holds(one)]
            with_other = sum(one.other is not None for one in kept)
            expected = {
                "by_name": len(kept),
                "by_keys": len(kept),
                "by_other": with_other,
                "by_raw": with_other,
                "by_some": with_other,
                "by_both": len(kept),
                "by_three": len(kept),
            }
            for name, count in expected.items():
                found = await db.count(getattr(thing, name), filter=filter)
                assert (found.value, found.exact) == (count, True), (name, filter)
            among = sum("Jo" in (one.name, one.other) for one in kept)
            assert (await db.count(thing.by_both, eq="Jo", filter=filter)).value == among

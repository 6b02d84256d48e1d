"""Counting reads only those attributes of a record that decide whether it counts."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any

import pytest
from pydantic import Field

from graphql_api import Catalog, Entity, Id, Index, Shards, Timestamp, Ttl, Union, canonical, derived, stored
from graphql_api.database import Database
from graphql_api.query.execution import shard_merge
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Position, RangeRead, ReadResult, Row
from tests.support.store_doubles import IndependentReadsStore, MinimalAttributesStore

NOW = 1_000


class Base(Entity, name="thing", shards=Shards(3)):
    """The properties of every record."""

    key: Id[str]
    name: str
    other: str | None = None
    size: Annotated[int, stored("sz")] = 0
    folded: str = derived(canonical, "name")
    label: str = Field(default_factory=lambda data: f"{data['name']} {data['size']}")
    body: str = "a long text that is not counted by"

    by_name = Index(sort="name")
    by_other = Index(sort="other")
    by_raw = Index(sort="other", raw=True)
    by_keys = Index(sort=["name", "size"], projection="KEYS_ONLY", name="keys")
    by_some = Index(sort="other", projection=["size"], name="some")
    by_both = Union("by_name", "by_other")
    by_three = Union("by_keys", "by_other", "by_raw")


class Permanent(Base, name="thing", shards=Shards(3)):
    """A record without expiry."""


class Expiring(Base, name="thing", shards=Shards(3)):
    """A record that may expire."""

    until: Ttl[Timestamp] | None = None

    by_until = Index(sort="until", projection=["until"], name="until")


PERMANENT, EXPIRING = Catalog(Permanent), Catalog(Expiring)


class AttributeRecordingStore(ForwardingStore):
    """Records the attributes requested from each index."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.requested: dict[str | None, frozenset[str] | None] = {}

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        self.requested |= {read.index: read.attributes for read in reads}
        assert len({read.attributes for read in reads}) == 1
        return await super().read_ranges(reads, want)


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store."""
    store = await open_sqlite(tmp_path / "x.db")
    await store.ensure_table(EXPIRING.table_definition())
    yield store
    await store.close()


@pytest.mark.parametrize(
    ("index", "options", "requested"),
    [
        (Permanent.by_name, {}, [set()]),
        (Expiring.by_name, {}, [{"until"}]),
        (Permanent.by_name, {"filter": {"size": 5, "body": {"contains": "x"}}}, [{"sz", "body"}]),
        (Permanent.by_name, {"filter": {"folded": "jo"}}, [{"folded", "name"}]),
        (Permanent.by_name, {"filter": {"name": {"contains": "o"}}}, [{"name"}]),
        (Permanent.by_keys, {"filter": {"size": {"in": [5, 6]}}}, [set()]),
        (Permanent.by_some, {"filter": {"size": {"in": [5, 6]}, "body": "x"}}, [{"sz"}]),
        (Expiring.by_until, {}, [{"until"}]),
        (Permanent.by_both, {}, [set(), {"hashKey", "nameRangeKey"}]),
        (Expiring.by_both, {"filter": {"size": 5}}, [{"sz", "until"}, {"sz", "until", "hashKey", "nameRangeKey"}]),
    ],
)
async def test_a_count_requests_only_the_needed_attributes(
    index: Any, options: dict[str, Any], requested: list[set[str]], sqlite: Store
) -> None:
    """A count requests only the attributes for the filter, the expiry, and the keys in earlier indexes of a union."""
    store = AttributeRecordingStore(sqlite)
    catalog = EXPIRING if index.entity is Expiring else PERMANENT
    db = Database(catalog, store, TokenSeal([b"s" * 32]), clock=lambda: NOW)
    await db.count(index, **options)
    assert [*store.requested.values()] == [*map(frozenset, requested)]


async def test_a_default_computed_from_the_record_requests_all_attributes(sqlite: Store) -> None:
    """A filter on a default computed from the record requests all attributes."""
    store = AttributeRecordingStore(sqlite)
    db = Database(PERMANENT, store, TokenSeal([b"s" * 32]))
    await db.count(Permanent.by_name, filter={"label": "a 1"})
    assert [*store.requested.values()] == [None]


async def test_a_page_requests_all_attributes_of_its_index(sqlite: Store) -> None:
    """A search for a page requests all attributes of its index."""
    store = AttributeRecordingStore(sqlite)
    await Database(PERMANENT, store, TokenSeal([b"s" * 32])).search(Permanent.by_name, select=[])
    assert [*store.requested.values()] == [None]


@pytest.mark.parametrize("expiring", [False, True])
async def test_counts_equal_the_number_of_matching_records(expiring: bool, sqlite: Store, random: Random) -> None:
    """Counts equal the number of matching records, even if the engine returns only the requested attributes."""
    thing: Any = Expiring if expiring else Permanent
    names = ["Jo", "jo", "Ann", "Jö"]
    records = [
        thing(
            key=f"k{at}",
            name=random.choice(names),
            other=random.choice([*names, None]),
            size=random.randrange(4),
            **({"until": random.choice([NOW - 1, NOW, NOW + 1, None])} if expiring else {}),
        )
        for at in range(120)
    ]
    catalog = EXPIRING if expiring else PERMANENT
    for store in (MinimalAttributesStore(sqlite), MinimalAttributesStore(IndependentReadsStore(sqlite))):
        db = Database(catalog, store, TokenSeal([b"s" * 32]), clock=lambda: NOW)
        await db.put_many(records)
        visible = [one for one in records if not expiring or one.until is None or one.until > NOW]
        for filter, predicate in (
            (None, lambda one: True),
            ({"size": {"gt": 1}}, lambda one: one.size > 1),
            ({"folded": "JÖ"}, lambda one: one.folded == "jo"),
            ({"label": {"prefix": "Jo "}}, lambda one: one.label.startswith("Jo ")),
            ({"or": [{"other": "jo"}, {"size": 0}]}, lambda one: one.other == "jo" or one.size == 0),
            ({"not": {"other": {"exists": True}}}, lambda one: one.other is None),
        ):
            matching = [one for one in visible if predicate(one)]
            with_other = sum(one.other is not None for one in matching)
            expected = {
                "by_name": len(matching),
                "by_keys": len(matching),
                "by_other": with_other,
                "by_raw": with_other,
                "by_some": with_other,
                "by_both": len(matching),
                "by_three": len(matching),
            }
            for name, count in expected.items():
                found = await db.count(getattr(thing, name), filter=filter)
                assert (found.value, found.exact) == (count, True), (name, filter)
            among = sum("Jo" in (one.name, one.other) for one in matching)
            assert (await db.count(thing.by_both, eq="Jo", filter=filter)).value == among


async def test_rounds_do_not_merge_known_rows_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count of many rounds computes a bounded number of sort keys for each record, whatever the number of rounds."""
    records, keys = 1_500, 0

    def counted_key(row: Row | Position) -> tuple[Any, int]:
        nonlocal keys
        keys += 1
        return row.value, row.ordinal

    monkeypatch.setattr(shard_merge, "sort_key", counted_key)
    store = await open_sqlite(tmp_path / "x.db")
    await store.ensure_table(PERMANENT.table_definition())
    db = Database(PERMANENT, store, TokenSeal([bytes(32)]), clock=lambda: NOW)
    await db.put_many([Permanent(key=f"k{number}", name=f"n{number}") for number in range(records)])
    for most in (20, 200):
        keys = 0
        count = await Database(
            PERMANENT, IndependentReadsStore(store, most), TokenSeal([bytes(32)]), clock=lambda: NOW
        ).count(Permanent.by_name)
        assert count.value == records
        assert keys <= 6 * records
        assert count.cost.rounds >= records / (3 * most)
    await store.close()

"""The number of different positions at which lagging shards may be before a page is an error."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Shards
from graphql_api.database import Database
from graphql_api.errors import StoreUnavailable
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from graphql_api.storage.values import RangeRead
from tests.schema.graphql_client import client_for
from tests.support.store_doubles import FailingStore, IndependentReadsStore, all_items


class Thing(Entity, shards=Shards(14)):
    """A record in one of many shards."""

    key: Id[str]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A table for things."""
    store = await open_sqlite(tmp_path / "x.db")
    await store.ensure_table(Catalog(Thing).table_definition())
    yield store
    await store.close()


class ShardFaults:
    """Decides which shards fail, and after how many reads."""

    def __init__(self) -> None:
        self.successful_reads: dict[str, int] = {}
        self.reads = Counter[str]()

    def __call__(self, read: RangeRead) -> bool:
        self.reads[read.hash_key] += 1
        return self.reads[read.hash_key] > self.successful_reads.get(read.hash_key, 1000)

    def set(self, successful_reads: dict[str, int]) -> None:
        """Sets the number of successful reads of each failing shard."""
        self.successful_reads = successful_reads
        self.reads.clear()


async def _filled_database(store: Store, keys: list[str]) -> tuple[Database, ShardFaults, list[str]]:
    """Returns a database whose reads return one row each, its faults, and the shard of each key."""
    faults = ShardFaults()
    db = Database(Catalog(Thing), FailingStore(IndependentReadsStore(store, 1), faults), TokenSeal([b"s" * 32]))
    assert await db.put_many([Thing(key=key) for key in keys]) == [None] * len(keys)
    shard_of = {item["key"]: str(item["hashKey"]) for item in await all_items(store) if "key" in item}
    return db, faults, [shard_of[key] for key in keys]


async def _partial_page(db: Database, limit: int, token: str | None = None) -> Any:
    return await db.search(Thing.by_id, limit=limit, next_token=token, on_shard_failure="PARTIAL")


async def test_too_many_lagging_positions_are_an_error_and_the_token_stays_valid(store: Store) -> None:
    """Shards that lag at nine positions are an error; once they answer again, the same token is valid."""
    keys = [f"k{at:03}" for at in range(200)]
    db, faults, shard_of = await _filled_database(store, keys)
    shards = [*dict.fromkeys(shard_of)]
    first = await _partial_page(db, 3)
    faults.set(dict.fromkeys(shards[:9], 1))
    with pytest.raises(StoreUnavailable, match="more than 8 different positions") as raised:
        await _partial_page(db, 150, first.next_token)
    assert raised.value.retryable
    faults.set(dict.fromkeys(shards[:8], 1))
    page = await _partial_page(db, 150, first.next_token)
    assert len(page.shards.failed) == 8
    faults.set({})
    rest = await _partial_page(db, 500, page.next_token)
    assert [item.key for item in first.items] == keys[:3]
    assert sorted(item.key for item in [*page.items, *rest.items]) == keys[3:]


async def test_the_cursor_of_a_record_may_have_more_lagging_positions_than_its_page(store: Store) -> None:
    """The cursor of a record may have more lagging positions than its page, and then is an error."""
    keys = [f"k{at:03}" for at in range(200)]
    db, faults, shard_of = await _filled_database(store, keys)
    early_shard, silent_shard, *others = dict.fromkeys(shard_of)
    faults.set({early_shard: 0, silent_shard: 0, **dict.fromkeys(others[:7], 1)})
    first = await _partial_page(db, 100)
    faults.set({silent_shard: 0})
    page = await _partial_page(db, 100, first.next_token)
    with pytest.raises(StoreUnavailable, match="more than 8 different positions"):
        _ = page.cursors
    arguments = "limit: 100, nextToken: $from, onShardFailure: PARTIAL"
    document = f"query ($from: String) {{ page: thingById({arguments}) {{ nextToken edges {{ cursor }} }} }}"
    answer = await client_for(db).execute(document, {"from": first.next_token})
    (error,) = answer.body["errors"]
    assert (error["path"], error["extensions"]["code"]) == (["page", "edges", 0, "cursor"], "STORE_UNAVAILABLE")
    assert error["extensions"]["retryable"] is True
    assert answer.body["data"] == {"page": None}
    faults.set({})
    rest = await _partial_page(db, 500, page.next_token)
    assert rest.next_token is None
    assert sorted(item.key for item in [*first.items, *page.items, *rest.items]) == keys


async def test_a_page_without_failed_shards_is_never_rejected(store: Store) -> None:
    """A page without failed shards is never rejected for the lagging shards that it catches up."""
    keys = [f"{letter}{at:02}".ljust(1000 if letter == "b" else 560, "x") for letter in "abc" for at in range(40)]
    db, faults, shard_of = await _filled_database(store, keys)
    fails_at_b, *fail_at_c = dict.fromkeys([shard_of[40], *shard_of[80:90]])
    successful_reads = {shard: shard_of[:90].count(shard) for shard in fail_at_c[:3]}
    faults.set({fails_at_b: shard_of[:40].count(fails_at_b), **successful_reads})
    page = await _partial_page(db, 92)
    faults.set({})
    found = [item.key for item in page.items]
    lengths = [len(page.next_token)]
    while page.next_token is not None:
        page = await _partial_page(db, 1, page.next_token)
        found += [item.key for item in page.items]
        lengths.append(len(page.next_token or ""))
    assert sorted(found) == keys
    assert lengths[0] <= 4096 < max(lengths) < 8192

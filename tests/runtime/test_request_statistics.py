"""Store calls are counted for their request, and a metered store returns what its inner store returns."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.database import Database
from graphql_api.errors import StoreError, StoreUnavailable, Throttled
from graphql_api.evolution import prepare_table
from graphql_api.examples.users import User, catalog, generate_users
from graphql_api.query.planner import plan_search
from graphql_api.query.search_request import SearchRequest
from graphql_api.runtime.request_statistics import (
    RequestStatistics,
    collect_statistics,
    current_statistics,
)
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.metered_store import CANCELLED, UNFORESEEN, ForwardingStore, MeteredStore, StoreCall
from graphql_api.storage.values import Delete, Item, Key, RangeRead, ReadResult, Write
from tests.storage.scripted_dynamodb import Reply, error_reply, start_scripted_dynamodb
from tests.support.all_types_catalog import SEAL
from tests.support.store_doubles import CountingStore, FailingStore


class FailingOrWaitingStore(ForwardingStore):
    """Fails or waits on demand."""

    failure: BaseException | None = None

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        if self.failure is not None:
            raise self.failure
        await asyncio.Event().wait()
        return ()

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        return [None, Throttled("Wait a little.")]


@pytest.fixture
async def counting_store(tmp_path: Path) -> AsyncIterator[CountingStore]:
    """A table of users that counts its calls."""
    store = CountingStore(await open_sqlite(tmp_path / "users.db"))
    await prepare_table(store, catalog)
    yield store
    await store.close()


async def test_a_request_is_counted(counting_store: CountingStore) -> None:
    """The statistics of searches and reads equal the counts of the store and the records returned."""
    calls: list[StoreCall] = []
    db = Database(catalog, MeteredStore(counting_store, calls.append), SEAL)
    users = [*generate_users(80)]
    await db.put_many(users)
    calls.clear()
    before = counting_store.counts.scalar_counts()
    with collect_statistics() as statistics:
        first = await db.search(User.by_created, limit=10)
        second = await db.search(User.by_created, limit=7, next_token=first.next_token)
        assert await db.get(User, users[3].user_id) == users[3]
        assert await db.get(User, "nobody") is None
    after = counting_store.counts.scalar_counts()
    reads = after["records_read"] - before["records_read"]
    shards = len(first.explain["hashKeys"]) + len(second.explain["hashKeys"])
    assert statistics.totals() == {
        "store_calls": len(calls),
        "records_read": reads + 1,
        "retries": 0,
        "hedges": 0,
        "queued_milliseconds": 0,
        "searches": 2,
        "shards_asked": shards,
        "records_returned": 10 + 7 + 1,
    }
    searches, by_key = statistics.of_index("user", "created"), statistics.of_index("user", "id")
    assert (searches.reads, searches.empty_reads) == ({"first_page": 1, "next_page": 1}, {})
    assert (searches.shards_asked, searches.records_read, searches.records_returned) == (shards, reads, 17)
    assert (by_key.reads, by_key.empty_reads) == ({"key": 2}, {"key": 1})
    assert (by_key.records_read, by_key.records_returned) == (1, 1)
    assert len(searches.call_seconds) + len(by_key.call_seconds) == len(calls)
    assert statistics.indexes.keys() == {("user", "created"), ("user", "id")}
    assert sum(call.parts for call in calls if call.name == "get_many") == after["gets"] - before["gets"] > 0
    assert [call.name for call in calls].count("read_ranges") == after["rounds"] - before["rounds"]
    assert sum(call.records_read for call in calls) == statistics.records_read
    assert all(call.failure is None and call.seconds > 0 for call in calls)


@pytest.mark.parametrize(
    ("options", "reads", "empty_reads"),
    [
        ({"eq": 1}, {"first_page": 1}, {"first_page": 1}),
        ({"eq": 1, "reverse": True}, {"first_page": 1}, {"first_page": 1}),
        ({"eq": 1, "last": 3}, {"first_page": 1}, {"first_page": 1}),
        ({"filter": {"phone": {"eq": "x"}}}, {"first_page": 1}, {"first_page": 1}),
        ({"filter": {"phone": {"eq": "x"}}, "read_budget": 20}, {"first_page": 1}, {}),
        ({"limit": 2}, {"first_page": 1}, {}),
    ],
)
async def test_empty_searches_are_counted(
    counting_store: CountingStore,
    options: Mapping[str, Any],
    reads: Mapping[str, int],
    empty_reads: Mapping[str, int],
) -> None:
    """A search counts as empty if its first page is empty, unless its read budget ended it early."""
    db = Database(catalog, MeteredStore(counting_store, lambda _: None), SEAL)
    await db.put_many([*generate_users(80)])
    with collect_statistics() as statistics:
        page = await db.search(User.by_created, **options)
    assert (len(page.items) == 0) == ("limit" not in options)
    searches = statistics.of_index("user", "created")
    assert (searches.reads, searches.empty_reads) == (reads, empty_reads)


async def test_partial_counts_are_not_empty(counting_store: CountingStore) -> None:
    """A count counts as empty only if it is exact."""
    db = Database(catalog, MeteredStore(counting_store, lambda _: None), SEAL)
    with collect_statistics() as statistics:
        assert (await db.count(User.by_created)).value == 0
        await db.put_many([*generate_users(20)])
        assert (await db.count(User.by_created, at_most=5)).value == 5
    searches = statistics.of_index("user", "created")
    assert (searches.reads, searches.empty_reads) == ({"count": 2}, {"count": 1})


async def test_failed_calls_are_timed(counting_store: CountingStore) -> None:
    """The duration of a store call that fails counts for its index. The search is not counted."""

    class BrokenStore(ForwardingStore):
        async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
            raise StoreUnavailable("gone")

    db = Database(catalog, BrokenStore(counting_store), SEAL)
    with collect_statistics() as statistics, pytest.raises(StoreUnavailable):
        await db.search(User.by_created)
    searches = statistics.of_index("user", "created")
    assert (len(searches.call_seconds), searches.reads) == (1, {})


async def test_tasks_of_a_request_count_for_it() -> None:
    """Tasks are counted for their own request, and not for a concurrent one."""

    async def request(retries: int) -> RequestStatistics:
        async def retry() -> None:
            await asyncio.sleep(0)
            current_statistics().retries += 1

        with collect_statistics() as statistics:
            await asyncio.gather(*(retry() for _ in range(retries)))
            assert current_statistics() is statistics
            return statistics

    first, second = await asyncio.gather(request(2), request(5))
    assert (first.retries, second.retries) == (2, 5)


def test_nothing_is_counted_outside_of_a_request() -> None:
    """Outside of a request, counting has no effect."""
    with collect_statistics() as statistics:
        pass
    current_statistics().retries += 1
    assert statistics == current_statistics() == RequestStatistics()


async def test_failures_are_reported(counting_store: CountingStore) -> None:
    """A failed call is reported with the code of its error, as cancelled, or as unforeseen."""
    calls: list[StoreCall] = []
    failing_or_waiting = FailingOrWaitingStore(counting_store)
    store = MeteredStore(failing_or_waiting, calls.append)
    for failure in (StoreUnavailable("gone"), ZeroDivisionError()):
        failing_or_waiting.failure = failure
        with pytest.raises(type(failure)):
            await store.get_many([Key("a!", "b")], consistent=False)
    failing_or_waiting.failure = None
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(store.get_many([Key("a!", "b")], consistent=False), 0.01)
    assert [call.failure for call in calls] == ["STORE_UNAVAILABLE", UNFORESEEN, CANCELLED]


async def test_partial_failures_are_reported(counting_store: CountingStore) -> None:
    """A partly failed call is reported with the code of its first failure."""
    calls: list[StoreCall] = []
    failing = MeteredStore(
        FailingStore(FailingOrWaitingStore(counting_store), lambda read: read.hash_key == "user!03"), calls.append
    )
    reads = plan_search(catalog, SearchRequest("user", "by_created", {}), 0.0, SEAL).scans[0].shard_reads
    answers = await failing.read_ranges(reads, 5)
    outcomes = await failing.write([Delete(Key("a!", "b")), Delete(Key("a!", "c"))])
    assert sum(isinstance(answer, StoreError) for answer in answers) == 1
    assert [(call.name, call.failure, call.parts) for call in calls] == [
        ("read_ranges", "STORE_UNAVAILABLE", len(reads)),
        ("write", "THROTTLED", 2),
    ]
    assert isinstance(outcomes[1], Throttled)


async def test_every_call_is_forwarded(counting_store: CountingStore) -> None:
    """Each method of the port calls the inner store, is reported by name, and returns the inner result."""
    calls: list[StoreCall] = []
    store = MeteredStore(counting_store, calls.append)
    definition = catalog.table_definition()
    assert await store.describe() == await counting_store.describe()
    await store.ensure_table(definition)
    page = await store.scan(0, 1, None)
    assert page == await counting_store.inner.scan(0, 1, None)
    await store.write_together([Delete(Key("a!", "b"))], "token")
    assert await store.write([]) == []
    assert await store.get_many([], consistent=True) == []
    assert await store.read_ranges([], 1) == []
    assert [(call.name, call.records_read) for call in calls] == [
        ("describe", 0),
        ("ensure_table", 0),
        ("scan", len(page.items)),
        ("write_together", 0),
        ("write", 0),
        ("get_many", 0),
        ("read_ranges", 0),
    ]


async def test_retries_of_dynamodb_are_counted() -> None:
    """Each retry of DynamoDB is counted for the request that waits for it, and each request to a shard is timed."""
    key = {"hashKey": {"S": "h!"}, "rangeKey": {"S": "r"}}
    async with start_scripted_dynamodb() as script:
        script.set_replies("Query", error_reply("InternalServerError", 500))
        script.set_replies(
            "BatchGetItem",
            Reply({"Responses": {}, "UnprocessedKeys": {"script": {"Keys": [key]}}}),
            Reply({"Responses": {"script": [key]}, "UnprocessedKeys": {}}),
        )
        store = await script.open(attempts=3)
        with collect_statistics() as searching:
            (answer,) = await store.read_ranges([RangeRead("byText", "h!", 0, KeyRange(), 5)], 5)
        with collect_statistics() as getting:
            found = await store.get_many([Key("h!", "r")], consistent=False)
        await store.close()
    assert isinstance(answer, StoreError)
    assert found == [{"hashKey": "h!", "rangeKey": "r"}]
    assert (script.counts["Query"], searching.retries) == (3, 2)
    assert [hash_key for hash_key, seconds in searching.shard_seconds if seconds > 0] == ["h!"] * 3
    assert getting.shard_seconds == []
    assert (script.counts["BatchGetItem"], getting.retries) == (2, 1)

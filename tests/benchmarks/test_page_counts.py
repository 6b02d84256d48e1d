"""What a page costs in calls and objects. Nothing here measures time."""

import gc
import json
import sqlite3
import sys
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, Timestamp, open_catalog
from graphql_api.query import SearchFrame
from graphql_api.query.execution import StoredResults
from graphql_api.query.execution.page_reader import PageReader
from graphql_api.runtime import RequestCoalescer, StartedCoroutine
from graphql_api.storage import ForwardingStore, MergedPages, RangeRead, ReadResult, ShardReads, Store
from graphql_api.storage.engines.sqlite import sqlite_store
from graphql_api.storage.engines.sqlite.grouped_scan import GroupedScan
from tests.benchmarks.measured_catalog import SHARDS, Customer, Order, OrderLine, User, orders, users
from tests.benchmarks.page_walk import QUERY
from tests.benchmarks.plain_database import PAGE_QUERY, make_plain_database
from tests.benchmarks.sample_rows import FIELDS, Window, property_name, user_rows, windows
from tests.benchmarks.strawberry_server import make_schema
from tests.schema.graphql_client import GraphQLClient, open_client

USERS, LIMIT, PAGES = 400, 20, 8
WIDE = 40
WINDOW = windows(USERS, LIMIT * PAGES, 1)[0]
MAX_KEPT_BLOCKS = 10
"""that each further page may keep; caches of the interpreter vary"""
MAX_PEAK_BYTES = 200_000
"""while a page is executed"""
MAX_CALLS = 900
"""of Python functions, while a page is executed without HTTP"""


class WideUser(Entity, shards=Shards(WIDE)):
    """A record in one of many shards."""

    user_id: Id[str]
    created: Created[Timestamp]

    by_created = Index(sort="created", name="wideUserCreated")


class ReadsStore(ForwardingStore):
    """Keeps range reads and their results."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.calls: list[tuple[Sequence[RangeRead], Sequence[ReadResult]]] = []

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        answer = await super().read_ranges(reads, want)
        self.calls.append((reads, answer))
        return answer


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[GraphQLClient]:
    """A client of the measured catalog."""
    records = [User(**{property_name(name): value for name, value in row.items()}) for row in user_rows(USERS)]
    async with open_client(users, tmp_path, *records) as opened:
        opened.reset_counts()
        yield opened


async def walk(client: GraphQLClient, window: Window) -> list[list[dict[str, Any]]]:
    """Return the rows of all pages of a window."""
    pages: list[list[dict[str, Any]]] = []
    token = None
    while not pages or token is not None:
        variables = {"from": window.low, "to": window.high, "limit": LIMIT, "nextToken": token}
        page = (await client.data(QUERY, variables))["userByCreated"]
        pages.append(page["items"])
        token = page["nextToken"]
    return pages


async def test_a_page_is_one_call_with_at_most_one_read_per_shard(client: GraphQLClient) -> None:
    """On SQLite each page is one call of the store, and plans at most one read for each shard."""
    pages = await walk(client, WINDOW)
    assert [len(page) for page in pages] == [LIMIT] * PAGES
    counts = client.counts
    assert (counts.rounds, counts.gets, counts.writes, counts.scans) == (PAGES, 0, 0, 0)
    assert counts.reads <= PAGES * SHARDS


async def test_a_page_on_sqlite_builds_nothing_for_each_shard(tmp_path: Path) -> None:
    """A page over 40 shards builds no read and no hash key of a single shard."""
    async with open_catalog(Catalog(WideUser), f"sqlite:///{tmp_path}/x.db") as db:
        await db.put_many([WideUser(user_id=f"u{number}", created=number) for number in range(100)])
        observed = ReadsStore(db.store)
        page = await replace(db, store=observed).search(WideUser.by_created, limit=LIMIT)
    assert len(page.items) == LIMIT
    ((reads, answer),) = observed.calls
    assert isinstance(reads, ShardReads)
    assert isinstance(answer, MergedPages)
    assert len(reads) == WIDE
    assert {*vars(reads), *vars(answer)}.isdisjoint({"_elements"})
    assert "by_ordinal" not in vars(reads.keys)


async def test_a_page_on_sqlite_never_waits(client: GraphQLClient) -> None:
    """A page on SQLite is executed in one step of its task: it creates no task, and waits for no future."""
    variables = {"from": WINDOW.low, "to": WINDOW.high, "limit": LIMIT}
    expected = await client.data(QUERY, variables)
    page = StartedCoroutine(client.data(QUERY, variables))
    assert page.is_done
    assert page.result == expected


async def test_a_page_takes_few_function_calls(client: GraphQLClient) -> None:
    """A page after the first takes a bounded number of calls of Python functions, whatever else the machine does."""
    variables = {"from": WINDOW.low, "to": WINDOW.high, "limit": LIMIT}
    for _ in range(3):
        variables["nextToken"] = (await client.data(QUERY, variables))["userByCreated"]["nextToken"]
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        await client.data(QUERY, variables)
    finally:
        sys.setprofile(None)
    assert calls <= MAX_CALLS


async def test_a_page_reads_few_records(client: GraphQLClient) -> None:
    """A page of L records over n shards examines at most 2·L + 3·n records."""
    await walk(client, WINDOW)
    assert client.counts.records_read <= PAGES * (2 * LIMIT + 3 * SHARDS)


@pytest.mark.parametrize(
    ("joined", "gets"),
    [("lines { items { line product } }", 0), ("customer { name } lines { items { line } }", 50)],
)
async def test_a_page_with_joined_pages_is_two_rounds(tmp_path: Path, joined: str, gets: int) -> None:
    """The lists of all 50 records of a page are one call of the store, and their references another one."""
    customers = [Customer(customer_id=f"c{number}", name=f"Name {number}") for number in range(50)]
    placed = [
        Order(order_id=f"o{number}", placed=number, customer_id=f"c{number}", status="paid") for number in range(50)
    ]
    lines = [OrderLine(order_id=one.order_id, line=line, product="p", quantity=1) for one in placed for line in "abc"]
    async with open_client(orders, tmp_path, *customers, *placed, *lines) as client:
        client.reset_counts()
        data = await client.data(f"{{ orderByPlaced(limit: 50) {{ items {{ orderId {joined} }} }} }}")
    assert [len(item["lines"]["items"]) for item in data["orderByPlaced"]["items"]] == [3] * 50
    assert (client.counts.rounds, client.counts.gets) == (2, gets)


@pytest.fixture
async def joining_client(tmp_path: Path) -> AsyncIterator[GraphQLClient]:
    """A client of 50 orders, each with a customer and three lines."""
    customers = [Customer(customer_id=f"c{number}", name=f"Name {number}") for number in range(50)]
    placed = [
        Order(order_id=f"o{number}", placed=number, customer_id=f"c{number % 40}", status="paid")
        for number in range(50)
    ]
    lines = [OrderLine(order_id=one.order_id, line=line, product="p", quantity=1) for one in placed for line in "abc"]
    async with open_client(orders, tmp_path, *customers, *placed, *lines) as client:
        client.reset_counts()
        yield client


def count_calls(monkeypatch: pytest.MonkeyPatch, owner: Any, *names: str) -> Counter[str]:
    """Count the calls of some methods."""
    calls = Counter[str]()

    def counted(name: str) -> Any:
        original = getattr(owner, name)

        def call(*args: Any, **options: Any) -> Any:
            calls[name] += 1
            return original(*args, **options)

        return call

    for name in names:
        monkeypatch.setattr(owner, name, counted(name))
    return calls


@pytest.mark.parametrize("limit", [None, 2])
async def test_a_has_many_field_has_one_plan(
    joining_client: GraphQLClient, monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    """The lists of all orders of a page take one plan, one future and one statement, unless tokens are selected."""
    plans = count_calls(monkeypatch, SearchFrame, "plan")
    futures = count_calls(monkeypatch, RequestCoalescer, "submit")
    readers = count_calls(monkeypatch, PageReader, "read")
    scans = count_calls(monkeypatch, GroupedScan, "run")
    arguments = "" if limit is None else f"(limit: {limit})"
    joined = f"lines{arguments} {{ items {{ line product }} }}"
    data = await joining_client.data(f"{{ orderByPlaced(limit: 50) {{ items {{ orderId {joined} }} }} }}")
    assert [len(item["lines"]["items"]) for item in data["orderByPlaced"]["items"]] == [limit or 3] * 50
    assert plans["plan"] == 1 + 1
    assert readers["read"] == 1
    assert futures["submit"] == 1
    assert scans["run"] == 1


async def test_references_have_one_future_and_no_models(
    joining_client: GraphQLClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The references of all orders of a page take one future, and each record is read once and decoded to no model."""
    futures = count_calls(monkeypatch, RequestCoalescer, "submit")
    decoded = count_calls(monkeypatch, StoredResults, "_build")
    statements = count_calls(monkeypatch, sqlite_store, "find_records")
    data = await joining_client.data("{ orderByPlaced(limit: 50) { items { orderId customer { name } } } }")
    names = [item["customer"]["name"] for item in data["orderByPlaced"]["items"]]
    assert names == [f"Name {number % 40}" for number in range(50)]
    assert futures["submit"] == 1
    assert decoded["_build"] == 0
    assert statements["find_records"] == 1
    assert joining_client.counts.gets == 40


async def test_lists_and_references_are_read_once_for_all_fields(joining_client: GraphQLClient) -> None:
    """A list or record that another field of the operation reads, alone or for other parents too, is not read again."""
    joined = "lines { items { line } } customer { name }"
    fields = [f'one: order(id: "o7") {{ {joined} }}', f"few: orderByPlaced(limit: 9) {{ items {{ {joined} }} }}"]
    fields.append(f"all: orderByPlaced(limit: 50) {{ items {{ {joined} }} }}")
    data = await joining_client.data(f"{{ {' '.join(fields)} }}")
    assert data["few"]["items"] == data["all"]["items"][:9]
    assert data["one"] == data["all"]["items"][7]
    assert joining_client.counts.reads == 2 + 50
    assert joining_client.counts.gets == 1 + 40


async def test_pages_keep_no_memory(client: GraphQLClient) -> None:
    """Further pages retain no objects, and one page needs a bounded amount of memory."""
    for _ in range(2):
        await walk(client, WINDOW)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(4):
        await walk(client, WINDOW)
    gc.collect()
    assert sys.getallocatedblocks() - before <= 4 * PAGES * MAX_KEPT_BLOCKS
    tracemalloc.start()
    try:
        await walk(client, Window(WINDOW.low, WINDOW.low))
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        variables = {"from": WINDOW.low, "to": WINDOW.high, "limit": LIMIT}
        await client.data(QUERY, variables)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before <= MAX_PEAK_BYTES


async def test_contestants_find_the_same_rows(client: GraphQLClient, tmp_path: Path) -> None:
    """This code, plain SQLite and stock Strawberry answer a walk with the same rows in the same order."""
    plain = tmp_path / "plain.db"
    make_plain_database(plain, USERS, SHARDS)
    connection = sqlite3.connect(plain)

    async def read_page(low: int, high: int, limit: int, token: str | None) -> tuple[list[dict[str, Any]], str | None]:
        start = low if token is None else int(token) + 1
        rows = [dict(zip(FIELDS, row, strict=True)) for row in connection.execute(PAGE_QUERY, (start, high, limit + 1))]
        return rows[:limit], str(rows[limit - 1]["created"]) if len(rows) > limit else None

    rows: list[list[dict[str, Any]]] = []
    token = None
    schema = make_schema(read_page, caches=True)
    while not rows or token is not None:
        variables = {"from": WINDOW.low, "to": WINDOW.high, "limit": LIMIT, "nextToken": token}
        result = await schema.execute(QUERY, variables)
        assert result.data is not None, result.errors
        page = json.loads(json.dumps(result.data))["userByCreated"]
        rows.append(page["items"])
        token = page["nextToken"]
    connection.close()
    assert rows == await walk(client, WINDOW)

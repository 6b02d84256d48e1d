"""`/metrics` shows which entities and indexes are read, and which reads find nothing."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphql_api import Catalog, Entity, HasMany, Id, Index, Ref, RefMany, Shards, SubId, Union
from graphql_api.runtime.request_statistics import RequestStatistics
from graphql_api.server.observability.metrics import MAX_SHARDS, OTHER, Metrics
from graphql_api.storage.port import Store
from graphql_api.storage.values import RangeRead
from tests.faults.fault_proxy import FaultProxy
from tests.server.observed_server import Counts, ObservedServer, count_changes, observed_server, parse_counts
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server
from tests.support.store_doubles import CountingStore, FailingStore


class Author(Entity):
    """An author of books."""

    author_id: Id[str]
    name: str

    books = HasMany("Book", via="by_author")


class Book(Entity, shards=Shards(4)):
    """A book."""

    book_id: Id[str]
    title: str
    subtitle: str
    author_id: str
    pages: int = 0
    similar_ids: list[str] = []  # noqa: RUF012 - a field

    by_title = Index(sort="title")
    by_subtitle = Index(sort="subtitle")
    by_pages = Index(sort="pages", projection="KEYS_ONLY")
    by_author = Index(hash="author_id", sort="title")
    by_words = Union("by_title", "by_subtitle")

    author = Ref("Author", by="author_id")
    similar = RefMany("Book", by="similar_ids")


class Loan(Entity):
    """The history of loans of a book."""

    loan_id: Id[str]
    at: SubId[int]
    reader: str


CATALOG = Catalog(Author, Book, Loan)
AUTHORS = [Author(author_id=f"a{number}", name=f"Author {number}") for number in range(3)]
BOOKS = [
    Book(
        book_id=f"b{number}",
        title=f"Title {number:02}",
        subtitle=f"Words {number:02}",
        author_id=f"a{number % 4}",
        pages=number,
        similar_ids=["b1", "b2", "lost"],
    )
    for number in range(20)
]
LOANS = [Loan(loan_id="l1", at=at, reader=f"r{at}") for at in range(3)]


@pytest.fixture
def stores() -> list[CountingStore]:
    """The stores of the server, which count their calls."""
    return []


@pytest.fixture
def server(tmp_path: Path, stores: list[CountingStore]) -> Iterator[ObservedServer]:
    """A server with the books."""

    def wrap(inner: Store) -> CountingStore:
        stores.append(CountingStore(inner))
        return stores[-1]

    with observed_server(tmp_path, catalog=CATALOG, records=[*AUTHORS, *BOOKS, *LOANS], wrap=wrap) as running:
        yield running


def counted(server: ObservedServer, query: str) -> Counts:
    """Return how an operation changes the metrics with the label `entity`, without seconds."""
    before = server.counts()
    assert "data" in server.post(query).json()
    changes = count_changes(before, server.counts())
    names = ("searches", "key_reads", "empty_reads", "shards_asked", "records_read", "records_returned")
    prefixes = {f"shardql_{name}_total": name for name in names}
    parts = {name: name.partition(" ") for name in changes}
    return {f"{prefixes[one[0]]} {one[2]}": changes[name] for name, one in parts.items() if one[0] in prefixes}


def test_has_many_joins_are_counted_by_index(server: ObservedServer) -> None:
    """Each list of a has-many field is a search of its index. A list without records is an empty read."""
    query = '{ nodes: author(id: "a0") { books { items { bookId } } } other: author(id: "a9") { name } }'
    assert counted(server, query) == {
        "key_reads author": 2,
        "empty_reads author id key": 1,
        "records_read author id": 1,
        "records_returned author id": 1,
        "searches book author first_page": 1,
        "shards_asked book author": 4,
        "records_read book author": 5,
        "records_returned book author": 5,
    }
    found = counted(server, "{ bookByTitle(limit: 2) { items { author { books(limit: 1) { items { bookId } } } } } }")
    assert found["searches book author first_page"] == 2
    assert found["key_reads author"] == 2
    assert "empty_reads book author first_page" not in found
    assert (
        "errors"
        not in server.post('mutation { createAuthor(input: {authorId: "a7", name: "New"}) { author { id } } }').json()
    )
    found = counted(server, '{ author(id: "a7") { books { items { bookId } } } }')
    assert found["empty_reads book author first_page"] == 1


def test_joins_by_key_are_counted(server: ObservedServer) -> None:
    """Each different record that joins request is one read by key, and a dangling reference is an empty one."""
    query = "{ bookByTitle(limit: 4) { items { author { name } similar { title } } } }"
    assert counted(server, query) == {
        "searches book title first_page": 1,
        "shards_asked book title": 4,
        "records_read book title": counted(server, "{ bookByTitle(limit: 4) { items { title } } }")[
            "records_read book title"
        ],
        "records_returned book title": 4,
        "key_reads author": 4,
        "empty_reads author id key": 1,
        "records_read author id": 3,
        "records_returned author id": 3,
        "key_reads book": 3,
        "empty_reads book id key": 1,
        "records_read book id": 2,
        "records_returned book id": 2,
    }


def test_node_fields_are_counted(server: ObservedServer) -> None:
    """`node` and `nodes` are reads by key of their entities."""
    ids = server.post('{ a: author(id: "a1") { id } b: book(id: "b1") { id } }').json()["data"]
    author, book = ids["a"]["id"], ids["b"]["id"]
    assert "errors" not in server.post('mutation { deleteBook(id: "b1") { deletedId } }').json()
    found = counted(server, f'{{ node(id: "{author}") {{ id }} nodes(ids: ["{author}", "{book}"]) {{ id }} }}')
    assert found == {
        "key_reads author": 1,
        "records_read author id": 1,
        "records_returned author id": 1,
        "key_reads book": 1,
        "empty_reads book id key": 1,
    }


def test_histories_are_searched_by_their_id(server: ObservedServer) -> None:
    """The last entry of a history is found by a search of the primary index, which may be empty.

    Like every search, it reads one record past its limit.
    """
    assert counted(server, '{ loan(id: "l1") { reader } }') == {
        "searches loan id first_page": 1,
        "shards_asked loan id": 1,
        "records_read loan id": 2,
        "records_returned loan id": 1,
    }
    found = counted(server, '{ loan(id: "l9") { reader } }')
    assert (found["searches loan id first_page"], found["empty_reads loan id first_page"]) == (1, 1)


def test_counts_are_counted(server: ObservedServer) -> None:
    """`totalCount` is a search of kind `count`, which is empty if it is exactly 0."""
    found = counted(server, '{ bookByTitle(prefix: "Title") { totalCount { value } } }')
    assert found["searches book title count"] == 1
    assert found["records_read book title"] >= len(BOOKS)
    assert "empty_reads book title count" not in found
    found = counted(server, '{ bookByTitle(prefix: "x") { totalCount { value } } }')
    assert (found["searches book title count"], found["empty_reads book title count"]) == (1, 1)


def test_unions_have_their_own_name(server: ObservedServer) -> None:
    """A search of a union counts for the union, and the duration of its calls for the indexes."""
    before = server.counts()
    assert (
        len(server.post('{ bookByWords(prefix: "T") { items { title } } }').json()["data"]["bookByWords"]["items"])
        == 20
    )
    changes = count_changes(before, server.counts())
    assert changes["shardql_searches_total book words first_page"] == 1
    assert changes["shardql_records_read_total book words"] >= len(BOOKS)
    assert changes["shardql_index_read_seconds_count book title"] >= 1
    assert changes["shardql_index_read_seconds_count book subtitle"] >= 1
    assert "shardql_index_read_seconds_count book words" not in changes


def test_fetched_records_count_for_the_index(server: ObservedServer) -> None:
    """Records that an index is not covering are read by key, and count as records read for the index."""
    found = counted(server, "{ bookByPages(from: 10, to: 12) { items { title } } }")
    assert found["records_read book pages"] == 6
    assert found["records_returned book pages"] == 3
    assert not any("key_reads" in name for name in found)


def test_later_pages_are_not_empty_reads(server: ObservedServer) -> None:
    """An empty page is no empty read if it continues a search."""
    page = server.post("{ bookByTitle(limit: 19) { nextToken } }").json()["data"]["bookByTitle"]
    assert "errors" not in server.post('mutation { deleteBook(id: "b19") { deletedId } }').json()
    query = f'{{ bookByTitle(nextToken: "{page["nextToken"]}") {{ items {{ title }} }} }}'
    assert counted(server, query)["searches book title next_page"] == 1
    assert not any("empty_reads" in name for name in counted(server, query))


def test_failed_shards_make_no_empty_reads(tmp_path: Path) -> None:
    """A page without records is no empty read if a shard failed."""

    def fails(read: RangeRead) -> bool:
        return read.hash_key == "book!01"

    books = [book for book in BOOKS if book.book_id == "b0"]
    with observed_server(
        tmp_path, catalog=CATALOG, records=books, wrap=lambda inner: FailingStore(inner, fails)
    ) as server:
        query = '{ bookByTitle(prefix: "x", onShardFailure: PARTIAL) { complete items { title } } }'
        found = counted(server, query)
    assert found["searches book title first_page"] == 1
    assert not any("empty_reads" in name for name in found)


def test_all_records_read_are_counted(server: ObservedServer, stores: list[CountingStore]) -> None:
    """The records read over all labels are those that the store examined. Reads of writes have empty labels."""
    (store,) = stores
    before = store.counts.records_read
    found = counted(server, '{ bookByWords(prefix: "T") { totalCount { value } items { title author { name } } } }')
    by_index = {name: count for name, count in found.items() if name.startswith("records_read")}
    assert sum(by_index.values()) == store.counts.records_read - before + 3
    found = counted(server, 'mutation { updateBook(input: {id: "b1", title: "New"}) { book { title } } }')
    assert found["records_read  "] == 1


def test_labels_are_those_of_the_catalog(server: ObservedServer) -> None:
    """Before the first read, the counts of each index begin at 0, and no other names are labels."""
    counts = parse_counts(server.client.get("/metrics").text)
    searches = {(entity.name, search.name) for entity in CATALOG.entities.values() for search in entity.searches}
    found = {tuple(name.split(" ")[1:]): count for name, count in counts.items() if "searches_total" in name}
    assert found == {(*search, kind): 0 for search in searches for kind in ("first_page", "next_page", "count")}
    empty = {tuple(name.split(" ")[1:]): count for name, count in counts.items() if "empty_reads_total" in name}
    expected = {(*search, kind): 0 for search in searches for kind in ("first_page", "count")}
    assert empty == expected | {(entity, "id", "key"): 0 for entity in CATALOG.entities}
    assert not any("tenant" in name for name in counts)


async def test_requests_of_shards_are_timed(dynamodb: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On DynamoDB, the duration of each query counts for its shard, without tenant and hash values."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    async with FaultProxy(int(dynamodb.endpoint.rpartition(":")[2])) as proxy:
        url = f"dynamodb://read-patterns?region={REGION}&endpoint={proxy.endpoint}"
        context = observed_server(tmp_path, catalog=CATALOG, records=BOOKS, store=url)
        server = await asyncio.to_thread(context.__enter__)
        try:
            proxy.reset_counts()
            query = '{ bookByTitle { items { title } } bookByAuthor(authorId: "a1") { items { title } } }'
            changes = await asyncio.to_thread(counted_shards, server, query)
        finally:
            await asyncio.to_thread(context.__exit__, None, None, None)
    requests = Counter[str]()
    for hash_key, count in proxy.calls_by_hash_key().items():
        requests[hash_key.partition("|")[0]] += count
    assert changes == requests
    assert requests.keys() == {f"book!0{number}" for number in range(4)}


def counted_shards(server: ObservedServer, query: str) -> Counts:
    """Return how many requests an operation sends to each shard, by the metrics."""
    name = "shardql_shard_read_seconds_count "
    before = server.counts()
    assert "errors" not in server.post(query).json()
    changes = count_changes(before, server.counts())
    return {key.removeprefix(name): count for key, count in changes.items() if key.startswith(name)}


def test_shard_labels_are_limited() -> None:
    """Only shards of the catalog's entities are labels, and at most `MAX_SHARDS` of them; tenants never are."""
    metrics = Metrics()
    metrics.declare_catalog(CATALOG)
    hash_keys = [f"tenant{number}|book!{number:04}|authorId#x" for number in range(MAX_SHARDS + 5)]
    statistics = RequestStatistics(shard_seconds=[(key, 0.1) for key in [*hash_keys, "unique.email!00", "mine!01"]])
    metrics.record_reads(statistics)
    counts = parse_counts(metrics.render("")[0].decode())
    shards = {name.split(" ")[1]: count for name, count in counts.items() if "shard_read_seconds_count" in name}
    assert shards == {f"book!{number:04}": 1 for number in range(MAX_SHARDS)} | {OTHER: 5}

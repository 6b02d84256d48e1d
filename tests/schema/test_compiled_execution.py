"""Compiled execution: what takes the fast path, what is not decoded, plans by conditions, and cached costs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import graphql
import pytest
import strawberry
from hypothesis import given
from hypothesis import strategies as st

from graphql_api import Catalog, Entity, HasMany, Id, Index, Int32, Shards
from graphql_api.model import record_codec, stored_columns
from graphql_api.query.execution import result_page
from graphql_api.schema.execution.compiled_execution import MAX_PLANS
from graphql_api.schema.execution.cost_cache import MAX_KNOWN_COSTS, CostCache
from graphql_api.schema.execution.document_limits import MAX_COUNT
from graphql_api.schema.execution.input_complexity import InputComplexity
from graphql_api.schema.execution.operation_cost import CostModel
from graphql_api.schema.graph import Graph
from graphql_api.schema.types.connection_types import Connection
from graphql_api.storage.values import Put
from tests.schema.graphql_client import open_client
from tests.support.store_doubles import all_items


class Band(Entity, shards=Shards(2)):
    """A band."""

    band_id: Id[str]
    name: str
    size: Int32 = 1

    by_name = Index(sort="name")
    songs = HasMany("Song", via="by_band")


class Song(Entity):
    """A song of a band."""

    song_id: Id[str]
    band_id: str
    title: str

    by_band = Index(hash="band_id", sort="title")


CATALOG = Catalog(Band, Song)
RECORDS = (
    *(Band(band_id=f"b{at}", name=f"n{at}") for at in range(3)),
    *(Song(song_id=f"s{at}", band_id=f"b{at % 3}", title=f"t{at}") for at in range(7)),
)


@strawberry.type
class Numbers:
    """A type of the application."""

    one: int = 1


@strawberry.type
class Queries:
    """Queries of the application."""

    @strawberry.field
    def numbers(self) -> Numbers:
        return Numbers()


def make_graph() -> Graph:
    """Return a graph with queries of the application. One returns records of a wrong type."""
    graph = Graph(CATALOG)
    graph.query(Queries)
    BandPage: Any = graph.page_type(Band)  # noqa: N806

    @graph.query
    @strawberry.type
    class Pages:
        @strawberry.field
        async def songs_as_bands(self, info: strawberry.Info[Any, Any]) -> BandPage:
            return Connection(await info.context.database.search(Song.by_band, band_id="b1"))

    return graph


FAST = [
    "{ bands { items { id bandId name size } nextToken } }",
    '{ bandByName(prefix: "n", first: 2) { edges { cursor node { name } } pageInfo { endCursor } } }',
    '{ band(id: "b1") { name songs { totalCount { value exact } items { title } shards { expected } } } }',
    '{ band(id: "none") { name } bandById { complete stoppedBy __typename } }',
    "{ __typename }",
]
WRONG = "{ songsAsBands { items { __typename name } } }"
STOCK = [
    "{ numbers { one } }",
    "{ bands { items { name } } numbers { one } }",
    "{ __schema { queryType { name } } }",
    WRONG,
]


@pytest.mark.parametrize(("query", "path"), [*((query, "fast") for query in FAST), *((one, "stock") for one in STOCK)])
async def test_paths(tmp_path: Path, query: str, path: str) -> None:
    """Pages, records and their joins are completed by compiled code, types of the application by graphql-core."""
    async with open_client(CATALOG, tmp_path, *RECORDS, graph=make_graph()) as client:
        response = await client.execute(query)
        assert response.codes == (("BAD_USER_INPUT",) if query == WRONG else ())
        assert response.path == path
        stock = replace(client, executor=replace(client.executor, compiled=False))
        expected = await stock.execute(query)
        assert expected.path == "stock"
        assert expected.body == response.body


async def test_pages_decode_no_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of plain entities, with joins, decodes no record. One that needs a record decodes all of the page."""
    decoded: list[Any] = []

    def decode(*arguments: Any) -> Any:
        decoded.append(arguments)
        return record_codec.decode_record(*arguments)

    def decode_all(entity: Any, items: Any) -> Any:
        decoded.extend(items)
        return stored_columns.decode_records(entity, items)

    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        monkeypatch.setattr(result_page, "decode_record", decode)
        monkeypatch.setattr(result_page, "decode_records", decode_all)
        data = await client.data("{ bands { items { id name songs { items { title } edges { cursor } } } } }")
        assert [len(band["songs"]["items"]) for band in data["bands"]["items"]] == [3, 2, 2]
        assert decoded == []
        for item in await all_items(client.db.store):
            if item.get("name") == "n1":
                await client.db.store.write([Put({**item, "size": "large"})])
        client.reset_counts()
        response = await client.execute("{ bands { items { name } } }")
        assert response.codes == ("INVALID_RECORD",)
        assert response.path == "stock"
        assert client.counts.rounds == 1
        assert 0 < len(decoded) <= 2 * 3


async def test_conditions_select_the_plan(tmp_path: Path) -> None:
    """Each combination of values of the conditions has its own plan. Their number is limited."""
    names = [f"v{number}" for number in range(6)]
    head = ", ".join(f"${name}: Boolean!" for name in names)
    fields = " ".join(f"{name}: name @include(if: ${name})" for name in names)
    query = f"query ({head}) {{ bands(limit: 1) {{ items {{ bandId {fields} }} }} }}"
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        for number in (*range(2**6), 0):
            chosen = {name: bool(number >> at & 1) for at, name in enumerate(names)}
            (item,) = (await client.data(query, chosen))["bands"]["items"]
            assert [*item] == ["bandId", *(name for name, value in chosen.items() if value)]
        (document,) = client.executor._cache.values()
        (plans,) = document.plans.values()
        assert 1 <= len(plans) <= MAX_PLANS
        assert client.executor._cached_characters == document.size == len(query) * (1 + len(plans))


async def test_plans_count_for_the_document_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents leave the cache when they and their plans are too large together."""
    query = "query ($v: Boolean!) {{ bands(limit: {}) {{ items {{ bandId name @skip(if: $v) }} }} }}"
    size = len(query.format(1))
    monkeypatch.setattr("graphql_api.schema.execution.document_executor.MAX_CACHED_CHARACTERS", 6 * size)
    async with open_client(CATALOG, tmp_path, *RECORDS) as client:
        for number in range(1, 7):
            for value in (True, False, True):
                await client.data(query.format(number), {"v": value})
        assert [document.size for document in client.executor._cache.values()] == [3 * size, 3 * size]
        assert client.executor._cached_characters == 6 * size


SCHEMA = Graph(CATALOG).schema._schema
DOCUMENT = graphql.parse(
    """query ($a: Int, $b: Int = 7, $c: String, $d: String = "x", $e: [String!], $f: BandFilter) {
      bandByName(first: $a, prefix: $c, after: $d, filter: $f) { ...P totalCount(atMost: $b) { value } }
      x: songByBand(bandId: $c, limit: $b) { items { title } } y: songByBand(bandIdIn: $e) { items { title } }
    }
    fragment P on BandConnection { items { name songs(last: $a, eq: $c) { items { title } } } }"""
)
OPERATION, FRAGMENT = DOCUMENT.definitions
VALUES = st.none() | st.booleans() | st.integers(-2, 600) | st.floats(0, 600) | st.text(max_size=300)
VARIABLES = st.lists(
    st.dictionaries(st.sampled_from("abcd"), VALUES)
    | st.fixed_dictionaries({"e": st.lists(st.text(max_size=3)), "a": VALUES})
    | st.fixed_dictionaries({"f": st.just({"name": {"eq": "x"}})}),
    max_size=6,
)


@given(drawn=VARIABLES)
def test_cached_costs(drawn: list[dict[str, Any]]) -> None:
    """The cost of an operation is the same with a cache, whatever variables it had before."""
    assert isinstance(OPERATION, graphql.OperationDefinitionNode)
    assert isinstance(FRAGMENT, graphql.FragmentDefinitionNode)
    model, cache = CostModel(SCHEMA, 10**6), CostCache(DOCUMENT, OPERATION)
    for variables in drawn * 2:
        inputs = InputComplexity(SCHEMA, OPERATION, variables, MAX_COUNT)
        expected = model.cost(OPERATION, {"P": FRAGMENT}, variables, inputs)
        key = cache.key(variables)
        assert cache.get(key) in (None, expected)
        cache.add(key, expected)


def test_known_costs_are_limited() -> None:
    """A client that varies the page size does not fill the memory."""
    assert isinstance(OPERATION, graphql.OperationDefinitionNode)
    model, cache = CostModel(SCHEMA, 10**6), CostCache(DOCUMENT, OPERATION)
    inputs = InputComplexity(SCHEMA, OPERATION, {}, MAX_COUNT)
    cost = model.cost(OPERATION, {"P": FRAGMENT}, {}, inputs)  # type: ignore[dict-item]
    for size in range(2 * MAX_KNOWN_COSTS):
        cache.add(cache.key({"a": size}), cost)
    assert len(cache._known) <= MAX_KNOWN_COSTS

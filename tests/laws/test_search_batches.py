"""The law of search batches: searches that share one plan give the pages, errors and counts that each gives alone."""

import types
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, SubId, Timestamp
from graphql_api.codecs import Eq
from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from graphql_api.query import PYTHON_NAMES, SearchBatch, SearchFrame, SearchRequest, plan_batch
from graphql_api.query.execution.batch_reader import BatchedPage
from graphql_api.query.execution.result_page import Page
from graphql_api.runtime import RequestStatistics, collect_statistics
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.shard_reads import MergedPages, RangeGroups, pages_of_groups
from graphql_api.storage.values import RangeRead, ReadResult, RowPage
from tests.laws.search_catalogs import new_tenant, seen
from tests.laws.test_grouped_searches import _as_values
from tests.laws.test_search import SEAL, Engines, engines, run_in_batches
from tests.support.dynamodb_servers import Server
from tests.support.run_depth import depth, examples
from tests.support.store_doubles import FailingStore, IndependentReadsStore, ShardByShardStore, TinyMemoryStore

__all__ = ["engines"]

NOW = 5_000
TEXTS = ["a", "ab", "a!", "a|", "a#b", "é", "b", "B", "a\u0001"]
ODD_VALUES: list[Any] = ["", None, 7, "x" * 300, "x" * 3_000, "\ud800", Eq("a"), {"eq": "a"}, {"prefix": "a"}, ["a"]]
LIMITS = [1, 2, 3, 50]
SHARDS = {
    "one": Shards(1),
    "several": Shards(7),
    "generations": Shards(1).then(3, since=1_000).then(9, since=2_000),
}
PAGED = ["limit", "first", "limit", "first", "last"]


def _catalog(shards: str, projection: Any) -> tuple[Catalog, Any]:
    """Return a catalog of lines, with indexes of every kind."""
    owner = types.new_class(
        "Owner", (Entity,), {"shards": SHARDS[shards]}, _body({"owner": Id[str], "created": Created[Timestamp]}, {})
    )
    indexes = {
        "by_owner": Index(
            hash="owner",
            sort=["note", "created"],
            sharded="Owner",
            projection=projection,
            name=f"owner{projection}",
            hash_key=f"owner{projection}Hash",
            range_key=f"owner{projection}Range",
        ),
        "by_shop": Index(hash="shop", sort="created"),
        "by_shop_and_owner": Index(hash=["shop", "owner"], sort="note"),
        "by_place": Index(hash="shop", sort="note", sharded=False),
        "by_raw": Index(hash="shop", sort="note", raw=True),
    }
    properties = {
        "order": Id[str],
        "line": SubId[str],
        "created": Created[Timestamp],
        "owner": str,
        "shop": str,
        "note": str,
    }
    line = types.new_class("Line", (Entity,), {"shards": SHARDS[shards]}, _body(properties, indexes))
    return Catalog(line, owner), line


def _body(annotations: dict[str, Any], indexes: dict[str, Index]) -> Any:
    described = {"__annotations__": annotations, "__doc__": "An entity.", "__module__": __name__}
    return lambda names: names.update({**described, **indexes})


CATALOGS = {
    (shards, str(projection)): _catalog(shards, projection) for shards in SHARDS for projection in ("ALL", "KEYS_ONLY")
}
CLASSES = ["one plan", "planned alone", "another round", "next page", "failed shard", "empty page", "several shards"]


class ComparedGroupsStore(ForwardingStore):
    """Compares the answers to the searches of a batch with those to the reads of each search alone."""

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        answer = await self.inner.read_ranges(reads, want)
        if isinstance(reads, RangeGroups):
            assert len(reads) == sum(len(group.reads) for group in reads.groups)
            for group, pages in zip(reads.groups, pages_of_groups(reads, answer), strict=True):
                alone = await self.inner.read_ranges([*group.reads], group.want)
                assert [*map(_rows, pages)] == [*map(_rows, alone)]
                found = [page for page in alone if isinstance(page, RowPage)]
                if isinstance(pages, MergedPages):
                    assert pages.records_read == sum(page.records_read for page in found)
                    assert pages.size == sum(page.size for page in found)
                    positions = [page.scanned_to for page in found if page.scanned_to is not None]
                    assert pages.scanned_to == (positions[0] if positions else None)
        return answer


def _rows(page: ReadResult) -> Any:
    return (
        ([(row.position, row.item) for row in page.rows], page.scanned_to) if isinstance(page, RowPage) else str(page)
    )


@st.composite
def batches(draw: st.DrawFn, db: Database, line: type[Entity]) -> SearchBatch:
    """Draws searches that differ in the values that their index requires."""
    index = draw(st.sampled_from(["by_id", "by_id", "by_owner", "by_shop", "by_shop_and_owner", "by_place", "by_raw"]))
    spec = db.catalog.entity(line).indexes[index]
    names = draw(st.permutations([PYTHON_NAMES.property_argument(part.name) for part in spec.required]))
    values = st.one_of(st.sampled_from(TEXTS), st.sampled_from(TEXTS), st.sampled_from(TEXTS + ODD_VALUES))
    rows = draw(st.lists(st.tuples(*[values] * len(names)), min_size=1, max_size=9), label="values")
    own: dict[str, Any] = {}
    if spec.sort[0].property.name == "created":
        own = draw(st.sampled_from([{}, {"eq": 1_500}, {"from_": 900}, {"from_": 500, "to": 2_400}, {"to": "x"}]))
    else:
        own = draw(st.sampled_from([{}, {}, {"prefix": "a"}, {"eq": "a"}, {"from_": "a!", "to": "b"}, {"other": 1}]))
    paged, limit = draw(st.sampled_from(PAGED)), draw(st.sampled_from(LIMITS), label="limit")
    common = SearchRequest(
        "line",
        index,
        own,
        reverse=draw(st.sampled_from([None, None, True])),
        read_budget=draw(st.sampled_from([10_000, 10_000, 3]), label="budget"),
        filter=draw(st.sampled_from([None, None, None, {"note": "a"}])),
        select=draw(st.sampled_from([None, None, frozenset({"order", "note"})])),
        on_shard_failure=draw(st.sampled_from(["FAIL", "PARTIAL"])),
    )
    sizes: dict[str, Any] = {paged: limit}
    return SearchBatch(replace(common, **sizes), names, rows)


async def compare(db: Database, batch: SearchBatch) -> None:
    """Compare the searches of a batch with the same searches alone: pages, errors, and what is counted."""
    with collect_statistics() as alone:
        expected = [await _page_or_error(db, request) for request in [*batch]]
    with collect_statistics() as together:
        found = await db.pages(batch)
    for request, page, other in zip(batch, found, expected, strict=True):
        assert _as_values(page) == _as_values(other), request
        if isinstance(page, Page) and isinstance(other, Page):
            assert page.cursors == other.cursors
            assert page.request == other.request
            assert (page.record_count, page.has_next) == (other.record_count, other.has_next)
            seen["next page"] += page.has_next
            seen["failed shard"] += not page.complete
            seen["empty page"] += not page.record_count
            seen["one plan"] += isinstance(page, BatchedPage)
            seen["another round"] += page.explain["read"]["rounds"] > 1
            seen["several shards"] += page.shards.expected > 1
        seen["planned alone"] += not isinstance(page, BatchedPage)
    assert _counts(together) == _counts(alone)


async def _page_or_error(db: Database, request: SearchRequest) -> Page[Any] | Exception:
    try:
        return await db.page(request)
    except Exception as problem:  # noqa: BLE001 - whatever it is, a batch has it too
        return problem


def _counts(statistics: RequestStatistics) -> Any:
    return {
        key: (
            one.reads,
            one.empty_reads,
            one.shards_asked,
            one.records_read,
            one.records_returned,
            len(one.call_seconds),
        )
        for key, one in statistics.indexes.items()
    }


def check_plan(db: Database, batch: SearchBatch) -> None:
    """The first reads of a batch are those of the plans of its searches."""
    owned = batch.owned_by(db.tenant, db.principal)
    try:
        frame = SearchFrame.of(db.catalog, owned.common)
    except ShardQLError:
        return
    plan = plan_batch(frame, owned, NOW, SEAL)
    if plan is None:
        return
    assert sorted([*plan.positions, *plan.others]) == [*range(len(batch))]
    for number, at in enumerate(plan.positions):
        single = plan.plan(at)
        reads = single.reads_of(single.scans[0], single.traversal.start, single.limit)
        group = plan.reads.group(number)
        assert [*group.reads] == [*reads]
        assert group.want == min(single.request.read_budget, single.limit + 1)


def _prepared(data: st.DataObject, store: Store, tenant: str) -> tuple[Database, Any]:
    catalog, line = CATALOGS[data.draw(st.sampled_from([*CATALOGS]), label="catalog")]
    return Database(catalog, store, SEAL, clock=lambda: NOW, tenant=tenant), line


async def _write(data: st.DataObject, db: Database, line: Any) -> None:
    text = st.sampled_from(TEXTS[: data.draw(st.sampled_from([2, len(TEXTS)]))])
    drawn = st.tuples(text, text, st.sampled_from([900, 1_500, 2_400]), text, text, text)
    rows = data.draw(st.lists(drawn, max_size=depth(25, 60), unique_by=lambda row: row[:2]), label="records")
    created: dict[str, int] = {}
    records = [
        line(order=order, line=sub, created=created.setdefault(order, at), owner=owner, shop=shop, note=note)
        for order, sub, at, owner, shop, note in rows
    ]
    assert not any(await db.put_many(records))


def _fails(read: RangeRead) -> bool:
    return crc32(read.hash_key.partition("|")[2].encode()) % 3 == 0


def test_searches_of_a_batch_give_the_pages_that_each_gives_alone(
    engines: Engines, request: pytest.FixtureRequest
) -> None:
    """Pages, tokens, costs, errors and counts are equal, on any engine, with failing shards and little memory."""

    @examples(20, deep=1_000)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        async def check() -> None:
            store, settle = engines.draw_store(data)
            db, line = _prepared(data, store, new_tenant())
            await store.ensure_table(db.catalog.table_definition())
            await _write(data, db, line)
            await settle()
            kind = data.draw(st.sampled_from(["plain", "plain", "independent", "single", "failing", "failing", "tiny"]))
            wrapped: Store = ComparedGroupsStore(store) if store is engines.plain else store
            if kind == "independent":
                wrapped = IndependentReadsStore(store, data.draw(st.sampled_from([1, 2, 100])))
            elif kind == "single":
                wrapped = ShardByShardStore(store)
            elif kind == "failing":
                wrapped = FailingStore(store, _fails)
            elif kind == "tiny":
                wrapped = TinyMemoryStore(store)
            db = replace(db, store=wrapped)
            for _ in range(3):
                batch = data.draw(batches(db, line), label="batch")
                check_plan(db, batch)
                await compare(db, batch)

        engines.runner.run(check())

    seen.clear()
    run_in_batches(law, request, CLASSES)


async def test_searches_of_a_batch_give_the_same_pages_on_dynamodb(dynamodb: Server) -> None:
    """The same holds on DynamoDB, which answers each shard by a query."""
    catalog, line = CATALOGS["generations", "ALL"]
    store = await dynamodb.open("search-batches")
    try:
        await store.ensure_table(catalog.table_definition())
        db = Database(catalog, store, SEAL, clock=lambda: NOW)
        lines = [
            line(order=order, line=str(sub), created=at * 700, owner="ab"[sub % 2], shop="s", note="n")
            for at, order in enumerate(TEXTS)
            for sub in range(at % 4)
        ]
        assert not any(await db.put_many(lines))
        for index, name, rows in (("by_id", "order", TEXTS), ("by_owner", "owner", ["a", "b", "c"])):
            for limit in (1, 3, 50):
                batch = SearchBatch(SearchRequest("line", index, limit=limit), [name], [(value,) for value in rows])
                check_plan(db, batch)
                await compare(db, batch)
    finally:
        await store.close()

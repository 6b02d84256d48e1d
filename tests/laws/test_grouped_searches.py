"""The law of grouped searches: several searches at once give the pages and the errors that each gives alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.database import Database
from graphql_api.errors import QueryTooCostly, ShardQLError
from graphql_api.query.execution.result_page import Page
from graphql_api.query.search_request import SearchRequest
from graphql_api.runtime import collect_statistics
from graphql_api.storage.port import Store
from tests.laws.filter_strategies import Case, draw_case
from tests.laws.search_catalogs import FEW, NOW, new_tenant, seen
from tests.laws.test_search import SEAL, Engines, Settle, engines, no_index_lag, run_in_batches
from tests.laws.test_search_filters import BUDGETS, store_records
from tests.laws.test_search_filters_dynamodb import DynamoDBTables, tables
from tests.support.run_depth import examples
from tests.support.store_doubles import CountingStore, FailingStore, TinyMemoryStore

__all__ = ["engines", "tables"]

CLASSES = ["fewer calls", "resumed page", "failed search", "partial page", "search union", "records fetched"]
SIZES = [1, 4, 7, 40]
LIMITS = [1, 2, 3, 7, 50]


@dataclass
class Comparison:
    """A database, whose searches are compared."""

    data: st.DataObject
    db: Database
    case: Case

    async def compare(self) -> None:
        """Compare several searches at once, and then those for the next pages."""
        requests = [self._draw_request() for _ in range(self.data.draw(st.integers(2, 6), label="searches"))]
        for _ in range(2):
            single = [await self._outcomes([request], alone=True) for request in requests]
            grouped, calls = await self._outcomes(requests)
            assert grouped == [outcome for (outcome,), _ in single]
            assert calls <= sum(each for _, each in single)
            seen["fewer calls"] += calls < sum(each for _, each in single)
            pages = await self.db.pages(requests)
            found = [page for page in pages if isinstance(page, Page)]
            seen["partial page"] += any(not page.complete for page in found)
            seen["records fetched"] += any(page.explain["read"]["fetched"] for page in found)
            seen["failed search"] += any(isinstance(page, ShardQLError) for page in pages)
            requests = [*filter(None, map(_next_request, requests, pages))]
            seen["resumed page"] += len(requests)

    def _draw_request(self) -> SearchRequest:
        draw, options = self.data.draw, self.case.search.options
        forward = draw(st.booleans(), label="forward")
        request, limit = self.db._search_request(self.case.index, **options), draw(st.sampled_from(LIMITS))
        return replace(
            request,
            limit=limit if forward else None,
            last=None if forward else limit,
            read_budget=draw(st.sampled_from(BUDGETS), label="budget"),
            on_shard_failure=draw(st.sampled_from(["FAIL", "PARTIAL"]), label="on failure"),
        )

    async def _outcomes(self, requests: Sequence[SearchRequest], *, alone: bool = False) -> tuple[list[Any], int]:
        """Return the results of searches, alone or at once, and the number of calls."""
        counting = CountingStore(self.db.store)
        db = replace(self.db, store=counting)
        with collect_statistics() as statistics:
            results = [await _page_or_error(db, one) for one in requests] if alone else await db.pages(requests)
        assert statistics.totals()["searches"] == sum(isinstance(one, Page) for one in results)
        return [*map(_as_values, results)], counting.counts.rounds

    async def compare_ceilings(self) -> None:
        """Compare under a ceiling that suffices for all; a lower one is never passed."""
        requests = [replace(self._draw_request(), on_shard_failure="FAIL") for _ in range(3)]
        expected = [_as_values(await _page_or_error(self.db.limited(10**6), request)) for request in requests]
        found = await self.db.limited(10**7).pages(requests)
        assert [*map(_as_values, found)] == expected
        limited = self.db.limited(self.data.draw(st.sampled_from([0.5, 2, 5, 20]), label="ceiling"))
        results = await limited.pages(requests)
        assert limited.ceiling is not None
        assert limited.ceiling.left >= 0
        assert all(isinstance(one, Page | QueryTooCostly) for one in results)


async def _page_or_error(db: Database, request: SearchRequest) -> Page[Any] | ShardQLError:
    try:
        return await db.page(request)
    except ShardQLError as problem:
        return problem


def _next_request(request: SearchRequest, page: Page[Any] | BaseException) -> SearchRequest | None:
    if not isinstance(page, Page):
        return None
    if request.last is not None:
        return replace(request, before=page.start_cursor) if page.has_previous else None
    return None if page.next_token is None else replace(request, next_token=page.next_token)


def _as_values(result: Page[Any] | BaseException) -> Any:
    if not isinstance(result, Page):
        return type(result), str(result)
    cost = {**result.explain["read"], "milliseconds": 0}
    tokens = result.next_token, result.start_cursor, result.end_cursor
    flags = result.complete, result.stopped_by, result.has_next, result.has_previous
    return [*result.items], tokens, flags, result.shards, cost


def _fails(chance: int) -> Any:
    return lambda read: crc32(read.hash_key.partition("|")[2].encode()) % 6 < chance


async def _prepared(data: st.DataObject, case: Case, store: Store, settle: Settle, chances: Sequence[int]) -> Database:
    """Return a database with the records of a case, some of whose shards may fail."""
    db = Database(case.drawn.catalog, store, SEAL, clock=lambda: NOW, tenant=new_tenant())
    await store_records(db, case.drawn, case.written)
    await settle()
    chance = data.draw(st.sampled_from(chances), label="failing shards")
    return replace(db, store=FailingStore(store, _fails(chance))) if chance else db


def test_grouped_searches_give_the_same_pages(engines: Engines, request: pytest.FixtureRequest) -> None:
    """Items, tokens, cost and errors of each search are equal, with failing shards and little memory too."""

    @examples(6, deep=1_000)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        async def check() -> None:
            case = draw_case(data, SIZES)
            store, settle = engines.draw_store(data)
            await store.ensure_table(case.drawn.catalog.table_definition())
            db = await _prepared(data, case, store, settle, [0, 0, 1, 3, 6])
            if data.draw(st.booleans(), label="little memory"):
                db = replace(db, store=TinyMemoryStore(db.store))
            await Comparison(data, db, case).compare()

        engines.runner.run(check())

    run_in_batches(law, request, CLASSES)


def test_grouped_searches_keep_a_ceiling(engines: Engines, request: pytest.FixtureRequest) -> None:
    """Under a ceiling, searches at once give the same pages if it suffices, and never pass it."""

    @examples(3, deep=300)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        async def check() -> None:
            case = draw_case(data, SIZES)
            await engines.plain.ensure_table(case.drawn.catalog.table_definition())
            db = await _prepared(data, case, engines.plain, no_index_lag, [0])
            await Comparison(data, db, case).compare_ceilings()

        engines.runner.run(check())

    run_in_batches(law, request)


def test_grouped_searches_give_the_same_pages_on_dynamodb(
    tables: DynamoDBTables, request: pytest.FixtureRequest
) -> None:
    """The same holds on DynamoDB, whose engine reads each shard by a query."""

    @examples(2, deep=200)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data, FEW)
        store = tables.database(case).store

        async def check() -> None:
            db = await _prepared(data, case, store, no_index_lag, [0, 1])
            await Comparison(data, db, case).compare()
            await Comparison(data, replace(db, store=store), case).compare_ceilings()

        tables.runner.run(check())

    run_in_batches(law, request)

"""The law of merged scans: a search reads the same, whether the engine or the search merges the shards."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.database import Database
from graphql_api.query.execution.result_page import Page
from tests.laws.filter_strategies import Case, draw_case
from tests.laws.search_catalogs import NOW, new_tenant, seen
from tests.laws.test_search import SEAL, Engines, engines, run_in_batches
from tests.laws.test_search_filters import BUDGETS, store_records
from tests.support.run_depth import examples
from tests.support.store_doubles import ComparedReadsStore, ShardByShardStore

__all__ = ["engines"]

SIZES = [4, 7, 40]
CLASSES = ["merged", "several rounds", "merged descending", "merged with expired", "merged count"]


def test_merged_and_single_reads_give_the_same_pages(engines: Engines, request: pytest.FixtureRequest) -> None:
    """Items, tokens, cursors, reasons and the cost of each page and count are equal, with any filter and budget."""

    @examples(8, deep=2_500)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        engines.runner.run(_compare(data, engines, draw_case(data, SIZES)))

    run_in_batches(law, request, CLASSES)


async def _compare(data: st.DataObject, engines: Engines, case: Case) -> None:
    """Reads a result page by page, with both kinds of reads."""
    search, catalog = case.search, case.drawn.catalog
    await engines.plain.ensure_table(catalog.table_definition())
    compared = ComparedReadsStore(engines.plain)
    merged = Database(catalog, compared, SEAL, clock=lambda: NOW, tenant=new_tenant())
    single = replace(merged, store=ShardByShardStore(engines.plain))
    await store_records(merged, case.drawn, case.written)
    budget = data.draw(st.sampled_from(BUDGETS), label="budget")
    backward = data.draw(st.booleans(), label="backward")
    token = None
    while True:
        limit = data.draw(st.sampled_from([1, 2, 3, 7, 50]), label="limit")
        paging = {"last": limit, "before": token} if backward else {"limit": limit, "next_token": token}
        before = compared.merged
        page, other = [
            await db.search(case.index, **search.options, read_budget=budget, **paging) for db in (merged, single)
        ]
        assert _as_values(page) == _as_values(other)
        is_merged = compared.merged > before
        seen["merged"] += is_merged
        seen["several rounds"] += is_merged and page.explain["read"]["rounds"] > 1
        seen["merged descending"] += is_merged and page._plan.descending
        seen["merged with expired"] += is_merged and any(one.record.get("expires") for one in case.written)
        token = (page.start_cursor if page.has_previous else None) if backward else page.next_token
        if token is None:
            break
    before = compared.merged
    counts = [
        await db.count(case.index, **search.arguments, filter=search.options["filter"]) for db in (merged, single)
    ]
    seen["merged count"] += compared.merged > before
    assert counts[0] == counts[1]
    assert _read_of(counts[0].explain) == _read_of(counts[1].explain)


def _as_values(page: Page[Any]) -> tuple[Any, ...]:
    """Returns everything that a page shows, but for the time that it took."""
    tokens = page.next_token, page.start_cursor, page.end_cursor, page.cursors
    flags = page.complete, page.stopped_by, page.has_next, page.has_previous
    return [*page.items], tokens, flags, page.shards, _read_of(page.explain)


def _read_of(explain: Mapping[str, Any]) -> dict[str, Any]:
    return {**explain, "read": {**explain["read"], "milliseconds": 0.0}}

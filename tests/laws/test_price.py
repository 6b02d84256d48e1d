"""The law of prices: each charge lies within its estimate, and a capacity ceiling is never passed and loses nothing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from graphql_api.database import Database
from graphql_api.errors import QueryTooCostly, StoreUnavailable
from graphql_api.query.execution.result_page import Page
from graphql_api.runtime.capacity_ceiling import CapacityCeiling
from graphql_api.runtime.request_statistics import CapacityMeter, meter_capacity
from tests.laws.filter_strategies import Case, draw_case
from tests.laws.search_catalogs import draw_case as draw_plain_case
from tests.laws.search_catalogs import seen
from tests.laws.test_search import (
    Engines,
    Settle,
    as_records,
    engines,
    primary_key,
    put_records,
    run_in_batches,
)
from tests.laws.test_search_failures import failing_database
from tests.laws.test_search_filters import (
    database_of,
    reference_result,
    selected,
    selected_items,
    store_records,
)
from tests.support.run_depth import examples
from tests.support.store_doubles import CountingStore

__all__ = ["engines"]

CLASSES = ["refused", "ended by the ceiling", "records fetched", "search union", "read backward", "several pages"]
MAX_UNITS = [0.5, 1, 1.5, 2, 3, 5, 8, 13, 40, 400]
LIMITS = [1, 2, 3, 7, 50]


def test_charges_lie_within_estimates_and_ceilings(engines: Engines, request: pytest.FixtureRequest) -> None:
    """Each charge is within its estimate; pages under a ceiling join to the same result, and never pass it."""

    @examples(6, deep=1_500)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data)
        engines.runner.run(check_prices(data, *database_of(data, engines, case.drawn), case))

    run_in_batches(law, request, CLASSES)


async def check_prices(data: st.DataObject, db: Database, settle: Settle, case: Case) -> None:
    """Reads a result without a ceiling, and then under one that is drawn for each page."""
    await store_records(db, case.drawn, case.written)
    await settle()
    expected = selected(case.search, await reference_result(db, case))
    await _check_estimates(data, db, case)
    await _check_ceilings(data, db, case, expected)


async def _check_estimates(data: st.DataObject, db: Database, case: Case) -> None:
    limit, token = data.draw(st.sampled_from(LIMITS), label="limit"), None
    while True:
        with meter_capacity() as meter:
            page = await db.search(case.index, **case.search.options, limit=limit, next_token=token)
        check_charge(page, meter)
        token = page.next_token
        if token is None:
            break
    with meter_capacity() as meter:
        count = await db.count(case.index, **case.search.arguments, filter=case.search.options["filter"])
    check_charge(count, meter)


def check_charge(result: Any, meter: CapacityMeter) -> None:
    """Asserts that the charge lies within the estimate, which excludes attempts that the engine repeats."""
    estimate, charge = result.explain["estimate"], meter.units
    note(f"charge {charge}, {estimate}")
    seen["searches"] += 1
    assert charge is not None
    assert estimate["least"] <= charge <= estimate["most"]
    assert estimate["least"] <= estimate["expected"] <= estimate["most"]


async def _check_ceilings(data: st.DataObject, db: Database, case: Case, expected: Sequence[Any]) -> None:
    backward = data.draw(st.booleans(), label="backward")
    token, at, pages, least, lost = None, len(expected) if backward else 0, 0, 0.0, 0
    while True:
        limit = data.draw(st.sampled_from(LIMITS), label="page size")
        max_units = max(least, data.draw(st.sampled_from(MAX_UNITS), label="ceiling"))
        paging = {"last": limit, "before": token} if backward else {"limit": limit, "next_token": token}
        try:
            page = await page_under_ceiling(db, case.index, max_units, **case.search.options, **paging)
        except StoreUnavailable:
            # A server may close an idle connection. The attempt is in doubt, and another one may not fit.
            lost += 1
            assert lost < 4
            continue
        if not isinstance(page, Page):
            least = data.draw(st.sampled_from([page, 2 * max_units]), label="raised ceiling")
            continue
        least, pages = 0.0, pages + 1
        found = selected_items(case.drawn, case.search, page)
        begin, end = (at - len(found), at) if backward else (at, at + len(found))
        assert found == expected[begin:end]
        if page.stopped_by == "BUDGET":
            seen["ended by the ceiling"] += 1
        else:
            assert len(found) == limit or (begin == 0 if backward else end == len(expected))
        seen["read backward"] += backward
        seen["records fetched"] += page.explain["read"]["fetched"] > 0
        at = begin if backward else end
        following = (page.start_cursor if page.has_previous else None) if backward else page.next_token
        assert following != token or following is None, "each page gets beyond its old position"
        token = following
        if token is None:
            break
    assert at == (0 if backward else len(expected))
    seen["several pages"] += pages > 1


async def page_under_ceiling(db: Database, index: Any, max_units: float, **options: Any) -> Page[Any] | float:
    """Returns a page that charges no more than the ceiling, or the ceiling that it needs if nothing was read."""
    counting = CountingStore(db.store)
    limited = replace(db, store=counting).limited(max_units)
    ceiling = limited.ceiling
    assert ceiling is not None
    seen["searches"] += 1
    page, refusal = None, None
    with meter_capacity() as meter:
        try:
            page = await limited.search(index, **options)
        except QueryTooCostly as problem:
            refusal = problem
        finally:
            note(f"charged {meter.total} of {max_units}")
            check_ceiling(meter, ceiling)
    if refusal is not None:
        assert (counting.counts.rounds, counting.counts.gets) == (0, 0)
        assert refusal.estimate is not None
        assert refusal.found is not None
        assert refusal.found > max_units
        seen["refused"] += 1
        return refusal.found
    assert page is not None
    return page


def check_ceiling(meter: CapacityMeter, ceiling: CapacityCeiling) -> None:
    """Asserts that no more was charged than the ceiling allows, and that nothing stays reserved."""
    assert ceiling.reserved == 0
    assert meter.total is not None
    assert meter.total <= ceiling.charged <= ceiling.max_units


def test_failing_shards_lose_nothing_under_a_ceiling(engines: Engines, request: pytest.FixtureRequest) -> None:
    """Under PARTIAL and a ceiling, all pages together return every record once, and no page charges more."""

    @examples(5, deep=1_000)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_plain_case(data)
        db, faults = failing_database(data, engines, case.drawn.catalog)
        engines.runner.run(_check_failures(data, db, engines.catch_up_indexes, case, faults))

    run_in_batches(law, request, ["a shard failed under a ceiling", "ended by the ceiling", "refused"])


async def _check_failures(data: st.DataObject, db: Database, settle: Settle, case: Any, faults: Any) -> None:
    search, drawn = case.search, case.drawn
    await put_records(db, drawn, case.records)
    await settle()
    expected = search.expected_result(case.records)
    options = {**search.arguments, "reverse": case.reverse, "on_shard_failure": "PARTIAL"}
    found, token, pages, least = [], None, 0, 0.0
    while True:
        pages += 1
        faults.chance = 0.3 if pages < 12 else 0.0
        max_units = max(least, data.draw(st.sampled_from([20, 50, 120, 300, 1000]), label="ceiling"))
        try:
            page = await page_under_ceiling(db, case.index, max_units, **options, limit=5, next_token=token)
        except StoreUnavailable:
            continue
        if not isinstance(page, Page):
            least = data.draw(st.sampled_from([page, 2 * max_units]), label="raised ceiling")
            continue
        least = 0.0
        found += as_records(drawn, page.items)
        seen["a shard failed under a ceiling"] += not page.complete
        seen["ended by the ceiling"] += page.stopped_by == "BUDGET"
        token = page.next_token
        if token is None:
            break
        assert pages < 500
    assert sorted(map(primary_key, found)) == sorted(map(primary_key, expected))

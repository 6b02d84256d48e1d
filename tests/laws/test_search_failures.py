"""The law of failures: each page is correct or an error, and the records of a failed shard follow on later pages."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.database import Database
from graphql_api.errors import StoreError, StoreUnavailable
from graphql_api.model.catalog import Catalog
from tests.laws.search_catalogs import NOW, Case, DrawnSearch, Record, draw_case, new_tenant, seen
from tests.laws.test_search import (
    SEAL,
    Engines,
    Settle,
    as_records,
    engines,
    primary_key,
    put_records,
    resume_point,
    run_in_batches,
)
from tests.support.run_depth import examples
from tests.support.store_doubles import FailingStore, IndependentReadsStore

__all__ = ["engines"]

SHAPES_OF_FAILURE = [
    *(
        "a shard failed",
        "failed later in a page",
        "all failed",
        "lagging",
        "cursor of a partial page",
        "read backward",
    ),
    *("a shard failed twice", "complete again"),
]


class RandomFaults:
    """Decides at random, with a fixed chance, which reads fail."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.chance = 0.0

    def __call__(self, read: object) -> bool:
        return self.random.random() < self.chance


def failing_database(data: st.DataObject, engines: Engines, catalog: Catalog) -> tuple[Database, RandomFaults]:
    """Returns a database whose reads fail, and the faults that decide it."""
    faults = RandomFaults(data.draw(st.integers(0, 2**16), label="seed"))
    most = data.draw(st.sampled_from([1, 2, 1000]), label="rows a read")
    engines.runner.run(engines.distributed.ensure_table(catalog.table_definition()))
    # Ties in the order of keys make the case replayable.
    store = FailingStore(IndependentReadsStore(engines.distributed, most), faults)
    return Database(catalog, store, SEAL, clock=lambda: NOW, tenant=new_tenant()), faults


def test_records_of_failed_shards_follow_on_later_pages(engines: Engines, request: pytest.FixtureRequest) -> None:
    """Under PARTIAL all pages together return every record once, each page in order; under FAIL pages are exact."""

    @examples(30, deep=2_000)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data)
        db, faults = failing_database(data, engines, case.drawn.catalog)
        engines.runner.run(_check(data, db, engines.catch_up_indexes, case, faults))

    run_in_batches(law, request, SHAPES_OF_FAILURE)


async def _check(data: st.DataObject, db: Database, settle: Settle, case: Case, faults: RandomFaults) -> None:
    search, reverse, drawn, index = case.search, case.reverse, case.drawn, case.index
    backward = data.draw(st.booleans(), label="backward")
    chance = data.draw(st.sampled_from([0.1, 0.3, 0.6]), label="chance of a failure")
    await put_records(db, drawn, case.records)
    await settle()
    expected = search.expected_result(case.records)
    whole = as_records(drawn, (await db.search(index, **search.arguments, reverse=reverse, limit=500)).items)
    await _check_failing(data, db, search, index, whole, faults, chance, reverse=reverse)
    position_of = {str(primary_key(record)): at for at, record in enumerate(whole)}
    found: list[int] = []
    token, pages, previously_failed = None, 0, list[str]()
    seen["read backward"] += backward
    while True:
        pages += 1
        faults.chance = chance if pages < 12 else 0.0
        limit = data.draw(st.sampled_from([1, 2, 3, 7]), label="limit")
        paging = {"last": limit, "before": token} if backward else {"limit": limit, "next_token": token}
        try:
            page = await db.search(index, **search.arguments, reverse=reverse, on_shard_failure="PARTIAL", **paging)
        except StoreUnavailable:
            seen["all failed"] += 1
            assert faults.chance
            continue
        positions = [position_of[str(primary_key(record))] for record in as_records(drawn, page.items)]
        assert positions == sorted(positions)
        assert page.complete == (page.shards.failed == ()) == (page.shards.expected == page.shards.answered)
        assert (page.stopped_by == "SHARDS") == (not page.complete and len(positions) < limit)
        continuation = page.start_cursor if backward and page.has_previous else page.next_token
        assert page.complete or continuation is not None
        assert len(positions) == limit or continuation is None or not page.complete
        _count(page, previously_failed)
        try:
            positions, token = resume_point(data, page, positions, continuation, backward=backward)
        except StoreUnavailable:
            assert not page.complete
            continue
        found += positions
        if token is None:
            break
        assert pages < 500
    assert sorted(found) == list(range(len(expected)))


def _count(page: Any, previously_failed: list[str]) -> None:
    failed = [shard.shard for shard in page.shards.failed]
    seen["a shard failed"] += bool(failed)
    seen["failed later in a page"] += bool(failed) and page.explain["read"]["rounds"] > 1
    seen["a shard failed twice"] += bool(set(failed) & set(previously_failed))
    seen["lagging"] += bool(page._plan.traversal.start.lagging)
    seen["complete again"] += bool(previously_failed) and not failed
    previously_failed[:] = failed


async def _check_failing(
    data: st.DataObject,
    db: Database,
    search: DrawnSearch,
    index: Any,
    whole: list[Record],
    faults: RandomFaults,
    chance: float,
    *,
    reverse: bool,
) -> None:
    """Under FAIL a page is the exact slice, or a retryable error that names a shard."""
    limit = data.draw(st.sampled_from([1, 2, 7]), label="limit")
    token, at, named = None, 0, False
    for _ in range(4):
        faults.chance = chance
        try:
            page = await db.search(index, **search.arguments, reverse=reverse, limit=limit, next_token=token)
        except StoreError as problem:
            named = problem.retryable and problem.shard is not None
            page = None
        faults.chance = 0.0
        if page is None:
            assert named
            continue
        assert page.complete
        assert [item.key for item in page.items] == [record["key"] for record in whole[at : at + limit]]
        at, token = at + limit, page.next_token
        if token is None:
            break

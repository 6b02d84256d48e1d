"""The law of failures: whatever fails, pages are right or an error, and what a failed shard owes comes later."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.database import Database
from graphql_api.errors import StoreError, StoreUnavailable
from graphql_api.model.catalog import Catalog
from tests.depth import examples
from tests.laws.search_world import NOW, Case, Drawn, Record, draw_case, new_tenant, seen
from tests.laws.test_search import SEAL, Engines, Settle, engines, gone_on, identity, in_batches, plain, put_plain
from tests.stores import FailingStore, ReadByRead

__all__ = ["engines"]

SHAPES_OF_FAILURE = [
    *("a shard failed", "failed later in a page", "all failed", "lagging", "cursor of a partial page", "walked back"),
    *("a shard failed twice", "complete again"),
]


class Faults:
    """Which reads fail: each with a chance."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.chance = 0.0

    def __call__(self, read: object) -> bool:
        return self.random.random() < self.chance


def failing(data: st.DataObject, engines: Engines, catalog: Catalog) -> tuple[Database, Faults]:
    """A catalog over a store whose reads fail, and which of them do."""
    faults = Faults(data.draw(st.integers(0, 2**16), label="seed"))
    most = data.draw(st.sampled_from([1, 2, 1000]), label="rows a read")
    engines.runner.run(engines.awkward.ensure_table(catalog.table_definition()))
    # Ties in the order of keys are the same whenever a case is drawn again.
    store = FailingStore(ReadByRead(engines.awkward, most), faults)
    return Database(catalog, store, SEAL, clock=lambda: NOW, tenant=new_tenant()), faults


def test_failed_shards_are_owed_and_paid(engines: Engines, request: pytest.FixtureRequest) -> None:
    """Under PARTIAL the pages together hold every record once, each page in order; under FAIL pages are exact."""

    @examples(50, deep=2_000)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data)
        db, faults = failing(data, engines, case.world.catalog)
        engines.runner.run(_check(data, db, engines.awkward.catch_up_indexes, case, faults))

    in_batches(law, request, SHAPES_OF_FAILURE)


async def _check(data: st.DataObject, db: Database, settle: Settle, case: Case, faults: Faults) -> None:
    search, reverse, world, index = case.search, case.reverse, case.world, case.index
    backward = data.draw(st.booleans(), label="backward")
    chance = data.draw(st.sampled_from([0.1, 0.3, 0.6]), label="chance of a failure")
    await put_plain(db, world, case.records)
    await settle()
    expected = search.answer(case.records)
    whole = plain(world, (await db.search(index, **search.arguments, reverse=reverse, limit=500)).items)
    await _check_failing(data, db, search, index, whole, faults, chance, reverse=reverse)
    place_of = {str(identity(record)): at for at, record in enumerate(whole)}
    found: list[int] = []
    token, pages, failing = None, 0, list[str]()
    seen["walked back"] += backward
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
        places = [place_of[str(identity(record))] for record in plain(world, page.items)]
        assert places == sorted(places)
        assert page.complete == (page.shards.failed == ()) == (page.shards.expected == page.shards.answered)
        assert (page.stopped_by == "SHARDS") == (not page.complete and len(places) < limit)
        onward = page.start_cursor if backward and page.has_previous else page.next_token
        assert page.complete or onward is not None
        assert len(places) == limit or onward is None or not page.complete
        _count(page, failing)
        try:
            places, token = gone_on(data, page, places, onward, backward=backward)
        except StoreUnavailable:
            assert not page.complete
            continue
        found += places
        if token is None:
            break
        assert pages < 500
    assert sorted(found) == list(range(len(expected)))


def _count(page: Any, failing: list[str]) -> None:
    failed = [shard.shard for shard in page.shards.failed]
    seen["a shard failed"] += bool(failed)
    seen["failed later in a page"] += bool(failed) and page.explain["read"]["rounds"] > 1
    seen["a shard failed twice"] += bool(set(failed) & set(failing))
    seen["lagging"] += bool(page._plan.traversal.start.lagging)
    seen["complete again"] += bool(failing) and not failed
    failing[:] = failed


async def _check_failing(
    data: st.DataObject,
    db: Database,
    search: Drawn,
    index: Any,
    whole: list[Record],
    faults: Faults,
    chance: float,
    *,
    reverse: bool,
) -> None:
    """A page under FAIL is the exact slice, or an error that names a shard and may be tried again."""
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

"""The law of failures: whatever fails, pages are right or an error, and what a failed shard owes comes later."""

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphql_api.errors import StoreError, StoreUnavailable
from graphql_api.wiring import Database
from tests.depth import examples
from tests.laws.search_world import Drawn, Record, World, build, new_tenant, records, searches, seen, shapes
from tests.laws.test_search import SEAL, Engines, _identity, _plain, _put, engines
from tests.stores import FailingStore, ReadByRead

__all__ = ["engines"]

CLASSES = [
    *("a shard failed", "failed later in a page", "all failed", "lagging", "cursor of a partial page", "walked back"),
    *("a shard failed twice", "complete again"),
]


class Faults:
    """Which reads fail: each with a chance, until the walk has gone on for long enough."""

    def __init__(self, seed: int, chance: float) -> None:
        self.random = Random(seed)
        self.chance = chance
        self.calls = 0

    def __call__(self, read: object) -> bool:
        self.calls += 1
        return self.random.random() < self.chance


@examples(300)
@given(data=st.data())
def test_failed_shards_are_owed_and_paid(data: st.DataObject, engines: Engines) -> None:
    """Under PARTIAL the pages together hold every record once, each page in order; under FAIL pages are exact."""
    world = build(data.draw(shapes(), label="shape"))
    everything = data.draw(records(world.shape), label="records")
    search = data.draw(searches(world, everything), label="search")
    reverse, backward = data.draw(st.booleans(), label="reverse"), data.draw(st.booleans(), label="backward")
    faults = Faults(data.draw(st.integers(0, 2**16), label="seed"), data.draw(st.sampled_from([0.1, 0.3, 0.6])))
    most = data.draw(st.sampled_from([1, 2, 1000]), label="rows a read")
    store = FailingStore(ReadByRead(engines.plain, most), faults)
    engines.runner.run(engines.plain.ensure_table(world.catalog.table_definition()))
    db = Database(world.catalog, store, SEAL, tenant=new_tenant())
    engines.runner.run(_check(data, db, world, everything, search, faults, reverse=reverse, backward=backward))


async def _check(
    data: st.DataObject,
    db: Database,
    world: World,
    everything: list[Record],
    search: Drawn,
    faults: Faults,
    *,
    reverse: bool,
    backward: bool,
) -> None:
    chance, faults.chance = faults.chance, 0.0
    await _put(db, world, everything)
    expected = search.answer(everything)
    index = getattr(world.thing, search.index)
    whole = _plain(world, (await db.search(index, **search.arguments, reverse=reverse, limit=500)).items)
    await _check_failing(data, db, search, index, whole, faults, chance, reverse=reverse)
    place_of = {str(_identity(record)): at for at, record in enumerate(whole)}
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
        places = [place_of[str(_identity(record))] for record in _plain(world, page.items)]
        assert places == sorted(places)
        assert page.complete == (page.shards.failed == ()) == (page.shards.expected == page.shards.answered)
        assert (page.stopped_by == "SHARDS") == (not page.complete and len(places) < limit)
        token = page.start_cursor if backward and page.has_previous else page.next_token
        assert page.complete or token is not None
        assert len(places) == limit or token is None or not page.complete
        _count(page, failing)
        if places and data.draw(st.integers(0, 4), label="go on from a record") == 0:
            at = data.draw(st.integers(0, len(places) - 1), label="record")
            places = places[at:] if backward else places[: at + 1]
            token = page.cursors[at]
            seen["cursor of a partial page"] += not page.complete
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
    seen["lagging"] += bool(page._plan.walk.begins.lagging)
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
    token, at = None, 0
    for _ in range(4):
        faults.chance = chance
        try:
            page = await db.search(index, **search.arguments, reverse=reverse, limit=limit, next_token=token)
        except StoreError as problem:
            assert problem.retryable
            assert problem.shard
            continue
        finally:
            faults.chance = 0.0
        assert page.complete
        assert [item.key for item in page.items] == [record["key"] for record in whole[at : at + limit]]
        at, token = at + limit, page.next_token
        if token is None:
            break


def test_the_laws_have_drawn_every_kind_of_failure() -> None:
    """A run without failures in the middle of pages, or without lagging shards, proves nothing about them."""
    assert [name for name in CLASSES if not seen[name]] == []

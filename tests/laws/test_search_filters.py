"""The law of filters, unions and budgets: all pages together are the naive answer, each is full or says why not."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

from graphql_api.database import Database
from graphql_api.errors import StoreUnavailable
from graphql_api.query.search_request import READ_BUDGET
from graphql_api.storage.port import Store
from tests.depth import examples
from tests.laws.filter_cases import Case, Search, draw_case
from tests.laws.filter_world import World, Written, records
from tests.laws.search_world import NOW, Record, new_tenant, seen
from tests.laws.test_search import SEAL, Engines, Settle, engines, gone_on, identity, in_batches
from tests.laws.test_search_failures import Faults, failing
from tests.stores import Between, ReadByRead, Stingy, Unfiltered

__all__ = ["engines"]

OPERATIONS = ["eq", "ne", "in", "lt", "le", "gt", "ge", "between", "prefix", "contains", "exists"]
JOINTS = ["test", "several", "and", "or", "not"]
CLASSES = [
    *(f"test {operation}" for operation in OPERATIONS),
    *(f"filter {joint}" for joint in JOINTS[1:]),
    *(f"projection {projection}" for projection in ("ALL", "KEYS_ONLY", "SOME", "OTHERS")),
    *("union of 2", "union of 3", "search union", "search single", "search id", "search expires", "raw member"),
    *("hashed by nothing", "hashed group", "hashed owner_id", "several generations", "written before a declaration"),
    *(
        "left out of a later index",
        "filtered out",
        "select",
        "index without old records",
        "reverse",
        "expired",
        "bare value",
    ),
    *(
        "filter in the engine",
        "filter not in the engine",
        "read by read",
        "shared scan",
        "records fetched",
        "rows are enough",
    ),
]
WALKS = ["stopped by the budget", "nothing on a page", "budget on a full page", "walked back", "jumped", "many pages"]
CHANGES = ["insert", "delete", "move", "move between rounds"]
FAILURES = ["a shard failed", "all failed", "lagging", "failed in a union", "cursor of a partial page"]
BUDGETS = [1, 2, 5, 20, 100, READ_BUDGET]


def test_every_walk_with_a_filter_is_a_slice_of_the_naive_answer(
    engines: Engines, request: pytest.FixtureRequest
) -> None:
    """Whatever is filtered, joined or selected, however small the budget: no record is lost, repeated or miscounted."""

    @examples(34, deep=2_000)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data)
        engines.runner.run(check_walks(data, *_database(data, engines, case.world), case))

    in_batches(law, request, CLASSES + WALKS)


def test_changes_during_a_filtered_walk_never_touch_other_records(
    engines: Engines, request: pytest.FixtureRequest
) -> None:
    """Whatever is inserted, deleted or moved, untouched records come once, in order, and no page has one twice."""

    @examples(24, deep=1_000)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data)
        db, settle = _database(data, engines, case.world)
        # Hashed ties differ from tenant to tenant, and with them what a change meets: a case could not be drawn again.
        assume(settle == engines.awkward.catch_up_indexes or not any(part.raw for part in case.search.parts))
        engines.runner.run(check_changes(data, db, settle, case))

    in_batches(law, request, CHANGES)


def test_failed_shards_of_filtered_searches_are_owed_and_paid(engines: Engines, request: pytest.FixtureRequest) -> None:
    """Under PARTIAL the pages together hold every record once, each in order, whatever fails on the way."""

    @examples(24, deep=1_000)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data)
        db, faults = failing(data, engines, case.world.catalog)
        engines.runner.run(_check_failures(data, db, engines.awkward.catch_up_indexes, case, faults))

    in_batches(law, request, FAILURES)


def _database(data: st.DataObject, engines: Engines, world: World) -> tuple[Database, Settle]:
    inner = data.draw(st.sampled_from([engines.plain, engines.awkward]), label="engine")
    most = data.draw(st.sampled_from([None, None, 1, 2, 1000]), label="rows a read")
    unfiltered = data.draw(st.booleans(), label="engine without filters")
    seen["shared scan" if most is None else "read by read"] += 1
    store: Store = inner if most is None else ReadByRead(inner, most)
    if unfiltered:
        store = Unfiltered(store)
    engines.runner.run(inner.ensure_table(world.catalog.table_definition()))
    return Database(world.catalog, store, SEAL, clock=lambda: NOW, tenant=new_tenant()), inner.catch_up_indexes


# --- writing and reading ---------------------------------------------------------------------------------------


async def put(db: Database, world: World, some: Sequence[Written]) -> None:
    """Writes records, old ones as they were declared then."""
    older = replace(db, catalog=world.older)
    for written in some:
        if written.is_old:
            await older.put(world.old_thing(**written.given))
        else:
            await db.put(world.thing(**written.given))


def shown(world: World, search: Search, page: Any) -> list[Record]:
    """The records of a page, as far as they were selected."""
    names = world.properties if search.select is None else search.select
    return [{name: getattr(item, name) for name in names} for item in page.items]


def selected(search: Search, some: Sequence[Record]) -> list[Record]:
    """Records, as far as they are selected."""
    return [dict(one) if search.select is None else {name: one[name] for name in search.select} for one in some]


async def whole_answer(db: Database, case: Case) -> list[Record]:
    """The naive answer; where the engine has its own order within ties, in that one, once it was checked."""
    search = case.search
    segments = search.segments(case.records)
    if not any(part.raw for part in search.parts):
        return [record for segment in segments for record in segment]
    page = await db.search(case.index, **search.options, limit=500)
    by_name = {name_of(record): record for record in case.records}
    found = [by_name[name_of(item)] for item in shown(case.world, search, page)]
    check_order(search, segments, found)
    return found


def name_of(record: Record) -> str:
    """The primary key, as something to look up by."""
    return str(identity(record))


def check_order(search: Search, segments: Sequence[Sequence[Record]], found: Sequence[Record]) -> None:
    """Every record once, index by index; within equal values of a raw index the order is the engine's."""
    begin = 0
    for part, segment in zip(search.parts, segments, strict=True):
        there = found[begin : begin + len(segment)]
        begin += len(segment)
        if part.raw:
            first = part.order[0].name
            assert [record[first] for record in there] == [record[first] for record in segment]
            assert sorted(map(identity, there)) == sorted(map(identity, segment))
        else:
            assert there == segment
    assert begin == len(found)


# --- walks -----------------------------------------------------------------------------------------------------


async def check_walks(data: st.DataObject, db: Database, settle: Settle, case: Case) -> None:
    """Walks and jumps through an answer, page by page."""
    search, world = case.search, case.world
    await put(db, world, case.written)
    await settle()
    expected = await whole_answer(db, case)
    answer = selected(search, expected)
    counted = await replace(db, store=Stingy(db.store)).count(
        case.index, **search.arguments, filter=search.options["filter"]
    )
    assert (counted.value, counted.exact) == (len(expected), True)
    budget = data.draw(st.sampled_from(BUDGETS), label="budget")
    seen["many pages"] += len(expected) > 6
    # Each page looks at a record at least, or leaves an index behind.
    most_pages = (len(case.records) + 2) * len(search.parts) + 2
    backward = data.draw(st.booleans(), label="backward")
    seen["walked back"] += backward
    token, at, pages = None, len(answer) if backward else 0, 0
    places: list[tuple[str | None, int | None]] = [(None, None)]
    while True:
        pages += 1
        assert pages <= most_pages
        page, begin, end = await _page(data, db, case, answer, budget, token, at, backward=backward)
        places += [(cursor, begin + offset) for offset, cursor in enumerate(page.cursors)]
        at = begin if backward else end
        token = (page.start_cursor if page.has_previous else None) if backward else page.next_token
        if token is None:
            break
    assert at == (0 if backward else len(answer))
    for _ in range(data.draw(st.integers(0, 3), label="jumps")):
        cursor, place = data.draw(st.sampled_from(places), label="from")
        backward = data.draw(st.booleans(), label="backward")
        seen["jumped"] += cursor is not None
        begun = (len(answer), 0) if place is None else (place, place + 1)
        at = begun[0] if backward else begun[1]
        page, begin, _ = await _page(data, db, case, answer, budget, cursor, at, backward=backward)
        places += [(found, begin + offset) for offset, found in enumerate(page.cursors)]


async def _page(
    data: st.DataObject,
    db: Database,
    case: Case,
    answer: Sequence[Record],
    budget: int,
    token: str | None,
    at: int,
    *,
    backward: bool,
) -> tuple[Any, int, int]:
    """A page that begins at a place of the answer, checked; with the part of the answer that it is."""
    search = case.search
    limit = data.draw(st.sampled_from([1, 2, 3, 7, 50]), label="limit")
    paging = {"last": limit, "before": token} if backward else {"limit": limit, "next_token": token}
    page = await db.search(case.index, **search.options, read_budget=budget, **paging)
    found = shown(case.world, search, page)
    begin, end = (at - len(found), at) if backward else (at, at + len(found))
    note(f"at {at} of {len(answer)}: {len(found)} of {limit}, {page.explain['read']}, stopped by {page.stopped_by}")
    assert begin >= 0
    assert found == answer[begin:end]
    more = page.has_previous if backward else page.has_next
    left = begin > 0 if backward else end < len(answer)
    read = page.explain["read"]
    seen["records fetched"] += read["fetched"] > 0
    seen["rows are enough"] += read["recordsRead"] > 0 and not read["fetched"]
    in_store = any(read.filter for member in page._plan.scans for read in member.shard_reads)
    seen["filter in the engine"] += in_store and not isinstance(db.store, Unfiltered)
    seen["filter not in the engine"] += in_store and isinstance(db.store, Unfiltered)
    if page.stopped_by is None:
        assert len(found) == limit or not more
    else:
        assert page.stopped_by == "BUDGET"
        assert len(found) < limit
        assert more
        assert read["recordsRead"] >= budget
    assert more or not left
    if read["recordsRead"] < budget:
        assert more == left
    seen["stopped by the budget"] += page.stopped_by is not None
    seen["nothing on a page"] += not found and more
    seen["budget on a full page"] += len(found) == limit and read["recordsRead"] >= budget
    return page, begin, end


# --- changes ---------------------------------------------------------------------------------------------------


async def check_changes(data: st.DataObject, db: Database, settle: Settle, case: Case) -> None:
    """Walks through an answer that changes between its pages, and between the rounds of a page."""
    search, world = case.search, case.world
    everything = list(case.written)
    await put(db, world, everything)
    await settle()
    untouched = list(everything)
    found: list[Record] = []
    between = Between(db.store)
    writing, db = db, replace(db, store=between)
    budget = data.draw(st.sampled_from(BUDGETS), label="budget")
    token, pages = None, 0
    while True:
        pages += 1
        assert pages <= 300
        limit = data.draw(st.sampled_from([1, 2, 3, 5]), label="limit")
        page = await db.search(case.index, **search.options, read_budget=budget, limit=limit, next_token=token)
        items = shown(world, search, page)
        assert len({name_of(item) for item in items}) == len(items)
        found += items
        token = page.next_token
        if token is None:
            break
        change = data.draw(st.sampled_from([*CHANGES, "nothing", "nothing"]), label="change")
        if change == "insert":
            ids = {(one.record["key"], one.record.get("part")) for one in everything}
            new = data.draw(records(world.shape, most=3), label="inserted")
            new = [one for one in new if (one.record["key"], one.record.get("part")) not in ids]
            everything += new
            seen[change] += 1
            await put(writing, world, new)
        elif change != "nothing" and untouched:
            seen[change] += 1
            touched = untouched.pop(data.draw(st.integers(0, len(untouched) - 1), label="touched"))
            if change == "delete":
                everything.remove(touched)
                await writing.delete(world.thing, **{name: touched.record[name] for name in world.primary})
                continue
            others = data.draw(records(world.shape, most=1), label="moved to")
            keep = {name: touched.record[name] for name in (*world.primary, "created")}
            moved = others[0].at(keep) if others else touched
            everything[everything.index(touched)] = moved
            if change == "move":
                await put(writing, world, [moved])
            else:
                between.action = partial(put, writing, world, [moved])
    by_name = {name_of(one.record): one.record for one in untouched}
    came = [item for item in found if name_of(item) in by_name]
    records_of_them = [by_name[name_of(item)] for item in came]
    assert came == selected(search, records_of_them)
    check_order(search, search.segments([*by_name.values()]), records_of_them)


# --- failures --------------------------------------------------------------------------------------------------


async def _check_failures(data: st.DataObject, db: Database, settle: Settle, case: Case, faults: Faults) -> None:
    search, world = case.search, case.world
    backward = data.draw(st.booleans(), label="backward")
    chance = data.draw(st.sampled_from([0.1, 0.3, 0.6]), label="chance of a failure")
    budget = data.draw(st.sampled_from(BUDGETS), label="budget")
    await put(db, world, case.written)
    await settle()
    answer = await whole_answer(db, case)
    place_of = {name_of(record): at for at, record in enumerate(answer)}
    found: list[int] = []
    token, pages = None, 0
    while True:
        pages += 1
        assert pages < 600
        faults.chance = chance if pages < 12 else 0.0
        limit = data.draw(st.sampled_from([1, 2, 3, 7]), label="limit")
        paging = {"last": limit, "before": token} if backward else {"limit": limit, "next_token": token}
        try:
            page = await db.search(
                case.index, **search.options, read_budget=budget, on_shard_failure="PARTIAL", **paging
            )
        except StoreUnavailable:
            seen["all failed"] += 1
            assert faults.chance
            continue
        items = shown(world, search, page)
        places = [place_of[name_of(record)] for record in items]
        note(f"{places} of {limit}, {page.shards}, {page.explain['read']}, stopped by {page.stopped_by}")
        assert places == sorted(places)
        assert items == selected(search, [answer[place] for place in places])
        assert page.complete == (page.shards.failed == ())
        onward = page.start_cursor if backward and page.has_previous else page.next_token
        assert page.complete or onward is not None
        if len(places) < limit and onward is not None:
            assert page.stopped_by == "BUDGET" if page.complete else page.stopped_by in ("BUDGET", "SHARDS")
        else:
            assert page.stopped_by is None
        failed = bool(page.shards.failed)
        seen["a shard failed"] += failed
        seen["failed in a union"] += failed and len(search.parts) > 1
        seen["lagging"] += bool(page._plan.traversal.start.lagging)
        try:
            places, token = gone_on(data, page, places, onward, backward=backward)
        except StoreUnavailable:
            assert not page.complete
            continue
        found += places
        if token is None:
            break
    assert sorted(found) == list(range(len(answer)))

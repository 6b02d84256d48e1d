"""The law of filters, unions and budgets: all pages together are the reference result, short ones with a reason."""

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
from tests.laws.filter_catalogs import DrawnCatalog, WrittenRecord, records
from tests.laws.filter_strategies import Case, Search, draw_case
from tests.laws.search_catalogs import NOW, Record, new_tenant, seen
from tests.laws.test_search import SEAL, Engines, Settle, engines, primary_key, resume_point, run_in_batches
from tests.laws.test_search_failures import RandomFaults, failing_database
from tests.support.run_depth import examples
from tests.support.store_doubles import (
    IndependentReadsStore,
    InterleavingStore,
    MinimalAttributesStore,
    UnfilteredStore,
)

__all__ = ["engines"]

OPERATIONS = ["eq", "ne", "in", "lt", "le", "gt", "ge", "between", "prefix", "contains", "exists"]
COMBINATORS = ["test", "several", "and", "or", "not"]
CLASSES = [
    *(f"test {operation}" for operation in OPERATIONS),
    *(f"filter {combinator}" for combinator in COMBINATORS[1:]),
    *(f"projection {projection}" for projection in ("ALL", "KEYS_ONLY", "SOME", "OTHERS")),
    *("union of 2", "union of 3", "search union", "search single", "search id", "search expires", "raw member"),
    *(
        "hashed without property",
        "hashed group",
        "hashed owner_id",
        "several generations",
        "written before a declaration",
    ),
    *(
        "duplicate in a later index",
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
        "independent reads",
        "shared scan",
        "records fetched",
        "covering index",
    ),
]
PAGING_CLASSES = [
    "stopped by the budget",
    "empty page",
    "budget on a full page",
    "read backward",
    "jumped",
    "many pages",
]
CHANGES = ["insert", "delete", "move", "move between rounds"]
FAILURES = ["a shard failed", "all failed", "lagging", "failed in a union", "cursor of a partial page"]
BUDGETS = [1, 2, 5, 20, 100, READ_BUDGET]


def test_every_filtered_page_is_a_slice_of_the_reference_result(
    engines: Engines, request: pytest.FixtureRequest
) -> None:
    """With any filter, union, selection and budget, no record is lost, repeated or miscounted."""

    @examples(24, deep=2_000)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data)
        engines.runner.run(check_pages(data, *database_of(data, engines, case.drawn), case))

    run_in_batches(law, request, CLASSES + PAGING_CLASSES)


def test_changes_between_filtered_pages_do_not_affect_other_records(
    engines: Engines, request: pytest.FixtureRequest
) -> None:
    """While records are inserted, deleted or moved, every other record is returned once, on any page at most once."""

    @examples(16, deep=1_000)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data)
        db, settle = database_of(data, engines, case.drawn)
        # Hashed ties differ between tenants, and so does the effect of a change: Hypothesis could not replay the case.
        assume(settle == engines.catch_up_indexes or not any(part.raw for part in case.search.parts))
        engines.runner.run(check_changes(data, db, settle, case))

    run_in_batches(law, request, CHANGES)


def test_records_of_failed_shards_follow_on_later_filtered_pages(
    engines: Engines, request: pytest.FixtureRequest
) -> None:
    """Under PARTIAL all pages of a filtered search together return every record once, each page in order."""

    @examples(16, deep=1_000)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data)
        db, faults = failing_database(data, engines, case.drawn.catalog)
        engines.runner.run(_check_failures(data, db, engines.catch_up_indexes, case, faults))

    run_in_batches(law, request, FAILURES)


def database_of(data: st.DataObject, engines: Engines, drawn: DrawnCatalog) -> tuple[Database, Settle]:
    """Returns a database on a drawn store for a new tenant."""
    inner, settle = engines.draw_store(data)
    most = data.draw(st.sampled_from([None, None, 1, 2, 1000]), label="rows a read")
    unfiltered = data.draw(st.booleans(), label="engine without filters")
    seen["shared scan" if most is None else "independent reads"] += 1
    store: Store = inner if most is None else IndependentReadsStore(inner, most)
    if unfiltered:
        store = UnfilteredStore(store)
    engines.runner.run(inner.ensure_table(drawn.catalog.table_definition()))
    return Database(drawn.catalog, store, SEAL, clock=lambda: NOW, tenant=new_tenant()), settle


# --- writing and reading ---------------------------------------------------------------------------------------


async def store_records(db: Database, drawn: DrawnCatalog, some: Sequence[WrittenRecord]) -> None:
    """Stores records; old ones with the older catalog."""
    older = replace(db, catalog=drawn.older)
    for written in some:
        if written.is_old:
            await older.put(drawn.old_thing(**written.provided_fields))
        else:
            await db.put(drawn.thing(**written.provided_fields))


def selected_items(drawn: DrawnCatalog, search: Search, page: Any) -> list[Record]:
    """Returns the selected properties of the items of a page."""
    names = drawn.properties if search.select is None else search.select
    return [{name: getattr(item, name) for name in names} for item in page.items]


def selected(search: Search, some: Sequence[Record]) -> list[Record]:
    """Returns the selected properties of the records."""
    return [dict(one) if search.select is None else {name: one[name] for name in search.select} for one in some]


async def reference_result(db: Database, case: Case) -> list[Record]:
    """Returns the reference result; ties on raw indexes take the order of the engine, after a check."""
    search = case.search
    segments = search.segments(case.records)
    if not any(part.raw for part in search.parts):
        return [record for segment in segments for record in segment]
    page = await db.search(case.index, **search.options, limit=500)
    by_key = {key_text(record): record for record in case.records}
    found = [by_key[key_text(item)] for item in selected_items(case.drawn, search, page)]
    check_order(search, segments, found)
    return found


def key_text(record: Record) -> str:
    """Returns the primary key as a text."""
    return str(primary_key(record))


def check_order(search: Search, segments: Sequence[Sequence[Record]], found: Sequence[Record]) -> None:
    """Asserts that every record is found once, index by index; the order within ties of a raw index is free."""
    begin = 0
    for part, segment in zip(search.parts, segments, strict=True):
        matches = found[begin : begin + len(segment)]
        begin += len(segment)
        if part.raw:
            first = part.order[0].name
            assert [record[first] for record in matches] == [record[first] for record in segment]
            assert sorted(map(primary_key, matches)) == sorted(map(primary_key, segment))
        else:
            assert matches == segment
    assert begin == len(found)


# --- pages -----------------------------------------------------------------------------------------------------


async def check_pages(data: st.DataObject, db: Database, settle: Settle, case: Case) -> None:
    """Reads a result page by page, then from random cursors in random directions."""
    search, drawn = case.search, case.drawn
    await store_records(db, drawn, case.written)
    await settle()
    expected = await reference_result(db, case)
    expected_items = selected(search, expected)
    counted = await replace(db, store=MinimalAttributesStore(db.store)).count(
        case.index, **search.arguments, filter=search.options["filter"]
    )
    assert (counted.value, counted.exact) == (len(expected), True)
    budget = data.draw(st.sampled_from(BUDGETS), label="budget")
    seen["many pages"] += len(expected) > 6
    # Each page reads at least one record, or completes an index.
    most_pages = (len(case.records) + 2) * len(search.parts) + 2
    backward = data.draw(st.booleans(), label="backward")
    seen["read backward"] += backward
    token, at, pages = None, len(expected_items) if backward else 0, 0
    positions: list[tuple[str | None, int | None]] = [(None, None)]
    while True:
        pages += 1
        assert pages <= most_pages
        page, begin, end = await _page(data, db, case, expected_items, budget, token, at, backward=backward)
        positions += [(cursor, begin + offset) for offset, cursor in enumerate(page.cursors)]
        at = begin if backward else end
        token = (page.start_cursor if page.has_previous else None) if backward else page.next_token
        if token is None:
            break
    assert at == (0 if backward else len(expected_items))
    for _ in range(data.draw(st.integers(0, 3), label="jumps")):
        cursor, position = data.draw(st.sampled_from(positions), label="from")
        backward = data.draw(st.booleans(), label="backward")
        seen["jumped"] += cursor is not None
        bounds = (len(expected_items), 0) if position is None else (position, position + 1)
        at = bounds[0] if backward else bounds[1]
        page, begin, _ = await _page(data, db, case, expected_items, budget, cursor, at, backward=backward)
        positions += [(found, begin + offset) for offset, found in enumerate(page.cursors)]


async def _page(
    data: st.DataObject,
    db: Database,
    case: Case,
    expected_items: Sequence[Record],
    budget: int,
    token: str | None,
    at: int,
    *,
    backward: bool,
) -> tuple[Any, int, int]:
    """Reads and checks the page at a position of the result; returns it with its slice of the result."""
    search = case.search
    limit = data.draw(st.sampled_from([1, 2, 3, 7, 50]), label="limit")
    paging = {"last": limit, "before": token} if backward else {"limit": limit, "next_token": token}
    page = await db.search(case.index, **search.options, read_budget=budget, **paging)
    found = selected_items(case.drawn, search, page)
    begin, end = (at - len(found), at) if backward else (at, at + len(found))
    note(
        f"at {at} of {len(expected_items)}: {len(found)} of {limit}, {page.explain['read']}, "
        f"stopped by {page.stopped_by}"
    )
    assert begin >= 0
    assert found == expected_items[begin:end]
    more = page.has_previous if backward else page.has_next
    remaining = begin > 0 if backward else end < len(expected_items)
    read = page.explain["read"]
    seen["records fetched"] += read["fetched"] > 0
    seen["covering index"] += read["recordsRead"] > 0 and not read["fetched"]
    pushed_down = any(read.filter for member in page._plan.scans for read in member.shard_reads)
    seen["filter in the engine"] += pushed_down and not isinstance(db.store, UnfilteredStore)
    seen["filter not in the engine"] += pushed_down and isinstance(db.store, UnfilteredStore)
    if page.stopped_by is None:
        assert len(found) == limit or not more
    else:
        assert page.stopped_by == "BUDGET"
        assert len(found) <= limit
        assert more
        assert read["recordsRead"] >= budget
    assert more or not remaining
    if read["recordsRead"] < budget:
        assert more == remaining
    seen["stopped by the budget"] += page.stopped_by is not None
    seen["empty page"] += not found and more
    seen["budget on a full page"] += len(found) == limit and read["recordsRead"] >= budget
    return page, begin, end


# --- changes ---------------------------------------------------------------------------------------------------


async def check_changes(data: st.DataObject, db: Database, settle: Settle, case: Case) -> None:
    """Reads a result that changes between its pages and between the rounds of a page."""
    search, drawn = case.search, case.drawn
    everything = list(case.written)
    await store_records(db, drawn, everything)
    await settle()
    untouched = list(everything)
    found: list[Record] = []
    interleaving = InterleavingStore(db.store)
    writer, db = db, replace(db, store=interleaving)
    budget = data.draw(st.sampled_from(BUDGETS), label="budget")
    token, pages = None, 0
    while True:
        pages += 1
        assert pages <= 300
        limit = data.draw(st.sampled_from([1, 2, 3, 5]), label="limit")
        page = await db.search(case.index, **search.options, read_budget=budget, limit=limit, next_token=token)
        items = selected_items(drawn, search, page)
        assert len({key_text(item) for item in items}) == len(items)
        found += items
        token = page.next_token
        if token is None:
            break
        change = data.draw(st.sampled_from([*CHANGES, "nothing", "nothing"]), label="change")
        if change == "insert":
            ids = {(one.record["key"], one.record.get("part")) for one in everything}
            new = data.draw(records(drawn.shape, most=3), label="inserted")
            new = [one for one in new if (one.record["key"], one.record.get("part")) not in ids]
            everything += new
            seen[change] += 1
            await store_records(writer, drawn, new)
        elif change != "nothing" and untouched:
            seen[change] += 1
            touched = untouched.pop(data.draw(st.integers(0, len(untouched) - 1), label="touched"))
            if change == "delete":
                everything.remove(touched)
                await writer.delete(drawn.thing, **{name: touched.record[name] for name in drawn.primary})
                continue
            others = data.draw(records(drawn.shape, most=1), label="moved to")
            key = {name: touched.record[name] for name in (*drawn.primary, "created")}
            moved = others[0].with_key(key) if others else touched
            everything[everything.index(touched)] = moved
            if change == "move":
                await store_records(writer, drawn, [moved])
            else:
                interleaving.action = partial(store_records, writer, drawn, [moved])
    by_key = {key_text(one.record): one.record for one in untouched}
    returned = [item for item in found if key_text(item) in by_key]
    returned_records = [by_key[key_text(item)] for item in returned]
    assert returned == selected(search, returned_records)
    check_order(search, search.segments([*by_key.values()]), returned_records)


# --- failures --------------------------------------------------------------------------------------------------


async def _check_failures(data: st.DataObject, db: Database, settle: Settle, case: Case, faults: RandomFaults) -> None:
    search, drawn = case.search, case.drawn
    backward = data.draw(st.booleans(), label="backward")
    chance = data.draw(st.sampled_from([0.1, 0.3, 0.6]), label="chance of a failure")
    budget = data.draw(st.sampled_from(BUDGETS), label="budget")
    await store_records(db, drawn, case.written)
    await settle()
    expected_items = await reference_result(db, case)
    position_of = {key_text(record): at for at, record in enumerate(expected_items)}
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
        items = selected_items(drawn, search, page)
        positions = [position_of[key_text(record)] for record in items]
        note(f"{positions} of {limit}, {page.shards}, {page.explain['read']}, stopped by {page.stopped_by}")
        assert positions == sorted(positions)
        assert items == selected(search, [expected_items[position] for position in positions])
        assert page.complete == (page.shards.failed == ())
        continuation = page.start_cursor if backward and page.has_previous else page.next_token
        assert page.complete or continuation is not None
        if len(positions) < limit and continuation is not None:
            assert page.stopped_by == "BUDGET" if page.complete else page.stopped_by in ("BUDGET", "SHARDS")
        elif continuation is None or page.stopped_by is not None:
            assert page.stopped_by == (None if continuation is None else "BUDGET")
        failed = bool(page.shards.failed)
        seen["a shard failed"] += failed
        seen["failed in a union"] += failed and len(search.parts) > 1
        seen["lagging"] += bool(page._plan.traversal.start.lagging)
        try:
            positions, token = resume_point(data, page, positions, continuation, backward=backward)
        except StoreUnavailable:
            assert not page.complete
            continue
        found += positions
        if token is None:
            break
    assert sorted(found) == list(range(len(expected_items)))

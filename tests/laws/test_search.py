"""The law of search: all pages together are the sorted reference result, for any sequence of page requests."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, note, seed, target
from hypothesis import strategies as st

from graphql_api.database import Database
from graphql_api.query.execution.result_page import Page
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from graphql_api.writes import with_lookup_store
from tests.laws.search_catalogs import (
    GROWTH,
    KEYS,
    NOW,
    Case,
    DrawnCatalog,
    DrawnSearch,
    Record,
    build,
    draw_case,
    new_tenant,
    records,
    seen,
    with_mutable_fields_of,
)
from tests.support.distributed_store import KeyOrderedStore, open_lagging
from tests.support.run_depth import examples
from tests.support.store_doubles import IndependentReadsStore, InterleavingStore, TinyMemoryStore

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
SHAPES = [
    *("by_x", "by_id", "by_text", "by_number", "no sort property", "descending column", "history", "composite sub id"),
    *("condition eq", "condition prefix", "condition between", "condition none", "flat condition"),
    *("sharded True", "sharded False", "sharded Owner", "several generations", "one shard", "tie on a raw index"),
    "several hash values",
    *(
        "shared scan",
        "independent reads",
        "reads in waves",
        "short engine pages",
        "by_state",
        "by_lookup",
        "lookup store",
        "expired",
        "composite id",
    ),
    *("projection ALL", "projection KEYS_ONLY", "projection INCLUDE"),
]
PAGING_CLASSES = ["empty result", "many pages", "backward", "direction changed", "page size changed", "reverse"]
CHANGES = ["insert", "delete", "move", "growth", "move between rounds"]
"""classes of cases: a run fails unless it has drawn each of them"""


BATCHES, MAX_BATCHES = 4, 28


def run_in_batches(law: Callable[[], None], request: pytest.FixtureRequest, classes: Sequence[str] = ()) -> None:
    """Runs a law in batches; fails if some of the given classes of cases were never drawn.

    Within one batch Hypothesis may avoid a whole class, so each batch has its own seed, derived from that of the run.
    """
    first = int(request.config.getoption("--hypothesis-seed"))
    for number in range(MAX_BATCHES):
        seed(first + number)(law)()
        if number + 1 >= BATCHES and all(seen[name] for name in classes):
            return
    assert [name for name in classes if not seen[name]] == []


Settle = Callable[[], Awaitable[None]]
"""waits until all index entries reflect their records"""

PAGE_ROWS = (2, 1, 3, 1)
"""rows that a call of the distributed store examines at most, in turn"""


async def no_index_lag() -> None:
    """Waits for nothing: the engine has no index lag."""


@dataclass
class Engines:
    """Stores shared by all cases; each case has its own tenant, and so its own hash keys."""

    runner: asyncio.Runner
    plain: Store
    distributed: Store
    catch_up_indexes: Settle
    """of the distributed store"""

    def draw_store(self, data: st.DataObject) -> tuple[Store, Settle]:
        """Draws one of the stores."""
        if data.draw(st.booleans(), label="distributed engine"):
            return self.distributed, self.catch_up_indexes
        return self.plain, no_index_lag


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """A plain store, and a store with all that a distributed engine may do."""
    folder: Path = tmp_path_factory.mktemp("laws")
    with asyncio.Runner() as runner:
        plain = runner.run(open_sqlite(folder / "plain.db"))
        # Another order of ties, late index entries, and engine pages of a few rows.
        lagging = runner.run(open_lagging(folder / "distributed.db", 3))
        yield Engines(runner, plain, KeyOrderedStore(lagging, PAGE_ROWS), lagging.catch_up_indexes)
        runner.run(plain.close())
        runner.run(lagging.close())


def _database(data: st.DataObject, engines: Engines, drawn: DrawnCatalog) -> tuple[Database, Settle]:
    inner, settle = engines.draw_store(data)
    most = data.draw(st.sampled_from([None, None, 1, 2, 1000]), label="rows a read")
    seen["shared scan" if most is None else "independent reads"] += 1
    seen["short engine pages"] += most in {1, 2}
    store: Store = inner if most is None else IndependentReadsStore(inner, most)
    if most is not None and data.draw(st.booleans(), label="reads in waves"):
        seen["reads in waves"] += 1
        store = TinyMemoryStore(store)
    engines.runner.run(inner.ensure_table(drawn.catalog.table_definition()))
    if bool(drawn.shape.lookup) and data.draw(st.booleans(), label="lookup store"):
        seen["lookup store"] += 1
        mappings = engines.plain if inner is engines.distributed else engines.distributed
        engines.runner.run(mappings.ensure_table(drawn.catalog.table_definition()))
        store = with_lookup_store(store, mappings, lambda: NOW)
    return Database(drawn.catalog, store, SEAL, clock=lambda: NOW, tenant=new_tenant()), settle


async def put_records(db: Database, drawn: DrawnCatalog, some: list[Record]) -> None:
    """Stores records."""
    problems = await db.put_many([drawn.thing(**record) for record in some])
    assert problems == [None] * len(some)


def as_records(drawn: DrawnCatalog, items: Any) -> list[Record]:
    """Returns the items of a page as plain records."""
    names = [*drawn.thing.model_fields]
    return [{name: getattr(item, name) for name in names} for item in items]


def resume_point(
    data: st.DataObject, page: Page[Any], positions: list[int], continuation: str | None, *, backward: bool
) -> tuple[list[int], str | None]:
    """Returns the positions to keep of a page and the next token, which is sometimes the cursor of one of its records.

    Raises StoreUnavailable if the failed shards of that cursor lag at too many positions.
    """
    if not positions or data.draw(st.integers(0, 4), label="resume from a record"):
        return positions, continuation
    at = data.draw(st.integers(0, len(positions) - 1), label="record")
    token = page.cursors[at]
    seen["cursor of a partial page"] += not page.complete
    return (positions[at:] if backward else positions[: at + 1]), token


def test_every_page_is_a_slice_of_the_sorted_result(engines: Engines, request: pytest.FixtureRequest) -> None:
    """From any cursor, in either direction and with any size, a page is exactly a slice of the reference result."""

    @examples(60, deep=2_500)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data)
        engines.runner.run(check_pages(data, *_database(data, engines, case.drawn), case))

    run_in_batches(law, request, SHAPES + PAGING_CLASSES)


async def check_pages(data: st.DataObject, db: Database, settle: Settle, case: Case) -> None:
    """Reads a result page by page, then from random cursors in random directions."""
    search, reverse, drawn = case.search, case.reverse, case.drawn
    await put_records(db, drawn, case.records)
    await settle()
    index = case.index
    expected = search.expected_result(case.records)
    target(float(len(expected)), label="length of the result")
    if search.raw:
        # The engine determines the order within a tie; `reverse` must reverse it.
        whole = as_records(drawn, (await db.search(index, **search.arguments, limit=500)).items)
        _check_tied(search, whole, expected)
        expected = whole
    if reverse:
        expected = expected[::-1]
    seen["reverse"] += reverse
    seen["empty result"] += not expected
    seen["many pages"] += len(expected) > 6
    # All pages forward.
    token, at = None, 0
    while True:
        limit = data.draw(st.sampled_from([1, 2, 3, 7, 50]), label="limit")
        page = await db.search(index, **search.arguments, reverse=reverse, limit=limit, next_token=token)
        note(f"at {at}: {len(page.items)} of {limit}")
        assert as_records(drawn, page.items) == expected[at : at + limit]
        assert page.explain["read"]["returned"] == len(page.items)
        assert page.has_next == (page.next_token is not None) == (at + limit < len(expected))
        at, token = at + len(page.items), page.next_token
        if token is None:
            break
    assert at == len(expected)
    # Any cursor of any page, continued in either direction.
    positions: list[tuple[str | None, int | None]] = [(None, None)]
    for _ in range(data.draw(st.integers(0, 4), label="jumps")):
        cursor, position = data.draw(st.sampled_from(positions), label="from")
        limit = data.draw(st.sampled_from([1, 2, 3, 7, 50]), label="limit")
        if data.draw(st.booleans(), label="backward"):
            end = len(expected) if position is None else position
            start = max(0, end - limit)
            page = await db.search(index, **search.arguments, reverse=reverse, last=limit, before=cursor)
            assert page.has_previous == (start > 0)
            assert page.next_token is None
            seen["backward"] += 1
            seen["direction changed"] += cursor is not None
        else:
            start = 0 if position is None else position + 1
            end = min(start + limit, len(expected))
            page = await db.search(index, **search.arguments, reverse=reverse, first=limit, after=cursor)
            assert page.has_next == (end < len(expected))
        seen["page size changed"] += cursor is not None
        assert as_records(drawn, page.items) == expected[start:end]
        positions += [(found, start + offset) for offset, found in enumerate(page.cursors)]
        if page.items:
            # If more records follow, the end cursor equals the next token, which may be past expired records.
            assert page.end_cursor == (page.next_token or page.cursors[-1])
            assert page.start_cursor == page.cursors[0] or page.has_previous


def primary_key(record: Record) -> list[str]:
    """Returns the primary key as sortable and comparable texts."""
    return [repr(record[name]) for name in KEYS if name in record]


def _check_tied(search: DrawnSearch, found: list[Record], expected: list[Record]) -> None:
    value = search.order[0].name
    assert [record[value] for record in found] == [record[value] for record in expected]
    assert sorted(found, key=primary_key) == sorted(expected, key=primary_key)
    seen["tie on a raw index"] += len({record[value] for record in found}) < len(found)


def test_changes_between_pages_do_not_affect_other_records(engines: Engines, request: pytest.FixtureRequest) -> None:
    """While records are inserted, deleted or moved and shards added, every other record is returned once, in order."""

    @examples(40, deep=1_250)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data)
        db, settle = _database(data, engines, case.drawn)
        # Hashed ties differ between tenants, and so does the effect of a change: Hypothesis could not replay the case.
        assume(not case.search.raw or settle == engines.catch_up_indexes)
        engines.runner.run(check_changes(data, db, settle, case))

    run_in_batches(law, request, SHAPES + CHANGES)


async def check_changes(data: st.DataObject, db: Database, settle: Settle, case: Case) -> None:
    """Reads a result that changes between its pages and between the rounds of a page."""
    search, reverse, drawn, everything = case.search, case.reverse, case.drawn, list(case.records)
    await put_records(db, drawn, everything)
    await settle()
    untouched = list(everything)
    found: list[Record] = []
    token, pages, least_created = None, 0, 0
    interleaving = InterleavingStore(db.store)
    writer, db = db, replace(db, store=interleaving)
    while True:
        limit = data.draw(st.sampled_from([1, 2, 3, 5]), label="limit")
        index = getattr(drawn.thing, search.index)
        page = await db.search(index, **search.arguments, reverse=reverse, limit=limit, next_token=token)
        found += as_records(drawn, page.items)
        token, pages = page.next_token, pages + 1
        if token is None or pages > 100:
            break
        change = data.draw(st.sampled_from([*CHANGES, "nothing"]), label="change")
        seen[change] += change in {"insert", "growth"} or bool(untouched)
        if change == "growth" and least_created == 0:
            least_created = GROWTH
            drawn = build(drawn.shape.grown(data.draw(st.sampled_from([1, 7]), label="new shards")))
            writer, db = replace(writer, catalog=drawn.catalog), replace(db, catalog=drawn.catalog)
        elif change == "insert":
            new = data.draw(records(drawn.shape, least_created, most=3), label="inserted")
            ids = {(record["key"], record.get("part")) for record in everything}
            new = [record for record in new if (record["key"], record.get("part")) not in ids]
            everything += new
            await put_records(writer, drawn, new)
        elif change == "delete" and untouched:
            deleted = untouched.pop(data.draw(st.integers(0, len(untouched) - 1)))
            everything.remove(deleted)
            await writer.delete(drawn.thing, **{name: deleted[name] for name in drawn.primary})
        elif change.startswith("move") and untouched:
            moved = untouched.pop(data.draw(st.integers(0, len(untouched) - 1)))
            others = data.draw(records(drawn.shape, most=1), label="moved to")
            moved_record = with_mutable_fields_of(moved, others[0]) if others else moved
            everything[everything.index(moved)] = moved_record
            if change == "move between rounds":
                interleaving.action = partial(put_records, writer, drawn, [moved_record])
            else:
                await put_records(writer, drawn, [moved_record])
    assert pages <= 100
    returned = [record for record in found if record in untouched]
    expected = search.expected_result(untouched)
    if search.raw:
        _check_tied(search, returned[::-1] if reverse else returned, expected)
    else:
        assert returned == (expected[::-1] if reverse else expected)
    assert max(Counter(map(str, map(primary_key, returned))).values(), default=1) == 1

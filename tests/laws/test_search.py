"""The law of search: all pages together are the sorted naive answer, however they are walked."""

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
from graphql_api.storage.engines.sqlite import EngineQuirks, SqliteStore, open_sqlite
from graphql_api.storage.port import Store
from tests.depth import examples
from tests.laws.search_world import (
    GROWTH,
    KEYS,
    NOW,
    Case,
    Drawn,
    Record,
    World,
    build,
    changed,
    draw_case,
    new_tenant,
    records,
    seen,
)
from tests.stores import Between, ReadByRead

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
SHAPES = [
    *("by_x", "by_id", "by_text", "by_number", "no sort property", "descending column", "history", "composite sub id"),
    *("condition eq", "condition prefix", "condition between", "condition none", "flat condition"),
    *("sharded True", "sharded False", "sharded Owner", "several generations", "one shard", "tie on a raw index"),
    *("shared scan", "read by read", "short engine pages", "by_state", "expired", "composite id"),
    *("projection ALL", "projection KEYS_ONLY", "projection INCLUDE"),
]
WALKS = ["empty answer", "many pages", "backward", "turned round", "page size changed", "reverse"]
CHANGES = ["insert", "delete", "move", "growth", "move between rounds"]
"""classes of cases: a run that has not drawn one of them has shown nothing about it"""


BATCHES, MAX_BATCHES = 4, 28


def in_batches(law: Callable[[], None], request: pytest.FixtureRequest, classes: Sequence[str] = ()) -> None:
    """Runs a law in batches, and fails if they never met one of these classes of cases.

    Within one batch Hypothesis may lean away from a whole class; each has a seed of its own, made from the run's.
    """
    first = int(request.config.getoption("--hypothesis-seed"))
    for number in range(MAX_BATCHES):
        seed(first + number)(law)()
        if number + 1 >= BATCHES and all(seen[name] for name in classes):
            return
    assert [name for name in classes if not seen[name]] == []


Settle = Callable[[], Awaitable[None]]
"""lets every index entry catch up with the records"""


@dataclass
class Engines:
    """Stores that outlive a case; each case has a tenant, and so hash keys, of its own."""

    runner: asyncio.Runner
    plain: SqliteStore
    awkward: SqliteStore


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """One plain store and one that is awkward in every allowed way."""
    folder: Path = tmp_path_factory.mktemp("laws")
    with asyncio.Runner() as runner:
        plain = runner.run(open_sqlite(folder / "plain.db"))
        # Ties in another order, index entries that come late, and engine pages of a few rows.
        awkward = runner.run(
            open_sqlite(folder / "awkward.db", quirks=EngineQuirks(tie_order="key", index_lag=3, page_bytes=700))
        )
        yield Engines(runner, plain, awkward)
        runner.run(plain.close())
        runner.run(awkward.close())


def _database(data: st.DataObject, engines: Engines, world: World) -> tuple[Database, Settle]:
    inner = data.draw(st.sampled_from([engines.plain, engines.awkward]), label="engine")
    most = data.draw(st.sampled_from([None, None, 1, 2, 1000]), label="rows a read")
    seen["shared scan" if most is None else "read by read"] += 1
    seen["short engine pages"] += most in {1, 2}
    store: Store = inner if most is None else ReadByRead(inner, most)
    engines.runner.run(inner.ensure_table(world.catalog.table_definition()))
    return Database(world.catalog, store, SEAL, clock=lambda: NOW, tenant=new_tenant()), inner.catch_up_indexes


async def put_plain(db: Database, world: World, some: list[Record]) -> None:
    """Writes plain records."""
    problems = await db.put_many([world.thing(**record) for record in some])
    assert problems == [None] * len(some)


def plain(world: World, items: Any) -> list[Record]:
    """Items of a page as plain records."""
    names = [*world.thing.model_fields]
    return [{name: getattr(item, name) for name in names} for item in items]


def gone_on(
    data: st.DataObject, page: Page[Any], places: list[int], onward: str | None, *, backward: bool
) -> tuple[list[int], str | None]:
    """The places that a walk has seen of a page, and its next token: at times that of one of the page's records.

    Seen from some record, shards may have failed at too many places (StoreUnavailable).
    """
    if not places or data.draw(st.integers(0, 4), label="go on from a record"):
        return places, onward
    at = data.draw(st.integers(0, len(places) - 1), label="record")
    token = page.cursors[at]
    seen["cursor of a partial page"] += not page.complete
    return (places[at:] if backward else places[: at + 1]), token


def test_every_walk_is_a_slice_of_the_sorted_answer(engines: Engines, request: pytest.FixtureRequest) -> None:
    """From any cursor, either way, with any page size, a page is exactly that slice of the naive answer."""

    @examples(110, deep=2_500)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data)
        engines.runner.run(check_walks(data, *_database(data, engines, case.world), case))

    in_batches(law, request, SHAPES + WALKS)


async def check_walks(data: st.DataObject, db: Database, settle: Settle, case: Case) -> None:
    """Walks and jumps through an answer, page by page."""
    search, reverse, world = case.search, case.reverse, case.world
    await put_plain(db, world, case.records)
    await settle()
    index = case.index
    expected = search.answer(case.records)
    target(float(len(expected)), label="length of the answer")
    if search.raw:
        # The order within a tie is the engine's; it has to be one order, and turned by reverse.
        whole = plain(world, (await db.search(index, **search.arguments, limit=500)).items)
        _check_tied(search, whole, expected)
        expected = whole
    if reverse:
        expected = expected[::-1]
    seen["reverse"] += reverse
    seen["empty answer"] += not expected
    seen["many pages"] += len(expected) > 6
    # A full walk forward.
    token, at = None, 0
    while True:
        limit = data.draw(st.sampled_from([1, 2, 3, 7, 50]), label="limit")
        page = await db.search(index, **search.arguments, reverse=reverse, limit=limit, next_token=token)
        note(f"at {at}: {len(page.items)} of {limit}")
        assert plain(world, page.items) == expected[at : at + limit]
        assert page.explain["read"]["returned"] == len(page.items)
        assert page.has_next == (page.next_token is not None) == (at + limit < len(expected))
        at, token = at + len(page.items), page.next_token
        if token is None:
            break
    assert at == len(expected)
    # Jumps: any cursor of any page, walked on from in either direction.
    places: list[tuple[str | None, int | None]] = [(None, None)]
    for _ in range(data.draw(st.integers(0, 4), label="jumps")):
        cursor, place = data.draw(st.sampled_from(places), label="from")
        limit = data.draw(st.sampled_from([1, 2, 3, 7, 50]), label="limit")
        if data.draw(st.booleans(), label="backward"):
            end = len(expected) if place is None else place
            start = max(0, end - limit)
            page = await db.search(index, **search.arguments, reverse=reverse, last=limit, before=cursor)
            assert page.has_previous == (start > 0)
            assert page.next_token is None
            seen["backward"] += 1
            seen["turned round"] += cursor is not None
        else:
            start = 0 if place is None else place + 1
            end = min(start + limit, len(expected))
            page = await db.search(index, **search.arguments, reverse=reverse, first=limit, after=cursor)
            assert page.has_next == (end < len(expected))
        seen["page size changed"] += cursor is not None
        assert plain(world, page.items) == expected[start:end]
        places += [(found, start + offset) for offset, found in enumerate(page.cursors)]
        if page.items:
            # Where more follows, the outer cursor goes on as the token does: behind what has expired, too.
            assert page.end_cursor == (page.next_token or page.cursors[-1])
            assert page.start_cursor == page.cursors[0] or page.has_previous


def identity(record: Record) -> list[str]:
    """The primary key, as something to sort and compare by."""
    return [repr(record[name]) for name in KEYS if name in record]


def _check_tied(search: Drawn, found: list[Record], expected: list[Record]) -> None:
    value = search.order[0].name
    assert [record[value] for record in found] == [record[value] for record in expected]
    assert sorted(found, key=identity) == sorted(expected, key=identity)
    seen["tie on a raw index"] += len({record[value] for record in found}) < len(found)


def test_changes_during_a_walk_never_touch_other_records(engines: Engines, request: pytest.FixtureRequest) -> None:
    """Whatever is inserted, deleted or moved, and however shards grow, every untouched record comes once, in order."""

    @examples(60, deep=1_250)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data)
        db, settle = _database(data, engines, case.world)
        # Hashed ties differ from tenant to tenant, and with them what a change meets: a case could not be drawn again.
        assume(not case.search.raw or settle == engines.awkward.catch_up_indexes)
        engines.runner.run(check_changes(data, db, settle, case))

    in_batches(law, request, SHAPES + CHANGES)


async def check_changes(data: st.DataObject, db: Database, settle: Settle, case: Case) -> None:
    """Walks through an answer that changes between its pages, and between the rounds of a page."""
    search, reverse, world, everything = case.search, case.reverse, case.world, list(case.records)
    await put_plain(db, world, everything)
    await settle()
    untouched = list(everything)
    found: list[Record] = []
    token, pages, least_created = None, 0, 0
    between = Between(db.store)
    writing, db = db, replace(db, store=between)
    while True:
        limit = data.draw(st.sampled_from([1, 2, 3, 5]), label="limit")
        index = getattr(world.thing, search.index)
        page = await db.search(index, **search.arguments, reverse=reverse, limit=limit, next_token=token)
        found += plain(world, page.items)
        token, pages = page.next_token, pages + 1
        if token is None or pages > 100:
            break
        change = data.draw(st.sampled_from([*CHANGES, "nothing"]), label="change")
        seen[change] += change in {"insert", "growth"} or bool(untouched)
        if change == "growth" and least_created == 0:
            least_created = GROWTH
            world = build(world.shape.grown(data.draw(st.sampled_from([1, 7]), label="new shards")))
            writing, db = replace(writing, catalog=world.catalog), replace(db, catalog=world.catalog)
        elif change == "insert":
            new = data.draw(records(world.shape, least_created, most=3), label="inserted")
            ids = {(record["key"], record.get("part")) for record in everything}
            new = [record for record in new if (record["key"], record.get("part")) not in ids]
            everything += new
            await put_plain(writing, world, new)
        elif change == "delete" and untouched:
            gone = untouched.pop(data.draw(st.integers(0, len(untouched) - 1)))
            everything.remove(gone)
            await writing.delete(world.thing, **{name: gone[name] for name in world.primary})
        elif change.startswith("move") and untouched:
            moved = untouched.pop(data.draw(st.integers(0, len(untouched) - 1)))
            others = data.draw(records(world.shape, most=1), label="moved to")
            new_place = changed(moved, others[0]) if others else moved
            everything[everything.index(moved)] = new_place
            if change == "move between rounds":
                between.action = partial(put_plain, writing, world, [new_place])
            else:
                await put_plain(writing, world, [new_place])
    assert pages <= 100
    came = [record for record in found if record in untouched]
    expected = search.answer(untouched)
    if search.raw:
        _check_tied(search, came[::-1] if reverse else came, expected)
    else:
        assert came == (expected[::-1] if reverse else expected)
    assert max(Counter(map(str, map(identity, came))).values(), default=1) == 1

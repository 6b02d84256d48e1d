"""The law of search: all pages together are the sorted naive answer, however they are walked."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note, target
from hypothesis import strategies as st

from graphql_api.adapters.sqlite import SqliteStore, Switches, open_sqlite
from graphql_api.search.seal import Seal
from graphql_api.store.port import Store
from graphql_api.wiring import Database
from tests.depth import examples
from tests.laws.search_world import (
    GROWTH,
    Drawn,
    Record,
    World,
    build,
    changed,
    new_tenant,
    records,
    searches,
    seen,
    shapes,
)
from tests.stores import ReadByRead

SEAL = Seal([b"a secret of thirty-two bytes only"])
CLASSES = [
    *("by_x", "by_id", "by_text", "by_number"),
    *("condition eq", "condition prefix", "condition between", "condition none", "flat condition"),
    *("sharded True", "sharded False", "sharded Owner", "several generations", "one shard"),
    *("history", "composite sub id", "descending column", "no sort property"),
    *("tie on a raw index", "many pages", "backward", "turned round", "page size changed", "reverse"),
    *("insert", "delete", "move", "growth", "shared scan", "read by read", "short engine pages", "empty answer"),
]
"""what a run has to have drawn, or it has shown nothing"""


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
            open_sqlite(folder / "awkward.db", switches=Switches(tie_order="key", index_lag=3, page_bytes=700))
        )
        yield Engines(runner, plain, awkward)
        runner.run(plain.close())
        runner.run(awkward.close())


def _database(data: st.DataObject, engines: Engines, world: World) -> tuple[Database, SqliteStore]:
    inner = data.draw(st.sampled_from([engines.plain, engines.awkward]), label="engine")
    most = data.draw(st.sampled_from([None, None, 1, 2, 1000]), label="rows a read")
    seen["shared scan" if most is None else "read by read"] += 1
    seen["short engine pages"] += most in {1, 2}
    store: Store = inner if most is None else ReadByRead(inner, most)
    engines.runner.run(inner.ensure_table(world.catalog.table_definition()))
    return Database(world.catalog, store, SEAL, tenant=new_tenant()), inner


async def _put(db: Database, world: World, some: list[Record]) -> None:
    problems = await db.put_many([world.thing(**record) for record in some])
    assert problems == [None] * len(some)


def _plain(world: World, items: Any) -> list[Record]:
    names = [*world.thing.model_fields]
    return [{name: getattr(item, name) for name in names} for item in items]


@examples(1_000, deep=10_000)
@given(data=st.data())
def test_every_walk_is_a_slice_of_the_sorted_answer(data: st.DataObject, engines: Engines) -> None:
    """From any cursor, either way, with any page size, a page is exactly that slice of the naive answer."""
    world = build(data.draw(shapes(), label="shape"))
    everything = data.draw(records(world.shape), label="records")
    search = data.draw(searches(world, everything), label="search")
    reverse = data.draw(st.booleans(), label="reverse")
    db, inner = _database(data, engines, world)
    engines.runner.run(_check_walks(data, db, inner, world, everything, search, reverse))


async def _check_walks(
    data: st.DataObject,
    db: Database,
    inner: SqliteStore,
    world: World,
    everything: list[Record],
    search: Drawn,
    reverse: bool,
) -> None:
    await _put(db, world, everything)
    await inner.settle()
    index = getattr(world.thing, search.index)
    expected = search.answer(everything)
    target(float(len(expected)), label="length of the answer")
    if search.raw:
        # The order within a tie is the engine's; it has to be one order, and turned by reverse.
        whole = _plain(world, (await db.search(index, **search.arguments, limit=500)).items)
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
        assert _plain(world, page.items) == expected[at : at + limit]
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
        assert _plain(world, page.items) == expected[start:end]
        places += [(found, start + offset) for offset, found in enumerate(page.cursors)]
        if page.items:
            assert (page.start_cursor, page.end_cursor) == (page.cursors[0], page.cursors[-1])


def _identity(record: Record) -> list[str]:
    return [repr(record[name]) for name in ("key", "sub_a", "sub_b") if name in record]


def _check_tied(search: Drawn, found: list[Record], expected: list[Record]) -> None:
    value = search.order[0].name
    assert [record[value] for record in found] == [record[value] for record in expected]
    assert sorted(found, key=_identity) == sorted(expected, key=_identity)
    seen["tie on a raw index"] += len({record[value] for record in found}) < len(found)


@examples(500, deep=5_000)
@given(data=st.data())
def test_changes_during_a_walk_never_touch_other_records(data: st.DataObject, engines: Engines) -> None:
    """Whatever is inserted, deleted or moved, and however shards grow, every untouched record comes once, in order."""
    shape = data.draw(shapes(), label="shape")
    world = build(shape)
    everything = data.draw(records(shape), label="records")
    search = data.draw(searches(world, everything), label="search")
    reverse = data.draw(st.booleans(), label="reverse")
    db, inner = _database(data, engines, world)
    engines.runner.run(_check_changes(data, db, inner, world, everything, search, reverse))


async def _check_changes(
    data: st.DataObject,
    db: Database,
    inner: SqliteStore,
    world: World,
    everything: list[Record],
    search: Drawn,
    reverse: bool,
) -> None:
    await _put(db, world, everything)
    await inner.settle()
    untouched = list(everything)
    found: list[Record] = []
    token, pages, least_created = None, 0, 0
    while True:
        limit = data.draw(st.sampled_from([1, 2, 3, 5]), label="limit")
        index = getattr(world.thing, search.index)
        page = await db.search(index, **search.arguments, reverse=reverse, limit=limit, next_token=token)
        found += _plain(world, page.items)
        token, pages = page.next_token, pages + 1
        if token is None or pages > 100:
            break
        change = data.draw(st.sampled_from(["insert", "delete", "move", "growth", "nothing"]), label="change")
        seen[change] += 1
        if change == "growth" and least_created == 0:
            least_created = GROWTH
            world = build(world.shape.grown(data.draw(st.sampled_from([1, 7]), label="new shards")))
            db = Database(world.catalog, db.store, SEAL, tenant=db.tenant)
        elif change == "insert":
            new = data.draw(records(world.shape, least_created, most=3), label="inserted")
            keys = {record["key"]: record for record in everything}
            new = [record for record in new if record["key"] not in keys]
            everything += new
            await _put(db, world, new)
        elif change == "delete" and untouched:
            gone = untouched.pop(data.draw(st.integers(0, len(untouched) - 1)))
            everything.remove(gone)
            await db.delete(world.thing, **{name: gone[name] for name in world.primary})
        elif change == "move" and untouched:
            moved = untouched.pop(data.draw(st.integers(0, len(untouched) - 1)))
            others = data.draw(records(world.shape, most=1), label="moved to")
            new_place = changed(moved, others[0]) if others else moved
            everything[everything.index(moved)] = new_place
            await _put(db, world, [new_place])
    assert pages <= 100
    came = [record for record in found if record in untouched]
    expected = search.answer(untouched)
    if search.raw:
        _check_tied(search, came[::-1] if reverse else came, expected)
    else:
        assert came == (expected[::-1] if reverse else expected)
    assert max(Counter(map(str, map(_identity, came))).values(), default=1) == 1


def test_the_laws_have_drawn_every_class_of_cases() -> None:
    """A run that never met ties, growth or turning round proves nothing about them."""
    assert [name for name in CLASSES if not seen[name]] == []

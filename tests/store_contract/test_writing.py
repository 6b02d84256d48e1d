"""Writes one by one: what comes back, conditions, index entries that follow their records."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.errors import ConditionFailed, StoreRefused
from graphql_api.storage.port import Store
from graphql_api.storage.values import Delete, Expect, Key, Put, Write
from tests.depth import examples
from tests.store_contract.expectations import EXPECTATIONS, STANDING
from tests.store_contract.samples import page, put, reading, record, refusal, with_stores

KEY = Key("h!", "r")

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.decimals(-1000, 1000, places=3),
)
SETS = st.one_of(
    st.frozensets(st.text(max_size=3), min_size=1),
    st.frozensets(st.binary(max_size=3), min_size=1),
    st.frozensets(st.integers() | st.decimals(-10, 10, places=1), min_size=1),
).filter(lambda found: all(not isinstance(part, int) or abs(part) < 10**38 for part in found))
NAMES = st.text(min_size=1, max_size=4)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | SETS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def exactly(value: Any) -> Any:
    """A value with its types, since to Python true is 1; whole numbers are the same whatever type carries them."""
    match value:
        case bool() | None | str() | bytes():
            return type(value), value
        case int() | Decimal():
            return "number", value
        case list():
            return [exactly(part) for part in value]
        case dict():
            return {name: exactly(part) for name, part in value.items()}
        case _:
            return frozenset(exactly(part) for part in value)


@with_stores(examples(100))
@given(attributes=st.dictionaries(NAMES, VALUES, max_size=4))
async def test_every_value_comes_back(store: Store, attributes: dict[str, Any]) -> None:
    """Each kind of attribute comes back as it was written, nested ones too."""
    item = {**attributes, **record(KEY), "textHash": "t!", "text": "v"}
    item.pop("numberHash", None)
    item.pop("number", None)
    await put(store, item)
    (found,) = await store.get_many([KEY], True)
    assert exactly(found) == exactly(item)
    (row,) = (await page(store, reading("byText", "t!"))).rows
    assert exactly(row.item) == exactly(item)


async def test_get_many(store: Store) -> None:
    """Records come back in the order of their keys, doubles too, however many, with None for what is not there."""
    await put(store, *(record(("h!", f"{place:03}"), place=place) for place in range(250)))
    keys = [Key("h!", f"{place:03}") for place in (*range(300), 7, 7)]
    for consistent in (False, True):
        found = await store.get_many(keys, consistent)
        assert [item and item["place"] for item in found] == [*range(250), *[None] * 50, 7, 7]
    assert list(await store.get_many([], True)) == []


async def test_put_replaces(store: Store) -> None:
    """A put replaces the whole record: what it does not name is gone."""
    await put(store, record(KEY, a=1, b=2))
    await put(store, record(KEY, b=3))
    assert list(await store.get_many([KEY], True)) == [record(KEY, b=3)]


async def test_delete(store: Store) -> None:
    """A deleted record is gone from the table and every index; deleting what is not there is no error."""
    await put(store, record(KEY, textHash="t!", text="v", numberHash="n!", number=1))
    for _ in range(2):
        assert await refusal(store, Delete(KEY)) is None
        assert list(await store.get_many([KEY], True)) == [None]
        for index, hash_key in ((None, "h!"), ("byText", "t!"), ("byNumber", "n!")):
            assert list((await page(store, reading(index, hash_key))).rows) == []


async def test_moved_entries(store: Store) -> None:
    """An entry stands where the record's attributes say now, and nowhere else, also after the hash key changed."""
    await put(store, record(KEY, textHash="t!1", text="a", numberHash="n!", number=1))
    for hash_key, text in (("t!1", "b"), ("t!2", "b"), ("t!2", "a"), ("t!1", "a")):
        await put(store, record(KEY, textHash=hash_key, text=text, numberHash="n!", number=1))
        seen = [(key, row.value) for key in ("t!1", "t!2") for row in (await page(store, reading("byText", key))).rows]
        assert seen == [(hash_key, text)]
        assert len((await page(store, reading("byNumber", "n!"))).rows) == 1


@pytest.mark.parametrize("attributes", [{}, {"textHash": "t!"}, {"text": "v"}, {"numberHash": "t!", "text": "v"}])
async def test_sparse_entries(store: Store, attributes: dict[str, Any]) -> None:
    """A record that lacks one of an index's attributes is not in that index, also if it was there before."""
    await put(store, record(KEY, textHash="t!", text="v"))
    assert len((await page(store, reading("byText", "t!"))).rows) == 1
    await put(store, record(KEY, **attributes))
    assert list((await page(store, reading("byText", "t!"))).rows) == []
    assert list(await store.get_many([KEY], True)) == [record(KEY, **attributes)]


async def test_entry_shows_the_present_record(store: Store) -> None:
    """An index answers the record as it is now, when an attribute outside of its key has changed too."""
    await put(store, record(KEY, textHash="t!", text="v", color="red"))
    await put(store, record(KEY, textHash="t!", text="v", color="blue"))
    (row,) = (await page(store, reading("byText", "t!"))).rows
    assert row.item["color"] == "blue"


# --- conditions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("expect", "holds_without", "holds_with"), EXPECTATIONS)
async def test_conditions(store: Store, expect: Expect, holds_without: bool, holds_with: bool) -> None:
    """A write happens exactly if its expectation holds, for puts and deletions; otherwise the old record is told."""
    for before, holds in ((None, holds_without), (STANDING, holds_with)):
        for write in (Put(record(KEY, new=True), expect), Delete(KEY, expect)):
            await (store.write([Delete(KEY)]) if before is None else put(store, before))
            problem = await refusal(store, write)
            (after,) = await store.get_many([KEY], True)
            if holds:
                assert problem is None
                assert after == (write.item if isinstance(write, Put) else None)
            else:
                assert isinstance(problem, ConditionFailed)
                assert (problem.position, problem.old) == (0, before)
                assert after == before


async def test_each_write_stands_alone(store: Store) -> None:
    """In one call the writes that fail do so by themselves, at their own places."""
    await put(store, record(("h!", "1"), old=True))
    writes: list[Write] = [
        Put(record(("h!", "0"))),
        Put(record(("h!", "1")), Expect(absent=True)),
        Put(record(("h!", "2"), text=1)),
        Delete(Key("h!", "3"), Expect()),
        Put(record(("h!", "4"))),
    ]
    problems = await store.write(writes)
    assert [type(problem) for problem in problems] == [
        type(None),
        ConditionFailed,
        StoreRefused,
        ConditionFailed,
        type(None),
    ]
    failed = [problem for problem in problems if isinstance(problem, ConditionFailed)]
    assert [(problem.position, problem.old) for problem in failed] == [(1, record(("h!", "1"), old=True)), (3, None)]
    found = await store.get_many([Key("h!", f"{place}") for place in range(5)], True)
    assert [item is not None for item in found] == [True, True, False, False, True]


async def test_many_writes(store: Store) -> None:
    """A call takes more writes than an engine takes at once, new records and old ones mixed."""
    await put(store, *(record(("h!", f"{place:03}"), textHash="t!", text="old") for place in range(0, 300, 3)))
    await put(store, *(record(("h!", f"{place:03}"), textHash="t!", text=f"{place:03}") for place in range(300)))
    rows = (await page(store, reading("byText", "t!"))).rows
    assert [(row.value, row.key.range) for row in rows] == [(f"{place:03}", f"{place:03}") for place in range(300)]


async def test_one_creator(store: Store) -> None:
    """Of many concurrent creations of one record exactly one succeeds, and its record stands."""
    creations = (refusal(store, Put(record(KEY, by=place), Expect(absent=True))) for place in range(20))
    problems = await asyncio.gather(*creations)
    (winner,) = [place for place, problem in enumerate(problems) if problem is None]
    assert list(await store.get_many([KEY], True)) == [record(KEY, by=winner)]

"""Single writes: stored values, conditions, and index entries that follow their records."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.errors import ConditionFailed, StoreRefused
from graphql_api.storage.port import Store
from graphql_api.storage.values import Delete, Expect, Key, Put, Write
from tests.store_contract.condition_samples import EXPECTATIONS, STORED_RECORD
from tests.store_contract.samples import put, range_read, read_page, record, shared_store_settings, write_error
from tests.support.run_depth import examples

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
    lambda nested: st.lists(nested, max_size=3) | st.dictionaries(NAMES, nested, max_size=3),
    max_leaves=8,
)


def with_types(value: Any) -> Any:
    """A value with its types, because True equals 1 in Python. Whole numbers are equal for int and Decimal."""
    match value:
        case bool() | None | str() | bytes():
            return type(value), value
        case int() | Decimal():
            return "number", value
        case list():
            return [with_types(part) for part in value]
        case dict():
            return {name: with_types(part) for name, part in value.items()}
        case _:
            return frozenset(with_types(part) for part in value)


@shared_store_settings(examples(100))
@given(attributes=st.dictionaries(NAMES, VALUES, max_size=4))
async def test_values_are_read_back_unchanged(store: Store, attributes: dict[str, Any]) -> None:
    """Values of every type are read back as they were written, also nested ones."""
    item = {**attributes, **record(KEY), "textHash": "t!", "text": "v"}
    item.pop("numberHash", None)
    item.pop("number", None)
    await put(store, item)
    (found,) = await store.get_many([KEY], True)
    assert with_types(found) == with_types(item)
    (row,) = (await read_page(store, range_read("byText", "t!"))).rows
    assert with_types(row.item) == with_types(item)


async def test_get_many(store: Store) -> None:
    """Records are returned in the order of their keys. Duplicates are repeated, and missing records are None."""
    await put(store, *(record(("h!", f"{number:03}"), position=number) for number in range(250)))
    keys = [Key("h!", f"{number:03}") for number in (*range(300), 7, 7)]
    for consistent in (False, True):
        found = await store.get_many(keys, consistent)
        assert [item and item["position"] for item in found] == [*range(250), *[None] * 50, 7, 7]
    assert list(await store.get_many([], True)) == []


async def test_put_replaces(store: Store) -> None:
    """A put replaces the whole record. Attributes that it lacks are removed."""
    await put(store, record(KEY, a=1, b=2))
    await put(store, record(KEY, b=3))
    assert list(await store.get_many([KEY], True)) == [record(KEY, b=3)]


async def test_delete(store: Store) -> None:
    """A deleted record is removed from the table and every index. Deleting a missing record is no error."""
    await put(store, record(KEY, textHash="t!", text="v", numberHash="n!", number=1))
    for _ in range(2):
        assert await write_error(store, Delete(KEY)) is None
        assert list(await store.get_many([KEY], True)) == [None]
        for index, hash_key in ((None, "h!"), ("byText", "t!"), ("byNumber", "n!")):
            assert list((await read_page(store, range_read(index, hash_key))).rows) == []


async def test_index_entries_follow_their_record(store: Store) -> None:
    """A record has exactly one entry in an index, at its current key, also after its hash key changed."""
    await put(store, record(KEY, textHash="t!1", text="a", numberHash="n!", number=1))
    for hash_key, text in (("t!1", "b"), ("t!2", "b"), ("t!2", "a"), ("t!1", "a")):
        await put(store, record(KEY, textHash=hash_key, text=text, numberHash="n!", number=1))
        entries = [
            (key, row.value)
            for key in ("t!1", "t!2")
            for row in (await read_page(store, range_read("byText", key))).rows
        ]
        assert entries == [(hash_key, text)]
        assert len((await read_page(store, range_read("byNumber", "n!"))).rows) == 1


@pytest.mark.parametrize("attributes", [{}, {"textHash": "t!"}, {"text": "v"}, {"numberHash": "t!", "text": "v"}])
async def test_sparse_entries(store: Store, attributes: dict[str, Any]) -> None:
    """A record that lacks a key attribute of an index is not in the index, even if it was before."""
    await put(store, record(KEY, textHash="t!", text="v"))
    assert len((await read_page(store, range_read("byText", "t!"))).rows) == 1
    await put(store, record(KEY, **attributes))
    assert list((await read_page(store, range_read("byText", "t!"))).rows) == []
    assert list(await store.get_many([KEY], True)) == [record(KEY, **attributes)]


async def test_index_entries_have_the_current_attributes(store: Store) -> None:
    """An index returns the current record, even if only an attribute outside its key changed."""
    await put(store, record(KEY, textHash="t!", text="v", color="red"))
    await put(store, record(KEY, textHash="t!", text="v", color="blue"))
    (row,) = (await read_page(store, range_read("byText", "t!"))).rows
    assert row.item["color"] == "blue"


# --- conditions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("expect", "holds_without", "holds_with"), EXPECTATIONS)
async def test_conditions(store: Store, expect: Expect, holds_without: bool, holds_with: bool) -> None:
    """A put or delete happens exactly if its condition holds. Otherwise the error has the stored record."""
    for before, holds in ((None, holds_without), (STORED_RECORD, holds_with)):
        for write in (Put(record(KEY, new=True), expect), Delete(KEY, expect)):
            await (store.write([Delete(KEY)]) if before is None else put(store, before))
            error = await write_error(store, write)
            (after,) = await store.get_many([KEY], True)
            if holds:
                assert error is None
                assert after == (write.item if isinstance(write, Put) else None)
            else:
                assert isinstance(error, ConditionFailed)
                assert (error.position, error.old) == (0, before)
                assert after == before


async def test_writes_of_one_call_fail_independently(store: Store) -> None:
    """Each failed write of a call has its own error, at its own position."""
    await put(store, record(("h!", "1"), old=True))
    writes: list[Write] = [
        Put(record(("h!", "0"))),
        Put(record(("h!", "1")), Expect(absent=True)),
        Put(record(("h!", "2"), text=1)),
        Delete(Key("h!", "3"), Expect()),
        Put(record(("h!", "4"))),
    ]
    errors = await store.write(writes)
    assert [type(error) for error in errors] == [
        type(None),
        ConditionFailed,
        StoreRefused,
        ConditionFailed,
        type(None),
    ]
    failed = [error for error in errors if isinstance(error, ConditionFailed)]
    assert [(error.position, error.old) for error in failed] == [(1, record(("h!", "1"), old=True)), (3, None)]
    found = await store.get_many([Key("h!", f"{number}") for number in range(5)], True)
    assert [item is not None for item in found] == [True, True, False, False, True]


async def test_many_writes(store: Store) -> None:
    """One call accepts more writes than an engine takes in one request, with new and existing records."""
    await put(store, *(record(("h!", f"{number:03}"), textHash="t!", text="old") for number in range(0, 300, 3)))
    await put(store, *(record(("h!", f"{number:03}"), textHash="t!", text=f"{number:03}") for number in range(300)))
    rows = (await read_page(store, range_read("byText", "t!"))).rows
    assert [(row.value, row.key.range) for row in rows] == [(f"{number:03}", f"{number:03}") for number in range(300)]


async def test_one_concurrent_create_succeeds(store: Store) -> None:
    """Of many concurrent creates of one record exactly one succeeds, and its record is stored."""
    creates = (write_error(store, Put(record(KEY, by=number), Expect(absent=True))) for number in range(20))
    errors = await asyncio.gather(*creates)
    (winner,) = [number for number, error in enumerate(errors) if error is None]
    assert list(await store.get_many([KEY], True)) == [record(KEY, by=winner)]

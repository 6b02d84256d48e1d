"""Paging through several shards: no row is missing, and no row is returned twice."""

from itertools import count
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.storage.port import Store
from graphql_api.storage.values import RangeRead, RowPage
from tests.store_contract.samples import (
    NUMBERS,
    TEXTS,
    put,
    range_read,
    read_all_pages,
    record,
    shared_store_settings,
    values_and_keys,
)
from tests.support.run_depth import examples

RUN_NUMBERS = count()
SHARDS = ("", "00", "01", "0a", "zz")


@shared_store_settings(examples(90))
@given(data=st.data(), index=st.sampled_from([None, "byText", "byNumber"]), descending=st.booleans())
async def test_pages_contain_every_row_once(
    store: Store, data: st.DataObject, index: str | None, descending: bool
) -> None:
    """For any limits, the pages of each read contain the sorted rows of its range exactly once."""
    values: st.SearchStrategy[Any] = NUMBERS if index == "byNumber" else TEXTS
    name = f"paging{next(RUN_NUMBERS)}"
    drawn = data.draw(st.lists(st.tuples(st.sampled_from(SHARDS), values), max_size=30))
    rows = sorted({(shard, value) for shard, value in drawn}, key=repr) if index is None else drawn
    await put(store, *(_item(index, name, number, *row) for number, row in enumerate(rows)))
    shards = data.draw(st.lists(st.sampled_from(SHARDS), min_size=1, unique=True))
    ranges = {shard: data.draw(st.just(KeyRange()) | _half_open(values)) for shard in shards}
    limit, want = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 7))
    reads = [
        RangeRead(index, f"{name}!{shard}", SHARDS.index(shard), ranges[shard], limit, descending) for shard in shards
    ]

    rows_by_hash_key = await read_all_pages(store, reads, want, by_position=data.draw(st.booleans()))

    event(f"{len(shards)} shards")
    for shard in shards:
        expected = sorted(
            (value for other, value in rows if other == shard and ranges[shard].contains(value)), reverse=descending
        )
        seen = values_and_keys(rows_by_hash_key[f"{name}!{shard}"])
        assert [value for value, _ in seen] == expected
        assert len(set(seen)) == len(seen)


def _item(index: str | None, name: str, number: int, shard: str, value: Any) -> dict[str, Any]:
    if index is None:
        return record((f"{name}!{shard}", value))
    attribute = "text" if index == "byText" else "number"
    return record((f"{name}-row!", f"{number}"), **{f"{attribute}Hash": f"{name}!{shard}", attribute: value})


def _half_open(values: st.SearchStrategy[Any]) -> st.SearchStrategy[KeyRange]:
    low = st.builds(KeyRange, low=values, low_open=st.booleans())
    high = st.builds(KeyRange, high=values, high_open=st.booleans())
    return low | high


@shared_store_settings(examples(15))
@given(limit=st.integers(1, 7), want=st.integers(1, 9), descending=st.booleans(), by_position=st.booleans())
async def test_pages_of_tied_rows(store: Store, limit: int, want: int, descending: bool, by_position: bool) -> None:
    """Tied rows are returned once each, in the order of the engine, and in reverse order if descending."""
    name = f"tied{next(RUN_NUMBERS)}"
    await put(
        store,
        *(
            record(
                (f"{name}-row!", f"{number}"), textHash=f"{name}!{number % 4:02}", text="same" if number < 40 else "zz"
            )
            for number in range(44)
        ),
    )
    reads = [RangeRead("byText", f"{name}!{shard:02}", shard, KeyRange(), limit, descending) for shard in range(4)]
    rows_by_hash_key = await read_all_pages(store, reads, want, by_position=by_position)
    for shard in range(4):
        (result,) = await store.read_ranges([range_read("byText", f"{name}!{shard:02}")], 100)
        assert isinstance(result, RowPage)
        whole = values_and_keys(result.rows)
        assert values_and_keys(rows_by_hash_key[f"{name}!{shard:02}"]) == (whole[::-1] if descending else whole)
        assert len(whole) == 11


@pytest.mark.parametrize("descending", [False, True], ids=["forward", "backward"])
async def test_rows_up_to_scanned_to_are_complete(store: Store, descending: bool) -> None:
    """Every stored row up to `scanned_to` has been returned, also for shards without rows in the page."""
    rows = [
        (f"{value:02}", shard)
        for value in range(30)
        for shard in ("00", "01", "02")
        if (value + int(shard)) % 3 or value > 20
    ]
    await put(store, *(record((f"row!{shard}", text), textHash=f"seen!{shard}", text=text) for text, shard in rows))
    for want in range(1, len(rows) + 2):
        reads = [
            RangeRead("byText", f"seen!{shard}", ordinal, KeyRange(), want, descending)
            for ordinal, shard in enumerate(("00", "01", "02"))
        ]
        for read, result in zip(reads, await store.read_ranges(reads, want), strict=True):
            assert isinstance(result, RowPage)
            stored = sorted((text, read.ordinal) for text, shard in rows if f"seen!{shard}" == read.hash_key)
            if result.scanned_to is not None:
                last = result.scanned_to.value, result.scanned_to.ordinal
                stored = [row for row in stored if (row >= last if descending else row <= last)]
            returned = {(row.value, row.ordinal) for row in result.rows}
            assert returned.issuperset(stored)

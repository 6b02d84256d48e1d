"""Page by page through several shards: nothing is hidden, nothing comes twice."""

from itertools import count
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.storage.port import Store
from graphql_api.storage.values import RangeRead, RowPage
from tests.depth import examples
from tests.store_contract.samples import NUMBERS, TEXTS, put, reading, record, summary, walk, with_stores

NUMBERED = count()
SHARDS = ("", "00", "01", "0a", "zz")


@with_stores(examples(90))
@given(data=st.data(), index=st.sampled_from([None, "byText", "byNumber"]), descending=st.booleans())
async def test_walks_find_every_row_once(
    store: Store, data: st.DataObject, index: str | None, descending: bool
) -> None:
    """Whatever is asked for how many at a time, all pages of a walk joined are the sorted rows of each range."""
    values: st.SearchStrategy[Any] = NUMBERS if index == "byNumber" else TEXTS
    name = f"walk{next(NUMBERED)}"
    drawn = data.draw(st.lists(st.tuples(st.sampled_from(SHARDS), values), max_size=30))
    rows = sorted({(shard, value) for shard, value in drawn}, key=repr) if index is None else drawn
    await put(store, *(_item(index, name, place, *row) for place, row in enumerate(rows)))
    asked = data.draw(st.lists(st.sampled_from(SHARDS), min_size=1, unique=True))
    ranges = {shard: data.draw(st.just(KeyRange()) | _half_open(values)) for shard in asked}
    limit, want = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 7))
    reads = [
        RangeRead(index, f"{name}!{shard}", SHARDS.index(shard), ranges[shard], limit, descending) for shard in asked
    ]

    found = await walk(store, reads, want, by_position=data.draw(st.booleans()))

    event(f"{len(asked)} shards")
    for shard in asked:
        expected = sorted(
            (value for other, value in rows if other == shard and ranges[shard].contains(value)), reverse=descending
        )
        seen = summary(found[f"{name}!{shard}"])
        assert [value for value, _ in seen] == expected
        assert len(set(seen)) == len(seen)


def _item(index: str | None, name: str, place: int, shard: str, value: Any) -> dict[str, Any]:
    if index is None:
        return record((f"{name}!{shard}", value))
    attribute = "text" if index == "byText" else "number"
    return record((f"{name}-row!", f"{place}"), **{f"{attribute}Hash": f"{name}!{shard}", attribute: value})


def _half_open(values: st.SearchStrategy[Any]) -> st.SearchStrategy[KeyRange]:
    low = st.builds(KeyRange, low=values, low_open=st.booleans())
    high = st.builds(KeyRange, high=values, high_open=st.booleans())
    return low | high


@with_stores(examples(15))
@given(limit=st.integers(1, 7), want=st.integers(1, 9), descending=st.booleans(), by_position=st.booleans())
async def test_walks_through_ties(store: Store, limit: int, want: int, descending: bool, by_position: bool) -> None:
    """Rows that all tie are found once each, in the one order of the engine, forward and exactly reversed."""
    name = f"tied{next(NUMBERED)}"
    await put(
        store,
        *(
            record((f"{name}-row!", f"{place}"), textHash=f"{name}!{place % 4:02}", text="same" if place < 40 else "zz")
            for place in range(44)
        ),
    )
    reads = [RangeRead("byText", f"{name}!{shard:02}", shard, KeyRange(), limit, descending) for shard in range(4)]
    found = await walk(store, reads, want, by_position=by_position)
    for shard in range(4):
        (answer,) = await store.read_ranges([reading("byText", f"{name}!{shard:02}")], 100)
        assert isinstance(answer, RowPage)
        whole = summary(answer.rows)
        assert summary(found[f"{name}!{shard:02}"]) == (whole[::-1] if descending else whole)
        assert len(whole) == 11


@pytest.mark.parametrize("descending", [False, True], ids=["forward", "backward"])
async def test_nothing_up_to_scanned_to_is_missing(store: Store, descending: bool) -> None:
    """After each call every stored row up to `scanned_to` has been answered, for shards that answered nothing too."""
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
        for read, answer in zip(reads, await store.read_ranges(reads, want), strict=True):
            assert isinstance(answer, RowPage)
            stored = sorted((text, read.ordinal) for text, shard in rows if f"seen!{shard}" == read.hash_key)
            if answer.scanned_to is not None:
                edge = answer.scanned_to.value, answer.scanned_to.ordinal
                stored = [row for row in stored if (row >= edge if descending else row <= edge)]
            answered = {(row.value, row.ordinal) for row in answer.rows}
            assert answered.issuperset(stored)

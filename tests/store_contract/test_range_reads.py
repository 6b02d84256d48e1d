"""Range reads: order, bounds, start keys, ties, projections."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import count, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.codecs.key_ranges import KeyRange, RangeValue
from graphql_api.errors import StoreRefused
from graphql_api.storage.port import Store
from graphql_api.storage.shard_reads import ReadGroup, ReadGroups, pages_of_groups
from graphql_api.storage.values import Delete, Key, ReadResult, RowPage, StartKey
from tests.store_contract.samples import (
    NUMBERS,
    TEXTS,
    put,
    range_read,
    read_page,
    record,
    shared_store_settings,
    values_and_keys,
)
from tests.support.run_depth import examples

RUN_NUMBERS = count()
both_directions = pytest.mark.parametrize("descending", [False, True], ids=["forward", "backward"])


async def store_values(store: Store, index: str | None, values: Sequence[RangeValue]) -> str:
    """Store one record for each value under one hash key of an index. Return the hash key."""
    number = next(RUN_NUMBERS)
    hash_key = f"order{number}!00"
    if index is None:
        await put(store, *(record((hash_key, str(value))) for value in values))
    else:
        name = "text" if index == "byText" else "number"
        attributes = [{f"{name}Hash": hash_key, name: value} for value in values]
        await put(store, *(record((f"row{number}!", f"r{position}"), **a) for position, a in enumerate(attributes)))
    return hash_key


@shared_store_settings(examples(60))
@given(values=st.lists(TEXTS, max_size=12, unique=True), index=st.sampled_from([None, "byText"]), data=st.data())
async def test_text_ranges(store: Store, values: list[str], index: str | None, data: st.DataObject) -> None:
    """A read returns the texts between its bounds in UTF-8 byte order, in both directions, for any bounds and index."""
    key_range = data.draw(ranges(st.one_of(TEXTS, st.sampled_from(values or ["a"]))))
    await check_range(store, index, values, key_range)


@shared_store_settings(examples(60))
@given(values=st.lists(NUMBERS, max_size=12, unique=True), data=st.data())
async def test_number_ranges(store: Store, values: list[RangeValue], data: st.DataObject) -> None:
    """A read of a numeric index returns the numbers between its bounds by value. Whole numbers are int."""
    key_range = data.draw(ranges(st.one_of(NUMBERS, st.sampled_from(values or [0]))))
    rows = await check_range(store, "byNumber", values, key_range)
    assert all(isinstance(row, int) == (row == int(row)) for row in rows)


@st.composite
def ranges(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> KeyRange:
    """Ranges with every kind of bound that contain at least one possible value."""
    low, high = draw(st.none() | values), draw(st.none() | values)
    if low is not None and high is not None and low > high:
        low, high = high, low
    low_open, high_open = (draw(st.booleans()), draw(st.booleans())) if low is None or low != high else (False, False)
    return KeyRange(low, high, low_open, high_open)


async def check_range(
    store: Store, index: str | None, values: Sequence[Any], key_range: KeyRange
) -> Sequence[RangeValue]:
    """Compare the rows of a range in both directions with a plain predicate."""
    hash_key = await store_values(store, index, values)
    expected = sorted(
        value
        for value in values
        if (key_range.low is None or value > key_range.low or (value == key_range.low and not key_range.low_open))
        and (key_range.high is None or value < key_range.high or (value == key_range.high and not key_range.high_open))
    )
    forward = await read_page(store, range_read(index, hash_key, key_range))
    backward = await read_page(store, range_read(index, hash_key, key_range, descending=True))
    assert [row.value for row in forward.rows] == expected
    assert [row.value for row in backward.rows] == expected[::-1]
    assert forward.scanned_to is None
    assert backward.scanned_to is None
    return [row.value for row in forward.rows]


async def test_order_of_known_texts(store: Store) -> None:
    """Texts are ordered by bytes, not by an alphabet: upper case first, NUL is valid, characters above U+FFFF last."""
    values = ["a\0", "a", "B", "b", "é", "\ue000", "\U0001f600", "~"]
    hash_key = await store_values(store, "byText", values)
    found = await read_page(store, range_read("byText", hash_key))
    assert [row.value for row in found.rows] == ["B", "a", "a\0", "b", "~", "é", "\ue000", "\U0001f600"]


async def test_order_of_known_numbers(store: Store) -> None:
    """Numbers are ordered by value, to 38 digits and over the whole range of exponents."""
    close = Decimal("1.0000000000000000000000000000000000001")
    values: list[RangeValue] = [10, 9, Decimal("-0.5"), close, 1, Decimal("1E-130"), -(10**125), 0, 10**125]
    hash_key = await store_values(store, "byNumber", values)
    found = await read_page(store, range_read("byNumber", hash_key))
    expected = [-(10**125), Decimal("-0.5"), 0, Decimal("1E-130"), 1, close, 9, 10, 10**125]
    assert [row.value for row in found.rows] == expected


@both_directions
@pytest.mark.parametrize("index", [None, "byText", "byNumber"])
async def test_start_keys(store: Store, index: str | None, descending: bool) -> None:
    """A read continues strictly after its start key, at every row, and also after the row was deleted."""
    values: list[RangeValue] = [1, 2, 3, 5, 8] if index == "byNumber" else ["a", "ab", "b", "c", "d"]
    hash_key = await store_values(store, index, values)
    read = range_read(index, hash_key, descending=descending)
    rows = (await read_page(store, read)).rows
    for position, row in enumerate(rows):
        after_start = read._replace(start=StartKey(row.value, row.key))
        assert values_and_keys((await read_page(store, after_start)).rows) == values_and_keys(rows[position + 1 :])
        await store.write([Delete(row.key)])
        assert values_and_keys((await read_page(store, after_start)).rows) == values_and_keys(rows[position + 1 :])


async def test_start_key_of_a_moved_record(store: Store) -> None:
    """A start key keeps its position in the order after its record has moved."""
    hash_key = await store_values(store, "byText", ["a", "b", "c"])
    first, second, third = (await read_page(store, range_read("byText", hash_key))).rows
    await put(store, {**first.item, "text": "bb"})
    rows = (await read_page(store, range_read("byText", hash_key)._replace(start=StartKey("a", first.key)))).rows
    assert [(row.value, row.key) for row in rows] == [("b", second.key), ("bb", first.key), ("c", third.key)]


@both_directions
async def test_start_key_within_bounds(store: Store, descending: bool) -> None:
    """A start key may equal a bound of its range. No row beyond the other bound is returned."""
    hash_key = await store_values(store, "byText", ["a", "b", "c", "d"])
    rows = (await read_page(store, range_read("byText", hash_key))).rows
    read = range_read("byText", hash_key, KeyRange("b", "c"), descending=descending)
    results = {}
    for row in rows[1:3]:
        after_start = await read_page(store, read._replace(start=StartKey(row.value, row.key)))
        results[row.value] = [found.value for found in after_start.rows]
    assert results == ({"b": [], "c": ["b"]} if descending else {"b": ["c"], "c": []})


@pytest.mark.parametrize(("index", "value"), [("byText", "same"), ("byNumber", 7)])
async def test_ties(store: Store, index: str, value: RangeValue) -> None:
    """Rows with equal keys have the same order on every read. Descending reverses it, and start keys split it."""
    hash_key = await store_values(store, index, [value] * 20)
    forward = values_and_keys((await read_page(store, range_read(index, hash_key))).rows)
    assert len(set(forward)) == 20
    assert values_and_keys((await read_page(store, range_read(index, hash_key))).rows) == forward
    assert values_and_keys((await read_page(store, range_read(index, hash_key, descending=True))).rows) == forward[::-1]
    for descending in (False, True):
        rows = forward[::-1] if descending else forward
        for position, (_, key) in enumerate(rows):
            read = range_read(index, hash_key, descending=descending)._replace(start=StartKey(value, key))
            assert values_and_keys((await read_page(store, read)).rows) == rows[position + 1 :]


@both_directions
async def test_limit(store: Store, descending: bool) -> None:
    """A read with a limit stops at the limit and reports its last row in `scanned_to`."""
    hash_key = await store_values(store, "byText", ["a", "b", "c", "d"])
    for limit in (1, 2, 3, 4):
        found = await read_page(store, range_read("byText", hash_key, limit=limit, descending=descending), want=limit)
        assert [row.value for row in found.rows] == list("dcba" if descending else "abcd")[:limit]
        assert found.scanned_to in (found.rows[-1].position, None)
        assert limit == 4 or found.scanned_to is not None
        assert limit <= found.records_read <= 5
    beyond = await read_page(store, range_read("byText", hash_key, limit=9, descending=descending), want=9)
    assert beyond.scanned_to is None


async def test_each_read_returns_the_rows_of_its_hash_key(store: Store) -> None:
    """Each read returns the rows of its own hash key with its ordinal. Results are in the order of the reads."""
    await put(
        store,
        *(
            record((f"t!0{shard}", f"r{value}"), textHash=f"t!0{shard}", text=value)
            for shard, value in product("13", "ab")
        ),
    )
    reads = [range_read("byText", f"t!0{shard}")._replace(ordinal=shard) for shard in (3, 2, 1)]
    results = await store.read_ranges(reads, 100)
    pages = [result for result in results if isinstance(result, RowPage)]
    assert [[(row.ordinal, row.value) for row in page.rows] for page in pages] == [
        [(3, "a"), (3, "b")],
        [],
        [(1, "a"), (1, "b")],
    ]
    assert pages[0].rows[0].position == ("a", 3, Key("t!03", "ra"))


async def test_reads_of_unrelated_hash_keys(store: Store) -> None:
    """One call may read hash keys that have no common prefix."""
    hash_keys = [await store_values(store, "byText", ["a", "b"]) for _ in range(3)]
    reads = [range_read("byText", key)._replace(ordinal=position) for position, key in enumerate(hash_keys)]
    results = await store.read_ranges(reads, 100)
    assert [len(result.rows) for result in results if isinstance(result, RowPage)] == [2, 2, 2]


@both_directions
async def test_groups_of_reads_answer_like_single_calls(store: Store, descending: bool) -> None:
    """Groups may share hash keys and ordinals. Each gets the pages that it gets alone, with its own `want`."""
    keys = [await store_values(store, "byText", [f"{value}{number}" for value in "abcde"]) for number in range(2)]
    both = [range_read("byText", key, descending=descending)._replace(ordinal=at) for at, key in enumerate(keys)]
    part = both[0]._replace(range=KeyRange("b", "d"), limit=2)
    groups = [ReadGroup([part], 2), ReadGroup(both, 100), ReadGroup([both[0]._replace(limit=1)], 1)]
    reads = ReadGroups(groups)
    found = pages_of_groups(reads, await store.read_ranges(reads, reads.want))
    alone = [await store.read_ranges(*group) for group in groups]
    assert [[*map(_as_values, pages)] for pages in found] == [[*map(_as_values, pages)] for pages in alone]
    assert [len(pages) for pages in found] == [1, 2, 1]


async def test_groups_of_one_call_share_index_and_direction(store: Store) -> None:
    """Groups of different indexes, or directions, are refused."""
    one = range_read("byText", await store_values(store, "byText", ["a"]))
    for other in (one._replace(descending=True), one._replace(index=None)):
        reads = ReadGroups([ReadGroup([one], 1), ReadGroup([other], 1)])
        with pytest.raises(StoreRefused, match="differ in index or direction"):
            await store.read_ranges(reads, 2)


def _as_values(page: ReadResult) -> Any:
    assert isinstance(page, RowPage)
    return [(row.position, row.item) for row in page.rows], page.scanned_to, page.records_read


async def test_no_reads(store: Store) -> None:
    """A call without reads returns no results."""
    assert list(await store.read_ranges([], 1)) == []


async def test_hash_keys_match_exactly(store: Store) -> None:
    """A read of one hash key never returns rows of a hash key that contains or extends it."""
    keys = ["user!1", "user!11", "user!1|a#1", "user!|a#1", "user!", "users!1", "user", "user1"]
    await put(store, *(record((key, f"at {key}"), textHash=key, text="v") for key in keys))
    for key in keys:
        assert [row.key for row in (await read_page(store, range_read(None, key))).rows] == [(key, f"at {key}")]
        assert [row.key for row in (await read_page(store, range_read("byText", key))).rows] == [(key, f"at {key}")]


async def test_projections(store: Store) -> None:
    """An index returns the attributes that it projects: all, keys only, or keys and a list."""
    item = record(("h!", "r"), textHash="t!", text="v", numberHash="n!", number=1, color="red", size=3)
    await put(store, item)
    keys = {"hashKey": "h!", "rangeKey": "r", "textHash": "t!", "text": "v"}
    expected = {"byText": item, "onlyKeys": keys, "someMore": {**keys, "color": "red"}}
    for index, projected in expected.items():
        (row,) = (await read_page(store, range_read(index, "t!"))).rows
        assert row.item == projected
        assert row.key == ("h!", "r")
    (row,) = (await read_page(store, range_read(None, "h!"))).rows
    assert row.item == item


async def test_consistent_reads(store: Store) -> None:
    """A consistent read of the table returns all earlier writes, in order."""
    await put(store, *(record(("h!", text)) for text in "bac"))
    rows = (await read_page(store, range_read(None, "h!")._replace(consistent=True))).rows
    assert [row.value for row in rows] == ["a", "b", "c"]

"""What a read of a range answers: order, bounds, start keys, ties, projections."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import count, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.codecs.key_ranges import KeyRange, RangeValue
from graphql_api.storage.port import Store
from graphql_api.storage.values import Delete, Key, RowPage, StartKey
from tests.depth import examples
from tests.store_contract.samples import NUMBERS, TEXTS, page, put, reading, record, summary, with_stores

NUMBERED = count()
DIRECTIONS = pytest.mark.parametrize("descending", [False, True], ids=["forward", "backward"])


async def stored_under(store: Store, index: str | None, values: Sequence[RangeValue]) -> str:
    """Stores one record for each value, all under one hash key of an index, and names that key."""
    number = next(NUMBERED)
    hash_key = f"order{number}!00"
    if index is None:
        await put(store, *(record((hash_key, str(value))) for value in values))
    else:
        name = "text" if index == "byText" else "number"
        attributes = [{f"{name}Hash": hash_key, name: value} for value in values]
        await put(store, *(record((f"row{number}!", f"r{place}"), **a) for place, a in enumerate(attributes)))
    return hash_key


@with_stores(examples(60))
@given(values=st.lists(TEXTS, max_size=12, unique=True), index=st.sampled_from([None, "byText"]), data=st.data())
async def test_text_ranges(store: Store, values: list[str], index: str | None, data: st.DataObject) -> None:
    """A read answers the texts between its bounds, by UTF-8 bytes, whatever the bounds, the direction and the index."""
    key_range = data.draw(ranges(st.one_of(TEXTS, st.sampled_from(values or ["a"]))))
    await check_range(store, index, values, key_range)


@with_stores(examples(60))
@given(values=st.lists(NUMBERS, max_size=12, unique=True), data=st.data())
async def test_number_ranges(store: Store, values: list[RangeValue], data: st.DataObject) -> None:
    """A read of a numeric index answers the numbers between its bounds, by value; whole ones are int."""
    key_range = data.draw(ranges(st.one_of(NUMBERS, st.sampled_from(values or [0]))))
    rows = await check_range(store, "byNumber", values, key_range)
    assert all(isinstance(row, int) == (row == int(row)) for row in rows)


@st.composite
def ranges(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> KeyRange:
    """Ranges with every kind of bound that leave room for a value."""
    low, high = draw(st.none() | values), draw(st.none() | values)
    if low is not None and high is not None and low > high:
        low, high = high, low
    low_open, high_open = (draw(st.booleans()), draw(st.booleans())) if low is None or low != high else (False, False)
    return KeyRange(low, high, low_open, high_open)


async def check_range(
    store: Store, index: str | None, values: Sequence[Any], key_range: KeyRange
) -> Sequence[RangeValue]:
    """Compares both directions of a range with the plain predicate."""
    hash_key = await stored_under(store, index, values)
    expected = sorted(
        value
        for value in values
        if (key_range.low is None or value > key_range.low or (value == key_range.low and not key_range.low_open))
        and (key_range.high is None or value < key_range.high or (value == key_range.high and not key_range.high_open))
    )
    forward = await page(store, reading(index, hash_key, key_range))
    backward = await page(store, reading(index, hash_key, key_range, descending=True))
    assert [row.value for row in forward.rows] == expected
    assert [row.value for row in backward.rows] == expected[::-1]
    assert forward.scanned_to is None
    assert backward.scanned_to is None
    return [row.value for row in forward.rows]


async def test_order_of_known_texts(store: Store) -> None:
    """Texts order by bytes, not by an alphabet: upper case first, NUL is legal, what is beyond U+FFFF comes last."""
    values = ["a\0", "a", "B", "b", "é", "\ue000", "\U0001f600", "~"]
    hash_key = await stored_under(store, "byText", values)
    found = await page(store, reading("byText", hash_key))
    assert [row.value for row in found.rows] == ["B", "a", "a\0", "b", "~", "é", "\ue000", "\U0001f600"]


async def test_order_of_known_numbers(store: Store) -> None:
    """Numbers order by value, to 38 digits and over the whole range of exponents."""
    close = Decimal("1.0000000000000000000000000000000000001")
    values: list[RangeValue] = [10, 9, Decimal("-0.5"), close, 1, Decimal("1E-130"), -(10**125), 0, 10**125]
    hash_key = await stored_under(store, "byNumber", values)
    found = await page(store, reading("byNumber", hash_key))
    expected = [-(10**125), Decimal("-0.5"), 0, Decimal("1E-130"), 1, close, 9, 10, 10**125]
    assert [row.value for row in found.rows] == expected


@DIRECTIONS
@pytest.mark.parametrize("index", [None, "byText", "byNumber"])
async def test_start_keys(store: Store, index: str | None, descending: bool) -> None:
    """Behind a start key the read goes on strictly, at every row and also after the row has been deleted."""
    values: list[RangeValue] = [1, 2, 3, 5, 8] if index == "byNumber" else ["a", "ab", "b", "c", "d"]
    hash_key = await stored_under(store, index, values)
    read = reading(index, hash_key, descending=descending)
    rows = (await page(store, read)).rows
    for place, row in enumerate(rows):
        behind = replace(read, start=StartKey(row.value, row.key))
        assert summary((await page(store, behind)).rows) == summary(rows[place + 1 :])
        await store.write([Delete(row.key)])
        assert summary((await page(store, behind)).rows) == summary(rows[place + 1 :])


async def test_start_key_of_a_moved_record(store: Store) -> None:
    """A start key stays a place in the order after its record has moved to another one."""
    hash_key = await stored_under(store, "byText", ["a", "b", "c"])
    first, second, third = (await page(store, reading("byText", hash_key))).rows
    await put(store, {**first.item, "text": "bb"})
    rows = (await page(store, replace(reading("byText", hash_key), start=StartKey("a", first.key)))).rows
    assert [(row.value, row.key) for row in rows] == [("b", second.key), ("bb", first.key), ("c", third.key)]


@DIRECTIONS
async def test_start_key_within_bounds(store: Store, descending: bool) -> None:
    """A start key on either bound of its range is within it, and nothing beyond the other bound is answered."""
    hash_key = await stored_under(store, "byText", ["a", "b", "c", "d"])
    rows = (await page(store, reading("byText", hash_key))).rows
    read = reading("byText", hash_key, KeyRange("b", "c"), descending=descending)
    answers = {}
    for row in rows[1:3]:
        behind = await page(store, replace(read, start=StartKey(row.value, row.key)))
        answers[row.value] = [found.value for found in behind.rows]
    assert answers == ({"b": [], "c": ["b"]} if descending else {"b": ["c"], "c": []})


@pytest.mark.parametrize(("index", "value"), [("byText", "same"), ("byNumber", 7)])
async def test_ties(store: Store, index: str, value: RangeValue) -> None:
    """Rows of one hash key and value keep one order on every read; backward it is exactly reversed; starts split it."""
    hash_key = await stored_under(store, index, [value] * 20)
    forward = summary((await page(store, reading(index, hash_key))).rows)
    assert len(set(forward)) == 20
    assert summary((await page(store, reading(index, hash_key))).rows) == forward
    assert summary((await page(store, reading(index, hash_key, descending=True))).rows) == forward[::-1]
    for descending in (False, True):
        rows = forward[::-1] if descending else forward
        for place, (_, key) in enumerate(rows):
            read = replace(reading(index, hash_key, descending=descending), start=StartKey(value, key))
            assert summary((await page(store, read)).rows) == rows[place + 1 :]


@DIRECTIONS
async def test_limit(store: Store, descending: bool) -> None:
    """A single read stops at its limit if no more rows are wanted, and says up to which row it looked."""
    hash_key = await stored_under(store, "byText", ["a", "b", "c", "d"])
    for limit in (1, 2, 3, 4):
        found = await page(store, reading("byText", hash_key, limit=limit, descending=descending), want=limit)
        assert [row.value for row in found.rows] == list("dcba" if descending else "abcd")[:limit]
        assert found.scanned_to in (found.rows[-1].position, None)
        assert limit == 4 or found.scanned_to is not None
        assert limit <= found.records_read <= 5
    beyond = await page(store, reading("byText", hash_key, limit=9, descending=descending), want=9)
    assert beyond.scanned_to is None


async def test_reads_answer_for_themselves(store: Store) -> None:
    """Each read gets the rows of its own hash key with its ordinal, in the order of the reads, or no rows at all."""
    await put(
        store,
        *(
            record((f"t!0{shard}", f"r{value}"), textHash=f"t!0{shard}", text=value)
            for shard, value in product("13", "ab")
        ),
    )
    reads = [replace(reading("byText", f"t!0{shard}"), ordinal=shard) for shard in (3, 2, 1)]
    answers = await store.read_ranges(reads, 100)
    pages = [answer for answer in answers if isinstance(answer, RowPage)]
    assert [[(row.ordinal, row.value) for row in page.rows] for page in pages] == [
        [(3, "a"), (3, "b")],
        [],
        [(1, "a"), (1, "b")],
    ]
    assert pages[0].rows[0].position == ("a", 3, Key("t!03", "ra"))


async def test_reads_of_different_searches(store: Store) -> None:
    """Hash keys that share nothing may be read in one call."""
    hash_keys = [await stored_under(store, "byText", ["a", "b"]) for _ in range(3)]
    reads = [replace(reading("byText", key), ordinal=place) for place, key in enumerate(hash_keys)]
    answers = await store.read_ranges(reads, 100)
    assert [len(answer.rows) for answer in answers if isinstance(answer, RowPage)] == [2, 2, 2]


async def test_no_reads(store: Store) -> None:
    """No reads, no answers."""
    assert list(await store.read_ranges([], 1)) == []


async def test_a_hash_key_is_no_prefix(store: Store) -> None:
    """A read of one hash key never answers rows of another that begins with it, or shares its parts."""
    keys = ["user!1", "user!11", "user!1|a#1", "user!|a#1", "user!", "users!1", "user", "user1"]
    await put(store, *(record((key, f"at {key}"), textHash=key, text="v") for key in keys))
    for key in keys:
        assert [row.key for row in (await page(store, reading(None, key))).rows] == [(key, f"at {key}")]
        assert [row.key for row in (await page(store, reading("byText", key))).rows] == [(key, f"at {key}")]


async def test_projections(store: Store) -> None:
    """An index answers what it carries: everything, keys, or keys and what is named."""
    item = record(("h!", "r"), textHash="t!", text="v", numberHash="n!", number=1, color="red", size=3)
    await put(store, item)
    keys = {"hashKey": "h!", "rangeKey": "r", "textHash": "t!", "text": "v"}
    expected = {"byText": item, "onlyKeys": keys, "someMore": {**keys, "color": "red"}}
    for index, carried in expected.items():
        (row,) = (await page(store, reading(index, "t!"))).rows
        assert row.item == carried
        assert row.key == ("h!", "r")
    (row,) = (await page(store, reading(None, "h!"))).rows
    assert row.item == item


async def test_consistent_reads(store: Store) -> None:
    """A consistent read of the table answers what was written before it, in order."""
    await put(store, *(record(("h!", text)) for text in "bac"))
    rows = (await page(store, replace(reading(None, "h!"), consistent=True))).rows
    assert [row.value for row in rows] == ["a", "b", "c"]

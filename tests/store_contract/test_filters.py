"""What an engine may leave out, and nothing else: rows that do not pass a filter, attributes that nobody asked for."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.runtime.capacity_meter import meter_capacity
from graphql_api.storage.port import Store
from graphql_api.storage.read_resumption import resume_after
from graphql_api.storage.values import AllOf, AnyOf, AttributeTest, Key, RangeRead, Row, RowPage, StoreFilter
from tests.depth import examples
from tests.store_contract.filter_samples import ATTRIBUTES, EVERY_TYPE, NUMBERS, TEXTS, filters, passes
from tests.store_contract.samples import page, put, reading, record, summary, with_stores

NUMBERED = count()
SHARDS = ("00", "01", "0a")
MAX_ROUNDS = 1000
CARRIED: dict[str | None, frozenset[str] | None] = {
    None: None,
    "byText": None,
    "byNumber": None,
    "onlyKeys": frozenset(),
    "someMore": frozenset({"color"}),
}
"""what each index has of attributes that are no keys; None: all"""

# --- filters ---------------------------------------------------------------------------------------------------


async def walk_behind(store: Store, reads: Sequence[RangeRead], want: int) -> tuple[dict[str, list[Row]], int]:
    """All rows by hash key and all records looked at, where each read goes on behind its `scanned_to`."""
    found: dict[str, list[Row]] = {read.hash_key: [] for read in reads}
    looked_at, asked = 0, list(reads)
    for _ in range(MAX_ROUNDS):
        if not asked:
            return found, looked_at
        left = []
        for read, answer in zip(asked, await store.read_ranges(asked, want), strict=True):
            assert isinstance(answer, RowPage), answer
            assert answer.records_read >= len(answer.rows)
            found[read.hash_key] += answer.rows
            looked_at += answer.records_read
            if answer.scanned_to is not None:
                rest = resume_after(read, answer.scanned_to, may_tie=True)
                left += [] if rest is None else [rest]
        asked = left
    raise AssertionError(f"no end after {MAX_ROUNDS} rounds")


async def check_filter(
    store: Store, data: st.DataObject, index: str | None, values: st.SearchStrategy[Any], tested: Sequence[str]
) -> None:
    """Walks through rows with some values, and compares what is answered with the plain meaning of a filter."""
    name = f"filter{next(NUMBERED)}"
    few = st.sampled_from(data.draw(st.lists(values, min_size=1, max_size=4)))
    filter = data.draw(filters(few | values, tested))
    extras = st.fixed_dictionaries({}, optional=dict.fromkeys(ATTRIBUTES, few))
    places = st.tuples(st.sampled_from(SHARDS), st.integers(1, 9), extras)
    unique = (lambda row: row[:2]) if index is None else None
    rows = data.draw(st.lists(places, min_size=3, max_size=12, unique_by=unique))
    items = {}
    for number, (shard, place, more) in enumerate(rows):
        own = {"numberHash" if index == "byNumber" else "textHash": f"{name}!{shard}"}
        own |= {"number": place} if index == "byNumber" else {"text": f"{place}"}
        key = (f"{name}!{shard}", f"{place}") if index is None else (f"{name}-row!", f"{number:02}")
        items[key] = record(key, **own, **more)
    await put(store, *items.values())
    limit, want, descending = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6)), data.draw(st.booleans())
    low, high = (3, 7) if index == "byNumber" else ("3", "7")
    asked = data.draw(st.sampled_from([KeyRange(), KeyRange(low, high, low_open=True, high_open=True)]))
    reads = [
        RangeRead(index, f"{name}!{shard}", ordinal, asked, limit, descending, filter=filter)
        for ordinal, shard in enumerate(SHARDS)
    ]
    found, looked_at = await walk_behind(store, reads, want)
    range_attribute = {None: "rangeKey", "byNumber": "number"}.get(index, "text")
    hash_attribute = {None: "hashKey", "byNumber": "numberHash"}.get(index, "textHash")
    wanted = {key: item for key, item in items.items() if asked.contains(item[range_attribute])}
    answered = [row.key for shard_rows in found.values() for row in shard_rows]
    assert len(set(answered)) == len(answered)
    assert wanted.keys() >= set(answered)
    for read in reads:
        within = [row.value for row in found[read.hash_key]]
        assert within == sorted(within, reverse=descending)
        assert all(items[row.key][hash_attribute] == read.hash_key for row in found[read.hash_key])
    assert not {key for key, item in wanted.items() if passes(filter, item)} - set(answered)
    assert looked_at >= len(wanted)
    event(f"left out: {len(answered) < len(wanted)}")
    event(f"answered: {bool(answered)}")


@pytest.mark.needs("typed conditions")
@with_stores(examples(80))
@given(data=st.data(), index=st.sampled_from(list(CARRIED)))
async def test_no_row_that_passes_is_left_out(store: Store, data: st.DataObject, index: str | None) -> None:
    """Under any filter each row that passes is answered once, in order, and every record of the range is looked at."""
    await check_filter(store, data, index, EVERY_TYPE, (*ATTRIBUTES, *ATTRIBUTES, "text", "rangeKey"))


@pytest.mark.parametrize("values", [TEXTS, NUMBERS], ids=["texts", "numbers"])
@with_stores(examples(20))
@given(data=st.data(), index=st.sampled_from(list(CARRIED)))
async def test_no_row_that_passes_is_left_out_of_one_type(
    store: Store, data: st.DataObject, index: str | None, values: st.SearchStrategy[Any]
) -> None:
    """The same where an attribute has values of one type, and is compared with such."""
    await check_filter(store, data, index, values, ATTRIBUTES)


CASES: dict[str, tuple[StoreFilter, str]] = {
    "eq": (AttributeTest("color", "eq", ("b",), or_missing=False), "b"),
    "eq or missing": (AttributeTest("color", "eq", ("b",), or_missing=True), "b-"),
    "in": (AttributeTest("color", "in", ("a", "d", "x"), or_missing=False), "ad"),
    "lt": (AttributeTest("color", "lt", ("c",), or_missing=False), "ab"),
    "le": (AttributeTest("color", "le", ("c",), or_missing=False), "abc"),
    "gt": (AttributeTest("color", "gt", ("b",), or_missing=False), "cd"),
    "ge": (AttributeTest("color", "ge", ("b",), or_missing=True), "bcd-"),
    "between": (AttributeTest("color", "between", ("b", "c"), or_missing=False), "bc"),
    "prefix": (AttributeTest("color", "prefix", ("d",), or_missing=False), "d"),
    "contains": (AttributeTest("color", "contains", ("c",), or_missing=False), "c"),
    "number": (AttributeTest("size", "ge", (Decimal("1.5"),), or_missing=False), "cd-"),
    "truth": (AttributeTest("even", "eq", (True,), or_missing=False), "ac-"),
    "octets": (AttributeTest("bytes", "eq", (b"\x01\xff",), or_missing=False), "b"),
    "all": (
        AllOf(
            (
                AttributeTest("color", "gt", ("a",), or_missing=True),
                AttributeTest("size", "lt", (3,), or_missing=False),
            )
        ),
        "bc",
    ),
    "any within all": (
        AllOf(
            (
                AnyOf(
                    (
                        AttributeTest("color", "eq", ("a",), or_missing=False),
                        AttributeTest("color", "eq", ("c",), or_missing=True),
                    )
                ),
                AttributeTest("size", "between", (1, 4), or_missing=False),
            )
        ),
        "c-",
    ),
    "all within any": (
        AnyOf(
            (
                AllOf(
                    (
                        AttributeTest("color", "prefix", ("d",), or_missing=False),
                        AttributeTest("size", "eq", (3,), or_missing=False),
                    )
                ),
                AttributeTest("color", "eq", ("a",), or_missing=False),
            )
        ),
        "ad",
    ),
}


@pytest.mark.needs("filters")
@pytest.mark.parametrize(("filter", "expected"), CASES.values(), ids=CASES.keys())
async def test_rows_that_do_not_pass_are_left_out(store: Store, filter: StoreFilter, expected: str) -> None:
    """An engine that tests filters answers exactly the rows that pass, and says how much it looked at."""
    hash_key = f"case{next(NUMBERED)}!"
    for place, color in enumerate("abcd-"):
        more = {"size": place, "even": place % 2 == 0, "bytes": bytes([place, 255])}
        more |= {} if color == "-" else {"color": color}
        await put(store, record((hash_key, color), textHash=hash_key, text=f"{place}", **more))
    for index, whole in ((None, KeyRange("-", "d")), ("byText", KeyRange())):
        found = await page(store, replace(reading(index, hash_key, whole), filter=filter))
        assert {row.key.range for row in found.rows} == set(expected)
        assert (found.scanned_to, found.records_read) == (None, 5)


@pytest.mark.needs("filters")
async def test_pages_without_rows_get_on(store: Store) -> None:
    """Where no row of a page passes, the page says how far it looked, and looked at no more than it was asked to."""
    hash_key = f"empty{next(NUMBERED)}!"
    await put(store, *(record((hash_key, f"{n}"), textHash=hash_key, text=f"{n}", size=n) for n in range(9)))
    for descending in (False, True):
        read: RangeRead | None = replace(
            reading("byText", hash_key, limit=2, descending=descending),
            filter=AttributeTest("size", "eq", (4,), or_missing=False),
        )
        seen = []
        while read is not None:
            found = await page(store, read, want=2)
            assert found.records_read <= 2
            seen.append([row.value for row in found.rows])
            read = None if found.scanned_to is None else resume_after(read, found.scanned_to, may_tie=False)
        assert [values for values in seen if values] == [["4"]]
        assert len(seen) >= 5


@pytest.mark.parametrize("index", list(CARRIED))
async def test_what_an_index_lacks_is_not_tested(store: Store, index: str | None) -> None:
    """A test of an attribute that an index lacks, or has for its key, leaves nothing out, alone or beside another."""
    hash_key = f"lack{next(NUMBERED)}!"
    whole = record((hash_key, "r"), textHash=hash_key, text="v", numberHash=hash_key, number=7, color="red", size=3)
    await put(store, whole)
    right = [
        AttributeTest(name, "eq", (whole[name],), or_missing=False)
        for name in ("size", "color", "text", "number", "rangeKey")
    ]
    wrong = [AttributeTest(name, "eq", ("no",), or_missing=False) for name in ("color", "size", "nothing")]
    for test in right:
        several: list[StoreFilter] = [AnyOf((other, test)) for other in wrong]
        for filter in (test, *several, AllOf((test, AnyOf((*wrong, test))))):
            assert [
                row.key.range for row in (await page(store, replace(reading(index, hash_key), filter=filter))).rows
            ] == ["r"]


# --- attributes ------------------------------------------------------------------------------------------------


@with_stores(examples(15))
@given(
    index=st.sampled_from(list(CARRIED)),
    asked=st.frozensets(st.sampled_from(["color", "size", "nothing", "text", "hashKey", "number"])),
    filter=st.none() | st.just(AttributeTest("size", "ge", (1,), or_missing=False)),
)
async def test_attributes(store: Store, index: str | None, asked: frozenset[str], filter: StoreFilter | None) -> None:
    """Rows have their keys and the attributes that are asked for, as far as the index carries them."""
    hash_key = f"some{next(NUMBERED)}!"
    whole = record((hash_key, "r"), textHash=hash_key, text="v", numberHash=hash_key, number=7, color="red", size=3)
    await put(store, whole)
    read = replace(reading(index, hash_key), attributes=asked, filter=filter)
    (row,) = (await page(store, read)).rows
    keys = {"hashKey", "rangeKey", *{None: (), "byNumber": ("numberHash", "number")}.get(index, ("textHash", "text"))}
    carried = CARRIED[index]
    wanted = keys | (asked if carried is None else asked & carried)
    assert row.item.items() >= {name: whole[name] for name in wanted & whole.keys()}.items()
    assert row.item.items() <= whole.items()
    assert row.key == (hash_key, "r")


# --- what it costs ---------------------------------------------------------------------------------------------


@pytest.mark.needs("charges")
async def test_reads_are_billed(store: Store) -> None:
    """A bill holds half a unit for each 4 KB that a read begins, twice that where it is consistent."""
    name = f"bill{next(NUMBERED)}"
    await put(
        store,
        record((f"{name}!00", "big"), textHash=f"{name}!00", text="v", more="x" * 10_000),
        record((f"{name}!01", "small"), textHash=f"{name}!01", text="v"),
    )
    reads = [RangeRead("byText", f"{name}!{shard:02}", shard, KeyRange(), 5) for shard in (0, 1)]
    keys = [Key(f"{name}!00", "big"), Key(f"{name}!01", "small"), Key(f"{name}!00", "big")]
    costs = []
    with meter_capacity() as whole:
        for work in (
            store.read_ranges(reads, 5),
            store.read_ranges([replace(read, index="onlyKeys") for read in reads], 5),
            store.read_ranges([replace(reading(None, f"{name}!00"), consistent=True)], 5),
            store.get_many(keys, consistent=False),
            store.get_many(keys, consistent=True),
        ):
            with meter_capacity() as meter:
                await work
            costs.append(meter.units)
    assert costs == [2.0, 1.0, 3.0, 2.0, 4.0]
    assert whole.units == sum(cost for cost in costs if cost is not None)


@pytest.mark.needs("charges")
async def test_what_a_filter_leaves_out_is_billed(store: Store) -> None:
    """Neither a filter nor a choice of attributes makes a read cheaper."""
    hash_key = f"bill{next(NUMBERED)}!"
    await put(store, *(record((hash_key, f"{n}"), size=n, more="x" * 5_000) for n in range(4)))
    filter = AttributeTest("size", "eq", (1,), or_missing=False)
    with meter_capacity() as meter:
        found = await page(store, replace(reading(None, hash_key), filter=filter, attributes=frozenset({"size"})))
    assert len(found.rows) == 1
    assert meter.units == 2.5


async def test_a_bill_changes_nothing(store: Store) -> None:
    """What is read is the same whether anybody wants to know its price or not."""
    hash_key = f"bill{next(NUMBERED)}!"
    await put(store, *(record((hash_key, f"{n}"), size=n) for n in range(4)))
    read = reading(None, hash_key, limit=3)
    plain = await page(store, read, want=3)
    with meter_capacity():
        dear = await page(store, read, want=3)
    assert (summary(dear.rows), dear.scanned_to, dear.records_read) == (
        summary(plain.rows),
        plain.scanned_to,
        plain.records_read,
    )

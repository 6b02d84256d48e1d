"""What an engine may omit from its rows: rows that do not match the filter, and attributes that were not requested."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.runtime.request_statistics import meter_capacity
from graphql_api.storage.port import Store
from graphql_api.storage.read_resumption import resume_after
from graphql_api.storage.values import AllOf, AnyOf, AttributeTest, Key, RangeRead, Row, RowPage, StoreFilter
from tests.store_contract.filter_samples import ATTRIBUTES, EVERY_TYPE, NUMBERS, TEXTS, filters, reference_match
from tests.store_contract.samples import put, range_read, read_page, record, shared_store_settings, values_and_keys
from tests.support.run_depth import examples

RUN_NUMBERS = count()
SHARDS = ("00", "01", "0a")
MAX_ROUNDS = 1000
PROJECTED: dict[str | None, frozenset[str] | None] = {
    None: None,
    "byText": None,
    "byNumber": None,
    "onlyKeys": frozenset(),
    "someMore": frozenset({"color"}),
}
"""the non-key attributes of each index; None: all"""

# --- filters ---------------------------------------------------------------------------------------------------


async def read_all_by_scanned_to(
    store: Store, reads: Sequence[RangeRead], want: int
) -> tuple[dict[str, list[Row]], int]:
    """Return the rows of each hash key and the number of examined records. Each read continues after `scanned_to`."""
    found: dict[str, list[Row]] = {read.hash_key: [] for read in reads}
    examined, pending = 0, list(reads)
    for _ in range(MAX_ROUNDS):
        if not pending:
            return found, examined
        remaining = []
        for read, result in zip(pending, await store.read_ranges(pending, want), strict=True):
            assert isinstance(result, RowPage), result
            assert result.records_read >= len(result.rows)
            found[read.hash_key] += result.rows
            examined += result.records_read
            if result.scanned_to is not None:
                rest = resume_after(read, result.scanned_to, may_tie=True)
                remaining += [] if rest is None else [rest]
        pending = remaining
    raise AssertionError(f"the reads did not end after {MAX_ROUNDS} rounds")


async def check_filter(
    store: Store, data: st.DataObject, index: str | None, values: st.SearchStrategy[Any], tested: Sequence[str]
) -> None:
    """Read all pages of random rows with a random filter, and compare the rows with the reference implementation."""
    name = f"filter{next(RUN_NUMBERS)}"
    common_values = st.sampled_from(data.draw(st.lists(values, min_size=1, max_size=4)))
    filter = data.draw(filters(common_values | values, tested))
    optional_attributes = st.fixed_dictionaries({}, optional=dict.fromkeys(ATTRIBUTES, common_values))
    row_values = st.tuples(st.sampled_from(SHARDS), st.integers(1, 9), optional_attributes)
    unique = (lambda row: row[:2]) if index is None else None
    rows = data.draw(st.lists(row_values, min_size=3, max_size=12, unique_by=unique))
    items = {}
    for number, (shard, position, extra) in enumerate(rows):
        own = {"numberHash" if index == "byNumber" else "textHash": f"{name}!{shard}"}
        own |= {"number": position} if index == "byNumber" else {"text": f"{position}"}
        key = (f"{name}!{shard}", f"{position}") if index is None else (f"{name}-row!", f"{number:02}")
        items[key] = record(key, **own, **extra)
    await put(store, *items.values())
    limit, want, descending = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6)), data.draw(st.booleans())
    low, high = (3, 7) if index == "byNumber" else ("3", "7")
    key_range = data.draw(st.sampled_from([KeyRange(), KeyRange(low, high, low_open=True, high_open=True)]))
    reads = [
        RangeRead(index, f"{name}!{shard}", ordinal, key_range, limit, descending, filter=filter)
        for ordinal, shard in enumerate(SHARDS)
    ]
    found, examined = await read_all_by_scanned_to(store, reads, want)
    range_attribute = {None: "rangeKey", "byNumber": "number"}.get(index, "text")
    hash_attribute = {None: "hashKey", "byNumber": "numberHash"}.get(index, "textHash")
    expected_items = {key: item for key, item in items.items() if key_range.contains(item[range_attribute])}
    returned = [row.key for shard_rows in found.values() for row in shard_rows]
    assert len(set(returned)) == len(returned)
    assert expected_items.keys() >= set(returned)
    for read in reads:
        within = [row.value for row in found[read.hash_key]]
        assert within == sorted(within, reverse=descending)
        assert all(items[row.key][hash_attribute] == read.hash_key for row in found[read.hash_key])
    assert not {key for key, item in expected_items.items() if reference_match(filter, item)} - set(returned)
    assert examined >= len(expected_items)
    event(f"rows omitted: {len(returned) < len(expected_items)}")
    event(f"rows returned: {bool(returned)}")


@pytest.mark.needs("typed conditions")
@shared_store_settings(examples(80))
@given(data=st.data(), index=st.sampled_from(list(PROJECTED)))
async def test_matching_rows_are_never_omitted(store: Store, data: st.DataObject, index: str | None) -> None:
    """Under any filter, each matching row is returned once and in order, and every record of the range is examined."""
    await check_filter(store, data, index, EVERY_TYPE, (*ATTRIBUTES, *ATTRIBUTES, "text", "rangeKey"))


@pytest.mark.parametrize("values", [TEXTS, NUMBERS], ids=["texts", "numbers"])
@shared_store_settings(examples(20))
@given(data=st.data(), index=st.sampled_from(list(PROJECTED)))
async def test_matching_rows_of_one_type_are_never_omitted(
    store: Store, data: st.DataObject, index: str | None, values: st.SearchStrategy[Any]
) -> None:
    """Matching rows are also returned if the attribute values and the operands have one type."""
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
async def test_engine_filters_return_exactly_the_matching_rows(
    store: Store, filter: StoreFilter, expected: str
) -> None:
    """An engine with filters returns exactly the matching rows, and counts all examined records."""
    hash_key = f"case{next(RUN_NUMBERS)}!"
    for position, color in enumerate("abcd-"):
        extra = {"size": position, "even": position % 2 == 0, "bytes": bytes([position, 255])}
        extra |= {} if color == "-" else {"color": color}
        await put(store, record((hash_key, color), textHash=hash_key, text=f"{position}", **extra))
    for index, whole in ((None, KeyRange("-", "d")), ("byText", KeyRange())):
        found = await read_page(store, range_read(index, hash_key, whole)._replace(filter=filter))
        assert {row.key.range for row in found.rows} == set(expected)
        assert (found.scanned_to, found.records_read) == (None, 5)


@pytest.mark.needs("filters")
async def test_pages_without_matching_rows_make_progress(store: Store) -> None:
    """A page without a matching row has `scanned_to`, and examines at most the limit."""
    hash_key = f"empty{next(RUN_NUMBERS)}!"
    await put(store, *(record((hash_key, f"{n}"), textHash=hash_key, text=f"{n}", size=n) for n in range(9)))
    for descending in (False, True):
        read: RangeRead | None = range_read("byText", hash_key, limit=2, descending=descending)._replace(
            filter=AttributeTest("size", "eq", (4,), or_missing=False),
        )
        seen = []
        while read is not None:
            found = await read_page(store, read, want=2)
            assert found.records_read <= 2
            seen.append([row.value for row in found.rows])
            read = None if found.scanned_to is None else resume_after(read, found.scanned_to, may_tie=False)
        assert [values for values in seen if values] == [["4"]]
        assert len(seen) >= 5


@pytest.mark.parametrize("index", list(PROJECTED))
async def test_attributes_that_an_index_lacks_are_not_filtered(store: Store, index: str | None) -> None:
    """A test of an attribute that the index lacks, or of its key, omits no row, alone or in a larger filter."""
    hash_key = f"lack{next(RUN_NUMBERS)}!"
    whole = record((hash_key, "r"), textHash=hash_key, text="v", numberHash=hash_key, number=7, color="red", size=3)
    await put(store, whole)
    own_values = [
        AttributeTest(name, "eq", (whole[name],), or_missing=False)
        for name in ("size", "color", "text", "number", "rangeKey")
    ]
    others = [AttributeTest(name, "eq", ("no",), or_missing=False) for name in ("color", "size", "nothing")]
    for test in own_values:
        several: list[StoreFilter] = [AnyOf((other, test)) for other in others]
        for filter in (test, *several, AllOf((test, AnyOf((*others, test))))):
            assert [
                row.key.range
                for row in (await read_page(store, range_read(index, hash_key)._replace(filter=filter))).rows
            ] == ["r"]


# --- attributes ------------------------------------------------------------------------------------------------


@shared_store_settings(examples(15))
@given(
    index=st.sampled_from(list(PROJECTED)),
    requested=st.frozensets(st.sampled_from(["color", "size", "nothing", "text", "hashKey", "number"])),
    filter=st.none() | st.just(AttributeTest("size", "ge", (1,), or_missing=False)),
)
async def test_rows_have_the_requested_attributes(
    store: Store, index: str | None, requested: frozenset[str], filter: StoreFilter | None
) -> None:
    """A row has its keys and the requested attributes that the index projects."""
    hash_key = f"some{next(RUN_NUMBERS)}!"
    whole = record((hash_key, "r"), textHash=hash_key, text="v", numberHash=hash_key, number=7, color="red", size=3)
    await put(store, whole)
    read = range_read(index, hash_key)._replace(attributes=requested, filter=filter)
    (row,) = (await read_page(store, read)).rows
    keys = {"hashKey", "rangeKey", *{None: (), "byNumber": ("numberHash", "number")}.get(index, ("textHash", "text"))}
    projected = PROJECTED[index]
    expected = keys | (requested if projected is None else requested & projected)
    assert row.item.items() >= {name: whole[name] for name in expected & whole.keys()}.items()
    assert row.item.items() <= whole.items()
    assert row.key == (hash_key, "r")


# --- consumed capacity -----------------------------------------------------------------------------------------


@pytest.mark.needs("capacity")
async def test_reads_consume_capacity_by_size(store: Store) -> None:
    """A read consumes half a unit for each started 4 KB, and twice that if it is consistent."""
    name = f"capacity{next(RUN_NUMBERS)}"
    await put(
        store,
        record((f"{name}!00", "big"), textHash=f"{name}!00", text="v", more="x" * 10_000),
        record((f"{name}!01", "small"), textHash=f"{name}!01", text="v"),
    )
    reads = [RangeRead("byText", f"{name}!{shard:02}", shard, KeyRange(), 5) for shard in (0, 1)]
    keys = [Key(f"{name}!00", "big"), Key(f"{name}!01", "small"), Key(f"{name}!00", "big")]
    consumed = []
    with meter_capacity() as whole:
        for work in (
            store.read_ranges(reads, 5),
            store.read_ranges([read._replace(index="onlyKeys") for read in reads], 5),
            store.read_ranges([range_read(None, f"{name}!00")._replace(consistent=True)], 5),
            store.get_many(keys, consistent=False),
            store.get_many(keys, consistent=True),
        ):
            with meter_capacity() as meter:
                await work
            consumed.append(meter.units)
    assert consumed == [2.0, 1.0, 3.0, 2.0, 4.0]
    assert whole.units == sum(cost for cost in consumed if cost is not None)


@pytest.mark.needs("capacity")
async def test_filtered_records_consume_capacity(store: Store) -> None:
    """Neither a filter nor a choice of attributes makes a read cheaper."""
    hash_key = f"capacity{next(RUN_NUMBERS)}!"
    await put(store, *(record((hash_key, f"{n}"), size=n, more="x" * 5_000) for n in range(4)))
    filter = AttributeTest("size", "eq", (1,), or_missing=False)
    with meter_capacity() as meter:
        found = await read_page(
            store, range_read(None, hash_key)._replace(filter=filter, attributes=frozenset({"size"}))
        )
    assert len(found.rows) == 1
    assert meter.units == 2.5


async def test_the_capacity_meter_does_not_change_results(store: Store) -> None:
    """A read returns the same page with and without a capacity meter."""
    hash_key = f"capacity{next(RUN_NUMBERS)}!"
    await put(store, *(record((hash_key, f"{n}"), size=n) for n in range(4)))
    read = range_read(None, hash_key, limit=3)
    plain = await read_page(store, read, want=3)
    with meter_capacity():
        metered = await read_page(store, read, want=3)
    assert (values_and_keys(metered.rows), metered.scanned_to, metered.records_read) == (
        values_and_keys(plain.rows),
        plain.scanned_to,
        plain.records_read,
    )

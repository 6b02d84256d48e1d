"""The rules of capacity units: what requests charge, and the most that they can charge."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.storage.capacity_units import (
    ANY_ITEM,
    ItemBound,
    change_units,
    most_of_keys,
    most_of_query,
    most_of_ranges,
    most_of_writes,
    most_queries,
    read_units,
)
from graphql_api.storage.values import (
    Check,
    Delete,
    Expect,
    IndexDefinition,
    Item,
    Key,
    Put,
    RangeRead,
    TableDefinition,
)

WHOLE = IndexDefinition("whole", "g", "s")
KEYS = IndexDefinition("keys", "h", "s", "S", "KEYS_ONLY")
TABLE = TableDefinition((WHOLE, KEYS))
READ = RangeRead("whole", "u!0", 0, KeyRange(), 1, row_bytes=1000)


def item(size: int, **more: Any) -> Item:
    """Returns an item of about this size that is in both indexes."""
    return {"hashKey": "u!", "rangeKey": "r", "g": "g", "h": "h", "s": "s", "pad": "p" * size, **more}


@given(
    st.lists(st.tuples(st.integers(1, 12), st.lists(st.integers(1, 5_000), max_size=12)), min_size=1, max_size=6),
    st.booleans(),
)
def test_no_call_charges_more_than_its_reads_can(shards: list[tuple[int, list[int]]], consistent: bool) -> None:
    """Whatever rows the shards return within all limits together, their charge is at most that of the reads."""
    reads = [
        READ._replace(ordinal=at, limit=limit, row_bytes=5_000, consistent=consistent)
        for at, (limit, _) in enumerate(shards)
    ]
    left, charge = sum(read.limit for read in reads), 0.0
    for _, rows in shards:  # One shard may return the rows that others lack, as in a merged scan.
        returned, left = rows[:left], left - len(rows[:left])
        charge += read_units(sum(returned), consistent=consistent)
    assert charge <= most_of_ranges(reads)
    assert sum(map(most_of_query, reads)) <= most_of_ranges(reads)


def test_a_page_of_an_engine_bounds_the_charge() -> None:
    """A read charges at most a megabyte and one more record."""
    assert most_of_ranges([READ._replace(limit=10_000, row_bytes=400 * 1024)]) == 178.5
    assert most_of_ranges([READ._replace(limit=2, row_bytes=400 * 1024)]) == 100.5


@pytest.mark.parametrize(
    ("key_range", "descending", "queries"),
    [
        (KeyRange("a", "b"), False, 1),
        (KeyRange("a", "b", True), False, 1),
        (KeyRange(1, 2, True), False, 2),
        (KeyRange("a" * 1024, "b", True), False, 2),
        (KeyRange("a", "b", False, True), False, 1),
        (KeyRange("a", "b", False, True), True, 2),
        (KeyRange(None, "b", False, True), True, 1),
    ],
)
def test_rows_at_an_open_bound_may_need_a_second_query(key_range: KeyRange, descending: bool, queries: int) -> None:
    """A read whose condition includes an open bound counts twice, as its rows may fill the first page."""
    read = READ._replace(range=key_range, descending=descending)
    assert most_queries(read) == queries
    assert most_of_ranges([read]) == queries * 0.5


def test_the_most_of_keys_counts_each_key_once() -> None:
    """Equal keys are read once; the greatest size of an item depends on its hash key."""
    keys = [Key("u!", "a"), Key("u!", "a"), Key("big!", "b")]
    bounds = {"u!": ItemBound(4096)}

    def bound_of(hash_key: str) -> ItemBound:
        return bounds.get(hash_key, ANY_ITEM)

    assert most_of_keys(keys, bound_of, consistent=False) == 0.5 + 50
    assert most_of_keys(keys, bound_of, consistent=True) == 1 + 100


@pytest.mark.parametrize(
    ("old", "new", "units"),
    [
        (None, item(100), 3),
        (item(100), item(100), 1),
        (item(100), item(100, pad="other"), 2),
        (item(100), item(100, s="other"), 5),
        (item(3_000), item(100), 6),
        (item(100), {"hashKey": "u!", "rangeKey": "r"}, 3),
        (item(3_000), None, 7),
        (None, None, 1),
    ],
    ids=["create", "same", "another value", "moved", "smaller", "out of the indexes", "deleted", "nothing to delete"],
)
def test_write_units_of_a_change(old: Item | None, new: Item | None, units: int) -> None:
    """A change costs the larger item, and each index entry that it adds, removes or changes."""
    assert change_units(TABLE, old, new) == units


SIZES = [10, 1_000, 3_000]
ITEMS = [None, *(item(size) for size in SIZES), item(10, s="x"), {"hashKey": "u!", "rangeKey": "r", "a": 1}]


@given(st.sampled_from(ITEMS), st.sampled_from(ITEMS), st.sampled_from([None, Expect(), Expect(absent=True)]))
def test_no_write_charges_more_than_it_can(old: Item | None, new: Item | None, expect: Expect | None) -> None:
    """Whatever is stored within the bound, a write charges at most what was reserved."""
    if expect is not None and expect.absent and new is None:
        return  # Nothing deletes what must not exist.
    write = Delete(Key("u!", "r"), expect) if new is None else Put(new, expect)
    most = most_of_writes(TABLE, [write], lambda _: ItemBound(4_000, TABLE.indexes), together=False)
    holds = expect is None or expect.absent == (old is None)
    charge = change_units(TABLE, old, new) if holds else change_units(TableDefinition(), old, None)
    assert charge <= most
    together = most_of_writes(TABLE, [write], lambda _: ItemBound(4_000, TABLE.indexes), together=True)
    assert 2 * charge <= together


def test_a_create_charges_what_it_writes() -> None:
    """A put that expects no item reserves its own units, if no stored item can be larger."""
    writes: Sequence[Put | Check] = [Put(item(100), Expect(absent=True)), Check(Key("u!", "x"), Expect())]
    assert most_of_writes(TABLE, writes, lambda _: ItemBound(1_000, TABLE.indexes), together=True) == 2 * (3 + 1)

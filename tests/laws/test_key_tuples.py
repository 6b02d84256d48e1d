"""Laws of whole keys: the order of tuples, the range of each condition, and hash keys."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from graphql_api.codecs import Boolean, Codec, EnumCodec, Text
from graphql_api.codecs.hash_keys import HashKeyParts, hash_key, parse_hash_key, shard_name
from graphql_api.codecs.key_ranges import (
    MAX_BOUND_BYTES,
    Between,
    Column,
    Condition,
    Eq,
    KeyRange,
    Prefix,
    decode_tuple,
    encode_tuple,
    encoded_range,
    raw_range,
)
from graphql_api.storage.values import split_hash_key
from tests.laws.key_strategies import (
    ALPHABET,
    VALUES,
    Table,
    plain_order,
    prefix_before,
    related_texts,
    several,
    tables,
    texts,
)
from tests.support.run_depth import examples

# --- order -----------------------------------------------------------------------------------------------------


@examples(150)
@given(tables())
def test_byte_order_of_keys_is_tuple_order(table: Table) -> None:
    """The UTF-8 bytes of range values sort as their tuples do, and are equal only for equal tuples."""
    keys = {id(row): encode_tuple(table.columns, row).encode() for row in table.rows}
    ordered = sorted(table.rows, key=table.key)
    for one, other in pairwise(ordered):
        if table.order(one, other):
            assert keys[id(one)] < keys[id(other)]
        else:
            assert keys[id(one)] == keys[id(other)]


@given(tables())
def test_keys_decode_to_their_tuples(table: Table) -> None:
    """A range value decodes to its tuple and contains no NUL."""
    for row in table.rows:
        key = encode_tuple(table.columns, row)
        assert decode_tuple(table.columns, key) == row
        assert "\x00" not in key


# --- conditions ------------------------------------------------------------------------------------------------


def meets(column: Column, value: Any, condition: Condition) -> bool:
    """The meaning of a condition in plain Python."""
    match condition:
        case Eq(expected):
            return plain_order(value, expected) == 0
        case Prefix(text):
            return value is not None and value.startswith(text)
        case Between(low, high):
            above = low is None or plain_order(value, low) >= 0
            return value is not None and above and (high is None or plain_order(value, high) <= 0)


@st.composite
def conditions_on(draw: st.DrawFn, values: list[Any], codec: Codec[Any]) -> Condition:
    """Draws a condition of any kind on one column, with values near the existing ones."""
    bounds = st.none() | st.sampled_from(values) | VALUES[codec]
    kinds: list[st.SearchStrategy[Condition]] = [st.builds(Eq, bounds), st.builds(Between, bounds, bounds)]
    if isinstance(codec, Text):
        known = [value for value in values if value]
        near = [start for text in known for start in (text[:-1], text, prefix_before(text))]
        kinds.append(st.builds(Prefix, st.one_of(st.sampled_from(near or [""]), texts(max_size=2))))
    return draw(st.one_of(kinds))


@st.composite
def searches(draw: st.DrawFn) -> tuple[Table, list[Condition]]:
    """Draws a table and conditions on its first columns: values of one of its rows, then any condition."""
    table = draw(tables())
    count = draw(st.integers(0, len(table.columns)))
    if not count:
        return table, []
    values = [row[count - 1] for row in table.rows]
    like = draw(st.sampled_from(table.rows))
    last = draw(conditions_on(values, table.columns[count - 1].codec))
    return table, [*map(Eq, like[: count - 1]), last]


@examples(400)
@given(searches())
def test_ranges_contain_exactly_the_matching_keys(search: tuple[Table, list[Condition]]) -> None:
    """A key is in the range of some conditions exactly if its tuple meets all of them."""
    table, conditions = search
    found = encoded_range(table.columns, conditions)
    for row in table.rows:
        expected = all(map(meets, table.columns, row, conditions))
        assert found.contains(encode_tuple(table.columns, row)) == expected
        assert not (expected and found.is_empty)


@given(searches())
def test_bounds_fit_into_a_key(search: tuple[Table, list[Condition]]) -> None:
    """Both bounds of a range are well-formed text without NUL, of a size that every engine accepts."""
    table, conditions = search
    found = encoded_range(table.columns, conditions)
    for bound in (found.low, found.high):
        assert isinstance(bound, str)
        assert len(bound.encode()) <= MAX_BOUND_BYTES
        assert "\x00" not in bound


HARD_CASES: Mapping[str, Callable[[tuple[Table, list[Condition]]], bool]] = {
    "a prefix on the very last column": lambda search: (
        len(search[1]) == len(search[0].columns) > 1 and isinstance(search[1][-1], Prefix)
    ),
    "a descending column between two bounds": lambda search: any(
        isinstance(condition, Between)
        and condition.low is not None
        and condition.high is not None
        and column.descending
        for column, condition in zip(search[0].columns, search[1], strict=False)
    ),
    "a null before the condition": lambda search: len(search[1]) > 2 and search[1][1] == Eq(None),
    "a row directly after a prefix on the very last column": lambda search: (
        len(search[1]) == len(search[0].columns)
        and isinstance(search[1][-1], Prefix)
        and encoded_range(search[0].columns, search[1]).high
        in {encode_tuple(search[0].columns, row) for row in search[0].rows}
    ),
    "one row within and one without": lambda search: (
        len({all(map(meets, search[0].columns, row, search[1])) for row in search[0].rows}) == 2
    ),
    "a value that is a prefix of another": lambda search: any(
        isinstance(one[0], str) and one[0] != other[0] and one[0] and other[0].startswith(one[0])
        for one in search[0].rows
        for other in search[0].rows
    ),
}


@pytest.mark.parametrize("case", list(HARD_CASES))
def test_generators_draw_the_hard_cases(case: str) -> None:
    """The generated searches include the cases that once had defects."""
    find(searches(), HARD_CASES[case], settings=settings(max_examples=5_000, database=None, phases=[Phase.generate]))


# --- raw indexes -----------------------------------------------------------------------------------------------

RAW = [codec for codec in VALUES if not isinstance(codec, Boolean | EnumCodec)]


@pytest.mark.parametrize("codec", RAW, ids=repr)
@examples(100)
@given(data=st.data())
def test_raw_ranges_contain_exactly_the_matching_values(codec: Codec[Any], data: st.DataObject) -> None:
    """On a raw index, a stored value is in the range of a condition exactly if the value meets the condition."""
    values = [value for value in data.draw(several(codec)) if value != ""] or data.draw(
        st.lists(texts(min_size=1), min_size=1, max_size=2)
    )
    condition = data.draw(st.none() | conditions_on(values, codec).filter(has_nonempty_keys))
    found = raw_range(codec, condition)
    for value in values:
        stored = codec.store(value)
        assert not isinstance(stored, bool)
        assert found.contains(stored) == (condition is None or meets(Column("a", codec), value, condition))


def has_nonempty_keys(condition: Condition) -> bool:
    """Whether a raw index can answer the condition: its keys are neither null nor empty."""
    return condition not in (Eq(None), Eq("")) and not (isinstance(condition, Between) and condition.high == "")


# --- empty ranges ----------------------------------------------------------------------------------------------


@given(st.integers(-2, 2), st.integers(-2, 2), st.booleans(), st.booleans())
def test_a_range_is_empty_if_its_bounds_exclude_each_other(
    low: int, high: int, low_open: bool, high_open: bool
) -> None:
    """A range is empty exactly if its bounds cross, or are equal and one of them is exclusive."""
    key_range = KeyRange(low, high, low_open, high_open)
    thirds = range(-9, 10)
    scaled = KeyRange(low * 3, high * 3, low_open, high_open)
    assert key_range.is_empty == (not any(map(scaled.contains, thirds)))
    assert all(scaled.contains(value) == (low * 3 < value < high * 3) for value in thirds if value % 3)


# --- hash keys -------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "ab", "userId"])
ESCAPES = ("#", "|", "!", "/", "%", "%25", "%7C", "%7c", "25", "7C")
DELIMITED = st.lists(st.sampled_from((*ESCAPES, *ALPHABET)), max_size=3).map("".join)
HASH_KEYS = st.builds(
    HashKeyParts,
    st.none() | DELIMITED.filter(bool),
    st.sampled_from(["user", "email", "orderTracking"]),
    st.sampled_from(["", "0", "03", "zz"]),
    st.lists(st.tuples(NAMES, DELIMITED), max_size=3).map(tuple),
)


def hash_key_of(parts: HashKeyParts) -> str:
    """Returns the hash key of these parts."""
    return hash_key(parts.head, parts.shard, parts.values, parts.tenant)


@examples(200)
@given(HASH_KEYS)
def test_hash_keys_parse_to_their_parts(parts: HashKeyParts) -> None:
    """A hash key parses to its parts, even if all parts contain delimiters."""
    assert parse_hash_key(hash_key_of(parts)) == parts
    assert shard_name(hash_key_of(parts)) == f"{parts.head}!{parts.shard}"


@given(related_texts(2, 2), related_texts(2, 2), st.booleans())
def test_different_parts_have_different_hash_keys(tenants: list[str], values: list[str], tenanted: bool) -> None:
    """Two hash keys are equal exactly if their tenants and values are equal."""
    first, second = (
        HashKeyParts((tenant or "-") if tenanted else None, "user", "", (("a", value),))
        for tenant, value in zip(tenants, values, strict=True)
    )
    assert (hash_key_of(first) == hash_key_of(second)) == (first == second)


@given(HASH_KEYS, st.sampled_from(["", "00", "zz"]))
def test_shards_of_one_search_share_a_group(parts: HashKeyParts, shard: str) -> None:
    """`split_hash_key` returns the shard, and equal groups exactly for hash keys that differ only in the shard."""
    group, found = split_hash_key(hash_key_of(parts))
    assert found == parts.shard
    assert split_hash_key(hash_key(parts.head, shard, parts.values, parts.tenant)) == (group, shard)
    assert group == hash_key(parts.head, "", parts.values, parts.tenant)


def test_the_alphabet_contains_every_edge_case() -> None:
    """The alphabet contains every delimiter, escape, control character and edge of the encodings."""
    edges = {"#", "|", "!", "/", "%", "{", "}", "\x00", "\x01", "\x02", "\x03", "\xe9", "e", "\u0301"}
    assert edges | {"\ud7ff", "\ue000", "\uffff", "\U0010ffff", "😀"} <= set(ALPHABET)

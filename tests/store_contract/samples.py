"""The contract's table, records for it, and a walk through reads page by page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from graphql_api.codecs.key_ranges import KeyRange, RangeValue
from graphql_api.errors import StoreError
from graphql_api.storage.port import Store
from graphql_api.storage.values import (
    IndexDefinition,
    Key,
    Position,
    Put,
    RangeRead,
    Row,
    RowPage,
    StartKey,
    TableDefinition,
    Write,
)

TABLE = TableDefinition(
    (
        IndexDefinition("byText", "textHash", "text"),
        IndexDefinition("byNumber", "numberHash", "number", "N"),
        IndexDefinition("onlyKeys", "textHash", "text", projection="KEYS_ONLY"),
        IndexDefinition("someMore", "textHash", "text", projection=("color",)),
    )
)

MAX_ROUNDS = 10_000


def record(key: Key | tuple[str, str], **attributes: Any) -> dict[str, Any]:
    """A record at a key."""
    return {"hashKey": key[0], "rangeKey": key[1], **attributes}


async def put(store: Store, *items: Mapping[str, Any]) -> None:
    """Stores records, each of which has to be accepted."""
    problems = await store.write([Put(item) for item in items])
    assert problems == [None] * len(items), [problem for problem in problems if problem is not None]


async def refusal(store: Store, write: Write) -> StoreError | None:
    """What the store says about one write."""
    (answer,) = await store.write([write])
    return answer


async def page(store: Store, read: RangeRead, want: int = 1000) -> RowPage:
    """The answer to a single read, which has to succeed."""
    (answer,) = await store.read_ranges([read], want)
    assert isinstance(answer, RowPage), answer
    return answer


def reading(
    index: str | None,
    hash_key: str,
    key_range: KeyRange | None = None,
    *,
    limit: int = 10_000,
    descending: bool = False,
) -> RangeRead:
    """A read of one hash key."""
    return RangeRead(index, hash_key, 1, key_range or KeyRange(), limit, descending)


async def walk(store: Store, reads: Sequence[RangeRead], want: int, *, by_position: bool) -> dict[str, list[Row]]:
    """All rows by hash key, page by page: each read goes on behind its own last row, or behind `scanned_to`."""
    found: dict[str, list[Row]] = {read.hash_key: [] for read in reads}
    asked = list(reads)
    for _ in range(MAX_ROUNDS):
        if not asked:
            return found
        answers = await store.read_ranges(asked, want)
        left = []
        for read, answer in zip(asked, answers, strict=True):
            assert isinstance(answer, RowPage), answer
            found[read.hash_key] += answer.rows
            if answer.scanned_to is not None:
                rest = _behind(read, answer.rows, answer.scanned_to, by_position=by_position)
                left += [] if rest is None else [rest]
        asked = left
    raise AssertionError(f"no end after {MAX_ROUNDS} rounds")


def _behind(read: RangeRead, rows: Sequence[Row], place: Position, *, by_position: bool) -> RangeRead | None:
    if rows and (not by_position or rows[-1].position == place):
        return replace(read, start=StartKey(rows[-1].value, rows[-1].key))
    if not read.range.contains(place.value):
        return read  # its range was not reached yet
    if read.start is not None and _is_behind(read.start.value, place.value, read.descending):
        return read  # its start was not reached yet
    passed = read.ordinal > place.ordinal if read.descending else read.ordinal < place.ordinal
    bounds = read.range
    if read.descending:
        rest = replace(bounds, high=place.value, high_open=passed or (bounds.high_open and bounds.high == place.value))
    else:
        rest = replace(bounds, low=place.value, low_open=passed or (bounds.low_open and bounds.low == place.value))
    if rest.is_empty:
        return None
    start = read.start if read.start is not None and read.start.value == place.value and not passed else None
    return replace(read, range=rest, start=start)


def _is_behind(value: Any, other: Any, descending: bool) -> bool:
    return bool(value < other if descending else value > other)


def unordered(definition: TableDefinition | None) -> tuple[str, str, set[tuple[Any, ...]]] | None:
    """A definition as what can be compared, since an engine may forget in which order things were listed."""
    if definition is None:
        return None
    indexes = {(replace(index, projection="ALL"), _carried(index)) for index in definition.indexes}
    return definition.hash_attribute, definition.range_attribute, indexes


def _carried(index: IndexDefinition) -> frozenset[str]:
    return frozenset(index.projection if isinstance(index.projection, tuple) else [index.projection])


def summary(rows: Sequence[Row]) -> list[tuple[RangeValue, Key]]:
    """Rows as values that can be compared."""
    return [(row.value, row.key) for row in rows]


def with_stores(base: settings) -> settings:
    """Settings for a law whose examples share one store, each under hash keys of its own."""
    return settings(base, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


TEXTS = st.text("ab|#!/\0\x01\x02~é\ud7ff\ue000\U0001f600\U0010ffff", min_size=1, max_size=3)
"""short texts that are often equal, prefixes of each other, or on different sides of a delimiter"""

NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.decimals(-2, 2, places=1),
    st.sampled_from([10**20, 10**125, -(10**125)]),
    st.decimals(allow_nan=False, allow_infinity=False, min_value="-1E+100", max_value="1E+100", places=2).filter(
        lambda number: len("".join(map(str, number.as_tuple().digits)).strip("0")) <= 38
    ),
)

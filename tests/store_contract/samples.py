"""The table of the contract suite, sample records, and helpers that read and write them."""

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
    """A record with a key and attributes."""
    return {"hashKey": key[0], "rangeKey": key[1], **attributes}


async def put(store: Store, *items: Mapping[str, Any]) -> None:
    """Store records and assert that each is accepted."""
    problems = await store.write([Put(item) for item in items])
    assert problems == [None] * len(items), [problem for problem in problems if problem is not None]


async def write_error(store: Store, write: Write) -> StoreError | None:
    """Execute one write and return its error, if any."""
    (result,) = await store.write([write])
    return result


async def read_page(store: Store, read: RangeRead, want: int = 1000) -> RowPage:
    """Return the page of a single read and assert that the read succeeds."""
    (result,) = await store.read_ranges([read], want)
    assert isinstance(result, RowPage), result
    return result


def range_read(
    index: str | None,
    hash_key: str,
    key_range: KeyRange | None = None,
    *,
    limit: int = 10_000,
    descending: bool = False,
) -> RangeRead:
    """A read of one hash key."""
    return RangeRead(index, hash_key, 1, key_range or KeyRange(), limit, descending)


async def read_all_pages(
    store: Store, reads: Sequence[RangeRead], want: int, *, by_position: bool
) -> dict[str, list[Row]]:
    """Read all pages and return the rows of each hash key.

    Each read continues after its last row. It continues after `scanned_to` if there is no row, or if `by_position` is
    set and the last row is before it.
    """
    rows_by_hash_key: dict[str, list[Row]] = {read.hash_key: [] for read in reads}
    pending = list(reads)
    for _ in range(MAX_ROUNDS):
        if not pending:
            return rows_by_hash_key
        results = await store.read_ranges(pending, want)
        remaining_reads = []
        for read, result in zip(pending, results, strict=True):
            assert isinstance(result, RowPage), result
            rows_by_hash_key[read.hash_key] += result.rows
            if result.scanned_to is not None:
                rest = _remaining_read(read, result.rows, result.scanned_to, by_position=by_position)
                remaining_reads += [] if rest is None else [rest]
        pending = remaining_reads
    raise AssertionError(f"the reads did not end after {MAX_ROUNDS} rounds")


def _remaining_read(
    read: RangeRead, rows: Sequence[Row], scanned_to: Position, *, by_position: bool
) -> RangeRead | None:
    if rows and (not by_position or rows[-1].position == scanned_to):
        return read._replace(start=StartKey(rows[-1].value, rows[-1].key))
    if not read.range.contains(scanned_to.value):
        return read  # The scan has not reached the range yet.
    if read.start is not None and _is_after(read.start.value, scanned_to.value, read.descending):
        return read  # The scan has not reached the start key yet.
    ordinal_done = read.ordinal > scanned_to.ordinal if read.descending else read.ordinal < scanned_to.ordinal
    bounds = read.range
    if read.descending:
        rest = replace(
            bounds,
            high=scanned_to.value,
            high_open=ordinal_done or (bounds.high_open and bounds.high == scanned_to.value),
        )
    else:
        rest = replace(
            bounds, low=scanned_to.value, low_open=ordinal_done or (bounds.low_open and bounds.low == scanned_to.value)
        )
    if rest.is_empty:
        return None
    start = read.start if read.start is not None and read.start.value == scanned_to.value and not ordinal_done else None
    return read._replace(range=rest, start=start)


def _is_after(value: Any, other: Any, descending: bool) -> bool:
    return bool(value < other if descending else value > other)


def comparable_definition(definition: TableDefinition | None) -> tuple[str, str, set[tuple[Any, ...]]] | None:
    """Return a definition in a form that ignores the order of its indexes and attributes."""
    if definition is None:
        return None
    indexes = {(replace(index, projection="ALL"), _projection_set(index)) for index in definition.indexes}
    return definition.hash_attribute, definition.range_attribute, indexes


def _projection_set(index: IndexDefinition) -> frozenset[str]:
    return frozenset(index.projection if isinstance(index.projection, tuple) else [index.projection])


def values_and_keys(rows: Sequence[Row]) -> list[tuple[RangeValue, Key]]:
    """Return the range value and the key of each row."""
    return [(row.value, row.key) for row in rows]


def shared_store_settings(base: settings) -> settings:
    """Settings for property tests whose examples share one store and use separate hash keys."""
    return settings(base, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


TEXTS = st.text("ab|#!/\0\x01\x02~é\ud7ff\ue000\U0001f600\U0010ffff", min_size=1, max_size=3)
"""short texts that are often equal, prefixes of each other, or ordered around a delimiter"""

NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.decimals(-2, 2, places=1),
    st.sampled_from([10**20, 10**125, -(10**125)]),
    st.decimals(allow_nan=False, allow_infinity=False, min_value="-1E+100", max_value="1E+100", places=2).filter(
        lambda number: len("".join(map(str, number.as_tuple().digits)).strip("0")) <= 38
    ),
)

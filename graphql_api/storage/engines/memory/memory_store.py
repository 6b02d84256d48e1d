"""The store on a table in memory. Each call is one step of the event loop, so calls never interleave."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from time import time
from typing import Any, NamedTuple
from zlib import crc32

from orjson import OPT_SORT_KEYS, dumps

from graphql_api.errors import ConditionFailed, StoreError, StoreRefused
from graphql_api.runtime import current_meter
from graphql_api.storage import (
    PAGE_BYTES,
    TRANSACTION_FACTOR,
    Check,
    Expect,
    FailedCondition,
    Item,
    Key,
    Position,
    Put,
    RangeRead,
    ReadResult,
    Row,
    RowPage,
    RowProjection,
    ScanPage,
    TableDefinition,
    TransactionWrite,
    Write,
    build_per_search,
    canonical_json,
    change_units,
    check_key,
    check_reads,
    check_segment,
    check_transaction_size,
    check_want,
    check_write,
    condition_failed_error,
    condition_holds,
    current_fence,
    encode_body,
    index_of,
    prepare_each,
    prepare_transaction,
    read_units,
    record_size,
    schema_changed_error,
    write_units,
)
from graphql_api.storage.engines.memory.memory_table import MemoryTable

MAX_SCAN_RECORDS = 1_000
"""records per page of `scan`"""
TOKEN_SECONDS = 600.0


class _PreparedWrite(NamedTuple):
    """A validated and encoded write. `body` is None for a deletion and for a check."""

    position: int
    key: Key
    body: bytes | None
    expect: Expect | None
    only_checks: bool


class MemoryStore:
    """A `Store` on a table in memory. Stores that share a table see the same records."""

    def __init__(self, table: MemoryTable | None = None, *, now: Callable[[], float] = time) -> None:
        self._table = MemoryTable() if table is None else table
        self._now = now
        self._closed = False

    # --- reading -----------------------------------------------------------------------------------------------

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        """Read each range up to its own limit."""
        self._check_open()
        check_want(want)
        if not reads:
            return []
        index = self._table.index(index_of(reads))
        check_reads(reads, index.range_type)
        projections = build_per_search(reads, partial(RowProjection, self._table.present, index))
        return [self._page(read, projection) for read, projection in zip(reads, projections, strict=True)]

    def _page(self, read: RangeRead, projection: RowProjection) -> RowPage:
        rows: list[Row] = []
        size = charged = examined = 0
        stopped: Position | None = None
        for value, key in self._table.entries(
            read.index, read.hash_key, read.range, read.start, descending=read.descending
        ):
            if examined == read.limit or size > PAGE_BYTES:
                break
            body = self._table.bodies[key]
            row = projection.make_row(value, read.ordinal, key, body)
            if row is not None:
                rows.append(row)
            examined, size = examined + 1, size + len(body)
            if current_meter() is not None:
                charged += record_size(projection.decode_entry(body))
            stopped = Position(value, read.ordinal, key)
        else:
            stopped = None  # The end of the range is reached.
        self._meter_read(charged, consistent=read.consistent)
        return RowPage(rows, stopped, examined, size)

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """Read records by key. Always consistent."""
        self._require_table()
        for key in keys:
            check_key(key, "the requested key")
        found = {key: self._table.read(key) for key in keys}
        for item in found.values():
            self._meter_read(0 if item is None else record_size(item), consistent=consistent)
        return [found[key] for key in keys]

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        """Read a page of a segment, in the order of keys."""
        self._require_table()
        check_segment(segment, of)
        if after is not None:
            check_key(after, "the start key")
        keys = sorted(key for key in self._table.bodies if crc32("\0".join(key).encode()) % of == segment)
        begin = 0 if after is None else bisect_right(keys, after)
        page = keys[begin : begin + MAX_SCAN_RECORDS]
        items = [item for key in page if (item := self._table.read(key)) is not None]
        return ScanPage(items, page[-1] if begin + len(page) < len(keys) else None)

    def forget_snapshot(self) -> None:
        """Do nothing: `holds` always evaluates the present state."""

    def holds(self, check: Check) -> bool:
        """Return whether a condition holds now."""
        return condition_holds(check.expect, self._table.read(check.key))

    # --- writing -----------------------------------------------------------------------------------------------

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        """Apply each write independently."""
        self._require_table()
        if not writes:
            return []
        changes, problems = prepare_each(writes, self._prepare)
        if not self._is_allowed():
            return [problem or schema_changed_error() for problem in problems]
        for change in changes:
            try:
                self._apply([change])
            except ConditionFailed as problem:
                problems[change.position] = problem
        return problems

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Apply all writes atomically. Repeating a token within ten minutes has no further effect."""
        self._require_table()
        changes = prepare_transaction(writes, token, self._prepare)
        check_transaction_size(writes)
        used, now = self._table.used_tokens, self._now()
        for expired in [name for name, (_, since) in used.items() if since <= now - TOKEN_SECONDS]:
            del used[expired]
        digest = _digest(writes)
        if token in used:
            if used[token][0] != digest:
                raise StoreRefused(f"The token {token!r} was used for other writes. Use a new token per set of writes.")
            return
        if not self._is_allowed():
            raise schema_changed_error()
        self._apply(changes, factor=TRANSACTION_FACTOR)
        used[token] = digest, now

    def _prepare(self, position: int, write: TransactionWrite) -> _PreparedWrite:
        key = check_write(self._table.present, write)
        if write.expect is not None:
            encode_body(write.expect.attributes)
            encode_body(dict.fromkeys(write.expect.without))
        body = encode_body(write.item) if isinstance(write, Put) else None
        return _PreparedWrite(position, key, body, write.expect, isinstance(write, Check))

    def _is_allowed(self) -> bool:
        """Return whether the fence of the caller allows writes."""
        fence = current_fence()
        return fence is None or self.holds(fence.check)

    def _apply(self, changes: Sequence[_PreparedWrite], factor: int = 1) -> None:
        """Apply changes if all of their conditions hold."""
        old = [self._table.read(change.key) for change in changes]
        failed = [
            FailedCondition(change.position, change.key, change.expect, None if item is None else dict(item))
            for change, item in zip(changes, old, strict=True)
            if change.expect is not None and not condition_holds(change.expect, item)
        ]
        for change, item in zip(changes, old, strict=True):
            is_written = not failed and not change.only_checks
            if is_written:
                self._table.write(change.key, change.body)
            self._meter_write(change, item, factor, is_written=is_written)
        if failed:
            raise condition_failed_error(failed)

    # --- the table ---------------------------------------------------------------------------------------------

    async def describe(self) -> TableDefinition | None:
        """Return the definition of the table."""
        self._check_open()
        definition = self._table.definition
        if definition is None:
            return None
        return TableDefinition(
            definition.indexes,
            definition.hash_attribute,
            definition.range_attribute,
            item_count=len(self._table.bodies),
        )

    async def ensure_table(self, definition: TableDefinition) -> None:
        """Create the table, or its missing indexes."""
        self._check_open()
        self._table.define(definition)

    async def drop_index(self, name: str) -> None:
        """Remove an index, if it exists."""
        self._check_open()
        self._table.drop_index(name)

    async def close(self) -> None:
        """Refuse later calls. The table keeps its records."""
        self._closed = True

    # --- helpers -----------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise StoreRefused("The store in memory is closed. Open it again.")

    def _require_table(self) -> None:
        self._check_open()
        _ = self._table.present  # Refuses if there is no table.

    def _meter_read(self, size: int, *, consistent: bool) -> None:
        meter = current_meter()
        if meter is not None:
            meter.add(read_units(size, consistent=consistent), estimated=True)

    def _meter_write(self, change: _PreparedWrite, old: Item | None, factor: int, *, is_written: bool) -> None:
        meter = current_meter()
        if meter is not None:
            new = self._table.read(change.key) if is_written else None
            units = change_units(self._table.present, old, new) if is_written else write_units(record_size(old or {}))
            meter.add_write(factor * units, estimated=True)


def _digest(writes: Sequence[TransactionWrite]) -> bytes:
    """Return a digest that is equal for equal writes and conditions only."""
    parts: list[Any] = []
    for write in writes:
        target = canonical_json(write.item) if isinstance(write, Put) else [type(write).__name__, *write.key]
        expect = write.expect
        condition = expect and [expect.absent, canonical_json(expect.attributes), sorted(set(expect.without))]
        parts.append([target, condition])
    return blake2b(dumps(parts, option=OPT_SORT_KEYS), digest_size=32).digest()

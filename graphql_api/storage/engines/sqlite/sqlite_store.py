"""The SQLite store: reads run on the event loop, writes on one writer thread per process."""

import sqlite3
from asyncio import get_running_loop, shield, sleep, to_thread
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import Any
from zlib import crc32

from graphql_api.errors import StoreError, StoreRefused, StoreUnavailable, Throttled, WrongTable, nearest
from graphql_api.runtime import current_meter
from graphql_api.storage import (
    Item,
    Key,
    RangeRead,
    ReadResult,
    ScanPage,
    TableDefinition,
    TransactionWrite,
    Write,
    check_segment,
    check_want,
    read_units,
    record_size,
)
from graphql_api.storage.engines.sqlite.database_file import connect_reader, prepare_file, unavailable_error
from graphql_api.storage.engines.sqlite.engine_quirks import NO_QUIRKS, EngineQuirks
from graphql_api.storage.engines.sqlite.group_commit import GroupCommitWriter
from graphql_api.storage.engines.sqlite.key_bytes import encode_table_key
from graphql_api.storage.engines.sqlite.ordered_scan import OrderedScan
from graphql_api.storage.engines.sqlite.record_body import decode_body
from graphql_api.storage.engines.sqlite.row_projection import row_projections
from graphql_api.storage.engines.sqlite.shard_ranges import plan_shard_ranges
from graphql_api.storage.engines.sqlite.table_layout import NO_TABLE, PhysicalIndex, TableLayout, load_layout
from graphql_api.storage.engines.sqlite.writer_jobs import (
    BackfillJob,
    CatchUpJob,
    DefineTableJob,
    TransactionJob,
    WriteEachJob,
    WriterJob,
)

MAX_SCAN_RECORDS = 1_000
"""records per page of `scan`"""

MAX_KEYS_READ = 4_000
"""keys that a page of `scan` reads; most of them may belong to other segments"""

YIELD_AFTER_ROWS = 500
"""records to read by key before yielding to the event loop"""

_BY_KEY = (
    "SELECT body FROM entries CROSS JOIN records ON id = record"
    " WHERE idx = 0 AND base = ? AND value = ? AND shard = ? AND tie = x''"
)
_ALL = (
    "SELECT hash, range, body FROM entries CROSS JOIN records ON id = record"
    " WHERE idx = 0 AND (base, value, shard) > (?, ?, ?) ORDER BY base, value, shard LIMIT ?"
)


async def open_sqlite(
    path: str | Path, *, quirks: EngineQuirks = NO_QUIRKS, now: Callable[[], float] = time
) -> "SqliteStore":
    """Open the file, or create it. `now` provides the time for the expiry of transaction tokens."""
    file = Path(path)
    await to_thread(prepare_file, file, quirks.tie_order)
    store = SqliteStore(file, quirks, now)
    if not quirks.index_lag and store.has_lagging_entries():
        await store.catch_up_indexes()
    return store


class SqliteStore:
    """A `Store` on one SQLite file. Use `open_sqlite` to create it."""

    def __init__(self, path: Path, quirks: EngineQuirks, now: Callable[[], float]) -> None:
        self._path = path
        self._quirks = quirks
        self._now = now
        self._closed = False
        self._layout: TableLayout | None = None
        self._sql = connect_reader(path)
        self._writer = GroupCommitWriter(path, quirks.index_lag)

    # --- reading

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        """Read all ranges by one ordered scan per base, which stops at `want` rows."""
        check_want(want)
        if not reads:
            return []
        results: list[ReadResult | None] = [None] * len(reads)
        if self._quirks.throttle is not None:
            results = [self._throttle_error("read_ranges") for _ in reads]
        throttled = frozenset(number for number, result in enumerate(results) if result is not None)
        with self._reading():
            layout, index = self._readable_index(reads[0].index)
            projections = row_projections(layout, reads)
            for base, shard_ranges in plan_shard_ranges(reads, throttled, index, layout.tie_order).items():
                scan = OrderedScan(
                    self._sql,
                    index,
                    projections,
                    base,
                    shard_ranges,
                    want=want,
                    page_bytes=self._quirks.page_bytes,
                    descending=reads[0].descending,
                )
                while not scan.run():
                    await sleep(0)
                    self._check_open()
                for number, page in scan.pages():
                    results[number] = page
        return [result for result in results if result is not None]

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """Read records by key. Always consistent."""
        self._throttle("get_many")
        found: list[Item | None] = []
        meter = current_meter()
        with self._reading():
            self._current_layout()
            for number, key in enumerate(keys):
                row = self._sql.execute(_BY_KEY, encode_table_key(key, "the requested key")).fetchone()
                found.append(None if row is None else decode_body(row[0]))
                if number % YIELD_AFTER_ROWS == YIELD_AFTER_ROWS - 1:
                    await sleep(0)
                    self._check_open()
        if meter is not None:
            for item in dict(zip(keys, found, strict=True)).values():
                size = 0 if item is None else record_size(item)
                meter.add(read_units(size, consistent=consistent), estimated=True)
        return found

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        """Read a page of a segment, in the order of the file. A page may be empty although more records follow."""
        self._throttle("scan")
        check_segment(segment, of)
        start = (b"", b"", b"") if after is None else encode_table_key(after, "the start key")
        items: list[Item] = []
        with self._reading():
            self._current_layout()
            rows = self._sql.execute(_ALL, (*start, min(MAX_SCAN_RECORDS * of, MAX_KEYS_READ))).fetchall()
        for hash_key, range_key, body in rows:
            if crc32(range_key, crc32(hash_key)) % of == segment:
                items.append(decode_body(body))
            if len(items) == MAX_SCAN_RECORDS:
                return ScanPage(items, Key(hash_key.decode(), range_key.decode()))
        if len(rows) < min(MAX_SCAN_RECORDS * of, MAX_KEYS_READ):
            return ScanPage(items, None)
        return ScanPage(items, Key(rows[-1][0].decode(), rows[-1][1].decode()))

    # --- writing

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        """Apply each write independently, all within one commit."""
        self._throttle("write")
        if not writes:
            return []
        problems: Sequence[StoreError | None] = await self._submit(WriteEachJob(writes))
        return problems

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Apply all writes atomically. Repeating a token within ten minutes has no further effect."""
        self._throttle("write_together")
        await self._submit(TransactionJob(writes, token, self._now()))

    # --- the table

    async def describe(self) -> TableDefinition | None:
        """Return the current table definition in the file."""
        with self._reading():
            layout = self._layout = load_layout(self._sql)
        return None if layout is None else layout.definition

    async def ensure_table(self, definition: TableDefinition) -> None:
        """Create the table or its missing indexes. Return when all indexes contain all records."""
        self._throttle("ensure_table")
        await self._submit(DefineTableJob(definition))
        while await self._submit(BackfillJob()):
            pass

    async def catch_up_indexes(self) -> None:
        """Bring all index entries up to date with the records (see `EngineQuirks.index_lag`)."""
        await self._submit(CatchUpJob())

    def has_lagging_entries(self) -> bool:
        """Return whether index entries lag the records."""
        with self._reading():
            return bool(self._sql.execute("SELECT EXISTS (SELECT 1 FROM lagging)").fetchone()[0])

    async def close(self) -> None:
        """Complete accepted writes. Later calls are refused."""
        if not self._closed:
            self._closed = True
            await shield(get_running_loop().run_in_executor(None, self._writer.finish))
            self._sql.close()

    # --- helpers

    async def _submit(self, job: WriterJob) -> Any:
        self._check_open()
        return await self._writer.submit(job)

    def _readable_index(self, name: str | None) -> tuple[TableLayout, PhysicalIndex]:
        """Return a readable index.

        Reload the layout if necessary, as another process may have added or backfilled the index.
        """
        layout = self._current_layout()
        index = layout.by_name.get(name)
        if index is None or not index.is_backfilled:
            self._layout = None
            layout = self._current_layout()
            index = layout.by_name.get(name)
        if index is None:
            known = [known for known in layout.by_name if known is not None]
            raise StoreRefused(
                f"The table has no index {name!r}.{nearest(str(name), known)} Call ensure_table to add it."
            )
        if not index.is_backfilled:
            raise StoreUnavailable(f"Index {name!r} is still being backfilled. Try again later.")
        return layout, index

    def _current_layout(self) -> TableLayout:
        if self._layout is None:
            self._layout = load_layout(self._sql)
            if self._layout is None:
                raise WrongTable(NO_TABLE)
        return self._layout

    @contextmanager
    def _reading(self) -> Iterator[None]:
        self._check_open()
        try:
            yield
        except sqlite3.Error as problem:
            raise unavailable_error(self._path, problem) from problem

    def _check_open(self) -> None:
        if self._closed:
            raise StoreRefused(f"The store on {self._path} is closed. Open it again.")

    def _throttle_error(self, operation: str) -> Throttled | None:
        throttle = self._quirks.throttle
        if throttle is not None and throttle(operation):
            return Throttled(f"{operation} is throttled. Try again later.")
        return None

    def _throttle(self, operation: str) -> None:
        problem = self._throttle_error(operation)
        if problem is not None:
            raise problem

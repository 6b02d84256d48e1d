"""The SQLite store: reads run on the event loop, writes on one writer thread per process."""

import sqlite3
from asyncio import get_running_loop, shield, sleep, to_thread
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import Any
from zlib import crc32

from graphql_api.errors import StoreError, StoreRefused, StoreUnavailable, nearest
from graphql_api.runtime import current_meter
from graphql_api.storage import (
    Check,
    Item,
    Key,
    RangeRead,
    ReadResult,
    RowPage,
    ScanPage,
    TableDefinition,
    TransactionWrite,
    Write,
    check_key,
    check_segment,
    check_want,
    read_units,
    record_size,
)
from graphql_api.storage.engines.sqlite.database_file import connect_reader, prepare_file, unavailable_error
from graphql_api.storage.engines.sqlite.group_commit import GroupCommitWriter
from graphql_api.storage.engines.sqlite.ordered_scan import OrderedScan, plan_shard_ranges
from graphql_api.storage.engines.sqlite.record_body import decode_body
from graphql_api.storage.engines.sqlite.table_layout import (
    PhysicalIndex,
    TableLayout,
    define_table,
    encode_table_key,
    layout_version,
    load_layout,
    remove_index,
    require_table,
)
from graphql_api.storage.engines.sqlite.writer_jobs import (
    FIND_RECORD,
    LayoutJob,
    TransactionJob,
    WriteEachJob,
    WriterJob,
    backfill_batch,
    check_holds,
)

MAX_SCAN_RECORDS = 1_000
"""records per page of `scan`"""

MAX_KEYS_READ = 4_000
"""keys that a page of `scan` reads; most of them may belong to other segments"""

YIELD_AFTER_ROWS = 500
"""records to read by key before yielding to the event loop"""

_DATA_VERSION = "PRAGMA data_version"
"""a number that differs after a commit of another connection, also of this store's own writer"""

_ALL = (
    "SELECT hash, range, body FROM entries CROSS JOIN records ON id = record"
    " WHERE idx = 0 AND (base, value, shard) > (?, ?, ?) ORDER BY base, value, shard LIMIT ?"
)


async def open_sqlite(path: str | Path, *, now: Callable[[], float] = time) -> "SqliteStore":
    """Open the file, or create it. `now` provides the time for the expiry of transaction tokens."""
    file = Path(path)
    await to_thread(prepare_file, file)
    return SqliteStore(file, now)


async def open_location(location: str) -> "SqliteStore":
    """Open the file at the location of a store URL. Its directory must exist."""
    path = Path(location)
    if not path.parent.is_dir():
        raise StoreUnavailable(f"{path}: the directory {path.parent} does not exist. Create it first.")
    return await open_sqlite(path)


class SqliteStore:
    """A `Store` on one SQLite file. Use `open_sqlite` to create it."""

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        self._path = path
        self._now = now
        self._closed = False
        self._layout: TableLayout | None = None
        self._sql = connect_reader(path)
        self._snapshot: int | None = None
        """data version of the newest snapshot that was read; None: unknown"""
        self._held: tuple[Check, int] | None = None
        """the last condition that held, and the data version"""
        self._writer = GroupCommitWriter(path)

    # --- reading

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        """Read all ranges by one ordered scan per base, which stops at `want` rows."""
        check_want(want)
        if not reads:
            return []
        pages: dict[int, RowPage] = {}
        with self._reading():
            layout, index = self._readable_index(reads[0].index)
            for base, shard_ranges in plan_shard_ranges(reads, layout.definition, index).items():
                scan = OrderedScan(self._sql, index, base, shard_ranges, want)
                while not scan.run():
                    await sleep(0)
                    self._check_open()
                pages |= scan.pages()
        self._snapshot = None
        return [pages[number] for number in range(len(reads))]

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """Read records by key. Always consistent."""
        found: list[Item | None] = []
        meter = current_meter()
        with self._reading():
            self._current_layout()
            for number, key in enumerate(keys):
                check_key(key, "the requested key")
                cursor = self._sql.execute(FIND_RECORD, encode_table_key(key))
                if number == len(keys) - 1:  # While the cursor holds its snapshot, this costs little.
                    (self._snapshot,) = self._sql.execute(_DATA_VERSION).fetchone()
                row = cursor.fetchone()
                found.append(None if row is None else decode_body(row[1]))
                if number % YIELD_AFTER_ROWS == YIELD_AFTER_ROWS - 1:
                    await sleep(0)
                    self._check_open()
        if meter is not None:
            for item in dict(zip(keys, found, strict=True)).values():
                size = 0 if item is None else record_size(item)
                meter.add(read_units(size, consistent=consistent), estimated=True)
        return found

    def forget_snapshot(self) -> None:
        """Let the next `holds` evaluate the present snapshot, unless records are read before."""
        self._snapshot = None

    def holds(self, check: Check) -> bool:
        """Return whether a condition holds in a snapshot that is no older than the last read.

        A condition that held is evaluated again only after a commit.
        """
        version = self._snapshot
        if version is not None and self._held == (check, version):
            return True
        with self._reading():
            if version is None:
                (version,) = self._sql.execute(_DATA_VERSION).fetchone()
            if self._held != (check, version):
                if not check_holds(self._sql, check):
                    return False
                self._held = check, version
            return True

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        """Read a page of a segment, in the order of the file. A page may be empty although more records follow."""
        check_segment(segment, of)
        start = b"", b"", b""
        if after is not None:
            check_key(after, "the start key")
            start = encode_table_key(after)
        most = min(MAX_SCAN_RECORDS * of, MAX_KEYS_READ)
        items: list[Item] = []
        with self._reading():
            self._current_layout()
            rows = self._sql.execute(_ALL, (*start, most)).fetchall()
            self._snapshot = None
        for hash_key, range_key, body in rows:
            if crc32(range_key, crc32(hash_key)) % of == segment:
                items.append(decode_body(body))
            if len(items) == MAX_SCAN_RECORDS:
                return ScanPage(items, Key(hash_key.decode(), range_key.decode()))
        has_more = len(rows) == most
        return ScanPage(items, Key(rows[-1][0].decode(), rows[-1][1].decode()) if has_more else None)

    # --- writing

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        """Apply each write independently, all within one commit."""
        if not writes:
            return []
        problems: Sequence[StoreError | None] = await self._submit(WriteEachJob(writes))
        return problems

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Apply all writes atomically. Repeating a token within ten minutes has no further effect."""
        await self._submit(TransactionJob(writes, token, self._now()))

    # --- the table

    async def describe(self) -> TableDefinition | None:
        """Return the current table definition in the file."""
        with self._reading():
            layout = self._layout = load_layout(self._sql)
        return None if layout is None else layout.definition

    async def ensure_table(self, definition: TableDefinition) -> None:
        """Create the table or its missing indexes. Return when they contain all records that have their attributes."""
        await self._submit(LayoutJob(lambda transaction: define_table(transaction.sql, definition)))
        while await self._submit(LayoutJob(backfill_batch)):
            pass

    async def drop_index(self, name: str) -> None:
        """Remove an index and its entries."""
        await self._submit(LayoutJob(lambda transaction: remove_index(transaction.sql, name)))

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
        """Return a readable index, which another process may have added or replaced since the layout was loaded."""
        if name is not None and self._current_layout().version != layout_version(self._sql):
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
        return require_table(self._layout)

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

"""The SQLite store: reads run on the event loop, writes on one writer thread per process."""

from asyncio import get_running_loop, shield, sleep, to_thread
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import Any
from zlib import crc32

from graphql_api.errors import (
    ConditionFailed,
    MissingIndex,
    StoreDamaged,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    nearest,
)
from graphql_api.runtime import current_meter
from graphql_api.storage import (
    TRANSACTION_FACTOR,
    Check,
    GroupedPages,
    Item,
    Key,
    Put,
    RangeRead,
    ReadGroups,
    ReadResult,
    RowPage,
    ScanPage,
    ShardReads,
    TableDefinition,
    TransactionWrite,
    Write,
    change_units,
    check_groups,
    check_key,
    check_keys,
    check_segment,
    check_want,
    decode_body,
    index_of,
    read_only_error,
    read_units,
    record_size,
    write_units,
)
from graphql_api.storage.engines.sqlite.database_file import (
    STORAGE_PROBLEMS,
    Access,
    connect_reader,
    prepare_file,
    readable_access,
    storage_error,
)
from graphql_api.storage.engines.sqlite.file_health import FileHealth
from graphql_api.storage.engines.sqlite.file_watch import FileWatch
from graphql_api.storage.engines.sqlite.group_commit import GroupCommitWriter
from graphql_api.storage.engines.sqlite.grouped_scan import MAX_RANGES, grouped_scan
from graphql_api.storage.engines.sqlite.merged_scan import scan_merged
from graphql_api.storage.engines.sqlite.ordered_scan import OrderedScan, plan_shard_ranges
from graphql_api.storage.engines.sqlite.record_reads import MAX_TOGETHER, find_records
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

YIELD_AFTER_ROWS = 8 * MAX_TOGETHER
"""records to read by key before yielding to the event loop"""

_DATA_VERSION = "PRAGMA data_version"
"""a number that differs after a commit of another connection, also of this store's own writer"""

_ALL = (
    "SELECT hash, range, body FROM entries CROSS JOIN records ON id = record"
    " WHERE idx = 0 AND (base, value, shard) > (?, ?, ?) ORDER BY base, value, shard LIMIT ?"
)


async def open_sqlite(path: str | Path, *, now: Callable[[], float] = time, read_only: bool = False) -> "SqliteStore":
    """Open the file, or create it. `now` provides the time for the expiry of transaction tokens.

    With `read_only`, the file must exist, needs no write access, and refuses writes.
    """
    file = Path(path)
    if read_only:
        return SqliteStore(file, now, await to_thread(readable_access, file))
    await to_thread(prepare_file, file)
    return SqliteStore(file, now)


async def open_location(location: str, *, read_only: bool = False) -> "SqliteStore":
    """Open the file at the location of a store URL. Its directory must exist."""
    path = Path(location)
    if not path.parent.is_dir():
        raise StoreUnavailable(f"{path}: the directory {path.parent} does not exist. Create it first.")
    return await open_sqlite(path, read_only=read_only)


class SqliteStore:
    """A `Store` on one SQLite file. Use `open_sqlite` to create it."""

    def __init__(self, path: Path, now: Callable[[], float], access: Access = "rw") -> None:
        self._path = path
        self._now = now
        self._closed = False
        self._layout: TableLayout | None = None
        self._layout_seen: int | None = None
        """data version at which the layout was the present one"""
        self._watch = FileWatch(path, access)
        self._sql = connect_reader(path, access)
        self._snapshot: int | None = None
        """data version of the newest snapshot that was read; None: unknown"""
        self._held: tuple[Check, int] | None = None
        """the last condition that held, and the data version"""
        self._writer = GroupCommitWriter(path, self._watch) if access == "rw" else None
        self._health = FileHealth(path, access, self._watch)
        self._watch.add_log()
        self._watch.check()  # The path names the same file as before the connections were opened.

    # --- reading

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        """Read all ranges by one ordered scan per base, which stops at `want` rows."""
        check_want(want)
        if not reads:
            return []
        self._check_open()
        self._watch.check()
        try:
            return await self._read_present(reads, want)
        except STORAGE_PROBLEMS as problem:
            raise self._noted(problem) from problem

    async def _read_present(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        while True:
            layout, index = self._readable_index(index_of(reads))
            self._snapshot = None
            try:
                if isinstance(reads, ReadGroups):
                    pages = await self._scan_groups(reads, layout, index)
                else:
                    pages = await self._scan_ranges(reads, want, layout, index)
            except StoreRefused:
                if self._is_present(layout):
                    raise
            else:
                # Another process may have replaced the index by one of the same name.
                if index.number == 0 or self._is_present(layout):
                    return pages

    async def _scan_groups(self, reads: ReadGroups, layout: TableLayout, index: PhysicalIndex) -> Sequence[ReadResult]:
        check_groups(reads)
        pages = list[Sequence[ReadResult]]()
        together = None
        if current_meter() is None:  # Capacity is metered shard by shard.
            together = grouped_scan(layout.definition, index, reads)
        for begin in range(0, reads.group_count, MAX_RANGES):
            if begin:
                await sleep(0)
                self._check_open()
            numbers = range(begin, min(begin + MAX_RANGES, reads.group_count))
            found = [None] * len(numbers) if together is None else together.run(self._sql, numbers)
            for number, page in zip(numbers, found, strict=True):
                if page is None:
                    pages.append(await self._scan_ranges(*reads.group(number), layout, index))
                else:
                    pages.append(page)
        return GroupedPages(pages)

    async def _scan_ranges(
        self, reads: Sequence[RangeRead], want: int, layout: TableLayout, index: PhysicalIndex
    ) -> Sequence[ReadResult]:
        if isinstance(reads, ShardReads) and current_meter() is None:  # Capacity is metered shard by shard.
            merged = scan_merged(self._sql, layout.definition, index, reads, want)
            if merged is not None:
                return merged
        pages: dict[int, RowPage] = {}
        bases = plan_shard_ranges(reads, layout.definition, index)
        for base, shard_ranges in bases.items():
            limit = want if len(bases) == 1 else sum(each.read.limit for each in shard_ranges.values())
            scan = OrderedScan(self._sql, index, base, shard_ranges, min(want, limit))
            while not scan.run():
                await sleep(0)
                self._check_open()
            pages |= scan.pages()
        return [pages[number] for number in range(len(reads))]

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """Read records by key. Always consistent."""
        found: list[Item | None] = [None] * len(keys)
        meter = current_meter()
        with self._reading():
            self._current_layout()
            for begin in range(0, len(keys), MAX_TOGETHER):
                if begin and begin % YIELD_AFTER_ROWS == 0:
                    await sleep(0)
                    self._check_open()
                part = keys[begin : begin + MAX_TOGETHER]
                check_keys(part, "the requested key")
                cursor = find_records(self._sql, part)
                if begin + len(part) == len(keys):  # While the cursor holds its snapshot, this costs little.
                    (self._snapshot,) = self._sql.execute(_DATA_VERSION).fetchone()
                for number, body in cursor:
                    found[begin + number] = decode_body(body)
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
        with self._storage_errors():
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
        old_items = self._items_before(writes)
        problems: Sequence[StoreError | None] = await self._submit(WriteEachJob(writes))
        for write, old, problem in zip(writes, old_items, problems, strict=False):
            self._meter_write(write, old, problem)
        return problems

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Apply all writes atomically. Repeating a token within ten minutes has no further effect."""
        old_items = self._items_before(writes)
        problem: StoreError | None = None
        try:
            await self._submit(TransactionJob(writes, token, self._now()))
        except StoreError as error:
            problem = error
            raise
        finally:
            for write, old in zip(writes, old_items, strict=False):
                self._meter_write(write, old, problem, factor=TRANSACTION_FACTOR)

    def _items_before(self, writes: Sequence[TransactionWrite]) -> list[Item | None]:
        """Return the stored items that writes replace, if capacity is metered. Other writers may change them."""
        if current_meter() is None:
            return []
        rows = []
        with self._reading():
            table = self._current_layout().definition
            for write in writes:
                item = write.item if isinstance(write, Put) else {}
                attributes = item.get(table.hash_attribute), item.get(table.range_attribute)
                key = Key(*map(str, attributes)) if isinstance(write, Put) else write.key
                rows.append(self._sql.execute(FIND_RECORD, encode_table_key(key)).fetchone())
        return [None if row is None else decode_body(row[1]) for row in rows]

    def _meter_write(
        self, write: TransactionWrite, old: Item | None, problem: StoreError | None, factor: int = 1
    ) -> None:
        """Meter what DynamoDB would charge for a write: it also charges for conditions that fail."""
        meter = current_meter()
        if meter is not None and (problem is None or isinstance(problem, ConditionFailed)):
            new = write.item if isinstance(write, Put) else None
            is_written = problem is None and not isinstance(write, Check)
            table = self._current_layout().definition
            units = change_units(table, old, new) if is_written else write_units(record_size(old or {}))
            meter.add_write(factor * units, estimated=True)

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

    async def check_health(self) -> None:
        """Write a value, read it back, and read a sample of the records. Raise an error if one of these fails."""
        self._check_open()
        await self._health.check(self._writer)

    async def close(self) -> None:
        """Complete accepted writes. Later calls are refused."""
        if not self._closed:
            self._closed = True
            if self._writer is not None:
                await shield(get_running_loop().run_in_executor(None, self._writer.finish))
            self._sql.close()

    # --- helpers

    @property
    def writer(self) -> GroupCommitWriter:
        """Return the writer. Refuse if the store is read-only."""
        if self._writer is None:
            raise read_only_error(str(self._path))
        return self._writer

    async def _submit(self, job: WriterJob) -> Any:
        self._check_open()
        writer = self.writer
        self._health.raise_damage()
        return await writer.submit(job)

    def _readable_index(self, name: str | None) -> tuple[TableLayout, PhysicalIndex]:
        """Return a readable index. One that is missing or incomplete may have been added or backfilled meanwhile."""
        layout = self._current_layout()
        index = layout.by_name.get(name)
        if (index is None or not index.is_backfilled) and not self._is_present(layout):
            layout = self._current_layout()
            index = layout.by_name.get(name)
        if index is None:
            known = [known for known in layout.by_name if known is not None]
            raise MissingIndex(
                f"The table has no index {name!r}.{nearest(str(name), known)} Call ensure_table to add it."
            )
        if not index.is_backfilled:
            raise StoreUnavailable(f"Index {name!r} is still being backfilled. Try again later.")
        return layout, index

    def _is_present(self, layout: TableLayout) -> bool:
        """Return whether a layout is that of the present file. Otherwise the next use loads the present one."""
        (version,) = self._sql.execute(_DATA_VERSION).fetchone()
        self._snapshot = version
        if self._layout_seen != version:
            if layout.version != layout_version(self._sql):
                self._layout = None
                return False
            self._layout_seen = version
        return True

    def _current_layout(self) -> TableLayout:
        if self._layout is None:
            self._layout = load_layout(self._sql)
        return require_table(self._layout)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        self._check_open()
        self._watch.check()
        with self._storage_errors():
            yield

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except STORAGE_PROBLEMS as problem:
            raise self._noted(problem) from problem

    def _noted(self, problem: Exception) -> StoreError:
        """Return the error for a problem of SQLite. Damage is noted."""
        error = storage_error(self._path, problem)
        if isinstance(error, StoreDamaged):
            self._health.damage = error
        return error

    def _check_open(self) -> None:
        if self._closed:
            raise StoreRefused(f"The store on {self._path} is closed. Open it again.")

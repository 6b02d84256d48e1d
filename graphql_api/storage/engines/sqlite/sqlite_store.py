"""The store on one SQLite file: reads on the event loop, one writing thread, any number of processes."""

import sqlite3
from asyncio import get_running_loop, shield, sleep, to_thread
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import Any
from zlib import crc32

from graphql_api.errors import StoreError, StoreRefused, StoreUnavailable, Throttled, WrongTable, nearest
from graphql_api.runtime import present_bill
from graphql_api.storage import (
    Item,
    Key,
    RangeRead,
    ReadAnswer,
    ScanPage,
    TableDefinition,
    TogetherWrite,
    Write,
    check_segment,
    check_want,
    read_units,
    record_size,
)
from graphql_api.storage.engines.sqlite.database_file import connect_reader, prepare_file, unavailable
from graphql_api.storage.engines.sqlite.group_commit import Writer
from graphql_api.storage.engines.sqlite.key_bytes import check_key
from graphql_api.storage.engines.sqlite.ordered_scan import Scan
from graphql_api.storage.engines.sqlite.record_body import decode_body
from graphql_api.storage.engines.sqlite.row_projection import views_of
from graphql_api.storage.engines.sqlite.shard_ranges import lanes_of
from graphql_api.storage.engines.sqlite.table_layout import NO_TABLE, Layout, PhysicalIndex, load_layout
from graphql_api.storage.engines.sqlite.test_switches import PRODUCTION, Switches
from graphql_api.storage.engines.sqlite.writer_jobs import Define, Fill, Job, Settle, WriteEach, WriteTogether

MAX_SCANNED = 1_000
"""records on a page of `scan`"""

LOOKED_AT_MOST = 4_000
"""keys that a page of `scan` looks at, most of them of other segments"""

BREATH_AFTER = 500
"""records fetched by key before the event loop gets its turn"""

_BY_KEY = (
    "SELECT body FROM entries CROSS JOIN records ON id = record"
    " WHERE idx = 0 AND base = ? AND value = ? AND shard = ? AND tie = x''"
)
_ALL = (
    "SELECT hash, range, body FROM entries CROSS JOIN records ON id = record"
    " WHERE idx = 0 AND (base, value, shard) > (?, ?, ?) ORDER BY base, value, shard LIMIT ?"
)


async def open_sqlite(
    path: str | Path, *, switches: Switches = PRODUCTION, now: Callable[[], float] = time
) -> "SqliteStore":
    """Opens the file, and makes it if there is none; `now` tells how old a transaction's token is."""
    place = Path(path)
    await to_thread(prepare_file, place, switches.tie_order)
    store = SqliteStore(place, switches, now)
    if not switches.index_lag and store.is_lagging():
        await store.settle()
    return store


class SqliteStore:
    """A `Store` on one file; made by `open_sqlite`."""

    def __init__(self, path: Path, switches: Switches, now: Callable[[], float]) -> None:
        self._path = path
        self._switches = switches
        self._now = now
        self._closed = False
        self._layout: Layout | None = None
        self._sql = connect_reader(path)
        self._writer = Writer(path, switches.index_lag)

    # --- reading

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadAnswer]:
        """Answers several reads of one index by one ordered scan, which stops at `want` rows."""
        check_want(want)
        if not reads:
            return []
        answers: list[ReadAnswer | None] = [None] * len(reads)
        if self._switches.throttle is not None:
            answers = [self._throttling("read_ranges") for _ in reads]
        throttled = frozenset(number for number, answer in enumerate(answers) if answer is not None)
        with self._reading():
            layout, index = self._index(reads[0].index)
            views = views_of(layout, reads)
            for base, lanes in lanes_of(reads, throttled, index, layout.tie_order).items():
                scan = Scan(
                    self._sql,
                    index,
                    views,
                    base,
                    lanes,
                    want=want,
                    page_bytes=self._switches.page_bytes,
                    descending=reads[0].descending,
                )
                while not scan.run():
                    await sleep(0)
                    self._check_open()
                for number, page in scan.pages():
                    answers[number] = page
        return [answer for answer in answers if answer is not None]

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """The records at these keys; always consistent."""
        self._throttle("get_many")
        found: list[Item | None] = []
        bill = present_bill()
        with self._reading():
            self._present_layout()
            for number, key in enumerate(keys):
                row = self._sql.execute(_BY_KEY, check_key(key, "the key asked for")).fetchone()
                found.append(None if row is None else decode_body(row[0]))
                if number % BREATH_AFTER == BREATH_AFTER - 1:
                    await sleep(0)
                    self._check_open()
        if bill is not None:
            for item in dict(zip(keys, found, strict=True)).values():
                size = 0 if item is None else record_size(item)
                bill.add(read_units(size, consistent=consistent), estimated=True)
        return found

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        """Some records of a segment, in the order of the file; a page may be empty although more follows."""
        self._throttle("scan")
        check_segment(segment, of)
        place = (b"", b"", b"") if after is None else check_key(after, "the key to go on behind")
        items: list[Item] = []
        with self._reading():
            self._present_layout()
            rows = self._sql.execute(_ALL, (*place, min(MAX_SCANNED * of, LOOKED_AT_MOST))).fetchall()
        for hash_key, range_key, body in rows:
            if crc32(range_key, crc32(hash_key)) % of == segment:
                items.append(decode_body(body))
            if len(items) == MAX_SCANNED:
                return ScanPage(items, Key(hash_key.decode(), range_key.decode()))
        if len(rows) < min(MAX_SCANNED * of, LOOKED_AT_MOST):
            return ScanPage(items, None)
        return ScanPage(items, Key(rows[-1][0].decode(), rows[-1][1].decode()))

    # --- writing

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        """Applies each write by itself, all of them within one commit."""
        self._throttle("write")
        if not writes:
            return []
        problems: Sequence[StoreError | None] = await self._do(WriteEach(writes))
        return problems

    async def write_together(self, writes: Sequence[TogetherWrite], token: str) -> None:
        """Applies all writes or none; the same token within ten minutes changes nothing more."""
        self._throttle("write_together")
        await self._do(WriteTogether(writes, token, self._now()))

    # --- the table

    async def describe(self) -> TableDefinition | None:
        """The table as the file has it now."""
        with self._reading():
            layout = self._layout = load_layout(self._sql)
        return None if layout is None else layout.definition

    async def ensure_table(self, definition: TableDefinition) -> None:
        """Makes the table or its missing indexes; returns when all of them hold all records."""
        self._throttle("ensure_table")
        await self._do(Define(definition))
        while await self._do(Fill()):
            pass

    async def settle(self) -> None:
        """Lets every index entry catch up with the records (see `Switches.index_lag`)."""
        await self._do(Settle())

    def is_lagging(self) -> bool:
        """Whether index entries are behind the records."""
        with self._reading():
            return bool(self._sql.execute("SELECT EXISTS (SELECT 1 FROM lagging)").fetchone()[0])

    async def close(self) -> None:
        """Finishes what was accepted; later calls are refused."""
        if not self._closed:
            self._closed = True
            await shield(get_running_loop().run_in_executor(None, self._writer.finish))
            self._sql.close()

    # --- how

    async def _do(self, job: Job) -> Any:
        self._check_open()
        return await self._writer.submit(job)

    def _index(self, name: str | None) -> tuple[Layout, PhysicalIndex]:
        """An index that can be read; another process may have made or filled it since the last look."""
        layout = self._present_layout()
        index = layout.by_name.get(name)
        if index is None or not index.filled:
            self._layout = None
            layout = self._present_layout()
            index = layout.by_name.get(name)
        if index is None:
            known = [known for known in layout.by_name if known is not None]
            raise StoreRefused(
                f"The table has no index {name!r}.{nearest(str(name), known)} Call ensure_table for new ones."
            )
        if not index.filled:
            raise StoreUnavailable(f"Index {name!r} is still being filled. Try again later.")
        return layout, index

    def _present_layout(self) -> Layout:
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
            raise unavailable(self._path, problem) from problem

    def _check_open(self) -> None:
        if self._closed:
            raise StoreRefused(f"The store on {self._path} is closed. Open it again.")

    def _throttling(self, operation: str) -> Throttled | None:
        throttle = self._switches.throttle
        if throttle is not None and throttle(operation):
            return Throttled(f"{operation} is throttled. Try again a little later.")
        return None

    def _throttle(self, operation: str) -> None:
        problem = self._throttling(operation)
        if problem is not None:
            raise problem

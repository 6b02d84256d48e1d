"""The DynamoDB store."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from random import Random
from time import monotonic

import aioboto3

from graphql_api.errors import StoreError, StoreRefused
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
)
from graphql_api.storage.engines.dynamodb import point_reads
from graphql_api.storage.engines.dynamodb.calls import Calls
from graphql_api.storage.engines.dynamodb.client import open_client
from graphql_api.storage.engines.dynamodb.dynamodb_settings import DEFAULTS, DynamoSettings
from graphql_api.storage.engines.dynamodb.filter_expressions import extras_of_reads
from graphql_api.storage.engines.dynamodb.item_writes import Writer
from graphql_api.storage.engines.dynamodb.range_queries import Query, check_reads, rows_looked_at
from graphql_api.storage.engines.dynamodb.table_lifecycle import Table
from graphql_api.storage.engines.dynamodb.task_groups import all_of

_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")


async def open_dynamodb(
    table: str,
    *,
    region: str | None = None,
    endpoint: str | None = None,
    settings: DynamoSettings = DEFAULTS,
    session: aioboto3.Session | None = None,
    clock: Callable[[], float] = monotonic,
    random: Random | None = None,
) -> "DynamoStore":
    """Opens a table, which may still have to be made; region and credentials are found as AWS's own tools find them.

    `session` brings credentials of its own; `clock` times retries and breakers, `random` draws the pauses.
    """
    if not _NAME.fullmatch(table):
        raise StoreRefused(f"{table!r} is no name of a table. Use 3 to 255 letters, digits, '_', '-' and '.'.")
    stack = AsyncExitStack()
    client = await open_client(stack, session or aioboto3.Session(), region, endpoint, settings)
    return DynamoStore(Calls(client, table, settings, clock, random or Random()), stack)  # noqa: S311 - pauses, no secrets


class DynamoStore:
    """A `Store` on one table; made by `open_dynamodb`."""

    def __init__(self, calls: Calls, stack: AsyncExitStack) -> None:
        self._calls = calls
        self._stack = stack
        self._table = Table(calls)
        self._closed = False
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    # --- reading

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadAnswer]:
        """Answers each read by queries of its own, all at once; each stops at its limit, and at `want` rows."""
        check_want(want)
        async with self._working() as deadline:
            if not reads:
                return []
            standing, index = await self._table.index(reads[0].index, deadline)
            check_reads(reads, index.range_type)

            extras = extras_of_reads(standing.definition, index, reads)

            async def answer(number: int) -> ReadAnswer:
                read = reads[number]
                limit = rows_looked_at(read, want)
                query = Query(self._calls, standing.definition, index, read, limit, extras[number])
                try:
                    return await query.run(deadline)
                except StoreError as problem:
                    return problem

            return await all_of(answer, range(len(reads)))

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """The records at these keys, by batches of a hundred."""
        for key in keys:
            point_reads.check_key(key, "the key asked for")
        async with self._working() as deadline:
            standing = await self._table.standing(deadline)
            return await point_reads.get_many(self._calls, standing.definition, keys, consistent, deadline)

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        """Some records of a segment."""
        check_segment(segment, of)
        async with self._working() as deadline:
            standing = await self._table.standing(deadline)
            return await point_reads.scan(self._calls, standing.definition, segment, of, after, deadline)

    # --- writing

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        """Applies each write by itself, in batches where it expects nothing."""
        async with self._working() as deadline:
            if not writes:
                return []
            return await Writer(self._calls, await self._table.standing(deadline)).each(writes)

    async def write_together(self, writes: Sequence[TogetherWrite], token: str) -> None:
        """Applies all writes or none; the engine remembers the token for ten minutes."""
        async with self._working() as deadline:
            await Writer(self._calls, await self._table.standing(deadline)).together(writes, token)

    # --- the table

    async def describe(self) -> TableDefinition | None:
        """The table as it stands now; its indexes by name."""
        async with self._working() as deadline:
            standing = await self._table.look(deadline)
            if standing is None:
                return None
            return replace(standing.definition, ttl_attribute=await self._table.expiry(deadline))

    async def ensure_table(self, definition: TableDefinition) -> None:
        """Makes the table or its missing indexes, one after the other as the engine wants it."""
        async with self._working():
            await self._table.ensure(definition)

    async def close(self) -> None:
        """Finishes what was accepted; later calls are refused."""
        if not self._closed:
            self._closed = True
            await self._idle.wait()
            await self._stack.aclose()

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[float]:
        """Keeps the store open while a call is under way, and gives the call its deadline."""
        if self._closed:
            raise StoreRefused(f"The store on {self._calls.table!r} is closed. Open it again.")
        self._under_way += 1
        self._idle.clear()
        try:
            yield self._calls.deadline()
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

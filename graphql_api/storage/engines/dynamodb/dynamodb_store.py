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
    ReadResult,
    ScanPage,
    TableDefinition,
    TransactionWrite,
    Write,
    check_segment,
    check_want,
)
from graphql_api.storage.engines.dynamodb import point_reads
from graphql_api.storage.engines.dynamodb.api_client import ApiClient
from graphql_api.storage.engines.dynamodb.client import open_client
from graphql_api.storage.engines.dynamodb.dynamodb_settings import DEFAULTS, DynamoSettings
from graphql_api.storage.engines.dynamodb.filter_expressions import build_expressions_of_reads
from graphql_api.storage.engines.dynamodb.item_writes import ItemWriter
from graphql_api.storage.engines.dynamodb.range_queries import RangeQuery, check_reads, query_limit
from graphql_api.storage.engines.dynamodb.table_lifecycle import DynamoTable
from graphql_api.storage.engines.dynamodb.task_groups import run_concurrently

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
    """Open a table, which may not exist yet. Region and credentials are resolved as by the tools of AWS.

    `session` provides other credentials, `clock` the time for retries and circuit breakers, `random` the jitter.
    """
    if not _NAME.fullmatch(table):
        raise StoreRefused(f"{table!r} is not a valid table name. Use 3 to 255 letters, digits, '_', '-' and '.'.")
    stack = AsyncExitStack()
    client = await open_client(stack, session or aioboto3.Session(), region, endpoint, settings)
    return DynamoStore(ApiClient(client, table, settings, clock, random or Random()), stack)  # noqa: S311 - jitter, no secrets


class DynamoStore:
    """A `Store` on one table. Use `open_dynamodb` to create it."""

    def __init__(self, api: ApiClient, stack: AsyncExitStack) -> None:
        self._api = api
        self._stack = stack
        self._table = DynamoTable(api)
        self._closed = False
        self._active_calls = 0
        self._idle = asyncio.Event()
        self._idle.set()

    # --- reading

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        """Execute the reads as concurrent queries. Each stops at its limit, and at `want` rows."""
        check_want(want)
        async with self._working() as deadline:
            if not reads:
                return []
            description, index = await self._table.index(reads[0].index, deadline)
            check_reads(reads, index.range_type)

            expressions = build_expressions_of_reads(description.definition, index, reads)

            async def read_one(number: int) -> ReadResult:
                read = reads[number]
                limit = query_limit(read, want)
                query = RangeQuery(self._api, description.definition, index, read, limit, expressions[number])
                try:
                    return await query.run(deadline)
                except StoreError as problem:
                    return problem

            return await run_concurrently(read_one, range(len(reads)))

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """Read records by key, in batches of 100."""
        for key in keys:
            point_reads.check_key(key, "the requested key")
        async with self._working() as deadline:
            description = await self._table.description(deadline)
            return await point_reads.get_many(self._api, description.definition, keys, consistent, deadline)

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        """Read a page of a segment."""
        check_segment(segment, of)
        async with self._working() as deadline:
            description = await self._table.description(deadline)
            return await point_reads.scan(self._api, description.definition, segment, of, after, deadline)

    # --- writing

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        """Apply each write independently, in batches if it has no condition."""
        async with self._working() as deadline:
            if not writes:
                return []
            return await ItemWriter(self._api, await self._table.description(deadline)).write_each(writes)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Apply all writes atomically. DynamoDB remembers the token for ten minutes."""
        async with self._working() as deadline:
            await ItemWriter(self._api, await self._table.description(deadline)).write_transaction(writes, token)

    # --- the table

    async def describe(self) -> TableDefinition | None:
        """Return the current table definition, with indexes sorted by name."""
        async with self._working() as deadline:
            description = await self._table.describe(deadline)
            if description is None:
                return None
            return replace(description.definition, ttl_attribute=await self._table.read_ttl_attribute(deadline))

    async def ensure_table(self, definition: TableDefinition) -> None:
        """Create the table or its missing indexes, one by one as DynamoDB requires."""
        async with self._working():
            await self._table.ensure(definition)

    async def close(self) -> None:
        """Complete accepted calls. Later calls are refused."""
        if not self._closed:
            self._closed = True
            await self._idle.wait()
            await self._stack.aclose()

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[float]:
        """Keep the store open during a call, and provide the deadline of the call."""
        if self._closed:
            raise StoreRefused(f"The store on {self._api.table!r} is closed. Open it again.")
        self._active_calls += 1
        self._idle.clear()
        try:
            yield self._api.new_deadline()
        finally:
            self._active_calls -= 1
            if not self._active_calls:
                self._idle.set()

"""The DynamoDB store, and the store URLs that open it: `table?name=value&…`."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import fields, replace
from math import ceil, isfinite
from random import Random
from time import monotonic
from typing import Any
from urllib.parse import parse_qsl

import aioboto3

from graphql_api.errors import (
    ConflictingArguments,
    InvalidValue,
    StoreError,
    StoreRefused,
    UnknownArgument,
    about,
    nearest,
)
from graphql_api.runtime import current_meter
from graphql_api.storage import (
    Item,
    Key,
    RangeRead,
    ReadGroups,
    ReadOnlyStore,
    ReadResult,
    ScanPage,
    ShardReads,
    Store,
    TableDefinition,
    TransactionWrite,
    Write,
    build_per_search,
    check_key,
    check_reads,
    check_segment,
    check_want,
    current_bounds,
    most_of_keys,
)
from graphql_api.storage.engines.dynamodb.api_client import (
    ApiCall,
    ApiClient,
    check_count,
    run_concurrently,
)
from graphql_api.storage.engines.dynamodb.direct_transport import DirectTransport
from graphql_api.storage.engines.dynamodb.driver_client import ClientTransport, Response, Transport, open_client
from graphql_api.storage.engines.dynamodb.dynamodb_settings import DEFAULTS, DynamoSettings
from graphql_api.storage.engines.dynamodb.error_mapping import InconsistentResponse
from graphql_api.storage.engines.dynamodb.filter_expressions import build_expressions
from graphql_api.storage.engines.dynamodb.item_writes import ItemWriter
from graphql_api.storage.engines.dynamodb.range_queries import RangeQuery
from graphql_api.storage.engines.dynamodb.table_lifecycle import DynamoTable
from graphql_api.storage.engines.dynamodb.wire_format import WireItem, decode_item, decode_key, encode_key

MAX_KEYS_PER_BATCH = 100
MAX_SCAN_RECORDS = 1000

_TABLE_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_SETTING_TYPES = {setting.name: type(getattr(DEFAULTS, setting.name)) for setting in fields(DynamoSettings)}


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
    if not _TABLE_NAME.fullmatch(table):
        raise StoreRefused(f"{table!r} is not a valid table name. Use 3 to 255 letters, digits, '_', '-' and '.'.")
    stack = AsyncExitStack()
    client = await open_client(stack, session or aioboto3.Session(), region, endpoint, settings)
    transport: Transport = ClientTransport(client)
    if settings.transport == "direct":
        transport = DirectTransport(client, settings.pool)
        stack.push_async_callback(transport.close)
    return DynamoStore(ApiClient(transport, table, settings, clock, random or Random()), stack)  # noqa: S311 - jitter, no secrets


async def open_location(location: str, *, read_only: bool = False) -> Store:
    """Open a table. The options are region, endpoint, and every setting of `DynamoSettings`."""
    with about("url"):
        table, options = _parse_location(location)
        region, endpoint = options.pop("region", None), options.pop("endpoint", None)
        if endpoint is not None and not re.fullmatch(r"https?://[^/?#\s]+/?", endpoint):
            raise InvalidValue(f"endpoint is {endpoint!r}. Use a URL such as http://localhost:8000.")
        settings: dict[str, Any] = {name: _parse_setting(name, text) for name, text in options.items()}
        store = await open_dynamodb(table, region=region, endpoint=endpoint, settings=DynamoSettings(**settings))
        return ReadOnlyStore(store) if read_only else store


def _parse_location(location: str) -> tuple[str, dict[str, str]]:
    table, _, query = location.partition("?")
    if not _TABLE_NAME.fullmatch(table):
        raise InvalidValue(
            f"{table!r} is not a valid table name. Use dynamodb:// and 3 to 255 letters, digits, '_', '-' and '.'."
        )
    try:
        pairs = parse_qsl(query, strict_parsing=True) if query else []
    except ValueError:
        raise InvalidValue(f"The options {query!r} are invalid. Use name=value, separated by &.") from None
    duplicate = next((name for name, count in Counter(name for name, _ in pairs).items() if count > 1), None)
    if duplicate is not None:
        raise ConflictingArguments(f"The option {duplicate} is set twice. Set it once.")
    return table, dict(pairs)


def _parse_setting(name: str, text: str) -> int | float | str:
    kind = _SETTING_TYPES.get(name)
    if kind is None:
        hint = nearest(name, ["region", "endpoint", *_SETTING_TYPES])
        raise UnknownArgument(f"{name!r} is not an option of a DynamoDB store URL.{hint}")
    if kind is str:
        return text
    try:
        number: int | float = kind(text)
        if isfinite(number):
            return number
    except ValueError:
        pass
    raise InvalidValue(f"{name} is {text!r}. Use a {'whole ' if kind is int else ''}number.")


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
        async with self._working(len(reads)) as deadline:
            if not reads:
                return []
            table, index = await self._table.index(reads[0].index, deadline)
            check_reads(reads, index.range_type)
            is_one_range, wants, reads = isinstance(reads, ShardReads), _wants(reads, want), [*reads]
            expressions = build_per_search(
                reads, lambda read: build_expressions(table, index, read.filter, read.attributes)
            )

            def query_of(number: int) -> RangeQuery:
                return RangeQuery(self._api, table, index, reads[number], wants[number], expressions[number], example)

            example = None
            example = query_of(0).first_request() if is_one_range else None

            async def read_one(number: int) -> ReadResult:
                query = query_of(number)
                try:
                    return await query.run(deadline)
                except StoreError as problem:
                    return problem

            return await run_concurrently(read_one, range(len(reads)))

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """Read records by key, in batches of 100."""
        for key in keys:
            check_key(key, "the requested key")
        found: dict[Key, WireItem] = {}
        async with self._working(ceil(len(keys) / MAX_KEYS_PER_BATCH)) as deadline:
            table = await self._table.definition(deadline)

            async def send(wanted: list[Key]) -> list[Key]:
                items, unprocessed = await self._api.execute(self._batch_call(table, wanted, consistent, deadline))
                found.update(items)
                return [key for key in wanted if key in unprocessed]

            async def fetch(batch: list[Key]) -> None:
                problem = "BatchGetItem left {} records unprocessed"
                await self._api.repeat_unprocessed(batch, send, deadline, problem)

            distinct_keys = [*dict.fromkeys(keys)]
            starts = range(0, len(distinct_keys), MAX_KEYS_PER_BATCH)
            await run_concurrently(fetch, [distinct_keys[start : start + MAX_KEYS_PER_BATCH] for start in starts])
        return [decode_item(found[key]) if key in found else None for key in keys]

    def _batch_call(
        self, table: TableDefinition, wanted: list[Key], consistent: bool, deadline: float
    ) -> ApiCall[tuple[dict[Key, WireItem], set[Key]]]:
        """Return a call whose result is the found items, and the keys that DynamoDB left unprocessed."""

        def parse(response: Response) -> tuple[dict[Key, WireItem], set[Key]]:
            items = {decode_key(table, item): item for item in response["Responses"].get(self._api.table, ())}
            unprocessed = response["UnprocessedKeys"].get(self._api.table, {}).get("Keys", ())
            unprocessed_keys = {decode_key(table, key) for key in unprocessed}
            if not (items.keys() | unprocessed_keys).issubset(wanted):
                raise InconsistentResponse("it contains a record that was not requested")
            return items, unprocessed_keys

        request = {"Keys": [encode_key(table, key) for key in wanted], "ConsistentRead": consistent}
        most = 0.0 if current_meter() is None else most_of_keys(wanted, current_bounds(), consistent=consistent)
        return ApiCall("BatchGetItem", {"RequestItems": {self._api.table: request}}, parse, deadline, most_units=most)

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        """Read a page of a segment."""
        check_segment(segment, of)
        request: dict[str, Any] = {
            "TableName": self._api.table,
            "Segment": segment,
            "TotalSegments": of,
            "Limit": MAX_SCAN_RECORDS,
            "ConsistentRead": True,
        }
        async with self._working() as deadline:
            table = await self._table.definition(deadline)
            if after is not None:
                check_key(after, "the start key")
                request["ExclusiveStartKey"] = encode_key(table, after)

            def parse(response: Response) -> tuple[list[WireItem], Key | None]:
                items, last = response["Items"], response.get("LastEvaluatedKey")
                for item in items:
                    decode_key(table, item)
                check_count(response)
                return items, None if last is None else decode_key(table, last)

            items, last = await self._api.execute(ApiCall("Scan", request, parse, deadline))
        return ScanPage([decode_item(item) for item in items], last)

    # --- writing

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        """Apply each write independently, in batches if it has no condition."""
        async with self._working(min(len(writes), self._api.settings.batches_at_once)) as deadline:
            if not writes:
                return []
            return await (await self._writer(deadline)).write_each(writes)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Apply all writes atomically. DynamoDB remembers the token for ten minutes."""
        async with self._working() as deadline:
            await (await self._writer(deadline)).write_transaction(writes, token)

    async def _writer(self, deadline: float) -> ItemWriter:
        return ItemWriter(self._api, await self._table.definition(deadline))

    # --- the table

    async def describe(self) -> TableDefinition | None:
        """Return the current table definition, with indexes sorted by name."""
        async with self._working():
            description = await self._table.describe()
            if description is None:
                return None
            return replace(description.definition, ttl_attribute=await self._table.read_ttl_attribute())

    async def ensure_table(self, definition: TableDefinition) -> None:
        """Create the table or its missing indexes, one by one as DynamoDB requires."""
        async with self._working():
            await self._table.ensure(definition)

    async def drop_index(self, name: str) -> None:
        """Remove an index, and wait until it is gone."""
        async with self._working():
            await self._table.drop_index(name)

    async def close(self) -> None:
        """Complete accepted calls. Later calls are refused."""
        if not self._closed:
            self._closed = True
            await self._idle.wait()
            await self._stack.aclose()

    @asynccontextmanager
    async def _working(self, fan_out: int = 1) -> AsyncIterator[float]:
        """Keep the store open during a call of this many concurrent requests, and provide the deadline of the call."""
        if self._closed:
            raise StoreRefused(f"The store on {self._api.table!r} is closed. Open it again.")
        self._active_calls += 1
        self._idle.clear()
        try:
            with self._api.operation(fan_out):
                yield self._api.new_deadline()
        finally:
            self._active_calls -= 1
            if not self._active_calls:
                self._idle.set()


def _wants(reads: Sequence[RangeRead], want: int) -> Sequence[int]:
    """Return how many rows each read may return, besides its limit."""
    if isinstance(reads, ReadGroups):
        return [group.want for group in reads.groups for _ in range(len(group.reads))]
    return [want] * len(reads)

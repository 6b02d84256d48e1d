"""Reads by key, and table scans."""

import asyncio
from collections.abc import Sequence
from typing import Any

from graphql_api.errors import Throttled
from graphql_api.runtime import count_retry
from graphql_api.storage import MAX_HASH_BYTES, MAX_RANGE_BYTES, Item, Key, ScanPage, TableDefinition, encode_key_text
from graphql_api.storage.engines.dynamodb.api_client import ApiCall, ApiClient, Response, require_members
from graphql_api.storage.engines.dynamodb.error_mapping import InconsistentResponse
from graphql_api.storage.engines.dynamodb.task_groups import run_concurrently, split_into_chunks
from graphql_api.storage.engines.dynamodb.wire_format import WireItem, decode_item

MAX_KEYS_PER_BATCH = 100
MAX_SCAN_RECORDS = 1000


def check_key(key: Key, where: str) -> None:
    """Refuse an invalid key."""
    encode_key_text(key.hash, MAX_HASH_BYTES, f"{where}: the hash key")
    encode_key_text(key.range, MAX_RANGE_BYTES, f"{where}: the range key")


def encode_key(table: TableDefinition, key: Key) -> WireItem:
    """Encode the key of a record."""
    return {table.hash_attribute: {"S": key.hash}, table.range_attribute: {"S": key.range}}


def decode_key(table: TableDefinition, item: WireItem) -> Key:
    """Decode the key of a record. Refuse a record without a key."""
    try:
        return Key(item[table.hash_attribute]["S"], item[table.range_attribute]["S"])
    except (KeyError, TypeError) as problem:
        raise InconsistentResponse("it contains a record without its keys") from problem


async def get_many(
    api: ApiClient, table: TableDefinition, keys: Sequence[Key], consistent: bool, deadline: float
) -> list[Item | None]:
    """Read records by key, in the order of `keys`. Each distinct key is requested once."""
    distinct_keys = list(dict.fromkeys(keys))
    found: dict[Key, WireItem] = {}

    async def fetch(batch: list[Key]) -> None:
        found.update(await _get_batch(api, table, batch, consistent, deadline))

    await run_concurrently(fetch, split_into_chunks(distinct_keys, MAX_KEYS_PER_BATCH))
    return [decode_item(found[key]) if key in found else None for key in keys]


async def _get_batch(
    api: ApiClient, table: TableDefinition, keys: list[Key], consistent: bool, deadline: float
) -> dict[Key, WireItem]:
    """Read one batch. Request unprocessed keys again until all are read or the deadline is reached."""
    found: dict[Key, WireItem] = {}
    remaining = set(keys)
    attempt = 0
    while remaining:
        wanted = [key for key in keys if key in remaining]
        request = {"Keys": [encode_key(table, key) for key in wanted], "ConsistentRead": consistent}
        call = ApiCall("BatchGetItem", {"RequestItems": {api.table: request}}, require_members("Responses"), deadline)

        def check(response: Response, wanted: frozenset[Key] = frozenset(wanted)) -> None:
            _check_response(response, api.table, table, wanted)

        call.check = check
        response = await api.execute(call)
        found |= {decode_key(table, item): item for item in response["Responses"].get(api.table, ())}
        unprocessed = {decode_key(table, key) for key in _unprocessed(response, api.table)}
        attempt = 1 if len(unprocessed) < len(remaining) else attempt + 1
        remaining = unprocessed
        if remaining:
            await back_off(api, attempt, deadline, f"BatchGetItem left {len(remaining)} records unprocessed")
    return found


async def back_off(api: ApiClient, attempt: int, deadline: float, problem: str) -> None:
    """Pause before unprocessed items are requested again. Raise Throttled if the deadline is too close."""
    seconds = api.backoff_seconds(attempt)
    if api.seconds_left(deadline) <= seconds:
        raise Throttled(f"{problem}, and the deadline is reached. Try again later.")
    count_retry()
    await asyncio.sleep(seconds)


def _unprocessed(response: Response, name: str) -> list[WireItem]:
    keys: list[WireItem] = response.get("UnprocessedKeys", {}).get(name, {}).get("Keys", [])
    return keys


def _check_response(response: Response, name: str, table: TableDefinition, wanted: frozenset[Key]) -> None:
    if "Responses" not in response or "UnprocessedKeys" not in response:
        raise InconsistentResponse("it lacks the records or the unprocessed keys")
    for item in (*response["Responses"].get(name, ()), *_unprocessed(response, name)):
        if decode_key(table, item) not in wanted:
            raise InconsistentResponse("it contains a record that was not requested")


async def scan(
    api: ApiClient, table: TableDefinition, segment: int, of: int, after: Key | None, deadline: float
) -> ScanPage:
    """Read a page of a segment."""
    request: dict[str, Any] = {
        "TableName": api.table,
        "Segment": segment,
        "TotalSegments": of,
        "Limit": MAX_SCAN_RECORDS,
        "ConsistentRead": True,
    }
    if after is not None:
        check_key(after, "the start key")
        request["ExclusiveStartKey"] = encode_key(table, after)

    def check(response: Response) -> None:
        items = response.get("Items")
        if not isinstance(items, list) or response.get("Count") != len(items):
            raise InconsistentResponse("the number of items differs from Count")
        for item in (*items, *([response["LastEvaluatedKey"]] if "LastEvaluatedKey" in response else [])):
            decode_key(table, item)

    response = await api.execute(ApiCall("Scan", request, check, deadline))
    last = response.get("LastEvaluatedKey")
    return ScanPage(
        [decode_item(item) for item in response["Items"]], None if last is None else decode_key(table, last)
    )

"""Records by key, and all records for upkeep."""

import asyncio
from collections.abc import Sequence
from typing import Any

from graphql_api.errors import Throttled
from graphql_api.runtime import count_retry
from graphql_api.storage import MAX_HASH_BYTES, MAX_RANGE_BYTES, Item, Key, ScanPage, TableDefinition, key_text
from graphql_api.storage.engines.dynamodb.calls import Answer, Call, Calls, requires
from graphql_api.storage.engines.dynamodb.error_mapping import InconsistentAnswer
from graphql_api.storage.engines.dynamodb.task_groups import all_of, chunks
from graphql_api.storage.engines.dynamodb.wire_format import WireItem, decode_item

MAX_KEYS = 100
MAX_SCANNED = 1000


def check_key(key: Key, where: str) -> None:
    """Refuses what can be no key of a record."""
    key_text(key.hash, MAX_HASH_BYTES, f"{where}: the hash key")
    key_text(key.range, MAX_RANGE_BYTES, f"{where}: the range key")


def wire_key(table: TableDefinition, key: Key) -> WireItem:
    """A record's key as the protocol writes it."""
    return {table.hash_attribute: {"S": key.hash}, table.range_attribute: {"S": key.range}}


def read_key(table: TableDefinition, item: WireItem) -> Key:
    """The key that stands in a record; refuses a record without one."""
    try:
        return Key(item[table.hash_attribute]["S"], item[table.range_attribute]["S"])
    except (KeyError, TypeError) as problem:
        raise InconsistentAnswer("it holds a record without its keys") from problem


async def get_many(
    calls: Calls, table: TableDefinition, keys: Sequence[Key], consistent: bool, deadline: float
) -> list[Item | None]:
    """The records at these keys, in their order; each key is asked for once."""
    asked = list(dict.fromkeys(keys))
    found: dict[Key, WireItem] = {}

    async def fetch(batch: list[Key]) -> None:
        found.update(await _batch(calls, table, batch, consistent, deadline))

    await all_of(fetch, chunks(asked, MAX_KEYS))
    return [decode_item(found[key]) if key in found else None for key in keys]


async def _batch(
    calls: Calls, table: TableDefinition, keys: list[Key], consistent: bool, deadline: float
) -> dict[Key, WireItem]:
    """One batch, and what the engine leaves over of it, until all of it is answered or the time is up."""
    found: dict[Key, WireItem] = {}
    left = set(keys)
    tries = 0
    while left:
        wanted = [key for key in keys if key in left]
        request = {"Keys": [wire_key(table, key) for key in wanted], "ConsistentRead": consistent}
        call = Call("BatchGetItem", {"RequestItems": {calls.table: request}}, requires("Responses"), deadline)

        def check(answer: Answer, wanted: frozenset[Key] = frozenset(wanted)) -> None:
            _check(answer, calls.table, table, wanted)

        call.check = check
        answer = await calls.do(call)
        found |= {read_key(table, item): item for item in answer["Responses"].get(calls.table, ())}
        unprocessed = {read_key(table, key) for key in _unprocessed(answer, calls.table)}
        tries = 1 if len(unprocessed) < len(left) else tries + 1
        left = unprocessed
        if left:
            await rest(calls, tries, deadline, f"BatchGetItem leaves {len(left)} records over")
    return found


async def rest(calls: Calls, tries: int, deadline: float, what: str) -> None:
    """Pauses before a rest is asked for again; gives up when there is no time for that."""
    pause = calls.pause(tries)
    if calls.left(deadline) <= pause:
        raise Throttled(f"{what} and the time is up. Try again a little later.")
    count_retry()
    await asyncio.sleep(pause)


def _unprocessed(answer: Answer, name: str) -> list[WireItem]:
    keys: list[WireItem] = answer.get("UnprocessedKeys", {}).get(name, {}).get("Keys", [])
    return keys


def _check(answer: Answer, name: str, table: TableDefinition, wanted: frozenset[Key]) -> None:
    if "Responses" not in answer or "UnprocessedKeys" not in answer:
        raise InconsistentAnswer("it does not say what it holds and what it leaves over")
    for item in (*answer["Responses"].get(name, ()), *_unprocessed(answer, name)):
        if read_key(table, item) not in wanted:
            raise InconsistentAnswer("it holds a record that was not asked for")


async def scan(
    calls: Calls, table: TableDefinition, segment: int, of: int, after: Key | None, deadline: float
) -> ScanPage:
    """Some records of a segment."""
    request: dict[str, Any] = {
        "TableName": calls.table,
        "Segment": segment,
        "TotalSegments": of,
        "Limit": MAX_SCANNED,
        "ConsistentRead": True,
    }
    if after is not None:
        check_key(after, "the key to go on behind")
        request["ExclusiveStartKey"] = wire_key(table, after)

    def check(answer: Answer) -> None:
        items = answer.get("Items")
        if not isinstance(items, list) or answer.get("Count") != len(items):
            raise InconsistentAnswer("its items are not as many as it says")
        for item in (*items, *([answer["LastEvaluatedKey"]] if "LastEvaluatedKey" in answer else [])):
            read_key(table, item)

    answer = await calls.do(Call("Scan", request, check, deadline))
    last = answer.get("LastEvaluatedKey")
    return ScanPage([decode_item(item) for item in answer["Items"]], None if last is None else read_key(table, last))

"""Probes that detect the capabilities of an engine beyond the contract.

A server for tests may lack capabilities of the real service. The probes run when an engine starts. A test compares
their result with `contract_engines.py`, so that changes in a new release of the server show.
"""

import asyncio
from collections.abc import Awaitable, Callable

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import ConditionFailed, StoreError, StoreRefused
from graphql_api.runtime.request_statistics import meter_capacity
from graphql_api.storage.port import Store
from graphql_api.storage.values import (
    AttributeTest,
    Expect,
    IndexDefinition,
    Key,
    Put,
    RangeRead,
    RowPage,
    TableDefinition,
)
from tests.store_contract.samples import record

Probe = Callable[[Store], Awaitable[bool]]

KEY = Key("capability!", "r")
BACKFILL_SECONDS = 20.0
"""DynamoDB Local sometimes never ends the backfill of an index over a mistyped attribute"""


async def exact_size(store: Store) -> bool:
    """A record of exactly 400 KB is accepted."""
    fixed = len("hashKey" + KEY.hash + "rangeKey" + KEY.range + "a")
    return list(await store.write([Put(record(KEY, a="\0" * (409_600 - fixed)))])) == [None]


async def typed_conditions(store: Store) -> bool:
    """Conditions distinguish 1 from true."""
    await store.write([Put(record(KEY, a=1))])
    (error,) = await store.write([Put(record(KEY, a=2), Expect(attributes={"a": True}))])
    return isinstance(error, ConditionFailed)


async def tokens(store: Store) -> bool:
    """Different writes with a used token are rejected."""
    await store.write_together([Put(record(KEY, a=1))], "capability")
    try:
        await store.write_together([Put(record(KEY, a=2))], "capability")
    except StoreRefused:
        return True
    return False


async def mistyped_entries(store: Store) -> bool:
    """A stored record is not in an added index if its attribute has another type than the index."""
    await store.write([Put(record(KEY, mistypedHash="mistyped!", mistyped="text"))])
    try:
        async with asyncio.timeout(BACKFILL_SECONDS):
            index = IndexDefinition("mistypedIndex", "mistypedHash", "mistyped", "N")
            await store.ensure_table(TableDefinition((index,)))
    except TimeoutError:
        return False
    (result,) = await store.read_ranges([RangeRead("mistypedIndex", "mistyped!", 0, KeyRange(), 1)], 1)
    return isinstance(result, RowPage) and not result.rows


async def concurrent_definitions(store: Store) -> bool:
    """Concurrent calls can add indexes to the table."""
    names = [f"index{number}" for number in range(2)]
    indexes = [IndexDefinition(name, f"{name}Hash", "b") for name in names]
    await store.write([Put(record(KEY, **{index.hash_attribute: "a!" for index in indexes}, b="v"))])
    try:
        await asyncio.gather(*(store.ensure_table(TableDefinition((index,))) for index in (*indexes, *indexes)))
        for name in names:
            (result,) = await store.read_ranges([RangeRead(name, "a!", 0, KeyRange(), 1)], 1)
            if not isinstance(result, RowPage) or [row.key for row in result.rows] != [KEY]:
                return False
    except StoreError:
        return False
    return True


async def filters(store: Store) -> bool:
    """A read omits rows that do not match its filter."""
    await store.write([Put(record(KEY, a=1)), Put(record((KEY.hash, "s"), a=2))])
    filter = AttributeTest("a", "eq", (2,), or_missing=False)
    (result,) = await store.read_ranges([RangeRead(None, KEY.hash, 0, KeyRange(), 5, filter=filter)], 5)
    return isinstance(result, RowPage) and [row.key.range for row in result.rows] == ["s"]


async def capacity(store: Store) -> bool:
    """The capacity meter counts the size of what a read examined, exactly or estimated."""
    await store.write([Put(record(KEY, a="x" * 10_000))])
    with meter_capacity() as meter:
        await store.read_ranges([RangeRead(None, KEY.hash, 0, KeyRange(), 5)], 5)
    return meter.units == 1.5


PROBES: dict[str, Probe] = {
    "exact size": exact_size,
    "typed conditions": typed_conditions,
    "tokens": tokens,
    "mistyped entries": mistyped_entries,
    "concurrent definitions": concurrent_definitions,
    "filters": filters,
    "capacity": capacity,
}


async def missing_capabilities(open_store: Callable[[str], Awaitable[Store]]) -> frozenset[str]:
    """Return the capabilities that an engine lacks. Each probe has its own table."""
    found = set()
    for name, probe in PROBES.items():
        store = await open_store(f"capability-{name.replace(' ', '-')}")
        try:
            await store.ensure_table(TableDefinition())
            if not await probe(store):
                found.add(name)
        finally:
            await store.close()
    return frozenset(found)

"""What an engine can do beyond what all of them can: asked of the engine itself, by trying.

A server that is meant for tests may fall short of the real one. What it lacks is found out here at its start, and is
compared with what is written down in `engines.py`, so that a new release of it shows.
"""

import asyncio
from collections.abc import Awaitable, Callable

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import ConditionFailed, StoreError, StoreRefused
from graphql_api.runtime.capacity_meter import meter_capacity
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

Trial = Callable[[Store], Awaitable[bool]]

KEY = Key("ability!", "r")


async def exact_size(store: Store) -> bool:
    """A record of 400 KB to the byte is accepted."""
    fixed = len("hashKey" + KEY.hash + "rangeKey" + KEY.range + "a")
    return list(await store.write([Put(record(KEY, a="\0" * (409_600 - fixed)))])) == [None]


async def typed_conditions(store: Store) -> bool:
    """Conditions tell 1 from true."""
    await store.write([Put(record(KEY, a=1))])
    (problem,) = await store.write([Put(record(KEY, a=2), Expect(attributes={"a": True}))])
    return isinstance(problem, ConditionFailed)


async def tokens(store: Store) -> bool:
    """Other writes under a used token are refused."""
    await store.write_together([Put(record(KEY, a=1))], "ability")
    try:
        await store.write_together([Put(record(KEY, a=2))], "ability")
    except StoreRefused:
        return True
    return False


async def unfit(store: Store) -> bool:
    """A stored record whose attribute is of the wrong type stays out of an index that is added."""
    await store.write([Put(record(KEY, unfitHash="unfit!", unfit="text"))])
    await store.ensure_table(TableDefinition((IndexDefinition("unfitIndex", "unfitHash", "unfit", "N"),)))
    (answer,) = await store.read_ranges([RangeRead("unfitIndex", "unfit!", 0, KeyRange(), 1)], 1)
    return isinstance(answer, RowPage) and not answer.rows


async def definers(store: Store) -> bool:
    """Several may add indexes at once."""
    names = [f"definer{number}" for number in range(2)]
    indexes = [IndexDefinition(name, f"{name}Hash", "b") for name in names]
    await store.write([Put(record(KEY, **{index.hash_attribute: "a!" for index in indexes}, b="v"))])
    try:
        await asyncio.gather(*(store.ensure_table(TableDefinition((index,))) for index in (*indexes, *indexes)))
        for name in names:
            (answer,) = await store.read_ranges([RangeRead(name, "a!", 0, KeyRange(), 1)], 1)
            if not isinstance(answer, RowPage) or [row.key for row in answer.rows] != [KEY]:
                return False
    except StoreError:
        return False
    return True


async def filters(store: Store) -> bool:
    """Rows that do not pass a filter are left out."""
    await store.write([Put(record(KEY, a=1)), Put(record((KEY.hash, "s"), a=2))])
    filter = AttributeTest("a", "eq", (2,), or_missing=False)
    (answer,) = await store.read_ranges([RangeRead(None, KEY.hash, 0, KeyRange(), 5, filter=filter)], 5)
    return isinstance(answer, RowPage) and [row.key.range for row in answer.rows] == ["s"]


async def charges(store: Store) -> bool:
    """Reads are charged, or estimated, by how much they read."""
    await store.write([Put(record(KEY, a="x" * 10_000))])
    with meter_capacity() as meter:
        await store.read_ranges([RangeRead(None, KEY.hash, 0, KeyRange(), 5)], 5)
    return meter.units == 1.5


TRIALS: dict[str, Trial] = {
    "exact size": exact_size,
    "typed conditions": typed_conditions,
    "tokens": tokens,
    "unfit": unfit,
    "definers": definers,
    "filters": filters,
    "charges": charges,
}


async def missing(open_store: Callable[[str], Awaitable[Store]]) -> frozenset[str]:
    """The abilities that an engine turns out not to have, each tried on a table of its own."""
    found = set()
    for name, trial in TRIALS.items():
        store = await open_store(f"ability-{name.replace(' ', '-')}")
        try:
            await store.ensure_table(TableDefinition())
            if not await trial(store):
                found.add(name)
        finally:
            await store.close()
    return frozenset(found)

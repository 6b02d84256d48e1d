"""Read records by key, any number of them with one call of the store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.clock import Clock
from graphql_api.codecs import readable_key
from graphql_api.errors import ShardQLError
from graphql_api.model import Entity, EntitySpec, decode_record
from graphql_api.query.execution.index_scanner import ReadCost
from graphql_api.runtime import current_statistics, meter_part
from graphql_api.storage import Item, Key, Store


@dataclass(frozen=True, slots=True)
class PointLookup:
    """The read of one record by all keys that it can have: one for each shard generation."""

    entity: EntitySpec
    keys: Sequence[Key]
    consistent: bool
    why: str | None
    """reason for the read by key, for explain output"""
    values: Sequence[Any] = ()
    """the values of the whole primary key"""
    generation: int | None = None
    """the shard generation in the record key, if known"""

    def describe(self) -> dict[str, Any]:
        """Return the lookup for explain output, in the shape of a plan."""
        return {
            **({} if self.why is None else {"why": self.why}),
            "entity": self.entity.type_name,
            "keys": [{"hashKey": key.hash, "rangeKey": readable_key(key.range)} for key in self.keys],
            "consistent": self.consistent,
        }


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """The results of point lookups, one for each, and their cost."""

    results: Sequence[Entity | ShardQLError | None]
    """None if no record exists, an error if the stored item is invalid"""
    explain: Mapping[str, Any]


async def fetch_records(store: Store, lookups: Sequence[PointLookup], clock: Clock) -> FetchedRecords:
    """Fetch the records of several lookups; an invalid record does not affect the others."""
    now = clock()
    keys = [*dict.fromkeys(key for lookup in lookups for key in lookup.keys)]
    with meter_part() as meter:
        items = await store.get_many(keys, lookups[0].consistent) if keys else ()
    stored = dict(zip(keys, items, strict=True))
    results = [_decode(lookup, stored, now) for lookup in lookups]
    returned = sum(isinstance(result, Entity) for result in results)
    current_statistics().records_returned += returned
    cost = ReadCost(fetched=len(keys))
    cost.record(clock() - now, meter)
    summary = {
        "entities": sorted({lookup.entity.type_name for lookup in lookups}),
        "records": len(lookups),
        "consistent": lookups[0].consistent,
    }
    return FetchedRecords(results, cost.explain(lookups[0].describe() if len(lookups) == 1 else summary, returned))


def _decode(lookup: PointLookup, items: Mapping[Key, Item | None], now: float) -> Entity | ShardQLError | None:
    try:
        item = lookup.entity.visible_item(map(items.__getitem__, lookup.keys), now)
        return None if item is None else decode_record(lookup.entity, item)
    except ShardQLError as problem:
        return problem

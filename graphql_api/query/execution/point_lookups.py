"""Read records by key, any number of them with one call of the store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.clock import Clock
from graphql_api.codecs import readable_key
from graphql_api.errors import ShardQLError
from graphql_api.model import Entity, EntitySpec, decode_record
from graphql_api.query import NO_STATISTICS, ReadStatistics, estimate_keys
from graphql_api.query.execution.index_scanner import ReadCost
from graphql_api.runtime import IndexStatistics, current_statistics, measure_call, meter_part
from graphql_api.storage import Item, Key, Store, UnitEstimate, sum_of_estimates


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

    def estimate(self, statistics: ReadStatistics = NO_STATISTICS) -> UnitEstimate:
        """Estimate the capacity units of the read."""
        return estimate_keys(self.entity, len(self.keys), consistent=self.consistent, statistics=statistics)

    def describe(self, statistics: ReadStatistics = NO_STATISTICS) -> dict[str, Any]:
        """Return the lookup for explain output, in the shape of a plan."""
        return {
            **({} if self.why is None else {"why": self.why}),
            "entity": self.entity.type_name,
            "keys": [{"hashKey": key.hash, "rangeKey": readable_key(key.range)} for key in self.keys],
            "consistent": self.consistent,
            "estimate": self.estimate(statistics).describe(),
        }


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """The results of point lookups, one for each, and their cost."""

    results: Sequence[Entity | ShardQLError | None]
    """None if no record exists, an error if the stored item is invalid"""
    describe: Callable[[], Mapping[str, Any]] = dict

    @property
    def explain(self) -> Mapping[str, Any]:
        """Return the lookups and their actual cost; empty if nothing was read."""
        return self.describe()


def statistics_by_key(entity: EntitySpec) -> IndexStatistics:
    """Return the counts of an entity's reads by key in the current request."""
    return current_statistics().of_index(entity.declared_name, entity.indexes["by_id"].name)


async def fetch_records(store: Store, lookups: Sequence[PointLookup], clock: Clock) -> FetchedRecords:
    """Fetch the records of several lookups; an invalid record does not affect the others."""
    now = clock()
    statistics = {lookup.entity.name: statistics_by_key(lookup.entity) for lookup in lookups}
    entities = {key: lookup.entity.name for lookup in lookups for key in lookup.keys}
    keys = [*entities]
    with meter_part() as meter:
        items: Sequence[Item | None] = ()
        if keys:
            items = await measure_call(store.get_many(keys, lookups[0].consistent), statistics.values())
    stored = dict(zip(keys, items, strict=True))
    for key, item in stored.items():
        statistics[entities[key]].records_read += item is not None
    results = [_decode(lookup, stored, now) for lookup in lookups]
    for lookup, result in zip(lookups, results, strict=True):
        found = isinstance(result, Entity)
        statistics[lookup.entity.name].add_read("key", is_empty=result is None, returned=found)
    returned = sum(isinstance(result, Entity) for result in results)
    cost = ReadCost(fetched=len(keys))
    cost.record(clock() - now, meter)
    return FetchedRecords(results, lambda: cost.explain(_describe(lookups), returned))


def _describe(lookups: Sequence[PointLookup]) -> Mapping[str, Any]:
    if len(lookups) == 1:
        return lookups[0].describe()
    return {
        "entities": sorted({lookup.entity.type_name for lookup in lookups}),
        "records": len(lookups),
        "consistent": lookups[0].consistent,
        "estimate": sum_of_estimates(lookup.estimate() for lookup in lookups).describe(),
    }


def _decode(lookup: PointLookup, items: Mapping[Key, Item | None], now: float) -> Entity | ShardQLError | None:
    try:
        item = lookup.entity.visible_item(map(items.__getitem__, lookup.keys), now)
        return None if item is None else decode_record(lookup.entity, item)
    except ShardQLError as problem:
        return problem

"""Read records by key, any number of them with one call of the store."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from graphql_api.clock import Clock
from graphql_api.codecs import readable_key
from graphql_api.errors import ShardQLError
from graphql_api.model import Entity, EntitySpec, decode_record
from graphql_api.query import NO_STATISTICS, ReadStatistics, estimate_keys
from graphql_api.query.execution.index_scanner import ReadCost
from graphql_api.runtime import IndexStatistics, current_statistics, measure_call, meter_part
from graphql_api.storage import Item, Key, LazySequence, Store, UnitEstimate, sum_of_estimates


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


class PointLookups(LazySequence[PointLookup]):
    """The lookups of several records of one entity. Single ones are built on first use."""

    def __init__(
        self,
        entity: EntitySpec,
        keys: Sequence[Sequence[Key]],
        values: Sequence[Sequence[Any]],
        *,
        consistent: bool,
        why: str | None,
    ) -> None:
        self.entity = entity
        self.keys = keys
        """all keys that each record can have"""
        self.values = values
        """the values of the whole primary key of each record"""
        self.consistent = consistent
        self.why = why

    def _build(self) -> Sequence[PointLookup]:
        records = zip(self.keys, self.values, strict=True)
        return [PointLookup(self.entity, keys, self.consistent, self.why, values) for keys, values in records]

    def __len__(self) -> int:
        return len(self.keys)

    def at(self, positions: Sequence[int]) -> "PointLookups":
        """Return the lookups at these positions."""
        keys, values = [self.keys[at] for at in positions], [self.values[at] for at in positions]
        return PointLookups(self.entity, keys, values, consistent=self.consistent, why=self.why)


class LookupGroups(LazySequence[PointLookup]):
    """The lookups of several fields, in one call. The results are `ResultGroups`."""

    def __init__(self, groups: Sequence[Sequence[PointLookup]]) -> None:
        self.groups = groups

    def _build(self) -> Sequence[PointLookup]:
        return [*chain.from_iterable(self.groups)]


RecordResult = Entity | ShardQLError | None
"""None if no record exists, an error if the stored item is invalid"""


class StoredResults(LazySequence[RecordResult]):
    """The results of `PointLookups` as stored items, which are decoded on first use."""

    def __init__(self, entity: EntitySpec, items: Sequence[Item | None]) -> None:
        self.entity = entity
        self.items = items

    def _build(self) -> Sequence[RecordResult]:
        return [_decode(self.entity, item) for item in self.items]

    def __len__(self) -> int:
        return len(self.items)

    def at(self, positions: Sequence[int]) -> "StoredResults":
        """Return the results at these positions."""
        return StoredResults(self.entity, [self.items[at] for at in positions])

    def spread(self, positions: Sequence[int], count: int) -> "StoredResults":
        """Return `count` results: these at their positions, and None elsewhere."""
        items: list[Item | None] = [None] * count
        for at, item in zip(positions, self.items, strict=True):
            items[at] = item
        return StoredResults(self.entity, items)


class ResultGroups(LazySequence[RecordResult]):
    """The results of each group of `LookupGroups`."""

    def __init__(self, groups: Sequence[Sequence[RecordResult]]) -> None:
        self.groups = groups

    def _build(self) -> Sequence[RecordResult]:
        return [*chain.from_iterable(self.groups)]


def results_of_groups(lookups: LookupGroups, results: Sequence[RecordResult]) -> Sequence[Sequence[RecordResult]]:
    """Return the results of each group, also if they are one sequence."""
    if isinstance(results, ResultGroups):
        return results.groups
    remaining = iter(results)
    return [[*islice(remaining, len(group))] for group in lookups.groups]


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """The results of point lookups, one for each, and their cost."""

    results: Sequence[RecordResult]
    describe: Callable[[], Mapping[str, Any]] = dict

    @property
    def errors(self) -> Iterator[ShardQLError]:
        """Return the errors, without those of stored items that are not decoded yet."""
        groups = self.results.groups if isinstance(self.results, ResultGroups) else [self.results]
        decoded = (result for group in groups if not isinstance(group, StoredResults) for result in group)
        return (result for result in decoded if isinstance(result, ShardQLError))

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
    entities: dict[Key, EntitySpec] = {}
    specs: dict[str, EntitySpec] = {}
    groups = lookups.groups if isinstance(lookups, LookupGroups) else [lookups]
    for group in groups:
        if isinstance(group, PointLookups):
            entities |= dict.fromkeys(chain.from_iterable(group.keys), group.entity)
            specs[group.entity.name] = group.entity
        else:
            entities |= {key: lookup.entity for lookup in group for key in lookup.keys}
            specs |= {lookup.entity.name: lookup.entity for lookup in group}
    keys = [*entities]
    statistics = {name: statistics_by_key(entity) for name, entity in specs.items()}
    with meter_part() as meter:
        items: Sequence[Item | None] = ()
        if keys:
            items = await measure_call(store.get_many(keys, _is_consistent(groups)), statistics.values())
    stored = dict(zip(keys, items, strict=True))
    for name, one in statistics.items():
        found = items if len(specs) == 1 else [stored[key] for key, entity in entities.items() if entity.name == name]
        one.records_read += len(found) - found.count(None)
    results = [_results(group, stored, now) for group in groups]
    cost = ReadCost(fetched=len(keys))
    cost.record(clock() - now, meter)
    answers = ResultGroups(results) if isinstance(lookups, LookupGroups) else results[0]
    return FetchedRecords(
        answers, lambda: cost.explain(_describe(lookups), sum(isinstance(result, Entity) for result in answers))
    )


def _is_consistent(groups: Sequence[Sequence[PointLookup]]) -> bool:
    """Return whether reads are consistent, which those of one call have in common."""
    return next(
        group.consistent if isinstance(group, PointLookups) else group[0].consistent for group in groups if group
    )


def _results(group: Sequence[PointLookup], stored: Mapping[Key, Item | None], now: float) -> Sequence[RecordResult]:
    """Return the result of each lookup, and count it."""
    if isinstance(group, PointLookups):
        entity = group.entity
        if entity.visibility_properties or len(entity.space.generations) > 1:
            items = [entity.visible_item(map(stored.__getitem__, keys), now) for keys in group.keys]
        else:
            items = [stored[key] for (key,) in group.keys]
        absent = items.count(None)
        statistics_by_key(entity).add_reads("key", len(items), empty=absent, returned=len(items) - absent)
        return StoredResults(entity, items)
    results: list[RecordResult] = []
    for lookup in group:
        item = lookup.entity.visible_item(map(stored.__getitem__, lookup.keys), now)
        statistics_by_key(lookup.entity).add_read("key", is_empty=item is None, returned=item is not None)
        results.append(_decode(lookup.entity, item))
    return results


def _describe(lookups: Sequence[PointLookup]) -> Mapping[str, Any]:
    if len(lookups) == 1:
        return lookups[0].describe()
    return {
        "entities": sorted({lookup.entity.type_name for lookup in lookups}),
        "records": len(lookups),
        "consistent": lookups[0].consistent,
        "estimate": sum_of_estimates(lookup.estimate() for lookup in lookups).describe(),
    }


def _decode(entity: EntitySpec, item: Item | None) -> RecordResult:
    try:
        return None if item is None else decode_record(entity, item)
    except ShardQLError as problem:
        return problem

"""Read one record by a unique value: the unique item, then the record that owns it, at any number of shards.

Both reads are consistent. If the record no longer has the value, it may have moved to another record between the two
reads. They are repeated until they agree, or prove that no record has the value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.clock import Clock
from graphql_api.codecs import readable_key
from graphql_api.errors import CatalogBehind, Conflict, ShardQLError
from graphql_api.model import Entity, EntitySpec, UniqueSpec, decode_record, unready_error
from graphql_api.query import NO_STATISTICS, ReadStatistics, estimate_keys
from graphql_api.query.execution import FetchedRecords, ReadCost, statistics_by_key
from graphql_api.runtime import measure_call, meter_part
from graphql_api.storage import Item, Key, Store, UnitEstimate, read_units
from graphql_api.writes import (
    CONSTRAINT_ITEM_BYTES,
    CURRENT_OF,
    constraint_keys,
    holder_of,
    owner_key,
    read_holders,
    unique_key,
)

MAX_ATTEMPTS = 10
"""reads of a value that other writers move from record to record meanwhile"""


@dataclass(frozen=True, slots=True)
class UniqueLookup:
    """The read of the record that has the values of a unique constraint."""

    entity: EntitySpec
    key: Key
    """key of the unique item"""
    tenant: str | None
    why: str | None = None
    """reason for the read, for explain output"""

    def estimate(self, statistics: ReadStatistics = NO_STATISTICS) -> UnitEstimate:
        """Estimate the capacity units: at least the unique item, and at most all attempts with the largest records."""
        entity, absent = self.entity, read_units(0, consistent=True)
        owners = 1 + (len(entity.space.generations) if entity.sub_ids else 0)
        owner = estimate_keys(entity, owners, consistent=True, statistics=statistics)
        most = MAX_ATTEMPTS * (read_units(CONSTRAINT_ITEM_BYTES, consistent=True) + owner.most)
        record = read_units(statistics.record_size(entity), consistent=True)
        return UnitEstimate(absent, absent + record, most)

    def describe(self, statistics: ReadStatistics = NO_STATISTICS) -> dict[str, Any]:
        """Return the lookup for explain output, in the shape of a plan."""
        return {
            **({} if self.why is None else {"why": self.why}),
            "entity": self.entity.type_name,
            "keys": [{"hashKey": self.key.hash, "rangeKey": readable_key(self.key.range)}],
            "then": "the record that the unique item names",
            "consistent": True,
            "estimate": self.estimate(statistics).describe(),
        }


def unique_lookup(
    spec: EntitySpec, unique: UniqueSpec, values: Sequence[Any], tenant: str | None, why: str | None = None
) -> UniqueLookup:
    """Return the lookup of a unique value. Raise NotReady if the constraint, or what owns its items, is not ready."""
    recorded = spec.recorded
    status = None if recorded is None else recorded.unready_unique.get(unique.name) or recorded.current
    if status is not None:
        raise unready_error(status, f"A {spec.type_name} by {unique.name} needs")
    return UniqueLookup(spec, unique_key(spec, unique, values, tenant), tenant, why)


async def fetch_by_unique(store: Store, lookup: UniqueLookup, clock: Clock) -> FetchedRecords:
    """Fetch the record that has a unique value: the only result is the record, an error, or None."""
    now, cost = clock(), ReadCost()
    statistics = statistics_by_key(lookup.entity)
    with meter_part() as meter:
        item = await measure_call(_read_holder(store, lookup, now, cost), [statistics])
    result = None if item is None else _decode(lookup.entity, item)
    is_found = isinstance(result, Entity)
    statistics.records_read += cost.records_read
    statistics.add_read("key", is_empty=result is None, returned=is_found)
    cost.record(clock() - now, meter)
    return FetchedRecords([result], lambda: cost.explain(lookup.describe(), int(is_found)))


async def _read_holder(store: Store, lookup: UniqueLookup, now: float, cost: ReadCost) -> Item | None:
    """Return the record that has the value, or None if there was a moment at which no record had it."""
    previous: object = None
    for _ in range(MAX_ATTEMPTS):
        (unique_item,) = await store.get_many([lookup.key], consistent=True)
        cost.fetched += 1
        if unique_item is None or not lookup.entity.is_visible(unique_item, now):
            return None
        holders = await read_holders(store, lookup.entity, owner_key(unique_item), lookup.tenant)
        cost.fetched += len(holders)
        cost.records_read += sum(item is not None for item in holders.values())
        holder = holder_of(lookup.entity, holders, now)
        if holder is not None and lookup.key in constraint_keys(lookup.entity, holder, lookup.tenant):
            return holder
        if previous == (unique_item, holders):
            return None  # Nothing changed between the reads: the owner of the item does not have the value.
        previous = (unique_item, holders)
    raise Conflict(f"Other writers moved the value {MAX_ATTEMPTS} times while it was read. Try again later.")


def _decode(entity: EntitySpec, item: Item) -> Entity | ShardQLError:
    if CURRENT_OF in item and entity.declared_current is None:
        return CatalogBehind(
            f"The unique values of {entity.type_name} belong to current records, which the catalog of this server does "
            "not declare: deploy the newer catalog on this server."
        )
    try:
        return decode_record(entity, item)
    except ShardQLError as problem:
        return problem

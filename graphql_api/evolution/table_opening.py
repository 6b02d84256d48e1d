"""Open the table of a catalog: create it if it is missing, and announce what the catalog declares."""

from collections.abc import Collection
from dataclasses import replace
from logging import getLogger

from graphql_api.errors import StoreUnavailable, WrongTable
from graphql_api.evolution.proposals import adopted, entity_data, proposed, taken_over
from graphql_api.evolution.table_adoption import refuse_foreign_table
from graphql_api.evolution.table_differences import RENAME_INDEX_REMEDY, conflicting_definitions, refuse_differences
from graphql_api.evolution.table_record import (
    DEFAULT_LEASE_SECONDS,
    TABLE_RECORD_KEY,
    TableRecord,
    read_record,
    save_record,
)
from graphql_api.model import Catalog
from graphql_api.storage import Item, Store, TableDefinition

log = getLogger("shardql")

_MAX_ATTEMPTS = 20


async def prepare_table(
    store: Store,
    catalog: Catalog,
    *,
    create_table: bool = True,
    read_only: bool = False,
    adopt: bool = False,
    lease_seconds: float = DEFAULT_LEASE_SECONDS,
) -> None:
    """Create a missing table, and add what a catalog declares to the record that the table keeps about itself.

    `create_table` also creates the indexes of entities that the table does not know: all others are announced, and
    `shardql migrate` creates them. A table that only other catalogs use is refused, unless `adopt` confirms that this
    one is to share it. `lease_seconds` applies to a new table.
    """
    needed = catalog.table_definition()
    stored = await store.describe()
    if stored is None:
        if read_only or not create_table:
            refuse_differences(stored, needed)
        await store.ensure_table(needed)
        stored = needed
    elif conflicts := [*conflicting_definitions(stored, needed)]:
        raise WrongTable(" ".join([*conflicts, RENAME_INDEX_REMEDY]))
    elif not (read_only or adopt):
        await refuse_foreign_table(store, catalog)
    if not read_only:
        missing = _missing_indexes(stored, needed)
        if create_table and missing:
            await _create_new_indexes(store, catalog, missing)
            missing = _missing_indexes(await store.describe() or stored, needed)
        await announce(store, catalog, missing, lease_seconds=lease_seconds)


def is_compared(store: Store) -> bool:
    """Return whether writes compare the epoch with the table: then no lease and no wait is needed."""
    return getattr(store, "holds", None) is not None


def _missing_indexes(stored: TableDefinition, needed: TableDefinition) -> set[str]:
    return {index.name for index in needed.indexes} - {index.name for index in stored.indexes}


async def _create_new_indexes(store: Store, catalog: Catalog, missing: Collection[str]) -> None:
    """Create the missing physical indexes of entities without records."""
    record = await _read_known(store, catalog)
    new = {
        index.physical
        for entity in catalog.entities.values()
        for index in entity.indexes.values()
        if entity.name not in record.entities
    }
    needed = catalog.table_definition()
    indexes = tuple(index for index in needed.indexes if index.name in new and index.name in missing)
    if indexes:
        await store.ensure_table(replace(needed, indexes=indexes))


async def announce(
    store: Store, catalog: Catalog, missing: Collection[str] = (), *, lease_seconds: float = DEFAULT_LEASE_SECONDS
) -> TableRecord:
    """Add what a catalog declares to the table's record. Return the record. `missing`: physical indexes it lacks."""
    for _ in range(_MAX_ATTEMPTS):
        old = await read_record(store)
        start = await _start(store, catalog, lease_seconds) if old is None else old
        new = proposed(start, catalog, missing, has_leases=not is_compared(store))
        if old is not None and new.epoch == old.epoch:
            return old
        if await save_record(store, old, new):
            return new
    raise StoreUnavailable("Other processes keep changing the record of the table: retry.")


async def _start(store: Store, catalog: Catalog, lease_seconds: float) -> TableRecord:
    """Return the first record of a table, with what a record of the earlier format tells."""
    record = TableRecord(lease_seconds=lease_seconds)
    earlier = await _read_earlier_record(store)
    if earlier is None:
        return record
    log.warning(
        "The table has the format of an earlier release, and is taken over. Stop all servers of earlier releases "
        "first: they do not maintain what this release adds. Then verify the table with: "
        "shardql migrate MODULE:CATALOG --store URL"
    )
    return taken_over(record, earlier, catalog)


async def _read_earlier_record(store: Store) -> Item | None:
    (item,) = await store.get_many([TABLE_RECORD_KEY], consistent=True)
    return item


async def _read_known(store: Store, catalog: Catalog) -> TableRecord:
    """Return the stored record. Without one, return one of epoch 0, with what a record of the earlier format tells."""
    record = await read_record(store)
    if record is not None:
        return adopted(record, catalog)
    earlier = await _read_earlier_record(store)
    return TableRecord() if earlier is None else replace(taken_over(TableRecord(), earlier, catalog), epoch=0)


async def read_served_record(store: Store, catalog: Catalog) -> tuple[TableRecord, frozenset[str]]:
    """Return the record that a process acts on, and the entities of its catalog that nothing has announced.

    A table without a record is served as it would be after an announcement.
    """
    record = await _read_known(store, catalog)
    unknown = frozenset(catalog.entities.keys() - record.entities.keys())
    if not record.epoch:
        record = replace(proposed(record, catalog), epoch=0)
    added = {name: entity_data(catalog.entities[name]) for name in unknown}
    return replace(record, entities={**record.entities, **added}), unknown

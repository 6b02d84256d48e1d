"""Open the table of a catalog: create it if it is missing, and announce what the catalog declares.

Tables that hold only data of other applications are refused, until the operator confirms that they are to be shared.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from logging import getLogger

from graphql_api.clock import Instant, read_clocks
from graphql_api.errors import StoreUnavailable, WrongTable
from graphql_api.evolution.elements import Element, declared_elements
from graphql_api.evolution.entity_versions import served_catalog
from graphql_api.evolution.proposals import adopted, entity_data, proposed, taken_over
from graphql_api.evolution.table_differences import RENAME_INDEX_REMEDY, conflicting_definitions, refuse_differences
from graphql_api.evolution.table_record import DEFAULT_LEASE_SECONDS, TableRecord, read_any_record, save_record
from graphql_api.model import Catalog, entity_and_version
from graphql_api.storage import Item, Store, TableDefinition

log = getLogger("shardql")

_MAX_ATTEMPTS = 20
ADOPT_TABLE_REMEDY = (
    "Name another table. If this catalog is to share the table, confirm it once with the option --adopt-table of "
    "serve, load or table create, or with adopt_table=True in Python."
)
_NO_RECORD = "The table holds items, but no record of ShardQL: another program wrote them, or a restore."
_MAX_NAMES = 8


@dataclass(frozen=True, slots=True)
class ServedRecord:
    """The record that a process acts on."""

    record: TableRecord
    unknown: frozenset[str]
    """entities of the catalog that nothing has announced"""
    asked_at: Instant
    """before the read was sent that brought the record"""


async def prepare_table(
    store: Store,
    catalog: Catalog,
    *,
    create_table: bool = True,
    read_only: bool = False,
    adopt: bool = False,
    lease_seconds: float = DEFAULT_LEASE_SECONDS,
    clocks: Callable[[], Instant] = read_clocks,
) -> ServedRecord:
    """Create a missing table, and add what a catalog declares to the record that the table keeps about itself.

    `create_table` also creates the indexes of entities that the table does not know, and those of ready elements that
    were deleted: records have their attributes. All others are announced, and `shardql migrate` creates them. A table
    that only other catalogs use is refused, unless `adopt` confirms that this one is to share it. `lease_seconds`
    applies to a new table. With `read_only`, nothing is created or announced.
    """
    needed = catalog.table_definition()
    stored = await store.describe()
    if stored is None:
        if read_only or not create_table:
            refuse_differences(stored, needed)
        await store.ensure_table(needed)
        stored, adopt = needed, True
    elif conflicts := [*conflicting_definitions(stored, needed)]:
        raise WrongTable(" ".join([*conflicts, RENAME_INDEX_REMEDY]))
    asked_at = clocks()
    record, earlier = await read_any_record(store)
    if not adopt:
        if record is None and earlier is None and await _has_items(store):
            record, earlier = await read_any_record(store)  # Another process may have stored both since the first read.
            if record is None and earlier is None:
                raise WrongTable(f"{_NO_RECORD} {ADOPT_TABLE_REMEDY}")
        _refuse_foreign_table(catalog, record, earlier)
    if read_only:
        return _served(record, earlier, catalog, asked_at)
    missing = _missing_indexes(stored, needed)
    if create_table and missing:
        await _create_indexes(store, catalog, missing, _known(record, earlier, catalog))
        missing = _missing_indexes(await store.describe() or stored, needed)
    new = await announce(store, catalog, missing, lease_seconds=lease_seconds, found=(record, earlier))
    return _served(new, None, catalog, asked_at)


async def announce(
    store: Store,
    catalog: Catalog,
    missing: Collection[str] = (),
    *,
    lease_seconds: float = DEFAULT_LEASE_SECONDS,
    found: tuple[TableRecord | None, Item | None] | None = None,
) -> TableRecord:
    """Add what a catalog declares to the table's record. Return the record.

    `missing`: physical indexes that the table lacks. `found`: the record as it was read, or the item of a record of the
    earlier format.
    """
    for _ in range(_MAX_ATTEMPTS):
        old, earlier = found or await read_any_record(store)
        found = None
        start = _start(earlier, catalog, lease_seconds) if old is None else old
        new = proposed(start, catalog, missing, has_leases=not is_compared(store))
        if old is not None and new.epoch == old.epoch:
            return old
        if await save_record(store, old, new):
            return new
    raise StoreUnavailable("Other processes keep changing the record of the table: retry.")


def is_compared(store: Store) -> bool:
    """Return whether writes compare the epoch with the table: then no lease and no wait is needed."""
    return getattr(store, "holds", None) is not None


def _missing_indexes(stored: TableDefinition, needed: TableDefinition) -> set[str]:
    return {index.name for index in needed.indexes} - {index.name for index in stored.indexes}


async def _create_indexes(store: Store, catalog: Catalog, missing: Collection[str], record: TableRecord) -> None:
    """Create the missing physical indexes of entities without records, and of ready elements."""
    created = {
        element.name
        for element in declared_elements(served_catalog(catalog, record)).values()
        if element.kind == "index" and (element.entity not in record.entities or _is_ready(element, record))
    }
    needed = catalog.table_definition()
    indexes = tuple(index for index in needed.indexes if index.name in created and index.name in missing)
    if indexes:
        await store.ensure_table(replace(needed, indexes=indexes))


def _is_ready(element: Element, record: TableRecord) -> bool:
    recorded = record.elements.get(element.id)
    return recorded is not None and recorded.state == "ready" and recorded.element.fits(element)


def _start(earlier: Item | None, catalog: Catalog, lease_seconds: float) -> TableRecord:
    """Return the first record of a table, with the content of a record of the earlier format."""
    record = TableRecord(lease_seconds=lease_seconds)
    if earlier is None:
        return record
    log.warning(
        "The table has the format of an earlier release, and is taken over. Stop all servers of earlier releases "
        "first: they do not maintain what this release adds. Then verify the table with: "
        "shardql migrate MODULE:CATALOG --store URL"
    )
    return taken_over(record, earlier, catalog)


def _known(record: TableRecord | None, earlier: Item | None, catalog: Catalog) -> TableRecord:
    """Return a stored record. Without one, return one of epoch 0, with the content of that of the earlier format."""
    if record is not None:
        return adopted(record, catalog)
    return TableRecord() if earlier is None else replace(taken_over(TableRecord(), earlier, catalog), epoch=0)


def _served(record: TableRecord | None, earlier: Item | None, catalog: Catalog, asked_at: Instant) -> ServedRecord:
    """Return what a process acts on. A table without a record is served as it would be after an announcement."""
    known = _known(record, earlier, catalog)
    catalog = served_catalog(catalog, known)
    unknown = frozenset(catalog.entities.keys() - known.entities.keys())
    if not known.epoch:
        known = replace(proposed(known, catalog), epoch=0)
    added = {name: entity_data(catalog.entities[name]) for name in unknown}
    return ServedRecord(replace(known, entities={**known.entities, **added}), unknown, asked_at)


async def read_served_record(
    store: Store, catalog: Catalog, clocks: Callable[[], Instant] = read_clocks
) -> ServedRecord:
    """Read the record that a process acts on."""
    asked_at = clocks()
    return _served(*await read_any_record(store), catalog, asked_at)


# --- tables of other applications -------------------------------------------------------------------------------


def _refuse_foreign_table(catalog: Catalog, record: TableRecord | None, earlier: Item | None) -> None:
    """Raise WrongTable if the table knows only entities of other catalogs.

    `record`, `earlier`: its record, or that of the earlier format.
    """
    problem = None
    if record is not None:
        problem = foreign_table_problem([*record.entities, *record.earlier], catalog)
    elif earlier is not None:
        problem = foreign_table_problem(earlier["spaces"], catalog)
    if problem is not None:
        raise WrongTable(f"{problem} {ADOPT_TABLE_REMEDY}")


def foreign_table_problem(recorded: Iterable[str], catalog: Catalog) -> str | None:
    """Return a message if a table knows entities, and none of the catalog."""
    names = sorted(recorded)
    if not names or any(entity_and_version(name)[0] in catalog.by_declared_name for name in names):
        return None
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    listed = f"{', '.join(names[:_MAX_NAMES])}{more}"
    return f"The table belongs to other catalogs: it knows {listed}, and no entity of this one."


async def _has_items(store: Store) -> bool:
    page = await store.scan(0, 1, None)
    while not page.items and page.after is not None:
        page = await store.scan(0, 1, page.after)
    return bool(page.items)

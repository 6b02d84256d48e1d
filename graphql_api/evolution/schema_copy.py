"""A process's copy of the table's record, and the catalog that follows from it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from graphql_api.clock import Instant, read_clocks
from graphql_api.errors import NotReady
from graphql_api.evolution.catalog_merge import effective_catalog
from graphql_api.evolution.entity_versions import switching_version
from graphql_api.evolution.table_opening import ServedRecord, read_served_record
from graphql_api.evolution.table_record import TableRecord, epoch_check
from graphql_api.model import Catalog
from graphql_api.storage import Check, Store
from graphql_api.writes import AnyCommand

C = TypeVar("C", bound=AnyCommand)


@dataclass(frozen=True, slots=True)
class SchemaCopy:
    """A copy of the table's record, and the catalog that a process with it acts on."""

    record: TableRecord
    catalog: Catalog
    asked_at: Instant
    """before the read was sent that brought the copy, or confirmed it"""
    check: Check
    """the condition that the record has not changed"""
    unknown: frozenset[str] = frozenset()
    """entities of this catalog that the table does not know: nothing has announced them"""
    is_switching: bool = False
    """a version of an entity is about to replace another one: reads compare the copy with the table"""


def planned_with(copy: SchemaCopy, command: C) -> C:
    """Return a command on the entity as a copy defines it. Refuse an entity that the table does not know."""
    entity = copy.catalog.entity(command.entity.model)
    if entity.name in copy.unknown:
        raise NotReady(
            "Nothing has announced {entity} to the table, so it cannot be written: open the table once without the "
            "read-only mode.",
            entity=entity.type_name,
            element=f"entity {entity.name}",
            state="absent",
        )
    return command if command.entity is entity else replace(command, entity=entity)


async def read_copy(store: Store, catalog: Catalog, clocks: Callable[[], Instant] = read_clocks) -> SchemaCopy:
    """Read the table's record."""
    return copy_of(await read_served_record(store, catalog, clocks), catalog)


def copy_of(served: ServedRecord, catalog: Catalog) -> SchemaCopy:
    """Return the copy of a record that was read."""
    record, unknown = served.record, served.unknown
    merged, check = effective_catalog(catalog, record), epoch_check(record.epoch)
    is_switching = any(switching_version(record, name) is not None for name in merged.by_declared_name)
    return SchemaCopy(record, merged, served.asked_at, check, unknown, is_switching)

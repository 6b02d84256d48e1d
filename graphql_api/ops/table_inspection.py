"""Inspection of a table: its state, and its differences from what a catalog needs. Read-only."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from graphql_api.evolution import (
    TABLE_FORMAT,
    TABLE_RECORD_KEY,
    changed_index_entries,
    conflicting_definitions,
    describe_generations,
    missing_definitions,
    recorded_space,
)
from graphql_api.model import Catalog
from graphql_api.storage import IndexDefinition, Store, TableDefinition

IndexStatus = Literal["fits", "missing", "differs", "not needed"]


@dataclass(frozen=True, slots=True)
class TableState:
    """The state of a table."""

    definition: TableDefinition | None
    """None: the table does not exist"""
    format: Any
    """None: the table has no table record yet"""
    spaces: Mapping[str, Any]
    """the recorded shard generations of each entity, by its name in hash keys"""
    indexes: Mapping[str, Any]
    """the recorded composition of index entries, by entity"""


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index of the table, of the catalog, or of both, with its status."""

    definition: IndexDefinition
    status: IndexStatus


async def read_state(store: Store) -> TableState:
    """Read the definition of a table and its table record."""
    definition = await store.describe()
    if definition is None:
        return TableState(None, None, {}, {})
    (meta,) = await store.get_many([TABLE_RECORD_KEY], consistent=True)
    recorded = {} if meta is None else meta
    spaces, indexes = recorded.get("spaces", {}), recorded.get("indexes", {})
    return TableState(definition, recorded.get("format"), spaces, indexes)


def index_states(table: TableDefinition | None, needed: TableDefinition) -> list[IndexState]:
    """Return the state of all indexes of the catalog, then of the unused indexes of the table."""
    present = {index.name: index for index in table.indexes} if table is not None else {}
    states = []
    for index in needed.indexes:
        existing = present.pop(index.name, None)
        if existing is None:
            states.append(IndexState(index, "missing"))
        else:
            both = (TableDefinition((existing,)), TableDefinition((index,)))
            states.append(IndexState(existing, "differs" if any(conflicting_definitions(*both)) else "fits"))
    return [*states, *(IndexState(index, "not needed") for index in present.values())]


def differences(state: TableState, catalog: Catalog, *, removes_expired: bool) -> Iterator[str]:
    """Yield all differences between a table and a catalog. Expiry counts if the engine deletes expired records."""
    needed = catalog.table_definition()
    yield from missing_definitions(state.definition, needed)
    yield from conflicting_definitions(state.definition, needed)
    if state.definition is None:
        return
    actual, wanted = state.definition.ttl_attribute, needed.ttl_attribute
    if removes_expired and actual != wanted:
        yield f"The table expires records by {actual or 'nothing'}, and the catalog needs {wanted or 'nothing'}."
    if state.format is None:
        yield "The table does not record its format and shard generations yet. The first server records them."
    elif state.format != TABLE_FORMAT:
        yield f"The table has format {state.format}, and this release supports format {TABLE_FORMAT}."
    else:
        yield from _space_differences(state.spaces, catalog)
        yield from changed_index_entries(state.indexes, catalog)


def _space_differences(applied: Mapping[str, Any], catalog: Catalog) -> Iterator[str]:
    for entity in catalog.entities.values():
        stored, declared = applied.get(entity.name), recorded_space(entity)
        if stored is None:
            generations = describe_generations(declared["generations"])
            yield f"{entity.type_name} is not recorded in the table yet: {generations}."
        elif (stored["width"], stored["function"]) != (declared["width"], declared["function"]):
            yield (
                f"{entity.type_name} was stored with shards of width {stored['width']} by {stored['function']}, and "
                f"the catalog declares width {declared['width']} by {declared['function']}."
            )
        elif [*stored["generations"]] != declared["generations"]:
            recorded_generations = describe_generations(stored["generations"])
            yield (
                f"{entity.type_name} has the shard generations {recorded_generations} in the table, and "
                f"{describe_generations(declared['generations'])} in the catalog."
            )

"""What a table is like, against what a catalog needs of it. Only looks; `table_meta` acts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from graphql_api.evolution import META_KEY, TABLE_FORMAT, conflicts, in_words, index_changes, missing, space_of
from graphql_api.model import Catalog
from graphql_api.storage import IndexDefinition, Store, TableDefinition

Standing = Literal["fits", "missing", "differs", "not needed"]


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as it stands."""

    definition: TableDefinition | None
    """None: there is no table"""
    format: Any
    """None: the table has no record of itself yet"""
    spaces: Mapping[str, Any]
    """the applied shard generations of each entity, by its name in hash keys"""
    indexes: Mapping[str, Any]
    """what the entries of each index are made of, by entity"""


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index of the table, of the catalog, or of both."""

    definition: IndexDefinition
    standing: Standing


async def read_state(store: Store) -> TableState:
    """Looks at a table and at its record of itself."""
    definition = await store.describe()
    if definition is None:
        return TableState(None, None, {}, {})
    (meta,) = await store.get_many([META_KEY], consistent=True)
    recorded = {} if meta is None else meta
    spaces, indexes = recorded.get("spaces", {}), recorded.get("indexes", {})
    return TableState(definition, recorded.get("format"), spaces, indexes)


def index_states(found: TableDefinition | None, needed: TableDefinition) -> list[IndexState]:
    """All indexes of the catalog, then those of the table that it does not use."""
    present = {index.name: index for index in found.indexes} if found is not None else {}
    states = []
    for index in needed.indexes:
        standing = present.pop(index.name, None)
        if standing is None:
            states.append(IndexState(index, "missing"))
        else:
            alone = (TableDefinition((standing,)), TableDefinition((index,)))
            states.append(IndexState(standing, "differs" if any(conflicts(*alone)) else "fits"))
    return [*states, *(IndexState(index, "not needed") for index in present.values())]


def differences(state: TableState, catalog: Catalog, *, removes_expired: bool) -> Iterator[str]:
    """Everything in which a table is not as the catalog needs it; expiry counts for engines that remove records."""
    needed = catalog.table_definition()
    yield from missing(state.definition, needed)
    yield from conflicts(state.definition, needed)
    if state.definition is None:
        return
    standing, wanted = state.definition.ttl_attribute, needed.ttl_attribute
    if removes_expired and standing != wanted:
        yield f"The table removes records by {standing or 'nothing'}, and the catalog needs {wanted or 'nothing'}."
    if state.format is None:
        yield "The table has no record of its format and shard generations: the first server writes it."
    elif state.format != TABLE_FORMAT:
        yield f"The table has format {state.format}, and this release reads format {TABLE_FORMAT}."
    else:
        yield from _space_differences(state.spaces, catalog)
        yield from index_changes(state.indexes, catalog)


def _space_differences(applied: Mapping[str, Any], catalog: Catalog) -> Iterator[str]:
    for entity in catalog.entities.values():
        stored, declared = applied.get(entity.name), space_of(entity)
        if stored is None:
            yield f"{entity.type_name} is not recorded in the table yet: {in_words(declared['generations'])}."
        elif (stored["width"], stored["function"]) != (declared["width"], declared["function"]):
            yield (
                f"{entity.type_name} was stored with shards of width {stored['width']} by {stored['function']}, and "
                f"the catalog says width {declared['width']} by {declared['function']}."
            )
        elif [*stored["generations"]] != declared["generations"]:
            yield (
                f"{entity.type_name} has the shard generations {in_words(stored['generations'])} in the table, and "
                f"{in_words(declared['generations'])} in the catalog."
            )

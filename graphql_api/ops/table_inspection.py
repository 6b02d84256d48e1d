"""Inspection of a table: its state, and its differences from what a catalog needs. Read-only."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from graphql_api.errors import WrongTable
from graphql_api.evolution import (
    ADOPT_TABLE_REMEDY,
    CREATE_TABLE_REMEDY,
    EARLIER_FORMAT,
    EPOCH_KEY,
    RENAME_INDEX_REMEDY,
    TABLE_FORMAT,
    TABLE_RECORD_KEY,
    RecordedElement,
    TableRecord,
    conflicting_definitions,
    declared_elements,
    foreign_table_problem,
    lookup_from_data,
    missing_definitions,
    proposed,
    recorded_generations,
    reported_state,
    unfinished_elements,
)
from graphql_api.model import Catalog, describe_element, element_remedy
from graphql_api.storage import IndexDefinition, Store, TableDefinition

IndexStatus = Literal["fits", "missing", "differs", "not needed"]


@dataclass(frozen=True, slots=True)
class TableState:
    """The state of a table."""

    definition: TableDefinition | None = None
    """None: the table does not exist"""
    format: Any = None
    """None: the table has no table record yet"""
    record: TableRecord | None = None
    """None: the table has no table record of the present format"""

    @property
    def index_names(self) -> Sequence[str]:
        """Return the names of the indexes of the table."""
        return [index.name for index in self.definition.indexes] if self.definition is not None else []

    @property
    def spaces(self) -> Mapping[str, Any]:
        """Return the recorded shard generations of each entity, with their states, by its name in hash keys."""
        return {} if self.record is None else {name: _space(self.record, name) for name in self.record.entities}


def _space(record: TableRecord, entity: str) -> dict[str, Any]:
    data = record.entities[entity]
    generations = [
        {
            "size": int(recorded.element.definition["size"]),
            "since": recorded.element.definition["since"],
            "state": reported_state(recorded),
        }
        for recorded in recorded_generations(record, entity)
    ]
    return {
        "width": int(data["width"]),
        "function": data["function"],
        "generations": [{"size": int(data["size"])}, *generations],
    }


async def read_state(store: Store) -> TableState:
    """Read the definition of a table and its table record."""
    definition = await store.describe()
    if definition is None:
        return TableState()
    item, epoch_item = await store.get_many([TABLE_RECORD_KEY, EPOCH_KEY], consistent=True)
    found = None if item is None else item.get("format")
    record = TableRecord.from_item(item, epoch_item) if item is not None and found == TABLE_FORMAT else None
    return TableState(definition, found, record)


def index_states(table: TableDefinition | None, needed: TableDefinition) -> list[tuple[IndexDefinition, IndexStatus]]:
    """Return all indexes of the catalog with their status, then the unused indexes of the table."""
    present = {index.name: index for index in table.indexes} if table is not None else {}
    states: list[tuple[IndexDefinition, IndexStatus]] = []
    for index in needed.indexes:
        existing = present.pop(index.name, None)
        if existing is None:
            states.append((index, "missing"))
        else:
            both = (TableDefinition((existing,)), TableDefinition((index,)))
            states.append((index, "differs" if any(conflicting_definitions(*both)) else "fits"))
    return [*states, *((index, "not needed") for index in present.values())]


# --- lookups ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LookupState:
    """A lookup of a table, of any catalog."""

    entity: str
    name: str
    secondary_key: Sequence[str]
    """stored names of its properties"""
    record_key: Sequence[str]
    """stored names of the ids, which order its results"""
    head: str
    """with which the hash keys of its mapping items begin"""
    store: str | None
    """the identity of the store of its mapping items; None: the table itself"""
    state: str
    is_declared: bool
    progress: str


def lookup_states(record: TableRecord, catalog: Catalog) -> list[LookupState]:
    """Return the lookups of a table: its catalog of lookups."""
    return [_lookup_state(record, one, catalog) for one in record.elements.values() if one.element.kind == "lookup"]


def _lookup_state(record: TableRecord, recorded: RecordedElement, catalog: Catalog) -> LookupState:
    element, entity = recorded.element, record.entities[recorded.element.entity]
    return LookupState(
        element.entity,
        element.name,
        [part["stored"] for part in element.definition["parts"]],
        [part["stored"] for part in (*entity["ids"], *entity["subIds"])],
        lookup_from_data(element).hash_entity,
        element.definition.get("store"),
        reported_state(recorded),
        element.id in declared_elements(catalog),
        record.progress_of(recorded),
    )


# --- differences -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between a table and a catalog, and what to do about it."""

    message: str
    remedy: str | None = None

    def __str__(self) -> str:
        return self.message if self.remedy is None else f"{self.message} {self.remedy}"


def differences(state: TableState, catalog: Catalog, *, removes_expired: bool) -> Iterator[Difference]:
    """Yield all differences between a table and a catalog. Expiry counts if the engine deletes expired records.

    An element that is not ready or unchecked is a difference too, also if only other catalogs declare it.
    """
    needed = catalog.table_definition()
    if state.definition is None:
        yield from (Difference(message, CREATE_TABLE_REMEDY) for message in missing_definitions(None, needed))
        return
    unbuilt = _unbuilt_indexes(state, catalog)
    built = TableDefinition(tuple(index for index in needed.indexes if index.name not in unbuilt))
    yield from (Difference(message, CREATE_TABLE_REMEDY) for message in missing_definitions(state.definition, built))
    yield from (
        Difference(message, RENAME_INDEX_REMEDY) for message in conflicting_definitions(state.definition, needed)
    )
    actual, wanted = state.definition.ttl_attribute, needed.ttl_attribute
    if removes_expired and actual != wanted:
        yield Difference(
            f"The table expires records by {actual or 'nothing'}, and the catalog needs {wanted or 'nothing'}."
        )
    if state.format is None:
        yield Difference("The table has no record of its entities and elements yet. The first server writes it.")
    elif state.format == EARLIER_FORMAT:
        yield Difference(
            f"The table has format {EARLIER_FORMAT}, which an earlier release wrote, and is not taken over yet.",
            "Stop all servers of that release, then start a server of this one, or run: "
            "shardql table create MODULE:CATALOG --store URL",
        )
    elif state.record is None:
        yield Difference(f"The table has format {state.format}, and this release supports format {TABLE_FORMAT}.")
    else:
        yield from _element_differences(state.record, catalog)


def _unbuilt_indexes(state: TableState, catalog: Catalog) -> set[str]:
    """Return the physical indexes of the catalog that only a migration may create."""
    if state.record is None or state.definition is None:
        return set()
    ready = {
        one.element.name
        for one in state.record.elements.values()
        if one.element.kind == "index" and one.state == "ready"
    }
    known = state.record.entities
    return {
        element.name
        for element in declared_elements(catalog).values()
        if element.kind == "index" and element.entity in known and element.name not in ready
    }


def _element_differences(record: TableRecord, catalog: Catalog) -> Iterator[Difference]:
    """Yield elements that are not ready, unchecked or unknown to the table, and definitions that conflict."""
    foreign = foreign_table_problem(record.entities, catalog)
    if foreign is not None:
        yield Difference(foreign, ADOPT_TABLE_REMEDY)
        return
    unfinished = unfinished_elements(record, catalog)
    for status in unfinished:
        yield Difference(describe_element(status), element_remedy(status))
    try:
        proposed(record, catalog)
    except WrongTable as error:
        if not any(status.state == "replaced" for status in unfinished):
            yield Difference(error.message)

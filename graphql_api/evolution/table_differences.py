"""How a stored table follows its catalog: the record that a table keeps about itself, and its differences.

docs/reference/table-format.md specifies the record: the format, shard generations and index entry formats.
"""

from collections.abc import Iterator, Mapping

from graphql_api.errors import WrongTable
from graphql_api.model import Catalog, IndexSpec
from graphql_api.storage import IndexDefinition, TableDefinition

CREATE_TABLE_REMEDY = "Create what is missing with: shardql table create MODULE:CATALOG --store URL"
RENAME_INDEX_REMEDY = (
    "An index cannot be changed: declare it under another name= in the catalog, or remove it from the table first."
)


def _entry_format(index: IndexSpec) -> str:
    """Return `userBeneficiaryHashKey: user, beneficiaryId text; createdRangeKey: created timestamp, userId text`."""
    hashed = [index.hash_entity, *(f"{part.stored} {part.column.codec.name}" for part in index.hash)]
    ordered = [f"{column.name} {column.codec.name}{' desc' if column.descending else ''}" for column in index.columns]
    raw = " raw" if index.raw else ""
    return f"{index.hash_attribute}: {', '.join(hashed)}; {index.range_attribute}{raw}: {', '.join(ordered)}"


def changed_index_entries(recorded: Mapping[str, Mapping[str, str]], catalog: Catalog) -> Iterator[str]:
    """Return a message for each index whose stored entries have another format: searches would miss those entries."""
    for entity in catalog.entities.values():
        stored_formats = recorded.get(entity.name, {})
        for index in entity.indexes.values():
            stored, declared = stored_formats.get(index.physical or "id"), _entry_format(index)
            if stored not in {None, declared}:
                yield (
                    f"The entries of {entity.type_name}.{index.attribute} are stored as {stored}, and the catalog "
                    f"declares {declared}: declare the new order as an index with another name, or use a new table."
                )


# --- differences between a stored table and the definition that a catalog needs; additional indexes are ignored ---


def missing_definitions(stored: TableDefinition | None, needed: TableDefinition) -> Iterator[str]:
    """Return a message for each part that the stored table lacks."""
    if stored is None:
        yield "There is no table."
        return
    present = {index.name for index in stored.indexes}
    yield from (f"The table has no index {index.name}." for index in needed.indexes if index.name not in present)


def conflicting_definitions(stored: TableDefinition | None, needed: TableDefinition) -> Iterator[str]:
    """Return a message for each part that the stored table defines differently."""
    if stored is None:
        return
    stored_keys, needed_keys = ((table.hash_attribute, table.range_attribute) for table in (stored, needed))
    if stored_keys != needed_keys:
        yield (
            f"The table has the keys {' and '.join(stored_keys)}, and the catalog needs {' and '.join(needed_keys)}."
        )
    present = {index.name: index for index in stored.indexes}
    for index in needed.indexes:
        found = present.get(index.name, index)
        parts = (
            ("hash key", found.hash_attribute, index.hash_attribute),
            ("range key", found.range_attribute, index.range_attribute),
            ("range key type", found.range_type, index.range_type),
            ("projection", describe_projection(found), describe_projection(index)),
        )
        for part, actual, expected in parts:
            if actual != expected:
                yield f"Index {index.name} has the {part} {actual}, and the catalog needs {expected}."


def refuse_differences(stored: TableDefinition | None, needed: TableDefinition) -> None:
    """Raise WrongTable if the stored table lacks a part, or defines one differently."""
    missing, conflicting = [*missing_definitions(stored, needed)], [*conflicting_definitions(stored, needed)]
    remedies = [CREATE_TABLE_REMEDY] * bool(missing) + [RENAME_INDEX_REMEDY] * bool(conflicting)
    if remedies:
        raise WrongTable(" ".join([*missing, *conflicting, *remedies]))


def describe_projection(index: IndexDefinition) -> str:
    """Return the projection of an index as one line of text."""
    projection = index.projection
    return f"INCLUDE {', '.join(sorted(projection))}" if isinstance(projection, tuple) else projection

"""Compare a stored table with the definition that a catalog needs. Additional indexes are ignored."""

from collections.abc import Iterator

from graphql_api.errors import WrongTable
from graphql_api.storage import IndexDefinition, TableDefinition

CREATE_TABLE_REMEDY = "Create what is missing with: shardql table create MODULE:CATALOG --store URL"
RENAME_INDEX_REMEDY = (
    "An index cannot be changed: declare it under another name= in the catalog, or remove it from the table first."
)


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
        if index.name in present:
            yield from _index_conflicts(present[index.name], index)


def refuse_differences(stored: TableDefinition | None, needed: TableDefinition) -> None:
    """Raise WrongTable if the stored table lacks a part, or defines one differently."""
    missing, conflicting = [*missing_definitions(stored, needed)], [*conflicting_definitions(stored, needed)]
    remedies = [CREATE_TABLE_REMEDY] * bool(missing) + [RENAME_INDEX_REMEDY] * bool(conflicting)
    if remedies:
        raise WrongTable(" ".join([*missing, *conflicting, *remedies]))


def _index_conflicts(stored: IndexDefinition, needed: IndexDefinition) -> Iterator[str]:
    parts = (
        ("hash key", stored.hash_attribute, needed.hash_attribute),
        ("range key", stored.range_attribute, needed.range_attribute),
        ("range key type", stored.range_type, needed.range_type),
        ("projection", describe_projection(stored), describe_projection(needed)),
    )
    for part, actual, expected in parts:
        if actual != expected:
            yield f"Index {needed.name} has the {part} {actual}, and the catalog needs {expected}."


def describe_projection(index: IndexDefinition) -> str:
    """Return the projection of an index as one line of text."""
    projection = index.projection
    return f"INCLUDE {', '.join(sorted(projection))}" if isinstance(projection, tuple) else projection

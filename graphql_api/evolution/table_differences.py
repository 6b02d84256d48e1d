"""In what a table differs from what a catalog needs. Indexes that nobody needs are none of its business."""

from collections.abc import Iterator

from graphql_api.errors import WrongTable
from graphql_api.storage import IndexDefinition, TableDefinition

MAKE_IT = "Make what is missing with: shardql table create MODULE:CATALOG --store URL"
RENAME_IT = "No index can be changed: give the catalog's another name=, or remove the table's first."


def missing(found: TableDefinition | None, needed: TableDefinition) -> Iterator[str]:
    """What a table lacks."""
    if found is None:
        yield "There is no table."
        return
    present = {index.name for index in found.indexes}
    yield from (f"The table has no index {index.name}." for index in needed.indexes if index.name not in present)


def conflicts(found: TableDefinition | None, needed: TableDefinition) -> Iterator[str]:
    """What a table has otherwise than needed."""
    if found is None:
        return
    keys, wanted = ((table.hash_attribute, table.range_attribute) for table in (found, needed))
    if keys != wanted:
        yield f"The table has the keys {' and '.join(keys)}, and the catalog needs {' and '.join(wanted)}."
    present = {index.name: index for index in found.indexes}
    for index in needed.indexes:
        if index.name in present:
            yield from _otherwise(present[index.name], index)


def refuse_differences(found: TableDefinition | None, needed: TableDefinition) -> None:
    """Nothing, if the table has all that is needed."""
    lacks, has_otherwise = [*missing(found, needed)], [*conflicts(found, needed)]
    remedies = [MAKE_IT] * bool(lacks) + [RENAME_IT] * bool(has_otherwise)
    if remedies:
        raise WrongTable(" ".join([*lacks, *has_otherwise, *remedies]))


def _otherwise(found: IndexDefinition, needed: IndexDefinition) -> Iterator[str]:
    parts = (
        ("hash key", found.hash_attribute, needed.hash_attribute),
        ("range key", found.range_attribute, needed.range_attribute),
        ("range key type", found.range_type, needed.range_type),
        ("projection", projection_words(found), projection_words(needed)),
    )
    for what, standing, wanted in parts:
        if standing != wanted:
            yield f"Index {needed.name} has the {what} {standing}, and the catalog needs {wanted}."


def projection_words(index: IndexDefinition) -> str:
    """What an index carries, in one line."""
    carried = index.projection
    return f"INCLUDE {', '.join(sorted(carried))}" if isinstance(carried, tuple) else carried

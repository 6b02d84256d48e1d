"""Checks of table and index definitions, and the attributes that they imply."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from graphql_api.errors import StoreRefused, WrongTable
from graphql_api.storage.values import IndexDefinition, RangeType, TableDefinition

MAX_INCLUDED = 100

_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")


def indexes_to_add(needed: TableDefinition, existing: TableDefinition | None) -> list[IndexDefinition]:
    """Return the indexes that the table lacks. Refuse a definition with conflicts or beyond a limit."""
    attributes = needed.hash_attribute, needed.range_attribute
    existing_indexes: dict[str, IndexDefinition] = {}
    if existing is not None:
        existing_indexes = {index.name: index for index in existing.indexes}
        existing_keys = existing.hash_attribute, existing.range_attribute
        if attributes != existing_keys:
            raise WrongTable(
                f"The table has the key attributes {existing_keys}, not {attributes}. Use another table, or "
                "these attributes."
            )
    for index in needed.indexes:
        other = existing_indexes.get(index.name, index)
        if _index_signature(index) != _index_signature(other):
            raise StoreRefused(
                f"Index {index.name!r} exists as {_describe_index(other)}, and {_describe_index(index)} is needed. "
                "Choose another name."
            )
    duplicates = [name for name, count in Counter(index.name for index in needed.indexes).items() if count > 1]
    if duplicates:
        raise StoreRefused(f"Index {duplicates[0]!r} is defined twice. Give every index its own name.")
    if attributes[0] == attributes[1]:
        raise StoreRefused(f"The table uses {attributes[0]!r} for both keys. Name two attributes.")
    added = [index for index in needed.indexes if index.name not in existing_indexes]
    _check_attributes(needed, [*existing_indexes.values(), *added])
    return added


def attribute_types(definition: TableDefinition, indexes: Iterable[IndexDefinition]) -> dict[str, RangeType]:
    """Return the type of each key attribute of the table and its indexes. Refuse an attribute with two types."""
    types: dict[str, RangeType] = {definition.hash_attribute: "S", definition.range_attribute: "S"}
    for index in indexes:
        keys: dict[str, RangeType] = {index.hash_attribute: "S", index.range_attribute: index.range_type}
        for attribute, kind in keys.items():
            if types.setdefault(attribute, kind) != kind:
                raise StoreRefused(
                    f"Index {index.name!r} uses {attribute!r} as {kind}, and another index does not. Use one type."
                )
    return types


def projected_attributes(definition: TableDefinition, index: IndexDefinition) -> frozenset[str] | None:
    """Return the attributes that an index projects, or None for all of them."""
    if index.projection == "ALL":
        return None
    return key_attributes(definition, index).union(() if index.projection == "KEYS_ONLY" else index.projection)


def key_attributes(definition: TableDefinition, index: IndexDefinition) -> frozenset[str]:
    """Return the key attributes of the table and of one of its indexes, which every row has."""
    table_keys = definition.hash_attribute, definition.range_attribute
    return frozenset({*table_keys, index.hash_attribute, index.range_attribute})


def _index_signature(index: IndexDefinition) -> tuple[Any, ...]:
    carried = frozenset(index.projection) if isinstance(index.projection, tuple) else index.projection
    return index.hash_attribute, index.range_attribute, index.range_type, carried


def _describe_index(index: IndexDefinition) -> str:
    carried = index.projection if isinstance(index.projection, str) else f"INCLUDE {', '.join(index.projection)}"
    return f"({index.hash_attribute}, {index.range_attribute}: {index.range_type}, {carried})"


def _check_attributes(definition: TableDefinition, indexes: Sequence[IndexDefinition]) -> None:
    for index in indexes:
        if not _NAME.fullmatch(index.name):
            raise StoreRefused(
                f"{index.name!r} is not a valid index name. Use 3 to 255 letters, digits, '_', '-' and '.'."
            )
        if index.hash_attribute == index.range_attribute:
            raise StoreRefused(f"Index {index.name!r} uses {index.hash_attribute!r} twice. Name two attributes.")
    attribute_types(definition, indexes)
    included = sum(len(index.projection) for index in indexes if isinstance(index.projection, tuple))
    if included > MAX_INCLUDED:
        raise StoreRefused(
            f"The indexes include {included} attributes, at most {MAX_INCLUDED} are allowed. Project ALL instead."
        )

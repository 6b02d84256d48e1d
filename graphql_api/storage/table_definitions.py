"""Which tables and indexes there can be, on any engine."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from graphql_api.errors import StoreRefused, WrongTable
from graphql_api.storage.request_checks import RangeType
from graphql_api.storage.values import IndexDefinition, TableDefinition

MAX_INCLUDED = 100

_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")


def added_indexes(wanted: TableDefinition, found: TableDefinition | None) -> list[IndexDefinition]:
    """The indexes that a table lacks; refuses a definition that contradicts itself, the table, or a limit."""
    existing = {} if found is None else {index.name: index for index in found.indexes}
    if found is not None:
        _check_key_attributes(wanted, found)
    added = [index for index in wanted.indexes if index.name not in existing]
    for index in wanted.indexes:
        _check_same(index, existing.get(index.name, index))
    _check_doubles(wanted)
    _check_attributes(wanted, [*existing.values(), *added])
    return added


def attribute_types(definition: TableDefinition, indexes: Iterable[IndexDefinition]) -> dict[str, RangeType]:
    """The type of each attribute that is a key somewhere; refuses one that would have two."""
    types: dict[str, RangeType] = {definition.hash_attribute: "S", definition.range_attribute: "S"}
    for index in indexes:
        for attribute, kind in _key_attributes(index):
            if types.setdefault(attribute, kind) != kind:
                raise StoreRefused(f"Index {index.name!r} takes {attribute!r} for {kind}, another one does not. Agree.")
    return types


def carried_attributes(definition: TableDefinition, index: IndexDefinition) -> frozenset[str] | None:
    """The attributes that an index answers, or None for all of them."""
    if index.projection == "ALL":
        return None
    keys = {definition.hash_attribute, definition.range_attribute, index.hash_attribute, index.range_attribute}
    return frozenset(keys.union(() if index.projection == "KEYS_ONLY" else index.projection))


def _check_key_attributes(wanted: TableDefinition, found: TableDefinition) -> None:
    attributes = (wanted.hash_attribute, wanted.range_attribute)
    standing = (found.hash_attribute, found.range_attribute)
    if attributes != standing:
        raise WrongTable(
            f"The table has the key attributes {standing}, not {attributes}. Use another table, or its attributes."
        )


def _check_same(wanted: IndexDefinition, found: IndexDefinition) -> None:
    if _comparable(wanted) != _comparable(found):
        raise StoreRefused(
            f"Index {wanted.name!r} exists as {_shown(found)}, and {_shown(wanted)} is asked for. Choose another name."
        )


def _comparable(index: IndexDefinition) -> tuple[Any, ...]:
    carried = frozenset(index.projection) if isinstance(index.projection, tuple) else index.projection
    return index.hash_attribute, index.range_attribute, index.range_type, carried


def _shown(index: IndexDefinition) -> str:
    carried = index.projection if isinstance(index.projection, str) else f"INCLUDE {', '.join(index.projection)}"
    return f"({index.hash_attribute}, {index.range_attribute}: {index.range_type}, {carried})"


def _key_attributes(index: IndexDefinition) -> tuple[tuple[str, RangeType], ...]:
    return (index.hash_attribute, "S"), (index.range_attribute, index.range_type)


def _check_doubles(definition: TableDefinition) -> None:
    doubled = [name for name, count in Counter(index.name for index in definition.indexes).items() if count > 1]
    if doubled:
        raise StoreRefused(f"Index {doubled[0]!r} is defined twice. Give every index its own name.")
    if definition.hash_attribute == definition.range_attribute:
        raise StoreRefused(f"The table uses {definition.hash_attribute!r} for both of its keys. Name two attributes.")


def _check_attributes(definition: TableDefinition, indexes: Sequence[IndexDefinition]) -> None:
    for index in indexes:
        if not _NAME.fullmatch(index.name):
            raise StoreRefused(
                f"{index.name!r} is no name of an index. Use 3 to 255 letters, digits, '_', '-' and '.'."
            )
        if index.hash_attribute == index.range_attribute:
            raise StoreRefused(f"Index {index.name!r} uses {index.hash_attribute!r} twice. Name two attributes.")
    attribute_types(definition, indexes)
    included = sum(len(index.projection) for index in indexes if isinstance(index.projection, tuple))
    if included > MAX_INCLUDED:
        raise StoreRefused(
            f"The indexes include {included} attributes, {MAX_INCLUDED} are allowed. Project ALL instead."
        )

"""Constraint items: unique items reserve the unique values of a record, reference items record its foreign keys.

They are written in the transaction of the record, and name their owner: the record whose key they were made from.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from graphql_api.codecs import SEP, hash_key
from graphql_api.errors import EmptyKey, InvalidValue, KeyTooLong, PropertyName, about
from graphql_api.model import HASH_ATTRIBUTE, RANGE_ATTRIBUTE, EntitySpec, ForeignKeySpec, PropertySpec, UniqueSpec
from graphql_api.storage import MAX_RANGE_BYTES, Item, Key
from graphql_api.writes.item_keys import WRITE_ID, item_key, possible_keys
from graphql_api.writes.optimistic_concurrency import new_write_id

OWNER = "_owner"
"""attribute of constraint items: hash key and range key of the record that they belong to"""

OWNER_EXPIRES = "_until"
"""attribute of constraint items: the second at which their owner expires, if it does"""


@dataclass(frozen=True, slots=True)
class UniqueItem:
    """The constraint item of a unique value."""

    unique: UniqueSpec
    values: tuple[Any, ...]
    item: Item


@dataclass(frozen=True, slots=True)
class ReferenceItem:
    """The constraint item of a foreign key."""

    foreign_key: ForeignKeySpec
    values: tuple[Any, ...]
    item: Item


def unique_items(entity: EntitySpec, item: Item, tenant: str | None) -> dict[Key, UniqueItem]:
    """Return the unique items of a stored record, by their keys."""
    items = {}
    for unique in entity.unique:
        values = _load_values(unique.parts, item)
        if values is not None:
            key = _unique_item_key(entity, unique, values, tenant)
            items[key] = UniqueItem(unique, values, _constraint_item(entity, key, item))
    return items


def reference_items(entity: EntitySpec, item: Item, tenant: str | None) -> dict[Key, ReferenceItem]:
    """Return the reference items of a stored record, by their keys."""
    items = {}
    for foreign_key in entity.foreign_keys:
        values = _load_values(foreign_key.by, item)
        if values is not None:
            key = _reference_item_key(entity, foreign_key, values, item, tenant)
            items[key] = ReferenceItem(foreign_key, values, _constraint_item(entity, key, item))
    return items


def constraint_keys(entity: EntitySpec, item: Item, tenant: str | None) -> list[Key]:
    """Return the keys of all constraint items of a stored record.

    Values that are too long for a key are older than the constraint. They are skipped, so that the record can be
    corrected.
    """
    keys = []
    for unique in entity.unique:
        values = _load_values(unique.parts, item)
        if values is not None:
            with suppress(KeyTooLong):
                keys.append(_unique_item_key(entity, unique, values, tenant))
    for foreign_key in entity.foreign_keys:
        values = _load_values(foreign_key.by, item)
        if values is not None:
            with suppress(KeyTooLong):
                keys.append(_reference_item_key(entity, foreign_key, values, item, tenant))
    return keys


def parent_keys(foreign_key: ForeignKeySpec, values: Sequence[Any], tenant: str | None) -> list[Key]:
    """Return every key that the referenced record can have; none if the values cannot be a primary key."""
    try:
        return possible_keys(foreign_key.parent, values, tenant)
    except (EmptyKey, KeyTooLong):
        return []


def _unique_item_key(entity: EntitySpec, unique: UniqueSpec, values: Sequence[Any], tenant: str | None) -> Key:
    first = unique.parts[0]
    with about(PropertyName(first.input_names[0])):
        return Key(hash_key(f"{entity.name}~unique", "", _encode_values(unique.parts, values), tenant), unique.name)


def _reference_item_key(
    entity: EntitySpec, foreign_key: ForeignKeySpec, values: Sequence[Any], item: Item, tenant: str | None
) -> Key:
    with about(PropertyName(foreign_key.by[0].name)):
        hash_text = references_hash_key(foreign_key.parent, values, tenant)
    range_key = f"{entity.name}.{foreign_key.name}{SEP}{item[RANGE_ATTRIBUTE]}"
    size = len(range_key.encode())
    if size > MAX_RANGE_BYTES:
        raise KeyTooLong(
            f"{entity.type_name}.{foreign_key.name}: the reference item would have a key of {size:,} bytes, at most "
            f"{MAX_RANGE_BYTES:,} fit. Shorten the record's id.",
            argument=PropertyName(entity.primary_key[0].name if entity.primary_key else foreign_key.by[0].name),
        )
    return Key(hash_text, range_key)


def references_hash_key(parent: EntitySpec, values: Sequence[Any], tenant: str | None) -> str:
    """Return the hash key of all reference items that reference one record."""
    return hash_key(f"{parent.name}~refs", "", _encode_values(parent.ids, values), tenant)


def owner_key(item: Item) -> Key:
    """Return the key of the record that owns a constraint item."""
    hash_text, range_text = item[OWNER]
    return Key(hash_text, range_text)


def _constraint_item(entity: EntitySpec, key: Key, owner: Item) -> Item:
    item: dict[str, Any] = {
        HASH_ATTRIBUTE: key.hash,
        RANGE_ATTRIBUTE: key.range,
        OWNER: [*item_key(owner)],
        WRITE_ID: new_write_id(),
    }
    if entity.ttl is not None and owner.get(entity.ttl.stored) is not None:
        item |= {OWNER_EXPIRES: owner[entity.ttl.stored], entity.ttl.stored: owner[entity.ttl.stored]}
    return item


def _load_values(parts: Sequence[PropertySpec], item: Item) -> tuple[Any, ...] | None:
    """Return the values of properties; None if one of them is null or does not fit its property."""
    if any(item.get(part.stored) is None for part in parts):
        return None
    try:
        return tuple(part.column.codec.load(item[part.stored]) for part in parts)
    except InvalidValue:  # Another application wrote the value.
        return None


def _encode_values(parts: Sequence[PropertySpec], values: Sequence[Any]) -> list[tuple[str, str]]:
    return [(part.stored, part.column.encode(value)) for part, value in zip(parts, values, strict=True)]

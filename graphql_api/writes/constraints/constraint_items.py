"""What binds a record to others: items that hold its unique values, and items that stand for its foreign keys.

They are written in the record's own transaction, and name their owner: the record by whose key they came to be.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from graphql_api.codecs import SEP, hash_key
from graphql_api.errors import EmptyKey, InvalidValue, KeyTooLong, about
from graphql_api.model import HASH_ATTRIBUTE, RANGE_ATTRIBUTE, EntitySpec, ForeignKeySpec, PropertySpec, UniqueSpec
from graphql_api.storage import MAX_RANGE_BYTES, Item, Key
from graphql_api.writes.item_keys import WRITE_ID, key_of, keys_of
from graphql_api.writes.optimistic_concurrency import new_write_id

OWNER = "_owner"
"""attribute of such items: hash key and range key of the record that they belong to"""

UNTIL = "_until"
"""attribute of such items: the second at which their owner expires, if it does"""


@dataclass(frozen=True, slots=True)
class Held:
    """A unique value that a record has."""

    unique: UniqueSpec
    values: tuple[Any, ...]
    item: Item


@dataclass(frozen=True, slots=True)
class Reference:
    """A record that a record names by a foreign key."""

    foreign_key: ForeignKeySpec
    values: tuple[Any, ...]
    item: Item


def held_by(entity: EntitySpec, item: Item, tenant: str | None) -> dict[Key, Held]:
    """The unique values of a stored record, by the keys of their items."""
    found = {}
    for unique in entity.unique:
        values = _values(unique.parts, item)
        if values is not None:
            key = _held_key(entity, unique, values, tenant)
            found[key] = Held(unique, values, _bound(entity, key, item))
    return found


def references_of(entity: EntitySpec, item: Item, tenant: str | None) -> dict[Key, Reference]:
    """The foreign keys of a stored record, by the keys of their items."""
    found = {}
    for foreign_key in entity.foreign_keys:
        values = _values(foreign_key.by, item)
        if values is not None:
            key = _reference_key(entity, foreign_key, values, item, tenant)
            found[key] = Reference(foreign_key, values, _bound(entity, key, item))
    return found


def bound_keys(entity: EntitySpec, item: Item, tenant: str | None) -> list[Key]:
    """The keys of all items that stand for a stored record.

    What is too long to have one is from before the constraint, and must not keep the record from being put right.
    """
    found = []
    for unique in entity.unique:
        values = _values(unique.parts, item)
        if values is not None:
            with suppress(KeyTooLong):
                found.append(_held_key(entity, unique, values, tenant))
    for foreign_key in entity.foreign_keys:
        values = _values(foreign_key.by, item)
        if values is not None:
            with suppress(KeyTooLong):
                found.append(_reference_key(entity, foreign_key, values, item, tenant))
    return found


def parent_keys(foreign_key: ForeignKeySpec, values: Sequence[Any], tenant: str | None) -> list[Key]:
    """Every key under which the record can stand that is named so; none, where no record can be called that."""
    try:
        return keys_of(foreign_key.parent, values, tenant)
    except (EmptyKey, KeyTooLong):
        return []


def _held_key(entity: EntitySpec, unique: UniqueSpec, values: Sequence[Any], tenant: str | None) -> Key:
    first = unique.parts[0]
    with about(first.given_by[0]):
        return Key(hash_key(f"{entity.name}~unique", "", _pairs(unique.parts, values), tenant), unique.name)


def _reference_key(
    entity: EntitySpec, foreign_key: ForeignKeySpec, values: Sequence[Any], item: Item, tenant: str | None
) -> Key:
    with about(foreign_key.by[0].name):
        hash_text = references_key(foreign_key.parent, values, tenant)
    own = f"{entity.name}.{foreign_key.name}{SEP}{item[RANGE_ATTRIBUTE]}"
    size = len(own.encode())
    if size > MAX_RANGE_BYTES:
        raise KeyTooLong(
            f"{entity.type_name}.{foreign_key.name}: the item that stands for it would have a key of {size:,} bytes, "
            f"at most {MAX_RANGE_BYTES:,} fit. Shorten the record's id.",
            argument=entity.primary[0].name if entity.primary else foreign_key.by[0].name,
        )
    return Key(hash_text, own)


def references_key(parent: EntitySpec, values: Sequence[Any], tenant: str | None) -> str:
    """The hash key under which everything stands that names a record."""
    return hash_key(f"{parent.name}~refs", "", _pairs(parent.ids, values), tenant)


def owner_of(item: Item) -> Key:
    """The record that such an item belongs to."""
    hash_text, range_text = item[OWNER]
    return Key(hash_text, range_text)


def _bound(entity: EntitySpec, key: Key, owner: Item) -> Item:
    item: dict[str, Any] = {
        HASH_ATTRIBUTE: key.hash,
        RANGE_ATTRIBUTE: key.range,
        OWNER: [*key_of(owner)],
        WRITE_ID: new_write_id(),
    }
    if entity.ttl is not None and owner.get(entity.ttl.stored) is not None:
        item |= {UNTIL: owner[entity.ttl.stored], entity.ttl.stored: owner[entity.ttl.stored]}
    return item


def _values(parts: Sequence[PropertySpec], item: Item) -> tuple[Any, ...] | None:
    """The values of properties; None as soon as one of them is null, or nothing that the property can have."""
    if any(item.get(part.stored) is None for part in parts):
        return None
    try:
        return tuple(part.column.codec.load(item[part.stored]) for part in parts)
    except InvalidValue:  # Somebody else wrote it.
        return None


def _pairs(parts: Sequence[PropertySpec], values: Sequence[Any]) -> list[tuple[str, str]]:
    return [(part.stored, part.column.encode(value)) for part, value in zip(parts, values, strict=True)]

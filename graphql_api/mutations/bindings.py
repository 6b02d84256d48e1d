"""What binds a record to others: items that hold its unique values, and items that stand for its foreign keys.

They are written in the record's own transaction, and name their owner: the record by whose key they came to be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.catalog.read_entity import HASH_ATTRIBUTE, RANGE_ATTRIBUTE
from graphql_api.catalog.specs import EntitySpec, ForeignKeySpec, PropertySpec, UniqueSpec
from graphql_api.errors import InvalidValue, KeyTooLong, about
from graphql_api.keys.hash_keys import hash_key
from graphql_api.keys.segments import SEP
from graphql_api.mutations.item_keys import WRITE_ID, key_of
from graphql_api.mutations.tries import new_write_id
from graphql_api.store.checks import MOST_RANGE_BYTES
from graphql_api.store.values import Item, Key

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
            with about(unique.parts[0].name):
                hash_text = hash_key(f"{entity.name}~unique", "", _pairs(unique.parts, values), tenant)
            key = Key(hash_text, unique.name)
            found[key] = Held(unique, values, _bound(entity, key, item))
    return found


def references_of(entity: EntitySpec, item: Item, tenant: str | None) -> dict[Key, Reference]:
    """The foreign keys of a stored record, by the keys of their items."""
    found = {}
    for foreign_key in entity.foreign_keys:
        values = _values(foreign_key.by, item)
        if values is not None:
            with about(foreign_key.by[0].name):
                own = f"{entity.name}.{foreign_key.name}{SEP}{item[RANGE_ATTRIBUTE]}"
                key = Key(references_key(foreign_key.parent, values, tenant), _fitting(own))
            found[key] = Reference(foreign_key, values, _bound(entity, key, item))
    return found


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


def _fitting(range_key: str) -> str:
    size = len(range_key.encode())
    if size > MOST_RANGE_BYTES:
        raise KeyTooLong(
            f"The item that stands for it would have a key of {size:,} bytes, at most {MOST_RANGE_BYTES:,} fit. "
            "Shorten the record's id."
        )
    return range_key

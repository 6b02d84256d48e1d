"""Lookups and the keys of their mapping items.

A mapping item says that a record has certain values. Its hash key contains the values, and its range key is that of the
record: so the mapping items of a value are one range, in the order of the record keys.
"""

from collections.abc import Sequence
from typing import Any

from graphql_api.codecs import hash_key, hash_key_parts
from graphql_api.errors import InvalidValue
from graphql_api.model.access_declarations import Rules
from graphql_api.model.naming import HASH_ATTRIBUTE, OWNER, RANGE_ATTRIBUTE
from graphql_api.model.record_codec import stored_value
from graphql_api.model.specs import IndexSpec, PropertySpec
from graphql_api.sharding import ONE_SHARD
from graphql_api.storage import MAX_HASH_BYTES, MAX_RANGE_BYTES, Item, Key

_KIND = "lookup."
MAX_MAPPING_BYTES = 8 * 1024
"""more than a mapping item can have: its key, the key of its record, and its expiry"""


def lookup_spec(
    entity: str,
    name: str,
    properties: tuple[PropertySpec, ...],
    *,
    attribute: str = "",
    search_name: str = "",
    primary_key: tuple[PropertySpec, ...] = (),
    allow: Rules | None = None,
) -> IndexSpec:
    """Return a lookup as an index whose entries are the mapping items. `name`: in the table."""
    return IndexSpec(
        entity=entity,
        attribute=attribute or name,
        name=search_name or name,
        physical=None,
        hash_attribute=HASH_ATTRIBUTE,
        range_attribute=RANGE_ATTRIBUTE,
        hash_entity=f"{entity}~{_KIND}{name}",
        space=ONE_SHARD,
        is_sharded=False,
        hash=properties,
        tie_breaker=primary_key,
        projection="KEYS_ONLY",
        allow=allow,
        lookup=name,
    )


def lookup_name(kind: str) -> str | None:
    """Return the name of the lookup in the head of a hash key, `user~lookup.phone`; None for other kinds of items."""
    return kind.removeprefix(_KIND) if kind.startswith(_KIND) else None


def is_mapping_key(hash_text: str) -> bool:
    """Return whether the items with a hash key are mapping items."""
    parts = hash_key_parts(hash_text)
    return parts is not None and lookup_name(parts.kind) is not None


def mapping_key(lookup: IndexSpec, item: Item, tenant: str | None) -> Key | None:
    """Return the key of the mapping item of a stored record; None if the lookup does not contain the record."""
    try:
        values = [stored_value(part, item) for part in lookup.hash]
    except InvalidValue:  # Another application wrote the value.
        return None
    if None in values or "" in values:
        return None
    return Key(hash_key(lookup.hash_entity, "", encode_values(lookup.hash, values), tenant), item[RANGE_ATTRIBUTE])


def encode_values(parts: Sequence[PropertySpec], values: Sequence[Any]) -> list[tuple[str, str]]:
    """Return the parts of a hash key: the stored name and the encoded value of each property."""
    return [(part.stored, part.column.encode(value)) for part, value in zip(parts, values, strict=True)]


def mapped_record(mapping: Item) -> Key | None:
    """Return the key of the record that a mapping item names; None if it names none of its entity and tenant."""
    own = hash_key_parts(mapping[HASH_ATTRIBUTE])
    record = None if own is None else named_owner(mapping, own.entity, own.tenant)
    return record if record is not None and record.range == mapping[RANGE_ATTRIBUTE] else None


def named_owner(item: Item, entity: str, tenant: str | None) -> Key | None:
    """Return the record key in a constraint or mapping item; None if it is no key of this entity and tenant."""
    owner, limits = item.get(OWNER), (MAX_HASH_BYTES, MAX_RANGE_BYTES)
    if not isinstance(owner, list | tuple) or len(owner) != len(limits):
        return None
    sized = zip(owner, limits, strict=True)
    if not all(isinstance(part, str) and 0 < len(part.encode()) <= limit for part, limit in sized):
        return None
    place = hash_key_parts(owner[0])
    return Key(*owner) if place is not None and (place.head, place.tenant) == (entity, tenant) else None

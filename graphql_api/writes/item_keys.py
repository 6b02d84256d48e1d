"""Derive items and keys from records. No other module does (docs/reference/: key-format.md, table-format.md)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from graphql_api.codecs import MAX_KEY_BYTES, encode_tuple, hash_key, join_segments
from graphql_api.errors import EmptyKey, InvalidValue, KeyTooLong, PropertyName, SearchName, ShardQLError, about
from graphql_api.model import (
    HASH_ATTRIBUTE,
    RANGE_ATTRIBUTE,
    Entity,
    EntitySpec,
    IndexSpec,
    PropertySpec,
    encode_record,
    value_of,
    values_by_name,
)
from graphql_api.storage import (
    MAX_RECORD_BYTES,
    Item,
    Key,
    Put,
    RangeType,
    TransactionWrite,
    check_record_size,
    values_equal,
)
from graphql_api.writes.display_names import property_error
from graphql_api.writes.index_keys import RecordIdentity, index_keys, is_plain_key, longest_input

WRITE_ID = "_w"
"""attribute of every record: identifies the write that produced it"""

CURRENT_OF = "_of"
"""attribute of current records: the sub id of the entry that they are a copy of"""

DELETE_INTENT = "_closing"
"""attribute of a record that is being deleted: the millisecond at which the delete began"""

WRITTEN_AT = "_at"
"""attribute of mapping items in a store of their own: the second at which they were written"""

BOOKKEEPING = frozenset({WRITE_ID, DELETE_INTENT, WRITTEN_AT})
"""attributes that a comparison of items ignores"""

INTERNAL_ATTRIBUTES = frozenset({HASH_ATTRIBUTE, RANGE_ATTRIBUTE, WRITE_ID, CURRENT_OF, DELETE_INTENT})

NOTHING: Item = MappingProxyType({})


def item_key(item: Item) -> Key:
    """Return the key of an item."""
    return Key(item[HASH_ATTRIBUTE], item[RANGE_ATTRIBUTE])


def is_same_item(one: Item, other: Item) -> bool:
    """Return whether two items are equal, apart from their bookkeeping."""
    names = (one.keys() | other.keys()) - BOOKKEEPING
    return all(name in one and name in other and values_equal(one[name], other[name]) for name in names)


def write_key(write: TransactionWrite) -> Key:
    """Return the key of the item that a write concerns."""
    return item_key(write.item) if isinstance(write, Put) else write.key


def to_item(entity: EntitySpec, record: Entity, tenant: str | None, write_id: str, kept: Item = NOTHING) -> Item:
    """Return the stored form of a record: its attributes, its key, and the key attributes of its indexes.

    `kept`: attributes of the stored record that the entity does not declare.
    """
    item = {**kept, **encode_record(entity, record)}
    values = values_by_name(record, entity.properties.keys())
    created = None if entity.created is None else values[entity.created.name]
    own_id = encode_id(entity, [values[part.name] for part in entity.ids])
    for part in entity.sub_ids:
        _check_not_empty(entity, part, values[part.name])
    for index in entity.raw_indexes:
        _check_plain_key(entity, index, item)
    item[WRITE_ID] = write_id
    index_keys(entity).add_to(item, values, RecordIdentity(own_id, created, tenant))
    if entity.recorded is not None:
        for attribute, key_type in entity.recorded.raw_keys.items():
            _make_storable(item, entity, attribute, key_type)
    if entity.max_record_bytes < MAX_RECORD_BYTES:
        check_record_size(item, entity.type_name, entity.max_record_bytes)
    return item


def to_current_item(entity: EntitySpec, entry: Entity, tenant: str | None, write_id: str, kept: Item = NOTHING) -> Item:
    """Return the stored form of the current record that is a copy of an entry."""
    (sub_id,) = entity.sub_ids
    current = entry.model_copy(update={sub_id.name: entity.written_current})
    return {**to_item(entity, current, tenant, write_id, kept), CURRENT_OF: value_of(entry, sub_id.name)}


def _check_plain_key(entity: EntitySpec, index: IndexSpec, attributes: Mapping[str, Any]) -> None:
    """Reject values that no engine accepts as the key of a raw index, also if the index does not contain the record."""
    part = index.sort[0].property
    plain = attributes.get(part.stored)
    if not isinstance(plain, str) or 0 < len(plain.encode()) <= MAX_KEY_BYTES:
        return
    names = {"index": SearchName(entity.type_name, index.attribute), "argument": PropertyName(part.input_names[0])}
    if not plain:
        problem = "{property} is empty, and {index} stores it as a plain key, which no engine accepts: leave it null."
        raise property_error(EmptyKey, problem, entity, part, **names)
    problem = (
        "{property} has {size:,} bytes, and {index} stores it as a plain key, where at most {limit:,} fit: shorten it."
    )
    size = len(plain.encode())
    raise property_error(KeyTooLong, problem, entity, part, size=size, limit=MAX_KEY_BYTES, **names)


def _make_storable(item: dict[str, Any], entity: EntitySpec, attribute: str, key_type: RangeType) -> None:
    """Remove a value that no engine accepts, because a raw index of the table has its attribute as key.

    The entity need not declare that index: it may belong to another catalog, or even to another entity. The value is
    removed if the record reads as before without it. Otherwise the write is refused, as by servers with the index.
    """
    part = next((part for part in entity.properties.values() if part.stored == attribute), None)
    if part is None or attribute not in item or is_plain_key(item[attribute], key_type):
        return
    stored = item.pop(attribute)
    unset = None if part.default is None else part.column.codec.store(part.default)
    if stored == unset:
        return
    needed = "a number" if key_type == "N" else f"a text of 1 to {MAX_KEY_BYTES:,} bytes"
    kind = EmptyKey if stored == "" else KeyTooLong if isinstance(stored, str) and key_type == "S" else InvalidValue
    problem = "{property} must be {needed}: an index of the table stores it as a plain key. Choose another value."
    raise property_error(kind, problem, entity, part, needed=needed, argument=PropertyName(part.input_names[0]))


def encode_id(entity: EntitySpec, values: Sequence[Any]) -> str:
    """Return the unique id that determines the shard: its encoded values, without names."""
    for part, value in zip(entity.ids, values, strict=True):
        _check_not_empty(entity, part, value)
    return join_segments([part.column.encode(value) for part, value in zip(entity.ids, values, strict=True)])


def possible_hash_keys(entity: EntitySpec, own_id: str, tenant: str | None, generation: int | None = None) -> list[str]:
    """Return every hash key that a record with this id can have: of each shard generation, or of the known one."""
    numbers = range(len(entity.space.generations)) if generation is None else (generation,)
    ordinals = {entity.space.ordinal(own_id, number) for number in numbers}
    return [hash_key(entity.name, entity.space.shard_text(ordinal), (), tenant) for ordinal in sorted(ordinals)]


def possible_keys(
    entity: EntitySpec, values: Sequence[Any], tenant: str | None, generation: int | None = None
) -> list[Key]:
    """Return every key that the record of a primary key can have: of each shard generation, or of the known one."""
    for part, value in zip(entity.primary_key, values, strict=True):
        _check_not_empty(entity, part, value)
    try:
        range_key = encode_tuple(entity.indexes["by_id"].columns, values)
    except ShardQLError:
        with about(longest_input(entity.primary_key, values)):
            raise
    own_id = encode_id(entity, values[: len(entity.ids)])
    return [Key(hash_text, range_key) for hash_text in possible_hash_keys(entity, own_id, tenant, generation)]


def _check_not_empty(entity: EntitySpec, part: PropertySpec, value: Any) -> None:
    if value == "":
        problem = "{property} is part of the record's key and is empty: provide a text."
        raise property_error(EmptyKey, problem, entity, part)

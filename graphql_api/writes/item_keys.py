"""Derive items and keys from records. No other module does (docs/key-format.md, docs/table-format.md)."""

from collections.abc import Mapping, Sequence
from typing import Any

from graphql_api.codecs import MAX_KEY_BYTES, encode_tuple, hash_key, join_segments
from graphql_api.errors import EmptyKey, KeyTooLong, PropertyName, SearchName, ShardQLError, about
from graphql_api.model import (
    HASH_ATTRIBUTE,
    RANGE_ATTRIBUTE,
    Entity,
    EntitySpec,
    IndexSpec,
    PropertySpec,
    encode_record,
    value_of,
)
from graphql_api.storage import Item, Key
from graphql_api.writes.display_names import property_name

WRITE_ID = "_w"
"""attribute of every record: identifies the write that produced it"""

CURRENT_OF = "_of"
"""attribute of current records: the sub id of the entry that they are a copy of"""


def item_key(item: Item) -> Key:
    """Return the key of an item."""
    return Key(item[HASH_ATTRIBUTE], item[RANGE_ATTRIBUTE])


def to_item(entity: EntitySpec, record: Entity, tenant: str | None, write_id: str) -> Item:
    """Return the stored form of a record: its attributes, its key, and the key attributes of its indexes."""
    attributes = encode_record(entity, record)
    values = {part.name: value_of(record, part.name) for part in entity.properties.values()}
    created = values[entity.created.name] if entity.created is not None else None
    own_id = encode_id(entity, [values[part.name] for part in entity.ids])
    for part in entity.sub_ids:
        _check_not_empty(entity, part, values[part.name])
    item: dict[str, Any] = {**attributes, WRITE_ID: write_id}
    for index in entity.indexes.values():
        if index.raw:
            _check_plain_key(entity, index, attributes)
        hash_values = [values[part.name] for part in index.hash]
        range_values = [values[part.name] for part in index.range_properties]
        if None in hash_values or "" in hash_values or (range_values and range_values[0] is None):
            continue  # This index does not contain the record.
        # Indexes that share a key attribute derive it in the same way.
        if index.hash_attribute not in item:
            item[index.hash_attribute] = _index_hash_key(entity, index, hash_values, own_id, created, tenant)
        if index.range_attribute not in item:
            item[index.range_attribute] = _index_range_key(entity, index, range_values)
    return item


def to_current_item(entity: EntitySpec, entry: Entity, tenant: str | None, write_id: str) -> Item:
    """Return the stored form of the current record that is a copy of an entry."""
    (sub_id,) = entity.sub_ids
    current = entry.model_copy(update={sub_id.name: entity.current})
    return {**to_item(entity, current, tenant, write_id), CURRENT_OF: value_of(entry, sub_id.name)}


def _index_hash_key(
    entity: EntitySpec, index: IndexSpec, values: Sequence[Any], own_id: str, created: Any, tenant: str | None
) -> str:
    encoded = [part.column.encode(value) for part, value in zip(index.hash, values, strict=True)]
    generation = index.space.generation_at(created)
    ordinal = index.space.ordinal(join_segments(encoded) if index.sharded_like_parent else own_id, generation)
    named_values = [(part.stored, text) for part, text in zip(index.hash, encoded, strict=True)]
    try:
        return hash_key(index.hash_entity, index.space.shard_text(ordinal), named_values, tenant)
    except KeyTooLong as problem:
        raise _index_key_too_long(entity, index, problem, _longest(index.hash, encoded) or "tenant") from problem


def _index_range_key(entity: EntitySpec, index: IndexSpec, values: Sequence[Any]) -> str:
    try:
        return encode_tuple(index.columns, values)
    except KeyTooLong as problem:
        raise _index_key_too_long(entity, index, problem, _longest(index.range_properties, values)) from problem


def _check_plain_key(entity: EntitySpec, index: IndexSpec, attributes: Mapping[str, Any]) -> None:
    """Reject values that no engine accepts as the key of a raw index, also if the index does not contain the record."""
    part = index.sort[0].property
    plain = attributes.get(part.stored)
    if plain == "":
        raise EmptyKey(
            "{property} is empty, and {index} stores it as a plain key, which no engine accepts: leave it null.",
            property=property_name(entity, part),
            index=SearchName(entity.type_name, index.attribute),
            argument=PropertyName(part.input_names[0]),
        )
    size = len(plain.encode()) if isinstance(plain, str) else 0
    if size > MAX_KEY_BYTES:
        raise KeyTooLong(
            "{property} has {size:,} bytes, and {index} stores it as a plain key, where at most {limit:,} fit: shorten "
            "it.",
            property=property_name(entity, part),
            index=SearchName(entity.type_name, index.attribute),
            size=size,
            limit=MAX_KEY_BYTES,
            argument=PropertyName(part.input_names[0]),
        )


def _index_key_too_long(
    entity: EntitySpec, index: IndexSpec, problem: KeyTooLong, argument: PropertyName | str | None
) -> KeyTooLong:
    return KeyTooLong(
        "{index}: {problem}", index=SearchName(entity.type_name, index.attribute), problem=problem, argument=argument
    )


def _longest(parts: Sequence[PropertySpec], values: Sequence[Any]) -> PropertyName | None:
    """Return the property with the longest value, or the source that a derived one is computed from."""
    sizes = [len(str(value).encode(errors="surrogatepass")) for value in values]
    return PropertyName(parts[sizes.index(max(sizes))].input_names[0]) if sizes else None


def encode_id(entity: EntitySpec, values: Sequence[Any]) -> str:
    """Return the unique id that determines the shard: its encoded values, without names."""
    for part, value in zip(entity.ids, values, strict=True):
        _check_not_empty(entity, part, value)
    return join_segments([part.column.encode(value) for part, value in zip(entity.ids, values, strict=True)])


def possible_hash_keys(entity: EntitySpec, own_id: str, tenant: str | None, generation: int | None = None) -> list[str]:
    """Return every hash key that a record with this id can have.

    There is one for each shard generation, without duplicates; a single one if the generation is known.
    """
    numbers = range(len(entity.space.generations)) if generation is None else (generation,)
    ordinals = {entity.space.ordinal(own_id, number) for number in numbers}
    return [hash_key(entity.name, entity.space.shard_text(ordinal), (), tenant) for ordinal in sorted(ordinals)]


def possible_keys(
    entity: EntitySpec, values: Sequence[Any], tenant: str | None, generation: int | None = None
) -> list[Key]:
    """Return every key that a record can have, by the values of its whole primary key.

    There is one for each shard generation, without duplicates; a single one if the generation is known.
    """
    for part, value in zip(entity.primary_key, values, strict=True):
        _check_not_empty(entity, part, value)
    try:
        range_key = encode_tuple(entity.indexes["by_id"].columns, values)
    except ShardQLError:
        with about(_longest(entity.primary_key, values)):
            raise
    own_id = encode_id(entity, values[: len(entity.ids)])
    return [Key(hash_text, range_key) for hash_text in possible_hash_keys(entity, own_id, tenant, generation)]


def _check_not_empty(entity: EntitySpec, part: PropertySpec, value: Any) -> None:
    if value == "":
        raise EmptyKey(
            "{property} is part of the record's key and is empty: provide a text.",
            property=property_name(entity, part),
            argument=PropertyName(part.name),
        )

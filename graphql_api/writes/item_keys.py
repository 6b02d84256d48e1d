"""The only place where keys are derived from records (docs/key-format.md, docs/table-format.md)."""

from collections.abc import Mapping, Sequence
from typing import Any

from graphql_api.codecs import MAX_KEY_BYTES, encode_tuple, hash_key, join
from graphql_api.errors import EmptyKey, KeyTooLong, ShardQLError, about
from graphql_api.model import (
    HASH_ATTRIBUTE,
    RANGE_ATTRIBUTE,
    Entity,
    EntitySpec,
    IndexSpec,
    PropertySpec,
    to_attributes,
    value_of,
)
from graphql_api.storage import Item, Key

WRITE_ID = "_w"
"""attribute of every record: names the write that made it as it is"""

CURRENT_OF = "_of"
"""attribute of current records: the sub id of the entry that they are equal to"""


def key_of(item: Item) -> Key:
    """Where a record lives, by its attributes."""
    return Key(item[HASH_ATTRIBUTE], item[RANGE_ATTRIBUTE])


def item_of(entity: EntitySpec, record: Entity, tenant: str | None, write_id: str) -> Item:
    """A record as it is stored: its attributes, its key, and what each of its indexes needs."""
    attributes = to_attributes(entity, record)
    values = {part.name: value_of(record, part.name) for part in entity.properties.values()}
    created = values[entity.created.name] if entity.created is not None else None
    own_id = encoded_id(entity, [values[part.name] for part in entity.ids])
    for part in entity.sub_ids:
        _refuse_empty(entity, part, values[part.name])
    item: dict[str, Any] = {**attributes, WRITE_ID: write_id}
    for index in entity.indexes.values():
        if index.raw:
            _check_plain_key(entity, index, attributes)
        hash_values = [values[part.name] for part in index.hash]
        range_values = [values[part.name] for part in index.range_parts]
        if None in hash_values or "" in hash_values or (range_values and range_values[0] is None):
            continue  # The record has no place in this index.
        # Within an entity an attribute means one thing: what an index before this one has written is right here too.
        if index.hash_attribute not in item:
            item[index.hash_attribute] = _hash_key(entity, index, hash_values, own_id, created, tenant)
        if index.range_attribute not in item:
            item[index.range_attribute] = _range_value(entity, index, range_values)
    return item


def current_item(entity: EntitySpec, entry: Entity, tenant: str | None, write_id: str) -> Item:
    """An entry as the current record of its id is stored."""
    (part,) = entity.sub_ids
    current = entry.model_copy(update={part.name: entity.current})
    return {**item_of(entity, current, tenant, write_id), CURRENT_OF: value_of(entry, part.name)}


def _hash_key(
    entity: EntitySpec, index: IndexSpec, values: Sequence[Any], own_id: str, created: Any, tenant: str | None
) -> str:
    encoded = [part.column.encode(value) for part, value in zip(index.hash, values, strict=True)]
    generation = index.space.generation_at(created)
    ordinal = index.space.ordinal(join(encoded) if index.like_parent else own_id, generation)
    named = [(part.stored, text) for part, text in zip(index.hash, encoded, strict=True)]
    try:
        return hash_key(index.head, index.space.text(ordinal), named, tenant)
    except KeyTooLong as problem:
        raise _in_index(entity, index, problem, _longest(index.hash, encoded) or "tenant") from problem


def _range_value(entity: EntitySpec, index: IndexSpec, values: Sequence[Any]) -> str:
    try:
        return encode_tuple(index.columns, values)
    except KeyTooLong as problem:
        raise _in_index(entity, index, problem, _longest(index.range_parts, values)) from problem


def _check_plain_key(entity: EntitySpec, index: IndexSpec, attributes: Mapping[str, Any]) -> None:
    """Refuses what no engine takes in the attribute of a raw index, also on a record that has no place in it."""
    part = index.sort[0].property
    plain = attributes.get(part.stored)
    if plain == "":
        raise EmptyKey(
            f"{entity.type_name}.{part.name} is empty, and {index.attribute} keeps it as a plain key, which no engine "
            "accepts: leave it null.",
            argument=part.given_by[0],
        )
    size = len(plain.encode()) if isinstance(plain, str) else 0
    if size > MAX_KEY_BYTES:
        raise KeyTooLong(
            f"{entity.type_name}.{part.name} has {size:,} bytes, and {index.attribute} keeps it as a plain key, where "
            f"at most {MAX_KEY_BYTES:,} fit: shorten it.",
            argument=part.given_by[0],
        )


def _in_index(entity: EntitySpec, index: IndexSpec, problem: KeyTooLong, argument: str | None) -> KeyTooLong:
    return KeyTooLong(f"{entity.type_name}.{index.attribute}: {problem.message}", argument=argument)


def _longest(parts: Sequence[PropertySpec], values: Sequence[Any]) -> str | None:
    """The property to blame for a key that is too long; of a derived one, what it is derived from."""
    sizes = [len(str(value).encode(errors="surrogatepass")) for value in values]
    return parts[sizes.index(max(sizes))].given_by[0] if sizes else None


def encoded_id(entity: EntitySpec, values: Sequence[Any]) -> str:
    """The unique id as shards are made from it: its encoded values, without names."""
    for part, value in zip(entity.ids, values, strict=True):
        _refuse_empty(entity, part, value)
    return join([part.column.encode(value) for part, value in zip(entity.ids, values, strict=True)])


def hash_keys_of(entity: EntitySpec, own_id: str, tenant: str | None, generation: int | None = None) -> list[str]:
    """Every hash key under which an id may live: one a generation, none twice; one, if the generation is known."""
    numbers = range(len(entity.space.generations)) if generation is None else (generation,)
    ordinals = {entity.space.ordinal(own_id, number) for number in numbers}
    return [hash_key(entity.name, entity.space.text(ordinal), (), tenant) for ordinal in sorted(ordinals)]


def keys_of(entity: EntitySpec, values: Sequence[Any], tenant: str | None, generation: int | None = None) -> list[Key]:
    """Every key under which a record may live, by the values of its whole primary key; one in a known generation."""
    for part, value in zip(entity.primary, values, strict=True):
        _refuse_empty(entity, part, value)
    try:
        range_key = encode_tuple(entity.indexes["by_id"].columns, values)
    except ShardQLError:
        with about(_longest(entity.primary, values)):
            raise
    own_id = encoded_id(entity, values[: len(entity.ids)])
    return [Key(hash_text, range_key) for hash_text in hash_keys_of(entity, own_id, tenant, generation)]


def _refuse_empty(entity: EntitySpec, part: PropertySpec, value: Any) -> None:
    if value == "":
        raise EmptyKey(
            f"{entity.type_name}.{part.name} is part of the record's key and is empty: give a text.", argument=part.name
        )

"""Record keys of records, and their conversion to and from the sealed form (docs/record-keys.md)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from graphql_api.codecs import MAX_GENERATION, Codec, EnumCodec, RecordKey, check_origin
from graphql_api.errors import InvalidRecordKey, InvalidValue, TokenAhead, about
from graphql_api.model.annotations import parse_annotation
from graphql_api.model.markers import Role, value_of
from graphql_api.model.shard_declarations import shard_space_of
from graphql_api.model.specs import EntitySpec, PropertySpec
from graphql_api.sharding import ShardSpace

if TYPE_CHECKING:
    from graphql_api.model.entity import Entity

E = TypeVar("E", bound="Entity")


class RecordKeyAttribute:
    """The attribute `key` of every record. A property of that name replaces it."""

    def __get__(self, record: "Entity | None", model: type["Entity"]) -> RecordKey:
        if record is None or "key" in model.model_fields:
            raise AttributeError(f"{model.__name__} has no attribute 'key'")
        return record_key(record)


def record_key(record: "Entity") -> RecordKey:
    """Return the key of a record, even if a property is called `key`. It has no tenant: records do not know theirs."""
    key_fields = _key_fields(type(record))
    created = vars(record).get(key_fields.created) if key_fields.created is not None else None
    is_known = created is not None or len(key_fields.space.generations) == 1
    generation = key_fields.space.generation_at(created) if is_known else MAX_GENERATION + 1
    return RecordKey(
        key_fields.origin,
        tuple(codec.load(codec.store(value_of(record, name))) for name, codec in key_fields.ids),
        tuple(codec.load(codec.store(value_of(record, name))) for name, codec in key_fields.sub_ids),
        generation=generation if generation <= MAX_GENERATION else None,
    )


def merge(old: Iterable[E], new: Iterable[E], append: bool = False) -> list[E]:
    """Replace old records by the new records with the same keys, in place. `append` adds the other new records."""
    replacements = {record_key(record): record for record in new}
    old_by_key = [(record_key(record), record) for record in old]
    merged = [replacements.get(key, record) for key, record in old_by_key]
    for key, _ in old_by_key:
        replacements.pop(key, None)
    return [*merged, *(replacements.values() if append else ())]


@dataclass(frozen=True, slots=True)
class _KeyFields:
    """The properties of a class that make up its record keys."""

    origin: str
    ids: tuple[tuple[str, Codec[Any]], ...]
    sub_ids: tuple[tuple[str, Codec[Any]], ...]
    created: str | None
    space: ShardSpace


@cache
def _key_fields(model: type["Entity"]) -> _KeyFields:
    model.model_rebuild(raise_errors=False)
    annotations = {
        name: parse_annotation(field.annotation, field.metadata) for name, field in model.model_fields.items()
    }

    def with_role(role: Role) -> tuple[tuple[str, Codec[Any]], ...]:
        return tuple(
            (name, annotation.codec)
            for name, annotation in annotations.items()
            if role in annotation.markers and annotation.codec is not None
        )

    created = next((name for name, _ in with_role(Role("created"))), None)
    ids, sub_ids = with_role(Role("id")), with_role(Role("sub id"))
    return _KeyFields(model.__declaration__.name, ids, sub_ids, created, shard_space_of(model))


# --- sealed form -----------------------------------------------------------------------------------------------


def entity_of_key(entities: Mapping[str, EntitySpec], key: RecordKey, argument: str) -> EntitySpec:
    """Return the entity of the record that a key identifies."""
    if key.origin not in entities:
        kind = f"the key of a record of {key.origin!r}, which the catalog does not declare" if key else "an empty key"
        raise InvalidRecordKey(f"{argument} is {kind}: pass the key of a record of this catalog.", argument=argument)
    return entities[key.origin]


def check_key_entity(entity: EntitySpec, key: RecordKey) -> None:
    """Raise `InvalidRecordKey` if a key cannot identify a record of the entity."""
    check_origin(key, entity.name, "id")
    if (len(key.ids), len(key.children)) != (len(entity.ids), len(entity.sub_ids)):
        raise InvalidRecordKey(
            f"{key} is no key of a {entity.type_name}: it needs {_count_text(len(entity.ids), 'id')} and "
            f"{_count_text(len(entity.sub_ids), 'child id')}.",
            argument="id",
        )


def to_sealed_form(entity: EntitySpec, key: RecordKey, tenant: str | None) -> RecordKey:
    """Convert a key to the form that is sealed: with its tenant, and with the ordinals of enum members."""
    check_key_entity(entity, key)
    ids = tuple(_to_sealed_value(part, value) for part, value in zip(entity.ids, key.ids, strict=True))
    children = tuple(_to_sealed_value(part, value) for part, value in zip(entity.sub_ids, key.children, strict=True))
    return RecordKey(key.origin, ids, children, tenant, key.generation)


def from_sealed_form(entity: EntitySpec, key: RecordKey, argument: str) -> RecordKey:
    """Convert a sealed key to values of the entity's properties, without the tenant."""
    try:
        ids = tuple(_from_sealed_value(part, value) for part, value in zip(entity.ids, key.ids, strict=True))
        children = tuple(
            _from_sealed_value(part, value) for part, value in zip(entity.sub_ids, key.children, strict=True)
        )
    except (InvalidValue, ValueError) as problem:
        raise InvalidRecordKey(
            f"{argument} was made when {entity.type_name} was declared with another id: request the record again.",
            argument=argument,
        ) from problem
    return RecordKey(key.origin, ids, children, generation=key.generation)


def check_generation(entity: EntitySpec, key: RecordKey) -> None:
    """Raise `TokenAhead` for a key of a shard generation that this server does not know yet."""
    if key.generation is not None and key.generation >= len(entity.space.generations):
        raise TokenAhead(
            f"The record key comes from a server that knows more shard generations of {entity.type_name} than this "
            "one: try again.",
            argument="id",
        )


def _to_sealed_value(part: PropertySpec, value: Any) -> Any:
    codec = part.column.codec
    with about(part.name):
        return int(codec.encode(value)) if isinstance(codec, EnumCodec) else codec.load(codec.store(value))


def _from_sealed_value(part: PropertySpec, value: Any) -> Any:
    codec = part.column.codec
    return codec.decode(f"{value:03d}") if isinstance(codec, EnumCodec) else codec.check(value)


def _count_text(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"

"""Record keys of records: what names one, and what a key that came back means for its entity (docs/record-keys.md)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from graphql_api.codecs import LAST_GENERATION, Codec, EnumCodec, RecordKey, check_origin
from graphql_api.errors import InvalidRecordKey, InvalidValue, TokenAhead, about
from graphql_api.model.annotations import read_annotation
from graphql_api.model.markers import Role, value_of
from graphql_api.model.shard_declarations import own_space
from graphql_api.model.specs import EntitySpec, PropertySpec
from graphql_api.sharding import ShardSpace

if TYPE_CHECKING:
    from graphql_api.model.entity import Entity

E = TypeVar("E", bound="Entity")


class KeyOfRecord:
    """The attribute `key` of every record; a property of that name stands in its place."""

    def __get__(self, record: "Entity | None", model: type["Entity"]) -> RecordKey:
        if record is None or "key" in model.model_fields:
            raise AttributeError(f"{model.__name__} has no attribute 'key'")
        return record_key(record)


def record_key(record: "Entity") -> RecordKey:
    """The key of a record, also where a property is called `key`; within its tenant, since a record knows of none."""
    key_fields = _named_by(type(record))
    created = vars(record).get(key_fields.created) if key_fields.created is not None else None
    known = created is not None or len(key_fields.space.generations) == 1
    generation = key_fields.space.generation_at(created) if known else LAST_GENERATION + 1
    return RecordKey(
        key_fields.origin,
        tuple(codec.load(codec.store(value_of(record, name))) for name, codec in key_fields.ids),
        tuple(codec.load(codec.store(value_of(record, name))) for name, codec in key_fields.sub_ids),
        generation=generation if generation <= LAST_GENERATION else None,
    )


def merge(old: Iterable[E], new: Iterable[E], append: bool = False) -> list[E]:
    """The old records, each replaced in its place by the new one with its key; `append` adds those that are new."""
    latest = {record_key(record): record for record in new}
    by_key = [(record_key(record), record) for record in old]
    merged = [latest.get(key, record) for key, record in by_key]
    for key, _ in by_key:
        latest.pop(key, None)
    return [*merged, *(latest.values() if append else ())]


@dataclass(frozen=True, slots=True)
class _NamedBy:
    """What names the records of a class."""

    origin: str
    ids: tuple[tuple[str, Codec[Any]], ...]
    sub_ids: tuple[tuple[str, Codec[Any]], ...]
    created: str | None
    space: ShardSpace


@cache
def _named_by(model: type["Entity"]) -> _NamedBy:
    model.model_rebuild(raise_errors=False)
    read = {name: read_annotation(field.annotation, field.metadata) for name, field in model.model_fields.items()}

    def with_role(role: Role) -> tuple[tuple[str, Codec[Any]], ...]:
        return tuple((name, one.codec) for name, one in read.items() if role in one.marks and one.codec is not None)

    created = next((name for name, _ in with_role(Role("created"))), None)
    ids, sub_ids = with_role(Role("id")), with_role(Role("sub id"))
    return _NamedBy(model.__declaration__.name, ids, sub_ids, created, own_space(model))


# --- between a key and what is sealed of it --------------------------------------------------------------------


def entity_of_key(entities: Mapping[str, EntitySpec], key: RecordKey, argument: str) -> EntitySpec:
    """The entity of which a key names a record."""
    if key.origin not in entities:
        of = f"a record of {key.origin!r}, which" if key else "nothing, and that"
        raise InvalidRecordKey(
            f"{argument} is the key of {of} is not to be found here: pass the key of one that is.", argument=argument
        )
    return entities[key.origin]


def check_names(entity: EntitySpec, key: RecordKey) -> None:
    """Refuses a key that does not name a record of this entity."""
    check_origin(key, entity.name, "id")
    if (len(key.ids), len(key.children)) != (len(entity.ids), len(entity.sub_ids)):
        raise InvalidRecordKey(
            f"{key} does not name a record of {entity.type_name}: give {_counted(len(entity.ids), 'id')} and "
            f"{_counted(len(entity.sub_ids), 'child id')}.",
            argument="id",
        )


def sealable(entity: EntitySpec, key: RecordKey, tenant: str | None) -> RecordKey:
    """The key as it is sealed: of its tenant, enums by their place among the members."""
    check_names(entity, key)
    ids = tuple(_sealed_value(part, value) for part, value in zip(entity.ids, key.ids, strict=True))
    children = tuple(_sealed_value(part, value) for part, value in zip(entity.sub_ids, key.children, strict=True))
    return RecordKey(key.origin, ids, children, tenant, key.generation)


def opened(entity: EntitySpec, key: RecordKey, argument: str) -> RecordKey:
    """What was sealed, as values of the entity's properties; within its tenant, as the keys of records are."""
    try:
        ids = tuple(_opened_value(part, value) for part, value in zip(entity.ids, key.ids, strict=True))
        children = tuple(_opened_value(part, value) for part, value in zip(entity.sub_ids, key.children, strict=True))
    except (InvalidValue, ValueError) as problem:
        raise InvalidRecordKey(
            f"{argument} was made when {entity.type_name} was declared with another id: ask for the record anew.",
            argument=argument,
        ) from problem
    return RecordKey(key.origin, ids, children, generation=key.generation)


def check_generation(entity: EntitySpec, key: RecordKey) -> None:
    """Refuses a key that was made where more generations are known: what it names may live in one of those."""
    if key.generation is not None and key.generation >= len(entity.space.generations):
        raise TokenAhead(
            f"The record key comes from a server that knows more shard generations of {entity.type_name} than this "
            "one: try again.",
            argument="id",
        )


def _sealed_value(part: PropertySpec, value: Any) -> Any:
    codec = part.column.codec
    with about(part.name):
        return int(codec.encode(value)) if isinstance(codec, EnumCodec) else codec.load(codec.store(value))


def _opened_value(part: PropertySpec, value: Any) -> Any:
    codec = part.column.codec
    return codec.decode(f"{value:03d}") if isinstance(codec, EnumCodec) else codec.check(value)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"

"""Record keys of records, and their conversion to and from the sealed form (docs/reference/record-keys.md)."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from graphql_api.codecs import MAX_GENERATION, RecordKey, check_origin
from graphql_api.errors import InvalidRecordKey, InvalidValue, TokenAhead, about
from graphql_api.model.markers import value_of
from graphql_api.model.property_specs import property_specs, with_role
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


def record_key(record: "Entity", spec: EntitySpec | None = None) -> RecordKey:
    """Return the key of a record, even if a property is called `key`. It has no tenant: records do not know theirs.

    `spec`: the entity as the table has it, which may have other shard generations than the catalog declares.
    """
    model = type(record)
    ids, sub_ids, created, space = _key_properties(model)
    if spec is not None:
        created, space = spec.created, spec.space
    creation_value = vars(record).get(created.name) if created is not None else None
    is_known = creation_value is not None or len(space.generations) == 1
    generation = space.generation_at(creation_value) if is_known else None
    return RecordKey(
        model.__declaration__.name,
        tuple(_stored_form(part, value_of(record, part.name)) for part in ids),
        tuple(_stored_form(part, value_of(record, part.name)) for part in sub_ids),
        generation=generation if generation is not None and generation <= MAX_GENERATION else None,
    )


def tells_generation(spec: EntitySpec, generation: int | None) -> bool:
    """Return whether the generation in a key, which the catalog may have determined, is the one that holds the record.

    It is not if the table has generations that the catalog lacks, or if no record is placed in the generation yet.
    """
    settled = len(spec.space.generations) - spec.space.pending
    _, _, _, declared = _key_properties(spec.model)
    is_placed = generation is not None and generation < settled
    return is_placed and declared.generations[:settled] == spec.space.generations[:settled]


@cache
def _key_properties(
    model: type["Entity"],
) -> tuple[Sequence[PropertySpec], Sequence[PropertySpec], PropertySpec | None, ShardSpace]:
    """Return what determines record keys: ids, sub ids, creation property and shard space."""
    scalars = {name: part for name, part in property_specs(model).items() if part.codec is not None}
    created = next(iter(with_role(scalars, "created")), None)
    return with_role(scalars, "id"), with_role(scalars, "sub id"), created, shard_space_of(model)


def _stored_form(part: PropertySpec, value: Any) -> Any:
    """Encode and decode the value, as writing and reading the record does."""
    codec = part.column.codec
    return codec.load(codec.store(value))


def merge(old: Iterable[E], new: Iterable[E], append: bool = False) -> list[E]:
    """Replace old records by the new records with the same keys, in place. `append` adds the other new records."""
    replacements = {record_key(record): record for record in new}
    old_by_key = [(record_key(record), record) for record in old]
    merged = [replacements.get(key, record) for key, record in old_by_key]
    for key, _ in old_by_key:
        replacements.pop(key, None)
    return [*merged, *(replacements.values() if append else ())]


# --- sealed form -----------------------------------------------------------------------------------------------


def entity_of_key(entities: Mapping[str, EntitySpec], key: RecordKey, argument: str) -> EntitySpec:
    """Return the entity of the record that a key identifies. `entities`: by declared name."""
    if key.origin not in entities:
        kind = f"the key of a record of {key.origin!r}, which the catalog does not declare" if key else "an empty key"
        raise InvalidRecordKey(f"{argument} is {kind}: pass the key of a record of this catalog.", argument=argument)
    return entities[key.origin]


def check_key_entity(entity: EntitySpec, key: RecordKey) -> None:
    """Raise `InvalidRecordKey` if a key cannot identify a record of the entity."""
    check_origin(key, entity.declared_name, "id")
    if (len(key.ids), len(key.children)) != (len(entity.ids), len(entity.sub_ids)):
        needed = f"{_count_text(len(entity.ids), 'id')} and {_count_text(len(entity.sub_ids), 'child id')}"
        raise InvalidRecordKey(f"{key} is no key of a {entity.type_name}: it needs {needed}.", argument="id")


def to_sealed_form(entity: EntitySpec, key: RecordKey, tenant: str | None) -> RecordKey:
    """Convert a key to the form that is sealed: with its tenant, and with the ordinals of enum members."""
    check_key_entity(entity, key)
    ids = tuple(_to_sealed_value(part, value) for part, value in zip(entity.ids, key.ids, strict=True))
    children = tuple(_to_sealed_value(part, value) for part, value in zip(entity.sub_ids, key.children, strict=True))
    return RecordKey(key.origin, ids, children, tenant, key.generation)


def from_sealed_form(entity: EntitySpec, key: RecordKey, argument: str) -> RecordKey:
    """Convert a sealed key to values of the entity's properties, without the tenant."""
    try:
        ids, children = (
            tuple(part.column.codec.from_key_part(value) for part, value in zip(parts, values, strict=True))
            for parts, values in ((entity.ids, key.ids), (entity.sub_ids, key.children))
        )
    except (InvalidValue, ValueError) as problem:
        reason = f"was made when {entity.type_name} was declared with another id"
        raise InvalidRecordKey(f"{argument} {reason}: request the record again.", argument=argument) from problem
    return RecordKey(key.origin, ids, children, generation=key.generation)


def check_generation(entity: EntitySpec, key: RecordKey) -> None:
    """Raise `TokenAhead` for a key of a shard generation that this server does not know yet."""
    if key.generation is not None and key.generation >= len(entity.space.generations):
        reason = f"knows more shard generations of {entity.type_name} than this one"
        raise TokenAhead(f"The record key comes from a server that {reason}: try again.", argument="id")


def _to_sealed_value(part: PropertySpec, value: Any) -> Any:
    with about(part.name):
        return part.column.codec.to_key_part(value)


def _count_text(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"

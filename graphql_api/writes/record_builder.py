"""What was given becomes a record: the server adds what it sets, and pydantic says what is wrong, all at once."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from graphql_api import codecs
from graphql_api.errors import FieldProblem, InvalidRecord, InvalidValue, UnknownArgument, nearest
from graphql_api.model import Entity, EntitySpec, PropertySpec, value_of

FIRST_VERSION = 1

MAX_TOLD = 100
"""of what is wrong with one record"""
NOT_NULL = ", and not null"
"""stands behind what is wrong with a null"""


def check_known(entity: EntitySpec, given: Iterable[str]) -> None:
    """Refuses properties that the entity does not have."""
    for name in given:
        if name not in entity.properties:
            known = [part.name for part in entity.properties.values() if part.function is None]
            raise UnknownArgument(f"{entity.type_name} has no property {name!r}.{nearest(name, known)}", argument=name)


def check_changeable(entity: EntitySpec, changes: Iterable[str]) -> None:
    """Refuses to change what only the server sets."""
    check_known(entity, changes)
    for name in changes:
        part = entity.properties[name]
        if part.function is not None:
            raise InvalidValue(
                f"{entity.type_name}.{name} is derived from {' and '.join(part.sources)}: change that.", argument=name
            )
        if part in (entity.updated, entity.version):
            raise InvalidValue(
                f"{entity.type_name}.{name} is set by the server at every write: leave it out.", argument=name
            )


def given_values(entity: EntitySpec, record: Entity) -> dict[str, Any]:
    """What a record gives of itself: everything but what is made of it."""
    if not isinstance(record, entity.model):
        raise InvalidRecord(
            f"{entity.type_name} was given a {type(record).__name__}: pass an instance of {entity.type_name}."
        )
    return {part.name: value_of(record, part.name) for part in entity.properties.values() if part.function is None}


def draft(
    entity: EntitySpec, given: Mapping[str, Any], old: Entity | None, now: float, *, restoring: bool = False
) -> Entity:
    """The record that these values make; what the server sets is set, or kept from the record that stands there.

    `restoring`: it comes out of another table, and goes on from where it was.
    """
    values = dict(given)
    for part in entity.counters:
        if values.get(part.name) is None:
            values.pop(part.name, None)
            if old is not None and value_of(old, part.name) is not None:
                values[part.name] = value_of(old, part.name)
    created = entity.created
    if created is not None and values.get(created.name) is None and not (created.nullable and created.name in values):
        values[created.name] = moment(created, now) if old is None else value_of(old, created.name)
    updated, version = entity.updated, entity.version
    if updated is not None and (not restoring or values.get(updated.name) is None):
        values[updated.name] = moment(updated, now)
    if version is not None:
        at_least = values.get(version.name) if restoring else None
        following = FIRST_VERSION if old is None else value_of(old, version.name) + 1
        values[version.name] = max(following, at_least) if isinstance(at_least, int) else following
    return validated(entity, values)


def validated(entity: EntitySpec, values: Mapping[str, Any]) -> Entity:
    """The record with these values; everything that is wrong with them is told property by property."""
    try:
        return entity.model.model_validate(dict(values), by_name=True, by_alias=False)
    except ValidationError as wrong:
        fields = [
            FieldProblem(
                ".".join(map(str, one["loc"])) or "record",
                one["msg"] if one["input"] is not None else f"{one['msg']}{NOT_NULL}",
            )
            for one in wrong.errors(include_url=False, include_context=False)[:MAX_TOLD]
        ]
        left_out = wrong.error_count() - len(fields)
        message = all_wrong(entity, fields, left_out)
        raise InvalidRecord(message, argument=fields[0].field, fields=fields, left_out=left_out) from wrong


def all_wrong(entity: EntitySpec, fields: Iterable[FieldProblem], left_out: int) -> str:
    """In one sentence what is wrong with a record."""
    told = [f"{entity.type_name}.{one.field}: {one.message}" for one in fields]
    return f"{'; '.join([*told, f'and {left_out:,} more'] if left_out else told)}."


def moment(part: PropertySpec, now: float) -> Any:
    """The present moment as a property holds it; of a plain number in seconds."""
    codec = part.column.codec
    if isinstance(codec, codecs.TimestampMs):
        return int(now * 1000)
    at = datetime.fromtimestamp(now, UTC)
    if isinstance(codec, codecs.DateTime):
        return at
    if isinstance(codec, codecs.Date):
        return at.date()
    if isinstance(codec, codecs.Text):
        return f"{at.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    return int(now)


def renewed(entity: EntitySpec, record: Entity, now: float) -> Entity:
    """The record with the moment of this write, where it keeps one."""
    if entity.updated is None or not isinstance(record, entity.model):
        return record
    return record.model_copy(update={entity.updated.name: moment(entity.updated, now)})

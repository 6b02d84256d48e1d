"""Build records from provided values: add what the server sets, and validate with pydantic, reporting all problems."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from graphql_api import codecs
from graphql_api.errors import (
    FieldPath,
    FieldProblemList,
    InvalidRecord,
    InvalidValue,
    NameList,
    PropertyName,
    UnknownArgument,
    nearest,
)
from graphql_api.model import Entity, EntitySpec, PropertySpec, value_of
from graphql_api.writes.display_names import property_name

FIRST_VERSION = 1

MAX_REPORTED_PROBLEMS = 100
"""of one record"""
NOT_NULL_SUFFIX = ", and not null"
"""ends the message about a property that is null"""


def check_properties_exist(entity: EntitySpec, provided: Iterable[str]) -> None:
    """Reject properties that the entity does not have."""
    for name in provided:
        if name not in entity.properties:
            known = [part.name for part in entity.properties.values() if part.function is None]
            raise UnknownArgument(f"{entity.type_name} has no property {name!r}.{nearest(name, known)}", argument=name)


def check_properties_settable(entity: EntitySpec, changes: Iterable[str]) -> None:
    """Reject changes of unknown properties, and of those that only the server sets."""
    check_properties_exist(entity, changes)
    for name in changes:
        part = entity.properties[name]
        if part.function is not None:
            raise InvalidValue(
                "{property} is derived from {sources}: change that instead.",
                property=property_name(entity, part),
                sources=NameList(tuple(map(PropertyName, part.sources))),
                argument=PropertyName(name),
            )
        if part in (entity.updated, entity.version):
            raise InvalidValue(
                "{property} is set by the server at every write: leave it out.",
                property=property_name(entity, part),
                argument=PropertyName(name),
            )


def record_values(entity: EntitySpec, record: Entity) -> dict[str, Any]:
    """Return the properties of a record that are not derived."""
    if not isinstance(record, entity.model):
        raise InvalidRecord(
            f"{entity.type_name} expected, but {type(record).__name__} provided: pass an instance of "
            f"{entity.type_name}."
        )
    return {part.name: value_of(record, part.name) for part in entity.properties.values() if part.function is None}


def build_record(
    entity: EntitySpec, provided: Mapping[str, Any], old: Entity | None, now: float, *, restoring: bool = False
) -> Entity:
    """Return the record with the provided values, and with those that the server sets or keeps from the old record.

    `restoring`: the record was exported from another table, and keeps its update time and at least its version.
    """
    values = dict(provided)
    for part in entity.counters:
        if values.get(part.name) is None:
            values.pop(part.name, None)
            if old is not None and value_of(old, part.name) is not None:
                values[part.name] = value_of(old, part.name)
    created = entity.created
    if created is not None and values.get(created.name) is None and not (created.nullable and created.name in values):
        values[created.name] = current_time_value(created, now) if old is None else value_of(old, created.name)
    updated, version = entity.updated, entity.version
    if updated is not None and (not restoring or values.get(updated.name) is None):
        values[updated.name] = current_time_value(updated, now)
    if version is not None:
        restored = values.get(version.name) if restoring else None
        next_version = FIRST_VERSION if old is None else value_of(old, version.name) + 1
        values[version.name] = max(next_version, restored) if isinstance(restored, int) else next_version
    return validate_record(entity, values)


def validate_record(entity: EntitySpec, values: Mapping[str, Any]) -> Entity:
    """Return the record with these values. Raise one error that lists the problems of all properties."""
    try:
        return entity.model.model_validate(dict(values), by_name=True, by_alias=False)
    except ValidationError as invalid:
        fields = [
            (
                FieldPath(entity.type_name, tuple(map(str, problem["loc"]))),
                problem["msg"] if problem["input"] is not None else f"{problem['msg']}{NOT_NULL_SUFFIX}",
            )
            for problem in invalid.errors(include_url=False, include_context=False)[:MAX_REPORTED_PROBLEMS]
        ]
        left_out = invalid.error_count() - len(fields)
        raise InvalidRecord(
            "{problems}.",
            problems=FieldProblemList(fields, left_out),
            argument=fields[0][0],
            fields=fields,
            left_out=left_out,
        ) from invalid


def current_time_value(part: PropertySpec, now: float) -> Any:
    """Return the current time in the type of a property. Plain numbers hold seconds."""
    codec = part.column.codec
    if isinstance(codec, codecs.TimestampMs):
        return int(now * 1000)
    time = datetime.fromtimestamp(now, UTC)
    if isinstance(codec, codecs.DateTime):
        return time
    if isinstance(codec, codecs.Date):
        return time.date()
    if isinstance(codec, codecs.Text):
        return f"{time.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    return int(now)


def with_update_time(entity: EntitySpec, record: Entity, now: float) -> Entity:
    """Return the record with the time of this write, if the entity has such a property."""
    if entity.updated is None or not isinstance(record, entity.model):
        return record
    return record.model_copy(update={entity.updated.name: current_time_value(entity.updated, now)})

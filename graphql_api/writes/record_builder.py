"""Build records from provided values: add what the server sets, and validate with pydantic, reporting all problems."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from graphql_api.codecs import DateTime
from graphql_api.errors import FieldPath, FieldProblemList, InvalidRecord
from graphql_api.model import Entity, EntitySpec, PropertySpec, plain_record_maker, value_of
from graphql_api.writes.commands import PutRecord

FIRST_VERSION = 1

MAX_REPORTED_PROBLEMS = 100
"""of one record"""
NOT_NULL_SUFFIX = ", and not null"
"""ends the message about a property that is null"""


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
    if old is not None:  # The caller of a put does not know them.
        hidden = (part.name for part in entity.properties.values() if part.is_hidden and part.function is None)
        values |= {name: value_of(old, name) for name in hidden if name not in values}
    created, updated, version = entity.created, entity.updated, entity.version
    if created is not None and omits_creation_value(entity, values):
        values[created.name] = current_time_value(created, now) if old is None else value_of(old, created.name)
    if updated is not None and (not restoring or values.get(updated.name) is None):
        values[updated.name] = current_time_value(updated, now)
    if version is not None:
        restored = values.get(version.name) if restoring else None
        next_version = FIRST_VERSION if old is None else (value_of(old, version.name) or 0) + 1
        values[version.name] = max(next_version, restored) if isinstance(restored, int) else next_version
    return validate_record(entity, values)


def omits_creation_value(entity: EntitySpec, provided: Mapping[str, Any]) -> bool:
    """Return whether the values of a whole record omit its creation value. An explicit null counts as a value."""
    created = entity.created
    if created is None:
        return False
    return provided.get(created.name) is None and not (created.nullable and created.name in provided)


def validate_record(entity: EntitySpec, values: Mapping[str, Any]) -> Entity:
    """Return the record with these values. Raise one error that lists the problems of all properties."""
    record = plain_record_maker(entity).make(values, entity.derived_functions)
    if record is not None:
        return record
    try:
        return entity.model.model_validate(dict(values), by_name=True, by_alias=False, context=entity.derived_functions)
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
    value = codec.at(now)
    if value is not None:
        return value
    return DateTime().format(datetime.fromtimestamp(now, UTC)) if codec.kind == "text" else int(now)


def record_to_put(put: PutRecord, now: float) -> Entity:
    """Return the record of a put with the time of this write. A restored one keeps its own."""
    updated = put.entity.updated
    if updated is None or put.restoring or not isinstance(put.record, put.entity.model):
        return put.record
    return put.record.model_copy(update={updated.name: current_time_value(updated, now)})

"""Typical records of an entity for which no records are provided: each property has a typical value of its type."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel, RootModel

from graphql_api import codecs
from graphql_api.errors import InvalidRecord
from graphql_api.model import Entity, EntitySpec, parse_annotation

TEXT = "typical text of some "
"""21 characters, like random ids"""
BYTES = bytes(100)
ELEMENTS = 3
"""elements of a list"""
MAX_NESTING = 3
"""nesting of models"""

_BY_CODEC: Mapping[type[codecs.Codec[Any]], Any] = {
    codecs.Text: TEXT,
    codecs.Int64: 1_234_567,
    codecs.Int32: 1_234_567,
    codecs.Timestamp: 1_767_225_599,
    codecs.TimestampMs: 1_767_225_599_999,
    codecs.Float64: 1234.5678,
    codecs.DecimalNumber: Decimal("1234.56"),
    codecs.Boolean: True,
    codecs.Uuid: UUID("6f1f6d4e-3c56-4f6f-9d7a-0d4a3c1c2b1a"),
    codecs.Date: date(2026, 1, 31),
    codecs.DateTime: datetime(2026, 1, 31, 12, 34, 56, 123456, UTC),
    codecs.Duration: timedelta(hours=1, minutes=2, seconds=3),
}


def typical_record(entity: EntitySpec) -> Entity:
    """Return a record with a typical value for every property, including nullable ones."""
    fields = entity.model.model_fields
    values = {
        part.name: typical_value(fields[part.name].annotation, fields[part.name].metadata)
        for part in entity.properties.values()
        if part.function is None
    }
    record = entity.model.model_construct(**values)
    try:
        record.compute_derived()
    except Exception as problem:  # the functions belong to the author of the catalog
        raise InvalidRecord(
            f"A typical {entity.type_name} cannot be created, because a derived property cannot be computed "
            f"({type(problem).__name__}: {problem}). Provide sample records."
        ) from problem
    return record


def typical_value(annotation: Any, marks: Any = (), depth: int = 0) -> Any:
    """Return a typical value of a type."""
    read = parse_annotation(annotation, marks)
    if isinstance(read.codec, codecs.EnumCodec):
        return _longest(read.codec.enum_class)
    if read.codec is not None:
        return _BY_CODEC[type(read.codec)]
    kind = read.types[0] if read.types else None
    origin = get_origin(kind) or kind
    if not isinstance(origin, type):
        return TEXT
    arguments = [part for part in get_args(kind) if part is not Ellipsis] or [str, str]
    if issubclass(origin, RootModel):
        return typical_value(origin.model_fields["root"].annotation, depth=depth)
    if issubclass(origin, BaseModel):
        return _typical_model(origin, depth)
    if issubclass(origin, bytes):
        return BYTES
    if issubclass(origin, Mapping):
        return {typical_value(arguments[0], depth=depth): typical_value(arguments[-1], depth=depth)}
    if issubclass(origin, AbstractSet):
        return frozenset({typical_value(arguments[0], depth=depth)})
    if issubclass(origin, list | tuple):
        return [typical_value(arguments[0], depth=depth)] * ELEMENTS
    return TEXT


def _typical_model(model: type[BaseModel], depth: int) -> BaseModel | None:
    """Return a model with typical fields, up to the maximum nesting."""
    if depth == MAX_NESTING:
        return None
    fields = model.model_fields.items()
    values = {name: typical_value(field.annotation, field.metadata, depth + 1) for name, field in fields}
    return model.model_construct(**values)


def _longest(kind: type[Enum]) -> Enum:
    return max(kind, key=lambda member: len(str(member.value)))

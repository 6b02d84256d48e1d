"""GraphQL scalars, one for each codec: parsing of inputs and serialization of results."""

import base64
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import lru_cache
from inspect import cleandoc
from types import MappingProxyType
from typing import Any, NewType, Optional
from uuid import UUID

import strawberry
from graphql import (
    BooleanValueNode,
    FloatValueNode,
    IntValueNode,
    StringValueNode,
    Undefined,
    ValueNode,
    value_from_ast_untyped,
)
from pydantic_core import to_jsonable_python
from strawberry.annotation import StrawberryAnnotation
from strawberry.types.enum import EnumValue, StrawberryEnumDefinition
from strawberry.types.scalar import ScalarDefinition

from graphql_api import codecs
from graphql_api.codecs import Codec
from graphql_api.errors import ShardQLError
from graphql_api.schema import descriptions

BigInt = NewType("BigInt", int)
Timestamp = NewType("Timestamp", int)
TimestampMs = NewType("TimestampMs", int)
DecimalScalar = NewType("DecimalScalar", Decimal)
UuidScalar = NewType("UuidScalar", UUID)
DateScalar = NewType("DateScalar", date)
DateTimeScalar = NewType("DateTimeScalar", datetime)
Duration = NewType("Duration", timedelta)
Json = NewType("Json", object)
Bytes = NewType("Bytes", bytes)


def _scalar(
    name: str, codec: Codec[Any], description: str, *, number: bool = False, url: str | None = None
) -> ScalarDefinition:
    """Define a scalar that accepts the strings of its codec, and numbers that it represents exactly.

    `number`: the scalar is serialized as a number, and accepts no strings.
    """

    def parse(value: Any) -> Any:
        try:
            if isinstance(value, str) and not number:
                return codec.parse(value)
            return codec.check(_exact_number(value, codec) if isinstance(value, int | float | Decimal) else value)
        except ShardQLError as problem:
            raise ValueError(problem.message) from problem

    return strawberry.scalar(
        name=name,
        description=description,
        specified_by_url=url,
        serialize=(lambda value: value) if number else codec.format,
        parse_value=parse,
        parse_literal=lambda node, _variables=None: parse(_literal_value(name, node)),
    )


def _exact_number(value: float | Decimal, codec: Codec[Any]) -> object:
    """Convert a number to the type of the codec if no digit is lost: `5.0` and `5e0` become 5, `5.5` stays."""
    if isinstance(value, bool):
        return value
    if isinstance(codec, codecs.DecimalNumber):
        return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if isinstance(codec, _INTEGER_CODECS) and not isinstance(value, int) and -_MAX_INTEGER < value < _MAX_INTEGER:
        return int(value) if value == int(value) else value
    return value


_INTEGER_CODECS = (codecs.Int64, codecs.Timestamp, codecs.TimestampMs)
_MAX_INTEGER = 10**20
"""Exceeds every integer that a codec accepts."""


def _literal_value(name: str, node: ValueNode) -> Any:
    """Return the exact value of a literal in a document."""
    if isinstance(node, StringValueNode):
        return node.value
    if isinstance(node, IntValueNode):
        return int(node.value) if len(node.value) <= 400 else node.value
    if isinstance(node, FloatValueNode):
        try:
            return Decimal(node.value)
        except InvalidOperation:
            raise ValueError(f"The exponent of this {name} has too many digits: send a smaller exponent.") from None
    if isinstance(node, BooleanValueNode):
        return node.value
    raise ValueError(f"{name} accepts a string or a number, not {node.kind.replace('_', ' ')}.")


def _serialize_json(value: Any) -> Any:
    return to_jsonable_python(value, bytes_mode="base64")


def _parse_json_literal(node: ValueNode, variables: Mapping[str, Any] | None = None) -> Any:
    return _without_undefined(value_from_ast_untyped(node, dict(variables or {})))


def _without_undefined(value: Any) -> Any:
    """Remove variables without a value from a JSON literal; in a list they become null."""
    if isinstance(value, dict):
        return {name: _without_undefined(item) for name, item in value.items() if item is not Undefined}
    if isinstance(value, list):
        return [None if item is Undefined else _without_undefined(item) for item in value]
    return value


def _parse_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise ValueError("Bytes must be a base64 string.") from None


SCALARS: Mapping[object, ScalarDefinition] = MappingProxyType(
    {
        BigInt: _scalar("BigInt", codecs.Int64(), descriptions.BIG_INT),
        Timestamp: _scalar("Timestamp", codecs.Timestamp(), descriptions.TIMESTAMP, number=True),
        TimestampMs: _scalar("TimestampMs", codecs.TimestampMs(), descriptions.TIMESTAMP_MS, number=True),
        DecimalScalar: _scalar("Decimal", codecs.DecimalNumber(), descriptions.DECIMAL),
        UuidScalar: _scalar("UUID", codecs.Uuid(), descriptions.UUID, url="https://www.rfc-editor.org/rfc/rfc9562"),
        DateScalar: _scalar("Date", codecs.Date(), descriptions.DATE, url="https://www.rfc-editor.org/rfc/rfc3339"),
        DateTimeScalar: _scalar(
            "DateTime", codecs.DateTime(), descriptions.DATE_TIME, url="https://www.rfc-editor.org/rfc/rfc3339"
        ),
        Duration: _scalar("Duration", codecs.Duration(), descriptions.DURATION),
        Json: strawberry.scalar(
            name="JSON",
            description=descriptions.JSON,
            serialize=_serialize_json,
            parse_value=lambda value: value,
            parse_literal=_parse_json_literal,
        ),
        Bytes: strawberry.scalar(
            name="Bytes",
            description=descriptions.BYTES,
            serialize=lambda value: base64.b64encode(value).decode(),
            parse_value=_parse_bytes,
        ),
    }
)
"""Scalars by the annotations of generated fields."""

SCALAR_MAP: Mapping[object, ScalarDefinition] = MappingProxyType(
    {
        **SCALARS,
        Decimal: SCALARS[DecimalScalar],
        UUID: SCALARS[UuidScalar],
        date: SCALARS[DateScalar],
        datetime: SCALARS[DateTimeScalar],
        timedelta: SCALARS[Duration],
        bytes: SCALARS[Bytes],
        strawberry.scalars.JSON: SCALARS[Json],
    }
)
"""The same for fields of the developer: Strawberry maps their plain Python types to scalars of its own."""

_ANNOTATIONS: Mapping[type[Codec[Any]], Any] = MappingProxyType(
    {
        codecs.Text: str,
        codecs.Int64: BigInt,
        codecs.Int32: int,
        codecs.Timestamp: Timestamp,
        codecs.TimestampMs: TimestampMs,
        codecs.DecimalNumber: DecimalScalar,
        codecs.Float64: float,
        codecs.Boolean: bool,
        codecs.Uuid: UuidScalar,
        codecs.Date: DateScalar,
        codecs.DateTime: DateTimeScalar,
        codecs.Duration: Duration,
    }
)


def strawberry_annotation(codec: Codec[Any], enum_name: Callable[[type], str]) -> Any:
    """Return the Strawberry annotation of a property with this codec."""
    if isinstance(codec, codecs.EnumCodec):
        return _enum_type(codec.enum_class, enum_name(codec.enum_class))
    return _ANNOTATIONS[type(codec)]


def _enum_type(enum_class: type[Enum], name: str) -> StrawberryEnumDefinition:
    """Define an enum without marking its class as `strawberry.enum` does: catalogs may name it differently."""
    declared: Any = vars(enum_class).get("__strawberry_definition__")
    values = declared.values if declared else [EnumValue(member.name, member.value) for member in enum_class]
    description = declared.description if declared else vars(enum_class).get("__doc__")
    return _EnumDefinition(enum_class, name, values, description and cleandoc(description))


class _EnumDefinition(StrawberryEnumDefinition):
    """Enum that equals the one that Strawberry creates for fields of the developer, without a description."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StrawberryEnumDefinition):
            return NotImplemented
        return (self.wrapped_cls, self.name, self.values) == (other.wrapped_cls, other.name, other.values)

    __hash__ = StrawberryEnumDefinition.__hash__


def make_nullable(annotation: Any) -> Any:
    """Return the nullable variant of an annotation; the operator `|` rejects definitions of Strawberry."""
    optional: Any = Optional
    return optional[annotation]


@lru_cache(maxsize=256)
def cached_annotation(annotation: Any) -> StrawberryAnnotation:
    """Return the Strawberry object of an annotation, shared by all its fields so that it is resolved once."""
    return StrawberryAnnotation(annotation, namespace={})


def graphql_scalar_name(codec: Codec[Any], enum_name: Callable[[type], str]) -> str:
    """Return the name of the GraphQL scalar or enum of a codec."""
    if isinstance(codec, codecs.EnumCodec):
        return enum_name(codec.enum_class)
    builtin = {str: "String", int: "Int", float: "Float", bool: "Boolean"}
    annotation = _ANNOTATIONS[type(codec)]
    return builtin.get(annotation) or SCALARS[annotation].name

"""The scalars of GraphQL, one for each codec: how values come in and go out."""

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

BigInt = NewType("BigInt", int)
Timestamp = NewType("Timestamp", int)
TimestampMs = NewType("TimestampMs", int)
DecimalText = NewType("DecimalText", Decimal)
Uuid = NewType("Uuid", UUID)
Day = NewType("Day", date)
Moment = NewType("Moment", datetime)
Duration = NewType("Duration", timedelta)
Json = NewType("Json", object)
Bytes = NewType("Bytes", bytes)


def _scalar(
    name: str, codec: Codec[Any], description: str, *, number: bool = False, url: str | None = None
) -> ScalarDefinition:
    """A scalar that reads what its codec reads: texts, and numbers where they are exact."""

    def parse(value: Any) -> Any:
        try:
            if isinstance(value, str) and not number:
                return codec.parse(value)
            return codec.check(_number(value, codec) if isinstance(value, int | float | Decimal) else value)
        except ShardQLError as problem:
            raise ValueError(problem.message) from problem

    return strawberry.scalar(
        name=name,
        description=description,
        specified_by_url=url,
        serialize=(lambda value: value) if number else codec.format,
        parse_value=parse,
        parse_literal=lambda node, _variables=None: parse(_literal(name, node)),
    )


def _number(value: float | Decimal, codec: Codec[Any]) -> object:
    """A number as the codec knows it, if it is the same number: `5.0` and `5e0` are whole, `5.5` is not."""
    if isinstance(value, bool):
        return value
    if isinstance(codec, codecs.DecimalNumber):
        return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if isinstance(codec, _WHOLE) and not isinstance(value, int) and -_TOO_LARGE < value < _TOO_LARGE:
        return int(value) if value == int(value) else value
    return value


_WHOLE = (codecs.Int64, codecs.Timestamp, codecs.TimestampMs)
_TOO_LARGE = 10**20
"""beyond every whole number that a codec holds"""


def _literal(name: str, node: ValueNode) -> Any:
    """What a literal of a query says, exactly."""
    if isinstance(node, StringValueNode):
        return node.value
    if isinstance(node, IntValueNode):
        return int(node.value) if len(node.value) <= 400 else node.value
    if isinstance(node, FloatValueNode):
        try:
            return Decimal(node.value)
        except InvalidOperation:
            raise ValueError(f"{name} takes no number with an exponent of so many digits.") from None
    if isinstance(node, BooleanValueNode):
        return node.value
    raise ValueError(f"{name} takes a text or a number, not {node.kind.replace('_', ' ')}.")


def _json_out(value: Any) -> Any:
    return to_jsonable_python(value, bytes_mode="base64")


def _json_literal(node: ValueNode, variables: Mapping[str, Any] | None = None) -> Any:
    return _known(value_from_ast_untyped(node, dict(variables or {})))


def _known(value: Any) -> Any:
    """What a literal of JSON says, without the variables in it that have no value."""
    if isinstance(value, dict):
        return {name: _known(item) for name, item in value.items() if item is not Undefined}
    if isinstance(value, list):
        return [None if item is Undefined else _known(item) for item in value]
    return value


def _bytes_in(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise ValueError("Bytes are a text in base64.") from None


SCALARS: Mapping[object, ScalarDefinition] = MappingProxyType(
    {
        BigInt: _scalar(
            "BigInt", codecs.Int64(), "A whole number of 64 bits: a text in answers, a text or a number in arguments."
        ),
        Timestamp: _scalar("Timestamp", codecs.Timestamp(), "Seconds since 1970-01-01 UTC.", number=True),
        TimestampMs: _scalar("TimestampMs", codecs.TimestampMs(), "Milliseconds since 1970-01-01 UTC.", number=True),
        DecimalText: _scalar(
            "Decimal",
            codecs.DecimalNumber(),
            "A decimal number of up to 38 digits, as a text; arguments may be numbers too.",
        ),
        Uuid: _scalar(
            "UUID", codecs.Uuid(), "A UUID in its form with hyphens.", url="https://www.rfc-editor.org/rfc/rfc9562"
        ),
        Day: _scalar("Date", codecs.Date(), "A day, as `2026-01-31`.", url="https://www.rfc-editor.org/rfc/rfc3339"),
        Moment: _scalar(
            "DateTime",
            codecs.DateTime(),
            "A moment in UTC, as `2026-01-31T12:00:00Z`; arguments may have any offset.",
            url="https://www.rfc-editor.org/rfc/rfc3339",
        ),
        Duration: _scalar(
            "Duration",
            codecs.Duration(),
            "An ISO 8601 duration of days, hours, minutes and seconds, as `P1DT2H` or `PT0.5S`.",
        ),
        Json: strawberry.scalar(
            name="JSON",
            description="Any JSON value.",
            serialize=_json_out,
            parse_value=lambda value: value,
            parse_literal=_json_literal,
        ),
        Bytes: strawberry.scalar(
            name="Bytes",
            description="Bytes in base64.",
            serialize=lambda value: base64.b64encode(value).decode(),
            parse_value=_bytes_in,
        ),
    }
)
"""by the types that stand for them in generated fields"""

SCALAR_MAP: Mapping[object, ScalarDefinition] = MappingProxyType(
    {
        **SCALARS,
        Decimal: SCALARS[DecimalText],
        UUID: SCALARS[Uuid],
        date: SCALARS[Day],
        datetime: SCALARS[Moment],
        timedelta: SCALARS[Duration],
        bytes: SCALARS[Bytes],
        strawberry.scalars.JSON: SCALARS[Json],
    }
)
"""The same for own fields too, whose plain types would come out as other scalars with the same names."""

_ANNOTATIONS: Mapping[type[Codec[Any]], Any] = MappingProxyType(
    {
        codecs.Text: str,
        codecs.Int64: BigInt,
        codecs.Int32: int,
        codecs.Timestamp: Timestamp,
        codecs.TimestampMs: TimestampMs,
        codecs.DecimalNumber: DecimalText,
        codecs.Float64: float,
        codecs.Boolean: bool,
        codecs.Uuid: Uuid,
        codecs.Date: Day,
        codecs.DateTime: Moment,
        codecs.Duration: Duration,
    }
)


def annotation_of(codec: Codec[Any], enum_name: Callable[[type], str]) -> Any:
    """What a property with this codec is in Strawberry."""
    if isinstance(codec, codecs.EnumCodec):
        return _enum_type(codec.enum_class, enum_name(codec.enum_class))
    return _ANNOTATIONS[type(codec)]


def _enum_type(enum_class: type[Enum], name: str) -> StrawberryEnumDefinition:
    """What `strawberry.enum` makes, without its mark on the class: another catalog may have another name for it."""
    own: Any = vars(enum_class).get("__strawberry_definition__")
    values = own.values if own else [EnumValue(member.name, member.value) for member in enum_class]
    words = own.description if own else vars(enum_class).get("__doc__")
    return _EnumDefinition(enum_class, name, values, words and cleandoc(words))


class _EnumDefinition(StrawberryEnumDefinition):
    """Is the enum that Strawberry makes of the same class where own fields name it: that one has no description."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StrawberryEnumDefinition):
            return NotImplemented
        return (self.wrapped_cls, self.name, self.values) == (other.wrapped_cls, other.name, other.values)

    __hash__ = StrawberryEnumDefinition.__hash__


def or_null(annotation: Any) -> Any:
    """The annotation of what may be null; `| None` does not know the types that Strawberry has made already."""
    optional: Any = Optional
    return optional[annotation]


@lru_cache(maxsize=256)
def read_once(annotation: Any) -> StrawberryAnnotation:
    """An annotation as Strawberry has it, which reads it once for all fields and arguments that have it."""
    return StrawberryAnnotation(annotation, namespace={})


def name_of(codec: Codec[Any], enum_name: Callable[[type], str]) -> str:
    """What its scalar is called in GraphQL."""
    if isinstance(codec, codecs.EnumCodec):
        return enum_name(codec.enum_class)
    builtin = {str: "String", int: "Int", float: "Float", bool: "Boolean"}
    annotation = _ANNOTATIONS[type(codec)]
    return builtin.get(annotation) or SCALARS[annotation].name

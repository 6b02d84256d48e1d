"""GraphQL scalars, one for each codec: parsing of inputs and serialization of results."""

import base64
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import lru_cache, partial
from inspect import cleandoc
from typing import Any, NewType, Optional

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

from graphql_api.codecs import CODECS, Codec, GraphQLScalar
from graphql_api.errors import ShardQLError

BigInt = NewType("BigInt", int)
Json = NewType("Json", object)
Bytes = NewType("Bytes", bytes)

_BUILTIN = (str, int, float, bool)
_STATIC = {"String": str, "Int": int, "Float": float, "Boolean": bool, "BigInt": BigInt}
_ANNOTATIONS: Mapping[Codec[Any], Any] = {
    codec: _STATIC.get(codec.graphql.name) or NewType(codec.graphql.name, codec.python_type)
    for codec in CODECS
    if codec.graphql is not None
}
"""Annotations of generated fields."""


def _scalar(codec: Codec[Any], scalar: GraphQLScalar) -> ScalarDefinition:
    """Define a scalar that accepts the strings of its codec, and numbers that it represents exactly."""

    def parse(value: Any) -> Any:
        try:
            return codec.from_json(value)
        except ShardQLError as problem:
            raise ValueError(problem.message) from problem

    return strawberry.scalar(
        name=scalar.name,
        description=scalar.description,
        specified_by_url=scalar.specified_by_url,
        serialize=codec.to_json,
        parse_value=parse,
        parse_literal=lambda node, _variables=None: parse(_literal_value(scalar.name, node)),
    )


def _literal_value(name: str, node: ValueNode) -> Any:
    """Return the exact value of a literal in a document."""
    if isinstance(node, StringValueNode | BooleanValueNode):
        return node.value
    if isinstance(node, IntValueNode):
        return int(node.value) if len(node.value) <= 400 else node.value
    if isinstance(node, FloatValueNode):
        try:
            return Decimal(node.value)
        except InvalidOperation:
            raise ValueError(f"The exponent of this {name} has too many digits: send a smaller exponent.") from None
    raise ValueError(f"{name} accepts a string or a number, not {node.kind.replace('_', ' ')}.")


def _parse_json_literal(node: ValueNode, variables: dict[str, Any] | None = None) -> Any:
    return _without_undefined(value_from_ast_untyped(node, variables))


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


SCALARS: Mapping[object, ScalarDefinition] = {
    **{
        annotation: _scalar(codec, codec.graphql)
        for codec, annotation in _ANNOTATIONS.items()
        if codec.graphql is not None and annotation not in _BUILTIN
    },
    Json: strawberry.scalar(
        name="JSON",
        description="Any JSON value.",
        serialize=partial(to_jsonable_python, bytes_mode="base64"),
        parse_value=lambda value: value,
        parse_literal=_parse_json_literal,
    ),
    Bytes: strawberry.scalar(
        name="Bytes",
        description="Binary data, encoded as base64.",
        serialize=lambda value: base64.b64encode(value).decode(),
        parse_value=_parse_bytes,
    ),
}
"""Scalars by the annotations of generated fields."""

SCALAR_MAP: Mapping[object, ScalarDefinition] = {
    **SCALARS,
    **{
        codec.python_type: SCALARS[annotation]
        for codec, annotation in _ANNOTATIONS.items()
        if codec.python_type not in _BUILTIN
    },
    bytes: SCALARS[Bytes],
    strawberry.scalars.JSON: SCALARS[Json],
}
"""The same for fields of the developer: Strawberry maps their plain Python types to scalars of its own."""


def strawberry_annotation(codec: Codec[Any], enum_name: Callable[[type], str]) -> Any:
    """Return the Strawberry annotation of a property with this codec."""
    if codec.graphql is None:
        return _enum_type(codec.python_type, enum_name(codec.python_type))
    return _ANNOTATIONS[codec]


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
    return enum_name(codec.python_type) if codec.graphql is None else codec.graphql.name

"""Compile the completion of values that contain no records: scalars, enums, lists, and objects of generated types."""

from collections.abc import Callable
from typing import Any

import graphql
from graphql.execution.collect_fields import FieldDetailsList, GroupedFieldSet
from strawberry.types.field import StrawberryField

from graphql_api.schema.types.object_types import resolve_attribute

Completion = Callable[[Any], Any]
"""Returns the response value of a Python value, or raises an error. Then the stock execution completes the value."""

SubfieldCollector = Callable[[graphql.GraphQLObjectType, FieldDetailsList], GroupedFieldSet]
"""Returns the fields that a document selects of objects of a type"""


class UnexpectedValue(Exception):
    """A value that only the stock execution completes: it reports errors and their paths."""


def field_name(details: FieldDetailsList) -> str:
    """Return the name of the field that a document selects, whatever its alias."""
    return details[0].node.name.value


def generated_field_of(definition: graphql.GraphQLField | None) -> StrawberryField | None:
    """Return the Strawberry field of a GraphQL field."""
    field = None if definition is None else definition.extensions.get("strawberry-definition")
    return field if isinstance(field, StrawberryField) else None


def plain_attribute(definition: graphql.GraphQLField | None) -> str | None:
    """Return the attribute that a field reads; None if a resolver or an extension determines its value."""
    field = generated_field_of(definition)
    is_plain = field is not None and field.is_basic_field and field.default_resolver is resolve_attribute
    return field.python_name if field is not None and is_plain else None


def compile_value(
    schema: graphql.GraphQLSchema, kind: Any, details: FieldDetailsList, collect: SubfieldCollector
) -> Completion | None:
    """Return the completion of values of a type; None if they contain what needs a resolver."""
    if graphql.is_non_null_type(kind):
        inner = compile_value(schema, kind.of_type, details, collect)
        return None if inner is None else _required(inner)
    if graphql.is_list_type(kind):
        inner = compile_value(schema, kind.of_type, details, collect)
        return None if inner is None else _list(inner)
    if graphql.is_leaf_type(kind):
        return leaf_completion(kind)
    if graphql.is_object_type(kind) and kind.is_type_of is None:
        return _compile_object(schema, kind, details, collect)
    return None


def leaf_completion(kind: graphql.GraphQLScalarType | graphql.GraphQLEnumType) -> Completion:
    """Return the completion of values of a scalar or enum."""
    coerce = kind.coerce_output_value

    def complete(value: Any) -> Any:
        if value is None:
            return None
        result = coerce(value)
        if result is None or result is graphql.Undefined:
            raise UnexpectedValue(kind.name)
        return result

    return complete


def _required(inner: Completion) -> Completion:
    def complete(value: Any) -> Any:
        if value is None:
            raise UnexpectedValue("null")
        return inner(value)

    return complete


def _list(inner: Completion) -> Completion:
    def complete(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise UnexpectedValue(type(value).__name__)
        return [inner(one) for one in value]

    return complete


def _compile_object(
    schema: graphql.GraphQLSchema,
    kind: graphql.GraphQLObjectType,
    details: FieldDetailsList,
    collect: SubfieldCollector,
) -> Completion | None:
    members: dict[str, Completion] = {}
    for response_name, subfield in collect(kind, details).items():
        member = compile_member(schema, kind, subfield, collect)
        if member is None:
            return None
        members[response_name] = member
    return lambda value: None if value is None else {name: member(value) for name, member in members.items()}


def compile_member(
    schema: graphql.GraphQLSchema,
    kind: graphql.GraphQLObjectType,
    details: FieldDetailsList,
    collect: SubfieldCollector,
) -> Completion | None:
    """Return the completion of one field of an object, from the object; None if it needs a resolver."""
    if field_name(details) == "__typename":
        return lambda _: kind.name
    definition = schema.get_field(kind, field_name(details))
    attribute = plain_attribute(definition)
    if definition is None or attribute is None:
        return None
    inner = compile_value(schema, definition.type, details, collect)
    return None if inner is None else lambda value: inner(resolve_attribute(value, attribute))

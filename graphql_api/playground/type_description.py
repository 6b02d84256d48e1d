"""Describe the input types, enums and scalars of a GraphQL schema as JSON, and the selections of output types."""

from functools import cache
from typing import Any

from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLSchema,
    get_named_type,
    is_required_input_field,
)

from graphql_api.codecs import CODECS

MAX_NESTING = 4
"""levels of nested models that a selection contains"""


def describe_types(schema: GraphQLSchema) -> dict[str, Any]:
    """Return all input objects, enums and scalars by name."""
    described = {name: _describe(kind) for name, kind in schema.type_map.items() if not name.startswith("__")}
    return {name: value for name, value in described.items() if value is not None}


def _describe(kind: GraphQLNamedType) -> dict[str, Any] | None:
    if isinstance(kind, GraphQLEnumType):
        return {"kind": "enum", "values": [*kind.values]}
    if isinstance(kind, GraphQLScalarType):
        return {"kind": "scalar", "json": _json_kinds().get(kind.name, "any"), "description": kind.description}
    if isinstance(kind, GraphQLInputObjectType):
        return {"kind": "input", "fields": {name: _describe_field(field) for name, field in kind.fields.items()}}
    return None


def _describe_field(field: Any) -> dict[str, Any]:
    return {"type": str(field.type), "required": is_required_input_field(field), "description": field.description}


@cache
def _json_kinds() -> dict[str, str]:
    """Return the JSON type of each scalar: text, number or boolean; others take any value."""
    kinds = {"ID": "text", "String": "text", "Bytes": "text", "Boolean": "boolean", "Int": "number", "Float": "number"}
    for codec in CODECS:
        if codec.graphql is not None:
            value = codec.to_json(codec.samples.low)
            kind = "boolean" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
            kinds.setdefault(codec.graphql.name, kind)
    return kinds


def selection_of(kind: Any, levels: int = MAX_NESTING) -> str:
    """Return the selection of all fields of a nested object type in braces; empty for other types."""
    named = get_named_type(kind)
    if not isinstance(named, GraphQLObjectType):
        return ""
    fields = [
        f"{name}{' ' if nested else ''}{nested}"
        for name, field in named.fields.items()
        if (nested := selection_of(field.type, levels - 1))
        or not isinstance(get_named_type(field.type), GraphQLObjectType)
    ]
    return f"{{ {' '.join(fields)} }}" if fields and levels else ""

"""Messages of GraphQL validation errors, extended by what the catalog knows about rejected input fields."""

import re
from collections.abc import Iterator

from graphql import GraphQLSchema
from strawberry.schema.schema_converter import GraphQLCoreConverter

from graphql_api.model import EntitySpec, PropertySpec
from graphql_api.schema.graphql_names import property_name

REJECTED_FIELDS = "__rejected_fields__"
"""Attribute of input types: why a field of their records is not a field of the input, by name."""

_ID = "id"
_PYTHON_NULL = "None."
_NO_MUTATIONS = "The mutation operation is not supported by the schema."
_UNKNOWN_FIELD = re.compile(
    r"(?P<problem>Expected value of type '(?P<type>\w+)' not to include unknown field '(?P<field>\w+)')"
    r"(?:\. Did you mean [^?]+\? F|, f)ound: "
)


def rejected_fields(entity: EntitySpec, verb: str) -> dict[str, str]:
    """Explain which fields of a record the input of a verb rejects: the reason, and what to do instead."""
    reasons = {
        property_name(part.name): reason
        for part in entity.properties.values()
        for reason in _reasons(entity, part, exists=verb in ("update", "delete"))
    }
    if verb in ("create", "put") and len(entity.ids) == 1 and _ID not in reasons:
        reasons[_ID] = f"the server derives it from {property_name(entity.ids[0].name)}; set that instead"
    return reasons


def _reasons(entity: EntitySpec, part: PropertySpec, *, exists: bool) -> Iterator[str]:
    if part.function is not None:
        yield f"the server derives it from {' and '.join(map(property_name, part.sources))}; set that instead"
    elif part.counter_group is not None:
        yield "the server counts it; omit it"
    elif part == entity.version:
        yield "the server increments it with every write; omit it, or pass the version you read as expectedVersion"
    elif part == entity.updated:
        yield "the server sets it with every write; omit it"
    elif exists and part in entity.ids:
        yield "it is part of the id, which never changes; pass the id of the record as id"
    elif exists and (part == entity.created or part.immutable):
        yield "it never changes after the record is created; omit it"


def explain_validation_error(message: str, schema: GraphQLSchema, *, suggestions: bool) -> str:
    """Rewrite a message of GraphQL; the reason why an input rejects a field replaces suggested names.

    Without `suggestions`, the message does not reveal which fields a record has.
    """
    if message == _NO_MUTATIONS:
        return "This schema has no mutations: the server is read-only, or the catalog allows no writes."
    if message.endswith(_PYTHON_NULL):
        return f"{message.removesuffix(_PYTHON_NULL)}null."
    unknown = _UNKNOWN_FIELD.search(message) if suggestions else None
    if unknown is None:
        return message
    definition = schema.type_map[unknown["type"]].extensions.get(GraphQLCoreConverter.DEFINITION_BACKREF)
    reason = getattr(getattr(definition, "origin", None), REJECTED_FIELDS, {}).get(unknown["field"])
    if reason is None:
        return message
    return f"{message[: unknown.start()]}{unknown['problem']}: {reason}. Found: {message[unknown.end() :]}"

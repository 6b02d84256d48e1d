"""What is told of the mistakes that GraphQL finds: by itself it knows nothing of records, and of who sets what."""

import re
from collections.abc import Iterator

from graphql import GraphQLSchema
from strawberry.schema.schema_converter import GraphQLCoreConverter

from graphql_api.model import EntitySpec, PropertySpec
from graphql_api.schema.graphql_names import property_name

UNTAKEN = "__untaken__"
"""attribute of input types: why they lack what their records have, by name"""

_ID = "id"
_PYTHONS_NULL = "None."
_NO_MUTATIONS = "The mutation operation is not supported by the schema."
_UNKNOWN = re.compile(
    r"(?P<what>Expected value of type '(?P<type>\w+)' not to include unknown field '(?P<field>\w+)')"
    r"(?:\. Did you mean [^?]+\? F|, f)ound: "
)


def untaken(entity: EntitySpec, verb: str) -> dict[str, str]:
    """What records have and the input of a verb does not take, with the reason and what to do instead."""
    reasons = {
        property_name(part.name): reason
        for part in entity.properties.values()
        for reason in _reasons(entity, part, is_there=verb in ("update", "delete"))
    }
    if verb in ("create", "put") and len(entity.ids) == 1 and _ID not in reasons:
        reasons[_ID] = f"it is made from {property_name(entity.ids[0].name)}; give that"
    return reasons


def _reasons(entity: EntitySpec, part: PropertySpec, *, is_there: bool) -> Iterator[str]:
    if part.function is not None:
        yield f"it is derived from {' and '.join(map(property_name, part.sources))}; give that"
    elif part.counts is not None:
        yield "the server counts it; leave it out"
    elif part == entity.version:
        yield "the server counts it at every write; the one that you have seen goes into expectedVersion"
    elif part == entity.updated:
        yield "the server sets it at every write; leave it out"
    elif is_there and part in entity.ids:
        yield "it is part of the id, which never changes; say by id which record is meant"
    elif is_there and (part == entity.created or part.immutable):
        yield "it never changes; leave it out"


def told_of_mistake(message: str, schema: GraphQLSchema, *, suggestions: bool) -> str:
    """A message of GraphQL's; why an input lacks what a record has stands there in place of a guess at what was meant.

    Without `suggestions` a client does not learn what a record has.
    """
    if message == _NO_MUTATIONS:
        return "Nothing can be written here: the server is read-only, or its catalog lets nobody write."
    if message.endswith(_PYTHONS_NULL):
        return f"{message.removesuffix(_PYTHONS_NULL)}null."
    unknown = _UNKNOWN.search(message) if suggestions else None
    if unknown is None:
        return message
    definition = schema.type_map[unknown["type"]].extensions.get(GraphQLCoreConverter.DEFINITION_BACKREF)
    reason = getattr(getattr(definition, "origin", None), UNTAKEN, {}).get(unknown["field"])
    if reason is None:
        return message
    return f"{message[: unknown.start()]}{unknown['what']}: {reason}. Found: {message[unknown.end() :]}"

"""Printing of schemas as SDL, merging of several schemas, and detection of breaking changes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import graphql
import strawberry
from graphql.utilities.find_schema_changes import SafeChangeType, find_schema_changes

from graphql_api.errors import ConflictingArguments, InvalidValue

_MERGED = frozenset({"Query", "Mutation", "Subscription", "WriteOperation"})
"""Types whose fields are merged from all schemas."""
_OBJECTS = (graphql.ObjectTypeDefinitionNode, graphql.InputObjectTypeDefinitionNode)


@dataclass(frozen=True, slots=True)
class SchemaChanges:
    """Changes of a schema since it was printed."""

    breaking: tuple[str, ...]
    """Changes by which a correct client can fail."""
    dangerous: tuple[str, ...]
    """Changes by which a correct client can behave differently."""
    safe: tuple[str, ...]
    """Changes that no existing client notices."""
    differs: bool
    """Whether the printed texts differ, if only by the order of fields."""


def print_sdl(schemas: Mapping[str, strawberry.Schema]) -> str:
    """Print one schema, or several merged into one; the keys are the addresses of their catalogs."""
    texts = {}
    for address, schema in schemas.items():
        texts[address] = graphql.print_schema(graphql.build_schema(schema.as_str()))
    (text, *others) = texts.values()
    return f"{text if not others else graphql.print_schema(_merge(texts))}\n"


def compare_schemas(printed: str, now: str) -> SchemaChanges:
    """Return the changes between two printed schemas; comments and whitespace are ignored."""
    old, new = _parse(printed), graphql.build_schema(now)
    changes = [(change.type, " ".join(change.description.split())) for change in find_schema_changes(old, new)]
    breaking, dangerous, safe = (
        tuple(sorted(text for kind, text in changes if isinstance(kind, risk)))
        for risk in (graphql.BreakingChangeType, graphql.DangerousChangeType, SafeChangeType)
    )
    return SchemaChanges(breaking, dangerous, safe, differs=graphql.print_schema(old) != graphql.print_schema(new))


def _parse(text: str) -> graphql.GraphQLSchema:
    try:
        return graphql.build_schema(text)
    except (graphql.GraphQLError, TypeError) as problem:
        locations = problem.locations if isinstance(problem, graphql.GraphQLError) else None
        position = f"line {locations[0].line}, column {locations[0].column}: " if locations else ""
        reason = " ".join(str(getattr(problem, "message", problem)).split())
        raise InvalidValue(f"is not a GraphQL schema: {position}{reason}") from problem


# --- merging ---------------------------------------------------------------------------------------------------


def _merge(texts: Mapping[str, str]) -> graphql.GraphQLSchema:
    """Merge schemas: equal definitions appear once, different definitions of one name are an error."""
    definitions: dict[str, tuple[str, graphql.DefinitionNode]] = {}
    fields: dict[str, dict[str, tuple[str, graphql.Node]]] = {}
    merged_types: dict[str, Any] = {}
    conflicts: list[str] = []

    def add(kind: str, name: str, address: str, node: Any, merged: dict[str, Any]) -> None:
        first_address, first = merged.setdefault(name, (address, node))
        if graphql.print_ast(first) != graphql.print_ast(node):
            conflicts.append(f"{kind} {name} of {first_address} and of {address}")

    for address, text in texts.items():
        for definition in graphql.parse(text, no_location=True).definitions:
            name_node = getattr(definition, "name", None)
            name = name_node.value if name_node is not None else definition.kind
            if name in _MERGED and isinstance(definition, _OBJECTS):
                merged_types.setdefault(name, definition)
                for field in definition.fields or ():
                    add("field", field.name.value, address, field, fields.setdefault(name, {}))
            else:
                add("type", name, address, definition, definitions)
    if conflicts:
        raise ConflictingArguments(
            f"These names have different definitions: {'; '.join(conflicts)}. Set another namespace= on one catalog, "
            "or print the catalogs into separate files.",
            argument="catalog",
        )
    for name, first in merged_types.items():
        definitions[name] = "", replace(first, fields=tuple(field for _, field in fields[name].values()))
    return graphql.build_ast_schema(
        graphql.DocumentNode(definitions=tuple(definitions[name][1] for name in sorted(definitions)))
    )

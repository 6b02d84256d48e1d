"""Printing of schemas as SDL, merging of several schemas, and detection of breaking changes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import graphql
import strawberry
from graphql.utilities.find_schema_changes import SafeChangeType, find_schema_changes

from graphql_api.errors import ConflictingArguments, InvalidValue
from graphql_api.schema.graphql_names import RESERVED_FIELDS
from graphql_api.schema.types.connection_types import SHARED_TYPES
from graphql_api.schema.types.mutation_types import SHARED_TYPES as SHARED_MUTATION_TYPES

_MERGED = frozenset({"Query", "Mutation", "Subscription", "WriteOperation"})
"""Types whose fields are merged from all schemas."""
_LINK = "@link("
"""a subgraph of Apollo Federation has this directive"""
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
    subgraphs = {address: schema.subgraph_sdl for address, schema in schemas.items() if hasattr(schema, "subgraph_sdl")}
    if subgraphs:
        return _only(subgraphs, schemas)
    texts = {}
    for address, schema in schemas.items():
        texts[address] = graphql.print_schema(graphql.build_schema(schema.as_str()))
    (text, *others) = texts.values()
    return f"{text if not others else graphql.print_schema(_merge(texts))}\n"


def _only(subgraphs: Mapping[str, str], schemas: Mapping[str, strawberry.Schema]) -> str:
    """Return the SDL of a subgraph, which is printed alone: a composition merges subgraphs."""
    if len(schemas) > 1:
        raise ConflictingArguments(
            f"{next(iter(subgraphs))} is a subgraph of Apollo Federation: print it alone, and compose the subgraphs.",
            argument="catalog",
        )
    return f"{next(iter(subgraphs.values()))}\n"


def print_subgraph(schema: strawberry.Schema) -> str:
    """Print the schema of a subgraph of Apollo Federation.

    Several subgraphs may define the types that all catalogs share, and the fields that read a record by its global id.
    Those are hidden from clients of the gateway, which cannot know the subgraph of an id.
    """
    document = graphql.parse(schema.as_str(), no_location=True)
    return graphql.print_ast(graphql.visit(document, _SharedTypes()))


def _directive(name: str) -> graphql.ConstDirectiveNode:
    """Return a directive of federation. Names that the schema does not import have this prefix."""
    return graphql.ConstDirectiveNode(name=graphql.NameNode(value=f"federation__{name}"), arguments=())


class _SharedTypes(graphql.Visitor):
    """Adds directives to definitions that several subgraphs may have."""

    def enter_object_type_definition(self, node: graphql.ObjectTypeDefinitionNode, *_: Any) -> Any:
        if node.name.value in (*SHARED_TYPES, *SHARED_MUTATION_TYPES):
            return replace(node, directives=(*(node.directives or ()), _directive("shareable")))
        if node.name.value != "Query":
            return None
        hidden = _directive("shareable"), _directive("inaccessible")
        fields = [
            replace(field, directives=(*(field.directives or ()), *hidden))
            if field.name.value in RESERVED_FIELDS
            else field
            for field in node.fields or ()
        ]
        return replace(node, fields=tuple(fields))


def compare_schemas(printed: str, now: str) -> SchemaChanges:
    """Return the changes between two printed schemas; comments and whitespace are ignored."""
    old, new = _parse(printed), _build(now)
    changes = [(change.type, " ".join(change.description.split())) for change in find_schema_changes(old, new)]
    breaking, dangerous, safe = (
        tuple(sorted(text for kind, text in changes if isinstance(kind, risk)))
        for risk in (graphql.BreakingChangeType, graphql.DangerousChangeType, SafeChangeType)
    )
    return SchemaChanges(breaking, dangerous, safe, differs=_normal_form(printed, old) != _normal_form(now, new))


def _build(text: str) -> graphql.GraphQLSchema:
    """Build a schema. A subgraph does not define the directives of federation that it uses."""
    return graphql.build_schema(text, assume_valid_sdl=_LINK in text)


def _normal_form(text: str, schema: graphql.GraphQLSchema) -> str:
    """Return a text that is equal for equal schemas. That of a subgraph contains its directives."""
    return graphql.print_ast(graphql.parse(text)) if _LINK in text else graphql.print_schema(schema)


def _parse(text: str) -> graphql.GraphQLSchema:
    try:
        return _build(text)
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

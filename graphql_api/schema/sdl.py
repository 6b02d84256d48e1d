"""Printing of schemas as SDL, merging of several schemas, and detection of breaking changes."""

from collections.abc import Mapping
from dataclasses import dataclass

import strawberry
from graphql import (
    BreakingChangeType,
    DangerousChangeType,
    DefinitionNode,
    DocumentNode,
    FieldDefinitionNode,
    GraphQLError,
    GraphQLSchema,
    NameNode,
    ObjectTypeDefinitionNode,
    build_ast_schema,
    build_schema,
    parse,
    print_ast,
    print_schema,
)
from graphql.utilities import find_schema_changes

from graphql_api.errors import ConflictingArguments, InvalidValue

_ROOTS = frozenset({"Query", "Mutation", "Subscription"})
"""Types whose fields are merged from all schemas."""


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
    texts = {address: print_schema(build_schema(schema.as_str())) for address, schema in schemas.items()}
    (text, *others) = texts.values()
    return f"{text if not others else print_schema(_merge(texts))}\n"


def compare_schemas(printed: str, now: str) -> SchemaChanges:
    """Return the changes between two printed schemas; comments and whitespace are ignored."""
    old, new = _parse(printed), build_schema(now)
    changes = [(change.type, " ".join(change.description.split())) for change in find_schema_changes(old, new)]
    breaking = tuple(sorted(text for kind, text in changes if isinstance(kind, BreakingChangeType)))
    dangerous = tuple(sorted(text for kind, text in changes if isinstance(kind, DangerousChangeType)))
    safe = tuple(
        sorted(text for kind, text in changes if not isinstance(kind, BreakingChangeType | DangerousChangeType))
    )
    return SchemaChanges(breaking, dangerous, safe, differs=print_schema(old) != print_schema(new))


def _parse(text: str) -> GraphQLSchema:
    try:
        return build_schema(text)
    except (GraphQLError, TypeError) as problem:
        locations = problem.locations if isinstance(problem, GraphQLError) else None
        position = f"line {locations[0].line}, column {locations[0].column}: " if locations else ""
        reason = " ".join(str(getattr(problem, "message", problem)).split())
        raise InvalidValue(f"is not a GraphQL schema: {position}{reason}") from problem


# --- merging ---------------------------------------------------------------------------------------------------


def _merge(texts: Mapping[str, str]) -> GraphQLSchema:
    """Merge schemas: equal definitions appear once, different definitions of one name are an error."""
    definitions: dict[str, tuple[str, DefinitionNode]] = {}
    root_fields: dict[str, dict[str, tuple[str, FieldDefinitionNode]]] = {}
    conflicts: list[str] = []

    def check_equal(kind: str, name: str, one: tuple[str, DefinitionNode], other: tuple[str, DefinitionNode]) -> None:
        if print_ast(one[1]) != print_ast(other[1]):
            conflicts.append(f"{kind} {name} of {one[0]} and of {other[0]}")

    for address, text in texts.items():
        for definition in parse(text, no_location=True).definitions:
            name = _name(definition)
            if name in _ROOTS and isinstance(definition, ObjectTypeDefinitionNode):
                fields = root_fields.setdefault(name, {})
                for field in definition.fields or ():
                    located_field = (address, field)
                    first_field = fields.setdefault(field.name.value, located_field)
                    check_equal("field", field.name.value, first_field, located_field)
            else:
                located = (address, definition)
                check_equal("type", name, definitions.setdefault(name, located), located)
    if conflicts:
        raise ConflictingArguments(
            f"These names have different definitions: {'; '.join(conflicts)}. Set another namespace= on one catalog, "
            "or print the catalogs into separate files.",
            argument="catalog",
        )
    for name, fields in root_fields.items():
        merged = tuple(field for _, field in fields.values())
        definitions[name] = "", ObjectTypeDefinitionNode(name=NameNode(value=name), fields=merged)
    return build_ast_schema(DocumentNode(definitions=tuple(definitions[name][1] for name in sorted(definitions))))


def _name(definition: DefinitionNode) -> str:
    name_node = getattr(definition, "name", None)
    return name_node.value if name_node is not None else definition.kind

"""Schemas as text, several of them as one, and which of their changes break clients."""

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
"""types to which every schema brings fields of its own"""


@dataclass(frozen=True, slots=True)
class SchemaChanges:
    """What became of a schema since it was printed."""

    breaking: tuple[str, ...]
    """a client that was right before may fail"""
    dangerous: tuple[str, ...]
    """a client that was right before may behave in another way"""
    safe: tuple[str, ...]
    """no client notices that does not ask for it"""
    differs: bool
    """its text is another one, if only by the order of fields"""


def print_sdl(schemas: Mapping[str, strawberry.Schema]) -> str:
    """The text of one schema, or of one that offers what several offer, each by the address of its catalog."""
    texts = {address: print_schema(build_schema(schema.as_str())) for address, schema in schemas.items()}
    (text, *others) = texts.values()
    return f"{text if not others else print_schema(_joined(texts))}\n"


def compare(printed: str, now: str) -> SchemaChanges:
    """What has changed from one printed schema to another; comments and white space do not count."""
    old, new = _read(printed), build_schema(now)
    found = [(change.type, " ".join(change.description.split())) for change in find_schema_changes(old, new)]
    return SchemaChanges(
        breaking=tuple(sorted(told for kind, told in found if isinstance(kind, BreakingChangeType))),
        dangerous=tuple(sorted(told for kind, told in found if isinstance(kind, DangerousChangeType))),
        safe=tuple(
            sorted(told for kind, told in found if not isinstance(kind, BreakingChangeType | DangerousChangeType))
        ),
        differs=print_schema(old) != print_schema(new),
    )


def _read(text: str) -> GraphQLSchema:
    try:
        return build_schema(text)
    except (GraphQLError, TypeError) as problem:
        places = problem.locations if isinstance(problem, GraphQLError) else None
        at = f"line {places[0].line}, column {places[0].column}: " if places else ""
        why = " ".join(str(getattr(problem, "message", problem)).split())
        raise InvalidValue(f"is no GraphQL schema: {at}{why}") from problem


# --- several as one --------------------------------------------------------------------------------------------


def _joined(texts: Mapping[str, str]) -> GraphQLSchema:
    """What the schemas have in common stands there once; a name that means two things is refused."""
    definitions: dict[str, tuple[str, DefinitionNode]] = {}
    roots: dict[str, dict[str, tuple[str, FieldDefinitionNode]]] = {}
    clashes: list[str] = []

    def differ(kind: str, name: str, one: tuple[str, DefinitionNode], other: tuple[str, DefinitionNode]) -> None:
        if print_ast(one[1]) != print_ast(other[1]):
            clashes.append(f"{kind} {name} of {one[0]} and of {other[0]}")

    for address, text in texts.items():
        for definition in parse(text, no_location=True).definitions:
            name = _name(definition)
            if name in _ROOTS and isinstance(definition, ObjectTypeDefinitionNode):
                fields = roots.setdefault(name, {})
                for field in definition.fields or ():
                    here = (address, field)
                    differ("field", field.name.value, fields.setdefault(field.name.value, here), here)
            else:
                whole = (address, definition)
                differ("type", name, definitions.setdefault(name, whole), whole)
    if clashes:
        raise ConflictingArguments(
            f"These names mean two things: {'; '.join(clashes)}. Give a catalog another namespace=, or print the "
            "catalogs into files of their own.",
            argument="catalog",
        )
    for name, fields in roots.items():
        own = tuple(field for _, field in fields.values())
        definitions[name] = "", ObjectTypeDefinitionNode(name=NameNode(value=name), fields=own)
    return build_ast_schema(DocumentNode(definitions=tuple(definitions[name][1] for name in sorted(definitions))))


def _name(definition: DefinitionNode) -> str:
    named = getattr(definition, "name", None)
    return named.value if named is not None else definition.kind

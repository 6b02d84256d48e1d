"""`Node`: what all records have in common is an `id` by which each of them is found again."""

import types
from typing import Any

import strawberry
from graphql import GraphQLAbstractType, GraphQLResolveInfo
from strawberry.types.field import StrawberryField

from graphql_api.model import Entity, EntitySpec
from graphql_api.schema.graphql_names import Names

NODE = "Node"
"""Relay's name, which no namespace stands in front of"""

_PARENT: Any = strawberry.Parent
"""Type checkers take it for a plain alias."""

_ATTRIBUTE = "_record_key"
"""in generated types; no property can be called so"""


def node_interface(names: Names) -> type:
    """The interface, which finds the type of a record by its class."""

    def resolve_type(record: Any, info: GraphQLResolveInfo[Any], node: GraphQLAbstractType) -> str | None:
        called = [names.type(kind.__name__) for kind in type(record).__mro__ if issubclass(kind, Entity)]
        possible = {made.name for made in info.schema.get_possible_types(node)}
        return next((name for name in called if name in possible), None)

    body = {
        _ATTRIBUTE: _id_field(),
        "__annotations__": {_ATTRIBUTE: strawberry.ID},
        "resolve_type": staticmethod(resolve_type),
    }
    made = types.new_class(NODE, (), {}, lambda space: space.update(body))
    return strawberry.interface(made, name=NODE, description="A record of any type.")


def record_type(
    entity: EntitySpec, node: type, name: str, fields: dict[str, Any], description: str | None = None
) -> type:
    """The type of an entity's records: its `id`, and these fields by their Python names."""

    def is_type_of(record: Any, _: GraphQLResolveInfo[Any]) -> bool:
        # What an own field gives need not be an entity.
        return isinstance(record, entity.model) or not isinstance(record, Entity)

    body = {
        **fields,
        _ATTRIBUTE: _id_field(),
        "__annotations__": {_ATTRIBUTE: strawberry.ID, **fields["__annotations__"]},
        "is_type_of": staticmethod(is_type_of),
    }
    made = types.new_class(name, (node,), {}, lambda space: space.update(body))
    return strawberry.type(made, name=name, description=description)


def _id_field() -> StrawberryField:
    """The sealed key of a record."""

    def seal(root: Any, info: strawberry.Info[Any, Any]) -> str:
        return str(info.context.database.seal_key(root))

    seal.__annotations__ = {"root": _PARENT[Any], "info": strawberry.Info, "return": strawberry.ID}
    resolver: Any = seal
    made: StrawberryField = strawberry.field(
        resolver=resolver, name="id", description="Names the record for ever: `node` finds it by this."
    )
    made.python_name = _ATTRIBUTE
    return made

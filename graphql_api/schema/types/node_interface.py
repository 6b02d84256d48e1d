"""The interface `Node`: the global `id` that all records have."""

import types
from typing import Any

import strawberry
from graphql import GraphQLAbstractType, GraphQLResolveInfo
from strawberry.types.field import StrawberryField

from graphql_api.model import Entity, EntitySpec
from graphql_api.schema import descriptions
from graphql_api.schema.graphql_names import GraphQLNames

NODE = "Node"
"""The name that Relay requires, without a namespace."""

_PARENT: Any = strawberry.Parent
"""Type checkers see a plain alias."""

_ID_ATTRIBUTE = "_record_key"
"""Python name of the id field; no property can have it"""


def node_interface(names: GraphQLNames) -> type:
    """Create the interface; it resolves the type of a record by its class."""

    def resolve_type(record: Any, info: GraphQLResolveInfo[Any], node: GraphQLAbstractType) -> str | None:
        candidates = [names.type_name(kind.__name__) for kind in type(record).__mro__ if issubclass(kind, Entity)]
        possible = {kind.name for kind in info.schema.get_possible_types(node)}
        return next((name for name in candidates if name in possible), None)

    body = {
        _ID_ATTRIBUTE: _id_field(),
        "__annotations__": {_ID_ATTRIBUTE: strawberry.ID},
        "resolve_type": staticmethod(resolve_type),
    }
    interface = types.new_class(NODE, (), {}, lambda namespace: namespace.update(body))
    return strawberry.interface(interface, name=NODE, description=descriptions.NODE)


def record_type(
    entity: EntitySpec, node: type, name: str, fields: dict[str, Any], description: str | None = None
) -> type:
    """Create the type of an entity's records: its `id`, and these fields by their Python names."""

    def is_type_of(record: Any, _: GraphQLResolveInfo[Any]) -> bool:
        # A field of the developer may return an object that is not an entity.
        return isinstance(record, entity.model) or not isinstance(record, Entity)

    body = {
        **fields,
        _ID_ATTRIBUTE: _id_field(),
        "__annotations__": {_ID_ATTRIBUTE: strawberry.ID, **fields["__annotations__"]},
        "is_type_of": staticmethod(is_type_of),
    }
    record_class = types.new_class(name, (node,), {}, lambda namespace: namespace.update(body))
    return strawberry.type(record_class, name=name, description=description)


def _id_field() -> StrawberryField:
    """Create the `id` field: the sealed record key."""

    def seal(root: Any, info: strawberry.Info[Any, Any]) -> str:
        return str(info.context.database.seal_key(root))

    seal.__annotations__ = {"root": _PARENT[Any], "info": strawberry.Info, "return": strawberry.ID}
    resolver: Any = seal
    field: StrawberryField = strawberry.field(resolver=resolver, name="id", description=descriptions.GLOBAL_ID)
    field.python_name = _ID_ATTRIBUTE
    return field

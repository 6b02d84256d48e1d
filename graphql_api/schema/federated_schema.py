"""The schema of a subgraph of Apollo Federation: its entities by their keys, and its SDL for the composition."""

from asyncio import gather
from collections.abc import Mapping, Sequence
from functools import cached_property
from inspect import isawaitable, signature
from typing import Any

import graphql
import strawberry
from strawberry.federation.schema import FederationAny
from strawberry.federation.schema import Schema as FederationSchema
from strawberry.types.field import StrawberryField

from graphql_api.errors import InvalidValue, MissingArgument, about, nearest
from graphql_api.model import Entity, EntitySpec, check_key_entity
from graphql_api.schema.executable_schema import ExecutableSchema
from graphql_api.schema.fields.record_resolvers import read_record
from graphql_api.schema.graphql_names import GraphQLNames, property_name
from graphql_api.schema.sdl import print_subgraph
from graphql_api.schema.types.generated_fields import Info, ListLimit, Mark, generated_field, object_type, plain_field

MAX_REPRESENTATIONS = 500
"""Representations of one request: as many as the largest page has records."""
_VERSION: Any = "2.9"
"""of federation; the newest one that open source gateways support"""
_LIMIT = ListLimit(MAX_REPRESENTATIONS, "representations")
_ENTITIES, _ARGUMENT, _TYPENAME, _ID = "_entities", "representations", "__typename", "id"
_SERVICE = object_type(
    "_Service",
    [plain_field("sdl", str, "The schema with the directives of federation.")],
    "The schema of this subgraph.",
)


def service_field() -> StrawberryField:
    """Create the field by which a gateway or a composition reads the schema."""

    async def resolve(_: Any, info: Info, __: Mapping[str, Any]) -> Any:
        return _SERVICE(sdl=info.schema.subgraph_sdl)  # type: ignore[attr-defined]

    return generated_field("_service", _SERVICE, "The schema of this subgraph.", [], resolve)


class FederatedSchema(ExecutableSchema, FederationSchema):
    """A schema whose `_entities` reads generated entities as other fields do: batched, with rules and limits."""

    def __init__(self, *arguments: Any, names: GraphQLNames, entities: Sequence[EntitySpec], **options: Any) -> None:
        self._names = names
        self._entities = {names.type_name(entity.type_name): entity for entity in entities}
        super().__init__(*arguments, **{**options, "federation_version": _VERSION})
        query = self._schema.query_type
        assert query is not None
        field = query.fields[_ENTITIES]
        field.extensions["strawberry-definition"].metadata = {Mark.PER_INPUT: True}
        field.args[_ARGUMENT].extensions["strawberry-definition"].metadata = {ListLimit: _LIMIT}
        union = self._schema.type_map["_Entity"]
        assert isinstance(union, graphql.GraphQLUnionType)
        self._keyed_types = [kind.name for kind in union.types]

    @cached_property
    def subgraph_sdl(self) -> str:
        """The SDL for the composition."""
        return print_subgraph(self)

    @cached_property
    def entities_resolver(self) -> Any:
        """The resolver of `_entities`. Strawberry's own reads no records, and fails for unknown types."""

        async def resolve(info: strawberry.Info, representations: list[FederationAny]) -> Any:
            reads = [self._resolve(info, f"{_ARGUMENT}[{at}]", one) for at, one in enumerate(representations)]
            return await gather(*reads, return_exceptions=True)  # An exception is the error of its own list element.

        return resolve

    async def _resolve(self, info: Any, where: str, representation: Any) -> Any:
        name = representation.get(_TYPENAME) if isinstance(representation, dict) else None
        if not isinstance(name, str):
            raise InvalidValue(f"{where} must be an object with a {_TYPENAME}, which is a text.", argument=_ARGUMENT)
        keys = {key: value for key, value in representation.items() if key != _TYPENAME}
        if name in self._entities:
            return await self._read(info, where, self._entities[name], keys)
        if name in self._keyed_types:
            return await self._resolve_reference(info, where, name, keys)
        problem = f"{where}: {_TYPENAME} is {name[:80]!r}, which is no entity of this subgraph."
        raise InvalidValue(f"{problem}{nearest(name[:80], self._keyed_types)}", argument=_ARGUMENT)

    async def _read(self, info: Info, where: str, entity: EntitySpec, keys: Mapping[str, Any]) -> Entity | None:
        """Read the record with a key: its global id, or all properties of its primary key."""
        database, naming = info.context.database, self._names.naming
        options: dict[str, Any] = {"type_name": self._names.type_name(entity.type_name), "naming": naming}
        why = f"{where} is the key of a {entity.type_name}."
        if isinstance(keys.get(_ID), str):
            argument = f"{where}.{_ID}"
            key = database.open_key(keys[_ID], entity.model, argument=argument)
            check_key_entity(entity, key)
            return await read_record(info, entity, [*key.ids, *key.children], key=key, why=why, **options)
        values = []
        for part in entity.primary_key:
            name = property_name(part.name)
            if keys.get(name) is None:
                needed = " and ".join(property_name(one.name) for one in entity.primary_key)
                raise MissingArgument(
                    f"{where} has no key: {entity.type_name} is identified by {_ID}, or by {needed or _ID}.",
                    argument=_ARGUMENT,
                )
            with about(f"{where}.{name}"):
                values.append(part.column.codec.check(self._coerced(options["type_name"], name, keys[name])))
        return await read_record(info, entity, values, why=why, **options)

    def _coerced(self, type_name: str, name: str, value: Any) -> Any:
        """Convert a value as GraphQL does for an argument of the type of this field."""
        record: Any = self._schema.type_map[type_name]
        kind: Any = graphql.get_named_type(record.fields[name].type)
        try:
            return kind.coerce_input_value(value)
        except (graphql.GraphQLError, ValueError) as problem:
            raise InvalidValue(str(problem) or f"is no {kind.name}.") from problem

    async def _resolve_reference(self, info: Any, where: str, name: str, keys: Mapping[str, Any]) -> Any:
        """Return an entity of the application, by the method `resolve_reference` of its type."""
        definition: Any = self.schema_converter.type_map[name].definition
        resolve = getattr(definition.origin, "resolve_reference", None)
        if resolve is None:
            raise InvalidValue(f"{where}: {name} has no method resolve_reference.", argument=_ARGUMENT)
        parameters = signature(resolve).parameters
        arguments = {**keys, "info": info} if "info" in parameters else keys
        try:
            signature(resolve).bind(**arguments)
        except TypeError as problem:
            raise InvalidValue(f"{where} is no key of a {name}: {problem}.", argument=_ARGUMENT) from problem
        found = resolve(**arguments)
        return await found if isawaitable(found) else found

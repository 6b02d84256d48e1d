"""The GraphQL schema of a catalog, and methods that extend it."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from inspect import getdoc
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar, cast, get_args, overload

import strawberry
from graphql import GraphQLInputObjectType, GraphQLObjectType, specified_directives
from strawberry.directive import StrawberryDirective
from strawberry.exceptions import DuplicatedTypeName, ScalarAlreadyRegisteredError
from strawberry.extensions import FieldExtension, SchemaExtension
from strawberry.schema.config import StrawberryConfig
from strawberry.schema.name_converter import NameConverter
from strawberry.types.field import StrawberryField

from graphql_api.codecs import short_repr
from graphql_api.database import Database
from graphql_api.errors import InvalidCatalog, InvalidValue, Violation, nearest
from graphql_api.model import Catalog, Entity, RulesArgument
from graphql_api.projections import Projection, build_sources
from graphql_api.runtime import collection_paused
from graphql_api.schema.error_formatting import ErrorFormatter
from graphql_api.schema.executable_schema import ExecutableSchema
from graphql_api.schema.federated_schema import FederatedSchema, service_field
from graphql_api.schema.fields.join_fields import JoinFields
from graphql_api.schema.fields.mutation_fields import MUTATION_DESCRIPTION, MutationFields
from graphql_api.schema.fields.record_resolvers import node_fields
from graphql_api.schema.fields.search_fields import SearchFields
from graphql_api.schema.fields.write_field import write_fields
from graphql_api.schema.graphql_names import GENERATED_FIELDS, RESERVED_FIELDS, GraphQLNames
from graphql_api.schema.request_context import Caller, Context, ContextGetter, add_attributes, scoped
from graphql_api.schema.types.connection_types import SHARED_TYPES, ConnectionTypes
from graphql_api.schema.types.generated_fields import (
    COLUMN_RESOLVER,
    DIRECT_RESOLVER,
    direct_column_resolver,
    direct_resolver,
    object_type,
)
from graphql_api.schema.types.graphql_scalars import SCALAR_MAP, SCALARS
from graphql_api.schema.types.mutation_types import SHARED_TYPES as SHARED_MUTATION_TYPES
from graphql_api.schema.types.object_types import RecordTypes, object_description, resolve_attribute, strawberry_fields

T = TypeVar("T")
R = TypeVar("R")
E = TypeVar("E", bound=Entity)
P = ParamSpec("P")

Resolver: TypeAlias = Callable[Concatenate[E, P], R]
"""A function whose first parameter is the record; its other parameters are arguments of the field, or `info`"""

ExtensionArgument = SchemaExtension | Callable[[], SchemaExtension]
"""A class of schema extensions, a function that makes one, or an instance that is copied for each operation"""


class Graph:
    """The GraphQL types and fields of a catalog, which applications can extend before the schema is built.

    Raise `InvalidCatalog` with every name that two elements would share.
    """

    @collection_paused()
    def __init__(
        self,
        catalog: Catalog,
        *,
        projections: Sequence[Projection] = (),
        event_rules: Mapping[str, RulesArgument] = MappingProxyType({}),
        extensions: Sequence[ExtensionArgument] = (),
        types: Sequence[type] = (),
        directives: Sequence[StrawberryDirective[Any]] = (),
        subscription: type | None = None,
        federation: bool = False,
        context_getter: ContextGetter | None = None,
    ) -> None:
        """Build the types and fields of a catalog.

        `projections`: what events write. `event_rules`: who may post the events of a source over HTTP, by source.
        `extensions`, `types`, `directives` and `subscription` are those of `strawberry.Schema`. `context_getter`
        receives the HTTP request and the context, and returns attributes for the context of the request, or of one
        event of a subscription. `federation`: the schema is a subgraph of Apollo Federation.
        """
        self.catalog = catalog
        self._schema_options: dict[str, Any] = {
            "extensions": [_factory(extension) for extension in extensions],
            "types": [*types],
            "directives": _distinct([*directives]),
        }
        self._context_getter = context_getter
        self._federation = federation
        self.sources = build_sources(catalog, projections, event_rules)
        self.names = GraphQLNames(catalog.namespace)
        for name in (*SHARED_TYPES, *SHARED_MUTATION_TYPES, *(definition.name for definition in SCALARS.values())):
            self.names.claim("type", name, f"the {name} of every catalog", None)
        records = RecordTypes(self.names, federation=federation)
        searches = self._searches = SearchFields(self.names, records, catalog.options.pages)
        connections = ConnectionTypes(self.names, records.node, catalog.options.pages)
        self._records: dict[str, type] = {}
        self._connections: dict[str, type] = {}
        self._queries: dict[str, StrawberryField] = {}
        self._mutations: dict[str, StrawberryField] = {}
        self._subscriptions: dict[str, StrawberryField] = {}
        self._subscription_description: str | None = None
        for entity in catalog.entities.values():
            record = self._records[entity.name] = records.entity_type(entity)
            page = self._connections[entity.name] = connections.connection_type(entity, record)
            for field in searches.fields_of_entity(entity, record, page):
                self._queries.setdefault(_name(field), field)
        self._queries |= {_name(field): field for field in node_fields(self.names, records.node)}
        if federation:
            self._queries["_service"] = service_field()
        mutations = MutationFields(self.names, records, catalog.options)
        for entity in catalog.entities.values():
            for field in mutations.fields_of_entity(entity, self._records[entity.name]):
                self._mutations.setdefault(_name(field), field)
        for field in write_fields(self.names, mutations.operations, records.node):
            self._mutations.setdefault(_name(field), field)
        joins = JoinFields(catalog, self.names, searches, self._records, self._connections)
        for entity in catalog.entities.values():
            strawberry_fields(self._records[entity.name]).extend(joins.fields_of_entity(entity))
        self.names.raise_violations()
        if subscription is not None:
            self.subscription(subscription)

    # --- extensions --------------------------------------------------------------------------------------------

    def record_type(self, entity: type[Entity]) -> type:
        """Return the generated type of an entity, for fields that return its records."""
        return self._records[self.catalog.entity(entity).name]

    def page_type(self, entity: type[Entity]) -> type:
        """Return the connection type of an entity; resolvers return `Connection(await database.search(…))`."""
        return self._connections[self.catalog.entity(entity).name]

    def query(self, own: type[T]) -> type[T]:
        """Add the fields of a Strawberry type to `Query`; usable as a decorator."""
        self._add_fields(self._queries, strawberry_fields(own), "the query", RESERVED_FIELDS)
        return own

    def mutation(self, own: type[T]) -> type[T]:
        """Add the fields of a Strawberry type to `Mutation`; usable as a decorator."""
        self._add_fields(self._mutations, strawberry_fields(own), "the mutations")
        return own

    def subscription(self, own: type[T]) -> type[T]:
        """Add the fields of a Strawberry type to `Subscription`; usable as a decorator."""
        self._add_fields(self._subscriptions, strawberry_fields(own), "the subscriptions")
        self._subscription_description = self._subscription_description or object_description(own)
        return own

    @overload
    def extend(self, entity: type[Entity], own: type[T]) -> type[T]: ...

    @overload
    def extend(self, entity: type[E]) -> Callable[[Resolver[E, P, R]], Resolver[E, P, R]]: ...

    def extend(self, entity: type[Entity], own: Any = None) -> Any:
        """Add fields to the type of an entity: those of a Strawberry type, or one field as a decorator.

        Their parent is the record: `@graph.extend(User)`, then `def initials(user: strawberry.Parent[User]) -> str`.
        """
        if own is None:
            return partial(self._add_resolver, entity)
        self._extend(entity, strawberry_fields(own))
        return own

    def _add_resolver(self, entity: type[Entity], resolver: Callable[..., Any]) -> Callable[..., Any]:
        """Add a function as a field of an entity. Its first parameter is the record, its docstring the description."""
        field = strawberry.field(resolver=resolver, description=getdoc(resolver))
        added = strawberry_fields(strawberry.type(type(resolver.__name__, (), {resolver.__name__: field})))
        if not all(_has_parent(field, entity) for field in added):
            problem = f"is added to {entity.__name__}, and has no parameter for the record of this type."
            remedy = f"Annotate its first parameter with strawberry.Parent[{entity.__name__}]."
            raise InvalidCatalog([Violation("Graph", resolver.__name__, problem, remedy)])
        self._extend(entity, added)
        return resolver

    def _extend(self, entity: type[Entity], added: Sequence[StrawberryField]) -> None:
        self._check_not_built()
        fields = strawberry_fields(self.record_type(entity))
        fields_by_name = {_name(field): field for field in fields}
        where = f"the type {self.names.type_name(self.catalog.entity(entity).type_name)}"
        self._add_fields(fields_by_name, added, where, GENERATED_FIELDS)
        fields[:] = fields_by_name.values()

    def hook(self, field: str, *extensions: FieldExtension) -> None:
        """Add Strawberry field extensions to a generated field: `hook("User.phone", …)`, `hook("userById", …)`."""
        self._check_not_built()
        type_name, _, name = field.rpartition(".")
        types = {self.names.type_name(entity.type_name): entity.name for entity in self.catalog.entities.values()}
        if type_name and type_name not in types:
            raise InvalidValue(f"There is no type {type_name!r} to hook.{nearest(type_name, types)}", argument="field")
        fields_by_name = (
            {_name(one): one for one in strawberry_fields(self._records[types[type_name]])}
            if type_name
            else self._queries | self._mutations
        )
        if name not in fields_by_name:
            raise InvalidValue(f"There is no field {field!r} to hook.{nearest(name, fields_by_name)}", argument="field")
        fields_by_name[name].extensions = [*fields_by_name[name].extensions, *extensions]
        self._searches.hooked_fields.add(field)
        if type_name:
            self._searches.hooked_entities.add(types[type_name])

    @property
    def has_subscriptions(self) -> bool:
        """Whether the schema has a subscription root."""
        return bool(self._subscriptions)

    @property
    def mutations(self) -> Sequence[str]:
        """The names of the fields of `Mutation`."""
        return [*self._mutations]

    @property
    def queries(self) -> Sequence[str]:
        """The names of the fields of `Query`."""
        return [*self._queries]

    def _add_fields(
        self,
        fields_by_name: dict[str, StrawberryField],
        added: Sequence[StrawberryField],
        where: str,
        reserved: Collection[str] = (),
    ) -> None:
        self._check_not_built()
        taken = [
            Violation("Graph", name, f"is added to {where}, which {has} a field of this name.", "Rename it.")
            for name in map(_name, added)
            for has in (["has"] if name in fields_by_name else ["will have"] if name in reserved else [])
        ]
        if taken:
            raise InvalidCatalog(taken)
        fields_by_name.update({_name(field): field for field in added})

    def _check_not_built(self) -> None:
        if {"schema", "read_only_schema"} & self.__dict__.keys():
            raise InvalidValue("The schema has already been built: extend the graph before its first use.")

    async def context(self, database: Database, caller: Caller, request: Any = None) -> Context:
        """Return the context of one request for `schema.execute`, and for `get_context` of Strawberry's views."""
        executor = self.schema.executor
        errors = ErrorFormatter(caller.correlation_id, executor.details, executor.suggestions)
        context = Context(scoped(database, caller), caller, errors, request)
        if self._context_getter is not None:
            await add_attributes(context, self._context_getter, executor.limits.deadline - caller.waited_seconds)
        return context

    # --- the schema --------------------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> ExecutableSchema:
        """The schema with all extensions; it is built on first access, and later extensions are rejected."""
        return self._build_schema(self._mutations)

    @cached_property
    def read_only_schema(self) -> ExecutableSchema:
        """The same schema without mutations."""
        return self._build_schema({})

    def _subscription_type(self) -> type | None:
        if not self._subscriptions:
            return None
        return object_type("Subscription", [*self._subscriptions.values()], self._subscription_description)

    def _make_schema(self, *types: type | None, **options: Any) -> ExecutableSchema:
        if not self._federation:
            return ExecutableSchema(*cast(Any, types), **options)
        options["types"] = [*self._records.values(), *options["types"]]
        return FederatedSchema(*types, names=self.names, entities=[*self.catalog.entities.values()], **options)

    def _build_schema(self, mutations: Mapping[str, StrawberryField]) -> ExecutableSchema:
        config = StrawberryConfig(scalar_map=dict(SCALAR_MAP), default_resolver=resolve_attribute)
        try:
            with collection_paused():
                query = object_type("Query", [*self._queries.values()], "All reads: records by id, and searches.")
                mutation = object_type("Mutation", [*mutations.values()], MUTATION_DESCRIPTION) if mutations else None
                subscription = self._subscription_type()
                schema = self._make_schema(query, mutation, subscription, config=config, **self._schema_options)
        except (DuplicatedTypeName, ScalarAlreadyRegisteredError) as problem:
            # Names of generated types are unique, so an added type has the same name.
            text = f"{problem.message.rstrip('.')}."
            raise InvalidCatalog([Violation("Graph", None, text, "Rename the type that was added.")]) from problem
        schema.context_getter = self._context_getter
        for kind in schema._schema.type_map.values():  # noqa: SLF001 - no public access
            if isinstance(kind, GraphQLInputObjectType):  # graphql-core then rejects invalid inputs before execution.
                kind.is_one_of = bool(getattr(kind.extensions.get("strawberry-definition"), "is_one_of", False))
            elif isinstance(kind, GraphQLObjectType):
                for field in kind.fields.values():
                    direct = field.extensions[DIRECT_RESOLVER] = direct_resolver(field, schema)
                    field.resolve = direct or field.resolve
                    field.extensions[COLUMN_RESOLVER] = direct_column_resolver(field, schema)
        return schema


def _name(field: StrawberryField) -> str:
    return field.graphql_name or NameConverter().get_graphql_name(field)


def _has_parent(field: StrawberryField, entity: type[Entity]) -> bool:
    """Return whether the resolver of a field has a parameter for a record of an entity, as far as its types tell."""
    parent = field.base_resolver and field.base_resolver.parent_parameter
    kinds = get_args(parent.annotation) if parent else (object,) if _takes_self(field) else ()
    return bool(kinds) and (not isinstance(kinds[0], type) or issubclass(entity, kinds[0]))


def _takes_self(field: StrawberryField) -> bool:
    """Return whether the resolver of a field receives its parent as `self` or `root`."""
    resolver = field.base_resolver
    return resolver is not None and (resolver.self_parameter or resolver.root_parameter) is not None


def _factory(extension: Any) -> Callable[[], SchemaExtension]:
    """Return what makes an extension for one operation: concurrent operations must not share an instance."""
    if isinstance(extension, SchemaExtension):
        return partial(copy, extension)
    if callable(extension):
        make: Callable[[], SchemaExtension] = extension
        return make
    raise InvalidValue(
        f"extensions has {short_repr(extension)}, and takes classes of Strawberry's SchemaExtension, or functions that "
        "make one.",
        argument="extensions",
    )


def _distinct(directives: Sequence[StrawberryDirective[Any]]) -> Sequence[StrawberryDirective[Any]]:
    """Return the directives. Raise `InvalidCatalog` with each name that two of them have, or that GraphQL has."""
    names = Counter(NameConverter().from_directive(one) for one in directives)
    names.update({one.name: 1 for one in specified_directives if one.name in names})
    taken = [
        Violation("Graph", None, f"Two directives have the name @{name}.", "Rename the directive that was added.")
        for name, count in names.items()
        if count > 1
    ]
    if taken:
        raise InvalidCatalog(taken)
    return directives


def build_schema(catalog: Catalog) -> strawberry.Schema:
    """Build the schema of a catalog without extensions."""
    return Graph(catalog).schema

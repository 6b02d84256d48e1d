"""A catalog's GraphQL schema, and the ways to add to it."""

import gc
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import strawberry
from graphql import GraphQLInputObjectType
from strawberry.exceptions import DuplicatedTypeName, ScalarAlreadyRegisteredError
from strawberry.extensions import FieldExtension
from strawberry.schema.config import StrawberryConfig
from strawberry.schema.name_converter import NameConverter
from strawberry.types.base import get_object_definition
from strawberry.types.field import StrawberryField

from graphql_api.errors import InvalidCatalog, InvalidValue, Violation, nearest
from graphql_api.model import Catalog, Entity
from graphql_api.schema.fields.join_fields import Joins
from graphql_api.schema.fields.mutation_fields import Edits
from graphql_api.schema.fields.mutation_payloads import SHARED_TYPES as WRITTEN_TYPES
from graphql_api.schema.fields.node_fields import node_fields
from graphql_api.schema.fields.search_fields import Searches
from graphql_api.schema.graphql_names import GENERATED_FIELDS, RESERVED_FIELDS, Names, Register
from graphql_api.schema.types.condition_inputs import ConditionTypes
from graphql_api.schema.types.connection_types import SHARED_TYPES, connection_type
from graphql_api.schema.types.graphql_scalars import SCALAR_MAP, SCALARS
from graphql_api.schema.types.object_types import RecordTypes, attribute_of, fields_of, object_type


class Graph:
    """What a catalog becomes in GraphQL: types and fields made from it, and whatever is added to them.

    `InvalidCatalog` lists every name that two things would have.
    """

    def __init__(self, catalog: Catalog) -> None:
        with _nothing_collected():
            self._make(catalog)

    def _make(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.names = Names(catalog.namespace)
        self._register = Register()
        for name in (*SHARED_TYPES, *WRITTEN_TYPES, *(definition.name for definition in SCALARS.values())):
            self._register.type(name, Violation("Catalog", None, "", ""), f"the {name} of every catalog")
        records = RecordTypes(self.names, self._register)
        searches = self._searches = Searches(
            self.names, self._register, records, ConditionTypes(records, self._register)
        )
        self._records: dict[str, type] = {}
        self._connections: dict[str, type] = {}
        self._queries: dict[str, StrawberryField] = {}
        self._mutations: dict[str, StrawberryField] = {}
        for entity in catalog.entities.values():
            record = self._records[entity.name] = records.entity(entity)
            page = self._connections[entity.name] = connection_type(self.names, self._register, entity, record)
            for field in searches.of(entity, record, page):
                self._queries.setdefault(field.graphql_name or field.python_name, field)
        self._queries |= {_name(field): field for field in node_fields(self.names, records.node)}
        edits = Edits(self.names, self._register, records)
        for entity in catalog.entities.values():
            for field in edits.of(entity, self._records[entity.name]):
                self._mutations.setdefault(_name(field), field)
        joins = Joins(catalog, self.names, searches, self._records, self._connections)
        for entity in catalog.entities.values():
            fields_of(self._records[entity.name]).extend(joins.of(entity))
        self._register.check()

    # --- for own fields ----------------------------------------------------------------------------------------

    def record_type(self, entity: type[Entity]) -> type:
        """The generated type of an entity, for own fields that answer with its records."""
        return self._records[self.catalog.entity(entity).name]

    def page_type(self, entity: type[Entity]) -> type:
        """The generated type of an entity's pages; resolvers give `Connection(await database.search(…))` for it."""
        return self._connections[self.catalog.entity(entity).name]

    def query(self, own: type) -> type:
        """Adds the fields of a Strawberry type to the query; a decorator."""
        self._add(self._queries, fields_of(own), "the query", RESERVED_FIELDS)
        return own

    def mutation(self, own: type) -> type:
        """Adds the fields of a Strawberry type to the mutations; a decorator."""
        self._add(self._mutations, fields_of(own), "the mutations")
        return own

    def extend(self, entity: type[Entity], own: type) -> type:
        """Adds the fields of a Strawberry type to the type of an entity; resolvers get the record as their parent."""
        self._before_schema()
        fields = fields_of(self.record_type(entity))
        known = {_name(field): field for field in fields}
        self._add(known, fields_of(own), f"the type {_definition_name(self.record_type(entity))}", GENERATED_FIELDS)
        fields[:] = known.values()
        return own

    def hook(self, field: str, *extensions: FieldExtension) -> None:
        """Puts Strawberry field extensions around a generated field: `hook("User.phone", …)`, `hook("userById", …)`."""
        self._before_schema()
        type_name, _, name = field.rpartition(".")
        types = {_definition_name(made): made for made in self._records.values()}
        if type_name and type_name not in types:
            raise InvalidValue(f"There is no type {type_name!r} to hook.{nearest(type_name, types)}", argument="field")
        known = (
            {_name(one): one for one in fields_of(types[type_name])} if type_name else self._queries | self._mutations
        )
        if name not in known:
            raise InvalidValue(f"There is no field {field!r} to hook.{nearest(name, known)}", argument="field")
        known[name].extensions = [*known[name].extensions, *extensions]
        self._searches.hooked.add(field)
        if type_name:
            self._searches.reads_more |= {entity for entity, made in self._records.items() if made is types[type_name]}

    @property
    def mutations(self) -> Sequence[str]:
        """The fields of the mutations, by name."""
        return [*self._mutations]

    @property
    def queries(self) -> Sequence[str]:
        """The fields of the query, by name."""
        return [*self._queries]

    def _add(
        self,
        known: dict[str, StrawberryField],
        added: Sequence[StrawberryField],
        where: str,
        kept: Collection[str] = (),
    ) -> None:
        self._before_schema()
        taken = [
            Violation("Graph", name, f"is added to {where}, which {has} a field of this name.", "Rename it.")
            for name in map(_name, added)
            for has in (["has"] if name in known else ["will have"] if name in kept else [])
        ]
        if taken:
            raise InvalidCatalog(taken)
        known.update({_name(field): field for field in added})

    def _before_schema(self) -> None:
        if {"schema", "read_only_schema"} & self.__dict__.keys():
            raise InvalidValue("The schema is made already: add to it before it is used.")

    # --- the schema --------------------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> strawberry.Schema:
        """The schema with everything that was added until now."""
        return self._made({**self._mutations})

    @cached_property
    def read_only_schema(self) -> strawberry.Schema:
        """The same without anything that writes."""
        return self._made({})

    def _made(self, mutations: Mapping[str, StrawberryField]) -> strawberry.Schema:
        config = StrawberryConfig(scalar_map=dict(SCALAR_MAP), default_resolver=attribute_of)
        try:
            with _nothing_collected():
                query = object_type("Query", [*self._queries.values()])
                mutation = object_type("Mutation", [*mutations.values()]) if mutations else None
                made = strawberry.Schema(query, mutation, config=config)
        except (DuplicatedTypeName, ScalarAlreadyRegisteredError) as problem:
            raise InvalidCatalog([_two_types(problem.message)]) from problem
        _check_one_of_early(made)
        return made


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Nothing that a schema is made of becomes garbage: to look through it again and again would take a fifth more."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _name(field: StrawberryField) -> str:
    return field.graphql_name or NameConverter().get_graphql_name(field)


def _check_one_of_early(schema: strawberry.Schema) -> None:
    """Lets GraphQL itself know inputs of one key, so that others are refused before anything runs."""
    for made in schema._schema.type_map.values():  # noqa: SLF001 - its only way
        if isinstance(made, GraphQLInputObjectType):
            definition = made.extensions.get("strawberry-definition")
            made.is_one_of = bool(getattr(definition, "is_one_of", False))


def _two_types(told: str) -> Violation:
    """Generated types have names of their own, so one of the two was added; Strawberry says what they are called."""
    return Violation("Graph", None, f"{told.rstrip('.')}.", "Rename the one that was added.")


def _definition_name(made: type) -> str:
    definition: Any = get_object_definition(made, strict=True)
    return str(definition.name)


def build_schema(catalog: Catalog) -> strawberry.Schema:
    """The schema that a catalog has by itself."""
    return Graph(catalog).schema

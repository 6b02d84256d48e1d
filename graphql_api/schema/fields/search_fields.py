"""Generated query fields: one record by id, a search for each index and union, lists in any order."""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any

import strawberry
from strawberry.types.base import has_object_definition
from strawberry.types.field import StrawberryField

from graphql_api.codecs import Boolean, RecordKey, Text
from graphql_api.errors import Violation
from graphql_api.model import (
    Descending,
    EntitySpec,
    IndexSpec,
    PropertySpec,
    SortProperty,
    UnionSpec,
    capitalized,
    desc,
)
from graphql_api.query import PAGING_ARGUMENTS, SearchRequest, parse_primary_key
from graphql_api.schema import descriptions
from graphql_api.schema.fields.record_resolvers import read_page, read_record, shown_for_authorization
from graphql_api.schema.graphql_names import GraphQLNames, NameRegistry, declared_at
from graphql_api.schema.query_cost import SORTABLE
from graphql_api.schema.selection import selected_properties
from graphql_api.schema.types.condition_inputs import ConditionTypes, to_condition
from graphql_api.schema.types.connection_types import Connection, History
from graphql_api.schema.types.filter_inputs import FilterTypes, to_filter
from graphql_api.schema.types.generated_fields import PAGE_ARGUMENTS, Argument, ArgumentValues, Info, root_field
from graphql_api.schema.types.object_types import RecordTypes

ENUM: Any = Enum
ANNOTATED: Any = Annotated
"""Untyped aliases: type checkers cannot evaluate enums that are created from indexes."""


class SearchFields:
    """Factory of the query fields of entities."""

    def __init__(
        self, names: GraphQLNames, registry: NameRegistry, records: RecordTypes, conditions: ConditionTypes
    ) -> None:
        self._names = names
        self._filters = FilterTypes(names, records, conditions, registry)
        self.hooked_entities = set[str]()
        """Entities with hooks on fields of their type, which can read properties that the document does not select."""
        self.hooked_fields = set[str]()
        """Fields with hooks, which can read complete records: `userById`, `User.emails`."""
        self._registry = registry
        self._records = records
        self._conditions = conditions
        self._union_orders: dict[str, Any] = {}
        self._paging = {names.naming.common_argument(name): name for name in PAGING_ARGUMENTS}

    def fields_of_entity(self, entity: EntitySpec, record: type, connection: type) -> Iterator[StrawberryField]:
        """Yield all query fields of an entity."""
        yield self._record_field(entity, record)
        for index in entity.indexes.values():
            if index.physical is not None or entity.ids or entity.sub_ids:
                yield self._index_field(entity, index, connection)
        for union in entity.unions.values():
            yield self._union_field(entity, union, connection)
        for number, group in enumerate(indexes_by_hash(entity)):
            yield self._list_field(entity, group, connection, first=number == 0)

    # --- one record --------------------------------------------------------------------------------------------

    def _record_field(self, entity: EntitySpec, record: type) -> StrawberryField:
        arguments = []
        if entity.ids:
            arguments.append(Argument("id", strawberry.ID, descriptions.raw_id(entity), required=True))
        arguments += [
            Argument(
                self._names.naming.key_argument(part.name),
                self._records.scalar_annotation(entity, part),
                descriptions.property_description(part),
            )
            for part in entity.sub_ids
        ]

        async def resolve(info: Info, values: ArgumentValues) -> Any:
            parts, database = dict(values), info.context.database
            id = database.id_or_key(entity, parts.pop("id", None))
            key = parse_primary_key(entity, id, parts, self._names.naming)
            return await read_record(
                info,
                entity,
                key,
                shown_for_authorization(info, entity),
                keys=database.keys_at(entity, id) if isinstance(id, RecordKey) else None,
                consistent=True,
                batch=False,
                why=f"{name} reads one record by its key.",
                naming=self._names.naming,
            )

        name = self._names.record_field(entity)
        self._registry.claim_field(name, declared_at(entity), f"{entity.type_name} by id")
        sub_ids = [self._names.naming.key_argument(part.name) for part in entity.sub_ids]
        return root_field(name, record | None, descriptions.record_by_id(entity, sub_ids), arguments, resolve)

    # --- an index ----------------------------------------------------------------------------------------------

    def _index_field(self, entity: EntitySpec, index: IndexSpec, connection: type) -> StrawberryField:
        arguments = [*self._required_arguments(entity, index), *self.optional_arguments(entity, index)]
        name = self._names.search_field(entity, index)

        async def resolve(info: Info, values: ArgumentValues) -> Connection:
            return await self.search(info, name, entity, index, values, f"{name} names the index {index.name}.")

        self._registry.claim_field(name, declared_at(entity, index.attribute), f"{entity.type_name}.{index.attribute}")
        return root_field(name, connection | None, descriptions.index_search(entity, index), arguments, resolve)

    def optional_arguments(self, entity: EntitySpec, search: IndexSpec | UnionSpec) -> list[Argument]:
        """Return the optional arguments of a search."""
        if isinstance(search, UnionSpec):
            order = Argument("orderBy", self._union_order_enum(entity, search), descriptions.ORDER_BY_UNION)
            reverse = Argument("reverse", bool, descriptions.REVERSE_UNION)
            conditions = [*self._flat_conditions(entity, search.members[0])]
            return [*conditions, *self._filter_arguments(entity), order, reverse, *PAGE_ARGUMENTS]
        conditions = [*self._flat_conditions(entity, search), *self._property_conditions(entity, search)]
        reverse = Argument("reverse", bool, descriptions.REVERSE)
        return [*conditions, *self._filter_arguments(entity), reverse, *PAGE_ARGUMENTS]

    def _required_arguments(self, entity: EntitySpec, index: IndexSpec) -> Iterator[Argument]:
        if index.physical is None and entity.ids:
            if index.id_prefix:
                yield Argument("id", strawberry.ID, descriptions.raw_id(entity), required=True)
            else:
                yield Argument("id", strawberry.ID, descriptions.raw_id(entity, excludes_conditions=True))
        yield from self._hash_arguments(entity, index.hash)

    def _hash_arguments(self, entity: EntitySpec, hash_properties: Sequence[PropertySpec]) -> Iterator[Argument]:
        for part in hash_properties:
            yield Argument(
                self._names.naming.property_argument(part.name),
                self._records.scalar_annotation(entity, part),
                descriptions.property_description(part),
                required=True,
            )

    def _flat_conditions(self, entity: EntitySpec, index: IndexSpec) -> Iterator[Argument]:
        """Yield conditions on the first sort property, or on all parts of a composite sub id as one text."""
        if not index.sort:
            return
        naming, part = self._names.naming, index.sort[0].property
        composite = index.physical is None and len(index.sort) > 1
        names = " and ".join(
            naming.property_name(sort.property.name) for sort in (index.sort if composite else index.sort[:1])
        )
        scalar: Any = str if composite else self._records.scalar_annotation(entity, part)
        yield Argument("eq", scalar, descriptions.exact_value(names))
        if composite or isinstance(part.column.codec, Text):
            yield Argument("prefix", str, descriptions.text_prefix(names))
        if composite or not isinstance(part.column.codec, Boolean):
            yield Argument("from", scalar, descriptions.lower_bound(names))
            yield Argument("to", scalar, descriptions.upper_bound(names))

    def _property_conditions(self, entity: EntitySpec, index: IndexSpec) -> Iterator[Argument]:
        """Yield one condition argument for each sort property."""
        naming = self._names.naming
        for position, sort in enumerate(index.sort):
            name = naming.property_argument(sort.property.name)
            required = [naming.property_argument(earlier.property.name) for earlier in index.sort[:position]]
            description = descriptions.sort_condition(naming.property_name(sort.property.name), required)
            yield Argument(name, self._conditions.condition_type(entity, sort.property), description)

    def _filter_arguments(self, entity: EntitySpec) -> Iterator[Argument]:
        yield Argument("filter", self._filters.filter_type(entity), descriptions.FILTER_ARGUMENT)
        if entity.current is not None:
            self._registry.claim_type("History", declared_at(entity), "the enum of the argument history")
            yield Argument("history", History, descriptions.HISTORY_ARGUMENT)

    def reads_whole_records(self, entity: EntitySpec, field_name: str) -> bool:
        """Whether hooks of the developer can read any property of the records that a field returns."""
        return entity.name in self.hooked_entities or field_name in self.hooked_fields

    async def search(
        self,
        info: Info,
        field_name: str,
        entity: EntitySpec,
        search: IndexSpec | UnionSpec,
        values: ArgumentValues,
        why: str,
    ) -> Connection:
        """Read the page that a field requests; `field_name`: the name of the field for hooks."""
        remaining = dict(values)
        if "id" in remaining:
            remaining["id"] = info.context.database.id_or_key(entity, remaining["id"])
        order_by = None
        if isinstance(search, UnionSpec) and "orderBy" in remaining:
            order_by = _union_orders(entity)[_enum_value(remaining.pop("orderBy"))]
        filter, history = to_filter(remaining.pop("filter", None)), _enum_value(remaining.pop("history", "ALL"))
        paging = {self._paging[name]: _enum_value(remaining.pop(name)) for name in values if name in self._paging}
        indexes = search.members if isinstance(search, UnionSpec) else (search,)
        reads_all = self.reads_whole_records(entity, field_name) or all(index.projection == "ALL" for index in indexes)
        request = SearchRequest(
            entity.name,
            search.attribute,
            {name: to_condition(value) if has_object_definition(value) else value for name, value in remaining.items()},
            **paging,
            filter=filter,
            history=history,
            order_by=order_by,
            why=why,
            select=None if reads_all else selected_properties(entity, info._raw_info),  # noqa: SLF001 - no public access
            naming=self._names.naming,
        )
        return Connection(await read_page(info, entity, search, request))

    # --- several indexes ---------------------------------------------------------------------------------------

    def _union_field(self, entity: EntitySpec, union: UnionSpec, connection: type) -> StrawberryField:
        arguments = [*self._required_arguments(entity, union.members[0]), *self.optional_arguments(entity, union)]
        name, members = self._names.search_field(entity, union), ", then ".join(index.name for index in union.members)

        async def resolve(info: Info, values: ArgumentValues) -> Connection:
            return await self.search(info, name, entity, union, values, f"{name} searches {members}.")

        self._registry.claim_field(name, declared_at(entity, union.attribute), f"{entity.type_name}.{union.attribute}")
        description = descriptions.union_search(entity, members)
        return root_field(name, connection | None, description, arguments, resolve, [SORTABLE])

    def _union_order_enum(self, entity: EntitySpec, union: UnionSpec) -> Any:
        """Return the enum of orders for the result of a union, created once for all its fields."""
        name = self._names.type_name(f"{entity.type_name}By{capitalized(union.name)}Sort")
        if name not in self._union_orders:
            self._registry.claim_type(
                name, declared_at(entity, union.attribute), f"the orders of {entity.type_name}.{union.attribute}"
            )
            self._union_orders[name] = ANNOTATED[
                ENUM(name, {order: order for order in _union_orders(entity)}),
                strawberry.enum(name=name, description=descriptions.union_order(union)),
            ]
        return self._union_orders[name]

    # --- a list in any order -----------------------------------------------------------------------------------

    def _list_field(
        self, entity: EntitySpec, group: Sequence[IndexSpec], connection: type, *, first: bool
    ) -> StrawberryField:
        hash_properties = group[0].hash
        orders = available_orders(group)
        self._check_orders(entity, group, orders)
        enum_name = self._names.order_enum(entity, hash_properties, first=first)
        self._registry.claim_type(enum_name, declared_at(entity), f"the orders of {entity.type_name}")
        enum_values = {
            name: strawberry.enum_value(name, description=descriptions.index_order(index, reverse=reverse))
            for name, (index, reverse) in orders.items()
        }
        enum_class = ENUM(enum_name, enum_values)
        order: Any = ANNOTATED[
            enum_class,
            strawberry.enum(name=enum_name, description=descriptions.list_order(entity)),
        ]
        default = next(iter(enum_class))
        arguments = [
            *self._hash_arguments(entity, hash_properties),
            *self._filter_arguments(entity),
            Argument("orderBy", order, descriptions.ORDER_BY, default=default),
            *PAGE_ARGUMENTS,
        ]

        async def resolve(info: Info, values: ArgumentValues) -> Connection:
            remaining = dict(values)
            order_name = _enum_value(remaining.pop("orderBy", default))
            index, reverse = orders[order_name]
            why = f"{order_name} is {'the reversed order' if reverse else 'the order'} of the index {index.name}."
            return await self.search(info, name, entity, index, {**remaining, "reverse": reverse}, why)

        name = self._names.list_field(entity, hash_properties, first=first)
        self._registry.claim_field(name, declared_at(entity, group[0].attribute), f"the list of {entity.type_name}")
        description = descriptions.record_list(entity, hash_properties)
        return root_field(name, connection | None, description, arguments, resolve)

    def _check_orders(
        self, entity: EntitySpec, group: Sequence[IndexSpec], orders: Mapping[str, tuple[IndexSpec, bool]]
    ) -> None:
        """Report different orders with the same name; several indexes may support the same order."""
        for index in group:
            for name, index_order in available_orders([index]).items():
                if _sort_order(*orders[name]) != _sort_order(*index_order):
                    problem = f"becomes the order {name!r}, which is taken by {orders[name][0].attribute}."
                    self._registry.violations.append(
                        Violation(entity.type_name, index.attribute, problem, "Rename a property of one of the two.")
                    )
                    break


def indexes_by_hash(entity: EntitySpec) -> list[list[IndexSpec]]:
    """Group indexes by hash properties, in order of declaration; the primary key adds an order without any."""
    groups: dict[tuple[str, ...], list[IndexSpec]] = {}
    for index in entity.indexes.values():
        if index.physical is not None:
            groups.setdefault(tuple(part.name for part in index.hash), []).append(index)
    by_id = entity.indexes["by_id"]
    if not by_id.id_prefix and by_id.sort:
        if () in groups:
            groups[()].append(by_id)
        elif not groups:
            groups[()] = [by_id]
    return [*groups.values()]


def available_orders(group: Sequence[IndexSpec]) -> dict[str, tuple[IndexSpec, bool]]:
    """Return all orders that a group of indexes supports by name, with the index and whether it is reversed."""
    orders: dict[str, tuple[IndexSpec, bool]] = {}
    for index in group:
        for reverse in (False, True):
            name = "_".join(
                f"{part.strip('_').upper()}_{'DESC' if descending else 'ASC'}"
                for part, descending in _sort_order(index, reverse)
            )
            if name:
                orders.setdefault(name, (index, reverse))
    return orders


def _sort_order(index: IndexSpec, reverse: bool) -> tuple[tuple[str, bool], ...]:
    """Return the sort properties of an index, each with whether it is descending."""
    parts = index.sort or tuple(map(SortProperty, index.tie_breaker))
    return tuple((part.property.name, part.descending != reverse) for part in parts)


def _union_orders(entity: EntitySpec) -> dict[str, str | Descending]:
    """Return the orders in which the result of a union can be sorted, by name."""
    return {
        f"{name.strip('_').upper()}_{direction}": desc(name) if direction == "DESC" else name
        for name, part in entity.properties.items()
        if part.codec is not None
        for direction in ("ASC", "DESC")
    }


def _enum_value(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value

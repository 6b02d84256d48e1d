"""Generated query fields: one record by id, a search for each index and union, lists in any order."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import strawberry
from strawberry.types.arguments import StrawberryArgument
from strawberry.types.base import has_object_definition
from strawberry.types.field import StrawberryField

from graphql_api.codecs import RecordKey
from graphql_api.model import (
    Descending,
    EntitySpec,
    IndexSpec,
    PageStyle,
    PropertySpec,
    SortProperty,
    UnionSpec,
    capitalized,
    desc,
)
from graphql_api.query import MAX_SORTED, PAGING_ARGUMENTS, NamingScheme, SearchRequest, parse_primary_key
from graphql_api.schema.fields.record_resolvers import read_page, read_record
from graphql_api.schema.fields.unique_keys import UniqueKey, check_one_key, unique_key_argument
from graphql_api.schema.graphql_names import GraphQLNames
from graphql_api.schema.selection import PAGE, selected_properties
from graphql_api.schema.types.connection_types import Connection
from graphql_api.schema.types.filter_inputs import FilterTypes, to_condition, to_filter
from graphql_api.schema.types.generated_fields import ArgumentValues, Info, Mark, argument, enum_type, generated_field
from graphql_api.schema.types.object_types import RecordTypes, id_format

_HISTORY = enum_type(
    "History",
    {name: name for name in ("ALL", "PAST", "CURRENT")},
    "Which records of a history to return. ALL, the default: all records; PAST: only the entries; CURRENT: only the "
    "latest state of each id.",
)
_ON_SHARD_FAILURE = enum_type(
    "OnShardFailure",
    {name: name for name in ("FAIL", "PARTIAL")},
    "What happens if a shard does not answer. FAIL, the default, returns an error; PARTIAL returns the records of the "
    "other shards, and the missing ones on later pages.",
)
_PAGE_ARGUMENTS: Mapping[PageStyle, Sequence[StrawberryArgument]] = {
    "appsync": (argument("limit", int), argument("nextToken", str)),
    "relay": (argument("first", int), argument("after", str), argument("last", int), argument("before", str)),
}


class SearchFields:
    """Factory of the query fields of entities."""

    def __init__(self, names: GraphQLNames, records: RecordTypes, pages: PageStyle) -> None:
        self._names = names
        self._records = records
        styles = [style for style in _PAGE_ARGUMENTS if pages in (style, "both")]
        paging = [each for style in styles for each in _PAGE_ARGUMENTS[style]]
        self._page_arguments = (*paging, argument("onShardFailure", _ON_SHARD_FAILURE))
        self._filters = FilterTypes(names, records)
        self.hooked_entities = set[str]()
        """Entities with hooks on fields of their type, which can read properties that the document does not select."""
        self.hooked_fields = set[str]()
        """Fields with hooks, which can read complete records: `userById`, `User.emails`."""
        self._union_orders: dict[str, Any] = {}
        self._paging = {names.naming.common_argument(name): name for name in PAGING_ARGUMENTS}

    def fields_of_entity(self, entity: EntitySpec, record: type, connection: type) -> Iterator[StrawberryField]:
        yield self._record_field(entity, record)
        searches: list[IndexSpec | UnionSpec] = [*entity.indexes.values(), *entity.unions.values()]
        for search in searches:
            if isinstance(search, UnionSpec) or search.physical is not None or entity.primary_key:
                yield self._search_field(entity, search, connection)
        for number, group in enumerate(indexes_by_hash(entity)):
            yield self._list_field(entity, group, connection, first=number == 0)

    # --- one record --------------------------------------------------------------------------------------------

    def _record_field(self, entity: EntitySpec, record: type) -> StrawberryField:
        naming = self._names.naming
        name = self._names.claim("field", self._names.record_field(entity), f"{entity.type_name} by id", entity)
        unique_keys = self._unique_keys(entity)
        sub_ids = (
            argument(naming.key_argument(part.name), self._records.scalar_annotation(entity, part))
            for part in entity.sub_ids
        )
        ids = self._id_argument(entity, required=not unique_keys)
        arguments = [*ids, *sub_ids, *(key.argument for key in unique_keys.values())]

        async def resolve(_: Any, info: Info, values: ArgumentValues) -> Any:
            if unique_keys:
                check_one_key(name, values, unique_keys)
            given = next((key for argument, key in unique_keys.items() if argument in values), None)
            if given is not None:
                return await given.read(info, entity, values, naming, f"{name} reads one record by a unique value.")
            parts, database = dict(values), info.context.database
            id = database.id_or_key(entity, parts.pop("id", None))
            key = parse_primary_key(entity, id, parts, naming)
            return await read_record(
                info,
                entity,
                key,
                key=id if isinstance(id, RecordKey) else None,
                consistent=True,
                batch=False,
                why=f"{name} reads one record by its key.",
                naming=naming,
            )

        return generated_field(name, record | None, _describe_record(entity, unique_keys, naming), arguments, resolve)

    def _unique_keys(self, entity: EntitySpec) -> dict[str, UniqueKey]:
        """Return the unique keys of an entity, each of which names one record, by their arguments."""
        keys = [
            unique_key_argument(self._names, self._records, entity, unique)
            for unique in entity.unique
            if entity.ids and not any(part.is_hidden for part in unique.parts)
        ]
        taken = {"id", *(self._names.naming.key_argument(part.name) for part in entity.sub_ids)}
        for key in keys:
            if key.name in taken:
                problem = f"becomes the argument {key.name!r} of {self._names.record_field(entity)}, which is taken."
                self._names.report(entity, key.unique.attribute, problem)
            taken.add(key.name)
        return {key.name: key for key in keys}

    # --- one index, or several ---------------------------------------------------------------------------------

    def _search_field(self, entity: EntitySpec, search: IndexSpec | UnionSpec, connection: type) -> StrawberryField:
        name = self._names.search_field(entity, search)
        if isinstance(search, UnionSpec):
            members = ", then ".join(index.name for index in search.members)
            why, marks = f"{name} searches {members}.", [Mark.SORTABLE]
            index = search.members[0]
            found = f" from the indexes {members}. Each index in its own order, without duplicates"
        else:
            kind = "index" if search.lookup is None else "lookup"
            why, marks = f"{name} names the {kind} {search.name}.", []
            index = search
            order = ", ".join(
                f"{part.property.stored}{' descending' if part.descending else ''}" for part in index.sort
            )
            found = f"{_with_key(index.required)}, ordered by {order or 'id'}"

        async def resolve(_: Any, info: Info, values: ArgumentValues) -> Connection:
            return await self.search(info, name, entity, search, values, why)

        self._names.claim("field", name, f"{entity.type_name}.{search.attribute}", entity, search.attribute)
        ids = self._id_argument(entity, required=bool(index.id_prefix)) if index.is_primary else ()
        hashes, optional = self._hash_arguments(entity, index.hash), self.optional_arguments(entity, search)
        arguments = [*ids, *hashes, *optional]
        return generated_field(
            name, connection | None, f"{entity.type_name} records{found}.", arguments, resolve, marks
        )

    def optional_arguments(self, entity: EntitySpec, search: IndexSpec | UnionSpec) -> list[StrawberryArgument]:
        filters = self._filter_arguments(entity)
        if isinstance(search, UnionSpec):
            order = argument("orderBy", self._union_order_enum(entity, search))
            conditions = [*self._flat_conditions(entity, search.members[0]), *filters, order]
        else:
            conditions = [*self._flat_conditions(entity, search), *self._property_conditions(entity, search), *filters]
        return [*conditions, argument("reverse", bool), *self._page_arguments]

    def _id_argument(self, entity: EntitySpec, *, required: bool = True) -> Iterator[StrawberryArgument]:
        if entity.ids:
            yield argument("id", strawberry.ID, required=required)

    def _hash_arguments(
        self, entity: EntitySpec, hash_properties: Sequence[PropertySpec]
    ) -> Iterator[StrawberryArgument]:
        """Yield two arguments for each hash property, of which exactly one is provided: a value, or several values."""
        naming = self._names.naming
        for part in hash_properties:
            scalar: Any = self._records.scalar_annotation(entity, part)
            yield argument(naming.property_argument(part.name), scalar)
            yield argument(naming.list_argument(entity, part.name), list[scalar])

    def _flat_conditions(self, entity: EntitySpec, index: IndexSpec) -> Iterator[StrawberryArgument]:
        """Yield conditions on the first sort property, or on all parts of a composite sub id as one text."""
        if not index.sort:
            return
        part = index.sort[0].property
        composite = index.is_primary and len(index.sort) > 1
        scalar: Any = str if composite else self._records.scalar_annotation(entity, part)
        yield argument("eq", scalar)
        if composite or part.column.codec.kind == "text":
            yield argument("prefix", str)
        if composite or part.column.codec.is_ordered:
            yield argument("from", scalar)
            yield argument("to", scalar)

    def _property_conditions(self, entity: EntitySpec, index: IndexSpec) -> Iterator[StrawberryArgument]:
        """Yield one condition argument for each sort property; it requires exact values of those before it."""
        for part in index.sort:
            if not part.property.is_hidden:
                name = self._names.naming.property_argument(part.property.name)
                yield argument(name, self._filters.condition_type(entity, part.property))

    def _filter_arguments(self, entity: EntitySpec) -> Iterator[StrawberryArgument]:
        yield argument("filter", self._filters.filter_type(entity))
        if entity.current is not None:
            self._names.claim("type", "History", "the enum of the argument history", entity)
            yield argument("history", _HISTORY)

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
        return Connection(
            await read_page(info, entity, search, self.request_of(info, field_name, entity, search, values, why))
        )

    def request_of(
        self,
        info: Info,
        field_name: str,
        entity: EntitySpec,
        search: IndexSpec | UnionSpec,
        values: ArgumentValues,
        why: str,
    ) -> SearchRequest:
        """Return the request of a field for its arguments."""
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
        return SearchRequest(
            entity.name,
            search.attribute,
            {name: to_condition(value) if has_object_definition(value) else value for name, value in remaining.items()},
            **paging,
            filter=filter,
            history=history,
            order_by=order_by,
            why=why,
            select=None if reads_all else selected_properties(entity, info, PAGE),
            naming=self._names.naming,
        )

    def _union_order_enum(self, entity: EntitySpec, union: UnionSpec) -> Any:
        """Return the enum of orders for the result of a union, created once for all its fields."""
        name = self._names.type_name(f"{entity.type_name}By{capitalized(union.name)}Sort")
        if name not in self._union_orders:
            owner = f"the orders of {entity.type_name}.{union.attribute}"
            self._names.claim("type", name, owner, entity, union.attribute)
            orders = {order: order for order in _union_orders(entity)}
            description = (
                f"Orders that sort the whole result of {union.name}, up to {MAX_SORTED:,} records, into one page. They "
                "exclude `reverse` and paging."
            )
            self._union_orders[name] = enum_type(name, orders, description)
        return self._union_orders[name]

    # --- a list in any order -----------------------------------------------------------------------------------

    def _list_field(
        self, entity: EntitySpec, group: Sequence[IndexSpec], connection: type, *, first: bool
    ) -> StrawberryField:
        hash_properties = group[0].hash
        orders = available_orders(group)
        self._check_orders(entity, group, orders)
        enum_name = self._names.order_enum(entity, hash_properties, first=first)
        self._names.claim("type", enum_name, f"the orders of {entity.type_name}", entity)
        name = self._names.list_field(entity, hash_properties, first=first)
        text = f"Orders of `{name}`.{_describe_sparse_orders(orders)}"
        order = enum_type(enum_name, {name: name for name in orders}, text)
        default = next(iter(order))
        arguments = [
            *self._hash_arguments(entity, hash_properties),
            *self._filter_arguments(entity),
            argument("orderBy", order, default=default),
            *self._page_arguments,
        ]

        async def resolve(_: Any, info: Info, values: ArgumentValues) -> Connection:
            remaining = dict(values)
            order_name = _enum_value(remaining.pop("orderBy", default))
            index, reverse = orders[order_name]
            why = f"{order_name} is {'the reversed order' if reverse else 'the order'} of the index {index.name}."
            return await self.search(info, name, entity, index, {**remaining, "reverse": reverse}, why)

        self._names.claim("field", name, f"the list of {entity.type_name}", entity, group[0].attribute)
        description = f"{entity.type_name} records{_with_key(hash_properties)}, in any order that an index supports."
        return generated_field(name, connection | None, description, arguments, resolve)

    def _check_orders(
        self, entity: EntitySpec, group: Sequence[IndexSpec], orders: Mapping[str, tuple[IndexSpec, bool]]
    ) -> None:
        """Report different orders with the same name; several indexes may support the same order."""
        for index in group:
            for name, index_order in available_orders([index]).items():
                if _sort_order(*orders[name]) != _sort_order(*index_order):
                    problem = f"becomes the order {name!r}, which is taken by {orders[name][0].attribute}."
                    self._names.report(entity, index.attribute, problem, "Rename a property of one of the two.")
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


def _describe_record(entity: EntitySpec, unique_keys: Collection[str], naming: NamingScheme) -> str:
    """Return the description of the field that reads one record."""
    kind, sub_ids = entity.type_name, " and ".join(naming.key_argument(part.name) for part in entity.sub_ids)
    which = f"entry with this {sub_ids}" if sub_ids else f"with this {' or '.join(['id', *unique_keys])}"
    description = f"The {kind} {which}" if sub_ids or entity.ids else f"The only {kind}"
    description += ", or null if it does not exist."
    if sub_ids:
        description += f" Without {sub_ids}, the {'current' if entity.current is not None else 'last'} entry."
    if sub_ids and unique_keys:
        description += f" With {' or '.join(unique_keys)}, the entry that has this value."
    if len(entity.ids) > 1:
        description += f" `id` is {id_format(entity)}."
    return description


def available_orders(group: Sequence[IndexSpec]) -> dict[str, tuple[IndexSpec, bool]]:
    """Return all orders that a group of indexes supports by name, with the index and whether it is reversed."""
    orders: dict[str, tuple[IndexSpec, bool]] = {}
    for index in group:
        for reverse in (False, True):
            parts = [(part.name.strip("_").upper(), descending) for part, descending in _sort_order(index, reverse)]
            named = parts if index.order is None else [(index.order, reverse)]
            name = "_".join(f"{part}_{'DESC' if descending else 'ASC'}" for part, descending in named)
            if name:
                orders.setdefault(name, (index, reverse))
    return orders


def _with_key(parts: Sequence[PropertySpec]) -> str:
    return f" with this {' and '.join(part.stored for part in parts)}" if parts else ""


def _describe_sparse_orders(orders: Mapping[str, tuple[IndexSpec, bool]]) -> str:
    """Name the orders that exclude records, because their first property may be null."""
    excluding: dict[str, list[str]] = {}
    for name, (index, _) in orders.items():
        if index.sort and index.sort[0].property.nullable:
            excluding.setdefault(index.sort[0].property.stored, []).append(name)
    return "".join(f" {' and '.join(names)} exclude records without {part}." for part, names in excluding.items())


def _sort_order(index: IndexSpec, reverse: bool) -> list[tuple[PropertySpec, bool]]:
    """Return the sort properties of an index, each with whether it is descending."""
    parts = index.sort or tuple(map(SortProperty, index.tie_breaker))
    return [(part.property, part.descending != reverse) for part in parts]


def _union_orders(entity: EntitySpec) -> dict[str, str | Descending]:
    """Return the orders in which the result of a union can be sorted, by name."""
    return {
        f"{name.strip('_').upper()}_{direction}": desc(name) if direction == "DESC" else name
        for name, part in entity.shown_properties.items()
        if part.codec is not None
        for direction in ("ASC", "DESC")
    }


def _enum_value(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value

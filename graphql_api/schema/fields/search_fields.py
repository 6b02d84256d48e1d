"""The fields of the query that a catalog gives: one record by id, a search for each index, a list in any order."""

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
from graphql_api.query import MAX_SORTED, PAGING, SearchRequest, primary_values
from graphql_api.schema.fields.record_resolvers import read_page, read_record, shown_by
from graphql_api.schema.graphql_names import Names, Register, at
from graphql_api.schema.query_cost import SORTED
from graphql_api.schema.selection import selected_properties
from graphql_api.schema.types.condition_inputs import ConditionTypes, condition_of
from graphql_api.schema.types.connection_types import Connection, History
from graphql_api.schema.types.field_arguments import PAGE_ARGUMENTS, Argument, Given, Info, resolved_field
from graphql_api.schema.types.filter_inputs import FilterTypes, filter_of
from graphql_api.schema.types.object_types import RecordTypes

ENUM: Any = Enum
ANNOTATED: Any = Annotated
"""Type checkers read an enum where it is made; these are made of indexes."""


class Searches:
    """Makes the fields of one entity after the other."""

    def __init__(self, names: Names, register: Register, records: RecordTypes, conditions: ConditionTypes) -> None:
        self._names = names
        self._filters = FilterTypes(names, records, conditions, register)
        self.reads_more = set[str]()
        """entities whose fields may read properties that nobody selected, since the developer's own code is there"""
        self.hooked = set[str]()
        """fields whose answers the developer's own code sees whole: `userById`, `User.emails`"""
        self._register = register
        self._records = records
        self._conditions = conditions
        self._union_orders: dict[str, Any] = {}
        self._paging = {names.dialect.word(name): name for name in PAGING}

    def of(self, entity: EntitySpec, record: type, connection: type) -> Iterator[StrawberryField]:
        """All fields of an entity."""
        yield self._one(entity, record)
        for index in entity.indexes.values():
            if index.physical is not None or entity.ids or entity.sub_ids:
                yield self._index(entity, index, connection)
        for union in entity.unions.values():
            yield self._union(entity, union, connection)
        for number, group in enumerate(groups_of(entity)):
            yield self._list(entity, group, connection, first=number == 0)

    # --- one record --------------------------------------------------------------------------------------------

    def _one(self, entity: EntitySpec, record: type) -> StrawberryField:
        arguments = []
        if entity.ids:
            arguments.append(Argument("id", strawberry.ID, _id_words(entity), required=True))
        arguments += [
            Argument(self._names.dialect.key_part(part.name), self._records.scalar(entity, part), _of(part))
            for part in entity.sub_ids
        ]

        async def resolve(info: Info, given: Given) -> Any:
            parts, database = dict(given), info.context.database
            id = database.id_or_key(entity, parts.pop("id", None))
            values = primary_values(entity, id, parts, self._names.dialect)
            return await read_record(
                info,
                entity,
                values,
                shown_by(info, entity),
                keys=database.keys_at(entity, id) if isinstance(id, RecordKey) else None,
                consistent=True,
                together=False,
                why=f"{name} reads one record by its key.",
                dialect=self._names.dialect,
            )

        name = self._names.record(entity)
        self._register.field(name, at(entity), f"{entity.type_name} by id")
        words = f"The {entity.type_name} with this id, or null."
        if entity.sub_ids:
            subs = " and ".join(self._names.dialect.key_part(part.name) for part in entity.sub_ids)
            present = "current" if entity.current is not None else "last"
            words = f"The entry of {entity.type_name} with this {subs}; without it the {present} one. "
            words += "Null if there is none."
        elif not entity.ids:
            words = f"The one {entity.type_name}, or null."
        return resolved_field(name, record | None, words, arguments, resolve)

    # --- an index ----------------------------------------------------------------------------------------------

    def _index(self, entity: EntitySpec, index: IndexSpec, connection: type) -> StrawberryField:
        arguments = [*self._needed(entity, index), *self.arguments(entity, index)]
        name = self._names.search(entity, index)

        async def resolve(info: Info, given: Given) -> Connection:
            return await self.search(info, name, entity, index, given, f"{name} names the index {index.name}.")

        self._register.field(name, at(entity, index.attribute), f"{entity.type_name}.{index.attribute}")
        return resolved_field(name, connection | None, _index_words(entity, index), arguments, resolve)

    def arguments(self, entity: EntitySpec, search: IndexSpec | UnionSpec) -> list[Argument]:
        """All that a search takes besides what it cannot do without."""
        if isinstance(search, UnionSpec):
            order = Argument(
                "orderBy",
                self._union_order(entity, search),
                f"Sorts the whole answer, up to {MAX_SORTED:,} records, and gives it as one page. Not with arguments "
                "of pages.",
            )
            first, reverse = search.members[0], Argument("reverse", bool, "Each index the other way round.")
            return [*self._flat(entity, first), *self._filters_of(entity), order, reverse, *PAGE_ARGUMENTS]
        arguments = [*self._flat(entity, search), *self._own(entity, search), *self._filters_of(entity)]
        return [*arguments, Argument("reverse", bool, "The other way round."), *PAGE_ARGUMENTS]

    def _needed(self, entity: EntitySpec, index: IndexSpec) -> Iterator[Argument]:
        if index.physical is None and entity.ids:
            if index.lead:
                yield Argument("id", strawberry.ID, _id_words(entity), required=True)
            else:
                yield Argument("id", strawberry.ID, f"{_id_words(entity)} Not together with other conditions.")
        for part in index.hash:
            yield Argument(
                self._names.dialect.argument(part.name), self._records.scalar(entity, part), _of(part), required=True
            )

    def _flat(self, entity: EntitySpec, index: IndexSpec) -> Iterator[Argument]:
        """Conditions on the first sort property; on a composite key they are about its outside text."""
        if not index.sort:
            return
        part = index.sort[0].property
        composite = index.physical is None and len(index.sort) > 1
        called = " and ".join(
            self._names.dialect.property(one.property.name) for one in index.sort[: 99 if composite else 1]
        )
        scalar: Any = str if composite else self._records.scalar(entity, part)
        yield Argument("eq", scalar, f"Exactly this {called}.")
        if composite or isinstance(part.column.codec, Text):
            yield Argument("prefix", str, f"What begins so: {called}.")
        if composite or not isinstance(part.column.codec, Boolean):
            yield Argument("from", scalar, f"This {called} and all behind it.")
            yield Argument("to", scalar, f"This {called} and all before it.")

    def _own(self, entity: EntitySpec, index: IndexSpec) -> Iterator[Argument]:
        for at_place, sort in enumerate(index.sort):
            name = self._names.dialect.argument(sort.property.name)
            behind = [self._names.dialect.argument(one.property.name) for one in index.sort[:at_place]]
            words = f"A condition on {self._names.dialect.property(sort.property.name)}"
            words += f", behind exact ones on {' and '.join(behind)}." if behind else "."
            yield Argument(name, self._conditions.of(entity, sort.property), words)

    def _filters_of(self, entity: EntitySpec) -> Iterator[Argument]:
        yield Argument("filter", self._filters.of(entity), "What else must hold of the records.")
        if entity.current is not None:
            self._register.type("History", at(entity), "the parts of histories")
            yield Argument("history", History, "Which records of histories are wanted; ALL if nothing is said.")

    def is_seen_whole(self, entity: EntitySpec, called: str) -> bool:
        """Whether code of the developer's may read whatever there is of the records that a field gives."""
        return entity.name in self.reads_more or called in self.hooked

    async def search(
        self, info: Info, called: str, entity: EntitySpec, search: IndexSpec | UnionSpec, given: Given, why: str
    ) -> Connection:
        """The page that a field asks for; `called` is how hooks name the field."""
        left = dict(given)
        if "id" in left:
            left["id"] = info.context.database.id_or_key(entity, left["id"])
        order_by = None
        if isinstance(search, UnionSpec) and "orderBy" in left:
            order_by = _sorts(entity)[_plain(left.pop("orderBy"))]
        filter, history = filter_of(left.pop("filter", None)), _plain(left.pop("history", "ALL"))
        paging = {self._paging[name]: _plain(left.pop(name)) for name in given if name in self._paging}
        indexes = search.members if isinstance(search, UnionSpec) else (search,)
        needs_all = self.is_seen_whole(entity, called) or all(index.projection == "ALL" for index in indexes)
        request = SearchRequest(
            entity.name,
            search.attribute,
            {name: condition_of(value) if has_object_definition(value) else value for name, value in left.items()},
            **paging,
            filter=filter,
            history=history,
            order_by=order_by,
            why=why,
            select=None if needs_all else selected_properties(entity, info._raw_info),  # noqa: SLF001 - its only way
            dialect=self._names.dialect,
        )
        return Connection(await read_page(info, entity, search, request))

    # --- several indexes ---------------------------------------------------------------------------------------

    def _union(self, entity: EntitySpec, union: UnionSpec, connection: type) -> StrawberryField:
        arguments = [*self._needed(entity, union.members[0]), *self.arguments(entity, union)]
        name, members = self._names.search(entity, union), ", then ".join(index.name for index in union.members)

        async def resolve(info: Info, given: Given) -> Connection:
            return await self.search(info, name, entity, union, given, f"{name} searches {members}.")

        self._register.field(name, at(entity, union.attribute), f"{entity.type_name}.{union.attribute}")
        words = f"{entity.type_name} found by {members}: index by index, each in its own order, none of them twice."
        return resolved_field(name, connection | None, words, arguments, resolve, [SORTED])

    def _union_order(self, entity: EntitySpec, union: UnionSpec) -> Any:
        """The enum of what sorts the answer of a union; made once, for however many fields."""
        name = self._names.type(f"{entity.type_name}By{capitalized(union.name)}Sort")
        if name not in self._union_orders:
            self._register.type(
                name, at(entity, union.attribute), f"the orders of {entity.type_name}.{union.attribute}"
            )
            self._union_orders[name] = ANNOTATED[
                ENUM(name, {order: order for order in _sorts(entity)}),
                strawberry.enum(name=name, description=f"What sorts all that {union.name} finds."),
            ]
        return self._union_orders[name]

    # --- a list in any order -----------------------------------------------------------------------------------

    def _list(
        self, entity: EntitySpec, group: Sequence[IndexSpec], connection: type, *, first: bool
    ) -> StrawberryField:
        hash_properties = group[0].hash
        orders = orders_of(group)
        self._check_orders(entity, group, orders)
        enum_name = self._names.order(entity, hash_properties, first=first)
        self._register.type(enum_name, at(entity), f"the orders of {entity.type_name}")
        values = {name: strawberry.enum_value(name, description=_order_words(*orders[name])) for name in orders}
        enum_class = ENUM(enum_name, values)
        order: Any = ANNOTATED[
            enum_class,
            strawberry.enum(name=enum_name, description=f"The orders in which indexes hold {entity.type_name}."),
        ]
        default = next(iter(enum_class))
        arguments = [
            Argument(
                self._names.dialect.argument(part.name), self._records.scalar(entity, part), _of(part), required=True
            )
            for part in hash_properties
        ]
        arguments += self._filters_of(entity)
        arguments += [Argument("orderBy", order, "The order; the first of them if nothing is said.", default=default)]
        arguments += PAGE_ARGUMENTS

        async def resolve(info: Info, given: Given) -> Connection:
            left = dict(given)
            order_name = _plain(left.pop("orderBy", default))
            index, reverse = orders[order_name]
            why = f"{order_name} is {'the reversed order' if reverse else 'the order'} of the index {index.name}."
            return await self.search(info, name, entity, index, {**left, "reverse": reverse}, why)

        name = self._names.listed(entity, hash_properties, first=first)
        self._register.field(name, at(entity, group[0].attribute), f"the list of {entity.type_name}")
        of = f" of one {' and '.join(part.stored for part in hash_properties)}" if hash_properties else ""
        return resolved_field(
            name,
            connection | None,
            f"Every {entity.type_name}{of}, in any order that an index has.",
            arguments,
            resolve,
        )

    def _check_orders(
        self, entity: EntitySpec, group: Sequence[IndexSpec], orders: Mapping[str, tuple[IndexSpec, bool]]
    ) -> None:
        """Two indexes may serve the same order; two orders may not have the same name."""
        for index in group:
            for name, own in orders_of([index]).items():
                if _order(*orders[name]) != _order(*own):
                    problem = f"becomes the order {name!r}, which is taken by {orders[name][0].attribute}."
                    self._register.violations.append(
                        Violation(entity.type_name, index.attribute, problem, "Rename a property of one of the two.")
                    )
                    break


def groups_of(entity: EntitySpec) -> list[list[IndexSpec]]:
    """Indexes with the same hash properties, in the order of their declaration; ids are one more unhashed order."""
    groups: dict[tuple[str, ...], list[IndexSpec]] = {}
    for index in entity.indexes.values():
        if index.physical is not None:
            groups.setdefault(tuple(part.name for part in index.hash), []).append(index)
    by_id = entity.indexes["by_id"]
    if not by_id.lead and by_id.sort:
        if () in groups:
            groups[()].append(by_id)
        elif not groups:
            groups[()] = [by_id]
    return [*groups.values()]


def orders_of(group: Sequence[IndexSpec]) -> dict[str, tuple[IndexSpec, bool]]:
    """Every order that an index of the group can serve, by name: which index, and whether reversed."""
    orders: dict[str, tuple[IndexSpec, bool]] = {}
    for index in group:
        for reverse in (False, True):
            name = "_".join(
                f"{part.strip('_').upper()}_{'DESC' if descending else 'ASC'}"
                for part, descending in _order(index, reverse)
            )
            if name:
                orders.setdefault(name, (index, reverse))
    return orders


def _order(index: IndexSpec, reverse: bool) -> tuple[tuple[str, bool], ...]:
    """The properties that an index is ordered by, each with its direction."""
    parts = index.sort or tuple(map(SortProperty, index.tail))
    return tuple((part.property.name, part.descending != reverse) for part in parts)


def _sorts(entity: EntitySpec) -> dict[str, str | Descending]:
    """What can sort the answer of a union, by the names of the orders."""
    return {
        f"{name.strip('_').upper()}_{way}": desc(name) if way == "DESC" else name
        for name, part in entity.properties.items()
        if part.codec is not None
        for way in ("ASC", "DESC")
    }


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


# --- descriptions ----------------------------------------------------------------------------------------------


def _of(part: PropertySpec) -> str:
    return part.description or f"The {part.stored}."


def _id_words(entity: EntitySpec) -> str:
    names = [part.stored for part in entity.ids]
    if len(names) == 1:
        return f"The {names[0]}."
    return f"The {' and '.join(names)} with {entity.separator!r} between, as in {entity.separator.join(names)!r}."


def _index_words(entity: EntitySpec, index: IndexSpec) -> str:
    order = ", ".join(f"{part.property.stored}{' backwards' if part.descending else ''}" for part in index.sort)
    of = " and ".join(part.stored for part in (*index.hash, *index.lead))
    return f"{entity.type_name}{f' of one {of}' if of else ''}, ordered by {order or 'id'}."


def _order_words(index: IndexSpec, reverse: bool) -> str:
    parts = index.sort or tuple(map(SortProperty, index.tail))
    order = ", ".join(
        f"{part.property.stored} {'descending' if part.descending != reverse else 'ascending'}" for part in parts
    )
    sparse = index.sort[0].property if index.sort and index.sort[0].property.nullable else None
    return f"By {order}.{f' Leaves out records without {sparse.stored}.' if sparse else ''}"

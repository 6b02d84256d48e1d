"""Fields for joined records: one record, several by their ids, or pages of a search."""

from asyncio import gather
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from strawberry.types.arguments import StrawberryArgument
from strawberry.types.field import StrawberryField

from graphql_api.codecs import Eq
from graphql_api.database import first_of
from graphql_api.errors import KeyTooLong, ShardQLError
from graphql_api.model import (
    Catalog,
    Entity,
    EntitySpec,
    IndexSpec,
    JoinSpec,
    UnionSpec,
    camel_case,
    depends_on_record,
    value_of,
)
from graphql_api.query import SearchBatch, SearchRequest, search_value, search_values
from graphql_api.query.execution import Page, StoredResults
from graphql_api.schema.fields.record_resolvers import check_join_allowed, read_page, read_pages, read_record
from graphql_api.schema.fields.search_fields import SearchFields
from graphql_api.schema.graphql_names import GraphQLNames
from graphql_api.schema.selection import RECORD, selected_properties
from graphql_api.schema.types.connection_types import Connection, EmptyPage
from graphql_api.schema.types.generated_fields import ArgumentValues, Info, Mark, Parents, generated_field
from graphql_api.schema.types.graphql_scalars import make_nullable
from graphql_api.schema.types.object_types import in_fixed_order, resolve_attribute


@dataclass(frozen=True, slots=True)
class JoinFields:
    """Factory of the join fields of entities; requires the types of all entities."""

    catalog: Catalog
    names: GraphQLNames
    searches: SearchFields
    records: Mapping[str, type]
    connections: Mapping[str, type]

    def fields_of_entity(self, entity: EntitySpec) -> Iterator[StrawberryField]:
        for join in entity.joins.values():
            # The name of the field for hooks and explain output: `User.emails`.
            name = f"{self.names.type_name(entity.type_name)}.{camel_case(join.name)}"
            target = self.catalog.entities[join.target]
            if join.kind == "page":
                yield self._page_field(entity, join, target, name)
            elif join.kind == "many":
                yield self._list_field(entity, join, target, name)
            else:
                yield self._record_field(entity, join, target, name)

    # --- by key ------------------------------------------------------------------------------------------------

    def _list_field(self, entity: EntitySpec, join: JoinSpec, target: EntitySpec, name: str) -> StrawberryField:
        (part,) = join.by

        async def resolve(root: Any, info: Info, _: ArgumentValues) -> Sequence[Entity | BaseException | None]:
            await check_join_allowed(info, entity, join, root)
            ids = resolve_attribute(root, part.name) or ()
            info.context.dataloaders.check_listed_ids(len(ids))
            distinct_ids = [id for id in dict.fromkeys(ids) if _is_present(id)]
            # An error belongs to each list element of its record; a cancellation ends the whole field.
            reads = (self._read_target(info, target, [id], name) for id in distinct_ids)
            results = await gather(*reads, return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException) and not isinstance(result, Exception):
                    raise result
            by_id = dict(zip(distinct_ids, results, strict=True))
            return [by_id.get(id) for id in ids]

        async def resolve_column(parents: Parents, info: Info, _: ArgumentValues) -> Sequence[Any]:
            lists = [_listed_ids(info, in_fixed_order(ids) or ()) for ids in parents.values(part.name)]
            listed = chain.from_iterable(ids for ids in lists if not isinstance(ids, ShardQLError))
            distinct_ids = [id for id in dict.fromkeys(listed) if _is_present(id)]
            found = await self._read_targets(info, target, [[id] for id in distinct_ids], name)
            by_id = dict(zip(distinct_ids, found, strict=True))
            return [ids if isinstance(ids, ShardQLError) else [by_id.get(id) for id in ids] for ids in lists]

        result_type: Any = list[make_nullable(self.records[target.name])]  # type: ignore[misc]
        if depends_on_record(part.allow):
            result_type = make_nullable(result_type)
        description = join.description or (
            f"The {target.type_name} records referenced by {_key(join)}, in this order. "
            "Null for each that does not exist."
        )
        return generated_field(
            camel_case(join.name),
            result_type,
            description,
            [],
            resolve,
            has_parent=True,
            resolve_column=None if _has_rules(join) else resolve_column,
        )

    async def _read_target(self, info: Info, target: EntitySpec, values: Sequence[Any], name: str) -> Entity | None:
        key = [search_value(target, part, value) for part, value in zip(target.primary_key, values, strict=False)]
        try:
            return await read_record(info, target, key, why=_why_by_key(name, target), naming=self.names.naming)
        except KeyTooLong:
            return None  # No record can have a key of this length.

    async def _read_targets(
        self, info: Info, target: EntitySpec, keys: Sequence[Sequence[Any]], name: str
    ) -> Sequence[Entity | BaseException | None]:
        """Return the record or the error of each key."""
        if info.context.authorization.may_restrict(target, None):
            reads = (self._read_target(info, target, values, name) for values in keys)
            return await gather(*reads, return_exceptions=True)
        columns = zip(target.primary_key, zip(*keys, strict=True), strict=False)
        checked = [search_values(target, part, values) for part, values in columns]
        rows: Sequence[Sequence[Any]] = [*zip(*checked, strict=True)] if checked else [()] * len(keys)
        why, naming = _why_by_key(name, target), self.names.naming
        records = await info.context.dataloaders.load_records(target, rows, why=why, naming=naming)
        if isinstance(records, StoredResults):
            return records
        return [None if isinstance(record, KeyTooLong) else record for record in records]

    # --- by an index -------------------------------------------------------------------------------------------

    def _record_field(self, entity: EntitySpec, join: JoinSpec, target: EntitySpec, name: str) -> StrawberryField:
        """Create the field of one record: the first of an index, or the one that a key references."""

        def request_of(info: Info, index: IndexSpec) -> SearchRequest:
            reads_whole = self.searches.reads_whole_records(target, name) or index.projection == "ALL"
            return SearchRequest(
                target.name,
                index.attribute,
                limit=1,
                why=f"{name} is the first record of the index {index.name}.",
                select=None if reads_whole else selected_properties(target, info, RECORD),
                naming=self.names.naming,
            )

        def with_values(request: SearchRequest, values: Sequence[Any]) -> SearchRequest:
            conditions = self._conditions(target, join, values).items()
            return replace(request, arguments={argument: Eq(value) for argument, value in conditions})

        async def read(info: Info, values: Sequence[Any], _: ArgumentValues) -> Entity | None:
            if index is None:
                return await self._read_target(info, target, values, name)
            request = with_values(request_of(info, index), values)
            try:
                return first_of(await read_page(info, target, index, request, RECORD))
            except KeyTooLong:
                return None

        async def read_all(info: Info, keys: Sequence[Sequence[Any]], _: ArgumentValues) -> Sequence[Any]:
            if index is None:
                return await self._read_targets(info, target, keys, name)
            request = request_of(info, index)
            pages = await read_pages(info, target, index, [with_values(request, values) for values in keys], RECORD)
            return [_record_of(page) for page in pages]

        index = target.indexes[join.via] if join.via is not None else None
        result_type = make_nullable(self.records[target.name])
        description = (
            f"The {target.type_name} referenced by {_key(join)}, or null if it does not exist."
            if index is None
            else f"The first {target.type_name} by {index.name} with this {_key(join)}, or null."
        )
        return _join_field(entity, join, result_type, description, read, read_all)

    def _page_field(self, entity: EntitySpec, join: JoinSpec, target: EntitySpec, name: str) -> StrawberryField:
        assert join.via is not None, "the catalog requires via for a page"
        search = target.unions.get(join.via) or target.indexes[join.via]
        is_union = isinstance(search, UnionSpec)
        why = f"{name} is joined by the {'union' if is_union else 'index'} {search.name}."

        async def read(info: Info, values: Sequence[Any], arguments: ArgumentValues) -> Connection:
            all_arguments = {**arguments, **self._conditions(target, join, values)}
            return await self.searches.search(info, name, target, search, all_arguments, why)

        async def read_all(info: Info, keys: Sequence[Sequence[Any]], arguments: ArgumentValues) -> Sequence[Any]:
            request = self.searches.request_of(info, name, target, search, arguments, why)
            pages = await read_pages(info, target, search, requests_of(info, request, keys))
            return [page if isinstance(page, BaseException) else Connection(page) for page in pages]

        def requests_of(info: Info, request: SearchRequest, keys: Sequence[Sequence[Any]]) -> Sequence[SearchRequest]:
            names = [self.names.naming.property_argument(name) for name in join.target_properties]
            if "id" not in names and not any(map(_is_list, chain.from_iterable(keys))):
                return SearchBatch(request, names, keys)
            requests = []
            for values in keys:
                conditions = self._conditions(target, join, values)
                if "id" in conditions:
                    conditions["id"] = info.context.database.id_or_key(target, conditions["id"])
                requests.append(replace(request, arguments={**request.arguments, **conditions}))
            return requests

        return _join_field(
            entity,
            join,
            make_nullable(self.connections[target.name]),
            f"{target.type_name} records with this {_key(join)}, by {search.name}.",
            read,
            read_all,
            missing=Connection(EmptyPage()),
            arguments=self.searches.optional_arguments(target, search),
            marks=[Mark.SORTABLE] if is_union else (),
        )

    def _conditions(self, target: EntitySpec, join: JoinSpec, values: Sequence[Any]) -> dict[str, Any]:
        """Return the values by which a record is joined, by the arguments of the search."""
        naming, by_name = self.names.naming, dict(zip(join.target_properties, values, strict=True))
        return {
            **{
                naming.list_argument(target, name): [item for item in value if _is_present(item)]
                for name, value in by_name.items()
                if _is_list(value)
            },
            **{naming.property_argument(name): value for name, value in by_name.items() if not _is_list(value)},
        }


def _join_field(
    entity: EntitySpec,
    join: JoinSpec,
    result_type: Any,
    description: str,
    read: Callable[[Info, Sequence[Any], ArgumentValues], Awaitable[Any]],
    read_all: Callable[[Info, Sequence[Sequence[Any]], ArgumentValues], Awaitable[Sequence[Any]]],
    *,
    missing: Any = None,
    arguments: Sequence[StrawberryArgument] = (),
    marks: Sequence[Mark] = (),
) -> StrawberryField:
    """Create a field that reads by the values of the record's properties; `missing`: the result if one has no value.

    `read_all` reads for several records, and returns the result or the error of each.
    """

    async def resolve(root: Any, info: Info, arguments: ArgumentValues) -> Any:
        await check_join_allowed(info, entity, join, root)
        values = [value_of(root, part.name) for part in join.by]
        return await read(info, values, arguments) if all(map(_is_present, values)) else missing

    async def resolve_column(parents: Parents, info: Info, arguments: ArgumentValues) -> Sequence[Any]:
        columns = [parents.values(part.name) for part in join.by]
        keys: Sequence[tuple[Any, ...]] = [*zip(*columns, strict=True)] if columns else [()] * len(parents)
        present = [at for at, values in enumerate(keys) if None not in values and "" not in values]
        found = await read_all(info, [keys[at] for at in present], arguments)
        if len(present) == len(keys):
            return found
        if isinstance(found, StoredResults):
            return found.spread(present, len(keys))
        results = [missing] * len(keys)
        for at, result in zip(present, found, strict=True):
            results[at] = result
        return results

    return generated_field(
        camel_case(join.name),
        result_type,
        join.description or description,
        arguments,
        resolve,
        marks,
        has_parent=True,
        resolve_column=None if _has_rules(join) else resolve_column,
    )


def _has_rules(join: JoinSpec) -> bool:
    """Return whether access rules decide for each record whether its join may be read: see `check_join_allowed`."""
    return any(part.allow is not None for part in join.by)


def _listed_ids(info: Info, ids: Sequence[Any]) -> Sequence[Any] | ShardQLError:
    """Return the ids of a list, or the error if the operation lists too many."""
    try:
        info.context.dataloaders.check_listed_ids(len(ids))
    except ShardQLError as problem:
        return problem
    return ids


def _why_by_key(name: str, target: EntitySpec) -> str:
    return f"{name} reads {target.type_name} records by their keys."


def _record_of(page: Page[Any] | BaseException) -> Entity | BaseException | None:
    """Return the first record of a page, or the error."""
    if isinstance(page, BaseException):
        return None if isinstance(page, KeyTooLong) else page
    try:
        return first_of(page)
    except ShardQLError as problem:
        return problem


def _key(join: JoinSpec) -> str:
    return " and ".join(part.stored for part in join.by) or "key"


_PLAIN_TYPES = frozenset({str, int})
"""Testing for an abstract class takes longer"""


def _is_list(value: Any) -> bool:
    return type(value) not in _PLAIN_TYPES and isinstance(value, list | tuple | AbstractSet)


def _is_present(value: Any) -> bool:
    return value is not None and value != ""

"""Fields for joined records: one record, several by their ids, or pages of a search."""

from asyncio import gather
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strawberry.types.field import StrawberryField

from graphql_api.codecs import Eq
from graphql_api.errors import KeyTooLong
from graphql_api.model import Catalog, Entity, EntitySpec, JoinSpec, UnionSpec, camel_case, depends_on_record, value_of
from graphql_api.query import SearchRequest, search_value
from graphql_api.schema import descriptions
from graphql_api.schema.fields.record_resolvers import (
    check_join_allowed,
    load_authorized_page,
    read_record,
    shown_for_authorization,
)
from graphql_api.schema.fields.search_fields import SearchFields
from graphql_api.schema.graphql_names import GraphQLNames
from graphql_api.schema.query_cost import SORTABLE
from graphql_api.schema.selection import selected_properties
from graphql_api.schema.types.connection_types import Connection, EmptyPage
from graphql_api.schema.types.generated_fields import ArgumentValues, Info, record_field
from graphql_api.schema.types.graphql_scalars import make_nullable
from graphql_api.schema.types.object_types import resolve_attribute


class JoinFields:
    """Factory of the join fields of entities; requires the types of all entities."""

    def __init__(
        self,
        catalog: Catalog,
        names: GraphQLNames,
        searches: SearchFields,
        records: Mapping[str, type],
        connections: Mapping[str, type],
    ) -> None:
        self._entities = catalog.entities
        self._names = names
        self._searches = searches
        self._records = records
        self._connections = connections

    def fields_of_entity(self, entity: EntitySpec) -> Iterator[StrawberryField]:
        """Yield the fields of all joins of an entity."""
        for join in entity.joins.values():
            target = self._entities[join.target]
            if join.kind == "page":
                yield self._page_field(entity, join, target)
            elif join.kind == "many":
                yield self._list_field(entity, join, target)
            elif join.via is not None:
                yield self._first_field(entity, join, target, join.via)
            else:
                yield self._reference_field(entity, join, target)

    # --- by key ------------------------------------------------------------------------------------------------

    def _reference_field(self, entity: EntitySpec, join: JoinSpec, target: EntitySpec) -> StrawberryField:
        async def resolve(root: Any, info: Info, _: ArgumentValues) -> Entity | None:
            await check_join_allowed(info, entity, join, root)
            values = _join_values(join, root)
            return None if values is None else await self._read_target(info, target, values, why)

        why = f"{self._qualified_name(entity, join)} reads {target.type_name} records by their keys."
        result_type = make_nullable(self._records[target.name])
        return record_field(camel_case(join.name), result_type, descriptions.join_one(join, target), [], resolve)

    def _list_field(self, entity: EntitySpec, join: JoinSpec, target: EntitySpec) -> StrawberryField:
        (part,) = join.by

        async def resolve(root: Any, info: Info, _: ArgumentValues) -> Sequence[Entity | BaseException | None]:
            await check_join_allowed(info, entity, join, root)
            ids = resolve_attribute(root, part.name) or ()
            info.context.dataloaders.check_listed_ids(len(ids))
            distinct_ids = [id for id in dict.fromkeys(ids) if _is_present(id)]
            # An error belongs to each list element of its record; a cancellation ends the whole field.
            results = await gather(
                *(self._read_target(info, target, [id], why) for id in distinct_ids), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException) and not isinstance(result, Exception):
                    raise result
            by_id = dict(zip(distinct_ids, results, strict=True))
            return [by_id.get(id) for id in ids]

        why = f"{self._qualified_name(entity, join)} reads {target.type_name} records by their keys."
        result_type: Any = list[make_nullable(self._records[target.name])]  # type: ignore[misc]
        if depends_on_record(part.allow):
            result_type = make_nullable(result_type)
        return record_field(camel_case(join.name), result_type, descriptions.join_many(join, target), [], resolve)

    async def _read_target(self, info: Info, target: EntitySpec, values: Sequence[Any], why: str) -> Entity | None:
        parts = target.primary_key[: len(values)]
        key = [search_value(target, part, value) for part, value in zip(parts, values, strict=True)]
        try:
            return await read_record(
                info, target, key, shown_for_authorization(info, target), why=why, naming=self._names.naming
            )
        except KeyTooLong:
            return None  # No record can have a key of this length.

    # --- by an index -------------------------------------------------------------------------------------------

    def _first_field(self, entity: EntitySpec, join: JoinSpec, target: EntitySpec, via: str) -> StrawberryField:
        index, naming = target.indexes[via], self._names.naming

        async def resolve(root: Any, info: Info, _: ArgumentValues) -> Entity | None:
            await check_join_allowed(info, entity, join, root)
            values = _join_values(join, root)
            if values is None:
                return None
            reads_whole = self._searches.reads_whole_records(target, field_name) or index.projection == "ALL"
            request = SearchRequest(
                target.name,
                via,
                {
                    naming.property_argument(name): Eq(value)
                    for name, value in zip(join.target_properties, values, strict=True)
                },
                limit=1,
                why=f"{field_name} is the first record of the index {index.name}.",
                select=None if reads_whole else selected_properties(target, info._raw_info, of_page=False),  # noqa: SLF001 - no public access
                naming=naming,
            )
            try:
                page = await load_authorized_page(info, target, index, request, shown_for_authorization(info, target))
            except KeyTooLong:
                return None
            return page.items[0] if page.items else None

        field_name = self._qualified_name(entity, join)
        result_type = make_nullable(self._records[target.name])
        return record_field(
            camel_case(join.name), result_type, descriptions.join_first(join, target, index), [], resolve
        )

    def _page_field(self, entity: EntitySpec, join: JoinSpec, target: EntitySpec) -> StrawberryField:
        assert join.via is not None, "the catalog requires via for a page"
        search = target.unions.get(join.via) or target.indexes[join.via]
        naming = self._names.naming

        async def resolve(root: Any, info: Info, arguments: ArgumentValues) -> Connection:
            await check_join_allowed(info, entity, join, root)
            values = _join_values(join, root)
            if values is None:
                return Connection(EmptyPage())
            conditions = {
                naming.property_argument(name): value
                for name, value in zip(join.target_properties, values, strict=True)
            }
            why = (
                f"{field_name} is joined by the {'union' if isinstance(search, UnionSpec) else 'index'} {search.name}."
            )
            return await self._searches.search(info, field_name, target, search, {**arguments, **conditions}, why)

        field_name = self._qualified_name(entity, join)
        return record_field(
            camel_case(join.name),
            make_nullable(self._connections[target.name]),
            descriptions.join_page(join, target, search),
            self._searches.optional_arguments(target, search),
            resolve,
            [SORTABLE] if isinstance(search, UnionSpec) else (),
        )

    def _qualified_name(self, entity: EntitySpec, join: JoinSpec) -> str:
        """Return the name of the field for hooks and explain output: `User.emails`."""
        return f"{self._names.type_name(entity.type_name)}.{camel_case(join.name)}"


def _join_values(join: JoinSpec, record: Any) -> list[Any] | None:
    """Return the values by which a record is joined; None if one is missing, so that no record can match."""
    values = [value_of(record, part.name) for part in join.by]
    return values if all(map(_is_present, values)) else None


def _is_present(value: Any) -> bool:
    return value is not None and value != ""

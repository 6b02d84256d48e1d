"""The fields by which a record shows others: one, several by their ids, or pages of a search."""

from asyncio import gather
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strawberry.types.field import StrawberryField

from graphql_api.codecs import Eq
from graphql_api.errors import KeyTooLong
from graphql_api.model import Catalog, Entity, EntitySpec, JoinSpec, UnionSpec, camel_case, depends_on_record, value_of
from graphql_api.query import SearchRequest, searched_value
from graphql_api.schema.fields.record_resolvers import allow_join, read_part, read_record, shown_by
from graphql_api.schema.fields.search_fields import Searches
from graphql_api.schema.graphql_names import Names
from graphql_api.schema.query_cost import SORTED
from graphql_api.schema.selection import selected_properties
from graphql_api.schema.types.connection_types import Connection, Nothing
from graphql_api.schema.types.field_arguments import Given, Info, record_field
from graphql_api.schema.types.graphql_scalars import or_null
from graphql_api.schema.types.object_types import attribute_of


class Joins:
    """Makes the fields of one entity after the other; the types of all of them have to be there."""

    def __init__(
        self,
        catalog: Catalog,
        names: Names,
        searches: Searches,
        records: Mapping[str, type],
        connections: Mapping[str, type],
    ) -> None:
        self._entities = catalog.entities
        self._names = names
        self._searches = searches
        self._records = records
        self._connections = connections

    def of(self, entity: EntitySpec) -> Iterator[StrawberryField]:
        """All joins of an entity."""
        for join in entity.joins.values():
            target = self._entities[join.target]
            if join.kind == "page":
                yield self._page(entity, join, target)
            elif join.kind == "many":
                yield self._many(entity, join, target)
            elif join.via is not None:
                yield self._first(entity, join, target, join.via)
            else:
                yield self._one(entity, join, target)

    # --- by its key --------------------------------------------------------------------------------------------

    def _one(self, entity: EntitySpec, join: JoinSpec, target: EntitySpec) -> StrawberryField:
        async def resolve(root: Any, info: Info, _: Given) -> Entity | None:
            await allow_join(info, entity, join, root)
            values = _values(join, root)
            return None if values is None else await self._read(info, target, values, why)

        why = f"{self._hooked_as(entity, join)} reads {target.type_name} records by their keys."
        words = join.description or f"The {target.type_name} that {_by(join)} names; null if there is none."
        return record_field(camel_case(join.name), or_null(self._records[target.name]), words, [], resolve)

    def _many(self, entity: EntitySpec, join: JoinSpec, target: EntitySpec) -> StrawberryField:
        (part,) = join.by

        async def resolve(root: Any, info: Info, _: Given) -> Sequence[Entity | BaseException | None]:
            await allow_join(info, entity, join, root)
            ids = attribute_of(root, part.name) or ()
            info.context.reads.admit(len(ids))
            known = [id for id in dict.fromkeys(ids) if _is_given(id)]
            # An error is told at each place of its record; whatever else ends a read ends all of them.
            found = await gather(*(self._read(info, target, [id], why) for id in known), return_exceptions=True)
            for end in found:
                if isinstance(end, BaseException) and not isinstance(end, Exception):
                    raise end
            by_id = dict(zip(known, found, strict=True))
            return [by_id.get(id) for id in ids]

        why = f"{self._hooked_as(entity, join)} reads {target.type_name} records by their keys."
        words = join.description or (
            f"For each id in {part.stored} the {target.type_name}, in this order; null where there is none."
        )
        several: Any = list[or_null(self._records[target.name])]  # type: ignore[misc]
        if depends_on_record(part.allow):
            several = or_null(several)
        return record_field(camel_case(join.name), several, words, [], resolve)

    async def _read(self, info: Info, target: EntitySpec, values: Sequence[Any], why: str) -> Entity | None:
        parts = target.primary[: len(values)]
        key = [searched_value(target, part, value) for part, value in zip(parts, values, strict=True)]
        try:
            return await read_record(info, target, key, shown_by(info, target), why=why, dialect=self._names.dialect)
        except KeyTooLong:
            return None  # No record can have such a key.

    # --- by an index -------------------------------------------------------------------------------------------

    def _first(self, entity: EntitySpec, join: JoinSpec, target: EntitySpec, via: str) -> StrawberryField:
        index, dialect = target.indexes[via], self._names.dialect

        async def resolve(root: Any, info: Info, _: Given) -> Entity | None:
            await allow_join(info, entity, join, root)
            values = _values(join, root)
            if values is None:
                return None
            seen_whole = self._searches.is_seen_whole(target, called) or index.projection == "ALL"
            request = SearchRequest(
                target.name,
                via,
                {dialect.argument(name): Eq(value) for name, value in zip(join.gives, values, strict=True)},
                limit=1,
                why=f"{called} is the first record that the index {index.name} has.",
                select=None if seen_whole else selected_properties(target, info._raw_info, of_page=False),  # noqa: SLF001 - its only way
                dialect=dialect,
            )
            try:
                page = await read_part(info, target, index, request, shown_by(info, target))
            except KeyTooLong:
                return None
            return page.items[0] if page.items else None

        called = self._hooked_as(entity, join)
        words = join.description or f"The first {target.type_name} by {index.name} with this {_by(join)}, or null."
        return record_field(camel_case(join.name), or_null(self._records[target.name]), words, [], resolve)

    def _page(self, entity: EntitySpec, join: JoinSpec, target: EntitySpec) -> StrawberryField:
        assert join.via is not None, "pages are found by a search"
        search = target.unions.get(join.via) or target.indexes[join.via]
        dialect = self._names.dialect

        async def resolve(root: Any, info: Info, given: Given) -> Connection:
            await allow_join(info, entity, join, root)
            values = _values(join, root)
            if values is None:
                return Connection(Nothing())
            by = {dialect.argument(name): value for name, value in zip(join.gives, values, strict=True)}
            why = f"{called} is joined by the {'union' if isinstance(search, UnionSpec) else 'index'} {search.name}."
            return await self._searches.search(info, called, target, search, {**given, **by}, why)

        called = self._hooked_as(entity, join)
        words = join.description or f"Every {target.type_name} with this {_by(join)}, by {search.name}."
        return record_field(
            camel_case(join.name),
            or_null(self._connections[target.name]),
            words,
            self._searches.arguments(target, search),
            resolve,
            [SORTED] if isinstance(search, UnionSpec) else (),
        )

    def _hooked_as(self, entity: EntitySpec, join: JoinSpec) -> str:
        """What the field is called by hooks, and by those who explain."""
        return f"{self._names.type(entity.type_name)}.{camel_case(join.name)}"


def _values(join: JoinSpec, record: Any) -> list[Any] | None:
    """What a record holds for a join; None where something is missing, and so nothing can be found."""
    values = [value_of(record, part.name) for part in join.by]
    return values if all(map(_is_given, values)) else None


def _is_given(value: Any) -> bool:
    return value is not None and value != ""


def _by(join: JoinSpec) -> str:
    return " and ".join(part.stored for part in join.by) or "the key"

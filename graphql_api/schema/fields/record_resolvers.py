"""The ways from a field to records: past the rules of access first, then to what the request reads together."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from graphql_api.model import Entity, EntitySpec, IndexSpec, JoinSpec, UnionSpec
from graphql_api.query import SearchRequest
from graphql_api.query.execution import Page
from graphql_api.schema.authorization import place_of
from graphql_api.schema.selection import shown_properties
from graphql_api.schema.types.field_arguments import Info


async def read_page(info: Info, entity: EntitySpec, search: IndexSpec | UnionSpec, request: SearchRequest) -> Page[Any]:
    """A page of a search, as the caller may see it. `Forbidden` where the caller may not ask for it."""
    return await read_part(info, entity, search, request, shown_by(info, entity, of_page=True))


async def read_part(
    info: Info, entity: EntitySpec, search: IndexSpec | UnionSpec, request: SearchRequest, shown: Collection[str]
) -> Page[Any]:
    """The same for a field that shows these properties."""
    context, at = info.context, place_of(info)
    return await context.reads.page(await context.gate.search(entity, search, request, shown, at), at.path)


async def read_record(
    info: Info,
    entity: EntitySpec,
    values: Sequence[Any],
    shown: Collection[str],
    *,
    called: str | None = None,
    **how: Any,
) -> Entity | None:
    """The record with these values of its primary key, if the caller may see it; `Forbidden` if not.

    `shown`: the properties that the field shows; `called`: what is refused, where the field's name does not tell;
    `how`: the options of `Reads.record`.
    """
    context, at = info.context, place_of(info)
    at = at if called is None else replace(at, name=called)
    known = dict(zip((part.name for part in entity.primary), values, strict=False))
    return await context.gate.read(
        entity, known, lambda: context.reads.record(entity, values, at.path, **how), shown, at
    )


async def allow_join(info: Info, entity: EntitySpec, join: JoinSpec, record: Any) -> None:
    """Refuses where the caller may not see by what a record is joined."""
    if any(part.allow is not None for part in join.by):
        await info.context.gate.show(entity, join.by, record, place_of(info))


def shown_by(info: Info, entity: EntitySpec, *, of_page: bool = False, type_name: str | None = None) -> Collection[str]:
    """The properties of its records that a field shows, where any of them has rules of its own."""
    if all(part.allow is None for part in entity.properties.values()):
        return ()
    raw = info._raw_info  # noqa: SLF001 - its only way
    return shown_properties(entity, raw, of_page=of_page, type_name=type_name)

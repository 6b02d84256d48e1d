"""Reads of records for fields: authorization first, then the dataloaders of the request."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from graphql_api.model import Entity, EntitySpec, IndexSpec, JoinSpec, UnionSpec
from graphql_api.query import SearchRequest
from graphql_api.query.execution import Page
from graphql_api.schema.authorization import field_location
from graphql_api.schema.selection import shown_properties
from graphql_api.schema.types.generated_fields import Info


async def read_page(info: Info, entity: EntitySpec, search: IndexSpec | UnionSpec, request: SearchRequest) -> Page[Any]:
    """Read a page of a search as the caller may see it, or raise `Forbidden`."""
    return await load_authorized_page(
        info, entity, search, request, shown_for_authorization(info, entity, of_page=True)
    )


async def load_authorized_page(
    info: Info, entity: EntitySpec, search: IndexSpec | UnionSpec, request: SearchRequest, shown: Collection[str]
) -> Page[Any]:
    """Read a page of a search for a field that shows these properties, or raise `Forbidden`."""
    context, location = info.context, field_location(info)
    allowed = await context.authorization.restrict_search(entity, search, request, shown, location)
    return await context.dataloaders.load_page(allowed, location.path)


async def read_record(
    info: Info,
    entity: EntitySpec,
    values: Sequence[Any],
    shown: Collection[str],
    *,
    field_name: str | None = None,
    **options: Any,
) -> Entity | None:
    """Read the record with these values of its primary key, or raise `Forbidden`.

    `shown`: the properties that the field shows.
    `field_name`: the name of the field in errors, if it differs from the field of the document.
    `options`: the options of `Dataloaders.load_record`.
    """
    context, location = info.context, field_location(info)
    location = location if field_name is None else replace(location, name=field_name)
    known = dict(zip((part.name for part in entity.primary_key), values, strict=False))
    return await context.authorization.read_if_allowed(
        entity,
        known,
        lambda: context.dataloaders.load_record(entity, values, location.path, **options),
        shown,
        location,
    )


async def check_join_allowed(info: Info, entity: EntitySpec, join: JoinSpec, record: Any) -> None:
    """Raise `Forbidden` unless the caller may see the properties that a join reads."""
    if any(part.allow is not None for part in join.by):
        await info.context.authorization.check_readable(entity, join.by, record, field_location(info))


def shown_for_authorization(
    info: Info, entity: EntitySpec, *, of_page: bool = False, type_name: str | None = None
) -> Collection[str]:
    """Return the properties that a field shows of its records; empty if no property of the entity has rules."""
    if all(part.allow is None for part in entity.properties.values()):
        return ()
    raw_info = info._raw_info  # noqa: SLF001 - no public access
    return shown_properties(entity, raw_info, of_page=of_page, type_name=type_name)

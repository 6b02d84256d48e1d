"""Reads of records for fields: authorization first, then the dataloaders. Also the fields `node` and `nodes`."""

from asyncio import gather
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import strawberry
from strawberry.types.field import StrawberryField

from graphql_api.model import Entity, EntitySpec, IndexSpec, JoinSpec, UnionSpec, UniqueSpec
from graphql_api.query import SearchRequest
from graphql_api.query.execution import Page
from graphql_api.schema.authorization import field_location
from graphql_api.schema.graphql_names import GraphQLNames
from graphql_api.schema.selection import PAGE, Paths, shown_properties
from graphql_api.schema.types.generated_fields import ArgumentValues, Info, ListLimit, Mark, argument, generated_field
from graphql_api.schema.types.graphql_scalars import make_nullable

MAX_NODES = 100
"""Ids of one field: the number of keys that an engine reads in one call."""
_IDS_LIMIT = ListLimit(MAX_NODES, "ids")


async def read_page(
    info: Info, entity: EntitySpec, search: IndexSpec | UnionSpec, request: SearchRequest, paths: Paths = PAGE
) -> Page[Any]:
    """Read a page of a search as the caller may see it, or raise `Forbidden`; `paths`: those to its records."""
    context, location = info.context, field_location(info)
    shown = shown_properties(entity, info, paths)
    allowed = await context.authorization.restrict_search(entity, search, request, shown, location)
    return await context.dataloaders.load_page(allowed, location.path)


async def read_pages(
    info: Info,
    entity: EntitySpec,
    search: IndexSpec | UnionSpec,
    requests: Sequence[SearchRequest],
    paths: Paths = PAGE,
) -> Sequence[Page[Any] | BaseException]:
    """Read the page or the error of each request, as `read_page` does, by one call of the store."""
    context = info.context
    if not context.authorization.may_restrict(entity, search):
        return await context.dataloaders.load_pages(requests)
    location, shown = field_location(info), shown_properties(entity, info, paths)
    restrict = partial(context.authorization.restrict_search, entity, search, selected=shown, location=location)
    results = await gather(*map(restrict, requests), return_exceptions=True)
    allowed = {at: one for at, one in enumerate(results) if isinstance(one, SearchRequest)}
    pages = dict(zip(allowed, await context.dataloaders.load_pages([*allowed.values()]), strict=True))
    return [one if isinstance(one, BaseException) else pages[at] for at, one in enumerate(results)]


async def read_record(
    info: Info, entity: EntitySpec, values: Sequence[Any], *, type_name: str | None = None, **options: Any
) -> Entity | None:
    """Read the record with these values of its primary key, or raise `Forbidden`.

    `type_name`: the type of the record, if the field can return records of several types; errors name it.
    `options`: the options of `Dataloaders.load_record`.
    """
    context, location = info.context, field_location(info)
    known = dict(zip((part.name for part in entity.primary_key), values, strict=False))
    return await context.authorization.read_if_allowed(
        entity,
        known,
        lambda: context.dataloaders.load_record(entity, values, location.path, **options),
        shown_properties(entity, info, type_name=type_name),
        location if type_name is None else replace(location, name=type_name),
    )


async def read_by_unique(
    info: Info, entity: EntitySpec, unique: UniqueSpec, values: tuple[Any, ...], why: str
) -> Entity | None:
    """Read the record with these values of a unique constraint, or raise `Forbidden`."""
    context, location = info.context, field_location(info)
    return await context.authorization.read_if_allowed(
        entity,
        dict(zip((part.name for part in unique.parts), values, strict=True)),
        lambda: context.dataloaders.load_by_unique(entity, unique, values, location.path, why=why),
        shown_properties(entity, info),
        location,
        [part for part in unique.parts if part not in entity.primary_key],
    )


async def check_join_allowed(info: Info, entity: EntitySpec, join: JoinSpec, record: Any) -> None:
    """Raise `Forbidden` unless the caller may see the properties that a join reads."""
    if any(part.allow is not None for part in join.by):
        await info.context.authorization.check_readable(entity, join.by, record, field_location(info))


def node_fields(names: GraphQLNames, node: type) -> Iterator[StrawberryField]:
    """Create the fields that read records of any type by their global ids; `node`: the interface of the records."""

    async def read(info: Info, id: str, argument: str) -> Entity | None:
        database = info.context.database
        key = database.open_key(id, argument=argument)
        entity = database.catalog.entities[key.origin]
        return await read_record(
            info,
            entity,
            [*key.ids, *key.children],
            type_name=names.type_name(entity.type_name),
            key=key,
            consistent=True,
            why=f"{argument} is the key of a {entity.type_name}.",
            naming=names.naming,
        )

    async def resolve_node(_: Any, info: Info, values: ArgumentValues) -> Entity | None:
        return await read(info, values["id"], "id")

    async def resolve_nodes(_: Any, info: Info, values: ArgumentValues) -> list[Entity | BaseException | None]:
        ids = values["ids"]
        _IDS_LIMIT.check(len(ids), "ids")
        reads = [read(info, id, "ids") for id in ids]
        return await gather(*reads, return_exceptions=True)  # An exception is the error of its own list element.

    id_argument = argument("id", strawberry.ID, "The global id of a record of any type.", required=True)
    text = "The record with this id, or null if it does not exist."
    yield generated_field("node", make_nullable(node), text, [id_argument], resolve_node)
    ids: Any = list[strawberry.ID]
    ids_argument = argument("ids", ids, "Global ids of records of any types.", required=True, limit=_IDS_LIMIT)
    nodes: Any = list[make_nullable(node)]  # type: ignore[misc]
    text = (
        f"The records with these ids, at most {MAX_NODES}, in the order of the ids. Null for each that does not exist."
    )
    yield generated_field("nodes", nodes, text, [ids_argument], resolve_nodes, [Mark.PER_INPUT])

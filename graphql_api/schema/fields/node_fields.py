"""`node` and `nodes`: any record by its `id`, whatever its type is."""

from asyncio import gather
from collections.abc import Iterator
from typing import Any

import strawberry
from strawberry.types.field import StrawberryField

from graphql_api.errors import InvalidLimit
from graphql_api.model import Entity
from graphql_api.schema.fields.record_resolvers import read_record, shown_by
from graphql_api.schema.graphql_names import Names
from graphql_api.schema.query_cost import GIVEN
from graphql_api.schema.types.field_arguments import Argument, Given, Info, resolved_field
from graphql_api.schema.types.graphql_scalars import or_null

MAX_NODES = 100
"""records that are found by one field: what an engine reads by key in one call"""


def node_fields(names: Names, node: type) -> Iterator[StrawberryField]:
    """The two fields, whose answers are of the interface `node`."""

    async def one(info: Info, given: Given) -> Entity | None:
        return await _read(info, names, given["id"], "id")

    async def several(info: Info, given: Given) -> list[Entity | BaseException | None]:
        ids = given["ids"]
        if len(ids) > MAX_NODES:
            raise InvalidLimit(
                f"ids are {len(ids):,}, and at most {MAX_NODES} are read at once: ask for them in parts.",
                argument="ids",
            )
        reads = [_read(info, names, id, "ids") for id in ids]
        return await gather(*reads, return_exceptions=True)  # An error is one of its own place in the list.

    yield resolved_field(
        "node",
        or_null(node),
        "The record with this id, or null.",
        [Argument("id", strawberry.ID, "The id of a record of any type.", required=True)],
        one,
    )
    ids: Any = list[strawberry.ID]
    yield resolved_field(
        "nodes",
        list[or_null(node)],  # type: ignore[misc]
        f"For each of up to {MAX_NODES} ids the record, in this order; null where there is none.",
        [Argument("ids", ids, "Ids of records of any types.", required=True)],
        several,
        [GIVEN],
    )


async def _read(info: Info, names: Names, id: str, argument: str) -> Entity | None:
    database = info.context.database
    key = database.open_key(id, argument=argument)
    entity = database.catalog.entities[key.origin]
    called = names.type(entity.type_name)
    return await read_record(
        info,
        entity,
        [*key.ids, *key.children],
        shown_by(info, entity, type_name=called),
        called=called,
        keys=database.keys_at(entity, key),
        consistent=True,
        why=f"{argument} is the key of a {entity.type_name}.",
        dialect=names.dialect,
    )

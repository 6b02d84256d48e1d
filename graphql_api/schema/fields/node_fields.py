"""The fields `node` and `nodes`: records of any type by their global ids."""

from asyncio import gather
from collections.abc import Iterator
from typing import Any

import strawberry
from strawberry.types.field import StrawberryField

from graphql_api.errors import InvalidLimit
from graphql_api.model import Entity
from graphql_api.schema import descriptions
from graphql_api.schema.fields.record_resolvers import read_record, shown_for_authorization
from graphql_api.schema.graphql_names import GraphQLNames
from graphql_api.schema.query_cost import PER_INPUT
from graphql_api.schema.types.generated_fields import Argument, ArgumentValues, Info, root_field
from graphql_api.schema.types.graphql_scalars import make_nullable

MAX_NODES = 100
"""Ids of one field: the number of keys that an engine reads in one call."""


def node_fields(names: GraphQLNames, node: type) -> Iterator[StrawberryField]:
    """Create both fields; `node`: the interface of their records."""

    async def resolve_node(info: Info, values: ArgumentValues) -> Entity | None:
        return await _read(info, names, values["id"], "id")

    async def resolve_nodes(info: Info, values: ArgumentValues) -> list[Entity | BaseException | None]:
        ids = values["ids"]
        if len(ids) > MAX_NODES:
            raise InvalidLimit(
                f"ids has {len(ids):,} elements, and the limit is {MAX_NODES}: split them into several requests.",
                argument="ids",
            )
        reads = [_read(info, names, id, "ids") for id in ids]
        return await gather(*reads, return_exceptions=True)  # An exception is the error of its own list element.

    yield root_field(
        "node",
        make_nullable(node),
        descriptions.NODE_FIELD,
        [Argument("id", strawberry.ID, descriptions.NODE_ID, required=True)],
        resolve_node,
    )
    ids: Any = list[strawberry.ID]
    yield root_field(
        "nodes",
        list[make_nullable(node)],  # type: ignore[misc]
        descriptions.nodes_field(MAX_NODES),
        [Argument("ids", ids, descriptions.NODE_IDS, required=True)],
        resolve_nodes,
        [PER_INPUT],
    )


async def _read(info: Info, names: GraphQLNames, id: str, argument: str) -> Entity | None:
    database = info.context.database
    key = database.open_key(id, argument=argument)
    entity = database.catalog.entities[key.origin]
    type_name = names.type_name(entity.type_name)
    return await read_record(
        info,
        entity,
        [*key.ids, *key.children],
        shown_for_authorization(info, entity, type_name=type_name),
        field_name=type_name,
        keys=database.keys_at(entity, key),
        consistent=True,
        why=f"{argument} is the key of a {entity.type_name}.",
        naming=names.naming,
    )

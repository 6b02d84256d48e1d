"""ShardQL: exact search over any number of shards. These are the words that declare a catalog, open it and serve it."""

import importlib
from typing import TYPE_CHECKING, Any

from graphql_api.catalog.access import allow, anyone, group, owner, owner_through, signed_in
from graphql_api.catalog.catalog import Catalog
from graphql_api.catalog.constraints import ForeignKey, UniqueTogether, counter, generated, new_id
from graphql_api.catalog.entity import Entity
from graphql_api.catalog.joins import HasMany, Ref, RefMany
from graphql_api.catalog.markers import (
    Created,
    Id,
    Immutable,
    Index,
    Int32,
    Shards,
    SubId,
    Timestamp,
    TimestampMs,
    Ttl,
    Union,
    Unique,
    Updated,
    Version,
    canonical,
    derived,
    desc,
    stored,
)
from graphql_api.catalog.record_keys import merge, record_key
from graphql_api.keys.record_key import RecordKey
from graphql_api.wiring import Secrets, open_catalog

if TYPE_CHECKING:
    from graphql_api.schema.connections import Connection
    from graphql_api.schema.graph import Graph
    from graphql_api.serving import asgi

__all__ = [
    "Catalog",
    "Connection",
    "Created",
    "Entity",
    "ForeignKey",
    "Graph",
    "HasMany",
    "Id",
    "Immutable",
    "Index",
    "Int32",
    "RecordKey",
    "Ref",
    "RefMany",
    "Secrets",
    "Shards",
    "SubId",
    "Timestamp",
    "TimestampMs",
    "Ttl",
    "Union",
    "Unique",
    "UniqueTogether",
    "Updated",
    "Version",
    "allow",
    "anyone",
    "asgi",
    "canonical",
    "counter",
    "derived",
    "desc",
    "generated",
    "group",
    "merge",
    "new_id",
    "open_catalog",
    "owner",
    "owner_through",
    "record_key",
    "signed_in",
    "stored",
]

_SERVER = {"Connection": "schema.connections", "Graph": "schema.graph", "asgi": "serving"}


def __getattr__(name: str) -> Any:
    """The words of the server, loaded when they are used: Strawberry and Starlette take their time."""
    if name not in _SERVER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_SERVER[name]}"), name)

"""ShardQL: exact search over any number of shards. These are the words that declare a catalog and open it."""

from graphql_api.catalog.catalog import Catalog
from graphql_api.catalog.entity import Entity
from graphql_api.catalog.markers import (
    Created,
    Id,
    Index,
    Int32,
    Shards,
    SubId,
    Timestamp,
    TimestampMs,
    Ttl,
    canonical,
    derived,
    desc,
    stored,
)
from graphql_api.wiring import Secrets, open_catalog

__all__ = [
    "Catalog",
    "Created",
    "Entity",
    "Id",
    "Index",
    "Int32",
    "Secrets",
    "Shards",
    "SubId",
    "Timestamp",
    "TimestampMs",
    "Ttl",
    "canonical",
    "derived",
    "desc",
    "open_catalog",
    "stored",
]

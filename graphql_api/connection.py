"""Open a catalog over a store, with the secrets of its tokens and record keys."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from logging import getLogger

from graphql_api.clock import Clock, system_clock
from graphql_api.codecs import RecordKeySeal
from graphql_api.database import Database
from graphql_api.evolution import prepare_table
from graphql_api.model import Catalog
from graphql_api.query import TokenSeal
from graphql_api.storage.engines import creates_tables, open_store

log = getLogger("shardql")


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets that seal page tokens and sign record keys: at least 32 random bytes each.

    The first token secret seals and all of them open, so they can be rotated. The secret of record keys never changes.
    """

    tokens: Sequence[bytes] = field(repr=False)
    record: bytes = field(default_factory=RecordKeySeal.new_secret, repr=False)

    @staticmethod
    def generate() -> "Secrets":
        """Return random secrets. Their tokens and record keys become invalid when the process ends."""
        return Secrets((TokenSeal.new_secret(),))


@asynccontextmanager
async def open_catalog(
    catalog: Catalog,
    url: str,
    *,
    secrets: Secrets | None = None,
    clock: Clock = system_clock,
    create_table: bool | None = None,
    read_only: bool = False,
) -> AsyncIterator[Database]:
    """Open the table of a catalog: `async with open_catalog(catalog, "sqlite:///data.db") as db: …`.

    `create_table`: whether to create a missing table or index; by default SQLite does and DynamoDB does not. With
    `read_only` nothing is created.
    """
    if secrets is None:
        log.info("No secrets provided: other processes cannot use the page tokens and record keys of this one.")
        secrets = Secrets.generate()
    store = await open_store(url)
    try:
        creates = creates_tables(url) if create_table is None else create_table
        await prepare_table(store, catalog, clock(), create_table=creates and not read_only, read_only=read_only)
        yield Database(catalog, store, TokenSeal(secrets.tokens), clock, key_seal=RecordKeySeal(secrets.record))
    finally:
        await store.close()

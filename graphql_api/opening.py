"""Brings a catalog, a store and their secrets together: the Python interface."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from logging import getLogger
from typing import TypeVar

from graphql_api.clock import Clock, system_clock
from graphql_api.codecs import RecordKeySeal
from graphql_api.database import Database
from graphql_api.evolution import admit_table
from graphql_api.model import Catalog, Entity
from graphql_api.query import Seal
from graphql_api.storage.engines import makes_tables, open_store

E = TypeVar("E", bound=Entity)
log = getLogger("shardql")


@dataclass(frozen=True, slots=True)
class Secrets:
    """What page tokens are sealed with, and what record keys are signed with: at least 32 random bytes each.

    Of those for tokens the first one seals and all of them open, so they can rotate. That for record keys never does.
    """

    tokens: Sequence[bytes] = field(repr=False)
    record: bytes = field(default_factory=RecordKeySeal.new_secret, repr=False)

    @staticmethod
    def generate() -> "Secrets":
        """New secrets: tokens and record keys made with them are worth nothing after a restart."""
        return Secrets((Seal.new_secret(),))


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
    """Opens a catalog's table: `async with open_catalog(catalog, "sqlite:///data.db") as db: …`.

    `create_table` says whether a missing table or index is made; if nothing is said, SQLite does and DynamoDB does not.
    With `read_only` opening writes nothing, whatever it says.
    """
    if secrets is None:
        log.info("No secrets were given: page tokens and record keys of this process are worth nothing to another one.")
        secrets = Secrets.generate()
    store = await open_store(url)
    try:
        creates = makes_tables(url) if create_table is None else create_table
        await admit_table(store, catalog, clock(), create_table=creates and not read_only, read_only=read_only)
        yield Database(catalog, store, Seal(secrets.tokens), clock, key_seal=RecordKeySeal(secrets.record))
    finally:
        await store.close()

"""Open a catalog over a store, with the secrets of its tokens and record keys."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from logging import getLogger
from typing import TypeVar

from graphql_api.clock import Clock, system_clock
from graphql_api.codecs import RecordKeySeal
from graphql_api.database import Database
from graphql_api.errors import InvalidSettings, StoreError
from graphql_api.evolution import (
    DEFAULT_LEASE_SECONDS,
    LEASE_MARGIN_SECONDS,
    REQUEST_LIFE_SECONDS,
    MigrationSettings,
    ProgressCallback,
    migrate_at_opening,
    opened_schema,
    prepare_lookup_store,
    prepare_table,
)
from graphql_api.model import Catalog
from graphql_api.query import TokenSeal
from graphql_api.runtime import RetryStrategy
from graphql_api.storage import Store, TableDefinition
from graphql_api.storage.engines import creates_tables, opened_store
from graphql_api.writes import with_lookup_store

log = getLogger("shardql")
T = TypeVar("T")

OPENING_RETRIES = RetryStrategy(first_backoff_seconds=0.1, max_backoff_seconds=2.0, max_seconds=20.0)
"""of the reads and writes that open a table: its engine may still be starting"""


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
    adopt_table: bool = False,
    lease_seconds: float | None = None,
    lease_margin_seconds: float = LEASE_MARGIN_SECONDS,
    request_life_seconds: float = REQUEST_LIFE_SECONDS,
    migrate: bool | None = None,
    lookups: str | None = None,
    on_progress: ProgressCallback = lambda _: None,
) -> AsyncIterator[Database]:
    """Open the table of a catalog: `async with open_catalog(catalog, "sqlite:///data.db") as db: …`.

    `create_table`: whether to create a missing table, and the indexes of new entities; by default SQLite does and
    DynamoDB does not. With `read_only` nothing is created or announced, and writes are refused. `adopt_table`: share a
    table that only other catalogs have used so far. `migrate`: whether to build at once what the table lacks; by
    default on SQLite, if missing tables are created. `lookups`: the URL of another store, which keeps the mapping items
    of all lookups. `on_progress` receives the steps.

    For engines with leases: `lease_seconds` of a new table. New properties become ready after a lease,
    `lease_margin_seconds` and `request_life_seconds`.
    """
    if lease_seconds is not None and not lease_seconds > 0:
        raise InvalidSettings([f"lease_seconds is {lease_seconds}, and must be greater than 0."])
    if secrets is None:
        log.info("No secrets provided: other processes cannot use the page tokens and record keys of this one.")
        secrets = Secrets.generate()
    async with opened_with_lookups(
        url, lookups, catalog, read_only=read_only, create_table=create_table, clock=clock
    ) as (store, catalog):  # noqa: PLR1704
        creates = creates_tables(url) if create_table is None else create_table
        database = database_over(
            store,
            catalog,
            secrets=secrets,
            clock=clock,
            create_table=creates,
            read_only=read_only,
            adopt_table=adopt_table,
            lease_seconds=DEFAULT_LEASE_SECONDS if lease_seconds is None else lease_seconds,
            lease_margin_seconds=lease_margin_seconds,
            request_life_seconds=request_life_seconds,
            migrate=creates and creates_tables(url) if migrate is None else migrate,
            on_progress=on_progress,
        )
        async with database as opened:
            yield opened


@asynccontextmanager
async def database_over(
    store: Store,
    catalog: Catalog,
    *,
    secrets: Secrets,
    clock: Clock = system_clock,
    create_table: bool = True,
    read_only: bool = False,
    adopt_table: bool = False,
    lease_seconds: float = DEFAULT_LEASE_SECONDS,
    lease_margin_seconds: float = LEASE_MARGIN_SECONDS,
    request_life_seconds: float = REQUEST_LIFE_SECONDS,
    migrate: bool = True,
    on_progress: ProgressCallback = lambda _: None,
) -> AsyncIterator[Database]:
    """Open the table of a catalog on a store that is open. The options are those of `open_catalog`."""
    served = await retry_opening(
        lambda: prepare_table(
            store,
            catalog,
            create_table=create_table,
            read_only=read_only,
            adopt=adopt_table or read_only,
            lease_seconds=lease_seconds,
        )
    )
    schema_of_table = opened_schema(
        store,
        catalog,
        served=served,
        settles=not read_only,
        margin_seconds=lease_margin_seconds,
        life_seconds=request_life_seconds,
    )
    async with schema_of_table as schema:
        if migrate and not read_only:
            settings = MigrationSettings(
                clock=clock, margin_seconds=lease_margin_seconds, life_seconds=request_life_seconds
            )
            await migrate_at_opening(store, catalog, schema, settings, on_progress)
        yield Database(
            catalog, store, TokenSeal(secrets.tokens), clock, key_seal=RecordKeySeal(secrets.record), schema=schema
        )


@asynccontextmanager
async def opened_with_lookups(
    url: str,
    lookups: str | None,
    catalog: Catalog,
    *,
    read_only: bool = False,
    create_table: bool | None = None,
    clock: Clock = system_clock,
) -> AsyncIterator[tuple[Store, Catalog]]:
    """Open the store of a table, with the store that keeps the mapping items of its lookups, if there is one.

    Yield the store of both, and the catalog whose lookups are there.
    """
    async with opened_store(url, read_only=read_only) as store:
        if lookups is None:
            yield store, catalog
            return
        async with opened_store(lookups, read_only=read_only) as mappings:
            table = TableDefinition((), ttl_attribute=catalog.table_definition().ttl_attribute)
            creates = (creates_tables(lookups) if create_table is None else create_table) and not read_only
            prepare = partial(prepare_lookup_store, mappings, table, creates=creates, read_only=read_only)
            identity = await retry_opening(prepare)
            yield with_lookup_store(store, mappings, clock), catalog.with_lookup_store(identity)


async def retry_opening(operation: Callable[[], Awaitable[T]]) -> T:
    """Repeat an operation that is safe to repeat, until the store is available or the time for it is over."""

    def warn(problem: StoreError) -> None:
        seconds = OPENING_RETRIES.max_seconds
        log.warning("The store is not available yet, trying for %g seconds: %s", seconds, problem.message)

    return await OPENING_RETRIES.run(operation, warn)

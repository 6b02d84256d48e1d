"""The liveness probe `/healthz` and the readiness probe `/readyz`."""

import asyncio
from collections.abc import Awaitable, Callable
from logging import getLogger

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from graphql_api.database import Database
from graphql_api.errors import ShardQLError, StoreUnavailable
from graphql_api.evolution import EPOCH_KEY, TableRecord, unfinished_elements
from graphql_api.model import describe_element, element_remedy, status_data
from graphql_api.storage import CheckableStore

_NO_STORE = {"cache-control": "no-store"}
log = getLogger("shardql.health")
start_log = getLogger("shardql")


def log_unfinished_elements(database: Database) -> None:
    """Log each element that is not ready, unchecked, or unknown to the table, with the remedy."""
    if database.schema is not None:
        for status in unfinished_elements(database.schema.latest.record, database.catalog):
            start_log.warning("%s %s", describe_element(status), element_remedy(status))


class Readiness:
    """Decides whether a server is ready: it is started, not stopping, and its store responds in time.

    Concurrent probes share one check of the store (single-flight): a read of the epoch of the table's record, and for
    files a write that is read back. The copy of the record is renewed only if the epoch has changed.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._database: Database | None = None
        self._stopping = False
        self._probe: asyncio.Task[ShardQLError | None] | None = None

    def database_opened(self, database: Database) -> None:
        self._database, self._stopping = database, False

    def begin_shutdown(self) -> None:
        self._stopping = True

    async def not_ready_reason(self, open_store: Callable[[], Awaitable[object]]) -> tuple[str, str] | None:
        """Return the code and the message of the problem, or None if the server is ready.

        `open_store` opens the store of a server that opens it only on first use.
        """
        if self._stopping:
            return "STOPPING", "The server is stopping: it only finishes accepted requests."
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._probe_store(open_store))
        error = await asyncio.shield(self._probe)
        if error is None:
            return None
        # The message may reveal the location of the store to any caller of this path, so it is only logged.
        return error.code, error.summary

    async def _probe_store(self, open_store: Callable[[], Awaitable[object]]) -> ShardQLError | None:
        try:
            async with asyncio.timeout(self._seconds):
                if self._database is None:
                    await open_store()
                if self._database is not None:
                    await self._read_elements(self._database)
        except TimeoutError:
            error: ShardQLError = StoreUnavailable(f"The store did not respond within {self._seconds:g} s.")
        except ShardQLError as store_error:
            error = store_error
        else:
            return None
        log.warning("Not ready: %s", error.message)
        return error

    async def _read_elements(self, database: Database) -> None:
        if isinstance(database.store, CheckableStore):
            await database.store.check_health()
        (item,) = await database.store.get_many([EPOCH_KEY], consistent=False)
        schema = database.schema
        if item is not None and schema is not None and item["epoch"] != schema.latest.record.epoch:
            await schema.refresh()

    async def table_record(self) -> TableRecord | None:
        """Return the copy of the table's record that this process has, with the progress of a migration."""
        schema = self._database.schema if self._database is not None else None
        return await schema.current_record() if schema is not None else None

    async def _elements(self) -> list[dict[str, str]]:
        """Return the elements that are not ready, unchecked, or unknown to the table."""
        record = await self.table_record()
        if record is None or self._database is None:
            return []
        return [*map(status_data, unfinished_elements(record, self._database.catalog))]

    def routes(self) -> list[BaseRoute]:
        """Return the routes of both probes, for orchestrators and load balancers."""

        async def live(_: Request) -> Response:
            return JSONResponse({"status": "live"}, headers=_NO_STORE)

        async def ready(request: Request) -> Response:
            reason = await self.not_ready_reason(request.app.state.opened.get)
            if reason is None:
                return JSONResponse({"status": "ready", "elements": await self._elements()}, headers=_NO_STORE)
            body = {"status": "not ready", "code": reason[0], "message": reason[1]}
            return JSONResponse(body, 503, {**_NO_STORE, "retry-after": "1"})

        return [Route("/healthz", live), Route("/readyz", ready)]

"""The liveness probe `/healthz` and the readiness probe `/readyz`."""

import asyncio
from collections.abc import Awaitable, Callable
from logging import getLogger

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from graphql_api.errors import ShardQLError, StoreUnavailable
from graphql_api.evolution import TABLE_RECORD_KEY
from graphql_api.storage import Store

HEALTH, READY = "/healthz", "/readyz"
log = getLogger("shardql.health")


class Readiness:
    """Decides whether a server is ready: it is started, not stopping, and its store responds in time.

    Concurrent probes share one read of the store (single-flight): the metadata record of the table, by key.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._store: Store | None = None
        self._stopping = False
        self._probe: asyncio.Task[ShardQLError | None] | None = None

    def store_opened(self, store: Store) -> None:
        """Record that the store is open."""
        self._store, self._stopping = store, False

    def begin_shutdown(self) -> None:
        """Report the server as not ready from now on."""
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
                if self._store is None:
                    await open_store()
                if self._store is not None:
                    await self._store.get_many([TABLE_RECORD_KEY], consistent=False)
        except TimeoutError:
            error: ShardQLError = StoreUnavailable(f"The store did not respond within {self._seconds:g} s.")
        except ShardQLError as store_error:
            error = store_error
        else:
            return None
        log.warning("Not ready: %s", error.message)
        return error


def health_routes(readiness: Readiness) -> list[BaseRoute]:
    """Return the routes of both probes, for orchestrators and load balancers."""

    async def live(_: Request) -> Response:
        return _json({"status": "live"}, 200)

    async def ready(request: Request) -> Response:
        reason = await readiness.not_ready_reason(request.app.state.opened.get)
        if reason is None:
            return _json({"status": "ready"}, 200)
        code, message = reason
        return _json({"status": "not ready", "code": code, "message": message}, 503)

    return [Route(HEALTH, live, methods=["GET"]), Route(READY, ready, methods=["GET"])]


def _json(body: dict[str, str], status: int) -> Response:
    return Response(orjson.dumps(body), status, {"cache-control": "no-store"}, media_type="application/json")

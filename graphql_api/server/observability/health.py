"""`/healthz` says that the process lives, `/readyz` whether it should be given requests."""

import asyncio
from collections.abc import Awaitable, Callable
from logging import getLogger

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from graphql_api.errors import ShardQLError, StoreUnavailable
from graphql_api.evolution import META_KEY
from graphql_api.storage import Store

HEALTH, READY = "/healthz", "/readyz"
log = getLogger("shardql.health")


class Readiness:
    """Whether a server can answer: between its start and its stop, as long as the store answers in time.

    However many ask at once, the store is asked once: the table's record of itself, by its key.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._store: Store | None = None
        self._stopping = False
        self._probe: asyncio.Task[ShardQLError | None] | None = None

    def opened(self, store: Store) -> None:
        """The store is there."""
        self._store, self._stopping = store, False

    def stop(self) -> None:
        """From now on no requests should come."""
        self._stopping = True

    async def obstacle(self, open_store: Callable[[], Awaitable[object]]) -> tuple[str, str] | None:
        """Why no requests should come, as a code and in words; None where nothing speaks against it.

        `open_store` is for a server that opens its store only when it is first needed.
        """
        if self._stopping:
            return "STOPPING", "The server finishes what it has accepted."
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._ask(open_store))
        problem = await asyncio.shield(self._probe)
        if problem is None:
            return None
        # Whoever can reach this path need not know where the store is: the message is for the log.
        return problem.code, (type(problem).__doc__ or "").splitlines()[0]

    async def _ask(self, open_store: Callable[[], Awaitable[object]]) -> ShardQLError | None:
        try:
            async with asyncio.timeout(self._seconds):
                if self._store is None:
                    await open_store()
                if self._store is not None:
                    await self._store.get_many([META_KEY], consistent=False)
        except TimeoutError:
            problem: ShardQLError = StoreUnavailable(f"The store has not answered within {self._seconds:g} s.")
        except ShardQLError as refused:
            problem = refused
        else:
            return None
        log.warning("Not ready: %s", problem.message)
        return problem


def health_routes(readiness: Readiness) -> list[BaseRoute]:
    """The two paths, for whoever starts, stops and feeds servers."""

    async def live(_: Request) -> Response:
        return _json({"status": "live"}, 200)

    async def ready(request: Request) -> Response:
        obstacle = await readiness.obstacle(request.app.state.opened.get)
        if obstacle is None:
            return _json({"status": "ready"}, 200)
        code, message = obstacle
        return _json({"status": "not ready", "code": code, "message": message}, 503)

    return [Route(HEALTH, live, methods=["GET"]), Route(READY, ready, methods=["GET"])]


def _json(body: dict[str, str], status: int) -> Response:
    return Response(orjson.dumps(body), status, {"cache-control": "no-store"}, media_type="application/json")

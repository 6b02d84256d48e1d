"""The disconnect of an HTTP client, which ends the work for it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from graphql_api.runtime import StartedCoroutine

T = TypeVar("T")


async def cancel_on_disconnect(work: Coroutine[Any, Any, T], receive: Receive) -> T:
    """Return the result of the work. If the client disconnects first, cancel the work, await its end, and raise.

    Work that never waits needs no task, and no watcher of the client.
    """
    started = StartedCoroutine(work)
    return started.result if started.is_done else await _watched(started, receive)


async def _watched(work: StartedCoroutine[T], receive: Receive) -> T:
    """Continue work that waits. A disconnect ends it as a timeout does."""
    reason: Exception | None = None
    limit = asyncio.timeout(None)

    async def watch() -> None:
        nonlocal reason
        try:
            await wait_for_disconnect(receive)
            reason = ClientDisconnect()
        except Exception as problem:  # noqa: BLE001 - raised below
            reason = problem
        limit.reschedule(asyncio.get_running_loop().time())

    try:
        async with limit:
            watcher = asyncio.create_task(watch())
            try:
                return await work.finish()
            finally:
                watcher.cancel()
                await asyncio.wait([watcher])
    except TimeoutError:
        if reason is not None and limit.expired():
            raise reason from None
        raise


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass  # Drop the parts of an unread body.

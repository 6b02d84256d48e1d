"""The disconnect of an HTTP client, which ends the work for it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

T = TypeVar("T")


async def cancel_on_disconnect(work: Coroutine[Any, Any, T], receive: Receive) -> T:
    """Return the result of the work. If the client disconnects first, cancel the work, await its end, and raise."""
    work_task = asyncio.create_task(work)
    disconnect_task = asyncio.create_task(wait_for_disconnect(receive))
    try:
        await asyncio.wait({work_task, disconnect_task}, return_when=asyncio.FIRST_COMPLETED)
        if work_task.done():
            return work_task.result()
        disconnect_task.result()
        raise ClientDisconnect
    finally:
        work_task.cancel()
        disconnect_task.cancel()
        await asyncio.gather(work_task, disconnect_task, return_exceptions=True)


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass  # Drop the parts of an unread body.

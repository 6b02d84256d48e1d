"""The disconnect of an HTTP client, which ends the work for it."""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

T = TypeVar("T")


async def cancel_on_disconnect(work: Coroutine[Any, Any, T], receive: Receive) -> T:
    """Return the result of the work. If the client disconnects first, cancel the work, await its end, and raise.

    Work that never waits needs no task, and nobody has to watch the client.
    """
    try:
        waits_for = work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    return await _watched(work, waits_for, receive)


async def _watched(work: Coroutine[Any, Any, T], waits_for: Any, receive: Receive) -> T:
    """Continue work that waits. A disconnect ends it as a timeout does."""
    reason: Exception | None = None

    async def watch() -> None:
        nonlocal reason
        try:
            await wait_for_disconnect(receive)
            reason = ClientDisconnect()
        except Exception as problem:  # noqa: BLE001 - raised below
            reason = problem
        limit.reschedule(asyncio.get_running_loop().time())

    try:
        async with asyncio.timeout(None) as limit:
            watcher = asyncio.create_task(watch())
            try:
                return await _continue(work, waits_for)
            finally:
                watcher.cancel()
                await asyncio.wait([watcher])
    except TimeoutError:
        if reason is not None and limit.expired():
            raise reason from None
        raise


@coroutine
def _continue(work: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """Continue a coroutine that waits for a future, until it ends."""
    while True:
        problem: BaseException | None = None
        try:
            yield waits_for
        except BaseException as raised:  # noqa: BLE001 - passed on
            problem = raised
        try:
            waits_for = work.send(None) if problem is None else work.throw(problem)
        except StopIteration as end:
            result: T = end.value
            return result


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass  # Drop the parts of an unread body.

"""Work for a client that may leave: when it does, the work ends."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

T = TypeVar("T")


class ClientLeft(Exception):
    """The client closed its connection; there is nobody to answer."""


async def while_connected(work: Coroutine[Any, Any, T], receive: Receive) -> T:
    """What the work gives; cancels it, and waits for its end, as soon as the client has left."""
    working = asyncio.create_task(work)
    watching = asyncio.create_task(_until_left(receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        watching.result()
        raise ClientLeft
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # Parts of a body that nobody reads.

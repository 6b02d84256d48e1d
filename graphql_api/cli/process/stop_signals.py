"""Commands that run until SIGTERM or Ctrl-C."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager


async def until_stopped(stop: asyncio.Event, work: Awaitable[None]) -> None:
    """Wait for work, and cancel it if the stop signal comes first. Raise its error."""
    running, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        for task in (running, stopped):
            task.cancel()
        await asyncio.gather(running, stopped, return_exceptions=True)


@asynccontextmanager
async def stop_signal() -> AsyncIterator[asyncio.Event]:
    """Provide an event that SIGTERM and Ctrl-C set."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    signals = (signal.SIGTERM, signal.SIGINT)
    for one in signals:
        loop.add_signal_handler(one, stop.set)
    try:
        yield stop
    finally:
        for one in signals:
            loop.remove_signal_handler(one)

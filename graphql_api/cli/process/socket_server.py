"""A server on a socket: says when it listens, and stops without dropping what it has accepted."""

import asyncio
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from graphql_api.cli.process.header_limits import BoundedHeads
from graphql_api.errors import InvalidSettings
from graphql_api.server import Settings

KEEP_ALIVE_SECONDS = 75
"""longer than load balancers keep idle connections, so that none of them sends into one that is being closed"""
_STEP = 0.05


def bind(host: str, port: int) -> socket.socket:
    """A socket at an address, on which nobody listens yet."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except OSError as problem:
        why = (problem.strerror or str(problem)).lower()
        raise InvalidSettings(
            [f"Nobody can listen at {host}:{port}: {why}. Give another --port, 0 takes a free one; or another --host."]
        ) from problem
    return bound


def address_of(bound: socket.socket) -> str:
    """Where people reach it: `http://127.0.0.1:8000`."""
    host, port = bound.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """A server that is ready, then draining, then gone."""

    def __init__(
        self, app: ASGIApp, settings: Settings, *, listening: Callable[[], None], stopping: Callable[[], None]
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="on",
                http=BoundedHeads,
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                root_path=settings.root_path,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=settings.stop_seconds,
            )
        )
        self._drain_seconds = settings.drain_seconds
        self._listening = listening
        self._stopping = stopping

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as uvicorn calls it
        """A signal asks for a stop; a second Ctrl-C does not wait for anything. Neither is a failure to raise again."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Tells when requests are accepted."""
        await super().startup(sockets)
        if self.started:
            self._listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accepts requests until nobody should send any more, then finishes them."""
        self._stopping()
        for _ in range(round(self._drain_seconds / _STEP)):
            if self.force_exit:
                break
            await asyncio.sleep(_STEP)
        await super().shutdown(sockets)

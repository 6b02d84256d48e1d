"""An HTTP server on a socket, which drains accepted requests before it stops."""

import asyncio
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from graphql_api.cli.process.limited_protocol import LimitedHttpProtocol
from graphql_api.errors import InvalidSettings
from graphql_api.server import Settings

KEEP_ALIVE_SECONDS = 75
"""Longer than the idle timeout of load balancers, so that none of them sends into a connection that is closing."""
_POLL_SECONDS = 0.05


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address but does not listen yet."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = min(addresses, key=lambda one: one[0] != socket.AF_INET)
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        remedy = "Choose another --port (0 for any free port), or another --host."
        raise InvalidSettings([f"Cannot listen on {host}:{port}: {reason}. {remedy}"]) from error
    return listener


def socket_url(listener: socket.socket) -> str:
    """Return the URL of a bound socket: `http://127.0.0.1:8000`."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """A uvicorn server that reports when it listens, and accepts requests for a while after a stop signal."""

    def __init__(
        self, app: ASGIApp, settings: Settings, *, on_listening: Callable[[], None], on_stopping: Callable[[], None]
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="on",
                http=LimitedHttpProtocol,
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
        self._on_listening = on_listening
        self._on_stopping = on_stopping

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signature of uvicorn
        """Stop on a signal, and at once on a second Ctrl-C. A signal is not raised again: it is no failure."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and report that requests are accepted."""
        await super().startup(sockets)
        if self.started:
            self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept requests until load balancers have noticed the shutdown, then finish the accepted ones."""
        self._on_stopping()
        for _ in range(round(self._drain_seconds / _POLL_SECONDS)):
            if self.force_exit:
                break
            await asyncio.sleep(_POLL_SECONDS)
        await super().shutdown(sockets)

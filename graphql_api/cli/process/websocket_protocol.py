"""uvicorn's WebSocket protocol, within the limits on connections. A client that does not read is cut off."""

from asyncio import TimerHandle
from asyncio.transports import BaseTransport
from typing import ClassVar, Self

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from graphql_api.cli.process.connection_guard import ConnectionGuard

LINGER_SECONDS = 2.0
"""for which a closed connection may take to send what is in its buffer"""


class LimitedWebSocketProtocol(WebSocketsSansIOProtocol):
    """The protocol of one connection. It takes the place of the HTTP connection in the guard."""

    guard: ClassVar[ConnectionGuard] = ConnectionGuard()
    _abort_timer: TimerHandle | None = None
    _is_lost = False

    @classmethod
    def guarded(cls, guard: ConnectionGuard) -> type[Self]:
        """Return the protocol of a server with its own guard."""
        return type(cls.__name__, (cls,), {"guard": guard})

    def connection_made(self, transport: BaseTransport) -> None:
        """Count the connection, which is never silent: its client waits for events."""
        super().connection_made(transport)
        self.guard.add(self)
        self.guard.use(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._is_lost = True
        self.guard.remove(self)
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        super().connection_lost(exc)

    def keepalive_timeout(self) -> None:
        """Close the connection of a client that does not answer."""
        super().keepalive_timeout()
        self._abort_later()

    def shutdown(self) -> None:
        """Leave the end to the application, which first sends the responses to operations in progress."""
        if self.close_sent or not self.handshake_complete:
            super().shutdown()

    async def run_asgi(self) -> None:
        """Run the application, which closes the connection at its end."""
        await super().run_asgi()
        self._abort_later()

    def _abort_later(self) -> None:
        """Drop the connection if its client does not read what is still to be sent."""
        if self._abort_timer is None and not self._is_lost:
            self._abort_timer = self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    # --- what the guard can do

    def has_unread_bytes(self) -> bool:
        """Return that the connection must not be replaced."""
        return True

    def close_silently(self) -> None:
        """Close the connection."""
        self.transport.close()

    def begin_drain(self) -> None:
        """Keep the connection. The application ends it when no new connection can reach this server any longer."""

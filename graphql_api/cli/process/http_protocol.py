"""uvicorn's HTTP protocol with limits on connections and headers, early refusal under overload, and a drain.

uvicorn itself limits neither the size nor the time of a request header, nor the number of connections. When it stops,
it closes connections on which a request may be on its way.
"""

import asyncio
from collections.abc import MutableMapping
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, Self, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from graphql_api.cli.process.connection_guard import ConnectionGuard, unread_bytes
from graphql_api.cli.process.early_refusal import EarlyRefusal

_ANSWERED = SimpleNamespace(response_complete=True, message_event=asyncio.Event())
"""in place of the cycle of a request that was answered without the application"""
_LINE_BYTES = 4
"""of a header line in addition to name and value: a colon, a space and the line break"""


class Refusal(NamedTuple):
    """A plain-text response after which a connection is closed. The request has no media type, or is incomplete."""

    status: str
    text: str
    headers: str = ""

    def encode(self) -> bytes:
        """Return the bytes of the response."""
        body = self.text.encode()
        head = f"HTTP/1.1 {self.status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {len(body)}\r\n"
        return f"{head}{self.headers}connection: close\r\n\r\n".encode() + body


TOO_LARGE = Refusal(
    "431 Request Header Fields Too Large", "The header of the request is larger than the server accepts."
)
TOO_MANY = Refusal("503 Service Unavailable", "The server has too many connections.", "retry-after: 1\r\n")


class LimitedHttpProtocol(HttpToolsProtocol):
    """The protocol of one connection. All connections of a server share a guard."""

    max_head_bytes: ClassVar[int] = 64 << 10
    head_timeout: ClassVar[float] = 10.0
    """seconds for the header of a request, and for the first byte of a new connection"""
    linger_seconds: ClassVar[float] = 1.0
    """for which a stopping server keeps a silent connection open: a request may be on its way"""
    guard: ClassVar[ConnectionGuard] = ConnectionGuard()

    _heads_started = 0
    _head_is_open = False
    _message_is_open = False
    _head_bytes = 0
    """of the request line and the headers that the parser has reported"""
    _unparsed_bytes = 0
    """of an unfinished header, as received"""
    _pending_refusal: Refusal | None = None
    """sent after the response to an earlier request"""
    _closes_after_message = False
    """whether the connection closes when the body of a request has arrived, which was answered before"""
    _closes_for_drain = False
    """whether the present response closes the connection because of the drain"""
    _silent_since = 0.0
    _silent_until = 0.0
    """the time until which the timer is to be extended: cheaper than a new timer for each request"""
    _timer: asyncio.TimerHandle | None = None

    @classmethod
    def guarded(cls, guard: ConnectionGuard) -> type[Self]:
        """Return the protocol of a server with its own guard."""
        return type(cls.__name__, (cls,), {"guard": guard})

    # --- connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request. Refuse the connection if there are too many."""
        super().connection_made(transport)
        self._silent_since = self.loop.time()
        self._set_timer(self.head_timeout)
        if not self.guard.add(self):
            self._refuse(TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
        self._set_timer(None)
        self.guard.remove(self)
        super().connection_lost(exc)

    def has_unread_bytes(self) -> bool:
        """Return whether bytes of the client have arrived that the process has not read yet."""
        return unread_bytes(self.transport.get_extra_info("socket").fileno()) > 0

    def close_silently(self) -> None:
        """Close the connection, on which no request is in progress."""
        self._set_timer(None)
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # The client does not read the last response.
        else:
            self.transport.close()

    # --- requests

    def data_received(self, data: bytes) -> None:
        """Parse a read, and count the bytes of an unfinished header. Under overload, plain requests are not parsed."""
        if self._pending_refusal is not None or self.transport.is_closing():
            return
        if not self._message_is_open and self._refuse_unparsed(data):
            return
        heads_started, continues_message = self._heads_started, self._message_is_open and not self._head_is_open
        super().data_received(data)
        if not self._head_is_open or self.transport.is_closing():
            return
        if self._heads_started == heads_started:
            self._unparsed_bytes += len(data)
        else:
            # If the read starts with another request, how much of it is header is only known as far as it was parsed.
            is_only_head = self._heads_started == heads_started + 1 and not continues_message
            self._unparsed_bytes = len(data) if is_only_head else 0
            self._set_timer(self.head_timeout)
        if max(self._head_bytes, self._unparsed_bytes) > self.max_head_bytes:
            self._refuse(TOO_LARGE)

    def on_message_begin(self) -> None:
        """Note the start of a header."""
        self._heads_started += 1
        self._head_is_open = self._message_is_open = True
        self._head_bytes = self._unparsed_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the bytes of the request line."""
        self._head_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count the bytes of a header line."""
        self._head_bytes += len(name) + len(value) + _LINE_BYTES
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Note the end of a header. Refuse the request if it is too large, or if the server is overloaded."""
        self._head_is_open = False
        self._set_timer(None)
        if self._pending_refusal is not None or self.transport.is_closing():
            self._ignore_message()
        elif self._head_bytes > self.max_head_bytes:
            self._refuse(TOO_LARGE)
            self._ignore_message()
        elif not self._refuse_early():
            previous = self.cycle if self._has_open_cycle else None
            super().on_headers_complete()
            self.guard.use(self)
            if self.parser.should_upgrade() and self._should_upgrade():
                return
            if self.guard.is_draining:
                self._close_after_response(previous)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the protocol of WebSockets."""
        self._set_timer(None)
        self.guard.remove(self)
        super().handle_websocket_upgrade()

    def on_message_complete(self) -> None:
        """Note the end of a request."""
        self._message_is_open = False
        super().on_message_complete()
        if self._closes_after_message:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless others have arrived already."""
        super().on_response_complete()
        if self.transport.is_closing() or self.pipeline:
            return
        if self._pending_refusal is not None:
            self._send_refusal(self._pending_refusal)
        else:
            self._become_silent()

    def _become_silent(self) -> None:
        self._silent_since = self.loop.time()
        self.guard.release(self)
        if not self._head_is_open:
            self._set_timer(self.timeout_keep_alive)

    @property
    def _early_refusal(self) -> EarlyRefusal | None:
        """What may answer the next request, unless its client must wait for an earlier response, or does not read."""
        guard = self.guard
        return None if guard.is_draining or self._has_open_cycle or self.flow.write_paused else guard.refusal

    def _refuse_unparsed(self, data: bytes) -> bool:
        """Send a response if the server is overloaded, and the data is one plain request."""
        refusal = self._early_refusal
        if refusal is None:
            return False
        response = refusal.unparsed_response(data, len(self.tasks), self.server_state.default_headers)
        if response is None:
            return False
        self.transport.write(response)
        self.guard.renew(self)
        self._silent_since = self.loop.time()
        self._silent_until = self._silent_since + self.timeout_keep_alive
        return True

    def _refuse_early(self) -> bool:
        """Send a response if the server is overloaded, and let uvicorn drop the body of the request."""
        refusal, parser = self._early_refusal, self.parser
        if refusal is None or parser.get_method() != b"POST":
            return False
        scope, path = cast(MutableMapping[str, Any], self.scope), self.url.partition(b"?")[0]
        closes = not parser.should_keep_alive()
        response = refusal.response(scope, path, len(self.tasks), self.server_state.default_headers, closes=closes)
        if response is None:
            return False
        self._closes_after_message = closes
        self.transport.write(response)
        self._ignore_message()
        self.guard.use(self)
        self._become_silent()
        if self._closes_after_message:
            self._set_timer(self.head_timeout)
        return True

    def _ignore_message(self) -> None:
        """Let uvicorn drop the body of a request that was answered."""
        if not self._has_open_cycle:
            self.cycle = cast(RequestResponseCycle, _ANSWERED)

    @property
    def _has_open_cycle(self) -> bool:
        """Whether the response to an earlier request is not complete."""
        cycle = cast(RequestResponseCycle | None, self.cycle)
        return cycle is not None and not cycle.response_complete

    # --- drain

    def begin_drain(self) -> None:
        """Let the response to the present request say that the connection closes."""
        if self._has_open_cycle:
            self._close_after_response(None)

    def _close_after_response(self, previous: RequestResponseCycle | None) -> None:
        """Close the connection after the latest request, and not after a previous one of the same connection."""
        if self._closes_for_drain and previous is not None and not previous.response_started:
            previous.keep_alive = True
        if self.cycle.keep_alive and not self.cycle.response_started:
            self._closes_for_drain = True
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """Close the connection after the present response, or when it has been silent for a while."""
        self.begin_drain()
        if not self._message_is_open and not self._has_open_cycle:
            self._set_timer(max(0.0, self._silent_since + self.linger_seconds - self.loop.time()))

    # --- timeouts and refusals

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._silent_until = 0.0
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._on_timeout)

    def _on_timeout(self) -> None:
        if not self._head_is_open:
            remaining = self._silent_until - self.loop.time()
            if remaining > 0:
                self._set_timer(remaining)
            else:
                self.close_silently()
        elif self._has_open_cycle:
            self._set_timer(self.head_timeout)  # The response to the previous request comes first.
        else:
            text = f"The header of the request did not arrive within {self.head_timeout:g} s."
            self._refuse(Refusal("408 Request Timeout", text))

    def _refuse(self, refusal: Refusal) -> None:
        """Send a refusal and close the connection, after the response to an earlier request."""
        self._set_timer(None)
        if self._has_open_cycle:
            self._pending_refusal = refusal
        else:
            self._send_refusal(refusal)

    def _send_refusal(self, refusal: Refusal) -> None:
        self.transport.write(refusal.encode())
        self.transport.close()

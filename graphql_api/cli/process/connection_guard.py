"""The connections of one server: their number, which of them are silent, and whether the server is draining."""

import sys
from array import array
from itertools import chain, islice
from logging import getLogger
from typing import Protocol

from graphql_api.cli.process.early_refusal import EarlyRefusal

if sys.platform != "win32":
    import resource
    from fcntl import ioctl
    from termios import FIONREAD

_OTHER_FILES = 512
"""files of a process that are no connections of clients: those of the store, and their connections"""
_MAX_EXAMINED = 64
"""silent connections that are examined for one new connection"""
log = getLogger("shardql")


def raise_file_limit(connections: int) -> None:
    """Let the process open enough files for a number of connections. Warn if the system does not permit it."""
    if sys.platform == "win32":
        return
    needed = connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    permitted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (permitted, hard))
    if permitted < needed:
        log.warning(
            "The process may open %d files, and %d connections need up to %d: raise the limit (ulimit -Hn), or lower "
            "SHARDQL_MAX_CONNECTIONS.",
            permitted,
            connections,
            needed,
        )


def unread_bytes(file: int) -> int:
    """Return how many bytes the kernel has received on a socket, and the process has not read yet."""
    if sys.platform == "win32":
        return 0
    count = array("i", [0])
    ioctl(file, FIONREAD, count)
    return count[0]


class Connection(Protocol):
    """What the guard can do with a connection."""

    def has_unread_bytes(self) -> bool:
        """Return whether bytes of the client have arrived that the process has not read yet."""

    def close_silently(self) -> None:
        """Close the connection, on which no request is in progress."""

    def begin_drain(self) -> None:
        """Let the response to the present request say that the connection closes."""


class ConnectionGuard:
    """Limits the number of connections. A new one replaces the one that has been silent for the longest time.

    A connection is not silent if a request has arrived that a busy process has not read yet.
    """

    def __init__(self, max_connections: int = 1000, refusal: EarlyRefusal | None = None) -> None:
        self.refusal = refusal
        self.is_draining = False
        self._max_connections = max_connections
        self._all: set[Connection] = set()
        # Ordered by the beginning of their silence.
        self._new: dict[Connection, None] = {}
        """connections without a complete request so far"""
        self._idle: dict[Connection, None] = {}
        """connections between two requests"""

    def __len__(self) -> int:
        return len(self._all)

    def add(self, connection: Connection) -> bool:
        """Add a new connection, in place of a silent one if there are too many. Return False if all are in use."""
        has_place = len(self._all) < self._max_connections or self._close_silent()
        if has_place:
            self._all.add(connection)
            self._new[connection] = None
        return has_place

    def remove(self, connection: Connection) -> None:
        """Forget a connection that is lost."""
        self._all.discard(connection)
        self.use(connection)

    def use(self, connection: Connection) -> None:
        """Note that a request is in progress on a connection."""
        self._new.pop(connection, None)
        self._idle.pop(connection, None)

    def release(self, connection: Connection) -> None:
        """Note that a connection waits for its next request."""
        if connection in self._all:
            self._idle[connection] = None

    def renew(self, connection: Connection) -> None:
        """Note that a request was answered at once: its connection is the last one to be replaced."""
        if connection in self._all:
            self._new.pop(connection, None)
            self._idle.pop(connection, None)
            self._idle[connection] = None

    def begin_drain(self) -> None:
        """Let each connection close after its present or its next response."""
        self.is_draining = True
        for connection in self._all:
            connection.begin_drain()

    def _close_silent(self) -> bool:
        """Close a silent connection, first of those that have never sent a request."""
        examined = islice(chain(self._new, self._idle), _MAX_EXAMINED)
        silent = next((connection for connection in examined if not connection.has_unread_bytes()), None)
        if silent is None:
            return False
        self.remove(silent)
        silent.close_silently()
        return True

"""The backlog of a listening socket: connections that the kernel has established, and no process has accepted yet.

They wait there unseen by admission control. Closing the socket resets them, though their clients may have sent a
request already.
"""

import asyncio
import ctypes
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from select import select
from typing import Any

_SO_ATTACH_FILTER = 26
_DROP_SYN = (
    (0x30, 0, 0, 13),  # load the flags: byte 13 of the TCP header
    (0x45, 0, 1, 0x02),  # if SYN is set
    (0x06, 0, 0, 0),  # drop the segment
    (0x06, 0, 0, 0xFFFFFFFF),  # otherwise keep it
)
"""a classic BPF program: operation, jump if true, jump if false, operand"""
MAX_ACCEPTED = 16
"""connections that a process accepts in one iteration of its event loop; others may go to other processes"""
_RETRY_SECONDS = 1.0
"""until connections are accepted again, after the system had no files or memory for them"""
_POLL_SECONDS = 0.01
_EMPTY_SECONDS = 0.03
"""after which an empty backlog stays empty, if clients are near"""
_MAX_SECONDS = 2.0
"""for which a backlog is emptied on a system where new connections arrive all the time"""


class BacklogAcceptor:
    """Accepts the connections of a backlog, in addition to the server of an event loop.

    The server of uvloop accepts one connection in each iteration of its event loop. Under load, an iteration takes
    many milliseconds, and new connections would wait for seconds.
    """

    def __init__(self, listener: socket.socket, create_protocol: Callable[[], asyncio.Protocol]) -> None:
        self._loop = asyncio.get_running_loop()
        self._create_protocol = create_protocol
        self._listener = listener.dup()  # The event loop refuses to watch the file descriptor of its server.
        self._listener.setblocking(False)
        self._connecting = set[asyncio.Task[Any]]()
        self._timer: asyncio.TimerHandle | None = None
        self._watch()

    def stop(self) -> None:
        """Accept no more connections."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()

    def _watch(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(MAX_ACCEPTED):
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # The server of the event loop reports it.
                self._loop.remove_reader(self._listener)
                self._timer = self._loop.call_later(_RETRY_SECONDS, self._watch)
                return
            connection.setblocking(False)
            task = self._loop.create_task(self._loop.connect_accepted_socket(self._create_protocol, connection))
            self._connecting.add(task)
            task.add_done_callback(self._connected)

    def _connected(self, task: asyncio.Task[Any]) -> None:
        self._connecting.discard(task)
        if not task.cancelled():
            task.exception()  # The client is gone already. asyncio would log an exception that nothing retrieves.


def refuse_new_connections(listener: socket.socket) -> bool:
    """Let the kernel drop attempts to connect. Return False on a system without socket filters.

    Established connections stay. Clients repeat the attempt after a second, and are refused when the socket is closed.
    """
    instructions = b"".join(struct.pack("HBBI", *instruction) for instruction in _DROP_SYN)
    program = ctypes.create_string_buffer(instructions, len(instructions))
    with suppress(OSError):
        listener.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(_DROP_SYN), ctypes.addressof(program))
        )
        return True
    return False


async def wait_until_accepted(listener: socket.socket, round_trip_seconds: float) -> None:
    """Wait until the event loop has accepted all connections of the backlog.

    `round_trip_seconds`: for which the last message of a client that is being connected may be on its way.
    """
    now = asyncio.get_running_loop().time
    ends, empty_since = now() + _MAX_SECONDS, now()
    while now() - empty_since < max(_EMPTY_SECONDS, round_trip_seconds) and now() < ends:
        await asyncio.sleep(_POLL_SECONDS)
        has_waiting, _, _ = select([listener], [], [], 0)
        if has_waiting:
            empty_since = now()

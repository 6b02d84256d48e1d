"""A process with a share of a CPU: it is stopped for a part of each period, as a container with a quota is."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

_PERIOD_SECONDS = 0.1


@contextmanager
def cpu_quota(pid: int, share: float) -> Iterator[None]:
    """Let a process run for this share of the time only, while the block runs."""
    ended = Event()

    def alternate() -> None:
        with suppress(ProcessLookupError):
            while not ended.wait(share * _PERIOD_SECONDS):
                os.kill(pid, signal.SIGSTOP)
                ended.wait((1 - share) * _PERIOD_SECONDS)
                os.kill(pid, signal.SIGCONT)

    thread = Thread(target=alternate, name="CPU quota")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()

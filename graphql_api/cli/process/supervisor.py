"""Several processes that answer at one port, and the one that looks after them.

One that dies is started again; one that cannot even start ends the server. A stop reaches all of them, and their end is
waited for. Each holds a pipe from the first process: when that one is gone, however it went, they stop too.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from logging import getLogger
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from shutil import rmtree
from tempfile import TemporaryDirectory

import typer
from prometheus_client.multiprocess import mark_process_dead

from graphql_api.cli.exit_codes import errors_told
from graphql_api.cli.process.log_output import set_up_logs
from graphql_api.cli.process.worker import Serving, run_one
from graphql_api.server.observability import SHARED_FOLDER

LOOK_SECONDS = 0.1
RESTART_SECONDS = 1.0
"""between the death of a process and the start of the next, so that one that keeps dying does not use up the machine"""
SPARE_SECONDS = 5.0
"""beyond what a process may take to stop, before it is ended"""

log = getLogger("shardql.workers")
SPAWN = get_context("spawn")


class Worker:
    """One process, and the pipe that it tells by that it listens."""

    def __init__(self, serving: Serving, bound: socket.socket) -> None:
        ours, theirs = SPAWN.Pipe()
        self.pipe: Connection = ours
        self.listens = False
        self.process: SpawnProcess = SPAWN.Process(target=_work, args=(serving, bound, theirs))
        self.process.start()
        theirs.close()

    def look(self) -> None:
        """Takes note of what it tells."""
        with suppress(EOFError, OSError):
            if not self.listens and self.pipe.poll():
                self.listens = bool(self.pipe.recv())

    def signal(self, number: int) -> None:
        """Passes a signal on, if it lives."""
        if self.process.pid is not None and self.process.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)


class Workers:
    """The processes of one server."""

    def __init__(self, serving: Serving, bound: socket.socket) -> None:
        self._serving = serving
        self._bound = bound
        self._all: list[Worker] = []
        self._signals: list[int] = []

    def run(self, listening: Callable[[], None]) -> int:
        """Serves until a signal asks for a stop; the exit code of the server."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: self._signals.append(number))
        with TemporaryDirectory(prefix="shardql-metrics-") as folder:
            os.environ[SHARED_FOLDER] = folder
            self._all = [Worker(self._serving, self._bound) for _ in range(self._serving.settings.workers)]
            try:
                return self._watch(listening, folder)
            finally:
                for worker in self._all:
                    worker.process.kill()
                    worker.process.join()
                del os.environ[SHARED_FOLDER]

    def _watch(self, listening: Callable[[], None], folder: str) -> int:
        told = False
        while not self._signals:
            wait([worker.process.sentinel for worker in self._all], LOOK_SECONDS)
            for at, worker in enumerate(self._all):
                worker.look()
                if not worker.process.is_alive() and not self._signals:
                    code = worker.process.exitcode or 0
                    if not worker.listens:
                        self._stop()
                        return code
                    log.warning("Process %s ended with %s: another one takes its place.", worker.process.pid, code)
                    mark_process_dead(worker.process.pid, folder)  # type: ignore[no-untyped-call]
                    time.sleep(RESTART_SECONDS)
                    self._all[at] = Worker(self._serving, self._bound)
            if not told and all(worker.listens for worker in self._all):
                told = True
                listening()
        return self._stop()

    def _stop(self) -> int:
        """Asks all to stop and waits for them; a second Ctrl-C reaches them too."""
        settings = self._serving.settings
        end = time.monotonic() + settings.drain_seconds + settings.stop_seconds + SPARE_SECONDS
        self._bound.close()
        for worker in self._all:
            worker.signal(signal.SIGTERM)
        passed_on = len(self._signals)
        while any(worker.process.is_alive() for worker in self._all) and time.monotonic() < end:
            wait([worker.process.sentinel for worker in self._all if worker.process.is_alive()], LOOK_SECONDS)
            for number in self._signals[passed_on:]:
                for worker in self._all:
                    worker.signal(number)
            passed_on = len(self._signals)
        for worker in self._all:
            worker.look()
        codes = [worker.process.exitcode for worker in self._all if worker.listens or worker.process.is_alive()]
        return 0 if all(code == 0 for code in codes) else 1  # how one ends that has not served yet does not matter


def _work(serving: Serving, bound: socket.socket, pipe: Connection) -> None:
    """What a process does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until the server has handlers of its own
    settings = serving.settings
    set_up_logs(settings.log_level, settings.log_format)
    alone = threading.Event()
    threading.Thread(target=_stop_with_parent, args=(pipe, alone), daemon=True).start()
    try:
        with errors_told():
            run_one(serving, bound, lambda: pipe.send(True))
    except typer.Exit as ended:
        raise SystemExit(ended.exit_code) from None
    finally:
        if alone.is_set():  # nobody else is left to clear up
            rmtree(os.environ[SHARED_FOLDER], ignore_errors=True)


def _stop_with_parent(pipe: Connection, alone: threading.Event) -> None:
    with suppress(EOFError, OSError):
        pipe.recv()
    alone.set()
    os.kill(os.getpid(), signal.SIGTERM)

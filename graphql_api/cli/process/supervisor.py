"""A supervisor that runs several worker processes on one port.

A worker that dies is restarted; a worker that cannot start ends the server with its exit code. A stop signal reaches
all workers. uvicorn's supervisor cannot be used: it does not report when all workers listen, restarts workers that
cannot open the store, waits for hanging workers without limit, and leaves its workers running if it dies.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from logging import getLogger
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.synchronize import Event
from shutil import rmtree
from tempfile import TemporaryDirectory

import typer
from prometheus_client.multiprocess import mark_process_dead

from graphql_api.cli.exit_codes import report_errors
from graphql_api.cli.process.log_output import configure_logging
from graphql_api.cli.process.server_process import ServerConfig, run_server
from graphql_api.server.observability import MULTIPROCESS_DIRECTORY

POLL_SECONDS = 0.1
RESTART_DELAY = 1.0
"""Seconds between the death of a worker and its restart, so that a worker that keeps dying uses few resources."""
KILL_GRACE_SECONDS = 5.0
"""Extra time for a worker to stop before it is killed."""

log = getLogger("shardql.workers")
SPAWN = get_context("spawn")


class WorkerProcess:
    """A worker process, and the pipe on which it reports that it listens."""

    def __init__(self, config: ServerConfig, listener: socket.socket, stopping: Event) -> None:
        self._reports, self._worker_end = SPAWN.Pipe(duplex=False)
        self.process = SPAWN.Process(target=_run_worker, args=(config, listener, self._worker_end, stopping))
        self.process.start()

    @property
    def is_listening(self) -> bool:
        """Return whether the worker has reported that it listens. The report is never received."""
        return self._reports.poll()

    def signal(self, number: int) -> None:
        """Forward a signal, if the worker is alive."""
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, number)


class Supervisor:
    """Starts, restarts and stops the worker processes of one server."""

    def __init__(self, config: ServerConfig, listener: socket.socket) -> None:
        self._config = config
        self._listener = listener
        self._stopping = SPAWN.Event()
        """whether all workers stop, and not only one of them"""
        self._workers: list[WorkerProcess] = []
        self._signals: list[int] = []

    def run(self, on_listening: Callable[[], None]) -> int:
        """Serve until a stop signal. Return the exit code of the server."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: self._signals.append(number))
        with TemporaryDirectory(prefix="shardql-metrics-") as directory:
            os.environ[MULTIPROCESS_DIRECTORY] = directory
            self._workers = [self._start_worker() for _ in range(self._config.settings.workers)]
            try:
                return self._supervise(on_listening, directory)
            finally:
                for worker in self._workers:
                    worker.process.kill()
                    worker.process.join()
                del os.environ[MULTIPROCESS_DIRECTORY]

    def _start_worker(self) -> WorkerProcess:
        return WorkerProcess(self._config, self._listener, self._stopping)

    def _supervise(self, on_listening: Callable[[], None], metrics_directory: str) -> int:
        reported = False
        while not self._signals:
            wait([worker.process.sentinel for worker in self._workers], POLL_SECONDS)
            for index, worker in enumerate(self._workers):
                if not worker.process.is_alive() and not self._signals:
                    code = worker.process.exitcode or 0
                    if not worker.is_listening:
                        self._stop()
                        return code
                    log.warning("Worker process %s ended with %s: starting a new one.", worker.process.pid, code)
                    mark_process_dead(worker.process.pid, metrics_directory)  # type: ignore[no-untyped-call]
                    time.sleep(RESTART_DELAY)
                    self._workers[index] = self._start_worker()
            if not reported and all(worker.is_listening for worker in self._workers):
                reported = True
                on_listening()
        return self._stop()

    def _stop(self) -> int:
        """Stop all workers and wait for them. Forward a second Ctrl-C to them."""
        settings = self._config.settings
        deadline = time.monotonic() + settings.drain_seconds + settings.stop_seconds + KILL_GRACE_SECONDS
        self._listener.close()
        self._stopping.set()
        for worker in self._workers:
            worker.signal(signal.SIGTERM)
        self._signals.clear()
        while (alive := [one for one in self._workers if one.process.is_alive()]) and time.monotonic() < deadline:
            wait([worker.process.sentinel for worker in alive], POLL_SECONDS)
            while self._signals:
                number = self._signals.pop(0)
                for worker in alive:
                    worker.signal(number)
        # The exit code of a worker that has never listened does not matter.
        codes = [one.process.exitcode for one in self._workers if one.is_listening or one.process.is_alive()]
        return 0 if all(code == 0 for code in codes) else 1


def _run_worker(config: ServerConfig, listener: socket.socket, reports: Connection, stopping: Event) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Replaced by the handlers of the server.
    settings = config.settings
    configure_logging(settings.log_level, settings.log_format)
    orphaned = threading.Event()
    threading.Thread(target=_stop_with_supervisor, args=(orphaned,), daemon=True).start()

    def closes_port() -> bool:
        return stopping.is_set() or orphaned.is_set()

    try:
        with report_errors():
            run_server(config, listener, lambda: reports.send(True), closes_port)
    except typer.Exit as exit_request:
        raise SystemExit(exit_request.exit_code) from None
    finally:
        if orphaned.is_set():  # The supervisor is gone and cannot remove the directory.
            rmtree(os.environ[MULTIPROCESS_DIRECTORY], ignore_errors=True)


def _stop_with_supervisor(orphaned: threading.Event) -> None:
    """Wait until the supervisor is dead, then stop this process."""
    supervisor = parent_process()
    if supervisor is not None:
        supervisor.join()
        orphaned.set()
        os.kill(os.getpid(), signal.SIGTERM)

"""Group commit: the single writer thread of a process commits all waiting jobs in one transaction.

It is no `RequestCoalescer`, because callers of several event loops share the thread.
"""

import sqlite3
from asyncio import AbstractEventLoop, Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any

from graphql_api.errors import StoreError, StoreUnavailable, for_one_of_several
from graphql_api.storage.engines.sqlite.database_file import STORAGE_PROBLEMS, connect_writer, write_error
from graphql_api.storage.engines.sqlite.file_watch import FileWatch
from graphql_api.storage.engines.sqlite.table_layout import TableLayout, load_layout, version_and_highest
from graphql_api.storage.engines.sqlite.writer_jobs import WriterJob, WriteTransaction

MAX_WRITES_PER_COMMIT = 10_000


class GroupCommitWriter:
    """The writer thread. Accepts jobs from event loops, and resolves the future of a job only after its commit."""

    def __init__(self, path: Path, watch: FileWatch) -> None:
        self._path = path
        self._watch = watch
        self.busy_since: float | None = None
        """monotonic time at which the commit in progress has begun"""
        self.failure: StoreError | None = None
        """of the last commit, if it failed"""
        self._jobs: SimpleQueue[WriterJob | None] = SimpleQueue()
        self._sql = connect_writer(path)
        self._layout: TableLayout | None = None
        self._thread = Thread(target=self._run, name=f"writer of {path.name}", daemon=True)
        self._thread.start()

    def submit(self, job: WriterJob) -> Future[Any]:
        """Queue a job. Its future is resolved once the job is durable or has failed."""
        self._jobs.put(job)
        return job.future

    def finish(self) -> None:
        """Complete all queued jobs and end the thread. Blocks until then."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        running = True
        while running:
            jobs, running = self._take_jobs()
            jobs = [job for job in jobs if not job.future.cancelled()]
            if jobs:
                self.busy_since = monotonic()
                self._commit(jobs)
                self.busy_since = None
                _resolve_futures(jobs)
        self._sql.close()

    def _take_jobs(self) -> tuple[list[WriterJob], bool]:
        """Wait for a job, then take all queued jobs. Return False with them if the writer must stop."""
        job = self._jobs.get()
        jobs: list[WriterJob] = []
        weight = 0
        while job is not None:
            jobs.append(job)
            weight += job.weight
            if weight >= MAX_WRITES_PER_COMMIT:
                return jobs, True
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return jobs, True
        return jobs, False

    def _commit(self, jobs: list[WriterJob]) -> None:
        """Apply the jobs in one transaction. Each job then has its result or its problem."""
        if self._layout is not None:
            for job in jobs:
                with suppress(Exception):  # It occurs again, and is reported, under the lock.
                    job.prepare_for(self._layout)
        committing = False
        try:
            self._watch.check()
            self._sql.execute("BEGIN IMMEDIATE")
            transaction = self._transaction()
            for job in jobs:
                self._apply(job, transaction)
                if job.changes_layout:
                    transaction = self._transaction()
            committing = True
            self._sql.execute("COMMIT")
            self._watch.check()
            self.failure = None
        except Exception as problem:  # noqa: BLE001 - SQLite, or a bug: the callers receive it, and the thread keeps running
            self._layout = None  # it may stem from the transaction that was rolled back
            with suppress(sqlite3.Error):  # the next BEGIN reports a persistent problem
                if self._sql.in_transaction:
                    self._sql.execute("ROLLBACK")
            for job in jobs:
                job.problem = self._commit_error(problem, committing=committing)
            if isinstance(job.problem, StoreError):
                self.failure = job.problem

    def _commit_error(self, problem: Exception, *, committing: bool) -> Exception:
        """Return the error of one job of a failed commit. Each caller gets its own, since handlers may add to it."""
        if isinstance(problem, STORAGE_PROBLEMS):
            return write_error(self._path, problem, committing=committing)
        if isinstance(problem, StoreError) and committing:
            return StoreUnavailable("{problem} The last write may be lost.", problem=problem)
        return for_one_of_several(problem) if isinstance(problem, StoreError) else problem

    def _apply(self, job: WriterJob, transaction: WriteTransaction) -> None:
        self._sql.execute("SAVEPOINT job")
        try:
            if not job.changes_layout:
                job.prepare_for(transaction.layout)
            job.result = job.apply(transaction)
        except STORAGE_PROBLEMS:
            raise
        except Exception as problem:  # noqa: BLE001 - a refusal or a bug: the other jobs of the commit proceed
            self._sql.execute("ROLLBACK TO job")
            job.problem = problem
        self._sql.execute("RELEASE job")

    def _transaction(self) -> WriteTransaction:
        version, highest = version_and_highest(self._sql)
        if self._layout is None or self._layout.version != version:
            self._layout = load_layout(self._sql)
        return WriteTransaction(self._sql, self._layout, highest)


def _resolve_futures(jobs: list[WriterJob]) -> None:
    """Resolve the futures with one callback per event loop, which is much faster than one per job."""
    by_loop: dict[AbstractEventLoop, list[WriterJob]] = {}
    for job in jobs:
        by_loop.setdefault(job.future.get_loop(), []).append(job)
    for loop, jobs_of_loop in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed, so no caller waits
            loop.call_soon_threadsafe(_set_results, jobs_of_loop)


def _set_results(jobs: list[WriterJob]) -> None:
    for job in jobs:
        if job.future.done():  # the caller was cancelled
            continue
        if job.problem is None:
            job.future.set_result(job.result)
        else:
            job.future.set_exception(job.problem)

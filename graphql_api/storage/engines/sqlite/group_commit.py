"""Group commit: the single writer thread of a process commits all waiting jobs in one transaction."""

import sqlite3
from asyncio import AbstractEventLoop, Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from graphql_api.storage.engines.sqlite.database_file import begin_error, connect_writer, unavailable_error
from graphql_api.storage.engines.sqlite.table_layout import TableLayout, layout_version, load_layout
from graphql_api.storage.engines.sqlite.write_transaction import WriteTransaction
from graphql_api.storage.engines.sqlite.writer_jobs import WriterJob

MAX_WRITES_PER_COMMIT = 10_000

JobResult = tuple[WriterJob, Any, BaseException | None]


class GroupCommitWriter:
    """The writer thread. Accepts jobs from event loops, and resolves the future of a job only after its commit."""

    def __init__(self, path: Path, index_lag: int) -> None:
        self._path = path
        self._index_lag = index_lag
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
                _resolve_futures(self._commit(jobs))
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

    def _commit(self, jobs: list[WriterJob]) -> list[JobResult]:
        for job in jobs:
            self._prepare_before_lock(job)
        try:
            self._sql.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as problem:
            return [(job, None, begin_error(self._path, problem)) for job in jobs]
        try:
            results = self._apply_all(jobs)
            self._sql.execute("COMMIT")
        except sqlite3.Error as problem:
            self._roll_back()
            return [(job, None, unavailable_error(self._path, problem)) for job in jobs]
        except Exception as problem:  # noqa: BLE001 - a bug: the callers receive it, and the thread keeps running
            self._roll_back()
            return [(job, None, problem) for job in jobs]
        return results

    def _prepare_before_lock(self, job: WriterJob) -> None:
        """Prepare a job before the lock is taken. Errors occur again, and are reported, under the lock."""
        if self._layout is not None:
            try:
                job.prepare(self._layout)
            except Exception:  # noqa: BLE001 - a bug: the thread keeps running
                job.prepared_for = None

    def _apply_all(self, jobs: list[WriterJob]) -> list[JobResult]:
        self._refresh_layout()
        transaction = self._transaction()
        results = []
        for job in jobs:
            results.append(self._apply(job, transaction))
            if job.changes_layout:
                self._refresh_layout()
                transaction = self._transaction()
        if self._layout is not None and self._index_lag:
            transaction.catch_up_entries(self._index_lag)
        return results

    def _apply(self, job: WriterJob, transaction: WriteTransaction) -> JobResult:
        self._sql.execute("SAVEPOINT job")
        try:
            if not job.changes_layout and job.prepared_for is not transaction.layout:
                job.prepare(transaction.layout)
            result = job.apply(transaction)
        except sqlite3.Error:
            raise
        except Exception as problem:  # noqa: BLE001 - a refusal or a bug: the other jobs of the commit proceed
            self._sql.execute("ROLLBACK TO job")
            self._sql.execute("RELEASE job")
            return job, None, problem
        self._sql.execute("RELEASE job")
        return job, result, None

    def _refresh_layout(self) -> None:
        if self._layout is None or self._layout.version != layout_version(self._sql):
            self._layout = load_layout(self._sql)

    def _transaction(self) -> WriteTransaction:
        return WriteTransaction(self._sql, self._layout, delays_entries=self._index_lag > 0)

    def _roll_back(self) -> None:
        self._layout = None  # it may stem from the transaction that was rolled back
        with suppress(sqlite3.Error):  # the next BEGIN reports a persistent problem
            if self._sql.in_transaction:
                self._sql.execute("ROLLBACK")


def _resolve_futures(results: list[JobResult]) -> None:
    """Resolve the futures with one callback per event loop."""
    by_loop: dict[AbstractEventLoop, list[JobResult]] = {}
    for result in results:
        by_loop.setdefault(result[0].future.get_loop(), []).append(result)
    for loop, loop_results in by_loop.items():
        try:
            loop.call_soon_threadsafe(_set_results, loop_results)
        except RuntimeError:  # the loop is closed, so no caller waits
            continue


def _set_results(results: list[JobResult]) -> None:
    for job, result, problem in results:
        if job.future.done():  # the caller was cancelled
            continue
        if problem is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(problem)

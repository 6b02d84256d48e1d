"""The one writer of a process: a thread that commits together whatever is waiting."""

import sqlite3
from asyncio import AbstractEventLoop, Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from graphql_api.storage.engines.sqlite.database_file import connect_writer, not_begun, unavailable
from graphql_api.storage.engines.sqlite.table_layout import Layout, layout_version, load_layout
from graphql_api.storage.engines.sqlite.write_transaction import Transaction
from graphql_api.storage.engines.sqlite.writer_jobs import Job

MAX_IN_A_COMMIT = 10_000

Answer = tuple[Job, Any, BaseException | None]


class Writer:
    """Takes jobs from event loops and answers each of them after its commit, never before."""

    def __init__(self, path: Path, index_lag: int) -> None:
        self._path = path
        self._index_lag = index_lag
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._sql = connect_writer(path)
        self._layout: Layout | None = None
        self._thread = Thread(target=self._run, name=f"writer of {path.name}", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> Future[Any]:
        """Queues a job; its future is answered once the job is durable or has failed."""
        self._jobs.put(job)
        return job.future

    def finish(self) -> None:
        """Works off what was queued and ends the thread; blocks until then."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        going_on = True
        while going_on:
            jobs, going_on = self._waiting()
            jobs = [job for job in jobs if not job.future.cancelled()]
            if jobs:
                _deliver(self._commit(jobs))
        self._sql.close()

    def _waiting(self) -> tuple[list[Job], bool]:
        """Everything that waits by now, at least one job; False with it if it is the last."""
        job = self._jobs.get()
        jobs: list[Job] = []
        weight = 0
        while job is not None:
            jobs.append(job)
            weight += job.weight
            if weight >= MAX_IN_A_COMMIT:
                return jobs, True
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return jobs, True
        return jobs, False

    def _commit(self, jobs: list[Job]) -> list[Answer]:
        for job in jobs:
            self._prepare_early(job)
        try:
            self._sql.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as problem:
            return [(job, None, not_begun(self._path, problem)) for job in jobs]
        try:
            answers = self._apply_all(jobs)
            self._sql.execute("COMMIT")
        except sqlite3.Error as problem:
            self._roll_back()
            return [(job, None, unavailable(self._path, problem)) for job in jobs]
        except Exception as problem:  # noqa: BLE001 - a mistake of ours: its callers get it, the thread lives on
            self._roll_back()
            return [(job, None, problem) for job in jobs]
        return answers

    def _prepare_early(self, job: Job) -> None:
        """Encodes before the lock is taken; whatever goes wrong is found again, and reported, under the lock."""
        if self._layout is not None:
            try:
                job.prepare(self._layout)
            except Exception:  # noqa: BLE001 - a mistake of ours, too: the thread lives on
                job.prepared_for = None

    def _apply_all(self, jobs: list[Job]) -> list[Answer]:
        self._look_up_layout()
        transaction = self._transaction()
        answers = []
        for job in jobs:
            answers.append(self._apply(job, transaction))
            if job.redefines:
                self._look_up_layout()
                transaction = self._transaction()
        if self._layout is not None and self._index_lag:
            transaction.catch_up(self._index_lag)
        return answers

    def _apply(self, job: Job, transaction: Transaction) -> Answer:
        self._sql.execute("SAVEPOINT job")
        try:
            if not job.redefines and job.prepared_for is not transaction.layout:
                job.prepare(transaction.layout)
            answer = job.apply(transaction)
        except sqlite3.Error:
            raise
        except Exception as problem:  # noqa: BLE001 - refused, or a mistake of ours: the other jobs go on
            self._sql.execute("ROLLBACK TO job")
            self._sql.execute("RELEASE job")
            return job, None, problem
        self._sql.execute("RELEASE job")
        return job, answer, None

    def _look_up_layout(self) -> None:
        if self._layout is None or self._layout.version != layout_version(self._sql):
            self._layout = load_layout(self._sql)

    def _transaction(self) -> Transaction:
        return Transaction(self._sql, self._layout, lagging=self._index_lag > 0)

    def _roll_back(self) -> None:
        self._layout = None  # it may be of the transaction that never was
        with suppress(sqlite3.Error):  # the next BEGIN reports what is still wrong
            if self._sql.in_transaction:
                self._sql.execute("ROLLBACK")


def _deliver(answers: list[Answer]) -> None:
    """Wakes the callers, once for each event loop."""
    by_loop: dict[AbstractEventLoop, list[Answer]] = {}
    for answer in answers:
        by_loop.setdefault(answer[0].future.get_loop(), []).append(answer)
    for loop, own in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, own)
        except RuntimeError:  # the loop is closed, so nobody waits
            continue


def _settle(answers: list[Answer]) -> None:
    for job, answer, problem in answers:
        if job.future.done():  # the caller was cancelled meanwhile
            continue
        if problem is None:
            job.future.set_result(answer)
        else:
            job.future.set_exception(problem)

"""Count the store calls, reads and retries of one request.

A context variable carries the statistics into every task of the request. Outside a request nothing is counted.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class RequestStatistics:
    """The counts of one request."""

    store_calls: int = 0
    """calls of the Store port; an engine may send several requests of its own for one call"""
    records_read: int = 0
    """records that the engine examined, over all reads"""
    retries: int = 0
    """requests that an engine sent again"""
    searches: int = 0
    """pages that were read"""
    shards_asked: int = 0
    """shards that were read, over all searches"""
    records_returned: int = 0
    """records in pages and in results of reads by id"""


_current: ContextVar[RequestStatistics | None] = ContextVar("request statistics", default=None)


@contextmanager
def collect_statistics() -> Iterator[RequestStatistics]:
    """Count all store activity within the block."""
    statistics = RequestStatistics()
    token = _current.set(statistics)
    try:
        yield statistics
    finally:
        _current.reset(token)


def current_statistics() -> RequestStatistics:
    """Return the counts of the current request; zeros outside a request."""
    return _current.get() or RequestStatistics()


def count_store_call(records_read: int) -> None:
    """Count a completed call of the store and the records that it examined."""
    statistics = _current.get()
    if statistics is not None:
        statistics.store_calls += 1
        statistics.records_read += records_read


def count_retry() -> None:
    """Count a request that an engine sends again."""
    statistics = _current.get()
    if statistics is not None:
        statistics.retries += 1


def count_search(shards: int) -> None:
    """Count a search and the shards that it reads."""
    statistics = _current.get()
    if statistics is not None:
        statistics.searches += 1
        statistics.shards_asked += shards


def count_returned(records: int) -> None:
    """Count the records that a read returns."""
    statistics = _current.get()
    if statistics is not None:
        statistics.records_returned += records

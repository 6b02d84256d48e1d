"""What one request asks of the store: counted where it happens, read by whoever answers the request.

The tally goes along with the context of the request into every task that works for it. Outside of a request nothing is
counted.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """The counts of one request."""

    store_calls: int = 0
    """calls of the port; an engine may carry one out by many requests of its own"""
    records_read: int = 0
    """what the engine looked at, over all reads"""
    retries: int = 0
    """requests of the engine's own that were sent once more"""
    searches: int = 0
    """pages that were looked for"""
    shards_asked: int = 0
    """over all searches"""
    records_returned: int = 0
    """what pages and reads by id gave back"""


_current: ContextVar[Tally | None] = ContextVar("tally", default=None)


@contextmanager
def tallied() -> Iterator[Tally]:
    """Counts what is asked of the store from here on."""
    tally = Tally()
    before = _current.set(tally)
    try:
        yield tally
    finally:
        _current.reset(before)


def tally_so_far() -> Tally:
    """The counts of the present request; zeros outside of one."""
    return _current.get() or Tally()


def count_store_call(records_read: int) -> None:
    """Notes that a call of the store has ended."""
    tally = _current.get()
    if tally is not None:
        tally.store_calls += 1
        tally.records_read += records_read


def count_retry() -> None:
    """Notes that an engine sends something once more."""
    tally = _current.get()
    if tally is not None:
        tally.retries += 1


def count_search(shards: int) -> None:
    """Notes that a page is looked for in so many shards."""
    tally = _current.get()
    if tally is not None:
        tally.searches += 1
        tally.shards_asked += shards


def count_returned(records: int) -> None:
    """Notes how many records somebody got."""
    tally = _current.get()
    if tally is not None:
        tally.records_returned += records

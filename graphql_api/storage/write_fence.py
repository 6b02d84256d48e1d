"""The write fence: what must hold whenever an engine sends or applies a write of the current task.

A write is planned with a copy of the table's record. The fence stops it if the copy is too old when it is applied.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from graphql_api.errors import SchemaChanged
from graphql_api.storage.values import Check


@dataclass(frozen=True, slots=True)
class WriteFence:
    """The fence of one task. An engine uses one of its two parts, before each write."""

    check: Check
    """a condition for engines that can evaluate it within the transaction that writes"""
    verify: Callable[[], None]
    """raises a `StoreError` unless the writes may be sent now; called directly before each request to the engine"""


_fence: ContextVar[WriteFence | None] = ContextVar("write_fence", default=None)


def current_fence() -> WriteFence | None:
    """Return the fence of the current task; None: writes are always allowed."""
    return _fence.get()


@contextmanager
def fenced(fence: WriteFence) -> Iterator[None]:
    """Put a fence around all writes of the block, and of the tasks that it creates."""
    token = _fence.set(fence)
    try:
        yield
    finally:
        _fence.reset(token)


@contextmanager
def unfenced() -> Iterator[None]:
    """Send the writes of the block without a fence: they are safe at any time, or their caller has checked it."""
    token = _fence.set(None)
    try:
        yield
    finally:
        _fence.reset(token)


def schema_changed_error() -> SchemaChanged:
    """Return the error of a write whose plan is older than the last change of the table's record."""
    return SchemaChanged("The table's record has changed since this write was planned, and nothing was written: retry.")

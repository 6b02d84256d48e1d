"""The port that every engine implements.

Every engine enforces the limits of DynamoDB (docs/reference/engine-contract.md). `tests/store_contract/` tests this
contract:

- Text is ordered by its UTF-8 bytes, numbers by value. The order of index rows with equal hash key and range value is
  engine-specific, but stable; `descending` reverses it exactly.
- Key attributes are never empty. Hash keys have at most 2,048 bytes, range values 1,024, records 400 KB, and numbers 38
  digits.
- An index contains a record if and only if the record has both index attributes. A write with an attribute of the wrong
  type is refused.
- Index reads are eventually consistent. `get_many(consistent=True)` returns every acknowledged write.
- A write that returned is durable. `write` applies each write independently; `write_together` is atomic.
- `scan` is strongly consistent: it returns every item that was acknowledged before the call, as it is then or later.
- The write fence of the caller (`write_fence.py`) is checked directly before each request that writes is sent, at every
  attempt and for every part of a batch. A `ComparingStore` evaluates its condition within the transaction that writes.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from graphql_api.errors import StoreError
from graphql_api.storage.values import (
    Check,
    Item,
    Key,
    RangeRead,
    ReadResult,
    ScanPage,
    TableDefinition,
    TransactionWrite,
    Write,
)


class Store(Protocol):
    """A storage engine. Methods raise only `StoreError`."""

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        """Read ranges of several hash keys of one index. Results are in the order of `reads`.

        `want` is the number of rows that the caller can use in total. An engine that merges all shards may stop after
        `want` rows and then returns the same `scanned_to` for every read. Other engines return up to `limit` rows for
        each read. Rows that the filter excludes count toward both limits, which bounds the work of a call.

        The reads of a search may be `ShardReads`. An engine that merges shards may then return `MergedPages`. The reads
        of several searches may be `ReadGroups`, each with its own `want`. An engine may then return `GroupedPages`.
        """
        ...

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """Read records by key, in the order of `keys`. A missing record is None."""
        ...

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        """Apply each write independently, in order per key. Return the error or None of each write."""
        ...

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Apply all writes atomically: at most 100, one per key. Repeating a token has no further effect.

        After `ConditionFailed`, `Conflict` and `Throttled`, nothing was written. After any other retryable error the
        outcome is unknown. Repeating the same writes with the same token within ten minutes resolves it.
        """
        ...

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        """Read one page of a segment of the table. For maintenance only; searches never scan."""
        ...

    async def describe(self) -> TableDefinition | None:
        """Return the definition of the existing table, or None if there is no table."""
        ...

    async def ensure_table(self, definition: TableDefinition) -> None:
        """Create the table, or add missing indexes, with all records that have their attributes."""
        ...

    async def drop_index(self, name: str) -> None:
        """Remove an index, if it exists. Return when it is gone. Records stay as they are."""
        ...

    async def close(self) -> None:
        """Complete accepted requests and release all resources."""
        ...


@runtime_checkable
class CheckableStore(Store, Protocol):
    """An engine that can verify its own files, for readiness probes."""

    async def check_health(self) -> None:
        """Raise a `StoreError` if writes or reads would fail. The check is cheap enough for frequent probes."""
        ...


@runtime_checkable
class ComparingStore(Store, Protocol):
    """An engine whose reads see one order of all commits, so that comparing a condition replaces leases."""

    def forget_snapshot(self) -> None:
        """Let the next `holds` evaluate the present state, unless records are read before."""
        ...

    def holds(self, check: Check) -> bool:
        """Return whether a condition holds in a state that is no older than any read that has ended."""
        ...

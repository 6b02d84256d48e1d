"""The port that every engine implements.

An engine promises AWS's strict side (docs/engines.md; `tests/store_contract/` is this promise as tests):

- text orders by UTF-8 bytes, numbers by value; among equal (hash key, range value) of an index the order is the
  engine's own, but the same on every read, and exactly reversed by `descending`;
- key attributes are never empty; hash keys hold at most 2,048 bytes, range values 1,024, records 400 KB, numbers
  38 digits;
- an index holds a record exactly if both of its attributes are there; a wrong type is refused at the write;
- reads of an index may lag behind writes; reads of the table by `get_many(consistent=True)` never do;
- a write that returned is durable. `write` treats each write alone, `write_together` all or none.
"""

from collections.abc import Sequence
from typing import Protocol

from graphql_api.errors import StoreError
from graphql_api.storage.values import (
    Item,
    Key,
    RangeRead,
    ReadAnswer,
    ScanPage,
    TableDefinition,
    TogetherWrite,
    Write,
)


class Store(Protocol):
    """An engine behind ShardQL; methods raise `StoreError` and nothing else."""

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadAnswer]:
        """Answers several reads of one index at once, in their order.

        `want` is how many rows the caller can use at all: an engine that orders all shards at once may stop there, and
        then gives every read the same `scanned_to`; another one gives each read up to its own `limit`. Rows that a
        filter leaves out count in both, so that a call never looks at more than it was asked to.
        """
        ...

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """The records at these keys, in their order; None where there is none."""
        ...

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        """Applies each write by itself, in their order per key; tells for each whether it failed."""
        ...

    async def write_together(self, writes: Sequence[TogetherWrite], token: str) -> None:
        """Applies all writes or none (at most 100, never one key twice); the same token again changes nothing more.

        `ConditionFailed`, `Conflict` and `Throttled` are certain: nothing was written. After any other retryable error
        that is not the same writes under the same token find out, for ten minutes.
        """
        ...

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        """A part of the whole table, for upkeep only; never used to answer a search."""
        ...

    async def describe(self) -> TableDefinition | None:
        """The table as it stands, or None where there is none."""
        ...

    async def ensure_table(self, definition: TableDefinition) -> None:
        """Creates the table, or adds the indexes that are missing and fills them from the records."""
        ...

    async def close(self) -> None:
        """Finishes what was accepted and lets go of everything."""
        ...

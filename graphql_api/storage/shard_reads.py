"""The reads of many shards as one value, for engines that merge the shards of a search themselves.

A search reads the same range in each of its shards. `ShardReads` holds that range once. It is a sequence of reads, so
an engine that reads shard by shard needs not know it. An engine that finds the rows of all shards in one ordered scan
answers with `MergedPages`. That is a sequence of pages, so a caller needs not know it either.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from graphql_api.codecs import ShardHashKeys
from graphql_api.storage.values import Position, RangeRead, ReadResult, Row


class ShardReads(Sequence[RangeRead]):
    """Reads of one range in several shards. Single reads are built on first use."""

    def __init__(self, common: RangeRead, keys: ShardHashKeys, reread: int | None = None) -> None:
        self.common = common
        """a read without a shard: the reads differ from it in hash key and ordinal"""
        self.keys = keys
        self.reread = reread
        """ordinal of the shard that reads one row more, because it has to skip one"""

    @property
    def total_limit(self) -> int:
        """Return the sum of all limits."""
        return self.common.limit * len(self.keys) + (self.reread is not None)

    @cached_property
    def _reads(self) -> tuple[RangeRead, ...]:
        common, reread = self.common, self.reread
        return tuple(
            common._replace(hash_key=key, ordinal=ordinal, limit=common.limit + (ordinal == reread))
            for ordinal, key in self.keys.by_ordinal.items()
        )

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, at: Any) -> Any:
        return self._reads[at]

    def __iter__(self) -> Iterator[RangeRead]:
        return iter(self._reads)


class MergedPages(Sequence[ReadResult]):
    """The pages of all shards as their merged rows. The page of a single shard is built on first use."""

    def __init__(
        self,
        rows: Sequence[Row],
        scanned_to: Position | None,
        records_read: int,
        size: int,
        split: Callable[[], Sequence[ReadResult]],
    ) -> None:
        self.rows = rows
        """the rows of all shards in reading order, up to and including `scanned_to`"""
        self.scanned_to = scanned_to
        """the position of all shards that may have more rows; None if there is none"""
        self.records_read = records_read
        self.size = size
        self._split = split

    @cached_property
    def _pages(self) -> Sequence[ReadResult]:
        return self._split()

    def __len__(self) -> int:
        return len(self._pages)

    def __getitem__(self, at: Any) -> Any:
        return self._pages[at]

    def __iter__(self) -> Iterator[ReadResult]:
        return iter(self._pages)


def index_of(reads: Sequence[RangeRead]) -> str | None:
    """Return the index that some reads have in common; None: the table."""
    return (reads.common if isinstance(reads, ShardReads) else reads[0]).index


def total_limit(reads: Sequence[RangeRead]) -> int:
    """Return the sum of the limits of some reads."""
    return reads.total_limit if isinstance(reads, ShardReads) else sum(read.limit for read in reads)

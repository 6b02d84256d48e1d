"""The reads of many shards as one value, for engines that merge the shards of a search themselves.

A search reads the same range in each of its shards. `ShardReads` holds that range once. It is a sequence of reads, so
an engine that reads shard by shard needs not know it. An engine that finds the rows of all shards in one ordered scan
answers with `MergedPages`. That is a sequence of pages, so a caller needs not know it either.

In the same way, `ReadGroups` holds the reads of several searches, and `GroupedPages` their pages.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

from graphql_api.codecs import KeyRange, ShardHashKeys
from graphql_api.errors import StoreError
from graphql_api.storage.values import BodyFormat, EncodedRecords, Position, RangeRead, ReadResult, Row, RowPage

T = TypeVar("T")


class LazySequence(Sequence[T]):
    """A sequence whose elements are built on first use."""

    def _build(self) -> Sequence[T]:
        raise NotImplementedError

    @cached_property
    def _elements(self) -> Sequence[T]:
        return self._build()

    def __len__(self) -> int:
        return len(self._elements)

    def __getitem__(self, at: Any) -> Any:
        return self._elements[at]

    def __iter__(self) -> Iterator[T]:
        return iter(self._elements)


class ShardReads(LazySequence[RangeRead]):
    """Reads of one range in several shards. Single reads are built on first use."""

    def __init__(self, common: RangeRead, keys: ShardHashKeys, reread: int | None = None) -> None:
        self.common = common
        """a read without a shard: the reads differ from it in hash key and ordinal"""
        self.keys = keys
        self.reread = reread
        """ordinal of the shard that reads one row more, because it has to skip one"""
        self._length = len(keys)

    @property
    def total_limit(self) -> int:
        """Return the sum of all limits."""
        return self.common.limit * self._length + (self.reread is not None)

    def _build(self) -> Sequence[RangeRead]:
        common, reread = self.common, self.reread
        return tuple(
            common._replace(hash_key=key, ordinal=ordinal, limit=common.limit + (ordinal == reread))
            for ordinal, key in self.keys.by_ordinal.items()
        )

    def __len__(self) -> int:
        return self._length


class MergedPages(LazySequence[ReadResult]):
    """The pages of all shards as their merged rows. The page of a single shard is built on first use."""

    def __init__(
        self,
        rows: Sequence[Row],
        scanned_to: Position | None,
        records_read: int,
        size: int,
        split: Callable[[], Sequence[ReadResult]] | None = None,
    ) -> None:
        self.rows = rows
        """the rows of all shards in reading order, up to and including `scanned_to`"""
        self.scanned_to = scanned_to
        """the position of all shards that may have more rows; None if there is none"""
        self.records_read = records_read
        self.size = size
        self._split = split

    def _build(self) -> Sequence[ReadResult]:
        assert self._split is not None, "a subclass builds the pages otherwise"
        return self._split()


class ReadGroup(NamedTuple):
    """The reads of one search within a call for several searches."""

    reads: Sequence[RangeRead]
    want: int
    """number of rows that this search can use"""


class ReadGroups(LazySequence[RangeRead]):
    """The reads of several searches of one index and direction, in one call.

    Hash keys and ordinals are unique within a group only, and each group has its own `want`. So a wrapper that changes
    single reads makes a call for each group: see `read_each_group`.
    """

    def __init__(self, groups: Sequence[ReadGroup]) -> None:
        self.groups = groups
        self._length = sum(len(group.reads) for group in groups)

    @property
    def group_count(self) -> int:
        """Return the number of searches."""
        return len(self.groups)

    def group(self, at: int) -> ReadGroup:
        """Return the reads of one search."""
        return self.groups[at]

    @property
    def want(self) -> int:
        """Return the number of rows that all searches can use together."""
        return sum(group.want for group in self.groups)

    def _build(self) -> Sequence[RangeRead]:
        return tuple(chain.from_iterable(group.reads for group in self.groups))

    def __len__(self) -> int:
        return self._length


class RangePart(NamedTuple):
    """The reads of one search in `RangeGroups`."""

    keys: ShardHashKeys
    low: str
    high: str
    """the bounds of its range"""
    limit: int
    """of each read"""


class RangeGroups(ReadGroups):
    """The reads of several searches whose ranges differ only in their bounds. Groups are built on first use."""

    def __init__(self, common: RangeRead, each_want: int, parts: Sequence[RangePart]) -> None:
        self.common = common
        """a read without a shard, whose range has the kind of bounds of all ranges"""
        self.each_want = each_want
        """number of rows that each search can use"""
        self.parts = parts
        self._length = sum(len(part.keys) for part in parts)

    @cached_property
    def groups(self) -> Sequence[ReadGroup]:  # type: ignore[override]  # an attribute there
        """The reads of each search."""
        return [*map(self.group, range(len(self.parts)))]

    @property
    def group_count(self) -> int:
        return len(self.parts)

    def group(self, at: int) -> ReadGroup:
        keys, low, high, limit = self.parts[at]
        like = self.common.range
        key_range = KeyRange(low, high, like.low_open, like.high_open)
        return ReadGroup(ShardReads(self.common._replace(range=key_range, limit=limit), keys), self.each_want)

    @property
    def want(self) -> int:
        return self.each_want * len(self.parts)


class StoredRows(LazySequence[Row]):
    """Rows in the form in which an engine has read them. They are built on first use; their records need no rows."""

    def __init__(self, stored: Sequence[tuple[Any, ...]], body_format: BodyFormat) -> None:
        self.stored = stored
        """each ends with the body of the record"""
        self.format = body_format

    def __len__(self) -> int:
        return len(self.stored)

    def bodies(self, count: int) -> EncodedRecords:
        """Return the records of the first rows."""
        return EncodedRecords([row[-1] for row in self.stored[:count]], self.format)


class GroupedPages(LazySequence[ReadResult]):
    """The pages of each group of `ReadGroups`."""

    def __init__(self, groups: Sequence[Sequence[ReadResult]]) -> None:
        self.groups = groups

    def _build(self) -> Sequence[ReadResult]:
        return tuple(chain.from_iterable(self.groups))


# --- what wrappers and callers need to know --------------------------------------------------------------------


def index_of(reads: Sequence[RangeRead]) -> str | None:
    """Return the index that some reads have in common; None: the table."""
    return _example(reads).index


def is_descending(reads: Sequence[RangeRead]) -> bool:
    """Return the direction that some reads have in common."""
    return _example(reads).descending


def _example(reads: Sequence[RangeRead]) -> RangeRead:
    if isinstance(reads, RangeGroups):
        return reads.common
    if isinstance(reads, ReadGroups):
        reads = reads.groups[0].reads
    return reads.common if isinstance(reads, ShardReads) else reads[0]


def total_limit(reads: Sequence[RangeRead]) -> int:
    """Return the sum of the limits of some reads."""
    return reads.total_limit if isinstance(reads, ShardReads) else sum(read.limit for read in reads)


def pages_of_groups(reads: ReadGroups, results: Sequence[ReadResult]) -> Sequence[Sequence[ReadResult]]:
    """Return the pages of each group, also if an engine returns them as one sequence."""
    if isinstance(results, GroupedPages):
        return results.groups
    remaining = iter(results)
    return [[*islice(remaining, len(group.reads))] for group in reads.groups]


async def read_each_group(
    reads: ReadGroups, read: Callable[[Sequence[RangeRead], int], Awaitable[Sequence[ReadResult]]]
) -> GroupedPages:
    """Return the results of a call for each group. For wrappers that change single reads."""
    return GroupedPages([await read(*group) for group in reads.groups])


def total_records_read(results: Sequence[ReadResult]) -> int:
    """Return the number of records that an engine has examined for some pages."""
    return sum(page.records_read for page in _pages(results))


def total_size(results: Sequence[ReadResult]) -> int:
    """Return the bytes of the rows of some pages."""
    return sum(page.size for page in _pages(results))


def _pages(results: Sequence[ReadResult]) -> Iterator[RowPage | MergedPages]:
    if isinstance(results, MergedPages):
        yield results
    elif isinstance(results, GroupedPages):
        yield from chain.from_iterable(map(_pages, results.groups))
    else:
        yield from (result for result in results if isinstance(result, RowPage))


def first_failure(results: Sequence[ReadResult]) -> StoreError | None:
    """Return the error of the first read that failed."""
    if isinstance(results, MergedPages):
        return None
    if isinstance(results, GroupedPages):
        return next(filter(None, map(first_failure, results.groups)), None)
    return next((result for result in results if isinstance(result, StoreError)), None)

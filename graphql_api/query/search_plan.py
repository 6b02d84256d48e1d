"""The plan of one page of a search, as data: execution needs nothing else and decides nothing again."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from graphql_api.codecs import Column, KeyRange, RangeValue, hash_key, readable_key
from graphql_api.model import EntitySpec, IndexSpec, SortProperty
from graphql_api.query.filters import Filter, conjuncts
from graphql_api.query.index_row import RowView
from graphql_api.query.page_token import Cursor, PageToken, RecordPosition, short_description
from graphql_api.query.read_sizing import first_limit
from graphql_api.query.shard_progress import ShardProgress, Traversal
from graphql_api.storage import Item, Key, Position, RangeRead, resume_after


@dataclass(frozen=True, slots=True)
class TokenBinding:
    """What every token of a search carries besides its cursor."""

    search_name: str
    """for error messages"""
    index_digest: bytes
    search_digest: bytes
    description: str
    """the search conditions in full; tokens carry the beginning"""
    generations: int
    hour: int

    def token(self, progress: ShardProgress, selectivity_hint: int = 0) -> PageToken:
        """Return the token that resumes the search at this progress."""
        return PageToken(
            self.hour,
            self.generations,
            self.index_digest,
            self.search_digest,
            short_description(self.description),
            progress.cursor,
            selectivity_hint=selectivity_hint,
            lagging=progress.lagging,
        )


@dataclass(frozen=True, slots=True)
class IndexScan:
    """The scan of one index: a read of each shard, and the filters that its rows and records must match."""

    number: int
    """position of the index within a union, otherwise 0"""
    index: IndexSpec
    conditions: str
    """description of the conditions, for explain output and error messages"""
    hash_values: tuple[tuple[str, str], ...]
    range: KeyRange
    """range of the matches, the same for every shard"""
    shard_reads: tuple[RangeRead, ...]
    """one read of the whole range for each shard"""
    single_id: bool
    """all matches have one unique id, so each generation holds them in one shard"""
    row_view: RowView
    row_filter: Filter | None
    """part of the filter that is evaluated on rows"""
    fetches_records: bool
    """rows lack needed properties, so records are fetched by key"""
    filters_records: bool
    """part of the filter is evaluated on the fetched records"""

    @property
    def ordinals(self) -> tuple[int, ...]:
        """Return the shards that are read."""
        return tuple(read.ordinal for read in self.shard_reads)

    def contains(self, item: Item) -> bool:
        """Check whether a record is in the range of this scan, by the index keys that are stored with it."""
        value = item.get(self.index.range_attribute)
        if value is None or not self.range.contains(value):
            return False
        hash_key = item.get(self.index.hash_attribute)
        return any(read.hash_key == hash_key for read in self.shard_reads)

    def cursor_at(self, position: Position) -> Cursor:
        """Return the cursor after a row; where rows may tie, it names the record."""
        record = RecordPosition(_shard_ordinal(position.key.hash), position.key.range) if self.index.raw else None
        return Cursor(self.number, position.value, position.ordinal, record)

    def describe(self) -> dict[str, Any]:
        """Return the scan for explain output."""
        return {
            "index": self.index.name,
            "physicalIndex": self.index.physical,
            "conditions": self.conditions,
            "order": [f"{column.name}{' desc' if column.descending else ''}" for column in _order(self.index)],
            "range": _describe_range(self.range),
        }


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """The plan of one page of one search."""

    entity: EntitySpec
    tenant: str | None
    principal: str | None
    scans: tuple[IndexScan, ...]
    """scans in the order of the result: one, or one for each index of a union"""
    union: str | None
    """name of the union, if the search is one"""
    filter: Filter | None
    order_by: SortProperty | None
    """property that sorts the whole result, which is then a single page"""
    limit: int
    reverse: bool
    backward: bool
    resumed: bool
    """the page starts at a token"""
    traversal: Traversal
    partial: bool
    """failing shards are skipped and retried on a later page"""
    read_budget: int
    """records that the engine may examine before the page ends early"""
    selectivity_hint: int
    """log2 of the records scanned for each match on the previous page; 0 if unknown"""
    selected: frozenset[str] | None
    """Python names of the needed properties; None: all"""
    token_binding: TokenBinding
    now: float
    why: str | None = None
    """reason for the choice of the index"""

    @property
    def descending(self) -> bool:
        """Return the direction in which engines read."""
        return self.reverse != self.backward

    @property
    def ordinals(self) -> tuple[int, ...]:
        """Return all shards that are read."""
        return tuple(dict.fromkeys(ordinal for scan in self.scans for ordinal in scan.ordinals))

    @property
    def first_reads(self) -> list[RangeRead]:
        """Return the reads of the first round."""
        return self._first_scan()[1]

    def reads_of(
        self, scan: IndexScan, progress: ShardProgress, count: int, excluded: Collection[int] = ()
    ) -> list[RangeRead]:
        """Return the first reads of a scan that resumes at this progress, to find `count` records.

        Shards in `excluded` are not read.
        """
        remaining = [
            (read, position)
            for shard_read in scan.shard_reads
            if shard_read.ordinal not in excluded
            for cursor in [progress.cursor_of(shard_read.ordinal)]
            for position in [self._position(scan, cursor)]
            if (read := self._remaining_read(scan, shard_read, cursor, position)) is not None
        ]
        if not remaining:
            return []
        hint = 0 if scan.filters_records else self.selectivity_hint
        limit = first_limit(count, len(remaining), selectivity_hint=hint, single_id=scan.single_id)
        limit = min(limit, -(-self.read_budget // len(remaining)))
        return [_with_limit(read, limit, position) for read, position in remaining]

    def describe(self) -> dict[str, Any]:
        """Return the plan for tests, explain output and logs."""
        scan, reads = self._first_scan()
        description = {
            **({} if self.why is None else {"why": self.why}),
            "entity": self.entity.type_name,
            **scan.describe(),
            "reverse": self.reverse,
            "backward": self.backward,
            "resumed": self.resumed,
            "shards": len(reads),
            "hashKeys": [read.hash_key for read in reads],
            "limit": self.limit,
            "firstRead": reads[0].limit if reads else 0,
        }
        if self.union is not None:
            description |= {"union": self.union, "indexes": [each.describe() for each in self.scans]}
        if self.filter is not None:
            on_rows, parts = conjuncts(scan.row_filter), conjuncts(self.filter)
            description["filter"] = {
                "conditions": self.filter.describe(),
                "testedOnRows": [part.describe() for part in parts if part in on_rows],
                "testedOnRecords": [part.describe() for part in parts if part not in on_rows],
            }
        if self.order_by is not None:
            order = self.order_by
            description["sortedBy"] = f"{order.property.stored}{' desc' if order.descending else ''}"
        if any(each.fetches_records for each in self.scans):
            description["fetchesRecords"] = True
        return description

    def _first_scan(self) -> tuple[IndexScan, list[RangeRead]]:
        """Return the scan that the page starts with, and its first reads."""
        numbers = self.traversal.index_numbers()
        for number in numbers:
            reads = self.reads_of(self.scans[number], self.traversal.start, self.limit)
            if reads:
                return self.scans[number], reads
        return self.scans[numbers[0]], []

    def _remaining_read(
        self, scan: IndexScan, read: RangeRead, cursor: Cursor, position: Position | None
    ) -> RangeRead | None:
        """Return the rest of a shard's read after its cursor; None if nothing is left."""
        if position is not None:
            return resume_after(read, position, may_tie=scan.index.raw)
        return None if self.traversal.has_left(cursor, scan.number) else read

    def _position(self, scan: IndexScan, cursor: Cursor) -> Position | None:
        """Return the position of a cursor within this index.

        The hash key of the record is derived from the current tenant, never read from the token.
        """
        if cursor.value is None or cursor.index != scan.number:
            return None
        if cursor.record is None:
            return Position(cursor.value, cursor.ordinal, Key("", ""))
        entity = self.entity
        own_hash = hash_key(entity.name, entity.space.shard_text(cursor.record.ordinal), (), self.tenant)
        return Position(cursor.value, cursor.ordinal, Key(own_hash, cursor.record.range_key))


def _order(index: IndexSpec) -> tuple[Column, ...]:
    return (index.sort[0].column,) if index.raw else index.columns


def _shard_ordinal(hash_key: str) -> int:
    """Return the shard ordinal in a record's own hash key, the inverse of `ShardSpace.shard_text`."""
    shard = hash_key.partition("!")[2]
    return int(shard, 36) + 1 if shard else 0


def _with_limit(read: RangeRead, limit: int, position: Position | None) -> RangeRead:
    """Set the limit of a read.

    A descending engine may have to read the record at the position again to skip it; its shard reads one more.
    """
    rereads = position is not None and read.descending and read.start is None and read.ordinal == position.ordinal
    return replace(read, limit=limit + rereads)


def _describe_range(key_range: KeyRange) -> dict[str, Any]:
    return {
        "from": _describe_bound(key_range.low),
        "to": _describe_bound(key_range.high),
        "open": [name for name, is_open in (("from", key_range.low_open), ("to", key_range.high_open)) if is_open],
    }


def _describe_bound(bound: RangeValue | None) -> str | None:
    return None if bound is None else readable_key(str(bound))

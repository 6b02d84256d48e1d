"""The plan of one page of a search, as data: execution needs nothing else and decides nothing again."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphql_api.codecs import ShardHashKeys, hash_key, hash_key_parts, readable_key
from graphql_api.errors import KeyTooLong
from graphql_api.model import EntitySpec, IndexSpec, SortProperty, mapped_record, mapping_key
from graphql_api.query.filters import Filter, conjuncts
from graphql_api.query.page_token import Cursor, PageToken, RecordPosition
from graphql_api.query.property_values import RowView
from graphql_api.query.range_conditions import IndexConditions
from graphql_api.query.read_sizing import first_limit
from graphql_api.query.search_request import SearchRequest
from graphql_api.query.shard_progress import ShardProgress, Traversal
from graphql_api.storage import Item, Key, Position, RangeRead, Row, ShardReads, read_units, resume_after


@dataclass(frozen=True)
class IndexScan:
    """The scan of one index: the shards to read, and the filters that its rows and records must match."""

    number: int
    """position of the index within a union, otherwise 0"""
    index: IndexSpec
    conditions: IndexConditions
    read: RangeRead
    """a read of the whole range, without a shard"""
    shards: tuple[ShardHashKeys, ...]
    """the shards to read, for each combination of hash values"""
    single_id: bool
    """all matches have one unique id, so each generation holds them in one shard"""
    row_view: RowView
    row_filter: Filter | None
    """part of the filter that is evaluated on rows"""
    fetches_records: bool
    """rows lack needed properties, so records are fetched by key"""
    filters_records: bool
    """part of the filter is evaluated on the fetched records"""

    @cached_property
    def hash_keys(self) -> Mapping[int, str]:
        """Return the hash keys to read by their ordinals."""
        if len(self.shards) == 1:
            return self.shards[0].by_ordinal
        return {ordinal: key for shards in self.shards for ordinal, key in shards.by_ordinal.items()}

    @cached_property
    def shard_reads(self) -> tuple[RangeRead, ...]:
        """Return a read of the whole range for each shard."""
        return tuple(self.read._replace(hash_key=key, ordinal=ordinal) for ordinal, key in self.hash_keys.items())

    @cached_property
    def _hash_key_set(self) -> frozenset[str]:
        return frozenset(self.hash_keys.values())

    def contains(self, item: Item) -> bool:
        """Check whether a record is in the range of this scan, by the index keys that are stored with it."""
        value = item.get(self.index.range_attribute)
        if value is None or not self.conditions.range.contains(value):
            return False
        return item.get(self.index.hash_attribute) in self._hash_key_set

    def fetch_units(self, record_bytes: int) -> float:
        """Return the units of fetching the record of a row; 0 if rows are enough."""
        return read_units(record_bytes, consistent=self.read.consistent) if self.fetches_records else 0.0

    def record_rows(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return rows under the keys of their records, which the mapping items of a lookup name.

        A mapping item that names no record keeps its own key, at which no record is.
        """
        if self.index.lookup is None:
            return rows
        keys = (mapped_record(row.item) or row.key for row in rows)
        return [Row(row.value, row.ordinal, key, row.item) for row, key in zip(rows, keys, strict=True)]

    def is_entry_of(self, row: Row, record: Item, tenant: str | None) -> bool:
        """Return whether a row is the index entry, or the mapping item, that a record has now."""
        index, hash_text = self.index, self.hash_keys[row.ordinal]
        if index.lookup is None:
            return bool(
                record.get(index.hash_attribute) == hash_text and record.get(index.range_attribute) == row.value
            )
        place = hash_key_parts(row.key.hash)
        if place is None or place.head != index.entity:
            return False
        with suppress(KeyTooLong):
            return mapping_key(index, record, tenant) == (hash_text, row.value)
        return False

    def cursor_at(self, position: Position) -> Cursor:
        """Return the cursor after a row; where rows may tie, it names the record."""
        record = None
        if self.index.raw:
            shard = position.key.hash.partition("!")[2]  # the inverse of `ShardSpace.shard_text`
            record = RecordPosition(int(shard, 36) + 1 if shard else 0, position.key.range)
        return Cursor(self.number, position.value, position.ordinal, record)

    def describe(self) -> dict[str, Any]:
        """Return the scan for explain output."""
        range = self.conditions.range
        low, high = (None if bound is None else readable_key(str(bound)) for bound in (range.low, range.high))
        is_open = {"from": range.low_open, "to": range.high_open}
        return {
            "index": self.index.name,
            "physicalIndex": self.index.physical,
            **({} if self.index.lookup is None else {"lookup": self.index.lookup}),
            "conditions": self.conditions.description,
            "order": [f"{column.name}{' desc' if column.descending else ''}" for column in self.index.columns],
            "range": {"from": low, "to": high, "open": [name for name, excluded in is_open.items() if excluded]},
        }


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """The plan of one page of one search."""

    entity: EntitySpec
    request: SearchRequest
    scans: tuple[IndexScan, ...]
    """scans in the order of the result: one, or one for each index of a union"""
    filter: Filter | None
    order_by: SortProperty | None
    """property that sorts the whole result, which is then a single page"""
    limit: int
    resumed: bool
    """the page starts at a token"""
    traversal: Traversal
    token: PageToken
    """the token of the start of this page"""
    now: float

    @property
    def descending(self) -> bool:
        """Return the direction in which engines read."""
        return self.traversal.reverse != self.traversal.backward

    @property
    def is_restricted(self) -> bool:
        """Return whether access rules restrict the result, so that tokens must not depend on other records."""
        return self.request.enforced_filter is not None

    @property
    def search_name(self) -> str:
        """Return the name of the union or index that the request searches."""
        union = self.entity.unions.get(self.request.index)
        return self.scans[0].index.name if union is None else union.name

    def ordinals(self) -> tuple[int, ...]:
        """Return all shards that are read."""
        return tuple(dict.fromkeys(ordinal for scan in self.scans for ordinal in scan.hash_keys))

    def reads_of(
        self, scan: IndexScan, progress: ShardProgress, count: int, excluded: Collection[int] = ()
    ) -> Sequence[RangeRead]:
        """Return the first reads of a scan that resumes at this progress, to find `count` records.

        Shards in `excluded` are not read.
        """
        common = self._position(scan, progress.cursor)
        if len(scan.shards) == 1 and not progress.lagging and not excluded and not (scan.index.raw and common):
            return self._reads_of_all_shards(scan, progress.cursor, common, count)
        remaining = []
        for shard_read in scan.shard_reads:
            cursor = progress.cursor_of(shard_read.ordinal)
            position = common if cursor is progress.cursor else self._position(scan, cursor)
            if position is not None:
                read = resume_after(shard_read, position, may_tie=scan.index.raw)
            else:
                read = None if self.traversal.has_left(cursor, scan.number) else shard_read
            if read is not None and read.ordinal not in excluded:
                # A descending engine may have to read the record at the position again to skip it.
                is_own = position is not None and read.ordinal == position.ordinal
                remaining.append((read, is_own and read.descending and read.start is None))
        if not remaining:
            return []
        limit = self.first_limit_of(scan, count, len(remaining))
        return [read._replace(limit=limit + rereads) for read, rereads in remaining]

    def _reads_of_all_shards(
        self, scan: IndexScan, cursor: Cursor, position: Position | None, count: int
    ) -> Sequence[RangeRead]:
        """Return the first reads of a scan whose shards are all at one cursor, so that they share their range."""
        read: RangeRead | None = scan.read
        if position is not None:
            read = resume_after(scan.read, position, may_tie=False)
        elif self.traversal.has_left(cursor, scan.number):
            read = None
        if read is None:
            return []
        (keys,) = scan.shards
        reread = None
        if position is not None and read.descending and position.ordinal in keys.ordinals.values():
            reread = position.ordinal
        return ShardReads(read._replace(limit=self.first_limit_of(scan, count, len(keys))), keys, reread)

    def first_limit_of(self, scan: IndexScan, count: int, shards: int) -> int:
        """Return the limit of each first read of a scan, to find `count` records in this number of shards."""
        hint = 0 if scan.filters_records else self.token.selectivity_hint
        limit = first_limit(count, shards, selectivity_hint=hint, single_id=scan.single_id)
        return min(limit, -(-self.request.read_budget // shards))

    def describe(self) -> dict[str, Any]:
        """Return the plan for tests, explain output and logs."""
        request, numbers = self.request, self.traversal.index_numbers()
        starts = (
            (self.scans[each], self.reads_of(self.scans[each], self.traversal.start, self.limit)) for each in numbers
        )
        scan, reads = next((start for start in starts if start[1]), (self.scans[numbers[0]], []))
        description = {
            **({} if request.why is None else {"why": request.why}),
            "entity": self.entity.type_name,
            **scan.describe(),
            "reverse": self.traversal.reverse,
            "backward": self.traversal.backward,
            "resumed": self.resumed,
            "shards": len(reads),
            "hashKeys": [read.hash_key for read in reads],
            "limit": self.limit,
            "firstRead": reads[0].limit if reads else 0,
        }
        if request.index in self.entity.unions:
            description |= {"union": self.search_name, "indexes": [each.describe() for each in self.scans]}
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

    def _position(self, scan: IndexScan, cursor: Cursor) -> Position | None:
        """Return the position of a cursor within this index.

        The hash key of the record is derived from the current tenant, never read from the token.
        """
        if cursor.value is None or cursor.index != scan.number:
            return None
        if cursor.record is None:
            return Position(cursor.value, cursor.ordinal, Key("", ""))
        entity = self.entity
        own_hash = hash_key(entity.name, entity.space.shard_text(cursor.record.ordinal), (), self.request.tenant)
        return Position(cursor.value, cursor.ordinal, Key(own_hash, cursor.record.range_key))

"""The plan of one page of a search, as data: execution needs nothing else and decides nothing again."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphql_api.codecs import hash_key, readable_key
from graphql_api.model import EntitySpec, IndexSpec, SortProperty
from graphql_api.query.filters import Filter, conjuncts
from graphql_api.query.page_token import Cursor, PageToken, RecordPosition
from graphql_api.query.property_values import RowView
from graphql_api.query.range_conditions import IndexConditions
from graphql_api.query.read_sizing import first_limit
from graphql_api.query.search_request import SearchRequest
from graphql_api.query.shard_progress import ShardProgress, Traversal
from graphql_api.storage import Item, Key, Position, RangeRead, resume_after


@dataclass(frozen=True)
class IndexScan:
    """The scan of one index: a read of each shard, and the filters that its rows and records must match."""

    number: int
    """position of the index within a union, otherwise 0"""
    index: IndexSpec
    conditions: IndexConditions
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

    @cached_property
    def hash_keys(self) -> frozenset[str]:
        """Return the hash keys that are read."""
        return frozenset(read.hash_key for read in self.shard_reads)

    def contains(self, item: Item) -> bool:
        """Check whether a record is in the range of this scan, by the index keys that are stored with it."""
        value = item.get(self.index.range_attribute)
        if value is None or not self.conditions.range.contains(value):
            return False
        return item.get(self.index.hash_attribute) in self.hash_keys

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

    @property
    def ordinals(self) -> tuple[int, ...]:
        """Return all shards that are read."""
        return tuple(dict.fromkeys(read.ordinal for scan in self.scans for read in scan.shard_reads))

    def reads_of(
        self, scan: IndexScan, progress: ShardProgress, count: int, excluded: Collection[int] = ()
    ) -> list[RangeRead]:
        """Return the first reads of a scan that resumes at this progress, to find `count` records.

        Shards in `excluded` are not read.
        """
        remaining = []
        common = self._position(scan, progress.cursor)
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
        hint = 0 if scan.filters_records else self.token.selectivity_hint
        limit = first_limit(count, len(remaining), selectivity_hint=hint, single_id=scan.single_id)
        limit = min(limit, -(-self.request.read_budget // len(remaining)))
        return [read._replace(limit=limit + rereads) for read, rereads in remaining]

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

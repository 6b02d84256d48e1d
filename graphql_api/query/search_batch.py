"""Plan many searches at once that differ only in the values of the properties that their index requires.

One of them is planned in full. The first reads of the others have its range and its shards with other values. A search
is planned alone if this does not suffice, and in any case before a second round, a page token or explain output.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import NoneType
from typing import Any

from graphql_api.codecs import Eq, ShardHashKeys, join_segments
from graphql_api.errors import ShardQLError
from graphql_api.model import PropertySpec
from graphql_api.query.argument_values import search_values
from graphql_api.query.planner import SearchFrame
from graphql_api.query.scan_planner import covering_shards
from graphql_api.query.search_plan import IndexScan, SearchPlan
from graphql_api.query.search_request import SearchRequest
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage import LazySequence, RangeGroups, RangePart

_MAX_BOUND_CHARACTERS = 255
"""A bound of this length fits, whatever its characters are."""


class SearchBatch(LazySequence[SearchRequest]):
    """Searches that differ only in the values of some arguments. Single requests are built on first use."""

    def __init__(self, common: SearchRequest, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.common = common
        """a request without these arguments"""
        self.names = names
        self.rows = rows
        """the values of each search"""

    def __len__(self) -> int:
        return len(self.rows)

    def _build(self) -> Sequence[SearchRequest]:
        return [*map(self.request, range(len(self.rows)))]

    def request(self, at: int) -> SearchRequest:
        """Return one request."""
        own = dict(zip(self.names, self.rows[at], strict=True))
        return replace(self.common, arguments={**self.common.arguments, **own})

    def at(self, positions: Sequence[int]) -> "SearchBatch":
        """Return the searches at these positions."""
        return SearchBatch(self.common, self.names, [self.rows[at] for at in positions])

    def owned_by(self, tenant: str | None, principal: str | None) -> "SearchBatch":
        """Return the searches of a tenant and principal."""
        if self.common.tenant == tenant and self.common.principal == principal:
            return self
        return SearchBatch(replace(self.common, tenant=tenant, principal=principal), self.names, self.rows)


@dataclass(frozen=True)
class BatchPlan:
    """The first reads of several searches. The other searches of the batch must be planned alone."""

    frame: SearchFrame
    batch: SearchBatch
    example: SearchPlan
    """of one of the searches"""
    reads: RangeGroups
    positions: Sequence[int]
    """of the searches that the reads belong to"""
    now: float
    """seconds since 1970"""
    seal: TokenSeal

    def plan(self, at: int) -> SearchPlan:
        """Plan one search of the batch alone."""
        return self.frame.plan(self.batch.request(at), self.now, self.seal)

    @cached_property
    def others(self) -> Sequence[int]:
        """Return the positions of the searches that have no reads here."""
        return sorted({*range(len(self.batch))} - {*self.positions})


def plan_batch(frame: SearchFrame, batch: SearchBatch, now: float, seal: TokenSeal) -> BatchPlan | None:
    """Plan the searches of a batch; None if each of them must be planned alone. `now` is in seconds since 1970."""
    if frame.parts or frame.entity.visibility_properties or len(frame.indexes) > 1 or frame.order_by is not None:
        return None
    has_token = getattr(batch.common, frame.paging.token_field) is not None
    if has_token or frame.paging.backward or batch.common.history != "ALL":
        return None
    try:
        example = frame.plan(batch.request(0), now, seal)
        if not _is_simple(frame, batch, example.scans[0]):
            return None
        return _BatchPlanner(frame, batch, example, seal).plan()
    except ShardQLError:
        return None


def _is_simple(frame: SearchFrame, batch: SearchBatch, scan: IndexScan) -> bool:
    """Return whether the searches differ in nothing but the values that their index requires, and rows suffice."""
    index, naming = scan.index, batch.common.naming
    required = [naming.property_argument(part.name) for part in index.required]
    lists = {naming.list_argument(frame.entity, part.name) for part in index.hash}
    own = batch.common.arguments.keys()
    return (
        not (scan.fetches_records or scan.index.raw)
        and len(scan.shards) == 1
        and sorted(required) == sorted(batch.names)
        and own.isdisjoint({"id", *required, *lists})
    )


class _BatchPlanner:
    def __init__(self, frame: SearchFrame, batch: SearchBatch, example: SearchPlan, seal: TokenSeal) -> None:
        self._frame = frame
        self._seal = seal
        self._batch = batch
        self._example = example
        self._scan = scan = example.scans[0]
        self._index = index = scan.index
        naming = batch.common.naming
        positions = {name: at for at, name in enumerate(batch.names)}
        self._required = [(part, positions[naming.property_argument(part.name)]) for part in index.required]
        self._prefix = [*zip(index.columns, index.id_prefix, strict=False)]
        self._ends = "", ""
        """how bounds continue after the id prefix"""
        self._has_one_shard = len(index.space.generations) == 1 and index.space.generations[0].size == 1
        self._keys: dict[object, ShardHashKeys] = {}
        self._limits: dict[int, int] = {}

    def plan(self) -> BatchPlan | None:
        example, scan = self._example, self._scan
        key_range = scan.conditions.range
        start = join_segments([column.segment(scan.conditions.known[part.name]) for column, part in self._prefix])
        if not isinstance(key_range.low, str) or not isinstance(key_range.high, str):
            return None
        if not (key_range.low.startswith(start) and key_range.high.startswith(start)):
            return None
        self._ends = key_range.low[len(start) :], key_range.high[len(start) :]
        rows = self._batch.rows
        try:
            parts: Sequence[RangePart | None] = self._parts(rows)
        except (ShardQLError, _PlannedAlone):
            parts = [*map(self._part_of_one, rows)]
        positions = [at for at, part in enumerate(parts) if part is not None]
        want = min(self._batch.common.read_budget, example.limit + 1)
        reads = RangeGroups(scan.read, want, [part for part in parts if part is not None])
        return BatchPlan(self._frame, self._batch, example, reads, positions, example.now, self._seal)

    def _part_of_one(self, row: Sequence[Any]) -> RangePart | None:
        """Return the first reads of one search; None if it must be planned alone."""
        try:
            (part,) = self._parts([row])
        except (ShardQLError, _PlannedAlone):
            return None
        return part

    def _parts(self, rows: Sequence[Sequence[Any]]) -> list[RangePart]:
        """Return the first reads of searches. Raise an error if one of them must be planned alone."""
        columns = [*zip(*rows, strict=True)]
        known = {part.name: self._checked(part, columns[at]) for part, at in self._required}
        starts: Sequence[str] = [""] * len(rows)
        if self._prefix:
            starts = [
                *map(join_segments, zip(*(one.segments(known[part.name]) for one, part in self._prefix), strict=True))
            ]
        low_end, high_end = self._ends
        if max(map(len, starts), default=0) + max(len(low_end), len(high_end)) > _MAX_BOUND_CHARACTERS:
            raise _PlannedAlone
        parts = []
        for keys, start in zip(self._hash_keys_of_rows(known, len(rows)), starts, strict=True):
            limit = self._limits.get(len(keys)) or self._limit(len(keys))
            parts.append(RangePart(keys, start + low_end, start + high_end, limit))
        return parts

    def _checked(self, part: PropertySpec, values: Sequence[Any]) -> list[Any]:
        """Check the values of a property. Those that are conditions, and empty ones, are for `parse_conditions`."""
        if any(kind is NoneType or issubclass(kind, Mapping | Eq) for kind in {*map(type, values)}):
            raise _PlannedAlone
        checked = search_values(self._frame.entity, part, values)
        if "" in checked:
            raise _PlannedAlone
        return checked

    def _hash_keys_of_rows(self, known: Mapping[str, Sequence[Any]], count: int) -> Sequence[ShardHashKeys]:
        if self._has_one_shard and not self._index.hash:
            return [self._scan.shards[0]] * count
        encoded = [
            [(part.stored, text) for text in map(part.column.encode, known[part.name])] for part in self._index.hash
        ]
        values = [*zip(*encoded, strict=True)] if encoded else [()] * count
        return [
            self._hash_keys(one, {name: column[at] for name, column in known.items()}) for at, one in enumerate(values)
        ]

    def _hash_keys(self, values: tuple[tuple[str, str], ...], known: Mapping[str, Any]) -> ShardHashKeys:
        index, conditions = self._index, self._scan.conditions
        if self._has_one_shard:
            ordinals = self._scan.shards[0].ordinals
        else:
            everything_known = {**conditions.known, **known}
            _, covering = covering_shards(self._frame.entity, index, everything_known, conditions.bounds, values)
            if not covering:
                raise _PlannedAlone
            ordinals = index.space.ordinals_by_text(covering)
        keys = self._keys.get((values, id(ordinals)))
        if keys is None:
            keys = ShardHashKeys(index.hash_entity, values, self._batch.common.tenant, ordinals)
            _ = keys.last  # refuses values that are too long
            self._keys[values, id(ordinals)] = keys
        return keys

    def _limit(self, shards: int) -> int:
        """Return the limit of each read of a search, unless the read budget lowers it."""
        limit = self._example.first_limit_of(self._scan, self._example.limit, shards)
        if limit * shards > self._batch.common.read_budget:
            raise _PlannedAlone
        self._limits[shards] = limit
        return limit


class _PlannedAlone(Exception):
    """A search must be planned alone."""

"""Plan the scan of one index: the range, the shards to read, and what its rows provide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphql_api.codecs import KeyRange, ShardHashKeys, join_segments
from graphql_api.errors import QueryTooCostly, ShardQLError, about
from graphql_api.model import MAX_MAPPING_BYTES, EntitySpec, IndexSpec
from graphql_api.query.filters import Filter, all_of
from graphql_api.query.predicate_pushdown import narrow_range_by_filter, restrict_to_current, store_filter
from graphql_api.query.property_values import RowView
from graphql_api.query.range_conditions import (
    ConditionArguments,
    HashValues,
    IndexConditions,
    parse_conditions,
)
from graphql_api.query.search_plan import IndexScan
from graphql_api.query.search_request import MAX_HASH_KEYS, NamingScheme, SearchRequest
from graphql_api.storage import RangeRead

MAX_KNOWN_SHARDS = 256
"""combinations of hash values whose hash keys a planner remembers"""


@dataclass(frozen=True, slots=True)
class _ScanShape:
    """What the scans of one index have in common that know the values of the same properties."""

    read: RangeRead
    """a read without a shard and without a range"""
    row_view: RowView
    """of a scan that knows no values"""
    row_filter: Filter | None
    fetches_records: bool
    filters_records: bool


@dataclass(frozen=True, slots=True)
class ScanPlanner:
    """Plan the scans of a search, one for each index."""

    entity: EntitySpec
    request: SearchRequest
    """what the requests of the frame have in common"""
    parts: tuple[Filter, ...]
    """filters that must all match"""
    required: frozenset[str]
    """properties that each match must provide"""
    descending: bool
    in_union: bool
    _shapes: dict[tuple[int, frozenset[str]], "_ScanShape"] = field(default_factory=dict)
    """by the number of the index, and the properties that have one value in every match"""
    _shards: dict[tuple[Any, ...], ShardHashKeys] = field(default_factory=dict)
    _names: dict[int, ConditionArguments] = field(default_factory=dict)
    """by the number of the index"""

    def plan_scan(self, request: SearchRequest, index: IndexSpec, earlier: Sequence[IndexSpec]) -> IndexScan:
        """Plan the scan of one index; `earlier` are the indexes before it in a union."""
        entity = self.entity
        names = self._names_of(index, len(earlier))
        provided = parse_conditions(
            entity, index, request.arguments, request.naming, in_union=self.in_union, names=names
        )
        conditions = narrow_range_by_filter(index, provided, self.parts) if self.parts else provided
        if request.history == "CURRENT":
            conditions = restrict_to_current(entity, index, conditions)
        single_id, shards = self._shards_to_read(request, index, conditions)
        key = len(earlier), frozenset(provided.known)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = self._shape(request, index, earlier, provided)
        return IndexScan(
            number=len(earlier),
            index=index,
            conditions=conditions,
            read=shape.read._replace(range=conditions.range),
            shards=shards,
            single_id=single_id,
            row_view=RowView(entity, index, provided.known) if provided.known else shape.row_view,
            row_filter=shape.row_filter,
            fetches_records=shape.fetches_records,
            filters_records=shape.filters_records,
        )

    def _names_of(self, index: IndexSpec, number: int) -> ConditionArguments:
        names = self._names.get(number)
        if names is None:
            names = self._names[number] = ConditionArguments.of(index, self.request.naming)
        return names

    def _shape(
        self, request: SearchRequest, index: IndexSpec, earlier: Sequence[IndexSpec], provided: IndexConditions
    ) -> "_ScanShape":
        """Return what does not depend on values: `provided` determines which properties are known."""
        entity, view = self.entity, RowView(self.entity, index, provided.known)
        row_parts = [part for part in self.parts if all(map(view.provides, part.properties))]
        # The engine sees only the attributes that the index carries.
        carried = [part for part in row_parts if all(map(view.carries_attribute, part.properties))]
        engine_filter = store_filter(entity, carried)
        is_counted = request.count_only and index.lookup is None
        attributes = self._attributes_for_count(view, row_parts, earlier) if is_counted else None
        is_lookup = index.lookup is not None
        read = RangeRead(
            index=index.physical,
            hash_key="",
            ordinal=0,
            range=KeyRange(),
            limit=1,
            consistent=is_lookup or (request.consistent and index.physical is None),
            descending=self.descending,
            filter=engine_filter,
            attributes=attributes,
            row_bytes=MAX_MAPPING_BYTES if is_lookup else entity.max_record_bytes,
        )
        return _ScanShape(
            read=read,
            row_view=view,
            row_filter=all_of(row_parts),
            # A mapping item may be older than its record, which decides.
            fetches_records=is_lookup
            or not (all(map(view.provides, self.required)) and view.shows_inherited_visibility),
            filters_records=len(row_parts) < len(self.parts),
        )

    def _shards_to_read(
        self, request: SearchRequest, index: IndexSpec, conditions: IndexConditions
    ) -> tuple[bool, tuple[ShardHashKeys, ...]]:
        """Return whether all matches have one unique id, and the shards to read for each combination of hash values.

        An ordinal is that of the shard. With several hash values, those of a value follow those of the value before.
        """
        single_id, keys = False, list[ShardHashKeys]()
        if conditions.range.is_empty:
            return single_id, ()
        for number, values in enumerate(conditions.hash_values):
            single_id, covering = covering_shards(self.entity, index, conditions.known, conditions.bounds, values)
            if not covering:
                continue
            keys.append(self._shards_of(request, index, values, covering, number * index.space.capacity))
        count = sum(map(len, keys))
        if len(conditions.hash_values) > 1 and count > MAX_HASH_KEYS:
            several = zip(index.hash, conditions.hash_values[0], conditions.hash_values[-1], strict=True)
            listed = next(part for part, first_value, last_value in several if first_value != last_value)
            argument = request.naming.list_argument(self.entity, listed.name)
            raise QueryTooCostly(
                f"{argument} has {len(conditions.hash_values):,} values, for which {count:,} shards must be read. "
                f"A search reads at most {MAX_HASH_KEYS:,}: split the list.",
                argument=argument,
                limit=MAX_HASH_KEYS,
            )
        return single_id, tuple(keys)

    def _shards_of(
        self, request: SearchRequest, index: IndexSpec, values: HashValues, covering: tuple[int, ...], first: int
    ) -> ShardHashKeys:
        """Return the shards of one combination of hash values. `first`: added to their ordinals."""
        key = index.attribute, request.tenant, values, covering, first
        shards = self._shards.get(key)
        if shards is not None:
            return shards
        ordinals = index.space.ordinals_by_text(covering)
        if first:
            ordinals = {text: first + ordinal for text, ordinal in ordinals.items()}
        shards = ShardHashKeys(index.hash_entity, values, request.tenant, ordinals)
        try:
            _ = shards.last  # refuses values that are too long
        except ShardQLError:
            with about(_longest_hash_argument(index, values, request.naming)):
                raise
        if len(self._shards) >= MAX_KNOWN_SHARDS:
            self._shards.clear()
        self._shards[key] = shards
        return shards

    def _attributes_for_count(
        self, view: RowView, row_parts: Sequence[Filter], earlier: Sequence[IndexSpec]
    ) -> frozenset[str] | None:
        """Return the attributes that decide whether a row counts; None: all."""
        keys = {name for index in earlier for name in (index.hash_attribute, index.range_attribute)}
        keys |= {part.stored for part in self.entity.visibility_properties if view.carries(part)}
        filtered = view.attributes_for(name for part in row_parts for name in part.properties)
        return None if filtered is None else filtered | keys


def _longest_hash_argument(index: IndexSpec, values: HashValues, naming: NamingScheme) -> str:
    """Return the argument to name in the error for a hash key that is too long."""
    lengths = [len(text.encode()) for _, text in values]
    return naming.property_argument(index.hash[lengths.index(max(lengths))].name) if lengths else "tenant"


def covering_shards(
    entity: EntitySpec,
    index: IndexSpec,
    known: Mapping[str, Any],
    bounds: Mapping[str, tuple[Any | None, Any | None]],
    values: HashValues,
) -> tuple[bool, tuple[int, ...]]:
    """Return whether all matches with these hash values have one unique id, and the ordinals of the shards to read.

    `known` and `bounds`: those of `IndexConditions`.
    """
    low = high = None
    if entity.created is not None:
        name = entity.created.name
        low, high = (known[name], known[name]) if name in known else bounds.get(name, (None, None))
    unique_id = None
    if index.sharded_like_parent:
        unique_id = join_segments([encoded for _, encoded in values])
    elif all(part.name in known for part in entity.ids):
        unique_id = join_segments([part.column.encode(known[part.name]) for part in entity.ids])
    ordinals = index.space.covering_shards(unique_id=unique_id, created_from=low, created_to=high)
    return unique_id is not None and not index.sharded_like_parent, ordinals

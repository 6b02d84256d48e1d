"""Plan a search: decide the shards, the range of each index, the filters and the position to resume at."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter, is_
from types import NoneType
from typing import Any
from weakref import WeakKeyDictionary

from graphql_api.codecs import KeyRange, ShardHashKeys, join_segments, short_repr
from graphql_api.errors import (
    ConflictingArguments,
    ExpiredToken,
    InvalidValue,
    QueryTooCostly,
    ShardQLError,
    TokenAhead,
    TokenMismatch,
    UnknownArgument,
    about,
    nearest,
)
from graphql_api.model import (
    MAX_MAPPING_BYTES,
    Catalog,
    Descending,
    EntitySpec,
    IndexRef,
    IndexSpec,
    SortProperty,
    UnionSpec,
)
from graphql_api.query.filter_parser import parse_filter
from graphql_api.query.filters import Filter, all_of, conjuncts
from graphql_api.query.page_token import Cursor, PageToken, digest, short_description, unpack
from graphql_api.query.predicate_pushdown import narrow_range_by_filter, restrict_to_current, store_filter
from graphql_api.query.property_values import RowView
from graphql_api.query.range_conditions import (
    ConditionArguments,
    HashValues,
    IndexConditions,
    accepts_empty_text,
    parse_conditions,
)
from graphql_api.query.readiness_checks import check_derived_ready, check_ready, hidden_records_filter, history_filter
from graphql_api.query.search_plan import IndexScan, SearchPlan
from graphql_api.query.search_request import (
    MAX_HASH_KEYS,
    MAX_SORTED,
    PAGE_ARGUMENTS,
    READ_BUDGET,
    NamingScheme,
    Paging,
    SearchRequest,
    check_options,
    parse_paging,
)
from graphql_api.query.shard_progress import ShardProgress, Traversal
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage import RangeRead

MAX_TOKEN_AGE_HOURS = 24
_MAX_SHOWN_BYTES = 160
"""of a description in an error message"""


def plan_search(catalog: Catalog, request: SearchRequest, now: float, seal: TokenSeal) -> SearchPlan:
    """Plan one page of a search; `now` is in seconds since 1970."""
    return SearchFrame.of(catalog, request).plan(request, now, seal)


@dataclass(frozen=True, slots=True)
class SearchFrame:
    """What the plans of all searches have in common that differ only in their arguments and page tokens."""

    key: "_FrameKey"
    """what these searches have in common"""
    entity: EntitySpec
    searched: IndexSpec | UnionSpec
    indexes: tuple[IndexSpec, ...]
    order_by: SortProperty | None
    paging: Paging
    parts: tuple[Filter, ...]
    """filters that must all match"""
    requested_filter: Filter | None
    """without those that hide records"""
    planner: "_ScanPlanner"
    index_digest: bytes
    generations: int
    """shard generations that this server knows, of the index that has most"""
    placed_generations: int
    """those of them in which records are placed"""

    @classmethod
    def of(cls, catalog: Catalog, request: SearchRequest) -> "SearchFrame":
        """Return the frame of a search. Those of a catalog are kept for later searches."""
        frames = _FRAMES.get(catalog)
        if frames is None:
            frames = _FRAMES[catalog] = {}
        key = _frame_key(request)
        try:
            frame = frames.get(key)
        except TypeError:  # A filter is a dictionary.
            return cls._new(catalog, request, key)
        if frame is None:
            frame = cls._new(catalog, request, key)
            if len(frames) >= MAX_FRAMES:
                frames.clear()
            frames[key] = frame
        return frame

    @classmethod
    def _new(cls, catalog: Catalog, request: SearchRequest, key: "_FrameKey") -> "SearchFrame":
        """Check whatever does not depend on the arguments."""
        entity = catalog.entity(request.entity)
        union = entity.unions.get(request.index)
        check_ready(entity, request)
        indexes = union.members if union is not None else (_requested_index(catalog, entity, request),)
        order_by = _order_by(entity, request)
        paging = parse_paging(request)
        requested = (
            *conjuncts(parse_filter(entity, request.filter, request.naming)),
            *conjuncts(parse_filter(entity, request.enforced_filter)),
            *conjuncts(history_filter(entity, request)),
        )
        parts = (*requested, *conjuncts(hidden_records_filter(entity, request)))
        filter = all_of(parts)
        sorted_by = [] if order_by is None else [order_by.property.name]
        check_derived_ready(entity, [*(() if filter is None else filter.properties), *sorted_by])
        required = _required_properties(entity, request, filter, order_by)
        descending = paging.reverse != paging.backward
        known_generations = [len(index.space.generations) for index in indexes]
        return cls(
            key=key,
            entity=entity,
            searched=union or indexes[0],
            indexes=indexes,
            order_by=order_by,
            paging=paging,
            parts=parts,
            requested_filter=all_of(requested),
            planner=_ScanPlanner(
                entity, _without_values(request), parts, required, descending, accepts_empty_text(indexes)
            ),
            index_digest=digest(*map(_index_identity, indexes)),
            generations=max(known_generations),
            placed_generations=max(
                known - index.space.pending for known, index in zip(known_generations, indexes, strict=True)
            ),
        )

    def fits(self, request: SearchRequest) -> bool:
        """Return whether a search differs from this one in nothing but its arguments and its page token."""
        values, types, has_tokens = _frame_key(request)
        return self.key[1:] == (types, has_tokens) and all(map(is_, self.key[0], values))

    def plan(self, request: SearchRequest, now: float, seal: TokenSeal) -> SearchPlan:
        """Plan one page of a search that fits; `now` is in seconds since 1970."""
        paging, indexes = self.paging, self.indexes
        scans = tuple(self.planner.plan_scan(request, index, indexes[:number]) for number, index in enumerate(indexes))
        sealed: str | None = getattr(request, paging.token_field)
        token = self._token(request, scans, sealed, now, seal)
        if request.on_shard_failure != "FAIL" or request.read_budget is not READ_BUDGET:
            check_options(request)
        return SearchPlan(
            entity=self.entity,
            request=request,
            scans=scans,
            filter=all_of(self.parts),
            order_by=self.order_by,
            limit=paging.limit if self.order_by is None else MAX_SORTED,
            resumed=sealed is not None,
            traversal=Traversal(
                paging.reverse, paging.backward, len(scans), ShardProgress(token.cursor, token.lagging)
            ),
            token=token,
            now=now,
        )

    def _token(
        self, request: SearchRequest, scans: Sequence[IndexScan], sealed: str | None, now: float, seal: TokenSeal
    ) -> PageToken:
        """Return the token of the start of the page."""
        paging, order_by, filter = self.paging, self.order_by, self.requested_filter
        description = _describe_search(self.entity, request, scans[0], filter, reverse=paging.reverse)
        token = PageToken(
            issued_hour=int(now // 3600),
            generations=self.placed_generations,
            index_digest=self.index_digest,
            search_digest=digest(
                *((_hash_identity(scan.conditions), _range_identity(scan.conditions.range)) for scan in scans),
                paging.reverse,
                () if filter is None else filter.identity(),
                () if order_by is None else (order_by.property.stored, order_by.descending),
            ),
            description=short_description(description),
            cursor=Cursor(len(scans) if paging.backward else 0),
        )
        if sealed is None:
            return token
        opened = unpack(seal.open(sealed, request.tenant, request.principal, paging.argument), paging.argument)
        if not self._accepts(opened, token):
            here = token._replace(generations=self.generations)
            name = request.naming.search_name(self.entity, self.searched)
            _verify_token(opened, here, paging.argument, name, short_description(description, _MAX_SHOWN_BYTES))
        return token._replace(
            cursor=opened.cursor, lagging=opened.lagging, selectivity_hint=opened.selectivity_hint
        )

    def _accepts(self, opened: PageToken, here: PageToken) -> bool:
        """Return whether `_verify_token` would raise no error. Its messages cost more than the comparison."""
        return (
            here.issued_hour - opened.issued_hour <= MAX_TOKEN_AGE_HOURS
            and opened.index_digest == here.index_digest
            and opened.search_digest == here.search_digest
            and opened.generations <= self.generations
        )


MAX_FRAMES = 256
"""Frames that are kept of a catalog: one for each index and shape of a search."""
_FRAMES: "WeakKeyDictionary[Catalog, dict[_FrameKey, SearchFrame]]" = WeakKeyDictionary()
_TOKENS = ("next_token", "after", "before")
_VALUES: dict[str, Any] = dict.fromkeys(("why", "tenant", "principal", *_TOKENS)) | {"arguments": {}}
"""the fields in which searches of one frame differ, without values"""
_common_fields = attrgetter(
    *(one.name for one in fields(SearchRequest) if one.name not in _VALUES)
)
_tokens = attrgetter(*_TOKENS)


_FrameKey = tuple[tuple[Any, ...], tuple[type, ...], tuple[bool, ...]]


def _frame_key(request: SearchRequest) -> _FrameKey:
    """Return what decides on the frame of a search. Types matter, since 1, 1.0 and True are equal."""
    values = _common_fields(request)
    return values, tuple(map(type, values)), tuple(map(NoneType.__instancecheck__, _tokens(request)))



def _without_values(request: SearchRequest) -> SearchRequest:
    return replace(request, **_VALUES)


def _requested_index(catalog: Catalog, entity: EntitySpec, request: SearchRequest) -> IndexSpec:
    index = catalog.index(IndexRef(entity.model, request.index))
    if not request.all_ids:
        return index
    return replace(index, id_prefix=(), sort=(*map(SortProperty, index.id_prefix), *index.sort))


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
class _ScanPlanner:
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
            single_id, covering = _covering_shards(self.entity, index, conditions, values)
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
        if len(self._shards) >= MAX_FRAMES:
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


def _required_properties(
    entity: EntitySpec, request: SearchRequest, filter: Filter | None, order_by: SortProperty | None
) -> frozenset[str]:
    """Check `select`, and return the properties that each match must provide."""
    if isinstance(request.select, str):
        raise InvalidValue(f"select takes a list of properties, not {short_repr(request.select)}.", argument="select")
    selected = entity.properties if request.select is None else request.select
    unknown = next((name for name in selected if name not in entity.properties), None)
    if unknown is not None:
        raise UnknownArgument(
            f"{entity.type_name} has no property {unknown!r} to select.{nearest(unknown, entity.properties)}",
            argument="select",
        )
    filtered = () if filter is None else filter.properties
    sorted_by = () if order_by is None else (order_by.property.name,)
    visibility = (part.name for part in entity.visibility_properties if entity.properties.get(part.name) is part)
    return frozenset({*selected, *filtered, *sorted_by, *visibility})


def _order_by(entity: EntitySpec, request: SearchRequest) -> SortProperty | None:
    """Return the property that sorts the result of a union. Paging arguments conflict with it."""
    if request.order_by is None:
        return None
    argument = request.naming.common_argument("order_by")
    if request.index not in entity.unions:
        raise UnknownArgument(
            f"{argument} applies only to unions. An index has a fixed order: use reverse to invert it.",
            argument=argument,
        )
    conflicts = [name for name in PAGE_ARGUMENTS if getattr(request, name) is not None]
    conflicts += ["on_shard_failure"] if request.on_shard_failure != "FAIL" else []
    if conflicts:
        raise ConflictingArguments(
            f"{argument} returns the whole result as one page: omit {request.naming.common_argument(conflicts[0])}.",
            argument=argument,
        )
    descending = isinstance(request.order_by, Descending)
    name = request.order_by.property if isinstance(request.order_by, Descending) else request.order_by
    part = entity.properties.get(name) if isinstance(name, str) else None
    if part is None or part.codec is None:
        raise InvalidValue(
            f"{argument}: {entity.type_name} cannot be sorted by {short_repr(name)}: use a plain property, or desc() "
            f"of one.{nearest(str(name), entity.properties)}",
            argument=argument,
        )
    return SortProperty(part, descending)


def _longest_hash_argument(index: IndexSpec, values: HashValues, naming: NamingScheme) -> str:
    """Return the argument to name in the error for a hash key that is too long."""
    lengths = [len(text.encode()) for _, text in values]
    return naming.property_argument(index.hash[lengths.index(max(lengths))].name) if lengths else "tenant"


def _covering_shards(
    entity: EntitySpec, index: IndexSpec, conditions: IndexConditions, values: HashValues
) -> tuple[bool, tuple[int, ...]]:
    """Return whether all matches with these hash values have one unique id, and the ordinals of the shards to read."""
    known, low, high = conditions.known, None, None
    if entity.created is not None:
        name = entity.created.name
        low, high = (known[name], known[name]) if name in known else conditions.bounds.get(name, (None, None))
    unique_id = None
    if index.sharded_like_parent:
        unique_id = join_segments([encoded for _, encoded in values])
    elif all(part.name in known for part in entity.ids):
        unique_id = join_segments([part.column.encode(known[part.name]) for part in entity.ids])
    ordinals = index.space.covering_shards(unique_id=unique_id, created_from=low, created_to=high)
    return unique_id is not None and not index.sharded_like_parent, ordinals


# --- tokens ----------------------------------------------------------------------------------------------------


def _describe_search(
    entity: EntitySpec, request: SearchRequest, scan: IndexScan, filter: Filter | None, *, reverse: bool
) -> str:
    """Describe the conditions of a search, for page tokens and the error for a token of another search."""
    conditions = [scan.conditions.description] if scan.conditions.description else []
    conditions += [] if filter is None else [f"where {filter.describe()}"]
    union = entity.unions.get(request.index)
    name = scan.index.name if union is None else union.name
    return f"{'reversed ' if reverse else ''}{' '.join(conditions) or f'every {entity.type_name} by {name}'}"


def _index_identity(index: IndexSpec) -> tuple[object, ...]:
    """Return what a cursor in an index depends on. Any other change of the catalog keeps tokens valid."""
    versions = {part.stored: part.version for part in (*index.hash, *index.range_properties) if part.version > 1}
    return (
        index.entity,
        index.name,
        index.raw,
        (index.hash_entity, index.sharded_like_parent, index.space.function, index.space.width),
        [part.stored for part in index.hash],
        [(column.name, column.codec.name, column.descending) for column in index.columns],
        *([versions] if versions else ()),
    )


def _hash_identity(conditions: IndexConditions) -> tuple[object, ...]:
    values = conditions.hash_values
    return values[0] if len(values) == 1 else values


def _range_identity(key_range: KeyRange) -> tuple[object, ...]:
    # Bounds are compared as text: equal numbers have one form, and an index holds only texts or only numbers.
    low, high = (None if bound is None else str(bound) for bound in (key_range.low, key_range.high))
    return low, high, key_range.low_open, key_range.high_open


def _verify_token(token: PageToken, here: PageToken, argument: str, search_name: str, description: str) -> None:
    """Raise an error unless the token is recent and belongs to this search, whose own token is `here`."""
    if here.issued_hour - token.issued_hour > MAX_TOKEN_AGE_HOURS:
        raise ExpiredToken(
            f"{argument} is older than {MAX_TOKEN_AGE_HOURS} hours: omit it to start from the first page.",
            argument=argument,
        )
    if token.index_digest != here.index_digest:
        raise TokenMismatch(
            f"{argument} was made by another search ({token.description}), and is used with {search_name} "
            f"({description}). Use it with the index that it comes from, or omit it to start from the first page.",
            argument=argument,
        )
    if token.search_digest != here.search_digest:
        raise TokenMismatch(
            f"{argument} was made for {token.description}, and is used with {description}. Use it with the same "
            "arguments, or omit it to start from the first page.",
            argument=argument,
        )
    if token.generations > here.generations:
        raise TokenAhead(
            f"{argument} was made by a server with newer shard generations than this one: retry once this "
            "server has been updated.",
            argument=argument,
        )

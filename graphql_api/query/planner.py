"""Plan a search: decide the shards, the range of each index, the filters and the position to resume at."""

from dataclasses import dataclass, field, fields, replace
from operator import attrgetter, is_
from types import NoneType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from graphql_api.codecs import short_repr
from graphql_api.errors import (
    ConflictingArguments,
    InvalidValue,
    UnknownArgument,
    nearest,
)
from graphql_api.model import (
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
from graphql_api.query.range_conditions import (
    accepts_empty_text,
)
from graphql_api.query.readiness_checks import check_derived_ready, check_ready, hidden_records_filter, history_filter
from graphql_api.query.scan_planner import ScanPlanner
from graphql_api.query.search_identity import (
    describe_search,
    index_identity,
    scan_identity,
    verify_token,
)
from graphql_api.query.search_plan import IndexScan, SearchPlan
from graphql_api.query.search_request import (
    MAX_SORTED,
    PAGE_ARGUMENTS,
    READ_BUDGET,
    Paging,
    SearchRequest,
    check_options,
    parse_paging,
)
from graphql_api.query.shard_progress import ShardProgress, Traversal
from graphql_api.query.token_seal import TokenSeal

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
    planner: "ScanPlanner"
    index_digest: bytes
    generations: int
    """shard generations that this server knows, of the index that has most"""
    placed_generations: int
    """those of them in which records are placed"""
    known_scans: "dict[tuple[Any, ...], _PlannedScans]" = field(default_factory=dict)

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
            planner=ScanPlanner(
                entity, _without_values(request), parts, required, descending, accepts_empty_text(indexes)
            ),
            index_digest=digest(*map(index_identity, indexes)),
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
        paging = self.paging
        sealed: str | None = getattr(request, paging.token_field)
        scans = self._scans(request) if sealed is None else self._known_scans(request)
        token = self._token(request, scans, sealed, now, seal)
        if request.on_shard_failure != "FAIL" or request.read_budget is not READ_BUDGET:
            check_options(request)
        return SearchPlan(
            entity=self.entity,
            request=request,
            scans=scans.scans,
            filter=all_of(self.parts),
            order_by=self.order_by,
            limit=paging.limit if self.order_by is None else MAX_SORTED,
            resumed=sealed is not None,
            traversal=Traversal(
                paging.reverse, paging.backward, len(self.indexes), ShardProgress(token.cursor, token.lagging)
            ),
            token=token,
            now=now,
        )

    def _scans(self, request: SearchRequest) -> "_PlannedScans":
        indexes, reverse, filter, order_by = self.indexes, self.paging.reverse, self.requested_filter, self.order_by
        scans = tuple(self.planner.plan_scan(request, index, indexes[:number]) for number, index in enumerate(indexes))
        search_digest = digest(
            *map(scan_identity, scans),
            reverse,
            () if filter is None else filter.identity(),
            () if order_by is None else (order_by.property.stored, order_by.descending),
        )
        return _PlannedScans(
            scans, search_digest, describe_search(self.entity, request, scans[0], filter, reverse=reverse)
        )

    def _known_scans(self, request: SearchRequest) -> "_PlannedScans":
        """Return the scans of a later page, which are those of the page before it."""
        arguments = request.arguments
        types = tuple(map(type, arguments.values()))
        if not _PLAIN_TYPES.issuperset(types):
            return self._scans(request)
        known, key = self.known_scans, (request.tenant, *arguments.items(), types)
        scans = known.get(key)
        if scans is None:
            if len(known) >= MAX_KNOWN_SCANS:
                known.clear()
            scans = known[key] = self._scans(request)
        return scans

    def _token(
        self, request: SearchRequest, scans: "_PlannedScans", sealed: str | None, now: float, seal: TokenSeal
    ) -> PageToken:
        """Return the token of the start of the page."""
        paging = self.paging
        token = PageToken(
            issued_hour=int(now // 3600),
            generations=self.placed_generations,
            index_digest=self.index_digest,
            search_digest=scans.digest,
            description=short_description(scans.description),
            cursor=Cursor(len(self.indexes) if paging.backward else 0),
        )
        if sealed is None:
            return token
        opened = unpack(seal.open(sealed, request.tenant, request.principal, paging.argument), paging.argument)

        def names() -> tuple[str, str]:
            search_name = request.naming.search_name(self.entity, self.searched)
            return search_name, short_description(scans.description, _MAX_SHOWN_BYTES)

        verify_token(opened, token, self.generations, paging.argument, names)
        return token._replace(cursor=opened.cursor, lagging=opened.lagging, selectivity_hint=opened.selectivity_hint)


class _PlannedScans(NamedTuple):
    """What follows from the arguments of a search alone."""

    scans: tuple[IndexScan, ...]
    digest: bytes
    description: str


MAX_KNOWN_SCANS = 64
"""Searches of a frame whose scans are kept, since clients read further pages of them."""
_PLAIN_TYPES = frozenset({str, int, bool})
"""types of arguments that are the same if they are equal"""
MAX_FRAMES = 256
"""Frames that are kept of a catalog: one for each index and shape of a search."""
_FRAMES: "WeakKeyDictionary[Catalog, dict[_FrameKey, SearchFrame]]" = WeakKeyDictionary()
_TOKENS = ("next_token", "after", "before")
_VALUES: dict[str, Any] = dict.fromkeys(("why", "tenant", "principal", *_TOKENS)) | {"arguments": {}}
"""the fields in which searches of one frame differ, without values"""
_common_fields = attrgetter(*(one.name for one in fields(SearchRequest) if one.name not in _VALUES))
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

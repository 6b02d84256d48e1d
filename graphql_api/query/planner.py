"""Plan a search: decide the shards, the range of each index, the filters and the position to resume at."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphql_api.codecs import KeyRange, RangeValue, hash_key, join_segments, short_repr
from graphql_api.errors import (
    ConflictingArguments,
    ExpiredToken,
    InvalidValue,
    TokenAhead,
    TokenMismatch,
    UnknownArgument,
    about,
    nearest,
)
from graphql_api.model import Catalog, Descending, EntitySpec, IndexRef, IndexSpec, SortProperty
from graphql_api.query.filter_parser import parse_filter
from graphql_api.query.filters import Filter, all_of, conjuncts
from graphql_api.query.history_scope import history_filter, restrict_to_current
from graphql_api.query.index_row import RowView
from graphql_api.query.naming_scheme import PAGE_ARGUMENTS, NamingScheme
from graphql_api.query.page_token import Cursor, PageToken, digest, short_description, unpack
from graphql_api.query.property_values import has_default
from graphql_api.query.range_conditions import IndexConditions, parse_conditions
from graphql_api.query.range_pushdown import narrow_range_by_filter
from graphql_api.query.search_plan import IndexScan, SearchPlan, TokenBinding
from graphql_api.query.search_request import MAX_SORTED, Paging, SearchRequest, check_read_budget, parse_paging
from graphql_api.query.shard_progress import ShardProgress, Traversal
from graphql_api.query.store_pushdown import store_filter
from graphql_api.query.token_seal import TokenSeal
from graphql_api.sharding import covering_shards
from graphql_api.storage import RangeRead, StoreFilter

MAX_TOKEN_AGE_HOURS = 24
_MAX_SHOWN_BYTES = 160
"""of a description in an error message"""


def plan_search(catalog: Catalog, request: SearchRequest, now: float, seal: TokenSeal) -> SearchPlan:
    """Plan one page of a search; `now` is in seconds since 1970."""
    entity = catalog.entity(request.entity)
    union = entity.unions.get(request.index)
    indexes = union.members if union is not None else (catalog.index(IndexRef(entity.model, request.index)),)
    order_by = _order_by(entity, request)
    paging = parse_paging(request)
    requested = parse_filter(entity, request.filter, request.naming)
    enforced = parse_filter(entity, request.enforced_filter)
    filter = all_of([*conjuncts(requested), *conjuncts(enforced), *conjuncts(history_filter(entity, request))])
    selected = _selected_properties(entity, request)
    planner = _ScanPlanner(entity, request, filter, selected, order_by, descending=paging.reverse != paging.backward)
    scans = tuple(planner.plan_scan(index, indexes[:number]) for number, index in enumerate(indexes))
    binding = _bind_tokens(request, entity, scans, filter, order_by, reverse=paging.reverse, now=now)
    start, selectivity_hint = ShardProgress(Cursor(len(scans) if paging.backward else 0)), 0
    if paging.token is not None:
        token = unpack(seal.open(paging.token, request.tenant, request.principal, paging.argument), paging.argument)
        _verify_token(token, binding, paging)
        start, selectivity_hint = ShardProgress(token.cursor, token.lagging), token.selectivity_hint
    return SearchPlan(
        entity=entity,
        tenant=request.tenant,
        principal=request.principal,
        scans=scans,
        union=None if union is None else union.name,
        filter=filter,
        order_by=order_by,
        limit=paging.limit if order_by is None else MAX_SORTED,
        reverse=paging.reverse,
        backward=paging.backward,
        resumed=paging.token is not None,
        traversal=Traversal(paging.reverse, paging.backward, len(scans), start),
        partial=_is_partial(request),
        read_budget=check_read_budget(request),
        selectivity_hint=selectivity_hint,
        selected=selected,
        token_binding=binding,
        now=now,
        why=request.why,
    )


class _ScanPlanner:
    """Plan the scans of a search, one for each index."""

    def __init__(
        self,
        entity: EntitySpec,
        request: SearchRequest,
        filter: Filter | None,
        selected: frozenset[str] | None,
        order_by: SortProperty | None,
        *,
        descending: bool,
    ) -> None:
        self._entity = entity
        self._request = request
        self._filter = filter
        self._selected = selected
        self._order_by = order_by
        self._descending = descending

    def plan_scan(self, index: IndexSpec, earlier: Sequence[IndexSpec]) -> IndexScan:
        """Plan the scan of one index; `earlier` are the indexes before it in a union."""
        entity, request = self._entity, self._request
        provided = parse_conditions(entity, index, request.arguments, request.naming)
        conditions = narrow_range_by_filter(index, provided, conjuncts(self._filter))
        if request.history == "CURRENT":
            conditions = restrict_to_current(entity, index, conditions)
        single_id, ordinals = _shards_to_read(entity, index, conditions)
        view = RowView(entity, index, provided.known)
        parts = conjuncts(self._filter)
        row_filter = all_of([part for part in parts if all(map(view.provides, part.properties))])
        engine_filter = self._engine_filter(view, row_filter)
        attributes = self._attributes_for_count(view, row_filter, earlier) if request.count_only else None
        with about(_longest_hash_argument(index, conditions, request.naming)):
            shard_reads = tuple(
                RangeRead(
                    index=index.physical,
                    hash_key=hash_key(
                        index.hash_entity, index.space.shard_text(ordinal), conditions.hash_values, request.tenant
                    ),
                    ordinal=ordinal,
                    range=conditions.range,
                    limit=1,
                    consistent=request.consistent and index.physical is None,
                    descending=self._descending,
                    filter=engine_filter,
                    attributes=attributes,
                )
                for ordinal in (() if conditions.range.is_empty else ordinals)
            )
        return IndexScan(
            number=len(earlier),
            index=index,
            conditions=conditions.description,
            hash_values=conditions.hash_values,
            range=conditions.range,
            shard_reads=shard_reads,
            single_id=single_id,
            row_view=view,
            row_filter=row_filter,
            fetches_records=not all(map(view.provides, self._required_properties())),
            filters_records=len(conjuncts(row_filter)) < len(parts),
        )

    def _required_properties(self) -> Iterable[str]:
        """Return the properties that each match must provide."""
        selected = self._entity.properties.keys() if self._selected is None else self._selected
        filtered = frozenset[str]() if self._filter is None else self._filter.properties
        expiry = (self._entity.ttl.name,) if self._entity.ttl is not None else ()
        order = (self._order_by.property.name,) if self._order_by is not None else ()
        return (*selected, *filtered, *expiry, *order)

    def _attributes_for_count(
        self, view: RowView, row_filter: Filter | None, earlier: Sequence[IndexSpec]
    ) -> frozenset[str] | None:
        """Return the attributes that decide whether a row counts; None: all."""
        ttl = self._entity.ttl
        keys = {name for index in earlier for name in (index.hash_attribute, index.range_attribute)}
        keys |= {ttl.stored} if ttl is not None and view.carries_attribute(ttl.name) else set()
        filtered = view.attributes_for(frozenset() if row_filter is None else row_filter.properties)
        return None if filtered is None else filtered | keys

    def _engine_filter(self, view: RowView, row_filter: Filter | None) -> StoreFilter | None:
        """Return the part of the filter for the engine, which sees only the attributes that the index carries."""
        parts = [part for part in conjuncts(row_filter) if all(map(view.carries_attribute, part.properties))]
        return store_filter(all_of(parts), lambda part: has_default(self._entity, part))


def _selected_properties(entity: EntitySpec, request: SearchRequest) -> frozenset[str] | None:
    if request.select is None:
        return None
    if isinstance(request.select, str):
        raise InvalidValue(f"select takes a list of properties, not {short_repr(request.select)}.", argument="select")
    unknown = next((name for name in request.select if name not in entity.properties), None)
    if unknown is not None:
        raise UnknownArgument(
            f"{entity.type_name} has no property {unknown!r} to select.{nearest(unknown, entity.properties)}",
            argument="select",
        )
    return frozenset(request.select)


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


def _is_partial(request: SearchRequest) -> bool:
    if request.on_shard_failure not in ("FAIL", "PARTIAL"):
        argument = request.naming.common_argument("on_shard_failure")
        raise InvalidValue(f"{argument} is FAIL or PARTIAL, not {request.on_shard_failure!r}.", argument=argument)
    return request.on_shard_failure == "PARTIAL"


def _longest_hash_argument(index: IndexSpec, conditions: IndexConditions, naming: NamingScheme) -> str:
    """Return the argument to name in the error for a hash key that is too long."""
    lengths = [len(text.encode()) for _, text in conditions.hash_values]
    return naming.property_argument(index.hash[lengths.index(max(lengths))].name) if lengths else "tenant"


# --- shards ----------------------------------------------------------------------------------------------------


def _shards_to_read(entity: EntitySpec, index: IndexSpec, conditions: IndexConditions) -> tuple[bool, tuple[int, ...]]:
    """Return whether all matches have one unique id, and the ordinals of the shards to read."""
    low = high = None
    if entity.created is not None:
        low, high = _value_bounds(entity.created.name, conditions.known, conditions.bounds)
    sharded_by = index.hash if index.sharded_like_parent else entity.ids
    unique_id = None
    if all(part.name in conditions.known for part in sharded_by):
        unique_id = join_segments([part.column.encode(conditions.known[part.name]) for part in sharded_by])
    ordinals = covering_shards(index.space, unique_id=unique_id, created_from=low, created_to=high)
    return unique_id is not None and not index.sharded_like_parent, ordinals


def _value_bounds(name: str, known: Mapping[str, Any], bounds: Mapping[str, tuple[Any, Any]]) -> tuple[Any, Any]:
    if name in known:
        return known[name], known[name]
    return bounds.get(name, (None, None))


# --- tokens ----------------------------------------------------------------------------------------------------


def _bind_tokens(
    request: SearchRequest,
    entity: EntitySpec,
    scans: Sequence[IndexScan],
    filter: Filter | None,
    order_by: SortProperty | None,
    *,
    reverse: bool,
    now: float,
) -> TokenBinding:
    """Return the binding of tokens: digests of all that a cursor depends on.

    Any other change of the catalog keeps tokens valid.
    """
    index = scans[0].index
    union = entity.unions.get(request.index)
    conditions = [scans[0].conditions] if scans[0].conditions else []
    conditions += [] if filter is None else [f"where {filter.describe()}"]
    name = union.name if union is not None else index.name
    return TokenBinding(
        search_name=request.naming.search_name(entity, union or index),
        index_digest=digest(*(_index_identity(scan.index) for scan in scans)),
        search_digest=digest(
            *((scan.hash_values, _range_identity(scan.range)) for scan in scans),
            reverse,
            () if filter is None else filter.identity(),
            () if order_by is None else (order_by.property.stored, order_by.descending),
        ),
        description=f"{'reversed ' if reverse else ''}{' '.join(conditions) or f'every {entity.type_name} by {name}'}",
        generations=max(len(scan.index.space.generations) for scan in scans),
        hour=int(now // 3600),
    )


def _index_identity(index: IndexSpec) -> tuple[object, ...]:
    columns = (index.sort[0].column,) if index.raw else index.columns
    return (
        index.entity,
        index.name,
        index.raw,
        (index.hash_entity, index.sharded_like_parent, index.space.function, index.space.width),
        [part.stored for part in index.hash],
        [(column.name, column.codec.name, column.descending) for column in columns],
    )


def _range_identity(key_range: KeyRange) -> tuple[object, ...]:
    return _bound_identity(key_range.low), _bound_identity(key_range.high), key_range.low_open, key_range.high_open


def _bound_identity(value: RangeValue | None) -> object:
    """Return a bound as text: equal numbers have one form, and an index holds only texts or only numbers."""
    return None if value is None else str(value)


def _verify_token(token: PageToken, binding: TokenBinding, paging: Paging) -> None:
    """Raise an error unless the token is recent and belongs to this search."""
    here = short_description(binding.description, _MAX_SHOWN_BYTES)
    if binding.hour - token.issued_hour > MAX_TOKEN_AGE_HOURS:
        raise ExpiredToken(
            f"{paging.argument} is older than {MAX_TOKEN_AGE_HOURS} hours: omit it to start from the first page.",
            argument=paging.argument,
        )
    if token.index_digest != binding.index_digest:
        raise TokenMismatch(
            f"{paging.argument} was made by another search ({token.description}), and is used with "
            f"{binding.search_name} ({here}). Use it with the index that it comes from, or omit it to start from the "
            "first page.",
            argument=paging.argument,
        )
    if token.search_digest != binding.search_digest:
        raise TokenMismatch(
            f"{paging.argument} was made for {token.description}, and is used with {here}. Use it with the same "
            "arguments, or omit it to start from the first page.",
            argument=paging.argument,
        )
    if token.generations > binding.generations:
        raise TokenAhead(
            f"{paging.argument} was made by a server with newer shard generations than this one: retry once this "
            "server has been updated.",
            argument=paging.argument,
        )

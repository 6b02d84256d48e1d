"""Turns a request into a plan: which hash keys, which range of each, from which place, and what else must hold."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphql_api.codecs import KeyRange, RangeValue, hash_key, join, shown
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
from graphql_api.query.argument_names import Dialect
from graphql_api.query.filters import Filter, all_of, conjuncts, read_filter, store_filter
from graphql_api.query.history_scope import history_test, of_current
from graphql_api.query.index_row import RowView
from graphql_api.query.page_token import PageToken, Place, digest, short_words, unpack
from graphql_api.query.property_values import has_default
from graphql_api.query.range_conditions import Conditions, read_conditions
from graphql_api.query.range_pushdown import narrowed
from graphql_api.query.search_plan import Binding, Member, SearchPlan
from graphql_api.query.search_request import MAX_SORTED, PAGE_WORDS, Paging, SearchRequest, read_budget, read_paging
from graphql_api.query.shard_progress import Standing, Walk
from graphql_api.query.token_seal import Seal
from graphql_api.sharding import covering_shards
from graphql_api.storage import RangeRead, StoreFilter

TOKEN_HOURS = 24
_SHOWN_WORDS = 160


def plan_search(catalog: Catalog, request: SearchRequest, now: float, seal: Seal) -> SearchPlan:
    """Decides a whole page; `now` is in seconds since 1970."""
    entity = catalog.entity(request.entity)
    union = entity.unions.get(request.index)
    indexes = union.members if union is not None else (catalog.index(IndexRef(entity.model, request.index)),)
    order_by = _order_by(entity, request)
    paging = read_paging(request)
    asked, enforced = read_filter(entity, request.filter, request.dialect), read_filter(entity, request.only)
    filter = all_of([*conjuncts(asked), *conjuncts(enforced), *conjuncts(history_test(entity, request))])
    selected = _selected(entity, request)
    reads = _Reads(entity, request, filter, selected, order_by, descending=paging.reverse != paging.backward)
    members = tuple(reads.member(index, indexes[:number]) for number, index in enumerate(indexes))
    binding = _binding(request, entity, members, filter, order_by, reverse=paging.reverse, now=now)
    begins, hint = Standing(Place(len(members) if paging.backward else 0)), 0
    if paging.token is not None:
        token = unpack(seal.open(paging.token, request.tenant, request.principal, paging.argument), paging.argument)
        _check_token(token, binding, paging)
        begins, hint = Standing(token.place, token.lagging), token.hint
    return SearchPlan(
        entity=entity,
        tenant=request.tenant,
        principal=request.principal,
        members=members,
        union=None if union is None else union.name,
        filter=filter,
        order_by=order_by,
        limit=paging.limit if order_by is None else MAX_SORTED,
        reverse=paging.reverse,
        backward=paging.backward,
        resumed=paging.token is not None,
        walk=Walk(paging.reverse, paging.backward, len(members), begins),
        partial=_is_partial(request),
        budget=read_budget(request),
        hint=hint,
        selected=selected,
        binding=binding,
        now=now,
        why=request.why,
    )


class _Reads:
    """Makes the members of a plan: one look at one index each."""

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

    def member(self, index: IndexSpec, earlier: Sequence[IndexSpec]) -> Member:
        """What is looked at in one index, behind those that come before it in a union."""
        entity, request = self._entity, self._request
        given = read_conditions(entity, index, request.arguments, request.dialect)
        conditions = narrowed(index, given, conjuncts(self._filter))
        if request.history == "CURRENT":
            conditions = of_current(entity, index, conditions)
        one_id, ordinals = _shards(entity, index, conditions)
        view = RowView(entity, index, given.known)
        tests = conjuncts(self._filter)
        early = all_of([part for part in tests if all(map(view.tells, part.properties))])
        in_store = self._in_store(view, early)
        attributes = self._counted_by(view, early, earlier) if request.counts else None
        with about(_longest_hash_argument(index, conditions, request.dialect)):
            whole = tuple(
                RangeRead(
                    index=index.physical,
                    hash_key=hash_key(index.head, index.space.text(ordinal), conditions.hash_values, request.tenant),
                    ordinal=ordinal,
                    range=conditions.range,
                    limit=1,
                    consistent=request.consistent and index.physical is None,
                    descending=self._descending,
                    filter=in_store,
                    attributes=attributes,
                )
                for ordinal in (() if conditions.range.is_empty else ordinals)
            )
        return Member(
            number=len(earlier),
            index=index,
            conditions=conditions.words,
            hash_values=conditions.hash_values,
            range=conditions.range,
            whole=whole,
            one_id=one_id,
            view=view,
            early=early,
            late=len(conjuncts(early)) < len(tests),
            fetches=not all(map(view.tells, self._needed())),
        )

    def _needed(self) -> Iterable[str]:
        """The properties that a record must come with."""
        wanted = self._entity.properties.keys() if self._selected is None else self._selected
        tested = frozenset[str]() if self._filter is None else self._filter.properties
        expiry = (self._entity.ttl.name,) if self._entity.ttl is not None else ()
        order = (self._order_by.property.name,) if self._order_by is not None else ()
        return (*wanted, *tested, *expiry, *order)

    def _counted_by(self, view: RowView, early: Filter | None, earlier: Sequence[IndexSpec]) -> frozenset[str] | None:
        """The attributes that tell whether a row counts; None: all."""
        ttl = self._entity.ttl
        keys = {name for index in earlier for name in (index.hash_attribute, index.range_attribute)}
        keys |= {ttl.stored} if ttl is not None and view.stores(ttl.name) else set()
        tested = view.attributes_of(frozenset() if early is None else early.properties)
        return None if tested is None else tested | keys

    def _in_store(self, view: RowView, early: Filter | None) -> StoreFilter | None:
        """The part of the filter that an engine may test; it sees attributes, and none that the index lacks."""
        parts = [part for part in conjuncts(early) if all(map(view.stores, part.properties))]
        return store_filter(all_of(parts), lambda part: has_default(self._entity, part))


def _selected(entity: EntitySpec, request: SearchRequest) -> frozenset[str] | None:
    if request.select is None:
        return None
    if isinstance(request.select, str):
        raise InvalidValue(f"select takes a list of properties, not {shown(request.select)}.", argument="select")
    unknown = next((name for name in request.select if name not in entity.properties), None)
    if unknown is not None:
        raise UnknownArgument(
            f"{entity.type_name} has no property {unknown!r} to select.{nearest(unknown, entity.properties)}",
            argument="select",
        )
    return frozenset(request.select)


def _order_by(entity: EntitySpec, request: SearchRequest) -> SortProperty | None:
    """What sorts the answer of a union; it is one page then, so nothing about pages goes with it."""
    if request.order_by is None:
        return None
    argument = request.dialect.word("order_by")
    if request.index not in entity.unions:
        raise UnknownArgument(
            f"{argument} sorts what a union finds; an index has its own order, which reverse turns.", argument=argument
        )
    given = [name for name in PAGE_WORDS if getattr(request, name) is not None]
    given += ["on_shard_failure"] if request.on_shard_failure != "FAIL" else []
    if given:
        raise ConflictingArguments(
            f"{argument} gives the whole answer as one page: leave {request.dialect.word(given[0])} out.",
            argument=argument,
        )
    descending = isinstance(request.order_by, Descending)
    name = request.order_by.property if isinstance(request.order_by, Descending) else request.order_by
    part = entity.properties.get(name) if isinstance(name, str) else None
    if part is None or part.codec is None:
        raise InvalidValue(
            f"{argument}: {entity.type_name} is not sorted by {shown(name)}: name a plain property, or desc() of one."
            f"{nearest(str(name), entity.properties)}",
            argument=argument,
        )
    return SortProperty(part, descending)


def _is_partial(request: SearchRequest) -> bool:
    if request.on_shard_failure not in ("FAIL", "PARTIAL"):
        argument = request.dialect.word("on_shard_failure")
        raise InvalidValue(f"{argument} is FAIL or PARTIAL, not {request.on_shard_failure!r}.", argument=argument)
    return request.on_shard_failure == "PARTIAL"


def _longest_hash_argument(index: IndexSpec, conditions: Conditions, dialect: Dialect) -> str:
    """What to blame for a hash key that is too long."""
    lengths = [len(text.encode()) for _, text in conditions.hash_values]
    return dialect.argument(index.hash[lengths.index(max(lengths))].name) if lengths else "tenant"


# --- shards ----------------------------------------------------------------------------------------------------


def _shards(entity: EntitySpec, index: IndexSpec, conditions: Conditions) -> tuple[bool, tuple[int, ...]]:
    """Whether the answer is of one id, and the ordinals to visit."""
    low = high = None
    if entity.created is not None:
        low, high = _between(entity.created.name, conditions.known, conditions.bounds)
    sharded_by = index.hash if index.like_parent else entity.ids
    exact = None
    if all(part.name in conditions.known for part in sharded_by):
        exact = join([part.column.encode(conditions.known[part.name]) for part in sharded_by])
    ordinals = covering_shards(index.space, unique_id=exact, created_from=low, created_to=high)
    return exact is not None and not index.like_parent, ordinals


def _between(name: str, known: Mapping[str, Any], bounds: Mapping[str, tuple[Any, Any]]) -> tuple[Any, Any]:
    if name in known:
        return known[name], known[name]
    return bounds.get(name, (None, None))


# --- tokens ----------------------------------------------------------------------------------------------------


def _binding(
    request: SearchRequest,
    entity: EntitySpec,
    members: Sequence[Member],
    filter: Filter | None,
    order_by: SortProperty | None,
    *,
    reverse: bool,
    now: float,
) -> Binding:
    """The digests name what a place depends on, so that any other change of the catalog leaves tokens alone."""
    index = members[0].index
    union = entity.unions.get(request.index)
    words = [members[0].conditions] if members[0].conditions else []
    words += [] if filter is None else [f"where {filter.words()}"]
    called = union.name if union is not None else index.name
    return Binding(
        where=request.dialect.index(entity, union or index),
        index_digest=digest(*(_index_digest(member.index) for member in members)),
        search_digest=digest(
            *((member.hash_values, _bounds(member.range)) for member in members),
            reverse,
            () if filter is None else filter.identity(),
            () if order_by is None else (order_by.property.stored, order_by.descending),
        ),
        words=f"{'reversed ' if reverse else ''}{' '.join(words) or f'every {entity.type_name} by {called}'}",
        generations=max(len(member.index.space.generations) for member in members),
        hour=int(now // 3600),
    )


def _index_digest(index: IndexSpec) -> tuple[object, ...]:
    columns = (index.sort[0].column,) if index.raw else index.columns
    return (
        index.entity,
        index.name,
        index.raw,
        (index.head, index.like_parent, index.space.function, index.space.width),
        [part.stored for part in index.hash],
        [(column.name, column.codec.name, column.descending) for column in columns],
    )


def _bounds(key_range: KeyRange) -> tuple[object, ...]:
    return _bound(key_range.low), _bound(key_range.high), key_range.low_open, key_range.high_open


def _bound(value: RangeValue | None) -> object:
    """Numbers count by value: codecs have one form for equal ones, and the index tells its numbers from texts."""
    return None if value is None else str(value)


def _check_token(token: PageToken, binding: Binding, paging: Paging) -> None:
    here = short_words(binding.words, _SHOWN_WORDS)
    if binding.hour - token.issued_hour > TOKEN_HOURS:
        raise ExpiredToken(
            f"{paging.argument} is older than {TOKEN_HOURS} hours: leave it out to begin anew.",
            argument=paging.argument,
        )
    if token.index_digest != binding.index_digest:
        raise TokenMismatch(
            f"{paging.argument} was made by another search ({token.words}), and is used with {binding.where} "
            f"({here}). Pass it with the index that it comes from, or leave it out to begin anew.",
            argument=paging.argument,
        )
    if token.search_digest != binding.search_digest:
        raise TokenMismatch(
            f"{paging.argument} was made for {token.words}, and is used with {here}. Pass it with the same "
            "arguments, or leave it out to begin anew.",
            argument=paging.argument,
        )
    if token.generations > binding.generations:
        raise TokenAhead(
            f"{paging.argument} comes from a server that knows newer shards than this one: try again, it will be "
            "updated soon.",
            argument=paging.argument,
        )

"""Turns a request into a plan: which hash keys, which range of each, from which place, how much at first."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from graphql_api.catalog.catalog import Catalog
from graphql_api.catalog.markers import IndexRef
from graphql_api.catalog.specs import EntitySpec, IndexSpec
from graphql_api.errors import ExpiredToken, InvalidValue, TokenAhead, TokenMismatch, about
from graphql_api.keys.hash_keys import hash_key
from graphql_api.keys.ranges import KeyRange, RangeValue
from graphql_api.keys.segments import join
from graphql_api.search.conditions import Conditions, read_conditions
from graphql_api.search.dialect import Dialect
from graphql_api.search.how_much import first_limit
from graphql_api.search.page_token import PageToken, Place, digest, short_words, unpack
from graphql_api.search.plan import Binding, SearchPlan, place_of
from graphql_api.search.request import Paging, SearchRequest, read_paging
from graphql_api.search.seal import Seal
from graphql_api.search.standing import END, START, Standing, Walk
from graphql_api.shards.coverage import coverage
from graphql_api.store.resume import behind
from graphql_api.store.values import Key, Position, RangeRead

TOKEN_HOURS = 24
_SHOWN_WORDS = 160


def plan_search(catalog: Catalog, request: SearchRequest, now: float, seal: Seal) -> SearchPlan:
    """Decides a whole page; `now` is in seconds since 1970."""
    entity = catalog.entity(request.entity)
    index = catalog.index(IndexRef(entity.model, request.index))
    paging = read_paging(request)
    conditions = read_conditions(entity, index, request.arguments, request.dialect)
    binding = _binding(request.dialect, entity, index, conditions, paging.reverse, now)
    one_id, ordinals = _shards(entity, index, conditions)
    with about(_longest_hash_argument(index, conditions, request.dialect)):
        whole = tuple(
            RangeRead(
                index=index.physical,
                hash_key=hash_key(index.head, index.space.text(ordinal), conditions.hash_values, request.tenant),
                ordinal=ordinal,
                range=conditions.range,
                limit=1,
                consistent=request.consistent and index.physical is None,
                descending=paging.reverse != paging.backward,
            )
            for ordinal in ordinals
        )
    begins = Standing(END if paging.backward else START)
    if paging.token is not None:
        token = unpack(seal.open(paging.token, request.tenant, request.principal, paging.argument), paging.argument)
        _check_token(token, binding, paging)
        begins = Standing(token.place, token.lagging)
    plan = SearchPlan(
        entity=entity,
        index=index,
        tenant=request.tenant,
        principal=request.principal,
        conditions=conditions.words,
        range=conditions.range,
        whole=whole,
        reads=(),
        one_id=one_id,
        limit=paging.limit,
        reverse=paging.reverse,
        backward=paging.backward,
        resumed=paging.token is not None,
        walk=Walk(paging.reverse != paging.backward, paging.backward, begins, partial(place_of, index)),
        partial=_is_partial(request),
        binding=binding,
        now=now,
    )
    return go_on(plan, begins, paging.limit)


def go_on(plan: SearchPlan, begins: Standing, limit: int) -> SearchPlan:
    """The same search from where its shards stand, for so many records."""
    walk = replace(plan.walk, begins=begins)
    left = [
        (read, position)
        for whole in plan.whole
        for position in [_position(plan, begins.of(whole.ordinal))]
        if (read := _left_of(whole, walk, position, may_tie=plan.index.raw)) is not None
    ]
    first = limit + 1 if plan.one_id else first_limit(limit, len(left))
    reads = tuple(_with_limit(read, first, position) for read, position in left)
    return replace(plan, walk=walk, reads=reads, limit=limit)


def _left_of(read: RangeRead, walk: Walk, position: Position | None, *, may_tie: bool) -> RangeRead | None:
    """What a shard still has to show."""
    if position is not None:
        return behind(read, position, may_tie=may_tie)
    return None if walk.begins.of(read.ordinal) == walk.goal else read


def _position(plan: SearchPlan, place: Place) -> Position | None:
    """A token's place in this search; the hash key of its record is made anew, never taken from the token."""
    if place.value is None:
        return None
    if place.record is None:
        return Position(place.value, place.ordinal, Key("", ""))
    entity = plan.entity
    own_hash = hash_key(entity.name, entity.space.text(place.record.ordinal), (), plan.tenant)
    return Position(place.value, place.ordinal, Key(own_hash, place.record.range_key))


def _is_partial(request: SearchRequest) -> bool:
    if request.on_shard_failure not in ("FAIL", "PARTIAL"):
        argument = request.dialect.word("on_shard_failure")
        raise InvalidValue(f"{argument} is FAIL or PARTIAL, not {request.on_shard_failure!r}.", argument=argument)
    return request.on_shard_failure == "PARTIAL"


def _with_limit(read: RangeRead, limit: int, position: Position | None) -> RangeRead:
    """Reading downwards an engine may have to read the place's own record once more to leave it out: one more there."""
    again = position is not None and read.descending and read.start is None and read.ordinal == position.ordinal
    return replace(read, limit=limit + again)


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
    ordinals = coverage(index.space, unique_id=exact, created_from=low, created_to=high)
    return exact is not None and not index.like_parent, ordinals


def _between(name: str, known: Mapping[str, Any], bounds: Mapping[str, tuple[Any, Any]]) -> tuple[Any, Any]:
    if name in known:
        return known[name], known[name]
    return bounds.get(name, (None, None))


# --- tokens ----------------------------------------------------------------------------------------------------


def _binding(
    dialect: Dialect, entity: EntitySpec, index: IndexSpec, conditions: Conditions, reverse: bool, now: float
) -> Binding:
    """The digests name what a place depends on, so that any other change of the catalog leaves tokens alone."""
    columns = (index.sort[0].column,) if index.raw else index.columns
    return Binding(
        where=dialect.index(entity, index),
        index_digest=digest(
            entity.name,
            index.name,
            index.raw,
            (index.head, index.like_parent, index.space.function, index.space.width),
            [part.stored for part in index.hash],
            [(column.name, column.codec.name, column.descending) for column in columns],
        ),
        search_digest=digest(conditions.hash_values, _bounds(conditions.range), reverse),
        words=f"{'reversed ' if reverse else ''}{conditions.words or f'every {entity.type_name} by {index.name}'}",
        generations=len(index.space.generations),
        hour=int(now // 3600),
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

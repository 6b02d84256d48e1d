"""A catalog over a store, as one tenant and principal see it: searches, reads and writes from Python."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from graphql_api.catalog.catalog import Catalog
from graphql_api.catalog.entity import Entity
from graphql_api.catalog.markers import IndexRef
from graphql_api.catalog.specs import EntitySpec
from graphql_api.clock import Clock, system_clock
from graphql_api.errors import (
    ConflictingArguments,
    EmptyKey,
    InvalidLimit,
    MissingArgument,
    ShardQLError,
    UnknownArgument,
    about,
    nearest,
)
from graphql_api.fanout.find_page import Count, count_records, find_page
from graphql_api.fanout.page import Page
from graphql_api.fanout.run_search import Work
from graphql_api.keys.codec import shown
from graphql_api.keys.outside import split_outside
from graphql_api.keys.ranges import encode_tuple
from graphql_api.keys.segments import readable
from graphql_api.mutations.apply import delete_record, get_record, put_records
from graphql_api.mutations.item_keys import keys_of
from graphql_api.search.dialect import OPTIONS, PAGING, PYTHON, Dialect
from graphql_api.search.plan import SearchPlan
from graphql_api.search.planner import plan_search
from graphql_api.search.request import COUNT_BUDGET, MOST_COUNTED, PAGE_WORDS, SearchRequest
from graphql_api.search.seal import Seal
from graphql_api.search.searched import searched_value
from graphql_api.store.bill import itemised
from graphql_api.store.port import Store
from graphql_api.store.tally import count_returned, count_search
from graphql_api.store.values import Key

E = TypeVar("E", bound=Entity)


@dataclass(frozen=True, slots=True)
class Database:
    """A catalog over a store, as one tenant and principal see it."""

    catalog: Catalog
    store: Store
    seal: Seal
    clock: Clock = system_clock
    tenant: str | None = None
    principal: str | None = None

    def scoped(self, *, tenant: str | None = None, principal: str | None = None) -> "Database":
        """The same data as another tenant and principal: other records, other tokens."""
        return replace(self, tenant=tenant, principal=principal)

    # --- reading -----------------------------------------------------------------------------------------------

    async def search(self, index: IndexRef, /, **arguments: Any) -> Page[Any]:
        """One page: `await db.search(User.by_first_name, prefix="j", limit=20)`.

        Takes the index's hash properties, `eq`, `prefix`, `from_` and `to` for its first sort property, conditions by
        property name, `reverse`, and either `limit` and `next_token` or `first`, `after`, `last` and `before`;
        `filter`, as in `filter={"phone": {"exists": True}}`; `select`, the properties that are needed of each record;
        of a union `order_by`, the property that sorts the whole answer.
        """
        options = {name: arguments.pop(name) for name in (PAGING | OPTIONS) & arguments.keys()}
        entity = self.catalog.entity(index.entity)
        return await self.page(SearchRequest(entity.name, index.attribute, arguments, **options))

    async def page(self, request: SearchRequest) -> Page[Any]:
        """What a request asks for, as this tenant and principal may see it."""
        request = replace(request, tenant=self.tenant, principal=self.principal)
        now = self.clock()
        plan = plan_search(self.catalog, request, now, self.seal)
        with itemised() as bill:
            found = await find_page(self.store, plan)
        found.work.took(self.clock() - now, bill)
        count_search(found.asked)
        count_returned(len(found.hits))
        return Page(plan, found, self.seal, request)

    async def count(self, index: IndexRef, /, *, at_most: int = MOST_COUNTED, **arguments: Any) -> Count:
        """How many records a search has, counted up to `at_most`: `await db.count(User.by_name, prefix="j")`."""
        filter = arguments.pop("filter", None)
        entity = self.catalog.entity(index.entity)
        return await self.count_of(SearchRequest(entity.name, index.attribute, arguments, filter=filter), at_most)

    async def count_of(self, request: SearchRequest, at_most: Any = MOST_COUNTED) -> Count:
        """How many records the whole answer has to which a page belongs."""
        plan = self.count_plan(request, at_most)
        with itemised() as bill:
            counted = await count_records(self.store, plan)
        counted.work.took(self.clock() - plan.now, bill)
        return counted

    def count_plan(self, request: SearchRequest, at_most: Any) -> SearchPlan:
        """How the records of a whole answer are counted."""
        if isinstance(at_most, bool) or not isinstance(at_most, int) or not 1 <= at_most <= MOST_COUNTED:
            argument = request.dialect.word("at_most")
            raise InvalidLimit(
                f"{argument} must be a whole number from 1 to {MOST_COUNTED:,}, not {shown(at_most)}.",
                argument=argument,
            )
        pages: dict[str, Any] = dict.fromkeys(PAGE_WORDS)
        whole = replace(
            request,
            **pages,
            order_by=None,
            select=(),
            on_shard_failure="FAIL",
            read_budget=COUNT_BUDGET,
            tenant=self.tenant,
            principal=self.principal,
        )
        return replace(plan_search(self.catalog, whole, self.clock(), self.seal), limit=at_most)

    async def get(self, entity: type[E], id: Any = None, /, *, consistent: bool = True, **parts: Any) -> E | None:
        """The record with this id: `await db.get(User, "wf5y")`, `await db.get(Line, "o-1", category="a", num=3)`.

        Where records have a sub id and none is given, it is the last one.
        """
        found = await self.record(self.catalog.entity(entity), id, parts, consistent=consistent)
        return found if isinstance(found, entity) else None

    async def record(
        self, spec: EntitySpec, id: Any, parts: Mapping[str, Any], *, consistent: bool = True, dialect: Dialect = PYTHON
    ) -> Entity | None:
        """The record with this id, given as one or part by part; without its sub id the last one of the id."""
        return (await self.find_record(spec, id, parts, consistent=consistent, dialect=dialect)).record

    async def find_record(
        self,
        spec: EntitySpec,
        id: Any,
        parts: Mapping[str, Any],
        *,
        consistent: bool = True,
        dialect: Dialect = PYTHON,
        why: str | None = None,
    ) -> "RecordFound":
        """The same, and what finding it took."""
        values = _primary_values(spec, id, parts, dialect)
        if spec.sub_ids and len(values) == len(spec.ids):
            by_id = {dialect.argument(part.name): value for part, value in zip(spec.ids, values, strict=True)}
            request = SearchRequest(
                spec.name, "by_id", by_id, reverse=True, limit=1, consistent=consistent, why=why, dialect=dialect
            )
            last = await self.page(request)
            return RecordFound(last.items[0] if last.items else None, last.explain)
        return await self.read_record(RecordRead(spec, keys_of(spec, values, self.tenant), consistent, why))

    async def read_record(self, read: "RecordRead") -> "RecordFound":
        """The record that a read by key finds."""
        now = self.clock()
        with itemised() as bill:
            record = await get_record(self.store, read.entity, read.keys, now=now, consistent=read.consistent)
        count_returned(record is not None)
        work = Work(fetched=len(read.keys))
        work.took(self.clock() - now, bill)
        cost = {**work.describe(), "returned": int(record is not None)}
        return RecordFound(record, {**read.describe(), "read": cost})

    # --- writing -----------------------------------------------------------------------------------------------

    async def put(self, record: Entity) -> None:
        """Writes a record in place of the one with its id."""
        (problem,) = await self.put_many([record])
        if problem is not None:
            raise problem

    async def put_many(self, records: Sequence[Entity]) -> list[ShardQLError | None]:
        """Writes records of one entity, each by itself; tells for each whether it failed."""
        if not records:
            return []
        entity = self.catalog.entity(type(records[0]))
        return await put_records(self.store, entity, records, self.tenant, now=self.clock())

    async def delete(self, entity: type[Entity], id: Any = None, /, **parts: Any) -> None:
        """Removes the record with this id, if there is one."""
        spec = self.catalog.entity(entity)
        values = _primary_values(spec, id, parts, PYTHON)
        if len(values) < len(spec.primary):
            missing = spec.sub_ids[0].name
            raise MissingArgument(f"{spec.type_name} has several records an id: give {missing} too.", argument=missing)
        await delete_record(self.store, spec, values, self.tenant)


@dataclass(frozen=True, slots=True)
class RecordRead:
    """A read of one record by every key that it can have: one for each generation of shards."""

    entity: EntitySpec
    keys: Sequence[Key]
    consistent: bool
    why: str | None
    """in words, why it is read by key"""

    def describe(self) -> dict[str, Any]:
        """The read in words, in the shape of a plan."""
        return {
            **({} if self.why is None else {"why": self.why}),
            "entity": self.entity.type_name,
            "keys": [{"hashKey": key.hash, "rangeKey": readable(key.range)} for key in self.keys],
            "consistent": self.consistent,
        }


@dataclass(frozen=True, slots=True)
class RecordFound:
    """A record, if it is there, and what finding it took."""

    record: Entity | None
    explain: Mapping[str, Any]


def _primary_values(spec: EntitySpec, id: Any, parts: Mapping[str, Any], dialect: Dialect) -> list[Any]:
    """The values of a primary key, out of an id and parts by argument; without its sub ids if none of them is given."""
    left = dict(parts)
    known = [dialect.key_part(part.name) for part in spec.primary]
    if id is None and "id" not in known:
        id = left.pop("id", None)
    values: list[Any] = []
    given_as: list[str] = []
    if id is not None and not spec.ids:
        raise UnknownArgument(f"{spec.type_name} has no id, since there is one of it: leave id out.", argument="id")
    if id is not None:
        with about("id"):
            parts_of_id = split_outside(id, [part.column.codec for part in spec.ids], spec.separator)
            values = [searched_value(spec, part, value) for part, value in zip(spec.ids, parts_of_id, strict=True)]
            given_as = ["id"] * len(values)
    for at, part in enumerate(spec.primary[len(values) :], len(values)):
        argument = known[at]
        if argument not in left:
            if part in spec.sub_ids and not any(name in parts for name in known[len(spec.ids) :]):
                break
            raise MissingArgument(f"{spec.type_name} is found by its {argument}: give it.", argument=argument)
        with about(argument):
            values.append(searched_value(spec, part, left.pop(argument)))
            given_as.append(argument)
    if left:
        wrong = next(iter(left))
        if wrong in known:
            raise ConflictingArguments(
                f"{wrong} is part of the id, which is given too: give one of the two.", argument=wrong
            )
        raise UnknownArgument(
            f"{spec.type_name} is found by {', '.join(known)}, not by {wrong!r}.{nearest(wrong, known)}", argument=wrong
        )
    if dialect is not PYTHON:
        _check_key(spec, values, given_as)
    return values


def _check_key(spec: EntitySpec, values: Sequence[Any], given_as: Sequence[str]) -> None:
    """Refuses by its argument what could be no key; in Python the id has none, and the property is told of later."""
    for value, argument in zip(values, given_as, strict=True):
        if value == "":
            raise EmptyKey(f"{argument} is empty, and empty keys hold no records: give a text.", argument=argument)
    if values:
        with about(max(zip(values, given_as, strict=True), key=lambda given: len(str(given[0])))[1]):
            encode_tuple([part.column for part in spec.primary[: len(values)]], values)

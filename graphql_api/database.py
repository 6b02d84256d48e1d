"""A catalog over a store, as one tenant and principal see it: searches, reads and writes from Python."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, overload

from graphql_api.clock import Clock, system_clock
from graphql_api.codecs import RecordKey, RecordKeySeal, shown
from graphql_api.errors import InvalidLimit, ShardQLError
from graphql_api.model import (
    Catalog,
    Entity,
    EntitySpec,
    IndexRef,
    check_generation,
    check_names,
    entity_of_key,
    opened,
    record_key,
    sealable,
)
from graphql_api.query import (
    COUNT_BUDGET,
    MAX_COUNTED,
    OPTIONS,
    PAGE_WORDS,
    PAGING,
    PYTHON,
    Dialect,
    Final,
    Seal,
    SearchPlan,
    SearchRequest,
    plan_search,
    primary_values,
    whole_key,
    written_key,
)
from graphql_api.query.execution import Count, Page, RecordRead, RecordsFound, count_records, find_page, find_records
from graphql_api.runtime import count_returned, count_search, itemised
from graphql_api.storage import Key, Store
from graphql_api.writes import (
    Command,
    Create,
    Remove,
    Replace,
    Together,
    Update,
    apply_each,
    carry_out,
    delete_unbound,
    encoded_id,
    given_values,
    hash_keys_of,
    keys_of,
    put_records,
)

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
    """who it is and what they may do: whom page tokens belong to"""
    subject: str | None = None
    """who it is, whatever they may do: whom idempotency keys belong to; the principal, where none is given"""
    key_seal: RecordKeySeal = field(default_factory=RecordKeySeal.new)
    """of record keys; where none is given, they are worth nothing to another database"""

    def scoped(
        self, *, tenant: str | None = None, principal: str | None = None, subject: str | None = None
    ) -> "Database":
        """The same data as another tenant, principal and subject: other records, tokens and idempotency keys."""
        return replace(self, tenant=tenant, principal=principal, subject=subject)

    # --- reading -----------------------------------------------------------------------------------------------

    async def search(self, index: IndexRef, /, **arguments: Any) -> Page[Any]:
        """One page: `await db.search(User.by_first_name, prefix="j", limit=20)`.

        Takes the index's hash properties, `eq`, `prefix`, `from_` and `to` for its first sort property, conditions by
        property name, `reverse`, and either `limit` and `next_token` or `first`, `after`, `last` and `before`;
        `filter`, as in `filter={"phone": {"exists": True}}`; `select`, the properties that are needed of each record;
        of a union `order_by`, the property that sorts the whole answer; of histories with current records `history`:
        "PAST" or "CURRENT".
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

    async def count(self, index: IndexRef, /, *, at_most: int = MAX_COUNTED, **arguments: Any) -> Count:
        """How many records a search has, counted up to `at_most`: `await db.count(User.by_name, prefix="j")`."""
        what = {name: arguments.pop(name) for name in ("filter", "history") if name in arguments}
        entity = self.catalog.entity(index.entity)
        return await self.count_of(SearchRequest(entity.name, index.attribute, arguments, **what), at_most)

    async def count_of(self, request: SearchRequest, at_most: Any = MAX_COUNTED) -> Count:
        """How many records the whole answer has to which a page belongs."""
        plan = self.count_plan(request, at_most)
        with itemised() as bill:
            counted = await count_records(self.store, plan)
        counted.work.took(self.clock() - plan.now, bill)
        return counted

    def count_plan(self, request: SearchRequest, at_most: Any) -> SearchPlan:
        """How the records of a whole answer are counted."""
        if isinstance(at_most, bool) or not isinstance(at_most, int) or not 1 <= at_most <= MAX_COUNTED:
            argument = request.dialect.word("at_most")
            raise InvalidLimit(
                f"{argument} must be a whole number from 1 to {MAX_COUNTED:,}, not {shown(at_most)}.",
                argument=argument,
            )
        pages: dict[str, Any] = dict.fromkeys(PAGE_WORDS)
        whole = replace(
            request,
            **pages,
            order_by=None,
            select=(),
            counts=True,
            on_shard_failure="FAIL",
            read_budget=COUNT_BUDGET,
            tenant=self.tenant,
            principal=self.principal,
        )
        return replace(plan_search(self.catalog, whole, self.clock(), self.seal), limit=at_most)

    async def get(self, entity: type[E], id: Any = None, /, *, consistent: bool = True, **parts: Any) -> E | None:
        """The record with this id: `await db.get(User, "wf5y")`, `await db.get(Line, "o-1", category="a", num=3)`.

        Where records have a sub id and none is given, it is the present one: the last, unless one is kept as such.
        """
        found = await self.record(self.catalog.entity(entity), id, parts, consistent=consistent)
        return found if isinstance(found, entity) else None

    async def get_many(self, entity: type[E], ids: Sequence[Any], /, *, consistent: bool = True) -> list[E | None]:
        """The records with these ids, in their order, by one call of the store: `await db.get_many(User, ["a", "b"])`.

        None stands where there is no record. A part of a longer key is given as a tuple: `[("o-1", "books", 3)]`.
        """
        spec = self.catalog.entity(entity)
        reads = [RecordRead(spec, keys_of(spec, whole_key(spec, id), self.tenant), consistent, None) for id in ids]
        found: list[E | None] = []
        for answer in (await self.read_records(reads)).answers if reads else ():
            if isinstance(answer, ShardQLError):
                raise answer
            found.append(answer if isinstance(answer, entity) else None)
        return found

    async def record(
        self, spec: EntitySpec, id: Any, parts: Mapping[str, Any], *, consistent: bool = True, dialect: Dialect = PYTHON
    ) -> Entity | None:
        """The record with this id, given as one or part by part; without its sub id the present one of the id.

        The id may also be the record's key.
        """
        values = primary_values(spec, id, parts, dialect)
        wanted = self.wanted(spec, values, consistent=consistent, dialect=dialect)
        if isinstance(id, RecordKey):
            wanted = RecordRead(spec, self.keys_at(spec, id), consistent, None)
        if isinstance(wanted, SearchRequest):
            return first_of(await self.page(wanted))
        (answer,) = (await self.read_records([wanted])).answers
        if isinstance(answer, ShardQLError):
            raise answer
        return answer

    def wanted(
        self,
        spec: EntitySpec,
        values: Sequence[Any],
        *,
        consistent: bool,
        why: str | None = None,
        dialect: Dialect = PYTHON,
    ) -> RecordRead | SearchRequest:
        """What finds the record with these values of its primary key: a read by key, or a search for the last entry.

        Without sub ids it is the present entry of the id: the one that is always kept so, or else the last.
        """
        if spec.sub_ids and len(values) == len(spec.ids):
            if spec.current is None:
                by_id = {
                    dialect.argument(part.name): Final(value) for part, value in zip(spec.ids, values, strict=True)
                }
                return SearchRequest(
                    spec.name, "by_id", by_id, reverse=True, limit=1, consistent=consistent, why=why, dialect=dialect
                )
            values = [*values, spec.current]
        return RecordRead(spec, keys_of(spec, values, self.tenant), consistent, why)

    async def read_records(self, reads: Sequence[RecordRead]) -> RecordsFound:
        """The records that these reads find, by one call of the store; one that is broken takes no other with it."""
        return await find_records(self.store, reads, self.clock)

    # --- record keys -------------------------------------------------------------------------------------------

    def seal_key(self, of: Entity | RecordKey) -> str:
        """The text by which clients name a record for ever: its `id` in GraphQL."""
        key = of if isinstance(of, RecordKey) else record_key(of)
        return self.key_seal.seal(sealable(entity_of_key(self.catalog.entities, key, "of"), key, self.tenant))

    def open_key(self, text: str, entity: type[Entity] | None = None, *, argument: str = "text") -> RecordKey:
        """The key in such a text; `entity`: what it has to name a record of."""
        origin = None if entity is None else self.catalog.entity(entity).name
        key = self.key_seal.open(text, origin=origin, tenant=self.tenant, argument=argument)
        return opened(entity_of_key(self.catalog.entities, key, argument), key, argument)

    def id_or_key(self, spec: EntitySpec, id: Any) -> Any:
        """What was given as an id: the record key in it, if it is a sealed one."""
        return self.open_key(id, spec.model, argument="id") if self.key_seal.is_sealed(id) else id

    def keys_at(self, spec: EntitySpec, key: RecordKey) -> list[Key]:
        """Where a record can be: one place, where the generation is known in which it was created."""
        check_generation(spec, key)
        return keys_of(spec, [*key.ids, *key.children], self.tenant, key.generation)

    def foreign_shards(self, of: Iterable[Entity | RecordKey], shard: str) -> list[str]:
        """The shards that hold these records, but for the given one, none twice: `user!03`, as in `page.shards`."""
        found: dict[str, None] = {}
        for one in of:
            key = one if isinstance(one, RecordKey) else record_key(one)
            spec = entity_of_key(self.catalog.entities, key, "of")
            check_generation(spec, key)
            found |= dict.fromkeys(hash_keys_of(spec, encoded_id(spec, key.ids), None, key.generation))
        return [name for name in found if name != shard]

    # --- writing -----------------------------------------------------------------------------------------------

    async def apply(self, command: Command) -> Entity | None:
        """Carries out one write; gives back the record as it is then, or the one that was removed."""
        return await carry_out(
            self.store,
            command,
            self.tenant,
            clock=self.clock,
            subject=self.principal if self.subject is None else self.subject,
            ttl_attribute=self.catalog.table_definition().ttl_attribute,
        )

    async def apply_each(self, commands: Sequence[Command]) -> list[Entity | ShardQLError | None]:
        """Carries out several writes, each by itself; those of one record in their order."""
        if len(commands) < 2:
            return await apply_each(self.apply, commands)
        async with Together(self.store) as store:
            return await apply_each(replace(self, store=store).apply, commands)

    @overload
    async def create(self, what: E, /, *, idempotency_key: str | None = None) -> E: ...

    @overload
    async def create(self, what: type[E], /, *, idempotency_key: str | None = None, **values: Any) -> E: ...

    async def create(self, what: E | type[E], /, *, idempotency_key: str | None = None, **values: Any) -> E:
        """Writes a record where there is none, and gives it back: `await db.create(User, first_name="Ada")`.

        What the server sets may be left out: moments, numbers, and ids that are generated.
        """
        entity = self.catalog.entity(what if isinstance(what, type) else type(what))
        given = values if isinstance(what, type) else given_values(entity, what)
        return _as_given(what, await self.apply(Create(entity, given, idempotency_key)))

    async def create_many(self, records: Sequence[E]) -> list[E | ShardQLError]:
        """Writes records where there are none, each by itself; tells for each what was written, or why not."""
        entities = [self.catalog.entity(type(record)) for record in records]
        commands = [
            Create(entity, given_values(entity, record)) for entity, record in zip(entities, records, strict=True)
        ]
        answers = await self.apply_each(commands)
        return [
            answer if isinstance(answer, ShardQLError) else _as_given(record, answer)
            for record, answer in zip(records, answers, strict=True)
        ]

    async def put(self, record: E, *, expected_version: int | None = None, idempotency_key: str | None = None) -> None:
        """Writes a record in place of the one with its id."""
        entity = self.catalog.entity(type(record))
        if expected_version is not None or idempotency_key is not None or _decides_alone(entity):
            await self.apply(Replace(entity, given_values(entity, record), expected_version, idempotency_key))
            return
        (problem,) = await self.put_many([record])
        if problem is not None:
            raise problem

    async def put_many(self, records: Sequence[Entity]) -> list[ShardQLError | None]:
        """Writes records of one entity, each by itself; tells for each whether it failed."""
        if not records:
            return []
        entity = self.catalog.entity(type(records[0]))
        return await put_records(self.store, entity, records, self.tenant, clock=self.clock)

    async def restore_many(self, records: Sequence[Entity]) -> list[ShardQLError | None]:
        """The same for what comes out of another table, current records among it.

        Where an id has entries, its current record is made from them, in whatever order all of it comes.
        """
        if not records:
            return []
        entity = self.catalog.entity(type(records[0]))
        return await put_records(self.store, entity, records, self.tenant, clock=self.clock, restoring=True)

    async def update(
        self,
        entity: type[E],
        id: Any = None,
        /,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        **changes: Any,
    ) -> E:
        """Changes a record and gives it back: `await db.update(Order, "o-1", version="v4", status="sent")`.

        What is not given stays, null clears. Under a new sub id it is a new entry, which goes on from the last one.
        """
        spec = self.catalog.entity(entity)
        known = [part.name for part in spec.primary]
        parts = {name: changes.pop(name) for name in known if name in changes}
        if id is None and "id" in changes and "id" not in spec.properties:
            id = changes.pop("id")
        if isinstance(id, RecordKey) and any(part.name in parts for part in spec.sub_ids):
            check_names(spec, id)
            parts, id = {**dict(zip(known, id.ids, strict=False)), **parts}, None
        values = written_key(spec, id, parts)
        return _as_given(entity, await self.apply(Update(spec, values, changes, expected_version, idempotency_key)))

    async def delete(
        self,
        entity: type[Entity],
        id: Any = None,
        /,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        **parts: Any,
    ) -> None:
        """Removes the record with this id, if there is one."""
        spec = self.catalog.entity(entity)
        values = written_key(spec, id, parts)
        asked = expected_version is not None or idempotency_key is not None
        if asked or spec.is_constrained or spec.children or spec.current is not None:
            await self.apply(Remove(spec, values, expected_version, idempotency_key))
        else:
            await delete_unbound(self.store, spec, values, self.tenant)


def _decides_alone(entity: EntitySpec) -> bool:
    """Whether a single record is put by a transaction, so that no other server gives its id another home meanwhile."""
    return len(entity.space.generations) > 1 and entity.current is None


def _as_given(what: E | type[E], answer: Entity | None) -> E:
    """The record that was written, of the class that was asked for."""
    model = what if isinstance(what, type) else type(what)
    assert isinstance(answer, model), "the catalog's entity is made by its own class"
    return answer


def first_of(page: Page[Any]) -> Entity | None:
    """The only record that was asked for, if there is one."""
    found: Sequence[Entity] = page.items
    return found[0] if found else None

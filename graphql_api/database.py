"""The Python interface: searches, reads and writes of a catalog's records, for one tenant and principal."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, overload

from graphql_api.clock import Clock, system_clock
from graphql_api.codecs import RecordKey, RecordKeySeal, short_repr
from graphql_api.errors import InvalidLimit, ShardQLError
from graphql_api.model import (
    Catalog,
    Entity,
    EntitySpec,
    IndexRef,
    check_generation,
    check_key_entity,
    entity_of_key,
    from_sealed_form,
    record_key,
    to_sealed_form,
)
from graphql_api.query import (
    COUNT_BUDGET,
    MAX_COUNTED,
    OPTION_ARGUMENTS,
    PAGE_ARGUMENTS,
    PAGING_ARGUMENTS,
    PYTHON_NAMES,
    NamingScheme,
    SearchPlan,
    SearchRequest,
    StoredValue,
    TokenSeal,
    parse_complete_key,
    parse_primary_key,
    parse_written_key,
    plan_search,
)
from graphql_api.query.execution import (
    Count,
    FetchedRecords,
    Page,
    PointLookup,
    count_records,
    fetch_records,
    read_page,
)
from graphql_api.runtime import count_returned, count_search, meter_part
from graphql_api.storage import Key, Store
from graphql_api.writes import (
    Command,
    Create,
    Remove,
    Replace,
    Update,
    WriteCoalescer,
    apply_each,
    delete_unconstrained,
    encode_id,
    execute_command,
    possible_hash_keys,
    possible_keys,
    put_records,
    record_values,
)

E = TypeVar("E", bound=Entity)


@dataclass(frozen=True, slots=True)
class Database:
    """A catalog and the store of its records, for one tenant and principal."""

    catalog: Catalog
    store: Store
    seal: TokenSeal
    clock: Clock = system_clock
    tenant: str | None = None
    principal: str | None = None
    """identity and rights of the caller, which own page tokens"""
    subject: str | None = None
    """identity of the caller without rights, which owns idempotency keys; None: the principal"""
    key_seal: RecordKeySeal = field(default_factory=RecordKeySeal.new)
    """seals record keys; with the default, other databases cannot open them"""

    def scoped(
        self, *, tenant: str | None = None, principal: str | None = None, subject: str | None = None
    ) -> "Database":
        """Return a database for another tenant, principal and subject, with their records, tokens and keys."""
        return replace(self, tenant=tenant, principal=principal, subject=subject)

    # --- reading -----------------------------------------------------------------------------------------------

    async def search(self, index: IndexRef, /, **arguments: Any) -> Page[Any]:
        """Return one page of a search: `await db.search(User.by_first_name, prefix="j", limit=20)`.

        Arguments:
        - the hash properties of the index, by name;
        - `eq`, `prefix`, `from_` and `to` for its first sort property, or conditions by property name;
        - `reverse` for descending order;
        - either `limit` and `next_token`, or `first`, `after`, `last` and `before`;
        - `filter`, such as `filter={"phone": {"exists": True}}`;
        - `select`, the properties to load of each record;
        - `order_by` for unions: the property that sorts the whole result;
        - `history` for histories with current records: "PAST" or "CURRENT".
        """
        options = {name: arguments.pop(name) for name in (PAGING_ARGUMENTS | OPTION_ARGUMENTS) & arguments.keys()}
        entity = self.catalog.entity(index.entity)
        return await self.page(SearchRequest(entity.name, index.attribute, arguments, **options))

    async def page(self, request: SearchRequest) -> Page[Any]:
        """Return the page of a search request."""
        request = replace(request, tenant=self.tenant, principal=self.principal)
        now = self.clock()
        plan = plan_search(self.catalog, request, now, self.seal)
        with meter_part() as meter:
            result = await read_page(self.store, plan)
        result.cost.record(self.clock() - now, meter)
        count_search(result.shards_read)
        count_returned(len(result.matches))
        return Page(plan, result, self.seal, request)

    async def count(self, index: IndexRef, /, *, at_most: int = MAX_COUNTED, **arguments: Any) -> Count:
        """Count the records of a search, up to `at_most`: `await db.count(User.by_name, prefix="j")`."""
        options = {name: arguments.pop(name) for name in ("filter", "history") if name in arguments}
        entity = self.catalog.entity(index.entity)
        return await self.count_of(SearchRequest(entity.name, index.attribute, arguments, **options), at_most)

    async def count_of(self, request: SearchRequest, at_most: Any = MAX_COUNTED) -> Count:
        """Count the records of all pages of a request."""
        plan = self.count_plan(request, at_most)
        with meter_part() as meter:
            count = await count_records(self.store, plan)
        count.cost.record(self.clock() - plan.now, meter)
        return count

    def count_plan(self, request: SearchRequest, at_most: Any) -> SearchPlan:
        """Return the plan that counts the records of all pages of a request."""
        if isinstance(at_most, bool) or not isinstance(at_most, int) or not 1 <= at_most <= MAX_COUNTED:
            argument = request.naming.common_argument("at_most")
            raise InvalidLimit(
                f"{argument} must be a whole number from 1 to {MAX_COUNTED:,}, not {short_repr(at_most)}.",
                argument=argument,
            )
        no_page_arguments: dict[str, Any] = dict.fromkeys(PAGE_ARGUMENTS)
        whole = replace(
            request,
            **no_page_arguments,
            order_by=None,
            select=(),
            count_only=True,
            on_shard_failure="FAIL",
            read_budget=COUNT_BUDGET,
            tenant=self.tenant,
            principal=self.principal,
        )
        return replace(plan_search(self.catalog, whole, self.clock(), self.seal), limit=at_most)

    async def get(self, entity: type[E], id: Any = None, /, *, consistent: bool = True, **parts: Any) -> E | None:
        """Return the record with this id: `await db.get(User, "wf5y")`, `await db.get(Line, "o-1", num=3)`.

        Without a sub id, return the current record of a history, or its last entry if it has no current record.
        """
        record = await self.record(self.catalog.entity(entity), id, parts, consistent=consistent)
        return record if isinstance(record, entity) else None

    async def get_many(self, entity: type[E], ids: Sequence[Any], /, *, consistent: bool = True) -> list[E | None]:
        """Return the records with these ids, in order, by one call of the store: `await db.get_many(User, ["a", "b"])`.

        Missing records are None. Primary keys of several properties are tuples: `[("o-1", "books", 3)]`.
        """
        spec = self.catalog.entity(entity)
        lookups = [
            PointLookup(spec, possible_keys(spec, parse_complete_key(spec, id), self.tenant), consistent, None)
            for id in ids
        ]
        records: list[E | None] = []
        for result in (await self.read_records(lookups)).results if lookups else ():
            if isinstance(result, ShardQLError):
                raise result
            records.append(result if isinstance(result, entity) else None)
        return records

    async def record(
        self,
        spec: EntitySpec,
        id: Any,
        parts: Mapping[str, Any],
        *,
        consistent: bool = True,
        naming: NamingScheme = PYTHON_NAMES,
    ) -> Entity | None:
        """Return the record with this id, which is one value, a record key, or a property for each part of it.

        Without a sub id, return the current record of a history, or its last entry if it has no current record.
        """
        values = parse_primary_key(spec, id, parts, naming)
        lookup = self.wanted(spec, values, consistent=consistent, naming=naming)
        if isinstance(id, RecordKey):
            lookup = PointLookup(spec, self.keys_at(spec, id), consistent, None)
        if isinstance(lookup, SearchRequest):
            return first_of(await self.page(lookup))
        (result,) = (await self.read_records([lookup])).results
        if isinstance(result, ShardQLError):
            raise result
        return result

    def wanted(
        self,
        spec: EntitySpec,
        values: Sequence[Any],
        *,
        consistent: bool,
        why: str | None = None,
        naming: NamingScheme = PYTHON_NAMES,
    ) -> PointLookup | SearchRequest:
        """Return the point lookup of the record with these values of its primary key.

        Without sub ids, return the lookup of the current record, or a search for the last entry if there is none.
        """
        if spec.sub_ids and len(values) == len(spec.ids):
            if spec.current is None:
                arguments = {
                    naming.property_argument(part.name): StoredValue(value)
                    for part, value in zip(spec.ids, values, strict=True)
                }
                return SearchRequest(
                    spec.name, "by_id", arguments, reverse=True, limit=1, consistent=consistent, why=why, naming=naming
                )
            values = [*values, spec.current]
        return PointLookup(spec, possible_keys(spec, values, self.tenant), consistent, why)

    async def read_records(self, lookups: Sequence[PointLookup]) -> FetchedRecords:
        """Fetch records by one call of the store. An invalid record does not affect the others."""
        return await fetch_records(self.store, lookups, self.clock)

    # --- record keys -------------------------------------------------------------------------------------------

    def seal_key(self, of: Entity | RecordKey) -> str:
        """Return the permanent text of a record key for clients: its `id` in GraphQL."""
        key = of if isinstance(of, RecordKey) else record_key(of)
        return self.key_seal.seal(to_sealed_form(entity_of_key(self.catalog.entities, key, "of"), key, self.tenant))

    def open_key(self, text: str, entity: type[Entity] | None = None, *, argument: str = "text") -> RecordKey:
        """Return the record key in a sealed text, which must belong to `entity` if that is provided."""
        origin = None if entity is None else self.catalog.entity(entity).name
        key = self.key_seal.open(text, origin=origin, tenant=self.tenant, argument=argument)
        return from_sealed_form(entity_of_key(self.catalog.entities, key, argument), key, argument)

    def id_or_key(self, spec: EntitySpec, id: Any) -> Any:
        """Return the record key if the id is a sealed one, otherwise the id itself."""
        return self.open_key(id, spec.model, argument="id") if self.key_seal.is_sealed(id) else id

    def keys_at(self, spec: EntitySpec, key: RecordKey) -> list[Key]:
        """Return every storage key that a record can have; a single one if its shard generation is known."""
        check_generation(spec, key)
        return possible_keys(spec, [*key.ids, *key.children], self.tenant, key.generation)

    def foreign_shards(self, of: Iterable[Entity | RecordKey], shard: str) -> list[str]:
        """Return the shards of these records other than `shard`, without duplicates: `user!03`, as in `page.shards`."""
        shards: dict[str, None] = {}
        for record in of:
            key = record if isinstance(record, RecordKey) else record_key(record)
            spec = entity_of_key(self.catalog.entities, key, "of")
            check_generation(spec, key)
            shards |= dict.fromkeys(possible_hash_keys(spec, encode_id(spec, key.ids), None, key.generation))
        return [name for name in shards if name != shard]

    # --- writing -----------------------------------------------------------------------------------------------

    async def apply(self, command: Command) -> Entity | None:
        """Execute one write. Return the record as it was written, or the record that was deleted."""
        return await execute_command(
            self.store,
            command,
            self.tenant,
            clock=self.clock,
            subject=self.principal if self.subject is None else self.subject,
            ttl_attribute=self.catalog.table_definition().ttl_attribute,
        )

    async def apply_each(self, commands: Sequence[Command]) -> list[Entity | ShardQLError | None]:
        """Execute several writes independently, but those of one record in order. Return results in input order."""
        if len(commands) < 2:
            return await apply_each(self.apply, commands)
        async with WriteCoalescer(self.store) as store:
            return await apply_each(replace(self, store=store).apply, commands)

    @overload
    async def create(self, source: E, /, *, idempotency_key: str | None = None) -> E: ...

    @overload
    async def create(self, source: type[E], /, *, idempotency_key: str | None = None, **values: Any) -> E: ...

    async def create(self, source: E | type[E], /, *, idempotency_key: str | None = None, **values: Any) -> E:
        """Create a record and return it: `await db.create(User, first_name="Ada")`.

        Values that the server sets are optional: times, numbers and generated ids.
        """
        entity = self.catalog.entity(source if isinstance(source, type) else type(source))
        provided = values if isinstance(source, type) else record_values(entity, source)
        return _narrow_type(source, await self.apply(Create(entity, provided, idempotency_key)))

    async def create_many(self, records: Sequence[E]) -> list[E | ShardQLError]:
        """Create records independently. Return the written record or the error of each, in input order."""
        entities = [self.catalog.entity(type(record)) for record in records]
        commands = [
            Create(entity, record_values(entity, record)) for entity, record in zip(entities, records, strict=True)
        ]
        results = await self.apply_each(commands)
        return [
            result if isinstance(result, ShardQLError) else _narrow_type(record, result)
            for record, result in zip(records, results, strict=True)
        ]

    async def put(self, record: E, *, expected_version: int | None = None, idempotency_key: str | None = None) -> None:
        """Create the record, or replace the one with its id entirely."""
        entity = self.catalog.entity(type(record))
        if expected_version is not None or idempotency_key is not None or _needs_transaction(entity):
            await self.apply(Replace(entity, record_values(entity, record), expected_version, idempotency_key))
            return
        (problem,) = await self.put_many([record])
        if problem is not None:
            raise problem

    async def put_many(self, records: Sequence[Entity]) -> list[ShardQLError | None]:
        """Create or replace records of one entity independently. Return the error of each record, or None."""
        if not records:
            return []
        entity = self.catalog.entity(type(records[0]))
        return await put_records(self.store, entity, records, self.tenant, clock=self.clock)

    async def restore_many(self, records: Sequence[Entity]) -> list[ShardQLError | None]:
        """Put records that were exported from another table, current records included. Return errors as `put_many`.

        The current record of an id that has entries is derived from them, in whatever order they are restored.
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
        """Change a record and return it: `await db.update(Order, "o-1", version="v4", status="sent")`.

        Omitted properties keep their values, None clears. A new sub id creates a new entry from the last one.
        """
        spec = self.catalog.entity(entity)
        key_names = [part.name for part in spec.primary_key]
        parts = {name: changes.pop(name) for name in key_names if name in changes}
        if id is None and "id" in changes and "id" not in spec.properties:
            id = changes.pop("id")
        if isinstance(id, RecordKey) and any(part.name in parts for part in spec.sub_ids):
            check_key_entity(spec, id)
            parts, id = {**dict(zip(key_names, id.ids, strict=False)), **parts}, None
        values = parse_written_key(spec, id, parts)
        return _narrow_type(entity, await self.apply(Update(spec, values, changes, expected_version, idempotency_key)))

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
        """Delete the record with this id, if it exists."""
        spec = self.catalog.entity(entity)
        values = parse_written_key(spec, id, parts)
        has_conditions = expected_version is not None or idempotency_key is not None
        if has_conditions or spec.is_constrained or spec.children or spec.current is not None:
            await self.apply(Remove(spec, values, expected_version, idempotency_key))
        else:
            await delete_unconstrained(self.store, spec, values, self.tenant)


def _needs_transaction(entity: EntitySpec) -> bool:
    """Return whether a put needs a transaction, so that no concurrent writer stores the id in another shard."""
    return len(entity.space.generations) > 1 and entity.current is None


def _narrow_type(source: E | type[E], record: Entity | None) -> E:
    """Return a written record with the class of its source."""
    model = source if isinstance(source, type) else type(source)
    assert isinstance(record, model), "the catalog has one class for each entity"
    return record


def first_of(page: Page[Any]) -> Entity | None:
    """Return the first record of a page, or None."""
    records: Sequence[Entity] = page.items
    return records[0] if records else None

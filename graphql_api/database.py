"""The Python interface: searches, reads and writes of a catalog's records, for one tenant and principal."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, overload

from graphql_api.clock import Clock, system_clock
from graphql_api.codecs import RecordKey, RecordKeySeal, short_repr
from graphql_api.errors import InvalidLimit, ShardQLError
from graphql_api.evolution import TableSchema, fetch_answerable, placed_generation, point_lookup, renewed_lookups
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
    read_page,
)
from graphql_api.runtime import current_statistics, meter_part
from graphql_api.storage import Key, Store
from graphql_api.writes import (
    AnyCommand,
    CommandExecutor,
    CommandResult,
    Create,
    PutRecord,
    Remove,
    Update,
    encode_id,
    possible_hash_keys,
    possible_keys,
    record_values,
)

E = TypeVar("E", bound=Entity)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Database:
    """A catalog and the store of its records, for one tenant and principal.

    With a `schema`, each operation acts on the catalog that the table's own record makes of this one. All reads pass
    through `TableSchema.read` and all writes through `TableSchema.write`.
    """

    catalog: Catalog
    """as it is declared"""
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
    schema: TableSchema | None = None
    """the schema of the table; None: the table is as the catalog declares"""

    def scoped(
        self, *, tenant: str | None = None, principal: str | None = None, subject: str | None = None
    ) -> "Database":
        """Return a database for another tenant, principal and subject, with their records, tokens and keys."""
        return replace(self, tenant=tenant, principal=principal, subject=subject)

    # --- the schema of the table -------------------------------------------------------------------------------

    @property
    def effective_catalog(self) -> Catalog:
        """The catalog that operations act on now."""
        return self.catalog if self.schema is None else self.schema.latest.catalog

    def _effective(self, spec: EntitySpec) -> EntitySpec:
        return spec if self.schema is None else self.schema.latest.catalog.entities[spec.name]

    async def _reading(self, read: Callable[[Catalog], Awaitable[T]]) -> T:
        return await (read(self.catalog) if self.schema is None else self.schema.read(read))

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
        return await self._reading(lambda catalog: self._page(catalog, request))

    async def _page(self, catalog: Catalog, request: SearchRequest) -> Page[Any]:
        plan = self._plan(catalog, request)
        with meter_part() as meter:
            result = await read_page(self.store, plan)
        result.cost.record(self.clock() - plan.now, meter)
        statistics = current_statistics()
        statistics.searches += 1
        statistics.shards_asked += result.shards_read
        statistics.records_returned += len(result.matches)
        return Page(plan, result, self.seal)

    def _plan(self, catalog: Catalog, request: SearchRequest) -> SearchPlan:
        owned = replace(request, tenant=self.tenant, principal=self.principal)
        return plan_search(catalog, owned, self.clock(), self.seal)

    async def count(self, index: IndexRef, /, *, at_most: int = MAX_COUNTED, **arguments: Any) -> Count:
        """Count the records of a search, up to `at_most`: `await db.count(User.by_name, prefix="j")`."""
        options = {name: arguments.pop(name) for name in ("filter", "history") if name in arguments}
        entity = self.catalog.entity(index.entity)
        return await self.count_of(SearchRequest(entity.name, index.attribute, arguments, **options), at_most)

    async def count_of(self, request: SearchRequest, at_most: Any = MAX_COUNTED) -> Count:
        """Count the records of all pages of a request."""
        return await self._reading(lambda catalog: self._count(self.count_plan(request, at_most, catalog)))

    async def _count(self, plan: SearchPlan) -> Count:
        with meter_part() as meter:
            count = await count_records(self.store, plan)
        count.cost.record(self.clock() - plan.now, meter)
        return count

    def count_plan(self, request: SearchRequest, at_most: Any, catalog: Catalog | None = None) -> SearchPlan:
        """Return the plan that counts the records of all pages of a request."""
        if isinstance(at_most, bool) or not isinstance(at_most, int) or not 1 <= at_most <= MAX_COUNTED:
            argument = request.naming.common_argument("at_most")
            raise InvalidLimit(
                f"{argument} must be a whole number from 1 to {MAX_COUNTED:,}, not {short_repr(at_most)}.",
                argument=argument,
            )
        whole: dict[str, Any] = dict.fromkeys((*PAGE_ARGUMENTS, "order_by")) | {"select": (), "count_only": True}
        request = replace(request, **whole, on_shard_failure="FAIL", read_budget=COUNT_BUDGET)
        return replace(self._plan(catalog or self.effective_catalog, request), limit=at_most)

    async def get(self, entity: type[E], id: Any = None, /, *, consistent: bool = True, **parts: Any) -> E | None:
        """Return the record with this id: `await db.get(User, "wf5y")`, `await db.get(Line, "o-1", num=3)`.

        Without a sub id, return the current record of a history, or its last entry if it has no current record.
        """
        spec = self.catalog.entity(entity)
        values = parse_primary_key(spec, id, parts, PYTHON_NAMES)
        lookup = self.wanted(spec, values, consistent=consistent)
        if isinstance(id, RecordKey):
            lookup = self.lookup_at(spec, id, consistent=consistent)
        if isinstance(lookup, SearchRequest):
            return next(iter((await self.page(lookup)).items), None)
        (record,) = await self._lookup(entity, [lookup])
        return record

    async def get_many(self, entity: type[E], ids: Sequence[Any], /, *, consistent: bool = True) -> list[E | None]:
        """Return the records with these ids, in order, by one call of the store: `await db.get_many(User, ["a", "b"])`.

        Missing records are None. Primary keys of several properties are tuples: `[("o-1", "books", 3)]`.
        """
        declared, spec = self.catalog.entity(entity), self.effective_catalog.entity(entity)
        keys = [parse_complete_key(declared, id) for id in ids]
        lookups = [point_lookup(spec, values, None, self.tenant, consistent=consistent) for values in keys]
        return await self._lookup(entity, lookups)

    async def _lookup(self, entity: type[E], lookups: Sequence[PointLookup]) -> list[E | None]:
        records: list[E | None] = []
        for result in (await self.read_records(lookups)).results if lookups else ():
            if isinstance(result, ShardQLError):
                raise result
            records.append(None if result is None else _narrow_type(entity, result))
        return records

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
        spec = self._effective(spec)
        if spec.sub_ids and len(values) == len(spec.ids):
            if spec.current is None or spec.hides_current:
                names = (naming.property_argument(part.name) for part in spec.ids)
                arguments = dict(zip(names, map(StoredValue, values), strict=True))
                return SearchRequest(
                    spec.name, "by_id", arguments, reverse=True, limit=1, consistent=consistent, why=why, naming=naming
                )
            values = [*values, spec.current]
        return point_lookup(spec, values, None, self.tenant, consistent=consistent, why=why)

    def lookup_at(self, spec: EntitySpec, key: RecordKey, *, consistent: bool, why: str | None = None) -> PointLookup:
        """Return the point lookup of the record with this key."""
        values = [*key.ids, *key.children]
        return point_lookup(self._effective(spec), values, key.generation, self.tenant, consistent=consistent, why=why)

    async def read_records(self, lookups: Sequence[PointLookup]) -> FetchedRecords:
        """Fetch records by one call of the store. An invalid record does not affect the others."""
        return await self._reading(
            lambda catalog: fetch_answerable(self.store, renewed_lookups(catalog, lookups, self.tenant), self.clock)
        )

    # --- record keys -------------------------------------------------------------------------------------------

    def seal_key(self, of: Entity | RecordKey) -> str:
        """Return the permanent text of a record key for clients: its `id` in GraphQL."""
        key = of if isinstance(of, RecordKey) else record_key(of)
        spec = entity_of_key(self.effective_catalog.entities, key, "of")
        if isinstance(of, Entity):
            key = record_key(of, spec)
        elif key.generation is not None and key.generation < len(spec.space.generations):
            key = replace(key, generation=placed_generation(spec, key.generation))
        return self.key_seal.seal(to_sealed_form(spec, key, self.tenant))

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
        spec = self._effective(spec)
        check_generation(spec, key)
        return possible_keys(spec, [*key.ids, *key.children], self.tenant, placed_generation(spec, key.generation))

    def foreign_shards(self, of: Iterable[Entity | RecordKey], shard: str) -> list[str]:
        """Return the shards of these records other than `shard`, without duplicates: `user!03`, as in `page.shards`."""
        shards: dict[str, None] = {}
        for record in of:
            key = record if isinstance(record, RecordKey) else record_key(record)
            spec = entity_of_key(self.effective_catalog.entities, key, "of")
            check_generation(spec, key)
            generation = placed_generation(spec, key.generation)
            shards |= dict.fromkeys(possible_hash_keys(spec, encode_id(spec, key.ids), None, generation))
        return [name for name in shards if name != shard]

    # --- writing -----------------------------------------------------------------------------------------------

    async def apply(self, command: AnyCommand) -> Entity | None:
        """Execute one write. Return the record as it was written, or the record that was deleted."""
        (result,) = await self.apply_each([command])
        if isinstance(result, ShardQLError):
            raise result
        return result

    async def apply_each(self, commands: Sequence[AnyCommand]) -> list[CommandResult]:
        """Execute several writes independently, but those of one record in order. Return results in input order."""
        if self.schema is None:
            return await self._execute(commands)
        return await self.schema.write(commands, self._execute)

    async def _execute(self, commands: Sequence[AnyCommand]) -> list[CommandResult]:
        subject = self.principal if self.subject is None else self.subject
        ttl_attribute = self.catalog.table_definition().ttl_attribute
        return await CommandExecutor(self.store, self.tenant, self.clock, subject, ttl_attribute).execute(commands)

    @overload
    async def create(self, source: E, /, *, idempotency_key: str | None = None) -> E: ...

    @overload
    async def create(self, source: type[E], /, *, idempotency_key: str | None = None, **values: Any) -> E: ...

    async def create(self, source: E | type[E], /, *, idempotency_key: str | None = None, **values: Any) -> E:
        """Create a record and return it: `await db.create(User, first_name="Ada")`.

        Values that the server sets are optional: times, numbers and generated ids.
        """
        entity = self.effective_catalog.entity(source if isinstance(source, type) else type(source))
        provided = values if isinstance(source, type) else record_values(entity, source)
        return _narrow_type(source, await self.apply(Create(entity, provided, idempotency_key)))

    async def create_many(self, records: Sequence[E]) -> list[E | ShardQLError]:
        """Create records independently. Return the written record or the error of each, in input order."""
        specs = [self.effective_catalog.entity(type(record)) for record in records]
        results = await self.apply_each([*map(Create, specs, map(record_values, specs, records))])
        return [
            result if isinstance(result, ShardQLError) else _narrow_type(record, result)
            for record, result in zip(records, results, strict=True)
        ]

    async def put(self, record: E, *, expected_version: int | None = None, idempotency_key: str | None = None) -> None:
        """Create the record, or replace the one with its id entirely."""
        entity = self.effective_catalog.entity(type(record))
        await self.apply(PutRecord(entity, record, expected_version, idempotency_key))

    async def put_many(self, records: Sequence[Entity]) -> list[ShardQLError | None]:
        """Create or replace records of one entity independently. Return the error of each record, or None."""
        return await self._put_each(records)

    async def restore_many(self, records: Sequence[Entity]) -> list[ShardQLError | None]:
        """Put records that were exported from another table, current records included. Return errors as `put_many`.

        The current record of an id that has entries is derived from them, in whatever order they are restored.
        """
        return await self._put_each(records, restoring=True)

    async def _put_each(self, records: Sequence[Entity], *, restoring: bool = False) -> list[ShardQLError | None]:
        if not records:
            return []
        entity = self.effective_catalog.entity(type(records[0]))
        puts = [PutRecord(entity, record, restoring=restoring, in_bulk=True) for record in records]
        return [result if isinstance(result, ShardQLError) else None for result in await self.apply_each(puts)]

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
        spec = self.effective_catalog.entity(entity)
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
        spec = self.effective_catalog.entity(entity)
        values = parse_written_key(spec, id, parts)
        await self.apply(Remove(spec, values, expected_version, idempotency_key, returns_record=False))


def _narrow_type(source: E | type[E], record: Entity | None) -> E:
    model = source if isinstance(source, type) else type(source)
    assert isinstance(record, model), "the catalog has one class for each entity"
    return record


def first_of(page: Page[Any]) -> Entity | None:
    """Return the first record of a page, or None."""
    return next(iter(page.items), None)

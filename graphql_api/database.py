"""The Python interface: searches, reads and writes of a catalog's records, for one tenant and principal."""

from asyncio import gather
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, ParamSpec, TypeVar, cast, overload

from graphql_api.clock import Clock, system_clock
from graphql_api.codecs import RecordKey, RecordKeySeal, short_repr
from graphql_api.errors import InvalidLimit, QueryTooCostly, ShardQLError, for_operations
from graphql_api.evolution import (
    TableSchema,
    UniqueLookup,
    fetch_answerable,
    fetch_by_unique,
    placed_generation,
    point_lookup,
    point_lookups,
    renewed_lookups,
    unique_lookup,
)
from graphql_api.model import (
    Catalog,
    CountSignature,
    CreateSignature,
    DeleteSignature,
    Entity,
    EntitySpec,
    GetBySignature,
    GetSignature,
    IndexRef,
    SearchSignature,
    UniqueSpec,
    UpdateSignature,
    check_generation,
    entity_of_key,
    from_sealed_form,
    record_key,
    to_sealed_form,
)
from graphql_api.operations import Create, Delete, Operation, Update
from graphql_api.query import (
    COUNT_BUDGET,
    MAX_COUNTED,
    NO_STATISTICS,
    OPTION_ARGUMENTS,
    PAGE_ARGUMENTS,
    PAGING_ARGUMENTS,
    PYTHON_NAMES,
    NamingScheme,
    ReadStatistics,
    SearchPlan,
    SearchRequest,
    StoredValue,
    TokenSeal,
    find_unique,
    parse_complete_key,
    parse_primary_key,
    unique_values,
)
from graphql_api.query.execution import (
    Count,
    FetchedRecords,
    Page,
    PointLookup,
    PointLookups,
    SearchReader,
    estimate_search,
    pricing,
)
from graphql_api.runtime import CapacityCeiling, current_meter
from graphql_api.storage import CeilingStore, Store, TransactionWrite, UnitEstimate, sum_of_estimates
from graphql_api.writes import (
    AnyCommand,
    Command,
    CommandExecutor,
    CommandResult,
    ItemBounds,
    PutRecord,
    ResultCheck,
    StagedStore,
    WriteCompanion,
    check_operation_count,
    commit_transaction,
    cross_store_error,
    encode_id,
    estimate_writes,
    possible_hash_keys,
    record_values,
)
from graphql_api.writes import Create as CreateCommand

E = TypeVar("E", bound=Entity)
P = ParamSpec("P")
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
    ceiling: CapacityCeiling | None = None
    """the capacity units that operations may use together; None: any number"""

    def scoped(
        self, *, tenant: str | None = None, principal: str | None = None, subject: str | None = None
    ) -> "Database":
        """Return a database for another tenant, principal and subject, with their records, tokens and keys."""
        return replace(self, tenant=tenant, principal=principal, subject=subject)

    def limited(self, max_units: float) -> "Database":
        """Return a database whose operations together use at most this number of capacity units.

        Pages end early, and what does not fit is refused with `QueryTooCostly`, before it is read or written.
        """
        ceiling = CapacityCeiling(max_units)
        catalog = self.effective_catalog
        store = CeilingStore(self.store, ceiling, catalog.table_definition(), ItemBounds(catalog))
        return replace(self, store=store, ceiling=ceiling)

    # --- the schema of the table -------------------------------------------------------------------------------

    @property
    def effective_catalog(self) -> Catalog:
        """The catalog that operations act on now."""
        return self.catalog if self.schema is None else self.schema.latest.catalog

    def _effective(self, spec: EntitySpec) -> EntitySpec:
        return spec if self.schema is None else self.schema.latest.catalog.entity(spec.model)

    async def _reading(self, read: Callable[[Catalog], Awaitable[T]]) -> T:
        return await (read(self.catalog) if self.schema is None else self.schema.read(read))

    # --- reading -----------------------------------------------------------------------------------------------

    async def search(self, index: SearchSignature[P, E], /, *args: P.args, **arguments: P.kwargs) -> Page[E]:
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
        return await self.page(self._search_request(index, *args, **arguments))

    @property
    def _searches(self) -> SearchReader:
        return SearchReader(self.store, self.seal, self.clock, self.tenant, self.principal, self.ceiling)

    def _search_request(self, index: Any, /, **arguments: Any) -> SearchRequest:
        options = {name: arguments.pop(name) for name in (PAGING_ARGUMENTS | OPTION_ARGUMENTS) & arguments.keys()}
        entity = self.catalog.entity(index.entity)
        return SearchRequest(entity.name, index.attribute, arguments, **options)

    async def page(self, request: SearchRequest) -> Page[Any]:
        """Return the page of a search request."""
        return await self._reading(partial(self._searches.page, request))

    async def pages(self, requests: Sequence[SearchRequest]) -> list[Page[Any] | BaseException]:
        """Return the page or the error of each search request, as `pages_of` does."""
        (pages,) = await self.pages_of([requests])
        return pages

    async def pages_of(self, batches: Sequence[Sequence[SearchRequest]]) -> list[list[Page[Any] | BaseException]]:
        """Return the page or the error of each search request, for several sequences of requests.

        What all of them read at the same time is one call of the store. Those of a `SearchBatch` have one plan. If
        capacity is metered, or has a ceiling, each page is read alone: both count page by page.
        """
        if self.ceiling is not None or current_meter() is not None:
            return [await gather(*map(self.page, batch), return_exceptions=True) for batch in batches]
        results = await self._reading(partial(self._searches.pages, batches))
        if self.schema is not None:
            await self.schema.inform(chain.from_iterable(results))
        return results

    async def estimate(
        self, index: IndexRef, /, *, statistics: ReadStatistics = NO_STATISTICS, **arguments: Any
    ) -> UnitEstimate:
        """Estimate the capacity units of a page, without reading it. The arguments are those of `search`."""
        request = self._search_request(index, **arguments)

        async def plan(catalog: Catalog) -> UnitEstimate:
            return estimate_search(self._searches.plan(request, catalog), statistics)

        return await self._reading(plan)

    async def count(self, index: CountSignature[P, E], /, *args: P.args, **arguments: P.kwargs) -> Count:
        """Count the records of a search, up to `at_most`: `await db.count(User.by_name, prefix="j")`."""
        count: Callable[..., Awaitable[Count]] = self._count_search
        return await count(index, *args, **arguments)

    async def _count_search(self, index: Any, /, *, at_most: int = MAX_COUNTED, **arguments: Any) -> Count:
        options = {name: arguments.pop(name) for name in ("filter", "history") if name in arguments}
        entity = self.catalog.entity(index.entity)
        return await self.count_of(SearchRequest(entity.name, index.attribute, arguments, **options), at_most)

    async def count_of(self, request: SearchRequest, at_most: Any = MAX_COUNTED) -> Count:
        """Count the records of all pages of a request."""
        return await self._reading(lambda catalog: self._searches.count(self.count_plan(request, at_most, catalog)))

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
        return replace(self._searches.plan(request, catalog or self.effective_catalog), limit=at_most)

    async def get(self, entity: GetSignature[P, E], /, *args: P.args, **key: P.kwargs) -> E | None:
        """Return the record with this id: `await db.get(User, "wf5y")`, `await db.get(Line, "o-1", num=3)`.

        Without a sub id, return the current record of a history, or its last entry if it has no current record.
        `consistent=False` allows an answer that lacks the latest writes.
        """
        get: Callable[..., Awaitable[E | None]] = self._get
        return await get(entity, *args, **key)

    async def _get(self, entity: Any, id: Any = None, /, *, consistent: bool = True, **parts: Any) -> Any:
        spec = self.catalog.entity(entity)
        values = parse_primary_key(spec, id, parts, PYTHON_NAMES)
        lookup = self.wanted(spec, values, consistent=consistent)
        if isinstance(id, RecordKey):
            lookup = self.lookup_at(spec, id, consistent=consistent)
        if isinstance(lookup, SearchRequest):
            return first_of(await self.page(lookup))
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

    async def get_by(self, entity: GetBySignature[P, E], /, *args: P.args, **values: P.kwargs) -> E | None:
        """Return the record with a unique value: `await db.get_by(User, email="ada@example.com")`.

        Provide all properties that are unique together: `await db.get_by(Issue, project_id="p", num=7)`. Reads two
        items, at any number of shards, and sees every acknowledged write.
        """
        get_by: Callable[..., Awaitable[E | None]] = self._get_by
        return await get_by(entity, *args, **values)

    async def _get_by(self, entity: Any, /, **values: Any) -> Any:
        spec = self.catalog.entity(entity)
        unique = find_unique(spec, values)
        (record,) = _records(entity, await self.read_by_unique(spec, unique, unique_values(spec, unique, values)))
        return record

    async def read_by_unique(
        self, spec: EntitySpec, unique: UniqueSpec, values: Sequence[Any], why: str | None = None
    ) -> FetchedRecords:
        """Fetch the record with these values of a unique constraint."""

        def lookup(catalog: Catalog) -> UniqueLookup:
            return unique_lookup(catalog.entity(spec.model), unique, values, self.tenant, why)

        return await self._fetch(
            lambda: lookup(self.effective_catalog).estimate(),
            lambda catalog: fetch_by_unique(self.store, lookup(catalog), self.clock),
        )

    async def _lookup(self, entity: type[E], lookups: Sequence[PointLookup]) -> list[E | None]:
        return _records(entity, await self.read_records(lookups)) if lookups else []

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

    def wanted_records(
        self, spec: EntitySpec, rows: Sequence[Sequence[Any]], *, consistent: bool, why: str | None = None
    ) -> PointLookups | None:
        """Return the point lookups of several records; None if each must be looked up alone: see `wanted`."""
        spec = self._effective(spec)
        if spec.sub_ids and len(rows[0]) == len(spec.ids):
            return None
        try:
            return point_lookups(spec, rows, self.tenant, consistent=consistent, why=why)
        except ShardQLError:
            return None

    def lookup_at(self, spec: EntitySpec, key: RecordKey, *, consistent: bool, why: str | None = None) -> PointLookup:
        """Return the point lookup of the record with this key."""
        values = [*key.ids, *key.children]
        return point_lookup(self._effective(spec), values, key.generation, self.tenant, consistent=consistent, why=why)

    async def read_records(self, lookups: Sequence[PointLookup]) -> FetchedRecords:
        """Fetch records by one call of the store. An invalid record does not affect the others."""
        return await self._fetch(
            lambda: sum_of_estimates(lookup.estimate() for lookup in lookups),
            lambda catalog: fetch_answerable(self.store, renewed_lookups(catalog, lookups, self.tenant), self.clock),
        )

    async def _fetch(
        self, estimate: Callable[[], UnitEstimate], read: Callable[[Catalog], Awaitable[FetchedRecords]]
    ) -> FetchedRecords:
        with pricing(self.ceiling, estimate):
            fetched = await self._reading(read)
        if self.schema is not None:
            await self.schema.inform(fetched.errors)
        return fetched

    # --- record keys -------------------------------------------------------------------------------------------

    def seal_key(self, of: Entity | RecordKey) -> str:
        """Return the permanent text of a record key for clients: its `id` in GraphQL."""
        key = of if isinstance(of, RecordKey) else record_key(of)
        spec = entity_of_key(self.effective_catalog.by_declared_name, key, "of")
        if isinstance(of, Entity):
            key = record_key(of, spec)
        elif key.generation is not None and key.generation < len(spec.space.generations):
            key = replace(key, generation=placed_generation(spec, key.generation))
        return self.key_seal.seal(to_sealed_form(spec, key, self.tenant))

    def open_key(self, text: str, entity: type[Entity] | None = None, *, argument: str = "text") -> RecordKey:
        """Return the record key in a sealed text, which must belong to `entity` if that is provided."""
        origin = None if entity is None else self.catalog.entity(entity).name
        key = self.key_seal.open(text, origin=origin, tenant=self.tenant, argument=argument)
        return from_sealed_form(entity_of_key(self.catalog.by_declared_name, key, argument), key, argument)

    def id_or_key(self, spec: EntitySpec, id: Any) -> Any:
        """Return the record key if the id is a sealed one, otherwise the id itself."""
        return self.open_key(id, spec.model, argument="id") if self.key_seal.is_sealed(id) else id

    def foreign_shards(self, of: Iterable[Entity | RecordKey], shard: str) -> list[str]:
        """Return the shards of these records other than `shard`, without duplicates: `user!03`, as in `page.shards`."""
        shards: dict[str, None] = {}
        for record in of:
            key = record if isinstance(record, RecordKey) else record_key(record)
            spec = entity_of_key(self.effective_catalog.by_declared_name, key, "of")
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
        results = await (self._execute(commands) if self.schema is None else self.schema.write(commands, self._execute))
        for command, result in zip(commands, results, strict=True):
            self._price(result, [command])
        return results

    def _price(self, result: CommandResult, commands: Sequence[AnyCommand], *, has_key: bool = False) -> None:
        """Add the estimate to the error of a write that the ceiling refuses."""
        if isinstance(result, QueryTooCostly) and result.estimate is None:
            result.estimate = self.estimate_writes(commands, has_key=has_key).describe()

    def estimate_writes(self, commands: Sequence[AnyCommand], *, has_key: bool = False) -> UnitEstimate:
        """Estimate the write units of commands. `has_key`: they share an idempotency key."""
        return estimate_writes(self.effective_catalog, commands, self.tenant, self.clock(), has_key=has_key)

    async def apply_together(
        self,
        commands: Sequence[Command],
        idempotency_key: str | None = None,
        staged: StagedStore | None = None,
        check_result: ResultCheck = lambda _, __: None,
        companion: WriteCompanion | None = None,
    ) -> list[Entity | None]:
        """Execute several commands, all or none. Return their results.

        `staged`: collects the writes, so that access rules can see them. `check_result` refuses results before
        anything is written. `companion`: writes in the same transaction; then only items limit the commands.
        """
        if companion is None:
            check_operation_count(len(commands))
        self._check_stores(commands)
        staged = staged or StagedStore(self.store)

        async def execute(planned: Sequence[Command]) -> list[CommandResult]:
            return await self._executor().execute_together(planned, idempotency_key, staged, check_result, companion)

        results = await (execute(commands) if self.schema is None else self.schema.write(commands, execute))
        records: list[Entity | None] = []
        for result in results:
            if isinstance(result, ShardQLError):
                self._price(result, commands, has_key=idempotency_key is not None)
                raise result
            records.append(result)
        return records

    async def commit_own(self, plan: Callable[[Catalog], Awaitable[Sequence[TransactionWrite]]]) -> None:
        """Apply a transaction of items that are no records, as planned with the catalog that is in force."""
        if self.schema is None:
            await commit_transaction(self.store, await plan(self.catalog))
            return
        copy = await self.schema.copy_for_writing()
        with self.schema.fence(copy):
            await commit_transaction(self.store, await plan(copy.catalog))

    def _check_stores(self, commands: Sequence[Command]) -> None:
        """Refuse a write of all or none that changes records and their lookups in another store."""
        if len(commands) > 1 and self.catalog.lookup_store is not None:
            mapped = next((one.entity for one in commands if self._effective(one.entity).written_lookups), None)
            if mapped is not None:
                raise cross_store_error(f"An all-or-none write of several records with {mapped.type_name}")

    async def _execute(self, commands: Sequence[AnyCommand]) -> list[CommandResult]:
        return await self._executor().execute(commands)

    def _executor(self) -> CommandExecutor:
        subject = self.principal if self.subject is None else self.subject
        ttl_attribute = self.catalog.table_definition().ttl_attribute
        return CommandExecutor(self.store, self.tenant, self.clock, subject, ttl_attribute)

    @overload
    async def create(self, source: E, /, *, idempotency_key: str | None = None) -> E: ...

    @overload
    async def create(self, source: CreateSignature[P, E], /, *args: P.args, **values: P.kwargs) -> E: ...

    async def create(  # type: ignore[misc]  # the arguments of a create have names
        self, source: Any, /, *, idempotency_key: str | None = None, **values: Any
    ) -> Any:
        """Create a record and return it: `await db.create(User, first_name="Ada")`.

        Values that the server sets are optional: times, numbers and generated ids.
        """
        command = Create(source, **values).to_command(self.effective_catalog, idempotency_key)
        return _narrow_type(source, await self.apply(command))

    async def create_many(self, records: Sequence[E]) -> list[E | ShardQLError]:
        """Create records independently. Return the written record or the error of each, in input order."""
        specs = [self.effective_catalog.entity(type(record)) for record in records]
        results = await self.apply_each([*map(CreateCommand, specs, map(record_values, specs, records))])
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

    async def update(self, entity: UpdateSignature[P, E], /, *args: P.args, **changes: P.kwargs) -> E:
        """Change a record and return it: `await db.update(Order, "o-1", version="v4", status="sent")`.

        Omitted properties keep their values, None clears. A new sub id creates a new entry from the last one.
        """
        update: Callable[..., Awaitable[E]] = self._update
        return await update(entity, *args, **changes)

    async def _update(
        self,
        entity: Any,
        id: Any = None,
        /,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        **changes: Any,
    ) -> Any:
        operation = Update(entity, id, expected_version=expected_version, **changes)
        return _narrow_type(entity, await self.apply(operation.to_command(self.effective_catalog, idempotency_key)))

    async def delete(self, entity: DeleteSignature[P, E], /, *args: P.args, **key: P.kwargs) -> None:
        """Delete the record with this id, if it exists."""
        delete: Callable[..., Awaitable[None]] = self._delete
        await delete(entity, *args, **key)

    async def _delete(
        self,
        entity: Any,
        id: Any = None,
        /,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        **parts: Any,
    ) -> None:
        operation = Delete(entity, id, expected_version=expected_version, **parts)
        command = operation.to_command(self.effective_catalog, idempotency_key)
        await self.apply(replace(command, returns_record=False))

    async def write(self, operations: Sequence[Operation[E]], *, idempotency_key: str | None = None) -> list[E | None]:
        """Execute several operations, all or none: `await db.write([Create(User(…)), Update(Team, "t", name="x")])`.

        Each operation sees those before it. Return the record of each as it was written; for a delete the record that
        was deleted, or None. The error of a failed write names the operation by its position.
        """
        problems: dict[int, ShardQLError] = {}
        commands: list[Command] = []
        for position, operation in enumerate(operations):
            try:
                commands.append(operation.to_command(self.effective_catalog))
            except ShardQLError as problem:
                problems[position] = problem
        if problems:
            raise for_operations(problems)
        return cast("list[E | None]", await self.apply_together(commands, idempotency_key))


def _records(entity: type[E], fetched: FetchedRecords) -> list[E | None]:
    """Return the fetched records, or raise the first error among them."""
    records: list[E | None] = []
    for result in fetched.results:
        if isinstance(result, ShardQLError):
            raise result
        records.append(None if result is None else _narrow_type(entity, result))
    return records


def _narrow_type(source: E | type[E], record: Entity | None) -> E:
    model = source if isinstance(source, type) else type(source)
    assert isinstance(record, model), "the catalog has one class for each entity"
    return record


def first_of(page: Page[Any]) -> Entity | None:
    """Return the first record of a page, or None. Refuse a page that the ceiling ended before its first record."""
    record = next(iter(page.items), None)
    if record is None and page.stopped_by == "BUDGET":
        raise QueryTooCostly(
            "The search has reached the read budget or the ceiling of capacity units before its first record. Raise "
            "the ceiling, or read pages.",
            limit=page.request.read_budget,
        )
    return record

"""Plans the searches of a GraphQL query without reading anything.

The query runs as on a server, but against a database whose reads raise their plan as an error. GraphQL reports errors
with the path of their field, so each plan is assigned to a field.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from graphql_api.codecs import RecordKeySeal
from graphql_api.database import Database
from graphql_api.errors import InvalidRecordKey, InvalidToken, InvalidValue, ShardQLError, error_code
from graphql_api.evolution import unique_lookup
from graphql_api.model import Entity, EntitySpec, UniqueSpec
from graphql_api.query import MAX_COUNTED, NO_STATISTICS, ReadStatistics, SearchRequest, TokenSeal, plan_search
from graphql_api.query.execution import Count, FetchedRecords, Page, PointLookup, explain_search
from graphql_api.schema import Caller, DocumentExecutor, Graph, Operation
from graphql_api.server import existing_record_key, existing_token_keys, read_settings
from graphql_api.storage import Store
from graphql_api.writes import AnyCommand, Command, CommandResult, explain_writes

_NO_SEALING_KEY = " There is no token key: name the store of the token with --store, or set SHARDQL_TOKEN_KEYS."
_NO_RECORD_KEY = " There is no key of record keys: name their store with --store, or set SHARDQL_RECORD_KEY."


@dataclass(frozen=True, slots=True)
class QueryProblem:
    """Why a field, or the whole query, has no plan."""

    message: str
    code: str
    path: Sequence[str | int]
    line: int | None
    column: int | None

    def __str__(self) -> str:
        location = f"line {self.line}, column {self.column}: " if self.line is not None else ""
        return f"{location}{self.message}"


def plan_query(
    graph: Graph,
    query: str,
    operation_name: str | None,
    variables: Mapping[str, Any],
    store: str | None,
    statistics: ReadStatistics = NO_STATISTICS,
) -> tuple[list[Mapping[str, Any]], list[QueryProblem]]:
    """Plan a query as a server of this store would. Return the plans of its fields, and why others have none.

    The token key of the store is read only if the query has a page token. Plans have the format of
    `SearchPlan.describe`, with the `path` of the field and an estimate of capacity units. A read by id has `keys`
    instead, and a mutation the estimate of its write units: its reads depend on what is stored.
    """
    settings = read_settings(store=store)
    record_key = existing_record_key(settings)
    key_seal = RecordKeySeal(record_key[0]) if record_key is not None else RecordKeySeal.new()
    hints = {InvalidRecordKey.code: _NO_RECORD_KEY if record_key is None else ""}

    def run(token_keys: tuple[bytes, ...]) -> Any:
        """Return the errors of the fields, among them their plans."""
        seal = TokenSeal(token_keys)
        database = _PlanningDatabase(graph.catalog, cast(Store, None), seal, key_seal=key_seal, statistics=statistics)
        executor = DocumentExecutor(graph.schema, settings.limits())
        caller = Caller("explain", trusted=True)
        response = asyncio.run(executor.run(Operation(query, operation_name, variables), database, caller))
        return response.body.get("errors", ())

    errors = run((TokenSeal.new_secret(),))
    if any(error_code(error) == InvalidToken.code for error in errors):
        token_keys = existing_token_keys(settings)
        if token_keys is not None:
            errors = run(token_keys[0])
        else:
            hints[InvalidToken.code] = _NO_SEALING_KEY
    plans: list[Mapping[str, Any]] = []
    problems: list[QueryProblem] = []
    for error in sorted(errors, key=_location):
        code = error_code(error)
        if code == _PlanResult.code:
            plans.append({"path": error["path"], **error["extensions"]["plan"]})
        else:
            message = f"{error['message']}{hints.get(code, '')}"
            line, column = _location(error)
            problems.append(QueryProblem(message, code, error.get("path", ()), line or None, column or None))
    return plans, problems


class _PlanResult(ShardQLError, code="PLANNED"):
    """Carries a plan out of the resolver that requested the read."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        super().__init__("Planned, and not read.")
        self._plan = plan

    @property
    def extensions(self) -> dict[str, Any]:
        return {**super().extensions, "plan": self._plan}


@dataclass(frozen=True, slots=True)
class _PlanningDatabase(Database):
    """Plans each search, each read of a record, and each write. It never uses its store."""

    statistics: ReadStatistics = NO_STATISTICS

    async def page(self, request: SearchRequest) -> Page[Any]:
        request = replace(request, tenant=self.tenant, principal=self.principal)
        plan = plan_search(self.catalog, request, self.clock(), self.seal)
        raise _PlanResult(explain_search(plan, self.statistics))

    async def count_of(self, request: SearchRequest, at_most: Any = MAX_COUNTED) -> Count:
        raise _PlanResult(explain_search(self.count_plan(request, at_most), self.statistics))

    async def read_records(self, reads: Sequence[PointLookup]) -> FetchedRecords:
        return FetchedRecords([_PlanResult(read.describe(self.statistics)) for read in reads])

    async def read_by_unique(
        self, spec: EntitySpec, unique: UniqueSpec, values: Sequence[Any], why: str | None = None
    ) -> FetchedRecords:
        lookup = unique_lookup(spec, unique, values, self.tenant, why)
        return FetchedRecords([_PlanResult(lookup.describe(self.statistics))])

    async def apply_each(self, commands: Sequence[AnyCommand]) -> list[CommandResult]:
        raise self._write_plan(commands)

    async def apply_together(
        self, commands: Sequence[Command], idempotency_key: str | None = None, *_: Any
    ) -> list[Entity | None]:
        raise self._write_plan(commands, has_key=idempotency_key is not None)

    def _write_plan(self, commands: Sequence[AnyCommand], *, has_key: bool = False) -> _PlanResult:
        entities = [command.entity for command in commands]
        return _PlanResult(explain_writes(entities, len(commands), self.estimate_writes(commands, has_key=has_key)))


def search_request_of(graph: Graph, search: str) -> SearchRequest:
    """Return the request of a field that searches: `userByName(prefix: "jo")`. Reads nothing."""
    captured: list[SearchRequest] = []
    seal = TokenSeal((TokenSeal.new_secret(),))
    database = _CapturingDatabase(graph.catalog, cast(Store, None), seal, captured=captured)
    executor = DocumentExecutor(graph.schema, read_settings().limits())
    operation = Operation(f"{{ search: {search} {{ __typename }} }}")
    response = asyncio.run(executor.run(operation, database, Caller("export", trusted=True)))
    problems = [
        error
        for error in response.body.get("errors", ())
        if error_code(error) not in (_Captured.code, _PlanResult.code)
    ]
    if problems:
        raise InvalidValue(f"{search}: {problems[0]['message']}")
    if len(captured) != 1:
        raise InvalidValue(f"{search} is no search: name one field that returns a page, such as userByName.")
    return captured[0]


class _Captured(ShardQLError, code="CAPTURED"):
    """Ends a search whose request is known."""


@dataclass(frozen=True, slots=True)
class _CapturingDatabase(_PlanningDatabase):
    """Keeps the requests of searches. It never uses its store."""

    captured: list[SearchRequest] = field(default_factory=list)

    async def page(self, request: SearchRequest) -> Page[Any]:
        plan_search(self.catalog, replace(request, tenant=self.tenant), self.clock(), self.seal)
        self.captured.append(request)
        raise _Captured("The request is known.")


def _location(error: Mapping[str, Any]) -> tuple[int, int]:
    """Return the line and column of a GraphQL error, or zeros if it has none."""
    locations = error.get("locations") or ({"line": 0, "column": 0},)
    return locations[0]["line"], locations[0]["column"]

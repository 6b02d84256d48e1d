"""What a GraphQL query would read first, field by field, without reading it.

The query runs as on a server, against a database that answers every read with its plan: the plan leaves the resolver as
an error, since those are told with the path of their field.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from graphql_api.codecs import RecordKeySeal
from graphql_api.database import Database
from graphql_api.errors import InvalidRecordKey, InvalidToken, MethodNotAllowed, ShardQLError
from graphql_api.query import MAX_COUNTED, Seal, SearchRequest, plan_search
from graphql_api.query.execution import Count, Page, RecordRead, RecordsFound
from graphql_api.schema import Caller, Engine, Graph, Limits, Operation
from graphql_api.server import known_record_key, known_tokens, read_settings
from graphql_api.storage import Store

_NO_KEY = " No key is known: name the store that the token is from by --store, or set SHARDQL_TOKEN_KEYS."
_NO_PLAN = (
    "Only queries are planned: what a mutation reads and writes depends on what it finds. Send it to a server with the "
    "header x-explain: 1."
)
_NO_RECORD_KEY = " The key of record keys is not known: name their store by --store, or set SHARDQL_RECORD_KEY."


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a field, or the whole query, has no plan."""

    message: str
    code: str
    path: Sequence[str | int] = ()
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line is not None else ""
        return f"{place}{self.message}"


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans of a query's fields, in the order of the query, and what is wrong with the others."""

    plans: tuple[Mapping[str, Any], ...]
    """as `SearchPlan.describe` has them, with the `path` of the field; `keys` where one record is read by its id"""
    problems: tuple[Problem, ...]


def planned(graph: Graph, query: str, operation: str | None, variables: Mapping[str, Any], store: str | None) -> Plans:
    """Plans a query as a server of this store would; its token key is looked for only if there is a token to open."""
    settings = read_settings(store=store)
    asked = Operation(query, operation, variables)
    record_key = known_record_key(settings)
    key_seal = RecordKeySeal(record_key[0]) if record_key is not None else RecordKeySeal.new()
    found = asyncio.run(_plans(graph, asked, Seal((Seal.new_secret(),)), key_seal, settings.limits()))
    lacking = {} if record_key is not None else {InvalidRecordKey.code: _NO_RECORD_KEY}
    if any(problem.code == InvalidToken.code for problem in found.problems):
        known = known_tokens(settings)
        if known is not None:
            found = asyncio.run(_plans(graph, asked, Seal(known[0]), key_seal, settings.limits()))
        else:
            lacking[InvalidToken.code] = _NO_KEY
    problems = [replace(one, message=f"{one.message}{lacking.get(one.code, '')}") for one in found.problems]
    return Plans(found.plans, tuple(problems))


async def _plans(graph: Graph, operation: Operation, seal: Seal, key_seal: RecordKeySeal, limits: Limits) -> Plans:
    engine = Engine(graph.schema, limits)
    database = _PlanningDatabase(graph.catalog, cast(Store, None), seal, key_seal=key_seal)
    answer = await engine.run(operation, database, Caller("explain", read_only=True, trusted=True))
    plans: list[Mapping[str, Any]] = []
    problems: list[Problem] = []
    for error in sorted(answer.body.get("errors", ()), key=_place):
        if error["extensions"]["code"] == _Planned.code:
            plans.append({"path": error["path"], **error["extensions"]["plan"]})
        else:
            problems.append(_problem(error))
    return Plans(tuple(plans), tuple(problems))


class _Planned(ShardQLError):
    """A plan on its way out of the resolver that asked for what it would read."""

    code = "PLANNED"

    def __init__(self, plan: Mapping[str, Any]) -> None:
        super().__init__("Planned, and not read.")
        self._plan = plan

    @property
    def extensions(self) -> dict[str, Any]:
        return {**super().extensions, "plan": self._plan}


class _PlanningDatabase(Database):
    """Plans each search and each read of a record; nothing reaches its store."""

    __slots__ = ()

    async def page(self, request: SearchRequest) -> Page[Any]:
        request = replace(request, tenant=self.tenant, principal=self.principal)
        raise _Planned(plan_search(self.catalog, request, self.clock(), self.seal).describe())

    async def count_of(self, request: SearchRequest, at_most: Any = MAX_COUNTED) -> Count:
        raise _Planned(self.count_plan(request, at_most).describe())

    async def read_records(self, reads: Sequence[RecordRead]) -> RecordsFound:
        return RecordsFound([_Planned(read.describe()) for read in reads], {})


def _place(error: Mapping[str, Any]) -> tuple[int, int]:
    at = error.get("locations") or ({"line": 0, "column": 0},)
    return at[0]["line"], at[0]["column"]


def _problem(error: Mapping[str, Any]) -> Problem:
    line, column = _place(error)
    located = {"line": line, "column": column} if line else {}
    code = error["extensions"]["code"]
    message = _NO_PLAN if code == MethodNotAllowed.code else error["message"]
    return Problem(message, code, error.get("path", ()), **located)

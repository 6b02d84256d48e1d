"""A database whose searches go through GraphQL and back, so that what holds for the one is asked of the other."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from graphql_api.codecs.key_ranges import Between, Eq, Prefix
from graphql_api.database import Database
from graphql_api.model.catalog import Catalog
from graphql_api.model.markers import IndexRef
from graphql_api.model.specs import EntitySpec, IndexSpec
from graphql_api.query.naming_scheme import CONDITION_ARGUMENTS, PAGING_ARGUMENTS
from graphql_api.schema.execution.document_executor import DocumentExecutor, Operation
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from tests.schema.written import Bare, document, inline, read, selection_of, written

WIDE = Limits(cost=10**9, deadline=600.0)


class Refused(Exception):
    """The errors of an operation."""

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        super().__init__(errors)
        self.errors = errors

    @property
    def codes(self) -> list[str]:
        """Their codes."""
        return [error["extensions"]["code"] for error in self.errors]


@dataclass(frozen=True)
class Schema:
    """What a catalog becomes, and what runs operations over it."""

    graph: Graph
    engine: DocumentExecutor

    def arguments_of(self, field: str) -> Mapping[str, Any]:
        """The arguments of a field of the query, with their types."""
        query = self.engine.schema._schema.query_type
        assert query is not None
        return {name: argument.type for name, argument in query.fields[field].args.items()}


@lru_cache(maxsize=8)
def schema_of(catalog: Catalog) -> Schema:
    """The schema of a catalog, made once."""
    graph = Graph(catalog)
    return Schema(graph, DocumentExecutor(graph.schema, WIDE))


async def answered(database: Database, query: str, variables: Mapping[str, Any] | None = None) -> Any:
    """The data of an operation that must succeed, after a way through JSON."""
    engine = schema_of(database.catalog).engine
    caller = Caller("test", tenant=database.tenant, subject=database.principal)
    answer = await engine.run(Operation(query, variables=json.loads(json.dumps(variables or {}))), database, caller)
    body = json.loads(json.dumps(answer.body, allow_nan=False))
    if "errors" in body:
        raise Refused(body["errors"])
    return body["data"]


@dataclass(frozen=True, slots=True)
class ThroughGraphQL(Database):
    """Writes as any database; its searches are operations."""

    literals: bool = False
    """arguments stand in the document, not in variables"""

    async def search(self, index: IndexRef, /, **arguments: Any) -> Any:
        """One page, under the names of `Page`."""
        schema, entity = schema_of(self.catalog), self.catalog.entity(index.entity)
        spec = self.catalog.index(index)
        field = schema.graph.names.search_field(entity, spec)
        given = arguments_in_graphql(schema, entity, spec, arguments)
        fields = [schema.graph.names.naming.property_name(name) for name in entity.properties]
        query = (
            inline(field, given, selection_of(fields))
            if self.literals
            else document(field, schema.arguments_of(field), given, selection_of(fields))
        )
        page = (await answered(self, query, {} if self.literals else given))["answer"]
        assert [edge["node"] for edge in page["edges"]] == page["items"]
        return SimpleNamespace(
            items=[_record(schema, entity, item) for item in page["items"]],
            next_token=page["nextToken"],
            cursors=[edge["cursor"] for edge in page["edges"]],
            has_next=page["pageInfo"]["hasNextPage"],
            has_previous=page["pageInfo"]["hasPreviousPage"],
            start_cursor=page["pageInfo"]["startCursor"],
            end_cursor=page["pageInfo"]["endCursor"],
            complete=page["complete"],
            stopped_by=page["stoppedBy"],
            shards=page["shards"],
            explain={"read": {"returned": len(page["items"])}},
        )


def _record(schema: Schema, entity: EntitySpec, item: Mapping[str, Any]) -> SimpleNamespace:
    name_of = schema.graph.names.naming.property_name
    return SimpleNamespace(
        **{part.name: read(part.column.codec, item[name_of(part.name)]) for part in entity.properties.values()}
    )


def arguments_in_graphql(
    schema: Schema, entity: EntitySpec, index: IndexSpec, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments of a search in Python as they are written in GraphQL; what is null is left out."""
    naming = schema.graph.names.naming
    given: dict[str, Any] = {}
    of_python = {naming.property_argument(name): name for name in entity.properties}
    exact = {part.name for part in index.hash}
    first = index.sort[0].property if index.sort else None
    for name, value in arguments.items():
        if value is None:
            continue
        if name == "on_shard_failure":
            given[naming.common_argument(name)] = Bare(value)
        elif name in PAGING_ARGUMENTS:
            given[naming.common_argument(name)] = value
        elif name in (*CONDITION_ARGUMENTS, "from"):
            text = index.physical is None and len(index.sort) > 1
            assert first is not None
            given[naming.common_argument(name)] = value if text else written(first.column.codec, value)
        elif index.physical is None and name in {part.name for part in index.id_prefix}:
            given["id"] = "/".join(_escaped(arguments[part.name]) for part in index.id_prefix)
        elif name in exact:
            given[naming.property_argument(name)] = written(entity.properties[name].column.codec, value)
        elif name == "id" and "id" not in of_python:
            given[name] = value
        else:
            given[naming.property_argument(name)] = _condition(entity.properties[name].column.codec, value)
    if index.physical is None and len(index.id_prefix) == 1:
        (part,) = index.id_prefix
        if part.name in arguments:
            given["id"] = part.column.codec.format(arguments[part.name])
    return given


def _escaped(value: Any) -> str:
    return str(value).replace("%", "%25").replace("/", "%2F")


def _condition(codec: Any, given: Any) -> dict[str, Any]:
    """A condition as exactly one of its kinds."""
    if isinstance(given, Eq):
        given = {"eq": given.value}
    elif isinstance(given, Prefix):
        given = {"prefix": given.text}
    elif isinstance(given, Between):
        given = {"from": given.low, "to": given.high}
    elif not isinstance(given, Mapping):
        given = {"eq": given}
    values = {name: written(codec, value) for name, value in given.items() if value is not None}
    return {"between": values} if values.keys() == {"from", "to"} else values

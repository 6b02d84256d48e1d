"""A database that runs its searches through GraphQL, so that tests of the Python API also check GraphQL."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from graphql_api.codecs.key_ranges import Between, Eq, Prefix
from graphql_api.database import Database
from graphql_api.model.catalog import Catalog
from graphql_api.model.specs import EntitySpec, IndexSpec
from graphql_api.query.search_request import CONDITION_ARGUMENTS, PAGING_ARGUMENTS, PYTHON_NAMES
from graphql_api.schema.execution.document_executor import DocumentExecutor
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.execution.graphql_operation import Operation
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from tests.schema.graphql_text import (
    EnumName,
    argument_value,
    document_with_literals,
    document_with_variables,
    page_selection,
    parse_value,
)

UNLIMITED = Limits(cost=10**9, deadline=600.0)


class OperationFailed(Exception):
    """Raised with the errors of a failed operation."""

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        super().__init__(errors)
        self.errors = errors

    @property
    def codes(self) -> list[str]:
        """The codes of the errors."""
        return [error["extensions"]["code"] for error in self.errors]


@dataclass(frozen=True)
class Schema:
    """The graph of a catalog and the executor of its operations."""

    graph: Graph
    executor: DocumentExecutor

    def arguments_of(self, field: str) -> Mapping[str, Any]:
        """Return the arguments of a query field with their types."""
        query = self.executor.schema._schema.query_type
        assert query is not None
        return {name: argument.type for name, argument in query.fields[field].args.items()}


@lru_cache(maxsize=8)
def schema_of(catalog: Catalog) -> Schema:
    """Return the cached schema of a catalog."""
    graph = Graph(catalog)
    return Schema(graph, DocumentExecutor(graph.schema, UNLIMITED))


async def execute(database: Database, query: str, variables: Mapping[str, Any] | None = None) -> Any:
    """Execute an operation that must succeed, and return its data after a JSON round trip."""
    executor = schema_of(database.catalog).executor
    caller = Caller("test", tenant=database.tenant, subject=database.principal)
    response = await executor.run(Operation(query, variables=json.loads(json.dumps(variables or {}))), database, caller)
    body = json.loads(json.dumps(response.body, allow_nan=False))
    if "errors" in body:
        raise OperationFailed(body["errors"])
    return body["data"]


@dataclass(frozen=True, slots=True)
class GraphQLDatabase(Database):
    """Writes like any database, but runs each search as a GraphQL operation."""

    literals: bool = False
    """whether arguments are literals in the document instead of variables"""

    async def search(self, index: Any, /, **arguments: Any) -> Any:  # type: ignore[override]  # no signatures of indexes
        """Return one page, with the attribute names of `Page`."""
        schema, entity = schema_of(self.catalog), self.catalog.entity(index.entity)
        spec = self.catalog.index(index)
        field = schema.graph.names.search_field(entity, spec)
        given = graphql_arguments(schema, entity, spec, arguments)
        fields = [schema.graph.names.naming.property_name(name) for name in entity.properties]
        query = (
            document_with_literals(field, given, page_selection(fields))
            if self.literals
            else document_with_variables(field, schema.arguments_of(field), given, page_selection(fields))
        )
        page = (await execute(self, query, {} if self.literals else given))["answer"]
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
        **{part.name: parse_value(part.column.codec, item[name_of(part.name)]) for part in entity.properties.values()}
    )


def graphql_arguments(
    schema: Schema, entity: EntitySpec, index: IndexSpec, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Convert the Python arguments of a search to GraphQL arguments. Null arguments are omitted."""
    naming = schema.graph.names.naming
    converted: dict[str, Any] = {}
    of_python = {naming.property_argument(name): name for name in entity.properties}
    exact = {part.name for part in index.hash}
    lists = {PYTHON_NAMES.list_argument(entity, part.name): part for part in index.hash}
    first = index.sort[0].property if index.sort else None
    for name, value in arguments.items():
        if value is None:
            continue
        if name == "on_shard_failure":
            converted[naming.common_argument(name)] = EnumName(value)
        elif name in PAGING_ARGUMENTS:
            converted[naming.common_argument(name)] = value
        elif name in (*CONDITION_ARGUMENTS, "from"):
            text = index.physical is None and len(index.sort) > 1
            assert first is not None
            converted[naming.common_argument(name)] = value if text else argument_value(first.column.codec, value)
        elif index.physical is None and name in {part.name for part in index.id_prefix}:
            converted["id"] = "/".join(_escaped(arguments[part.name]) for part in index.id_prefix)
        elif name in lists:
            codec = lists[name].column.codec
            converted[naming.list_argument(entity, lists[name].name)] = [argument_value(codec, each) for each in value]
        elif name in exact:
            converted[naming.property_argument(name)] = argument_value(entity.properties[name].column.codec, value)
        elif name == "id" and "id" not in of_python:
            converted[name] = value
        else:
            converted[naming.property_argument(name)] = _condition(entity.properties[name].column.codec, value)
    if index.physical is None and len(index.id_prefix) == 1:
        (part,) = index.id_prefix
        if part.name in arguments:
            converted["id"] = part.column.codec.format(arguments[part.name])
    return converted


def _escaped(value: Any) -> str:
    return str(value).replace("%", "%25").replace("/", "%2F")


def _condition(codec: Any, condition: Any) -> dict[str, Any]:
    """Return a condition with exactly one operator."""
    if isinstance(condition, Eq):
        condition = {"eq": condition.value}
    elif isinstance(condition, Prefix):
        condition = {"prefix": condition.text}
    elif isinstance(condition, Between):
        condition = {"from": condition.low, "to": condition.high}
    elif not isinstance(condition, Mapping):
        condition = {"eq": condition}
    values = {name: argument_value(codec, value) for name, value in condition.items() if value is not None}
    return {"between": values} if values.keys() == {"from", "to"} else values

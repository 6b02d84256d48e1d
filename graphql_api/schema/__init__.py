"""Generation of the GraphQL schema from a catalog, and execution of GraphQL operations."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.schema.authorization import describe_rule, ownership_properties
    from graphql_api.schema.document_literals import (
        EXAMPLE_YEAR,
        NotRepresentable,
        ValueKind,
        example_range,
        input_literal,
        scalar_literal,
        value_kind,
    )
    from graphql_api.schema.execution.document_executor import DocumentExecutor, ExecutionResponse, Operation
    from graphql_api.schema.execution.document_limits import Limits
    from graphql_api.schema.fields.mutation_payloads import record_field_name
    from graphql_api.schema.fields.search_fields import available_orders, indexes_by_hash
    from graphql_api.schema.graph import Graph
    from graphql_api.schema.graphql_names import GraphQLNames, with_article
    from graphql_api.schema.request_context import Caller
    from graphql_api.schema.sdl import SchemaChanges, compare_schemas, print_sdl
    from graphql_api.schema.types.connection_types import Connection
    from graphql_api.schema.types.mutation_inputs import (
        EXPECTED_VERSION,
        ID,
        input_field_name,
        is_optional_input,
        updatable_properties,
        writable_properties,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "ExecutionResponse": "execution.document_executor",
            "Caller": "request_context",
            "Connection": "types.connection_types",
            "EXPECTED_VERSION": "types.mutation_inputs",
            "DocumentExecutor": "execution.document_executor",
            "Graph": "graph",
            "ID": "types.mutation_inputs",
            "ValueKind": "document_literals",
            "Limits": "execution.document_limits",
            "GraphQLNames": "graphql_names",
            "NotRepresentable": "document_literals",
            "Operation": "execution.document_executor",
            "SchemaChanges": "sdl",
            "EXAMPLE_YEAR": "document_literals",
            "updatable_properties": "types.mutation_inputs",
            "compare_schemas": "sdl",
            "example_range": "document_literals",
            "indexes_by_hash": "fields.search_fields",
            "describe_rule": "authorization",
            "input_literal": "document_literals",
            "input_field_name": "types.mutation_inputs",
            "value_kind": "document_literals",
            "scalar_literal": "document_literals",
            "is_optional_input": "types.mutation_inputs",
            "ownership_properties": "authorization",
            "available_orders": "fields.search_fields",
            "record_field_name": "fields.mutation_payloads",
            "print_sdl": "sdl",
            "with_article": "graphql_names",
            "writable_properties": "types.mutation_inputs",
        },
    )

__all__ = [
    "EXAMPLE_YEAR",
    "EXPECTED_VERSION",
    "ID",
    "Caller",
    "Connection",
    "DocumentExecutor",
    "ExecutionResponse",
    "Graph",
    "GraphQLNames",
    "Limits",
    "NotRepresentable",
    "Operation",
    "SchemaChanges",
    "ValueKind",
    "available_orders",
    "compare_schemas",
    "describe_rule",
    "example_range",
    "indexes_by_hash",
    "input_field_name",
    "input_literal",
    "is_optional_input",
    "ownership_properties",
    "print_sdl",
    "record_field_name",
    "scalar_literal",
    "updatable_properties",
    "value_kind",
    "with_article",
    "writable_properties",
]

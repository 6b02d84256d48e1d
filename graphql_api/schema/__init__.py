"""From a catalog to a GraphQL schema, and from an operation to its response."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.schema.authorization import in_words, naming
    from graphql_api.schema.document_literals import (
        YEAR,
        Kind,
        NotInDocument,
        example_range,
        input_literal,
        kind_of,
        literal,
    )
    from graphql_api.schema.execution.document_executor import Answer, Engine, Operation
    from graphql_api.schema.execution.document_limits import Limits
    from graphql_api.schema.fields.mutation_payloads import own_name
    from graphql_api.schema.fields.search_fields import groups_of, orders_of
    from graphql_api.schema.graph import Graph
    from graphql_api.schema.graphql_names import Names, with_article
    from graphql_api.schema.request_context import Caller
    from graphql_api.schema.sdl import SchemaChanges, compare, print_sdl
    from graphql_api.schema.types.connection_types import Connection
    from graphql_api.schema.types.mutation_inputs import (
        EXPECTED_VERSION,
        ID,
        changeable,
        input_name,
        may_be_left_out,
        writable,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "Answer": "execution.document_executor",
            "Caller": "request_context",
            "Connection": "types.connection_types",
            "EXPECTED_VERSION": "types.mutation_inputs",
            "Engine": "execution.document_executor",
            "Graph": "graph",
            "ID": "types.mutation_inputs",
            "Kind": "document_literals",
            "Limits": "execution.document_limits",
            "Names": "graphql_names",
            "NotInDocument": "document_literals",
            "Operation": "execution.document_executor",
            "SchemaChanges": "sdl",
            "YEAR": "document_literals",
            "changeable": "types.mutation_inputs",
            "compare": "sdl",
            "example_range": "document_literals",
            "groups_of": "fields.search_fields",
            "in_words": "authorization",
            "input_literal": "document_literals",
            "input_name": "types.mutation_inputs",
            "kind_of": "document_literals",
            "literal": "document_literals",
            "may_be_left_out": "types.mutation_inputs",
            "naming": "authorization",
            "orders_of": "fields.search_fields",
            "own_name": "fields.mutation_payloads",
            "print_sdl": "sdl",
            "with_article": "graphql_names",
            "writable": "types.mutation_inputs",
        },
    )

__all__ = [
    "EXPECTED_VERSION",
    "ID",
    "YEAR",
    "Answer",
    "Caller",
    "Connection",
    "Engine",
    "Graph",
    "Kind",
    "Limits",
    "Names",
    "NotInDocument",
    "Operation",
    "SchemaChanges",
    "changeable",
    "compare",
    "example_range",
    "groups_of",
    "in_words",
    "input_literal",
    "input_name",
    "kind_of",
    "literal",
    "may_be_left_out",
    "naming",
    "orders_of",
    "own_name",
    "print_sdl",
    "with_article",
    "writable",
]

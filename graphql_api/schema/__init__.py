"""Generation of the GraphQL schema from a catalog, and execution of GraphQL operations."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.schema.error_formatting import ErrorFormatter as ErrorFormatter
    from graphql_api.schema.execution.document_executor import DocumentExecutor as DocumentExecutor
    from graphql_api.schema.execution.document_limits import Limits as Limits
    from graphql_api.schema.execution.graphql_operation import ExecutionResponse as ExecutionResponse
    from graphql_api.schema.execution.graphql_operation import Operation as Operation
    from graphql_api.schema.execution.streamed_execution import Admit as Admit
    from graphql_api.schema.execution.streamed_execution import Responses as Responses
    from graphql_api.schema.execution.streamed_execution import StreamExecutor as StreamExecutor
    from graphql_api.schema.execution.streamed_execution import StreamingExecutor as StreamingExecutor
    from graphql_api.schema.fields.search_fields import available_orders as available_orders
    from graphql_api.schema.fields.search_fields import indexes_by_hash as indexes_by_hash
    from graphql_api.schema.graph import Graph as Graph
    from graphql_api.schema.graphql_names import GraphQLNames as GraphQLNames
    from graphql_api.schema.graphql_names import property_name as property_name
    from graphql_api.schema.graphql_names import with_article as with_article
    from graphql_api.schema.input_values import NotRepresentable as NotRepresentable
    from graphql_api.schema.input_values import input_literal as input_literal
    from graphql_api.schema.request_context import Caller as Caller
    from graphql_api.schema.request_context import Context as Context
    from graphql_api.schema.rule_decisions import check_caller as check_caller
    from graphql_api.schema.rule_decisions import decide_without_record as decide_without_record
    from graphql_api.schema.rule_decisions import describe_rule as describe_rule
    from graphql_api.schema.rule_decisions import ownership_properties as ownership_properties
    from graphql_api.schema.sdl import SchemaChanges as SchemaChanges
    from graphql_api.schema.sdl import compare_schemas as compare_schemas
    from graphql_api.schema.sdl import print_sdl as print_sdl
    from graphql_api.schema.transport_protocol import COMPLETE as COMPLETE
    from graphql_api.schema.transport_protocol import FORBIDDEN as FORBIDDEN
    from graphql_api.schema.transport_protocol import KEEP_ALIVE as KEEP_ALIVE
    from graphql_api.schema.transport_protocol import PROTOCOL as PROTOCOL
    from graphql_api.schema.transport_protocol import RESTARTS as RESTARTS
    from graphql_api.schema.transport_protocol import STREAM_HEADERS as STREAM_HEADERS
    from graphql_api.schema.transport_protocol import TransportProtocol as TransportProtocol
    from graphql_api.schema.transport_protocol import close_reason as close_reason
    from graphql_api.schema.transport_protocol import encode_next as encode_next
    from graphql_api.schema.types.connection_types import Connection as Connection
    from graphql_api.schema.types.mutation_types import EXPECTED_VERSION as EXPECTED_VERSION
    from graphql_api.schema.types.mutation_types import ID as ID
    from graphql_api.schema.types.mutation_types import input_field_name as input_field_name
    from graphql_api.schema.types.mutation_types import is_optional_input as is_optional_input
    from graphql_api.schema.types.mutation_types import record_field_name as record_field_name
    from graphql_api.schema.types.mutation_types import updatable_properties as updatable_properties
    from graphql_api.schema.types.mutation_types import writable_properties as writable_properties
else:
    __getattr__ = lazy_exports(__name__, __file__)

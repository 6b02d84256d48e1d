"""The HTTP server of a catalog: settings, start-up, the GraphQL endpoint."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.server.admission_control import AdmissionController as AdmissionController
    from graphql_api.server.app import asgi as asgi
    from graphql_api.server.app import create_application as create_application
    from graphql_api.server.app import load_graph as load_graph
    from graphql_api.server.app import read_trusted_documents as read_trusted_documents
    from graphql_api.server.app import settings_problems as settings_problems
    from graphql_api.server.app import warn_about_production as warn_about_production
    from graphql_api.server.database_lifespan import OpenDatabase as OpenDatabase
    from graphql_api.server.database_lifespan import open_server_database as open_server_database
    from graphql_api.server.database_lifespan import warm_connections as warm_connections
    from graphql_api.server.lambda_handler import aws_lambda as aws_lambda
    from graphql_api.server.request_state import CORRELATION_HEADER as CORRELATION_HEADER
    from graphql_api.server.request_state import RequestState as RequestState
    from graphql_api.server.request_state import correlation_id as correlation_id
    from graphql_api.server.request_state import get_request_state as get_request_state
    from graphql_api.server.responses import negotiate_error_type as negotiate_error_type
    from graphql_api.server.responses import overloaded_response as overloaded_response
    from graphql_api.server.secret_keys import existing_record_key as existing_record_key
    from graphql_api.server.secret_keys import existing_token_keys as existing_token_keys
    from graphql_api.server.secret_keys import resolve_secrets as resolve_secrets
    from graphql_api.server.settings import RESERVED_PATHS as RESERVED_PATHS
    from graphql_api.server.settings import LogFormat as LogFormat
    from graphql_api.server.settings import LogLevel as LogLevel
    from graphql_api.server.settings import Settings as Settings
    from graphql_api.server.settings import SettingValue as SettingValue
    from graphql_api.server.settings import errors_of_file as errors_of_file
    from graphql_api.server.settings import read_settings as read_settings
    from graphql_api.server.settings import variable_name as variable_name
else:
    __getattr__ = lazy_exports(__name__, __file__)

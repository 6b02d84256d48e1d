"""The HTTP server of a catalog: settings, start-up, the GraphQL endpoint."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.server.database_lifespan import OpenDatabase
    from graphql_api.server.request_state import get_request_state
    from graphql_api.server.secret_keys import existing_record_key, existing_token_keys, resolve_secrets
    from graphql_api.server.settings import LogFormat, LogLevel, Settings, SettingValue, read_settings, variable_name
    from graphql_api.server.settings_checks import settings_problems
    from graphql_api.server.startup import (
        asgi,
        create_application,
        create_instrumentation,
        load_graph,
        open_server_database,
        read_trusted_documents,
        warn_about_unrestricted_access,
    )
    from graphql_api.server.strict_json import read_json
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "LogFormat": "settings",
            "LogLevel": "settings",
            "OpenDatabase": "database_lifespan",
            "SettingValue": "settings",
            "Settings": "settings",
            "asgi": "startup",
            "create_application": "startup",
            "create_instrumentation": "startup",
            "existing_record_key": "secret_keys",
            "existing_token_keys": "secret_keys",
            "load_graph": "startup",
            "open_server_database": "startup",
            "read_json": "strict_json",
            "read_settings": "settings",
            "read_trusted_documents": "startup",
            "get_request_state": "request_state",
            "resolve_secrets": "secret_keys",
            "settings_problems": "settings_checks",
            "variable_name": "settings",
            "warn_about_unrestricted_access": "startup",
        },
    )

__all__ = [
    "LogFormat",
    "LogLevel",
    "OpenDatabase",
    "SettingValue",
    "Settings",
    "asgi",
    "create_application",
    "create_instrumentation",
    "existing_record_key",
    "existing_token_keys",
    "get_request_state",
    "load_graph",
    "open_server_database",
    "read_json",
    "read_settings",
    "read_trusted_documents",
    "resolve_secrets",
    "settings_problems",
    "variable_name",
    "warn_about_unrestricted_access",
]

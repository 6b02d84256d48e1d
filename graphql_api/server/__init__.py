"""The HTTP server of a catalog: settings, start-up, the GraphQL endpoint."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.server.correlation import notes_of
    from graphql_api.server.database_lifespan import OpenDatabase
    from graphql_api.server.development_keys import known_record_key, known_tokens, token_secrets
    from graphql_api.server.settings import Listed, LogFormat, LogLevel, Settings, read_settings, variable
    from graphql_api.server.settings_checks import unfit
    from graphql_api.server.startup import (
        application,
        asgi,
        load_graph,
        open_served,
        operations_of,
        read_documents,
        tell_what_is_open,
    )
    from graphql_api.server.strict_json import read_json
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "Listed": "settings",
            "LogFormat": "settings",
            "LogLevel": "settings",
            "OpenDatabase": "database_lifespan",
            "Settings": "settings",
            "application": "startup",
            "asgi": "startup",
            "known_record_key": "development_keys",
            "known_tokens": "development_keys",
            "load_graph": "startup",
            "notes_of": "correlation",
            "open_served": "startup",
            "operations_of": "startup",
            "read_documents": "startup",
            "read_json": "strict_json",
            "read_settings": "settings",
            "tell_what_is_open": "startup",
            "token_secrets": "development_keys",
            "unfit": "settings_checks",
            "variable": "settings",
        },
    )

__all__ = [
    "Listed",
    "LogFormat",
    "LogLevel",
    "OpenDatabase",
    "Settings",
    "application",
    "asgi",
    "known_record_key",
    "known_tokens",
    "load_graph",
    "notes_of",
    "open_served",
    "operations_of",
    "read_documents",
    "read_json",
    "read_settings",
    "tell_what_is_open",
    "token_secrets",
    "unfit",
    "variable",
]

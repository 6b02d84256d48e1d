"""Health checks, metrics, request log and tracing."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.server.observability.instrumentation import Operations
    from graphql_api.server.observability.metrics import SHARED_FOLDER
    from graphql_api.server.observability.observed_executor import Runs
    from graphql_api.server.observability.request_log import logs_explain
    from graphql_api.server.observability.tracing import open_tracing
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "Operations": "instrumentation",
            "Runs": "observed_executor",
            "SHARED_FOLDER": "metrics",
            "logs_explain": "request_log",
            "open_tracing": "tracing",
        },
    )

__all__ = [
    "SHARED_FOLDER",
    "Operations",
    "Runs",
    "logs_explain",
    "open_tracing",
]

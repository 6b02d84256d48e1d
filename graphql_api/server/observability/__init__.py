"""Health checks, metrics, request log and tracing."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.server.observability.instrumentation import Instrumentation
    from graphql_api.server.observability.metrics import MULTIPROCESS_DIRECTORY
    from graphql_api.server.observability.observed_executor import OperationExecutor
    from graphql_api.server.observability.request_log import logs_explain
    from graphql_api.server.observability.tracing import create_tracing
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "Instrumentation": "instrumentation",
            "MULTIPROCESS_DIRECTORY": "metrics",
            "OperationExecutor": "observed_executor",
            "create_tracing": "tracing",
            "logs_explain": "request_log",
        },
    )

__all__ = [
    "MULTIPROCESS_DIRECTORY",
    "Instrumentation",
    "OperationExecutor",
    "create_tracing",
    "logs_explain",
]

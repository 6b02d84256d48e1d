"""Health checks, metrics, request log and tracing."""

from typing import TYPE_CHECKING

from graphql_api.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphql_api.server.observability.health import log_unfinished_elements as log_unfinished_elements
    from graphql_api.server.observability.instrumentation import Instrumentation as Instrumentation
    from graphql_api.server.observability.instrumentation import OperationExecutor as OperationExecutor
    from graphql_api.server.observability.instrumentation import logs_explain as logs_explain
    from graphql_api.server.observability.metrics import MULTIPROCESS_DIRECTORY as MULTIPROCESS_DIRECTORY
    from graphql_api.server.observability.metrics import Metric as Metric
else:
    __getattr__ = lazy_exports(__name__, __file__)

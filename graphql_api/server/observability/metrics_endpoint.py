"""The endpoint `/metrics` for Prometheus."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from graphql_api.server.observability.metrics import Metrics

METRICS_PATH = "/metrics"


def metrics_routes(metrics: Metrics) -> list[BaseRoute]:
    """Return the route of the metrics."""

    def endpoint(request: Request) -> Response:
        text, content_type = metrics.render(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type, "cache-control": "no-store"})

    return [Route(METRICS_PATH, endpoint, methods=["GET"])]

"""`/metrics`: the counts of the server, for Prometheus."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from graphql_api.server.observability.metrics import Metrics

METRICS_PATH = "/metrics"


def metrics_routes(metrics: Metrics) -> list[BaseRoute]:
    """The page."""

    def page(request: Request) -> Response:
        text, content_type = metrics.text(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type, "cache-control": "no-store"})

    return [Route(METRICS_PATH, page, methods=["GET"])]

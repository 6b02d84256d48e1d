"""The metrics of a server, and their endpoint. A test compares docs/how-to/operations.md with the table.

Each server has its own registry, so that two servers in one process stay separate. With several worker processes, the
variable PROMETHEUS_MULTIPROC_DIR names a directory before this module is imported, and each process reports the sums.
"""

import os
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.requests import Request
from starlette.responses import Response

MULTIPROCESS_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the directory where prometheus_client shares the counts of all worker processes."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_KINDS: Mapping[str, Callable[..., Counter | Gauge | Histogram]] = {
    "counter": Counter,
    "gauge": partial(Gauge, multiprocess_mode="livesum"),
    "histogram": partial(Histogram, buckets=SECONDS),
}
MAX_CODES = 100
"""Maximum number of error codes used as labels. Custom resolvers may add codes; further ones count as OTHER."""
OTHER = "OTHER"


class Metric(Enum):
    """The metrics, in the order of the documentation: each with its name, unit, meaning and labels."""

    HTTP_REQUESTS = ("shardql_http_requests_total", "requests", "HTTP requests with a response.", ("route", "status"))
    IN_FLIGHT = "shardql_operations_in_flight", "operations", "Operations in progress."
    OPERATIONS = (
        "shardql_operations_total",
        "operations",
        (
            "GraphQL operations by outcome: ok, errors (part of the response is missing), refused (not executed), "
            "cancelled (the client disconnected), failed (internal error)."
        ),
        ("outcome",),
    )
    OPERATION_SECONDS = ("shardql_operation_seconds", "seconds", "Duration of operations, including their store calls.")
    ERRORS = "shardql_errors_total", "errors", "Errors in responses, by code.", ("code",)
    TOKEN_ERRORS = "shardql_token_errors_total", "errors", "Rejected page tokens, by code.", ("code",)
    STORE_CALLS = (
        "shardql_store_calls_total",
        "calls",
        "Store calls, by method of the storage port. The outcome is ok, or the code of the first error.",
        ("call", "outcome"),
    )
    STORE_SECONDS = "shardql_store_call_seconds", "seconds", "Duration of store calls.", ("call",)
    STORE_RETRIES = (
        "shardql_store_retries_total",
        "requests",
        "Requests that the storage engine sent again for operations. SQLite never retries.",
    )
    SEARCHES = "shardql_searches_total", "searches", "Pages of searches that were read."
    SHARDS_ASKED = "shardql_shards_asked_total", "shards", "Shards that searches read."
    RECORDS_READ = "shardql_records_read_total", "records", "Records that the store examined."
    RECORDS_RETURNED = ("shardql_records_returned_total", "records", "Records that searches and reads by id returned.")
    ELEMENTS = (
        "shardql_elements",
        "elements",
        "Elements of the table, such as indexes, by state: ready, unchecked, announced, building, closing, dropping.",
        ("state",),
    )

    def __init__(self, full_name: str, unit: str, help: str, labels: tuple[str, ...] = ()) -> None:
        self.full_name, self.unit, self.help, self.labels = full_name, unit, help, labels
        self.kind = "counter" if full_name.endswith("_total") else "histogram" if unit == "seconds" else "gauge"


_MODES: Mapping[Metric, Mapping[str, str]] = {Metric.ELEMENTS: {"multiprocess_mode": "livemostrecent"}}
"""Gauges about the table: all worker processes know the same one, so their values are not added."""


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._collectors = {
            metric: _KINDS[metric.kind](
                metric.full_name, metric.help, metric.labels, registry=self._registry, **_MODES.get(metric, {})
            )
            for metric in Metric
        }
        self._codes: set[str] = set()
        if MULTIPROCESS_DIRECTORY not in os.environ:
            ProcessCollector(registry=self._registry)

    def record(self, metric: Metric, *labels: str, amount: float = 1) -> None:
        """Add an amount to a counter or gauge, or a duration to a histogram. Labels are in the order of the metric."""
        collector = self._collectors[metric]
        child = collector.labels(*labels) if labels else collector
        if isinstance(child, Histogram):
            child.observe(amount)
        else:
            child.inc(amount)

    def set_counts(self, metric: Metric, counts: Mapping[str, float]) -> None:
        """Set a gauge to these counts, by label."""
        gauge = self._collectors[metric]
        assert isinstance(gauge, Gauge)
        for label, count in counts.items():
            gauge.labels(label).set(count)

    def code_label(self, code: str) -> str:
        """Return the label of an error code. The number of labels is limited."""
        if len(self._codes) < MAX_CODES:
            self._codes.add(code)
        return code if code in self._codes else OTHER

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the format that an Accept header requests, and its content type."""
        registry = self._registry
        if MULTIPROCESS_DIRECTORY in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type

    def endpoint(self, request: Request) -> Response:
        text, content_type = self.render(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type, "cache-control": "no-store"})

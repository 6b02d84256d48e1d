"""The metrics of a server. A test compares docs/operations.md with this list.

Each server has its own registry, so that two servers in one process stay separate. With several worker processes, the
variable PROMETHEUS_MULTIPROC_DIR names a directory before this module is imported, and each process reports the sums.
"""

import os
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector

MULTIPROCESS_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the directory where prometheus_client shares the counts of all worker processes."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
MAX_CODES = 100
"""Maximum number of error codes used as labels. Custom resolvers may add codes; further ones count as OTHER."""
OTHER = "OTHER"


@dataclass(frozen=True, slots=True)
class Metric:
    """The definition of one metric."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    help: str
    labels: tuple[str, ...] = ()


HTTP_REQUESTS = Metric(
    "shardql_http_requests_total", "counter", "requests", "HTTP requests with a response.", ("route", "status")
)
IN_FLIGHT = Metric("shardql_operations_in_flight", "gauge", "operations", "Operations in progress.")
OPERATIONS = Metric(
    "shardql_operations_total",
    "counter",
    "operations",
    "GraphQL operations by outcome: ok, errors (part of the response is missing), refused (not executed), "
    "cancelled (the client disconnected), failed (internal error).",
    ("outcome",),
)
OPERATION_SECONDS = Metric(
    "shardql_operation_seconds", "histogram", "seconds", "Duration of operations, including their store calls."
)
ERRORS = Metric("shardql_errors_total", "counter", "errors", "Errors in responses, by code.", ("code",))
TOKEN_ERRORS = Metric("shardql_token_errors_total", "counter", "errors", "Rejected page tokens, by code.", ("code",))
STORE_CALLS = Metric(
    "shardql_store_calls_total",
    "counter",
    "calls",
    "Store calls, by method of the storage port. The outcome is ok, or the code of the first error.",
    ("call", "outcome"),
)
STORE_SECONDS = Metric("shardql_store_call_seconds", "histogram", "seconds", "Duration of store calls.", ("call",))
STORE_RETRIES = Metric(
    "shardql_store_retries_total",
    "counter",
    "requests",
    "Requests that the storage engine sent again for operations. SQLite never retries.",
)
SEARCHES = Metric("shardql_searches_total", "counter", "searches", "Pages of searches that were read.")
SHARDS_ASKED = Metric("shardql_shards_asked_total", "counter", "shards", "Shards that searches read.")
RECORDS_READ = Metric("shardql_records_read_total", "counter", "records", "Records that the store examined.")
RECORDS_RETURNED = Metric(
    "shardql_records_returned_total", "counter", "records", "Records that searches and reads by id returned."
)

METRICS = (
    HTTP_REQUESTS,
    IN_FLIGHT,
    OPERATIONS,
    OPERATION_SECONDS,
    ERRORS,
    TOKEN_ERRORS,
    STORE_CALLS,
    STORE_SECONDS,
    STORE_RETRIES,
    SEARCHES,
    SHARDS_ASKED,
    RECORDS_READ,
    RECORDS_RETURNED,
)


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counters = [metric for metric in METRICS if metric.kind == "counter"]
        histograms = [metric for metric in METRICS if metric.kind == "histogram"]
        gauges = [metric for metric in METRICS if metric.kind == "gauge"]
        self._counters = {
            metric: Counter(metric.name, metric.help, metric.labels, registry=self._registry) for metric in counters
        }
        self._histograms = {
            metric: Histogram(metric.name, metric.help, metric.labels, buckets=SECONDS, registry=self._registry)
            for metric in histograms
        }
        self._gauges = {
            metric: Gauge(metric.name, metric.help, registry=self._registry, multiprocess_mode="livesum")
            for metric in gauges
        }
        self._codes: set[str] = set()
        if MULTIPROCESS_DIRECTORY not in os.environ:
            ProcessCollector(registry=self._registry)

    def increment(self, metric: Metric, *labels: str, amount: float = 1) -> None:
        """Increment a counter. Labels are in the order of the metric's definition."""
        counter = self._counters[metric]
        (counter.labels(*labels) if labels else counter).inc(amount)

    def observe(self, metric: Metric, seconds: float, *labels: str) -> None:
        """Add a duration to a histogram."""
        histogram = self._histograms[metric]
        (histogram.labels(*labels) if labels else histogram).observe(seconds)

    def change_gauge(self, metric: Metric, by: int) -> None:
        """Increase or decrease a gauge."""
        self._gauges[metric].inc(by)

    def code_label(self, code: str) -> str:
        """Return the label of an error code. The number of labels is limited."""
        if code not in self._codes:
            if len(self._codes) >= MAX_CODES:
                return OTHER
            self._codes.add(code)
        return code

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the format that an Accept header requests, and its content type."""
        registry = self._registry
        if MULTIPROCESS_DIRECTORY in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type

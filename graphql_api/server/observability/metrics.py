"""What a server counts: every metric is listed once, here, and docs/operations.md is compared with the list.

A registry belongs to one server, so two of them in a process do not mix. Where several processes serve as one, the
variable PROMETHEUS_MULTIPROC_DIR names a folder before this module is loaded, and each process answers for all.
"""

import os
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""variable that tells prometheus_client where the processes of one server keep their counts"""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
MAX_CODES = 100
"""own resolvers may answer with codes of their own; beyond so many of them they are counted as one"""
OTHER = "OTHER"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: what it is called and means."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    help: str
    labels: tuple[str, ...] = ()


HTTP_REQUESTS = Metric(
    "shardql_http_requests_total", "counter", "requests", "HTTP requests that were answered.", ("route", "status")
)
IN_FLIGHT = Metric("shardql_operations_in_flight", "gauge", "operations", "Operations that are being worked on now.")
OPERATIONS = Metric(
    "shardql_operations_total",
    "counter",
    "operations",
    "GraphQL operations, by how they ended: ok, errors (some of the answer is missing), refused (nothing was "
    "executed), cancelled (the client went away), failed (a mistake of the server).",
    ("outcome",),
)
OPERATION_SECONDS = Metric(
    "shardql_operation_seconds", "histogram", "seconds", "How long operations took, with all their calls of the store."
)
ERRORS = Metric("shardql_errors_total", "counter", "errors", "Errors in answers, by code.", ("code",))
TOKEN_ERRORS = Metric(
    "shardql_token_errors_total", "counter", "errors", "Page tokens that were not accepted, by code.", ("code",)
)
STORE_CALLS = Metric(
    "shardql_store_calls_total",
    "counter",
    "calls",
    "Calls of the store, by method of the port; the outcome is ok or the code of the first error.",
    ("call", "outcome"),
)
STORE_SECONDS = Metric(
    "shardql_store_call_seconds", "histogram", "seconds", "How long calls of the store took.", ("call",)
)
STORE_RETRIES = Metric(
    "shardql_store_retries_total",
    "counter",
    "requests",
    "Requests that the engine sent once more on behalf of operations; SQLite never does.",
)
SEARCHES = Metric("shardql_searches_total", "counter", "searches", "Pages of searches that were looked for.")
SHARDS_ASKED = Metric("shardql_shards_asked_total", "counter", "shards", "Shards that searches asked.")
RECORDS_READ = Metric("shardql_records_read_total", "counter", "records", "Records that the store looked at.")
RECORDS_RETURNED = Metric(
    "shardql_records_returned_total", "counter", "records", "Records that searches and reads by id gave back."
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
    """The counts of one server."""

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
        if SHARED_FOLDER not in os.environ:
            ProcessCollector(registry=self._registry)

    def add(self, metric: Metric, *labels: str, amount: float = 1) -> None:
        """Counts; labels stand in the order of the metric's own."""
        counter = self._counters[metric]
        (counter.labels(*labels) if labels else counter).inc(amount)

    def took(self, metric: Metric, seconds: float, *labels: str) -> None:
        """Sorts a duration into a histogram."""
        histogram = self._histograms[metric]
        (histogram.labels(*labels) if labels else histogram).observe(seconds)

    def move(self, metric: Metric, by: int) -> None:
        """Moves a gauge up or down."""
        self._gauges[metric].inc(by)

    def label_of(self, code: str) -> str:
        """The code as a label, of which there must not be any number."""
        if code not in self._codes:
            if len(self._codes) >= MAX_CODES:
                return OTHER
            self._codes.add(code)
        return code

    def text(self, accept: str) -> tuple[bytes, str]:
        """All metrics in the form that fits an Accept header, and its content type."""
        registry = self._registry
        if SHARED_FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type
